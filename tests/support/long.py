"""Tests in two forms: a short one in `make test`, and a long one, which tries more, in `make test-long`."""

from __future__ import annotations

import os

import pytest

LONG = os.environ.get("SMALTI_LONG") == "1"
long_only = pytest.mark.skipif(not LONG, reason="make test-long runs it")


def repeated(times: int) -> int:
    """How often to do what the long form does `times` times."""
    return times if LONG else max(1, times // 4)

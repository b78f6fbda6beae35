"""A few seconds of `make soak`, so that it works on the day it is wanted."""

from __future__ import annotations

from tests.tools import soak


def test_a_short_soak() -> None:
    assert soak.main("0.05", "1") == 0

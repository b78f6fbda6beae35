"""Tests with pypaimon, which pins pyarrow: they run in an environment of their own, `make test-paimon`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("pypaimon") else ["test_*.py"]


@pytest.fixture(params=["reference", "smalti"])
def written_by(request: pytest.FixtureRequest) -> Iterator[str]:
    """Who encodes and decodes what pypaimon writes and reads: paimon-mosaic, or smalti in its place."""
    import smalti.paimon

    sys.modules.pop("mosaic", None)
    if request.param == "smalti":
        smalti.paimon.install()
    yield request.param
    smalti.paimon.uninstall()

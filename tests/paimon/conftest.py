"""Tests with pypaimon, which pins pyarrow: they run in an environment of their own, `make test-paimon`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes a kind of table once for all tests that only read it, and returns its path."""
    import smalti.paimon
    from tests.paimon.kinds import KINDS

    paths: dict[tuple[str, str], str] = {}

    def make(kind: str, written_by: str = "reference") -> str:
        if (kind, written_by) not in paths:
            if written_by == "smalti":
                smalti.paimon.install()
            paths[kind, written_by] = KINDS[kind](tmp_path_factory.mktemp(kind))
        return paths[kind, written_by]

    return make

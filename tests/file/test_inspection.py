"""Arrow data that lies about itself is refused before a byte of it is taken: no crash, no foreign memory in a file.

In processes of their own, because what these tests look for is a process that dies.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.children import ROOT


def _run(*arguments: str) -> str:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.hostile_arrow", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900, check=False)
    assert done.returncode == 0, f"died at {done.stdout[-200:]!r}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("target", ["mosaic", "cfile", "block"])
def test_every_lie_is_refused_and_every_oddity_written(target: str) -> None:
    lines = _run(target).splitlines()
    assert len(lines) > 30
    assert [line for line in lines if not line.endswith((": refused", ": written"))] == []


def test_damaged_ipc_streams() -> None:
    """Whatever Arrow reads of them is refused, or written as a file that reads back valid."""
    outcomes = _run("fuzz", "1", "300")
    assert "'written'" in outcomes
    assert "'refused'" in outcomes

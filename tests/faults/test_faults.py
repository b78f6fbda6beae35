"""A disk or a store that fails at any single step: old data intact, an error that says so, nothing left behind.

`make faults` fails every step in every way; the tests take a part of them, which a stride makes different for each way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import ROOT

EVERY = bool(os.environ.get("SMALTI_FAULTS"))
LOCAL = {
    "write": (1, ["error", "short", "dead"]),
    "cfile": (2, ["error", "full"]),
    "read": (1, ["error", "short"]),
    "dataset": (5, ["error", "all short"]),
    "convert": (53, ["error", "full", "dead", "stays full", "all short"]),
    "compact": (71, ["error", "full", "dead", "stays full", "all short"]),
    "merge": (151, ["error", "full", "dead"]),
    "delete": (151, ["error", "full", "stays full"]),
    "delete in a file": (71, ["error", "full", "dead"]),
}
REMOTE = {
    "write": (2, ["refused", "cut"]),
    "read": (1, ["error", "half an answer"]),
    "convert": (41, ["error", "lost answer", "half an answer"]),
    "compact": (53, ["cut", "lost answer"]),
    "delete": (59, ["error", "lost answer"]),
    "merge": (71, ["cut", "lost answer"]),
}


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, on Linux")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    command = [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, "shim.c", "-ldl"]
    subprocess.run(list(map(str, command)), cwd=Path(__file__).parent, check=True)
    return library


def found(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.faults.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True)
    outcomes: dict[str, Any] = json.loads(done.stdout)
    if EVERY:
        print(json.dumps(outcomes, indent=1))
    return outcomes


def check(outcomes: dict[str, Any]) -> None:
    assert [line for outcome in outcomes.values() for line in outcome["wrong"]] == []
    assert all(sum(outcome["failed"].values()) for outcome in outcomes.values())


@pytest.mark.parametrize("scenario", LOCAL)
def test_a_disk_that_fails(scenario: str, shim: Path, tmp_path: Path) -> None:
    stride, faults = (1, []) if EVERY else LOCAL[scenario]
    outcomes = found("child", scenario, str(tmp_path / "home"), str(stride), *faults, LD_PRELOAD=str(shim))
    check(outcomes)
    # An error of a disk is reported; a read or a write that does half of its work is simply continued.
    assert all(bool(outcome["raised"]) is ("short" not in fault) for fault, outcome in outcomes.items())


@pytest.mark.parametrize("scenario", REMOTE)
def test_a_store_that_fails(scenario: str) -> None:
    stride, outages = (1, []) if EVERY else REMOTE[scenario]
    check(found("stores", scenario, str(stride), *outages))


def test_a_leak_would_be_found(shim: Path, tmp_path: Path) -> None:
    """The same loop around a writer that replaces the old file in place, and leaves its own file open."""
    script = """
import sys
from pathlib import Path
from tests.faults import child
kept = []
def write(home):
    file = open(home / "t.mosaic", "r+b", buffering=0)
    kept.append(file)
    new = home.parent / "new.mosaic"
    child.smalti.write_table(child.NEW, new, **child.OPTIONS)
    file.write(new.read_bytes())
child.SCENARIOS["broken"] = child.Scenario(
    child.old_file, write, child.file_rows, [child.rows(child.OLD), child.rows(child.NEW)], child.rows(child.NEW))
child.main("broken", sys.argv[1], "1", "short", "error")
"""
    command = [sys.executable, "-c", script, str(tmp_path / "home")]
    environment = {**os.environ, "LD_PRELOAD": str(shim)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    wrong = [line for outcome in json.loads(done.stdout).values() for line in outcome["wrong"]]
    assert any("descriptors stay open" in line for line in wrong)
    assert any("finds neither" in line or "afterwards" in line for line in wrong)

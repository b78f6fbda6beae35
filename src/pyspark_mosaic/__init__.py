"""Spark looks for modules called `pyspark_*` that have a `DefaultSource`: this is how `format("mosaic")` is found."""

from smalti.spark.source import MosaicDataSource as DefaultSource

__all__ = ["DefaultSource"]

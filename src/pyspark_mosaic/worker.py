"""The worker under a name that Spark starts: its daemon forks only for modules called `pyspark*`."""

from smalti.spark.worker import main

__all__ = ["main"]

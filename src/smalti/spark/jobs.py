"""The pipeline jobs on a Spark session: those of `smalti.jobs`, which take the session first and run on its executors.

Examples
--------
>>> from smalti.spark import jobs
>>> jobs.convert(spark, "hdfs://cluster/raw", "hdfs://cluster/mosaic")
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession

from smalti import jobs

__all__ = ["compact", "convert", "profile", "verify"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _on_spark(job: Callable[Arguments, Result]) -> Callable[Concatenate[SparkSession, Arguments], Result]:
    @functools.wraps(job)
    def run(spark: SparkSession, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        kwargs.update(engine="spark", spark=spark)
        return job(*args, **kwargs)

    return run


convert = _on_spark(jobs.convert)
compact = _on_spark(jobs.compact)
verify = _on_spark(jobs.verify)
profile = _on_spark(jobs.profile)

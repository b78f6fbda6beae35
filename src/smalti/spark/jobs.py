"""The pipeline jobs on a Spark session: `smalti.jobs`, with the engine chosen.

Examples
--------
>>> from smalti.spark import jobs
>>> jobs.convert(spark, "hdfs://cluster/raw", "hdfs://cluster/mosaic")
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from smalti import jobs

__all__ = ["compact", "convert", "profile", "verify"]


def convert(spark: SparkSession, source: Any, target: Any, **options: Any) -> jobs.JobSummary:
    """`smalti.jobs.convert` on the executors of `spark`."""
    return jobs.convert(source, target, engine="spark", spark=spark, **options)


def compact(spark: SparkSession, source: Any, target: Any = None, **options: Any) -> jobs.JobSummary:
    """`smalti.jobs.compact` on the executors of `spark`."""
    return jobs.compact(source, target, engine="spark", spark=spark, **options)


def verify(spark: SparkSession, sources: Any, **options: Any) -> jobs.VerifyReport:
    """`smalti.jobs.verify` on the executors of `spark`."""
    return jobs.verify(sources, engine="spark", spark=spark, **options)


def profile(spark: SparkSession, source: Any, **options: Any) -> jobs.Profile:
    """`smalti.jobs.profile` on the executors of `spark`."""
    return jobs.profile(source, engine="spark", spark=spark, **options)

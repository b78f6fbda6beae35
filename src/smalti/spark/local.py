"""A local session with settings that suit wide tables."""

from __future__ import annotations

import os
import sys
from typing import Any

from smalti.spark.java import ensure_java
from smalti.spark.pruning import enable

#: What differs from Spark's defaults, and why.
SETTINGS = {
    "spark.driver.memory": "4g",  # rows of 10,000 columns need it
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",  # one machine
    "spark.sql.session.timeZone": "UTC",  # what Mosaic stores
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Starts two seconds sooner, and local work is in Python and Arrow anyway.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(master: str = "local[*]", name: str = "smalti", **settings: Any) -> Any:
    """A local Spark session, ready for Mosaic: Java found or brought by pip, column pruning enabled.

    Parameters
    ----------
    master : str
    name : str
        Of the application.
    **settings
        More settings, or others than ours: Spark's names with underscores for dots, without the leading `spark.`
        (`driver_memory="8g"`), or a whole name through `**{"spark.sql.ansi.enabled": "false"}`.

    Returns
    -------
    pyspark.sql.SparkSession
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks run what `python3` happens to be
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark looks for an address, and warns
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    given = {key if "." in key else "spark." + key.replace("_", "."): str(value) for key, value in settings.items()}
    for key, value in {**SETTINGS, **given}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    enable(spark)
    return spark

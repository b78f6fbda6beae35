"""The Java provider on a session: `enable` makes `format("mosaic")` a format of Spark there.

Spark tells Python data sources little: no columns, no save modes but two, no tables of a catalog. Java sources are
told everything. So a small provider in Java (see `jar`) takes part in Spark's planning, and asks Python. It uses
internals of Spark, so it is added only to versions that it was tested with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smalti.errors import MosaicError
from smalti.spark.setup.jar import provider_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "smalti.spark.jvm.MosaicSource"


def enable(spark: SparkSession) -> None:
    """Make `format("mosaic")` a format of a running session: tables, all save modes, streams, queries that read less.

    Calling it again is harmless. A session of Spark Connect gets the jar as an artifact of the session.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession

    Raises
    ------
    MosaicError
        If this version of Spark was not tested, if the server of Spark Connect runs another version than is installed
        here, or if the session does not take the jar. The jar that `smalti spark-jar` writes then goes to `spark.jars`.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        _enable_connect(spark)
    else:
        if not _has_provider(spark):
            _enable_classic(spark)
        assert spark._jvm is not None
        spark._jvm.smalti.spark.jvm.Statements.install(spark._jsparkSession)


def _enable_connect(spark: SparkSession) -> None:
    import pyspark
    from pyspark.errors import PySparkException

    if spark.version != pyspark.__version__:
        expected = f"{pyspark.__version__}, as here; or give the server the jar of `smalti spark-jar` (--jars)"
        raise MosaicError("the server runs another version of Spark", found=spark.version, expected=expected)
    path = provider_jar()
    try:
        spark.addArtifacts(str(path))
    except PySparkException as error:
        raise MosaicError(f"the server does not take the jar: start it with --jars {path}", found=str(error)) from None


def _enable_classic(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError

    path, jvm = provider_jar(), spark._jvm
    assert jvm is not None
    try:
        # Spark looks for sources with the class loader of the driver, and a jar that is added goes to executors only.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(path))
    except Py4JError as error:
        found = str(error).splitlines()[0]
        raise MosaicError(f"the session does not take the jar: give {path} in spark.jars", found=found) from None


def _has_provider(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Class.forName(_CLASS, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Py4JJavaError:
        return False
    return True

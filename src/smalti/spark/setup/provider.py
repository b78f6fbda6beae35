"""The Java provider on a session: `enable` makes `format("mosaic")` a full format of Spark there.

Spark tells Python data sources little: no columns, no save modes but two, no tables of a catalog. Java sources are
told everything, and Spark prefers them to Python sources of the same name. So a small provider in Java (see `jar`)
plans, and the Python source reads and writes. It uses internals of Spark, so it is added only to versions it was tested
with. On other versions rows are the same; what the Python source cannot do safely alone is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from smalti.errors import MosaicError
from smalti.spark.setup.jar import provider_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "smalti.spark.jvm.MosaicSource"
_warned = False


def enable(spark: SparkSession) -> bool:
    """Make `format("mosaic")` a full format of a running session: tables, all save modes, queries that read less.

    Calling it again is harmless. If the session cannot have the provider, it warns once per process: a Spark Connect
    server needs the jar itself (see `smalti spark-jar`), and other versions of Spark were not tested. Rows are the same
    either way.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession

    Returns
    -------
    bool
        Whether the session has the provider now.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        return _unavailable("a Spark Connect server needs the jar that `smalti spark-jar` writes, in its --jars")
    if _has_provider(spark):
        return True
    try:
        path = provider_jar()
    except MosaicError as error:
        return _unavailable(str(error))
    jvm = spark._jvm
    assert jvm is not None
    # Spark looks for sources with the class loader of the driver, and a jar that is added goes to the executors only.
    from py4j.protocol import Py4JError

    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(path))
    except Py4JError as error:
        return _unavailable(f"the jar cannot be added ({str(error).splitlines()[0]}); give {path} in spark.jars")
    return True


def jar_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Settings with which a new session has the provider from the start; what the user has set stays.

    Only such a session resolves names like mosaic.`path`, because rules of SQL are taken up when a session is made.
    """
    try:
        jar = str(provider_jar())
    except MosaicError as error:
        _unavailable(str(error))
        return {}
    return {"spark.jars": ",".join(filter(None, [given.get("spark.jars"), jar]))}


def _has_provider(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Class.forName(_CLASS, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Py4JJavaError:
        return False
    return True


def _unavailable(reason: str) -> bool:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"Mosaic is read by Spark's plain Python source in this session: {reason}. Rows are the same; to read "
            "less, give the columns with .schema(...) or the option 'columns'.",
            stacklevel=3,
        )
    return False

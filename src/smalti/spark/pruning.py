"""Column pruning and filter push-down for a live session: `enable` compiles a small optimizer rule into the driver.

Spark does not tell Python data sources which columns a query needs, and all scans of a DataFrame share one source
object, which makes it unsafe to use filters. The rule in `PruningRule.java` cures both. It is Java source text, which
Janino, the compiler that Spark brings for its own generated code, compiles in a few hundredths of a second. The rule
uses internals of Spark, so it is installed only on versions it was tested with. On other versions results are the same,
and users can prune with `.schema(...)` or the option `columns`.
"""

from __future__ import annotations

import warnings
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

#: Versions of Spark whose internals the rule was tested with.
TESTED_VERSIONS = ("4.1.", "4.2.", "4.3.")
#: The setting of a session that turns the rule on ("true") and off ("false").
SETTING = "spark.smalti.pruning"
_warned = False
#: The applications that have the rule. All sessions of an application share their rules.
_installed: set[str] = set()


def enable(spark: SparkSession) -> bool:
    """Let queries on Mosaic tables read only the columns and row groups they need.

    Calling it again is harmless. If pruning is not possible (with Spark Connect, or a version that was not tested), it
    warns once per process; results are correct either way.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession

    Returns
    -------
    bool
        Whether columns are pruned from now on.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        return _unavailable("a Spark Connect session has no optimizer to reach from here")
    if not spark.version.startswith(TESTED_VERSIONS):
        return _unavailable(f"Spark {spark.version} was not tested, {', '.join(v + 'x' for v in TESTED_VERSIONS)} was")
    application = spark.sparkContext.applicationId
    if application not in _installed:
        from py4j.protocol import Py4JError

        try:
            spark._jsparkSession.extensions().injectOptimizerRule(_compile(spark))
        except Py4JError as error:
            return _unavailable(f"the rule did not compile: {str(error).splitlines()[0]}")
        _installed.add(application)
    spark.conf.set(SETTING, "true")
    return True


def _compile(spark: SparkSession) -> JavaObject:
    jvm = spark._jvm
    assert jvm is not None
    text = resources.files("smalti.spark").joinpath("PruningRule.java").read_text()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(text)
    return compiler.getClassLoader().loadClass("smalti.spark.PruningRule").newInstance()


def _unavailable(reason: str) -> bool:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"Mosaic columns are not pruned automatically: {reason}. Results are correct; to read less, give the "
            "columns with .schema(...) or the option 'columns'.",
            stacklevel=3,
        )
    return False

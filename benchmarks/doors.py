"""Wide tables at the doors of engines: ``python -m benchmarks.doors`` measures, and writes doors.json and doors.md.

One query, the mean of a column by group where ``id < 5000``, is asked of tables of 10, 1,000 and 10,000 columns, each
of four files with 20,000 rows together. Every engine asks it of Mosaic, through smalti, and of its own Parquet. The
query names three columns, so an engine that is shown nothing else does not notice how wide the table is.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import smalti
from benchmarks.environment import describe
from benchmarks.measure import Turn, take_turns
from benchmarks.report import markdown, publish, warning

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "benchmarks"
#: What a query finds: the mean of each group.
Means = dict[str, float]
#: Asks the query of the table in a directory.
Ask = Callable[[Path], Means]


@dataclass(frozen=True)
class Shape:
    """Of the tables, and how often each is asked."""

    widths: tuple[int, ...] = (10, 1_000, 10_000)
    files: int = 4
    rows: int = 20_000
    rounds: int = 7
    budget: float = 30
    firsts: int = 3


SMOKE = Shape(widths=(10, 30), files=2, rows=200, rounds=1, firsts=1)
#: The query is about rows before this id: the first of four files.
LIMIT = 5_000
ITSELF = "Polars' own part"
#: The doors whose first query is measured too.
FIRSTS = ("Python", "Polars", "DuckDB")


@dataclass(frozen=True)
class Door:
    """One way to ask the query, of Mosaic files and of Parquet files; `needs` is the package of the engine."""

    name: str
    mosaic: Ask | None
    parquet: Ask
    needs: str = "pyarrow"


# --- tables ---------------------------------------------------------------------------------------------------------


def write_tables(root: Path, columns: int, shape: Shape) -> tuple[Path, Path]:
    """The same rows as Mosaic and as Parquet, zstd in both; written unless they are there."""
    mosaic, parquet = (root / f"{columns}" / kind for kind in ("mosaic", "parquet"))
    if parquet.exists():
        return mosaic, parquet
    values, rows = np.random.RandomState(columns), shape.rows // shape.files
    mosaic.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root / f"{columns}") as unfinished:
        for number in range(shape.files):
            table = make_table(values, columns, rows, number * rows)
            smalti.write_table(table, mosaic / f"{number}.mosaic", stats_columns=["id"])
            pq.write_table(table, Path(unfinished, f"{number}.parquet"), compression="zstd")
        Path(unfinished).rename(parquet)
        Path(unfinished).mkdir()
    return mosaic, parquet


def make_table(values: np.random.RandomState, columns: int, rows: int, first: int) -> pa.Table:
    """An id, a group, and readings: of ten columns seven are numbers with two decimals, two counts, one a word."""
    words = pa.array(["on", "off", "idle", "failed", "unknown"])
    arrays: dict[str, pa.Array] = {
        "id": pa.array(np.arange(first, first + rows)),
        "group": pa.array([f"group {number % 12}" for number in range(rows)]),
    }
    for place in range(2, columns):
        if place % 10 == 9:
            arrays[f"state_{place:05d}"] = words.take(pa.array(values.randint(0, len(words), rows)))
        elif place % 10 in (4, 7):
            arrays[f"count_{place:05d}"] = pa.array(values.randint(0, 1_000, rows, np.int32))
        else:
            arrays[f"reading_{place:05d}"] = pa.array(values.randint(0, 10_000, rows) / 100)
    return pa.table(arrays)


def asked_column(path: Path) -> str:
    """The column of the mean: one in the middle of the table, whose width is the name of its directory."""
    columns = int(path.parent.name)
    return f"reading_{columns // 2 // 10 * 10 + (0 if columns > 20 else 5):05d}"


# --- doors ----------------------------------------------------------------------------------------------------------


def _means(names: Iterable[str], values: Iterable[float]) -> Means:
    return dict(zip(names, values, strict=True))


def _of_arrow(table: pa.Table, column: str) -> Means:
    grouped = table.group_by("group").aggregate([(column, "mean")])
    return _means(grouped["group"].to_pylist(), grouped[f"{column}_mean"].to_pylist())


def _mosaic_table(path: Path) -> pa.Table:
    return smalti.read_table(path, ["group", asked_column(path)], [("id", "<", LIMIT)])


def python_mosaic(path: Path) -> Means:
    return _of_arrow(_mosaic_table(path), asked_column(path))


def python_parquet(path: Path) -> Means:
    column = asked_column(path)
    return _of_arrow(pq.read_table(path, columns=["group", column], filters=pc.field("id") < LIMIT), column)


def _ask_polars(frame: Any, column: str) -> Means:
    import polars as pl

    found = frame.filter(pl.col("id") < LIMIT).group_by("group").agg(pl.col(column).mean()).collect()
    return _means(found["group"].to_list(), found[column].to_list())


def polars_mosaic(path: Path) -> Means:
    import smalti.polars

    return _ask_polars(smalti.polars.scan_mosaic(path), asked_column(path))


def polars_parquet(path: Path) -> Means:
    import polars as pl

    return _ask_polars(pl.scan_parquet(path / "*.parquet"), asked_column(path))


@cache
def _known_before(path: Path) -> tuple[Any, Any]:
    """Polars' schema of a table, and the rows that the query is about."""
    import polars as pl

    schema = dict(pl.DataFrame(pq.read_schema(next(path.glob("*.parquet"))).empty_table()).schema)
    frame = pl.read_parquet(path / "*.parquet", columns=["id", "group", asked_column(path)])
    return schema, frame.filter(pl.col("id") < LIMIT)


def polars_itself(path: Path) -> Means:
    """What Polars takes for any source in Python with so many columns: here nothing is read, all is known before."""
    from polars.io.plugins import register_io_source

    schema, frame = _known_before(path)

    def read(with_columns: Any, _predicate: Any, _n_rows: Any, _batch_size: Any) -> Any:
        yield frame.select(with_columns)

    return _ask_polars(register_io_source(read, schema=schema, is_pure=True), asked_column(path))


def _sql(table: str, column: str) -> str:
    return f'SELECT "group", avg({column}) FROM {table} WHERE id < {LIMIT} GROUP BY "group"'


def duckdb_mosaic(path: Path, connection: Any = None) -> Means:
    import smalti.duckdb

    found = smalti.duckdb.query(_sql(f"'{path}/'", asked_column(path)), connection=connection)
    assert found is not None
    return dict(found.fetchall())


def duckdb_parquet(path: Path, connection: Any = None) -> Means:
    import duckdb

    return dict((connection or duckdb).sql(_sql(f"'{path}/*.parquet'", asked_column(path))).fetchall())


def afresh(ask: Callable[[Path, Any], Means]) -> Ask:
    """Ask on a connection that is made for the query."""

    def asked(path: Path) -> Means:
        import duckdb

        with duckdb.connect() as connection:
            return ask(path, connection)

    return asked


def pandas_mosaic(path: Path) -> Means:
    frame = _mosaic_table(path).to_pandas()
    found = frame.groupby("group")[asked_column(path)].mean()
    return _means(found.index, found)


def pandas_parquet(path: Path) -> Means:
    import pandas as pd

    column = asked_column(path)
    frame = pd.read_parquet(path, columns=["group", column], filters=[("id", "<", LIMIT)])
    found = frame.groupby("group")[column].mean()
    return _means(found.index, found)


def dask_mosaic(path: Path) -> Means:
    import dask.dataframe as dd

    column = asked_column(path)
    scans = [smalti.scan(each, ["group", column], [("id", "<", LIMIT)]) for each in sorted(path.iterdir())]
    found = dd.from_map(smalti.Scan.to_pandas, scans).groupby("group")[column].mean().compute(scheduler="threads")
    return _means(found.index, found)


def dask_parquet(path: Path) -> Means:
    import dask.dataframe as dd

    column = asked_column(path)
    frame = dd.read_parquet(path, columns=["group", column], filters=[("id", "<", LIMIT)])
    found = frame.groupby("group")[column].mean().compute(scheduler="threads")
    return _means(found.index, found)


def doors() -> list[Door]:
    """The doors of engines that are installed."""
    every = [
        Door("Python", python_mosaic, python_parquet),
        Door("pandas", pandas_mosaic, pandas_parquet, "pandas"),
        Door("Polars", polars_mosaic, polars_parquet, "polars"),
        Door(ITSELF, None, polars_itself, "polars"),
        Door("DuckDB", duckdb_mosaic, duckdb_parquet, "duckdb"),
        Door("DuckDB, fresh connection", afresh(duckdb_mosaic), afresh(duckdb_parquet), "duckdb"),
        Door("Dask", dask_mosaic, dask_parquet, "dask"),
    ]
    return [door for door in every if find_spec(door.needs)]


def spark_doors(spark: Any, paths: Sequence[tuple[Path, Path]]) -> list[Door]:
    """Roads to a table in a session: views and tables of the catalog are made here, before anything is timed."""
    names = {}
    for number, path in enumerate(path for pair in paths for path in pair):
        names[path] = f"t{number}"
        spark.read.format(path.name).load(str(path)).createOrReplaceTempView(f"view_{names[path]}")
        spark.sql(f"CREATE TABLE {names[path]} USING {path.name} LOCATION '{path}'")

    def sql(table: Callable[[Path], str], path: Path) -> Means:
        return dict(map(tuple, spark.sql(_sql(table(path), asked_column(path)).replace('"', "`")).collect()))

    def load(path: Path, columns: bool = False) -> Means:
        column = asked_column(path)
        reader = spark.read.format(path.name)
        if columns:
            reader = reader.option("columns", f"id,group,{column}")
        found = reader.load(str(path)).where(f"id < {LIMIT}").groupBy("group").avg(column)
        return dict(map(tuple, found.collect()))

    view = partial(sql, lambda path: f"view_{names[path]}")
    catalog = partial(sql, lambda path: names[path])
    return [
        Door("Spark, load and query", load, load),
        Door("Spark, load with option columns", partial(load, columns=True), load),
        Door("Spark, SQL over a view", view, view),
        Door("Spark, SQL over a catalog table", catalog, catalog),
    ]


# --- measuring ------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description="Measure wide tables in engines.")
    parser.add_argument("--smoke", action="store_true", help="small tables, seconds")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help="measure again: " + ", ".join(PARTS))
    parser.add_argument("--data", type=Path, help="where tables are kept for another run")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--first", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.first:
        print(json.dumps(first_query(*args.first)))
        return 0
    shape = SMOKE if args.smoke else Shape()
    document: dict[str, Any] = {"environment": describe([]), "shape": asdict(shape)}
    known = args.out / "doors.json"
    if args.only and known.exists():  # What is not measured again stays as it is.
        document = json.loads(known.read_text()) | document
    document = {part: {} for part in PARTS} | document
    with nullcontext(args.data) if args.data else tempfile.TemporaryDirectory() as directory:
        paths = [write_tables(Path(directory), columns, shape) for columns in shape.widths]
        for part in args.only or PARTS:
            document[part] = PARTS[part](paths, shape)
            document["goals"] = [] if args.smoke else goals(document["engines"] | document["spark"])
            publish(args.out, "doors", document, page(document))
    return 0


#: The directories of a table, as Mosaic and as Parquet.
Paths = Sequence[tuple[Path, Path]]
#: The best time of a door in seconds: by its name, by the format, for each width.
Seconds = dict[str, dict[str, list[float]]]


def measure_engines(paths: Paths, shape: Shape) -> Seconds:
    return by_door([measure_width(doors(), *pair, shape) for pair in paths])


def measure_spark(paths: Paths, shape: Shape) -> Seconds:
    if not find_spec("pyspark"):
        return {}
    from benchmarks.spark.shared import spark_session

    with tempfile.TemporaryDirectory() as warehouse:
        spark = spark_session(**{"spark.sql.warehouse.dir": warehouse})
        try:
            roads = spark_doors(spark, paths)
            return by_door([measure_width(roads, *pair, shape) for pair in paths])
        finally:
            spark.stop()


def measure_firsts(paths: Paths, shape: Shape) -> Seconds:
    narrow, *wider = paths
    found = [
        {
            door.name: first_in_children(door, mosaic, parquet, narrow, shape.firsts)
            for door in doors()
            if door.name in FIRSTS
        }
        for mosaic, parquet in wider
    ]
    return by_door(found)


def by_door(found: Sequence[dict[str, dict[str, float]]]) -> Seconds:
    return {name: {kind: [at[name][kind] for at in found] for kind in found[0][name]} for name in found[0]}


def measure_width(found: Sequence[Door], mosaic: Path, parquet: Path, shape: Shape) -> dict[str, dict[str, float]]:
    """The best time of each door at one table, in turns; all of them must find the same."""
    turns = {}
    expected: Means = python_parquet(parquet)
    for door in found:
        for kind, ask, path in (("mosaic", door.mosaic, mosaic), ("parquet", door.parquet, parquet)):
            if ask is not None:
                means = ask(path)  # Imports, caches; and what is found is checked.
                if means.keys() != expected.keys() or any(not math.isclose(means[key], expected[key]) for key in means):
                    raise RuntimeError(f"{door.name} finds other means in {path}: {means}, expected {expected}")
                turns[f"{door.name}/{kind}"] = Turn(partial(ask, path))
    seconds, errors = take_turns(turns, shape.rounds, shape.budget)
    if errors:
        raise RuntimeError(errors)
    result: dict[str, dict[str, float]] = {door.name: {} for door in found}
    for name, taken in seconds.items():
        door_name, _, kind = name.rpartition("/")
        result[door_name][kind] = min(taken)
    return result


def first_query(name: str, kind: str, path: str, narrow: str) -> float:
    """Seconds of the first query of a table, in a process that has asked another table before."""
    door = next(door for door in doors() if door.name == name)
    ask = door.mosaic if kind == "mosaic" and door.mosaic else door.parquet
    ask(Path(narrow))
    start = time.perf_counter()
    ask(Path(path))
    return time.perf_counter() - start


def first_in_children(
    door: Door, mosaic: Path, parquet: Path, narrow: tuple[Path, Path], times: int
) -> dict[str, float]:
    found = {}
    for kind, path, other in (("mosaic", mosaic, narrow[0]), ("parquet", parquet, narrow[1])):
        command = [sys.executable, "-m", "benchmarks.doors", "--first", door.name, kind, str(path), str(other)]
        found[kind] = min(
            float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()[-1])
            for _ in range(times)
        )
    return found


def measure_commands(paths: Paths, shape: Shape) -> dict[str, float]:
    """Seconds of processes: a command on one wide file, and what Python takes to import Arrow."""
    first = str(min(paths[-1][0].iterdir()))
    asked = {
        "python -c 'import pyarrow'": ["-c", "import pyarrow"],
        "smalti head": ["-m", "smalti", "head", first],
        "smalti count": ["-m", "smalti", "count", first],
    }
    found = dict.fromkeys(asked, math.inf)
    for _ in range(shape.firsts):
        for name, arguments in asked.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
            found[name] = min(found[name], time.perf_counter() - start)
    return found


#: What is measured, each by itself, so that a part can be measured again.
PARTS: dict[str, Callable[[Paths, Shape], Any]] = {
    "engines": measure_engines,
    "first": measure_firsts,
    "commands": measure_commands,
    "spark": measure_spark,
}

# --- showing --------------------------------------------------------------------------------------------------------


def goals(seconds: Seconds) -> list[list[str]]:
    """Each goal with the ratio that was measured, and whether it is reached; those of engines that were measured."""
    checks: list[tuple[str, float, bool]] = []

    def at_most(title: str, measured: float, limit: float) -> None:
        checks.append((title, measured, measured <= limit))

    def at_least(title: str, measured: float, limit: float) -> None:
        checks.append((title, measured, measured >= limit))

    for name in ("Python", "DuckDB", "Polars"):
        if name in seconds:
            ours = seconds[name]["mosaic"]
            own = seconds[ITSELF]["parquet"] if name == "Polars" else [0.0] * len(ours)
            apart = ", without Polars' own part" if name == "Polars" else ""
            width = (ours[-1] - own[-1]) / (ours[0] - own[0])
            at_most(f"{name}: 10,000 columns cost at most 3 times 10{apart}", width, 3)
    for name, factor in (("DuckDB", 8), ("Polars", 3), ("Spark, SQL over a view", 3)):
        if name in seconds:
            faster = seconds[name]["parquet"][-1] / seconds[name]["mosaic"][-1]
            at_least(f"{name}: at 10,000 columns {factor} times as fast as Parquet", faster, factor)
    for name in ("DuckDB", "Polars"):
        if name in seconds:
            times = seconds[name]["mosaic"][0] / seconds[name]["parquet"][0]
            at_most(f"{name}: at 10 columns at most 2 times as long as Parquet", times, 2)
    return [[title, f"{measured:.2f}", "reached" if reached else "**missed**"] for title, measured, reached in checks]


def door_table(document: dict[str, Any], names: Sequence[str] = ("",)) -> str:
    """Milliseconds by door and width: of all doors, or of those with some names, where "Spark" means all of Spark's."""
    seconds: Seconds = document["engines"] | document["spark"]
    places = range(len(document["shape"]["widths"]))
    rows = []
    for name, by in seconds.items():
        if "" not in names and name not in names and name.partition(",")[0] not in set(names) - set(seconds):
            continue
        kinds = [kind for kind in ("mosaic", "parquet") if kind in by]
        cells = [" / ".join(_ms(by[kind][place]) for kind in kinds) for place in places]
        rows.append([name, *cells, " / ".join(f"{by[kind][-1] / by[kind][0]:.1f} x" for kind in kinds)])
    widths = [f"{columns:,} columns" for columns in document["shape"]["widths"]]
    return markdown(["ms, Mosaic / Parquet", *widths, "width costs"], rows)


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    shape = document["shape"]
    widths = [f"{columns:,}" for columns in shape["widths"]]
    parts = [
        "# Wide tables at the doors of engines",
        f"Written by `python -m benchmarks.doors` on {document['environment']['date']}; do not edit.",
        warning(document["environment"]),
        f"The mean of one column by group where `id < {LIMIT}`, of tables of {shape['files']} files and "
        f"{shape['rows']:,} rows: milliseconds, the best of {shape['rounds']} in turns, warm. The first number is "
        f"Mosaic, the second the engine's own Parquet (pyarrow's for Python, pandas and Dask).",
        door_table(document),
        f'"{ITSELF}" is what Polars takes for any source in Python with so many columns, whose rows are in memory.',
    ]
    if document["goals"]:
        parts += ["## Goals", markdown(["goal", "measured", ""], document["goals"])]
    firsts = [
        [name, *(f"{_ms(ours)} / {_ms(theirs)}" for ours, theirs in zip(by["mosaic"], by["parquet"], strict=True))]
        for name, by in document["first"].items()
    ]
    parts += [
        "## The first query of a table",
        "A process keeps the columns of tables that it has read. These are the first queries of a table in a process, "
        f"which has asked a table of {widths[0]} columns before, so that nothing is imported: milliseconds, the best "
        f"of {shape['firsts']} processes.",
        markdown(["columns", *widths[1:]], firsts),
        "## Commands",
        f"Processes, from start to end, on one file of {widths[-1]} columns: seconds, the best of {shape['firsts']}.",
        markdown(["command", "s"], [[name, f"{taken:.2f}"] for name, taken in document["commands"].items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ms(taken: float) -> str:
    return f"{taken * 1000:.3g}" if taken < 1 else f"{taken * 1000:,.0f}"


if __name__ == "__main__":
    raise SystemExit(main())

"""The works of `benchmarks.change`: the tables that they begin with, and what each peer does in its turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import smalti
from benchmarks.datasets import DATASETS, SEED, Dataset
from benchmarks.measure import Turn, take_turns
from smalti import jobs

OURS, REWRITE, COPY = "smalti", "smalti, read and written again", "files copied"
FLUSHED, LANCE, PARQUET, DELTA = "files copied and flushed", "Lance", "Parquet, rewritten by pyarrow", "deltalake"
#: How long deltalake may take for a merge, in seconds.
PATIENCE = 150


SMALL = replace(DATASETS["wide-500"], rows=1000)


@dataclass(frozen=True)
class Shape:
    """The tables: `part` is one file, and the large table has `many` of them."""

    part: Dataset
    files: int = 5
    many: int = 25
    small: Dataset = SMALL
    changes: int = 100
    rounds: int = 3
    budget: float = 25.0
    delta_files: int = 5
    merged: int = 1000


FULL = Shape(replace(DATASETS["wide-4500"], rows=4000))
SMOKE = Shape(
    replace(DATASETS["wide-500"], columns=200, rows=50),
    files=2,
    many=3,
    small=replace(DATASETS["wide-500"], columns=100, rows=50),
    changes=4,
    rounds=1,
    delta_files=2,
    merged=10,
)


@dataclass(frozen=True)
class Cost:
    """What one peer took for one work."""

    work: str
    peer: str
    seconds: float | None
    bytes_copied: int | None = None
    bytes_encoded: int | None = None
    bytes_written: int | None = None
    peak_bytes: int | None = None
    remark: str = ""


COLUMN_WORKS = ("add 10 columns", "replace 10 columns", "drop 10 columns", "rename 10 columns")


# --- tables ---------------------------------------------------------------------------------------------------------


def make_table(shape: Shape, count: int, level: int, root: Path) -> None:
    """Files of equal rows but for the column `row`, by which rows are found. All but the first file are spliced."""
    root.mkdir(parents=True)
    table = shape.part.load()
    rows = table.num_rows
    numbered = table.append_column("row", pa.array(range(rows), pa.int64()))
    first = root / "part-00000.mosaic"
    smalti.write_table(numbered, first, compression_level=level, stats_columns=["row"])
    for number in range(1, count):
        path = root / f"part-{number:05d}.mosaic"
        shutil.copyfile(first, path)
        jobs.replace_columns(path, pa.table({"row": pa.array(range(number * rows, number * rows + rows), pa.int64())}))


def made(sources: Path, name: str, make: Callable[[Path], object]) -> Path:
    """What a work begins with, made once, whole or not at all."""
    path = sources / name
    if not path.exists():
        fresh = sources / f"{name}-partial"
        shutil.rmtree(fresh, ignore_errors=True)
        make(fresh)
        fresh.rename(path)
    return path


def linked(source: Path, target: Path) -> None:
    """The same files in another directory. They are never written into, so links are as good as copies."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.mosaic") if "_mosaic_jobs" not in path.parts)


def bytes_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


# --- columns --------------------------------------------------------------------------------------------------------


def measure_columns(shape: Shape, home: Path, sources: Path) -> dict[str, Any]:
    source, lance_source, parquet_source = columns_sources(shape, sources)
    names = [name for name in smalti.open(files_of(source)[0]).column_names if name != "row"]
    ten = [names[index] for index in np.linspace(0, len(names) - 1, 10).astype(int)]
    rows = shape.files * shape.part.rows
    random = np.random.RandomState(SEED)
    new = pa.table({f"new_{number}": random.standard_normal(rows).round(3) for number in range(10)})
    renamed = {name: f"{name}_renamed" for name in ten}
    values = pa.table({name: new.column(index) for index, name in enumerate(ten)})
    ours, work = home / "ours", home / "work"
    ways: dict[str, tuple[Callable[[], Any], Callable[[pa.Table, int], pa.Table], Callable[[Any], Any]]] = {
        "add 10 columns": (
            lambda: jobs.add_columns(ours, new),
            lambda table, start: _with(table, new.slice(start, table.num_rows)),
            lambda dataset: dataset.add_columns(pa.RecordBatchReader.from_batches(new.schema, new.to_batches())),
        ),
        "replace 10 columns": (
            lambda: jobs.replace_columns(ours, values),
            lambda table, start: _with(table.drop_columns(ten), values.slice(start, table.num_rows)),
            lambda dataset: _lance_replace(dataset, values),
        ),
        "drop 10 columns": (
            lambda: jobs.drop_columns(ours, ten),
            lambda table, _: table.drop_columns(ten),
            lambda dataset: dataset.drop_columns(ten),
        ),
        "rename 10 columns": (
            lambda: jobs.rename_columns(ours, renamed),
            lambda table, _: table.rename_columns([renamed.get(name, name) for name in table.column_names]),
            lambda dataset: dataset.alter_columns(*[{"path": old, "name": name} for old, name in renamed.items()]),
        ),
    }
    costs = []
    for name, (change, rewrite, lance_change) in ways.items():
        reports: list[Any] = []
        turns = {
            OURS: Turn(lambda act=change, kept=reports: kept.append(act()), partial(linked, source, ours)),
            REWRITE: Turn(partial(_rewrite, source, work, rewrite), partial(_empty, work)),
            COPY: Turn(partial(_copy, source, work, flush=False), partial(_empty, work)),
            FLUSHED: Turn(partial(_copy, source, work, flush=True), partial(_empty, work)),
        }
        if lance_source is not None:
            turns[LANCE] = Turn(
                partial(_change_lance, home / "lance-work", lance_change),
                partial(_linked_tree, lance_source, home / "lance-work"),
            )
        if name == "add 10 columns":
            turns[PARQUET] = Turn(partial(_rewrite_parquet, parquet_source, work, rewrite), partial(_empty, work))
        samples, errors = take_turns(turns, shape.rounds, shape.budget)
        for peer in turns:
            best = min(samples[peer], default=None)
            told = reports[-1] if peer == OURS and reports else None
            copied, encoded = (told.bytes_copied, told.bytes_encoded) if told else (None, None)
            costs.append(Cost(name, peer, best, copied, encoded, remark=errors.get(peer, "")))
    return {"costs": costs, "bytes": bytes_of(source), "figures": _ratios(costs)}


def columns_sources(shape: Shape, sources: Path) -> tuple[Path, Path | None, Path]:
    source = made(sources, "level1", partial(make_table, shape, shape.files, 1))
    lance_source = None if find_spec("lance") is None else made(sources, "lance", partial(_lance, source))
    return source, lance_source, made(sources, "parquet", partial(_parquet, source))


def measure_level9(shape: Shape, home: Path, sources: Path) -> dict[str, Any]:
    """The same for files that are compressed harder, which is what a rewrite has to do again."""
    source = made(sources, "level9", partial(make_table, shape, shape.files, 9))
    rows = shape.files * shape.part.rows
    new = pa.table({f"new_{number}": np.random.RandomState(SEED).standard_normal(rows) for number in range(10)})
    ours, work = home / "ours", home / "work"
    turns = {
        OURS: Turn(lambda: jobs.add_columns(ours, new), partial(linked, source, ours)),
        REWRITE: Turn(
            partial(_rewrite, source, work, lambda table, start: _with(table, new.slice(start, table.num_rows)), 9),
            partial(_empty, work),
        ),
    }
    samples, errors = take_turns(turns, min(2, shape.rounds), shape.budget)
    costs = [
        Cost("add 10 columns, zstd 9", peer, min(samples[peer], default=None), remark=errors.get(peer, ""))
        for peer in turns
    ]
    best = {cost.peer: cost.seconds for cost in costs}
    return {"costs": costs, "figures": {"level 9: of rewrite": (best[OURS] or 0) / (best[REWRITE] or 1)}}


def _with(table: pa.Table, more: pa.Table) -> pa.Table:
    for name in more.column_names:
        table = table.append_column(name, more.column(name))
    return table


def _empty(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()


def _rewrite(source: Path, target: Path, change: Callable[[pa.Table, int], pa.Table], level: int = 1) -> None:
    start = 0
    for path in files_of(source):
        table = smalti.read_table(path)
        smalti.write_table(change(table, start), target / path.name, compression_level=level, stats_columns=["row"])
        start += table.num_rows


def _copy(source: Path, target: Path, *, flush: bool) -> None:
    for path in files_of(source):
        shutil.copyfile(path, target / path.name)
        if flush:
            with (target / path.name).open("rb+") as file:
                os.fsync(file.fileno())


def _parquet(source: Path, target: Path) -> None:
    target.mkdir()
    for path in files_of(source):
        pq.write_table(
            smalti.read_table(path), target / f"{path.stem}.parquet", compression="zstd", compression_level=1
        )


def _rewrite_parquet(source: Path, target: Path, change: Callable[[pa.Table, int], pa.Table]) -> None:
    start = 0
    for path in sorted(source.iterdir()):
        table = pq.read_table(path)
        pq.write_table(change(table, start), target / path.name, compression="zstd", compression_level=1)
        start += table.num_rows


def _lance(source: Path, target: Path) -> None:
    import lance

    for number, path in enumerate(files_of(source)):
        lance.write_dataset(smalti.read_table(path), str(target), mode="append" if number else "create")


def _linked_tree(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


def _change_lance(root: Path, change: Callable[[Any], Any]) -> None:
    import lance

    change(lance.dataset(str(root)))


def _lance_replace(dataset: Any, values: pa.Table) -> None:
    """Lance has no call for it: the columns are dropped and added again."""
    dataset.drop_columns(values.column_names)
    dataset.add_columns(pa.RecordBatchReader.from_batches(values.schema, values.to_batches()))


def _ratios(costs: list[Cost]) -> dict[str, float]:
    figures = {}
    for work in COLUMN_WORKS:
        best = {cost.peer: cost.seconds for cost in costs if cost.work == work}
        for peer, figure in ((REWRITE, "rewrite"), (COPY, "copy"), (FLUSHED, "flushed copy")):
            ours, theirs = best.get(OURS), best.get(peer)
            if ours and theirs:
                figures[f"{work}: of {figure}"] = ours / theirs
    return figures


# --- rows -----------------------------------------------------------------------------------------------------------


def make_row_groups(table: pa.Table, source: Path) -> None:
    """Ten files of four row groups each."""
    source.mkdir(parents=True)
    rows = table.num_rows
    for number in range(10):
        numbered = table.append_column("row", pa.array(range(number * rows, number * rows + rows), pa.int64()))
        path = source / f"part-{number:05d}.mosaic"
        if number == 0:
            smalti.write_table(numbered, path, row_group_max_rows=-(-rows // 4), stats_columns=["row"])
        else:
            shutil.copyfile(source / "part-00000.mosaic", path)
            jobs.replace_columns(path, numbered.select(["row"]))


def measure_rows(shape: Shape, home: Path, sources: Path) -> dict[str, Any]:
    """0.1 % of the rows of one file, and of all."""
    table = replace(shape.part, rows=max(8, shape.part.rows // 4)).load()
    rows = table.num_rows
    source = made(sources, "groups", partial(make_row_groups, table))
    costs, figures = [], {}
    random = np.random.RandomState(SEED)
    share = max(1, rows // 1000)
    cases = {
        "one file": (f"row between {3 * rows + 5} and {3 * rows + 4 + share}", share),
        "scattered": ([("row", "in", random.choice(10 * rows, 10 * share, replace=False).tolist())], 10 * share),
    }
    for name, (where, expected) in cases.items():
        ours = home / "ours"
        linked(source, ours)
        sizes = {path.name: path.stat().st_size for path in files_of(ours)}
        started = time.perf_counter()
        report = jobs.delete(ours, where)
        seconds = time.perf_counter() - started
        assert report.rows == expected, (report, expected)
        written = sum(path.stat().st_size for path in files_of(ours) if path.name not in sizes)
        touched = report.row_groups * sizes["part-00000.mosaic"] / 4
        costs.append(
            Cost(
                f"delete 0.1 %: {name}",
                OURS,
                seconds,
                report.bytes_copied,
                report.bytes_encoded,
                written,
                remark=f"{report.rows} rows, {report.row_groups} of 40 row groups, {report.files} of 10 files",
            )
        )
        figures[name] = report.bytes_encoded / touched
        figures[f"{name}: files"] = written / (report.files * sizes["part-00000.mosaic"])
    return {"costs": costs, "figures": figures}


# --- merge ----------------------------------------------------------------------------------------------------------

#: The most memory that a process has held since it was started. What `getrusage` says, it may have from its parent.
_PEAK = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
"""
_MERGING = (
    _PEAK
    + """
import sys, time
import pyarrow as pa, pyarrow.ipc as ipc
from smalti.jobs import merge
data = ipc.open_file(sys.argv[2]).read_all()
before = time.perf_counter()
report = merge(sys.argv[1], data, on="row")
print(time.perf_counter() - before, peak(),
      report.bytes_copied, report.bytes_encoded, report.rows_updated, report.rows_inserted)
"""
)
_DELTA = (
    _PEAK
    + """
import sys, time
import pyarrow.ipc as ipc
from deltalake import DeltaTable
data = ipc.open_file(sys.argv[2]).read_all()
before = time.perf_counter()
merge = DeltaTable(sys.argv[1]).merge(data, predicate="t.row = s.row", source_alias="s", target_alias="t")
merge.when_matched_update_all().when_not_matched_insert_all().execute()
print(time.perf_counter() - before, peak())
"""
)


def measure_merge(shape: Shape, home: Path, sources: Path) -> dict[str, Any]:
    """All columns of 900 rows are updated, in two files, and 100 rows are inserted; the rest is copied."""
    source = made(sources, "many", partial(make_table, shape, shape.many, 1))
    rows = shape.part.rows
    total = shape.many * rows
    updated = shape.merged * 9 // 10
    keys = [*range(rows - updated // 2, rows - updated // 2 + updated), *range(total, total + shape.merged - updated)]
    part = smalti.read_table(files_of(source)[0]).slice(0, 0)
    data = shape.part.load().slice(0, shape.merged).append_column("row", pa.array(keys, pa.int64()))
    data = data.select(part.column_names)
    path = home / "data.arrow"
    with pa.ipc.new_file(path, data.schema) as sink:
        sink.write_table(data)
    costs, samples = [], []
    for _ in range(shape.rounds):
        linked(source, home / "ours")
        samples.append(_child(_MERGING, str(home / "ours"), str(path)))
    best = min(samples)
    work = f"merge {shape.merged:,} rows into {total:,}"
    costs.append(
        Cost(work, OURS, best[0], int(best[2]), int(best[3]), peak_bytes=int(min(sample[1] for sample in samples)))
    )
    _empty(home / "work")
    started = time.perf_counter()
    _rewrite(source, home / "work", lambda table, _: table)
    full = time.perf_counter() - started
    costs.append(Cost(work, REWRITE, full, remark="all files, once"))
    costs += _delta_merge(shape, home, source, path, sources)
    figures = {"merge: of rewrite": best[0] / full, "merge: memory": min(sample[1] for sample in samples) / (1 << 30)}
    return {"costs": costs, "figures": figures, "bytes": bytes_of(source)}


def _delta(source: Path, count: int, target: Path) -> None:
    import deltalake

    for path in files_of(source)[:count]:
        deltalake.write_deltalake(str(target), smalti.read_table(path), mode="append")


def _delta_merge(shape: Shape, home: Path, source: Path, data: Path, sources: Path) -> list[Cost]:
    """deltalake on a smaller table, in Parquet, beside smalti on the same: delta-io/delta 3118 has 10,000 columns."""
    if find_spec("deltalake") is None:
        return []
    target, small = home / "delta", home / "small"
    _linked_tree(made(sources, "delta", partial(_delta, source, shape.delta_files)), target)
    small.mkdir()
    for path in files_of(source)[: shape.delta_files]:
        os.link(path, small / path.name)
    work = f"merge {shape.merged:,} rows into {shape.delta_files * shape.part.rows:,}"
    ours = _child(_MERGING, str(small), str(data))
    costs = [Cost(work, OURS, ours[0], int(ours[2]), int(ours[3]), peak_bytes=int(ours[1]))]
    try:
        seconds, memory = _child(_DELTA, str(target), str(data))
        costs.append(Cost(work, DELTA, seconds, peak_bytes=int(memory)))
    except subprocess.TimeoutExpired:
        costs.append(Cost(work, DELTA, None, remark=f"not done after {PATIENCE} s"))
    except subprocess.CalledProcessError as error:
        costs.append(Cost(work, DELTA, None, remark=f"failed: {error.stderr.strip().splitlines()[-1][:150]}"))
    return costs


def _child(program: str, *arguments: str) -> list[float]:
    """The numbers that a program prints, which runs in a process of its own so that its memory can be told."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return [float(word) for word in done.stdout.split()]


# --- reads ----------------------------------------------------------------------------------------------------------


def measure_reads(shape: Shape, home: Path, _: Path) -> dict[str, Any]:
    """Ten columns are read before a hundred changes of the file and after them."""
    table = shape.small.load()
    table = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    before, after = home / "before.mosaic", home / "after.mosaic"
    smalti.write_table(table, before, stats_columns=["row"])
    shutil.copyfile(before, after)
    names = table.column_names
    ten = [names[index] for index in np.linspace(0, len(names) - 2, 10).astype(int)]
    started = time.perf_counter()
    for number in range(shape.changes):
        extra = f"extra_{number}"
        if number % 4 == 0:
            jobs.add_columns(after, lambda batch, name=extra: {name: batch["row"]}, columns=["row"])
        elif number % 4 == 1:
            jobs.rename_columns(after, {f"extra_{number - 1}": extra})
        elif number % 4 == 2:
            jobs.update(after, {ten[0]: None}, f"row = {number % table.num_rows}")
        else:
            jobs.drop_columns(after, f"extra_{number - 2}")
    seconds = time.perf_counter() - started
    turns = {
        "before": Turn(lambda: smalti.read_table(before, ten)),
        "after": Turn(lambda: smalti.read_table(after, ten)),
    }
    samples, _ = take_turns(turns, 40 if shape.rounds > 1 else 3, shape.budget)
    costs = [
        Cost("read 10 columns", name, min(samples[name]), bytes_written=path.stat().st_size)
        for name, path in (("before", before), ("after", after))
    ]
    costs.append(Cost(f"{shape.changes} changes, one after the other", OURS, seconds))
    return {"costs": costs, "figures": {"reads": min(samples["after"]) / min(samples["before"])}}


PARTS: dict[str, Callable[[Shape, Path, Path], dict[str, Any]]] = {
    "columns": measure_columns,
    "level9": measure_level9,
    "rows": measure_rows,
    "merge": measure_merge,
    "reads": measure_reads,
}


def prepare(shape: Shape, sources: Path) -> None:
    """Make the tables beforehand, so that a machine has to be quiet for the measurements only."""
    columns_sources(shape, sources)
    made(sources, "level9", partial(make_table, shape, shape.files, 9))
    table = replace(shape.part, rows=max(8, shape.part.rows // 4)).load()
    made(sources, "groups", partial(make_row_groups, table))
    many = made(sources, "many", partial(make_table, shape, shape.many, 1))
    if find_spec("deltalake") is not None:
        made(sources, "delta", partial(_delta, many, shape.delta_files))

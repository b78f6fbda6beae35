"""Rows by number and batches for training: ``python -m benchmarks.rows`` measures, and writes rows.json and rows.md.

A take of rows at random from a wide and from a tall table, beside Lance's `take`, Vortex, and Parquet through pyarrow
and Polars, each file opened anew or kept open; an epoch of shuffled batches beside reading the same columns in order,
pyarrow.dataset with a shuffle buffer, and Lance; and what `row_group_max_rows` costs and brings.

``--data DIRECTORY`` keeps the files for another run: writing them takes longer than measuring.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import vortex

import smalti
from benchmarks.environment import describe
from benchmarks.measure import Turn, take_turns
from benchmarks.memory import settle, status
from benchmarks.report import markdown, publish, size, warning

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
OURS, FINE = "smalti", "smalti, row_group_max_rows={:,}"
ARROW, WHOLE, POLARS = "Parquet, pyarrow.dataset take", "Parquet, pyarrow read and take", "Parquet, Polars gather"
LANCE, VORTEX = "Lance take", "Vortex scan of indices"
MIB = 1 << 20
#: What is measured, each with its peers interleaved in one run.
PARTS = ("wide", "tall", "groups", "epoch")


@dataclass(frozen=True)
class Take:
    """A table, and how many of its rows and columns are taken."""

    columns: int
    rows: int
    taken_rows: int
    taken_columns: int
    #: Rows of a row group where a table is written to be read by row.
    fine: int


@dataclass(frozen=True)
class Shape:
    wide: Take = Take(10_000, 20_000, 1_000, 50, 2_000)
    tall: Take = Take(100, 1_000_000, 100, 10, 1_000)
    group_rows: tuple[int, ...] = (500, 1_000, 4_000, 16_000, 64_000, 256_000)
    epoch_columns: int = 2_000
    epoch_rows: int = 500_000
    epoch_taken: int = 50
    batch_size: int = 1_024
    buffer_bytes: int = 256 * MIB
    lance_batches: int = 20
    rounds: int = 9
    epoch_rounds: int = 3


SMOKE = Shape(Take(200, 500, 20, 5, 100), Take(20, 2_000, 10, 3, 100), (100, 1_000), 30, 2_000, 5, 64, MIB, 3, 1, 1)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description="Measure rows by number.")
    parser.add_argument("--smoke", action="store_true", help="small tables, seconds")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--data", type=Path, help="a directory for the files, which are kept")
    parser.add_argument("--only-write", action="store_true", help="write the files, and measure nothing")
    parser.add_argument("--part", choices=PARTS, help="measure one part, and take the others from the last results")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.peak:
        print(peak_of_epoch(**json.loads(args.peak)))
        return 0
    shape = SMOKE if args.smoke else Shape()
    with tempfile.TemporaryDirectory() as temporary:
        directory = args.data or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        write_all(directory, shape)
        if args.only_write:
            return 0
        last = args.out / "rows.json"
        document: dict[str, Any] = json.loads(last.read_text()) if args.part and last.exists() else {}
        document |= {"environment": describe([]), "shape": asdict(shape)}
        document["versions"] = {"pylance": lance.__version__, "polars": pl.__version__, "vortex": vortex_version()}
        for part in PARTS if args.part is None else (args.part,):
            document[part] = measure(part, directory, shape)
    is_whole = all(part in document for part in PARTS)
    document["goals"] = goals(document) if is_whole and not args.smoke else []
    publish(args.out, "rows", document, page(document))
    return 0


def measure(part: str, directory: Path, shape: Shape) -> Any:
    if part == "epoch":
        return measure_epoch(directory, shape)
    if part == "groups":
        return measure_groups(directory, shape)
    return measure_take(directory, part, getattr(shape, part), shape.rounds)


def vortex_version() -> str:
    from importlib.metadata import version

    return version("vortex-data")


# --- the data -------------------------------------------------------------------------------------------------------


def batches(columns: int, rows: int, rows_at_once: int) -> Iterator[pa.RecordBatch]:
    """Features as models have them: measurements, rounded ones, counts, categories, and some nulls."""
    random = np.random.RandomState(32)
    names = [f"feature_{place:05d}" for place in range(columns)]
    for start in range(0, rows, rows_at_once):
        count = min(rows_at_once, rows - start)
        noise = random.standard_normal(count + columns)
        small = random.randint(0, 50, count + columns).astype(np.int32)
        is_null = random.random_sample(count + columns) < 0.02
        arrays = []
        for place in range(columns):
            part = slice(place, place + count)
            kind = place % 4
            if kind == 0:
                arrays.append(pa.array(noise[part] * (place + 1)))
            elif kind == 1:
                arrays.append(pa.array(np.round(noise[part], 2), mask=is_null[part]))
            elif kind == 2:
                arrays.append(pa.array(small[part] * (place % 7)))
            else:
                arrays.append(pa.array((small[part] % 9).astype(np.int64) + place))
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def write_all(directory: Path, shape: Shape) -> None:
    """Write the tables that are not there yet."""
    for name, table in (("wide", shape.wide), ("tall", shape.tall)):
        make = made(table.columns, table.rows)
        write_once(directory / f"{name}.mosaic", lambda path, make=make: write_mosaic(path, make()))
        write_once(
            directory / f"{name}-fine.mosaic",
            lambda path, make=make, table=table: write_mosaic(path, make(), row_group_max_rows=table.fine),
        )
        write_once(directory / f"{name}.parquet", lambda path, make=make: write_parquet(path, make()))
        write_once(directory / f"{name}.lance", lambda path, make=make: write_lance(path, make()))
        write_once(directory / f"{name}.vortex", lambda path, make=make: write_vortex(path, make()))
    for rows in shape.group_rows:
        write_once(
            directory / f"tall-{rows}.mosaic",
            lambda path, rows=rows: write_mosaic(
                path, made(shape.tall.columns, shape.tall.rows)(), row_group_max_rows=rows
            ),
        )
    make = made(shape.epoch_columns, shape.epoch_rows)
    write_once(directory / "epoch.mosaic", lambda path: write_mosaic(path, make()))
    write_once(directory / "epoch.parquet", lambda path: write_parquet(path, make()))
    write_once(directory / "epoch.lance", lambda path: write_lance(path, make()))


def made(columns: int, rows: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: batches(columns, rows, max(1, 20_000_000 // columns))


def write_once(path: Path, write: Callable[[Path], object]) -> None:
    if path.exists():
        return
    unfinished = path.with_name("unfinished-" + path.name)
    if unfinished.is_dir():
        shutil.rmtree(unfinished)
    start = time.perf_counter()
    write(unfinished)
    unfinished.rename(path)
    print(f"{path.name}: written in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def reader(found: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    first = next(found)

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        yield from found

    return pa.RecordBatchReader.from_batches(first.schema, every())


def write_mosaic(path: Path, found: Iterator[pa.RecordBatch], **options: Any) -> None:
    rows = reader(found)
    with smalti.MosaicWriter(path, rows.schema, smalti.WriterOptions(**options)) as writer:
        for batch in rows:
            writer.write(batch)


def write_parquet(path: Path, found: Iterator[pa.RecordBatch]) -> None:
    """As pyarrow writes by default, with zstd and the page index, which readers need to skip pages."""
    rows = reader(found)
    with pq.ParquetWriter(path, rows.schema, compression="zstd", write_page_index=True) as writer:
        for batch in rows:
            writer.write_batch(batch)


def write_lance(path: Path, found: Iterator[pa.RecordBatch]) -> None:
    lance.write_dataset(reader(found), str(path))


def write_vortex(path: Path, found: Iterator[pa.RecordBatch]) -> None:
    vortex.io.write(reader(found), str(path))


# --- takes ----------------------------------------------------------------------------------------------------------


def measure_take(directory: Path, name: str, take: Take, rounds: int) -> dict[str, Any]:
    random = np.random.RandomState(take.taken_rows)
    indices = random.choice(take.rows, take.taken_rows, replace=False)
    chosen = np.sort(random.choice(take.columns, take.taken_columns, replace=False))
    columns = [f"feature_{place:05d}" for place in chosen]
    mosaic, fine = directory / f"{name}.mosaic", directory / f"{name}-fine.mosaic"
    parquet, lanced, vortexed = (directory / f"{name}.{suffix}" for suffix in ("parquet", "lance", "vortex"))
    fine_name = FINE.format(take.fine)
    ascending = np.sort(indices)

    def ours(path: Path) -> pa.Table:
        with smalti.open(path) as file:
            return file.take(indices, columns)

    def by_polars() -> pl.DataFrame:
        return pl.scan_parquet(parquet).select(pl.col(columns).gather(indices)).collect()

    def by_vortex(file: Any) -> pa.Table:
        return file.to_arrow(columns, indices=vortex.array(ascending.tolist())).read_all()

    anew: dict[str, Callable[[], Any]] = {
        OURS: lambda: ours(mosaic),
        fine_name: lambda: ours(fine),
        LANCE: lambda: lance.dataset(str(lanced)).take(indices, columns=columns),
        VORTEX: lambda: by_vortex(vortex.open(str(vortexed))),
        ARROW: lambda: pads.dataset(parquet).take(pa.array(indices), columns=columns),
        WHOLE: lambda: pq.read_table(parquet, columns=columns).take(pa.array(indices)),
        POLARS: by_polars,
    }
    opened, opened_fine = smalti.open(mosaic, cache_bytes=0), smalti.open(fine, cache_bytes=0)
    cached = smalti.open(fine)
    lance_open, vortex_open = lance.dataset(str(lanced)), vortex.open(str(vortexed))
    kept: dict[str, Callable[[], Any]] = {
        OURS: lambda: opened.take(indices, columns),
        fine_name: lambda: opened_fine.take(indices, columns),
        f"{fine_name}, cached": lambda: cached.take(indices, columns),
        LANCE: lambda: lance_open.take(indices, columns=columns),
        VORTEX: lambda: by_vortex(vortex_open),
    }
    expected = ours(mosaic)
    for act in [*anew.values(), *kept.values()]:
        start = time.perf_counter()
        found = act()  # imports and caches, and the same rows
        print(f"{time.perf_counter() - start:.2f} s at first", file=sys.stderr, flush=True)
        check(expected, found, ascending=ascending, indices=indices)
    result: dict[str, Any] = {
        "sizes": {path.name: size_on_disk(path) for path in (mosaic, fine, parquet, lanced, vortexed)}
    }
    for kind, acts in (("anew", anew), ("kept", kept)):
        seconds, errors = take_turns({peer: Turn(act) for peer, act in acts.items()}, rounds, budget=20)
        if errors:
            raise RuntimeError(errors)
        result[kind] = {peer: min(taken) for peer, taken in seconds.items()}
    for file in (opened, opened_fine, cached):
        file.close()
    return result


def check(expected: pa.Table, found: Any, *, ascending: Any, indices: Any) -> None:
    """Refuse a peer that gave other rows. Vortex gives them in ascending order."""
    table = found.to_arrow() if isinstance(found, pl.DataFrame) else found
    first = table.column(0).combine_chunks().cast(pa.float64()).to_numpy(zero_copy_only=False)
    wanted = expected.column(0).combine_chunks().cast(pa.float64()).to_numpy(zero_copy_only=False)
    by_row = dict(zip(indices.tolist(), wanted.tolist(), strict=True))
    sorted_wanted = np.array([by_row[row] for row in ascending.tolist()])
    if not (np.array_equal(first, wanted, equal_nan=True) or np.array_equal(first, sorted_wanted, equal_nan=True)):
        raise RuntimeError("a peer gave other rows")


def size_on_disk(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def measure_groups(directory: Path, shape: Shape) -> list[dict[str, Any]]:
    """Size and time of a take for tables with row groups of different sizes."""
    take = shape.tall
    random = np.random.RandomState(1)
    columns = [
        f"feature_{place:05d}" for place in np.sort(random.choice(take.columns, take.taken_columns, replace=False))
    ]
    indices = random.choice(take.rows, take.taken_rows, replace=False)
    paths = {rows: directory / f"tall-{rows}.mosaic" for rows in shape.group_rows}
    files = {rows: smalti.open(path, cache_bytes=0) for rows, path in paths.items()}

    def anew(path: Path) -> pa.Table:
        with smalti.open(path, cache_bytes=0) as file:
            return file.take(indices, columns)

    turns = {f"{rows} take": Turn(lambda file=file: file.take(indices, columns)) for rows, file in files.items()}
    turns |= {f"{rows} anew": Turn(lambda path=path: anew(path)) for rows, path in paths.items()}
    turns |= {f"{rows} read": Turn(lambda file=file: file.read(columns)) for rows, file in files.items()}
    seconds, errors = take_turns(turns, shape.rounds, budget=20)
    if errors:
        raise RuntimeError(errors)
    for file in files.values():
        file.close()
    return [
        {
            "rows": rows,
            "bytes": paths[rows].stat().st_size,
            **{kind: min(seconds[f"{rows} {kind}"]) for kind in ("take", "anew", "read")},
        }
        for rows in shape.group_rows
    ]


# --- an epoch -------------------------------------------------------------------------------------------------------


def epoch_columns(shape: dict[str, Any]) -> list[str]:
    random = np.random.RandomState(7)
    chosen = np.sort(random.choice(shape["epoch_columns"], shape["epoch_taken"], replace=False))
    return [f"feature_{place:05d}" for place in chosen]


def in_order(directory: Path, shape: dict[str, Any]) -> int:
    with smalti.open(directory / "epoch.mosaic") as file:
        return sum(batch.num_rows for batch in file.iter_batches(shape["batch_size"], epoch_columns(shape)))


def by_loader(directory: Path, shape: dict[str, Any]) -> int:
    loader = smalti.loader(
        directory / "epoch.mosaic",
        epoch_columns(shape),
        shape["batch_size"],
        shuffle=True,
        buffer_bytes=shape["buffer_bytes"],
        fill_null=0,
    )
    return sum(len(next(iter(batch.values()))) for batch in loader)


def by_arrow(directory: Path, shape: dict[str, Any]) -> int:
    """Row groups in their order, with a shuffle buffer of the same size, as one writes it with pyarrow.dataset."""
    columns, limit, random = epoch_columns(shape), shape["buffer_bytes"] // 3, np.random.RandomState(0)
    held: list[pa.RecordBatch] = []
    held_bytes = count = 0

    def deliver() -> int:
        table = pa.Table.from_batches(held).combine_chunks()
        mixed = table.take(pa.array(random.permutation(table.num_rows)))
        rows = 0
        for start in range(0, mixed.num_rows, shape["batch_size"]):
            part = mixed.slice(start, shape["batch_size"])
            arrays = {name: part.column(name).to_numpy() for name in columns}
            rows += len(arrays[columns[0]])
        return rows

    for batch in pads.dataset(directory / "epoch.parquet").to_batches(columns=columns):
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= limit:
            count += deliver()
            held, held_bytes = [], 0
    return count + (deliver() if held else 0)


def by_lance(directory: Path, shape: dict[str, Any]) -> int:
    """Batches of rows at random by `take`, as samplers ask for them; some batches, since all take long."""
    dataset, random, count = lance.dataset(str(directory / "epoch.lance")), np.random.RandomState(0), 0
    order = random.permutation(shape["epoch_rows"])
    for start in range(0, shape["lance_batches"] * shape["batch_size"], shape["batch_size"]):
        table = dataset.take(order[start : start + shape["batch_size"]], columns=epoch_columns(shape))
        count += len({name: table.column(name).to_numpy() for name in table.column_names} and table)
    return count


def lance_in_order(directory: Path, shape: dict[str, Any]) -> int:
    """Lance's batches in order: what its loaders for PyTorch do in each fragment."""
    dataset, count = lance.dataset(str(directory / "epoch.lance")), 0
    for batch in dataset.to_batches(columns=epoch_columns(shape), batch_size=shape["batch_size"]):
        count += len({name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names} and batch)
    return count


EPOCHS: dict[str, Callable[[Path, dict[str, Any]], int]] = {
    "smalti, in order": in_order,
    "smalti.loader, shuffled": by_loader,
    "Parquet, pyarrow.dataset with a shuffle buffer": by_arrow,
    "Lance, batches in order": lance_in_order,
    "Lance, batches by take": by_lance,
}


def measure_epoch(directory: Path, shape: Shape) -> dict[str, Any]:
    given = asdict(shape)
    rows: dict[str, int] = {}

    def run(name: str) -> None:
        rows[name] = EPOCHS[name](directory, given)

    turns = {name: Turn(lambda name=name: run(name)) for name in EPOCHS}
    for name in EPOCHS:
        start = time.perf_counter()
        run(name)
        print(f"{name}: {time.perf_counter() - start:.1f} s at first", file=sys.stderr, flush=True)
    seconds, errors = take_turns(turns, shape.epoch_rounds, budget=60)
    if errors:
        raise RuntimeError(errors)
    rates = {name: rows[name] / min(taken) for name, taken in seconds.items()}
    peak = {name: in_a_child(directory, name, given) for name in ("smalti.loader, shuffled",)}
    return {"rows_per_second": rates, "peak_bytes": peak}


def in_a_child(directory: Path, name: str, shape: dict[str, Any]) -> int:
    order = json.dumps({"directory": str(directory), "name": name, "shape": shape})
    command = [sys.executable, "-m", "benchmarks.rows", "--peak", order]
    root = Path(__file__).parent.parent
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)


def peak_of_epoch(directory: str, name: str, shape: dict[str, Any]) -> int:
    """Bytes that this process grows by over an epoch."""
    with tempfile.TemporaryDirectory() as small:
        smalti.write_table(pa.table({"x": [1.0] * 10}), f"{small}/x.mosaic")
        list(smalti.loader(f"{small}/x.mosaic", shuffle=True))
    before = settle()
    EPOCHS[name](Path(directory), shape)
    return status("VmHWM") - before


# --- showing --------------------------------------------------------------------------------------------------------


def goals(document: dict[str, Any]) -> list[list[str]]:
    wide, tall, epoch = document["wide"], document["tall"], document["epoch"]
    parquet = (ARROW, WHOLE, POLARS)

    def best(found: dict[str, float]) -> float:
        return min(taken for peer, taken in found.items() if peer.startswith(OURS) and "cached" not in peer)

    first = min(wide["anew"][peer] for peer in parquet) / best(wide["anew"])
    second = min(tall["anew"][peer] for peer in parquet) / best(tall["anew"])
    lance_first = wide["anew"][LANCE] / best(wide["anew"])
    lance_second = best(tall["kept"]) / tall["kept"][LANCE]
    rates = epoch["rows_per_second"]
    share = rates["smalti.loader, shuffled"] / rates["smalti, in order"]
    peak, budget = epoch["peak_bytes"]["smalti.loader, shuffled"], document["shape"]["buffer_bytes"]
    checks = [
        ("wide: 5 times as fast as all readers of Parquet", f"{first:.1f}", first >= 5),
        ("wide: faster than Lance", f"{lance_first:.1f}", lance_first > 1),
        ("tall: 3 times as fast as all readers of Parquet", f"{second:.1f}", second >= 3),
        ("tall, files kept open: at most twice the time of Lance", f"{lance_second:.1f}", lance_second <= 2),
        ("epoch: 0.6 of the rows per second in order", f"{share:.2f}", share >= 0.6),
        ("epoch: peak memory within buffer_bytes", f"{peak / budget:.2f} of it", peak <= budget),
    ]
    return [[title, measured, "reached" if reached else "**missed**"] for title, measured, reached in checks]


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    shape = document["shape"]
    parts = [
        "# Rows by number, and batches for training",
        f"Written by `python -m benchmarks.rows` on {document['environment']['date']}; do not edit. Times are the best "
        "of several turns, in milliseconds; peers take turns. pylance "
        f"{document['versions']['pylance']}, vortex-data {document['versions']['vortex']}, Polars "
        f"{document['versions']['polars']}, pyarrow {document['environment']['pyarrow']}, "
        f"{document['environment']['cores']} cores.",
    ]
    busy = warning(document["environment"])
    missing = [part for part in PARTS if part not in document]
    parts += [busy] if busy else []
    parts += [f"Not measured yet: {', '.join(missing)}."] if missing else []
    for name in ("wide", "tall"):
        if name not in document:
            continue
        take, found = shape[name], document[name]
        rows = [
            [peer, milliseconds(found["anew"].get(peer)), milliseconds(found["kept"].get(peer))]
            for peer in dict.fromkeys([*found["anew"], *found["kept"]])
        ]
        sizes = [[file, size(count)] for file, count in found["sizes"].items()]
        parts += [
            f"## {take['taken_rows']:,} rows x {take['taken_columns']} of {take['columns']:,} columns x "
            f"{take['rows']:,} rows",
            'Rows at random. "Opened anew" includes opening the file; "kept open" does not, and nothing is cached '
            "by smalti unless the line says so.",
            markdown(["by", "opened anew", "kept open"], rows),
            markdown(["file", "size"], sizes),
        ]
    if "groups" in document:
        parts += groups_page(document)
    if "epoch" in document:
        parts += epoch_page(document)
    if document["goals"]:
        parts += ["## Goals", markdown(["goal", "measured", ""], document["goals"])]
    return "\n\n".join(parts) + "\n"


def groups_page(document: dict[str, Any]) -> list[str]:
    tall = document["shape"]["tall"]
    groups = [
        [f"{each['rows']:,}", size(each["bytes"]), *(milliseconds(each[kind]) for kind in ("anew", "take", "read"))]
        for each in document["groups"]
    ]
    return [
        "## What `row_group_max_rows` costs and brings",
        f"The table of {tall['columns']} columns and {tall['rows']:,} rows: {tall['taken_rows']} rows at random of "
        f"{tall['taken_columns']} columns, with the file opened anew or kept open, and all rows of these columns.",
        markdown(["rows of a row group", "size", "take, opened anew", "take", "read all rows"], groups),
    ]


def epoch_page(document: dict[str, Any]) -> list[str]:
    shape, epoch = document["shape"], document["epoch"]
    rates = epoch["rows_per_second"]
    rows = [[name, f"{rate:,.0f}", f"{rate / rates['smalti, in order']:.2f}"] for name, rate in rates.items()]
    peak = epoch["peak_bytes"]["smalti.loader, shuffled"]
    return [
        f"## An epoch of batches of {shape['batch_size']:,} rows x {shape['epoch_taken']} of "
        f"{shape['epoch_columns']:,} columns x {shape['epoch_rows']:,} rows",
        markdown(["by", "rows per second", "of reading in order"], rows),
        f"Lance by `take` was measured on {shape['lance_batches']} batches. Peak memory of the loader: "
        f"{peak / MIB:.0f} MiB, with `buffer_bytes` of {shape['buffer_bytes'] / MIB:.0f} MiB.",
    ]


def milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1000:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())

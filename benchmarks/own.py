"""``python -m benchmarks.own FILE`` writes your rows as Mosaic and as Parquet, reads both, compares sizes and times."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

import smalti
from smalti._compat.arrow import size_of
from smalti.cli.inputs import open_table
from smalti.cli.render.table import heads, table
from smalti.file.streams import Scannable
from smalti.jobs.formats.writers import plain_field
from smalti.logical.adapt import adapt_batch
from smalti.units import show_bytes, show_count

#: Bytes in memory that become one row group, in both formats.
PIECE = 200 << 20
#: Fixed, so that every run reads the same columns.
SEED = 20261115


def main(arguments: list[str] | None = None) -> None:
    """Measure the files that are named on the command line, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.own", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of any format that `smalti convert` reads")
    parser.add_argument("--columns", type=int, default=10, metavar="N", help="read N columns (default 10)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="measure N times, show the best (default 5)")
    parser.add_argument("--level", type=int, default=1, metavar="N", help="zstd level for both formats (default 1)")
    options = parser.parse_args(arguments)
    with open_table(options.files) as rows, tempfile.TemporaryDirectory(prefix="smalti-bench-") as directory:
        results = measure(rows, Path(directory), options.columns, max(1, options.rounds), options.level)
        shape = f"{show_count(rows.count_rows(), 'row')}, {show_count(len(rows.schema), 'column')}"
    mosaic, parquet = results["mosaic"], results["parquet"]
    lines = []
    for key in mosaic:
        shown: Callable[[float], str] = show_bytes if key == "size" else _seconds
        better = parquet[key] / mosaic[key] if mosaic[key] else 0.0
        lines.append([key, shown(mosaic[key]), shown(parquet[key]), f"{better:.2f}x"])
    print(f"{shape}, zstd {options.level} for both, best of {options.rounds}")
    print(*table(heads(" | >Mosaic | >Parquet | >Parquet / Mosaic"), lines, None), sep="\n")


def measure(rows: Scannable, directory: Path, columns: int, rounds: int, level: int) -> dict[str, dict[str, float]]:
    """Seconds and bytes of both formats, which take turns, so that a busy moment of the machine hits both."""
    import pyarrow.parquet as pq

    mosaic, parquet = directory / "t.mosaic", directory / "t.parquet"
    results = write_both(rows, mosaic, parquet, level)
    names = rows.schema.names
    chosen = sorted(random.Random(SEED).sample(range(len(names)), min(columns, len(names))))
    some = [names[i] for i in chosen]
    one = some[len(some) // 2 :][:1]
    works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "open": (lambda: smalti.open(mosaic).close(), lambda: pq.ParquetFile(parquet).close()),
        "read 1 column": (lambda: smalti.read_table(mosaic, one), lambda: pq.read_table(parquet, columns=one)),
        f"read {show_count(len(some), 'column')}": (
            lambda: smalti.read_table(mosaic, some),
            lambda: pq.read_table(parquet, columns=some),
        ),
        "read all": (lambda: smalti.read_table(mosaic), lambda: pq.read_table(parquet)),
    }
    for name, pair in works.items():
        times = [[_timed(work) for work in pair] for _ in range(rounds)]
        results["mosaic"][name], results["parquet"][name] = map(min, zip(*times, strict=True))
    return results


def write_both(rows: Scannable, mosaic: Path, parquet: Path, level: int) -> dict[str, dict[str, float]]:
    """Write both files from the same pieces, a row group for each, so that both have the same number of them."""
    import pyarrow.parquet as pq

    schema = pa.schema([plain_field(field) for field in rows.schema])  # types that both formats have
    spent = {"mosaic": 0.0, "parquet": 0.0}
    parquet_writer = pq.ParquetWriter(parquet, schema, compression="zstd", compression_level=level)
    with smalti.MosaicWriter(mosaic, schema, compression_level=level) as writer, parquet_writer:
        for piece in _pieces(rows, PIECE):
            piece = pa.Table.from_batches([adapt_batch(batch, schema) for batch in piece.to_batches()], schema)
            spent["mosaic"] += _timed(partial(writer.write, piece))
            spent["parquet"] += _timed(
                partial(parquet_writer.write_table, piece, row_group_size=max(1, piece.num_rows))
            )
        spent["mosaic"] += _timed(writer.close)
        spent["parquet"] += _timed(parquet_writer.close)
    return {
        name: {"size": path.stat().st_size, "write": spent[name]}
        for name, path in (("mosaic", mosaic), ("parquet", parquet))
    }


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _pieces(table: Scannable, num_bytes: int) -> Iterator[pa.Table]:
    """All columns, in tables of about `num_bytes` each."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in table.scan().to_batches():
        held.append(batch)
        size += size_of(batch)
        if size >= num_bytes:
            yield pa.Table.from_batches(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


if __name__ == "__main__":
    main()

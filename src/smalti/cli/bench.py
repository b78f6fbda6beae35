"""`bench`: write the user's own file as Mosaic and as Parquet, read both back, and compare sizes and times."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import smalti
from smalti.cli.arguments import add_files, add_output, whole_number
from smalti.cli.render.table import heads
from smalti.cli.render.text import seconds, size
from smalti.cli.screen import Screen
from smalti.cli.sources import open_table, pieces_of, schema_of, shown_paths
from smalti.file.streams import Scannable
from smalti.jobs.formats.writers import plain_field
from smalti.logical.adapt import adapt_batch
from smalti.units import show_count

#: Bytes in memory that become one row group, in both formats.
PIECE = 200 << 20
#: Fixed, so that every run reads the same columns.
SEED = 20261115


def arguments_bench(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--columns", type=whole_number, default=10, metavar="N", help="read N columns (default 10)")
    parser.add_argument(
        "--rounds", type=whole_number, default=5, metavar="N", help="measure N times and show the best (default 5)"
    )
    parser.add_argument("--level", type=int, default=1, metavar="N", help="zstd level for both formats (default 1)")
    add_output(parser)


def run_bench(options: argparse.Namespace, screen: Screen) -> None:
    opened = open_table(options.files, options.source_format)
    with opened as rows, tempfile.TemporaryDirectory(prefix="smalti-bench-") as directory:
        results = measure(rows, Path(directory), options.columns, max(1, options.rounds), options.level)
        shape = {"rows": rows.count_rows(), "columns": len(schema_of(rows))}
    if options.json:
        screen.json({"file": shown_paths(options.files), **shape, "level": options.level, "results": results})
        return
    mosaic, parquet = results["mosaic"], results["parquet"]
    lines = []
    for key in mosaic:
        shown: Callable[[float], str] = size if key == "size" else seconds
        better = parquet[key] / mosaic[key] if mosaic[key] else 0.0
        lines.append([key, shown(mosaic[key]), shown(parquet[key]), f"{better:.2f}x"])
    columns = heads(" | >Mosaic | >Parquet | >Parquet / Mosaic")
    title = (
        f"{show_count(shape['rows'], 'row')}, {show_count(shape['columns'], 'column')}, "
        f"zstd {options.level} for both, best of {options.rounds}"
    )
    screen.lines([title, *screen.table(columns, lines)])


def measure(rows: Scannable, directory: Path, columns: int, rounds: int, level: int) -> dict[str, dict[str, float]]:
    """Seconds and bytes of both formats, which take turns, so that a busy moment of the machine hits both."""
    import pyarrow.parquet as pq

    mosaic, parquet = directory / "t.mosaic", directory / "t.parquet"
    results = write_both(rows, mosaic, parquet, level)
    names = schema_of(rows).names
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

    schema = pa.schema([plain_field(field) for field in schema_of(rows)])  # types that both formats have
    spent = {"mosaic": 0.0, "parquet": 0.0}
    parquet_writer = pq.ParquetWriter(parquet, schema, compression="zstd", compression_level=level)
    with smalti.MosaicWriter(mosaic, schema, compression_level=level) as writer, parquet_writer:
        for piece in pieces_of(rows, PIECE):
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

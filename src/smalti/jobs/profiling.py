"""`profile`: what is in each column, as a table and as a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MosaicError
from smalti.io import Place, locate, write_whole
from smalti.jobs._sketch import estimate
from smalti.jobs.converting import ON_ERROR, file_facts, list_sources
from smalti.jobs.engine import choose_executor
from smalti.jobs.events import Meter, Progress
from smalti.jobs.formats.reading import ReadRequest
from smalti.jobs.formats.registry import format_of_source, format_of_target
from smalti.jobs.formats.sampling import agree_on_types
from smalti.jobs.measuring import ColumnMeasure, MeasureResult, MeasureTask, measure
from smalti.jobs.summary import JobError, Skipped, show_value
from smalti.options import WriterOptions
from smalti.report.page import render_profile
from smalti.report.units import show_bytes
from smalti.table.splits import SPLIT_BYTES, fit_split_bytes

SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("type", pa.string()),
        ("rows", pa.int64()),
        ("nulls", pa.int64()),
        ("min", pa.string()),
        ("max", pa.string()),
        ("distinct", pa.int64()),
        ("encodings", pa.string()),
        ("stored_bytes", pa.int64()),
        ("raw_bytes", pa.int64()),
    ]
)
#: Longest text of a bound.
MAX_SHOWN = 200


@dataclass(frozen=True)
class Profile:
    """What was found.

    Attributes
    ----------
    table : pyarrow.Table
        One row per column: `column`, `type`, `rows`, `nulls`, `min` and `max` as text, `distinct` (an estimate, within
        about 5 %; null for arrays and maps), and for Mosaic files `encodings` ("DICT 3, PLAIN 1" row groups),
        `stored_bytes` (in the file) and `raw_bytes` (before compression).
    """

    source: str
    table: pa.Table
    num_rows: int
    num_files: int
    num_bytes: int
    skipped: tuple[Skipped, ...]
    engine: str
    seconds: float

    @property
    def num_columns(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        return (
            f"profile ({self.engine}): {self.num_rows:,} rows, {self.num_columns:,} columns, "
            f"{self.num_files:,} files of {show_bytes(self.num_bytes)} in {self.seconds:.1f} s"
        )


def profile(
    source: Any,
    *,
    output: Any = None,
    html: Any = None,
    engine: str = "local",
    spark: Any = None,
    source_format: str | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    on_error: str = "raise",
    split_bytes: int = SPLIT_BYTES,
    batch_rows: int | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    filesystem: Any = None,
) -> Profile:
    """Null counts, bounds, distinct values, encodings and bytes of every column of some files.

    Parameters
    ----------
    source : path, URI, glob or list of them
        Of any format `convert` reads; encodings and bytes are told of Mosaic files.
    output : path or URI, optional
        Where to write the table: Mosaic, Parquet or another format, by suffix.
    html : path or URI, optional
        Where to write a page that shows it.
    engine, spark, source_format, columns, overwrite, on_error, split_bytes, batch_rows, workers, progress, filesystem
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.profile("readings", columns=["id"]).table.select(["column", "nulls", "distinct"]).to_pylist()
    [{'column': 'id', 'nulls': 0, 'distinct': 3}]
    """
    began = time.monotonic()
    if on_error not in ON_ERROR:
        raise MosaicError("unknown on_error", found=on_error, expected=" or ".join(ON_ERROR))
    targets = [locate(place, filesystem).absolute() for place in (output, html) if place is not None]
    for place in targets:
        if place.is_file() and not overwrite:
            raise FileExistsError(17, "Exists; set overwrite to replace it", place.path)
    listing = list_sources(source, filesystem)
    files = listing.files
    formats = format_of_source([file.path for file in files], source_format)
    executor = choose_executor(engine, spark, workers)
    split_bytes = fit_split_bytes(sum(file.size for file in files), executor.slots, split_bytes)
    request = ReadRequest(
        columns=None if columns is None else tuple(columns),
        batch_rows=batch_rows,
        threads=executor.task_threads is None,
    )
    types = agree_on_types(listing, formats, request)
    request = replace(request, types=types)
    tasks: list[MeasureTask] = []
    for file, (format_, _) in zip(files, formats, strict=True):
        facts = file_facts(listing, file, format_, count_groups=file.size > split_bytes)
        for number, piece in enumerate(facts.pieces(split_bytes)):
            own = replace(request, row_groups=piece.row_groups)
            tasks.append(MeasureTask(listing.filesystem, piece, own, number == 0 and format_.name == "mosaic"))
    meter = Meter("profile", len(tasks), sum(task.piece.num_bytes for task in tasks), progress)
    merged, rows, skipped = _merge(tasks, executor.run(measure, tasks, meter), skip=on_error == "skip")
    result = Profile(
        source=str(source),
        table=_table(merged),
        num_rows=rows,
        num_files=len(files) - len(skipped),
        num_bytes=sum(file.size for file in files if file.path not in {item.path for item in skipped}),
        skipped=skipped,
        engine=executor.name,
        seconds=time.monotonic() - began,
    )
    if output is not None:
        _write_table(result.table, locate(output, filesystem).absolute())
    if html is not None:
        page = render_profile(
            result.source,
            result.table,
            num_rows=rows,
            num_files=result.num_files,
            num_bytes=result.num_bytes,
            num_skipped=len(skipped),
        )
        write_whole(locate(html, filesystem).absolute(), page.encode())
    return result


def _merge(
    tasks: Sequence[MeasureTask], results: Any, *, skip: bool
) -> tuple[dict[str, ColumnMeasure], int, tuple[Skipped, ...]]:
    """All results as one. A file of which a part failed is left out whole."""
    kept: dict[int, MeasureResult] = {}
    skipped: dict[str, Skipped] = {}
    for index, result in results:
        if result.failure is None:
            kept[index] = result
        elif skip:
            path = tasks[index].piece.file.path
            skipped[path] = Skipped(path, result.failure.reason)
        else:
            raise JobError((result.failure,))
    merged: dict[str, ColumnMeasure] = {}
    rows = 0
    for index in sorted(kept):
        path = tasks[index].piece.file.path
        if path in skipped:
            continue
        rows += kept[index].num_rows
        for name, found in kept[index].columns().items():
            try:
                if name in merged:
                    merged[name].merge(found)
                else:
                    merged[name] = found
            except MosaicError as error:
                raise error.locate(path=path, column=name) from None
    return merged, rows, tuple(skipped[path] for path in sorted(skipped))


def _table(columns: dict[str, ColumnMeasure]) -> pa.Table:
    rows = []
    for name, column in columns.items():
        rows.append(
            {
                "column": name,
                "type": str(column.type),
                "rows": column.rows,
                "nulls": column.nulls,
                "min": _shown(column.bounds[0]) if column.bounds else None,
                "max": _shown(column.bounds[1]) if column.bounds else None,
                "distinct": _distinct(column),
                "encodings": ", ".join(f"{key} {count}" for key, count in column.encodings.most_common()) or None,
                "stored_bytes": column.stored_bytes if column.encodings else None,
                "raw_bytes": column.raw_bytes if column.encodings else None,
            }
        )
    return pa.Table.from_pylist(rows, SCHEMA)


def _distinct(column: ColumnMeasure) -> int | None:
    if pt.is_nested(column.type):
        return None
    if not column.bounds:
        return 0
    if pt.is_boolean(column.type):
        return len({bound.as_py() for bound in column.bounds})
    if column.registers is None:
        return None
    return max(1, min(column.rows - column.nulls, round(estimate(column.registers))))


def _shown(scalar: pa.Scalar) -> str:
    text = show_value(scalar)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _write_table(table: pa.Table, place: Place) -> None:
    format_, _, names_file = format_of_target(place.path, None)
    if not names_file:
        raise MosaicError("cannot tell the format by the name", path=place.path, expected=".mosaic, .parquet or .csv")
    place.parent.make_directory()
    hidden = place.parent.child(f".{place.name}.smalti-tmp") if place.is_local else place
    writer = format_.writer(hidden, table.schema, WriterOptions())
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()
    if hidden is not place:
        Path(hidden.path).replace(place.path)

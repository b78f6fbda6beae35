"""`profile`: what is in each column, as a table and as a page."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MosaicError
from smalti.io import Location, locate, write_whole
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, chosen
from smalti.jobs._sketch import estimate
from smalti.jobs.engine import AnySession, check_on_error, check_positive, choose_executor
from smalti.jobs.formats.registry import Format, format_of_source, format_of_target
from smalti.jobs.formats.request import ReadRequest
from smalti.jobs.formats.text import with_agreed_types
from smalti.jobs.profile_task import WHOLE, ColumnMeasure, Measure, MeasureTask, combine, histogram, measure
from smalti.jobs.source_files import AnySource, list_sources, pieces_of
from smalti.jobs.summary import JobError, Skipped, skipped_lines
from smalti.moments import scalar_text
from smalti.options import WriterOptions
from smalti.progress import Listener, Meter
from smalti.report.findings import ColumnFacts, facts_of, in_words
from smalti.report.page import render_table
from smalti.sizes import SPLIT_BYTES
from smalti.table.listing import Listing, location_of
from smalti.table.opening import source_name
from smalti.table.splits import fit_split_bytes
from smalti.units import show_bytes, show_count

#: The most characters shown of a bound.
MAX_SHOWN = 200


@dataclass(frozen=True)
class Profile:
    """What was found.

    Attributes
    ----------
    table : pyarrow.Table
        One row per column: `column`, `type`, `rows`, `nulls`, `min` and `max` as text, `distinct` (an estimate, within
        about 5 %; null for arrays and maps), `histogram` (of up to 512 rows, from the smallest to the largest value, as
        text), and for Mosaic files `encodings` ("DICT 3, PLAIN 1" row groups),
        `stored_bytes` (in the file) and `raw_bytes` (before compression), and `same_as`, the first column whose stored
        bytes are the same, as far as columns are stored by themselves.
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

    @property
    def facts(self) -> list[ColumnFacts]:
        """What `report.findings` needs to know of each column."""
        return facts_of(self.table)

    @property
    def findings(self) -> str:
        """What is worth knowing first, in a line: which columns are empty, constant, identical or nearly empty."""
        return in_words(self.facts)

    def __str__(self) -> str:
        text = (
            f"profile ({self.engine}): {show_count(self.num_rows, 'row')}, {show_count(self.num_columns, 'column')}, "
            f"{show_count(self.num_files, 'file')} of {show_bytes(self.num_bytes)} in {self.seconds:.1f} s"
        )
        return "\n".join([text, *skipped_lines(self.skipped)])


def profile(
    source: AnySource,
    *,
    output: AnyPath | None = None,
    html: AnyPath | None = None,
    engine: str = "local",
    spark: AnySession = None,
    source_format: str | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    on_error: str = "raise",
    split_bytes: int = SPLIT_BYTES,
    batch_size: int | None = None,
    workers: int | None = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    plain: bool = False,
) -> Profile:
    """Null counts, bounds, distinct values, encodings and bytes of every column of some files.

    Parameters
    ----------
    source : path, URI, glob or list of them
        Of any format that `convert` reads; encodings and bytes are known of Mosaic files only.
    output : path or URI, optional
        Where to write the table; the suffix says the format.
    html : path or URI, optional
        Where to write a page that shows the table, and how the files are stored if they are Mosaic files.
    engine, spark, source_format, columns, overwrite, on_error, split_bytes, batch_size, workers, progress
        As in `convert`.
    filesystem, storage_options
        As for `convert`.
    plain : bool
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.profile("readings", columns=["id"]).table.select(["column", "nulls", "distinct"]).to_pylist()
    [{'column': 'id', 'nulls': 0, 'distinct': 3}]
    """
    filesystem = chosen(filesystem, storage_options)
    began = time.monotonic()
    check_on_error(on_error)
    check_positive(split_bytes=split_bytes, batch_size=batch_size)
    table_location, page_location = (
        None if path is None else locate(path, filesystem).absolute() for path in (output, html)
    )
    for location in (table_location, page_location):
        if location is not None and location.is_file() and not overwrite:
            raise FileExistsError(17, "Exists already; set overwrite to replace it", location.path)
    # What is read.
    listing = list_sources(source, filesystem, plain=plain)
    formats = format_of_source([file.path for file in listing.files], source_format)
    # Which task reads what, and how.
    executor = choose_executor(engine, spark, workers)
    request = ReadRequest(
        columns=None if columns is None else tuple(columns),
        batch_size=batch_size,
        threads=executor.task_threads is None,
    )
    split_bytes = fit_split_bytes(sum(file.size for file in listing.files), executor.slots, split_bytes)
    tasks = _plan(listing, formats, with_agreed_types(request, listing, formats), split_bytes)
    meter = Meter("profile", len(tasks), sum(task.piece.num_bytes for task in tasks), progress)
    with closing(executor.run(measure, tasks, meter, combine)) as results:
        merged = _merge(results, skip=on_error == "skip")
    whole = merged.pop(WHOLE, Measure())
    failed = {path: part.error for path, part in sorted(merged.items()) if part.error is not None}
    skipped = tuple(Skipped(path, error.reason) for path, error in failed.items())
    result = Profile(
        source=source_name(source),
        table=_table(dict(sorted(whole.columns.items(), key=lambda item: item[1].first))),
        num_rows=whole.num_rows,
        num_files=len(listing.files) - len(skipped),
        num_bytes=sum(file.size for file in listing.files if file.path not in failed),
        skipped=skipped,
        engine=executor.name,
        seconds=time.monotonic() - began,
    )
    if table_location is not None:
        _write_table(result.table, table_location)
    if page_location is not None:
        mosaic = [
            location_of(file, listing.filesystem)
            for file, (format_, _) in zip(listing.files, formats, strict=True)
            if format_.name == "mosaic" and file.path not in failed
        ]
        facts = {
            "rows": whole.num_rows,
            "numFiles": result.num_files,
            "size": result.num_bytes,
            "skipped": len(skipped),
        }
        page = render_table(result.source, mosaic, result.table, facts)
        write_whole(page_location, page.encode())
    return result


def _plan(
    listing: Listing, formats: Sequence[tuple[Format, str]], request: ReadRequest, split_bytes: int
) -> list[MeasureTask]:
    planned = []
    for pieces, (format_, _) in zip(pieces_of(listing, formats, split_bytes), formats, strict=True):
        # The layout is that of the whole file, so only one of its tasks looks at it.
        planned += [(piece, not at and format_.name == "mosaic", len(pieces)) for at, piece in enumerate(pieces)]
    return [
        MeasureTask(
            listing.filesystem, piece, replace(request, row_groups=piece.row_groups), layout, pieces, at, len(planned)
        )
        for at, (piece, layout, pieces) in enumerate(planned)
    ]


def _merge(results: Iterator[tuple[int, dict[str, Measure]]], *, skip: bool) -> dict[str, Measure]:
    """Merge results as they come. Of files with an error only the error is left."""
    merged: dict[str, Measure] = {}
    for _, result in results:
        merged = combine(merged, result)
        errors = {path: part.error for path, part in merged.items() if part.error is not None}
        if WHOLE in errors:  # an error of files that do not go together
            raise errors[WHOLE]
        if errors and not skip:
            raise JobError((errors[min(errors)],))
    return merged


def _distinct(column: ColumnMeasure) -> int | None:
    if pt.is_nested(column.type):
        return None
    if not len(column.bounds):
        return 0
    if pt.is_boolean(column.type):
        return len({bound.as_py() for bound in column.bounds})
    if column.registers is None:
        return None
    return max(1, min(column.rows - column.nulls, round(estimate(column.unpack()))))


def _bound(column: ColumnMeasure, end: int) -> str | None:
    """The least or greatest value as text: a number with the fewest digits that are this number in its own type."""
    if not len(column.bounds):
        return None
    bounds = column.bounds.cast(column.given) if pt.is_float16(column.given) else column.bounds
    return scalar_text(bounds[end], MAX_SHOWN)


def _encodings(column: ColumnMeasure) -> str | None:
    counts = sorted(column.stored.encodings.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in counts) or None


#: The columns of the table: name, type, and how to fill it from the name and the measure of a column.
_COLUMNS: list[tuple[str, pa.DataType, Callable[[str, ColumnMeasure], str | int | None]]] = [
    ("column", pa.string(), lambda name, _: name),
    ("type", pa.string(), lambda _, found: str(found.type)),
    ("rows", pa.int64(), lambda _, found: found.rows),
    ("nulls", pa.int64(), lambda _, found: found.nulls),
    ("min", pa.string(), lambda _, found: _bound(found, 0)),
    ("max", pa.string(), lambda _, found: _bound(found, 1)),
    ("distinct", pa.int64(), lambda _, found: _distinct(found)),
    ("histogram", pa.string(), lambda _, found: histogram(found.sample)),
    ("encodings", pa.string(), lambda _, found: _encodings(found)),
    ("stored_bytes", pa.int64(), lambda _, found: found.stored.stored if found.stored.encodings else None),
    ("raw_bytes", pa.int64(), lambda _, found: found.stored.unpacked if found.stored.encodings else None),
]


def _table(columns: dict[str, ColumnMeasure]) -> pa.Table:
    arrays = [pa.array([fill(*item) for item in columns.items()], type_) for _, type_, fill in _COLUMNS]
    table = pa.table(arrays, schema=pa.schema([(name, type_) for name, type_, _ in _COLUMNS]))
    return table.append_column("same_as", pa.array(_same_as(columns), pa.string()))


def _same_as(columns: dict[str, ColumnMeasure]) -> list[str | None]:
    """For each column the first one with the same stored bytes, in every file; None if there is none before it."""
    firsts: dict[Any, str] = {}
    same: list[str | None] = []
    for name, found in columns.items():
        key = (str(found.given), found.nulls, tuple(sorted(found.digests.items()))) if found.digests else None
        is_known = key is not None and all(found.digests.values())
        first = firsts.setdefault(key, name) if is_known else name
        same.append(None if first == name else first)
    return same


def _write_table(table: pa.Table, location: Location) -> None:
    format_, _, names_file = format_of_target(location.path, None)
    if not names_file:
        raise MosaicError(
            "cannot tell the format by the name", path=location.path, expected=".mosaic, .parquet or .csv"
        )
    with tempfile.TemporaryDirectory() as directory:
        made = locate(directory).child(location.name)
        writer = format_.writer(made, table.schema, WriterOptions())
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()
        write_whole(location, made.read_bytes())

"""The task of `verify`: check every frame, every value and every statistic of some row groups of one file.

Each bucket is checked by itself, so that one broken bucket does not hide the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError
from smalti.format.bucket import slot_has_checksum
from smalti.format.compression import has_checksum
from smalti.format.index import MONOLITHIC
from smalti.format.statistics import StatisticsRecord
from smalti.io import Location, Source, open_source
from smalti.memory import asked_limit, most_memory
from smalti.moments import scalar_text
from smalti.mosaic.bucket_cache import Bucket
from smalti.mosaic.columns import Columns, Projection
from smalti.mosaic.scan import Scanner
from smalti.mosaic.tail import read_tail
from smalti.progress import Report
from smalti.spec import SCHEMA_PREFIX_SIZE, Compression
from smalti.table.listing import open_found
from smalti.table.splits import Piece
from smalti.units import show_bytes, show_count


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    path: str
    reason: str
    row_group: int | None = None
    bucket: int | None = None
    column: str | None = None

    @classmethod
    def of(cls, path: str, error: MosaicError) -> Problem:
        """The problem an error speaks of; the parts of its place that a problem lacks stay in the text."""
        place = {part: value for part, value in error.place.items() if part != "path"}
        row_group, bucket, column = (place.pop(part, None) for part in ("row_group", "bucket", "column"))
        text = str(MosaicError(error.reason, found=error.found, expected=error.expected, **place))
        return cls(path, text, row_group, bucket, None if column is None else str(column))

    def __str__(self) -> str:
        if self.reason.startswith(self.path):  # The error of a file of another format is a whole sentence.
            return self.reason
        parts = [("row group", self.row_group), ("bucket", self.bucket), ("column", self.column)]
        place = ", ".join([self.path, *(f"{name} {value!r}" for name, value in parts if value is not None)])
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class FileReport:
    """What was found in one file.

    Attributes
    ----------
    frames, checksums : int
        zstd frames that were decoded, and those of them that carried a checksum to compare with.
    statistics : int
        Records of statistics that were compared with the values.
    """

    path: str
    num_bytes: int
    num_rows: int = 0
    num_columns: int = 0
    num_row_groups: int = 0
    frames: int = 0
    checksums: int = 0
    statistics: int = 0
    problems: tuple[Problem, ...] = ()
    #: Stored columns of which something cannot be read.
    lost: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __add__(self, other: FileReport) -> FileReport:
        """The report on two parts of the same file; what both found out about the file as a whole stays single."""
        counts = ("num_rows", "num_row_groups", "frames", "checksums", "statistics")
        return replace(
            self,
            num_columns=max(self.num_columns, other.num_columns),
            problems=tuple(dict.fromkeys(self.problems + other.problems)),
            lost=tuple(dict.fromkeys(self.lost + other.lost)),
            **{name: getattr(self, name) + getattr(other, name) for name in counts},
        )

    @property
    def readable(self) -> str:
        """How many columns can be read, and the names of those that cannot."""
        if not self.num_columns:
            return f"{self.path}: nothing is readable"
        more = len(self.lost) - MAX_LOST
        shown = ", ".join(self.lost[:MAX_LOST]) + (f" and {more:,} more" if more > 0 else "")
        count = f"{self.num_columns - len(self.lost):,} of {show_count(self.num_columns, 'column')} are readable"
        return f"{self.path}: {count}" + (f"; lost: {shown}" if self.lost else "")

    def __str__(self) -> str:
        if self.problems:
            return "\n".join([*map(str, self.problems), self.readable])
        return (
            f"{self.path}: ok: {show_count(self.num_rows, 'row')}, {show_count(self.num_columns, 'column')}, "
            f"{show_bytes(self.num_bytes)}, {show_count(self.frames, 'frame')} ({self.checksums:,} with checksum), "
            f"{show_count(self.statistics, 'statistic')}"
        )


#: The most columns that are named as lost.
MAX_LOST = 20


@dataclass(frozen=True)
class CheckTask:
    """Some row groups of one file; the first task of a file also counts the frame of the schema block."""

    filesystem: FileSystem
    piece: Piece
    first: bool = True


def check(task: CheckTask, report: Report) -> FileReport:
    """Read everything the task names, and compare whatever the file says twice."""
    file = task.piece.file
    try:
        with contextlib.closing(open_found(file, task.filesystem)) as source:
            return _check(_Decoder(source), task, report)
    except MosaicError as error:
        return FileReport(file.path, file.size, problems=(Problem.of(file.path, error),))


class _Decoder:
    """Decodes the columns of a file, bucket by bucket."""

    def __init__(self, source: Source) -> None:
        self.tail = read_tail(source)[0]
        # A bucket is decoded whole, which may take more of a good file than a read of it would be allowed to.
        self.scanner = Scanner(source, self.tail, asked_limit() or most_memory())
        self._columns, names = Columns(self.tail.schema), self.tail.schema.names()
        by_bucket = (names[slice(*self.tail.schema.bucket_columns(bucket))] for bucket in self.tail.buckets)
        self.buckets = [self._columns.project(inside) for inside in by_bucket]

    def decode(self, group: int, columns: Projection, fetched: Sequence[Bucket] | None = None) -> pa.RecordBatch:
        """Decode columns of a row group, and check the arrays that they become."""
        fetched = self.scanner.buckets.fetch(group, columns.buckets) if fetched is None else fetched
        batch = self.scanner.decode(group, columns, fetched, Allowance(self.scanner.memory_limit))
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise MosaicError(f"decoded values are not valid Arrow: {error}") from None
        return batch

    def unreadable(self, group: int, names: Sequence[str]) -> dict[str, str]:
        """The columns of a bucket that cannot be decoded one by one, with the reasons.

        Slots of a paged bucket are independent of each other. A block is inflated whole, or not at all; if its content
        is broken, the columns before the break can be read.
        """
        lost: dict[str, str] = {}
        for name in names:
            try:
                self.decode(group, self._columns.project([name]))
            except MosaicError as error:
                lost[name] = str(error)
        return lost


def unreadable_columns(location: Location) -> dict[str, str]:
    """The stored columns of a file of which something cannot be read, with the reasons."""
    lost: dict[str, str] = {}
    with contextlib.closing(open_source(location.path, location.filesystem)) as source:
        file = _Decoder(source)
        for group in range(file.tail.footer.num_row_groups):
            for columns in file.buckets:
                try:
                    file.decode(group, columns)
                except MosaicError:
                    lost |= file.unreadable(group, columns.schema.names)
    return lost


def _check(file: _Decoder, task: CheckTask, report: Report) -> FileReport:
    tail, piece, is_compressed = file.tail, task.piece, file.tail.footer.compression is Compression.ZSTD
    groups = range(tail.footer.num_row_groups) if piece.row_groups is None else piece.row_groups
    errors: list[MosaicError] = []
    lost: dict[str, None] = {}
    statistics = 0
    checksums: list[bool] = []  # of every zstd frame, whether it has one
    if task.first and is_compressed:
        head = file.scanner.buckets.source.read_at(tail.footer.schema_offset + SCHEMA_PREFIX_SIZE, 18)
        checksums.append(has_checksum(head))
    for group in groups:
        records = {record.column: record for record in tail.statistics(group)}
        for bucket, columns in enumerate(file.buckets):
            try:
                fetched = file.scanner.buckets.fetch(group, columns.buckets)
                if is_compressed:
                    checksums += _frame_checksums(fetched[0])
                batch = file.decode(group, columns, fetched)
                first = columns.buckets[0].physical.first_column
                for position, (field, array) in enumerate(zip(columns.schema, batch.columns, strict=True), first):
                    if position in records:
                        statistics += 1
                        for reason in _wrong_statistics(records[position], array):
                            errors.append(MosaicError(reason, row_group=group, bucket=bucket, column=field.name))
            except MosaicError as error:
                errors.append(error.locate(row_group=group, bucket=bucket))
                lost |= dict.fromkeys(file.unreadable(group, columns.schema.names))
        report(tail.index.rows(group), piece.num_bytes // len(groups))
    return FileReport(
        piece.file.path,
        piece.file.size,
        sum(tail.index.rows(group) for group in groups),
        tail.schema.num_columns,
        len(groups),
        len(checksums),
        sum(checksums),
        statistics,
        tuple(Problem.of(piece.file.path, error) for error in errors),
        tuple(lost),
    )


def _frame_checksums(bucket: Bucket) -> list[bool]:
    """Whether each zstd frame of a bucket carries a checksum; what is wrong with a frame, decoding tells."""
    if bucket.entry.mode == MONOLITHIC:
        return [has_checksum(bucket.data)]
    return [slot_has_checksum(slot) for slot in bucket.slots.values() if len(slot)]


def _wrong_statistics(record: StatisticsRecord, array: pa.Array) -> Iterator[str]:
    """How a record differs from the values; bounds of NaN say nothing and are never wrong."""
    if record.null_count != array.null_count:
        yield f"statistics count {record.null_count} nulls, there are {array.null_count}"
    if record.low is None or record.high is None:
        if array.null_count < len(array):
            yield "statistics have no bounds, but there are values"
        return
    true = pc.min_max(array)
    for what, told, found in zip(("minimum", "maximum"), record.bounds(array.type), true.values(), strict=True):
        if told.is_valid and not (found.is_valid and _are_equal(told, found)):
            yield f"statistics have {what} {scalar_text(told)}, it is {scalar_text(found)}"


def _are_equal(one: pa.Scalar, other: pa.Scalar) -> bool:
    """Whether two values of one type are equal. Arrow has no function for decimals of negative scale."""
    return one.equals(other) if pa.types.is_decimal(one.type) else bool(pc.equal(one, other).as_py())

"""The task of `verify`: every frame, every value and every statistic of some row groups of one file.

Each bucket is judged on its own, so that one broken frame does not hide the next.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from smalti.errors import MosaicError
from smalti.file.row_groups import RowGroupReader
from smalti.file.tail import Tail, read_tail
from smalti.format.bucket import parse_directory
from smalti.format.statistics import raw_value, to_scalar
from smalti.io import Source, open_source
from smalti.jobs.events import Report
from smalti.jobs.summary import show_value
from smalti.spec import Compression


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    path: str
    reason: str
    row_group: int | None = None
    bucket: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        parts = [("row group", self.row_group), ("bucket", self.bucket), ("column", self.column)]
        place = ", ".join([self.path, *(f"{name} {value!r}" for name, value in parts if value is not None)])
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class CheckTask:
    """Row groups of one file; those of the first part also check what belongs to the file as a whole."""

    filesystem: Any
    path: str
    num_bytes: int
    row_groups: tuple[int, ...]
    first: bool = True


@dataclass(frozen=True)
class CheckResult:
    path: str
    num_rows: int = 0
    num_columns: int = 0
    num_row_groups: int = 0
    frames: int = 0
    checksums: int = 0
    statistics: int = 0
    problems: tuple[Problem, ...] = ()


def check(task: CheckTask, report: Report) -> CheckResult:
    """Read everything, believe nothing."""
    try:
        source = open_source(task.path, task.filesystem)
    except MosaicError as error:
        return CheckResult(task.path, problems=(as_problem(task.path, error),))
    try:
        return _Checker(source, task).run(report)
    except MosaicError as error:
        return CheckResult(task.path, problems=(as_problem(task.path, error),))
    finally:
        source.close()


def as_problem(path: str, error: MosaicError) -> Problem:
    """An error as a problem; what the problem's own place lacks (section, offset) stays in its text."""
    place = dict(error.place)
    place.pop("path", None)
    row_group, bucket, column = (place.pop(part, None) for part in ("row_group", "bucket", "column"))
    text = str(MosaicError(error.reason, found=error.found, expected=error.expected, **place))
    return Problem(path, text, row_group, bucket, None if column is None else str(column))


class _Checker:
    def __init__(self, source: Source, task: CheckTask) -> None:
        self._source = source
        self._task = task
        self._tail: Tail = read_tail(source)[0]
        self._reader = RowGroupReader(source, self._tail)
        self._names = self._tail.schema.names()
        self._problems: list[Problem] = []
        self._frames = self._checksums = self._statistics = 0

    def run(self, report: Report) -> CheckResult:
        schema, index = self._tail.schema, self._tail.index
        if self._task.first:
            self._check_file()
        rows = 0
        for group in self._task.row_groups:
            records = {record[0]: record for record in index.statistics(group)}
            for bucket in range(schema.num_buckets if schema.num_columns else 0):
                try:
                    self._check_bucket(group, bucket, records)
                except MosaicError as error:
                    self._problems.append(as_problem(self._task.path, error.locate(row_group=group, bucket=bucket)))
            rows += index.rows(group)
            report(index.rows(group), self._task.num_bytes // max(1, len(self._task.row_groups)))
        return CheckResult(
            self._task.path,
            rows,
            schema.num_columns,
            len(self._task.row_groups),
            self._frames,
            self._checksums,
            self._statistics,
            tuple(self._problems),
        )

    def _check_file(self) -> None:
        """What the strict index does not say: whether buckets overlap."""
        schema, index = self._tail.schema, self._tail.index
        taken = []
        for group in range(index.num_row_groups):
            for bucket in range(schema.num_buckets if schema.num_columns else 0):
                entry = index.bucket(group, bucket)
                if entry is not None and entry[1]:
                    taken.append((entry[0], entry[1], group, bucket))
        taken.sort()
        for (offset, size, *_), (following, _, group, bucket) in itertools.pairwise(taken):
            if offset + size > following:
                self._add("bucket overlaps the one before it in the file", group, bucket)
        if self._tail.footer.compression is Compression.ZSTD:
            section = self._source.read_at(self._tail.footer.schema_offset + 4, 18)
            self._count(section)

    def _check_bucket(self, group: int, bucket: int, records: dict[int, Any]) -> None:
        entry = self._tail.index.bucket(group, bucket)
        if entry is not None and self._tail.footer.compression is Compression.ZSTD:
            for frame in self._frames_of(bucket, *entry):
                self._count(frame)
        first, stop = self._tail.schema.bucket_columns(bucket)
        positions = list(range(first, stop))
        names = self._names[first:stop]
        schema = pa.Schema._import_from_c_capsule(self._tail.schema.arrow_schema(positions, names))
        batch = self._reader.read(group, positions, schema)
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            self._add(f"decoded values are not valid Arrow: {error}", group, bucket)
            return
        for position, field, array in zip(positions, schema, batch.columns, strict=True):
            if not field.nullable and array.null_count:
                self._add(f"{array.null_count} nulls in a column that has none", group, bucket, field.name)
            record = records.get(position)
            if record is not None:
                self._statistics += 1
                for reason in self._wrong(position, record, array):
                    self._add(reason, group, bucket, field.name)

    def _frames_of(self, bucket: int, offset: int, size: int, bulk_size: int) -> Iterator[bytes]:
        """The first bytes of each zstd frame of a bucket."""
        data = self._source.read_at(offset, size)
        if bulk_size:
            yield data[:18]
            return
        nodes = self._tail.schema.bucket_nodes(bucket)
        for at, slot in parse_directory(data, nodes, size).slots:
            if slot:
                skip = 0  # past the varint of the page's size
                while skip < 5 and at + skip < size and data[at + skip] >= 0x80:
                    skip += 1
                yield data[at + skip + 1 : at + skip + 19]

    def _count(self, head: bytes) -> None:
        self._frames += 1
        with contextlib.suppress(zstandard.ZstdError):  # decoding says what is wrong with it
            self._checksums += bool(zstandard.get_frame_parameters(head).has_checksum)

    def _wrong(self, position: int, record: Any, array: pa.Array) -> Iterator[str]:
        """How a record of statistics differs from the values; bounds of NaN say nothing and are never wrong."""
        _, null_count, low, high = record
        if null_count != array.null_count:
            yield f"statistics count {null_count} nulls, there are {array.null_count}"
        if low is None or high is None:
            if array.null_count < len(array):
                yield "statistics have no bounds, but there are values"
            return
        type_id, _, precision, _ = self._tail.schema.descriptor(position)
        bounds = pc.min_max(array)
        for what, raw, true in (("minimum", low, bounds["min"]), ("maximum", high, bounds["max"])):
            told = to_scalar(raw_value(type_id, precision, raw), array.type)
            if told.is_valid and not (true.is_valid and pc.equal(told, true).as_py()):
                yield f"statistics have {what} {show_value(told)}, it is {show_value(true)}"

    def _add(self, reason: str, group: int, bucket: int, column: str | None = None) -> None:
        self._problems.append(Problem(self._task.path, reason, group, bucket, column))

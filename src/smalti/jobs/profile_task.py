"""The task of `profile`: measure each column of some row groups, in a form that can be merged with other parts."""

from __future__ import annotations

import contextlib
import hashlib
import math
import zlib
from array import array as number_array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyarrow.fs import FileSystem

import smalti
from smalti._compat.arrow import min_max
from smalti.errors import MosaicError, SchemaError
from smalti.io.locations import Location
from smalti.jobs._sketch import REGISTERS, add_fixed, add_variable, merge
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.request import ReadRequest, SchemaDrift, content_errors
from smalti.jobs.formats.text import scan_types
from smalti.logical.adapt import widen_array
from smalti.logical.arrays import from_stored
from smalti.logical.intake import Intake
from smalti.logical.types import keeps_units, storage_kind, storage_type
from smalti.logical.widen import widen
from smalti.moments import TICKS
from smalti.mosaic.layout import ColumnBytes
from smalti.progress import Report
from smalti.table.listing import location_of
from smalti.table.splits import Piece

#: Values of a column that its histogram is drawn from, and how many bars it has.
MAX_SAMPLE, BINS = 512, 16
#: The sampled values of all columns together, if there are many columns; and the least that a column gets, over all
#: tasks and from each task.
MAX_SAMPLES, LEAST_SAMPLE, LEAST_SHARE = 1 << 20, 64, 16
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class MeasureTask:
    """A piece of a source to measure, one of `pieces` of its file. It is task `number` of `tasks`.

    With `layout`, encodings and bytes of the whole Mosaic file are added.
    """

    filesystem: FileSystem
    piece: Piece
    request: ReadRequest
    layout: bool
    pieces: int
    number: int
    tasks: int


@dataclass
class ColumnMeasure:
    """What is known of one column so far.

    `given` is the type that the values were written with, `type` the one that they are measured in: the stored one,
    unless that has lost a unit, as for durations.
    `first` tells where the column was seen first: the number of the task, the index of the column, the path.
    `limit` is how large its sample may become, `share` how large that of one task.
    `bounds` are the least and the greatest value, of each batch until `pack` makes an Array of them. `registers` are
    those of the estimate of distinct values, compressed on their way from one process to another. They are None for
    types without an estimate (arrays, maps, booleans), and as long as there are no values.
    """

    given: pa.DataType
    first: tuple[int, int, str]
    limit: int = MAX_SAMPLE
    share: int = MAX_SAMPLE
    rows: int = 0
    nulls: int = 0
    bounds: Any = field(default_factory=list)
    registers: bytearray | bytes | None = None
    #: The value of every `every`-th row, for the histogram: numbers and moments as floats, thinned out when there are
    #: too many.
    sample: number_array[float] = field(default_factory=lambda: number_array("d"))
    every: int = 1
    #: Its bytes in Mosaic files, without their digests.
    stored: ColumnBytes = field(default_factory=ColumnBytes)
    #: What tells by the stored bytes of each file whether columns are equal; None for a file that does not tell.
    digests: dict[str, bytes | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.type = _measured_type(self.given)

    def add(self, array: pa.Array) -> None:
        """Take in the values of a batch."""
        if has_histogram(self.type):
            self._add_sample(array)
        self.rows += len(array)
        self.nulls += array.null_count
        if pt.is_nested(self.type) or array.null_count == len(array):
            return
        self.bounds.append(_ends(array))
        if pt.is_boolean(self.type):
            return  # The bounds are all the values there are.
        registers = self.unpack()
        addresses = [0 if buffer is None else buffer.address for buffer in array.buffers()]
        validity = addresses[0] if array.null_count else 0
        if pt.is_string(self.type) or pt.is_binary(self.type):
            add_variable(registers, addresses[1], addresses[2], validity, array.offset, len(array))
        else:
            width, is_float = self.type.bit_width // 8, pt.is_floating(self.type)
            ticks = TICKS[_unit(self.type)] if _has_ticks(self.type) else 0
            add_fixed(registers, addresses[1], width, validity, array.offset, len(array), is_float, ticks)

    def _add_sample(self, array: pa.Array) -> None:
        every = self.every
        while len(array) // every > self.share:
            every *= 2
        self._thin(every)
        taken = array.take(pa.array(range(-self.rows % every, len(array), every), pa.int64())).drop_null()
        self.sample.extend(_as_floats(taken))
        self._fit_sample(self.share)

    def _fit_sample(self, most: int) -> None:
        while len(self.sample) > most:
            self._thin(self.every * 2)

    def _thin(self, every: int) -> None:
        """Keep the value of every `every`-th row only, which is the present number times a power of two."""
        self.sample = self.sample[:: every // self.every]
        self.every = every

    def pack(self) -> None:
        """Make one array of the bounds of all batches. Unlike Arrow's scalars it can be pickled, whatever it holds."""
        none = pa.array([], self.type)
        self.bounds = self.bounds[0] if len(self.bounds) == 1 else _ends(pa.concat_arrays([none, *self.bounds]))

    def __getstate__(self) -> dict[str, Any]:
        packed = zlib.compress(self.registers, 1) if isinstance(self.registers, bytearray) else self.registers
        return vars(self) | {"registers": packed}

    def unpack(self) -> bytearray:
        """The registers, ready to be added to."""
        if not isinstance(self.registers, bytearray):
            self.registers = bytearray(zlib.decompress(self.registers) if self.registers else REGISTERS)
        return self.registers

    def merge(self, other: ColumnMeasure) -> None:
        """Take in what another part of the same column knows, after `pack`."""
        given = self.given if self.given == other.given else widen(self.given, other.given)
        if given is None:
            earlier, later = sorted([self, other], key=lambda measure: measure.first)
            raise SchemaError(
                "files disagree on the type of a column",
                path=later.first[2],
                found=str(later.given),
                expected=str(earlier.given),
            )
        both = self.type if given == self.given else _measured_type(given)
        every = max(self.every, other.every)
        self.bounds = _ends(pa.concat_arrays([widen_array(each.bounds, pa.field("", both)) for each in (self, other)]))
        samples = [each.sample[:: every // each.every] for each in (self, other)]
        self.given, self.type, self.first, self.every = given, both, min(self.first, other.first), every
        self.limit = min(self.limit, other.limit)
        self.sample = samples[0] + samples[1]
        self._fit_sample(self.limit)
        self.rows += other.rows
        self.nulls += other.nulls
        self.stored.add(other.stored)
        self.digests |= other.digests
        if other.registers is not None:
            merge(self.unpack(), other.unpack())


def _measured_type(given: pa.DataType) -> pa.DataType:
    stored = storage_type(given)
    return given if pt.is_null(given) or not keeps_units(given, stored) else stored


def _has_ticks(type_: pa.DataType) -> bool:
    """Whether values of a type are equal to values of another unit."""
    return pt.is_duration(type_) or pt.is_time64(type_)


def _unit(type_: Any) -> str:
    return str(type_.unit)


def has_histogram(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_) or pt.is_temporal(type_))


def _as_floats(array: pa.Array) -> list[float]:
    """The values that are numbers, or numbers of days or ticks; of types whose unit may differ, in seconds."""
    ticks = TICKS[_unit(array.type)] if _has_ticks(array.type) else 1
    if pt.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    found = array.cast(pa.float64(), safe=False).to_pylist()
    return [value / ticks for value in found if value is not None and math.isfinite(value)]


def histogram(sample: Sequence[float]) -> str | None:
    """How values spread from the smallest to the largest, as `BINS` bars of text; None if they do not.

    Examples
    --------
    >>> histogram([1.0, 1.0, 1.0, 2.0]), histogram([5.0])
    ('█              ▃', None)
    """
    low, high = min(sample, default=0.0), max(sample, default=0.0)
    if not high > low or not math.isfinite(high - low):
        return None
    counts = [0] * BINS
    for value in sample:
        counts[min(BINS - 1, int((value - low) / (high - low) * BINS))] += 1
    return "".join(BARS[-(-count * (len(BARS) - 1) // max(counts))] for count in counts)


def _ends(values: Any) -> Any:
    """The least and the greatest of some values, as an array of two; of none if there is none."""
    if len(values) <= values.null_count:
        return values.slice(0, 0)
    return min_max(values)


@dataclass
class Measure:
    """What is known of a file of which `measured` of `pieces` were measured, or an error; or of many files."""

    pieces: int = 0
    measured: int = 0
    num_rows: int = 0
    columns: dict[str, ColumnMeasure] = field(default_factory=dict)
    error: MosaicError | None = None

    def merge(self, other: Measure) -> None:
        self.measured += other.measured
        self.num_rows += other.num_rows
        self.error = self.error or other.error
        for name, column in other.columns.items():
            try:
                if self.columns.setdefault(name, column) is not column:
                    self.columns[name].merge(column)
            except MosaicError as error:
                self.error = self.error or error.locate(column=name)


#: The key of all files that were measured to the end, together. Other files, and files with an error, have their paths.
WHOLE = ""


def combine(one: dict[str, Measure], other: dict[str, Measure]) -> dict[str, Measure]:
    """What two results know together. The order in which results are combined does not matter, but for samples."""
    for path, part in other.items():
        known = one.setdefault(path, part)
        if known is not part:
            known.merge(part)
        if path == WHOLE:
            continue
        if known.error is not None:
            known.columns = {}  # If a part of a file failed, the whole file is left out.
        elif known.measured == known.pieces:
            one.setdefault(WHOLE, Measure()).merge(one.pop(path))
    return one


def measure(task: MeasureTask, report: Report) -> dict[str, Measure]:
    """Measure every column of a piece; an error about data is a part of the result."""
    location, format_ = location_of(task.piece.file, task.filesystem), FORMATS[task.piece.format]
    part = Measure(task.pieces, 1)
    try:
        with content_errors(location.path, format_.title):
            try:
                part.num_rows, part.columns = _measure(task, location, task.request, report)
            except SchemaDrift:
                types = scan_types(location, format_, task.request)
                part.num_rows, part.columns = _measure(task, location, replace(task.request, agreed=types), report)
    except MosaicError as error:
        part.error = error
    return combine({}, {location.path: part})


def _measure(
    task: MeasureTask, location: Location, request: ReadRequest, report: Report
) -> tuple[int, dict[str, ColumnMeasure]]:
    with contextlib.closing(FORMATS[task.piece.format].reader(location, request)) as reader:
        intake = Intake(reader.schema, keeps_dictionaries=False)
        limit = min(MAX_SAMPLE, max(LEAST_SAMPLE, MAX_SAMPLES // max(1, len(intake.schema))))
        share = min(limit, max(LEAST_SHARE, 2 * limit // task.tasks))
        columns = {
            field.name: ColumnMeasure(
                storage_kind(intake.given_type(field.name) or field.type),
                (task.number, at, location.path),
                limit,
                share,
            )
            for at, field in enumerate(intake.schema)
        }
        rows = 0
        for batch, num_bytes in reader.batches():
            for piece in intake.conform(batch):
                for column, array in zip(columns.values(), piece.columns, strict=True):
                    column.add(from_stored(array, column.type))
            rows += batch.num_rows
            report(batch.num_rows, num_bytes)
    if task.layout:
        _add_layout(location, columns)
    for column in columns.values():
        column.pack()
    return rows, columns


def _add_layout(location: Location, columns: dict[str, ColumnMeasure]) -> None:
    """Add encodings and bytes."""
    with smalti.open(location.path, filesystem=location.filesystem) as file:
        found = file.layout().bytes_by_column()
    for name in columns.keys() & found.keys():
        column, digest = columns[name], found[name].digest
        column.stored = replace(found[name], digest=None)
        column.digests[location.path] = digest and hashlib.blake2b(digest, digest_size=16).digest()

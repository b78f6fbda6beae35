"""The task of `profile`: measure each column of some row groups, in a form that can be merged with other parts."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow.fs import FileSystem

import smalti
from smalti.errors import MosaicError, SchemaError
from smalti.file.intake import Intake
from smalti.io.places import Place
from smalti.jobs._sketch import REGISTERS, add_fixed, add_variable, merge
from smalti.jobs.formats.reading import ReadRequest, SchemaDrift, content_errors
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.text import scan_types
from smalti.progress import Report
from smalti.table.listing import place_of
from smalti.table.partitions import repeat_value
from smalti.table.schemas import widen
from smalti.table.splits import Piece

#: Values of a column that its histogram is drawn from, and how many bars it has.
MAX_SAMPLE, BINS = 512, 16
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class MeasureTask:
    """A piece of a source to measure. With `layout`, encodings and bytes of the whole Mosaic file are added."""

    filesystem: FileSystem
    piece: Piece
    request: ReadRequest
    layout: bool


@dataclass
class ColumnMeasure:
    """What is known of one column so far.

    `registers` are those of the estimate of distinct values, in bytes once they are packed by `pack`. They are None for
    types without an estimate (arrays, maps, booleans), and as long as there are no values.
    """

    type: pa.DataType
    rows: int = 0
    nulls: int = 0
    bounds: list[pa.Scalar] = field(default_factory=list)
    registers: bytearray | bytes | None = None
    #: The value of every `every`-th row, for the histogram: numbers and moments as floats, thinned out when there are
    #: too many.
    sample: list[float] = field(default_factory=list)
    every: int = 1
    encodings: Counter[str] = field(default_factory=Counter)
    stored_bytes: int = 0
    raw_bytes: int = 0

    def add(self, array: pa.Array) -> None:
        """Take in the values of a batch."""
        if has_histogram(self.type):
            self._add_sample(array)
        self.rows += len(array)
        self.nulls += array.null_count
        if pt.is_nested(self.type) or array.null_count == len(array):
            return
        ends = pc.min_max(array)
        self.bounds += [ends["min"], ends["max"]]
        if pt.is_boolean(self.type):
            return  # The bounds are all the values there are.
        registers = self.unpack()
        addresses = [0 if buffer is None else buffer.address for buffer in array.buffers()]
        validity = addresses[0] if array.null_count else 0
        if pt.is_string(self.type) or pt.is_binary(self.type):
            add_variable(registers, addresses[1], addresses[2], validity, array.offset, len(array))
        else:
            add_fixed(registers, addresses[1], self.type.bit_width // 8, validity, array.offset, len(array))

    def _add_sample(self, array: pa.Array) -> None:
        every = self.every
        while len(array) // every > MAX_SAMPLE:
            every *= 2
        self._thin(every)
        taken = array.take(pa.array(range(-self.rows % every, len(array), every), pa.int64())).drop_null()
        self.sample += _as_floats(taken)
        while len(self.sample) > MAX_SAMPLE:
            self._thin(self.every * 2)

    def _thin(self, every: int) -> None:
        """Keep the value of every `every`-th row only, which is the present number times a power of two."""
        self.sample = self.sample[:: every // self.every]
        self.every = every

    def pack(self) -> None:
        """Make the measure small for its way to the driver: two bounds in all, and compressed registers."""
        if len(self.bounds) > 2:
            self.bounds = _ends(self.bounds, self.type)
        if isinstance(self.registers, bytearray):
            self.registers = zlib.compress(self.registers, 1)

    def unpack(self) -> bytearray:
        """The registers, ready to be added to."""
        if not isinstance(self.registers, bytearray):
            self.registers = bytearray(zlib.decompress(self.registers) if self.registers else REGISTERS)
        return self.registers

    def merge(self, other: ColumnMeasure) -> None:
        """Take in what another part of the same column knows."""
        both = widen(self.type, other.type)
        if both is None:
            raise SchemaError("files disagree on the type of a column", found=str(other.type), expected=str(self.type))
        self.type = both
        every = max(self.every, other.every)
        self._thin(every)
        self.sample += other.sample[:: every // other.every]
        self.rows += other.rows
        self.nulls += other.nulls
        self.bounds = _ends([*self.bounds, *other.bounds], both)
        self.encodings.update(other.encodings)
        self.stored_bytes += other.stored_bytes
        self.raw_bytes += other.raw_bytes
        if other.registers is not None:
            merge(self.unpack(), other.unpack())


def has_histogram(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_) or pt.is_temporal(type_))


def _as_floats(array: pa.Array) -> list[float]:
    if pt.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    found = array.cast(pa.float64(), safe=False).to_pylist()
    return [value for value in found if value is not None and math.isfinite(value)]


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


def _ends(scalars: Sequence[pa.Scalar], type_: pa.DataType) -> list[pa.Scalar]:
    if not scalars:
        return []
    values = pa.concat_arrays([repeat_value(scalar.cast(type_), 1) for scalar in scalars])
    ends = pc.min_max(values)
    return [ends["min"], ends["max"]]


@dataclass(frozen=True)
class MeasureResult:
    """The packed measures of a piece, by column."""

    num_rows: int
    columns: dict[str, ColumnMeasure]


def measure(task: MeasureTask, report: Report) -> MeasureResult | MosaicError:
    """Measure every column of a piece; an error about data is returned."""
    place, format_ = place_of(task.piece.file, task.filesystem), FORMATS[task.piece.format]
    try:
        with content_errors(place.path, format_.title):
            try:
                return _measure(task, place, task.request, report)
            except SchemaDrift:
                types = scan_types(place, format_, task.request)
                return _measure(task, place, replace(task.request, agreed=types), report)
    except MosaicError as error:
        return error


def _measure(task: MeasureTask, place: Place, request: ReadRequest, report: Report) -> MeasureResult:
    with contextlib.closing(FORMATS[task.piece.format].reader(place, request)) as reader:
        intake = Intake(reader.schema)
        columns = {field.name: ColumnMeasure(field.type) for field in intake.schema}
        rows = 0
        for batch, num_bytes in reader.batches():
            for piece in intake.conform(batch):
                for column, array in zip(columns.values(), piece.columns, strict=True):
                    column.add(array)
            rows += batch.num_rows
            report(batch.num_rows, num_bytes)
    if task.layout:
        _add_layout(place, columns)
    for column in columns.values():
        column.pack()
    return MeasureResult(rows, columns)


def _add_layout(place: Place, columns: dict[str, ColumnMeasure]) -> None:
    """Add encodings and bytes."""
    with smalti.open(place.path, filesystem=place.filesystem) as file:
        found = file.layout().bytes_by_column()
    for name in columns.keys() & found.keys():
        column, part = columns[name], found[name]
        column.stored_bytes += part.stored
        column.raw_bytes += part.unpacked
        column.encodings += part.encodings

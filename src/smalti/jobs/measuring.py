"""The task of `profile`: what can be said of each column of some row groups, in a form that merges."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

import smalti
from smalti.errors import MosaicError, SchemaError
from smalti.file.intake import Intake
from smalti.io.places import Place
from smalti.jobs._sketch import REGISTERS, add_fixed, add_variable, merge
from smalti.jobs.events import Report
from smalti.jobs.formats.reading import ReadRequest, SchemaDrift, reading
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.sampling import scan_all
from smalti.table.schemas import widen
from smalti.table.splits import Piece


@dataclass(frozen=True)
class MeasureTask:
    """A piece of a source; the first piece of a Mosaic file also looks at how the file is laid out."""

    filesystem: Any
    piece: Piece
    request: ReadRequest
    layout: bool


@dataclass
class ColumnMeasure:
    """What is known of one column so far. `registers` are None for types that are not compared (arrays, maps)."""

    type: pa.DataType
    rows: int = 0
    nulls: int = 0
    bounds: list[pa.Scalar] = field(default_factory=list)
    registers: bytearray | None = None
    encodings: Counter[str] = field(default_factory=Counter)
    stored_bytes: int = 0
    raw_bytes: int = 0

    def add(self, array: pa.Array) -> None:
        """Take in the values of a batch."""
        self.rows += len(array)
        self.nulls += array.null_count
        if pt.is_nested(self.type) or array.null_count == len(array):
            return
        ends = pc.min_max(array)
        self.bounds += [ends["min"], ends["max"]]
        if pt.is_boolean(self.type):
            return  # two values at most: the bounds tell
        if self.registers is None:
            self.registers = bytearray(REGISTERS)
        buffers = array.buffers()
        validity = buffers[0].address if buffers[0] is not None and array.null_count else 0
        if pt.is_string(self.type) or pt.is_binary(self.type):
            values = buffers[2].address if buffers[2] is not None else 0
            add_variable(self.registers, buffers[1].address, values, validity, array.offset, len(array))
        else:
            add_fixed(self.registers, buffers[1].address, self.type.bit_width // 8, validity, array.offset, len(array))

    def settle(self) -> None:
        """Bounds of many batches down to two values."""
        if len(self.bounds) > 2:
            self.bounds = _ends(self.bounds, self.type)

    def merge(self, other: ColumnMeasure) -> None:
        """Take in what another part of the same column knows."""
        both = widen(self.type, other.type)
        if both is None:
            raise SchemaError("files disagree on the type of a column", found=str(other.type), expected=str(self.type))
        self.type = both
        self.rows += other.rows
        self.nulls += other.nulls
        self.bounds = _ends([*self.bounds, *other.bounds], both)
        self.encodings.update(other.encodings)
        self.stored_bytes += other.stored_bytes
        self.raw_bytes += other.raw_bytes
        if other.registers is not None:
            if self.registers is None:
                self.registers = bytearray(REGISTERS)
            merge(self.registers, other.registers)


def _ends(scalars: Sequence[pa.Scalar], type_: pa.DataType) -> list[pa.Scalar]:
    if not scalars:
        return []
    values = pa.concat_arrays([pa.repeat(scalar.cast(type_), 1) for scalar in scalars])
    ends = pc.min_max(values)
    return [ends["min"], ends["max"]]


@dataclass(frozen=True)
class MeasureResult:
    """Measures by column, packed to travel; or what went wrong."""

    num_rows: int = 0
    names: tuple[str, ...] = ()
    measures: tuple[tuple[Any, ...], ...] = ()
    failure: MosaicError | None = None

    def columns(self) -> dict[str, ColumnMeasure]:
        return {name: _unpack(*packed) for name, packed in zip(self.names, self.measures, strict=True)}


def _unpack(*packed: Any) -> ColumnMeasure:
    measure = ColumnMeasure(*packed)
    if measure.registers is not None:
        measure.registers = bytearray(zlib.decompress(measure.registers))
    return measure


def _pack(measure: ColumnMeasure) -> tuple[Any, ...]:
    registers = None if measure.registers is None else zlib.compress(bytes(measure.registers), 1)
    return (
        measure.type,
        measure.rows,
        measure.nulls,
        measure.bounds,
        registers,
        measure.encodings,
        measure.stored_bytes,
        measure.raw_bytes,
    )


def measure(task: MeasureTask, report: Report) -> MeasureResult:
    """Measure every column of a piece."""
    format_ = FORMATS[task.piece.format]
    try:
        with reading(task.piece.file.path, format_.title):
            try:
                return _measure(task, report)
            except SchemaDrift:
                types = scan_all(task.filesystem, task.piece.file.path, format_, task.request)
                return _measure(replace(task, request=replace(task.request, types=types)), report)
    except MosaicError as error:
        return MeasureResult(failure=error)


def _measure(task: MeasureTask, report: Report) -> MeasureResult:
    place = Place(task.filesystem, task.piece.file.path)
    reader = FORMATS[task.piece.format].reader(place, task.request)
    try:
        intake = Intake(reader.schema)
        columns = {field.name: ColumnMeasure(field.type) for field in intake.schema}
        rows = 0
        for batch, num_bytes in reader.batches():
            for column, array in zip(columns.values(), intake.conform(batch).columns, strict=True):
                column.add(array)
            rows += batch.num_rows
            report(batch.num_rows, num_bytes)
    finally:
        reader.close()
    for column in columns.values():
        column.settle()
    if task.layout:
        _add_layout(place, columns)
    return MeasureResult(rows, tuple(columns), tuple(_pack(column) for column in columns.values()))


def _add_layout(place: Place, columns: dict[str, ColumnMeasure]) -> None:
    """Encodings and bytes of each column. Columns that were compressed together share the bytes by size."""
    with smalti.open(place.path, filesystem=place.filesystem) as file:
        layout = file.layout()
    for group in layout.row_groups:
        for bucket in group.buckets:
            whole = sum(part.size for part in bucket.columns) or 1
            for part in bucket.columns:
                column = columns.get(part.name)
                if column is None:
                    continue
                stored = part.stored_size if part.stored_size is not None else bucket.size * part.size // whole
                column.stored_bytes += stored
                column.raw_bytes += part.size
                if part.path == part.name:
                    column.encodings[part.encoding] += 1

"""Writers: one file from batches, on any file system. The job decides where the file is and when readers see it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.file.casting import contains_kind
from smalti.file.plain import json_lines
from smalti.file.writer import MosaicWriter
from smalti.io.places import Place
from smalti.moments import FIRST_HIDDEN, FIRST_SHOWN, in_seconds, scalar_text
from smalti.nesting import with_entry
from smalti.options import WriterOptions
from smalti.table.adapt import adapt_batch
from smalti.types import is_list_like, storage_type

#: Arrow bytes gathered for a row group of Parquet or a stripe of ORC.
GROUP_BYTES = 64 << 20


class FileWriter(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    @property
    def estimated_size(self) -> int: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class MosaicFileWriter(MosaicWriter):
    """Mosaic, without copies of batches: jobs change no batch once it is made."""

    def __init__(self, place: Place, schema: pa.Schema, options: WriterOptions) -> None:
        super().__init__(place.path, schema, options, filesystem=place.filesystem)

    def write(self, batch: pa.RecordBatch, *, copy: bool | None = False) -> None:
        super().write(batch, copy=copy)


class LibraryWriter(Protocol):
    """A writer of pyarrow that is open on a stream."""

    def write(self, table: pa.Table, /) -> None: ...

    def close(self) -> None: ...


def _has_negative_scale(type_: Any) -> bool:
    return pt.is_decimal(type_) and type_.scale < 0


def _is_empty_struct(type_: Any) -> bool:
    return pt.is_struct(type_) and not type_.num_fields


def _is_of_no_bytes(type_: Any) -> bool:
    return pt.is_fixed_size_binary(type_) and not type_.byte_width


class StreamWriter:
    """What writers over other libraries have in common: an output stream, and rows gathered before they are written."""

    #: The format for people, and which types it has no place for, anywhere in a column.
    _TITLE = ""
    _LACKS: tuple[Callable[[Any], bool], ...] = ()
    #: Arrow bytes to gather before they are written; 0 writes batch by batch.
    _GATHER = 0
    #: Whether values are written as the types that Mosaic would store them as, because the format has no others.
    _PLAIN_TYPES = False

    def __init__(self, place: Place, schema: pa.Schema, options: WriterOptions) -> None:  # noqa: ARG002
        self._place = place
        self._schema = pa.schema([plain_field(field) for field in schema]) if self._PLAIN_TYPES else self._held(schema)
        self._check()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._stream = place.filesystem.open_output_stream(place.path, compression="detect")
        #: None for a format that is written to the stream without a library.
        self._writer: LibraryWriter | None = None
        self._open()

    def _check(self) -> None:
        """Refuse types that the format cannot hold, with the name of the column, before a library meets them."""
        for field in self._schema:
            if any(contains_kind(field.type, is_kind) for is_kind in self._LACKS):
                reason = f"{self._TITLE} has no place for this type"
                raise SchemaError(reason, column=field.name, found=str(field.type))

    def _held(self, schema: pa.Schema) -> pa.Schema:
        """The schema that is written."""
        return schema

    def _open(self) -> None:
        """Set `_writer`, for a format that is written by a library."""

    def _put(self, table: pa.Table) -> None:
        assert self._writer is not None
        self._writer.write(table)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.get_total_buffer_size() if self._GATHER else 0
        if self._waiting_bytes >= self._GATHER:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._put(
                pa.Table.from_batches([adapt_batch(batch, self._schema) for batch in self._waiting], self._schema)
            )
            self._waiting, self._waiting_bytes = [], 0

    @property
    def estimated_size(self) -> int:
        return int(self._stream.tell()) + self._waiting_bytes // 4

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()
        self._stream.close()
        self._place.sync()

    def abort(self) -> None:
        with contextlib.suppress(pa.ArrowException, OSError):  # Some writers complain later if they are not closed.
            if self._writer is not None:
                self._writer.close()
        self._stream.close()


class ParquetFileWriter(StreamWriter):
    """Parquet with zstd, which is also what Mosaic files have; a row group for each gathered table."""

    _TITLE, _LACKS = "Parquet", (_has_negative_scale, pt.is_run_end_encoded, _is_empty_struct, _is_of_no_bytes)
    _GATHER = GROUP_BYTES

    def _held(self, schema: pa.Schema) -> pa.Schema:
        """Durations by themselves: Arrow's reader of Parquet takes those in a dictionary for numbers without unit."""
        held = pa.schema([_without_dictionaries(field, _has_durations) for field in schema])
        return held.with_metadata(schema.metadata or {})

    def _open(self) -> None:
        import pyarrow.parquet as pq

        self._writer = self._parquet = pq.ParquetWriter(self._stream, self._schema, compression="zstd")

    def _put(self, table: pa.Table) -> None:
        self._parquet.write_table(table, row_group_size=max(1, table.num_rows))


class OrcFileWriter(StreamWriter):
    """ORC with zstd. A file without rows keeps its schema. Its library ends the process at a negative scale."""

    _TITLE, _LACKS = "ORC", (_has_negative_scale, pt.is_time)
    _GATHER = GROUP_BYTES
    _PLAIN_TYPES = True
    _wrote = False

    def _open(self) -> None:
        from pyarrow import orc

        self._writer = orc.ORCWriter(self._stream, compression="ZSTD")

    def _put(self, table: pa.Table) -> None:
        super()._put(table)
        self._wrote = True

    def close(self) -> None:
        if not self._waiting and not self._wrote:
            self._put(self._schema.empty_table())
        super().close()


class ArrowFileWriter(StreamWriter):
    """Arrow IPC, file format."""

    def _open(self) -> None:
        self._writer = pa.ipc.new_file(self._stream, self._schema)


class ArrowStreamWriter(StreamWriter):
    """Arrow IPC, stream format."""

    def _open(self) -> None:
        self._writer = pa.ipc.new_stream(self._stream, self._schema)


class CsvFileWriter(StreamWriter):
    """CSV with a header. A null is an empty field, an empty string is `""`."""

    _TITLE, _LACKS = "CSV", (pt.is_nested, pt.is_binary)
    _PLAIN_TYPES = True

    def _open(self) -> None:
        from pyarrow import csv

        self._writer = csv.CSVWriter(self._stream, self._schema)  # type: ignore[arg-type]

    def _put(self, table: pa.Table) -> None:
        for field, column in zip(table.schema, table.columns, strict=True):
            if pt.is_date(field.type) or pt.is_timestamp(field.type):
                for end in pc.min_max(column).values():  # Arrow would write that a value is out of range.
                    if end.is_valid and not FIRST_SHOWN <= in_seconds(end) < FIRST_HIDDEN:
                        reason = "CSV is written up to the year 32767"
                        raise SchemaError(reason, column=field.name, found=scalar_text(end))
        super()._put(table)


class JsonFileWriter(StreamWriter):
    """JSON lines; `smalti.file.plain` says what becomes of the types that JSON lacks."""

    def _put(self, table: pa.Table) -> None:
        lines = list(json_lines(table.to_batches()))
        if lines:
            self._stream.write(("\n".join(lines) + "\n").encode())


def plain_field(field: pa.Field) -> pa.Field:
    """The field with the types that Mosaic would store it as, structs excepted, and no metadata."""
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(type_: Any) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return _plain_type(type_.storage_type)
    if pt.is_struct(type_):
        return pa.struct([plain_field(field) for field in type_])
    if is_list_like(type_):
        return pa.list_(plain_field(type_.value_field))
    if pt.is_map(type_):
        plain: pa.DataType = pa.map_(plain_field(type_.key_field), plain_field(type_.item_field))  # type: ignore[call-overload]
        return plain
    return storage_type(type_)


def _has_durations(type_: Any) -> bool:
    return bool(pt.is_dictionary(type_) and pt.is_duration(type_.value_type))


def _without_dictionaries(field: pa.Field, is_kind: Callable[[Any], bool]) -> pa.Field:
    """The field with the values of some dictionaries by themselves; extension types around these are taken off."""
    type_: Any = field.type
    if not contains_kind(type_, is_kind):
        return field
    if isinstance(type_, pa.BaseExtensionType):
        return _without_dictionaries(field.with_type(type_.storage_type), is_kind)
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return field.with_type(type_.value_type)
    if pt.is_struct(type_):
        return field.with_type(pa.struct([_without_dictionaries(part, is_kind) for part in type_]))
    if pt.is_map(type_):
        key, item = (_without_dictionaries(part, is_kind) for part in (type_.key_field, type_.item_field))
        return field.with_type(pa.map_(key, item, type_.keys_sorted))
    return field.with_type(with_entry(type_, _without_dictionaries(type_.value_field, is_kind)))

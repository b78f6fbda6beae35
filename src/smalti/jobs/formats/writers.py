"""Writers: one file from batches, on any file system. The job decides where the file is and when readers see it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import empty_table, has_negative_scale, loses_unit
from smalti.errors import SchemaError
from smalti.file.writer import MAX_AUTO_STATISTICS, MosaicWriter
from smalti.format.types import has_statistics
from smalti.io.locations import Location
from smalti.jobs.formats.text_values import csv_header, csv_lines, json_lines
from smalti.logical.adapt import adapt_batch
from smalti.logical.tree import plan_schema
from smalti.logical.types import contains_type, is_encoded, is_list_like, map_children, storage_type
from smalti.options import WriterOptions
from smalti.sizes import FOREIGN_GROUP_BYTES


class FileWriter(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    @property
    def estimated_size(self) -> int: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class MosaicFileWriter(MosaicWriter):
    """Mosaic, without copies of batches: jobs change no batch once it is made."""

    def __init__(self, location: Location, schema: pa.Schema, options: WriterOptions) -> None:
        super().__init__(location.path, schema, options, filesystem=location.filesystem)

    def write(self, batch: pa.RecordBatch, *, copy: bool | None = False) -> None:
        super().write(batch, copy=copy)


def with_statistics(options: WriterOptions, schema: pa.Schema, names: Iterable[str]) -> WriterOptions:
    """Options by which stored columns have statistics, in a table that is too wide for all of them to have some."""
    stored = plan_schema(schema).schema
    if len(stored) <= MAX_AUTO_STATISTICS:
        return options
    there = {field.name for field in stored if has_statistics(field.type)}
    return replace(options, stats_columns=tuple(dict.fromkeys(name for name in names if name in there)))


class LibraryWriter(Protocol):
    """A writer of pyarrow that is open on a stream, or one like it."""

    def write(self, table: pa.Table, /) -> None: ...

    def close(self) -> None: ...


class _Lines:
    """Writes rows as lines of text to a stream."""

    def __init__(self, stream: pa.NativeFile, lines_of: Callable[[list[pa.RecordBatch]], Iterator[str]]) -> None:
        self._stream = stream
        self._lines_of = lines_of

    def write(self, table: pa.Table) -> None:
        self._stream.write("".join(f"{line}\n" for line in self._lines_of(table.to_batches())).encode())

    def close(self) -> None:
        pass


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

    def __init__(self, location: Location, schema: pa.Schema, options: WriterOptions) -> None:  # noqa: ARG002
        self._location = location
        self._schema = self._held(schema)
        for field in self._schema:  # Refused with the name of the column, before a library meets it.
            if any(contains_type(field.type, is_kind) for is_kind in self._LACKS):
                reason = f"{self._TITLE} has no place for this type"
                raise SchemaError(reason, column=field.name, found=str(field.type))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._stream = location.filesystem.open_output_stream(location.path, compression="detect")
        self._writer = self._open()

    def _held(self, schema: pa.Schema) -> pa.Schema:
        """The schema that is written."""
        return schema

    def _open(self) -> LibraryWriter:
        raise NotImplementedError

    def _put(self, table: pa.Table) -> None:
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
        self._writer.close()
        self._stream.close()
        self._location.sync()

    def abort(self) -> None:
        with contextlib.suppress(pa.ArrowException, OSError):  # Some writers complain later if they are not closed.
            self._writer.close()
        self._stream.close()


class ParquetFileWriter(StreamWriter):
    """Parquet with zstd, which is also what Mosaic files have; a row group for each gathered table."""

    _TITLE, _LACKS = "Parquet", (has_negative_scale, pt.is_run_end_encoded, _is_empty_struct, _is_of_no_bytes)
    _GATHER = FOREIGN_GROUP_BYTES

    def _held(self, schema: pa.Schema) -> pa.Schema:
        fields = [field.with_type(_without_dictionaries(field.type)) for field in schema]
        return pa.schema(fields).with_metadata(schema.metadata or {})

    def _open(self) -> LibraryWriter:
        import pyarrow.parquet as pq

        self._parquet = pq.ParquetWriter(self._stream, self._schema, compression="zstd")
        return self._parquet

    def _put(self, table: pa.Table) -> None:
        self._parquet.write_table(table, row_group_size=max(1, table.num_rows))


class OrcFileWriter(StreamWriter):
    """ORC with zstd. A file without rows keeps its schema. Its library ends the process at a negative scale."""

    _TITLE, _LACKS = "ORC", (has_negative_scale, pt.is_time)
    _GATHER = FOREIGN_GROUP_BYTES
    _wrote = False

    def _held(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([plain_field(field) for field in schema])

    def _open(self) -> LibraryWriter:
        from pyarrow import orc

        return orc.ORCWriter(self._stream, compression="ZSTD")

    def _put(self, table: pa.Table) -> None:
        super()._put(table)
        self._wrote = True

    def close(self) -> None:
        if not self._waiting and not self._wrote:
            self._put(empty_table(self._schema))
        super().close()


class ArrowFileWriter(StreamWriter):
    """Arrow IPC, file format."""

    def _open(self) -> LibraryWriter:
        return pa.ipc.new_file(self._stream, self._schema)


class ArrowStreamWriter(StreamWriter):
    """Arrow IPC, stream format."""

    def _open(self) -> LibraryWriter:
        return pa.ipc.new_stream(self._stream, self._schema)


class JsonFileWriter(StreamWriter):
    """JSON lines; `smalti.jobs.formats.text_values` says what a value is written as."""

    def _open(self) -> LibraryWriter:
        return _Lines(self._stream, json_lines)


class CsvFileWriter(StreamWriter):
    """CSV with a header; `smalti.jobs.formats.text_values` says what a value is written as."""

    def _open(self) -> LibraryWriter:
        self._stream.write(f"{csv_header(self._schema.names)}\n".encode())
        return _Lines(self._stream, csv_lines)


def plain_field(field: pa.Field) -> pa.Field:
    """The field with the types that Mosaic would store it as, structs excepted, and no metadata."""
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(type_: Any) -> Any:
    if isinstance(type_, pa.BaseExtensionType):
        return _plain_type(type_.storage_type)
    if is_list_like(type_):
        return pa.list_(plain_field(type_.value_field))
    return map_children(type_, _plain_type) if pt.is_struct(type_) or pt.is_map(type_) else storage_type(type_)


def _without_dictionaries(type_: Any) -> Any:
    """The type with values in the place of dictionaries of durations; extension types around these are taken off."""
    if not contains_type(type_, loses_unit):
        return type_
    if isinstance(type_, pa.BaseExtensionType):
        return _without_dictionaries(type_.storage_type)
    return type_.value_type if is_encoded(type_) else map_children(type_, _without_dictionaries)

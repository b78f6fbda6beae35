"""What a writer accepts: Arrow data from anywhere, fitted to the columns of the file or refused with the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import columnless_batch, size_of
from smalti.errors import CorruptFileError, SchemaError
from smalti.format.companion import MAX_ENTRIES, MAX_ENTRY_BYTES, Description
from smalti.format.types import has_statistics
from smalti.logical.tree import (
    Leaf,
    LogicalColumn,
    StoredColumn,
    leaves,
    parts_of_both,
    plan_column,
    plan_schema,
    stored_columns,
)
from smalti.logical.types import keeps_units, with_capacity
from smalti.logical.widen import widen_values
from smalti.spec import MAX_NAME_SIZE, MAX_NAMES_SIZE

#: The most that the narrowest run ends can count, and the widest that a row group needs.
MAX_INT16, MAX_INT32 = (1 << 15) - 1, (1 << 31) - 1
#: Errors of arrays that cannot be stored, one of which may be that they are too large.
_UNFIT = (SchemaError, pa.ArrowInvalid, pa.ArrowCapacityError)


class Intake:
    """Fits batches to a schema, and remembers what the companion of the file has to say of them.

    Parameters
    ----------
    schema : pyarrow.Schema
        As the user gave it.
    has_companion : bool
        Whether names that the format cannot hold can be kept.

    Attributes
    ----------
    schema : pyarrow.Schema
        As it is stored; batches leave `conform` like this.
    descriptors : list of bytes
        Its packed types.
    columns : dict
        The columns of which the stored ones do not tell everything, by their places in the schema that was given.
    """

    def __init__(self, schema: pa.Schema, has_companion: bool = True) -> None:
        self.given = schema
        stored = plan_schema(schema)
        self.schema = stored.schema
        self.descriptors = stored.descriptors
        self.columns = stored.columns
        self._starts = stored.starts
        #: Whether columns are stored as they are given. Only then is a batch in the stored types one of the schema:
        #: an int16 of 300 is no uint8, and would make a file that cannot be read.
        self._is_stored = schema.equals(self.schema)
        self._entries: dict[str, pa.Array | None] = {}
        #: Of columns whose entries are not remembered: how many there are at most, and those that came last.
        self._forgotten: dict[str, tuple[int, pa.Array]] = {}
        check_names(self.schema.names)
        if self.schema.names != schema.names:
            (refuse_repeated if has_companion else check_names)(schema.names)

    def conform(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch with the columns of the schema, found by name, in its order and its stored types.

        It comes in pieces where one array of a stored type cannot hold a column: large texts and lists have longer
        offsets, and the values of a dictionary may be far more than its indices.
        """
        if self._is_stored and batch.schema.equals(self.schema):
            return [batch]
        if batch.schema.names != self.given.names:
            batch = self._reorder(batch)
        if not batch.schema.equals(self.given):
            self._check_types(batch.schema)
        return in_pieces(batch, self._convert)

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from smalti.logical.arrays import shred, to_stored  # see there why not at the top

        arrays: list[pa.Array] = []
        for place, array in enumerate(batch.columns):
            column = self.columns.get(place)
            try:
                if column is None:
                    arrays.append(to_stored(array, self.schema.field(self._starts[place]).type))
                    continue
                if array.type != column.field.type:  # Indices and run ends need not fit: `describe` sees to that.
                    array = _cast(array, with_capacity(column.field.type, MAX_INT32, MAX_INT32))
                arrays += shred(array, column.node, column.field.nullable, partial(self._keep, column))
            except SchemaError as error:
                raise error.locate(column=self.given.field(place).name) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _keep(self, column: LogicalColumn, place: int, entries: pa.Array) -> None:
        """Remember the entries of a dictionary, together with those of earlier batches, unless they are many."""
        name = column.stored[place].name
        known = self._entries.get(name, entries)
        if known is None:
            count, last = self._forgotten[name]
            if not _same_entries(entries, last):
                self._forgotten[name] = count + len(entries), entries
            return
        if known is not entries and _same_entries(entries, known.slice(0, len(entries))):
            return
        merged, count = None, len(entries) if known is entries else len(known) + len(entries)
        if len(entries) <= MAX_ENTRIES:
            try:
                entries.validate(full=True)  # Those that no row uses are written too, and nobody else looks at them.
                merged = pa.concat_arrays([known, entries]).unique().drop_null()
                count = len(merged)
            except pa.ArrowNotImplementedError:
                pass
            except pa.ArrowException as error:
                raise SchemaError("an entry of the dictionary is not valid", found=str(error)) from None
        if merged is not None and count <= MAX_ENTRIES and size_of(merged) <= MAX_ENTRY_BYTES:
            self._entries[name] = merged
        else:
            self._entries[name], self._forgotten[name] = None, (count, entries)

    def describe(self, most_rows: int) -> Description | None:
        """What the stored columns do not tell; None if they tell everything.

        Batches with dictionaries of their own, or with runs, become row groups of `most_rows` rows or elements at most,
        which may be more than the indices or run ends of a single batch can count.
        """
        if not self.columns and not self.given.metadata:
            return None
        columns = list(self.columns.values())
        names = {}
        for place, column in enumerate(columns):
            if len(column.stored) == 1 and column.stored[0].name == column.field.name:
                continue
            stored = tuple(each.name for each in column.stored)
            if stored != tuple(each.name for each in stored_columns(column.node, column.field.name, True)):
                names[place] = stored
        entries: dict[str, pa.Array] = {}
        room = MAX_ENTRY_BYTES
        for name, known in self._entries.items():
            if known is not None and size_of(known) <= room:
                entries[name] = known
                room -= size_of(known)
        fields = [column.field for column in columns]
        if self._entries or most_rows > MAX_INT16:
            fields = [self._with_room(column, most_rows) for column in columns]
        return Description(pa.schema(fields).with_metadata(self.given.metadata or {}), names, entries)

    def _with_room(self, column: LogicalColumn, most_rows: int) -> pa.Field:
        """The field of a column, with indices and run ends that can count what comes back."""
        most_entries = 0
        for name in (each.name for each in column.stored):
            count = len(self._entries.get(name) or ()) if name not in self._forgotten else self._forgotten[name][0]
            most_entries = max(most_entries, count)
        type_ = with_capacity(column.field.type, most_entries, most_rows)
        return column.field if type_ == column.field.type else column.field.with_type(type_)

    def stored_as(self) -> dict[str, tuple[pa.Field, ...]]:
        """The columns that are stored as another type, or as several columns."""
        return {
            column.field.name: tuple(each.field for each in column.stored)
            for column in self.columns.values()
            if column.is_converted
        }

    def given_type(self, stored: str) -> pa.DataType | None:
        """The type that the values of a stored column were given with, None if it is the stored one."""
        column = self._owner.get(stored)
        return None if column is None else column.leaf_type(stored)

    @cached_property
    def _owner(self) -> dict[str, LogicalColumn]:
        return {each.name: column for column in self.columns.values() for each in column.stored}

    @cached_property
    def vectors(self) -> set[int]:
        """The stored columns that hold lists of one length."""
        return {place for place, leaf in self._leaves() if leaf is not None and pt.is_fixed_size_list(leaf.type)}

    def has_order(self, place: int) -> bool:
        """Whether a stored column can have minimum and maximum; where structs are is no value of theirs."""
        return place not in self._presence and has_statistics(self.schema.field(place).type)

    @cached_property
    def _presence(self) -> set[int]:
        """The stored columns that say where there are structs."""
        return {place for place, leaf in self._leaves() if leaf is None}

    def _leaves(self) -> Iterator[tuple[int, Leaf | None]]:
        """The stored columns of those that are described, by their places, and the leaf that each holds."""
        for place, column in self.columns.items():
            yield from enumerate(leaves(column.node), self._starts[place])

    def _reorder(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        refuse_repeated(batch.schema.names)
        positions = {name: i for i, name in enumerate(batch.schema.names)}
        missing = [name for name in self.given.names if name not in positions]
        if missing:
            raise SchemaError("batch lacks columns of the schema", found=missing[:5])
        if len(positions) != len(self.given):
            known = set(self.given.names)
            raise SchemaError("batch has columns the schema lacks", found=[n for n in positions if n not in known][:5])
        return batch.select([positions[name] for name in self.given.names])

    def _check_types(self, schema: pa.Schema) -> None:
        """Refuse a type that is stored differently; values are never converted from one stored type to another."""
        for given, wanted in zip(schema, self.given, strict=True):
            if given.type == wanted.type:
                continue
            try:
                stored = [_stored_columns(field) for field in (given, wanted)]
            except SchemaError as error:
                raise error.locate(column=given.name) from None
            if not (_same_columns(*stored) and _same_meaning(given.type, wanted.type)):
                raise SchemaError(
                    "batch has another type than the schema",
                    column=wanted.name,
                    found=str(given.type),
                    expected=str(wanted.type),
                )


def in_pieces(batch: pa.RecordBatch, convert: Callable[[pa.RecordBatch], pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Convert a batch, or its halves if it is too large for one array of a stored type."""
    try:
        return [convert(batch)]
    except _UNFIT as error:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        try:
            return in_pieces(batch.slice(0, middle), convert) + in_pieces(batch.slice(middle), convert)
        except _UNFIT:  # Then it was not too large, and the error of the whole says most.
            raise error from None


def _same_entries(one: pa.Array, other: pa.Array) -> bool:
    """Whether two dictionaries are the same, to the bit: 0.0 and -0.0 are equal, but one cannot stand for the other."""
    if pt.is_floating(one.type):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(bits), other.view(bits)
    return one.equals(other)


def _stored_columns(field: pa.Field) -> list[StoredColumn]:
    return stored_columns(plan_column(field.type, field.nullable), field.name, True)


def _same_columns(given: list[StoredColumn], wanted: list[StoredColumn]) -> bool:
    """Whether a column is stored as another would be. Arrow's cast drops fields of structs that have other names."""
    types = {column.name: column.type for column in given}
    return len(given) == len(wanted) and all(
        column.name in types and _same_storage(types[column.name], column.type) for column in wanted
    )


def _same_meaning(given: Any, wanted: Any) -> bool:
    """Whether values of a type are values of another one that is stored alike.

    A column of nulls has no place for values, and other numbers would be rounded to half floats.
    """
    for _, one, other in parts_of_both(given, wanted):
        if one != other and (pt.is_null(other) or pt.is_float16(other) or not keeps_units(one, other)):
            return False
    return True


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """An array of a batch as the type of the schema, which is stored as the same type; its values must fit."""
    try:
        converted: pa.Array = widen_values(array, type_)
        return converted
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, CorruptFileError) as error:
        found = f"{array.type}: {error}"
        raise SchemaError("batch has another type than the schema", found=found, expected=str(type_)) from None


def _same_storage(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether types differ at most in names and nullability of nested fields; the values are checked for nulls."""
    if a == b:
        return True
    if pt.is_list(a) and pt.is_list(b):
        return _same_storage(a.value_type, b.value_type)
    if pt.is_map(a) and pt.is_map(b):
        return _same_storage(a.key_type, b.key_type) and _same_storage(a.item_type, b.item_type)
    return False


def check_names(names: list[str]) -> None:
    """Refuse names that a file cannot hold or that our reader would refuse."""
    sizes = [len(name.encode()) for name in names]
    if 0 in sizes:
        raise SchemaError("column name is empty", found=names.index(""), expected="a name")
    if "\0" in "".join(names):
        raise SchemaError("column name holds NUL", found=next(name for name in names if "\0" in name))
    if sizes and max(sizes) > MAX_NAME_SIZE:
        raise SchemaError("column name is too long", found=f"{max(sizes)} bytes", expected=f"at most {MAX_NAME_SIZE}")
    if sum(sizes) > MAX_NAMES_SIZE:
        raise SchemaError("column names are too long together", found=sum(sizes), expected=MAX_NAMES_SIZE)
    refuse_repeated(names)


def refuse_repeated(names: list[str]) -> None:
    if len(set(names)) != len(names):
        seen: set[str] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise SchemaError("duplicate column name", found=repeated)


def arrow_reader(data: Any) -> Any:
    """Anything that offers Arrow data as a Table, RecordBatch or RecordBatchReader."""
    if isinstance(data, (pa.RecordBatchReader, pa.Table, pa.RecordBatch)):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        _refuse_objects(data)
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.record_batch(data)
    raise TypeError(f"expected a Table, RecordBatch, RecordBatchReader or an Arrow stream, got {type(data).__name__}")


def _refuse_objects(data: Any) -> None:
    """Refuse Python objects in a frame of Polars, whose Arrow stream has their addresses in memory as bytes."""
    polars = sys.modules.get("polars")  # Whoever passes a frame has imported Polars.
    if polars is not None and isinstance(data, polars.DataFrame) and polars.Object in data.dtypes:
        column = data.columns[data.dtypes.index(polars.Object)]
        raise SchemaError("Python objects cannot be stored", column=column, found="polars.Object")


def arrow_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """The record batches of anything that offers Arrow data."""
    data = arrow_reader(data)
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        batches = data.to_batches()
        if not batches and data.num_rows:  # Arrow makes no batches of a table without columns.
            batches = [columnless_batch(data.num_rows)]
        yield from batches
    else:
        yield from data

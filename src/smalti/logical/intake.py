"""Arrow data for a writer, from anywhere: fitted to the columns of the file, or refused with the reason."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import columnless_batch, size_of
from smalti.errors import CorruptFileError, SchemaError
from smalti.format.companion import MAX_ENTRIES, MAX_ENTRY_BYTES, Description
from smalti.format.types import has_statistics
from smalti.logical.adapt import adapt_batch
from smalti.logical.tree import (
    Leaf,
    LogicalColumn,
    StoredColumn,
    parts_of_both,
    plan_column,
    plan_schema,
    stored_columns,
)
from smalti.logical.types import MAX_INT16, MAX_INT32, keeps_entries, keeps_units, with_capacity
from smalti.logical.widen import widen_values
from smalti.spec import MAX_NAME_SIZE, MAX_NAMES_SIZE

#: Errors of arrays that cannot be stored, for instance because they are too large.
_UNFIT = (SchemaError, pa.ArrowInvalid, pa.ArrowCapacityError)


class Intake:
    """Fits batches to a schema, and collects what the companion of the file describes: types and dictionaries.

    `given` is the schema of the user, `schema` is how it is stored, and `descriptors` are its packed types. Without a
    companion, names that the format cannot hold are refused. With `keeps_dictionaries`, dictionaries come as indices of
    stored values; otherwise they are expanded.
    """

    def __init__(self, schema: pa.Schema, has_companion: bool = True, *, keeps_dictionaries: bool = True) -> None:
        self.given = schema
        self._keeps_dictionaries = keeps_dictionaries
        stored = plan_schema(schema)
        self.schema, self.descriptors = stored.schema, stored.descriptors
        #: The columns that differ from their stored form, by their indices in `given`.
        self.columns = stored.columns
        #: The index of the first stored column of each given column, and a key of its type.
        self.starts, self.kinds = stored.starts, stored.kinds
        #: Whether columns are stored as they are given. Only then are batches in the stored types accepted: an int16 of
        #: 300 is no uint8, and would make a file that cannot be read.
        self._is_stored = schema.equals(self.schema)
        #: The dictionaries of each stored column: one, or those of the keys and items of a map.
        self._dictionaries: dict[str, list[_Dictionary]] = {}
        #: Bytes of the entries of all dictionaries that were written so far.
        self.entry_bytes = 0
        #: Columns, by their indices in `given`, that get the widest indices and run ends.
        self._widened: set[int] = set()
        names = self.schema.names
        check_names(names)
        if not self._is_stored and names != schema.names:
            (refuse_repeated if has_companion else check_names)(schema.names)

    def conform(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch with the columns of the schema, found by name, in its order and its stored types.

        It comes in pieces where one array of a stored type cannot hold a column: large strings and lists have longer
        offsets, and the values of a dictionary may be far more than its indices.
        """
        if self._is_stored and batch.schema.equals(self.schema):
            return [batch]
        if batch.schema.names != self.given.names:
            batch = self._reorder(batch)
        if not batch.schema.equals(self.given):
            self._check_types(batch.schema, self.given)
        return in_pieces(batch, partial(self._convert, indices=range(len(self.given)), schema=self.schema))

    def conform_some(self, batch: pa.RecordBatch) -> tuple[list[int], list[pa.RecordBatch]]:
        """As `conform`, for a batch that has some of the columns; also return the indices of the stored columns."""
        refuse_repeated(batch.schema.names)
        places = {name: i for i, name in enumerate(batch.schema.names)}
        indices = [index for index, name in enumerate(self.given.names) if name in places]
        if len(indices) < len(places):
            known = set(self.given.names)
            raise SchemaError("batch has columns the schema lacks", found=[n for n in places if n not in known][:5])
        batch = batch.select([places[self.given.field(index).name] for index in indices])
        self._check_types(batch.schema, [self.given.field(index) for index in indices])
        stored = [each for index in indices for each in self.stored_indices(index)]
        schema = pa.schema([self.schema.field(index) for index in stored])
        return stored, in_pieces(batch, partial(self._convert, indices=indices, schema=schema))

    def stored_indices(self, index: int) -> range:
        """The indices of the stored columns of a given column."""
        return range(self.starts[index], [*self.starts[index + 1 : index + 2], len(self.schema)][0])

    def _convert(self, batch: pa.RecordBatch, indices: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
        from smalti.logical.arrays import shred, to_stored  # slow to import: see its docstring

        arrays: list[pa.Array] = []
        indexed: dict[int, pa.DataType] = {}
        for index, array in zip(indices, batch.columns, strict=True):
            column = self.columns.get(index)
            try:
                if column is None:
                    arrays.append(to_stored(array, self.schema.field(self.starts[index]).type))
                    continue
                if array.type != column.field.type:  # Indices and run ends need not fit: `_with_capacity` widens them.
                    array = _cast(array, with_capacity(column.field.type, MAX_INT32, MAX_INT32))
                nulls = None if column.field.nullable else 0
                keep = partial(self._keep_entries, column) if self._keeps_dictionaries else None
                parts = shred(array, column.node, nulls, keep)
                for number, part in enumerate(parts, len(arrays)):
                    if pt.is_dictionary(part.type) or pt.is_list(part.type):  # of stored values, or lists of them
                        indexed[number] = part.type
                arrays += parts
            except SchemaError as error:
                raise error.locate(column=self.given.field(index).name) from None
        if indexed:
            schema = pa.schema([each.with_type(indexed.get(number, each.type)) for number, each in enumerate(schema)])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _keep_entries(self, column: LogicalColumn, leaf: Leaf, found: Sequence[pa.Array]) -> None:
        name = column.by_leaf[id(leaf)].name
        known = self._dictionaries.setdefault(name, [_Dictionary(entries.slice(0, 0)) for entries in found])
        for dictionary, entries in zip(known, found, strict=True):
            before = dictionary.num_bytes
            dictionary.add(entries)
            self.entry_bytes += dictionary.num_bytes - before

    @cached_property
    def with_dictionaries(self) -> dict[str, StoredColumn]:
        """The stored columns that hold values of dictionaries, also of dictionaries in lists."""
        return {
            name: column
            for name, column in self._described.items()
            if column.leaf is not None and keeps_entries(column.leaf.type)
        }

    def has_entries(self, stored: str) -> bool:
        """Whether values of a dictionary were written."""
        return stored in self._dictionaries

    def entries(self, stored: str) -> pa.Array | None:
        """The entries of a dictionary that were written so far; None if there were too many."""
        known = self._dictionaries.get(stored)
        return known[0].known if known is not None and known[0].is_kept else None

    def set_entries(self, stored: str, entries: pa.Array | None) -> None:
        """Keep these entries of a dictionary and no others; with None, reading rebuilds them."""
        (known,) = self._dictionaries.setdefault(stored, [_Dictionary(pa.nulls(0))])
        if entries is None:
            known.is_kept = False
            return
        known.is_kept = len(entries) <= MAX_ENTRIES and size_of(entries) <= MAX_ENTRY_BYTES
        known.known, known.count = entries, len(entries)

    def widen(self, index: int) -> None:
        """Let a column have the widest indices and run ends: it is copied from files in which they differ."""
        self._widened.add(index)

    def describe(self, most_rows: int) -> Description | None:
        """The description of the columns for the companion; None if the stored columns tell everything.

        A row group may join batches and have more entries or rows (`most_rows`) than the index or run-end type of one
        batch can count; these types are widened.
        """
        if not self.columns and not self.given.metadata:
            return None
        names: dict[int, tuple[str, ...]] = {}
        fields = []
        for index, (given, column) in enumerate(self.columns.items()):
            fields.append(self._with_capacity(column, MAX_INT32 if given in self._widened else most_rows))
            stored, name = tuple(each.name for each in column.stored), column.field.name
            usual = (
                stored if stored == (name,) else tuple(each.name for each in stored_columns(column.node, name, True))
            )
            if stored != usual:
                names[index] = stored
        entries, left = {}, MAX_ENTRY_BYTES
        for name in filter(self.with_dictionaries.__contains__, self._dictionaries):
            (dictionary,) = self._dictionaries[name]
            size = size_of(dictionary.known)
            if dictionary.is_kept and size <= left:
                entries[name] = dictionary.known
                left -= size
        return Description(pa.schema(fields).with_metadata(self.given.metadata or {}), names, entries)

    def add_metadata(self, more: Mapping[bytes, bytes]) -> None:
        """Add metadata of the schema, for the companion."""
        self.given = self.given.with_metadata({**(self.given.metadata or {}), **more})

    def without_companion(self) -> list[str]:
        """What a file without a companion does not keep, in words."""
        lost = [f"the type of {self.given.field(index).name!r}" for index in list(self.columns)[:3]]
        if len(self.columns) > len(lost):
            lost.append(f"{len(self.columns) - len(lost):,} other types")
        metadata = dict(self.given.metadata or {})
        pandas = metadata.pop(b"pandas", b"{}")
        with suppress(ValueError, AttributeError, TypeError):
            index = json.loads(pandas).get("index_columns", [])
            if any(isinstance(each, str) or (each["start"], each["step"]) != (0, 1) for each in index):
                lost.append("the index of pandas")
        return [*lost, "metadata"] if metadata else lost

    def _with_capacity(self, column: LogicalColumn, most_rows: int) -> pa.Field:
        """The field of a column, with indices and run ends that can count all entries and rows of a row group."""
        if not self._dictionaries and most_rows <= MAX_INT16:
            return column.field
        known = [dictionary for each in column.stored for dictionary in self._dictionaries.get(each.name, ())]
        count = most_rows if most_rows == MAX_INT32 else max((each.count for each in known), default=0)
        type_ = with_capacity(column.field.type, count, most_rows)
        return column.field if type_ == column.field.type else column.field.with_type(type_)

    def stored_as(self) -> dict[str, tuple[pa.Field, ...]]:
        """The columns that are stored as another type, or as several columns."""
        found = {}
        for column in self.columns.values():
            fields = tuple(each.field for each in column.stored)
            if [(field.name, field.type) for field in fields] != [(column.field.name, column.field.type)]:
                found[column.field.name] = fields
        return found

    @cached_property
    def _described(self) -> dict[str, StoredColumn]:
        """The stored columns of `columns`, by their names."""
        return {each.name: each for column in self.columns.values() for each in column.stored}

    def given_type(self, stored: str) -> pa.DataType | None:
        """The type that the values of a stored column were given with, None if it is the stored one."""
        column = self._described.get(stored)
        return None if column is None else column.given_type

    @cached_property
    def vectors(self) -> set[int]:
        """The indices of the stored columns that are often noise: lists of one length, keys and hashes of one size."""
        if not self.columns:
            return set()
        noisy = pt.is_fixed_size_list, pt.is_fixed_size_binary, pt.is_uint64
        leaves = {name: column.leaf for name, column in self._described.items() if column.leaf is not None}
        return {
            index
            for index, name in enumerate(self.schema.names)
            if name in leaves and any(is_kind(leaves[name].type) for is_kind in noisy)
        }

    def has_order(self, index: int) -> bool:
        """Whether a stored column can have minimum and maximum. Struct-presence columns have no statistics."""
        field = self.schema.field(index)
        column = self._described.get(field.name)
        return has_statistics(field.type) and (column is None or column.leaf is not None)

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

    def _check_types(self, schema: pa.Schema, given: Iterable[pa.Field]) -> None:
        """Refuse a type that is stored differently; values are never converted from one stored type to another."""
        for found, expected in zip(schema, given, strict=True):
            if found.type == expected.type:
                continue
            try:
                stored = [_stored_columns(field) for field in (found, expected)]
            except SchemaError as error:
                raise error.locate(column=found.name) from None
            if not (_same_columns(*stored) and _same_meaning(found.type, expected.type)):
                raise _other_type(found.type, expected.type).locate(column=expected.name)


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
        except _UNFIT:  # The batch was not too large: its own error says more than that of a half.
            raise error from None


class _Dictionary:
    """Collects the distinct entries of a dictionary over all batches, in order of appearance, up to MAX_ENTRIES.

    `known`: the entries so far, or those of the last batch once there are too many (`is_kept` is False). `count`: an
    upper bound of their number.
    """

    def __init__(self, empty: pa.Array) -> None:
        self.known = empty
        self.count = self.num_bytes = 0
        self.is_kept = True

    def add(self, entries: pa.Array) -> None:
        """Remember the entries of a batch. Refuse invalid ones: entries that no row uses are written too."""
        if _same_entries(entries, self.known.slice(0, len(entries))):
            return
        merged = None
        if self.is_kept and len(entries) <= MAX_ENTRIES and size_of(entries) <= MAX_ENTRY_BYTES:
            try:
                entries.validate(full=True)
                merged = pa.concat_arrays([self.known, entries]).unique().drop_null()
            except pa.ArrowNotImplementedError:
                pass
            except pa.ArrowException as error:
                raise SchemaError("an entry of the dictionary is not valid", found=str(error)) from None
        self.count = self.count + len(entries) if merged is None else len(merged)
        if merged is None or len(merged) > MAX_ENTRIES or size_of(merged) > MAX_ENTRY_BYTES:
            self.is_kept, merged = False, entries
        self.known, self.num_bytes = merged, size_of(merged)


def _same_entries(one: pa.Array, other: pa.Array) -> bool:
    """Whether two dictionaries are the same, to the bit: 0.0 and -0.0 are equal, but one cannot stand for the other."""
    if pt.is_floating(one.type):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(bits), other.view(bits)
    return one.equals(other)


def _stored_columns(field: pa.Field) -> list[StoredColumn]:
    return stored_columns(plan_column(field.type, field.nullable), field.name, True)


def _same_columns(found: list[StoredColumn], expected: list[StoredColumn]) -> bool:
    """Whether a column is stored as another would be, up to names and nullability of elements of lists and maps.

    Arrow's cast drops fields of structs that have other names. Nulls are looked for in the values. The path of a field
    may be the name of another one, so columns are paired and not looked up.
    """
    pairs = zip(*(sorted(columns, key=lambda column: column.name) for columns in (found, expected)), strict=False)
    return len(found) == len(expected) and all(
        one.name == other.name and all(a == b for _, a, b in parts_of_both(one.type, other.type))
        for one, other in pairs
    )


def _same_meaning(found: Any, expected: Any) -> bool:
    """Whether values of a type are values of another one that is stored alike.

    A column of nulls cannot hold values, and other numbers would be rounded to half floats.
    """
    return not any(
        one != other and (pt.is_null(other) or pt.is_float16(other) or not keeps_units(one, other))
        for _, one, other in parts_of_both(found, expected)
    )


def _cast(array: pa.Array, type_: pa.DataType) -> Any:
    """An array of a batch as the type of the schema, which is stored as the same type; its values must fit."""
    try:
        return widen_values(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, CorruptFileError) as error:
        raise _other_type(f"{array.type}: {error}", type_) from None


def _other_type(found: object, expected: pa.DataType) -> SchemaError:
    return SchemaError("batch has another type than the schema", found=str(found), expected=str(expected))


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
        data = _exportable(data)
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.record_batch(data)
    advice = ""
    if isinstance(data, (str, os.PathLike)):
        advice = "; smalti.jobs.convert reads files"
    elif isinstance(data, Mapping):
        advice = "; pyarrow.table makes a table of it"
    found = type(data).__name__
    raise TypeError(f"expected a Table, RecordBatch, RecordBatchReader or an Arrow stream, got {found}{advice}")


def batch_reader(data: Any, schema: pa.Schema | None = None) -> Any:
    """Like `arrow_reader`, and takes an iterable of Arrow data of one schema too, by default that of its first item."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.LazyFrame):
        if schema is None:
            schema = arrow_reader(data.head(0).collect()).schema
        data = data.collect_batches() if hasattr(data, "collect_batches") else [data.collect()]
    is_arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    if is_arrow or isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        data = arrow_reader(data)
        if schema is not None and not data.schema.equals(schema):
            raise SchemaError("the data has another schema", found=str(data.schema), expected=str(schema))
        return data
    batches: Iterator[pa.RecordBatch] = (batch for item in data for batch in arrow_batches(item))
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise SchemaError("there is no batch, and no schema either", expected="schema=")
        schema, batches = first.schema, chain([first], batches)
    return pa.RecordBatchReader.from_batches(schema, _of_schema(batches, schema))


def _of_schema(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches, which must have exactly the columns of a schema, in any order."""
    for batch in batches:
        if not batch.schema.equals(schema):
            if sorted(batch.schema.names) != sorted(schema.names):
                other = {*batch.schema.names} ^ {*schema.names}
                raise SchemaError("a batch has other columns than the schema", found=sorted(other))
            batch = adapt_batch(batch, schema)
        yield batch
        del batch


def _exportable(data: Any) -> Any:
    """A frame of Polars in types that Arrow has; other data as it is.

    The stream of a frame has the addresses in memory of Python objects, as bytes, so these are refused. Arrow knows no
    integers of 128 bits, which are exact as decimals, if they have no more than 38 digits.
    """
    polars = sys.modules.get("polars")  # A caller that passes a frame has imported Polars.
    if polars is None or not isinstance(data, polars.DataFrame):
        return data
    if polars.Object in data.dtypes:
        column = data.columns[data.dtypes.index(polars.Object)]
        raise SchemaError("Python objects cannot be stored", column=column, found="polars.Object")
    wide = [kind for kind in (getattr(polars, name, None) for name in ("Int128", "UInt128")) if kind in data.dtypes]
    try:
        return data.with_columns(polars.col(*wide).cast(polars.Decimal(38, 0))) if wide else data
    except polars.exceptions.PolarsError as error:
        raise SchemaError(
            "an integer has more digits than a decimal", found=str(error).partition("\n")[0], expected="38 at most"
        ) from None


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

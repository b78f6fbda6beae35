"""Batches of a file as the types that a reader asks for, instead of those that the file has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.allowance import Allowance
from smalti.errors import CorruptFileError, MemoryLimitError, SchemaError
from smalti.file.columnless import columnless_batch
from smalti.file.patterns import match_names
from smalti.memory import most_memory, size_of


def widen_array(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array in the type of a field. Values that this cannot hold are refused; see `smalti.table.schemas.widen`."""
    if array.type == field.type:
        return array
    from smalti.file.logical import widen_values  # see there why not at the top

    try:
        widened: pa.Array = widen_values(array, field.type)
        return widened
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, CorruptFileError) as error:  # a list has another length
        raise SchemaError(
            f"values cannot be read as the table's type ({error})",
            column=field.name,
            found=str(array.type),
            expected=str(field.type),
        ) from None


#: More bytes than any memory has, which a number of 64 bits can hold.
MAX_BYTES = (1 << 63) - 1


def fixed_bytes(type_: Any) -> int:
    """Bytes of a value, also of a null, in Arrow's memory; of values of any size only what points at them."""
    if isinstance(type_, pa.BaseExtensionType):
        return fixed_bytes(type_.storage_type)
    if pt.is_fixed_size_binary(type_):
        return int(type_.byte_width)
    if pt.is_fixed_size_list(type_):
        return int(type_.list_size) * fixed_bytes(type_.value_type)
    if pt.is_struct(type_):
        return sum(fixed_bytes(field.type) for field in type_)
    return 8


def count_array(make: Callable[[], Any], rows: int, type_: Any, allowance: Allowance | None) -> Any:
    """An array that is made of others, or of nothing, counted: values of fixed size before, others as they turn out."""
    if allowance is None:
        return make()
    expected = rows * fixed_bytes(type_)
    allowance.take(expected)
    array = make()
    allowance.take(size_of(array) - expected)
    return array


def null_array(rows: int, type_: Any) -> Any:
    """Nulls of a type. Arrow's own are not valid where runs are in structs or lists; these are put together here."""
    asked, limit = rows * fixed_bytes(type_), most_memory()
    if asked > limit:  # of a type that only some file says to be so large
        raise MemoryLimitError.of(asked, 0, limit)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(null_array(rows, type_.storage_type))
    if not contains_kind(type_, pt.is_run_end_encoded) or pt.is_run_end_encoded(type_):
        return pa.nulls(rows, type_)
    below = rows if pt.is_struct(type_) else rows * type_.list_size if pt.is_fixed_size_list(type_) else 0
    children = [null_array(below, type_.field(i).type) for i in range(type_.num_fields)]
    zeros = pa.py_buffer(bytes(8 * (rows + 1)))  # no bit is set, every list starts and ends at 0
    return pa.Array.from_buffers(type_, rows, [zeros] * own_buffers(type_), children=children)


def own_buffers(type_: Any) -> int:
    """The number of buffers that a struct, list or map has besides those of its children."""
    if pt.is_struct(type_) or pt.is_fixed_size_list(type_):
        return 1
    return 3 if pt.is_list_view(type_) or pt.is_large_list_view(type_) else 2


def contains_kind(type_: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Whether a type, or one that it is made of, is of some kind."""
    if isinstance(type_, pa.BaseExtensionType):
        return contains_kind(type_.storage_type, is_kind)
    if is_kind(type_):
        return True
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return contains_kind(type_.value_type, is_kind)
    return any(contains_kind(type_.field(i).type, is_kind) for i in range(type_.num_fields))


def check_schema(schema: Any) -> pa.Schema:
    """The schema that a user passed, or an error that says that it is none."""
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"expected a pyarrow.Schema, got {type(schema).__name__}")
    return schema


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a schema that are asked for, patterns included."""
    check_schema(schema)
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in match_names(schema.names, columns)]).with_metadata(
        schema.metadata or {}
    )


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, allowance: Allowance) -> pa.RecordBatch:
    """A batch with the columns and types of `schema`; columns that it lacks are nulls. New arrays are counted."""
    if not schema.names:
        return columnless_batch(batch.num_rows)
    arrays = []
    for field, place in zip(schema, map(batch.schema.get_field_index, schema.names), strict=True):
        array = None if place < 0 else batch.column(place)
        if array is None or array.type != field.type:
            make = partial(null_array, len(batch), field.type) if array is None else partial(widen_array, array, field)
            array = count_array(make, len(batch), field.type, allowance)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

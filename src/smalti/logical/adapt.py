"""Batches of one file brought to a schema, for files, datasets, jobs and Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from smalti._compat import arrow as compat
from smalti._core.allowance import Allowance
from smalti.errors import CorruptFileError, SchemaError
from smalti.logical.patterns import match_names
from smalti.logical.types import MAX_INT32, fixed_bytes, with_capacity
from smalti.logical.widen import lost_part, widen_values

#: Brings an array of a file to the field of the schema.
Convert = Callable[[pa.Array, pa.Field], pa.Array]
#: The value of all rows for a field that the file does not store, such as a partition value; None if it has no value.
ConstantOf = Callable[[pa.Field], "pa.Scalar | None"]


def widen_array(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array in the type of a field. Values that this type cannot hold are refused."""
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


def fit_array(array: pa.Array, field: pa.Field) -> pa.Array:
    """As `widen_array`, for values that will be stored: also refuse to drop fields of structs and time zones."""
    lost = None if array.type == field.type else lost_part(array.type, field.type)
    if lost is not None:
        raise SchemaError(
            f"values would lose {lost} in the table's type",
            column=field.name,
            found=str(array.type),
            expected=str(field.type),
        )
    return widen_array(array, field)


def check_schema(schema: Any) -> pa.Schema:
    """Return the schema that a user passed, or raise TypeError if it is no schema."""
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"expected a pyarrow.Schema, got {type(schema).__name__}")
    return schema


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a schema that names and patterns ask for."""
    check_schema(schema)
    if columns is None:
        return schema
    fields = [schema.field(name) for name in match_names(schema.names, columns)]
    return pa.schema(fields).with_metadata(schema.metadata or {})


class Adapter:
    """Brings batches of one file to a schema: columns by name, constants and nulls for columns that the file lacks.

    `stored` names the columns of the batches, in their order. `convert` is called for every stored column, also if its
    type is that of the field; without it, columns of other types are widened.
    """

    def __init__(
        self,
        schema: pa.Schema,
        stored: Sequence[str],
        constant_of: ConstantOf = lambda _: None,
        convert: Convert | None = None,
    ) -> None:
        self._schema = schema
        self._constant_of = constant_of
        self._convert = convert
        self._stored = stored

    @cached_property
    def _fields(self) -> list[tuple[pa.Field, int | None]]:
        """Each field, with the index of its column in the batches; None if it is not stored."""
        indices = {name: index for index, name in enumerate(self._stored)}
        return [(field, indices.get(field.name)) for field in self._schema]

    def adapt(self, batch: pa.RecordBatch, allowance: Allowance | None = None) -> pa.RecordBatch:
        """A batch of the schema. The bytes of new arrays are taken from the allowance, if there is one."""
        rows = batch.num_rows
        if not len(self._schema):
            return compat.columnless_batch(rows, self._schema)
        if self._convert is None and batch.schema.equals(self._schema):
            return batch
        arrays = []
        nulls: dict[str, pa.Array] = {}  # shared by columns of a type: a table may have thousands that a file lacks
        for field, index in self._fields:
            constant = self._constant_of(field) if index is None else None
            if index is not None:
                array = batch.column(index)
                if array.type != field.type:
                    convert = partial(self._convert or widen_array, array, field)
                    array = _counted(convert, rows, field.type, allowance)
                elif self._convert is not None:
                    array = self._convert(array, field)
            elif constant is not None and (constant.is_valid or isinstance(constant, pa.DictionaryScalar)):
                array = _counted(partial(_repeated, constant, rows), rows, field.type, allowance)
            else:
                key = str(field.type)
                if key not in nulls or nulls[key].type != field.type:
                    nulls[key] = _counted(partial(compat.null_array, rows, field.type), rows, field.type, allowance)
                array = nulls[key]
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _repeated(constant: Any, rows: int) -> Any:
    """Rows of one value. Those of a dictionary keep it, also if the value is null."""
    type_ = constant.type
    if not pa.types.is_dictionary(type_):
        return pa.repeat(constant, rows)
    indices: Any = pa.repeat(constant.index, rows) if constant.is_valid else pa.nulls(rows, type_.index_type)
    return pa.DictionaryArray.from_arrays(indices, constant.dictionary, ordered=type_.ordered)


def _counted(make: Callable[[], Any], rows: int, type_: Any, allowance: Allowance | None) -> Any:
    """Make an array, and count its bytes: values of fixed size before they are allocated, others afterwards."""
    if allowance is None:
        return make()
    expected = rows * fixed_bytes(type_)
    allowance.take(expected)
    array = make()
    allowance.take(compat.size_of(array) - expected)
    return array


def adapt_batch(batch: pa.RecordBatch, schema: pa.Schema, allowance: Allowance | None = None) -> pa.RecordBatch:
    """One batch with exactly the columns of `schema`: widened where types differ, nulls where columns are missing."""
    return batch if batch.schema.equals(schema) else Adapter(schema, batch.schema.names).adapt(batch, allowance)


def countable(field: pa.Field) -> pa.Field:
    """The field with the widest indices and run ends: how many values come together is known when a file is written.

    The writer gives the column the narrowest type that holds them.
    """
    type_ = with_capacity(field.type, MAX_INT32, MAX_INT32)
    return field if type_ == field.type else field.with_type(type_)


def countable_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(list(map(countable, schema))).with_metadata(schema.metadata or {})


def fit_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """As `adapt_batch`, for values that will be stored; see `fit_array`."""
    return batch if batch.schema.equals(schema) else Adapter(schema, batch.schema.names, convert=fit_array).adapt(batch)

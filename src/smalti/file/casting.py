"""Batches of a file as the types that a reader asks for, instead of those that the file has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.file.columnless import columnless_batch
from smalti.file.patterns import match_names


def widen_array(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array in the type of a field. Values that this cannot hold are refused; see `smalti.table.schemas.widen`."""
    if array.type == field.type:
        return array
    from smalti.file.logical import widen_values  # see there why not at the top

    try:
        widened: pa.Array = widen_values(array, field.type)
        return widened
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"values cannot be read as the table's type ({error})",
            column=field.name,
            found=str(array.type),
            expected=str(field.type),
        ) from None


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a schema that are asked for, patterns included."""
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in match_names(schema.names, columns)]).with_metadata(
        schema.metadata or {}
    )


def cast_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the columns and types of `schema`; columns that they lack are nulls."""
    for batch in batches:
        if not schema.names:
            yield columnless_batch(batch.num_rows)
            continue
        places = [batch.schema.get_field_index(name) for name in schema.names]
        arrays = [
            pa.nulls(batch.num_rows, field.type) if place < 0 else widen_array(batch.column(place), field)
            for field, place in zip(schema, places, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        del batch, arrays

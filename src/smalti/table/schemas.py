"""One schema for many files: the union of their columns, with types widened only where no value can change."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError


def widen(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, or None.

    Examples
    --------
    >>> widen(pa.int32(), pa.int64()), widen(pa.float32(), pa.float64()), widen(pa.int32(), pa.string())
    (DataType(int64), DataType(double), None)
    """
    if a == b:
        return a
    if pt.is_signed_integer(a) and pt.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    if pt.is_floating(a) and pt.is_floating(b):
        return a if a.bit_width >= b.bit_width else b
    if pt.is_decimal128(a) and pt.is_decimal128(b) and a.scale == b.scale:
        return a if a.precision >= b.precision else b
    if pt.is_list(a) and pt.is_list(b):
        value = _widen_field(a.value_field, b.value_field)
        return None if value is None else pa.list_(value)
    if pt.is_map(a) and pt.is_map(b):
        key, item = _widen_field(a.key_field, b.key_field), _widen_field(a.item_field, b.item_field)
        return None if key is None or item is None else pa.map_(key, item)  # type: ignore[call-overload]
    return None


def _widen_field(a: pa.Field, b: pa.Field) -> pa.Field | None:
    type_ = widen(a.type, b.type)
    return None if type_ is None else pa.field(a.name, type_, a.nullable or b.nullable)


def unify_schemas(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """The union of schemas, each with the name of the file it is from.

    Columns come in the order they are first seen. A column some file lacks is nullable.
    """
    union: dict[str, pa.Field] = {}
    previous: pa.Schema | None = None
    for path, schema in schemas:
        if previous is not None and (schema is previous or schema.equals(previous)):
            continue  # nothing new: the common case costs one comparison
        names = set(schema.names)
        for name, field in union.items():
            if name not in names:
                union[name] = field.with_nullable(True)
        for field in schema:
            known = union.get(field.name)
            if known is None:
                union[field.name] = field if previous is None else field.with_nullable(True)
                continue
            merged = _widen_field(known, field)
            if merged is None:
                raise SchemaError(
                    "files disagree on the type of a column",
                    path=path,
                    column=field.name,
                    found=str(field.type),
                    expected=str(known.type),
                )
            union[field.name] = merged
        previous = schema
    return pa.schema(list(union.values()))

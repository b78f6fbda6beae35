"""The type that holds the values of two others, arrays in it, and one schema for many files.

Schemas are the union of their columns, with types widened only where no value can change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat.arrow import cast_exactly
from smalti.errors import SchemaError
from smalti.logical.tree import parts_of_both
from smalti.logical.types import (
    is_binary_like,
    is_encoded,
    is_list_like,
    is_long_decimal,
    is_string_like,
    keeps_units,
    map_of,
    storage_kind,
    storage_type,
    unwrapped,
    with_element,
)
from smalti.spec import MAX_DECIMAL_PRECISION

_SIGNED: dict[int, pa.DataType] = {16: pa.int16(), 32: pa.int32(), 64: pa.int64(), 128: pa.decimal128(20, 0)}
_UNITS = ["s", "ms", "us", "ns"]


def widen(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, or None.

    A file without companion has the stored type of a column, so a type and the type it is stored as can be widened.

    Examples
    --------
    >>> widen(pa.int32(), pa.int64()), widen(pa.float32(), pa.float64()), widen(pa.int32(), pa.string())
    (DataType(int64), DataType(double), None)
    >>> widen(pa.struct([("x", pa.uint8())]), pa.struct([("x", pa.int8()), ("y", pa.string())]))
    StructType(struct<x: int16, y: string>)
    """
    if a == b:
        return a
    if pt.is_null(a) or pt.is_null(b):
        return b if pt.is_null(a) else a
    for rule in (_widen_wrapped, _widen_numbers, _widen_strings, _widen_moments, _widen_nested):
        found = rule(a, b)
        if found is not None:
            return found
    return _widen_stored(a, b)


def _widen_wrapped(a: Any, b: Any) -> pa.DataType | None:
    """Widen extension types, dictionaries and runs by the types that they wrap."""
    is_extension = [isinstance(type_, pa.BaseExtensionType) for type_ in (a, b)]
    if any(is_extension):
        return None if all(is_extension) else widen(unwrapped(a), unwrapped(b))
    if pt.is_dictionary(a) and pt.is_dictionary(b) and a.value_type == b.value_type:
        return pa.dictionary(pa.int32(), a.value_type, a.ordered and b.ordered)
    if pt.is_run_end_encoded(a) and pt.is_run_end_encoded(b) and a.value_type == b.value_type:
        ends: Any = _wider(a.run_end_type, b.run_end_type)
        return pa.run_end_encoded(ends, a.value_type)
    plain = [t.value_type if is_encoded(t) else t for t in (a, b)]
    return widen(*plain) if plain != [a, b] else None


def _widen_numbers(a: Any, b: Any) -> pa.DataType | None:
    if pt.is_floating(a) and pt.is_floating(b):
        return _wider(a, b)
    if pt.is_decimal(a) and pt.is_decimal(b) and a.scale == b.scale:
        precision = max(a.precision, b.precision)
        if precision > MAX_DECIMAL_PRECISION:
            return pa.decimal256(precision, a.scale)
        return pa.decimal128(precision, a.scale)
    if pt.is_integer(b) and pt.is_decimal(a):
        a, b = b, a
    if pt.is_integer(a) and pt.is_decimal(b) and b.scale == 0 and not is_long_decimal(b):
        digits = len(str((1 << a.bit_width - pt.is_signed_integer(a)) - 1))
        return pa.decimal128(max(b.precision, digits), 0)
    if not (pt.is_integer(a) and pt.is_integer(b)):
        return None
    if pt.is_signed_integer(a) == pt.is_signed_integer(b):
        return _wider(a, b)
    signed, unsigned = (a, b) if pt.is_signed_integer(a) else (b, a)
    return _SIGNED[max(signed.bit_width, 2 * unsigned.bit_width)]


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    return a if a.bit_width >= b.bit_width else b


def _widen_strings(a: Any, b: Any) -> pa.DataType | None:
    if is_string_like(a) and is_string_like(b):
        return pa.large_string() if pa.large_string() in (a, b) else pa.string()
    if is_binary_like(a) and is_binary_like(b):
        return pa.large_binary() if pa.large_binary() in (a, b) else pa.binary()
    return None


def _widen_moments(a: Any, b: Any) -> pa.DataType | None:
    """Units of time: the finer one, where no value can leave its range, or an error of Arrow will say so."""
    if pt.is_duration(a) and pt.is_duration(b):
        return pa.duration(max(a.unit, b.unit, key=_UNITS.index))
    if pt.is_time32(a) and pt.is_time32(b):
        return pa.time32("ms")
    if pt.is_time64(a) and pt.is_time64(b):
        return pa.time64("ns")
    if pt.is_timestamp(a) and pt.is_timestamp(b) and a.tz == b.tz and {a.unit, b.unit} == {"s", "ms"}:
        return pa.timestamp("ms", a.tz)
    return pa.date64() if pt.is_date(a) and pt.is_date(b) else None


def _widen_nested(a: Any, b: Any) -> pa.DataType | None:
    if is_list_like(a) and is_list_like(b):
        value = _widen_field(a.value_field, b.value_field)
        if value is None:
            return None
        same_kind = a.id == b.id and getattr(a, "list_size", None) == getattr(b, "list_size", None)
        return with_element(a, value) if same_kind else pa.list_(value)
    if pt.is_map(a) and pt.is_map(b):
        key, item = _widen_field(a.key_field, b.key_field), _widen_field(a.item_field, b.item_field)
        return None if key is None or item is None else map_of(key, item, a.keys_sorted and b.keys_sorted)
    return _widen_structs(a, b) if pt.is_struct(a) and pt.is_struct(b) else None


def _widen_structs(a: Any, b: Any) -> pa.DataType | None:
    """The fields of both; a field that only one struct has is nullable."""
    known, others = ({field.name: field for field in struct} for struct in (a, b))
    fields = []
    for name, field in (known | others).items():
        is_shared = name in known and name in others
        both = _widen_field(known[name], field) if is_shared else field.with_nullable(True)
        if both is None:
            return None
        fields.append(both)
    return pa.struct(fields)


def _widen_stored(a: Any, b: Any) -> pa.DataType | None:
    """Widen a type and the type that it is stored as."""
    try:
        stored = storage_type(a), storage_type(b)
    except SchemaError:  # A struct is stored as several columns.
        return None
    return widen(*stored) if stored != (a, b) and (stored[0] == a or stored[1] == b) else None


def _widen_field(a: pa.Field, b: pa.Field) -> pa.Field | None:
    """The field for both, with the metadata of both, but for what they disagree on."""
    type_ = widen(a.type, b.type)
    if type_ is None:
        return None
    widened = pa.field(a.name, type_, a.nullable or b.nullable)
    one, other = a.metadata or {}, b.metadata or {}
    agreed: Any = {key: value for key, value in {**one, **other}.items() if one.get(key, value) == value}
    return widened.with_metadata(agreed) if agreed else widened


def widen_values(array: Any, type_: Any) -> Any:
    """An array as a type that holds all its values: fields that its structs lack become nulls."""
    source = array.type
    if source == type_:
        return array
    # Loaded here, because Arrow's compute functions take long to load.
    from smalti.logical.arrays import from_stored, rebuild, rebuild_struct, to_stored

    if isinstance(source, pa.BaseExtensionType):
        return widen_values(array.storage, type_)
    if pt.is_dictionary(source) and pt.is_dictionary(type_) and source.value_type == type_.value_type:
        indices = array.indices.cast(type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=type_.ordered)
    if is_encoded(source):  # as the type of their values, because stored types have no units
        return widen_values(from_stored(to_stored(array, storage_type(source)), source.value_type), type_)
    if pt.is_struct(type_) and pt.is_struct(source):
        return rebuild_struct(array, type_, widen_values)
    if (is_list_like(type_) and is_list_like(source)) or (pt.is_map(type_) and pt.is_map(source)):
        return rebuild(array, type_, widen_values)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(widen_values(array, type_.storage_type))
    if is_encoded(type_):
        return from_stored(to_stored(widen_values(array, type_.value_type), storage_type(type_)), type_)
    return to_stored(array, type_) if type_ == storage_type(source) else cast_exactly(array, type_)


def lost_part(source: Any, target: Any, path: str = "") -> str | None:
    """The part that `widen_values` drops for a target type: a field of a struct or a time zone; None if none.

    A reader may ask for some fields of a struct, so this is no error there.

    Examples
    --------
    >>> lost_part(pa.struct([("x", pa.int8()), ("y", pa.int8())]), pa.struct([("x", pa.int64())]))
    "the field 'y'"
    """
    source, target = storage_kind(source), storage_kind(target)
    if pt.is_struct(source) and pt.is_struct(target):
        known = {field.name: field.type for field in target}
        pairs = [(f"{path}{field.name}", field.type, known.get(field.name)) for field in source]
    elif is_list_like(source) and is_list_like(target):
        pairs = [(f"{path}item", source.value_type, target.value_type)]
    elif pt.is_map(source) and pt.is_map(target):
        pairs = [(f"{path}key", source.key_type, target.key_type), (f"{path}value", source.item_type, target.item_type)]
    else:
        is_lost = pt.is_timestamp(source) and pt.is_timestamp(target) and source.tz is not None and target.tz is None
        return f"the time zone {source.tz}" if is_lost else None
    parts = (
        f"the field {name!r}" if other is None else lost_part(one, other, f"{name}.") for name, one, other in pairs
    )
    return next((part for part in parts if part is not None), None)


def unify_schemas(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """The union of schemas, each with the path of its file.

    Columns keep the order in which they are first seen. A column that some file lacks is nullable. The metadata of the
    schema is that of the first file, as far as the others have the same.
    """
    different: list[tuple[str, pa.Schema]] = []
    metadata: dict[bytes, bytes] | None = None
    for path, schema in schemas:
        given = schema.metadata or {}
        metadata = given if metadata is None else dict(metadata.items() & given.items())
        if not different or not (schema is different[-1][1] or schema.equals(different[-1][1])):
            different.append((path, schema))
    if len(different) == 1:  # The common case costs a comparison for each file, and nothing for each column.
        schema = different[0][1]
        return schema if (schema.metadata or {}) == metadata else schema.with_metadata(metadata or {})
    union: dict[str, pa.Field] = {}
    has: Counter[str] = Counter()  # in how many of the schemas a column is
    widened: dict[str, list[tuple[str, pa.DataType]]] = {}  # the types of columns that have several
    for path, schema in different:
        has.update(schema.names)
        for field in schema:
            known = union.setdefault(field.name, field)
            if known is field or known.equals(field, check_metadata=True):
                continue
            merged = _widen_field(known, field)
            if merged is None:
                raise _disagreement(path, field.name, field.type, known.type)
            union[field.name] = merged
            if known.type != field.type:
                types = widened.setdefault(field.name, [])
                for type_ in (known.type, field.type):
                    if all(type_ != other for _, other in types):
                        types.append((path, type_))
    for name, number in has.items():
        if number < len(different):
            union[name] = union[name].with_nullable(True)
    for name, types in widened.items():
        _refuse_lost_units(name, types, union[name].type)
    return pa.schema(list(union.values())).with_metadata(metadata or {})


def _disagreement(path: str, column: str, found: Any, expected: Any) -> SchemaError:
    return SchemaError(
        "files disagree on the type of a column", path=path, column=column, found=str(found), expected=str(expected)
    )


def _refuse_lost_units(column: str, types: Iterable[tuple[str, pa.DataType]], union: pa.DataType) -> None:
    """Refuse durations of two units that both become numbers, because some file has nothing but numbers.

    Such a file has no companion, so the unit of its numbers is unknown.
    """
    lost: dict[str, Any] = {}
    for path, type_ in types:
        for part, one, other in parts_of_both(type_, union):
            if not keeps_units(one, other):
                known = lost.setdefault(part, one)
                if _unit(known) != _unit(one):
                    raise _disagreement(path, column, one, known)


def _unit(type_: Any) -> Any:
    """The unit that a number counts in: the scale of a decimal, whatever its number of digits; else the type."""
    return type_.scale if is_long_decimal(type_) else type_

"""Arrow types, as Mosaic stores them, and Spark types: one as the other, and arrays brought from one to the other.

docs/spark.md has the table of types. Every column and element is nullable in Spark, because another file of the same
table may lack it. Types that Spark does not know come as the type they are stored as. What Spark keeps of a column
beyond its type, such as a comment or that it is a varchar, travels as metadata of its field.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from smalti.errors import SchemaError
from smalti.logical.types import is_list_like, map_of, storage_type
from smalti.logical.widen import widen

#: Fields of either side, and what they become.
F = TypeVar("F", pa.Field, st.StructField)
R = TypeVar("R")
_MAX_PRECISION = 38
_DAY = dt.timedelta(days=1)
_SPARK_TIME, _MOSAIC_TIME = pa.time64("ns"), pa.time32("ms")

#: Types without parameters: the same value on both sides.
_PLAIN: dict[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
}
#: The keys of what Spark keeps of a column, and of the collations in its type: JSON, in the metadata of an Arrow field.
_OF_SPARK = _SPARK_METADATA, _SPARK_COLLATIONS = b"spark.metadata", b"spark.collations"
#: What Spark calls the value that a column has in rows which were written before it was added, in its metadata.
_DEFAULT = "EXISTS_DEFAULT"
_TO_ARROW = {type(spark): arrow for arrow, spark in _PLAIN.items()}


def spark_type(type_: Any) -> st.DataType:
    """The Spark type of a column stored as an Arrow type.

    Examples
    --------
    >>> spark_type(pa.list_(pa.timestamp("ns"))).simpleString()
    'array<timestamp_ntz>'
    """
    type_ = plain_type(type_)
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pt.is_time(type_):
        return st.IntegerType()
    if pt.is_duration(type_):
        return st.DayTimeIntervalType()
    if is_variant(type_):
        return st.VariantType()
    if pt.is_struct(type_):
        return st.StructType(_each(type_, _spark_field))
    if pt.is_timestamp(type_):
        return st.TimestampNTZType() if type_.tz is None else st.TimestampType()
    if pt.is_decimal(type_):
        precision, scale = (type_.precision, type_.scale) if type_.scale >= 0 else (type_.precision - type_.scale, 0)
        if precision > _MAX_PRECISION:
            raise SchemaError("decimal is too wide for Spark", found=str(type_), expected=f"{_MAX_PRECISION} digits")
        return st.DecimalType(precision, scale)
    if is_list_like(type_):
        return st.ArrayType(spark_type(type_.value_type))
    if pt.is_map(type_):
        return st.MapType(spark_type(type_.key_type), spark_type(type_.item_type))
    raise SchemaError("type has no place in Spark", found=str(type_))


def plain_type(type_: Any) -> Any:
    """A type that Spark has no name for as the one that it is stored as; nested types and durations as they are.

    Dictionaries and runs become the type of their values, because the stored type has lost the unit of durations.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if pt.is_nested(type_) or pt.is_duration(type_):
        return type_
    return type_ if pt.is_time(type_) else storage_type(type_)


def is_variant(type_: Any) -> bool:
    """Whether a struct is Spark's variant: two binaries, of which one is marked."""
    return (
        pt.is_struct(type_)
        and [field.name for field in type_] == ["value", "metadata"]
        and (type_.field("metadata").metadata or {}).get(b"variant") == b"true"
    )


def _spark_field(field: pa.Field) -> st.StructField:
    kept = {key: json.loads(text) for key, text in (field.metadata or {}).items() if key in _OF_SPARK}
    type_ = _collated(spark_type(field.type), kept.get(_SPARK_COLLATIONS, {}))
    return st.StructField(field.name, type_, metadata=kept.get(_SPARK_METADATA))


def _collated(type_: st.DataType, collations: Mapping[str, str], path: str = "") -> st.DataType:
    """A type with the collations of its texts, which are named with their providers; structs in it have their own."""
    if not collations:
        return type_
    if isinstance(type_, st.StringType) and path in collations:
        return st.StringType(collations[path].partition(".")[2])
    if isinstance(type_, st.ArrayType):
        return st.ArrayType(_collated(type_.elementType, collations, f"{path}.element"), type_.containsNull)
    if isinstance(type_, st.MapType):
        key = _collated(type_.keyType, collations, f"{path}.key")
        return st.MapType(key, _collated(type_.valueType, collations, f"{path}.value"), type_.valueContainsNull)
    return type_


def _arrow_field(field: st.StructField, time: pa.DataType) -> pa.Field:
    arrow = pa.field(field.name, arrow_type(field.dataType, time), field.nullable)
    # Spark's paths start with the name of the field. Here they do not, so that they stay right if it is renamed.
    found = {path.removeprefix(field.name): name for path, name in field.getCollationMetadata().items()}
    values = zip(_OF_SPARK, (field.metadata, found), strict=True)
    kept: dict[bytes | str, bytes | str] = {key: json.dumps(value) for key, value in values if value}
    return arrow.with_metadata(kept) if kept else arrow


def _each(fields: Iterable[F], convert_field: Callable[[F], R]) -> list[R]:
    """Every field converted; an error names the column that it is about."""
    converted = []
    for field in fields:
        try:
            converted.append(convert_field(field))
        except SchemaError as error:
            raise error.locate(column=field.name) from None
    return converted


def spark_schema(schema: pa.Schema) -> st.StructType:
    """`spark_type` for every field."""
    cached = lru_cache(maxsize=None)(spark_type)

    def convert_field(field: pa.Field) -> st.StructField:
        if field.metadata or pt.is_nested(field.type):  # types are equal whatever metadata their fields have
            return _spark_field(field)
        return st.StructField(field.name, cached(field.type))

    return st.StructType(_each(schema, convert_field))


def arrow_type(type_: st.DataType, time: pa.DataType = _SPARK_TIME) -> pa.DataType:
    """The Arrow type in which Spark takes and hands out a type. `time` is the one for TIME.

    Examples
    --------
    >>> arrow_type(st.TimestampType())
    TimestampType(timestamp[us, tz=UTC])
    """
    if type(type_) in _TO_ARROW:
        return _TO_ARROW[type(type_)]
    if isinstance(type_, st.StringType):  # char, varchar, collations
        return pa.string()
    if isinstance(type_, st.TimeType):
        return time
    if isinstance(type_, st.TimestampNTZType):
        return pa.timestamp("us")
    if isinstance(type_, st.TimestampType):
        return pa.timestamp("us", "UTC")
    if isinstance(type_, st.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, st.ArrayType):
        return pa.list_(pa.field("element", arrow_type(type_.elementType, time), type_.containsNull))
    if isinstance(type_, st.MapType):
        key = pa.field("key", arrow_type(type_.keyType, time), nullable=False)
        item = pa.field("value", arrow_type(type_.valueType, time), type_.valueContainsNull)
        return pa.map_(key, item)  # type: ignore[call-overload, no-any-return]
    if isinstance(type_, st.StructType):
        return pa.struct(_each(type_.fields, lambda field: _arrow_field(field, time)))
    if isinstance(type_, st.DayTimeIntervalType):
        return pa.duration("us")
    if isinstance(type_, st.VariantType):
        marked = pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"})
        return pa.struct([pa.field("value", pa.binary(), nullable=False), marked])
    if isinstance(type_, st.NullType):
        return pa.null()
    raise SchemaError("Spark type has no place in Mosaic", found=type_.simpleString())


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema of the batches that Java and Python send each other for a schema of Spark's.

    A column that may not be null may be missing in a file if it has a default value.
    """

    def convert_field(field: st.StructField) -> pa.Field:
        return pa.field(field.name, arrow_type(field.dataType), field.nullable or _DEFAULT in (field.metadata or {}))

    return pa.schema(_each(schema.fields, convert_field))


def stored_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema a DataFrame of `schema` is written with."""
    return pa.schema(_each(schema.fields, lambda field: _arrow_field(field, _MOSAIC_TIME)))


def infer_partition_type(values: Collection[str | None]) -> pa.DataType:
    """The type of a partition column, from the names of its directories, as Spark infers it for its own formats.

    Examples
    --------
    >>> infer_partition_type({"1", "2"}), infer_partition_type({"1", "3000000000"}), infer_partition_type({"1", "x"})
    (DataType(int32), DataType(int64), DataType(string))
    >>> infer_partition_type({"2024-02-29"}), infer_partition_type({"1", "0.5"})
    (DataType(date32[day]), DataType(double))
    >>> infer_partition_type({"2024-02-29 12:00:00", "2024-02-29"})
    TimestampType(timestamp[us, tz=UTC])
    """
    given = [text for text in values if text is not None]
    if not values:
        return pa.string()
    if all(map(_NUMBER.fullmatch, given)):
        return _infer_number(given)
    if all(map(_is_date, given)):
        return pa.date32()
    return pa.timestamp("us", "UTC") if all(map(is_moment, given)) else pa.string()


def _infer_number(texts: Collection[str]) -> pa.DataType:
    """The type of numbers: one that holds each of them exactly, as Spark chooses it, and else text.

    Examples
    --------
    >>> _infer_number(["007", "12345678901234567890"]), _infer_number(["3000000000", "0.5"])
    (Decimal128Type(decimal128(20, 0)), DataType(string))
    """
    whole = [int(text) for text in texts if _WHOLE.fullmatch(text)]
    bits = max((value if value >= 0 else ~value).bit_length() for value in whole) if whole else 0
    if len(whole) < len(texts):  # A double holds all ints, but not all bigints.
        return pa.float64() if bits < 32 else pa.string()
    if bits < 64:
        return pa.int32() if bits < 32 else pa.int64()
    digits = max(len(str(abs(value))) for value in whole)
    return pa.decimal128(digits, 0) if digits <= _MAX_PRECISION else pa.float64()


def _is_date(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) and dt.date.fromisoformat(text))
    except ValueError:
        return False


def is_moment(text: str) -> bool:
    """Whether Spark takes the value of a partition for a moment, or smalti has written it for one.

    Without a zone, it has to be within Python's years in every zone.

    Examples
    --------
    >>> is_moment("2024-02-29 12:00:00.5"), is_moment("2024-02-29 12:00:00.000000Z"), is_moment("2024-02-30 12:00:00")
    (True, True, False)
    """
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d{1,6})?Z?)?", text):
        return False
    try:
        moment = dt.datetime.fromisoformat(text.removesuffix("Z"))
        return text.endswith("Z") or dt.datetime.min + _DAY <= moment <= dt.datetime.max - _DAY
    except ValueError:
        return False


#: What texts look like that Spark takes for numbers. It reads "007" as 7.
_WHOLE = re.compile(r"-?[0-9]{1,999}")
_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|NaN|-?Infinity")


# --- values ---------------------------------------------------------------------------------------------------------

#: Parsers of values that JSON has no type for, by the name of their kind. Dates and timestamps are whole numbers of
#: days and microseconds since 1970: Python's own lack years that Spark and Arrow have.
_VALUES: dict[str, Callable[[Any], object]] = {"double": float, "decimal": Decimal, "binary": base64.b64decode}


def parse_value(value: Any) -> object:
    """A value that the provider has written, as Arrow takes it; see `jvm/Filters.java`."""
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _VALUES[kind](text)
    return value


def default_row(defaults: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """One row of the values that columns have in files which lack them, as the provider has written them by name.

    Examples
    --------
    >>> default_row({"price": {"decimal": "1.50"}}, pa.schema([("price", pa.decimal128(9, 2))])).to_pylist()
    [{'price': Decimal('1.50')}]
    """
    fields = [schema.field(name) for name in defaults]
    arrays = [pa.array([_parse_nested(defaults[field.name], field.type)], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _parse_nested(value: Any, type_: Any) -> object:
    if value is None:
        return None
    if pt.is_struct(type_):
        return {field.name: _parse_nested(part, field.type) for field, part in zip(type_, value, strict=True)}
    if pt.is_map(type_):
        kinds = pa.list_(type_.key_type), pa.list_(type_.item_type)
        return list(zip(*map(_parse_nested, value, kinds), strict=True))
    return [_parse_nested(part, type_.value_type) for part in value] if pt.is_list(type_) else parse_value(value)


def is_exact(stored: Any) -> bool:
    """Whether Spark sees the very values that are stored, so that statistics speak about what Spark compares."""
    stored = plain_type(stored)
    inexact = (pt.is_timestamp(stored) or pt.is_duration(stored)) and stored.unit == "ns"
    return not inexact and not pt.is_time(stored)


def fits(stored: Any, wanted: Any) -> bool:
    """Whether a stored column can be read as `wanted` (an Arrow type as Spark has it) without loss but ns to us.

    Examples
    --------
    >>> fits(pa.int32(), pa.int64()), fits(pa.int64(), pa.int32())
    (True, False)
    """
    stored = plain_type(stored)
    if stored == wanted:
        return True
    if is_list_like(stored) and is_list_like(wanted):
        return fits(stored.value_type, wanted.value_type)
    if pt.is_map(stored) and pt.is_map(wanted):
        return fits(stored.key_type, wanted.key_type) and fits(stored.item_type, wanted.item_type)
    if pt.is_struct(stored) and pt.is_struct(wanted):
        there = {field.name: field.type for field in stored}
        return all(fits(there[field.name], field.type) if field.name in there else field.nullable for field in wanted)
    if pt.is_duration(stored) and pt.is_duration(wanted):
        return True
    if pt.is_timestamp(stored) and pt.is_timestamp(wanted):
        return (stored.tz is None) == (wanted.tz is None)
    if pt.is_decimal(stored) and pt.is_decimal(wanted):
        whole = stored.precision - stored.scale
        return bool(wanted.scale >= max(0, stored.scale) and wanted.precision - wanted.scale >= whole)
    if pt.is_time(stored):
        return bool(pt.is_time(wanted) or wanted == pa.int32())
    return bool(widen(stored, wanted) == wanted)


def spelled_as(wanted: Any, stored: Any) -> Any:
    """`wanted` with the fields of its structs spelled as in `stored`, where they differ only in case.

    A field that is spelled alike comes first, so that both of two spellings can be read.

    Examples
    --------
    >>> spelled_as(pa.list_(pa.struct([("A", pa.int32())])), pa.list_(pa.struct([("a", pa.int8()), ("b", pa.int8())])))
    ListType(list<item: struct<a: int32>>)
    """
    if not pt.is_nested(wanted) or wanted == stored:
        return wanted
    stored = plain_type(stored)
    if pt.is_struct(stored) and pt.is_struct(wanted):
        types = {field.name: field.type for field in stored}
        asked = {field.name for field in wanted}
        others = {name.lower(): name for name in reversed(types) if name not in asked}
        fields = []
        for field in wanted:
            name = field.name if field.name in types else others.pop(field.name.lower(), field.name)
            type_ = spelled_as(field.type, types[name]) if name in types else field.type
            fields.append(field.with_name(name).with_type(type_))
        return pa.struct(fields)
    if is_list_like(stored) and is_list_like(wanted):
        return pa.list_(wanted.value_field.with_type(spelled_as(wanted.value_type, stored.value_type)))
    if pt.is_map(stored) and pt.is_map(wanted):
        key = wanted.key_field.with_type(spelled_as(wanted.key_type, stored.key_type))
        return map_of(key, wanted.item_field.with_type(spelled_as(wanted.item_type, stored.item_type)))
    return wanted


def needed_paths(name: str, stored: Any, wanted: Any) -> list[str]:
    """What of a stored column is read for a type that may have fewer fields.

    Examples
    --------
    >>> user = pa.struct([("age", pa.int32()), ("name", pa.string())])
    >>> needed_paths("user", user, pa.struct([("age", pa.int32())])), needed_paths("user", user, user)
    (['user.age'], ['user'])
    """
    if stored == wanted or not pt.is_nested(stored):
        return [name]
    if pt.is_struct(stored) and pt.is_struct(wanted) and not is_variant(stored):
        there = {field.name: field.type for field in stored}
        inner = [
            path
            for field in wanted
            if field.name in there
            for path in needed_paths(f"{name}.{field.name}", there[field.name], field.type)
        ]
        return [name] if not inner or set(inner) == {f"{name}.{field}" for field in there} else inner
    if is_list_like(stored) and is_list_like(wanted):
        return needed_paths(name, stored.value_type, wanted.value_type)
    if pt.is_map(stored) and pt.is_map(wanted):
        whole = f"{name}.{stored.item_field.name}"
        inner = needed_paths(whole, stored.item_type, wanted.item_type)
        return [name] if inner == [whole] else inner
    return [name]


def convert_array(array: Any, target: Any) -> pa.Array:
    """`array` as `target`, which it `fits` (or the other way round, when writing: then only if nothing is lost)."""
    if array.type == target:
        same: pa.Array = array
        return same
    from smalti.logical.arrays import (  # slow to import: see its docstring
        from_stored,
        rebuild,
        rebuild_struct,
        to_stored,
    )

    plain = plain_type(array.type)
    array = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    if array.type != plain:
        array = from_stored(to_stored(array, storage_type(array.type)), plain)
    source: Any = array.type
    rebuilt: pa.Array
    if pt.is_struct(source) and pt.is_struct(target):
        rebuilt = rebuild_struct(array, target, convert_array)
        return rebuilt
    if is_list_like(source) or pt.is_map(source):
        rebuilt = rebuild(array, target, convert_array)
        return rebuilt
    if pt.is_duration(source) and source.unit == "ns" and pt.is_duration(target):
        array = _floor_to_microseconds(array)
    if pt.is_timestamp(source) and source.unit == "ns" and pt.is_timestamp(target) and target.unit == "us":
        array = _floor_to_microseconds(array)
    stored: pa.Array = array.cast(target)
    return stored


def _floor_to_microseconds(array: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    ticks = array.cast(pa.int64())
    whole = pc.divide(ticks, 1000)
    below = pc.less(ticks, pc.multiply(whole, 1000))
    return pc.subtract(whole, below.cast(pa.int64()))

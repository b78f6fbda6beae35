"""Random Arrow arrays of every type in every nesting, as producers make them: slices, garbage below nulls, odd offsets.

`tests.support.strategies` has values that Python can write; what is here also has layouts that only buffers can.
"""

from __future__ import annotations

import random
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from smalti.logical.types import storage_kind
from tests.support.older_arrow import HAS

NAMES = ["a", "b", "c", "a.b", "", "é", "a\\b", "b.c", "*", "user", "key", "value", "a#2", "q?"]
EXACT = Context(prec=90)


class Money(pa.ExtensionType):
    """An extension type of a user."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "smalti.tests.money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Money:
        return cls(storage)


SCALARS: list[Any] = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s", "+02:00"), pa.duration("s"),
    pa.duration("ms"), pa.duration("ns"), pa.decimal128(18, 2), pa.decimal128(38, 5), pa.decimal128(10, -2),
    pa.decimal256(30, 2), pa.decimal256(50, 2), pa.decimal256(60, -3),
    *([pa.decimal32(7, 2)] if HAS["decimal32"] else []),
    *([pa.decimal64(15, 3)] if HAS["decimal64"] else []),
]  # fmt: skip
_NOT_NULL = [type_ for type_ in SCALARS if not pt.is_null(type_)]
EXTENSIONS: list[Any] = [
    pa.uuid(), pa.bool8(), Money(pa.int32()), Money(pa.string()), Money(pa.binary_view()),
    Money(pa.string_view()), pa.fixed_shape_tensor(pa.float32(), [2, 2]),
    *([pa.json_()] if HAS["json"] else []),
]  # fmt: skip
#: How many values a dictionary has that its indices can count hardly, or not, together with another dictionary.
ENTRIES = [0, 1, 127, 128, 255, 256, 5_000]


def any_type(choose: random.Random, depth: int = 0) -> Any:
    chance = choose.random()
    if depth >= 4 or chance < 0.45:
        kind = choose.random()
        if kind < 0.12:
            index = choose.choice([pa.int8(), pa.int32(), pa.uint8()])
            return pa.dictionary(index, choose.choice(_NOT_NULL), choose.random() < 0.3)
        if kind < 0.18:
            values = choose.choice([*_NOT_NULL, *EXTENSIONS])
            return pa.run_end_encoded(choose.choice([pa.int16(), pa.int64()]), values)
        return choose.choice(EXTENSIONS if kind < 0.26 else SCALARS)
    if chance < 0.7:
        return pa.struct([_field(choose, name, depth) for name in choose.sample(NAMES, choose.choice([0, 1, 1, 2, 3]))])
    if chance < 0.75:
        storage = any_type(choose, depth + 1)  # Arrow crashes on extension types of extension types.
        return storage if isinstance(storage, pa.BaseExtensionType) else Money(storage)
    if chance < 0.92:
        item, size = _field(choose, choose.choice(["item", "x", ""]), depth), choose.choice([0, 1, 2])
        make: Any = choose.choice([pa.list_, pa.large_list, pa.list_view, pa.large_list_view, None])
        return pa.list_(item, size) if make is None else make(item)
    key: Any = pa.field("key", _some(choose, depth + 2), False)
    return pa.map_(key, _field(choose, "value", depth), choose.random() < 0.2)


def _some(choose: random.Random, depth: int) -> Any:
    type_ = any_type(choose, depth)
    return pa.int8() if pt.is_null(storage_kind(type_)) else type_


def _field(choose: random.Random, name: str, depth: int) -> pa.Field:
    metadata: Any = {"k": "v"} if choose.random() < 0.1 else None
    if choose.random() < 0.7:
        return pa.field(name, any_type(choose, depth + 1), True, metadata)
    return pa.field(name, _some(choose, depth + 1), False, metadata)


def any_table(choose: random.Random, num_columns: int) -> pa.Table:
    fields = [_field(choose, name, 0) for name in choose.sample(NAMES, num_columns)]
    schema = pa.schema(fields, {"a": "b"} if choose.random() < 0.3 else None)
    batches = []
    for _ in range(choose.choice([1, 1, 3]) if fields else 0):
        rows, before, after = choose.choice([0, 1, 5, 17]), choose.choice([0, 0, 3]), choose.choice([0, 2])
        arrays = [any_array(choose, field.type, before + rows + after, field.nullable) for field in fields]
        batches.append(pa.RecordBatch.from_arrays([each.slice(before, rows) for each in arrays], schema=schema))
        batches[-1].validate(full=True)
    return pa.Table.from_batches(batches, schema)


def any_array(choose: random.Random, type_: Any, rows: int, nullable: bool = True) -> Any:
    """An array that has other things than nothing below its nulls."""
    share = choose.choice([0, 0, 0.3, 0.3, 1]) if nullable else 0
    there = [choose.random() >= share for _ in range(rows)]
    bitmap = None if all(there) else _bitmap(there)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(any_array(choose, type_.storage_type, rows, nullable))
    if pt.is_null(type_):
        return pa.nulls(rows)
    if pt.is_dictionary(type_):
        count = choose.choice(ENTRIES) if choose.random() < 0.1 else choose.choice([1, 2, 5])
        entries = entries_of(type_, max(count, not nullable), choose.randrange(3))
        there = there if len(entries) else [False] * rows
        indices = pa.array([choose.randrange(len(entries)) if each else None for each in there], type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, entries, ordered=type_.ordered)
    if pt.is_run_end_encoded(type_):
        ends: list[int] = []
        while not ends or ends[-1] < rows:
            ends.append(min(rows, (ends[-1] if ends else 0) + choose.choice([1, 2, 10])))
        ends = ends if rows else []
        values = any_array(choose, type_.value_type, len(ends), nullable)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, type_.run_end_type), values)
    if pt.is_struct(type_):
        children = [any_array(choose, field.type, rows, field.nullable) for field in type_]
        return pa.Array.from_buffers(type_, rows, [bitmap], children=children)
    if pt.is_fixed_size_list(type_):
        child = any_array(choose, type_.value_type, rows * type_.list_size, type_.value_field.nullable)
        return pa.Array.from_buffers(type_, rows, [bitmap], children=[child])
    if pt.is_list_view(type_) or pt.is_large_list_view(type_):
        starts = [choose.randrange(7) for _ in range(rows)]
        sizes = [choose.randrange(7 - start) for start in starts]
        child = any_array(choose, type_.value_type, 6, type_.value_field.nullable)
        width = 8 if pt.is_large_list_view(type_) else 4
        return pa.Array.from_buffers(type_, rows, [bitmap, _ints(starts, width), _ints(sizes, width)], children=[child])
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_map(type_):
        offsets = [choose.choice([0, 0, 2])]
        for _ in range(rows):
            offsets.append(offsets[-1] + choose.choice([0, 0, 1, 2]))
        count = offsets[-1] + choose.choice([0, 3])
        if pt.is_map(type_):
            keys = any_array(choose, type_.key_type, count, False)
            items = any_array(choose, type_.item_type, count, type_.item_field.nullable)
            pairs = pa.struct([type_.key_field, type_.item_field])
            child = pa.Array.from_buffers(pairs, count, [None], children=[keys, items])
        else:
            child = any_array(choose, type_.value_type, count, type_.value_field.nullable)
        width = 8 if pt.is_large_list(type_) else 4
        return pa.Array.from_buffers(type_, rows, [bitmap, _ints(offsets, width)], children=[child])
    pool = [_value(choose, type_) for _ in range(choose.choice([2, max(rows, 1)]))]
    values = [choose.choice(pool) if each else None for each in there]
    if pt.is_temporal(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    return pa.array(values, type_)


def entries_of(type_: Any, count: int, start: int = 0) -> Any:
    """The values of a dictionary, all different: as many as asked for, or as its indices and values can be."""
    values = type_.value_type
    count = min(count, 1 << min(62, type_.index_type.bit_width - pt.is_signed_integer(type_.index_type)))
    if pt.is_boolean(values):
        return pa.array([True, False][:count], values)
    if pt.is_fixed_size_binary(values):
        count = min(count, 256**values.byte_width)
        return pa.array([number.to_bytes(values.byte_width, "big") for number in range(count)], values)
    if pt.is_decimal(values):
        return pa.array([Decimal(n).scaleb(-values.scale, EXACT) for n in range(start, start + count)], values)
    if pt.is_floating(values):
        halves = np.arange(start, start + count, dtype=np.uint16).view(np.float16)  # which every other width holds
        floats = halves.astype(f"f{values.bit_width // 8}")
        return pa.Array.from_buffers(values, count, [None, pa.py_buffer(floats)])
    if pt.is_integer(values) or pt.is_temporal(values):
        days = 86_400_000 if pt.is_date64(values) else 1
        numbers = np.arange(start, start + min(count, 1 << min(62, values.bit_width)))
        return pa.array((numbers * days).astype(f"i{values.bit_width // 8}")).view(values)
    texts = pa.array([f"{number:04d}" * (1 + number % 5) for number in range(start, start + count)], pa.string())
    return texts.cast(values if is_text(values) else pa.binary()).cast(values)


def is_text(type_: Any) -> bool:
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


def _value(choose: random.Random, type_: Any) -> Any:
    """A value, as Python or, of moments, as a number."""
    if pt.is_boolean(type_):
        return choose.random() < 0.5
    if pt.is_integer(type_):
        low = 0 if pt.is_unsigned_integer(type_) else -(1 << type_.bit_width - 1)
        high = low + (1 << type_.bit_width) - 1
        return choose.choice([0, 1, 2, low, high, choose.randint(low, high)])
    if pt.is_floating(type_):
        found = choose.choice([0.0, -0.0, 1.0, 2.0, -1.5, float("nan"), float("inf"), float(choose.randrange(100))])
        return np.float16(found) if pt.is_float16(type_) else found  # Arrow up to 19 takes no other half floats.
    if pt.is_decimal(type_):
        top = 10**type_.precision - 1
        return Decimal(choose.choice([0, 1, -1, top, -top, choose.randint(-top, top)])).scaleb(-type_.scale, EXACT)
    if pt.is_fixed_size_binary(type_):
        return choose.randbytes(type_.byte_width)
    if pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_):
        return choose.choice([b"", b"a", b"\xff\x00", b"y" * 20])
    if pt.is_date64(type_):
        return choose.randint(-10_000, 10_000) * 86_400_000
    if pt.is_time(type_):
        return choose.randrange(86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit])
    if pt.is_temporal(type_):
        return choose.choice([0, 1, -1, choose.randint(-100_000, 100_000)])
    return choose.choice(["", "a", "b", "ab", "é", "😀", "x" * 20])


def _bitmap(there: list[bool]) -> pa.Buffer:
    data = bytearray((len(there) + 7) // 8)
    for at, is_there in enumerate(there):
        data[at // 8] |= is_there << at % 8
    return pa.py_buffer(bytes(data))


def _ints(values: list[int], width: int) -> pa.Buffer:
    return pa.py_buffer(b"".join(value.to_bytes(width, "little") for value in values))


# --- other types for the same values ------------------------------------------------------------------------------

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS: list[Any] = list(TICKS)
_LAYOUTS: list[Any] = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
#: Types among which one is chosen for another of the same line.
FAMILIES: list[list[Any]] = [
    [pa.duration(unit) for unit in _UNITS],
    *([pa.timestamp(unit, zone) for unit in _UNITS] for zone in (None, "UTC")),
    [pa.time32("s"), pa.time32("ms")], [pa.time64("us"), pa.time64("ns")], [pa.date32(), pa.date64()],
    [pa.decimal128(9, 2), pa.decimal128(20, 2), pa.decimal256(30, 2), pa.decimal256(50, 2), pa.decimal256(70, 2)],
    [pa.decimal128(20, -3), pa.decimal256(50, -3), pa.decimal256(60, -3)],
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    [pa.float16(), pa.float32(), pa.float64()], [pa.string(), pa.large_string(), pa.string_view()],
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(20)],
]  # fmt: skip


def two_types(choose: random.Random, depth: int = 0) -> tuple[Any, Any]:
    """Two types for the same values, of other units, widths, layouts and wrappings."""
    chance = choose.random()
    if depth >= 3 or chance < 0.5:
        family = choose.choice(FAMILIES)
        one, other = _wrapped(choose, choose.choice(family)), _wrapped(choose, choose.choice(family))
    elif chance < 0.65:
        pairs = [two_types(choose, depth + 1) for _ in range(choose.choice([1, 2]))]
        one, other = (pa.struct([(f"f{i}", pair[side]) for i, pair in enumerate(pairs)]) for side in (0, 1))
    elif chance < 0.9:
        items = two_types(choose, depth + 1)
        one, other = (choose.choice(_LAYOUTS)(item) for item in items)
        if choose.random() < 0.2:
            one, other = (pa.list_(item, 2) for item in items)
    else:
        keys, items = two_types(choose, 3), two_types(choose, depth + 1)
        one, other = pa.map_(keys[0], items[0]), pa.map_(keys[1], items[1])
    if choose.random() < 0.1 and not isinstance(one, pa.BaseExtensionType):
        one = Money(one)
    return (one, other) if choose.random() < 0.5 else (other, one)


def _wrapped(choose: random.Random, type_: Any) -> Any:
    chance = choose.random()
    if chance < 0.25:
        return pa.dictionary(choose.choice([pa.int8(), pa.int32()]), type_)
    if chance < 0.4:
        return pa.run_end_encoded(pa.int32(), type_)
    return Money(type_) if chance < 0.5 else type_


def meanings(array: Any) -> list[Any]:
    """What values mean, whatever the type: numbers, moments and durations exactly, by Arrow's own scalars."""
    if isinstance(array, pa.ChunkedArray):
        return [meaning for chunk in array.chunks for meaning in meanings(chunk)]
    return [_meaning(array[i], array.type) for i in range(len(array))]


def _meaning(scalar: Any, type_: Any) -> Any:
    if isinstance(type_, pa.BaseExtensionType):
        return _meaning(scalar.value, type_.storage_type) if scalar.is_valid else None
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return _meaning(scalar.value, type_.value_type) if scalar.is_valid else None
    if not scalar.is_valid:
        return None
    if pt.is_date(type_):
        return "day", Fraction(scalar.value, 1 if pt.is_date32(type_) else 86_400_000)
    if pt.is_temporal(type_):
        kind = "duration" if pt.is_duration(type_) else "time" if pt.is_time(type_) else "moment"
        return kind, Fraction(scalar.value, TICKS[type_.unit])
    if pt.is_map(type_):
        entries = scalar.values
        return list(zip(*(meanings(entries.field(i)) for i in (0, 1)), strict=True))
    if pt.is_struct(type_):
        return {field.name: _meaning(scalar[field.name], field.type) for field in type_}
    if type_.num_fields == 1:
        return meanings(scalar.values)
    if pt.is_floating(type_):
        return repr(float(scalar.as_py()))
    return Fraction(scalar.as_py()) if pt.is_decimal(type_) or pt.is_integer(type_) else scalar.as_py()

"""Seeded tables with every type and every pattern of values, for comparing implementations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa

SCALARS = {
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "date": pa.date32(),
    "str": pa.string(),
    "bin": pa.binary(),
    "dec5": pa.decimal128(5, 2),
    "dec18": pa.decimal128(18, 4),
    "dec19": pa.decimal128(19, 0),
    "dec38": pa.decimal128(38, 10),
    "decneg": pa.decimal128(7, -2),
    "time": pa.time32("ms"),
    "ts3": pa.timestamp("ms"),
    "ts6": pa.timestamp("us"),
    "ts9": pa.timestamp("ns"),
    "tz3": pa.timestamp("ms", "UTC"),
    "tz6": pa.timestamp("us", "Europe/Paris"),
    "tz9": pa.timestamp("ns", "+05:30"),
}
CONTAINERS = {
    "l_i32": pa.list_(pa.int32()),
    "l_str": pa.list_(pa.field("s", pa.string(), nullable=False)),
    "l_dec": pa.list_(pa.decimal128(25, 3)),
    "ll_i8": pa.list_(pa.list_(pa.int8())),
    "m_str_f64": pa.map_(pa.string(), pa.float64()),
    "m_i32_l": pa.map_(pa.int32(), pa.list_(pa.string())),
    "lm": pa.list_(pa.map_(pa.int16(), pa.timestamp("ns"))),
    "mm": pa.map_(pa.string(), pa.map_(pa.int64(), pa.bool_())),
}
TYPES = SCALARS | CONTAINERS
ORDERABLE = [name for name, kind in SCALARS.items() if name not in ("bin", "dec19", "dec38")]

#: pattern -> (size of the pool values are drawn from, share of nulls); None means every value is fresh.
PATTERNS: dict[str, tuple[int | None, float]] = {
    "N": (0, 1.0),
    "C": (1, 0.0),
    "Cn": (1, 0.3),
    "D": (4, 0.0),
    "Dn": (4, 0.3),
    "P": (None, 0.0),
    "Pn": (None, 0.3),
}
EXACT = Context(prec=60)
AWKWARD_DOUBLES = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308, 0.1]
AWKWARD_TEXT = ["", "a", "é", "😀", "\0", "x" * 200, "ｚ", "line\nbreak"]


def value(kind: pa.DataType, rng: Random, *, nan: bool = True) -> Any:
    """A random value of the type, as Python; extremes come up often."""
    integer = _integer_range(kind)
    if integer:
        low, high = integer
        return rng.choice([low, high, 0, low + (high - low) // 3, rng.randint(low, high), rng.randint(low, high)])
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return _float(kind, rng, nan)
    if pa.types.is_string(kind):
        return rng.choice([rng.choice(AWKWARD_TEXT), f"value {rng.randint(0, 10**6)}"])
    if pa.types.is_binary(kind):
        return rng.randbytes(rng.choice([0, 1, 3, 16, 130]))
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        digits = rng.choice([0, 1, -1, top, -top, rng.randint(-top, top), rng.randint(-300, 300) % (top + 1)])
        return Decimal(digits).scaleb(-kind.scale, EXACT)
    if pa.types.is_list(kind):
        return [_element(kind.value_field, rng, nan) for _ in range(rng.randint(0, 4))]
    assert pa.types.is_map(kind), kind
    return [(value(kind.key_type, rng, nan=nan), _element(kind.item_field, rng, nan)) for _ in range(rng.randint(0, 3))]


def _element(field: pa.Field, rng: Random, nan: bool) -> Any:
    return None if field.nullable and rng.random() < 0.2 else value(field.type, rng, nan=nan)


def _integer_range(kind: pa.DataType) -> tuple[int, int] | None:
    if pa.types.is_time(kind):
        return 0, 86_399_999
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        half = 1 << kind.bit_width - 1
        return -half, half - 1
    return None


def _float(kind: pa.DataType, rng: Random, nan: bool) -> float:
    found = rng.choice([rng.choice(AWKWARD_DOUBLES), rng.uniform(-1e6, 1e6), struct.unpack(">d", rng.randbytes(8))[0]])
    if kind == pa.float32():
        found = struct.unpack(">f", rng.randbytes(4))[0] if abs(found) > 3e38 else found
    return found if nan or found == found else 1.5


def column(kind: pa.DataType, rng: Random, rows: int, pattern: str, *, nan: bool = True) -> pa.Array:
    pool_size, nulls = PATTERNS[pattern]
    pool = [value(kind, rng, nan=nan) for _ in range(rows if pool_size is None else pool_size)]
    drawn: Callable[[int], Any] = (lambda row: pool[row]) if pool_size is None else (lambda _: rng.choice(pool))
    return pa.array([None if not pool or rng.random() < nulls else drawn(row) for row in range(rows)], kind)


def matrix(seed: int, rows: int, types: dict[str, pa.DataType] = TYPES, *, nan: bool = True) -> pa.Table:
    """Every type with every pattern, columns shuffled so that their order is not the order of their names."""
    rng = Random(seed)
    columns = {
        f"{name}_{pattern}": column(kind, rng, rows, pattern, nan=nan)
        for name, kind in types.items()
        for pattern in PATTERNS
    }
    names = list(columns)
    rng.shuffle(names)
    return pa.table({name: columns[name] for name in names})

"""Hypothesis: lists of every element type, with nulls of both kinds, and the encodings each type has."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_INTEGER = ["plain", "bit_shuffle", "rle"]
_FLOAT = ["plain", "bit_shuffle"]
_TEXT = ["plain", "dict"]


def _ints(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1, 1, 1]))


ELEMENTS: list[tuple[pa.DataType, st.SearchStrategy[Any], list[str]]] = [
    (pa.int8(), _ints(8), _INTEGER),
    (pa.int16(), _ints(16), _INTEGER),
    (pa.int32(), _ints(32), _INTEGER),
    (pa.int64(), _ints(64), _INTEGER),
    (pa.float32(), st.floats(width=32, allow_nan=False), _FLOAT),
    (pa.float64(), st.floats(allow_nan=False).filter(lambda x: x or math.copysign(1, x) > 0), _FLOAT),
    (pa.bool_(), st.booleans(), ["plain", "rle"]),
    (pa.string(), st.text(max_size=8), _TEXT),
    (pa.binary(), st.binary(max_size=8), _TEXT),
    (pa.date32(), st.dates(), _INTEGER),
    (pa.timestamp("us"), st.datetimes(min_value=datetime.datetime(1000, 1, 1)), _INTEGER),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC)), _INTEGER),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2), _INTEGER),
    (pa.decimal128(18, 4), st.decimals(-(10**13), 10**13, places=4).map(decimal.Decimal), _INTEGER),
]


@st.composite
def columns(draw: st.DrawFn, min_size: int = 1) -> tuple[pa.Array, str]:
    """A list array and an encoding of its element type."""
    element_type, values, encodings = draw(st.sampled_from(ELEMENTS))
    cell = st.one_of(st.none(), st.lists(st.one_of(st.none(), values), max_size=12))
    cells = draw(st.lists(cell, min_size=min_size, max_size=30))
    times = draw(st.sampled_from([1, 1, 1, 9, 40]))  # runs
    array = pa.array([c for c in cells for _ in range(times)], pa.list_(element_type))
    start = draw(st.integers(0, len(array) - min_size))  # arrays that do not begin their buffers
    return array.slice(start), draw(st.sampled_from(encodings))


codecs = st.sampled_from([None, "lz4", "snappy", "zlib"])

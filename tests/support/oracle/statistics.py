"""Minimum and maximum of a column in a row group (notes, 11 and 16)."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa

from tests.support.oracle.types import payload, read_cell, to_cells
from tests.support.oracle.wire import Cursor


def order_key(cell: bytes, kind: pa.DataType) -> Any:
    """What two cells are compared by."""
    data = payload(cell, kind)
    if pa.types.is_floating(kind):
        return struct.unpack(">f" if len(data) == 4 else ">d", data)[0]
    if pa.types.is_string(kind):
        return data
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big")
    return int.from_bytes(data, "big", signed=True)


def extremes(array: pa.Array) -> tuple[int, bytes, bytes]:
    """Null count, minimum and maximum as cells (empty when all is null).

    The first of equal values wins, so 0.0 and -0.0 keep the one seen first. NaN counts only when there is nothing else:
    where it comes first, the reference differs (and prunes rows it should keep).
    """
    cells = [cell for cell in to_cells(array) if cell is not None]
    if not cells:
        return len(array), b"", b""
    keyed = [(order_key(cell, array.type), cell) for cell in cells]
    real = [pair for pair in keyed if not (isinstance(pair[0], float) and math.isnan(pair[0]))] or keyed[:1]
    low = min(real, key=lambda pair: pair[0])
    high = max(real, key=lambda pair: pair[0])
    return len(array) - len(cells), low[1], high[1]


def read_records(cursor: Cursor, fields: list[pa.Field], num_rows: int) -> dict[str, tuple[int, Any, Any]]:
    """{column: (null count, minimum, maximum)} with cells for values, None when all is null."""
    records = {}
    for _ in range(cursor.uv()):
        field, nulls = fields[cursor.uv()], cursor.uv()
        has_values = nulls < num_rows
        low = read_cell(cursor, field.type) if has_values else None
        high = read_cell(cursor, field.type) if has_values else None
        records[field.name] = (nulls, low, high)
    return records

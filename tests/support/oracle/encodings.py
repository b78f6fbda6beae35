"""One physical column in one row group: which encoding, and its pieces (notes, 5)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tests.support.oracle.types import read_cell, width
from tests.support.oracle.wire import Cursor, bit_width, pack_bits, unpack_bits, uv

PLAIN, CONST, DICT, ALL_NULL = range(4)
NAMES = ("PLAIN", "CONST", "DICT", "ALL_NULL")


@dataclass
class Encoded:
    """The pieces of a column; each is empty where its encoding has none."""

    encoding: int
    num_values: int
    const: bytes = b""
    table: bytes = b""
    bitmap: bytes = b""
    data: bytes = b""
    dict_entries: int = 0

    @property
    def has_nulls(self) -> bool:
        return bool(self.bitmap)

    @property
    def size(self) -> int:
        return len(self.const) + len(self.table) + len(self.bitmap) + len(self.data)


def encode(cells: list[bytes | None], kind: pa.DataType, max_entries: int = 255, max_bytes: int = 32768) -> Encoded:
    """The cheapest encoding the rules allow."""
    values = [cell for cell in cells if cell is not None]
    if not values:
        return Encoded(ALL_NULL, len(cells))
    nulls = len(values) < len(cells)
    bitmap = pack_bits([int(cell is None) for cell in cells], 1) if nulls else b""
    distinct = list(dict.fromkeys(values))
    if len(distinct) == 1:
        return Encoded(CONST, len(cells), const=distinct[0], bitmap=bitmap)
    budgeted = width(kind) is None or width(kind) == 12
    table = uv(len(distinct)) + b"".join(distinct)
    within = len(distinct) <= max_entries and not (budgeted and sum(map(len, distinct)) > max_bytes)
    index_bytes = (len(values) * bit_width(len(distinct)) + 7) // 8
    if within and len(table) + index_bytes < sum(map(len, values)):
        index = {cell: position for position, cell in enumerate(distinct)}
        data = pack_bits([index[cell] for cell in values], bit_width(len(distinct)))
        return Encoded(DICT, len(cells), table=table, bitmap=bitmap, data=data, dict_entries=len(distinct))
    return Encoded(PLAIN, len(cells), bitmap=bitmap, data=b"".join(values))


class Decoder:
    """Reads the pieces of one column where they lie; a bucket's pieces are interleaved by kind, a page's are not."""

    def __init__(self, encoding: int, has_nulls: bool, num_values: int, kind: pa.DataType) -> None:
        self.kind = kind
        self.flagged = has_nulls and encoding != ALL_NULL
        self.encoded = Encoded(encoding, num_values)
        self.entries: list[bytes] = []

    def read_const(self, cursor: Cursor) -> None:
        if self.encoded.encoding == CONST:
            self.encoded.const = read_cell(cursor, self.kind)

    def read_table(self, cursor: Cursor) -> None:
        if self.encoded.encoding == DICT:
            start = cursor.position
            self.entries = [read_cell(cursor, self.kind) for _ in range(cursor.uv())]
            self.encoded.table = cursor.data[start : cursor.position]
            self.encoded.dict_entries = len(self.entries)

    def read_bitmap(self, cursor: Cursor) -> None:
        if self.flagged:
            self.encoded.bitmap = cursor.take((self.encoded.num_values + 7) // 8)

    def read_data(self, cursor: Cursor) -> list[bytes | None]:
        """The cells."""
        encoded, count = self.encoded, self.encoded.num_values
        if encoded.encoding == ALL_NULL:
            return [None] * count
        null = unpack_bits(encoded.bitmap, count, 1) if self.flagged else [0] * count
        live, start = null.count(0), cursor.position
        if encoded.encoding == CONST:
            values = [encoded.const] * live
        elif encoded.encoding == DICT:
            bits = bit_width(len(self.entries))
            indices = unpack_bits(cursor.take((live * bits + 7) // 8), live, bits)
            values = [self.entries[index] for index in indices]
        else:
            values = [read_cell(cursor, self.kind) for _ in range(live)]
        encoded.data = cursor.data[start : cursor.position]
        following = iter(values)
        return [None if bit else next(following) for bit in null]

"""Blocks of plain columns: values alone, or a count and a bitmap before them when the column is nullable.

The data part is the one of array blocks. Owns the two simpler layouts around it.
"""

from __future__ import annotations

import pyarrow as pa

from smalti.kudu._kernels import leb128, rle_bits
from smalti.kudu.array_block import check_counts, read_sized
from smalti.kudu.cells import Cells
from smalti.kudu.encodings import Dense, Dictionary, decode_values, encode_values
from smalti.kudu.encodings.dense import spread_over_nulls
from smalti.kudu.place import inside
from smalti.kudu.spec import Encoding
from smalti.kudu.types import data_type_of, from_physical, normal_type, physical_of


def encode_value_cells(
    cells: Cells, encoding: Encoding, ordinal: int, words: Dictionary | None, *, nullable: bool
) -> bytes:
    """The inside of a plain column's block."""
    data = encode_values(cells.values, encoding, ordinal, words)
    if not nullable:
        return data
    bits = cells.non_null_elements
    packed = rle_bits.encode(bits.buffer, bits.start, bits.count)
    return b"".join((leb128.encode(len(cells)), leb128.encode(len(packed)), packed, data))


def decode_value_body(
    body: memoryview,
    element_type: pa.DataType,
    encoding: Encoding,
    ordinal: int,
    words: Dense | None,
    *,
    cells: int,
    nullable: bool,
) -> pa.Array:
    """Values from the inside of a plain column's block that holds `cells` of them."""
    at, count, non_null, values = 0, cells, b"", cells
    with inside("block header"):
        if nullable:
            count, at = leb128.decode32(body)
        check_counts(count, count)
    if nullable:
        with inside("non-null bitmap"):
            bits, at = read_sized(body, at)
        with inside("non-null bitmap", at - len(bits)):
            non_null, values = rle_bits.decode(bits, count)
    with inside("data", at):
        dense = decode_values(body[at:], physical_of(data_type_of(element_type)), encoding, values, ordinal, words)
        return from_physical(spread_over_nulls(dense, non_null, count), normal_type(element_type))

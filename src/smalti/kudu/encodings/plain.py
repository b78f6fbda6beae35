"""PLAIN: numbers, packed bits, or texts with offsets behind them (Kudu's plain_block.h and binary_plain_block.cc)."""

from __future__ import annotations

import struct

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import strings
from smalti.kudu.encodings.dense import Dense
from smalti.kudu.parsing import read_data_header
from smalti.kudu.types import TEXT, Physical

HEADER = struct.Struct("<II")  # count, ordinal
TEXT_HEADER = struct.Struct("<III")  # ordinal, count, where the offsets begin


def encode(values: Dense, ordinal: int) -> bytes:
    """The data part of a PLAIN block."""
    if not values.physical.is_text:
        return HEADER.pack(values.count, ordinal) + values.packed()
    text = values.text()
    header = TEXT_HEADER.pack(ordinal, values.count, TEXT_HEADER.size + len(text))
    return b"".join((header, text, strings.pack_offsets(values.offsets)))


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None) -> Dense:
    """Values of a PLAIN block, which must be exactly as long as they need."""
    if physical.is_text:
        return decode_texts(data, count, ordinal)
    read_data_header(HEADER, data, ("number of values", count), ("first ordinal", ordinal))
    body = data[HEADER.size :]
    size = count * physical.width if physical.width else (count + 7) // 8
    if len(body) != size:
        raise CorruptFileError("values take another number of bytes", found=len(body), expected=size, offset=8)
    return Dense(physical, count, body)


def decode_texts(data: memoryview, count: int | None, ordinal: int | None) -> Dense:
    """Texts of a PLAIN block. Without `count`, as in a dictionary, their number is the header's."""
    expected = ("first ordinal", ordinal), ("number of values", count)
    _, found, offsets_at = read_data_header(TEXT_HEADER, data, *expected)
    offsets = strings.unpack_offsets(data, offsets_at, found)
    return Dense(TEXT, found, data[TEXT_HEADER.size : offsets_at], memoryview(offsets))

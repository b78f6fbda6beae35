"""PLAIN: words, packed bits, or texts with group-varint offsets behind them (note, section 5)."""

from __future__ import annotations

import struct

import pyarrow as pa

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import strings
from smalti.kudu.encodings.dense import Dense, check_header, need_header
from smalti.kudu.types import Physical

_WORDS = struct.Struct("<II")  # count, ordinal
_TEXTS = struct.Struct("<III")  # ordinal, count, where the offsets begin
TEXT_HEADER = _TEXTS.size
WORD_HEADER = _WORDS.size


def encode(values: Dense, ordinal: int) -> bytes:
    """The data part of a PLAIN block."""
    if not values.is_text:
        return _WORDS.pack(values.count, ordinal) + values.packed()
    text = values.text()
    header = _TEXTS.pack(ordinal, values.count, TEXT_HEADER + len(text))
    return b"".join((header, text, strings.pack_offsets(values.offsets)))


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None) -> Dense:
    """Values of a PLAIN block, which must be exactly as long as they need."""
    if physical.arrow == pa.binary():
        return decode_texts(data, physical, count, ordinal)
    need_header(data, WORD_HEADER)
    found, first = _WORDS.unpack(data[:WORD_HEADER])
    check_header("number of values", found, count, 0)
    check_header("first ordinal", first, ordinal, 4)
    body = data[WORD_HEADER:]
    size = count * physical.width if physical.width else (count + 7) // 8
    if len(body) != size:
        raise CorruptFileError("values take another number of bytes", found=len(body), expected=size, offset=8)
    return Dense(physical, count, body)


def decode_texts(data: memoryview, physical: Physical, count: int | None, ordinal: int | None) -> Dense:
    """Texts of a PLAIN block; the number of them is the header's when `count` is not given (a dictionary)."""
    need_header(data, TEXT_HEADER)
    first, found, offsets_at = _TEXTS.unpack(data[:TEXT_HEADER])
    check_header("first ordinal", first, ordinal, 0)
    check_header("number of values", found, count, 4)
    offsets = strings.unpack_offsets(data, offsets_at, found)
    return Dense(physical, found, data[TEXT_HEADER:offsets_at], memoryview(offsets))

"""Value encodings of a block's data part: PLAIN, BIT_SHUFFLE, RLE and DICT, each in its module.

Owns the choice between them. What goes in is dense: the non-null elements only, in their physical form.
"""

from __future__ import annotations

from smalti.errors import SchemaError, UnsupportedFeatureError
from smalti.kudu.encodings import bitshuffle, dictionary, plain, runs
from smalti.kudu.encodings.dense import Dense
from smalti.kudu.encodings.dictionary import Dictionary
from smalti.kudu.spec import Encoding
from smalti.kudu.types import Physical

__all__ = ["Dense", "Dictionary", "choose_encoding", "decode_values", "encode_values"]


def choose_encoding(encoding: Encoding | None, physical: Physical) -> Encoding:
    """The encoding asked for, or Kudu's default for the type; one the type does not have is refused."""
    if encoding is None:
        return physical.encodings[0]
    if encoding not in physical.encodings:
        raise SchemaError(
            f"{physical.arrow} values have no such encoding in Kudu",
            found=encoding.name,
            expected=" or ".join(e.name for e in physical.encodings),
        )
    return encoding


def encode_values(values: Dense, encoding: Encoding, ordinal: int, words: Dictionary | None = None) -> bytes:
    """The data part of a block whose first cell is `ordinal`. DICT adds new words to `words` while it has room."""
    if encoding is Encoding.DICT:
        return dictionary.encode(values, ordinal, words if words is not None else Dictionary())
    if encoding is Encoding.BIT_SHUFFLE:
        return bitshuffle.encode(values, ordinal)
    return runs.encode(values, ordinal) if encoding is Encoding.RLE else plain.encode(values, ordinal)


def decode_values(
    data: memoryview, physical: Physical, encoding: Encoding, count: int, ordinal: int | None, words: Dense | None
) -> Dense:
    """Exactly `count` values from a data part; `ordinal` is the first cell's, or `None` when not known."""
    if encoding not in physical.encodings:
        raise UnsupportedFeatureError(f"{physical.arrow} values in this encoding are not read", found=encoding.name)
    if encoding is Encoding.DICT:
        return dictionary.decode(data, physical, count, ordinal, words)
    if encoding is Encoding.BIT_SHUFFLE:
        return bitshuffle.decode(data, physical, count, ordinal)
    decode = runs.decode if encoding is Encoding.RLE else plain.decode
    return decode(data, physical, count, ordinal)

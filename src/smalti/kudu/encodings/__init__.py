"""Value encodings of a block's data part: PLAIN, BIT_SHUFFLE, RLE and DICT, each in a module of its own.

Owns the choice between them. Encoders take dense values: the non-null elements only, in their physical form.
"""

from __future__ import annotations

from smalti.errors import SchemaError, UnsupportedFeatureError
from smalti.kudu.encodings import bitshuffle, dictionary, plain, runs
from smalti.kudu.encodings.dense import Dense
from smalti.kudu.encodings.dictionary import Dictionary
from smalti.kudu.spec import Encoding, encoding_named
from smalti.kudu.types import Physical

__all__ = ["Dense", "Dictionary", "choose_encoding", "decode_values", "encode_values"]


def choose_encoding(name: str, physical: Physical) -> Encoding:
    """The encoding a user names, which the type must have, or Kudu's default of the type for "auto"."""
    if name == "auto":
        return physical.encodings[0]
    encoding = encoding_named(name)
    if encoding not in physical.encodings:
        raise SchemaError(
            f"{physical.arrow} values have no such encoding in Kudu",
            found=encoding.name,
            expected=" or ".join(e.name for e in physical.encodings),
        )
    return encoding


def encode_values(values: Dense, encoding: Encoding, ordinal: int, words: Dictionary | None) -> bytes:
    """The data part of a block whose first cell is `ordinal`. DICT adds new words to `words` while it has room."""
    if encoding is Encoding.DICT:
        return dictionary.encode(values, ordinal, words if words is not None else Dictionary())
    if encoding is Encoding.BIT_SHUFFLE:
        return bitshuffle.encode(values.data, values.physical.width, ordinal)
    return runs.encode(values, ordinal) if encoding is Encoding.RLE else plain.encode(values, ordinal)


def decode_values(
    data: memoryview, physical: Physical, encoding: Encoding, count: int, ordinal: int | None, words: Dense | None
) -> Dense:
    """Exactly `count` values from a data part. `ordinal` is the first cell's, or `None` when it is not known."""
    if encoding not in physical.encodings:
        raise UnsupportedFeatureError(f"{physical.arrow} values in this encoding are not read", found=encoding.name)
    if encoding is Encoding.DICT:
        return dictionary.decode(data, count, ordinal, words)
    if encoding is Encoding.BIT_SHUFFLE:
        return Dense(physical, count, bitshuffle.decode(data, (physical.width,), count, ordinal)[0])
    decode = runs.decode if encoding is Encoding.RLE else plain.decode
    return decode(data, physical, count, ordinal)

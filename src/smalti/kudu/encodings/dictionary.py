"""DICT: codes of words, and the words in a block of their own (note, section 5).

Owns the words of one file while it is written, in the order they came, and the two modes of a block: codes while the
dictionary had room when the block was begun, plain texts afterwards.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import CorruptFileError, SchemaError
from smalti.kudu._kernels import strings
from smalti.kudu.encodings import bitshuffle, plain
from smalti.kudu.encodings.dense import Dense, dense_of, need_header
from smalti.kudu.place import inside
from smalti.kudu.spec import DEFAULT_BLOCK_SIZE, DataType, DictMode
from smalti.kudu.types import Physical, physical_of, to_physical

_MODE = struct.Struct("<I")
_CODE_WIDTHS = (1, 2, 4)


class Dictionary:
    """The words of one column, collected while its blocks are encoded.

    Parameters
    ----------
    block_size : int
        Bytes at which the dictionary is full: later blocks hold plain texts.

    Examples
    --------
    >>> from smalti.kudu import encode_array_block
    >>> words = Dictionary()
    >>> block = encode_array_block(pa.array([["b", "a", "b"]]), encoding="dict", dictionary=words)
    >>> words.words().to_pylist()
    [b'b', b'a']
    """

    def __init__(self, block_size: int = DEFAULT_BLOCK_SIZE) -> None:
        self._codes: dict[bytes, int] = {}
        self._limit = block_size
        self._text = plain.TEXT_HEADER  # bytes of header and words
        self._size = plain.TEXT_HEADER  # the same with the offsets, as Kudu counts it

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def full(self) -> bool:
        """Whether the words have grown past the block size."""
        return self._size > self._limit

    def codes(self, values: pa.Array) -> pa.Array:
        """uint32 codes of binary values; words not seen before are added."""
        coded = values.dictionary_encode()
        codes = pa.array([self._code(word) for word in coded.dictionary.to_pylist()], pa.uint32())
        return codes.take(coded.indices)

    def first_to_fill(self, values: pa.Array) -> int:
        """Index of the value whose word would take the dictionary past its size, or -1. Adds nothing."""
        coded = values.dictionary_encode()
        count, text, size = len(self._codes), self._text, self._size
        for position, word in enumerate(coded.dictionary.to_pylist()):
            if word in self._codes:
                continue
            size += _entry_size(count, text, word)
            text += len(word)
            count += 1
            if size > self._limit:
                return int(coded.indices.index(position).as_py())
        return -1

    def words(self) -> pa.Array:
        """The words by code."""
        return pa.array(list(self._codes), pa.binary())

    def encode(self) -> bytes:
        """The dictionary block's bytes, before compression and checksum: a PLAIN block of the words."""
        return plain.encode(dense_of(self.words(), physical_of(DataType.BINARY)), 0)

    def _code(self, word: bytes) -> int:
        code = self._codes.get(word)
        if code is None:
            code = len(self._codes)
            self._size += _entry_size(code, self._text, word)
            self._text += len(word)
            self._codes[word] = code
        return code


def _entry_size(count: int, text: int, word: bytes) -> int:
    """What Kudu counts for one more word: its bytes, those of its offset, and a selector byte for every four."""
    return len(word) + max(1, (text.bit_length() + 7) // 8) + (count % 4 == 0)


def encode(values: Dense, ordinal: int, words: Dictionary) -> bytes:
    """The data part of a DICT block; plain if the dictionary was full before."""
    if words.full:
        return _MODE.pack(DictMode.PLAIN) + plain.encode(values, ordinal)
    codes = words.codes(values.to_texts())
    top = pc.max(codes).as_py() or 0  # no codes: one byte each
    narrow, width = (pa.uint8(), 1) if top < 256 else (pa.uint16(), 2) if top < 65536 else (pa.uint32(), 4)
    data = memoryview(codes.cast(narrow).buffers()[1]).cast("B")[: values.count * width] if values.count else b""
    return _MODE.pack(DictMode.CODES) + bitshuffle.encode_words(memoryview(data), width, ordinal)


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None, words: Dense | None) -> Dense:
    """Values of a DICT block; `words` are those of `decode_dictionary`."""
    need_header(data, _MODE.size)
    (code,) = _MODE.unpack(data[: _MODE.size])
    if code not in (DictMode.CODES, DictMode.PLAIN):
        raise CorruptFileError("mode of a dictionary block", found=code, expected="1 or 2", offset=0)
    if code == DictMode.PLAIN:
        with inside("plain texts", _MODE.size):
            return plain.decode_texts(data[_MODE.size :], physical, count, ordinal)
    with inside("codes", _MODE.size):
        codes, width = bitshuffle.decode_words(data[_MODE.size :], _CODE_WIDTHS, count, ordinal)
    if words is None:
        raise CorruptFileError("block holds codes, but there is no dictionary", expected="the dictionary's words")
    offsets, text = strings.look_up(words.offsets, words.data, codes, width)
    return Dense(physical, count, memoryview(text), memoryview(offsets))


def decode_dictionary(data: memoryview) -> Dense:
    """The words of a dictionary block."""
    return plain.decode_texts(data, physical_of(DataType.BINARY), None, 0)


def words_of(dictionary: pa.Array | Dictionary | None) -> Dense | None:
    """The words a caller gives to `decode_array_block`."""
    if dictionary is None:
        return None
    array = dictionary.words() if isinstance(dictionary, Dictionary) else to_physical(dictionary)
    if array.type != pa.binary() or array.null_count:
        raise SchemaError("a dictionary is an array of strings without nulls", found=str(array.type))
    return dense_of(array, physical_of(DataType.BINARY))

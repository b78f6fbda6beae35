"""DICT: codes of words in the blocks, and the words in a block of their own (Kudu's binary_dict_block.cc).

Owns the words of one file while it is written, in the order they came, and the two modes of a block: codes if the
dictionary had room when the block was begun, plain texts if it was full.
"""

from __future__ import annotations

import struct
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import CorruptFileError, SchemaError
from smalti.file.inspection import sound_array
from smalti.kudu._kernels import strings
from smalti.kudu.encodings import bitshuffle, plain
from smalti.kudu.encodings.dense import Dense, buffer_view, dense_of
from smalti.kudu.parsing import inside, read_data_header
from smalti.kudu.spec import DEFAULT_BLOCK_SIZE, DictMode
from smalti.kudu.types import TEXT, to_physical

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
        self._text = plain.TEXT_HEADER.size  # bytes of header and words
        self._size = plain.TEXT_HEADER.size  # the same with the offsets, as Kudu counts it

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def full(self) -> bool:
        """Whether the words have grown past the block size."""
        return self._size > self._limit

    def codes(self, values: pa.Array) -> pa.Array:
        """The uint32 codes of binary values; words not seen before are added."""
        words, indices = _distinct(values)
        return pa.array([self._code(word) for word in words], pa.uint32()).take(indices)

    def first_to_fill(self, values: pa.Array) -> int:
        """Index of the value whose word would take the dictionary past its size, or -1. Adds no word."""
        words, indices = _distinct(values)
        count, text, size = len(self._codes), self._text, self._size
        for position, word in enumerate(words):
            if word in self._codes:
                continue
            size += _entry_size(count, text, word)
            text += len(word)
            count += 1
            if size > self._limit:
                return int(indices.index(position).as_py())
        return -1

    def words(self) -> pa.Array:
        """The words in the order of their codes."""
        return pa.array(list(self._codes), pa.binary())

    def encode(self) -> bytes:
        """The dictionary block before compression and checksum: a PLAIN block of the words."""
        return plain.encode(dense_of(self.words(), TEXT), 0)

    def _code(self, word: bytes) -> int:
        code = self._codes.get(word)
        if code is None:
            code = len(self._codes)
            self._size += _entry_size(code, self._text, word)
            self._text += len(word)
            self._codes[word] = code
        return code


def _distinct(values: pa.Array) -> tuple[list[bytes], pa.Array]:
    """The distinct values in the order they come, and for each value the index of its equal among them."""
    coded = values.dictionary_encode()
    return cast("list[bytes]", coded.dictionary.to_pylist()), coded.indices


def _entry_size(count: int, text: int, word: bytes) -> int:
    """What Kudu counts for one more word: its bytes, those of its offset, and a selector byte for every four words."""
    return len(word) + max(1, (text.bit_length() + 7) // 8) + (count % 4 == 0)


def encode(values: Dense, ordinal: int, words: Dictionary) -> bytes:
    """The data part of a DICT block; it holds plain texts if the dictionary is already full."""
    if words.full:
        return _MODE.pack(DictMode.PLAIN) + plain.encode(values, ordinal)
    codes = words.codes(values.to_texts())
    top = pc.max(codes).as_py() or 0  # without codes there is no maximum, and a code takes one byte
    narrow, width = (pa.uint8(), 1) if top < 256 else (pa.uint16(), 2) if top < 65536 else (pa.uint32(), 4)
    numbers = buffer_view(codes.cast(narrow).buffers()[1])[: values.count * width]
    return _MODE.pack(DictMode.CODES) + bitshuffle.encode(numbers, width, ordinal)


def decode(data: memoryview, count: int, ordinal: int | None, words: Dense | None) -> Dense:
    """Values of a DICT block; `words` are those of `decode_dictionary`."""
    (mode,) = read_data_header(_MODE, data)
    if mode not in (DictMode.CODES, DictMode.PLAIN):
        raise CorruptFileError("mode of a dictionary block", found=mode, expected="1 or 2", offset=0)
    if mode == DictMode.PLAIN:
        with inside("plain texts", _MODE.size):
            return plain.decode_texts(data[_MODE.size :], count, ordinal)
    with inside("codes", _MODE.size):
        codes, width = bitshuffle.decode(data[_MODE.size :], _CODE_WIDTHS, count, ordinal)
    if words is None:
        raise CorruptFileError("block holds codes, but there is no dictionary", expected="the dictionary's words")
    offsets, text = strings.look_up(words.offsets, words.data, codes, width)
    return Dense(TEXT, count, memoryview(text), memoryview(offsets))


def decode_dictionary(data: memoryview) -> Dense:
    """The words of a dictionary block."""
    return plain.decode_texts(data, None, 0)


def words_of(dictionary: pa.Array | Dictionary | None) -> Dense | None:
    """The words that a caller gives to `decode_array_block`."""
    if dictionary is None:
        return None
    if isinstance(dictionary, Dictionary):
        array = dictionary.words()
    else:
        array = to_physical(sound_array(dictionary, "dictionary"))
    if array.type != pa.binary() or array.null_count:
        raise SchemaError("a dictionary is an array of strings without nulls", found=str(array.type))
    return dense_of(array, TEXT)

"""The nullable array data block: cells of lists in, bytes out, and back (note, sections 1 and 4).

Owns the order of the block's parts and the invariants between them. Stricter than Kudu's reader: sizes fit, counts
match, lengths sum to the flattened count, set bits equal the number of values, a null array has length 0.
"""

from __future__ import annotations

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.kudu._kernels import leb128, lists, rle_bits, rle_ints
from smalti.kudu.cells import Cells, cells_of_lists, element_type_of
from smalti.kudu.checksum import seal, unseal
from smalti.kudu.compression import compress_block, decompress_block
from smalti.kudu.encodings import Dense, Dictionary, choose_encoding, decode_values, encode_values
from smalti.kudu.encodings.dense import spread_over_nulls
from smalti.kudu.encodings.dictionary import words_of
from smalti.kudu.place import inside
from smalti.kudu.spec import (
    MAX_BLOCK_CELLS,
    MAX_BLOCK_ELEMENTS,
    Compression,
    Encoding,
    compression_named,
    encoding_named,
)
from smalti.kudu.types import data_type_of, from_physical, normal_type, physical_of


def encode_array_block(
    array: pa.Array | pa.ChunkedArray,
    *,
    encoding: str = "plain",
    checksum: bool = True,
    compression: str | None = None,
    first_ordinal: int = 0,
    dictionary: Dictionary | None = None,
) -> bytes:
    """Encode a list array as one Kudu array data block.

    Parameters
    ----------
    array : pyarrow.Array
        A list, large_list or fixed_size_list of int8 to int64, float, double, bool, string, binary, date32,
        timestamp, or decimal of up to 18 digits; at least one list, none of more than 65,535 elements.
    encoding : str
        "plain", "bit_shuffle", "rle", "dict", or "auto" for Kudu's default of the type.
    checksum : bool
        Whether a CRC-32C follows the block.
    compression : str, optional
        "lz4", "snappy" or "zlib".
    first_ordinal : int
        The row number of the first list.
    dictionary : Dictionary, optional
        Where "dict" keeps the words; without one the words are the distinct elements in order of appearance.

    Returns
    -------
    bytes
        The block as it lies in a CFile; the same bytes Kudu's own writer gives.

    Examples
    --------
    >>> encode_array_block(pa.array([[None], None, [], [4, 2]], pa.list_(pa.int32())), checksum=False).hex()
    '03040203060903010000000000020002030d02000000000000000400000002000000'
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    cells = cells_of_lists(array)
    chosen = choose_encoding(None if encoding == "auto" else encoding_named(encoding), cells.values.physical)
    if not 0 < len(cells) <= MAX_BLOCK_CELLS or cells.non_null_elements.count > MAX_BLOCK_ELEMENTS:
        raise SchemaError(
            "number of lists and elements in a block",
            found=(len(cells), cells.non_null_elements.count),
            expected=f"1 to {MAX_BLOCK_CELLS} lists, up to {MAX_BLOCK_ELEMENTS} elements",
        )
    if not 0 <= first_ordinal < 1 << 32:
        raise SchemaError("first ordinal", found=first_ordinal, expected="0 to 2**32 - 1")
    block = compress_block(encode_array_cells(cells, chosen, first_ordinal, dictionary), compression_named(compression))
    return seal(block) if checksum else block


def decode_array_block(
    data: bytes | memoryview,
    element_type: pa.DataType | str,
    *,
    encoding: str = "plain",
    checksum: bool = True,
    compression: str | None = None,
    first_ordinal: int | None = None,
    dictionary: pa.Array | Dictionary | None = None,
) -> pa.ListArray:
    """Decode one Kudu array data block.

    Parameters
    ----------
    data : bytes
        The block, with its checksum if `checksum`.
    element_type : pyarrow.DataType
        The type of the elements (a list type stands for its element type).
    encoding, checksum, compression
        As the block was written: a block does not say so itself.
    first_ordinal : int, optional
        The row number the block must begin with; not checked when not given.
    dictionary : pyarrow.Array or Dictionary, optional
        The words of a "dict" block.

    Returns
    -------
    pyarrow.ListArray
        Null, empty and null-element lists told apart.

    Raises
    ------
    CorruptFileError
        When the bytes break the format anywhere.

    Examples
    --------
    >>> block = bytes.fromhex("03040203060903010000000000020002030d02000000000000000400000002000000")
    >>> decode_array_block(block, pa.int32(), checksum=False).to_pylist()
    [[None], None, [], [4, 2]]
    """
    element_type = element_type_of(element_type)
    physical = physical_of(data_type_of(element_type))
    chosen = choose_encoding(None if encoding == "auto" else encoding_named(encoding), physical)
    body = open_block(memoryview(data).cast("B"), checksum, compression_named(compression))
    return decode_array_body(body, element_type, chosen, first_ordinal, words_of(dictionary))


def open_block(data: memoryview, checksum: bool, compression: Compression) -> memoryview:
    """The inside of a stored block, its checksum verified and its compression undone."""
    return decompress_block(unseal(data) if checksum else data, compression)


def encode_array_cells(cells: Cells, encoding: Encoding, ordinal: int, words: Dictionary | None) -> bytes:
    """The inside of an array block."""
    elements, arrays = cells.non_null_elements, cells.non_null_cells
    element_bits = rle_bits.encode(elements.buffer, elements.start, elements.count)
    numbers = rle_ints.encode(cells.lengths, 2)
    array_bits = rle_bits.encode(arrays.buffer, arrays.start, arrays.count)
    parts = [leb128.encode(elements.count), leb128.encode(len(cells))]
    for part in (element_bits, numbers, array_bits):
        parts += (leb128.encode(len(part)), part)
    parts.append(encode_values(cells.values, encoding, ordinal, words))
    return b"".join(parts)


def decode_array_body(
    body: memoryview, element_type: pa.DataType, encoding: Encoding, ordinal: int | None, words: Dense | None
) -> pa.ListArray:
    """Lists from the inside of an array block."""
    with inside("block header"):
        count, at = leb128.decode32(body)
        arrays, at = leb128.decode32(body, at)
        check_counts(arrays, count)
    parts: list[tuple[memoryview, int]] = []
    for name in ("flattened non-null bitmap", "array element numbers", "array non-null bitmap"):
        with inside(name):
            part, at = read_sized(body, at)
            parts.append((part, at - len(part)))
    (element_bits, at_elements), (numbers, at_numbers), (array_bits, at_arrays) = parts
    with inside("array non-null bitmap", at_arrays):
        non_null_arrays, present = rle_bits.decode(array_bits, arrays)
    with inside("array element numbers", at_numbers):
        lengths = rle_ints.decode(numbers, 2, arrays)
        offsets = lists.offsets_of(lengths, non_null_arrays if present < arrays else None, count)
    with inside("flattened non-null bitmap", at_elements):
        non_null, values = rle_bits.decode(element_bits, count)
    with inside("data", at):
        dense = decode_values(body[at:], physical_of(data_type_of(element_type)), encoding, values, ordinal, words)
        elements = from_physical(spread_over_nulls(dense, non_null, count), normal_type(element_type))
    validity = None if present == arrays else pa.py_buffer(non_null_arrays)
    return pa.ListArray.from_buffers(
        pa.list_(elements.type), arrays, [validity, pa.py_buffer(offsets)], arrays - present, children=[elements]
    )


def check_counts(cells: int, elements: int) -> None:
    """Refuse a block that claims more than this package reads: runs make any claim cheap to write."""
    if cells == 0:
        raise CorruptFileError("block without cells", found=0, offset=0)
    if cells > MAX_BLOCK_CELLS or elements > MAX_BLOCK_ELEMENTS:
        raise UnsupportedFeatureError(
            "block has too many cells or elements",
            found=(cells, elements),
            expected=f"{MAX_BLOCK_CELLS} cells and {MAX_BLOCK_ELEMENTS} elements at most",
        )


def read_sized(body: memoryview, at: int) -> tuple[memoryview, int]:
    """A part behind its size, and the offset behind it."""
    size, start = leb128.decode32(body, at)
    if size > len(body) - start:
        raise CorruptFileError("part is longer than the block", found=size, expected=len(body) - start, offset=at)
    return body[start : start + size], start + size

"""The two functions for single array blocks: a list array to the bytes of one block, and back."""

from __future__ import annotations

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.kudu.blocks import decode_array_body, encode_array_body, unwrap_block, wrap_block
from smalti.kudu.cells import cells_of_lists, element_type_of, sound_cells
from smalti.kudu.encodings import Dictionary, choose_encoding
from smalti.kudu.encodings.dictionary import words_of
from smalti.kudu.spec import MAX_BLOCK_CELLS, MAX_BLOCK_ELEMENTS, compression_named
from smalti.kudu.types import physical_of


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
        Where "dict" keeps the words. Without one, the words are the distinct elements in order of appearance.

    Returns
    -------
    bytes
        The block as it lies in a CFile: the same bytes that Kudu's own writer gives.

    Examples
    --------
    >>> encode_array_block(pa.array([[None], None, [], [4, 2]], pa.list_(pa.int32())), checksum=False).hex()
    '03040203060903010000000000020002030d02000000000000000400000002000000'
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    sound = [sound_cells(chunk) for chunk in chunks] or [pa.array([], array.type)]
    cells = cells_of_lists(sound[0] if len(sound) == 1 else pa.concat_arrays(sound))
    chosen = choose_encoding(encoding, cells.values.physical)
    if not 0 < len(cells) <= MAX_BLOCK_CELLS or cells.non_null_elements.count > MAX_BLOCK_ELEMENTS:
        raise SchemaError(
            "number of lists and elements in a block",
            found=(len(cells), cells.non_null_elements.count),
            expected=f"1 to {MAX_BLOCK_CELLS} lists, up to {MAX_BLOCK_ELEMENTS} elements",
        )
    if not 0 <= first_ordinal < 1 << 32:
        raise SchemaError("first ordinal", found=first_ordinal, expected="0 to 2**32 - 1")
    codec = compression_named(compression)
    return wrap_block(encode_array_body(cells, chosen, first_ordinal, dictionary), checksum, codec)


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
        The same as when the block was written, since a block does not say so itself.
    first_ordinal : int, optional
        The row number with which the block must begin; without it, any will do.
    dictionary : pyarrow.Array or Dictionary, optional
        The words of a "dict" block.

    Returns
    -------
    pyarrow.ListArray
        Null lists, empty lists and lists of nulls are told apart.

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
    chosen = choose_encoding(encoding, physical_of(element_type))
    body = unwrap_block(memoryview(data).cast("B"), checksum, compression_named(compression))
    return decode_array_body(body, element_type, chosen, first_ordinal, words_of(dictionary))

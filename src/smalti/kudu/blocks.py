"""Data blocks: the parts of an array block or of a plain column's block, and the compression and checksum around them.

Owns the order of the parts and the invariants between them. It is stricter than Kudu's reader: sizes must fit, counts
must match, lengths must add up to the number of elements, as many bits must be set as there are values, and a null
array must have length 0.
"""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.kudu._kernels import leb128, lists, rle_bits, rle_ints
from smalti.kudu.cells import Bitmap, Cells
from smalti.kudu.checksum import seal, unseal
from smalti.kudu.compression import compress_block, decompress_block
from smalti.kudu.encodings import Dense, Dictionary, decode_values, encode_values
from smalti.kudu.encodings.dense import spread_over_nulls
from smalti.kudu.parsing import inside, read_sized
from smalti.kudu.spec import MAX_BLOCK_CELLS, MAX_BLOCK_ELEMENTS, Compression, Encoding
from smalti.kudu.types import from_physical, normal_type, physical_of


def wrap_block(body: bytes, checksum: bool, compression: Compression) -> bytes:
    """Compress the inside of a block and append its checksum."""
    block = compress_block(body, compression)
    return seal(block) if checksum else block


def unwrap_block(data: memoryview, checksum: bool, compression: Compression) -> memoryview:
    """Verify the checksum of a stored block and decompress its inside."""
    return decompress_block(unseal(data) if checksum else data, compression)


def encode_array_body(cells: Cells, encoding: Encoding, ordinal: int, words: Dictionary | None) -> bytes:
    """The inside of an array block."""
    parts = [leb128.encode(cells.non_null_elements.count), leb128.encode(len(cells))]
    lengths = rle_ints.encode(cells.lengths, 2)
    for part in (_encode_bits(cells.non_null_elements), lengths, _encode_bits(cells.non_null_cells)):
        parts += (leb128.encode(len(part)), part)
    return b"".join((*parts, encode_values(cells.values, encoding, ordinal, words)))


def decode_array_body(
    body: memoryview, element_type: pa.DataType, encoding: Encoding, ordinal: int | None, words: Dense | None
) -> pa.ListArray:
    """Lists from the inside of an array block."""
    with inside("block header"):
        count, at = leb128.decode32(body)
        arrays, at = leb128.decode32(body, at)
        _check_counts(arrays, count)
    parts: list[tuple[memoryview, int]] = []
    for name in ("flattened non-null bitmap", "array element numbers", "array non-null bitmap"):
        with inside(name):
            part, start = read_sized(body, at)
        parts.append((part, start))
        at = start + len(part)
    (element_bits, at_elements), (numbers, at_numbers), (array_bits, at_arrays) = parts
    with inside("array non-null bitmap", at_arrays):
        non_null_arrays, present = rle_bits.decode(array_bits, arrays)
    with inside("array element numbers", at_numbers):
        lengths = rle_ints.decode(numbers, 2, arrays)
        offsets = lists.offsets_of(lengths, non_null_arrays if present < arrays else None, count)
    with inside("flattened non-null bitmap", at_elements):
        non_null, values = rle_bits.decode(element_bits, count)
    with inside("data", at):
        dense = decode_values(body[at:], physical_of(element_type), encoding, values, ordinal, words)
        elements = from_physical(spread_over_nulls(dense, non_null, count), normal_type(element_type))
    validity = None if present == arrays else pa.py_buffer(non_null_arrays)
    buffers = [validity, pa.py_buffer(offsets)]
    array = pa.Array.from_buffers(pa.list_(elements.type), arrays, buffers, arrays - present, children=[elements])
    return cast("pa.ListArray", array)


def encode_plain_body(
    cells: Cells, encoding: Encoding, ordinal: int, words: Dictionary | None, *, nullable: bool
) -> bytes:
    """The inside of a plain column's block: the values, with a count and a bitmap before them if it is nullable."""
    data = encode_values(cells.values, encoding, ordinal, words)
    if not nullable:
        return data
    bits = _encode_bits(cells.non_null_elements)
    return b"".join((leb128.encode(len(cells)), leb128.encode(len(bits)), bits, data))


def decode_plain_body(
    body: memoryview,
    element_type: pa.DataType,
    encoding: Encoding,
    ordinal: int,
    words: Dense | None,
    *,
    cells: int,
    nullable: bool,
) -> pa.Array:
    """Values from the inside of a plain column's block; a block that is not nullable must hold `cells` of them."""
    at, count, non_null, values = 0, cells, b"", cells
    with inside("block header"):
        if nullable:
            count, at = leb128.decode32(body)
        _check_counts(count, count)
    if nullable:
        with inside("non-null bitmap"):
            bits, start = read_sized(body, at)
        with inside("non-null bitmap", start):
            non_null, values = rle_bits.decode(bits, count)
        at = start + len(bits)
    with inside("data", at):
        dense = decode_values(body[at:], physical_of(element_type), encoding, values, ordinal, words)
        return from_physical(spread_over_nulls(dense, non_null, count), normal_type(element_type))


def _encode_bits(bits: Bitmap) -> bytes:
    return rle_bits.encode(bits.buffer, bits.start, bits.count)


def _check_counts(cells: int, elements: int) -> None:
    """Refuse a block that claims more than this package reads: with runs, any claim takes only a few bytes."""
    if cells == 0:
        raise CorruptFileError("block without cells", found=0, offset=0)
    if cells > MAX_BLOCK_CELLS or elements > MAX_BLOCK_ELEMENTS:
        raise UnsupportedFeatureError(
            "block has too many cells or elements",
            found=(cells, elements),
            expected=f"{MAX_BLOCK_CELLS} cells and {MAX_BLOCK_ELEMENTS} elements at most",
        )

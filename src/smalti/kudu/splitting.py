"""Where a block ends: with the array that holds the value at which Kudu's encoder says it is full.

Pure functions of values and a block size, with one rule per encoding. Kudu asks the encoder after each array that is
not empty and never splits an array, so a block may be far larger than the block size.
"""

from __future__ import annotations

from smalti.kudu._kernels import lists, rle_bits, rle_ints, strings
from smalti.kudu.cells import Cells
from smalti.kudu.encodings import Dense, Dictionary, plain
from smalti.kudu.spec import MAX_BLOCK_CELLS, MAX_BLOCK_ELEMENTS, Encoding

_CODE_WIDTH = 4  # Kudu counts this many bytes for a dictionary's code while it builds the block


def fill_point(values: Dense, encoding: Encoding, block_size: int, words: Dictionary | None) -> int:
    """Index of the value that fills a new block, or -1 if these values do not."""
    if encoding is Encoding.DICT and words is not None and not words.full:
        codes = block_size // _CODE_WIDTH
        first = words.first_to_fill(values.slice(0, min(codes, values.count)).to_texts())
        return first if first >= 0 else _within(codes - 1, values)
    if values.physical.is_text:
        return strings.plain_full_at(values.offsets, block_size)
    width, header = values.physical.width, plain.HEADER.size
    if encoding is Encoding.BIT_SHUFFLE:
        return _within(block_size // width - 1, values)
    if encoding is Encoding.RLE:
        if width:
            return rle_ints.full_at(values.data, width, header, block_size)
        return rle_bits.full_at(values.data, values.start, values.count, header, block_size)
    room = block_size - header
    return _within(room // width if width else room * 8, values)


def cut_block(
    cells: Cells, encoding: Encoding, block_size: int, words: Dictionary | None
) -> tuple[Cells, Cells] | None:
    """The cells of one full block and those after it, or `None` while the block has room for more."""
    point = fill_point(cells.values, encoding, block_size, words)
    bits = cells.non_null_elements
    taken, elements, values = lists.advance(
        cells.lengths, bits.buffer, bits.start, point, MAX_BLOCK_CELLS, MAX_BLOCK_ELEMENTS
    )
    filled = 0 <= point < values
    if not filled and taken == len(cells) < MAX_BLOCK_CELLS:
        return None
    return cells.cut(taken, elements, values)


def _within(index: int, values: Dense) -> int:
    return index if index < values.count else -1

"""Examples A, B and C of the document: the table as it stands there, the arrays it gives, and the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest

from smalti.kudu import decode_array_block, encode_array_block
from smalti.kudu._kernels import leb128
from tests.kudu.runs import decode_bitmap, decode_counts


@dataclass(frozen=True)
class Example:
    name: str
    flattened_value_count: int
    array_count: int
    flattened_non_null_bitmap: str
    array_element_numbers: list[int]
    array_non_null_bitmap: str
    data: list[int]
    boundaries: list[tuple[int, int]]
    arrays: list[list[int | None] | None]
    block: str


EXAMPLES = [
    Example(
        "A", 10, 7, "1111111101", [2, 0, 0, 2, 4, 1, 1], "1101111", [1, 2, 3, 4, 5, 6, 7, 8, 9],
        [(0, 2), (2, 2), (2, 2), (2, 4), (4, 8), (8, 9), (9, 10)],
        [[1, 2], [], None, [3, 4], [5, 6, 7, 8], [None], [9]],
        "0a 07 04 10010302 0f 03 0200 0000 0000 0200 0400 0100 0100 02 037b 09000000 00000000"
        "01000000 02000000 03000000 04000000 05000000 06000000 07000000 08000000 09000000 08845983",
    ),
    Example(
        "B", 3, 4, "011", [1, 0, 0, 2], "1011", [4, 2], [(0, 1), (1, 1), (1, 1), (1, 3)],
        [[None], None, [], [4, 2]],
        "03 04 02 0306 09 03 0100 0000 0000 0200 02 030d 02000000 00000000 04000000 02000000 d8d8a287",
    ),
    Example(
        "C", 10, 1, "1101111101", [10], "1", [2, 3, 6, 8, 5, 3, 1, 0], [(0, 10)],
        [[2, 3, None, 6, 8, 5, 3, 1, None, 0]],
        "0a 01 03 05fb02 03 020a00 02 0201 08000000 00000000"
        "02000000 03000000 06000000 08000000 05000000 03000000 01000000 00000000 ae3472c7",
    ),
]  # fmt: skip
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)


@each
def test_bytes_hold_what_the_document_says(example: Example) -> None:
    block = bytes.fromhex(example.block)
    count, at = leb128.decode32(block)
    arrays, at = leb128.decode32(block, at)
    parts = []
    for _ in range(3):
        size, at = leb128.decode32(block, at)
        parts.append(block[at : at + size])
        at += size
    assert (count, arrays) == (example.flattened_value_count, example.array_count)
    assert "".join(str(int(b)) for b in decode_bitmap(parts[0], count)) == example.flattened_non_null_bitmap
    assert decode_counts(parts[1], arrays) == example.array_element_numbers
    assert "".join(str(int(b)) for b in decode_bitmap(parts[2], arrays)) == example.array_non_null_bitmap
    values = [int.from_bytes(block[i : i + 4], "little") for i in range(at + 8, len(block) - 4, 4)]
    assert values == example.data


@each
def test_block_reads_as_the_document_says(example: Example) -> None:
    array = decode_array_block(bytes.fromhex(example.block), pa.int32())
    assert array.to_pylist() == example.arrays
    offsets = array.offsets.to_pylist()
    assert list(pairwise(offsets)) == example.boundaries


@each
def test_arrays_write_the_same_bytes(example: Example) -> None:
    assert encode_array_block(pa.array(example.arrays, pa.list_(pa.int32()))) == bytes.fromhex(example.block)


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        (None, "00 01 00 03 020000 02 0200"),
        ([], "00 01 00 03 020000 02 0201"),
        ([None], "01 01 02 0200 03 020100 02 0201"),
    ],
)
def test_the_three_kinds_of_nothing(cell: list[None] | None, parts: str) -> None:
    """A null array, an empty array and an array of one null have different bytes."""
    block = encode_array_block(pa.array([cell], pa.list_(pa.int32())), checksum=False)
    assert block == bytes.fromhex(parts) + bytes(8)
    assert decode_array_block(block, pa.int32(), checksum=False).to_pylist() == [cell]

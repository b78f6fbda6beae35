"""Sharing files out among tasks: tables of cases."""

from __future__ import annotations

import pytest

from smalti.table.listing import FoundFile
from smalti.table.splits import cut, pack

FILE = FoundFile("f", 100)


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([], 10, []),
        ([5], 10, [(0,)]),
        ([50], 10, [(0,)]),
        ([5, 5, 5], 10, [(0, 1), (2,)]),
        ([50, 1, 50], 10, [(0,), (1,), (2,)]),
        ([0, 0, 0], 10, [(0, 1, 2)]),
        ([3, 3, 3, 3], 6, [(0, 1), (2, 3)]),
        ([3, 3, 3, 3], 10, [(0, 1, 2), (3,)]),
        ([5, 5, 5, 5], 10, [(0, 1), (2, 3)]),
        ([30, 1, 1], 10, [(0,), (1, 2)]),
        ([15, 15], 10, [(0,), (1,)]),
    ],
)
def test_pack_and_cut(sizes: list[int], limit: int, expected: list[tuple[int, ...]]) -> None:
    packed = pack(sizes, limit)
    assert packed == expected
    assert [place for group in packed for place in group] == list(range(len(sizes)))
    pieces = cut(FILE, sizes, limit)
    assert [piece.row_groups for piece in pieces] == expected
    assert sum(piece.num_bytes for piece in pieces) == sum(sizes)

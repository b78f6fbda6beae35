"""Which encoding and which mode are chosen: tables of cases."""

from __future__ import annotations

import pytest

from smalti._core.encode import choose_encoding, choose_paged
from smalti.spec import Encoding


@pytest.mark.parametrize(
    ("non_null", "constant", "tracked", "entries", "entry_bytes", "plain_bytes", "expected"),
    [
        (0, True, True, 0, 0, 0, Encoding.ALL_NULL),
        (1, True, True, 1, 4, 4, Encoding.CONST),
        (9, True, False, 0, 0, 9_000_000, Encoding.CONST),  # a long constant needs no dictionary
        (200, False, True, 200, 800, 800, Encoding.PLAIN),  # the review's example: 1 + 800 + 200 > 800
        (8, False, True, 2, 8, 32, Encoding.DICT),  # 1 + 8 + 1 < 32
        (8, False, False, 2, 8, 32, Encoding.PLAIN),  # tracking was given up
        (16, False, True, 2, 2, 5, Encoding.PLAIN),  # 1 + 2 + 2 == 5: a tie is PLAIN
        (16, False, True, 2, 2, 6, Encoding.DICT),
        (128, False, True, 128, 128, 242, Encoding.PLAIN),  # the count takes two bytes: 2 + 128 + 112 == 242
        (128, False, True, 128, 128, 243, Encoding.DICT),
        (5, False, True, 1, 4, 20, Encoding.PLAIN),  # a dictionary has two entries at least
    ],
)
def test_encoding(
    non_null: int, constant: bool, tracked: bool, entries: int, entry_bytes: int, plain_bytes: int, expected: Encoding
) -> None:
    assert choose_encoding(non_null, constant, tracked, entries, entry_bytes, plain_bytes) == expected


@pytest.mark.parametrize(
    ("counted_bytes", "pages", "threshold", "paged"),
    [
        (0, 0, 0, False),  # nothing but constants and nulls
        (1, 1, 0, True),
        (32_768, 1, 32_768, True),
        (32_767, 1, 32_768, False),
        (65_535, 2, 32_768, False),  # the average is rounded down
        (65_536, 2, 32_768, True),
    ],
)
def test_mode(counted_bytes: int, pages: int, threshold: int, paged: bool) -> None:
    assert choose_paged(counted_bytes, pages, threshold) is paged

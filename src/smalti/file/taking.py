"""What reads of rows by number have in common: the order that was asked for, and rows chosen at random."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError
from smalti.mosaic.rows import Taken


def in_order_of(taken: Taken, table: pa.Table, kept: Allowance) -> pa.Table:
    """The rows of a take in the order that was asked for, given those that were read for it."""
    if taken.order is None:
        return table
    from smalti.logical.rows import take_table  # see there why not at the top

    kept.part().take(kept.held * len(taken.order) // max(1, table.num_rows))
    return take_table(table, taken.order)


def chosen_rows(n: Any, total: int, seed: int | None) -> pa.Int64Array:
    """`n` of `total` rows, or all if there are fewer, each with the same chance, in ascending order."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise MosaicError("a sample has a whole number of rows", found=n, expected="0 or more")
    return pa.array(sorted(random.Random(seed).sample(range(total), min(n, total))), pa.int64())

"""A scan of a file as units of reading ahead: one for each row group, with an estimate of what it holds in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MemoryLimitError
from smalti.format.index import MONOLITHIC
from smalti.mosaic.scan import PAGE_RATIO, Projection, Scanner, ScanPlan, check_fits
from smalti.mosaic.tail import Tail
from smalti.readahead import Unit

#: A row group of more bytes, by estimate, is fetched ahead, but decoded in slices when its turn comes.
AHEAD_BYTES = 256 << 20
#: What a row group may take beyond twice its estimate before its turn.
SLACK = 16 << 20


def estimate_bytes(tail: Tail, columns: Projection, group: int) -> int:
    """About what reading columns of a row group takes in memory: the bytes that are fetched, inflated and decoded.

    Encodings such as CONST take next to nothing in the file, so rows times their width are counted too.
    """
    stored = inflated = 0
    for read in columns.buckets:
        entry = tail.entry(group, read.bucket)
        share = len(read.columns) / read.nodes.num_columns
        if entry.mode == MONOLITHIC:
            stored += entry.size
            inflated += entry.uncompressed_size
        else:
            stored += int(entry.size * share)
            inflated += int(entry.size * share) * PAGE_RATIO
    return stored + inflated + tail.index.rows(group) * columns.row_width


class Decoded(list[pa.RecordBatch]):
    """Batches of a row group, with the allowance in which they count for as long as this list is there."""

    def __init__(self, batches: Iterable[pa.RecordBatch], account: Allowance) -> None:
        super().__init__(batches)
        self.account = account


def scan_units(
    scanner: Scanner,
    plan: ScanPlan,
    kept: Allowance | None = None,
    batch_size: int | None = None,
    ahead: Allowance | None = None,
) -> Iterator[Unit[Iterable[pa.RecordBatch]]]:
    """The row groups of a plan, each as a unit whose result are its batches.

    With `kept`, all batches of the read stay in memory and count together. Without, each is let go before the next one
    is decoded, and a row group that is large, or larger than was estimated, is decoded when its turn comes. What is
    decoded before its turn counts together, in `ahead`.
    """
    if kept is not None:
        check_fits(scanner, plan, kept)
    for read in plan.groups:
        one = replace(plan, groups=(read,))
        size = estimate_bytes(scanner.tail, plan.output, read.row_group)
        if plan.filter_columns is not None and read.is_filtered:
            size += estimate_bytes(scanner.tail, plan.filter_columns, read.row_group)
        if kept is not None:
            yield Unit(lambda one=one: Decoded(scanner.batches(one, kept), kept), size)  # type: ignore[misc]
        else:
            yield Unit(partial(_read_ahead, scanner, one, size, batch_size, ahead), size)


def _read_ahead(
    scanner: Scanner, plan: ScanPlan, size: int, batch_size: int | None, ahead: Allowance | None
) -> Iterable[pa.RecordBatch]:
    """The batches of one row group: decoded already if they take no more than was estimated, else when asked for."""
    if size <= AHEAD_BYTES:
        limit = min(scanner.memory_limit, 2 * size + SLACK)
        account = Allowance(limit) if ahead is None else ahead.part(limit)
        with suppress(MemoryLimitError):
            return Decoded(scanner.batches(plan, account), account)
    return scanner.slices(plan, batch_size, scanner.fetch_first(plan))

"""A scan of a file as units of reading ahead: one for each row group, with an estimate of what it holds in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from smalti.file.scan import PAGE_RATIO, Projection, Scanner, ScanPlan
from smalti.file.tail import Tail
from smalti.format.index import MONOLITHIC
from smalti.readahead import Unit


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


def scan_units(scanner: Scanner, plan: ScanPlan) -> Iterator[Unit[pa.RecordBatch | None]]:
    """The row groups of a plan, each as a unit whose result is its batch, or None where no row matches."""
    for read in plan.groups:
        one = replace(plan, groups=(read,))
        size = estimate_bytes(scanner.tail, plan.output, read.row_group)
        if plan.filter_columns is not None and read.is_filtered:
            size += estimate_bytes(scanner.tail, plan.filter_columns, read.row_group)
        yield Unit(lambda one=one: next(scanner.batches(one), None), size)  # type: ignore[misc]

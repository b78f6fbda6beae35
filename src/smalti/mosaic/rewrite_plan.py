"""The plan of a rewrite: where the physical columns of each bucket of the new file come from. Touches no file.

Slots of paged buckets depend on nothing around them, so that consecutive physical columns of an old bucket are copied
as one run of bytes. Which physical columns these are is the same for every row group, and is planned once for each
file; how a bucket is stored may differ between row groups, and is decided for each (`choose_form`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from smalti._core.physical import PhysicalColumns
from smalti._core.schema import SchemaBlock
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.spec import DEFAULT_NUM_BUCKETS, DEFAULT_PAGE_SIZE_THRESHOLD, MAX_PAGED_CHILDREN, MAX_UINT32

#: In place of a position or a bucket of the old file: the column is encoded anew.
FRESH = -1


class Run(NamedTuple):
    """Consecutive physical columns of a bucket of the old file, or (FRESH) of those that are encoded anew."""

    bucket: int
    first: int
    length: int


@dataclass(frozen=True)
class BucketPlan:
    """Where the physical columns of a new bucket come from: `runs`, in order.

    `fresh` has the positions, in the new file, of its columns that are encoded anew.
    """

    number: int
    physical: PhysicalColumns
    runs: tuple[Run, ...]
    fresh: tuple[int, ...] = ()
    #: Whether these are all physical columns of one old bucket, in its order.
    is_whole: bool = False

    @cached_property
    def sources(self) -> dict[int, list[Run]]:
        """The runs of each old bucket."""
        found: dict[int, list[Run]] = {}
        for run in self.runs:
            if run.bucket != FRESH:
                found.setdefault(run.bucket, []).append(run)
        return found


@dataclass(frozen=True)
class ColumnPlan:
    """Where the stored columns of a new file come from, for all row groups of one old file.

    `origins` has the position in the old file, or FRESH, for each position in the new one.
    """

    origins: list[int]
    buckets: tuple[BucketPlan, ...]
    #: The physical columns of the old buckets that are copied from.
    old_physical: Mapping[int, PhysicalColumns]

    @cached_property
    def targets(self) -> dict[int, list[int]]:
        """The positions in the new file of each old position: more than one if a column is copied twice."""
        targets = {origin: [position] for position, origin in enumerate(self.origins) if origin != FRESH}
        if len(targets) < len(self.origins) - self.origins.count(FRESH):
            targets = {origin: [] for origin in targets}
            for position, origin in enumerate(self.origins):
                if origin != FRESH:
                    targets[origin].append(position)
        return targets


def plan_columns(
    new: SchemaBlock, physical: Sequence[PhysicalColumns], old: SchemaBlock | None, origins: list[int]
) -> ColumnPlan:
    """Plan the buckets of a new file, of which `physical` has the physical columns.

    Without an `old` file, every origin is FRESH. The caller has made sure that a column and its origin have one type.
    """
    known: dict[int, PhysicalColumns] = {}
    buckets = tuple(_plan_bucket(new, number, nodes, old, origins, known) for number, nodes in enumerate(physical))
    return ColumnPlan(origins, buckets, known)


def _plan_bucket(
    new: SchemaBlock,
    number: int,
    physical: PhysicalColumns,
    old: SchemaBlock | None,
    origins: list[int],
    known: dict[int, PhysicalColumns],
) -> BucketPlan:
    first, num_columns = physical.first_column, physical.num_columns
    wanted = origins[first : first + num_columns]
    is_flat = physical.num_physical == num_columns
    if old is not None and is_flat and wanted[0] != FRESH and wanted == list(range(wanted[0], wanted[0] + num_columns)):
        runs = tuple(_consecutive(old, wanted[0], num_columns, known))
        return BucketPlan(number, physical, runs, (), _is_whole(runs, physical, known))
    fresh = tuple(first + at for at, origin in enumerate(wanted) if origin == FRESH)
    fresh_physical = new.physical_at(list(fresh)) if fresh else None
    made = 0
    nodes: list[tuple[int, int]] = [(FRESH, 0)] * physical.num_physical
    for at, origin in enumerate(wanted):
        if origin == FRESH:
            bucket, column, below = FRESH, made, fresh_physical
            made += 1
        else:
            assert old is not None
            bucket = origin * old.num_buckets // old.num_columns  # `SchemaBlock.bucket_of`, without a call each
            below = known.get(bucket)
            if below is None:
                below = known[bucket] = old.physical_columns(bucket)
            column = origin - below.first_column
        if is_flat:
            nodes[at] = bucket, column
            continue
        assert below is not None
        for node, source in zip(physical.subtree(at), below.subtree(column), strict=True):
            nodes[node] = bucket, source
    runs = tuple(_runs(nodes))
    return BucketPlan(number, physical, runs, fresh, _is_whole(runs, physical, known))


def _consecutive(old: SchemaBlock, first: int, count: int, known: dict[int, PhysicalColumns]) -> Iterator[Run]:
    """The runs of columns that are neighbours in the old file and have no children: one for each old bucket."""
    while count:
        bucket = old.bucket_of(first)
        physical = known.setdefault(bucket, known.get(bucket) or old.physical_columns(bucket))
        at = first - physical.first_column
        length = min(count, physical.num_columns - at)
        yield Run(bucket, at, length)
        first, count = first + length, count - length


def _is_whole(runs: tuple[Run, ...], physical: PhysicalColumns, known: dict[int, PhysicalColumns]) -> bool:
    if len(runs) != 1 or runs[0].bucket == FRESH or runs[0].first:
        return False
    old = known[runs[0].bucket]
    return (old.num_columns, old.num_physical) == (physical.num_columns, physical.num_physical)


def _runs(nodes: Iterable[tuple[int, int]]) -> Iterable[Run]:
    bucket = first = count = 0
    for where, node in nodes:
        if count and where == bucket and node == first + count:
            count += 1
            continue
        if count:
            yield Run(bucket, first, count)
        bucket, first, count = where, node, 1
    if count:
        yield Run(bucket, first, count)


# --- how a bucket of a row group is stored ------------------------------------------------------------------------


class Form(Enum):
    """How a new bucket of a row group is made."""

    #: The compressed block of an old bucket is copied.
    COPIED_BLOCK = "copied block"
    #: A paged bucket: slots are copied, and columns of monolithic buckets are compressed to slots.
    SLOTS = "slots"
    #: A monolithic bucket: the columns are put together and compressed.
    BLOCK = "block"
    #: No column is copied: the writer chooses, as for any new bucket.
    ENCODED = "encoded"


def choose_form(plan: BucketPlan, modes: Mapping[int, str], *, same_compression: bool, is_compressed: bool) -> Form:
    """Decide how a bucket is made. `modes` has the mode of every old bucket in this row group.

    A bucket stays what most of its columns were, so that the layout of a file is kept, and the least is inflated.

    Parameters
    ----------
    same_compression : bool
        Whether blocks of the old file can be blocks of the new one.
    is_compressed : bool
        Whether the new file is compressed; otherwise nothing is paged.
    """
    votes = {PAGED: 0, MONOLITHIC: 0, EMPTY: 0}
    for run in plan.runs:
        if run.bucket != FRESH:
            votes[modes[run.bucket]] += run.length
    if plan.is_whole and votes[MONOLITHIC] and same_compression:
        return Form.COPIED_BLOCK
    if plan.runs and not any(votes.values()):
        return Form.ENCODED
    children = plan.physical.num_physical - plan.physical.num_columns
    if is_compressed and votes[PAGED] >= max(1, votes[MONOLITHIC]) and children <= MAX_PAGED_CHILDREN:
        return Form.SLOTS
    return Form.BLOCK


# --- the layout of the new file -----------------------------------------------------------------------------------


def keep_num_buckets(num_buckets: int, old_columns: int, new_columns: int) -> int:
    """The number of buckets of a file that is laid out like an old one of `num_buckets` for `old_columns`.

    It is the same. Only where every column had a bucket of its own, columns that are added get buckets too, up to the
    number that files have by default.

    Examples
    --------
    >>> keep_num_buckets(100, 10_000, 10_010), keep_num_buckets(100, 10_000, 20), keep_num_buckets(5, 5, 7)
    (100, 20, 7)
    """
    if num_buckets >= old_columns:
        num_buckets = max(num_buckets, DEFAULT_NUM_BUCKETS)
    return max(1, min(num_buckets, new_columns))


def keep_threshold(paged_bytes: int, monolithic_bytes: int) -> int:
    """The page size threshold for buckets that are encoded anew, since a file does not say with which it was written.

    Examples
    --------
    >>> keep_threshold(1000, 10), keep_threshold(0, 1000) == MAX_UINT32, keep_threshold(10, 1000)
    (0, True, 32768)
    """
    if paged_bytes >= monolithic_bytes and paged_bytes:
        return 0
    return DEFAULT_PAGE_SIZE_THRESHOLD if paged_bytes else MAX_UINT32

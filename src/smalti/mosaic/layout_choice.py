"""Which layout fits a table: how many buckets, and whether their columns are compressed together or one by one.

Columns that are compressed together take fewer bytes and are read together; compressed one by one (paged) each is read
by itself. How many bytes that costs depends on the data, so a few buckets of the first row group are compressed in
several ways (`Sample`), and a small model weighs sizes against the time of reading. Everything here is pure: the writer
measures the samples and follows the choice.

The model counts a read in nanoseconds of one core, with the constants below:

    one column from a bucket that is one block:   BLOCK_COST + all bytes of the block
    one column from a paged bucket:               BLOCK_COST + PAGE_COST + the bytes of the page

A scattered read of k columns touches B (1 - (1 - 1/B)^k) of B buckets. Readers of 1, 10 and 100 columns count alike:
the cost of a layout is the geometric mean of the three. Reading all columns takes nearly the same time in every layout.

Size and time are weighed by a rate of exchange (`RATE`): the layout with the least `cost * size ** rate` is taken, of
those within a bound on the size (`TOLERANCES`). `python -m benchmarks.choices` checks the choices by measuring them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from smalti.options import WriterOptions
from smalti.sizes import ROW_GROUP_BYTES
from smalti.spec import DEFAULT_NUM_BUCKETS, DEFAULT_PAGE_SIZE_THRESHOLD, MAX_ROW_GROUP_SIZE

#: For `balanced`: how many per cent of reading time one per cent of size is worth, above the size of the reference's
#: layout and below it. A file should not become much larger than people expect; that it becomes smaller is worth less.
RATE, RATE_BELOW = 10, 2
#: How much larger than the reference's layout a file may become for the sake of faster reads, whatever they gain.
TOLERANCES = {"small": 0.0, "balanced": 0.15, "fast": 0.5}
#: Sizes that differ by less than this are the same for `small`.
SAME_SIZE = 0.005
#: Nanoseconds to fetch a bucket or page and to find its columns, beside those for its bytes.
BLOCK_COST, PAGE_COST = 20_000, 3_000
#: Nanoseconds to decompress a byte and find the columns in it.
BYTE_COST = 1
#: Sizes of reads that count.
READS = (1, 10, 100)
#: Blocks that each sampled bucket is cut into, beside being one block.
SPLITS = 4
#: Smaller buckets are also tried together, `SPLITS` at a time.
SMALL_BUCKET = 64 << 10
#: Columns of fewer bytes are not worth a page, whatever other columns are. The last row group is often a short one.
SHORT_COLUMN = 512
#: Bytes of samples that are enough, and the fewest and most regions they are taken from.
SAMPLE_BYTES, MIN_REGIONS, MAX_REGIONS = 4 << 20, 2, 4
#: If columns of the first row group have fewer bytes on average (nearly all null), samples do not predict later ones.
MIN_COLUMN_BYTES = 2
#: Bytes that each column of a row group of many columns should have: long columns compress better one by one and take
#: fewer reads.
COLUMN_BYTES = 64 << 10
#: Rows of a row group if no number is asked for; tables of more than about a hundred columns reach the bytes before. A
#: column of 8 bytes a value has 2 MiB then, about what a store sends in the time that a request takes: reading all row
#: groups costs hardly more than reading one, and a read of a few rows inflates little.
ROW_GROUP_ROWS = 1 << 18
#: Entries of a dictionary: 255 as the reference has, more where each occurs `ROWS_PER_ENTRY` times on average. Indices
#: of a dictionary whose entries are rare are packed bits, which compress worse than the values themselves.
MIN_ENTRIES, MAX_ENTRIES, ROWS_PER_ENTRY = 255, 4096, 8
#: Largest dictionary of a column that is given as a dictionary, in entries and in bytes. Parquet writes such a column
#: with its dictionary, whatever the size; at 100,000 categories it is read in a fifth of the time that texts take.
GIVEN_ENTRIES, GIVEN_BYTES = 1 << 18, 8 << 20


def row_group_bytes(num_columns: int) -> int:
    """The size of row groups if none is asked for: 256 MiB, for more than 4,096 columns up to 511 MiB.

    Examples
    --------
    >>> row_group_bytes(100) >> 20, row_group_bytes(5000) >> 20, row_group_bytes(10_000) >> 20
    (256, 312, 511)
    """
    return min(max(num_columns * COLUMN_BYTES, ROW_GROUP_BYTES), MAX_ROW_GROUP_SIZE)


def dictionary_limits(options: WriterOptions, num_rows: int) -> tuple[int, int, int, int]:
    """The most entries and bytes of a dictionary in a row group, then those of columns given as dictionaries.

    Limits that are asked for, and the reference's if a layout is, hold for both.

    Examples
    --------
    >>> dictionary_limits(WriterOptions(), 4500)
    (562, 32768, 262144, 8388608)
    >>> dictionary_limits(WriterOptions(dict_max_entries=10), 4500)
    (10, 32768, 10, 32768)
    """
    entries, size = options.dict_max_entries, options.dict_max_bytes
    is_free = entries is None and size == WriterOptions.dict_max_bytes and not options.is_layout_given
    if entries is None:
        entries = MIN_ENTRIES
        if not options.is_layout_given:
            entries = min(max(num_rows // ROWS_PER_ENTRY, MIN_ENTRIES), MAX_ENTRIES)
    return (entries, size, GIVEN_ENTRIES, GIVEN_BYTES) if is_free else (entries, size, entries, size)


@dataclass(frozen=True)
class Sample:
    """Neighbouring columns of the first row group, compressed in several ways.

    Attributes
    ----------
    num_columns : int
    raw_bytes : int
        Encoded, before compression.
    num_pages, page_bytes : int
        The pages that count for `page_size_threshold`, and their bytes before compression.
    blocks : dict of int to int
        The compressed bytes in blocks, by the number of buckets of a file with blocks of that size.
    paged_bytes : int, optional
        The compressed bytes in one page per column, with the directory; None if the file cannot be paged.
    """

    num_columns: int
    raw_bytes: int
    num_pages: int
    page_bytes: int
    blocks: dict[int, int]
    paged_bytes: int | None


@dataclass(frozen=True)
class Candidate:
    """A layout that was considered: `size` is relative to the reference's layout, `cost` in nanoseconds of reading."""

    num_buckets: int
    paged: bool
    size: float
    cost: float

    @property
    def weight(self) -> float:
        """Time and size in one number, the less the better."""
        return self.cost * self.size ** (RATE if self.size > 1 else RATE_BELOW)

    def __str__(self) -> str:
        return f"{self.num_buckets:,} {'paged' if self.paged else 'monolithic'} buckets"


@dataclass(frozen=True)
class LayoutChoice:
    """The layout of a file, and why.

    Attributes
    ----------
    num_buckets, page_size_threshold : int
        What is written, see `smalti.WriterOptions`.
    reason : str
        In words.
    candidates : tuple of Candidate
        The layouts that were compared; empty if the layout was fixed.
    chosen : int, optional
        Index of the choice in `candidates`.
    """

    num_buckets: int
    page_size_threshold: int
    reason: str
    candidates: tuple[Candidate, ...] = ()
    chosen: int | None = None


def plan_regions(num_buckets: int, bucket_bytes: int) -> list[range]:
    """Which of the reference's buckets to sample, as runs of neighbours spread over the file.

    Examples
    --------
    >>> plan_regions(100, 4000)
    [range(24, 28), range(72, 76)]
    >>> plan_regions(100, 5 << 20)
    [range(25, 26), range(75, 76)]
    """
    length = min(num_buckets, SPLITS if bucket_bytes < SMALL_BUCKET else 1)
    most = MAX_REGIONS if length == 1 else MIN_REGIONS
    count = min(max(SAMPLE_BYTES // max(1, bucket_bytes * length), MIN_REGIONS), most, num_buckets // length)
    starts = [(2 * i + 1) * num_buckets // (2 * count) for i in range(count)]
    return [range(start, start + length) for start in (start // length * length for start in starts)]


def choose_layout(layout: str, num_columns: int, samples: Sequence[Sample]) -> LayoutChoice:
    """The layout of a file of `num_columns` columns, by samples of its first row group.

    Parameters
    ----------
    layout : {"small", "balanced", "fast"}
        "balanced" takes the layout with the least ``cost * size ** 10``: one per cent above the reference's size is
        worth ten per cent of reading time (one per cent below it, two). "fast" takes the fastest, "small" the smallest.
        None is larger than `TOLERANCES` allows, as far as the samples tell.
    num_columns : int
    samples : sequence of Sample
        Of the reference's buckets, at least one.
    """
    num_buckets = min(num_columns, DEFAULT_NUM_BUCKETS)
    page_bytes = sum(sample.page_bytes for sample in samples) // max(1, sum(sample.num_pages for sample in samples))
    if sum(sample.raw_bytes for sample in samples) < MIN_COLUMN_BYTES * sum(sample.num_columns for sample in samples):
        reason = "the first row group has hardly any bytes to tell by, so buckets are those of the reference"
        return LayoutChoice(num_buckets, DEFAULT_PAGE_SIZE_THRESHOLD, reason)
    weigh = _Weigher(num_columns, samples)
    shapes = [(count, False) for count in weigh.bucket_counts] + [(num_buckets, True)] * weigh.pageable
    reference = weigh.size(num_buckets, paged=weigh.pageable and page_bytes >= DEFAULT_PAGE_SIZE_THRESHOLD)
    candidates = tuple(
        Candidate(count, paged, weigh.size(count, paged=paged) / reference, weigh.cost(count, paged=paged))
        for count, paged in shapes
    )
    limit = 1 + TOLERANCES[layout]
    if layout == "small":
        limit = min(candidate.size for candidate in candidates) + SAME_SIZE
    best = min((c for c in candidates if c.size <= limit), key=lambda c: c.weight if layout == "balanced" else c.cost)
    reason = f"{best} are {_AIMS[layout]}, by samples of the first row group; a column has {page_bytes:,} bytes there"
    # Buckets whose columns are very unlike the samples decide for themselves: in a paged file, one with very short
    # columns stays one block, and otherwise one with much longer columns is paged.
    threshold = min(page_bytes // 4, SHORT_COLUMN) if best.paged else max(DEFAULT_PAGE_SIZE_THRESHOLD, 4 * page_bytes)
    return LayoutChoice(best.num_buckets, threshold, reason, candidates, candidates.index(best))


#: What the choice was, in words.
_AIMS = {
    "small": "the fastest to read of the layouts that are the smallest",
    "balanced": f"the best of the layouts that are at most {TOLERANCES['balanced']:.0%} larger than the reference's, "
    f"if 1% of size is worth {RATE}% of reading time",
    "fast": f"the fastest to read of the layouts that are at most {TOLERANCES['fast']:.0%} larger than the reference's",
}


class _Weigher:
    """Sizes and costs of a whole row group, from samples."""

    def __init__(self, num_columns: int, samples: Sequence[Sample]) -> None:
        self._num_columns = num_columns
        self._samples = samples
        self._share = sum(sample.num_columns for sample in samples) / num_columns
        self._raw_bytes = sum(sample.raw_bytes for sample in samples) / self._share
        self.bucket_counts = tuple(samples[0].blocks)
        self.pageable = all(sample.paged_bytes is not None for sample in samples)

    def size(self, num_buckets: int, *, paged: bool) -> float:
        """Compressed bytes, about."""
        taken = sum((sample.paged_bytes or 0) if paged else sample.blocks[num_buckets] for sample in self._samples)
        return max(1.0, taken) / self._share

    def cost(self, num_buckets: int, *, paged: bool) -> float:
        costs = []
        for count in (min(count, self._num_columns) for count in READS):
            touched = num_buckets * (1 - (1 - 1 / num_buckets) ** count)
            if paged:
                each = PAGE_COST + BYTE_COST * self._raw_bytes / self._num_columns
                costs.append(touched * BLOCK_COST + count * each)
            else:
                costs.append(touched * (BLOCK_COST + BYTE_COST * self._raw_bytes / num_buckets))
        return geometric_mean(costs)

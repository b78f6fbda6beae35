"""How much memory a read may take: what was asked for, or what fits the file and the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

#: A read may take so much in any case, which suffices for a row group of our writers, and beyond that so many times the
#: size of what it reads. Tables rarely shrink to less than a twentieth when they are stored; only columns of one value
#: shrink to nothing, and a small file that has nothing else, read whole, may need a higher limit.
LEAST_LIMIT, EXPANSION = 640 << 20, 256
#: The share of the machine's memory that a read may take unless more is asked for.
SHARE = 0.75

#: From so many bytes on, memory is better taken from Arrow's pool; see `room`.
LARGE = 1 << 20

#: Bytes that every read of a process and its children may take unless its caller says otherwise.
VARIABLE = "SMALTI_MEMORY_LIMIT"


def room(size: int) -> memoryview:
    """Memory to be written to, from Arrow's pool, which keeps what is released.

    Python and the C library give large pieces back to the system, and mapping their pages again for the next read costs
    more than filling them.
    """
    return memoryview(pa.allocate_buffer(size)).cast("B")


def asked_limit() -> int | None:
    """The limit that the environment sets for all reads, such as `smalti --memory-limit` does for its process."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE} is a number of bytes, 1 or more, not {text!r}")
    return int(text)


@contextmanager
def memory_limit(limit: int | None) -> Iterator[None]:
    """Set the limit of all reads of this process and of those it starts; None leaves it as it is."""
    before = os.environ.get(VARIABLE)
    if limit is not None:
        os.environ[VARIABLE] = str(limit)
    try:
        yield
    finally:
        if limit is not None:
            os.environ.pop(VARIABLE)
            os.environ.update({} if before is None else {VARIABLE: before})


@lru_cache(maxsize=1)
def machine_memory() -> int:
    """Bytes of memory that this process can use: those of the machine, or of its container if that has fewer."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [16 << 30]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            sizes.append(int(Path(path).read_text()))
        except (OSError, ValueError):
            continue  # there is no such group, or it says "max"
    return min(sizes)


def most_memory() -> int:
    """What a read may take on this machine, however large the file is."""
    return int(machine_memory() * SHARE)


def default_limit(stored_bytes: int, most: int) -> int:
    """The limit of a read of files of so many bytes.

    Examples
    --------
    >>> default_limit(22_000, 18 << 30) >> 20
    645
    >>> default_limit(1 << 30, 18 << 30) >> 30
    18
    """
    return min(most, LEAST_LIMIT + EXPANSION * stored_bytes)


def slice_rows(num_rows: int, num_bytes: int, target: int, batch_rows: int | None = None) -> int:
    """Rows that are decoded at a time so that they take about `target` bytes, of `num_rows` that take `num_bytes`.

    All rows where these are few; else a multiple of `batch_rows`, so that batches of that size need no other slice.

    Examples
    --------
    >>> slice_rows(1000, 50_000, 64_000)
    1000
    >>> slice_rows(1000, 1_000_000, 64_000), slice_rows(1000, 1_000_000, 64_000, batch_rows=10)
    (64, 60)
    """
    if num_bytes <= target:
        return num_rows
    rows = max(1, num_rows * target // num_bytes)
    if batch_rows is not None and batch_rows < num_rows:
        rows = max(batch_rows, rows // batch_rows * batch_rows) if batch_rows <= rows else rows
    return min(rows, num_rows)

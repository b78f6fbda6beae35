"""How much memory a read may take: the limit that was set, or one that fits the file and the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from smalti.errors import MemoryLimitError

#: The default limit of a batch and the memory to make it: these bytes, which suffice for the largest row group that is
#: written (`spec.MAX_ROW_GROUP_SIZE`), inflated and decoded, even if it is a single value, and this many times the size
#: of the file. Tables rarely shrink to less than a twentieth when they are stored.
LEAST_LIMIT, EXPANSION = 1152 << 20, 256
#: The share of the free memory that a read may take by default.
SHARE = 0.75
#: Seconds until the free memory is determined again: a table of many files asks for it with every file.
_MEMORY_AGE = 0.1
#: Bytes from which on `allocate` is better than Python's own memory.
LARGE = 1 << 20
#: The environment variable with the limit of every read of a process and its children, in bytes.
VARIABLE = "SMALTI_MEMORY_LIMIT"


def allocate(size: int) -> memoryview:
    """Allocate memory from Arrow's pool, which keeps released memory for the next read.

    Python and the C library return large allocations to the system, and mapping their pages again costs more than
    filling them.
    """
    return memoryview(pa.allocate_buffer(size)).cast("B")


@contextmanager
def allocation_errors() -> Iterator[None]:
    """Raise `MemoryLimitError` where Python, Arrow or a kernel cannot allocate memory."""
    try:
        yield
    except MemoryError as error:
        raise MemoryLimitError.failed(error) from None


def asked_limit() -> int | None:
    """Return the limit that the environment sets for all reads, as `smalti --memory-limit` does for its process."""
    limit = os.environ.get(VARIABLE)
    if limit is not None and (not limit.isdecimal() or int(limit) < 1):
        raise ValueError(f"{VARIABLE} is a number of bytes, 1 or more, not {limit!r}")
    return None if limit is None else int(limit)


@contextmanager
def memory_limit(limit: int | None) -> Iterator[None]:
    """Set the limit of all reads of this process and of its children for a while; None leaves the limit as it is."""
    before = os.environ.get(VARIABLE)
    os.environ.update({} if limit is None else {VARIABLE: str(limit)})
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        os.environ.update({} if before is None else {VARIABLE: before})


def free_memory() -> int:
    """Return how many bytes this process can still use: free memory of the machine, or less if a limit is lower.

    Its container may have a limit, and the process itself one of address space (`ulimit -v`) or of data (`ulimit -d`).
    Memory that caches files counts as free. Where the system does not tell the free memory, all memory counts.
    """
    return _free_memory(int(time.monotonic() / _MEMORY_AGE))


@lru_cache(maxsize=1)
def _free_memory(_: int) -> int:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    groups = ""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        size = next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
        groups = Path("/proc/self/cgroup").read_text()
    return min([size, *_process_memory(), *_group_memory(Path("/sys/fs/cgroup"), groups, size)])


def _process_memory() -> list[int]:
    """Return the bytes left under each limit of this process."""
    found = []
    with suppress(ImportError, OSError):  # Not every system has such limits, or tells what counts in them.
        import resource

        pages = Path("/proc/self/statm").read_text().split()
        for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                found.append(max(0, most - int(used) * resource.getpagesize()))
    return found


def _group_memory(root: Path, groups: str, free: int) -> list[int]:
    """Return the free bytes of each control group of this process that has fewer than `free`; versions 1 and 2."""
    found = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        base, limit, used, cached = root, "memory.max", "memory.current", "inactive_file"
        if "memory" in controllers.split(","):
            base, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file"
        elif controllers:
            continue
        group = base / path.lstrip("/")
        # A container may see its own group as the root, under a path that the group has only outside.
        for directory in {base, group, *(above for above in group.parents if above.is_relative_to(base))}:
            with suppress(OSError, ValueError):  # There is no such group, or its limit is "max".
                left = int((directory / limit).read_text()) - int((directory / used).read_text())
                if left < free:
                    stat = dict(entry.split() for entry in (directory / "memory.stat").read_text().splitlines())
                    found.append(max(0, left + int(stat.get(cached, 0))))
    return found


def most_memory() -> int:
    """Return the most that a read may take on this machine now, whatever the size of the file."""
    return int(free_memory() * SHARE)


def chosen_limit(limit: int | None) -> int:
    """Return the limit of a read that keeps its rows: `limit`, else that of the environment, else `most_memory`."""
    limit = asked_limit() if limit is None else limit
    return most_memory() if limit is None else limit


def default_limit(stored_bytes: int, most: int) -> int:
    """Return the default memory limit for decoding one batch of a file of `stored_bytes`, capped at `most`.

    Examples
    --------
    >>> default_limit(22_000, 18 << 30) >> 20
    1157
    >>> default_limit(1 << 30, 18 << 30) >> 30
    18
    """
    return min(most, LEAST_LIMIT + EXPANSION * stored_bytes)


def rows_per_slice(num_rows: int, num_bytes: int, target: int, batch_size: int | None = None) -> int:
    """Return how many rows to decode at a time so that they take about `target` bytes, if all take `num_bytes`.

    If possible the number is a multiple of `batch_size`, so that batches of that size need no second slice.

    Examples
    --------
    >>> rows_per_slice(1000, 50_000, 64_000)
    1000
    >>> rows_per_slice(1000, 1_000_000, 64_000), rows_per_slice(1000, 1_000_000, 64_000, batch_size=10)
    (64, 60)
    """
    if num_bytes <= target:
        return num_rows
    rows = max(1, num_rows * target // num_bytes)
    return rows - rows % batch_size if batch_size is not None and batch_size <= rows else rows

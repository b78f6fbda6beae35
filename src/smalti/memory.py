"""How much memory a read may take: what was asked for, or what fits the file and the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

#: A batch, and what it is made of, may take so much in any case, which suffices for a row group of our writers, and
#: beyond that so many times the size of its file. Tables rarely shrink to less than a twentieth when they are stored.
LEAST_LIMIT, EXPANSION = 640 << 20, 256
#: The share of the free memory that a read may take unless more is asked for.
SHARE = 0.75
#: For so many seconds the free memory counts as known: a table of many files asks for it with every file.
_MEMORY_AGE = 0.1

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


_known_memory = (0, float("-inf"))  # bytes that were free, and when


def free_memory() -> int:
    """Bytes of memory that this process can still use: those free on the machine, or in its container if fewer.

    Memory that holds copies of files counts as free. Where the system does not tell what is free, all memory counts.
    """
    global _known_memory
    size, moment = _known_memory
    if time.monotonic() - moment > _MEMORY_AGE:
        size = _machine_memory(Path("/proc/meminfo"))
        size = min([size, *_group_memory(Path("/sys/fs/cgroup"), _groups(), size)])
        _known_memory = size, time.monotonic()
    return size


def _machine_memory(meminfo: Path) -> int:
    with suppress(OSError, ValueError):
        return next(int(line.split()[1]) << 10 for line in meminfo.read_text().splitlines() if "MemAvailable" in line)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30


def _groups() -> str:
    with suppress(OSError):
        return Path("/proc/self/cgroup").read_text()
    return ""


def _group_memory(root: Path, groups: str, free: int) -> list[int]:
    """What is left in each control group of this process that has less than is `free`; both versions of groups."""
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
        # A container may see its own group as the root, and be told the path that the group has outside.
        for directory in {base, group, *(above for above in group.parents if above.is_relative_to(base))}:
            with suppress(OSError, ValueError):  # There is no such group, or its limit is "max".
                left = int((directory / limit).read_text()) - int((directory / used).read_text())
                if left < free:
                    stat = dict(entry.split() for entry in (directory / "memory.stat").read_text().splitlines())
                    found.append(max(0, left + int(stat.get(cached, 0))))
    return found


def most_memory() -> int:
    """What a read may take on this machine now, however large the file is."""
    return int(free_memory() * SHARE)


def default_limit(stored_bytes: int, most: int) -> int:
    """The limit of a batch, and of what it takes to make it, of a file of so many bytes.

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

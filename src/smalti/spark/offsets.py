"""What a stream has read, as an offset Spark keeps in its checkpoint. Pure.

An offset names the files that have become rows, with their times of modification, and a horizon: files older than it
count as read without being named, so that offsets do not grow forever. Times alone would not do: a file can appear
with an older time than one that was read before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Files this much older than the newest one read are no longer named: seven days, in nanoseconds.
MAX_AGE = 7 * 24 * 3600 * 10**9

Offset = dict[str, Any]


def first_offset() -> Offset:
    """Nothing read yet."""
    return {"horizon": -1, "files": {}}


def advance(start: Offset, listed: Mapping[str, int], limit: int | None, max_age: int = MAX_AGE) -> Offset:
    """The offset after reading what is new, oldest first, at most `limit` files.

    Parameters
    ----------
    start : Offset
    listed : mapping of path to time of modification in nanoseconds
    limit : int, optional
    max_age : int

    Examples
    --------
    >>> advance(first_offset(), {"b": 2, "a": 1}, limit=1)
    {'horizon': -1, 'files': {'a': 1}}
    """
    seen: Mapping[str, int] = start["files"]
    new = sorted((time, path) for path, time in listed.items() if path not in seen and time > start["horizon"])
    taken = new if limit is None else new[:limit]
    if not taken:
        return start
    # A file that is copied to its place by a commit is younger there than where it was staged.
    known = {path: max(time, listed.get(path, time)) for path, time in seen.items()}
    files = {**known, **{path: time for time, path in taken}}
    waiting = new[len(taken) :]
    # Nothing that still waits may fall behind the horizon.
    horizon = max(files.values()) - max_age
    if waiting:
        horizon = min(horizon, waiting[0][0] - 1)
    horizon = max(start["horizon"], horizon)
    # Files of this batch stay named whatever their age: the next offset is compared with this one.
    fresh = {path for _, path in taken}
    kept = {path: time for path, time in sorted(files.items()) if time > horizon or path in fresh}
    return {"horizon": horizon, "files": kept}


def added(start: Offset, end: Offset) -> list[str]:
    """The files between two offsets, in order.

    Examples
    --------
    >>> added({"horizon": -1, "files": {"a": 1}}, {"horizon": -1, "files": {"a": 1, "b": 2}})
    ['b']
    """
    return sorted(path for path in end["files"] if path not in start["files"])

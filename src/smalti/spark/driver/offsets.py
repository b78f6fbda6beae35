"""Offsets: what a stream has read, in the form that Spark keeps in its checkpoint. Pure.

An offset names the files that have been read, with their times of modification, and a horizon. Files older than the
horizon count as read without being named, so that offsets do not grow forever. The horizon alone would not be enough,
because a file can appear with an older time than a file that was read before it.

Jobs that compact or change a table put its rows into other files, which a stream would take for new ones. So an offset
also has the number of the last commit that did so, and a stream that finds a later one stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smalti.errors import ReplacedError

#: Files that are so much older than the newest file read are no longer named: seven days, in nanoseconds.
MAX_AGE = 7 * 24 * 3600 * 10**9

Offset = dict[str, Any]


def first_offset() -> Offset:
    """The offset of a stream that has read nothing."""
    return {"horizon": -1, "files": {}}


def advance(start: Offset, listed: Mapping[str, int], limit: int | None, max_age: int = MAX_AGE) -> Offset:
    """The offset after reading the files that are new, oldest first, at most `limit` of them.

    `listed` has the times of modification of all files, by path, in nanoseconds.

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
    # On object stores a commit copies files into place, and there they are younger than where they were staged.
    known = {path: max(time, listed.get(path, time)) for path, time in seen.items()}
    files = {**known, **{path: time for time, path in taken}}
    waiting = new[len(taken) :]
    # The horizon stays behind the files that are not read yet.
    horizon = max(files.values()) - max_age
    if waiting:
        horizon = min(horizon, waiting[0][0] - 1)
    horizon = max(start["horizon"], horizon)
    # Files of this batch stay named whatever their age, because `added` compares this offset with the one before.
    fresh = {path for _, path in taken}
    kept = {path: time for path, time in sorted(files.items()) if time > horizon or path in fresh}
    return {"horizon": horizon, "files": kept}


def check_rewritten(start: Offset, rewritten: Mapping[str, int]) -> None:
    """Raise if rows that a stream may have read were put into other files since the offset.

    `rewritten` has, by table, the number of the last commit that has put rows into other files.
    """
    seen: Mapping[str, int] = start.get("rewritten", {})
    for table, number in sorted(rewritten.items()):
        if start["files"] and number > seen.get(table, 0):
            raise ReplacedError(
                "the table was compacted or changed since this stream has read it, so rows that it has read are in "
                "other files now, and would be read again. Start the stream with a new checkpoint, or read the table "
                "once with an ordinary query",
                path=table,
                found=f"rows rewritten by record {number}",
                expected=f"none after record {seen.get(table, 0)}",
            )


def added(start: Offset, end: Offset) -> list[str]:
    """The files that are read between two offsets, in order.

    Examples
    --------
    >>> added({"horizon": -1, "files": {"a": 1}}, {"horizon": -1, "files": {"a": 1, "b": 2}})
    ['b']
    """
    return sorted(path for path in end["files"] if path not in start["files"])

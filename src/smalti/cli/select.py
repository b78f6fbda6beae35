"""`-c/--columns`: names and globs, found among the columns of a file."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Sequence

from smalti.errors import SchemaError

_GLOB = re.compile(r"[*?\[]")


def select_columns(names: Sequence[str], patterns: Sequence[str] | None) -> list[str] | None:
    """The columns meant, without repeats, in the order of the patterns; None if there are no patterns.

    A pattern is a name, a glob, or several of them with commas between; a name that itself has a comma or `*` in it is
    found as it is.

    Examples
    --------
    >>> select_columns(["id", "sensor_1", "sensor_2"], ["sensor_*,id"])
    ['sensor_1', 'sensor_2', 'id']
    """
    if not patterns:
        return None
    known = set(names)
    found: dict[str, None] = {}
    for pattern in patterns:
        pieces = [pattern] if pattern in known else [piece for piece in pattern.split(",") if piece]
        for piece in pieces:
            if piece in known:
                found[piece] = None
            elif _GLOB.search(piece):
                match = re.compile(fnmatch.translate(piece)).match
                matches = [name for name in names if match(name)]
                if not matches:
                    raise SchemaError("no column matches", found=piece)
                found.update(dict.fromkeys(matches))
            else:
                close = difflib.get_close_matches(piece, names, 3)
                raise SchemaError("no such column", found=piece, expected=" or ".join(close) or None)
    return list(found)

"""Columns named by patterns, for readers and the command line. Needs no Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from smalti.errors import SchemaError, no_column

_WILDCARDS = re.compile(r"[*?\[]")


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names that a user passed; a single string would be taken for the names of its characters."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the string {columns!r}")
    return None if columns is None else tuple(columns)


def is_pattern(name: str) -> bool:
    return _WILDCARDS.search(name) is not None


def match_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that are asked for, without repeats, in the order of the patterns; each pattern is a name or a glob.

    Examples
    --------
    >>> match_names(["id", "click.a", "click.b", "x*"], ["click.*", "id", "x*"])
    ['click.a', 'click.b', 'id', 'x*']
    """
    known = set(names)
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in known:
            found[pattern] = None
        elif is_pattern(pattern):
            match = re.compile(translate(pattern)).match
            matches = [name for name in names if match(name)]
            if not matches:
                raise SchemaError(f"no column matches {pattern!r}")
            found.update(dict.fromkeys(matches))
        else:
            raise no_column(pattern, names)
    return list(found)

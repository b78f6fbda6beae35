"""Columns named by patterns, for readers and the command line. Needs no Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from smalti.errors import SchemaError, no_column

_WILDCARDS = re.compile(r"[*?\[]")
_DIGIT = re.compile(r"\d")


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


def repeat_names(columns: Sequence[str], matching: Callable[[str], list[str]]) -> list[str]:
    """The names that `columns` asks for, in this order. A repeated name is repeated, what a pattern matches is not.

    Examples
    --------
    >>> names = ["id", "click.a", "click.b"]
    >>> repeat_names(["id", "click.*", "id", "click.?"], lambda pattern: match_names(names, [pattern]))
    ['id', 'click.a', 'click.b', 'id']
    """
    found: list[str] = []
    known, asked = set[str](), set[str]()
    for column in columns:
        matches = matching(column)
        is_repeated = column in asked and matches == [column]
        found += matches if is_repeated else [name for name in matches if name not in known]
        known.update(matches)
        asked.add(column)
    return found


#: Fewer columns of one prefix and type are named one by one.
_FAMILY = 3


def families(names: Sequence[str], types: Sequence[object]) -> list[tuple[str, int, str]]:
    """Columns by what their names begin with, up to the first digit, and their types: for views of wide tables.

    Each has its name, or its prefix with an ellipsis, how many columns it is, and the type as text.

    Examples
    --------
    >>> families(["id", "sensor_1", "sensor_2", "sensor_3"], ["int64", "float", "float", "float"])
    [('id', 1, 'int64'), ('sensor_…', 3, 'float')]
    """
    found: dict[tuple[str, str], list[str]] = {}
    shown: dict[object, str] = {}
    for name, type_ in zip(names, types, strict=True):
        text = shown.get(type_) or shown.setdefault(type_, str(type_))
        found.setdefault((_DIGIT.split(name, 1)[0], text), []).append(name)
    listed: list[tuple[str, int, str]] = []
    for (prefix, text), members in found.items():
        if len(members) < _FAMILY:
            listed += [(name, 1, text) for name in members]
        else:
            listed.append((f"{prefix}…", len(members), text))
    return listed

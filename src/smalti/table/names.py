"""Which names a path, a pattern or a directory asks for: globs, hidden names, partitions in paths. Pure: no IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from smalti.table.partitions import parse_partition

_WILDCARDS = "*?[{"


@dataclass(frozen=True)
class Selection:
    """The files that a path asks for: all below `base`, or those that match `wildcards`, one for each level below it.

    `*`, `?`, `[...]` and `{a,b}` match within a level, and `**` matches any number of levels, or none. A directory that
    matches the last wildcard stands for all files below it.
    """

    base: str
    wildcards: tuple[str, ...]
    suffix: str

    @classmethod
    def of_glob(cls, path: str, suffix: str) -> Selection:
        """
        Examples
        --------
        >>> Selection.of_glob("data/day=*/part-?.mosaic", ".mosaic")
        Selection(base='data', wildcards=('day=*', 'part-?.mosaic'), suffix='.mosaic')
        """
        parts = PurePosixPath(path).parts
        fixed = next((level for level, part in enumerate(parts) if is_glob(part)), len(parts))
        return cls(str(PurePosixPath(*parts[:fixed])), parts[fixed:], suffix)

    def partition(self, path: str) -> dict[str, str | None] | None:
        """The partition of a file, or None if it is not asked for.

        Examples
        --------
        >>> Selection("data", (), ".mosaic").partition("data/day=3/part-0.mosaic")
        {'day': '3'}
        >>> Selection("data", ("day=4",), ".mosaic").partition("data/day=3/part-0.mosaic")
        >>> Selection("data", ("**", "*.mosaic"), ".mosaic").partition("data/day=3/hour=7/part-0.mosaic")
        {'day': '3', 'hour': '7'}
        """
        try:
            parts = PurePosixPath(path).relative_to(self.base).parts
        except ValueError:
            return None
        if not parts or not path.endswith(self.suffix) or not _matches_all(parts, self.wildcards):
            return None
        return parse_partition(parts[:-1])

    def same(self, listed: Iterable[str], again: Iterable[str]) -> bool:
        """Whether two listings have the same files, of those that are asked for."""
        first, second = ({path for path in paths if self.partition(path) is not None} for paths in (listed, again))
        return first == second


def is_glob(path: str) -> bool:
    return any(character in path for character in _WILDCARDS)


def matches(name: str, wildcard: str) -> bool:
    """Whether a name matches a wildcard; a hidden name needs a wildcard that starts with a dot or underscore too."""
    found = any(fnmatchcase(name, each) for each in expand_braces(wildcard))
    return found and (_visible([name]) or wildcard[0] in "._")


def _matches_all(parts: Sequence[str], wildcards: Sequence[str]) -> bool:
    """Whether the first levels of a path match wildcards, and what is below them is visible."""
    if not wildcards:
        return _visible(parts)
    if wildcards[0] == "**":
        visible = next((depth for depth, part in enumerate(parts) if not _visible([part])), len(parts))
        return any(_matches_all(parts[depth:], wildcards[1:]) for depth in range(visible + 1))
    return bool(parts) and matches(parts[0], wildcards[0]) and _matches_all(parts[1:], wildcards[1:])


def expand_braces(pattern: str) -> list[str]:
    """The patterns that one with braces stands for. Braces that do not close stand for themselves.

    Examples
    --------
    >>> expand_braces("{a,b{1,2}}.*"), expand_braces("a{b")
    (['a.*', 'b1.*', 'b2.*'], ['a{b'])
    """
    start = pattern.find("{")
    depth, parts, begin = 0, [], start + 1
    for place in range(start, len(pattern)) if start >= 0 else ():
        character = pattern[place]
        depth += (character == "{") - (character == "}")
        if (character == "," and depth == 1) or depth == 0:
            parts.append(pattern[begin:place])
            begin = place + 1
        if depth == 0:
            rest = pattern[place + 1 :]
            return [each for part in parts for each in expand_braces(pattern[:start] + part + rest)]
    return [pattern]


def _visible(parts: Sequence[str]) -> bool:
    """Whether no part of a path is hidden. `_x=1` is a partition and visible, `_temporary` is hidden."""
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def tables_above(path: str) -> list[str]:
    """The directories whose commits may change a directory: itself and, if it is a partition, the table above it.

    Examples
    --------
    >>> tables_above("lake/sales/day=3/hour=7"), tables_above("lake/sales")
    (['lake/sales/day=3/hour=7', 'lake/sales/day=3', 'lake/sales'], ['lake/sales'])
    """
    place = PurePosixPath(path)
    found = [str(place)]
    while "=" in place.name:
        place = place.parent
        found.append(str(place))
    return found


def rebase(path: str, old: str, new: str) -> str:
    """Move a path from below `old` to below `new`; any other path stays as it is.

    Examples
    --------
    >>> rebase("/data/t/day=1/a", "/data/t", "t"), rebase("/data/u/a", "/data/t", "t")
    ('t/day=1/a', '/data/u/a')
    """
    place = PurePosixPath(path)
    return str(PurePosixPath(new, place.relative_to(old))) if place.is_relative_to(old) else str(place)

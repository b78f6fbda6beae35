"""The names of a table: globs, hidden names, directories of partitions, and the names that jobs give. Pure: no IO."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from smalti.errors import SchemaError
from smalti.spec import FILE_SUFFIX

#: The directory of a table in which jobs stage files and leave their records. Listings skip it, as all hidden names.
JOBS = "_mosaic_jobs"
#: Directories in `JOBS` that are not of a job: the first is where an earlier version remembered the batches of streams,
#: the second where removed files are kept on request.
STREAMS, KEPT = "streams", "kept"
#: The longest name of a file or directory, in bytes, that file systems take.
MAX_NAME = 255
#: What Hive and Spark write for a null partition value, and what Paimon writes.
HIVE_NULL, PAIMON_NULL = "__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"
_WILDCARDS = "*?[{"
#: The end that `unique_names` gives to a name, without the suffix.
_UNIQUE_END = re.compile(r"-0[0-9a-f]{15}-[0-9]{5,}\Z")


# --- globs and hidden names -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """The files that a path selects: all below `base`, or those that match `wildcards`, one for each level below it.

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
        """Return the partition values of a file, or None if the file is not selected.

        Examples
        --------
        >>> Selection("data", (), ".mosaic").partition("data/day=3/part-0.mosaic")
        {'day': '3'}
        >>> Selection("data", ("day=4",), ".mosaic").partition("data/day=3/part-0.mosaic")
        >>> Selection("data", ("**", "*.mosaic"), ".mosaic").partition("data/day=3/hour=7/part-0.mosaic")
        {'day': '3', 'hour': '7'}
        """
        parts = _parts_below(path, self.base)
        if not parts or not path.endswith(self.suffix) or not _matches_all(parts, self.wildcards):
            return None
        return parse_partition(parts[:-1])

    def chosen(self, paths: Iterable[str]) -> set[str]:
        """Return those of some files that are selected."""
        return {path for path in paths if self.partition(path) is not None}


def _parts_below(path: str, base: str) -> tuple[str, ...]:
    """Return the parts of a path below another; none if it is not below it. Strings take a tenth of pathlib's time."""
    if path.startswith(f"{base}/"):
        parts = tuple(path[len(base) + 1 :].split("/"))
        if "" not in parts and "." not in parts:
            return parts
    try:
        return PurePosixPath(path).relative_to(base).parts
    except ValueError:
        return ()


def is_glob(path: str) -> bool:
    return any(character in path for character in _WILDCARDS)


def matches(name: str, wildcard: str) -> bool:
    """Return whether a name matches a wildcard; hidden names match only wildcards that start with "." or "_"."""
    found = any(fnmatchcase(name, each) for each in expand_braces(wildcard))
    return found and (_is_visible([name]) or wildcard[0] in "._")


def _matches_all(parts: Sequence[str], wildcards: Sequence[str]) -> bool:
    """Return whether the first levels of a path match the wildcards and all levels below them are visible."""
    if not wildcards:
        return _is_visible(parts)
    if wildcards[0] == "**":
        visible = next((depth for depth, part in enumerate(parts) if not _is_visible([part])), len(parts))
        return any(_matches_all(parts[depth:], wildcards[1:]) for depth in range(visible + 1))
    return bool(parts) and matches(parts[0], wildcards[0]) and _matches_all(parts[1:], wildcards[1:])


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern stands for. A brace that is not closed stands for itself.

    Examples
    --------
    >>> expand_braces("{a,b{1,2}}.*"), expand_braces("a{b")
    (['a.*', 'b1.*', 'b2.*'], ['a{b'])
    """
    start = pattern.find("{")
    depth, parts, begin = 0, [], start + 1
    for index in range(start, len(pattern)) if start >= 0 else ():
        character = pattern[index]
        depth += (character == "{") - (character == "}")
        if (character == "," and depth == 1) or depth == 0:
            parts.append(pattern[begin:index])
            begin = index + 1
        if depth == 0:
            rest = pattern[index + 1 :]
            return [each for part in parts for each in expand_braces(pattern[:start] + part + rest)]
    return [pattern]


def _is_visible(parts: Sequence[str]) -> bool:
    """Return whether no part of a path is hidden. `_x=1` is a partition and visible, `_temporary` is hidden."""
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def tables_above(path: str) -> list[str]:
    """Return the directories whose commits may change a directory: itself and, above a partition, its table.

    Examples
    --------
    >>> tables_above("lake/sales/day=3/hour=7"), tables_above("lake/sales")
    (['lake/sales/day=3/hour=7', 'lake/sales/day=3', 'lake/sales'], ['lake/sales'])
    """
    directory = PurePosixPath(path)
    found = [str(directory)]
    while "=" in directory.name:
        directory = directory.parent
        found.append(str(directory))
    return found


def rebase(path: str, old: str, new: str) -> str:
    """Move a path from below `old` to below `new`; any other path stays as it is.

    Examples
    --------
    >>> rebase("/data/t/day=1/a", "/data/t", "t"), rebase("/data/u/a", "/data/t", "t")
    ('t/day=1/a', '/data/u/a')
    """
    pure = PurePosixPath(path)
    return str(PurePosixPath(new, pure.relative_to(old))) if pure.is_relative_to(old) else str(pure)


# --- directories of partitions --------------------------------------------------------------------------------------


def parse_partition(directories: Sequence[str]) -> dict[str, str | None]:
    """Return the partition values that directories spell, in their order.

    Examples
    --------
    >>> parse_partition(["raw", "day=2024-01-01", "city=S%C3%A3o%20Paulo"])
    {'day': '2024-01-01', 'city': 'São Paulo'}
    """
    values: dict[str, str | None] = {}
    for directory in directories:
        key, equals, value = directory.partition("=")
        if equals and key:
            values[unquote(key)] = unquote_value(value)
    return values


def unquote_value(text: str) -> str | None:
    """Return the value that the name of a directory spells, without its key; None for null."""
    return None if text in (HIVE_NULL, PAIMON_NULL) else unquote(text)


def partition_directory(values: Sequence[tuple[str, str | None]]) -> str:
    """Return the directory of a partition. The names that stand for null are escaped if they are the text of a value.

    Examples
    --------
    >>> partition_directory([("day", "2024-01-01"), ("city", "São/Paulo"), ("x", None)])
    'day=2024-01-01/city=S%C3%A3o%2FPaulo/x=__HIVE_DEFAULT_PARTITION__'
    >>> partition_directory([("x", "__HIVE_DEFAULT_PARTITION__")])
    'x=%5F_HIVE_DEFAULT_PARTITION__'
    """
    parts = []
    for name, text in values:
        quoted = HIVE_NULL if text is None else quote(text, safe="")
        if text is not None and text in (HIVE_NULL, PAIMON_NULL):
            quoted = f"%5F{text[1:]}"
        part = f"{quote(name, safe='')}={quoted}"
        if len(part) > MAX_NAME:  # It is all ASCII.
            raise SchemaError(
                "the value is too long for the name of a directory",
                column=name,
                found=f"{len(part)} bytes as {part[:40]}…",
                expected=f"{MAX_NAME} bytes at most",
            )
        parts.append(part)
    return "/".join(parts)


# --- files of jobs --------------------------------------------------------------------------------------------------


def staging_directory(job: str, attempt: str) -> str:
    """Return where one attempt at one task of a job writes, relative to the table."""
    return f"{JOBS}/{job}/{attempt}"


def staging_job(staged: str) -> str:
    """Return the job that has staged a file."""
    return staged.split("/", 2)[1]


def attempt_directory(staged: str) -> str:
    """Return the directory in which the attempt has written that has staged a file."""
    return "/".join(staged.split("/", 3)[:3])


def final_path(staged: str) -> str:
    """Return the path of a staged file below the directory of its attempt.

    Examples
    --------
    >>> final_path("_mosaic_jobs/j1/t7/day=3/part-0.mosaic")
    'day=3/part-0.mosaic'
    """
    return staged.split("/", 3)[3]


def new_token() -> str:
    """Return 16 random digits for a commit. The first is 0, so that ``a-<token>`` is sorted before ``a-b-<token>``."""
    return "0" + uuid.uuid4().hex[:15]


def unique_names(staged: Mapping[str, str], token: str, *, keeps_order: bool = False) -> dict[str, str]:
    """Return the final names of a commit's files, ``<stem>-<token>-<number>.mosaic``. No file ever gets them again.

    `staged` maps the staged path of each file to its wanted path. Files with the same stem are sorted in the order of
    `staged`. The end that an earlier commit has given to a stem is replaced, and a stem that is too long is cut.

    A job that changes some files of a table passes `keeps_order`: the wanted path is that of the file that is replaced,
    and its first end stays in the new name, so that the new file is sorted where the old one was.

    Examples
    --------
    >>> unique_names({"_mosaic_jobs/j/0/a": "day=3/a.mosaic"}, "0123456789abcdef")
    {'_mosaic_jobs/j/0/a': 'day=3/a-0123456789abcdef-00000.mosaic'}
    >>> unique_names({"staged": "a-0123456789abcdef-00007.mosaic"}, "0aaaaaaaaaaaaaaa", keeps_order=True)
    {'staged': 'a-0123456789abcdef-00007-0aaaaaaaaaaaaaaa-00000.mosaic'}
    """
    names = {}
    for number, (path, wanted) in enumerate(staged.items()):
        directory, slash, name = wanted.rpartition("/")
        end = f"-{token}-{number:05d}{FILE_SUFFIX}"
        whole = name.removesuffix(FILE_SUFFIX)
        stem = _UNIQUE_END.sub("", whole)
        if keeps_order and _UNIQUE_END.search(stem) is None:
            stem = whole
        names[path] = f"{directory}{slash}{stem.encode()[: MAX_NAME - len(end)].decode(errors='ignore')}{end}"
    return names


def is_ours(name: str) -> bool:
    """Return whether `unique_names` has made a name, so that no other file has or gets it.

    Examples
    --------
    >>> is_ours("day=3/a-0123456789abcdef-00000.mosaic"), is_ours("a-1.mosaic")
    (True, False)
    """
    return name.endswith(FILE_SUFFIX) and _UNIQUE_END.search(name.removesuffix(FILE_SUFFIX)) is not None

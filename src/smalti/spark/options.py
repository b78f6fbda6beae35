"""The options of `format("mosaic")`: what there is, what it defaults to, and a clear refusal of everything else.

Spark hands over strings under lower-case keys. Writer options are the camelCase of `smalti.WriterOptions`, so there
is no second list of them here. Everything is parsed on the driver, before a task starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from smalti.errors import MosaicError
from smalti.options import WriterOptions

T = TypeVar("T")

#: Set by the pruning rule on scans that have a source object of their own; see `smalti.spark.pruning`.
OWN_SCAN = "smalti.ownscan"
_STORAGE = "storage."
_SUFFIXES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read.

    Parameters
    ----------
    paths : tuple of str
        Files, directories and globs.
    columns : tuple of str, optional
        Columns to offer, instead of all.
    merge_schema : bool
        Whether the schema is the union of all files', or the first file's.
    batch_rows : int, optional
        Rows of the batches given to Spark; by default as many as make about 16 MB.
    max_partition_bytes : int
        What one task reads, about: row groups of large files are spread, small files put together.
    open_cost_bytes : int
        What opening a file counts for in this.
    ignore_corrupt_files : bool
        Skip files that cannot be read instead of failing.
    bad_files_path : str, optional
        A directory where skipped files are listed, with the reason; implies `ignore_corrupt_files`.
    metrics_path : str, optional
        A directory where every task leaves a JSON file of what it read: files, row groups, columns, bytes.
    max_files_per_trigger : int, optional
        Streaming: how many new files a batch takes at most.
    storage : mapping
        Credentials and endpoints; see `smalti.spark.storage`.
    own_scan : bool
        Whether this source object serves one scan only, which makes dropping files by filter safe.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    merge_schema: bool = True
    batch_rows: int | None = None
    max_partition_bytes: int = 128 << 20
    open_cost_bytes: int = 4 << 20
    ignore_corrupt_files: bool = False
    bad_files_path: str | None = None
    metrics_path: str | None = None
    max_files_per_trigger: int | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    own_scan: bool = False


@dataclass(frozen=True)
class WriteOptions:
    """How a table is written.

    Parameters
    ----------
    path : str
        The table's directory.
    writer : WriterOptions
    partition_by : tuple of str
        Columns that become directories, `name=value`.
    dynamic : bool
        Overwriting replaces only the partitions that get new rows.
    max_file_bytes : int
        A task starts another file when the one it writes has about this size.
    stream_id : str, optional
        Names a streaming query across restarts; by default its checkpoint does.
    time_columns : tuple of str
        Int columns that hold milliseconds of the day and are stored as TIME.
    storage : mapping
    """

    path: str
    writer: WriterOptions
    partition_by: tuple[str, ...] = ()
    dynamic: bool = False
    max_file_bytes: int = 512 << 20
    stream_id: str | None = None
    time_columns: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict)


def camel_case(name: str) -> str:
    """
    Examples
    --------
    >>> camel_case("row_group_max_bytes")
    'rowGroupMaxBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# --- one value ------------------------------------------------------------------------------------------------------


def parse_names(text: str) -> tuple[str, ...]:
    """Names between commas; a JSON list for names that have commas or spaces of their own.

    Examples
    --------
    >>> parse_names("a, b"), parse_names('["a, b"]')
    (('a', 'b'), ('a, b',))
    """
    if text.lstrip().startswith("["):
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a JSON list of names")
        return tuple(names)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_bytes(text: str) -> int:
    """
    Examples
    --------
    >>> parse_bytes("64MB"), parse_bytes("1000")
    (67108864, 1000)
    """
    digits = text.strip().lower().rstrip("bkmg")
    suffix = text.strip().lower()[len(digits) :]
    return int(digits) * _SUFFIXES[suffix]


def _parse_bool(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _positive(parse: Callable[[str], int]) -> Callable[[str], int]:
    def checked(text: str) -> int:
        value = parse(text)
        if value < 1:
            raise ValueError
        return value

    return checked


def absolute(path: str) -> str:
    """A local path from the root, since tasks may run elsewhere than the driver; URIs are as they are.

    Examples
    --------
    >>> absolute("/data/../t"), absolute("s3://bucket/t")
    ('/t', 's3://bucket/t')
    """
    scheme, colon, _ = path.partition(":")
    return path if colon and "/" not in scheme else os.path.abspath(path)  # noqa: PTH100 (resolve follows links)


def _parse_statistics(text: str) -> tuple[str, ...] | str:
    return "all" if text.strip().lower() == "all" else parse_names(text)


#: How a kind of value is read, and what to say of one that cannot be.
_NAMES: tuple[Callable[[str], Any], str] = (parse_names, "names between commas, or a JSON list of names")
_BOOL: tuple[Callable[[str], Any], str] = (_parse_bool, "true or false")
_COUNT: tuple[Callable[[str], Any], str] = (_positive(int), "a positive whole number")
_INTEGER: tuple[Callable[[str], Any], str] = (int, "a whole number")
_BYTES: tuple[Callable[[str], Any], str] = (_positive(parse_bytes), "a size such as 1048576 or 64MB")
_TEXT: tuple[Callable[[str], Any], str] = (str, "text")
_PATH: tuple[Callable[[str], Any], str] = (absolute, "a path")

_READ = {
    "paths": _NAMES,
    "columns": _NAMES,
    "merge_schema": _BOOL,
    "batch_rows": _COUNT,
    "max_partition_bytes": _BYTES,
    "open_cost_bytes": _BYTES,
    "ignore_corrupt_files": _BOOL,
    "bad_files_path": _PATH,
    "metrics_path": _PATH,
    "max_files_per_trigger": _COUNT,
}
_WRITE = {
    "partition_by": _NAMES,
    "partition_overwrite_mode": _TEXT,
    "max_file_bytes": _BYTES,
    "stream_id": _TEXT,
    "time_columns": _NAMES,
}
#: What `WriterOptions` takes, by the type it declares.
_WRITER_KINDS = {"str": _TEXT, "int": _INTEGER, "int | None": _INTEGER, "bool": _BOOL}
_WRITER_SPECIAL = {
    "stats_columns": (_parse_statistics, '"all", names between commas, or a JSON list of names'),
    "row_group_max_bytes": _BYTES,
    "dict_max_bytes": (parse_bytes, _BYTES[1]),
    "page_size_threshold": (parse_bytes, _BYTES[1]),
}
_WRITER = {f.name: _WRITER_SPECIAL.get(f.name) or _WRITER_KINDS[str(f.type)] for f in fields(WriterOptions)}


def _parse(
    given: Mapping[str, str], known: Mapping[str, tuple[Callable[[str], Any], str]], also: Iterable[str], doing: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by Python name, and storage options. `also` are keys dealt with elsewhere."""
    by_key = {camel_case(name).lower(): name for name in known}
    passed = {name.lower() for name in also}
    values: dict[str, Any] = {}
    storage: dict[str, str] = {}
    for key, text in given.items():
        lower = key.lower()
        if lower.startswith(_STORAGE):
            storage[lower.removeprefix(_STORAGE)] = text
        elif lower in by_key:
            name = by_key[lower]
            parse, expected = known[name]
            try:
                values[name] = parse(text)
            except (ValueError, KeyError):
                raise MosaicError(
                    f"option {camel_case(name)} cannot be read", found=repr(text), expected=expected
                ) from None
        elif lower not in passed:
            there_are = sorted([*map(camel_case, known), "storage.*"])
            raise MosaicError(f"unknown option {key!r} for {doing} Mosaic; there are {', '.join(there_are)}")
    return values, storage


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of `spark.read` and `spark.readStream`."""
    if _lookup(given, "owner") is not None:  # set by CREATE TABLE alone
        raise MosaicError(
            "tables of a catalog cannot be read back: Spark does not pass their path to Python sources; "
            "use CREATE TEMPORARY VIEW ... USING mosaic OPTIONS (path ...)"
        )
    values, storage = _parse(given, _READ, ("path", OWN_SCAN), "reading")
    paths = values.pop("paths", ()) + tuple(filter(None, [_lookup(given, "path")]))
    if not paths:
        raise MosaicError(
            "where to read is missing: give load() a path, or the option paths a list of them (Spark passes none for "
            "tables made by CREATE TABLE: use CREATE TEMPORARY VIEW ... USING mosaic OPTIONS (path ...))"
        )
    skip = values.pop("ignore_corrupt_files", False) or "bad_files_path" in values
    own_scan = _lookup(given, OWN_SCAN) == "true"
    paths = tuple(map(absolute, paths))
    return ReadOptions(paths=paths, ignore_corrupt_files=skip, storage=storage, own_scan=own_scan, **values)


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Options of `df.write` and `df.writeStream`."""
    values, storage = _parse(given, {**_WRITE, **_WRITER}, ("path", "checkpointLocation"), "writing")
    writer = WriterOptions(**{name: values.pop(name) for name in _WRITER if name in values})
    path = _lookup(given, "path")
    if not path:
        raise MosaicError("where to write is missing: give save() a path")
    mode: Literal["static", "dynamic"] = values.pop("partition_overwrite_mode", "static").lower()
    if mode not in ("static", "dynamic"):
        raise MosaicError("option partitionOverwriteMode cannot be read", found=mode, expected="static or dynamic")
    dynamic = mode == "dynamic"
    if dynamic and not values.get("partition_by"):
        raise MosaicError("partitionOverwriteMode=dynamic needs partitionBy")
    stream_id = values.pop("stream_id", None) or _lookup(given, "checkpointLocation")
    return WriteOptions(absolute(path), writer, dynamic=dynamic, stream_id=stream_id, storage=storage, **values)


def _lookup(given: Mapping[str, str], key: str) -> str | None:
    return next((value for name, value in given.items() if name.lower() == key.lower()), None)

"""The options of `format("mosaic")`: which there are, their defaults, and how their texts are parsed.

Spark passes texts under lower-case keys. Every option is a field of `ReadOptions`, `WriteOptions` or
`smalti.WriterOptions`, and its key is the name of the field in camelCase. Unknown keys and texts that cannot be parsed
are refused on the driver, before a task starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from smalti.errors import MosaicError
from smalti.options import WriterOptions, parse_bytes

T = TypeVar("T")

#: The pruning rule sets this key on scans that have a source object of their own; see `smalti.spark.pruning`.
OWN_SCAN = "smalti.ownscan"
_STORAGE = "storage."

# --- one value ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How the text of an option is parsed, and what a message says instead of a text that cannot be."""

    parse: Callable[[str], object]
    expected: str


def parse_names(text: str) -> tuple[str, ...]:
    """Names between commas, or a JSON list, for names that contain commas or start or end with spaces.

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


def absolute(path: str) -> str:
    """A local path from the root, because tasks may run in another directory than the driver; URIs stay as they are.

    Examples
    --------
    >>> absolute("/data/../t"), absolute("s3://bucket/t")
    ('/t', 's3://bucket/t')
    """
    scheme, colon, _ = path.partition(":")
    return path if colon and "/" not in scheme else os.path.abspath(path)  # noqa: PTH100 (resolve follows links)


def _positive(parse: Callable[[str], int]) -> Callable[[str], int]:
    def checked(text: str) -> int:
        value = parse(text)
        if value < 1:
            raise ValueError
        return value

    return checked


def _one_of(values: Mapping[str, object]) -> Kind:
    return Kind(lambda text: values[text.strip().lower()], " or ".join(values))


_NAMES = Kind(parse_names, "names between commas, or a JSON list of names")
_BOOL = _one_of({"true": True, "false": False})
_COUNT = Kind(_positive(int), "a positive whole number")
_INTEGER = Kind(int, "a whole number")
_BYTES = Kind(_positive(parse_bytes), "a size such as 1048576 or 64MB")
_BYTES_OR_NONE = Kind(parse_bytes, _BYTES.expected)
_TEXT = Kind(str, "text")
_PATH = Kind(absolute, "a path")
_OVERWRITE = _one_of({"static": "static", "dynamic": "dynamic"})
_STATISTICS = Kind(
    lambda text: "all" if text.strip().lower() == "all" else parse_names(text),
    '"all", names between commas, or a JSON list of names',
)

# --- all of them ----------------------------------------------------------------------------------------------------


def _option(kind: Kind, default: T) -> T:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    #: Files, directories and globs.
    paths: tuple[str, ...] = _option(_NAMES, ())
    #: The columns to offer, by default all.
    columns: tuple[str, ...] | None = _option(_NAMES, None)
    #: Whether the schema is the union of the schemas of all files, or that of the first file.
    merge_schema: bool = _option(_BOOL, True)
    #: Rows of the batches that Spark gets, by default as many as make about 16 MB.
    batch_rows: int | None = _option(_COUNT, None)
    #: What one task reads, about. Row groups of large files are spread over tasks, small files are put together.
    max_partition_bytes: int = _option(_BYTES, 128 << 20)
    #: The bytes that opening a file counts for in this.
    open_cost_bytes: int = _option(_BYTES, 4 << 20)
    #: Skip damaged files instead of failing.
    ignore_corrupt_files: bool = _option(_BOOL, False)
    #: A directory that gets a JSON file for each damaged file, with the reason. Implies `ignore_corrupt_files`.
    bad_files_path: str | None = _option(_PATH, None)
    #: A directory that gets a JSON file from each task, with the files, row groups, columns and bytes it has read.
    metrics_path: str | None = _option(_PATH, None)
    #: Streaming: how many new files a batch takes at most.
    max_files_per_trigger: int | None = _option(_COUNT, None)
    #: Credentials and endpoints, the keys that start with "storage."; see `smalti.io.places.locate`.
    storage: Mapping[str, str] = field(default_factory=dict)
    #: Whether the source object serves one scan only. Then files may be dropped by the filters of that scan.
    own_scan: bool = False


@dataclass(frozen=True)
class WriteOptions:
    """How a table is written."""

    #: The directory of the table.
    path: str
    writer: WriterOptions
    #: Columns that become directories, `name=value`.
    partition_by: tuple[str, ...] = _option(_NAMES, ())
    #: "dynamic": overwriting replaces only the partitions that get new rows.
    partition_overwrite_mode: Literal["static", "dynamic"] = _option(_OVERWRITE, "static")
    #: A task starts another file when the one it writes has about this size.
    max_file_bytes: int = _option(_BYTES, 512 << 20)
    #: Names a streaming query across restarts; by default its checkpoint does.
    stream_id: str | None = _option(_TEXT, None)
    #: Int columns that hold milliseconds of the day and are stored as TIME.
    time_columns: tuple[str, ...] = _option(_NAMES, ())
    storage: Mapping[str, str] = field(default_factory=dict)


_READ = {option.name: option.metadata["kind"] for option in fields(ReadOptions) if option.metadata}
_WRITE = {option.name: option.metadata["kind"] for option in fields(WriteOptions) if option.metadata}
#: Options of `WriterOptions` whose declared type does not tell how they are parsed.
_SPECIAL = {
    "stats_columns": _STATISTICS,
    "row_group_max_bytes": _BYTES,
    "dict_max_bytes": _BYTES_OR_NONE,
    "page_size_threshold": _BYTES_OR_NONE,
}
_BY_TYPE = {"str": _TEXT, "int": _INTEGER, "int | None": _INTEGER, "bool": _BOOL}
_WRITER = {option.name: _SPECIAL.get(option.name) or _BY_TYPE[str(option.type)] for option in fields(WriterOptions)}


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of `spark.read` and `spark.readStream`."""
    if "owner" in map(str.lower, given):  # only CREATE TABLE sets it
        raise MosaicError(
            "tables of a catalog cannot be read back: Spark does not pass their path to Python sources; "
            "use CREATE TEMPORARY VIEW ... USING mosaic OPTIONS (path ...)"
        )
    values, others = _parse(given, _READ, ("path", OWN_SCAN), "reading")
    paths = [*values.pop("paths", ()), *filter(None, [others.get("path")])]
    if not paths:
        raise MosaicError(
            "where to read is missing: give load() a path, or the option paths a list of them (Spark passes none for "
            "tables made by CREATE TABLE: use CREATE TEMPORARY VIEW ... USING mosaic OPTIONS (path ...))"
        )
    if "bad_files_path" in values:
        values["ignore_corrupt_files"] = True
    return ReadOptions(tuple(map(absolute, paths)), own_scan=others.get(OWN_SCAN) == "true", **values)


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Options of `df.write` and `df.writeStream`."""
    values, others = _parse(given, {**_WRITE, **_WRITER}, ("path", "checkpointlocation"), "writing")
    writer = WriterOptions(**{name: values.pop(name) for name in _WRITER if name in values})
    if not others.get("path"):
        raise MosaicError("where to write is missing: give save() a path")
    if values.get("partition_overwrite_mode") == "dynamic" and not values.get("partition_by"):
        raise MosaicError("partitionOverwriteMode=dynamic needs partitionBy")
    values["stream_id"] = values.get("stream_id") or others.get("checkpointlocation")
    return WriteOptions(absolute(others["path"]), writer, **values)


def _parse(
    given: Mapping[str, str], kinds: Mapping[str, Kind], others: tuple[str, ...], doing: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by the names of their fields, and the texts of the keys in `others`, which are no options."""
    by_key = {camel_case(name).lower(): name for name in kinds}
    storage: dict[str, str] = {}
    values: dict[str, Any] = {"storage": storage}
    for key, text in given.items():
        lower = key.lower()
        if lower.startswith(_STORAGE):
            storage[lower.removeprefix(_STORAGE)] = text
        elif lower in by_key:
            kind = kinds[by_key[lower]]
            try:
                values[by_key[lower]] = kind.parse(text)
            except (ValueError, KeyError):
                raise MosaicError(
                    f"option {camel_case(by_key[lower])} cannot be read", found=repr(text), expected=kind.expected
                ) from None
        elif lower not in others:
            there_are = sorted([*map(camel_case, kinds), "storage.*"])
            raise MosaicError(f"unknown option {key!r} for {doing} Mosaic; there are {', '.join(there_are)}")
    return values, {key.lower(): text for key, text in given.items() if key.lower() in others}


def camel_case(name: str) -> str:
    """
    Examples
    --------
    >>> camel_case("row_group_max_bytes")
    'rowGroupMaxBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)

"""The options of `format("mosaic")`: which there are, their defaults, and how their texts are parsed.

Spark passes texts under lower-case keys. Every option is a field of `ReadOptions`, `WriteOptions` or
`smalti.WriterOptions`, and its key is the name of the field in camelCase. Unknown keys and texts that cannot be parsed
are refused on the driver, before a task starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from smalti.errors import MosaicError, without_secrets
from smalti.io.services import StorageOptions
from smalti.options import WriterOptions, parse_bytes

T = TypeVar("T")

#: The pruning rule sets this key on scans that have a source object of their own; see `smalti.spark.pruning`.
OWN_SCAN = "smalti.ownscan"
_STORAGE = "storage."

# --- one value ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How the text of an option is parsed, what a message says is expected, and the least number that is allowed."""

    parse: Callable[[str], object]
    expected: str
    least: int | None = None


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


def _one_of(values: Mapping[str, object]) -> Kind:
    return Kind(lambda text: values[text.strip().lower()], " or ".join(values))


_NAMES = Kind(parse_names, "names between commas, or a JSON list of names")
_BOOL = _one_of({"true": True, "false": False})
_COUNT = Kind(int, "a positive whole number", least=1)
_INTEGER = Kind(int, "a whole number")
_SIZE = Kind(parse_bytes, "a size such as 1048576 or 64MB")
_POSITIVE_SIZE = Kind(parse_bytes, _SIZE.expected, least=1)
_TEXT = Kind(str, "text")
_PATH = Kind(absolute, "a path")
_OVERWRITE = _one_of({"static": "static", "dynamic": "dynamic"})
_STATISTICS = Kind(
    lambda text: text.strip().lower() if text.strip().lower() in ("all", "auto") else parse_names(text),
    '"all", "auto", names between commas, or a JSON list of names',
)

# --- all of them ----------------------------------------------------------------------------------------------------


def _option(kind: Kind, default: T) -> T:
    return field(default=default, metadata={"kind": kind})


class _Discreet:
    """Options that show no secrets: those of a storage by their names only, and URIs without their secret parts."""

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return without_secrets(f"{type(self).__name__}({given})")


@dataclass(frozen=True, repr=False)
class ReadOptions(_Discreet):
    """How a table is read. docs/spark.md says what each option does."""

    paths: tuple[str, ...] = _option(_NAMES, ())
    columns: tuple[str, ...] | None = _option(_NAMES, None)
    merge_schema: bool = _option(_BOOL, True)
    batch_rows: int | None = _option(_COUNT, None)
    memory_limit: int | None = _option(_POSITIVE_SIZE, None)
    max_partition_bytes: int = _option(_POSITIVE_SIZE, 128 << 20)
    open_cost_bytes: int = _option(_POSITIVE_SIZE, 4 << 20)
    ignore_corrupt_files: bool = _option(_BOOL, False)
    bad_files_path: str | None = _option(_PATH, None)
    metrics_path: str | None = _option(_PATH, None)
    max_files_per_trigger: int | None = _option(_COUNT, None)
    plain: bool = _option(_BOOL, False)
    snapshot_id: int | None = _option(_COUNT, None)
    tag_name: str | None = _option(_TEXT, None)
    timestamp: str | None = _option(_TEXT, None)
    #: The options whose keys start with "storage.", without that start; see `smalti.io.places.locate`.
    storage: Mapping[str, str] = field(default_factory=StorageOptions)
    #: Whether the source object serves one scan only. Then files may be dropped by the filters of that scan.
    own_scan: bool = False


@dataclass(frozen=True, repr=False)
class WriteOptions(_Discreet):
    """How a table is written. docs/spark.md says what each option does."""

    path: str
    writer: WriterOptions
    partition_by: tuple[str, ...] = _option(_NAMES, ())
    partition_overwrite_mode: Literal["static", "dynamic"] = _option(_OVERWRITE, "static")
    max_file_bytes: int = _option(_POSITIVE_SIZE, 512 << 20)
    stream_id: str | None = _option(_TEXT, None)
    time_columns: tuple[str, ...] = _option(_NAMES, ())
    storage: Mapping[str, str] = field(default_factory=StorageOptions)


_READ = {option.name: option.metadata["kind"] for option in fields(ReadOptions) if option.metadata}
_WRITE = {option.name: option.metadata["kind"] for option in fields(WriteOptions) if option.metadata}
#: Options of `WriterOptions` whose declared type does not tell how they are parsed.
_SPECIAL = {
    "stats_columns": _STATISTICS,
    "row_group_max_bytes": _POSITIVE_SIZE,
    "dict_max_bytes": _SIZE,
    "page_size_threshold": _SIZE,
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
    storage = StorageOptions()
    values: dict[str, Any] = {"storage": storage}
    for key, text in given.items():
        lower = key.lower()
        if lower.startswith(_STORAGE):
            storage[lower.removeprefix(_STORAGE)] = text
        elif lower in by_key:
            values[by_key[lower]] = _parse_one(by_key[lower], text, kinds[by_key[lower]])
        elif lower not in others:
            there_are = sorted([*map(camel_case, kinds), "storage.*"])
            raise MosaicError(f"unknown option {key!r} for {doing} Mosaic; there are {', '.join(there_are)}")
    return values, {key.lower(): text for key, text in given.items() if key.lower() in others}


def _parse_one(name: str, text: str, kind: Kind) -> object:
    with suppress(ValueError, KeyError):
        value = kind.parse(text)
        if kind.least is None or (isinstance(value, int) and value >= kind.least):
            return value
    raise MosaicError(f"option {camel_case(name)} cannot be read", found=repr(text), expected=kind.expected)


def camel_case(name: str) -> str:
    """
    Examples
    --------
    >>> camel_case("row_group_max_bytes")
    'rowGroupMaxBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)

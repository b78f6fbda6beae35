"""The options of `format("mosaic")`: which there are, their defaults, and how their texts are parsed.

Spark passes texts under lower-case keys. Every option is a field of `ReadOptions`, `WriteOptions` or
`smalti.WriterOptions`, and its key is the name of the field in camelCase. Unknown keys and texts that cannot be parsed
are refused on the driver, before a task starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from smalti.errors import MosaicError, without_secrets
from smalti.io.services import StorageOptions
from smalti.options import WriterOptions
from smalti.sizes import FILE_BYTES, MIN_SPLIT_BYTES, SPLIT_BYTES
from smalti.units import parse_bytes

if TYPE_CHECKING:
    from smalti.io.locations import Location

T = TypeVar("T")

_STORAGE = "storage."
#: Keys that Java sets for tables of a catalog; see `jvm/Options.java`.
_TABLE, _PROPERTIES = "smalti.table", "smalti.properties"

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


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError("not positive")
    return value


_INTEGER = Kind(int, "a whole number")
_SIZE = Kind(parse_bytes, "a size such as 1048576 or 64MB")
_HOURS = Kind(_positive, "a number of hours such as 24 or 0.5")
_POSITIVE_SIZE = Kind(parse_bytes, _SIZE.expected, least=1)
_TEXT = Kind(str, "text")
_PATH = Kind(lambda text: absolute(text.removeprefix("file:")), "a path")
_MOMENT = Kind(lambda text: datetime.fromisoformat(text).isoformat(), "a moment such as 2024-02-29T13:30:00")
_OVERWRITE = _one_of({"static": "static", "dynamic": "dynamic"})
_STATISTICS = Kind(
    lambda text: text.strip().lower() if text.strip().lower() in ("all", "auto") else parse_names(text),
    '"all", "auto", names between commas, or a JSON list of names',
)


def asked(options: Any, names: Iterable[str] | None = None) -> list[str]:
    """The keys of the options that differ from their defaults, of some fields or of all."""
    usual = {field.name: field.default for field in fields(options)}
    chosen = usual if names is None else names
    return [camel_case(name) for name in chosen if getattr(options, name) != usual[name]]


# --- all of them ----------------------------------------------------------------------------------------------------


def _option(kind: Kind, default: T) -> T:
    return field(default=default, metadata={"kind": kind})


class _WithoutSecrets:
    """Options whose `repr` shows no secrets: only the names of storage options, and URIs without their secret parts."""

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return without_secrets(f"{type(self).__name__}({given})")


@dataclass(frozen=True, repr=False)
class ReadOptions(_WithoutSecrets):
    """How a table is read. docs/spark.md says what each option does."""

    paths: tuple[str, ...] = _option(_NAMES, ())
    columns: tuple[str, ...] | None = _option(_NAMES, None)
    merge_schema: bool = _option(_BOOL, True)
    batch_size: int | None = _option(_COUNT, None)
    memory_limit: int | None = _option(_POSITIVE_SIZE, None)
    max_partition_bytes: int = _option(_POSITIVE_SIZE, SPLIT_BYTES)
    open_cost_bytes: int = _option(_POSITIVE_SIZE, MIN_SPLIT_BYTES)
    #: How many tasks there should be at least, if there are bytes enough.
    min_partitions: int = _option(_COUNT, 1)
    ignore_corrupt_files: bool = _option(_BOOL, False)
    max_files_per_trigger: int | None = _option(_COUNT, None)
    base_path: str | None = _option(_PATH, None)
    path_glob_filter: str | None = _option(_TEXT, None)
    recursive_file_lookup: bool = _option(_BOOL, False)
    modified_before: str | None = _option(_MOMENT, None)
    modified_after: str | None = _option(_MOMENT, None)
    #: The zone of those moments, and of partition values that are moments.
    time_zone: str = _option(_TEXT, "UTC")
    ignore_missing_files: bool = _option(_BOOL, False)
    #: Whether partition columns get a type by their values; otherwise they are texts.
    infer_partition_types: bool = _option(_BOOL, True)
    plain: bool = _option(_BOOL, False)
    snapshot_id: int | None = _option(_COUNT, None)
    tag_name: str | None = _option(_TEXT, None)
    timestamp: str | None = _option(_TEXT, None)
    #: The options whose keys start with "storage.", without that start; see `smalti.io.locations.locate`.
    storage: Mapping[str, str] = field(default_factory=StorageOptions)
    #: Whether names that differ in case are different columns.
    case_sensitive: bool = _option(_BOOL, False)
    #: Whether this is a table of a catalog, which has a schema and may be empty.
    of_catalog: bool = False


@dataclass(frozen=True, repr=False)
class WriteOptions(_WithoutSecrets):
    """How a table is written. docs/spark.md says what each option does."""

    path: str
    writer: WriterOptions
    partition_by: tuple[str, ...] = _option(_NAMES, ())
    partition_overwrite_mode: Literal["static", "dynamic"] | None = _option(_OVERWRITE, None)
    #: For how many hours replaced files are kept.
    keep: float | None = _option(_HOURS, None)
    max_file_bytes: int = _option(_POSITIVE_SIZE, FILE_BYTES)
    #: 0 or less for as many as there are.
    max_records_per_file: int = _option(_INTEGER, 0)
    #: Whether an empty file called _SUCCESS says that a job is done.
    success_file: bool = _option(_BOOL, False)
    stream_id: str | None = _option(_TEXT, None)
    storage: Mapping[str, str] = field(default_factory=StorageOptions)

    @cached_property
    def root(self) -> Location:
        """The directory of the table; resolved once, because on object stores that makes a client."""
        from smalti.io import locate  # slow to import, and Spark imports this module only to look for formats

        return locate(self.path, storage_options=self.storage)


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


def parse_read_options(given: Mapping[str, str], session: Mapping[str, str] = MappingProxyType({})) -> ReadOptions:
    """Options of `spark.read` and `spark.readStream`. Settings of the session stand in for those that are not given."""
    values, others = _parse(given, session, _READ, {**_WRITE, **_WRITER}, "reading")
    paths = [*values.pop("paths", ()), *filter(None, [others.get("path")])]
    if not paths:
        raise MosaicError("where to read is missing: give load() a path, or the option paths a list of them")
    values["of_catalog"] = _TABLE in others
    return ReadOptions(tuple(map(absolute, paths)), **values)


def parse_write_options(given: Mapping[str, str], session: Mapping[str, str] = MappingProxyType({})) -> WriteOptions:
    """Options of `df.write` and `df.writeStream`. Settings of the session stand in for those that are not given."""
    values, others = _parse(given, session, {**_WRITE, **_WRITER}, _READ, "writing")
    writer = WriterOptions(**{name: values.pop(name) for name in _WRITER if name in values})
    if not others.get("path"):
        raise MosaicError("where to write is missing: give save() a path")
    if values.get("partition_overwrite_mode") == "dynamic" and not values.get("partition_by"):
        raise MosaicError("partitionOverwriteMode=dynamic needs partitionBy")
    values["stream_id"] = values.get("stream_id") or others.get("checkpointlocation")
    return WriteOptions(absolute(others["path"]), writer, **values)


#: Options under the names that other formats have for them.
_ALIASES = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "success_file"}
#: Keys that are no options, but say where the table is and who asks.
_OTHERS = ("path", "checkpointlocation", "queryname", _TABLE, _PROPERTIES)


def _parse(
    given: Mapping[str, str],
    session: Mapping[str, str],
    kinds: Mapping[str, Kind],
    elsewhere: Mapping[str, Kind],
    doing: str,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by the names of their fields, and the texts of the keys that are no options.

    A table of a catalog has one set of options for reading and writing, and properties. Of properties, and of settings
    of the session, those count that are called like an option. `elsewhere` are the options of the other direction.
    """
    by_key = {camel_case(name).lower(): name for name in kinds}
    by_key.update({key: name for key, name in _ALIASES.items() if name in kinds})
    others = {key.lower(): text for key, text in given.items() if key.lower() in _OTHERS}
    ignored = {camel_case(name).lower() for name in elsewhere} if _TABLE in others else set()
    properties = json.loads(others.get(_PROPERTIES, "{}"))
    defaults = {**session, **properties}
    known = {key: text for key, text in defaults.items() if key.lower() in by_key or _is_storage(key)}
    storage = StorageOptions()
    values: dict[str, Any] = {"storage": storage}
    for key, text in {**known, **given}.items():
        lower = key.lower()
        if _is_storage(lower):
            storage[lower.removeprefix(_STORAGE)] = text
        elif lower in by_key:
            values[by_key[lower]] = _parse_one(by_key[lower], text, kinds[by_key[lower]])
        elif lower not in _OTHERS and lower not in ignored:
            there_are = sorted([*map(camel_case, kinds), "storage.*"])
            raise MosaicError(f"unknown option {key!r} for {doing} Mosaic; there are {', '.join(there_are)}")
    return values, others


def _is_storage(key: str) -> bool:
    return key.lower().startswith(_STORAGE)


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

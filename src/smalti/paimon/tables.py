"""Paimon tables by path: opened as of a snapshot, created, and made safe for commits at the same moment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import pyarrow as pa
from pypaimon.common.file_io import FileIO, pread
from pypaimon.common.options import Options
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.schema.schema import Schema
from pypaimon.schema.schema_manager import SchemaManager
from pypaimon.snapshot.time_travel_util import TimeTravelUtil
from pypaimon.table.file_store_table import FileStoreTable

from smalti._compat.paimon import with_exclusive_commits
from smalti.errors import MosaicError, SchemaError, UnsupportedFeatureError
from smalti.io.locations import AnyPath, Location, locate, with_default_options
from smalti.io.services import OBJECT_SERVICES, StorageOptions, local_path, service_of, storage_arguments
from smalti.io.sources import ReadAt, Source, open_source
from smalti.logical.patterns import check_columns, match_names
from smalti.paimon.mosaic import refuse_rows
from smalti.table.paimon_layout import refuse_writing_inside

#: A table as users pass it: where it is, or a table that a catalog of pypaimon has opened.
AnyTable: TypeAlias = "AnyPath | FileStoreTable | PaimonTable"
#: A moment: milliseconds since 1970, a time, or a text such as "2026-11-16 12:00:00" in local time.
AnyTime: TypeAlias = "int | datetime | str"

#: The services that pypaimon reaches, and its names for our options of each. OSS has the options of S3.
_NAMES: dict[str, dict[str, str]] = {
    "s3": {
        "access_key": "s3.access-key",
        "secret_key": "s3.secret-key",
        "session_token": "s3.session-token",
        "region": "s3.region",
        "endpoint_override": "s3.endpoint",
    },
    "oss": {
        "access_key": "fs.oss.accessKeyId",
        "secret_key": "fs.oss.accessKeySecret",
        "session_token": "fs.oss.securityToken",
        "region": "fs.oss.region",
        "endpoint_override": "fs.oss.endpoint",
    },
    "gs": {"access_token": "gcs.access-token", "project_id": "gcs.project-id"},
    "hdfs": {},
}
#: Options of pypaimon that choose a snapshot.
_TRAVELS = ("scan.snapshot-id", "scan.tag-name", "scan.version", "scan.timestamp", "scan.timestamp-millis")


def pypaimon_options(uri: str, storage: Mapping[str, str]) -> dict[str, str]:
    """Options of pypaimon that mean the same as ours, for the service of a URI. Its own, which have dots, stay.

    Examples
    --------
    >>> pypaimon_options("s3://tables/t", {"access_key": "k", "endpoint_override": "localhost:9000", "scheme": "http"})
    {'s3.access-key': 'k', 's3.endpoint': 'http://localhost:9000', 's3.path-style-access': 'true'}
    >>> pypaimon_options("oss://tables/t", {"access_key": "k", "fs.oss.impl": "legacy"})
    {'fs.oss.impl': 'legacy', 'fs.oss.accessKeyId': 'k'}
    """
    service = service_of(uri)
    if service is None:
        return {}
    if service not in _NAMES:
        raise UnsupportedFeatureError(
            "pypaimon does not reach this service", path=uri, found=service, expected=", ".join(_NAMES)
        )
    options = {name: value for name, value in storage.items() if _is_own(name)}
    ours = {name: value for name, value in storage.items() if not _is_own(name)}
    given = storage_arguments("s3" if service == "oss" else service, ours)
    given.pop("allow_http", None)  # The endpoint says it.
    scheme = given.pop("scheme", "https") if service == "s3" else None
    for name, value in given.items():
        if name not in _NAMES[service]:
            raise UnsupportedFeatureError(
                f"pypaimon has nothing like the storage option {name!r} for {service}; its own options, such as "
                "fs.oss.impl, are passed on to it",
                path=uri,
                expected=", ".join(_NAMES[service]) or None,
            )
        options[_NAMES[service][name]] = str(value)
    if scheme is not None and "endpoint_override" in given:
        endpoint = options["s3.endpoint"]
        options |= {
            "s3.endpoint": endpoint if "://" in endpoint else f"{scheme}://{endpoint}",
            "s3.path-style-access": "true",
        }
    return options


def _is_own(name: str) -> bool:
    """Whether an option of a store is one of pypaimon."""
    return "." in name


@dataclass(frozen=True)
class PaimonTable:
    """A table of pypaimon, and how smalti reaches its files.

    Attributes
    ----------
    table : pypaimon.table.file_store_table.FileStoreTable
    location : Location, optional
        The directory of the table. It is None, and files are reached through pypaimon, if smalti does not reach the
        directory by itself, or if a catalog has opened a table that is not on this machine.
    """

    table: FileStoreTable
    location: Location | None

    @property
    def path(self) -> str:
        return str(self.table.table_path)

    @property
    def is_remote(self) -> bool:
        return self.location is None or not self.location.is_local

    @property
    def snapshot(self) -> Any:
        """The snapshot that a read reads; None if the table has none yet."""
        return TimeTravelUtil.resolve_snapshot(self.table)

    def schema_of(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The Arrow schema of the columns that names and patterns ask for; by default of all columns.

        Only fields that are asked for are built, because a table may have 10,000.
        """
        asked = check_columns(columns)
        try:
            names = self.table.field_names if asked is None else match_names(self.table.field_names, asked)
        except SchemaError as error:
            raise error.locate(path=self.path) from None
        schema: pa.Schema = PyarrowFieldParser.from_paimon_schema([self.table.field_dict[name] for name in names])
        return schema

    def locate(self, path: str) -> Location | None:
        """Where a file of the table is, by the path that pypaimon has for it; None if only pypaimon reaches it."""
        file_io = self.table.file_io
        if self.location is not None:
            return _location_of(self.location, path)
        if hasattr(file_io, "filesystem"):
            return Location(file_io.filesystem, file_io.to_filesystem_path(path))
        return None

    def open(self, path: str) -> Source:
        """Open a file of the table for reading."""
        location, file_io = self.locate(path), self.table.file_io
        if location is not None:
            return open_source(location.path, location.filesystem)
        stream, size = file_io.new_input_stream(path), file_io.get_file_size(path)
        return ReadAt(lambda offset, length: pread(stream, length, offset), size, name=path, is_remote=True)


def _location_of(root: Location, path: str) -> Location:
    """Where a file is, by the path that pypaimon has for it, on the file system of `root`."""
    return Location(root.filesystem, local_path(path) or path.partition("://")[2])


# --- opening --------------------------------------------------------------------------------------------------------


def open_table(
    source: AnyTable,
    storage_options: Mapping[str, Any] | None = None,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: AnyTime | None = None,
) -> PaimonTable:
    """The table at a path or URI, as of now, or of one snapshot, tag or moment.

    Raises
    ------
    FileNotFoundError
        If there is no Paimon table at the path.
    """
    opened = _open(source, storage_options)
    return replace(opened, table=_travel(opened.table, snapshot, tag, timestamp))


def _open(source: AnyTable, storage_options: Mapping[str, Any] | None) -> PaimonTable:
    if isinstance(source, PaimonTable):
        return source
    if isinstance(source, FileStoreTable):
        return PaimonTable(source, locate(source.table_path) if local_path(source.table_path) is not None else None)
    path, options, location = _find(source, storage_options)
    try:
        return PaimonTable(FileStoreTable.from_path(path, options), location)
    except ValueError as error:
        if "No schema found" not in str(error):
            raise
        raise FileNotFoundError(2, "No Paimon table, which has a file schema/schema-0", path) from None


def _find(path: AnyPath, storage_options: Mapping[str, Any] | None) -> tuple[str, dict[str, str], Location | None]:
    """The path and the options that pypaimon takes; and the directory, if smalti reaches it by itself.

    It does not on services that only pypaimon knows, and if options of pypaimon say how a store is reached.
    """
    text = os.fspath(path)
    local = local_path(text)
    if local is not None:
        return str(Path(local).absolute()), {}, locate(path)
    uri, _, query = text.partition("?")
    storage = with_default_options(StorageOptions.of(storage_options or {}))
    options = pypaimon_options(uri, {**dict(parse_qsl(query)), **storage})
    is_reached = service_of(text) in OBJECT_SERVICES and not any(map(_is_own, storage))
    return uri.rstrip("/"), options, locate(path, storage_options=storage) if is_reached else None


def _travel(table: FileStoreTable, snapshot: int | None, tag: str | None, timestamp: AnyTime | None) -> FileStoreTable:
    """The table as of a snapshot. It stays at this snapshot, whatever is committed meanwhile."""
    if isinstance(timestamp, datetime):
        timestamp = int(timestamp.timestamp() * 1000)
    is_text = isinstance(timestamp, str) and not timestamp.isdigit()
    moment = "scan.timestamp" if is_text else "scan.timestamp-millis"
    chosen = {"scan.snapshot-id": snapshot, "scan.tag-name": tag, moment: timestamp}
    travels = {key: str(value) for key, value in chosen.items() if value is not None}
    if len(travels) > 1:
        raise MosaicError("snapshot, tag and timestamp exclude each other", found=", ".join(travels))
    if travels:
        try:
            travelled = table.copy(travels)
            TimeTravelUtil.resolve_snapshot(travelled)
            return travelled
        except ValueError as error:
            found = " ".join(map(" = ".join, travels.items()))
            raise MosaicError(f"no such snapshot: {error}", path=table.table_path, found=found) from None
    if any(key in table.options.options.to_map() for key in _TRAVELS):
        return table  # The caller has chosen a snapshot already.
    latest = table.snapshot_manager().get_latest_snapshot()
    # The schema stays the newest one, which may be newer than the snapshot.
    return table if latest is None else table.copy_without_time_travel({"scan.snapshot-id": str(latest.id)})


# --- writing --------------------------------------------------------------------------------------------------------


def open_for_commit(source: AnyTable, storage_options: Mapping[str, Any] | None = None) -> PaimonTable:
    """The table, such that of two commits at the same moment exactly one takes the next number.

    The other commit is then checked for conflicts and tried again by pypaimon.
    """
    opened = _open(source, storage_options)
    if opened.location is None:
        return opened
    create = partial(_create_exclusively, opened.location)
    return replace(opened, table=with_exclusive_commits(opened.table, create))


def _create_exclusively(root: Location, path: str, content: str) -> bool:
    location = _location_of(root, path)
    if location.is_local:
        location.parent.make_directory()
    return location.create_exclusively(content.encode())


def create(
    path: AnyPath,
    schema: pa.Schema,
    partition_by: Sequence[str] = (),
    primary_key: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Create a Paimon table whose data files are Mosaic.

    Parameters
    ----------
    path : path or URI
        The directory of the table. In a warehouse of Paimon's file system catalog it is ``database.db/table``.
    schema : pyarrow.Schema
    partition_by, primary_key : sequence of str
        A primary key includes the columns that the table is partitioned by.
    options : mapping, optional
        Of Paimon, such as ``{"bucket": "4"}``; ``file.format`` is ``mosaic`` unless it is given.
    storage_options : mapping, optional
        Credentials and endpoints for a URI; see `smalti.io.locations.locate`.

    Returns
    -------
    str
        The path of the table, as pypaimon has it.

    Raises
    ------
    FileExistsError
        If there is a Paimon table already.
    PaimonTableError
        If the path lies in another Paimon table.

    Examples
    --------
    >>> import pyarrow as pa, smalti.paimon
    >>> path = smalti.paimon.create("lake/sales", pa.schema([("id", pa.int64()), ("x", pa.string())]))
    >>> _ = smalti.paimon.write(pa.table({"id": [1, 2], "x": ["a", "b"]}), path)
    >>> smalti.paimon.dataset(path).to_table().num_rows
    2
    """
    where, file_options, location = _find(path, storage_options)
    if location is not None:
        refuse_writing_inside(location)
    for name in (*partition_by, *primary_key):
        if schema.get_field_index(name) < 0:
            raise SchemaError("no such column", path=where, found=name, expected=", ".join(schema.names[:20]))
    manager = SchemaManager(FileIO.get(where, Options(file_options)), where)
    if manager.latest() is not None:
        raise FileExistsError(17, "There is a Paimon table", where)
    if location is not None:
        manager.file_io.try_to_write_atomic = partial(_create_exclusively, location)
    given = {"file.format": "mosaic", **(options or {})}
    if given["file.format"] == "mosaic":
        refuse_rows(schema)
    definition = Schema.from_pyarrow_schema(schema, list(partition_by), list(primary_key), given)
    try:
        manager.create_table(definition)
    except RuntimeError as error:
        if "exists" not in str(error):
            raise
        raise FileExistsError(17, "There is a Paimon table", where) from None
    return where

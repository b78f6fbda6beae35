"""Where data is: `locate` turns what a user passes (path, URI, file system, storage options) into a `Place`.

A place is a path on a `pyarrow.fs` file system, in a form that travels to other processes. Knows files and
directories; knows nothing of formats, tables or jobs. `pyarrow.fs` is imported when it is needed: opening a local file
does without it, and it takes as long to load as many reads take.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from smalti.errors import MosaicError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

#: A path or URI, as users pass it.
AnyPath: TypeAlias = "str | os.PathLike[str]"
#: A file system, as users pass it; a text is the URI of a directory.
AnyFileSystem: TypeAlias = "FileSystem | FsspecFileSystem | str | None"

Result = TypeVar("Result")
#: `make_directory` tries again when another job removes the empty directory above in the same moment.
_MAKE_ATTEMPTS = 5
#: `entries` tries again when a directory that it comes upon is removed in the same moment.
_LIST_ATTEMPTS = 20

#: For each scheme: the class in `pyarrow.fs`, and the arguments of it that `storage` may set.
_SERVICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "s3": (
        "S3FileSystem",
        ("access_key", "secret_key", "session_token", "region", "endpoint_override", "scheme", "role_arn", "anonymous"),
    ),
    "gs": ("GcsFileSystem", ("access_token", "project_id", "endpoint_override", "scheme", "anonymous")),
    "abfs": ("AzureFileSystem", ("account_name", "account_key", "sas_token", "blob_storage_authority")),
    "hdfs": ("HadoopFileSystem", ("user", "kerb_ticket", "replication")),
}
#: Schemes that Hadoop and Spark use for the same services.
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}


class FsspecFileSystem(Protocol):
    """What tells an fsspec file system from others; pyarrow's handler does the rest."""

    protocol: str | tuple[str, ...]

    def cat_file(self, path: str) -> bytes: ...


@dataclass(frozen=True)
class Place:
    """A path and the file system it is on."""

    filesystem: FileSystem
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> Place:
        return Place(self.filesystem, str(PurePosixPath(self.path).parent))

    @property
    def is_local(self) -> bool:
        return is_local(self.filesystem)

    def child(self, relative: str) -> Place:
        return Place(self.filesystem, str(PurePosixPath(self.path) / relative))

    def absolute(self) -> Place:
        """The same place for a process that runs in another directory; local paths start from the root."""
        path = str(Path(self.path).absolute()) if self.is_local else self.path.rstrip("/") or self.path
        return Place(self.filesystem, path)

    def info(self) -> FileInfo:
        return self.filesystem.get_file_info(self.path)

    def exists(self) -> bool:
        return bool(self.info().type.name != "NotFound")

    def is_file(self) -> bool:
        return bool(self.info().type.name == "File")

    def is_directory(self) -> bool:
        return bool(self.info().type.name == "Directory")

    def read_bytes(self) -> bytes:
        with self.filesystem.open_input_stream(self.path, compression=None) as stream:
            return stream.read()

    def sync(self) -> None:
        """Flush a local file to disk; other file systems have stored a file once it is closed."""
        if self.is_local:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def entries(self, *, recursive: bool = False) -> Sequence[FileInfo]:
        """What is in a directory, hidden names included; nothing if there is no such directory."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.path, recursive=recursive, allow_not_found=True)
        return _try(_LIST_ATTEMPTS, lambda: self.filesystem.get_file_info(selector))

    def make_directory(self) -> None:
        """Make a directory and those above it."""
        _try(_MAKE_ATTEMPTS, lambda: self.filesystem.create_dir(self.path, recursive=True))


def _try(attempts: int, act: Callable[[], Result]) -> Result:
    """Act again whenever a directory has gone meanwhile; the last attempt may fail."""
    for _ in range(attempts - 1):
        with contextlib.suppress(FileNotFoundError):
            return act()
    return act()


def is_local(filesystem: FileSystem) -> bool:
    """Whether paths of a file system are paths of this machine, as `os` knows them."""
    return getattr(filesystem, "type_name", None) == "local"


def local_path(text: str) -> str | None:
    """The path on this machine that a text names, or None if the text is a URI.

    Examples
    --------
    >>> local_path("data/t"), local_path("file:/data/t"), local_path("s3://bucket/t")
    ('data/t', '/data/t', None)
    """
    if "://" in text:
        return None
    return "/" + text[len("file:") :].lstrip("/") if text.startswith("file:/") else text or "."


def service_of(uri: str) -> str | None:
    """The scheme that reaches a path or URI, or None if it is on this machine.

    Examples
    --------
    >>> service_of("s3a://bucket/t"), service_of("file:/t"), service_of("t")
    ('s3', None, None)
    """
    scheme, colon, _ = uri.partition(":")
    return None if not colon or "/" in scheme or scheme == "file" else _ALIASES.get(scheme, scheme)


def locate(path: AnyPath, filesystem: AnyFileSystem = None, storage: Mapping[str, str] | None = None) -> Place:
    """The place of a path or URI.

    Parameters
    ----------
    path : str or os.PathLike
    filesystem : pyarrow.fs.FileSystem, fsspec file system or URI of a directory, optional
        Where a path is looked up; by default on this machine, or where its URI says.
    storage : mapping, optional
        Credentials and endpoints for the file system of a URI, by pyarrow's names (``access_key``, ``region``, ...),
        with or without underscores. By default pyarrow finds credentials in the environment and in profiles.

    Examples
    --------
    >>> locate("/data/t").path
    '/data/t'
    """
    import pyarrow.fs as pafs

    text = os.fspath(path)
    if filesystem is None:
        local = local_path(text)
        if local is not None:
            return Place(pafs.LocalFileSystem(), local)
        return _locate_uri(text, storage or {})
    if isinstance(filesystem, str):
        directory = _locate_uri(filesystem, storage or {})
        return Place(directory.filesystem, f"{directory.path.rstrip('/')}/{text}" if directory.path else text)
    if not isinstance(filesystem, pafs.FileSystem):
        if not hasattr(filesystem, "protocol"):
            raise TypeError(f"expected a pyarrow or fsspec file system, got {type(filesystem).__name__}")
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))  # type: ignore[abstract]
    # The path is brought to the form that the file system's own listings have, so that the two can be compared.
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        text = text.lstrip("/")
    elif isinstance(filesystem, pafs.PyFileSystem):
        strip = getattr(getattr(filesystem.handler, "fs", None), "_strip_protocol", None)
        text = text if strip is None else strip(text)
    return Place(filesystem, text)


def _locate_uri(uri: str, storage: Mapping[str, str]) -> Place:
    import pyarrow.fs as pafs

    service, rest = service_of(uri), uri.partition(":")[2]
    if service is None or not storage:
        return Place(*pafs.FileSystem.from_uri(uri if service is None else f"{service}:{rest}"))
    arguments = storage_arguments(service, storage)
    kind = getattr(pafs, _SERVICES[service][0], None)
    if kind is None:
        raise MosaicError("this build of pyarrow has no such file system", found=_SERVICES[service][0])
    authority, _, path = rest.removeprefix("//").partition("/")
    if service == "hdfs":
        host, _, port = authority.partition(":")
        return Place(kind(host or "default", int(port or 0), **arguments), "/" + path)
    return Place(kind(**arguments), f"{authority.partition('@')[0]}/{path}")


def storage_arguments(service: str, storage: Mapping[str, str]) -> dict[str, str | bool]:
    """Storage options as arguments of the file system of a service.

    Examples
    --------
    >>> storage_arguments("s3", {"accesskey": "k", "anonymous": "false"})
    {'access_key': 'k', 'anonymous': False}
    """
    if service not in _SERVICES:
        raise MosaicError("storage options are not known for this scheme", found=service, expected=", ".join(_SERVICES))
    known = {name.replace("_", ""): name for name in _SERVICES[service][1]}
    arguments: dict[str, str | bool] = {}
    for key, value in storage.items():
        name = known.get(key.replace("_", "").lower())
        if name is None:
            raise MosaicError(f"unknown option 'storage.{key}' for {service}; there are {', '.join(known.values())}")
        arguments[name] = {"true": True, "false": False}.get(value.lower(), value)
    return arguments

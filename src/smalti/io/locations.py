"""Locations: `locate` turns a path, URI, file system and storage options, as users pass them, into a `Location`.

A location is a path on a `pyarrow.fs` file system, and can be pickled. URIs of object stores lead to a file system of
ours (`smalti.io.stores`). `pyarrow.fs` and obstore are imported when they are needed: opening a local file does without
them, and they take as long to load as many reads take.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import UnsupportedOperation
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from smalti.errors import MosaicError, UnsupportedFeatureError, without_secrets
from smalti.io.services import (
    OBJECT_SERVICES,
    StorageOptions,
    local_path,
    service_of,
    storage_arguments,
    store_settings,
)
from smalti.threads import request_all

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from pyarrow.fs import FileInfo, FileSystem

    from smalti.io.stores import ObjectStores

#: A path or URI, as users pass it.
AnyPath: TypeAlias = "str | os.PathLike[str]"
#: A file system, as users pass it; a string is the URI of a directory. `chosen` puts storage options in its place.
AnyFileSystem: TypeAlias = "FileSystem | FsspecFileSystem | ObjectStore | StorageOptions | str | None"
#: Storage options, as users pass them.
AnyStorageOptions: TypeAlias = "Mapping[str, Any] | None"

#: Which of the directories at these paths are listed.
Choose: TypeAlias = "Callable[[Sequence[str]], Sequence[bool]]"

Result = TypeVar("Result")
#: End of the names of temporary files, which begin with a dot. Killed processes leave them, and `clean` removes them.
TEMPORARY_SUFFIX = ".mosaic-tmp"
#: Errors of file systems without hard links.
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
#: Errors of a failing disk, in contrast to file systems that cannot flush directories, and to missing directories.
_DISK_FAILS = {errno.EIO, errno.ENOSPC, errno.EDQUOT}
#: Errors of links to missing files, below files, or to themselves.
_LEADS_NOWHERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
#: How often a directory is made or listed again because another job removes an empty directory in the same moment.
_ATTEMPTS = 20
#: Directories of a store that are listed one by one. If there are more, everything is listed.
_MAX_DIRECTORIES = 64


class FsspecFileSystem(Protocol):
    """The attributes of an fsspec file system that are used here; pyarrow's handler uses others."""

    protocol: str | tuple[str, ...]
    info: Callable[..., dict[str, Any]]
    open: Callable[..., Any]
    cat_file: Callable[..., bytes]
    cat_ranges: Callable[..., list[bytes]]


class Entry(NamedTuple):
    """A path in a listing, with what the file system knows of it."""

    path: str
    #: "File", "Directory", "NotFound", also for a symbolic link to a missing file, or "Unknown" for a pipe.
    kind: str
    #: Bytes of a file, else 0.
    size: int = 0
    #: Time of modification in nanoseconds, 0 if unknown.
    modified: int = 0
    #: ETag of an object; empty if it has none.
    etag: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        return self.kind == "File"

    @property
    def is_directory(self) -> bool:
        return self.kind == "Directory"

    @classmethod
    def of(cls, info: FileInfo) -> Entry:
        """Convert a `pyarrow.fs.FileInfo`."""
        modified = info.mtime_ns if info.is_file or info.type.name == "Directory" else 0
        return cls(info.path, str(info.type.name), info.size or 0, modified or 0)


@dataclass(frozen=True)
class Location:
    """A path and the file system it is on."""

    filesystem: FileSystem
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> Location:
        return Location(self.filesystem, str(PurePosixPath(self.path).parent))

    @property
    def is_local(self) -> bool:
        return is_local(self.filesystem)

    @property
    def stores(self) -> ObjectStores | None:
        """The object stores that this location is on, unless the caller has passed a file system."""
        handler = getattr(self.filesystem, "handler", None)
        return handler if hasattr(handler, "read_end") else None

    @property
    def fsspec(self) -> FsspecFileSystem | None:
        """The fsspec file system that the caller has passed, if any."""
        inner = getattr(getattr(self.filesystem, "handler", None), "fs", None)
        return inner if hasattr(inner, "cat_ranges") else None

    def child(self, relative: str) -> Location:
        return Location(self.filesystem, str(PurePosixPath(self.path) / relative))

    def absolute(self) -> Location:
        """Return the same location for a process that runs in another directory: local paths become absolute."""
        path = str(Path(self.path).absolute()) if self.is_local else self.path.rstrip("/") or self.path
        return Location(self.filesystem, path)

    def info(self) -> Entry:
        return self.infos([self.path])[0]

    def infos(self, paths: Sequence[str]) -> list[Entry]:
        """Describe paths of this file system; on object stores with a request for each."""
        if self.stores is not None:
            return self.stores.infos(paths)
        return [Entry.of(info) for info in self.filesystem.get_file_info(list(paths))]

    def exists(self) -> bool:
        return self.info().kind != "NotFound"

    def is_file(self) -> bool:
        return self.info().is_file

    def is_directory(self) -> bool:
        return self.info().is_directory

    def read_bytes(self) -> bytes:
        if self.stores is not None:
            return self.stores.read(self.path)
        with self.filesystem.open_input_stream(self.path, compression=None) as stream:
            return stream.read()

    def create_exclusively(self, data: bytes) -> bool:
        """Create a small file unless there is one; return whether this call has created it.

        Of several callers at the same moment exactly one gets True. The file appears with all of its data, or not at
        all, and its directory has to exist. `data` has to be unique to the caller, for example by an id in it: the
        answer of an object store may get lost, and when the request is repeated, the data tells whose object it is. A
        file system without exclusive creation is refused with `UnsupportedFeatureError`.
        """
        try:
            if self.stores is not None:
                return self.stores.create(self.path, data)
            if self.is_local:
                return _link_exclusively(Path(self.path), data)
        except UnsupportedOperation:
            pass
        reason, found = "this file system cannot create a file only if there is none", self.filesystem.type_name
        raise UnsupportedFeatureError(reason, path=self.path, found=found)

    def sync(self) -> None:
        """Flush a local file to disk; other file systems have stored a file once it is closed."""
        if self.is_local:
            _fsync(self.path)

    def entries(self, *, recursive: bool = False) -> Sequence[Entry]:
        """List a directory, hidden names included; a missing directory has no entries.

        Symbolic links are followed, except to a directory above them, which is listed already.
        """
        if self.is_local:
            return list(_walk(self.path, (), recursive=recursive))
        if self.stores is not None:
            return self.stores.entries(self.path, recursive=recursive)
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.path, recursive=recursive, allow_not_found=True)
        return [Entry.of(info) for info in _try(lambda: self.filesystem.get_file_info(selector))]

    def entries_of_some(self, choose: Choose) -> Sequence[Entry]:
        """List a directory and the directories below it that `choose` does not leave out.

        On a store, a listing of everything takes a request for every thousand files, and one of chosen directories a
        request for each of them. So the latter is done as long as these are few.
        """
        if self.is_local:
            return list(_walk(self.path, (), recursive=True, choose=choose))
        found: list[Entry] = []
        level = [self.path]
        while level:
            locations = [Location(self.filesystem, path) for path in level]
            entries = [entry for listed in request_all(Location.entries, locations) for entry in listed]
            found += entries
            directories = [entry.path for entry in entries if entry.is_directory]
            level = list(compress(directories, choose(directories)))
            if len(level) > _MAX_DIRECTORIES:
                return self.entries(recursive=True)
        return found

    def delete_files(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Delete files of this file system, on object stores a thousand in a request; missing files are no error.

        Returns the errors by path. A store that refuses a request may have deleted some of its files.
        """
        if self.stores is not None:
            return self.stores.delete_files(paths)
        failed = {}
        for path in paths:
            try:
                self.filesystem.delete_file(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                failed[path] = error
        return failed

    def make_directory(self) -> None:
        """Make a directory and all directories above it."""
        _try(lambda: self.filesystem.create_dir(self.path, recursive=True))


def _walk(
    directory: str, above: tuple[tuple[int, int], ...], *, recursive: bool, choose: Choose | None = None
) -> Iterator[Entry]:
    """Yield the entries of a local directory. `above` are the directories above it, by device and inode."""
    try:
        status = Path(directory).stat()
        found = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    here = (*above, (status.st_dev, status.st_ino))
    entries = []
    for entry in found:
        path = f"{directory.rstrip('/')}/{entry.name}"
        try:
            status = entry.stat()
        except OSError as error:
            if error.errno not in _LEADS_NOWHERE:
                raise
            if entry.is_symlink():
                entries.append(Entry(path, "NotFound"))
            continue
        if not stat.S_ISDIR(status.st_mode):
            kind = "File" if stat.S_ISREG(status.st_mode) else "Unknown"
            entries.append(Entry(path, kind, status.st_size, status.st_mtime_ns))
        elif (status.st_dev, status.st_ino) not in here:
            entries.append(Entry(path, "Directory", 0, status.st_mtime_ns))
    below = [entry.path for entry in entries if entry.is_directory and recursive]
    chosen = set(below if choose is None else compress(below, choose(below)))
    for item in entries:
        yield item
        if item.path in chosen:
            yield from _walk(item.path, here, recursive=True, choose=choose)


def _try(act: Callable[[], Result]) -> Result:
    """Act again whenever a directory was removed meanwhile; the last attempt may fail."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileNotFoundError):
            return act()
    return act()


def _link_exclusively(target: Path, data: bytes) -> bool:
    """Write a file under another name, and then link it to its name, which fails if the name is taken.

    Once the link is there, every process sees the file. So an error after that must not say that there is no file.
    """
    temporary = target.with_name(temporary_name(target.name))
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in NO_LINKS:
                raise UnsupportedOperation("no links") from None
            raise
        with contextlib.suppress(OSError):
            sync_directory(target.parent)
        return True
    finally:
        with contextlib.suppress(OSError):  # `clean` removes the temporary file.
            temporary.unlink(missing_ok=True)


def temporary_name(name: str) -> str:
    """Return a new name for a file that will be renamed to `name`; listings and datasets skip it."""
    return f".{name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}"


def sync_directory(directory: Path) -> None:
    """Flush the names in a local directory to disk, where the file system can; a disk that fails is an error."""
    try:
        _fsync(directory)
    except OSError as error:
        if error.errno in _DISK_FAILS:
            raise


def _fsync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_local(filesystem: FileSystem) -> bool:
    """Return whether paths of a file system are local paths, as `os` takes them."""
    return getattr(filesystem, "type_name", None) == "local"


def chosen(filesystem: AnyFileSystem, storage_options: AnyStorageOptions) -> AnyFileSystem:
    """What public functions hand on in the place of `filesystem`: the file system, or the storage options for URIs."""
    if storage_options is None:
        return filesystem
    if filesystem is not None:
        raise TypeError("give a filesystem or storage_options, not both: a file system has its own")
    return StorageOptions.of(storage_options)


#: Options that count for all URIs of this process, unless others are given.
_defaults = StorageOptions()


@contextlib.contextmanager
def default_storage_options(options: AnyStorageOptions) -> Iterator[None]:
    """Set storage options for all URIs of this process for a while: for the command line, where a job has many."""
    global _defaults
    before, _defaults = _defaults, StorageOptions.of(options or {})
    try:
        yield
    finally:
        _defaults = before


def with_default_options(storage: Mapping[str, str]) -> StorageOptions:
    """Storage options for a URI, with those that `default_storage_options` has set for all."""
    return StorageOptions({**_defaults, **storage})


def locate(path: AnyPath, filesystem: AnyFileSystem = None, storage_options: AnyStorageOptions = None) -> Location:
    """Return the location of a path or URI.

    Parameters
    ----------
    path : str or os.PathLike
    filesystem : pyarrow.fs.FileSystem, fsspec file system, obstore store or URI of a directory, optional
        File system of a path; by default this machine's, or the one that the URI names.
    storage_options : mapping, optional
        Credentials and endpoints for the service of a URI; see `smalti.io.services` for their names. By default they
        are found in the environment, in profiles and on the machine. A path on this machine needs none.

    Examples
    --------
    >>> locate("/data/t").path
    '/data/t'
    """
    import pyarrow.fs as pafs

    filesystem, text = chosen(filesystem, storage_options), os.fspath(path)
    if filesystem is None or isinstance(filesystem, StorageOptions):
        local = local_path(text)
        if local is not None:
            return Location(pafs.LocalFileSystem(), local)
        return _locate_uri(text, filesystem or {})
    if isinstance(filesystem, str):
        directory = _locate_uri(filesystem, {})
        return Location(directory.filesystem, f"{directory.path.rstrip('/')}/{text}" if directory.path else text)
    if not isinstance(filesystem, pafs.FileSystem):
        if type(filesystem).__module__.startswith("obstore"):
            return _locate_in_store(text, filesystem)
        if not hasattr(filesystem, "protocol"):
            found = type(filesystem).__name__
            raise TypeError(f"expected a file system of pyarrow or fsspec, or a store of obstore, got {found}")
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))  # type: ignore[abstract]
    # Bring the path to the form that the file system's own listings have, so that the two can be compared.
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        text = text.lstrip("/")
    elif isinstance(filesystem, pafs.PyFileSystem):
        strip = getattr(getattr(filesystem.handler, "fs", None), "_strip_protocol", None)
        text = text if strip is None else strip(text)
    return Location(filesystem, text)


def _locate_in_store(path: str, store: Any) -> Location:
    """The location of a path in a store that the caller has made."""
    import pyarrow.fs as pafs

    from smalti.io.stores import OneStore

    if service_of(path) is not None:
        raise MosaicError("a path in a store begins below its bucket", found=path, expected="a path, no URI")
    if type(store).__name__ == "LocalStore":
        return Location(pafs.LocalFileSystem(), str(Path(store.prefix or "/") / path.lstrip("/")))
    return Location(pafs.PyFileSystem(OneStore(store)), path.strip("/"))


def resolve(path: AnyPath, filesystem: AnyFileSystem) -> str | Location:
    """Return the path of a local file, for which `pyarrow.fs` is not needed, or the location of another file."""
    is_named = filesystem is None or isinstance(filesystem, StorageOptions)
    local = local_path(os.fspath(path)) if is_named else None
    if local is not None:
        return local
    location = locate(path, filesystem)
    return location.path if location.is_local else location


def _locate_uri(uri: str, storage: Mapping[str, str]) -> Location:
    import pyarrow.fs as pafs

    storage = with_default_options(storage)
    service, rest = service_of(uri), uri.partition(":")[2]
    if service in OBJECT_SERVICES:
        settings, path = store_settings(uri, storage)
        try:
            from smalti.io.stores import ObjectStores
        except ModuleNotFoundError as error:
            if error.name != "obstore":
                raise
            reason = "object stores need the package obstore: pip install 'smalti[cloud]', or pass a file system"
            raise MosaicError(reason, path=uri) from None
        return Location(pafs.PyFileSystem(ObjectStores(settings)), path)
    if service != "hdfs" or not storage:
        try:
            return Location(*pafs.FileSystem.from_uri(uri if service is None else f"{service}:{rest}"))
        except (ValueError, OSError) as error:  # pyarrow's messages repeat the URI with its secrets.
            raise type(error)(without_secrets(str(error))) from None
    authority, _, path = rest.removeprefix("//").partition("/")
    host, _, port = authority.partition(":")
    arguments = storage_arguments(service, storage)
    return Location(pafs.HadoopFileSystem(host or "default", int(port or 0), **arguments), "/" + path)  # type: ignore[arg-type]

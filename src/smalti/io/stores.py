"""Object stores, reached through obstore: each operation is one request, or says how many it is.

`ObjectStores` is a handler of pyarrow's, so that code for `pyarrow.fs` file systems works on stores too. Sources, sinks
and locations call its other operations directly, because pyarrow's interface lacks them: the end of an object with its
size and ETag, reads that insist on an ETag, creation that refuses to replace.

This module is imported only when a URI needs it: obstore comes with the extra ``smalti[cloud]``.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, HTTPStore, MemoryStore, S3Store
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, resolve_s3_region

from smalti import threads
from smalti.errors import MosaicError, ReplacedError, without_secrets
from smalti.io.connection import Connection
from smalti.io.locations import Entry
from smalti.io.services import StoreSettings
from smalti.io.sources import Source, open_object

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, UpdateVersion, WritableFile
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: Uploads larger than this are sent in parts, several at once. A store takes at most 10,000 parts.
PART_SIZE = 8 << 20
MAX_PARTS = 9_000
_PARALLEL_PARTS = 8
#: Bytes of a request when an object is read from its beginning.
_STREAM_CHUNK = 8 << 20
#: How many objects S3 deletes in one request, and how many bytes it copies in one.
_DELETED_AT_ONCE = 1000
_COPIED_AT_ONCE = 5 << 30
#: Bytes that are fetched from the end of an object when it is opened as a file, for Parquet's footer.
_FILE_TAIL = 64 << 10
#: A failed request is tried again for about ten seconds; a single one may take two minutes.
_RETRY: RetryConfig = {"max_retries": 7}
_TIMEOUT = timedelta(minutes=2)
#: Prefixes of the environment variables that obstore or boto3 read.
_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT", "HOME")
_NO_RANGE = ("non-partial response", " 416 ", "Range request not supported")
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "abfs": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_S3_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_S3_FILES = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}


class ObjectStores(FileSystemHandler):
    """All buckets of a service that are reached with the same settings. Paths begin with the name of the bucket."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStores, (self.settings,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStores) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    def _open(self, path: str) -> tuple[ObjectStore, str]:
        """Return the store of a path's bucket, and the path inside."""
        _check_not_forked()
        if self.settings.service == "memory":
            return _MEMORY, path.strip("/")
        bucket, _, key = path.strip("/").partition("/")
        environment = frozenset(item for item in os.environ.items() if item[0].startswith(_PREFIXES))
        try:
            return _store(self.settings, bucket, environment), key
        except exceptions.BaseError as error:  # Its message may quote a value.
            reason = _reason(error).partition(" Debug source")[0]
            for _, value in self.settings.config:
                reason = reason.replace(str(value), "***") if isinstance(value, str) and value else reason
            raise MosaicError("the store cannot be reached with these options", found=reason) from None

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[ObjectStore, str]]:
        """Yield `_open(path)`, and raise Python's own errors in place of obstore's, which are several lines long."""
        opened, service = self._open(path), self.settings.service
        # A URL, unlike other paths, may hold a signature.
        shown = without_secrets(f"{service}://{path}") if service in ("http", "https") else path
        try:
            yield opened
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _reason(error), shown) from None
        except (exceptions.NotSupportedError, NotImplementedError) as error:
            raise io.UnsupportedOperation(f"{shown}: {_reason(error)}") from None
        except exceptions.InvalidPathError as error:
            raise MosaicError(
                "an object has a name that is no path, and the store cannot be listed past it; "
                "rename or delete the object",
                path=shown,
                found=re.sub(r"^.*?Path ", "", _reason(error)),
            ) from None
        except (FileNotFoundError, exceptions.BaseError) as error:
            if "NoSuchBucket" in str(error):
                # The path may be one that nobody has asked for, such as that of the records beside a file.
                bucket = f"{service}://{path.strip('/').partition('/')[0]}"
                raise FileNotFoundError(errno.ENOENT, "No such bucket", bucket) from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(errno.ENOENT, "No such object", shown) from None
            raise OSError(errno.EIO, _reason(error), shown) from None

    def connection(self, path: str) -> Connection:
        """What reads of a path's bucket have cost so far."""
        return _connection(self.settings, path.strip("/").partition("/")[0])

    # --- operations that pyarrow lacks ------------------------------------------------------------------------------

    def _get(self, path: str, options: GetOptions) -> tuple[Entry, bytes]:
        with self._opened(path) as (store, key):
            result = obstore.get(store, key, options=options)
            return _entry(path, result.meta), result.bytes().to_bytes()

    def read(self, path: str) -> bytes:
        """Read an object in one request."""
        return self._get(path, {})[1]

    def read_end(self, path: str, size: int) -> tuple[Entry, bytes]:
        """Read the last `size` bytes of an object, or all of a shorter one, in one request; on Azure, in two."""
        if self.settings.service == "abfs":  # Azure has no ranges that count from the end.
            with self._opened(path) as (store, key):
                entry = _entry(path, obstore.head(store, key))
            last = min(size, entry.size)
            return entry, self.read_range(path, entry.etag, entry.size - last, last) if last else b""
        try:
            return self._get(path, {"range": {"suffix": size}})
        except OSError as error:
            # An empty object has no last bytes; and some HTTP servers know no ranges and send the whole object.
            if not any(sign in str(error) for sign in _NO_RANGE):
                raise
            return self._get(path, {})

    def read_range(self, path: str, etag: str, offset: int, size: int) -> bytes:
        """Read bytes of an object.

        Raises
        ------
        ReplacedError
            If the object has another ETag by now, which means that it was replaced.
        """
        with self._opened(path) as (store, key):
            options: GetOptions = {"range": (offset, offset + size), "if_match": etag or None}
            try:
                return obstore.get(store, key, options=options).bytes().to_bytes()
            except exceptions.PreconditionError:
                raise ReplacedError("the file was replaced while it was read; open it again", path=path) from None

    def write(self, path: str, file: IO[bytes] | io.RawIOBase, size: int) -> None:
        """Upload a file. If that fails, the object that was there before stays, and obstore aborts the upload."""
        with self._opened(path) as (store, key):
            part = max(PART_SIZE, size // MAX_PARTS)
            obstore.put(store, key, cast("IO[bytes]", file), chunk_size=part, max_concurrency=_PARALLEL_PARTS)

    def create(self, path: str, data: bytes) -> bool:
        """Create an object unless there is one; return whether it was created.

        The answer can get lost, and the repeated request then finds the object that the first one has created.
        Therefore an object with exactly this data counts as created, and `data` has to be unique to the caller.
        """
        with self._opened(path) as (store, key):
            try:
                obstore.put(store, key, data, mode="create")
            except exceptions.AlreadyExistsError:
                return obstore.get(store, key).bytes().to_bytes() == data
            return True

    # --- operations of a pyarrow handler ----------------------------------------------------------------------------

    def get_type_name(self) -> str:
        return self.settings.service

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """One request for each file, two for each directory; several at once."""
        return [_file_info(entry) for entry in self.infos(paths)]

    def infos(self, paths: Sequence[str]) -> list[Entry]:
        """Describe paths, with ETags."""
        return threads.request_all(self._info, paths) if len(paths) > 1 else [*map(self._info, paths)]

    def _info(self, path: str) -> Entry:
        with contextlib.suppress(FileNotFoundError), self._opened(path) as (store, key):
            if key:
                return _entry(path, obstore.head(store, key))
        with contextlib.suppress(FileNotFoundError), self._opened(path) as (store, key):
            if next(iter(obstore.list(store, key or None, chunk_size=1)), None):
                return Entry(path, "Directory")
        return Entry(path, "NotFound")

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        entries = self.entries(selector.base_dir, recursive=selector.recursive)
        if not entries and not selector.allow_not_found:
            raise FileNotFoundError(errno.ENOENT, "No such directory", selector.base_dir)
        return [_file_info(entry) for entry in entries]

    def entries(self, path: str, *, recursive: bool) -> list[Entry]:
        """List a directory: a request for every thousand objects."""
        base = path.strip("/")
        with self._opened(base) as (store, key):
            if recursive:
                objects = [meta for chunk in obstore.list(store, key or None) for meta in chunk]
                directories = set(_directories((meta["path"] for meta in objects), key))
            else:
                found = obstore.list_with_delimiter(store, key or None)
                objects, directories = list(found["objects"]), set(found["common_prefixes"])
        root = base.removesuffix(key) if key else f"{base}/" if base else ""
        # Some tools mark directories by empty objects of the same name, which are no files.
        marks = {*directories, key}
        files = [_entry(root + meta["path"], meta) for meta in objects if meta["size"] or meta["path"] not in marks]
        return [Entry(root + directory, "Directory") for directory in sorted(directories)] + files

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a directory exists while there are objects in it."""

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = True) -> None:  # noqa: ARG002
        with self._opened(path) as (store, key):
            if not key:
                raise MosaicError("a whole bucket is not deleted", path=path)
            for chunk in obstore.list(store, key):
                # The mark of a directory has the name of the directory, which may also be that of a real object.
                obstore.delete(store, [meta["path"] for meta in chunk if meta["path"] != key])

    def delete_root_dir_contents(self) -> None:
        raise MosaicError("a whole bucket is not deleted")

    def delete_file(self, path: str) -> None:
        """Delete an object; stores do not say whether there was one."""
        with self._opened(path) as (store, key):
            obstore.delete(store, key)

    def delete_files(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Delete objects of one bucket, a thousand in a request; return the errors by path."""
        failed: dict[str, OSError] = {}

        def delete(some: Sequence[str]) -> None:
            try:
                with self._opened(some[0]) as (store, key):
                    root = some[0].strip("/").removesuffix(key)
                    obstore.delete(store, [path.strip("/").removeprefix(root) for path in some])
            except FileNotFoundError:
                pass
            except OSError as error:
                failed.update(dict.fromkeys(some, error))

        parts = [paths[start : start + _DELETED_AT_ONCE] for start in range(0, len(paths), _DELETED_AT_ONCE)]
        threads.request_all(delete, parts)
        return failed

    def move(self, src: str, dest: str) -> None:
        """Copy, then delete: two requests, between which there are two objects."""
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        """Let the store copy; an object that is too large for that, or goes to another bucket, is read and written."""
        if self._copy(src, dest, overwrite=True) is None:
            reader = self._reader(src)
            self.write(dest, reader, reader.size)

    def copy_new(self, src: str, dest: str) -> bool:
        """Copy an object to a path unless there is one; return whether it was copied.

        A store that cannot do so, or not with an object of this size, is asked first whether there is one.
        """
        copied = self._copy(src, dest, overwrite=False)
        if copied is None:
            copied = not self._info(dest).is_file
            if copied:
                self.copy_file(src, dest)
        return copied

    def replace(self, src: str, dest: str, etag: str) -> bool:
        """Replace an object by another one of its bucket, if it still has this ETag; return whether it was replaced.

        A store copies without a condition, so the bytes go through this machine, in one request. What a request cannot
        hold, and stores that know no condition, are asked before the copy.
        """
        with self._opened(dest) as (store, key):
            try:
                old = obstore.head(store, key)
            except FileNotFoundError:
                return False
            if etag and _entry(dest, old).etag != etag:
                return False
            source = self._open(src)[1]
            if etag and obstore.head(store, source)["size"] <= _COPIED_AT_ONCE:
                version: UpdateVersion = {"e_tag": old["e_tag"]}
                if old["version"] is not None:
                    version["version"] = old["version"]
                try:
                    obstore.put(store, key, obstore.get(store, source).bytes(), mode=version)
                    return True
                except exceptions.PreconditionError:
                    return False
                except (exceptions.NotSupportedError, NotImplementedError):
                    pass
        self.copy_file(src, dest)
        return True

    def _copy(self, src: str, dest: str, *, overwrite: bool) -> bool | None:
        """Return whether the store has copied, or None if it cannot copy this object."""
        target, target_key = self._open(dest)
        try:
            with self._opened(src) as (store, key):
                if store is not target:
                    return None
                with contextlib.suppress(exceptions.AlreadyExistsError):
                    obstore.copy(store, key, target_key, overwrite=overwrite)
                    return True
                return False
        except io.UnsupportedOperation:
            return None
        except OSError as error:
            if isinstance(error, FileNotFoundError) or self._info(src).size <= _COPIED_AT_ONCE:
                raise
            return None

    def _reader(self, path: str) -> ObjectReader:
        return ObjectReader(open_object(self, path, path, _FILE_TAIL))

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self._reader(path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(io.BufferedReader(self._reader(path), _STREAM_CHUNK), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:  # noqa: ARG002
        """Return a stream that creates the object when it is closed, also by an error, as pyarrow's streams do."""
        with self._opened(path) as (store, key):
            return pa.PythonFile(ObjectWriter(obstore.open_writer(store, key, buffer_size=PART_SIZE)), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.PythonFile:  # noqa: ARG002
        raise MosaicError("objects cannot be appended to", path=path)


class OneStore(ObjectStores):
    """A store that the caller has made with obstore. Paths begin below its bucket and prefix."""

    def __init__(self, store: ObjectStore) -> None:
        kinds = {S3Store: "s3", GCSStore: "gs", AzureStore: "abfs", MemoryStore: "memory"}
        service = kinds.get(type(store))
        if service is None and isinstance(store, HTTPStore):
            service = store.url.partition(":")[0]
        if service is None:
            raise TypeError(f"expected a store of obstore, got {type(store).__name__}")
        super().__init__(StoreSettings(service))
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return OneStore, (self._store,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneStore) and self._store == other._store

    def __hash__(self) -> int:
        return hash(self.settings)

    def _open(self, path: str) -> tuple[ObjectStore, str]:
        _check_not_forked()
        return self._store, path.strip("/")


class ObjectReader(io.RawIOBase):
    """An object as a file, for pyarrow's own readers; one request for each read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._at = 0

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size - self._at)
        data = self._source.read_at(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data

    readall = read


class ObjectWriter(io.RawIOBase):
    """obstore's writer with the attributes of a Python file."""

    def __init__(self, writer: WritableFile) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._writer.write(memoryview(data).cast("B"))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._writer.close()


def _entry(path: str, meta: ObjectMeta) -> Entry:
    # By whole seconds and microseconds, because a time as a floating-point number is not exact.
    time = meta["last_modified"]
    modified = int(time.timestamp()) * 10**9 + time.microsecond * 1000
    # Servers do not compare weak ETags, so that insisting on one would always fail.
    etag = meta["e_tag"] or ""
    return Entry(path, "File", meta["size"], modified, "" if etag.startswith("W/") else etag)


def _file_info(entry: Entry) -> FileInfo:
    if not entry.is_file:
        return FileInfo(entry.path, FileType.Directory if entry.is_directory else FileType.NotFound)
    return FileInfo(entry.path, FileType.File, size=entry.size, mtime_ns=entry.modified)


def _directories(paths: Iterable[str], base: str) -> Iterator[str]:
    """Yield the directories of objects, and those above them, up to `base`."""
    for parent in {path.rpartition("/")[0] for path in paths}:
        while len(parent) > len(base):
            yield parent
            parent = parent.rpartition("/")[0]


# --- making a store -------------------------------------------------------------------------------------------------


#: The objects of ``memory://`` in this process.
_MEMORY = MemoryStore()


@functools.lru_cache(maxsize=64)
def _connection(settings: StoreSettings, bucket: str) -> Connection:  # noqa: ARG001
    return Connection()


@functools.lru_cache(maxsize=64)
def _store(settings: StoreSettings, bucket: str, environment: frozenset[tuple[str, str]]) -> ObjectStore:  # noqa: ARG001
    """Make the store of a bucket, which keeps its connections; make it again when the `environment` has changed."""
    config: Any = dict(settings.config)
    client: ClientConfig = {"timeout": _TIMEOUT}
    if settings.service in ("http", "https"):
        client["allow_http"] = settings.service == "http"
        return HTTPStore.from_url(f"{settings.service}://{bucket}", client_options=client, retry_config=_RETRY)
    endpoint = config.get("endpoint") or config.get("base_url") or _environment(_ENDPOINTS[settings.service])
    allowed = config.pop("allow_http", False)
    client["allow_http"] = allowed is True or str(endpoint or "").startswith("http://")
    if settings.service == "gs":
        return GCSStore(bucket, config=config, client_options=client, retry_config=_RETRY)
    if settings.service == "abfs":
        return AzureStore(bucket, config=config, client_options=client, retry_config=_RETRY)
    provider = _s3_credentials(config)
    known = getattr(provider, "config", {})
    if not endpoint and not (config.get("region") or known.get("region") or _environment(_S3_REGIONS)):
        with contextlib.suppress(OSError):  # The first request tells better what is wrong with the bucket.
            config["region"] = resolve_s3_region(bucket)
    # S3 completes an upload only if there is no object, but copies always.
    config.setdefault("copy_if_not_exists", "multipart")
    return S3Store(bucket, config=config, client_options=client, retry_config=_RETRY, credential_provider=provider)


def _environment(names: Iterable[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _s3_credentials(config: dict[str, Any]) -> Any:
    """Return boto3's credentials for profiles and roles; None where obstore finds credentials itself.

    obstore reads the environment and asks web identities, containers and instances.
    """
    role, profile = config.pop("role_arn", None), os.environ.get("AWS_PROFILE")
    if role is None:
        if "access_key_id" in config or config.get("skip_signature") or os.environ.get("AWS_ACCESS_KEY_ID"):
            return None
        files = [os.environ.get(name, default) for name, default in _S3_FILES.items()]
        if not profile and not any(Path(file).expanduser().exists() for file in files):
            return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider, StsCredentialProvider
    except ImportError:
        if role is None and not profile:
            return None
        found = f"the role {role}" if role else f"the profile {profile}"
        raise MosaicError("this needs boto3: pip install boto3", found=found) from None
    keys = {f"aws_{name}": config.get(name) for name in ("access_key_id", "secret_access_key", "session_token")}
    session = boto3.session.Session(**keys, region_name=config.get("region"))
    if role is not None:
        return StsCredentialProvider(session, RoleArn=role, RoleSessionName="smalti")
    return Boto3CredentialProvider(session) if session.get_credentials() is not None else None


def _reason(error: BaseException) -> str:
    """Return one line: which request failed, and the message of the server."""
    text = without_secrets(str(error).partition("\n\nDebug source")[0])
    answer = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
    line = " ".join(text.partition("<?xml")[0].split())
    return f"{line} {answer[1]}" if answer else line


#: The process that has used object stores first.
_user: int | None = None


def _check_not_forked() -> None:
    """Refuse a forked child, which has none of obstore's threads, so that every request would wait for ever."""
    global _user
    _user = _user or os.getpid()
    if _user != os.getpid():
        raise MosaicError(
            "this process was forked from one that has used object stores, where they cannot be used; "
            'start processes with the method "spawn" or "forkserver"'
        )

"""Object stores, reached through obstore: each operation is one request, or says how many it is.

`ObjectStores` is at the same time what pyarrow calls a handler, so that whatever works with a `pyarrow.fs` file system
works here too. Sources and sinks use the operations below it directly, because pyarrow's interface has no words for
them: the end of an object with its size and ETag, reads that insist on an ETag, creation that refuses to replace.

This module is imported only when a URI needs it: obstore comes with the extra ``smalti[cloud]``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, HTTPStore, MemoryStore, S3Store
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, resolve_s3_region

from smalti import threads
from smalti.errors import MosaicError, ReplacedError, without_secrets
from smalti.io.locations import Entry
from smalti.io.services import StoreSettings
from smalti.io.sources import Source, open_object

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, WritableFile
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: Uploads larger than this are sent in parts, several at once. A store takes at most 10,000 parts.
PART_SIZE = 8 << 20
MAX_PARTS = 9_000
_PARALLEL_PARTS = 8
#: What is read at a time by those who read an object from its beginning.
_STREAM_CHUNK = 8 << 20
#: S3 deletes so many objects in one request, and copies objects of up to so many bytes in one.
_DELETED_AT_ONCE = 1000
_COPIED_AT_ONCE = 5 << 30
#: The end that is fetched of objects that are opened as files, for Parquet's footer.
_FILE_TAIL = 64 << 10
#: A failed request is tried again for about ten seconds; a single one may take two minutes.
_RETRY: RetryConfig = {"max_retries": 7}
_TIMEOUT = timedelta(minutes=2)
#: The environment variables that obstore or boto3 look at.
_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT", "HOME")
_NO_RANGE = ("non-partial response", " 416 ", "Range request not supported")
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "abfs": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_S3_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


class ObjectEnd(NamedTuple):
    """The last bytes of an object, and what tells it from another one at the same path."""

    data: bytes
    size: int
    etag: str | None
    #: Nanoseconds since 1970.
    modified: int


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

    def _errors(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Errors of Python's own for those of obstore. A URL, unlike other paths, may hold a signature."""
        is_url = self.settings.service in ("http", "https")
        return _errors(without_secrets(f"{self.settings.service}://{path}") if is_url else path)

    def _open(self, path: str) -> tuple[ObjectStore, str]:
        """The store of a bucket, and the path inside."""
        _check_not_forked()
        if self.settings.service == "memory":
            return _memory(), path.strip("/")
        bucket, _, key = path.strip("/").partition("/")
        given = frozenset((name, value) for name, value in os.environ.items() if name.startswith(_PREFIXES))
        return _store(self.settings, bucket, given), key

    # --- what pyarrow has no words for ------------------------------------------------------------------------------

    def read_end(self, path: str, size: int) -> ObjectEnd:
        """The last `size` bytes of an object, or all that it has, in one request; on Azure, in two."""
        if self.settings.service == "abfs":  # Azure knows no ranges that count from the end.
            store, key = self._open(path)
            with self._errors(path):
                meta = obstore.head(store, key)
            last = min(size, meta["size"])
            data = self.read_range(path, meta["e_tag"], meta["size"] - last, last) if last else b""
            return ObjectEnd(data, meta["size"], meta["e_tag"], _modified(meta))
        try:
            return self._get_end(path, {"range": {"suffix": size}})
        except OSError as error:
            # The end of an empty object is no range; and some HTTP servers know no ranges and send all there is.
            if not any(sign in str(error) for sign in _NO_RANGE):
                raise
            return self._get_end(path, {})

    def _get_end(self, path: str, options: GetOptions) -> ObjectEnd:
        store, key = self._open(path)
        with self._errors(path):
            result = obstore.get(store, key, options=options)
            meta = result.meta
            return ObjectEnd(result.bytes().to_bytes(), meta["size"], _strong(meta["e_tag"]), _modified(meta))

    def read_range(self, path: str, etag: str | None, offset: int, size: int) -> bytes:
        """Bytes of an object that must still have this ETag.

        Raises
        ------
        ReplacedError
            If the object was replaced since its ETag was learnt.
        """
        store, key = self._open(path)
        with self._errors(path):
            options: GetOptions = {"range": (offset, offset + size), "if_match": etag}
            try:
                return obstore.get(store, key, options=options).bytes().to_bytes()
            except exceptions.PreconditionError:
                raise ReplacedError("the file was replaced while it was read; open it again", path=path) from None

    def read(self, path: str) -> bytes:
        """All of an object, in one request."""
        store, key = self._open(path)
        with self._errors(path):
            return obstore.get(store, key).bytes().to_bytes()

    def write(self, path: str, file: IO[bytes] | io.RawIOBase, size: int) -> None:
        """Upload a file. If that fails, what was there before stays, and obstore gives up the parts it has sent."""
        store, key = self._open(path)
        with self._errors(path):
            part = max(PART_SIZE, size // MAX_PARTS)
            obstore.put(store, key, cast("IO[bytes]", file), chunk_size=part, max_concurrency=_PARALLEL_PARTS)

    def create(self, path: str, data: bytes) -> bool:
        """Create an object unless there is one; return whether it was created.

        An answer can get lost on its way, and the repeated request then meets the object that the first one has
        created. So an object with exactly this data counts as created: `data` has to be the caller's own.
        """
        store, key = self._open(path)
        with self._errors(path):
            try:
                obstore.put(store, key, data, mode="create")
            except exceptions.AlreadyExistsError:
                return obstore.get(store, key).bytes().to_bytes() == data
            return True

    # --- what a handler has to offer --------------------------------------------------------------------------------

    def get_type_name(self) -> str:
        return self.settings.service

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """One request for each file, two for each directory; several at once."""
        return [_file_info(entry) for entry in self.infos(paths)]

    def infos(self, paths: Sequence[str]) -> list[Entry]:
        """The same, with ETags."""
        return list(threads.request_pool().map(self._info, paths)) if len(paths) > 1 else [*map(self._info, paths)]

    def _info(self, path: str) -> Entry:
        store, key = self._open(path)
        if key:
            with contextlib.suppress(FileNotFoundError), self._errors(path):
                return _entry(path, obstore.head(store, key))
        with contextlib.suppress(FileNotFoundError), self._errors(path):
            if next(iter(obstore.list(store, key or None, chunk_size=1)), None):
                return Entry(path, "Directory")
        return Entry(path, "NotFound")

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        entries = self.entries(selector.base_dir, recursive=selector.recursive)
        if not entries and not selector.allow_not_found:
            raise FileNotFoundError(2, "No such directory", selector.base_dir)
        return [_file_info(entry) for entry in entries]

    def entries(self, path: str, *, recursive: bool) -> list[Entry]:
        """What is in a directory: a request for every thousand objects."""
        base = path.strip("/")
        store, key = self._open(base)
        with self._errors(base):
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
        """Object stores have no directories: one is there as soon as an object is in it."""

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = True) -> None:  # noqa: ARG002
        store, key = self._open(path)
        if not key:
            raise MosaicError("a whole bucket is not deleted", path=path)
        with self._errors(path):
            for chunk in obstore.list(store, key):
                # The mark of a directory is listed by the name of the directory, which may be that of an object too.
                obstore.delete(store, [meta["path"] for meta in chunk if meta["path"] != key])

    def delete_root_dir_contents(self) -> None:
        raise MosaicError("a whole bucket is not deleted")

    def delete_file(self, path: str) -> None:
        """Delete an object; stores do not say whether there was one."""
        store, key = self._open(path)
        with self._errors(path):
            obstore.delete(store, key)

    def delete_files(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Delete objects of one bucket, a thousand in a request, and return what went wrong."""
        failed: dict[str, OSError] = {}

        def delete(some: Sequence[str]) -> None:
            opened = [self._open(path) for path in some]
            try:
                with self._errors(some[0]):
                    obstore.delete(opened[0][0], [key for _, key in opened])
            except FileNotFoundError:
                pass
            except OSError as error:
                failed.update(dict.fromkeys(some, error))

        parts = [paths[start : start + _DELETED_AT_ONCE] for start in range(0, len(paths), _DELETED_AT_ONCE)]
        list(threads.request_pool().map(delete, parts))
        return failed

    def move(self, src: str, dest: str) -> None:
        """Copy, then delete: two requests, and for a moment the object is in both places."""
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        """Let the store copy. Where it cannot, because the object is too large, it goes through this machine."""
        (store, key), (target, target_key) = self._open(src), self._open(dest)
        if store is target:
            try:
                with self._errors(src):
                    obstore.copy(store, key, target_key)
                return
            except OSError as error:
                if isinstance(error, FileNotFoundError) or self._info(src).size <= _COPIED_AT_ONCE:
                    raise
        reader = self._reader(src)
        self.write(dest, reader, reader.size)

    def copy_new(self, src: str, dest: str) -> bool:
        """Copy an object to a path unless there is one; return whether it was copied.

        A store that cannot do so, or not with an object of this size, is asked first whether there is one.
        """
        (store, key), (_, target_key) = self._open(src), self._open(dest)
        try:
            with self._errors(src):
                try:
                    obstore.copy(store, key, target_key, overwrite=False)
                    return True
                except exceptions.AlreadyExistsError:
                    return False
        except OSError as error:
            is_unable = isinstance(error, io.UnsupportedOperation)
            if isinstance(error, FileNotFoundError) or not (is_unable or self._info(src).size > _COPIED_AT_ONCE):
                raise
        if self._info(dest).is_file:
            return False
        self.copy_file(src, dest)
        return True

    def _reader(self, path: str) -> ObjectReader:
        return ObjectReader(open_object(self, path, path, _FILE_TAIL))

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self._reader(path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(io.BufferedReader(self._reader(path), _STREAM_CHUNK), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:  # noqa: ARG002
        """Completed when it is closed, as pyarrow's streams are; `smalti.io.sinks` knows how to give up."""
        store, key = self._open(path)
        with self._errors(path):
            return pa.PythonFile(ObjectWriter(obstore.open_writer(store, key, buffer_size=PART_SIZE)), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.PythonFile:  # noqa: ARG002
        raise MosaicError("objects cannot be appended to", path=path)


class ObjectReader(io.RawIOBase):
    """An object as a file, for pyarrow's own readers; one request for each read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

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

    def readall(self) -> bytes:
        return self.read()


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
    return Entry(path, "File", meta["size"], _modified(meta), _strong(meta["e_tag"]) or "")


def _modified(meta: ObjectMeta) -> int:
    # By whole seconds and microseconds, because a time as a floating-point number is not exact.
    time = meta["last_modified"]
    return int(time.timestamp()) * 10**9 + time.microsecond * 1000


def _strong(etag: str | None) -> str | None:
    """An ETag, unless it is weak: servers do not compare weak ones, so that insisting on one would always fail."""
    return None if etag is not None and etag.startswith("W/") else etag


def _file_info(entry: Entry) -> FileInfo:
    if not entry.is_file:
        return FileInfo(entry.path, FileType.Directory if entry.is_directory else FileType.NotFound)
    return FileInfo(entry.path, FileType.File, size=entry.size, mtime_ns=entry.modified)


def _directories(paths: Iterable[str], base: str) -> Iterator[str]:
    """The directories below `base` on the way to some objects."""
    for parent in {path.rpartition("/")[0] for path in paths}:
        while len(parent) > len(base):
            yield parent
            parent = parent.rpartition("/")[0]


# --- making a store -------------------------------------------------------------------------------------------------


@functools.cache
def _memory() -> MemoryStore:
    """The objects of ``memory://``, which are those of this process."""
    return MemoryStore()


@functools.lru_cache(maxsize=64)
def _store(settings: StoreSettings, bucket: str, environment: frozenset[tuple[str, str]]) -> ObjectStore:  # noqa: ARG001
    """The store of a bucket, which keeps its connections. It is made again when the `environment` has changed."""
    config: Any = dict(settings.config)
    client: ClientConfig = {"timeout": _TIMEOUT}
    if settings.service in ("http", "https"):
        client["allow_http"] = settings.service == "http"
        return HTTPStore.from_url(f"{settings.service}://{bucket}", client_options=client, retry_config=_RETRY)
    endpoint = config.get("endpoint") or config.get("base_url") or _environment(_ENDPOINTS[settings.service])
    client["allow_http"] = str(endpoint or "").startswith("http://")
    if settings.service == "gs":
        return GCSStore(bucket, config=config, client_options=client, retry_config=_RETRY)
    if settings.service == "abfs":
        return AzureStore(bucket, config=config, client_options=client, retry_config=_RETRY)
    provider = _s3_credentials(config)
    known = getattr(provider, "config", {})
    if not endpoint and not (config.get("region") or known.get("region") or _environment(_S3_REGIONS)):
        with contextlib.suppress(OSError):  # The first request tells better what is wrong with the bucket.
            config["region"] = resolve_s3_region(bucket)
    config["copy_if_not_exists"] = "multipart"  # S3 completes an upload only if there is no object, but copies always.
    return S3Store(bucket, config=config, client_options=client, retry_config=_RETRY, credential_provider=provider)


def _environment(names: Iterable[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _s3_credentials(config: dict[str, Any]) -> Any:
    """Where credentials come from, if obstore does not find them itself.

    obstore knows the environment, web identities, containers and instances. Profiles and roles to assume are boto3's.
    """
    role = config.pop("role_arn", None)
    given = "access_key_id" in config or config.get("skip_signature") or _environment(["AWS_ACCESS_KEY_ID"])
    profile = _environment(["AWS_PROFILE"])
    files = [
        Path(os.environ.get(name, default)).expanduser()
        for name, default in (
            ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
            ("AWS_CONFIG_FILE", "~/.aws/config"),
        )
    ]
    if role is None and (given or not (profile or any(map(Path.exists, files)))):
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider, StsCredentialProvider
    except ImportError:
        if role is None and profile is None:
            return None
        raise MosaicError(
            "this needs boto3: pip install boto3", found=f"the role {role}" if role else f"the profile {profile}"
        ) from None
    keys = {
        name: config.get(key)
        for name, key in (
            ("aws_access_key_id", "access_key_id"),
            ("aws_secret_access_key", "secret_access_key"),
            ("aws_session_token", "session_token"),
        )
    }
    session = boto3.session.Session(**keys, region_name=config.get("region"))
    if role is not None:
        return StsCredentialProvider(session, RoleArn=role, RoleSessionName="smalti")
    return Boto3CredentialProvider(session) if session.get_credentials() is not None else None


# --- errors ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _missing(path: str) -> Iterator[None]:
    """Name the object that is missing, in plain words."""
    try:
        yield
    except FileNotFoundError as error:
        what = "No such bucket" if "NoSuchBucket" in str(error) else "No such object"
        raise FileNotFoundError(2, what, path) from None


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn obstore's errors, which are several lines long, into the errors that Python has for them."""
    try:
        with _missing(path):
            yield
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(13, _reason(error), path) from None
    except (exceptions.NotSupportedError, NotImplementedError) as error:
        raise io.UnsupportedOperation(f"{path}: {_reason(error)}") from None
    except exceptions.InvalidPathError as error:
        raise MosaicError(
            "an object has a name that is no path, and the store cannot be listed past it; rename or delete the object",
            path=path,
            found=re.sub(r"^.*?Path ", "", _reason(error)),
        ) from None
    except exceptions.BaseError as error:
        if "<Code>NoSuchBucket<" in str(error):
            raise FileNotFoundError(2, "No such bucket", path) from None
        raise OSError(5, _reason(error), path) from None


def _reason(error: BaseException) -> str:
    """What the server says, and the line of the error that says when."""
    text = without_secrets(str(error).partition("\n\nDebug source")[0])
    answer = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
    line = " ".join(text.partition("<?xml")[0].split())
    return f"{line} {answer[1]}" if answer else line


# --- forks ----------------------------------------------------------------------------------------------------------

_used = False
_forked = False


def _check_not_forked() -> None:
    """obstore's threads do not exist in a forked child, where every request would wait for ever."""
    global _used
    if _forked:
        raise MosaicError(
            "this process was forked from one that has used object stores, where they cannot be used; "
            'start processes with the method "spawn" or "forkserver"'
        )
    _used = True


def _after_fork() -> None:
    global _forked
    _forked = _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Where bytes go: a file appears under its name only when it is complete, or it does not appear at all.

Local files are written under another name, flushed to disk and renamed. Remote files are spooled on this machine and
sent when they are complete: to object stores in one upload, elsewhere under another name and then renamed. One promise
is out of reach: an upload that fails on an object store that is reached by a file system of pyarrow's stays open and is
paid for, because pyarrow cannot abort it.

Files are opened without Python's buffer, which a forked child would write a second time when it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from smalti.errors import without_secrets
from smalti.io.locations import AnyFileSystem, Location, resolve, sync_directory, temporary_name
from smalti.io.sources import file_name

#: A remote file is held in memory up to this size before it goes to a temporary file.
SPOOL_MEMORY = 16 << 20
COPY_BYTES = 8 << 20
#: Smaller pieces of a local file are gathered up to this size: a call of the system for each would take 5 % longer.
GATHERED_BYTES = 32 << 10
#: Seconds to wait for another process that is replacing the same file, which takes it one rename.
LOCK_PATIENCE = 10.0
#: The attribute in which Linux keeps access control lists, with which the group's bits of the mode mean something else.
_ACCESS_LIST = "system.posix_acl_access"
#: Names of object stores in `type_name`, by pyarrow and by fsspec.
OBJECT_STORES = frozenset({"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory", "mock"})


class Sink:
    """Bytes in order, then `commit` or `abort`. This class writes to a binary file object, `opened` here or not.

    Where `may_retry` is true, a commit that has failed may be called again; otherwise it has aborted.
    """

    may_retry = False

    def __init__(self, file: Any, name: str | None, *, opened: bool = True) -> None:
        self.name = name
        self._file = file
        self._opened = opened

    def write(self, data: Any) -> None:
        _write_all(self._file, data)

    def commit(self) -> None:
        if self._opened:
            self._file.close()
        elif hasattr(self._file, "flush"):
            self._file.flush()

    def abort(self) -> None:
        if self._opened:
            with contextlib.suppress(OSError):
                self._file.close()


def _write_all(file: Any, data: Any) -> None:
    if not isinstance(file, io.RawIOBase):
        file.write(data)
        return
    left = memoryview(data).cast("B")
    while left:  # An unbuffered file may take fewer bytes than it is given.
        written = file.write(left)
        if not written:
            raise OSError(errno.EAGAIN, "the file takes no more bytes", file_name(file))
        left = left[written:]


class LocalSink(Sink):
    """Temporary file, fsync, rename, fsync of the directory. Links are followed, and mode and owner kept."""

    def __init__(self, path: str) -> None:
        self._target = follow_links(path).absolute()  # for a process that goes to another directory meanwhile
        old = old_file(self._target, path)
        self._temporary = self._target.with_name(temporary_name(self._target.name))
        # A file that may replace a private one is private from its first byte; `keep_access` adds rights at the end.
        mode = 0o666 if old is None else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(self._temporary, flags, mode)
        except OSError as error:
            error.filename = path
            raise
        super().__init__(open(descriptor, "wb", buffering=0), path)  # noqa: SIM115, PTH123
        self._owner = os.getpid()
        self._gathered = bytearray()

    def write(self, data: Any) -> None:
        if memoryview(data).nbytes >= GATHERED_BYTES:
            self._flush()
            super().write(data)
        else:
            self._gathered += data
            if len(self._gathered) >= GATHERED_BYTES:
                self._flush()

    def _flush(self) -> None:
        super().write(self._gathered)
        self._gathered = bytearray()

    def commit(self) -> None:
        try:
            self._flush()
            os.fsync(self._file.fileno())
            super().commit()
            with replacing(self._target):
                keep_access(self._temporary, self._target)
                self._temporary.replace(self._target)
        except BaseException:
            self.abort()
            raise
        sync_directory(self._target.parent)

    def abort(self) -> None:
        super().abort()
        if os.getpid() == self._owner:
            self._temporary.unlink(missing_ok=True)


class RemoteSink(Sink):
    """A spool on this machine that is sent on commit, so that no part of a file is visible under its name.

    A commit that fails leaves the file that was there before, and may be tried again.
    """

    may_retry = True

    def __init__(self, location: Location, name: str) -> None:
        super().__init__(io.BytesIO(), name)
        self._location = location

    def write(self, data: Any) -> None:
        super().write(data)
        if isinstance(self._file, io.BytesIO) and self._file.tell() > SPOOL_MEMORY:
            import tempfile  # Loads much, and readers never need it.

            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            _write_all(file, self._file.getvalue())
            self._file = file

    def commit(self) -> None:
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        location = self._location
        if location.stores is not None:
            location.stores.write(location.path, self._file, size)
        elif is_object_store(location.filesystem):
            self._send(location)
        else:
            path = location.path.removesuffix(location.name) + temporary_name(location.name)
            temporary = Location(location.filesystem, path)
            try:
                self._send(temporary)
                self._rename(temporary)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.filesystem.delete_file(temporary.path)
                raise
        super().commit()

    def _send(self, location: Location) -> None:
        if location.fsspec is not None:
            _send_fsspec(self._file, location.fsspec.open(location.path, "wb"))
            return
        # pyarrow completes a stream whenever it is closed, also by an exception. With a single write there is no moment
        # at which some of the file is written and the stream is in good order.
        if isinstance(self._file, io.BytesIO):
            data = pa.py_buffer(self._file.getvalue())
        else:
            with pa.memory_map(f"/dev/fd/{self._file.fileno()}") as mapped:
                data = mapped.read_buffer()  # It holds the mapping, and nothing is read yet.
        with location.filesystem.open_output_stream(location.path, compression=None) as stream:
            stream.write(data)

    def _rename(self, temporary: Location) -> None:
        filesystem, path = self._location.filesystem, self._location.path
        try:
            filesystem.move(temporary.path, path)
        except OSError:  # HDFS does not rename over a file that is there
            if not self._location.is_file():
                raise
            filesystem.delete_file(path)
            filesystem.move(temporary.path, path)


def _send_fsspec(spool: Any, file: Any) -> None:
    import shutil  # Loads much, and readers never need it.

    try:
        shutil.copyfileobj(spool, file, COPY_BYTES)
        file.close()
    except BaseException:
        with contextlib.suppress(Exception):  # The first error is the one to be raised.
            file.discard()
        try:
            file.closed = True  # Or a buffered file would be completed when it is collected.
        except AttributeError:
            file.close()
        raise


def is_object_store(filesystem: Any) -> bool:
    """Return whether a file system is known to show a file only when it is closed, whatever the size of the file."""
    return not OBJECT_STORES.isdisjoint(re.findall(r"\w+", filesystem.type_name))


def open_sink(where: Any, filesystem: AnyFileSystem = None) -> Sink:
    """Open a path, URI or binary file object for writing; see `open_source` for `filesystem`."""
    if isinstance(where, (str, os.PathLike)):
        location = resolve(where, filesystem)
        if isinstance(location, Location):
            return RemoteSink(location, without_secrets(str(where)))
        path = Path(location)
        if path.is_file() or path.is_dir() or not path.exists():
            return LocalSink(location)
        # A pipe, a terminal or another device cannot be renamed over.
        return Sink(open(location, "wb", buffering=0), location)  # noqa: PTH123
    if hasattr(where, "write"):
        return Sink(where, file_name(where), opened=False)
    raise TypeError(f"expected a path or a writable binary file, got {type(where).__name__}")


def write_whole(location: Location, data: bytes) -> None:
    """Write a small file, and make the directories above it; the file appears whole or not at all."""
    if "/" in location.path.strip("/"):
        location.parent.make_directory()
    finish_with(open_sink(location.path, location.filesystem), data)


def finish_with(sink: Sink, data: bytes) -> None:
    """Write all that goes into a sink, and commit it; abort it if that fails."""
    try:
        sink.write(data)
        sink.commit()
    except BaseException:
        sink.abort()
        raise


# --- renaming over a file keeps links, owner and mode, as opening it for writing would


def follow_links(path: str) -> Path:
    """Return the file that `open` would write to: links are followed, also to a missing file; circles are an error."""
    named = Path(path)
    if not named.is_symlink():
        return named
    with contextlib.suppress(FileNotFoundError):
        named.stat()
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[bool]:
    """Lock a local file against replacement by other processes that use this function, until the block ends.

    Yields False if one of them has not finished in time. The file itself is locked, if there is one and the file system
    has locks; whoever gets the lock of a file that was replaced meanwhile asks for that of the new one. A lock ends
    with its process.
    """
    descriptor, is_free = None, True
    end = time.monotonic() + LOCK_PATIENCE
    while descriptor is None:
        try:
            descriptor = _open_to_lock(target)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(os.fstat(descriptor), target.stat())
        except OSError as error:
            is_free = not isinstance(error, BlockingIOError)
            if is_free or time.monotonic() >= end:
                break
            time.sleep(0.005)
            is_current = False
        if not is_current and descriptor is not None:
            os.close(descriptor)
            descriptor = None
    try:
        yield is_free
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # A child that was forked meanwhile has the descriptor, too.
            os.close(descriptor)


def _open_to_lock(target: Path) -> int:
    """Open a file for writing, as NFS wants for a lock; for reading if it is read-only."""
    try:
        return os.open(target, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        return os.open(target, os.O_RDONLY | os.O_CLOEXEC)


def old_file(target: Path, path: str) -> os.stat_result | None:
    """Return the status of the file that will be replaced, if any; errors name the user's `path`."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
    if not os.access(target, os.W_OK):  # Renaming over it would work, but a read-only file is not to be replaced.
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return status


class _Access(NamedTuple):
    """Owner, group, mode and access control list of a file."""

    owner: int
    group: int
    mode: int
    #: The access control list, with which the group's bits of the mode mean something else; None if there is none.
    list_: bytes | None

    @classmethod
    def of(cls, path: Path) -> _Access | None:
        """The access rights of a file; None if there is no file."""
        try:
            status, list_ = path.stat(), None
        except FileNotFoundError:
            return None
        if hasattr(os, "getxattr"):
            with contextlib.suppress(OSError):  # There is no list, or the file system has none.
                list_ = os.getxattr(path, _ACCESS_LIST)
        return cls(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode) & 0o777, list_)


def keep_access(new: Path, *replaced: Path) -> None:
    """Give a new file the owner and the mode of the file that it replaces, as far as this user may.

    A file that replaces several gets the rights that all of them grant, and the owner if all have the same one. If the
    group cannot be kept, the new group gets no more rights than everybody.
    """
    olds = [old for old in map(_Access.of, replaced) if old is not None]
    if not olds:
        return
    owner, now = olds[0].owner, new.stat()
    mode = reduce(and_, (old.mode for old in olds))
    group_kept = len({(old.group, old.list_) for old in olds}) == 1
    group = olds[0].group if group_kept else now.st_gid
    if any(old.owner != owner for old in olds):
        owner = now.st_uid
    if (now.st_uid, now.st_gid) != (owner, group):
        try:
            os.chown(new, owner, group)
        except OSError:
            try:
                os.chown(new, -1, group)
            except OSError:
                group_kept = group_kept and now.st_gid == group
    new.chmod(mode if group_kept else mode & 0o707 | (mode & 0o007) << 3)
    if group_kept and olds[0].list_ is not None:
        with contextlib.suppress(OSError):
            os.setxattr(new, _ACCESS_LIST, olds[0].list_)


def restrict_directory(directory: Path, files: Iterable[Path]) -> None:
    """Make a directory that only users who may read all `files` can list; none if everybody may read them."""
    olds = [old for old in map(_Access.of, files) if old is not None]
    if all(old.mode & 0o044 == 0o044 for old in olds):
        return
    directory.mkdir(parents=True, exist_ok=True)
    status = directory.stat()
    mode = stat.S_IMODE(status.st_mode)
    for old in olds:
        if not old.mode & 0o004:
            mode &= ~0o007
            if not old.mode & 0o040 or old.list_ is not None or old.group != status.st_gid:
                mode &= ~0o070
        elif not old.mode & 0o040:
            mode &= ~0o070
    directory.chmod(mode)

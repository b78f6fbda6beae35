"""A directory that only this user can change, for what will be run or loaded as code."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path


def private_directory() -> Path:
    """The user's cache directory of smalti, made if it is not there.

    It is `smalti` below ``XDG_CACHE_HOME`` or below ``~/.cache``, and it is used only if nobody else can change it:
    see `is_private`. Otherwise the directory is a new one, which is removed when the process ends.
    """
    try:
        cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(cache_home).absolute() / "smalti"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(directory) and os.access(directory, os.W_OK):
            return directory
    except (OSError, RuntimeError):  # There is no home, or nothing can be made in it.
        pass
    return _temporary_directory()


def is_private(directory: Path) -> bool:
    """Whether only this user (and root) can change what is in a directory, and which directory has its name.

    The directory itself must be this user's, no link, and writable for nobody else. Those above it must belong to
    this user or to root; where others may write in one of them it must be sticky, as /tmp is, so that they cannot
    rename what is not theirs.
    """
    own = directory.lstat()
    if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.getuid() or own.st_mode & 0o022:
        return False
    for above in directory.resolve().parents:
        info = above.stat()
        if info.st_uid not in (0, os.getuid()) or (info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX):
            return False
    return True


@cache
def _temporary_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="smalti-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory

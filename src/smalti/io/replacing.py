"""What a local file keeps when another one takes its name: the links that lead to it, its owner and its mode.

A file is written beside its place and renamed, so that it is complete or not there. Opening it for writing, which is
what users of files know, would have followed a link and left owner and mode as they were; so this is done here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

#: Where Linux keeps access control lists; the bits of the group in the mode have another meaning beside them.
_ACCESS_LIST = "system.posix_acl_access"


def follow_links(path: str) -> Path:
    """The file that `open` would write to: a link is followed, also if it leads to nothing yet.

    Raises
    ------
    OSError
        If links lead in a circle.
    """
    named = Path(path)
    if not named.is_symlink():
        return named
    with contextlib.suppress(FileNotFoundError):  # A link to nothing yet.
        named.stat()
    return Path(os.path.realpath(path))


def old_file(target: Path, path: str) -> os.stat_result | None:
    """The file that will be replaced, if there is one and it may be; `path` is what the user has called it."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
    if not os.access(target, os.W_OK):  # It could be renamed over, but whoever took the right to write away meant it.
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return status


def keep_access(new: Path, target: Path) -> None:
    """Give a new file the owner and the mode of the file whose name it will take, as far as this user may.

    If the group cannot be kept, its members get no more rights than everybody: another group has them now.
    """
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    mode, group_kept = stat.S_IMODE(old.st_mode) & 0o777, True
    now = new.stat()
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(new, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.chown(new, -1, old.st_gid)
            except OSError:
                group_kept = now.st_gid == old.st_gid
    new.chmod(mode if group_kept else mode & 0o707 | (mode & 0o007) << 3)
    if group_kept and hasattr(os, "getxattr"):
        with contextlib.suppress(OSError):  # There is no list, or the file system knows none.
            os.setxattr(new, _ACCESS_LIST, os.getxattr(target, _ACCESS_LIST))

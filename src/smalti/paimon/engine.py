"""smalti inside pypaimon: its reader and writer of Mosaic files import a module `mosaic`, which can be ours.

Modules are replaced in this process only, and put back; no distribution of ours claims the name.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pypaimon.read.reader import data_file_batch_reader
from pypaimon.schema.data_types import PyarrowFieldParser

from smalti._compat.paimon import KeptFields
from smalti.paimon import mosaic

_NAME = "mosaic"
_lock = threading.Lock()
#: How many uses of `engine` are under way, and whether `install` was called.
_uses = 0
_is_installed = False
#: What had the name before; None if nothing had.
_replaced: ModuleType | None = None


def install() -> None:
    """Make pypaimon read and write Mosaic files with smalti, in this process, until `uninstall`.

    paimon-mosaic need not be installed. If it is, ``import mosaic`` gives smalti's module until `uninstall`; modules
    that were imported before are not changed. Calling it twice is harmless.

    Examples
    --------
    >>> import smalti.paimon
    >>> smalti.paimon.install()
    >>> smalti.paimon.uninstall()
    """
    global _is_installed
    with _lock:
        _is_installed = True
        _put()


def uninstall() -> None:
    """Undo `install`."""
    global _is_installed
    with _lock:
        _is_installed = False
        _take_back()


@contextmanager
def engine() -> Iterator[None]:
    """pypaimon uses smalti as long as this is open, in all threads."""
    global _uses
    with _lock:
        _uses += 1
        _put()
    try:
        yield
    finally:
        with _lock:
            _uses -= 1
            _take_back()


def _put() -> None:
    global _replaced
    if sys.modules.get(_NAME) is not mosaic:
        _replaced = sys.modules.get(_NAME)
        sys.modules[_NAME] = mosaic
    if hasattr(data_file_batch_reader, "PyarrowFieldParser"):
        data_file_batch_reader.PyarrowFieldParser = KeptFields


def _take_back() -> None:
    if _is_installed or _uses or sys.modules.get(_NAME) is not mosaic:
        return
    KeptFields.known = {}
    mosaic.forget_schemas()
    data_file_batch_reader.PyarrowFieldParser = PyarrowFieldParser
    if _replaced is None:
        del sys.modules[_NAME]
    else:
        sys.modules[_NAME] = _replaced

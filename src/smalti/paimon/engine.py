"""smalti inside pypaimon: its reader and writer of Mosaic files import a module `mosaic`, which can be ours.

Modules are replaced in this process only, and put back; no distribution of ours claims the name. pypaimon 2.1 also
builds the Arrow fields of all columns of the table anew for each file, which takes longer than reading ten columns of
5,000 from it, so these are kept from one file to the next.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa
from pypaimon.read.reader import data_file_batch_reader
from pypaimon.schema.data_types import PyarrowFieldParser

from smalti.paimon import mosaic

_NAME = "mosaic"
_lock = threading.Lock()
#: How many uses of `engine` are under way, and whether `install` was called.
_uses = 0
_is_installed = False
#: What had the name before; None if nothing had.
_replaced: ModuleType | None = None


class _KeptFields(PyarrowFieldParser):  # type: ignore[misc]
    """The parser of fields, which remembers what each field of the last table has become.

    Fields are told apart by identity. Those that are remembered are held, so that no others can take their place.
    """

    _known: dict[int, tuple[Any, pa.Field]] = {}  # noqa: RUF012 (one for the process, emptied by `_take_back`)

    @classmethod
    def from_paimon_schema(cls, fields: Any) -> list[pa.Field]:
        """The Arrow fields, as a list, over which the one caller walks: walking over a schema makes new ones."""
        known = cls._known
        if any(id(field) not in known for field in fields):
            known = cls._known = {id(field): (field, PyarrowFieldParser.from_paimon_field(field)) for field in fields}
        return [known[id(field)][1] for field in fields]


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
        data_file_batch_reader.PyarrowFieldParser = _KeptFields


def _take_back() -> None:
    if _is_installed or _uses or sys.modules.get(_NAME) is not mosaic:
        return
    _KeptFields._known = {}
    mosaic.KNOWN.forget()
    data_file_batch_reader.PyarrowFieldParser = PyarrowFieldParser
    if _replaced is None:
        del sys.modules[_NAME]
    else:
        sys.modules[_NAME] = _replaced

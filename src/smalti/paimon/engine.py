"""smalti inside pypaimon: pypaimon's reader and writer of Mosaic files import a module `mosaic`, which can be ours.

Modules are replaced in this process only, and put back. No distribution of smalti claims the name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from pypaimon.read import split_read
from pypaimon.read.reader import data_file_batch_reader
from pypaimon.read.reader.row_range_filter_record_reader import RowIdFilterRecordBatchReader
from pypaimon.schema.data_types import PyarrowFieldParser

from smalti._compat.paimon import KeptFields
from smalti.paimon import mosaic
from smalti.paimon.row_ranges import RowRangeReader
from smalti.threads import ForkedLock

_NAME = "mosaic"
_lock = ForkedLock()
#: How many uses of `engine` are under way. What `install` began is one of them.
_uses = 0
_installed = ExitStack()


def install() -> None:
    """Make pypaimon read and write Mosaic files with smalti, in this process, until `uninstall`.

    paimon-mosaic need not be installed. If it is, ``import mosaic`` gives smalti's module until `uninstall`: what
    pypaimon needs is smalti's, and every other name is still paimon-mosaic's. Modules that were imported before are not
    changed. Calling it twice is harmless.

    Examples
    --------
    >>> import smalti.paimon
    >>> smalti.paimon.install()
    >>> smalti.paimon.uninstall()
    """
    earlier = _installed.pop_all()
    _installed.enter_context(engine())
    earlier.close()


def uninstall() -> None:
    """Undo `install`."""
    _installed.close()


@contextmanager
def engine() -> Iterator[None]:
    """pypaimon uses smalti as long as this is open, in all threads."""
    global _uses
    with _lock.lock:
        _uses += 1
        if sys.modules.get(_NAME) is not mosaic:
            with suppress(ImportError, OSError):  # It may be there without the library that it loads.
                mosaic.replaced = importlib.import_module(_NAME)
            sys.modules[_NAME] = mosaic
            data_file_batch_reader.PyarrowFieldParser = KeptFields
            split_read.RowIdFilterRecordBatchReader = RowRangeReader
    try:
        yield
    finally:
        with _lock.lock:
            _uses -= 1
            if _uses == 0 and sys.modules.get(_NAME) is mosaic:
                _put_back()


def _put_back() -> None:
    KeptFields.known = {}
    mosaic.names_of.cache_clear()
    data_file_batch_reader.PyarrowFieldParser = PyarrowFieldParser
    split_read.RowIdFilterRecordBatchReader = RowIdFilterRecordBatchReader
    if mosaic.replaced is None:
        del sys.modules[_NAME]
    else:
        sys.modules[_NAME] = mosaic.replaced

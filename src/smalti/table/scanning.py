"""Files of a table read in order, with files opened and row groups read ahead within one budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.file.reader import MosaicFile
from smalti.mosaic.scan import Decoded
from smalti.progress import Listener, Meter
from smalti.readahead import Budget, Unit, in_order, started
from smalti.table.listing import FoundFile

if TYPE_CHECKING:
    from smalti.predicate.python import AnyFilter


@dataclass(frozen=True)
class FileRead:
    """What is read of one file: columns, the filter that it can apply by itself, and what becomes of its batches.

    `deleted` has the numbers of rows that are left out, in ascending order, counted from the beginning of the file.
    """

    columns: Sequence[str] | None
    filters: AnyFilter = None
    finish: Callable[[pa.RecordBatch, Allowance], pa.RecordBatch] | None = None
    deleted: Sequence[int] | None = None


class _Delivery(NamedTuple):
    """Batches of a row group; and the file itself if this was its last row group."""

    file: FoundFile
    batches: Iterable[pa.RecordBatch]
    ended: MosaicFile | None


def read_files(
    files: Sequence[FoundFile],
    open_file: Callable[[FoundFile], MosaicFile],
    plan_file: Callable[[FoundFile, MosaicFile], FileRead],
    budget: Budget,
    progress: Listener | None = None,
    *,
    kept: Allowance | None = None,
    batch_size: int | None = None,
) -> Iterator[tuple[FoundFile, pa.RecordBatch]]:
    """The batches of files, in order, each with its file.

    Parameters
    ----------
    files : sequence of FoundFile
    open_file : callable
        Called once for each file, ahead and in several threads.
    plan_file : callable
        Called once for each file, in order, in the thread of the caller.
    budget : Budget
        For opening as for reading: as many files may be opened ahead as row groups may be read ahead.
    progress : callable, optional
    kept : Allowance, optional
        What all batches together may take, for a caller who keeps them.
    batch_size : int, optional
        Rows that the caller uses at a time.
    """
    meter = Meter("read", len(files), sum(file.size for file in files), progress)
    unclosed: set[MosaicFile] = set()
    openings = started((partial(open_file, file) for file in files), budget.readahead)
    units = _units(files, openings, plan_file, unclosed, kept, batch_size, budget)
    try:
        with closing(openings), closing(units), closing(in_order(units, budget)) as deliveries:
            for file, batches, ended in deliveries:
                num_rows = 0
                for batch in batches:
                    num_rows += batch.num_rows
                    if batch.num_rows:
                        yield file, batch
                    del batch
                meter.add(num_rows, file.size if ended else 0, done=ended is not None)
                del batches
                if ended is not None:
                    ended.close()
                    unclosed.discard(ended)
    finally:
        for opened in unclosed:
            opened.close()


def _units(
    files: Sequence[FoundFile],
    openings: Iterator[Future[MosaicFile]],
    plan_file: Callable[[FoundFile, MosaicFile], FileRead],
    unclosed: set[MosaicFile],
    kept: Allowance | None,
    batch_size: int | None,
    budget: Budget,
) -> Generator[Unit[_Delivery] | Future[MosaicFile], None, None]:
    """The row groups of all files. A file that is still being opened is waited for by the one who asks for units."""
    ahead = Allowance(budget.memory_limit) if budget.readahead else None
    for file, opening in zip(files, openings, strict=True):
        while not opening.done():
            yield opening
        try:
            opened = opening.result()
            unclosed.add(opened)
            read = plan_file(file, opened)
            units = list(opened.units(read.columns, read.filters, kept, batch_size, ahead, read.deleted))
        except Exception as error:
            yield Unit(partial(_fail, error))  # raised when its turn comes, after the rows of the files before
            return
        for unit in units[:-1]:
            yield Unit(partial(_deliver, file, unit, read, None, budget), unit.num_bytes)
        last: Unit[Iterable[pa.RecordBatch]] = units[-1] if units else Unit(tuple)
        yield Unit(partial(_deliver, file, last, read, opened, budget), last.num_bytes)


def _deliver(
    file: FoundFile, unit: Unit[Iterable[pa.RecordBatch]], read: FileRead, ended: MosaicFile | None, budget: Budget
) -> _Delivery:
    """What is decoded already is finished here, in a thread of its own; what is not, when it is asked for."""
    batches, finish = unit.run(), read.finish
    if finish is not None and isinstance(batches, Decoded):
        batches = Decoded((finish(batch, batches.account) for batch in batches), batches.account)
    elif finish is not None:
        batches = (finish(batch, Allowance(budget.read_limit)) for batch in batches)
    return _Delivery(file, batches, ended)


def _fail(error: Exception) -> NoReturn:
    raise error

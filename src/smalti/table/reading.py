"""From the files of a plan to batches of one schema, in order; files and row groups are read ahead within a budget."""

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
from smalti.logical.adapt import Adapter, adapt_batch
from smalti.mosaic.scan import Decoded
from smalti.progress import Listener, Meter
from smalti.readahead import Budget, Unit, in_order, started
from smalti.table.listing import FoundFile
from smalti.table.partitions import constants_of
from smalti.table.planning import ReadPlan, has_types, leaf_of
from smalti.table.snapshot import OpenFiles, Snapshot, nearest

if TYPE_CHECKING:
    from smalti.predicate import Filter
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


def read_plan(
    table: Snapshot,
    plan: ReadPlan,
    opened: OpenFiles,
    *,
    progress: Listener | None = None,
    kept: Allowance | None = None,
    batch_size: int | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a plan. Files that were opened for it are read without being opened again."""

    def open_file(file: FoundFile) -> MosaicFile:
        return opened.take(file.path) or table.open(file)

    def plan_file(file: FoundFile, file_: MosaicFile) -> FileRead:
        constants = constants_of(file.partition if len(table.partitions) else {})
        filter_ = plan.filter_
        if filter_ is None or _is_pushable(file_, filter_, plan.needed):
            columns = nearest(file_.columns, plan.asked)
            adapter = Adapter(plan.output, file_.schema_of(columns).names, constants)
            return FileRead(columns, filter_, adapter.adapt)
        file_.columns.refuse_ambiguous(filter_.nested)
        columns = nearest(file_.columns, [*plan.asked, *filter_.columns])
        adapter = Adapter(plan.needed, file_.schema_of(columns).names, constants)
        return FileRead(columns, None, lambda batch, held: filtered(adapter.adapt(batch, held), filter_, plan.output))

    reading = read_files(plan.files, open_file, plan_file, table.budget, progress, kept=kept, batch_size=batch_size)
    for _, batch in reading:
        yield batch
        del batch


def _is_pushable(opened: MosaicFile, filter_: Filter, needed: pa.Schema) -> bool:
    """Whether a file can filter by itself: it has all columns of the filter, in the types of the read."""
    names = list(filter_.columns)
    return nearest(opened.columns, names) == names and has_types(opened.schema_of(names), names, needed)


def filtered(batch: pa.RecordBatch, filter_: Filter, output: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch that match a filter that fits it, with the columns of `output`.

    A filter names fields of structs by their paths.
    """
    from smalti.logical.arrays import as_compared, filter_rows
    from smalti.predicate import match_mask

    names = list(filter_.columns)
    compared = [as_compared(leaf_of(batch, name)) for name in names]
    by_itself = pa.RecordBatch.from_arrays(compared, names=names) if names else batch
    return adapt_batch(filter_rows(batch, match_mask(by_itself, filter_)), output)

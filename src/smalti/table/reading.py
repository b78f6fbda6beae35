"""From the files of a plan to batches of one schema, in order; files and row groups are read ahead within a budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.file.reader import MosaicFile
from smalti.logical.adapt import Adapter, ConstantOf, adapt_batch
from smalti.logical.arrays import as_compared
from smalti.logical.mapping import ColumnMapping
from smalti.logical.rows import filter_rows, take_batch
from smalti.memory import allocation_errors
from smalti.mosaic.rows import RowIndex, Rows, as_ascending, last_row, row_numbers, rows_within
from smalti.mosaic.scan import Decoded
from smalti.progress import Listener, Meter
from smalti.readahead import Budget, Unit, in_order, started
from smalti.table.columns import nearest
from smalti.table.planning import ReadPlan, has_types, leaf_of
from smalti.table.snapshot import OpenFiles, Snapshot
from smalti.table.splits import Piece
from smalti.tasks import Task

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter


#: Finds columns of a table in one file. It is given names in the table without repeats, and returns the columns of the
#: file that are read for them, and the name of each of these in the table.
FindColumns: TypeAlias = Callable[[Sequence[str]], tuple[list[str], list[str]]]


@dataclass(frozen=True)
class FileRead:
    """What is read of one file."""

    #: By default all.
    columns: Sequence[str] | None
    #: The filter that the file can apply by itself.
    filters: AnyFilter = None
    #: What becomes of its batches. New arrays are taken from the allowance.
    finish: Callable[[pa.RecordBatch, Allowance], pa.RecordBatch] | None = None
    #: The numbers of rows that are left out, in ascending order, counted from the beginning of the file.
    deleted: Sequence[int] | None = None
    #: By default those of the piece.
    row_groups: Sequence[int] | None = None
    #: The column of row numbers that batches begin with.
    row_index: RowIndex | None = None


#: A piece, batches of one of its row groups, which may raise an error, and the file if this was the last row group.
_Delivery: TypeAlias = tuple[Piece, Iterable[pa.RecordBatch], MosaicFile | None]


def read_pieces(
    pieces: Sequence[Piece],
    open_piece: Callable[[Piece], MosaicFile],
    plan_piece: Callable[[Piece, MosaicFile], FileRead],
    budget: Budget,
    progress: Listener | None = None,
    *,
    kept: Allowance | None = None,
    held: Allowance | None = None,
    batch_size: int | None = None,
    on_error: Callable[[Piece, Exception], None] | None = None,
) -> Generator[tuple[Piece, pa.RecordBatch], None, None]:
    """The batches of pieces, in order, each with its piece.

    `open_piece` is called once for each piece, ahead and in several threads, and `plan_piece` once for each, in order,
    in the thread of the caller. `on_error` is called when a piece cannot be read, in its turn; if it returns, the rest
    of the piece is left out. By the `budget` as many files are opened ahead as row groups are read ahead. `kept` is
    what all batches together may take, for a caller who keeps them; one that keeps some counts these in `held`, as
    decoding does. `batch_size` is how many rows are used at a time.
    """
    held = Allowance(budget.read_limit) if held is None else held
    meter = Meter("read", len(pieces), sum(piece.num_bytes for piece in pieces), progress)
    unclosed: set[MosaicFile] = set()

    def open_ahead(piece: Piece) -> MosaicFile:
        opened = open_piece(piece)
        unclosed.add(opened)
        return opened

    openings = started((partial(open_ahead, piece) for piece in pieces), budget.readahead)
    units = _units(pieces, openings, plan_piece, kept, held, batch_size, budget)
    failed: Piece | None = None
    try:
        deliveries = in_order(units, budget)
        with allocation_errors(), closing(openings), closing(units), closing(deliveries):
            for piece, batches, ended in deliveries:
                num_rows = 0
                try:
                    for batch in batches if piece is not failed else ():
                        num_rows += batch.num_rows
                        if batch.num_rows:
                            yield piece, batch
                        del batch
                except Exception as error:
                    if on_error is None:
                        raise
                    on_error(piece, error)
                    failed = piece
                meter.add(num_rows, piece.num_bytes if ended else 0, done=ended is not None)
                del batches
                if ended is not None:
                    ended.close()
                    unclosed.discard(ended)
    finally:
        for opened in unclosed:
            opened.close()


def _units(
    pieces: Sequence[Piece],
    openings: Iterator[Task[MosaicFile]],
    plan_piece: Callable[[Piece, MosaicFile], FileRead],
    kept: Allowance | None,
    held: Allowance,
    batch_size: int | None,
    budget: Budget,
) -> Generator[Unit[_Delivery] | Task[MosaicFile], None, None]:
    """The row groups of all pieces. For a file that is still being opened its task comes first, to be waited for."""
    ahead = Allowance(budget.memory_limit) if budget.readahead else None
    for piece, opening in zip(pieces, openings, strict=True):
        while not opening.is_done:
            yield opening
        opened = None
        try:
            opened = opening.result()
            read = plan_piece(piece, opened)
            groups = piece.row_groups if read.row_groups is None else read.row_groups
            numbered = piece.rows, read.row_index
            asked = read.columns, read.filters, kept, batch_size, ahead, read.deleted, groups, *numbered, held
            units = list(opened.units(*asked)) or [Unit(tuple)]
        except Exception as error:
            yield Unit(partial(_fail, piece, opened, error))
            continue
        for unit in units:
            ended = opened if unit is units[-1] else None
            yield Unit(partial(_deliver, piece, unit, read, ended, held), unit.num_bytes)


def _fail(piece: Piece, ended: MosaicFile | None, error: Exception) -> _Delivery:
    """An error that is raised when its turn comes, after the rows of the pieces before."""

    def batches() -> Iterator[pa.RecordBatch]:
        raise error
        yield

    return piece, batches(), ended


def _deliver(
    piece: Piece, unit: Unit[Iterable[pa.RecordBatch]], read: FileRead, ended: MosaicFile | None, held: Allowance
) -> _Delivery:
    """Finish batches that are decoded already here, in a thread of the pool; others when the caller asks for them."""
    try:
        batches, finish = unit.run(), read.finish
        if finish is not None and isinstance(batches, Decoded):
            batches = Decoded((finish(batch, batches.account) for batch in batches), batches.account)
    except Exception as error:
        return _fail(piece, ended, error)
    if finish is not None and not isinstance(batches, Decoded):
        batches = (finish(batch, held.part()) for batch in batches)
    return piece, batches, ended


def read_plan(
    table: Snapshot,
    plan: ReadPlan,
    open_files: OpenFiles,
    *,
    progress: Listener | None = None,
    kept: Allowance | None = None,
    held: Allowance | None = None,
    batch_size: int | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a plan. Files of `open_files` are not opened again. See `read_pieces`."""

    def open_piece(piece: Piece) -> MosaicFile:
        return open_files.take(piece.file.path) or table.open(piece.file)

    choose = cache(partial(choose_columns, plan))  # Most files of a table have the same columns.

    def plan_piece(piece: Piece, opened: MosaicFile) -> FileRead:
        return plan_file(plan, choose(opened.columns), table.constants_of(piece.file), first_row=piece.first_row)

    pieces = [Piece.whole(file) for file in plan.files] if plan.pieces is None else plan.pieces
    budget = table.budget_of(len(plan.needed))
    options: dict[str, Any] = {"kept": kept, "held": held, "batch_size": batch_size}
    reading = read_pieces(pieces, open_piece, plan_piece, budget, progress, **options)
    with closing(reading):
        for _, batch in reading:
            yield batch
            del batch


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a file that a plan reads."""

    columns: Sequence[str]
    #: Their names in the table, after that of the row numbers if there are some.
    known: Sequence[str]
    #: Whether the file can apply the filter: it has all columns of the filter, in the types of the read.
    filters_itself: bool


def choose_columns(plan: ReadPlan, stored: ColumnMapping, find: FindColumns | None = None) -> ChosenColumns:
    """The columns that are read of files which have the columns `stored`.

    By default the columns of the table are found by their names.
    """
    find, filter_, index = find or partial(_by_name, stored), plan.filter_, plan.row_index
    first = [] if index is None else [index]
    asked = [name for name in plan.asked if name != index]
    names = [] if filter_ is None else [name for name in filter_.columns if name != index]
    if filter_ is None or (find(names)[0] == names and has_types(stored.project(names).schema, names, plan.needed)):
        columns, known = find(asked)
        return ChosenColumns(columns, [*first, *known], filters_itself=True)
    stored.refuse_ambiguous(filter_.nested)
    columns, known = find(list(dict.fromkeys([*asked, *names])))
    return ChosenColumns(columns, [*first, *known], filters_itself=False)


def plan_file(
    plan: ReadPlan,
    chosen: ChosenColumns,
    constant_of: ConstantOf,
    deleted: Sequence[int] | None = None,
    first_row: int = 0,
) -> FileRead:
    """What is read of one file.

    `constant_of` returns the value that a column has in all rows of the file, such as a partition value; None if it has
    none. `first_row` is the number of the first row of the file in the table, for the column of row numbers.
    """
    filter_, numbers = plan.filter_, None if plan.row_index is None else RowIndex(plan.row_index, first_row)
    if filter_ is None or chosen.filters_itself:
        finish = Adapter(plan.output, chosen.known, constant_of).adapt
        return FileRead(chosen.columns, filter_, finish, deleted, row_index=numbers)
    adapter = Adapter(plan.needed, chosen.known, constant_of)

    def finish_filtered(batch: pa.RecordBatch, held: Allowance) -> pa.RecordBatch:
        return filtered(adapter.adapt(batch, held), filter_, plan.output)

    return FileRead(chosen.columns, None, finish_filtered, deleted, row_index=numbers)


def _by_name(stored: ColumnMapping, names: Sequence[str]) -> tuple[list[str], list[str]]:
    columns = nearest(stored, names)
    return columns, stored.project(columns).schema.names


def filtered(batch: pa.RecordBatch, filter_: Filter, output: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch that match a filter with values in the types of its columns, with the columns of `output`.

    A filter names fields of structs by their paths.
    """
    return adapt_batch(filter_rows(batch, match_rows(batch, filter_)), output)


def match_rows(batch: pa.RecordBatch, filter_: Filter) -> pa.BooleanArray:
    """Whether each row of a batch matches a filter as in `filtered`; null means no, like false."""
    from smalti.predicate import match_mask

    names = list(filter_.columns)
    compared = [as_compared(leaf_of(batch, name)) for name in names]
    return match_mask(pa.RecordBatch.from_arrays(compared, names=names) if names else batch, filter_)


def numbered(
    batches: Iterable[pa.RecordBatch],
    output: pa.Schema,
    *,
    filter_: Filter | None = None,
    row_index: RowIndex | None = None,
    rows: Rows | None = None,
) -> Iterator[pa.RecordBatch]:
    """Number the rows of batches, and keep those that are wanted and match.

    It is for readers that cannot start at a row, such as merged rows of Paimon tables and files of other formats: they
    read their rows from the first one on.

    `batches` have all rows, with the columns of the output and of the filter; batches after the last wanted row are
    not read. `output` has the column of the row index, if there is one. `filter_` has values in the types of the
    columns, and may ask for the row index. `rows` are counted from the first row of the batches.
    """
    wanted, start = None if rows is None else as_ascending(rows), 0
    end = None if wanted is None else last_row(wanted) + 1
    for batch in batches:
        if end is not None and start >= end:
            return
        span = range(start, start + batch.num_rows)
        start = span.stop
        if row_index is not None:
            numbers = row_numbers(row_index.start + span.start, len(span))
            schema = row_index.add_to(batch.schema)
            batch = pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=schema)
        if isinstance(wanted, range):
            first = max(wanted.start, span.start)
            batch = batch.slice(first - span.start, max(0, min(wanted.stop, span.stop) - first))
        elif wanted is not None:
            batch = take_batch(batch, rows_within(wanted, span))
        if batch.num_rows:
            found = adapt_batch(batch, output) if filter_ is None else filtered(batch, filter_, output)
            if found.num_rows:
                yield found

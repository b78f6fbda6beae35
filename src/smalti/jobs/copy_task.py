"""The task of `convert` and `compact`: read pieces, write files, return what was written. The same on every engine."""

from __future__ import annotations

import contextlib
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa
from pyarrow.fs import FileSystem

from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.file.rewriting import rewrite_file
from smalti.io.locations import Location
from smalti.jobs.formats.columnar import MosaicFileReader
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.request import Reader, ReadRequest, SchemaDrift, content_errors
from smalti.jobs.formats.selecting import open_reader
from smalti.jobs.formats.text import scan_types
from smalti.jobs.formats.writers import FileWriter, with_statistics
from smalti.jobs.planning import Output, Split, copied_share, plan_row_groups
from smalti.jobs.rewrite_task import RowGroupCopy, StoredGroup, stored_groups
from smalti.jobs.sorting import check_sort_keys, sorted_batches
from smalti.jobs.staging import Staging
from smalti.jobs.summary import Skipped, SplitResult, StagedFile
from smalti.jobs.target import Target
from smalti.logical.adapt import adapt_batch
from smalti.logical.widen import unify_schemas
from smalti.options import WriterOptions
from smalti.progress import Report
from smalti.table.listing import kept_location, location_of
from smalti.table.splits import Piece
from smalti.table.staging import most_open_files
from smalti.threads import cpu_count


@dataclass(frozen=True)
class CopySettings:
    """What the tasks of one job have in common. It is pickled with them, so it holds nothing of the session.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where the sources are.
    roll_bytes : int, optional
        A new file of an output begins when one has about this many bytes.
    sort_by : tuple of (str, str)
        Column and order of each sort key.
    keeps_statistics : bool
        Whether columns that have statistics in the sources keep them, and the sort keys get some. In tables of few
        columns all have them by default.
    skip_errors : bool
        Whether a piece that cannot be read is left out, and not a failure of the task.
    copies, merges : bool
        Whether row groups of Mosaic files may be copied to Mosaic files as they are, because nobody has asked for
        another layout; and whether small ones become one with their neighbours.
    """

    filesystem: FileSystem
    staging: Staging
    target: Target
    options: WriterOptions
    request: ReadRequest
    roll_bytes: int | None = None
    sort_by: tuple[tuple[str, str], ...] = ()
    keeps_statistics: bool = False
    skip_errors: bool = False
    copies: bool = False
    merges: bool = False

    @property
    def may_copy(self) -> bool:
        """Whether row groups may be copied; what is in Mosaic pieces decides then."""
        chooses = self.request.where is not None or self.request.salvage
        return self.copies and not chooses and not self.sort_by and self.target.format is FORMATS["mosaic"]


def copy_split(settings: CopySettings, split: Split, report: Report) -> SplitResult | MosaicError:
    """Write the files of a split to a staging directory and mark the split as done; an error about data is returned."""
    directory = settings.staging.attempt_directory(split.index)
    files: list[StagedFile] = []
    skipped: list[Skipped] = []
    lost: dict[Skipped, None] = {}
    for number, output in enumerate(split.outputs):
        try:
            files += _write_output(settings, output, f"{directory}/{number}", report, skipped, lost)
        except MosaicError as error:
            return error
    result = SplitResult(tuple(files), tuple(skipped), lost=tuple(lost))
    settings.staging.mark_done(split.index, result)
    return result


def _write_output(
    settings: CopySettings,
    output: Output,
    directory: str,
    report: Report,
    skipped: list[Skipped],
    lost: dict[Skipped, None],
) -> list[StagedFile]:
    """Write the files of one output.

    If a piece cannot be read, and errors may be skipped, the piece goes to `skipped` and the others are written anew.
    """
    scanned: set[Piece] = set()
    while output.pieces:
        writer = _OutputWriter(settings, output, directory)
        try:
            with contextlib.closing(_OutputReader(settings, output.pieces, lost)) as reader:
                copy = reader.row_groups()
                if copy is None:
                    writer.write_all(reader, report)
                else:
                    writer.copy_all(copy, reader, report)
            return writer.files()
        except _PieceError as error:
            failure = error.cause
            if isinstance(failure, SchemaDrift):
                try:
                    settings = _with_all_types(settings, error.piece, failure, scanned)
                    continue
                except MosaicError as found:
                    failure = found
            if not settings.skip_errors:
                raise failure from None
            failure.place.pop("path", None)  # The summary has the path beside the reason.
            skipped.append(Skipped(error.piece.file.path, str(failure)))
            output = replace(output, pieces=tuple(piece for piece in output.pieces if piece != error.piece))
        finally:
            writer.abort()
    return []


def _with_all_types(settings: CopySettings, piece: Piece, drift: SchemaDrift, scanned: set[Piece]) -> CopySettings:
    """The settings with types that hold all of a text file. Each file is scanned only once."""
    if piece in scanned:
        raise CorruptFileError(f"values fit no type: {drift}", path=piece.file.path)
    scanned.add(piece)
    location = location_of(piece.file, settings.filesystem)
    types = scan_types(location, FORMATS[piece.format], settings.request)
    return replace(settings, request=replace(settings.request, agreed=types))


class _PieceError(Exception):
    """An error about one piece."""

    def __init__(self, piece: Piece, cause: MosaicError | SchemaDrift) -> None:
        super().__init__(str(cause))
        self.piece = piece
        self.cause = cause


class _OutputReader:
    """Reads the pieces of an output one after another; the schemas of several pieces are unified first."""

    def __init__(self, settings: CopySettings, pieces: tuple[Piece, ...], lost: dict[Skipped, None]) -> None:
        self._settings = settings
        self._pieces = pieces
        #: Columns that cannot be read, and are left out.
        self._lost = lost
        #: The piece that is read, and is closed when the next one is read.
        self.current = pieces[0]
        self._opened: Reader | None = None
        #: Pieces that were opened for their schema and stay open until they are read, because opening takes time.
        self._waiting: dict[Piece, Reader] = {}
        #: The stored columns that have statistics in some of the pieces.
        self.statistics: dict[str, None] = {}
        #: The row groups of all pieces, if they may be copied.
        self._groups: list[StoredGroup] | None = []
        try:
            self.schema = self._unify()
        except BaseException:
            self.close()
            raise

    def _unify(self) -> pa.Schema:
        found = []
        for piece in self._pieces:
            reader, groups = self._open(piece), None
            self._waiting[piece] = reader
            found.append((piece.file.path, reader.schema))
            if self._settings.may_copy and isinstance(reader, MosaicFileReader):
                groups = stored_groups(piece, reader)
            self._groups = None if groups is None or self._groups is None else self._groups + groups
            if len(self._waiting) > most_open_readers(len(reader.schema)):
                self._waiting.pop(piece).close()
        if len(found) == 1:
            return found[0][1]
        _refuse_other_spellings(found)
        return unify_schemas(found)

    def close(self) -> None:
        for reader in (self._opened, *self._waiting.values()):
            if reader is not None:
                reader.close()
        self._opened = None
        self._waiting.clear()

    def opened(self, piece: Piece) -> Reader:
        """The reader of a piece."""
        if self._opened is None or piece is not self.current:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            self.current = piece
            self._opened = self._waiting.pop(piece, None) or self._open(piece)
        return self._opened

    def _open(self, piece: Piece) -> Reader:
        filesystem = self._settings.filesystem
        try:
            return self._open_at(piece, location_of(piece.file, filesystem))
        except FileNotFoundError:
            return self._open_at(piece, kept_location(piece.file, filesystem))

    def _open_at(self, piece: Piece, location: Location) -> Reader:
        format_, request = FORMATS[piece.format], self._settings.request
        if piece.row_groups is not None:
            request = replace(request, row_groups=piece.row_groups)
        try:
            with content_errors(piece.file.path, format_.title):
                reader, lost = open_reader(format_, location, request)
                lines = (Skipped(piece.file.path, f"column {name!r}: {why}") for name, why in lost.items())
                self._lost.update(dict.fromkeys(lines))
                if self._settings.keeps_statistics and isinstance(reader, MosaicFileReader):
                    self.statistics |= dict.fromkeys(reader.statistics())
                return reader
        except MosaicError as error:
            raise _PieceError(piece, error) from None

    def row_groups(self) -> RowGroupCopy | None:
        """The row groups, if they can be copied; None if batches must be read."""
        if self._groups is None:
            return None
        sizes = [group.num_bytes for group in self._groups]
        plan = plan_row_groups(sizes, merges=self._settings.merges, roll_bytes=self._settings.roll_bytes)
        if copied_share(sizes, plan) < 0.5:
            return None  # So little is copied that the layout of the old files is not worth keeping.
        files = [[[self._groups[index] for index in run] for run in runs] for runs in plan]
        return RowGroupCopy(self.schema, cast("Callable[[Piece], MosaicFileReader]", self.opened), files or [[]])

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches of all pieces, in the unified schema, with the bytes that were read for them."""
        for piece in self._pieces:
            batches = self.opened(piece).batches()
            while (item := self._next(piece, batches)) is not None:
                yield item

    def _next(self, piece: Piece, batches: Iterator[tuple[pa.RecordBatch, int]]) -> tuple[pa.RecordBatch, int] | None:
        try:
            with content_errors(piece.file.path, FORMATS[piece.format].title):
                item = next(batches, None)
                if item is None or len(self._pieces) == 1:
                    return item
                batch, num_bytes = item
                return adapt_batch(batch, self.schema), num_bytes
        except (MosaicError, SchemaDrift) as error:
            raise _PieceError(piece, error) from None


def most_open_readers(num_columns: int) -> int:
    """Most files that a task may have open, so that tasks on all cores stay far below the limit of this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(most_open_files(num_columns), files // (8 * cpu_count())))


def _refuse_other_spellings(found: list[tuple[str, pa.Schema]]) -> None:
    """Refuse to gather files that spell a column differently: Spark takes it for one column, and could not read two."""
    spelled: dict[str, tuple[str, str]] = {}
    for path, schema in found:
        lower = Counter(map(str.lower, schema.names))
        for name in schema.names:
            other, where = spelled.setdefault(name.lower(), (name, path))
            if other != name and lower[name.lower()] == 1:
                raise SchemaError(
                    "the files spell a column differently, so that one file would have two; rename it in one of them",
                    path=path,
                    found=repr(name),
                    expected=f"{other!r}, as in {where}",
                )


class _OutputWriter:
    """Writes the files of one output, and begins a new file whenever the last one has reached its size."""

    def __init__(self, settings: CopySettings, output: Output, directory: str) -> None:
        self._settings = settings
        self._output = output
        self._directory = directory
        self._sources = tuple(dict.fromkeys(piece.file.path for piece in output.pieces))
        self._writer: FileWriter | None = None
        self._rows = 0
        self._files: list[StagedFile] = []

    def write_all(self, reader: _OutputReader, report: Report) -> None:
        batches, sort_by, roll_bytes = reader.batches(), self._settings.sort_by, self._settings.roll_bytes
        if sort_by:
            check_sort_keys(reader.schema, sort_by)
            batches = sorted_batches(reader.batches, reader.schema, sort_by)
        with self._writer_errors():
            self._writer = self._begin(reader)
        for batch, num_bytes in batches:
            with self._writer_errors():
                self._writer = self._writer or self._begin(reader)
                self._writer.write(batch)
            self._rows += batch.num_rows
            report(batch.num_rows, num_bytes)
            if roll_bytes is not None and self._writer.estimated_size >= roll_bytes:
                self._end()
        self._end()

    def copy_all(self, copy: RowGroupCopy, reader: _OutputReader, report: Report) -> None:
        """Write files whose row groups are copied. Damage is looked for if what is damaged can be left out."""
        options, verify = self._settings.options, self._settings.skip_errors
        for file in copy.files:
            location = self._staged_location()
            try:
                done = rewrite_file(
                    location.path,
                    reader.schema,
                    copy.sources(file, report),
                    options=options,
                    verify=verify,
                    filesystem=location.filesystem,
                    unused_entries=reader.schema.names,  # No row is deleted.
                )
            except MosaicError as error:
                raise _PieceError(reader.current, error.locate(path=reader.current.file.path)) from None
            self._rows = done.rows
            self._add_file()

    @property
    def _staged(self) -> str:
        return f"{self._directory}/{len(self._files):05d}{self._settings.target.suffix}"

    def _staged_location(self) -> Location:
        location = self._settings.staging.root.child(self._staged)
        location.parent.make_directory()
        return location

    def _begin(self, reader: _OutputReader) -> FileWriter:
        location = self._staged_location()
        options = self._settings.options
        if self._settings.keeps_statistics:
            wanted = [*(name for name, _ in self._settings.sort_by), *reader.statistics]
            options = with_statistics(options, reader.schema, wanted)
        return self._settings.target.format.writer(location, reader.schema, options)

    def _end(self) -> None:
        if self._writer is not None:
            with self._writer_errors():
                self._writer.close()
            self._writer = None
            self._add_file()

    def _add_file(self) -> None:
        size = self._settings.staging.root.child(self._staged).info().size
        target = self._settings.target
        number = "" if target.is_table else f"-{len(self._files):05d}"
        name = f"{self._output.name if target.is_table else self._output.stem}{number}{target.suffix}"
        self._files.append(StagedFile(name, self._rows, size, self._staged, self._sources))
        self._rows = 0

    @contextlib.contextmanager
    def _writer_errors(self) -> Iterator[None]:
        """Raise what a writer refuses as an error about the piece it came from, if there is only one piece."""
        try:
            yield
            return
        except MosaicError as error:
            refused: MosaicError = error
        except (ValueError, OverflowError, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            # Arrow's own errors about values are a ValueError. JSON has values of Python's, which not all dates can be.
            refused = SchemaError(f"cannot be written as {self._settings.target.format.title}: {error}")
        piece, *others = self._output.pieces
        if others:
            raise refused
        raise _PieceError(piece, refused.locate(path=piece.file.path))

    def files(self) -> list[StagedFile]:
        """The files that were written. A single one is called after the output, without a number.

        Files of tables are all called so: their names get a number when they are committed.
        """
        if len(self._files) == 1 and not self._settings.target.is_table:
            return [replace(self._files[0], path=self._output.stem + self._settings.target.suffix)]
        return self._files

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
            self._writer = None

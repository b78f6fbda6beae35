"""The task of `convert` and `compact`: read pieces, write files, hand back a summary. Runs the same on every engine."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.file.intake import Intake
from smalti.io.places import Place
from smalti.jobs.events import Report
from smalti.jobs.formats.reading import Reader, ReadRequest, SchemaDrift, reading
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.sampling import scan_all
from smalti.jobs.planning import Output, Split
from smalti.jobs.sorting import check_keys, sorted_batches
from smalti.jobs.staging import Staging
from smalti.jobs.summary import Skipped, SplitResult, StagedFile
from smalti.options import WriterOptions
from smalti.table.adapt import adapt_batch
from smalti.table.schemas import unify_schemas
from smalti.table.splits import Piece
from smalti.types import has_statistics


@dataclass(frozen=True)
class CopyTask:
    """Everything a task needs, and nothing of the session that planned it."""

    filesystem: Any
    staging: Staging
    split: Split
    target_format: str
    suffix: str
    options: WriterOptions
    request: ReadRequest
    sort_by: tuple[tuple[str, str], ...] = ()
    keep_key_statistics: bool = False
    skip_errors: bool = False


def copy_split(task: CopyTask, report: Report) -> SplitResult:
    """Write the files of a split to its staging directory and mark it finished."""
    attempt = task.staging.attempt(task.split.index)
    files: list[StagedFile] = []
    skipped: list[Skipped] = []
    for output in task.split.outputs:
        try:
            made, missed = _write_output(task, output, attempt, report)
        except MosaicError as error:
            return SplitResult(failure=error, peak_memory=peak_memory())
        files += made
        skipped += missed
    rows = sum(file.num_rows for file in files)
    result = SplitResult(tuple(files), tuple(skipped), rows, peak_memory())
    task.staging.mark(task.split.index, result)
    return result


def _write_output(
    task: CopyTask, output: Output, attempt: str, report: Report
) -> tuple[list[StagedFile], list[Skipped]]:
    """The files of one output. A piece that cannot be read is left out and the rest begun again, if that is wanted."""
    pieces = list(output.pieces)
    skipped: list[Skipped] = []
    scanned: set[Piece] = set()
    while pieces:
        rolling = _Rolling(task, replace(output, pieces=tuple(pieces)), attempt)
        try:
            sources = _Sources(task, pieces)
            with contextlib.closing(sources):
                rolling.run(sources, report)
            return rolling.finish(), skipped
        except _PieceError as error:
            failure = error.cause
            if isinstance(failure, SchemaDrift):
                try:
                    task = _with_all_types(task, error.piece, failure, scanned)
                    continue
                except MosaicError as found:
                    failure = found
            if not task.skip_errors:
                raise failure from None
            skipped.append(Skipped(error.piece.file.path, _reason(failure)))
            pieces.remove(error.piece)
        finally:
            rolling.abort()
    return [], skipped


def _with_all_types(task: CopyTask, piece: Piece, drift: SchemaDrift, scanned: set[Piece]) -> CopyTask:
    """The task with types that hold all of a text file; once for each file."""
    if piece in scanned:
        raise CorruptFileError(f"values fit no type: {drift}", path=piece.file.path)
    scanned.add(piece)
    types = scan_all(task.filesystem, piece.file.path, FORMATS[piece.format], task.request)
    return replace(task, request=replace(task.request, types=types))


class _PieceError(Exception):
    """An error about one piece."""

    def __init__(self, piece: Piece, cause: Any) -> None:
        super().__init__(str(cause))
        self.piece = piece
        self.cause = cause


class _Sources:
    """Pieces, opened one after another; with several, their schemas are made one first."""

    def __init__(self, task: CopyTask, pieces: list[Piece]) -> None:
        self._task = task
        self._pieces = pieces
        self._first: Reader | None = None
        self.schema = self._unify()

    def _unify(self) -> pa.Schema:
        if len(self._pieces) == 1:
            # Opening a wide file is not free: what is read first is kept.
            self._first = self._reader(self._pieces[0])
            schema: pa.Schema = self._first.schema
            return schema
        found = []
        for piece in self._pieces:
            reader = self._reader(piece)
            try:
                found.append((piece.file.path, Intake(reader.schema).schema))
            except MosaicError as error:
                raise _PieceError(piece, error.locate(path=piece.file.path)) from None
            finally:
                reader.close()
        return unify_schemas(found)

    def close(self) -> None:
        """For when nothing was read."""
        if self._first is not None:
            self._first.close()

    def _reader(self, piece: Piece) -> Reader:
        format_ = FORMATS[piece.format]
        request = self._task.request
        if piece.row_groups is not None:
            request = replace(request, row_groups=piece.row_groups)
        try:
            with reading(piece.file.path, format_.title):
                return format_.reader(Place(self._task.filesystem, piece.file.path), request)
        except MosaicError as error:
            raise _PieceError(piece, error) from None

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches of all pieces, in the one schema, with the bytes that were read for them."""
        for piece in self._pieces:
            reader, self._first = self._first or self._reader(piece), None
            try:
                batches = reader.batches()
                while (item := self._next(piece, batches)) is not None:
                    yield item
            finally:
                reader.close()

    def _next(self, piece: Piece, batches: Iterator[tuple[pa.RecordBatch, int]]) -> tuple[pa.RecordBatch, int] | None:
        try:
            with reading(piece.file.path, FORMATS[piece.format].title):
                item = next(batches, None)
                if item is None or len(self._pieces) == 1:
                    return item
                return adapt_batch(_stored(item[0]), self.schema), item[1]
        except (MosaicError, SchemaDrift) as error:
            raise _PieceError(piece, error) from None


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in the types Mosaic stores, which is what schemas of several files are compared in."""
    return Intake(batch.schema).conform(batch)


class _Rolling:
    """The files of one output: a new one whenever the last has reached its size."""

    def __init__(self, task: CopyTask, output: Output, attempt: str) -> None:
        self._task = task
        self._output = output
        self._attempt = attempt
        self._format = FORMATS[task.target_format]
        self._writer: Any = None
        self._rows = 0
        self._done: list[tuple[str, int, int]] = []

    def run(self, sources: _Sources, report: Report) -> None:
        batches = sources.batches()
        if self._task.sort_by:
            check_keys(sources.schema, self._task.sort_by)
            batches = sorted_batches(sources.batches, sources.schema, self._task.sort_by)
        self._begin(sources.schema)
        for batch, num_bytes in batches:
            if self._writer is None:
                self._begin(sources.schema)
            self._guard(self._writer.write, batch)
            self._rows += batch.num_rows
            report(batch.num_rows, num_bytes)
            roll = self._output.roll_bytes
            if roll is not None and self._writer.estimated_size >= roll:
                self._end()
        if self._writer is not None:
            self._end()

    def _begin(self, schema: pa.Schema) -> None:
        path = f"{self._attempt}/{self._output.stem}-{len(self._done):05d}{self._task.suffix}"
        place = self._task.staging.root.child(path)
        place.parent.make_directory()
        self._writer = self._guard(self._format.writer, place, schema, self._options(schema))
        self._rows = 0
        self._path = path

    def _options(self, schema: pa.Schema) -> WriterOptions:
        options = self._task.options
        if not self._task.keep_key_statistics:
            return options
        keys = [name for name, _ in self._task.sort_by if has_statistics(schema.field(name).type)]
        return replace(options, stats_columns=tuple(keys))

    def _end(self) -> None:
        size = self._guard(self._writer.close)
        self._writer = None
        self._done.append((self._path, self._rows, size))

    def _guard(self, function: Any, *arguments: Any) -> Any:
        """What a writer refuses is said with the file it came from; of several, nobody knows which is to blame."""
        piece, *others = self._output.pieces
        try:
            return function(*arguments)
        except MosaicError as error:
            refused: MosaicError = error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            refused = SchemaError(f"cannot be written as {self._format.title}: {error}")
        if others:
            raise refused
        raise _PieceError(piece, refused.locate(path=piece.file.path))

    def finish(self) -> list[StagedFile]:
        sources = tuple(dict.fromkeys(piece.file.path for piece in self._output.pieces))
        stem, suffix = self._output.stem, self._task.suffix
        names = [f"{stem}-{number:05d}{suffix}" for number in range(len(self._done))]
        if len(names) == 1:
            names = [stem + suffix]
        return [
            StagedFile(staged, name, rows, size, sources)
            for name, (staged, rows, size) in zip(names, self._done, strict=True)
        ]

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
            self._writer = None


def _reason(error: MosaicError) -> str:
    """The message without the path, which is told beside it."""
    text, path = str(error), str(error.place.get("path", ""))
    return text[len(path) :].lstrip(":, ") if path and text.startswith(path) else text


def peak_memory() -> int:
    """The most this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

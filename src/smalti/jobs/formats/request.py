"""What every reader offers, and how errors of the libraries below become errors of ours, with path and reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from smalti.errors import CorruptFileError, MosaicError, no_column

#: Found in messages of Arrow's remote file systems when a request failed. Local failures have an `errno` instead.
_TRANSPORT = ("AWS Error", "google::cloud", "Azure", "HDFS")


@dataclass(frozen=True)
class ReadRequest:
    """What to read of a file, and how.

    Parameters
    ----------
    row_groups : tuple of int, optional
        All of them by default. Formats without row groups refuse a choice.
    columns : tuple of str, optional
    batch_size : int, optional
        The most rows of a batch; by default as many as `BATCH_BYTES` hold.
    types : pyarrow.Schema, optional
        Types of columns of text formats that the user has given: they are not guessed.
    agreed : pyarrow.Schema, optional
        Guesses about other columns on which several files agree, or that hold all of one file. A file whose values do
        not fit them is guessed anew.
    threads : bool
        Whether the library that reads may use threads of its own.
    where : str, optional
        The condition of the rows to read, in the language of `predicate.text`; see `formats.selecting`.
    salvage : bool
        Whether columns of Mosaic files that cannot be read are left out.
    """

    row_groups: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None
    batch_size: int | None = None
    types: pa.Schema | None = None
    agreed: pa.Schema | None = None
    threads: bool = True
    where: str | None = None
    salvage: bool = False

    @property
    def known_types(self) -> pa.Schema:
        """All types that are not left to the guess about a single file; those that were given come first."""
        given = list(self.types or ())
        names = {field.name for field in given}
        return pa.schema([*given, *(field for field in self.agreed or () if field.name not in names)])


class Reader(Protocol):
    """An open file. Each batch comes with the number of bytes of the file that were read for it, for progress."""

    schema: pa.Schema

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]: ...

    def close(self) -> None: ...


class SchemaDrift(Exception):
    """A text file holds values that types which were guessed, from its beginning or from other files, cannot hold."""


@contextlib.contextmanager
def content_errors(path: str, format_name: str) -> Iterator[None]:
    """Raise errors about the content of a file, from whichever library, as `MosaicError` with its path.

    A missing file, a failing disk or a lost connection says nothing about the content; these errors stay as they are.
    """
    try:
        yield
    except MosaicError as error:
        raise error.locate(path=path) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError, OSError) as error:
        if isinstance(error, OSError) and (error.errno is not None or any(sign in str(error) for sign in _TRANSPORT)):
            raise
        first_line, *_ = str(error).strip().splitlines() or [type(error).__name__]
        raise CorruptFileError(f"cannot be read as {format_name}: {first_line}", path=path) from None


def refuse_missing(columns: Sequence[str] | None, names: Sequence[str]) -> None:
    """Refuse columns that are not among `names`."""
    known = set(names)
    for name in columns or ():
        if name not in known:
            raise no_column(name, names)


def select_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The fields of `columns`, in that order; all fields if it is None."""
    if columns is None:
        return schema
    refuse_missing(columns, schema.names)
    return pa.schema([schema.field(name) for name in columns])


def refuse_row_groups(request: ReadRequest) -> None:
    """Raise if row groups are asked for of a format that has none."""
    if request.row_groups is not None:
        raise MosaicError("this format has no row groups", found=request.row_groups)


def split_batch(batch: pa.RecordBatch, rows: int | None, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut a batch into pieces of at most `rows` rows, each with its share of `num_bytes`."""
    step = max(1, rows or batch.num_rows)
    for start in range(0, batch.num_rows, step):
        # A slice of a wide batch takes time, even if it is the whole batch.
        part = batch if step >= batch.num_rows else batch.slice(start, step)
        yield part, num_bytes * part.num_rows // batch.num_rows

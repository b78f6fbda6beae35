"""What every reader offers, and how an error of any library becomes one of ours, with the path and the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from smalti.errors import CorruptFileError, MosaicError, SchemaError

#: A batch holds about so many bytes, unless rows are counted for it.
BATCH_BYTES = 32 << 20


#: How Arrow's file systems begin to speak of trouble on the way; local trouble has an `errno`.
_TRANSPORT = ("AWS Error", "google::cloud", "Azure", "HDFS")


@dataclass(frozen=True)
class ReadRequest:
    """What is wanted of a file.

    Parameters
    ----------
    row_groups : tuple of int, optional
        All of them by default; formats without any refuse.
    columns : tuple of str, optional
    batch_rows : int, optional
        Rows of a batch at most; by default as many as `BATCH_BYTES` hold.
    types : pyarrow.Schema, optional
        Types of columns of text formats, which would be guessed otherwise.
    threads : bool
        Whether libraries may use threads of their own.
    """

    row_groups: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None
    batch_rows: int | None = None
    types: pa.Schema | None = None
    threads: bool = True


class Reader(Protocol):
    """An open file. Batches come with the bytes of the file that were used up for them, for progress."""

    schema: pa.Schema

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]: ...

    def close(self) -> None: ...


class SchemaDrift(Exception):
    """A text file holds values further down that the types guessed from its beginning cannot hold."""


@contextlib.contextmanager
def reading(path: str, format_name: str) -> Iterator[None]:
    """Errors about the content of a file, from whichever library, as `MosaicError` with its path.

    A missing file, a failing disk or a lost connection says nothing about the content and stays what it is.
    """
    try:
        yield
    except MosaicError as error:
        raise error.locate(path=path) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        raise CorruptFileError(f"cannot be read as {format_name}: {_first_line(error)}", path=path) from None
    except OSError as error:
        if error.errno is not None or any(sign in str(error) for sign in _TRANSPORT):
            raise
        raise CorruptFileError(f"cannot be read as {format_name}: {_first_line(error)}", path=path) from None


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def rows_for(num_bytes: int, num_rows: int, wanted: int | None) -> int:
    """Rows of a batch, for data of `num_bytes` in `num_rows`."""
    if wanted is not None:
        return wanted
    return max(1, min(1 << 20, BATCH_BYTES * max(1, num_rows) // max(1, num_bytes)))


def check_columns(columns: Sequence[str] | None, names: Sequence[str]) -> None:
    """Refuse columns that are not there."""
    missing = [name for name in columns or () if name not in set(names)]
    if missing:
        raise SchemaError("no such column", found=missing[0])


def pick(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The fields of `columns`, in that order."""
    if columns is None:
        return schema
    check_columns(columns, schema.names)
    return pa.schema([schema.field(name) for name in columns])


def slices(batch: pa.RecordBatch, rows: int | None, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """A batch in pieces of at most `rows`, with their share of its bytes."""
    step = max(1, rows or batch.num_rows)
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        yield part, num_bytes * part.num_rows // batch.num_rows

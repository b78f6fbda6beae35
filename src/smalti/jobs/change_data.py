"""The data that a change brings: rows of the table in their order, rows that are found by keys, or a function.

Data that does not fit in memory is staged beside the table in chunks, as Arrow files, and so is data for Spark's tasks,
which run on other machines. A chunk is read when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from smalti._compat.arrow import empty_batch, null_array, size_of, unify_dictionaries
from smalti.errors import SchemaError
from smalti.io.locations import Location
from smalti.jobs.keys import KeyIndex, duplicate_key_error, fit_keys
from smalti.logical.adapt import adapt_batch, countable_schema, fit_array
from smalti.logical.rows import take_chunks
from smalti.mosaic.rows import row_numbers
from smalti.table.names import new_token

#: How many bytes of data are in memory at a time, for each task.
CHUNK_BYTES = 256 << 20


@dataclass(frozen=True)
class Chunk:
    """Some rows of the data, in memory or staged. `start` is the number of the first row."""

    start: int
    num_rows: int
    rows: pa.Table | None = None
    staged: Location | None = None

    @property
    def end(self) -> int:
        return self.start + self.num_rows

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Some columns, at least one, or all. Others of a staged chunk are not read."""
        if self.rows is not None:
            return self.rows if columns is None else self.rows.select(list(columns))
        with self._open() as file:
            schema = ipc.open_file(file).schema
        names = schema.names if columns is None else list(columns)
        options = ipc.IpcReadOptions(included_fields=sorted(map(schema.get_field_index, names)))
        with self._open() as file:
            return ipc.open_file(file, options=options).read_all().select(names)

    def _open(self) -> Any:
        assert self.staged is not None
        if self.staged.is_local:
            return pa.memory_map(self.staged.path)
        return self.staged.filesystem.open_input_file(self.staged.path)


class Spool:
    """Gathers rows into chunks. Up to `limit` bytes of them stay in memory; the others are staged in `directory`."""

    def __init__(self, directory: Location, schema: pa.Schema, limit: int | None = None) -> None:
        self._directory = directory
        self._schema = schema
        self._limit = CHUNK_BYTES if limit is None else limit
        self._batches: list[pa.RecordBatch] = []
        self._held = self._kept = self._start = 0
        #: The same job may run twice at once, and a file that is mapped to memory may not be written again.
        self._token = new_token()
        self._chunks: list[Chunk] = []

    def gather(self, batches: Iterable[pa.RecordBatch]) -> tuple[Chunk, ...]:
        """All batches in chunks of about `CHUNK_BYTES`, or of what may stay in memory; one at least."""
        for batch in batches:
            self._add(batch)
            if self._held >= max(CHUNK_BYTES, self._limit):
                self._cut()
        if self._batches or not self._chunks:
            self._cut()
        return tuple(self._chunks)

    def gather_by_files(self, batches: Iterator[pa.RecordBatch], rows: Sequence[int]) -> tuple[Chunk, ...]:
        """A chunk for each file of a table; `rows` has the number of rows of each file.

        Raises
        ------
        SchemaError
            If the data has more rows than the table, or fewer.
        """
        rest, given = empty_batch(self._schema), 0
        for wanted in rows:
            left = wanted
            while left:
                batch = rest if rest.num_rows else next(batches, None)
                if batch is None:
                    raise row_count_error(given, sum(rows))
                part, rest = batch.slice(0, left), batch.slice(left)
                self._add(part)
                left -= part.num_rows
                given += part.num_rows
            self._cut()
        more = rest.num_rows + sum(batch.num_rows for batch in batches)
        if more:
            raise row_count_error(given + more, sum(rows))
        return tuple(self._chunks)

    def _add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._held += size_of(batch)

    def _cut(self) -> None:
        """End a chunk."""
        rows, is_kept = pa.Table.from_batches(self._batches, self._schema), self._kept + self._held <= self._limit
        staged = None if is_kept else self._stage(rows)
        self._chunks.append(Chunk(self._start, rows.num_rows, rows if is_kept else None, staged))
        self._kept += self._held if is_kept else 0
        self._batches, self._held, self._start = [], 0, self._start + rows.num_rows

    def _stage(self, rows: pa.Table) -> Location:
        schema = countable_schema(self._schema)
        rows = pa.Table.from_batches([adapt_batch(batch, schema) for batch in rows.to_batches()], schema)
        try:
            rows = unify_dictionaries(rows)  # An Arrow file has one dictionary for each column.
        except pa.ArrowException as error:
            raise SchemaError(f"dictionaries of the data cannot be put together ({error})") from None
        location = self._directory.child(f"{self._token}-{len(self._chunks):05d}.arrow")
        location.parent.make_directory()
        # Only the run that has written it reads the file, so half a file does no harm.
        with location.filesystem.open_output_stream(location.path) as sink, ipc.new_file(sink, schema) as writer:
            writer.write_table(rows)
        return location


def row_count_error(found: int, expected: int) -> SchemaError:
    return SchemaError(
        "the data has another number of rows than the table, so they cannot be put side by side; join them by key "
        "columns with `on`",
        found=f"{found:,} rows",
        expected=f"{expected:,} rows",
    )


@dataclass(frozen=True)
class KeyedRows:
    """Chunks of data whose rows are found by keys. `keys` are the key columns in the types of the table."""

    chunks: tuple[Chunk, ...]
    keys: pa.Schema

    def __getstate__(self) -> dict[str, Any]:
        """Without the index, which is made again where the rows arrive."""
        return {"chunks": self.chunks, "keys": self.keys, "_groups": self._groups}

    @property
    def num_rows(self) -> int:
        return sum(chunk.num_rows for chunk in self.chunks)

    @cached_property
    def _groups(self) -> list[tuple[Chunk, ...]]:
        """The chunks, together as far as their keys take no more memory than a chunk: keys are few of the columns."""
        groups: list[list[Chunk]] = []
        size = 0
        for chunk in self.chunks:
            keys = size_of(chunk.read(self.keys.names)) if len(self.chunks) > 1 else 0
            if not groups or size + keys > CHUNK_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(chunk)
            size += keys
        return list(map(tuple, groups))

    @cached_property
    def _only(self) -> KeyIndex:
        return self._index(self._groups[0])

    def _index(self, group: Sequence[Chunk]) -> KeyIndex:
        return KeyIndex(fit_keys(pa.concat_tables([chunk.read(self.keys.names) for chunk in group]), self.keys))

    def indices(self) -> Iterator[tuple[int, KeyIndex]]:
        """Indices of all keys, each with the number of its first row. If one has all keys, it is made once."""
        if len(self._groups) == 1:
            yield 0, self._only
        else:
            for group in self._groups:
                yield group[0].start, self._index(group)

    def check(self) -> int:
        """Raise if several rows have the same key. Return how many rows have a null key."""
        null_keys = 0
        for number, (_, index) in enumerate(self.indices()):
            index.refuse_duplicate()
            null_keys += index.null_keys
            for other in self._groups[number + 1 :]:
                for chunk in other:
                    keys = fit_keys(chunk.read(self.keys.names), self.keys)
                    found = index.find(keys)
                    if found.null_count < len(found):
                        raise duplicate_key_error(keys, pc.index(found.is_valid(), True).as_py())
        return null_keys

    def find(self, keys: pa.Table) -> Any:
        """The number of the row that has each key, null where there is none."""
        found: Any = pa.nulls(keys.num_rows, pa.int64())
        for start, index in self.indices():
            found = pc.coalesce(found, pc.add(index.find(keys), pa.scalar(start, pa.int64())))
        return found

    def gather(self, rows: Any, fields: Sequence[pa.Field]) -> list[Any]:
        """Columns of rows by their numbers, in the types of some fields; null where a number is null."""
        names = [field.name for field in fields]
        parts: list[list[Any]] = [[] for _ in fields]
        positions: Any = pa.nulls(len(rows), pa.int64())
        taken = 0
        for chunk in self.chunks:
            start, end = (pa.scalar(value, pa.int64()) for value in (chunk.start, chunk.end))
            inside = pc.and_(pc.greater_equal(rows, start), pc.less(rows, end)).fill_null(False)
            count = inside.true_count
            if not count:
                continue
            data = chunk.read(names)
            local = pc.subtract(rows.filter(inside), start)
            for part, field in zip(parts, fields, strict=True):
                part += _taken(data.column(field.name), local, field)
            if count == len(rows):
                return list(map(pa.chunked_array, parts))
            # The k-th row that is found here is the k-th of what was taken here. A search for it would take longer.
            positions = pc.if_else(inside, pc.add(running_count(inside), pa.scalar(taken - 1, pa.int64())), positions)
            taken += count
        return [
            pa.chunked_array(take_chunks(part or [null_array(0, field.type)], positions))
            for part, field in zip(parts, fields, strict=True)
        ]


def running_count(mask: Any) -> Any:
    """How many values of a mask are true up to each row."""
    return pc.cumulative_sum(mask.cast(pa.int64()))


def _taken(column: Any, rows: Any, field: pa.Field) -> list[Any]:
    """Rows of a column of the data, in the type of the field; in several arrays if they are too large for one."""
    if column.num_chunks == 1:
        return [fit_array(each, field) for each in take_chunks(column.chunks, rows)]
    return take_chunks([fit_array(chunk, field) for chunk in column.chunks], rows)


def replaced_rows(old: Sequence[Any], mask: Any, new: Sequence[Any]) -> list[Any]:
    """Columns in which the rows of a mask have new values, as many as the mask has rows."""
    rows = len(mask)
    count = pc.subtract(running_count(mask), pa.scalar(1, pa.int64()))
    positions = pc.if_else(mask, pc.add(count, pa.scalar(rows, pa.int64())), row_numbers(0, rows))
    added = (after.chunks if isinstance(after, pa.ChunkedArray) else [after] for after in new)
    return [
        pa.chunked_array(take_chunks([before, *after], positions)) for before, after in zip(old, added, strict=True)
    ]


#: A function that users pass: from a batch to new columns.
ColumnFunction = Callable[[pa.RecordBatch], Any]


def call_function(function: ColumnFunction, batch: pa.RecordBatch) -> pa.Table:
    """What a function of the user's has made of a batch, as a table of as many rows."""
    returned = made = function(batch)
    try:
        if isinstance(made, dict):
            made = pa.table({name: _as_array(value) for name, value in made.items()}) if made else None
        elif isinstance(made, pa.RecordBatch):
            made = pa.Table.from_batches([made])
        elif made is not None and not isinstance(made, pa.Table):
            made = pa.table(made)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = "the function has returned something that is no table"
        reason += f" ({error})" if isinstance(returned, dict) else ""
        found, expected = type(returned), "a batch, or a dict of names and arrays"
        raise SchemaError(reason, found=found, expected=expected) from None
    if made is None or not made.num_columns:
        raise SchemaError("the function has returned no column", expected="a batch, or a dict of names and arrays")
    if made.num_rows != batch.num_rows:
        raise SchemaError(
            "the function has returned another number of rows than it was given",
            found=made.num_rows,
            expected=batch.num_rows,
        )
    table: pa.Table = made
    return table


def _as_array(value: Any) -> Any:
    if isinstance(value, (str, bytes)):  # Arrow would make a row of each letter.
        raise TypeError("a single value, where a value for each row is needed")
    return value if isinstance(value, (pa.Array, pa.ChunkedArray)) else pa.array(value)

"""The rows of a window in memory, in the order in which they are delivered.

Numbers are put at their places in NumPy arrays as soon as they are read, so that a batch is a slice of these. All
other columns stay in Arrow's memory, because as Python objects they would take many times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.allowance import Allowance
from smalti._core.scatter import scatter
from smalti.extras import optional_module
from smalti.loading.arrays import to_numpy
from smalti.logical.rows import take_table
from smalti.memory import allocate
from smalti.readahead import Budget, Unit, in_order


class BlockRead(NamedTuple):
    """Reads a table and counts its bytes; its number of rows, and its estimated size."""

    read: Callable[[Allowance], pa.Table]
    num_rows: int
    num_bytes: int


#: What nulls of a column become, given its name.
FillOf = Callable[[str], Any]
_NUMBERS = (pt.is_integer, pt.is_floating, pt.is_boolean, pt.is_date, pt.is_timestamp, pt.is_duration)


class Rows:
    """Rows in memory: `arrays` of some columns, and an Arrow table of the others.

    They count in `accounts` for as long as they, or slices of them, exist.
    """

    def __init__(self, num_rows: int, arrays: dict[str, Any], table: pa.Table, accounts: Sequence[Allowance]) -> None:
        self.num_rows = num_rows
        self.arrays = arrays
        self.table = table
        self._accounts = accounts

    def slice(self, start: int, count: int | None = None) -> Rows:
        """Some of the rows, in the same memory."""
        end = self.num_rows if count is None else min(self.num_rows, start + count)
        arrays = {name: array[start:end] for name, array in self.arrays.items()}
        table = self.table.slice(start, end - start) if self.table.num_columns else self.table
        return Rows(end - start, arrays, table, self._accounts)

    def batch(self, names: Iterable[str], fill_of: FillOf) -> dict[str, Any]:
        """The rows as arrays of NumPy, by column."""
        return {
            name: self.arrays[name] if name in self.arrays else to_numpy(self.table.column(name), name, fill_of(name))
            for name in names
        }


def join_rows(parts: Sequence[Rows], held: Allowance) -> Rows:
    """Several rows one after the other, in new memory if they are not alone."""
    if len(parts) == 1:
        return parts[0]
    numpy, account = optional_module("numpy"), held.part()
    account.take(sum(array.nbytes for part in parts for array in part.arrays.values()))
    arrays = {name: numpy.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    accounts = [account, *(account for part in parts for account in part._accounts)]  # Tables are not copied.
    table = pa.concat_tables([part.table for part in parts])
    return Rows(sum(part.num_rows for part in parts), arrays, table, accounts)


def gather(
    reads: Sequence[BlockRead],
    schema: pa.Schema,
    order: Any,
    fill_of: FillOf | None,
    budget: Budget,
    held: Allowance,
) -> Rows:
    """Read tables, and put their rows in another order. Rows are put at their places by the thread that has read them.

    Parameters
    ----------
    reads : sequence of BlockRead
    schema : pyarrow.Schema
    order : array of int, optional
        Which row comes at each place; by default they stay in their order.
    fill_of : callable, optional
        What nulls become in arrays of NumPy. Without it, all columns stay in Arrow's memory.
    budget : Budget
    held : Allowance
        Counts what is read, for as long as the rows exist.
    """
    numpy = optional_module("numpy")
    starts = [0, *accumulate(read.num_rows for read in reads)]
    num_rows = starts[-1]
    numbers = [i for i, type_ in enumerate(schema.types) if fill_of and any(test(type_) for test in _NUMBERS)]
    others = [i for i in range(len(schema)) if i not in set(numbers)]
    places = None
    if order is not None:
        places = numpy.empty(num_rows, numpy.int32)
        places[order] = numpy.arange(num_rows, dtype=numpy.int32)
    is_alone = len(reads) == 1 and places is None
    arrays: dict[str, Any] = {}
    account, read_accounts = held.part(), list[Allowance]()
    for i in () if is_alone else numbers:
        empty = to_numpy(pa.array([], schema.types[i]), schema.names[i])
        # Memory that was released with an earlier window is there already; new memory would be mapped page by page.
        account.take(num_rows * empty.dtype.itemsize)
        values = allocate(num_rows * empty.dtype.itemsize)
        arrays[schema.names[i]] = numpy.frombuffer(values, empty.dtype)

    def read(block: BlockRead, start: int) -> pa.Table:
        kept = held.part()
        table = block.read(kept)
        end = start + table.num_rows
        for i in numbers:
            name = schema.names[i]
            values = to_numpy(table.column(i), name, None if fill_of is None else fill_of(name))
            if is_alone:
                arrays[name] = values
            elif places is None:
                arrays[name][start:end] = values
            else:
                as_bytes = numpy.ascontiguousarray(values).view(numpy.uint8)
                scatter(as_bytes, values.dtype.itemsize, places[start:end], arrays[name].view(numpy.uint8))
        rest = table.select(others)
        if is_alone or not numbers:
            read_accounts.append(kept)
        else:
            account.take(rest.get_total_buffer_size())
        return rest

    units = [Unit(partial(read, each, start), each.num_bytes) for each, start in zip(reads, starts, strict=False)]
    with closing(in_order(units, budget)) as found:
        rest = pa.concat_tables(found)
    if order is None or not others:
        return Rows(num_rows, arrays, rest, [account, *read_accounts])
    copied, size = held.part(), rest.get_total_buffer_size()
    copied.take(size)
    rest = take_table(rest, pa.array(order))
    account.give(0 if read_accounts else size)
    return Rows(num_rows, arrays, rest, [account, copied])

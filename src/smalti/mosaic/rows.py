"""Rows by their number: what a user may ask for, and which row groups or files hold it. Pure: nothing is read.

Numbers are int64 in Arrow's memory from the beginning to the end, so that millions of them are no Python objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MosaicError, NoSuchRowError, SchemaError

#: Rows of a file or row group, counted from its beginning: a span, or numbers in ascending order, each once.
Rows: TypeAlias = "range | pa.Int64Array | pa.UInt64Array"
#: Below this many numbers, Python's arithmetic takes less time than a call of Arrow's functions.
_FEW = 32


@dataclass(frozen=True)
class RowIndex:
    """The column of row numbers that a read is asked for: its name, and the number of the first row of the file."""

    name: str
    start: int = 0

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, pa.int64(), nullable=False)

    def add_to(self, schema: pa.Schema) -> pa.Schema:
        """The schema with this column in front. Raise an error if it has a column of this name."""
        if schema.get_field_index(self.name) >= 0:
            raise self.taken_name()
        return schema.insert(0, self.field)

    def taken_name(self, **place: Any) -> SchemaError:
        """The error for a name that a column has."""
        return SchemaError("the row index needs a name that no column has", found=self.name, **place)


def row_numbers(start: int, count: int, rows: pa.Array | None = None) -> pa.Int64Array:
    """The numbers of `count` rows from `start` on; or of those of `rows`, which are indices into them.

    Examples
    --------
    >>> row_numbers(5, 3).to_pylist(), row_numbers(5, 3, pa.array([0, 2], pa.uint64())).to_pylist()
    ([5, 6, 7], [5, 7])
    """
    import pyarrow.compute as pc  # Slow to import, and most reads do without it.

    if rows is None:
        ones = pa.py_buffer(b"\xff" * ((count + 7) // 8))
        rows = pc.indices_nonzero(pa.Array.from_buffers(pa.bool_(), count, [None, ones]))
    return cast("pa.Int64Array", pc.add(pc.cast(rows, pa.int64()), pa.scalar(start, pa.int64())))


def parse_indices(indices: Any, num_rows: int) -> pa.Int64Array:
    """The rows that a user asks for, as numbers from 0 on.

    Negative numbers count from the end, as in Python. Anything that Arrow takes for an array of whole numbers is
    accepted, floats too if they are whole.

    Raises
    ------
    MosaicError
        If something is not a whole number.
    NoSuchRowError
        If there is no such row. It is an IndexError, too.

    Examples
    --------
    >>> parse_indices([3, -1, 3], 10).to_pylist()
    [3, 9, 3]
    """
    import pyarrow.compute as pc

    expected = "whole numbers: a list, a range, or an array of NumPy or Arrow"
    if isinstance(indices, (str, bytes, dict, set, frozenset)) or not hasattr(indices, "__len__"):
        raise MosaicError("rows are chosen by their numbers", found=indices, expected=expected)
    try:
        array = _as_array(indices)
    except OverflowError:
        found = "a number of more than 64 bits"
        raise NoSuchRowError("there is no such row", found=found, expected=_rows(num_rows)) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise MosaicError("rows are chosen by their numbers", found=str(error), expected=expected) from None
    if len(array) == 0:
        return pa.array([], pa.int64())
    if array.null_count:
        raise MosaicError("rows are chosen by their numbers", found="a null", expected=expected)
    if pt.is_floating(array.type):
        whole = pc.equal(pc.trunc(array), array)
        if not pc.all(whole).as_py():
            found = array[pc.index(whole, False).as_py()].as_py()
            raise MosaicError("rows are chosen by their numbers", found=found, expected=expected)
    elif not pt.is_integer(array.type):
        raise MosaicError("rows are chosen by their numbers", found=f"{array.type} values", expected=expected)
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low < -num_rows or high >= num_rows:
        found = high if high >= num_rows else low
        raise NoSuchRowError("there is no such row", found=found, expected=_rows(num_rows))
    numbers: Any = pc.cast(array, pa.int64())
    if low < 0:
        numbers = pc.if_else(pc.less(numbers, pa.scalar(0)), pc.add(numbers, pa.scalar(num_rows)), numbers)
    return cast("pa.Int64Array", numbers)


def _as_array(indices: Any) -> pa.Array:
    if isinstance(indices, pa.ChunkedArray):
        return indices.combine_chunks()
    if isinstance(indices, range):
        return _as_numbers(indices)
    array = indices if isinstance(indices, pa.Array) else pa.array(indices)
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _as_numbers(rows: range) -> pa.Int64Array:
    """A range as numbers; its ends must fit 64 bits."""
    import pyarrow.compute as pc

    step, start = pa.scalar(rows.step, pa.int64()), pa.scalar(rows.start, pa.int64())
    return pc.add(pc.multiply(row_numbers(0, len(rows)), step), start)


def as_ascending(rows: Rows) -> Rows:
    """Rows as a span without gaps, or as numbers."""
    return _as_numbers(rows) if isinstance(rows, range) and rows.step != 1 else rows


def last_row(rows: Rows) -> int:
    """The number of the last of some rows; -1 if there are none."""
    if not len(rows):
        return -1
    return rows[-1] if isinstance(rows, range) else int(memory(rows)[-1])


def _rows(num_rows: int) -> str:
    return f"{-num_rows} to {num_rows - 1}" if num_rows else "none, because there are no rows"


class Taken:
    """Rows that are asked for by number, in any order and as often as they like.

    They are read in ascending order and each once. `order` has an index into those for each row of the result; None if
    the result is what was read. It is known when `among` was called.

    Examples
    --------
    >>> taken = Taken([7, 2, -3])
    >>> taken.among(10).to_pylist(), taken.order.to_pylist()
    ([2, 7], [1, 0, 1])
    """

    def __init__(self, indices: Any) -> None:
        self._indices = indices
        self.order: pa.Array | None = None

    def among(self, num_rows: int) -> pa.Int64Array:
        """The rows that are read, of so many."""
        import pyarrow.compute as pc

        numbers = parse_indices(self._indices, num_rows)
        rows = numbers.unique()
        rows = rows.take(pc.sort_indices(rows))
        self.order = None if rows.equals(numbers) else pc.index_in(numbers, value_set=rows)
        return rows


def parse_rows(rows: Any, num_rows: int) -> Rows:
    """The rows that a range, a slice or a take asks for, in ascending order.

    A slice is cut to the rows that there are, as Python cuts it; a range has to lie within them.

    Examples
    --------
    >>> parse_rows(slice(-3, None), 10), parse_rows(range(2, 8, 2), 10), parse_rows(slice(8, 99), 10)
    (range(7, 10), range(2, 8, 2), range(8, 10))
    """
    if isinstance(rows, Taken):
        return rows.among(num_rows)
    if isinstance(rows, slice):
        try:
            found = range(*rows.indices(num_rows))
        except TypeError:
            raise MosaicError("rows are a range or a slice of whole numbers", found=rows) from None
    elif isinstance(rows, range):
        found = rows
        if len(rows) and max(rows[0], rows[-1]) < 0:
            found = range(rows.start + num_rows, rows.stop + num_rows, rows.step)
        if len(found) and not (min(found[0], found[-1]) >= 0 and max(found[0], found[-1]) < num_rows):
            raise NoSuchRowError("there is no such row", found=rows, expected=_rows(num_rows))
    else:
        raise MosaicError("rows are a range or a slice; take reads any others", found=rows)
    if found.step < 0:
        raise MosaicError("rows are read in their order; take reads them in any other", found=rows)
    return found if len(found) else range(0)


def split_rows(rows: Rows, starts: Sequence[int]) -> Iterator[tuple[int, Rows]]:
    """Cut rows where parts begin, such as row groups or files; yield each part that has some, with its own numbers.

    `starts` has the number of the first row of each part, and at the end the number of all rows.

    Examples
    --------
    >>> [(part, list(rows)) for part, rows in split_rows(range(3, 9), [0, 4, 4, 10])]
    [(0, [3]), (2, [0, 1, 2, 3, 4])]
    """
    rows = as_ascending(rows)
    if isinstance(rows, range):
        part = bisect_right(starts, rows.start) - 1
        while part < len(starts) - 1 and starts[part] < rows.stop:
            found = range(max(rows.start, starts[part]), min(rows.stop, starts[part + 1]))
            if found:
                yield part, range(found.start - starts[part], found.stop - starts[part])
            part += 1
        return
    numbers, at = memory(rows), 0
    while at < len(numbers):
        part = bisect_right(starts, numbers[at]) - 1
        end = bisect_left(numbers, starts[part + 1], at)
        yield part, _counted_from(starts[part], rows, numbers, at, end)
        at = end


def memory(rows: pa.Array) -> memoryview:
    """The numbers of an array without nulls, for Python to search in."""
    return memoryview(rows.buffers()[1]).cast("q")[rows.offset : rows.offset + len(rows)]  # type: ignore[arg-type]


def rows_within(rows: pa.Array, span: range) -> pa.UInt64Array:
    """Those of ascending rows that are in a span, as indices into it."""
    numbers = memory(rows)
    start = bisect_left(numbers, span.start)
    end = bisect_left(numbers, span.stop, start)
    if span.start == 0 and start == 0 and end == len(numbers) and rows.type == pa.uint64():
        return rows  # type: ignore[return-value]
    return _counted_from(span.start, rows, numbers, start, end)


def _counted_from(first: int, rows: pa.Array, numbers: memoryview, start: int, end: int) -> pa.UInt64Array:
    """The rows from index `start` to `end`, counted from the row `first` on."""
    if end - start <= _FEW:
        return pa.array([number - first for number in numbers[start:end].tolist()], pa.uint64())
    import pyarrow.compute as pc

    found = rows.slice(start, end - start).cast(pa.int64())
    return cast("pa.UInt64Array", pc.cast(pc.subtract(found, pa.scalar(first, pa.int64())), pa.uint64()))

"""Arrow columns as NumPy arrays, by rules that depend on the type of a column and not on the values of a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._compat import arrow as compat
from smalti.errors import MosaicError
from smalti.extras import optional_module
from smalti.logical.rows import chunks_of, concat_rows
from smalti.logical.types import is_binary_like, is_string_like


def to_numpy(column: Any, name: str, fill_null: Any = None) -> Any:
    """A column as an array of NumPy, without a copy where Arrow allows it.

    Parameters
    ----------
    column : pyarrow.Array or ChunkedArray
    name : str
        For messages.
    fill_null : optional
        What nulls become, for columns whose NumPy type has no value for them.

    Notes
    -----
    Nulls of floating-point columns are NaN, of dates, times and durations NaT, of all that become Python objects
    (strings, bytes, decimals, lists of different lengths, structs) None. Other columns with nulls need `fill_null`.
    Dictionaries and runs come as their values, lists of a fixed size without nulls as arrays of two dimensions.

    Examples
    --------
    >>> to_numpy(pa.array([1.5, None]), "a").tolist(), to_numpy(pa.array([1, None]), "a", fill_null=-1).tolist()
    ([1.5, nan], [1, -1])
    """
    chunks = chunks_of(column) if isinstance(column, pa.ChunkedArray) else [column]
    column = concat_rows(list(map(_decoded, chunks)))
    type_ = column.type
    if column.null_count:
        if fill_null is not None and not pt.is_nested(type_):
            column = _filled(column, name, fill_null)
        elif pt.is_integer(type_) or pt.is_boolean(type_):
            raise MosaicError(
                f"{type_} arrays of NumPy have no nulls",
                column=name,
                found=f"{column.null_count} nulls in a batch",
                expected="fill_null, a value for all columns or a mapping of columns to values",
            )
    if pt.is_fixed_size_list(type_) and not column.null_count and not pt.is_nested(type_.value_type):
        values = to_numpy(column.flatten(), name, fill_null)
        return values.reshape(len(column), type_.list_size)
    if pt.is_list(type_) or pt.is_large_list(type_):
        return _lists(column, name, fill_null)
    is_object = pt.is_nested(type_) or pt.is_null(type_) or pt.is_decimal(type_)
    if is_object or is_string_like(type_) or is_binary_like(type_):
        return _objects(column)
    if (pt.is_integer(type_) or pt.is_floating(type_)) and not column.null_count and len(column):
        return _shared(column)
    return column.to_numpy(zero_copy_only=False)


def _decoded(array: Any) -> Any:
    """Values without extension types, dictionaries and runs. Several dictionaries may be too large for one."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_dictionary(array.type):
        return _decoded(array.dictionary_decode())
    if pt.is_run_end_encoded(array.type):
        import pyarrow.compute as pc

        return _decoded(pc.call_function("run_end_decode", [array]))
    return array


def _shared(column: Any) -> Any:
    """Numbers in the memory of an Arrow array. Where nobody else uses the memory, they may be written to.

    Arrow's own arrays of NumPy never may, about which PyTorch warns.
    """
    numpy, values = optional_module("numpy"), column.buffers()[1]
    dtype = numpy.dtype(column.type.to_pandas_dtype())
    return numpy.frombuffer(values, dtype, count=len(column), offset=column.offset * dtype.itemsize)


def _filled(column: Any, name: str, value: Any) -> Any:
    try:
        return compat.fill_nulls(column, pa.scalar(value, column.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason, expected = "fill_null does not fit the column", str(column.type)
        raise MosaicError(reason, column=name, found=str(error), expected=expected) from None


def _objects(column: Any) -> Any:
    numpy = optional_module("numpy")
    found = numpy.empty(len(column), dtype=object)
    for row, value in enumerate(column.to_pylist()):
        found[row] = value
    return found


def _lists(column: Any, name: str, fill_null: Any) -> Any:
    """An array of arrays, one for each list; None for a null."""
    if pt.is_nested(column.type.value_type):
        return _objects(column)
    found = optional_module("numpy").empty(len(column), dtype=object)
    offsets = column.offsets.to_numpy()
    values = to_numpy(column.values, name, fill_null)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    for row in range(len(column)):
        found[row] = None if is_null[row] else values[offsets[row] : offsets[row + 1]]
    return found

"""Faults and gaps of pyarrow, and a function for each that avoids it. Only functions that need a way around are here.

Each docstring says what pyarrow does and in which versions: 18.0 (the oldest that smalti takes) to 26.0.1 were tried.
"All versions" are these. An entry can go when `tests/compat/test_arrow.py` fails for it: the test runs the smallest
program that shows the fault in the installed version, or compares the last version with the fault with our minimum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MemoryLimitError, SchemaError
from smalti.logical.types import (
    contains_type,
    entry_field,
    fixed_bytes,
    map_children,
    own_buffers,
    unwrapped,
    without_extensions,
)
from smalti.memory import most_memory

# --- making arrays and batches --------------------------------------------------------------------------------------


def columnless_batch(num_rows: int, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Make a batch of rows without columns, with the metadata of `schema`. All versions: the constructors make no rows.

    Examples
    --------
    >>> columnless_batch(5).num_rows
    5
    """
    batch = pa.record_batch([pa.nulls(num_rows)], names=["no column"]).select([])
    return batch if schema is None else batch.replace_schema_metadata(schema.metadata)


#: Errors of arrays that one array cannot hold: beyond its offsets, or more dictionary values than its indices count.
TOO_LARGE = (pa.ArrowInvalid, pa.ArrowCapacityError)


def concat_arrays(arrays: Sequence[Any]) -> Any:
    """Copy arrays of one type into one array. Raise one of `TOO_LARGE` if it cannot hold them.

    All versions: runs of extension types have no kernel, and where dictionaries of half floats differ, the result has
    the bits of their values as values. `combine_chunks`, `unify_dictionaries` and `take` of chunks do the same.
    """
    type_ = arrays[0].type
    if not _is_misjoined(type_):
        return pa.concat_arrays(arrays)
    layout = _with_bits(type_)
    return _restored(pa.concat_arrays([relabelled(array, layout) for array in arrays]), type_)


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Copy batches, of which there is at least one, into one. Raise SchemaError if an array cannot hold all rows.

    All versions: see `concat_arrays`. Up to 18, `pyarrow.concat_batches` does not exist, and `combine_chunks` splits
    strings of more than 2 GiB.
    """
    rows, schema = sum(batch.num_rows for batch in batches), batches[0].schema
    if not len(schema):
        return columnless_batch(rows)
    columns = []
    if hasattr(pa, "concat_batches") and not any(map(_is_misjoined, schema.types)):
        with suppress(*TOO_LARGE):
            whole: pa.RecordBatch = pa.concat_batches(batches)
            return whole
    for index, field in enumerate(schema):
        try:
            columns.append(concat_arrays([batch.column(index) for batch in batches]))
        except TOO_LARGE as error:
            reason = str(error).partition(", consider")[0]  # Users cannot cast what is read.
            raise SchemaError(
                f"one array cannot hold the rows of a batch ({reason})",
                column=field.name,
                found=f"{rows:,} rows of {field.type}",
                expected="fewer rows in a batch",
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_misjoined(type_: Any) -> bool:
    if not (type_.num_fields or pt.is_dictionary(type_) or isinstance(type_, pa.BaseExtensionType)):
        return False
    return contains_type(type_, lambda part: _has_half_floats(part) or _has_extension_runs(part))


def unify_dictionaries(table: pa.Table) -> pa.Table:
    """Give all chunks of a column the same dictionary. All versions: wrong for half floats, see `concat_arrays`."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if column.num_chunks > 1 and contains_type(field.type, _has_half_floats):
            table = table.set_column(index, field, pa.chunked_array([concat_arrays(column.chunks)]))
    return table.unify_dictionaries()


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows. All versions: `pyarrow.Table.to_batches` has none for a table without rows."""
    return pa.RecordBatch.from_arrays([null_array(0, field.type) for field in schema], schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows. All versions: `pyarrow.Schema.empty_table` has no builder for runs, extension types, ..."""
    return pa.Table.from_batches([empty_batch(schema)])


def null_array(rows: int, type_: Any) -> Any:
    """Make an array of nulls. All versions: `pyarrow.nulls` makes invalid runs inside structs and lists.

    Refuse more than the memory holds: a file may declare a type of any size.
    """
    asked, limit = rows * fixed_bytes(type_), most_memory()
    if asked > limit:
        raise MemoryLimitError.of(asked, 0, limit)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(null_array(rows, type_.storage_type))
    if not contains_type(type_, pt.is_run_end_encoded) or pt.is_run_end_encoded(type_):
        return pa.nulls(rows, type_)
    below = rows if pt.is_struct(type_) else rows * type_.list_size if pt.is_fixed_size_list(type_) else 0
    children = [null_array(below, type_.field(i).type) for i in range(type_.num_fields)]
    zeros = pa.py_buffer(bytes(8 * (rows + 1)))  # No bit is set, and every list starts and ends at 0.
    return pa.Array.from_buffers(type_, rows, [zeros] * own_buffers(type_), children=children)


def fixed_size_lists(type_: Any, rows: int, elements: Any, validity: Any = None) -> Any:
    """Make lists of one size. All versions: `FixedSizeListArray.from_arrays` divides by a size of 0 (SIGFPE)."""
    buffers = [None if validity is None else validity.buffers()[1]]
    return pa.Array.from_buffers(type_, rows, buffers, children=[elements])


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def decimal_scalar(digits: str, type_: Any) -> pa.Scalar:
    """Parse a decimal. Raise ArrowInvalid if the string is no number, or the type cannot hold it exactly.

    All versions (GH-50964): `1e-99999999` is looked up past the end of a table of powers of ten (SIGSEGV).

    Examples
    --------
    >>> decimal_scalar("150e-2", pa.decimal128(10, 2))
    <pyarrow.Decimal128Scalar: Decimal('1.50')>
    """
    exact = Context(prec=max(1, len(digits)), Emin=MIN_EMIN, Emax=MAX_EMAX)
    with suppress(ArithmeticError):  # of exponents that Python has no numbers for
        number = exact.create_decimal(digits if _NUMBER.fullmatch(digits) else "NaN").normalize(exact)
        exponent = number.as_tuple().exponent
        fits = isinstance(exponent, int) and -type_.scale <= exponent
        if not number or (fits and number.adjusted() < type_.precision - type_.scale):
            scalar: pa.Scalar = pa.scalar(number or Decimal(0), type_)
            return scalar
    raise pa.ArrowInvalid(f"{digits} is no number that {type_} can hold")


def pandas_scalar(value: Any) -> Any:
    """A `Timestamp` or `Timedelta` of pandas as an exact scalar; None for any other value.

    All versions (GH-36035): `pyarrow.scalar` drops their nanoseconds.
    """
    for method in ("to_datetime64", "to_timedelta64"):
        if hasattr(value, method):
            ticks: Any = pa.scalar(getattr(value, method)())
            is_zoned = getattr(value, "tzinfo", None) is not None
            return ticks.cast(pa.timestamp(ticks.type.unit, "UTC")) if is_zoned else ticks
    return None


# --- parts of arrays ------------------------------------------------------------------------------------------------


def size_of(data: Any) -> int:
    """Bytes of an array, batch or table; shared buffers count in part.

    Up to 23 (GH-47279), `nbytes` raises TypeError for views, and whole buffers are counted instead.
    """
    try:
        return int(data.nbytes)
    except TypeError:
        return int(data.get_total_buffer_size())


def flatten_struct(array: Any) -> list[Any]:
    """The fields of a struct, null where the struct is, except for runs, which are returned without the nulls.

    All versions: `flatten` gives runs the validity bitmap of the struct, which runs must not have.
    """
    fields: list[Any] = array.flatten()
    for i, field in enumerate(array.type):
        if pt.is_run_end_encoded(without_extensions(field.type)):
            fields[i] = array.field(i)
    return fields


def map_entries(array: Any) -> Any:
    """A map as a list of structs. All versions: `flatten` has no kernel for maps.

    A producer may leave more keys than items in the buffers, or the other way round.
    """
    count = min(len(array.keys), len(array.items))
    children = [array.keys.slice(0, count), array.items.slice(0, count)]
    entries = pa.StructArray.from_arrays(children, fields=list(entry_field(array.type).type))
    buffers, type_ = array.buffers()[:2], pa.list_(entries.type)
    return pa.Array.from_buffers(type_, len(array), buffers, offset=array.offset, children=[entries])


def flatten_lists(array: Any) -> Any:
    """The elements of lists without extension types that have at least one, in order.

    Since 22: to flatten list views and lists beside null ones, Arrow concatenates slices as if each had a dictionary of
    its own, which is wrong for half floats (see `concat_arrays`).
    """
    return relabelled(relabelled(array, _with_bits(array.type)).flatten(), array.type.value_type)


def _has_half_floats(type_: Any) -> bool:
    return bool(pt.is_dictionary(type_) and pt.is_float16(type_.value_type))


def _has_extension_runs(type_: Any) -> bool:
    return bool(pt.is_run_end_encoded(type_) and type_.value_type != without_extensions(type_.value_type))


def _with_bits(type_: Any) -> Any:
    """The type without extension types, with integers for half floats in dictionaries."""
    type_ = unwrapped(type_)
    if _has_half_floats(type_):
        return pa.dictionary(type_.index_type, pa.uint16(), type_.ordered)
    return map_children(type_, _with_bits)


def _restored(array: Any, type_: Any) -> Any:
    """An array of `_with_bits`, which begins at the beginning of its buffers, as the type.

    The C interface would leave out extension types that are not registered.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(_restored(array, type_.storage_type))
    if array.type == type_:
        return array
    if pt.is_dictionary(type_):
        entries = array.dictionary.view(type_.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, entries, ordered=type_.ordered, safe=False)
    if pt.is_run_end_encoded(type_):
        return pa.RunEndEncodedArray.from_arrays(array.run_ends, _restored(array.values, type_.value_type))
    if pt.is_struct(type_):
        children = [array.field(i) for i in range(type_.num_fields)]
    else:
        entry = array.values if not pt.is_map(type_) else map_entries(array).values
        children = [entry]
    fields = [type_.field(i) for i in range(type_.num_fields)]
    children = [_restored(child, field.type) for child, field in zip(children, fields, strict=True)]
    return pa.Array.from_buffers(type_, len(array), array.buffers()[: own_buffers(type_)], children=children)


def relabelled(array: Any, type_: pa.DataType) -> Any:
    """An array as a type of the same layout, through the C interface.

    All versions: flattening lists of an extension type over views loses the buffers that the views point at; the
    storage type is flattened correctly. `view` and `cast` do not take every nested type.
    """
    if array.type == type_:
        return array
    return pa.Array._import_from_c_capsule(type_.__arrow_c_schema__(), array.__arrow_c_array__()[1])


def can_select(type_: Any) -> bool:
    """Whether `take` and `filter` have a kernel for a type that is right.

    All versions: none for views (GH-43010) and runs, also nested. The result for list views whose elements are views in
    an extension type points at freed memory, and that for a slice of fixed-size lists of fixed-size lists has what is
    beyond the end of their values.
    """
    type_ = unwrapped(type_)
    if pt.is_string_view(type_) or pt.is_binary_view(type_) or pt.is_run_end_encoded(type_):
        return False
    if pt.is_fixed_size_list(type_) and pt.is_fixed_size_list(unwrapped(type_.value_type)):
        return False
    return pt.is_dictionary(type_) or all(can_select(type_.field(i).type) for i in range(type_.num_fields))


# --- computing ------------------------------------------------------------------------------------------------------


def cast_offsets(array: Any, type_: pa.DataType) -> Any:
    """Cast to a type that may have smaller offsets.

    All versions: a slice behind the first 2 GiB of large strings is refused, although it is short; a copy is not.
    """
    try:
        return array.cast(type_)
    except pa.ArrowInvalid:
        if not (pt.is_large_string(array.type) or pt.is_large_binary(array.type)):
            raise
        return pa.concat_arrays([array]).cast(type_)


def cast_complete(array: Any, type_: pa.DataType) -> Any:
    """Cast to an array that has all its buffers.

    Up to 24, the data buffer of views that hold only short values is missing, and consumers of the C interface crash;
    the array is rebuilt without it.
    """
    array = array.cast(type_)
    is_view = pt.is_string_view(type_) or pt.is_binary_view(type_)
    if not is_view or all(buffer is not None for buffer in array.buffers()[2:]):
        return array
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], offset=array.offset)


def cast_exactly(array: Any, type_: Any) -> Any:
    """Cast, and refuse values that do not fit. A float may be rounded to a float of fewer digits, as is expected.

    All versions: the safe cast makes numbers infinite or rounds integers as half floats, drops the time of day of
    timestamps cast to dates, makes any number true, and cuts off digits of floats cast to decimals.
    """
    import pyarrow.compute as pc

    source, found = array.type, array.cast(type_)
    if pt.is_floating(type_) and not pt.is_float16(source):
        wide = found.cast(pa.float64())
        is_lost = pc.and_(pc.is_inf(wide), pc.is_finite(array.cast(pa.float64(), safe=False)))
        if pt.is_float16(type_) and pt.is_integer(source):
            is_lost = pc.not_equal(wide, array.cast(pa.float64(), safe=False))
    elif pt.is_timestamp(source) and pt.is_date(type_):
        local = array if source.tz is None else pc.local_timestamp(array)
        is_lost = pc.not_equal(found.cast(local.type), local)
    elif pt.is_boolean(type_) and (pt.is_integer(source) or pt.is_floating(source)):
        is_lost = pc.not_equal(found.cast(pa.float64()), array.cast(pa.float64(), safe=False))
    elif pt.is_floating(source) and pt.is_decimal(type_):
        # Digits beyond the float's own precision do not count: 0.1 is 0.10, though no floating-point number is.
        wide, share = array.cast(pa.float64()), 2.0 ** {16: -9, 32: -22, 64: -50}[source.bit_width]
        is_lost = pc.greater(pc.abs(pc.subtract(found.cast(pa.float64()), wide)), pc.multiply(pc.abs(wide), share))
    else:
        return found
    if pc.any(is_lost).as_py():
        raise pa.ArrowInvalid(f"{type_} cannot hold {array.filter(is_lost)[0].cast(pa.string())}")
    return found


def half_zero() -> Any:
    """A zero that converts to a half float. Up to 20: only values of NumPy do."""
    return pa.array([0.0]).cast(pa.float16())[0].as_py()


def fill_nulls(array: Any, value: Any) -> Any:
    """Replace nulls by a value, or return None. Nulls of decimals and half floats become 0.

    Up to 20, half floats have no kernel. All versions: decimals become wider ones, which may be beyond the widest, and
    views have no kernel.
    """
    import pyarrow.compute as pc

    if pt.is_float16(array.type) or pt.is_decimal(array.type):
        bits = pa.binary(array.type.bit_width // 8)
        return array.view(bits).fill_null(bytes(bits.byte_width)).view(array.type)
    with suppress(pa.ArrowNotImplementedError):
        return pc.coalesce(array, pa.scalar(value, array.type))
    return None


def as_comparable(array: Any) -> Any:
    """An array or a scalar in a type that can be compared.

    All versions: no comparison of half floats, which become floats, nor of decimals with a negative scale, which are
    compared by their digits.
    """
    type_ = array.type
    if not (pt.is_float16(type_) or has_negative_scale(type_)):
        return array
    if isinstance(array, pa.Scalar):
        return as_comparable(pa.array([array], type_))[0]
    if pt.is_float16(type_):
        return array.cast(pa.float32())
    digits = (pa.decimal256 if pt.is_decimal256(type_) else pa.decimal128)(type_.precision, 0)
    return pa.Array.from_buffers(digits, len(array), array.buffers(), offset=array.offset)


def min_max(array: Any) -> Any:
    """The least and the greatest value, as an array of two.

    All versions (GH-33891): durations have no kernel, and neither have numbers of 16 bits.
    """
    import pyarrow.compute as pc

    if pt.is_float16(array.type):
        return min_max(array.cast(pa.float32())).cast(array.type)
    if pt.is_duration(array.type):
        return min_max(array.view(pa.int64())).view(array.type)
    ends: Any = pc.min_max(array)
    return pa.concat_arrays([pa.repeat(ends[end], 1) for end in ("min", "max")])


# --- other formats --------------------------------------------------------------------------------------------------


def has_negative_scale(type_: Any) -> bool:
    """Whether a type is a decimal with a negative scale.

    All versions: the ORC and Parquet writers fail on it (ORC's ends the process), and it cannot be compared.
    """
    return bool(pt.is_decimal(type_) and type_.scale < 0)


def loses_unit(type_: Any) -> bool:
    """Whether the reader of Parquet loses the unit. All versions: durations in dictionaries become integers."""
    return bool(pt.is_dictionary(type_) and pt.is_duration(type_.value_type))


def extends_dictionaries(type_: Any) -> bool:
    """Whether an extension type stored as a dictionary is in a type.

    All versions: `ParquetFile.iter_batches` ends the process at it; `read_row_group` does not.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return contains_type(type_.storage_type, pt.is_dictionary)
    return any(extends_dictionaries(type_.field(i).type) for i in range(type_.num_fields))

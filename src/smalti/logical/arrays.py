"""Arrays shredded into stored columns and assembled from them: structs to columns, Arrow types to stored types.

`smalti.logical.tree` and `smalti.logical.types` decide which type is stored as which. Imported only when an array must
be converted, because Arrow's compute functions take long to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat import arrow as compat
from smalti.errors import CorruptFileError, MemoryLimitError, SchemaError
from smalti.logical.dictionaries import Dictionary
from smalti.logical.fixed_size import bytes_to_decimals, decimals_to_bytes, take_fixed, to_fixed_size
from smalti.logical.tree import Leaf, Node, StructNode
from smalti.logical.types import (
    compared_type,
    entry_field,
    is_binary_like,
    is_legacy_timestamp,
    is_list_like,
    is_string_like,
    own_buffers,
    storage_type,
    unwrapped,
    with_element,
    without_extensions,
)
from smalti.moments import DAY, TICKS
from smalti.mosaic.rows import row_numbers

#: Called with a leaf and the entries of its dictionaries.
KeepEntries = Callable[[Leaf, Sequence[pa.Array]], None]
#: Called with a number of bytes before they are allocated; raises if they are too many.
TakeBytes = Callable[[int], None]
#: Most values of a dictionary for each row of a batch. Of a larger one, rows that wait for their row group keep only
#: the values that they use.
MAX_VALUES_PER_ROW = 4

# --- from given arrays to stored ones -------------------------------------------------------------------------------


def shred(array: Any, node: Node, nulls: int | None = None, keep: KeepEntries | None = None) -> list[pa.Array]:
    """The stored columns of an array, in the order of `smalti.logical.tree.stored_columns`.

    `nulls` is the number of nulls allowed, None for any. A NOT NULL field may be null only where its struct is; stored
    columns do not show the difference, so it is checked here.

    Raise SchemaError if a value does not fit, as for `to_stored`, or if there are more nulls.
    """
    if isinstance(node, Leaf):
        dictionaries = [] if keep is None else list(_dictionaries_in(array))
        if keep is not None and dictionaries:
            keep(node, dictionaries)
        array = to_stored(array, node.stored) if keep is None else _to_indices(array, node.stored)
    else:
        array = _unwrapped(array)
    if nulls is not None and array.null_count > nulls:
        raise SchemaError("nulls in a column that is NOT NULL", found=array.null_count - nulls)
    if isinstance(node, Leaf):
        return [array]
    if isinstance(node, StructNode):
        columns = [array.is_valid()] if node.has_presence else []
        for (_, inner), field, child in zip(node.fields, unwrapped(node.type), struct_fields(array), strict=True):
            columns += shred(child, inner, None if field.nullable else array.null_count, keep)
        return columns
    offsets, mask, elements = list_elements(array)
    parts = shred(elements, node.entry, None if entry_field(node.type).nullable else 0, keep)
    return [pa.ListArray.from_arrays(offsets, part, mask=mask) for part in parts]


def _unwrapped(array: Any) -> Any:
    """The array without extension types around it."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _dictionaries_in(array: Any) -> Iterator[Any]:
    """The entries of each dictionary in an array without structs. A map may have two: of its keys and of its items."""
    array = _unwrapped(array)
    if pt.is_dictionary(array.type):
        yield array.dictionary
    elif pt.is_map(array.type):
        yield from chain(_dictionaries_in(array.keys), _dictionaries_in(array.items))
    elif is_list_like(array.type) or pt.is_run_end_encoded(array.type):
        yield from _dictionaries_in(array.values)


def to_stored(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, which must be the `storage_type` of its type.

    Raise SchemaError if a value does not fit, such as a date64 with a time of day.
    """
    if not len(array):
        return pa.array([], target)  # An empty array may lack its buffers, which Arrow's functions do not expect.
    try:
        stored: pa.Array = array if array.type == target else _convert(array, target)
        return stored
    except pa.ArrowInvalid as error:
        raise SchemaError(f"values cannot be stored as {target}", found=str(error)) from None


def _convert(array: Any, target: pa.DataType) -> Any:
    source = array.type
    if isinstance(source, pa.BaseExtensionType):
        return to_stored(array.storage, target)
    if pt.is_dictionary(source):  # Converts the few entries, not the many values. Arrow decodes stored types only.
        entries = to_stored(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, entries).dictionary_decode()
    if pt.is_run_end_encoded(source):
        return decode_runs(array, to_stored(array.values, target))
    if is_list_like(source) or pt.is_map(source):
        return rebuild(array, target, to_stored)
    if is_legacy_timestamp(source):
        millis, nanos = array.flatten()
        if millis.null_count != array.null_count or nanos.null_count != array.null_count:
            raise SchemaError("a field of a timestamp is null, which TIMESTAMP cannot say", found=str(source))
        if not _all_between(nanos, 0, 999_999):
            raise SchemaError("nanos_of_milli out of range", expected="0 to 999999")
        return pc.add_checked(pc.multiply_checked(millis, 1_000_000), nanos.cast(pa.int64())).cast(target)
    if pt.is_date64(source):
        days = array.cast(pa.date32(), safe=False)
        if not pc.all(pc.equal(days.cast(pa.date64()), array), min_count=0).as_py():
            raise SchemaError("date64 holds a time of day, which DATE cannot")
        return days
    if pt.is_time32(source):
        _check_time(array.cast(pa.int32()), source.unit)  # first, because Arrow's cast overflows without an error
    if pt.is_time64(source):
        return _check_time(array.cast(target), source.unit)
    if pt.is_decimal256(source) and pt.is_binary(target):
        return decimals_to_bytes(array)
    return compat.cast_offsets(array, target)


def _to_indices(array: Any, target: Any) -> Any:
    """As `to_stored`, but a dictionary stays one, of stored values, which writers take without expanding it."""
    given = _unwrapped(array)
    if not pt.is_dictionary(given.type) or pt.is_nested(target) or given.dictionary.null_count:
        return to_stored(array, target)
    if not len(given) or not 0 < len(given.dictionary) < 1 << 31:
        return to_stored(array, target)
    indices, values = given.indices, to_stored(given.dictionary, target)
    if len(values) > MAX_VALUES_PER_ROW * len(given):
        used = indices.dictionary_encode()
        indices, values = used.indices, values.take(used.dictionary)
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values, safe=False)


def decode_runs(array: Any, values: Any) -> Any:
    """Expand runs, with `values` instead of their own: Arrow has a kernel for stored types, and not for views."""
    runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, values)
    return pc.call_function("run_end_decode", [runs.slice(array.offset, len(array))])


def _check_time(ticks: Any, unit: str) -> Any:
    """Refuse ticks that are no time of day, which are not valid in Arrow either."""
    if not _all_between(ticks, 0, DAY * TICKS[unit] - 1):
        raise SchemaError("time is outside a day")
    return ticks


def _all_between(array: Any, low: int, high: int) -> bool:
    above, below = pc.greater_equal(array, pa.scalar(low)), pc.less_equal(array, pa.scalar(high))
    return bool(pc.all(pc.and_(above, below), min_count=0).as_py())


# --- parts of nested arrays -----------------------------------------------------------------------------------------


def rebuild(
    array: Any, target: Any, convert: Callable[[pa.Array, pa.DataType], pa.Array], take: TakeBytes | None = None
) -> Any:
    """A list or map of any layout as the list or map `target`, with its children changed by `convert`."""
    offsets, mask, elements = list_elements(array)
    if not pt.is_map(target):
        return _as_lists(offsets, mask, convert(elements, target.value_type), target, take or _take_any)
    keys, items = elements.flatten()
    return _as_maps(offsets, mask, convert(keys, target.key_type), convert(items, target.item_type), target)


def rebuild_struct(array: Any, target: Any, convert: Callable[[pa.Array, pa.DataType], pa.Array]) -> Any:
    """A struct as the struct `target`: fields by name, changed by `convert`, nulls for missing fields."""
    given = dict(zip([field.name for field in array.type], struct_fields(array), strict=True))
    children = [
        convert(given[field.name], field.type) if field.name in given else compat.null_array(len(array), field.type)
        for field in target
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def struct_fields(array: Any) -> list[Any]:
    """The fields of a struct, null where the struct is. Runs in a struct that has nulls are decoded."""
    fields = compat.flatten_struct(array)
    for i, field in enumerate(array.type if array.null_count else ()):
        runs: Any = without_extensions(field.type)
        if pt.is_run_end_encoded(runs):
            stored = pc.if_else(array.is_valid(), to_stored(fields[i], storage_type(runs)), None)
            fields[i] = from_stored(stored, runs.value_type)
    return fields


def list_elements(array: Any) -> tuple[pa.Int32Array, pa.BooleanArray | None, Any]:
    """The offsets of lists among their elements, which lists are null (None: no list is), and the elements.

    Offsets follow from the lengths, which all layouts have: slices, list views, fixed-size lists. Elements that a null
    list has in its buffers are left out, so that only valid values are converted. Elements have no extension types.
    """
    array = compat.relabelled(array, without_extensions(array.type))
    if pt.is_map(array.type):
        array = compat.map_entries(array)
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    count = offsets[-1].as_py()
    if count >= 1 << 31:
        raise SchemaError("lists of a batch have too many values", found=count, expected="below 2^31")
    # Lists without elements are not flattened: Arrow cannot make an empty array of every type.
    elements = compat.flatten_lists(array) if count else array.values.slice(0, 0)
    return offsets.cast(pa.int32()), array.is_null() if array.null_count else None, elements


# --- from stored arrays to given types ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One column of a result, made of the stored columns of a batch from index `start` on.

    `entries` has the dictionary of each of these columns where it is known.
    """

    field: pa.Field
    node: Node
    start: int
    entries: Sequence[pa.Array | Dictionary | None]


def assemble(schema: pa.Schema, parts: Sequence[Part | int], batch: pa.RecordBatch, take: TakeBytes) -> pa.RecordBatch:
    """Make a batch of `schema` from a stored one. An int in `parts` is the index of a stored column used unchanged.

    Raise CorruptFileError if stored columns do not fit the companion. An assembled column takes about as much memory as
    the stored one; `take` is called where it takes more.
    """
    arrays = []
    for part in parts:
        if isinstance(part, int):
            arrays.append(batch.column(part))
            continue
        columns = ((batch.column(index), entries) for index, entries in enumerate(part.entries, part.start))
        try:
            arrays.append(_assemble(part.node, columns, take))
        except (MemoryLimitError, MemoryError):  # Arrow's own is an ArrowException, too.
            raise
        except (pa.ArrowException, ValueError, TypeError) as error:  # also of smalti and of extension types
            raise misfit(part.field.name, error) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def misfit(column: str, error: Exception) -> CorruptFileError:
    """The error of a stored column that cannot be converted to the type in the companion."""
    return CorruptFileError(f"column does not fit what the companion says of it ({error})", column=column)


def _assemble(node: Node, columns: Iterator[tuple[Any, pa.Array | Dictionary | None]], take: TakeBytes) -> Any:
    """Make an array of the next stored columns, each with its dictionary where it is known."""
    if isinstance(node, Leaf):
        array, entries = next(columns)
        return from_stored(array, node.type, entries, take)
    type_ = unwrapped(node.type)
    if isinstance(node, StructNode):
        presence = next(columns)[0] if node.has_presence else None
        children = [_assemble(inner, columns, take) for _, inner in node.fields]
        return _wrapped(_as_struct(type_, presence, children), node.type)
    lists, dictionaries = zip(*islice(columns, node.width), strict=True)
    lengths = pc.list_value_length(lists[0])
    if not all(pc.list_value_length(other).equals(lengths) for other in lists[1:]):
        raise CorruptFileError("lists of one column differ in length")
    offsets, mask, first = list_elements(lists[0])
    elements = first, *(other.flatten() for other in lists[1:])
    entry = _assemble(node.entry, zip(elements, dictionaries, strict=True), take)
    return _wrapped(_as_lists(offsets, mask, entry, type_, take), node.type)


def assemble_array(node: Node, type_: Any, stored: Sequence[pa.Array]) -> Any:
    """Make one array of the stored columns of a node. `type_` is that of a leaf, which may be compared in another."""
    if isinstance(node, Leaf):
        return from_stored(stored[0], type_)
    array = _assemble(node, ((each, None) for each in stored), _take_any)
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _wrapped(array: Any, type_: Any) -> Any:
    """Wrap an array in an extension type, which may wrap other extension types; return it unchanged for other types."""
    is_wrapped = isinstance(type_, pa.BaseExtensionType)
    return type_.wrap_array(_wrapped(array, type_.storage_type)) if is_wrapped else array


def _as_struct(type_: Any, presence: Any, children: list[Any]) -> Any:
    children = [
        child if field.nullable or not child.null_count else _without_nulls(child, presence)
        for field, child in zip(type_, children, strict=True)
    ]
    if presence is None:
        return pa.StructArray.from_arrays(children, fields=list(type_))
    if presence.null_count:
        raise CorruptFileError("a struct-presence column has nulls")
    if presence.offset == 0:  # Its values are the bitmap that Arrow wants.
        return pa.Array.from_buffers(type_, len(presence), [presence.buffers()[1]], children=children)
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=pc.invert(presence))


def _without_nulls(array: Any, presence: Any) -> Any:
    """A NOT NULL field, with any value in place of the nulls of its struct, because Parquet allows no nulls there."""
    if presence is not None and pc.any(pc.and_(presence, array.is_null())).as_py():
        raise CorruptFileError("a field that is NOT NULL has nulls")
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(_without_nulls(array.storage, None))
    if pt.is_dictionary(type_):
        if not len(array.dictionary):
            return array
        return pa.DictionaryArray.from_arrays(array.indices.fill_null(0), array.dictionary, ordered=type_.ordered)
    filled = compat.fill_nulls(array, _any_value(type_))
    if filled is None and pt.is_fixed_size_list(type_):  # Null lists have elements too, which are valid values.
        return pa.Array.from_buffers(type_, len(array), [None], offset=array.offset, children=[array.values])
    return array if filled is None else filled


def _any_value(type_: Any) -> Any:
    """A value that a type can hold, for Arrow to convert."""
    if pt.is_null(type_):
        return None
    if pt.is_fixed_size_binary(type_):
        return bytes(type_.byte_width)
    if is_string_like(type_) or is_binary_like(type_):
        return "" if is_string_like(type_) else b""
    if pt.is_fixed_size_list(type_):
        return [None if type_.value_field.nullable else _any_value(type_.value_type)] * type_.list_size
    if is_list_like(type_) or pt.is_map(type_):
        return []
    if pt.is_struct(type_):
        return {field.name: None if field.nullable else _any_value(field.type) for field in type_}
    if pt.is_float16(type_):
        return compat.half_zero()
    return False if pt.is_boolean(type_) else 0


def _as_maps(offsets: Any, mask: Any, keys: Any, items: Any, type_: Any) -> Any:
    return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)


def _as_lists(offsets: Any, mask: Any, elements: Any, type_: Any, take: TakeBytes) -> Any:
    """Lists of any layout, or maps, whose elements are structs of a key and an item."""
    if pt.is_map(type_):
        keys, items = elements.flatten()
        return _as_maps(offsets, mask, keys, items, type_)
    if pt.is_list(type_):
        return pa.ListArray.from_arrays(offsets, elements, type=type_, mask=mask)
    if pt.is_large_list(type_):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), elements, type=type_, mask=mask)
    starts = offsets.slice(0, len(offsets) - 1)
    lengths = pc.subtract(offsets.slice(1), starts)
    if pt.is_fixed_size_list(type_):
        return _as_fixed_size_lists(starts, lengths, mask, elements, type_, take)
    views: Any = pa.ListViewArray
    if pt.is_large_list_view(type_):
        views, starts, lengths = pa.LargeListViewArray, starts.cast(pa.int64()), lengths.cast(pa.int64())
    return views.from_arrays(starts, lengths, elements, type=type_, mask=mask)


def _as_fixed_size_lists(starts: Any, lengths: Any, mask: Any, elements: Any, type_: Any, take: TakeBytes) -> Any:
    """Lists of one size: their elements unchanged, or with elements inserted for null lists."""
    size, rows = type_.list_size, len(lengths)
    if mask is not None:
        take_fixed(rows, type_, elements, take)
    present = lengths if mask is None else lengths.filter(pc.invert(mask))
    if not pc.all(pc.equal(present, size), min_count=0).as_py():
        raise CorruptFileError("a list of fixed size has another one", expected=size)
    if mask is None or not size:
        return compat.fixed_size_lists(type_, rows, elements, None if mask is None else pc.invert(mask))
    number = pc.subtract(pc.cumulative_sum(pc.invert(mask).cast(pa.int64())), 1)
    dense = compat.fixed_size_lists(type_, len(present), elements)
    if compat.can_select(type_):
        return dense.take(pc.if_else(mask, pa.scalar(None, pa.int64()), number))
    return compat.fixed_size_lists(type_, rows, _spread(elements, starts, size), pc.invert(mask))


def _spread(elements: Any, starts: Any, size: int) -> Any:
    """`size` elements from each start on. Arrow requires elements below null lists: any will do."""
    if not len(elements):
        return compat.null_array(len(starts) * size, elements.type)
    indices = pa.array(range(len(starts) * size), pa.int64())
    rows = pc.divide(indices, size)
    within = pc.subtract(indices, pc.multiply(rows, size))
    last = pa.scalar(len(elements) - size, pa.int64())
    return take_rows(elements, pc.add(pc.min_element_wise(starts.cast(pa.int64()).take(rows), last), within))


def _take_any(_: int) -> None:
    """Count nothing, for arrays that are in memory already."""


def from_stored(
    array: Any, type_: Any, entries: pa.Array | Dictionary | None = None, take: TakeBytes = _take_any
) -> Any:
    """A stored array as the type it was given with, undoing `to_stored`. `entries` are the entries of a dictionary."""
    if array.type == type_:
        return array
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(from_stored(array, type_.storage_type, entries, take))
    if pt.is_dictionary(type_):
        return _encode_dictionary(array, type_, entries)
    if pt.is_run_end_encoded(type_):
        runs: Any = pc.call_function("run_end_encode", [array], pc.RunEndEncodeOptions(type_.run_end_type))
        return pa.RunEndEncodedArray.from_arrays(runs.run_ends, from_stored(runs.values, type_.value_type))
    if pt.is_null(type_):
        return pa.nulls(len(array))
    if is_list_like(type_) or pt.is_map(type_):
        return rebuild(array, type_, partial(from_stored, entries=entries, take=take), take)
    if is_legacy_timestamp(type_):
        return pa.StructArray.from_arrays(_split_nanoseconds(array), fields=list(type_), mask=array.is_null())
    if pt.is_decimal256(type_) and pt.is_binary(array.type):
        return bytes_to_decimals(array, type_)
    if pt.is_fixed_size_binary(type_):
        take_fixed(len(array), type_, array, take)
        return to_fixed_size(array, type_)
    if pt.is_float16(type_):
        return array.cast(type_, safe=False)
    if pt.is_time64(type_) and pt.is_int64(array.type):
        return _check_time(array, type_.unit).cast(type_)
    return compat.cast_complete(array, type_)


def _encode_dictionary(array: Any, type_: Any, entries: pa.Array | Dictionary | None) -> pa.Array:
    """Values, or indices, as a dictionary: with the given entries, or else in the order of the values."""
    if pt.is_dictionary(array.type):  # decoded with a dictionary of its own
        values = from_stored(array.dictionary, type_.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=type_.ordered, safe=False)
    if isinstance(entries, Dictionary) and entries.values is not None:
        return pa.DictionaryArray.from_arrays(array, entries.values, ordered=type_.ordered, safe=False)
    if entries is None or isinstance(entries, Dictionary):
        # The stored values are encoded, because Arrow has no kernel for dictionaries of every type.
        encoded = array.dictionary_encode()
        indices, entries = encoded.indices, from_stored(encoded.dictionary, type_.value_type)
    else:
        indices = pc.index_in(array, value_set=to_stored(entries, array.type), skip_nulls=True)
        if indices.null_count != array.null_count:
            raise CorruptFileError("a value is not in the dictionary")
    return pa.DictionaryArray.from_arrays(indices.cast(type_.index_type), entries, ordered=type_.ordered)


def _split_nanoseconds(array: Any) -> tuple[pa.Array, pa.Array]:
    """Milliseconds, rounded down, and the remaining nanoseconds."""
    nanoseconds = array.cast(pa.int64()).fill_null(0)
    millis = pc.divide(nanoseconds, 1_000_000)
    rest = pc.subtract(nanoseconds, pc.multiply(millis, 1_000_000))
    is_below = pc.less(rest, pa.scalar(0, pa.int64()))
    return (
        pc.if_else(is_below, pc.subtract(millis, 1), millis),
        pc.if_else(is_below, pc.add(rest, 1_000_000), rest).cast(pa.int32()),
    )


# --- rows and comparisons -------------------------------------------------------------------------------------------


def take_rows(array: Any, rows: Any) -> Any:
    """Take rows of an array of any type, null where a row is null; where Arrow cannot, part by part.

    Dictionaries keep their values, in their order.
    """
    if compat.can_select(array.type):
        return array.take(rows)
    if not len(array):  # All rows are null.
        return compat.null_array(len(rows), array.type)
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(take_rows(array.storage, rows))
    if pt.is_run_end_encoded(type_):
        return _take_runs(array.values, decode_runs(array, row_numbers(0, len(array.values))).take(rows), type_)
    if pt.is_struct(type_):
        is_absent = array.is_null().take(rows).fill_null(True)
        rows = rows.fill_null(0)  # A field that is NOT NULL has a value below a null struct, too.
        children = [take_rows(array.field(at), rows) for at in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=is_absent)
    if is_list_like(type_) or pt.is_map(type_):
        offsets, mask, wanted = list_elements(_numbered(array).take(rows))
        if pt.is_map(type_):
            return _as_maps(offsets, mask, take_rows(array.keys, wanted), take_rows(array.items, wanted), type_)
        return _as_lists(offsets, mask, take_rows(array.values, wanted), type_, _take_any)
    return from_stored(to_stored(array, storage_type(type_)).take(rows), type_)


def _take_runs(values: Any, rows: Any, type_: Any) -> Any:
    runs: Any = pc.call_function("run_end_encode", [rows], pc.RunEndEncodeOptions(type_.run_end_type))
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, take_rows(values, runs.values))


def _numbered(array: Any) -> Any:
    """Lists, or maps, with the number of each element in place of the element."""
    numbers = row_numbers(0, len(array.items if pt.is_map(array.type) else array.values))
    type_ = pa.list_(pa.int64()) if pt.is_map(array.type) else with_element(array.type, pa.field("item", pa.int64()))
    buffers = array.buffers()[: own_buffers(type_)]
    lists = pa.Array.from_buffers(type_, len(array), buffers, offset=array.offset, children=[numbers])
    offsets, mask, elements = list_elements(lists)
    return pa.ListArray.from_arrays(offsets, elements, mask=mask)


def as_compared(array: Any) -> Any:
    """An array in the type that filters compare it in, which has the same order and can be sorted."""
    array = _unwrapped(array)
    type_ = compared_type(array.type)
    return array if array.type == type_ else from_stored(to_stored(array, storage_type(array.type)), type_)

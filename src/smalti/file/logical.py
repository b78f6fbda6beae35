"""Arrays changed to what is stored and back: structs to columns, types without one of their own to others.

`smalti.nesting` and `smalti.types` decide what is stored as what. Imported only when there is something to change:
Arrow's compute functions take long to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import CorruptFileError, MemoryLimitError, SchemaError
from smalti.file.casting import MAX_BYTES, contains_kind, fixed_bytes, null_array, own_buffers
from smalti.memory import size_of
from smalti.nesting import (
    Group,
    Leaf,
    Node,
    Wrapped,
    entry_field,
    plan_column,
    width,
    with_entry,
    without_extensions,
)
from smalti.spec import MAX_BLOCK_SIZE
from smalti.types import is_legacy_timestamp, is_list_like, storage_type

#: Type stubs of pyarrow do not know the functions for runs.
_run_ends: Any = pc
#: Called with a leaf's place among the stored columns of its column and the entries of its dictionary.
KeepEntries = Callable[[int, pa.Array], None]
#: Called with a number of bytes before they are allocated; raises if they are too many.
TakeBytes = Callable[[int], None]

# --- from what is given to what is stored -------------------------------------------------------------------------


def shred(array: pa.Array, node: Node, nullable: bool = True, keep: KeepEntries | None = None) -> list[pa.Array]:
    """The stored columns of an array, in the order of `smalti.nesting.stored_columns`.

    Raises
    ------
    SchemaError
        If a value does not fit, such as a date64 with a time of day, or a null where there must be none.
    """
    out: list[pa.Array] = []
    _shred(array, node, None if nullable else 0, out, keep)
    return out


def _shred(array: Any, node: Node, nulls: int | None, out: list[pa.Array], keep: KeepEntries | None) -> None:
    """`nulls` is how many nulls the array may have, None for any number: a NOT NULL field has those of its struct.

    What is stored does not tell a null of the field from one of the struct, so nobody could notice later.
    """
    if isinstance(node, Leaf):
        entries = None if keep is None else _entries_of(array)
        if keep is not None and entries is not None:
            keep(len(out), entries)
        out.append(to_stored(array, node.stored))
        _check_nulls(out[-1], nulls)
    elif isinstance(node, Wrapped):
        _shred(getattr(array, "storage", array), node.inner, nulls, out, keep)
    elif isinstance(node, Group):
        _check_nulls(array, nulls)
        if node.has_presence:
            out.append(array.is_valid())
        for (_, inner), field, child in zip(node.fields, node.type, struct_fields(array), strict=True):
            _shred(child, inner, None if field.nullable else array.null_count, out, keep)
    else:
        _check_nulls(array, nulls)
        offsets, mask, elements = list_elements(array)
        start = len(out)
        keep_below = None if keep is None else lambda place, entries: keep(start + place, entries)
        for part in shred(elements, node.entry, entry_field(node.type).nullable, keep_below):
            out.append(pa.ListArray.from_arrays(offsets, part, mask=mask))


def _check_nulls(array: Any, most: int | None) -> None:
    if most is not None and array.null_count > most:
        raise SchemaError("nulls in a column that is NOT NULL", found=array.null_count - most)


def _entries_of(array: Any) -> Any:
    """The entries of a dictionary, also of one in lists."""
    while is_list_like(array.type):
        array = array.values
    return array.dictionary if pt.is_dictionary(array.type) else None


def to_stored(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, which must be the `storage_type` of its type.

    Raises
    ------
    SchemaError
        If a value does not fit, such as a date64 with a time of day.
    """
    if not len(array):
        return pa.array([], target)  # an empty array may lack its buffers, which Arrow's functions do not expect
    try:
        stored: pa.Array = array if array.type == target else _change(array, target)
        return stored
    except pa.ArrowInvalid as error:
        raise SchemaError(f"values cannot be stored as {target}", found=str(error)) from None


def _change(array: Any, target: pa.DataType) -> Any:
    source = array.type
    if isinstance(source, pa.BaseExtensionType):
        return to_stored(array.storage, target)
    if pt.is_dictionary(source):
        # Changes the few entries, not the many values. Arrow could not decode dictionaries of every type either.
        entries = to_stored(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, entries).dictionary_decode()
    if pt.is_run_end_encoded(source):
        # Changes the values of the runs: Arrow cannot expand runs of every type.
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, to_stored(array.values, target))
        return _run_ends.run_end_decode(runs.slice(array.offset, len(array)))
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
    if pt.is_time32(source) and not _all_between(array.cast(pa.int32()), 0, 86_399):
        raise SchemaError("time is outside a day")  # Arrow's cast would multiply it to one that may be inside.
    if pt.is_time64(source):
        return _within_a_day(array.cast(target), source)
    if pt.is_decimal256(source) and pt.is_binary(target):
        return _decimals_to_bytes(array)
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        if not (pt.is_large_string(source) or pt.is_large_binary(source)):
            raise
        # Arrow looks where texts lie, not how long they are: a slice behind the first 2 GiB has to be moved.
        return pa.concat_arrays([array]).cast(target)


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
    """A struct as the struct `target`: fields by name, changed by `convert`, nulls for those that are not there."""
    given = dict(zip([field.name for field in array.type], struct_fields(array), strict=True))
    children = [
        convert(given[field.name], field.type) if field.name in given else null_array(len(array), field.type)
        for field in target
    ]
    if not children:
        return array.cast(target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def struct_fields(array: Any) -> list[Any]:
    """The fields of a struct, null where the struct is.

    Arrow gives runs the bitmap of the struct, which they have no place for: where there are nulls, they come as plain
    values.
    """
    fields: list[Any] = array.flatten()
    for i, field in enumerate(array.type):
        runs = without_extensions(field.type)
        if pt.is_run_end_encoded(runs):
            fields[i] = array.field(i)
            if array.null_count:
                stored = pc.if_else(array.is_valid(), to_stored(fields[i], storage_type(runs)), None)
                fields[i] = from_stored(stored, runs.value_type)
    return fields


def list_elements(array: Any) -> tuple[pa.Int32Array, pa.BooleanArray | None, Any]:
    """Where each list starts among all elements (and where the last one ends), which lists are null, the elements.

    Told by lengths and elements, which all layouts have: slices, list views, fixed-size lists. Elements that a null
    list has in its buffers are left out, so that only values that count are looked at. Elements are as Arrow lays them
    out, without extension types: putting together those of views, Arrow forgets the buffers that views point at.
    """
    bare = without_extensions(array.type)
    if array.type != bare:
        seen: Any = _SeenAs(array, bare)
        array = pa.array(seen)
    if pt.is_map(array.type):  # Maps cannot be flattened, lists of their entries can.
        count = min(len(array.keys), len(array.items))  # A producer may leave more of one than of the other.
        children = [array.keys.slice(0, count), array.items.slice(0, count)]
        entries = pa.StructArray.from_arrays(children, fields=list(entry_field(array.type).type))
        buffers, type_ = array.buffers()[:2], pa.list_(entries.type)
        array = pa.Array.from_buffers(type_, len(array), buffers, offset=array.offset, children=[entries])
    if pt.is_fixed_size_list(array.type) and not array.null_count:
        size = array.type.list_size
        if size * len(array) >= 1 << 31:
            raise SchemaError("lists of a batch have too many values", found=size * len(array), expected="below 2^31")
        steps = pa.concat_arrays(
            [pa.repeat(pa.scalar(0, pa.int32()), 1), pa.repeat(pa.scalar(size, pa.int32()), len(array))]
        )
        return pc.cumulative_sum(steps), None, array.flatten()
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    # Arrow cannot make an empty array of every type, which is what it makes of lists that have no elements.
    elements = _flatten(array) if offsets[-1].as_py() else array.values.slice(0, 0)
    return offsets, array.is_null() if array.null_count else None, elements


@dataclass(frozen=True)
class _SeenAs:
    """An array, for Arrow to take as another type of the same layout."""

    array: Any
    type: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def _flatten(array: Any) -> Any:
    """The elements of lists, in order.

    Arrow puts the pieces of views and between null lists together as if each had a dictionary of its own, and mistakes
    half floats when it unites them if one is NaN. Of such, the places are put together, and their rows taken.
    """
    if not contains_kind(array.type.value_type, _has_half_floats):
        return array.flatten()
    places = pa.array(range(len(array.values)), pa.int64())
    type_ = with_entry(array.type, pa.field("place", pa.int64()))
    buffers = array.buffers()[: own_buffers(type_)]
    lists: Any = pa.Array.from_buffers(type_, len(array), buffers, offset=array.offset, children=[places])
    return take_rows(array.values, lists.flatten())


def _has_half_floats(type_: Any) -> bool:
    return bool(pt.is_dictionary(type_) and pt.is_float16(type_.value_type))


def _within_a_day(ticks: Any, type_: Any) -> Any:
    """Refuse ticks that are no time of day, which are no valid Arrow either."""
    if not _all_between(ticks, 0, 86_400 * (10**6 if type_.unit == "us" else 10**9) - 1):
        raise SchemaError("time is outside a day")
    return ticks


def _all_between(array: Any, low: int, high: int) -> bool:
    above, below = pc.greater_equal(array, pa.scalar(low)), pc.less_equal(array, pa.scalar(high))
    return bool(pc.all(pc.and_(above, below), min_count=0).as_py())


def _decimals_to_bytes(array: Any) -> pa.Array:
    """Decimals of more than 38 digits as 32 bytes each, big endian, two's complement."""
    array.validate(full=True)  # Digits beyond the precision would be refused when they are read.
    data = memoryview(array.buffers()[1])[array.offset * 32 :] if len(array) else b""
    values = [bytes(data[at : at + 32][::-1]) for at in range(0, 32 * len(array), 32)]
    return pa.array(values, pa.binary(), mask=array.is_null())


# --- from what is stored to what was given ------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One column of a result: its stored columns are `places` of the batch, `entries` their dictionaries, if known."""

    field: pa.Field
    node: Node
    places: Sequence[int]
    entries: Sequence[pa.Array | None]


@dataclass(frozen=True)
class Assembly:
    """Batches as they are stored, made into batches of `schema`; a `parts` that is a place is taken as it is."""

    schema: pa.Schema
    parts: Sequence[Part | int]

    def assemble(self, batch: pa.RecordBatch, take: TakeBytes) -> pa.RecordBatch:
        """Raises CorruptFileError if stored columns cannot be what the companion says.

        What is made of a column takes about as much memory as the column; `take` is told where it takes more.
        """
        arrays = []
        for part in self.parts:
            if isinstance(part, int):
                arrays.append(batch.column(part))
                continue
            columns = zip([batch.column(place) for place in part.places], part.entries, strict=True)
            try:
                arrays.append(_assemble(part.node, columns, take))
            except MemoryLimitError:
                raise
            except (pa.ArrowException, ValueError, TypeError) as error:  # also those of ours, and of extension types
                raise misfit(part.field.name, error) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def misfit(column: str, error: Exception) -> CorruptFileError:
    """The error of a stored column that cannot be what it is said to be, with what came of trying."""
    return CorruptFileError(f"column does not fit what the companion says of it ({error})", column=column)


def _assemble(node: Node, columns: Iterator[tuple[Any, pa.Array | None]], take: TakeBytes) -> Any:
    if isinstance(node, Leaf):
        array, entries = next(columns)
        return from_stored(array, node.type, entries, take)
    if isinstance(node, Wrapped):
        return node.type.wrap_array(_assemble(node.inner, columns, take))
    if isinstance(node, Group):
        presence = next(columns)[0] if node.has_presence else None
        children = [_assemble(inner, columns, take) for _, inner in node.fields]
        return _as_struct(node.type, presence, children)
    pairs = [next(columns) for _ in range(width(node.entry))]
    lists = [array for array, _ in pairs]
    lengths = pc.list_value_length(lists[0])
    if not all(pc.list_value_length(other).equals(lengths) for other in lists[1:]):
        raise CorruptFileError("lists of one column differ in length")
    offsets, mask, first = list_elements(lists[0])
    elements = [first, *(other.flatten() for other in lists[1:])]
    below = iter([(each, pair[1]) for each, pair in zip(elements, pairs, strict=True)])
    entry = _assemble(node.entry, below, take)
    if pt.is_map(node.type):
        keys, items = entry.flatten()
        return _as_maps(offsets, mask, keys, items, node.type)
    return _as_lists(offsets, mask, entry, node.type, take)


def _as_struct(type_: Any, presence: Any, children: list[Any]) -> Any:
    children = [
        child if field.nullable or not child.null_count else _without_nulls(child, presence)
        for field, child in zip(type_, children, strict=True)
    ]
    if presence is None:
        return pa.StructArray.from_arrays(children, fields=list(type_))
    if presence.null_count:
        raise CorruptFileError("a column that says where there are structs has nulls")
    if presence.offset == 0:  # Its values are the bitmap that Arrow wants.
        return pa.Array.from_buffers(type_, len(presence), [presence.buffers()[1]], children=children)
    if not children:
        return pa.array([{} if there else None for there in presence.to_pylist()], type_)
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=pc.invert(presence))


def _without_nulls(array: Any, presence: Any) -> Any:
    """A field that is NOT NULL, with some value where there is no struct: nulls there are not allowed by Parquet."""
    if presence is not None and pc.any(pc.and_(presence, array.is_null())).as_py():
        raise CorruptFileError("a field that is NOT NULL has nulls")
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(_without_nulls(array.storage, None))
    if pt.is_float16(type_):
        return array.view(pa.int16()).fill_null(0).view(type_)  # Arrow up to 19 fills them in as integers only.
    try:
        if pt.is_dictionary(type_):
            if not len(array.dictionary):
                return array
            indices = array.indices.fill_null(0)
            return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=type_.ordered)
        filled = pc.coalesce(array, pa.scalar(_some_value(type_), type_))
        return filled if filled.type == type_ else filled.cast(type_)  # Arrow answers with wider decimals
    except pa.ArrowNotImplementedError:
        if pt.is_fixed_size_list(type_):  # Null lists have elements too, which are as good as any.
            return pa.Array.from_buffers(type_, len(array), [None], offset=array.offset, children=[array.values])
        return array


def _some_value(type_: Any) -> Any:
    if pt.is_null(type_):
        return None
    if pt.is_boolean(type_):
        return False
    if pt.is_fixed_size_binary(type_):
        return bytes(type_.byte_width)
    if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_):
        return ""
    if pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_):
        return b""
    if pt.is_fixed_size_list(type_):
        return [None if type_.value_field.nullable else _some_value(type_.value_type)] * type_.list_size
    if is_list_like(type_) or pt.is_map(type_):
        return []
    if pt.is_struct(type_):
        return {field.name: None if field.nullable else _some_value(field.type) for field in type_}
    if pt.is_float16(type_):
        return pa.array([0.0]).cast(type_)[0].as_py()  # Arrow up to 19 takes NumPy's only.
    return 0


def _as_lists(offsets: Any, mask: Any, elements: Any, type_: Any, take: TakeBytes) -> Any:
    """Lists of any layout."""
    if pt.is_list(type_):
        return pa.ListArray.from_arrays(offsets, elements, type=type_, mask=mask)
    if pt.is_large_list(type_):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), elements, type=type_, mask=mask)
    if pt.is_fixed_size_list(type_):
        return _as_fixed_size_lists(offsets, mask, elements, type_, take)
    starts, ends = offsets.slice(0, len(offsets) - 1), offsets.slice(1)
    lengths = pc.subtract(ends, starts)
    views: Any = pa.ListViewArray
    if pt.is_large_list_view(type_):
        views, starts, lengths = pa.LargeListViewArray, starts.cast(pa.int64()), lengths.cast(pa.int64())
    return views.from_arrays(starts, lengths, elements, type=type_, mask=mask)


def _as_fixed_size_lists(offsets: Any, mask: Any, elements: Any, type_: Any, take: TakeBytes) -> Any:
    """Lists of one size: their elements as they are, or with room made for those of null lists."""
    size, lengths = type_.list_size, pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1))
    if mask is not None:
        _take_room(len(lengths), type_, elements, take)
    present = lengths if mask is None else lengths.filter(pc.invert(mask))
    if not pc.all(pc.equal(present, size), min_count=0).as_py():
        raise CorruptFileError("a list of fixed size has another one", expected=size)
    if size == 0:  # Arrow cannot tell the number of lists from their elements.
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(type_, len(lengths), [validity], children=[elements])
    dense = pa.FixedSizeListArray.from_arrays(elements, type=type_)
    if mask is None:
        return dense
    number = pc.subtract(pc.cumulative_sum(pc.invert(mask).cast(pa.int64())), 1)
    try:
        return dense.take(pc.if_else(mask, pa.scalar(None, pa.int64()), number))
    except pa.ArrowNotImplementedError:
        elements = _spread(elements, offsets.slice(0, len(lengths)), size)
        return pa.Array.from_buffers(type_, len(lengths), [pc.invert(mask).buffers()[1]], children=[elements])


def _spread(elements: Any, starts: Any, size: int) -> Any:
    """`size` elements from each start on; where a null list starts that may be any elements, but there must be some."""
    if not len(elements):
        return null_array(len(starts) * size, elements.type)
    places = pa.array(range(len(starts) * size), pa.int64())
    rows = pc.divide(places, size)
    within = pc.subtract(places, pc.multiply(rows, size))
    last = pa.scalar(len(elements) - size, pa.int64())
    return take_rows(elements, pc.add(pc.min_element_wise(starts.cast(pa.int64()).take(rows), last), within))


def _take_room(rows: int, type_: Any, stored: Any, take: TakeBytes) -> None:
    """Count rows of a size that only the companion tells: nulls of that size need no bytes in the file."""
    size = rows * fixed_bytes(type_)
    if rows * (type_.list_size if pt.is_fixed_size_list(type_) else type_.byte_width) > MAX_BLOCK_SIZE:
        raise CorruptFileError("values of fixed size are too large", found=size, expected=MAX_BLOCK_SIZE)
    take(min(max(0, size - size_of(stored)), MAX_BYTES))


def _take_any(_: int) -> None:
    """For arrays that are in memory already, and are only changed."""


def _as_maps(offsets: Any, mask: Any, keys: Any, items: Any, type_: Any) -> Any:
    return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)


def from_stored(array: Any, type_: Any, entries: pa.Array | None = None, take: TakeBytes = _take_any) -> Any:
    """A stored array as the type it was given with: what `to_stored` undoes. `entries` are those of a dictionary."""
    if array.type == type_:
        return array
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(from_stored(array, type_.storage_type, entries, take))
    if pt.is_dictionary(type_):
        return _encode_dictionary(array, type_, entries)
    if pt.is_run_end_encoded(type_):
        runs = _run_ends.run_end_encode(array, run_end_type=type_.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(runs.run_ends, from_stored(runs.values, type_.value_type))
    if pt.is_null(type_):
        return pa.nulls(len(array))
    if is_list_like(type_) or pt.is_map(type_):
        return rebuild(array, type_, partial(from_stored, entries=entries, take=take), take)
    if is_legacy_timestamp(type_):
        return pa.StructArray.from_arrays(_split_nanoseconds(array), fields=list(type_), mask=array.is_null())
    if pt.is_decimal256(type_) and pt.is_binary(array.type):
        return _bytes_to_decimals(array, type_)
    if pt.is_fixed_size_binary(type_):
        _take_room(len(array), type_, array, take)
    if pt.is_float16(type_):
        return array.cast(type_, safe=False)
    if pt.is_time64(type_) and pt.is_int64(array.type):
        return _within_a_day(array, type_).cast(type_)
    return _with_all_buffers(array.cast(type_))


def _with_all_buffers(array: Any) -> Any:
    """Views of short values only, which Arrow up to 19 casts to with a buffer that is missing: who takes it crashes."""
    is_view = pt.is_string_view(array.type) or pt.is_binary_view(array.type)
    if not is_view or all(part is not None for part in array.buffers()[2:]):
        return array
    return pa.Array.from_buffers(array.type, len(array), array.buffers()[:2], offset=array.offset)


def _encode_dictionary(array: Any, type_: Any, entries: pa.Array | None) -> pa.Array:
    """Values as a dictionary: with the entries it was given with, or as its values come."""
    if entries is None:
        # Arrow encodes dictionaries of few types; the stored ones are among them.
        encoded = array.dictionary_encode()
        indices, entries = encoded.indices, from_stored(encoded.dictionary, type_.value_type)
    else:
        indices = pc.index_in(array, value_set=to_stored(entries, array.type), skip_nulls=True)
        if indices.null_count != array.null_count:
            raise CorruptFileError("a value is not in the dictionary")
    return pa.DictionaryArray.from_arrays(indices.cast(type_.index_type), entries, ordered=type_.ordered)


def _split_nanoseconds(array: Any) -> tuple[pa.Array, pa.Array]:
    """Milliseconds, rounded down, and the nanoseconds that are left."""
    nanoseconds = array.cast(pa.int64()).fill_null(0)
    millis = pc.divide(nanoseconds, 1_000_000)
    rest = pc.subtract(nanoseconds, pc.multiply(millis, 1_000_000))
    is_below = pc.less(rest, pa.scalar(0, pa.int64()))
    return (
        pc.if_else(is_below, pc.subtract(millis, 1), millis),
        pc.if_else(is_below, pc.add(rest, 1_000_000), rest).cast(pa.int32()),
    )


def _bytes_to_decimals(array: Any, type_: Any) -> pa.Array:
    fixed = array.cast(pa.binary(32))
    data = b"".join((value or bytes(32))[::-1] for value in fixed.to_pylist())
    validity = array.is_valid().buffers()[1] if array.null_count else None
    values = pa.Array.from_buffers(type_, len(fixed), [validity, pa.py_buffer(data)])
    values.validate(full=True)
    return values


# --- from one type to a wider one ---------------------------------------------------------------------------------


def widen_values(array: Any, type_: Any) -> Any:
    """An array as a type that holds all its values: fields that its structs lack become nulls."""
    source = array.type
    if source == type_:
        return array
    if isinstance(source, pa.BaseExtensionType):
        return widen_values(array.storage, type_)
    if pt.is_dictionary(source) and pt.is_dictionary(type_) and source.value_type == type_.value_type:
        indices = array.indices.cast(type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=type_.ordered)
    if pt.is_dictionary(source) or pt.is_run_end_encoded(source):  # As what they hold: what is stored has no units.
        return widen_values(from_stored(to_stored(array, storage_type(source)), source.value_type), type_)
    if pt.is_struct(type_) and pt.is_struct(source):
        return rebuild_struct(array, type_, widen_values)
    if (is_list_like(type_) and is_list_like(source)) or (pt.is_map(type_) and pt.is_map(source)):
        return rebuild(array, type_, widen_values)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(widen_values(array, type_.storage_type))
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return from_stored(to_stored(widen_values(array, type_.value_type), storage_type(type_)), type_)
    return to_stored(array, type_) if type_ == storage_type(source) else _cast_exactly(array, type_)


def _cast_exactly(array: Any, type_: Any) -> Any:
    """Arrow's cast, which refuses most values that do not fit, and here also those that it would cut off or overflow.

    A floating-point number may be rounded to one of fewer digits, as whoever asks for these expects.
    """
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
        # Not digits that the number does not have: 0.1 is 0.10, though no floating-point number is.
        wide, share = array.cast(pa.float64()), 2.0 ** {16: -9, 32: -22, 64: -50}[source.bit_width]
        is_lost = pc.greater(pc.abs(pc.subtract(found.cast(pa.float64()), wide)), pc.multiply(pc.abs(wide), share))
    else:
        return found
    if pc.any(is_lost).as_py():
        value = array.filter(is_lost)[0]
        raise pa.ArrowInvalid(f"{type_} cannot hold {value.cast(pa.string())}")
    return found


# --- rows ---------------------------------------------------------------------------------------------------------


def take_rows(array: Any, rows: pa.Array) -> Any:
    """Some rows of an array, also of types that Arrow cannot take rows of, such as views and runs."""
    try:
        return array.take(rows)
    except pa.ArrowNotImplementedError:
        node = plan_column(array.type, True)
        return _assemble(node, iter([(part.take(rows), None) for part in shred(array, node)]), _take_any)


def filter_rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of a batch where a mask is true, also of types that Arrow cannot filter."""
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:
        rows = pc.indices_nonzero(mask)
        return pa.RecordBatch.from_arrays([take_rows(column, rows) for column in batch.columns], schema=batch.schema)


def sort_key(array: Any) -> Any:
    """The array in a type that Arrow sorts, in the same order."""
    type_ = filter_type(array.type)
    return array if array.type == type_ else from_stored(to_stored(array, storage_type(array.type)), type_)


# --- filters ------------------------------------------------------------------------------------------------------


def filter_type(type_: Any) -> pa.DataType:
    """The type a leaf is compared as: its own where the stored one would mean something else, such as a duration.

    A filter may also compute with a column, so that bits and units count, not only the order of values. Where they are
    the same, a leaf is compared as it is stored: Arrow compares no dictionaries or 16-bit floats.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return filter_type(type_.storage_type)
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return filter_type(type_.value_type)
    if pt.is_decimal256(type_) or pt.is_null(type_) or pt.is_unsigned_integer(type_) or pt.is_temporal(type_):
        chosen: pa.DataType = type_
        return chosen
    return storage_type(type_)


def compared_type(type_: Any) -> pa.DataType:
    """As `filter_type`; types that take several columns, and lists, are what they are."""
    if isinstance(type_, pa.BaseExtensionType):
        return compared_type(type_.storage_type)
    is_leaf = not pt.is_nested(type_) or pt.is_run_end_encoded(type_) or is_legacy_timestamp(type_)
    same: pa.DataType = type_
    return filter_type(type_) if is_leaf else same


def as_compared(array: Any) -> Any:
    """An array of a leaf as the type it is compared as."""
    if isinstance(array.type, pa.BaseExtensionType):
        return as_compared(array.storage)
    type_ = compared_type(array.type)
    return array if array.type == type_ else from_stored(to_stored(array, storage_type(array.type)), type_)

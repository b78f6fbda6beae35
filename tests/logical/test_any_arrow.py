"""Random tables of every type and nesting: what Arrow says of them holds of the file too."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti import jobs
from smalti._compat import arrow as compat
from smalti.logical.arrays import from_stored, take_rows
from smalti.logical.rows import filter_rows, take_chunks, take_table
from smalti.logical.types import with_capacity
from tests.support.any_arrow import (
    EXTENSIONS,
    SCALARS,
    Money,
    any_array,
    any_table,
    any_type,
    entries_of,
    meanings,
    two_types,
)
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.older_arrow import HAS
from tests.support.strategies import examples

#: More dictionary values than any index but the widest counts.
MANY = 1 << 31


@pytest.fixture(autouse=True, scope="module")
def money() -> Iterator[None]:
    pa.register_extension_type(Money(pa.int8()))
    yield
    pa.unregister_extension_type("smalti.tests.money")


def rows_of(table: Any, name: str) -> list[str]:
    """Values as texts, so that NaN is itself and -0.0 is not 0.0."""
    return [repr(value) for value in table[name].to_pylist()]


def within(part: Any, whole: Any) -> bool:
    """Whether a value is what a projection leaves of another."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and within(part[name], whole[name]) for name in part)
    if isinstance(part, (list, tuple)):
        return isinstance(whole, (list, tuple)) and len(part) == len(whole) and all(map(within, part, whole))
    return repr(part) == repr(whole)


def is_as_wide(found: pa.Schema, table: pa.Table) -> bool:
    """Whether a schema is that of a table, up to indices that count the values of several dictionaries."""
    if found.equals(table.schema, check_metadata=True):
        return True
    most = [
        [field.with_type(with_capacity(field.type, MANY, 0)) for field in schema] for schema in (found, table.schema)
    ]
    counts = (len(each) for column in table.columns for chunk in column.chunks for each in dictionaries_in(chunk))
    return sum(counts) > 127 and pa.schema(most[0]).equals(pa.schema(most[1]), check_metadata=True)


def dictionaries_in(array: Any) -> Iterator[pa.Array]:
    """The values of all dictionaries in an array."""
    if isinstance(array, pa.ExtensionArray):
        yield from dictionaries_in(array.storage)
    elif pt.is_dictionary(array.type):
        yield array.dictionary
    elif pt.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from dictionaries_in(array.field(index))
    elif array.type.num_fields:
        for child in [array.keys, array.items] if pt.is_map(array.type) else [array.values]:
            yield from dictionaries_in(child)


@given(seed=st.integers(0, 1 << 32))
@examples(40)
def test_every_type_and_layout(seed: int) -> None:
    for number in range(8):
        choose = random.Random(1000 * seed + number)
        table = any_table(choose, choose.choice([0, 1, 1, 2, 3]))
        options: dict[str, Any] = {"row_group_max_rows": choose.choice([1, 3, 100])}
        options["page_size_threshold"] = choose.choice([0, 20, 32768])
        data = written(table, **options)
        back = read(data)
        back.validate(full=True)
        assert is_as_wide(back.schema, table), (seed, number)
        with smalti.open(data) as file:
            pieces = pa.Table.from_batches(list(file.iter_batches(choose.choice([1, 2, 3]))), file.schema)
            for name in table.schema.names:
                assert rows_of(table, name) == rows_of(back, name) == rows_of(pieces, name), (seed, number, name)
            view = file.columns._view
            paths = [path for path in (view.paths if view else {}) if choose.random() < 0.4]
            part = file.read(paths)
            part.validate(full=True)
            for name in part.schema.names:
                assert within(part[name].to_pylist(), table[name].to_pylist()), (seed, number, paths)
            for field in table.schema:
                if not field.nullable:
                    continue
                nulls = [i for i, value in enumerate(table[field.name].to_pylist()) if value is None]
                found = file.read(filters=pc.field(field.name).is_null())
                for name in table.schema.names:
                    every = rows_of(table, name)
                    assert rows_of(found, name) == [every[i] for i in nulls], (seed, number, field, name)


@given(seed=st.integers(0, 1 << 32))
@examples(150)
def test_the_same_values_in_another_type(seed: int) -> None:
    """Files of two types as one table, compacted, read as and written as the other type: equal, or refused."""
    choose = random.Random(seed)
    types = two_types(choose)
    arrays = [any_array(choose, type_, choose.choice([1, 3, 9])).slice(choose.choice([0, 1])) for type_ in types]
    tables = [pa.table({"c": array}) for array in arrays]
    first, second = map(meanings, arrays)
    with tempfile.TemporaryDirectory() as directory:
        for number, table in enumerate(tables):
            smalti.write_table(table, f"{directory}/{number}.mosaic")
        with contextlib.suppress(smalti.SchemaError):
            assert meanings(smalti.read_table(directory)["c"]) == first + second, types
            jobs.compact(directory, workers=1)
            assert meanings(smalti.read_table(directory)["c"]) == first + second, types
    for table, wanted, expected in ((tables[0], tables[1].schema, first), (tables[1], tables[0].schema, second)):
        with contextlib.suppress(smalti.SchemaError):
            assert meanings(read(written(table), schema=wanted)["c"]) == expected, types
        stream = io.BytesIO()
        with contextlib.suppress(smalti.SchemaError), smalti.MosaicWriter(stream, wanted) as writer:
            writer.write(table)
        with contextlib.suppress(smalti.CorruptFileError):  # of what was refused
            assert meanings(read(stream.getvalue())["c"]) == expected, types


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int64(), pa.duration("s")),
        (pa.duration("s"), pa.int64()),
        (pa.int64(), pa.time64("us")),
        (pa.dictionary(pa.int8(), pa.int64()), pa.list_(pa.duration("s"))),
        (pa.binary(), pa.decimal256(50, 2)),
        (pa.dictionary(pa.int8(), pa.int32()), pa.null()),
        (pa.struct([("x", pa.float16()), ("y", pa.float32())]), pa.struct([("x", pa.float16()), ("y", pa.float16())])),
    ],
)
@pytest.mark.parametrize("in_lists", [False, True])
def test_a_writer_takes_no_type_that_is_only_stored_alike(given: Any, wanted: Any, in_lists: bool) -> None:
    if in_lists:
        given, wanted = pa.list_(given), pa.large_list(wanted)
    table = pa.table({"c": any_array(random.Random(1), given, 3)})
    with (
        pytest.raises(smalti.SchemaError, match="'c': batch has another type than the schema"),
        smalti.MosaicWriter(io.BytesIO(), pa.schema([("c", wanted)])) as writer,
    ):
        writer.write(table)


def test_an_extension_type_of_an_extension_type_is_refused() -> None:
    """Arrow has no way to hand it over, and ends the process if it is asked to look at it."""
    with pytest.raises(smalti.SchemaError, match="column 'c': type has no place in Mosaic"):
        smalti.MosaicWriter(io.BytesIO(), pa.schema([("c", pa.list_(Money(pa.uuid())))]))


def _plain(type_: Any) -> Any:
    """What a type holds, without what is wrapped around it."""
    if isinstance(type_, pa.BaseExtensionType):
        return _plain(type_.storage_type)
    return _plain(type_.value_type) if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_) else type_


def condition(choose: random.Random, names: list[tuple[tuple[str, ...], Any]]) -> pc.Expression:
    """A filter on columns and fields, with values of their types and of types close to them."""
    path, type_ = choose.choice(names)
    field, chance, plain = pc.field(*path), choose.random(), _plain(type_)
    operators = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    if chance < 0.15:
        return field.is_null(nan_is_null=choose.random() < 0.5)
    if chance < 0.3:
        one, other = condition(choose, names), condition(choose, names)
        return one & other if choose.random() < 0.5 else one | other
    if chance < 0.4:
        return ~condition(choose, names)
    if chance < 0.5:
        same = [other for other, other_type in names if other_type == type_]
        return getattr(pc, choose.choice(operators))(field, pc.field(*choose.choice(same)))  # type: ignore[no-any-return]
    if pt.is_null(plain):
        return field.is_valid()
    values = any_array(choose, plain, 2, False)
    if chance < 0.65:
        return field.isin(values)
    value: Any = values[0]
    if chance < 0.72:
        value = pa.scalar(None, plain)
    elif chance < 0.8 and (pt.is_integer(plain) or pt.is_decimal(plain) or pt.is_floating(plain)):
        value = pa.scalar(choose.choice([0, 1, -5, 2**63 - 1, 0.5, float("nan")]))
    return getattr(pc, choose.choice(operators))(field, pc.scalar(value))  # type: ignore[no-any-return]


def test_pruning_hides_no_row_of_any_type() -> None:
    """Filters on files with statistics, without, and on the table itself: the same rows, wherever Arrow can compare."""
    types: list[Any] = [*SCALARS, *EXTENSIONS[:7], pa.dictionary(pa.int8(), pa.string())]
    types += [pa.dictionary(pa.int8(), pa.uint64()), pa.run_end_encoded(pa.int32(), pa.float32())]
    compared = 0
    for seed in range(40):
        choose = random.Random(seed)
        one, other, leaf, inner = choose.choices(types, k=4)
        struct = pa.struct([pa.field("u", leaf), pa.field("v", pa.struct([pa.field("w", inner)]))])
        count = choose.choice([3, 8, 20])
        columns = {"x": one, "y": one, "z": other, "s": struct}
        table = pa.table({name: any_array(choose, type_, count) for name, type_ in columns.items()})
        table = table.append_column("row", pa.array(range(count)))
        group = choose.choice([1, 2, 5])
        with (
            smalti.open(written(table, row_group_max_rows=group, stats_columns="all")) as pruned,
            smalti.open(written(table, row_group_max_rows=group, stats_columns=())) as masked,
        ):
            names = [(("x",), one), (("y",), one), (("z",), other), (("s", "u"), leaf), (("s", "v", "w"), inner)]
            for number in range(12):
                filter_ = condition(choose, names)
                try:
                    expected = masked.read(["row"], filters=filter_)["row"].to_pylist()
                except smalti.SchemaError:
                    continue  # what Arrow cannot compare
                assert pruned.read(["row"], filters=filter_)["row"].to_pylist() == expected, (seed, number)
                batches = pruned.iter_batches(2, ["row"], filters=filter_)
                assert [row for batch in batches for row in batch["row"].to_pylist()] == expected, (seed, number)
                try:
                    of_arrow = table.filter(filter_)["row"].to_pylist()
                except pa.ArrowException:
                    continue
                compared += 1
                assert of_arrow == expected, (seed, number)
    assert compared > 200


def test_values_of_a_filter_in_the_types_of_the_columns() -> None:
    """What is compared is what is stored, so values that people write in the type they know are brought to it."""
    table = pa.table(
        {
            "text": pa.array(["a", None, "b"], pa.large_string()),
            "view": pa.array(["a", None, "b"], pa.string_view()),
            "u64": pa.array([1, None, 2**64 - 1], pa.uint64()),
            "raw": pa.array([b"\xff", None, b"a"], pa.large_binary()),
            "none": pa.nulls(3),
            "day": pa.array([0, 1, 2], pa.int32()).cast(pa.date32()).cast(pa.date64()),
        }
    )
    data = written(table)
    for filter_, kept in (
        (pc.field("text") >= pc.scalar(pa.scalar(None, pa.large_string())), []),  # crashed Arrow, and the process
        (pc.field("view") == pc.scalar(pa.scalar("a", pa.string_view())), [0]),
        (pc.field("raw") == b"\xff", [0]),  # was an error of Unicode
        (pc.field("u64").isin([1, -1, 2**63 - 1]), [0]),
        (pc.field("u64") == pa.scalar(2**64 - 1, pa.uint64()), [2]),
        (pc.field("day") < pc.field("none"), []),
        ([("text", "in", [None, "b"])], [1, 2]),
    ):
        rows = [table.slice(row, 1).to_pylist()[0] for row in kept]
        assert read(data, filters=filter_).to_pylist() == rows


def test_a_path_that_leads_to_two_things_is_refused_where_it_cannot_be_meant() -> None:
    data = written(pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": [2, 1]}))
    assert read(data, filters=[("a.b", "=", 1)])["a.b"].to_pylist() == [1]
    with pytest.raises(smalti.SchemaError, match="leads to two things"):
        read(data, filters=pc.field("a", "b") == 1)  # took the column
    narrow = pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": pa.array([2, 1], pa.uint8())})
    with pytest.raises(smalti.SchemaError, match="leads to two things"):
        read(written(narrow), filters=pc.field("a", "b") == 1)  # also one that the companion describes
    assert read(written(narrow), columns=["a.b"]).to_pydict() == {"a.b": [2, 1]}
    twice = pa.struct([("b.c", pa.int64()), ("b", pa.struct([("c", pa.int64())]))])
    data = written(pa.table({"a": pa.array([{"b.c": 1, "b": {"c": 2}}, {"b.c": 2, "b": {"c": 1}}], twice)}))
    assert read(data, filters=[("a.b.c", "=", 1)])["a"].to_pylist() == [{"b.c": 1, "b": {"c": 2}}]  # the first field
    with pytest.raises(smalti.SchemaError, match="leads to two things"):
        read(data, filters=pc.field("a", "b", "c") == 1)


def test_what_a_timestamp_or_a_time_cannot_say_is_refused() -> None:
    legacy = pa.struct([("millis", pa.int64()), ("nanos_of_milli", pa.int32())])
    for rows in ([{"millis": None, "nanos_of_milli": 5}], [{"millis": 3, "nanos_of_milli": None}]):
        with pytest.raises(smalti.SchemaError, match="a field of a timestamp is null"):  # came back as no struct
            written(pa.table({"x": pa.array(rows, legacy)}))
    for ticks in (-1, 86_400_000_000):
        with pytest.raises(smalti.SchemaError, match="outside a day"):
            written(pa.table({"x": pa.array([ticks], pa.int64()).view(pa.time64("us"))}))


def test_files_that_lack_columns_of_any_type(tmp_path: Path) -> None:
    """Nulls in their place, rows filtered by a table's types: also where Arrow has no such nulls, or cannot filter."""
    runs = pa.run_end_encoded(pa.int32(), pa.string())
    inner = pa.struct([pa.field("r", runs), pa.field("n", pa.int8())])
    first = pa.table(
        {"k": pa.array([1, 2], pa.int32()), "s": pa.array([{"n": 1}, None], pa.struct([("n", pa.int8())]))}
    )
    values = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["x", "y"]))
    structs = pa.Array.from_buffers(
        inner, 3, [pa.py_buffer(b"\x05")], children=[values, pa.array([1, 2, 3], pa.int8())]
    )
    wide = {
        "k": pa.array([1, 2, 3], pa.int64()),
        "s": structs,
        "v": pa.array(["a", "b", None], pa.string_view()),
        "l": pa.array([[1], None, []], pa.list_view(pa.int8())),
        "f": pa.nulls(3, pa.list_(pa.uuid(), 2)),
        "o": pa.Array.from_buffers(pa.list_(inner), 3, [None, pa.py_buffer(bytes(16))], children=[structs.slice(0, 0)]),
    }
    smalti.write_table(first, tmp_path / "1.mosaic")
    smalti.write_table(pa.table(wide), tmp_path / "2.mosaic")
    table = smalti.dataset(tmp_path)
    whole = table.to_table()
    whole.validate(full=True)
    assert whole["s"].to_pylist() == [{"n": 1, "r": None}, None, {"n": 1, "r": "x"}, None, {"n": 3, "r": "y"}]
    for filter_, keys in (
        (pc.field("k") > 1, [2, 2, 3]),  # an int32 in one file: filtered as the table's type
        (pc.field("s", "r").is_null(), [1, 2, 2]),
        (pc.field("s", "r") == "y", [3]),
    ):
        found = table.to_table(filters=filter_)
        found.validate(full=True)
        assert found["k"].to_pylist() == keys


def test_half_floats_of_dictionaries_in_lists() -> None:
    """Arrow mistakes their entries where it puts lists together and one entry is NaN."""
    halves = pa.array([0x3E00, 0x7E00, 0x4100], pa.int16()).view(pa.float16())  # 1.5, NaN, 2.5
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1, None, 0], pa.int8()), halves)
    inside = pa.StructArray.from_arrays([entries], names=["h"])
    starts, lengths = pa.array([3, 0, 1], pa.int32()), pa.array([2, 2, 3], pa.int32())
    second = pa.array([False, True, False])
    table = pa.table(
        {
            "view": pa.ListViewArray.from_arrays(starts, lengths, entries),
            "fixed": pa.FixedSizeListArray.from_arrays(entries, 2, mask=second),
            "null": pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), entries, mask=second),
            "struct": pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), inside, mask=second),
        }
    )
    for part in (table, table.slice(1)):
        back = read(written(part))
        assert back.schema == part.schema
        for name in table.column_names:
            assert rows_of(back, name) == rows_of(part, name)


@pytest.mark.parametrize("with_nulls", [False, True])
def test_values_of_a_fixed_size_are_copied_in_bulk_and_come_back(with_nulls: bool) -> None:
    """Decimals of every number of bytes, unsigned integers and keys, whole and as slices."""
    numbers = [sign * (256**size - step) for size in range(17) for step in (1, 2) for sign in (1, -1)]
    digits = [Decimal(number) for number in numbers if abs(number) < 10**38]
    mask = np.array([with_nulls and at % 3 == 0 for at in range(len(digits))])
    keys = [bytes([at % 256]) * 16 for at in range(len(digits))]
    table = pa.table(
        {
            "long": pa.array([digit.scaleb(20) for digit in digits], pa.decimal256(76, 0), mask=mask),
            "decimal": pa.array(digits, pa.decimal128(38, 0), mask=mask),
            "unsigned": pa.array([abs(number) % 2**64 for number in numbers[: len(digits)]], pa.uint64(), mask=mask),
            "key": pa.array(keys, pa.binary(16), mask=mask),
            "none": pa.array([b""] * len(digits), pa.binary(0), mask=mask),
        }
    )
    for part in (table, table.slice(5, 20), table.slice(3, 1), table.slice(2, 0)):
        data = written(part)
        assert_same(smalti.read_table(data), part)
        with smalti.open(data) as file:
            assert_same(pa.Table.from_batches(file.iter_batches(batch_size=7), part.schema), part)


def test_a_value_of_another_size_than_the_companion_says_is_refused() -> None:
    stored = pa.array([b"0123", b"012", b"01234"], pa.binary())
    with pytest.raises(pa.ArrowInvalid):
        from_stored(stored, pa.binary(4))


def test_a_type_that_is_registered_later_is_found_by_the_next_read(tmp_path: Path) -> None:
    """Columns of files are kept for the whole process, but not those whose types may be known a moment later."""
    late = Late()
    smalti.write_table(pa.table({"a": pa.ExtensionArray.from_storage(late, pa.array([1, 2]))}), tmp_path / "a.mosaic")
    assert smalti.read_table(tmp_path / "a.mosaic").schema.field("a").type == pa.int64()
    pa.register_extension_type(late)
    try:
        assert smalti.read_table(tmp_path / "a.mosaic").schema.field("a").type == late
    finally:
        pa.unregister_extension_type("smalti.tests.late")


class Late(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "smalti.tests.late")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Late:
        return cls()


@given(seed=st.integers(0, 1 << 32))
@examples(60)
def test_rows_of_every_type_are_joined_and_selected(seed: int) -> None:
    """By row, with null rows, by mask, from one chunk and from several."""
    choose = random.Random(seed)
    type_ = any_type(choose)
    chunks = [any_array(choose, type_, choose.choice([0, 2, 9])).slice(choose.choice([0, 1])) for _ in range(3)]
    column = pa.chunked_array(chunks)
    rows, count = meanings(column), len(column)
    batches = [pa.record_batch([chunk], ["c"]) for chunk in chunks]
    with contextlib.suppress(smalti.SchemaError):  # dictionaries that are too large together
        whole = compat.concat_batches(batches)
        whole.validate(full=True)
        assert meanings(whole.column(0)) == rows
    wanted = [choose.choice([None, *range(count)]) for _ in range(choose.choice([0, 5, 20]))]
    found = [(wanted, pa.chunked_array(take_chunks(chunks, pa.array(wanted, pa.int64())), type_))]
    found.append(
        (range(count)[::-1], take_table(pa.table([column], ["c"]), pa.array(range(count)[::-1], pa.int64()))[0])
    )
    if pt.is_dictionary(type_):
        assert meanings(take_rows(chunks[0], pa.nulls(2, pa.int64())).dictionary) == meanings(chunks[0].dictionary)
    mask = [choose.random() < 0.5 for _ in range(len(chunks[0]))]
    kept = filter_rows(batches[0], pa.array(mask, pa.bool_())).column(0)
    found.append(([row for row, is_kept in enumerate(mask) if is_kept], pa.chunked_array([kept])))
    for numbers, taken in found:
        taken.validate(full=True)
        assert taken.type == type_
        assert meanings(taken) == [None if number is None else rows[number] for number in numbers], type_


DICTIONARY_VALUES = [type_ for type_ in SCALARS if not pt.is_null(type_)]


@pytest.mark.parametrize("values", DICTIONARY_VALUES, ids=str)
def test_dictionaries_that_differ_are_joined(values: Any) -> None:
    """Arrow takes the bits of half floats for their values."""
    type_ = pa.dictionary(pa.int8(), values)
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, len(entries) - 1, None], pa.int8()), entries)
        for entries in (entries_of(type_, 3, start) for start in (0, 2))
    ]
    expected = [meaning for chunk in chunks for meaning in meanings(chunk)]
    table = pa.table([pa.chunked_array(chunks)], ["c"])
    rows = pa.array(range(len(table)))
    assert meanings(compat.concat_batches(table.to_batches()).column(0)) == expected
    assert meanings(compat.unify_dictionaries(table)[0]) == meanings(take_table(table, rows)[0]) == expected
    wrapped = Money(type_)
    for wrap in (
        lambda array: pa.StructArray.from_arrays([array], ["x"]),
        lambda array: pa.ListArray.from_arrays([0, 1, 3], array),
        lambda array: pa.FixedSizeListArray.from_arrays(array, 3),
        lambda array: pa.MapArray.from_arrays([0, 2], array.slice(0, 2), array.slice(1)),
        lambda array: wrapped.wrap_array(array),
        lambda array: pa.StructArray.from_arrays([wrapped.wrap_array(array)], ["x"]),
    ):
        nested = [wrap(chunk) for chunk in chunks]
        joined = compat.concat_arrays(nested)
        joined.validate(full=True)
        assert joined.type == nested[0].type
        assert meanings(joined) == [meaning for array in nested for meaning in meanings(array)]


def test_list_views_of_wrapped_views_are_taken_from_their_own_memory() -> None:
    """Arrow takes them from memory that it has freed."""
    views = Money(pa.string_view()).wrap_array(pa.array([f"{row:05d}" * 8 for row in range(1000)], pa.string_view()))
    lists = pa.ListViewArray.from_arrays(pa.array(range(1000), pa.int32()), pa.array([1] * 1000, pa.int32()), views)
    backwards = pa.array(range(1000)[::-1])
    batch = pa.record_batch([lists], ["c"])
    expected = meanings(lists)
    for _ in range(20):
        taken = take_rows(lists, backwards), take_table(pa.table(batch), backwards)[0].chunk(0)
        for array in (*taken, filter_rows(batch, pa.array([True] * 1000)).column(0)):
            array.validate(full=True)
        assert meanings(taken[0]) == meanings(taken[1]) == expected[::-1]


def test_slices_of_matrices_are_taken_from_their_own_memory() -> None:
    """Arrow takes them from beyond the end of their values."""
    type_ = pa.list_(pa.list_(pa.int64(), 2), 2)
    rows = [[[row, 1], [2, row]] for row in range(100)]
    for array in (pa.array(rows, type_), pa.StructArray.from_arrays([pa.array(rows, type_)], ["x"])):
        some, expected = array.slice(60), meanings(array)[60:]
        assert meanings(take_rows(some, pa.array(range(40)[::-1]))) == expected[::-1]
        assert meanings(filter_rows(pa.record_batch([some], ["c"]), pa.array([True] * 40)).column(0)) == expected


ENTRIES: Any = pa.dictionary(pa.int8(), pa.string())
#: Ways to have a dictionary in a column: a type, given that of the dictionary, and an array, given a dictionary.
AROUND: dict[str, Any] = {
    "plain": lambda array: array,
    "extension": lambda array: Money(ENTRIES).wrap_array(array),
    "list of extension": lambda array: pa.ListArray.from_arrays(ONE_EACH, Money(ENTRIES).wrap_array(array)),
    "extension of list": lambda array: Money(pa.list_(ENTRIES)).wrap_array(pa.ListArray.from_arrays(ONE_EACH, array)),
    "struct of extension": lambda array: pa.StructArray.from_arrays([Money(ENTRIES).wrap_array(array)], ["x"]),
    "keys": lambda array: pa.MapArray.from_arrays(ONE_EACH, array, array.indices),
    "items": lambda array: pa.MapArray.from_arrays(ONE_EACH, array.indices, array),
    "runs": lambda array: pa.RunEndEncodedArray.from_arrays(ONE_EACH[1:], array),
}
ONE_EACH = pa.array(range(101), pa.int32())


@pytest.mark.parametrize("around", AROUND)
def test_more_dictionary_values_than_the_indices_of_a_batch_count(around: str, tmp_path: Path) -> None:
    indices = pa.array(range(100), pa.int8())
    dictionaries = [pa.array([f"{batch}-{number}" for number in range(100)]) for batch in range(2)]
    arrays = [AROUND[around](pa.DictionaryArray.from_arrays(indices, each)) for each in dictionaries]
    expected = [meaning for array in arrays for meaning in meanings(array)]
    with smalti.MosaicWriter(tmp_path / "a.mosaic", pa.schema({"a": arrays[0].type})) as writer:
        for array in arrays:
            writer.write(pa.record_batch([array], ["a"]))
    with smalti.open(tmp_path / "a.mosaic") as file:
        assert file.num_row_groups == 1
        assert meanings(file.read()["a"]) == expected
        assert meanings(file[::-1]["a"]) == expected[::-1]
        first, second = file.iter_batches(batch_size=150, exact=True)
        assert meanings(pa.chunked_array([first.column(0), second.column(0)])) == expected
        assert first.num_rows == 150


@pytest.mark.parametrize("around", ["keys", "runs"])
def test_dictionaries_that_are_the_same_keep_their_indices(around: str) -> None:
    array = AROUND[around](
        pa.DictionaryArray.from_arrays(pa.array(range(100)).cast(pa.int8()), pa.array(range(100)).cast(pa.string()))
    )
    assert read(written(pa.table({"a": pa.chunked_array([array] * 3)}))).schema.field("a").type == array.type


@pytest.mark.parametrize("scale", [-3, 0, 76])
@pytest.mark.parametrize(
    "make", [pa.decimal128, pa.decimal256, *([pa.decimal32, pa.decimal64] if HAS["decimal32"] else [])]
)
def test_decimals_that_are_not_null_in_structs_that_are(make: Any, scale: int) -> None:
    most = {pa.decimal128: 38, pa.decimal256: 76}.get(make, 9 if make is pa.decimal32 else 18)
    type_ = make(most, min(most, scale))
    value = Decimal(7).scaleb(-type_.scale)
    array = pa.StructArray.from_arrays(
        [pa.array([value, value], type_)], fields=[pa.field("x", type_, False)], mask=pa.array([False, True])
    )
    back = read(written(pa.table({"a": array})))
    back.validate(full=True)
    assert back["a"].to_pylist() == [{"x": value}, None]

"""Structs, lists of structs and everything else that takes several stored columns: whole, and field by field."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import smalti
from smalti.logical.tree import plan_column, stored_columns
from tests.support import reference
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.strategies import examples, values

LEAVES = st.sampled_from(
    [
        pa.int32(), pa.string(), pa.uint8(), pa.uint64(), pa.float16(), pa.duration("ms"), pa.time64("us"),
        pa.binary(3), pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.null(), pa.timestamp("s"),
        pa.bool_(), pa.decimal256(40, 2), pa.list_(pa.float32(), 2),
    ]
)  # fmt: skip
FIELD_NAMES = st.sampled_from(["a", "b", "a.b", "c", "", "é", "key", "list"])


@st.composite
def fields(draw: st.DrawFn, name: str, inner: st.SearchStrategy[pa.DataType]) -> pa.Field:
    type_ = draw(inner)
    return pa.field(name, type_, pa.types.is_null(type_) or draw(st.booleans()))


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    names = draw(st.lists(FIELD_NAMES, max_size=3, unique=True))
    return pa.struct([draw(fields(name, inner)) for name in names])


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    field = draw(fields("item", inner))
    make = draw(st.sampled_from([pa.list_, pa.large_list, pa.list_view, lambda item: pa.list_(item, 2)]))
    return make(field)


@st.composite
def maps(draw: st.DrawFn, inner: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    return pa.map_(draw(st.sampled_from([pa.string(), pa.int16(), pa.list_(pa.int8())])), draw(inner))


NESTED = st.recursive(LEAVES, lambda inner: structs(inner) | lists(inner) | maps(inner), max_leaves=6)


def value(type_: Any, nullable: bool, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a type as Python has them."""
    if pa.types.is_struct(type_):
        made: st.SearchStrategy[Any] = st.fixed_dictionaries({f.name: value(f.type, f.nullable, depth) for f in type_})
    elif pa.types.is_map(type_):
        entry = st.tuples(value(type_.key_type, False), value(type_.item_type, True, depth + 1))
        made = st.lists(entry, max_size=2, unique_by=lambda pair: repr(pair[0]))
    elif pa.types.is_fixed_size_list(type_):
        size = type_.list_size
        made = st.lists(value(type_.value_type, type_.value_field.nullable, depth + 1), min_size=size, max_size=size)
    elif hasattr(type_, "value_field"):
        made = st.lists(value(type_.value_type, type_.value_field.nullable, depth + 1), max_size=3 - min(depth, 2))
    elif pa.types.is_dictionary(type_):
        made = st.sampled_from(["x", "y", "z"])
    elif pa.types.is_null(type_):
        return st.none()
    elif pa.types.is_duration(type_) or pa.types.is_timestamp(type_):
        made = st.integers(-(10**9), 10**9)
    elif pa.types.is_time64(type_):
        made = st.integers(0, 86_399_999_999)
    elif pa.types.is_uint64(type_):
        made = st.integers(0, 2**64 - 1)
    elif pa.types.is_unsigned_integer(type_):
        made = st.integers(0, 255)
    elif pa.types.is_fixed_size_binary(type_):
        made = st.binary(min_size=3, max_size=3)
    elif pa.types.is_float16(type_):
        made = st.sampled_from([0.5, -2.0, 1024.0]).map(np.float16)  # which Arrow before 20 insists on
    elif pa.types.is_decimal256(type_):
        made = st.integers(-(10**37), 10**37).map(Decimal)
    elif pa.types.is_large_string(type_):
        made = st.text(alphabet="ab", max_size=3)
    else:
        made = values(type_)
    return st.none() | made if nullable else made


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(["a", "b", "a.b", "c", "a.b.c"]), min_size=1, max_size=3, unique=True))
    schema = pa.schema([draw(fields(name, NESTED)) for name in names], {"of": "the schema"})
    rows = draw(st.integers(0, 6))
    columns = []
    for field in schema:
        cells = draw(st.lists(value(field.type, field.nullable), min_size=rows, max_size=rows))
        columns.append(pa.array(cells, field.type))
    table = pa.Table.from_arrays(columns, schema=schema)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:  # pyarrow makes an index into an empty dictionary for a NOT NULL field of a null struct.
        reject()
    return table.slice(draw(st.sampled_from([0, 0, 1])))


def parts(type_: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of all fields below a column."""
    if pa.types.is_map(type_):
        if len(stored_columns(plan_column(type_, True), "", True)) > 1:  # A map of plain values is one column.
            type_ = pa.struct([type_.key_field, type_.item_field])
    elif hasattr(type_, "value_field"):
        yield from parts(type_.value_type, path)
    if pa.types.is_struct(type_):
        for field in type_:
            yield (*path, field.name)
            yield from parts(field.type, (*path, field.name))


def only(cell: Any, type_: Any, path: tuple[str, ...]) -> Any:
    """A value with only the fields along a path; of maps the keys stay, and all of a map if its keys were asked for."""
    if cell is None or not path:
        return cell
    if pa.types.is_map(type_):
        if path[0] == type_.key_field.name:
            return cell
        return [(key, only(item, type_.item_type, path[1:])) for key, item in cell]
    if hasattr(type_, "value_field"):
        return [only(each, type_.value_type, path) for each in cell]
    return {path[0]: only(cell[path[0]], type_.field(path[0]).type, path[1:])}


def assert_no_nulls_where_none_may_be(array: Any) -> None:
    """Also where the struct around a field is null: writers of Parquet look at the field alone."""
    type_ = array.type
    if pa.types.is_struct(type_):
        for i, field in enumerate(type_):
            child = array.field(i)
            assert field.nullable or not child.null_count or pa.types.is_dictionary(child.type)
            assert_no_nulls_where_none_may_be(child)
    elif hasattr(type_, "value_field"):
        assert_no_nulls_where_none_may_be(array.flatten())


@examples(300)
@given(tables(), st.sampled_from([0, 1 << 20]))
def test_nested_tables(table: pa.Table, threshold: int) -> None:
    """They come back, the reference reads the file, and each field can be read alone."""
    data = written(table, page_size_threshold=threshold, num_buckets=2, row_group_max_rows=4)
    found = read(data)
    found.validate(full=True)
    for column in found.columns:
        assert_no_nulls_where_none_may_be(column.combine_chunks())
    assert found.schema.equals(table.schema, check_metadata=True)
    assert repr(found.to_pylist()) == repr(table.to_pylist())  # which takes NaN for equal to itself
    with smalti.open(data, logical=False) as file:
        stored = file.read()
    assert_same(reference.read(data), stored)
    every = [(field, path) for field in table.schema for path in parts(field.type, (field.name,))]
    dotted = [".".join(path) for _, path in every]
    for (field, path), name in zip(every, dotted, strict=True):
        if dotted.count(name) > 1 or name in table.schema.names:
            continue  # Another column or field has the same path, and the first one has it.
        alone = read(data, columns=[name])
        alone.validate(full=True)
        assert alone.schema.names == [field.name]
        cells = table[field.name].to_pylist()
        assert repr(alone[field.name].to_pylist()) == repr([only(cell, field.type, path[1:]) for cell in cells])


USER = pa.struct([pa.field("age", pa.uint8()), pa.field("name", pa.string(), False)])


def test_what_is_stored() -> None:
    def columns(type_: pa.DataType, nullable: bool = True) -> dict[str, str]:
        return {c.name: str(c.type) for c in stored_columns(plan_column(type_, nullable), "u", nullable)}

    assert columns(USER) == {"u": "bool", "u.age": "int16", "u.name": "string"}
    assert columns(USER, nullable=False) == {"u.age": "int16", "u.name": "string"}
    assert columns(pa.struct([])) == columns(pa.struct([]), nullable=False) == {"u": "bool"}
    assert columns(pa.list_(USER)) == {
        "u": "list<item: bool not null>",
        "u.age": "list<item: int16>",
        "u.name": "list<item: string>",
    }
    assert columns(pa.map_(pa.string(), pa.int8())) == {"u": "map<string, int8>"}
    assert columns(pa.map_(pa.string(), USER)) == {
        "u.key": "list<entries: string not null>",
        "u.value": "list<entries: bool not null>",
        "u.value.age": "list<entries: int16>",
        "u.value.name": "list<entries: string>",
    }


@pytest.fixture(scope="module")
def users() -> bytes:
    rows = [None if i % 7 == 0 else {"age": None if i % 5 == 0 else i % 100, "name": f"n{i:04d}"} for i in range(1000)]
    table = pa.table({"id": range(1000), "user": pa.array(rows, USER), "user.age": ["plain"] * 1000})
    return written(table, row_group_max_rows=100, stats_columns=["id", "user.name", "user.age#2"])


def test_filters_on_fields(users: bytes) -> None:
    whole = read(users)
    rows = whole.to_pylist()
    with smalti.open(users) as file:
        assert file.matching_row_groups([("user.name", "=", "n0150")]) == [1]
        for filters, keeps in (
            ([("user.name", "=", "n0150")], lambda user: user is not None and user["name"] == "n0150"),
            (pc.field("user", "name") == "n0150", lambda user: user is not None and user["name"] == "n0150"),
            (pc.field("user").is_null(), lambda user: user is None),
            (pc.field("user").is_valid(), lambda user: user is not None),
        ):
            expected = [row["id"] for row in rows if keeps(row["user"])]
            assert file.read(["id"], filters=filters)["id"].to_pylist() == expected
            assert file.read(["user.name"], filters=filters).to_pylist() == [
                {"user": row["user"] and {"name": row["user"]["name"]}} for row in rows if row["id"] in set(expected)
            ]
        assert file.read(["user.age"])["user.age"].to_pylist() == ["plain"] * 1000  # A column goes before a field.
        assert file.row_group(0).statistics["user.age#2"].max == 99
        assert file.num_columns == 3


def test_patterns_and_order(users: bytes) -> None:
    assert read(users, columns=["user.na*", "id"]).schema.names == ["user", "id"]
    assert read(users, columns=["id", "user.name", "user"]).schema.names == ["id", "user"]
    assert str(read(users, columns=["user.name"]).schema.field("user").type) == "struct<name: string not null>"
    with pytest.raises(smalti.SchemaError, match="no column"):
        read(users, columns=["user.nope"])
    with pytest.raises(smalti.SchemaError, match=r"no column.*user\.age#2"):
        read(users, columns=["user.age#2"])


def test_a_batch_of_another_logical_type_is_converted_or_refused() -> None:
    """The unit of a duration is not stored with its numbers, so a batch must have the unit of the schema."""
    schema = pa.schema([("d", pa.duration("s")), ("u", pa.uint8())])
    for batch, fits in (
        (pa.record_batch({"d": pa.array([5000], pa.duration("ms")), "u": pa.array([1], pa.int16())}), True),
        (pa.record_batch({"d": pa.array([1], pa.duration("ms")), "u": pa.array([1], pa.uint8())}), False),
        (pa.record_batch({"d": pa.array([1], pa.duration("s")), "u": pa.array([-1], pa.int16())}), False),
        (pa.record_batch({"d": pa.array([1], pa.duration("s")), "u": pa.array([1], pa.int64())}), False),
    ):
        stream = pa.BufferOutputStream()
        if not fits:
            with pytest.raises(smalti.SchemaError), smalti.MosaicWriter(stream, schema) as writer:
                writer.write(batch)
            continue
        with smalti.MosaicWriter(stream, schema) as writer:
            writer.write(batch)
        assert read(stream.getvalue().to_pybytes()).to_pylist() == [{"d": batch["d"][0].as_py(), "u": 1}]
        assert set(writer.summary.stored_as) == {"d", "u"}


def test_dictionaries_keep_their_entries() -> None:
    """Also the unused ones and their order, and those of all batches together."""
    first = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["c", "a", "unused"]), ordered=True)
    found = read(written(pa.table({"x": first})))["x"].combine_chunks()
    assert found.dictionary.to_pylist() == ["c", "a", "unused"]
    assert found.type == first.type
    second = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["d"]), ordered=True)
    both = pa.table({"x": pa.chunked_array([first, second])})
    found = read(written(both))["x"].combine_chunks()
    assert (found.dictionary.to_pylist(), found.to_pylist()) == (["c", "a", "unused", "d"], ["a", "c", "d"])

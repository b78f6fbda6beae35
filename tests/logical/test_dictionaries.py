"""Dictionary types are written and read as indices and values: none is expanded, and each value is looked up once."""

from __future__ import annotations

import gc
import io
import itertools
import random
import re
import struct
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti._core.allowance import Allowance
from smalti._core.dictionary import DictionaryValues
from smalti.logical import arrays, dictionaries, intake
from smalti.logical.dictionaries import Dictionary, max_index, plan_indices
from smalti.logical.tree import plan_column, stored_columns
from tests.support import reference
from tests.support.any_arrow import SCALARS, Money, any_array
from tests.support.children import ROOT
from tests.support.files import encodings, read, written
from tests.support.strategies import examples

INDICES: list[Any] = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
#: Types of values of which Arrow can find the different ones.
VALUES = [type_ for type_ in SCALARS if not re.search("null|halffloat|view|decimal(32|64)", str(type_))]


@pytest.fixture(autouse=True, scope="module")
def money() -> Iterator[None]:
    pa.register_extension_type(Money(pa.int8()))
    yield
    pa.unregister_extension_type("smalti.tests.money")


def any_dictionary(choose: random.Random, rows: int, kind: Any) -> pa.Array:
    """An array of a dictionary type: slices, garbage below nulls, values that no row uses."""
    index = choose.choice(INDICES)
    distinct = any_array(choose, kind, choose.choice([1, 2, 5, 100, 300]), nullable=False).unique()
    distinct = distinct.slice(0, min(len(distinct), max_index(index) + 1))
    used = choose.choice([1, len(distinct)])
    share = choose.choice([0, 0, 0.3, 1])
    indices = [None if choose.random() < share else choose.randrange(used) for _ in range(rows + 3)]
    made = pa.DictionaryArray.from_arrays(pa.array(indices, index), distinct, ordered=choose.random() < 0.3)
    return made.slice(choose.randrange(4)).slice(0, rows)


def nested(choose: random.Random, rows: int, kind: Any) -> pa.Array:
    """A dictionary by itself, or in lists, structs and maps."""
    how = choose.choice(["plain", "plain", "list", "struct", "map", "lists of structs", "extension"])
    if how in ("list", "lists of structs", "map"):
        offsets = [0]
        for _ in range(rows):
            offsets.append(offsets[-1] + choose.randrange(3))
        elements: Any = any_dictionary(choose, offsets[-1], kind)
        ends = pa.array(offsets, pa.int32())
        if how == "map":
            keys = pa.array([f"k{i}" for i in range(offsets[-1])])
            return pa.MapArray.from_arrays(ends, keys, elements)
        if how == "lists of structs":
            numbers = pa.array(range(offsets[-1]))
            elements = pa.StructArray.from_arrays([elements, numbers], names=["d", "n"])
        return pa.ListArray.from_arrays(ends, elements)
    found = any_dictionary(choose, rows, kind)
    if how == "struct":
        is_null = pa.array([choose.random() < 0.2 for _ in range(rows)], pa.bool_())
        return pa.StructArray.from_arrays([found], names=["d"], mask=is_null)
    return pa.ExtensionArray.from_storage(Money(found.type), found) if how == "extension" else found


def texts(array: Any) -> list[str]:
    return [repr(value) for value in array.to_pylist()]


@given(seed=st.integers(0, 1 << 32))
@examples(150)
def test_any_dictionary(seed: int) -> None:
    """Whole, in slices, by number and filtered; with the values in the metadata frame, and without."""
    choose = random.Random(seed)
    rows = choose.choice([0, 1, 7, 200])
    column = nested(choose, rows, choose.choice(VALUES))
    table = pa.table({"c": column, "n": pa.array(range(rows), pa.int64())})
    most = choose.choice([0, 65_536])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "MAX_ENTRIES", most)
        options: dict[str, Any] = {"row_group_max_rows": choose.choice([3, 50, 1000])}
        options["dict_max_entries"] = choose.choice([None, 0, 2])
        data = written(table, page_size_threshold=choose.choice([0, 32768]), **options)
    expected = texts(column)
    with smalti.open(data) as file:
        found = file.read()
        found.validate(full=True)
        assert found.schema == table.schema or options["row_group_max_rows"] < rows  # indices may be widened
        assert texts(found["c"]) == expected
        slices = pa.Table.from_batches(file.iter_batches(choose.choice([1, 2, 64])), file.schema)
        assert texts(slices["c"]) == expected
        wanted = choose.choices(range(rows), k=5) if rows else []
        assert texts(file.take(wanted)["c"]) == [expected[row] for row in wanted]
        below = choose.randrange(rows + 1)
        assert texts(file.read(filters=[("n", "<", below)])["c"]) == expected[:below]
        if most and isinstance(column, pa.DictionaryArray) and len(column.dictionary) and rows:
            kept = found["c"].chunk(0).dictionary
            assert texts(kept) == texts(column.dictionary)  # also of values that no row uses, in their order


@pytest.mark.parametrize("is_known", [True, False])
def test_filters_compare_values_not_rows(is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of all kinds of conditions, and how many values were compared."""
    if not is_known:
        monkeypatch.setattr(intake, "MAX_ENTRIES", 0)
    words = pa.array([f"word {number % 7}" if number % 5 else None for number in range(20_000)])
    table = pa.table({"word": words.dictionary_encode(), "plain": words, "row": range(20_000)})
    data = written(table, row_group_max_rows=8000)
    compared: list[int] = []
    for name in ("equal", "is_in", "greater", "starts_with"):
        real = getattr(pc, name)

        def counting(array: Any, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            compared.append(len(array))
            return real(array, *args, **kwargs)

        monkeypatch.setattr(pc, name, counting)
    with smalti.open(data) as file:
        for text in (
            "{} = 'word 3'",
            "{} in ('word 1', 'x')",
            "not ({} > 'word 4')",
            "{} like 'word 5%'",
            "{} is null",
        ):
            compared.clear()
            found = file.read(["row"], text.format("word"))
            assert all(count <= 7 for count in compared), (text, compared)
            assert found == file.read(["row"], text.format("plain")), text
        assert file.count_rows("word = plain") == 16_000


def test_a_filter_counts_more_values_than_the_indices_of_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another writer's file, whose row groups have more values than int8 counts; only some rows are asked for."""
    words = pa.array([f"word {number}" for number in range(300)])
    type_ = pa.dictionary(pa.int8(), pa.string())
    monkeypatch.setattr(intake, "MAX_ENTRIES", 0)
    monkeypatch.setattr(intake.Intake, "_with_capacity", lambda _self, column, _rows: column.field)
    table = pa.table({"n": range(300), "c": pa.array([None] * 300, type_)})
    sink = io.BytesIO()
    with smalti.MosaicWriter(sink, table.schema, dict_max_entries=1000) as writer:
        for start in range(0, 300, 100):
            part = words.slice(start, 100).dictionary_encode().cast(type_)
            writer.write(pa.table({"n": range(start, start + 100), "c": part}))
    with smalti.open(sink.getvalue()) as file:
        assert file.read(["n"], filters="c = 'word 250'")["n"].to_pylist() == [250]


def test_nothing_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"c": pa.array(["x", "y", None] * 10_000).dictionary_encode()})
    lengths: list[int] = []
    real = arrays.to_stored

    def counting(array: Any, target: Any) -> Any:
        lengths.append(len(array))
        return real(array, target)

    monkeypatch.setattr(arrays, "to_stored", counting)
    data = written(table)
    with smalti.open(data) as file:
        assert file.columns.project(["c"]).stored.schema.types == [pa.int32()]
        assert file.read() == table
    assert max(lengths) == 2


def test_tables_of_values_are_made_when_needed_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(*args: Any) -> DictionaryValues:
        made.append(args[2])
        return DictionaryValues(*args)

    monkeypatch.setattr(dictionaries, "DictionaryValues", counting)
    columns = {
        f"c{i}": pa.array([f"{i} {j}" for j in range(50 + i)]).dictionary_encode().slice(0, 50) for i in range(3)
    }
    data = written(pa.table(columns))
    with smalti.open(data) as file:
        assert file.schema.names == ["c0", "c1", "c2"]
        assert made == []
        for _ in range(2):
            file.read(["c1"])
            assert made == [51]
        monkeypatch.setattr(dictionaries, "MAX_KEPT_BYTES", 1)
        file.read(["c2"])
        file.read(["c1"])
        assert made == [51, 52, 51]  # the table of c2 took its place


def test_dictionaries_are_released_with_their_files_and_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that reads many files keeps a bounded number of tables, and none where there are no values."""
    type_ = pa.dictionary(pa.int32(), pa.string())
    limit = dictionaries.TABLE_BYTES * 10
    monkeypatch.setattr(dictionaries, "MAX_KEPT_BYTES", limit)

    def kept_of(values: list[Any]) -> int:
        made = [Dictionary(each, pa.string(), type_) for each in values]
        for each in made:
            each.lookup(Allowance(1 << 20))
        left = [weakref.ref(each) for each in made]
        del made, each
        gc.collect()
        return sum(found() is not None for found in left)

    assert kept_of([None] * 30) == 0
    assert 0 < kept_of([pa.array(["a"])] * 30) <= 10


def test_a_dictionary_may_be_changed_after_it_was_written() -> None:
    memory = bytearray(struct.pack("<2q", 10, 20))
    values = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(memory)])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), values)
    batch = pa.record_batch([column], names=["c"])
    sink = io.BytesIO()
    with smalti.MosaicWriter(sink, batch.schema) as writer:
        writer.write(batch)
        memory[:] = struct.pack("<2q", 30, 20)
        writer.write(batch)
        memory[:] = bytes(16)
    assert smalti.read_table(sink.getvalue())["c"].to_pylist() == [10, 20, 10, 30, 20, 30]


def test_tables_of_values_take_no_more_than_is_reserved() -> None:
    for count in (0, 1, 2, 5, 100, 1025, 20_000):
        values = pa.array([str(number) for number in range(count)], pa.string())
        allowance = Allowance(1 << 30)
        dictionary = Dictionary(values, pa.string(), pa.dictionary(pa.int32(), pa.string()))
        table = dictionary.lookup(allowance)
        assert table.nbytes <= allowance.held == dictionaries.TABLE_BYTES + dictionaries.VALUE_BYTES * count


def test_tables_of_values_count_in_the_limit() -> None:
    words = pa.array([f"{number:06}" for number in range(60_000)]).dictionary_encode()
    data = written(pa.table({"c": words.slice(0, 10)}))
    with pytest.raises(smalti.MemoryLimitError):
        smalti.read_table(data, memory_limit=2_000_000)
    assert smalti.read_table(data, memory_limit=8_000_000)["c"].to_pylist()[:2] == ["000000", "000001"]


def test_hashes_have_a_seed_of_their_own_in_each_process() -> None:
    """So nobody can make a file whose values all collide."""
    code = "from smalti._core.dictionary import hash_of; print(hash_of(b'a value'))"
    command = [sys.executable, "-c", code]
    found = {subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout for _ in range(2)}
    assert len(found) == 2


def test_all_nan_are_one_value() -> None:
    bits = pa.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000000, 0], pa.uint64())
    floats: Any = bits.view(pa.float64())
    for values in (floats, floats.slice(1, 1)):
        table = pa.table({"c": pa.DictionaryArray.from_arrays([*range(len(values)), 0], values)})
        assert repr(read(written(table))["c"].to_pylist()) == repr(table["c"].to_pylist())


def test_narrow_indices_never_wrap_around() -> None:
    def planned(count: int, index: Any) -> Any:
        type_ = pa.dictionary(index, pa.string())
        (column,) = stored_columns(plan_column(type_, True), "c", True)
        return plan_indices(column, pa.array(map(str, range(count))))[0]

    assert [planned(count, pa.int8()) for count in (128, 129)] == [pa.int8(), pa.string()]
    assert [planned(count, pa.uint8()) for count in (256, 257)] == [pa.uint8(), pa.string()]


def test_categories_have_a_budget_like_parquets_and_the_reference_reads_them() -> None:
    words = pa.array([f"category {number % 5000:012}" for number in range(40_000)])
    table = pa.table({"given": words.dictionary_encode(), "texts": words})
    data = written(table)
    assert encodings(data) == [{"given": "DICT", "texts": "PLAIN"}]
    assert encodings(written(table, dict_max_entries=255)) == [{"given": "PLAIN", "texts": "PLAIN"}]
    found = reference.read(data)
    assert found["given"].to_pylist() == found["texts"].to_pylist() == words.to_pylist()


def test_booleans_keep_one_bit_a_row() -> None:
    data = written(pa.table({"b": pa.array([True, False, None, True] * 50_000)}))
    kept = Allowance(1 << 30)
    with smalti.open(data) as file:
        held = [unit.run() for unit in file.units(kept=kept)]
        assert sum(batch.num_rows for batches in held for batch in batches) == 200_000
        assert kept.held < 60_000  # two bitmaps of 25,000 bytes


def test_columns_of_categories_are_encoded_like_their_values() -> None:
    """A constant above the budget, and batches without a value, which have no dictionary."""
    constant = pa.array(["x" * 50] * 1000).dictionary_encode()
    assert encodings(written(pa.table({"c": constant}), dict_max_bytes=10)) == [{"c": "CONST"}]
    words = pa.array([f"category {number % 5000:012}" for number in range(20_000)]).dictionary_encode()
    nulls = pa.nulls(10, pa.string()).dictionary_encode()
    assert encodings(written(pa.table({"c": pa.chunked_array([words, nulls, words])}))) == [{"c": "DICT"}]


def test_bounds_of_categories_are_those_of_their_values() -> None:
    """Also which zero it is: the first one in the rows, not in the dictionary."""
    for values in ([0.0, -0.0], [-0.0, 0.0], [float("nan"), 0.0, -0.0, 1.5]):
        for used in itertools.product(range(len(values)), repeat=3):
            column = pa.DictionaryArray.from_arrays([*used, *used], values)
            table = pa.table({"category": column, "value": column.dictionary_decode()})
            with smalti.open(written(table, stats_columns="all")) as file:
                found = file.row_group(0).statistics
                assert repr(found["category"]) == repr(found["value"])


def test_small_batches_do_not_keep_the_values_of_a_large_dictionary() -> None:
    words = pa.array([f"{number:08}" for number in range(100_000)])
    batch = pa.record_batch({"c": pa.DictionaryArray.from_arrays([99_999, 3, None, 3], words)})
    stream = io.BytesIO()
    with smalti.MosaicWriter(stream, batch.schema) as writer:
        writer.write(batch)
        before = pa.total_allocated_bytes()
        for _ in range(20):
            writer.write(batch)
        assert pa.total_allocated_bytes() - before < 100_000
    assert read(stream.getvalue())["c"].to_pylist() == ["00099999", "00000003", None, "00000003"] * 21


def test_values_that_are_collected_are_counted_once() -> None:
    """The tracker of a PLAIN column grows with its distinct values, not with its rows."""
    words = pa.array([f"category {number % 300:03}" for number in range(250_000)])
    data = written(pa.table({"c": words.dictionary_encode()}), dict_max_entries=255)
    assert encodings(data) == [{"c": "PLAIN"}]
    assert smalti.read_table(data, ["c"], "c = 'category 005x'", memory_limit=8 << 20).num_rows == 0

"""Conversions there and back, and compaction, keep types, structs, dictionaries and metadata."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from tests.support.older_arrow import array_of
from tests.tools.formats import VALUES, lost_of_table

#: Types that Parquet has no place for, or neither format.
NOT_IN_PARQUET = {"decimal128(10, -2)", "fixed_size_binary[0]", "struct<>"}
NOWHERE = {"month_day_nano_interval"}


def writes(column: pa.Table) -> bool:
    """Whether this version of Arrow writes a column to Parquet, where that is new: views, small decimals, vectors."""
    kind = str(column.schema.field(0).type)
    if "view" in kind or kind.startswith(("decimal32", "decimal64", "fixed_size_list")):
        try:
            pq.write_table(column, pa.BufferOutputStream())
        except pa.ArrowNotImplementedError:
            return False
    return True


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """A column of every type, six rows, metadata of the schema and of a field."""
    fields, arrays = [], []
    for place, (type_, values) in enumerate(VALUES):
        if str(type_) not in NOWHERE:
            fields.append(pa.field(f"c{place:02d}", type_, metadata={"comment": str(place)} if place == 5 else None))
            arrays.append(array_of(([*values, None] * 6)[:6], type_))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"owner": "me", "pandas": "{}"}))


def test_parquet_to_mosaic_and_back(tmp_path: Path, table: pa.Table) -> None:
    kept = [
        field.name
        for field in table.schema
        if str(field.type) not in NOT_IN_PARQUET and writes(table.select([field.name]))
    ]
    pq.write_table(table.select(kept), tmp_path / "a.parquet")
    jobs.convert(tmp_path / "a.parquet", tmp_path / "b.mosaic")
    jobs.convert(tmp_path / "b.mosaic", tmp_path / "c.parquet")
    before, after = pq.read_table(tmp_path / "a.parquet"), pq.read_table(tmp_path / "c.parquet")
    assert after.schema.equals(before.schema, check_metadata=True)
    assert lost_of_table(before, after) is None


def test_arrow_to_mosaic_and_back(tmp_path: Path, table: pa.Table) -> None:
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow")
    jobs.convert(tmp_path / "a.arrow", tmp_path / "b.mosaic")
    jobs.convert(tmp_path / "b.mosaic", tmp_path / "c.arrow")
    with pa.ipc.open_file(tmp_path / "c.arrow") as file:
        assert lost_of_table(table, file.read_all()) is None


@pytest.mark.parametrize("sort_by", [None, "c04", "c09", "c46"])
def test_compaction(tmp_path: Path, table: pa.Table, sort_by: str | None) -> None:
    """Also sorted: by integers, by uint64, by a dictionary; views and runs can be sorted, though Arrow cannot."""
    for part in range(3):
        smalti.write_table(table.slice(part * 2, 2), tmp_path / f"{part}.mosaic")
    jobs.compact(tmp_path, sort_by=sort_by)
    (path,) = tmp_path.glob("*.mosaic")
    found = smalti.read_table(path)
    assert found.schema.equals(table.schema, check_metadata=True)
    if sort_by is None:
        assert lost_of_table(table, found) is None
        return
    values = [value for value in found[sort_by].to_pylist() if value is not None]
    assert values == sorted(values)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, table.to_pylist()))


def test_compaction_keeps_entries_and_structs_that_grew(tmp_path: Path) -> None:
    levels = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["low", "mid", "high"]), ordered=True)
    smalti.write_table(pa.table({"x": levels, "s": pa.array([{"a": 1}])}), tmp_path / "0.mosaic")
    smalti.write_table(pa.table({"x": levels, "s": pa.array([{"a": 2, "b": "new"}])}), tmp_path / "1.mosaic")
    jobs.compact(tmp_path)
    (path,) = tmp_path.glob("*.mosaic")
    found = smalti.read_table(path)
    assert found["x"].combine_chunks().dictionary.to_pylist() == ["low", "mid", "high"]
    assert found["x"].type == levels.type
    assert found["s"].to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "new"}]


def halves(*numbers: float) -> pa.DictionaryArray:
    """Half floats with a dictionary of their own. Arrow takes the bits of such values for values when it joins them."""
    entries = pa.array(numbers).cast(pa.float16())
    return pa.DictionaryArray.from_arrays(pa.array(range(len(numbers)), pa.int8()), entries)


def test_dictionaries_of_half_floats(tmp_path: Path) -> None:
    """Sorted, merged by key and added by key, also in the rows that no key matches."""

    def rows(column: str) -> dict[int, float | None]:
        table = smalti.read_table(tmp_path / "t", columns=["id", column])
        values = (value.as_py() for chunk in table[column].chunks for value in chunk.dictionary_decode())
        pairs = zip(table["id"].to_pylist(), values, strict=True)
        return {key: None if value is None else float(value) for key, value in pairs}

    (tmp_path / "t").mkdir()
    for number, values in enumerate([(1, 2, 3), (7, 8, 9)]):
        table = pa.table({"id": range(3 * number, 3 * number + 3), "h": halves(*values)})
        smalti.write_table(table, tmp_path / f"t/{number}.mosaic")
    jobs.compact(tmp_path / "t", sort_by=[("id", "descending")])
    assert rows("h") == {0: 1, 1: 2, 2: 3, 3: 7, 4: 8, 5: 9}
    new = pa.chunked_array([halves(70), halves(71), halves(72)])
    jobs.merge(tmp_path / "t", pa.table({"id": [1, 4, 8], "h": new}), on="id")
    assert rows("h") == {0: 1, 1: 70, 2: 3, 3: 7, 4: 71, 5: 9, 8: 72}
    jobs.add_columns(tmp_path / "t", pa.table({"id": [1, 4, 8], "g": new}), on="id")
    assert rows("g") == {0: None, 1: 70, 2: None, 3: None, 4: 71, 5: None, 8: 72}
    batch = next(iter(smalti.loader(tmp_path / "t", batch_size=7, columns=["h"])))
    assert sorted(batch["h"].tolist()) == [1, 3, 7, 9, 70, 71, 72]

"""Files of one table whose types differ: brought together by what was given or, without companion, what is stored."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.logical.widen import unify_schemas, widen
from tests.support.older_arrow import HAS

POINT, POINT3 = pa.struct([("x", pa.uint8())]), pa.struct([("x", pa.int16()), ("y", pa.string())])
S = pa.string()

#: a, b, what holds both
PAIRS: list[tuple[pa.DataType, pa.DataType, pa.DataType | None]] = [
    (pa.uint8(), pa.uint32(), pa.uint32()),
    (pa.uint8(), pa.int8(), pa.int16()),
    (pa.uint32(), pa.int32(), pa.int64()),
    (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
    (pa.uint64(), pa.decimal128(20, 0), pa.decimal128(20, 0)),
    (pa.float16(), pa.float64(), pa.float64()),
    (pa.float32(), pa.int32(), None),
    (pa.null(), pa.list_(S), pa.list_(S)),
    (S, pa.large_string(), pa.large_string()),
    (S, pa.string_view(), S),
    (pa.binary(4), pa.binary(8), pa.binary()),
    (pa.dictionary(pa.int8(), S), S, S),
    (pa.dictionary(pa.int8(), S), pa.dictionary(pa.int16(), S), pa.dictionary(pa.int32(), S)),
    (pa.run_end_encoded(pa.int16(), S), pa.run_end_encoded(pa.int32(), S), pa.run_end_encoded(pa.int32(), S)),
    (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
    (pa.duration("s"), pa.int64(), pa.int64()),
    (pa.dictionary(pa.int8(), pa.duration("ms")), pa.duration("us"), pa.duration("us")),
    (pa.run_end_encoded(pa.int16(), pa.duration("s")), pa.dictionary(pa.int8(), pa.duration("ms")), pa.duration("ms")),
    (pa.run_end_encoded(pa.int16(), pa.float32()), pa.float64(), pa.float64()),
    (pa.time64("us"), pa.time64("ns"), pa.time64("ns")),
    (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ms")),
    (pa.timestamp("ms"), pa.timestamp("us"), None),
    (pa.date32(), pa.date64(), pa.date64()),
    (pa.decimal128(10, 2), pa.decimal256(50, 2), pa.decimal256(50, 2)),
    (pa.decimal128(10, 2), pa.decimal128(12, 3), None),
    (pa.list_(pa.int8(), 3), pa.list_(pa.int8(), 4), pa.list_(pa.int8())),
    (pa.list_(pa.int8(), 3), pa.list_(pa.int16(), 3), pa.list_(pa.int16(), 3)),
    (pa.map_(S, POINT), pa.map_(S, POINT3), pa.map_(S, pa.struct([("x", pa.int16()), ("y", S)]))),
    (POINT, POINT3, pa.struct([("x", pa.int16()), ("y", S)])),
    (POINT, pa.bool_(), None),
    (pa.list_(POINT), pa.list_(S), None),
    *([(pa.uuid(), pa.binary(16), pa.binary(16))] if HAS["uuid"] else []),
    *([(pa.uuid(), pa.json_(), None)] if HAS["json"] else []),
]


@pytest.mark.parametrize(("a", "b", "both"), PAIRS, ids=lambda type_: str(type_))
def test_widen(a: pa.DataType, b: pa.DataType, both: pa.DataType | None) -> None:
    assert widen(a, b) == both
    if both is None or not pa.types.is_struct(both):
        assert widen(b, a) == both


CELLS: dict[str, tuple[pa.Array, pa.Array, list[Any]]] = {
    "struct": (
        pa.array([{"x": 1}, None], POINT),
        pa.array([{"x": -1, "y": "b"}], POINT3),
        [{"x": 1, "y": None}, None, {"x": -1, "y": "b"}],
    ),
    "list of structs": (
        pa.array([[{"x": 1}], []], pa.list_(POINT)),
        pa.array([[{"x": 3, "y": "c"}, None]], pa.list_(POINT3)),
        [[{"x": 1, "y": None}], [], [{"x": 3, "y": "c"}, None]],
    ),
    "int became uint": (pa.array([-1], pa.int32()), pa.array([2**32 - 1], pa.uint32()), [-1, 2**32 - 1]),
    "uint64": (
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([-1], pa.int64()),
        [Decimal(2**64 - 1), Decimal(-1)],
    ),
    "categories": (
        pa.array(["a", "b"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), ["c"]),
        ["a", "b", "c"],
    ),
    "category and text": (pa.array(["a"]).dictionary_encode(), pa.array(["b"]), ["a", "b"]),
    "vectors": (pa.array([[1, 2]], pa.list_(pa.float32(), 2)), pa.array([[3]], pa.list_(pa.float32())), [[1, 2], [3]]),
}


@pytest.mark.parametrize("case", CELLS)
@pytest.mark.parametrize("is_filtered", [False, True])
def test_files_that_differ(tmp_path: Path, case: str, is_filtered: bool) -> None:
    first, second, cells = CELLS[case]
    for name, array in (("1", first), ("2", second)):
        table = pa.table({"id": pa.array(range(len(array)), pa.int32()), "c": array})
        smalti.write_table(table, tmp_path / f"{name}.mosaic")
    filters = [("id", ">=", 0)] if is_filtered else None
    found = smalti.dataset(tmp_path).to_table(["c"], filters=filters)
    found.validate(full=True)
    assert found["c"].to_pylist() == cells
    assert list(pa.Table.from_batches(smalti.dataset(tmp_path).to_batches(["c"]))["c"].to_pylist()) == cells


def test_fields_of_structs_across_files(tmp_path: Path) -> None:
    """A field is read, and filtered by, alone; a file whose structs lack it has nulls."""
    rows = [{"x": 1}, None], [{"x": 2, "y": "b"}, {"x": 300, "y": None}]
    for name, cells, type_ in zip("12", rows, (POINT, POINT3), strict=True):
        smalti.write_table(pa.table({"p": pa.array(cells, type_)}), tmp_path / f"{name}.mosaic", stats_columns=["p.x"])
    table = smalti.dataset(tmp_path)
    assert table.to_table(["p.y"]).to_pylist() == [
        {"p": {"y": None}}, {"p": None}, {"p": {"y": "b"}}, {"p": {"y": None}}
    ]  # fmt: skip
    assert str(table.to_table(["p.y"]).schema.field("p").type) == "struct<y: string>"
    assert table.to_table(filters=[("p.x", ">", 1)]).to_pylist() == [
        {"p": {"x": 2, "y": "b"}}, {"p": {"x": 300, "y": None}}
    ]  # fmt: skip
    assert table.to_table(["p.x"], filters=[("p.y", "=", "b")]).to_pylist() == [{"p": {"x": 2}}]
    assert table.count_rows([("p.x", "<", 2)]) == 1
    with pytest.raises(smalti.SchemaError, match="no column"):
        table.to_table(["p.z"])


def test_with_and_without_companion(tmp_path: Path) -> None:
    table = pa.table({"u": pa.array([1], pa.uint16()), "d": pa.array([5], pa.duration("s")), "c": ["x"]})
    smalti.write_table(table, tmp_path / "1.mosaic")
    smalti.write_table(table, tmp_path / "2.mosaic", companion=False)
    found = smalti.dataset(tmp_path).to_table()
    assert found.schema.types == [pa.int32(), pa.int64(), S]
    assert found.to_pydict() == {"u": [1, 1], "d": [5, 5], "c": ["x", "x"]}


@pytest.mark.parametrize(
    ("types", "refused"),
    [
        ([pa.duration("s"), pa.int64(), pa.duration("s")], None),
        ([pa.duration("s"), pa.int64(), pa.duration("ms")], "found duration[ms], expected duration[s]"),
        ([pa.duration("s"), pa.duration("ms"), pa.int64()], "found duration[ms], expected duration[s]"),
        ([pa.time64("us"), pa.duration("us"), pa.int64()], "files disagree"),
        ([pa.decimal256(50, 2), pa.binary(), pa.decimal256(60, 2)], None),
        ([pa.decimal256(50, 2), pa.binary(), pa.decimal256(50, 3)], "found decimal256(50, 3), expected decimal256"),
        (
            [pa.list_(pa.struct([("x", t)])) for t in (pa.duration("s"), pa.int64(), pa.duration("us"))],
            "files disagree",
        ),
    ],
)
def test_numbers_of_two_units_are_no_column(types: list[pa.DataType], refused: str | None) -> None:
    """A file without companion has numbers instead of durations: those of one unit and no other."""
    schemas = [(str(number), pa.schema([("c", type_)])) for number, type_ in enumerate(types)]
    if refused is None:
        unify_schemas(schemas)
        return
    with pytest.raises(smalti.SchemaError, match=re.escape(refused)):
        unify_schemas(schemas)


def test_metadata_of_a_table(tmp_path: Path) -> None:
    for number, extra in enumerate((b"1", b"2")):
        schema = pa.schema([pa.field("a", pa.int32(), metadata={"unit": "m"})], {"owner": "me", "number": extra})
        smalti.write_table(pa.table({"a": [number]}, schema), tmp_path / f"{number}.mosaic")
    schema = smalti.dataset(tmp_path).schema
    assert (schema.metadata, schema.field("a").metadata) == ({b"owner": b"me"}, {b"unit": b"m"})

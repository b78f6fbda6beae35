"""Reading as another schema, and as what is stored: files, directories, streams."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 300], pa.uint16()),
        "user": pa.array([{"age": 1, "name": "a"}, None, {"age": 2, "name": "b"}]),
        "word": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
WANTED = pa.schema(
    [
        pa.field("word", pa.large_string()),
        pa.field("new", pa.list_(pa.int8())),
        pa.field("user", pa.struct([("name", pa.string()), ("since", pa.date32())])),
        pa.field("id", pa.int64(), metadata={"unit": "1"}),
    ],
    {"owner": "me"},
)
EXPECTED = [
    {"word": "x", "new": None, "user": {"name": "a", "since": None}, "id": 1},
    {"word": "y", "new": None, "user": None, "id": 2},
    {"word": "x", "new": None, "user": {"name": "b", "since": None}, "id": 300},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "table").mkdir()
    smalti.write_table(TABLE, tmp_path / "table" / "a.mosaic", row_group_max_rows=2)
    return tmp_path / "table"


@pytest.mark.parametrize("name", ["", "a.mosaic"])
def test_read_as_another_schema(path: Path, name: str) -> None:
    """A directory and a file mean the same by it, and so does `dataset(schema=)`."""
    where = path / name
    scan = smalti.scan(where, schema=WANTED, batch_size=1)
    for found in (
        smalti.read_table(where, schema=WANTED),
        scan.to_table(),
        pa.table(pickle.loads(pickle.dumps(scan))),
        smalti.dataset(path, schema=WANTED).to_table(),
    ):
        assert found.schema.equals(WANTED, check_metadata=True)
        assert found.to_pylist() == EXPECTED
    assert [batch.num_rows for batch in scan.to_batches()] == [1, 1, 1]
    some = smalti.read_table(where, ["id", "w*"], filters=[("user.name", "=", "b")], schema=WANTED)
    assert some.to_pylist() == [{"id": 300, "word": "x"}]
    with pytest.raises(smalti.SchemaError, match="no column 'nope'"):
        smalti.read_table(where, ["nope"], schema=WANTED)
    with pytest.raises(smalti.SchemaError, match=r"'id': values cannot be read.*300"):
        smalti.read_table(where, schema=pa.schema([("id", pa.int8())]))


def test_one_file(path: Path) -> None:
    with smalti.open(path / "a.mosaic") as file:
        assert file.read(schema=WANTED).to_pylist() == EXPECTED
        assert file.read(["user"], row_groups=[1], schema=WANTED).to_pylist() == [{"user": EXPECTED[2]["user"]}]
        assert file.read([], schema=WANTED).num_rows == 3


@pytest.mark.parametrize("name", ["", "a.mosaic"])
def test_what_is_stored(path: Path, name: str) -> None:
    stored = smalti.read_table(path / name, logical=False)
    assert stored.schema.names == ["id", "user", "user.age", "user.name", "word"]
    assert stored.schema.field("id").type == pa.int32()
    assert pa.table(smalti.scan(path / name, logical=False)).equals(stored)
    table = smalti.dataset(path, logical=False)
    assert table.to_table().equals(stored)
    assert table.tail(1).equals(stored.slice(stored.num_rows - 1))


@pytest.mark.parametrize("name", ["", "a.mosaic"])
def test_a_field_of_a_struct_is_no_column_of_a_schema(path: Path, name: str) -> None:
    """It came as nulls, like a column that is not there."""
    wanted = pa.schema([("user.age", pa.int64())])
    with pytest.raises(smalti.SchemaError, match=r"names a field of a struct instead of a column: found user\.age"):
        smalti.read_table(path / name, schema=wanted)
    with pytest.raises(smalti.SchemaError, match=r"names a field of a struct"):
        smalti.scan(path / name, schema=wanted).to_table()
    with smalti.open(path / "a.mosaic") as file, pytest.raises(smalti.SchemaError, match=r"names a field of a struct"):
        file.read(schema=wanted)
    assert smalti.read_table(path / name, schema=pa.schema([("nope.age", pa.int8())]))["nope.age"].null_count == 3


#: Values, the types they are asked for as, and whether those hold them.
DEMANDS: list[tuple[pa.Array, pa.DataType, bool]] = [
    (pa.array([86_400_000, None], pa.timestamp("ms")), pa.date32(), True),
    (pa.array([86_400_001], pa.timestamp("ms")), pa.date32(), False),
    (pa.array([86_400_000_000_001], pa.timestamp("ns")), pa.date64(), False),
    (pa.array([82_800_000], pa.timestamp("ms", "Europe/Berlin")), pa.date32(), True),
    (pa.array([86_400_000], pa.timestamp("ms", "Europe/Berlin")), pa.date32(), False),
    (pa.array([1e30, float("inf"), float("nan"), None]), pa.float32(), True),
    (pa.array([1e39]), pa.float32(), False),
    (pa.array([-70_000.0]), pa.float16(), False),
    (pa.array([2048], pa.int32()), pa.float16(), True),
    (pa.array([2049], pa.int32()), pa.float16(), False),
    (pa.array([70_000], pa.int32()), pa.float16(), False),
    (pa.array([Decimal(10) ** 50], pa.decimal256(51, 0)), pa.float32(), False),
    (pa.array([0.1, 0.29, 4.35, None]), pa.decimal128(5, 2), True),
    (pa.array([0.1, 0.29, 4.35], pa.float32()), pa.decimal128(5, 2), True),
    (pa.array([0.126]), pa.decimal128(5, 2), False),
    (pa.array([3.0]), pa.decimal128(10, -2), False),
    (pa.array([0, 1, None]), pa.bool_(), True),
    (pa.array([5]), pa.bool_(), False),
    (pa.array([0.5]), pa.bool_(), False),
    (pa.array([[1, 2]]), pa.list_(pa.int64(), 3), False),
]


@pytest.mark.parametrize("wrap", ["plain", "dictionary", "runs", "struct", "list"])
@pytest.mark.parametrize(("column", "type_", "holds"), DEMANDS, ids=str)
def test_values_that_do_not_fit_are_refused(
    path: Path, column: Any, type_: pa.DataType, holds: bool, wrap: str
) -> None:
    wanted = type_
    if pa.types.is_list(column.type) and wrap in ("dictionary", "runs"):
        pytest.skip("no dictionaries of lists")
    if wrap == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int8()), column)
    elif wrap == "runs":
        column = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(column) + 1), pa.int32()), column)
    elif wrap == "struct":
        column, wanted = pa.StructArray.from_arrays([column], ["y"]), pa.struct([("y", type_)])
    elif wrap == "list":
        column, wanted = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column), pa.list_(type_)
    smalti.write_table(pa.table({"x": column}), path / "fits.mosaic")
    schema = pa.schema([("x", wanted)])
    if holds:
        assert smalti.read_table(path / "fits.mosaic", schema=schema).schema == schema
    else:
        with pytest.raises(smalti.SchemaError, match=r"column 'x'.*expected"):
            smalti.read_table(path / "fits.mosaic", schema=schema)

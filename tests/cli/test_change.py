"""Commands that change tables in place, as people type them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import smalti
from tests.cli.conftest import Done


def test_the_life_of_a_table(tmp_path: Path, run: Callable[..., Done]) -> None:
    table = tmp_path / "t"
    table.mkdir()
    for number in range(2):
        ids = list(range(4 * number, 4 * number + 4))
        data = pa.table({"id": ids, "unit": ["g", "kg", None, "g"], "price": [1.0, 2.0, 3.0, 4.0]})
        smalti.write_table(data, table / f"f{number}.mosaic", row_group_max_rows=2)
    pq.write_table(pa.table({"id": [1, 6], "city": ["Oslo", "Rome"]}), tmp_path / "cities.parquet")
    (tmp_path / "new.csv").write_text("id,price\n3,40\n9,90\n")

    def done(*arguments: Any) -> dict[str, Any]:
        result = run(*arguments, "--json")
        assert result.code == 0, result.err
        found: dict[str, Any] = json.loads(result.out)
        return found

    before = sorted(table.rglob("*.mosaic"))
    assert done("add-columns", table, tmp_path / "cities.parquet", "--on", "id", "--dry-run")["files"] == 2
    assert sorted(table.rglob("*")) == before
    assert done("add-columns", table, tmp_path / "cities.parquet", "--on", "id")["rows_unmatched"] == 6
    assert done("rename-columns", table, "city=town")["rows"] == 8
    assert done("reorder-columns", table, "town", "id")["rows"] == 8
    report = done("update", table, "--set", "price=0.5", "--set", "town='x y'", "--where", "unit = 'kg'")
    assert (report["rows"], report["rows_unknown"], report["row_groups"]) == (2, 2, 2)
    assert done("update", table, "--set", "town=unit", "--where", "id = 0")["rows"] == 1
    assert done("delete", table, "--where", "id >= 6")["rows"] == 2
    report = done("merge", table, tmp_path / "new.csv", "--on", "id")
    assert (report["rows_updated"], report["rows_inserted"]) == (1, 1)
    assert done("drop-columns", table, "un*")["rows"] == 7
    found = smalti.dataset(table).to_table().sort_by("id")
    assert found.select(["id", "price", "town"]).to_pylist() == [
        {"id": 0, "price": 1.0, "town": "g"},
        {"id": 1, "price": 0.5, "town": "x y"},
        {"id": 2, "price": 3.0, "town": None},
        {"id": 3, "price": 40.0, "town": None},
        {"id": 4, "price": 1.0, "town": None},
        {"id": 5, "price": 0.5, "town": "x y"},
        {"id": 9, "price": 90.0, "town": None},
    ]
    assert smalti.open(sorted(table.rglob("f*.mosaic"))[0]).column_names == ["town", "id", "price"]
    text = run("delete", table, "--where", "town != 'g'").out
    assert "2 rows" in text
    assert "4 rows kept because the condition is null for them" in text


def test_mistakes(tmp_path: Path, run: Callable[..., Done]) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"id": [1, 2], "price": [1.0, 2.0]}), file)
    before = file.read_bytes()
    for arguments, message in [
        (("drop-columns", file, "prize"), "did you mean 'price'?"),
        (("rename-columns", file, "price"), "expected OLD=NEW"),
        (("update", file, "--set", "price"), "expected NAME=VALUE"),
        (("update", file, "--set", "price='x'"), "price"),
        *((("update", file, "--set", f"id={value}"), "does not fit the type") for value in ("1.5", "1e30")),
        (("update", file, "--set", "price=1e400"), "does not fit the type"),
        (("update", file, "--set", "id=1", "--set", "id=2"), "two values"),
        (("delete", file, "--where", "prize = 3"), "did you mean 'price'?"),
        (("delete", file), "--where"),
        (("merge", file, file), "--on"),
        (("merge", file, tmp_path / "no.csv", "--on", "id"), "no.csv"),
    ]:
        result = run(*arguments)
        assert result.code != 0
        assert message in result.err, (arguments, result.err)
    assert file.read_bytes() == before


def test_values_as_text(tmp_path: Path, run: Callable[..., Done]) -> None:
    """Floats are rounded, and the name of a column may have an =."""
    file, third = tmp_path / "t.mosaic", 0.3333333333333333
    smalti.write_table(pa.table({"a=b": [1, 2], "f": pa.array([1, 2], pa.float32()), "g": [1.0, 2.0]}), file)
    assert run("update", file, "--set", "a=b=-5", "--set", "f=0.1", "--set", f"g={third}33333").code == 0
    found = smalti.read_table(file)
    assert found.equals(pa.table({"a=b": [-5, -5], "f": pa.array([0.1, 0.1], pa.float32()), "g": [third, third]}))

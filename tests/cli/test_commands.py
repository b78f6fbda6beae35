"""Every command that looks at a file, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
from smalti.cli import arguments
from smalti.cli.commands import COMMANDS
from smalti.jobs.formats.registry import FORMATS
from tests.cli.conftest import mixed_table


def test_the_help_names_all_formats() -> None:
    assert re.sub(r" \(.*?\)", "", arguments.FORMATS).split(", ") == list(FORMATS)


def test_schema(run: Any, mixed: Path, wide: Path) -> None:
    lines = run("schema", mixed).out.splitlines()
    assert len(lines) == 2 + 15
    assert "date32[day]" in next(text for text in lines if " day " in text)
    document = json.loads(run("schema", wide, "--json", "-c", "sensor_0001?").out)
    assert document["num_columns"] == 10_000
    assert [item["name"] for item in document["columns"]] == [f"sensor_{i:05d}" for i in range(10, 20)]
    assert document["columns"][0]["position"] == 11


def test_meta(run: Any, mixed: Path) -> None:
    document = json.loads(run("meta", mixed, "--json").out)
    assert (document["rows"], document["columns"], document["buckets"]) == (100, 15, 4)
    assert [group["rows"] for group in document["row_groups"]] == [30, 30, 30, 10]
    assert document["size"] == mixed.stat().st_size
    stored = sum(group["bytes"] for group in document["row_groups"])
    assert stored + document["schema_block"]["size"] + document["index"]["size"] + 32 == document["size"]
    text = run("meta", mixed).out
    assert "compression   zstd" in text


def test_bounds_that_neither_python_nor_pandas_can_hold(run: Any, tmp_path: Path) -> None:
    """The smallest number of nanoseconds is a missing value to pandas, for example."""
    ends = [-(1 << 63), (1 << 63) - 1]
    plain: dict[str, Any] = {}
    for unit in ("s", "ms", "us", "ns"):
        plain[f"duration {unit}"] = pa.array(ends, pa.int64()).view(pa.duration(unit))
        most = [end // 1000 for end in (ends[0] + 1000, ends[1])] if unit == "s" else ends
        plain[f"moment {unit}"] = pa.array(most, pa.int64()).view(pa.timestamp(unit, "Europe/Berlin"))
    plain["day"] = pa.array([-(1 << 31), (1 << 31) - 1], pa.int32()).view(pa.date32())
    table = pa.table(
        plain
        | {f"{name} of a dictionary": pa.DictionaryArray.from_arrays([0, 1], array) for name, array in plain.items()}
        | {
            f"{name} of runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), array)
            for name, array in plain.items()
        }
    )
    path = tmp_path / "a.mosaic"
    summary = smalti.write_table(table, path, stats_columns="all", row_group_max_rows=1)
    assert "NaT" not in repr(summary.statistics)
    rows = [json.loads(line) for line in run("cat", path, "--json").out.splitlines()]
    columns = json.loads(run("stats", path, "--json").out)["columns"]
    assert {item["name"]: [item["min"], item["max"]] for item in columns} == {
        name: [row[name] for row in rows] for name in table.column_names
    }
    for command in (["stats", path], ["profile", path], ["report", path, "-o", tmp_path / "a.html"]):
        assert run(*command).code == 0


def test_layout(run: Any, mixed: Path) -> None:
    words, _, *lines = run("layout", mixed).out.splitlines()
    assert len(lines) == 2 + 4 * 4
    assert words in run("meta", mixed).out
    lines = run("layout", mixed, "--column", "tags", "--row-group", 0).out.splitlines()
    assert [text.split()[2] for text in lines[2:]] == ["tags", "tags.element"]
    document = json.loads(run("layout", mixed, "--json", "--bucket", 1).out)
    for group in document["row_groups"]:
        assert [bucket["id"] for bucket in group["buckets"]] == [1]
        assert group["buckets"][0]["columns"]
    with smalti.open(mixed) as file:
        whole = json.loads(run("layout", mixed, "--json").out)
        layout = file.layout()
    assert whole["row_groups"][0]["buckets"][0]["size"] == layout.row_groups[0].buckets[0].size
    assert len(whole["row_groups"]) == 4


@pytest.mark.parametrize("arguments", [("--bucket", 4), ("--row-group", 9), ("--column", "nope")])
def test_layout_of_what_is_not_there(run: Any, mixed: Path, arguments: tuple[Any, ...]) -> None:
    done = run("layout", mixed, *arguments)
    assert done.code == 1
    assert done.err.startswith("smalti: error: no ")


def test_stats(run: Any, mixed: Path) -> None:
    document = json.loads(run("stats", mixed, "--json", "-c", "id,name,at,price").out)
    by_name = {item["name"]: item for item in document["columns"]}
    assert by_name["id"] == {"name": "id", "null_count": 0, "min": 0, "max": 99}
    assert by_name["name"]["null_count"] == 10
    assert by_name["at"]["min"] == "2026-01-01T00:00:00.000000"
    assert by_name["price"]["max"] == "24.50"
    group = json.loads(run("stats", mixed, "--json", "-c", "id", "--row-group", 3).out)
    assert group["columns"][0]["min"] == 90
    assert run("stats", mixed, "--row-group", 4).code == 1
    assert "id " in run("stats", mixed).out


def test_stats_of_days_and_moments_that_python_cannot_hold(run: Any, tmp_path: Path) -> None:
    columns = {
        "day": pa.array([-2_000_000, 5, 6, 7], pa.int32()).cast(pa.date32()),
        "at": pa.array([1, 1001, 2002, 3003]).cast(pa.timestamp("ns")),
        "zoned": pa.array([1, 1001, 2002, 3003]).cast(pa.timestamp("ns", "Asia/Tokyo")),
        "took": pa.array([1, 1001, 2002, 3003]).cast(pa.duration("ns")),
        "slow": pa.array([1, 1001, 2002, 1 << 62]).cast(pa.duration("s")),
    }
    path = tmp_path / "a.mosaic"
    smalti.write_table(pa.table(columns), path, row_group_max_rows=2)
    document = json.loads(run("stats", path, "--json").out)
    found = {item["name"]: (item["min"], item["max"]) for item in document["columns"]}
    assert found["day"] == ("-3506-03-09", "1970-01-08")
    assert found["at"] == ("1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000003003")
    assert found["zoned"] == ("1970-01-01T00:00:00.000000001Z", "1970-01-01T00:00:00.000003003Z")
    assert (found["took"], found["slow"]) == ((1, 3003), (1, 1 << 62))  # in the unit of the column, as `head` shows it
    assert run("report", path, "-o", tmp_path / "a.html").code == 0
    with smalti.open(path) as file:
        assert "min=-3506-03-09" in repr(file.row_group(0).statistics["day"])


def test_stats_of_a_file_without_any(run: Any, tmp_path: Path) -> None:
    smalti.write_table(pa.table({"a": [1]}), tmp_path / "a.mosaic", stats_columns=())
    done = run("stats", tmp_path / "a.mosaic")
    assert (done.code, done.out) == (0, "")
    assert "no statistics" in done.err


def test_head_and_cat(run: Any, mixed: Path) -> None:
    assert len(run("head", mixed, "-c", "id").out.splitlines()) == 2 + 10
    assert len(run("cat", mixed, "-c", "id").out.splitlines()) == 2 + 100
    rows = [
        json.loads(text) for text in run("cat", mixed, "--json", "--where", "id > 95", "-c", "id,na*").out.splitlines()
    ]
    assert rows == [{"id": i, "name": None if i % 10 == 9 else f"n{i % 5}"} for i in range(96, 100)]
    assert (
        run("head", mixed, "-n", 2, "--csv", "-c", "id,flag,day").out
        == "id,flag,day\n0,true,2026-01-01\n1,false,2026-01-02\n"
    )
    assert run("head", mixed, "-n", 0, "--json").out == ""
    assert len(run("cat", mixed, "-n", 45, "--csv", "-c", "id").out.splitlines()) == 46
    assert len(run("head", mixed, "--vertical").out.splitlines()) == 2 + 15


def test_10_000_columns(run: Any, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    out = run("head", wide).out
    assert max(map(len, out.splitlines())) <= 90
    assert "of 10,000 columns not shown" in out
    assert len(run("head", wide, "--json", "-n", 1).out) > 100_000
    assert len(run("head", wide, "-c", "sensor_0*", "--vertical").out.splitlines()) == 2 + 9_999


def test_count(run: Any, mixed: Path) -> None:
    assert run("count", mixed).out == "100\n"
    assert run("count", mixed, "--where", "id < 5 or id > 95").out == "9\n"
    assert json.loads(run("count", mixed, "--where", "flag", "--json").out)["of"] == 100


def test_diff(run: Any, mixed: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.mosaic"
    smalti.write_table(mixed_table(), same, num_buckets=1, compression="none")
    assert run("diff", mixed, same) == run("diff", same, mixed)
    assert run("diff", mixed, same).out == "files are equal\n"

    table = mixed_table().set_column(5, "name", pa.array(["changed", *mixed_table()["name"].to_pylist()[1:]]))
    table = table.drop_columns(["raw"]).append_column("new", pa.nulls(100, pa.int8()))
    other = tmp_path / "other.mosaic"
    smalti.write_table(table, other)
    done = run("diff", mixed, other)
    assert done.code == 1
    assert "only in A: raw" in done.out
    assert "only in B: new" in done.out
    assert "values: 1 value differs in 1 column" in done.out
    document = json.loads(run("diff", mixed, other, "--json").out)
    assert document["examples"] == [[0, "name", "n0", "changed"]]
    assert run("diff", mixed, other, "-c", "id").code == 0
    assert run("diff", mixed, other, "--schema").code == 1

    shorter = tmp_path / "shorter.mosaic"
    smalti.write_table(mixed_table(99).cast(mixed_table().schema), shorter)
    assert "rows: 100 in A, 99 in B" in run("diff", mixed, shorter).out


def test_diff_with_parquet(run: Any, mixed: Path, tmp_path: Path) -> None:
    pq.write_table(mixed_table(), tmp_path / "t.parquet", row_group_size=17)
    done = run("diff", tmp_path / "t.parquet", mixed)
    assert done.out == "files are equal\n", done


def test_diff_knows_nan_and_nested(run: Any, tmp_path: Path) -> None:
    for name, last in (("a", 2), ("b", 3)):
        table = pa.table({"f": [float("nan"), None, 1.0], "l": [[1], None, [last]]})
        smalti.write_table(table, tmp_path / f"{name}.mosaic")
    document = json.loads(run("diff", tmp_path / "a.mosaic", tmp_path / "b.mosaic", "--json").out)
    assert document["cells"] == {"l": 1}
    assert document["examples"] == [[2, "l", [2], [3]]]


def test_report(run: Any, mixed: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run("report", mixed, "-o", page).code == 0
    assert page.read_text().startswith("<!doctype html>")
    again = run("report", mixed, "-o", page)
    assert again.code == 1
    assert "--overwrite" in again.err
    assert run("report", mixed, "-o", page, "--overwrite").code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_is_read(run: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    done = run(name, "--help")
    assert done.code == 0
    assert f"Reads {COMMANDS[name].reads}." in done.out
    assert name in run("--help").out


def test_files_without_rows_or_columns(run: Any, tmp_path: Path) -> None:
    empty, bare = tmp_path / "empty.mosaic", tmp_path / "bare.mosaic"
    smalti.write_table(pa.table({"a": pa.array([], pa.int8())}), empty, stats_columns=["a"])
    smalti.write_table(pa.table({"a": [1, 2]}).select([]), bare)
    for path in (empty, bare):
        for command in ("schema", "meta", "layout", "stats", "head", "cat", "count"):
            assert run(command, path).code == 0, (command, path)
            assert run(command, path, "--json").code == 0, (command, path)
        assert run("report", path, "-o", path.with_suffix(".html")).code == 0
        assert run("diff", path, path).code == 0


def test_layouts_are_weighed(run: Any, tmp_path: Path) -> None:
    table = pa.table({f"c{at:03d}": [(at * row) % 97 for row in range(3000)] for at in range(250)})
    smalti.write_table(table, tmp_path / "t.mosaic", num_buckets=100, page_size_threshold=1 << 30)
    out = run("layout", tmp_path / "t.mosaic", "--weigh", "--compression-level", 3).out
    assert "100 monolithic buckets  100.0%" in out
    assert "100 paged buckets" in out
    assert "small: " in out
    document = json.loads(run("layout", tmp_path / "t.mosaic", "--weigh", "--json").out)
    assert set(document) == {"file", "small", "balanced", "fast"}
    smalti.write_table(table.slice(0, 0), tmp_path / "empty.mosaic")
    assert "no rows" in run("layout", tmp_path / "empty.mosaic", "--weigh").out


@pytest.mark.parametrize(("aim", "is_apart"), [("fast", True), ("small", False)])
def test_jobs_rewrite_with_another_layout(run: Any, tmp_path: Path, aim: str, is_apart: bool) -> None:
    random = Random(1)
    table = pa.table(
        {f"c{at:03d}": [f"value_{random.randint(at, at + 600):05d}" for _ in range(500)] for at in range(250)}
    )
    (tmp_path / "t").mkdir()
    smalti.write_table(table, tmp_path / "t" / "a.mosaic")
    assert run("compact", tmp_path / "t", tmp_path / "u", "--layout", aim, "--compression-level", 9).code == 0
    (found,) = (tmp_path / "u").glob("*.mosaic")
    with smalti.open(found) as file:
        modes = {bucket.mode for bucket in file.layout(()).row_groups[0].buckets}
        assert (file.num_buckets == 250 or modes == {"paged"}) is is_apart
    assert smalti.read_table(tmp_path / "u").equals(table)

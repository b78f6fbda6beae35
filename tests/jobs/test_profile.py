"""Profile: the numbers against Arrow's own, merging, and the page."""

from __future__ import annotations

import json
import pickle
import random
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.jobs import _sketch
from smalti.jobs.formats.registry import format_of_source
from smalti.jobs.formats.request import ReadRequest
from smalti.jobs.profile_job import _plan as plan
from smalti.jobs.profile_task import MAX_SAMPLE, WHOLE, Measure, combine, measure
from smalti.jobs.source_files import list_sources
from tests.jobs.data import mixed, mosaic_files, nested, partitioned


def by_column(profile: jobs.Profile) -> dict[str, dict[str, object]]:
    return {row["column"]: row for row in profile.table.to_pylist()}


def test_numbers(tmp_path: Path) -> None:
    tables = [mixed(200), mixed(200, 150)]
    mosaic_files(tmp_path / "d", tables, row_group_max_rows=70)
    both = pa.concat_tables(tables)
    profile = jobs.profile(tmp_path / "d", split_bytes=1)
    assert (profile.num_rows, profile.num_columns, profile.num_files) == (400, 6, 2)
    found = by_column(profile)
    for name in both.column_names:
        column = both[name].combine_chunks()
        ends = pc.min_max(column)
        row = found[name]
        assert (row["rows"], row["nulls"]) == (400, column.null_count), name
        assert (row["min"], row["max"]) == (str(ends["min"].as_py()), str(ends["max"].as_py())), name
        exact = pc.count_distinct(column).as_py()
        assert abs(row["distinct"] - exact) <= max(1, 0.1 * exact), name  # type: ignore[operator]
        assert row["stored_bytes"] > 0  # type: ignore[operator]
    size = sum(path.stat().st_size for path in (tmp_path / "d").iterdir())
    assert sum(row["stored_bytes"] for row in found.values()) < size  # type: ignore[misc]
    assert found["flag"]["encodings"] == "DICT 6"


def test_nested_and_empty(tmp_path: Path) -> None:
    smalti.write_table(nested(10), tmp_path / "a.mosaic")
    found = by_column(jobs.profile(tmp_path / "a.mosaic"))
    assert (found["tags"]["nulls"], found["tags"]["distinct"], found["tags"]["min"]) == (5, None, None)
    assert (found["price"]["min"], found["price"]["max"]) == ("0.00", "2.25")
    smalti.write_table(pa.table({"x": pa.array([None, None], pa.int32())}), tmp_path / "b.mosaic")
    assert by_column(jobs.profile(tmp_path / "b.mosaic"))["x"] == {
        "column": "x", "type": "int32", "rows": 2, "nulls": 2, "min": None, "max": None, "distinct": 0,
        "histogram": None, "encodings": "ALL_NULL 1", "stored_bytes": 0, "raw_bytes": 0, "same_as": None,
    }  # fmt: skip


def test_other_formats(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    profile = jobs.profile(tmp_path / "raw", columns=["city", "id"])
    assert profile.table["column"].to_pylist() == ["city", "id"]
    assert profile.table["encodings"].null_count == 2
    assert by_column(profile)["id"]["max"] == "299"


@pytest.mark.parametrize("suffix", [".mosaic", ".parquet", ".csv"])
def test_output(tmp_path: Path, suffix: str) -> None:
    smalti.write_table(mixed(20), tmp_path / "a.mosaic")
    target = tmp_path / f"profile{suffix}"
    profile = jobs.profile(tmp_path / "a.mosaic", output=target)
    if suffix == ".mosaic":
        assert smalti.read_table(target).equals(profile.table)
    elif suffix == ".parquet":
        assert pq.read_table(target).equals(profile.table)
    with pytest.raises(FileExistsError):
        jobs.profile(tmp_path / "a.mosaic", output=target)
    jobs.profile(tmp_path / "a.mosaic", output=target, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.mosaic", target.name])


def test_page(tmp_path: Path) -> None:
    table = pa.table({"</script><b>": ["<i>x</i>"], "ok": [1]})
    smalti.write_table(table, tmp_path / "a.mosaic")
    jobs.profile(tmp_path / "a.mosaic", html=tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "<b>" not in page
    assert "<i>x" not in page
    assert not re.search(r"https?://", page)
    data = json.loads(re.search(r'id="model" type="application/json">(.*?)</script>', page, re.S).group(1))  # type: ignore[union-attr]
    assert data["columns"]["name"] == ["</script><b>", "ok"]
    assert data["values"]["distinct"] == [1, 1]


def test_broken_files(tmp_path: Path) -> None:
    mosaic_files(tmp_path, [mixed(10), mixed(10)])
    (tmp_path / "f1.mosaic").write_bytes(b"MOSA" * 20)
    with pytest.raises(jobs.JobError, match=r"f1\.mosaic"):
        jobs.profile(tmp_path)
    profile = jobs.profile(tmp_path, on_error="skip")
    assert profile.num_rows == 10
    assert [Path(item.path).name for item in profile.skipped] == ["f1.mosaic"]


def test_types_that_disagree(tmp_path: Path) -> None:
    mosaic_files(tmp_path, [pa.table({"a": [1]}), pa.table({"a": ["x"]})])
    with pytest.raises(smalti.SchemaError, match=r"f1\.mosaic, column 'a'"):
        jobs.profile(tmp_path)
    mosaic_files(tmp_path, [pa.table({"a": pa.array([5], pa.int8())}), pa.table({"a": [1 << 40]})])
    assert by_column(jobs.profile(tmp_path))["a"]["max"] == str(1 << 40)


SECONDS = list(range(-100, 100))
TENTHS = [Decimal(i).scaleb(-1) for i in SECONDS]
LARGE = [Decimal(i * 1000) for i in SECONDS]


@pytest.mark.parametrize(
    ("first", "second", "type_", "ends"),
    [
        (pa.array(SECONDS, pa.int16()), pa.array(SECONDS, pa.int64()), "int64", ("-100", "99")),
        (pa.array(range(200), pa.uint64()), pa.array(range(200), pa.int32()), "decimal128(20, 0)", ("0", "199")),
        (pa.array(SECONDS, pa.float32()), pa.array([*SECONDS, -0.0], pa.float64()), "double", ("-100.0", "99.0")),
        (
            pa.array(SECONDS, pa.duration("s")).dictionary_encode(),
            pa.array([second * 1000 for second in SECONDS], pa.duration("ms")),
            "duration[ms]",
            ("-1 day, 23:58:20", "0:01:39"),
        ),
        (
            pa.array(range(200), pa.int64()).view(pa.time64("us")),
            pa.array([tick * 1000 for tick in range(200)], pa.int64()).view(pa.time64("ns")),
            "time64[ns]",
            ("00:00:00", "00:00:00.000199"),
        ),
        (pa.array(TENTHS, pa.decimal128(20, 1)), pa.array(TENTHS, pa.decimal256(50, 1)), "decimal256(50, 1)", None),
        (pa.array(LARGE, pa.decimal256(50, -3)), pa.array(LARGE, pa.decimal256(60, -3)), "decimal256(60, -3)", None),
        (pa.nulls(200), pa.array([str(i) for i in SECONDS]), "string", ("-1", "99")),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_count_once_whatever_their_type(
    tmp_path: Path, first: pa.Array, second: pa.Array, type_: str, ends: tuple[str, str] | None
) -> None:
    """A number is the same in every width and unit; it was counted twice, and bounds and bars were of mixed units."""
    mosaic_files(tmp_path, [pa.table({"c": first}), pa.table({"c": second})])
    row = by_column(jobs.profile(tmp_path))["c"]
    alone = by_column(jobs.profile(tmp_path / "f1.mosaic"))["c"]
    assert row["type"] == type_
    assert row["distinct"] == pytest.approx(200, abs=12)
    assert row["histogram"] == alone["histogram"]
    assert ends is None or (row["min"], row["max"]) == ends
    assert (row["min"], row["max"]) == (alone["min"], alone["max"])


def test_many_tasks_on_a_wide_table_stay_small(tmp_path: Path) -> None:
    """A result was 4.7 KB a column, and the driver kept 512 values of each column for each task."""
    names = [f"c{i}" for i in range(60)]
    table = pa.table({name: pa.array(range(40_000), pa.float64()) for name in names})
    smalti.write_table(table, tmp_path / "a.mosaic", row_group_max_rows=1000)
    pickled: list[int] = []
    merged: dict[str, Measure] = {}
    listing = list_sources(tmp_path / "a.mosaic", None)
    tasks = plan(listing, format_of_source([file.path for file in listing.files], None), ReadRequest(), 1)
    assert len(tasks) == 40
    for task in random.Random(1).sample(tasks, 40):  # They end in any order.
        result = pickle.dumps(measure(task, lambda *_: None))
        pickled.append(len(result))
        merged = combine(merged, pickle.loads(result))
    assert max(pickled) < 900 * len(names)
    assert list(merged) == [WHOLE]
    assert list(merged[WHOLE].columns) == names
    for column in merged[WHOLE].columns.values():
        assert (column.rows, [end.as_py() for end in column.bounds]) == (40_000, [0, 39_999])
        assert MAX_SAMPLE // 4 <= len(column.sample) <= MAX_SAMPLE
        assert min(column.sample) < 2000
        assert max(column.sample) > 38_000
    assert len(pickle.dumps(merged)) < 5000 * len(names)


# --- the sketch -------------------------------------------------------------------------------------------------


def feed(registers: bytearray, array: pa.Array) -> None:
    buffers = array.buffers()
    validity = buffers[0].address if buffers[0] else 0
    if pa.types.is_string(array.type):
        _sketch.add_variable(registers, buffers[1].address, buffers[2].address, validity, array.offset, len(array))
    else:
        _sketch.add_fixed(registers, buffers[1].address, array.type.bit_width // 8, validity, array.offset, len(array))


@pytest.mark.parametrize("count", [1, 10, 100, 1_000, 10_000, 200_000])
@pytest.mark.parametrize("kind", ["int64", "int32", "double", "string"])
def test_sketch_is_near(count: int, kind: str) -> None:
    values = pa.array(range(count), pa.int64()).cast(kind)
    registers = bytearray(_sketch.REGISTERS)
    feed(registers, pa.concat_arrays([values, values]))
    assert _sketch.estimate(registers) == pytest.approx(count, rel=0.15, abs=0.5)


def test_sketch_skips_nulls_and_respects_slices() -> None:
    values = pa.array([None if i % 2 else i for i in range(100)], pa.int32()).slice(50, 20)
    registers = bytearray(_sketch.REGISTERS)
    feed(registers, values)
    assert round(_sketch.estimate(registers)) == 10


def test_sketches_merge() -> None:
    whole, left, right = (bytearray(_sketch.REGISTERS) for _ in range(3))
    values = pa.array(range(5000), pa.int64())
    feed(whole, values)
    feed(left, values.slice(0, 3000))
    feed(right, values.slice(2000))
    _sketch.merge(left, bytes(right))
    assert left == whole
    with pytest.raises(ValueError, match="registers"):
        _sketch.merge(left, b"short")


def test_histograms_do_not_depend_on_how_rows_are_cut(tmp_path: Path) -> None:
    """A third of the values are in the lowest of 16 bars, the others are spread evenly."""
    values = [0] * 2000 + [i % 1600 for i in range(4000)]
    table = pa.table({"n": values, "when": pa.array(values).cast(pa.timestamp("s")), "text": ["x"] * 6000})
    smalti.write_table(table, tmp_path / "one.mosaic")
    (tmp_path / "many").mkdir()
    for part in range(7):
        smalti.write_table(table.slice(part * 900, 900), tmp_path / "many" / f"{part}.mosaic", row_group_max_rows=400)
    for source in ("one.mosaic", "many"):
        found = by_column(jobs.profile(tmp_path / source))
        bars = found["n"]["histogram"]
        assert isinstance(bars, str)
        assert len(bars) == 16
        assert bars[0] == "█"
        assert set(bars[1:]) <= set("▁▂")
        assert found["when"]["histogram"] == bars
        assert found["text"]["histogram"] is None

"""Which files are read: Spark's options for its own formats, as tables of cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from smalti.errors import MosaicError
from smalti.format.statistics import ColumnStatistics
from smalti.spark.driver.choice import choose_files, fit_partitions
from smalti.spark.driver.facts import sorted_columns
from smalti.spark.files import spell_alike
from smalti.spark.options import ReadOptions
from smalti.table.listing import FoundFile
from smalti.table.snapshot import FileFacts

HOUR = 3_600 * 10**9
FILES = [
    FoundFile("/t/day=1/a.mosaic", 1, {"day": "1"}, modified=1 * HOUR),
    FoundFile("/t/day=1/hour=2/b.mosaic", 1, {"day": "1", "hour": "2"}, modified=2 * HOUR),
    FoundFile("/t/day=3/c.mosaic", 1, {"day": "3"}, modified=3 * HOUR),
]


@pytest.mark.parametrize(
    ("roots", "base", "given", "expected"),
    [
        (["/t"], None, {}, {"a": {"day": "1"}, "b": {"day": "1", "hour": "2"}, "c": {"day": "3"}}),
        (["/t/day=*"], None, {}, {"a": {}, "b": {"hour": "2"}, "c": {}}),
        (["/t/day={1,3}"], "/t", {}, {"a": {"day": "1"}, "b": {"day": "1", "hour": "2"}, "c": {"day": "3"}}),
        (["/t/day=1", "/t/day=3/c.mosaic"], None, {}, {"a": {}, "b": {"hour": "2"}, "c": {}}),
        (["/t"], None, {"recursive_file_lookup": True}, {"a": {}, "b": {}, "c": {}}),
        (["/t"], None, {"path_glob_filter": "{a,x}.*"}, {"a": {"day": "1"}}),
        (["/t"], None, {"modified_after": "1970-01-01T02:00:00"}, {"c": {"day": "3"}}),
        (["/t"], None, {"modified_before": "1970-01-01T02:00:00"}, {"a": {"day": "1"}}),
        (["/t"], None, {"modified_before": "1970-01-01T11:00:00", "time_zone": "Asia/Tokyo"}, {"a": {"day": "1"}}),
    ],
)
def test_choosing(
    roots: list[str], base: str | None, given: dict[str, Any], expected: dict[str, dict[str, str | None]]
) -> None:
    chosen = choose_files(FILES, roots, base, ReadOptions(("/t",), **given))
    assert {file.name.rpartition("/")[2].removesuffix(".mosaic"): file.partition for file in chosen} == expected


def test_a_file_outside_of_base_path_is_refused() -> None:
    with pytest.raises(MosaicError, match="not below basePath"):
        choose_files(FILES, ["/t"], "/u", ReadOptions(("/t",)))


@pytest.mark.parametrize(
    ("given", "type_", "zone", "expected"),
    [
        ({"U": "2024-02-29 12:00:00"}, pa.timestamp("us", "UTC"), "UTC", {"u": "2024-02-29 12:00:00Z"}),
        ({"u": "2024-02-29 12:00:00.5"}, pa.timestamp("us", "UTC"), "Asia/Tokyo", {"u": "2024-02-29 03:00:00.500000Z"}),
        ({"u": "2024-03-01"}, pa.timestamp("us", "UTC"), "GMT+2", {"u": "2024-02-29 22:00:00Z"}),
        (
            {"u": "2024-02-29 12:00:00.000000Z"},
            pa.timestamp("us", "UTC"),
            "-03:30",
            {"u": "2024-02-29 12:00:00.000000Z"},
        ),
        ({"u": None}, pa.timestamp("us", "UTC"), "Asia/Tokyo", {"u": None}),
        ({"u": "2024-02-29 12:00:00"}, pa.timestamp("us"), "Asia/Tokyo", {"u": "2024-02-29 12:00:00"}),
        ({"U": "2024-02-29 12:00:00"}, pa.string(), "Asia/Tokyo", {"u": "2024-02-29 12:00:00"}),
    ],
)
def test_partitions_fit_a_schema(
    given: dict[str, str | None], type_: pa.DataType, zone: str, expected: dict[str, str | None]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("u", type_)])
    (file,) = fit_partitions([FoundFile("/t/a.mosaic", 1, given)], schema, ReadOptions(("/t",), time_zone=zone))
    assert file.partition == expected


def test_names_that_differ_in_case_are_spelled_alike() -> None:
    first, second = pa.schema([("id", pa.int64()), ("x", pa.int8())]), pa.schema([("ID", pa.int32()), ("y", pa.int8())])
    both = pa.schema([("id", pa.int64()), ("Id", pa.int64())])
    schemas = [("a", first), ("b", second), ("c", second), ("d", both)]
    assert [schema.names for _, schema in spell_alike(schemas)] == [["id", "x"], ["id", "y"], ["id", "y"], ["id", "Id"]]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([[(0, 9)], [(10, 19)]], True),
        ([[(10, 19), (0, 9)], [(20, 20)]], True),
        ([[(0, 9)], [(9, 19)]], True),
        ([[(0, 9)], [(5, 19)]], False),
        ([[(0, 9)], [(None, None)]], False),
        ([[(0, 9)]], False),  # one row group: nothing to rule out
    ],
)
def test_columns_that_row_groups_are_sorted_by(bounds: list[list[tuple[int, int]]], expected: bool) -> None:
    kinds = {"k": pa.int64()}
    facts = [
        FileFacts((1,) * len(file), (9,) * len(file), tuple({"k": ColumnStatistics(0, *each)} for each in file), kinds)
        for file in bounds
    ]
    assert sorted_columns(facts) == ({"k"} if expected else set())

"""What a condition means: the rows it keeps, by the types of the columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.cli.main import main
from smalti.errors import SchemaError
from smalti.predicate.text import parse_where
from tests.cli.conftest import mixed_table

ROWS = mixed_table().to_pylist()


def kept(path: Path, text: str) -> list[int]:
    with smalti.open(path) as file:
        return file.read(["id"], parse_where(text, file.schema)).column("id").to_pylist()


def expect(condition: Callable[[dict[str, Any]], bool]) -> list[int]:
    return [row["id"] for row in ROWS if condition(row)]


def known(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: all(row[name] is not None for name in names)


CASES: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("id < 10", lambda r: r["id"] < 10),
    ("10 > id", lambda r: r["id"] < 10),
    ("id >= 3 and id <= 5", lambda r: 3 <= r["id"] <= 5),
    ("id < 3 or id > 97", lambda r: r["id"] < 3 or r["id"] > 97),
    ("small = 3", lambda r: r["small"] == 3),
    ("small < 300", lambda r: r["small"] is not None),
    ("small > 2.5", lambda r: r["small"] is not None and r["small"] > 2.5),
    ("small in (1, 2.5, 300, 4)", lambda r: r["small"] in (1, 4)),
    ("small is null", lambda r: r["small"] is None),
    ("not small is null", lambda r: r["small"] is not None),
    ("small not in (1, 2)", lambda r: r["small"] not in (1, 2, None)),
    ("not small in (1, 2)", lambda r: r["small"] not in (1, 2, None)),
    (
        "not (small in (1, 2) or name = 'n1')",
        lambda r: known("small", "name")(r) and r["small"] not in (1, 2) and r["name"] != "n1",
    ),
    ("not small > 3", lambda r: r["small"] is not None and r["small"] <= 3),
    ("price = 2.5", lambda r: r["price"] is not None and float(r["price"]) == 2.5),
    ("price > 3", lambda r: r["price"] is not None and r["price"] > 3),
    ("price < 2.501", lambda r: r["price"] is not None and float(r["price"]) < 2.501),
    ("ratio >= 0.5", lambda r: r["ratio"] is not None and not math.isnan(r["ratio"]) and r["ratio"] >= 0.5),
    ("single = 0.3", lambda r: r["id"] == 3),
    ("name = 'n3'", lambda r: r["name"] == "n3"),
    ("name in ('n1', 'n2')", lambda r: r["name"] in ("n1", "n2")),
    ("name > 'n3'", lambda r: r["name"] is not None and r["name"] > "n3"),
    ("flag", lambda r: r["flag"] is True),
    ("not flag", lambda r: r["flag"] is False),
    ("flag = false", lambda r: r["flag"] is False),
    ("day = '2026-01-05'", lambda r: str(r["day"]) == "2026-01-05"),
    ("day >= date '2026-02-01'", lambda r: r["day"] is not None and str(r["day"]) >= "2026-02-01"),
    ("day in ('2026-01-05', '2026-01-06')", lambda r: str(r["day"]) in ("2026-01-05", "2026-01-06")),
    ("at < '2026-01-01T05:00:00'", lambda r: r["id"] < 5),
    ("at < timestamp '2026-01-01 05:00'", lambda r: r["id"] < 5),
    ("at < '2026-01-02'", lambda r: r["at"] is not None and r["id"] < 24),
    ("utc < '2026-01-01T05:00:00Z'", lambda r: r["id"] < 5),
    ("utc < '2026-01-01T06:00:00+01:00'", lambda r: r["id"] < 5),
    ("utc < '2026-01-02'", lambda r: r["utc"] is not None and r["id"] < 24),
    ("clock = '03:30:00'", lambda r: r["clock"] is not None and r["id"] % 24 == 3),
    ("raw is not null and id < 20", lambda r: r["raw"] is not None and r["id"] < 20),
    ("tags is null", lambda r: r["tags"] is None),
    ('"odd name, really*" = 7', lambda r: r["id"] == 7),
    ("id < small", lambda r: r["small"] is not None and r["id"] < r["small"]),
    ("id = price", lambda r: r["price"] is not None and r["id"] == r["price"]),
]


@pytest.mark.parametrize(("text", "condition"), CASES, ids=[text for text, _ in CASES])
def test_keeps_the_rows_it_says(mixed: Path, text: str, condition: Callable[[dict[str, Any]], bool]) -> None:
    assert kept(mixed, text) == expect(condition)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nme = 'x'", "no column 'nme'; did you mean 'name'"),
        ('name = "x"', "no column 'x'; text belongs in single quotes: 'x'"),
        ("name > 5", "name > 5: column is string, value is a number; write '5'"),
        ("id = '7'", "id = '7': column is int32, value is text; write 7"),
        ("id in (7, '8')", "id in ('8'): column is int32, value is text; write 8"),
        ("id = true", "id = true: column is int32, value is a boolean; write a number"),
        ("flag = 1", "flag = 1: column is bool, value is a number; write true or false"),
        ("id", "must be boolean"),
        ("day = 'yesterday'", "column is date32[day], value is text; write a date such as '2026-01-31'"),
        ("day = time '03:30:00'", "column is date32[day], value is a time of day; write a date such as"),
        ("at > '2026-13-01'", "such as '2026-01-31T12:34:56'"),
        ("utc > 'x'", "such as '2026-01-31T12:34:56Z'"),
        ("tags = 5", "tags = 5: column is list<"),
        ("id < name", "columns of different types"),
        ("1 < 2", "both sides"),
    ],
)
def test_types_are_checked(mixed: Path, text: str, message: str) -> None:
    with smalti.open(mixed) as file, pytest.raises(SchemaError) as refused:
        parse_where(text, file.schema)
    assert message in str(refused.value)


def test_times_and_moments_are_exact(tmp_path: Path) -> None:
    """Nanoseconds were compared as microseconds, and the zone of a time was ignored."""
    noon = 12 * 3600 * 10**9
    columns = {
        "n": pa.array([noon, noon + 1, noon + 1000], pa.time64("ns")),
        "s": pa.array([noon // 10**9] * 3, pa.time32("s")),
        "t": pa.array([0, 1, 1000], pa.timestamp("ns")),
        "z": pa.array([0, 1, 1000], pa.timestamp("s", "Europe/Berlin")),
        "id": [0, 1, 2],
    }
    path = tmp_path / "t.mosaic"
    smalti.write_table(pa.table(columns), path, stats_columns="all", row_group_max_rows=1)
    for text, rows in {
        "n = '12:00:00.000000001'": [1],
        "n > '12:00:00.0000000005'": [1, 2],
        "n <= '12:00'": [0],
        "s = '12:00:00.0'": [0, 1, 2],
        "s < '12:00:00.000001'": [0, 1, 2],
        "s = '12:00:00.000001'": [],
        "t = '1970-01-01T00:00:00.000000001'": [1],
        "t < '3000-01-01'": [0, 1, 2],
        "t between '0001-01-01' and '1970-01-01 00:00:00.0000005'": [0, 1],
        "z = '1970-01-01T02:00:01+02:00'": [1],
        "z = '1969-12-31T22:30:01-0130'": [1],
        "z < '1970-01-01T00:00:00.5Z'": [0],
        "z in ('1970-01-01T00:00:01', '1970-01-01T00:00:00.5')": [1],
    }.items():
        assert kept(path, text) == rows, text
    for text in ("n = '12:00:00+02:00'", "n = '12:00:00Z'", "n = '24:00'", "t = '1970-01-01T00:00Z'", "z = '12:00'"):
        with smalti.open(path) as file, pytest.raises(SchemaError, match=r"value is text; write a (time|moment)"):
            parse_where(text, file.schema)


@pytest.mark.parametrize(
    ("type_", "cells", "conditions"),
    [
        (pa.int64(), [-(2**63), 2**53, 2**63 - 1], {
            "a = -9223372036854775809": [], "a > -9223372036854775809": [0, 1, 2], "a = 9007199254740992.5": [],
            "a < 9007199254740992.5": [0, 1], "a in (9223372036854775808, 9007199254740992.0)": [1],
        }),
        (pa.uint64(), [0, 2**64 - 1], {
            "a in (18446744073709551616)": [], "a not in (18446744073709551616)": [0, 1],
            "a < 18446744073709551616": [0, 1], "a = -1": [], "a != -1": [0, 1],
        }),
        (pa.float16(), [-0.0, 65504.0, math.inf, None], {
            "a = 70000": [], "a < 70000": [0, 1], "a between -0.0 and 3.4e38": [0, 1], "a > 65519": [2],
            "a = 65504.5": [], "a in (65520, 0)": [0],
        }),
        (pa.float32(), [0.1, 16777216.0, math.inf, -math.inf], {
            "a = 1e39": [], "a > 1e39": [2], "a < -1e39": [3], "a = 0.1": [0], "a in (0.1)": [0], "a = 16777217": [],
            "a = 16777217.0": [], "a <= 16777216.5": [0, 1, 3],
        }),
        (pa.float64(), [0.1, 1e23, 2.0**53, math.inf, 0.0], {
            "a = 1e400": [], "a <= 1e400": [0, 1, 2, 4], "a = 1e23": [1], "a = 0.10000000000000001": [0],
            "a = 9007199254740993": [], "a = 9007199254740992.5": [], "a = 1e-400": [], "a > 1e-400": [0, 1, 2, 3],
        }),
    ],
    ids=["int64", "uint64", "float16", "float32", "float64"],
)  # fmt: skip
def test_numbers_are_never_rounded_to_others(
    type_: pa.DataType, cells: list[Any], conditions: dict[str, list[int]], tmp_path: Path
) -> None:
    column = pa.array(cells, pa.float32()).cast(type_) if type_ == pa.float16() else pa.array(cells, type_)
    path = tmp_path / "t.mosaic"
    smalti.write_table(
        pa.table({"a": column, "id": range(len(cells))}), path, stats_columns="all", row_group_max_rows=1
    )
    for text, rows in conditions.items():
        assert kept(path, text) == rows, text


def test_statistics_still_skip(mixed: Path) -> None:
    """Conditions must become trees that pruning understands."""
    with smalti.open(mixed) as file:
        for text in ("id < 5", "id in (1, 2)", "not id >= 5", "day < '2026-01-05'"):
            assert file.matching_row_groups(parse_where(text, file.schema)) == [0]


def test_fields_of_structs_and_types_that_are_stored_as_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found missing by hand: a field could be read alone and filtered by in Python, but not in a shell."""
    users = pa.array([{"age": 1, "at": {"x": "p"}}, None, {"age": 3, "at": {"x": "q"}}])
    columns = {
        "user": users,
        "view": pa.array(["a", "b", None], pa.string_view()),
        "kind": pa.array(["a", "b", None]).dictionary_encode(),
        "raw": pa.array([b"a", b"b", None], pa.large_binary()),
        "code": pa.array([b"a", b"b", None], pa.binary(1)),
        "big": pa.array([1, 2**64 - 1, None], pa.uint64()),
    }
    path = str(tmp_path / "t.mosaic")
    smalti.write_table(pa.table(columns), path)
    for condition, count in (
        ("user.age = 1", 1), ("user.age > 0 and user.at.x = 'q'", 1), ("user.age is null", 1), ("view = 'a'", 1),
        ("kind in ('a', 'b')", 2), ("raw = 'b'", 1), ("code = 'a'", 1), ("code = 'longer'", 0),
        ("big = 18446744073709551615", 1),
    ):  # fmt: skip
        assert main(["count", path, "--where", condition]) == 0
        assert capsys.readouterr().out.strip() == str(count), condition
    assert main(["head", path, "--columns", "user.age,big", "--json"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == '{"user": {"age": 1}, "big": 1}'
    assert main(["head", path, "--columns", "user.nope"]) == 1

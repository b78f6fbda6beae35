"""What is read of a table is decided by pure functions, here by tables of cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from smalti.errors import SchemaError
from smalti.format.statistics import ColumnStatistics
from smalti.predicate.tree import Compare, Tree
from smalti.table.columns import TableColumns
from smalti.table.listing import FoundFile
from smalti.table.planning import matching_files, matching_row_groups, parse_filter, partition_pruner, plan_read
from smalti.table.snapshot import FileFacts
from smalti.table.splits import Piece, by_row_group, cut_files, first_pieces, rows_of

DAYS = [FoundFile(f"day={day}/a", 10, {"day": day}) for day in ("1", "2", "3")]
DAY = pa.field("day", pa.int64())


def filter_of(*conditions: Any) -> Any:
    return parse_filter(list(conditions))


@pytest.mark.parametrize(
    ("conditions", "partitions", "expected"),
    [
        ([("day", "=", 2)], [DAY], ["2"]),
        ([("day", ">", 1)], [DAY], ["2", "3"]),
        ([("day", "=", 9)], [DAY], []),
        ([("x", "=", 2)], [DAY], ["1", "2", "3"]),
        ([("day", "=", 2), ("x", ">", 7)], [DAY], ["2"]),
        ([[("day", "=", 2)], [("x", ">", 7)]], [DAY], ["1", "2", "3"]),
        ([("day", "=", 2)], [], ["1", "2", "3"]),  # The files store it, so the name of a directory decides nothing.
        ([("day", "=", "2")], [DAY], ["1", "2", "3"]),  # It does not fit: the plan says so, if no file stores it.
        ([("day", "=", 2)], [pa.field("day", pa.date32())], ["1", "2", "3"]),
    ],
    ids=str,
)
def test_files_that_directories_rule_out(conditions: Any, partitions: list[pa.Field], expected: list[str]) -> None:
    assert [file.partition["day"] for file in matching_files(DAYS, partitions, filter_of(*conditions))] == expected


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ([{"day": "1"}, {"day": "2"}, {"day": None}], [False, True, False]),
        ([{"day": "2"}, {"day": "x"}], [True, True]),  # These are strings, with which 2 cannot be compared.
        ([{"city": "Oslo"}, {}], [True, True]),
        ([{"city": "Oslo", "day": "1"}, {"city": "Oslo", "day": "2"}], [False, True]),
        ([], []),
    ],
)
def test_directories_that_are_not_listed(directories: list[dict[str, str | None]], expected: list[bool]) -> None:
    assert partition_pruner(filter_of(("day", "=", 2), ("x", ">", 0)))(directories) == expected


def facts(*groups: tuple[int, int, int]) -> FileFacts:
    """Facts of a file whose row groups have so many rows, and values of `x` between bounds; each has 100 bytes."""
    bounds = tuple({"x": ColumnStatistics(0, least, most)} for _, least, most in groups)
    return FileFacts(tuple(rows for rows, *_ in groups), (100,) * len(groups), bounds, {"x": pa.int64()})


KNOWN = {"day=1/a": facts((5, 0, 4), (5, 5, 9)), "day=2/a": facts((7, 10, 19))}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (None, {"day=1/a": [0, 1], "day=2/a": [0], "day=3/a": None}),
        (Compare("x", "less", pa.scalar(5)), {"day=1/a": [0], "day=3/a": None}),
        (Compare("x", "greater", pa.scalar(8)), {"day=1/a": [1], "day=2/a": [0], "day=3/a": None}),
        (Compare("day", "equal", pa.scalar(3)), {"day=3/a": None}),
        (Compare("day", "equal", pa.scalar(4)), {}),
    ],
    ids=str,
)
def test_row_groups_that_statistics_rule_out(tree: Tree | None, expected: dict[str, Any]) -> None:
    values = {file.path: {"day": pa.scalar(int(file.partition["day"] or 0))} for file in DAYS}
    types = {"x": pa.int64(), "day": pa.int64()}
    assert matching_row_groups(DAYS, KNOWN, values, types, lambda _: tree) == expected


def test_bounds_that_the_type_cannot_hold_decide_nothing() -> None:
    seen: list[Any] = []
    matching_row_groups(DAYS[:1], KNOWN, {"day=1/a": {}}, {"x": pa.string()}, seen.append)
    assert seen == [{}]


def test_pieces() -> None:
    large = FoundFile("large", 400)
    known = {"large": facts((5, 0, 0), (5, 1, 1), (5, 2, 2), (5, 3, 3)), "small": facts((3, 0, 0))}
    files = [large, FoundFile("small", 100), FoundFile("unknown", 900)]
    pieces = cut_files(files, known, {"large": [0, 1, 3], "small": [0], "unknown": None}, 200)
    assert [(piece.file.path, piece.row_groups, piece.num_bytes) for piece in pieces] == [
        ("large", (0, 1), 200),
        ("large", (3,), 100),
        ("small", None, 100),
        ("unknown", None, 900),
    ]
    assert [rows_of(piece, known) for piece in pieces] == [10, 5, 3, None]
    assert [len(first_pieces(pieces, known, limit)) for limit in (0, 1, 10, 11, 99)] == [0, 1, 1, 2, 4]
    assert [piece.row_groups for piece in by_row_group(pieces, known)] == [(0,), (1,), (3,), (0,), None]
    assert by_row_group([Piece(large, 400)], {}) == [Piece(large, 400)]


class TestPlan:
    SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.struct([("a", pa.int8()), ("b", pa.int8())])), DAY])

    COLUMNS = TableColumns({}, SCHEMA)

    def test_conditions_that_directories_decide_are_dropped(self) -> None:
        plan = plan_read(DAYS[1:2], self.COLUMNS, ["x"], filter_of(("day", "=", 2), ("x", ">", 1)), ["day"])
        assert (plan.output.names, plan.needed.names) == (["x"], ["x", "day"])
        assert plan.filter_ is not None
        assert plan.filter_.columns == ("x",)
        assert plan_read(DAYS[1:2], self.COLUMNS, ["x"], filter_of(("day", "=", 2)), ["day"]).filter_ is None

    def test_columns_that_a_filter_needs_are_not_delivered(self) -> None:
        plan = plan_read(DAYS, self.COLUMNS, ["s.b"], filter_of(("s.a", "=", 1)), ())
        assert plan.output == pa.schema([("s", pa.struct([("b", pa.int8())]))])
        assert plan.needed.names == ["s"]
        assert plan_read(DAYS, self.COLUMNS, None, None, ()).asked == ["x", "s", "day"]

    def test_what_does_not_fit_is_refused(self) -> None:
        for names, conditions in ((["nope"], None), (["x"], ("nope", "=", 1)), (["x"], ("x", "=", "text"))):
            with pytest.raises(SchemaError):
                plan_read(DAYS, self.COLUMNS, names, conditions and filter_of(conditions), ())

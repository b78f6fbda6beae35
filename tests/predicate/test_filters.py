"""Filters keep exactly the rows they say: statistics may only skip what the filter would drop anyway."""

from __future__ import annotations

import datetime
import operator
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import smalti
from smalti.predicate import normalize_filters, prune_partitions, tree
from smalti.predicate.text import parse_where
from smalti.predicate.tree import OPERATORS
from smalti.table.planning import fit_filter
from smalti.table.reading import filtered
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.older_arrow import array_of
from tests.support.strategies import examples, values
from tests.support.tables import matrix

NAN = float("nan")
GROUP = 3

#: Groups of three rows: plain, with nulls, all null, NaN first, only NaN, signed zeros.
TABLE = pa.table(
    {
        "i": pa.array([1, 2, 3, None, 5, 6, None, None, None, 7, 7, 7, -5, 0, 5, 2, 2, None], pa.int32()),
        "f": pa.array(
            [1.0, 2.0, 3.0, None, 5.0, 6.0, None, None, None, NAN, 1.0, 9.0, NAN, NAN, NAN, -0.0, 0.0, -0.0],
            pa.float64(),
        ),
        "s": ["a", "b", "c", None, "é", "😀", None, None, None, "", "", "", "a", "ab", "b", "z", "Z", None],
        "b": [
            True,
            True,
            True,
            None,
            False,
            True,
            None,
            None,
            None,
            False,
            False,
            False,
            True,
            False,
            None,
            *[True] * 3,
        ],
        "d": pa.array([Decimal(n) for n in range(18)], pa.decimal128(9, 0)),
        "t": pa.array([n * 1000 for n in range(18)], pa.timestamp("ms")),
        "row": pa.array(range(18), pa.int64()),
    }
)


@pytest.fixture(scope="module", params=["statistics", "no statistics"])
def data(request: pytest.FixtureRequest) -> bytes:
    stats: Any = "all" if request.param == "statistics" else ()
    return written(TABLE, row_group_max_rows=GROUP, num_buckets=3, stats_columns=stats)


def kept(expression: pc.Expression) -> list[int]:
    """The rows Arrow's own filter keeps."""
    return TABLE.filter(expression)["row"].to_pylist()


F, I, S, B, D, T = (pc.field(name) for name in "fisbdt")  # noqa: E741

EXPRESSIONS = {
    "equal": I == 7,
    "absent": I == 100,
    "not equal to the only value": I != 7,
    "less": I < 2,
    "greater or equal": I >= 6,
    "literal on the left": pc.scalar(5) <= I,
    "compared with null": pc.scalar(pa.scalar(None, pa.int32())) == I,
    "double against int": I < 2.5,
    "large literal": I < 2**40,
    "int not below NaN": ~(I < NAN),
    "int not equal to NaN": I != NAN,
    "int equal to NaN": I == NAN,
    "NaN is not less": F < 100.0,
    "NaN is not greater": F > 0.5,
    "not less keeps NaN": ~(F < 100.0),
    "not greater or equal keeps NaN": ~(F >= -100.0),
    "not equal keeps NaN": F != 1.0,
    "equal to NaN": F == NAN,
    "not equal to NaN": F != NAN,
    "negative zero equals zero": F == 0.0,
    "zero equals negative zero": F == -0.0,
    "zero is not less than zero": F < 0.0,
    "not below zero": ~(F < 0.0),
    "in": I.isin([5, 100]),
    "in, nothing": I.isin(pa.array([], pa.int32())),
    "in, floats": F.isin([1.0, 6.0]),
    "in, NaN": F.isin([NAN]),
    "in, zero": F.isin([0.0]),
    "in, null": I.isin(pa.array([None, 7], pa.int32())),
    "not in": ~I.isin([7]),
    "not in, null": ~I.isin(pa.array([None, 7], pa.int32())),
    "not in floats": ~F.isin([1.0]),
    "is null": I.is_null(),
    "is valid": I.is_valid(),
    "not null": ~I.is_null(),
    "is null or NaN": F.is_null(nan_is_null=True),
    "neither null nor NaN": ~F.is_null(nan_is_null=True),
    "is NaN": F.is_nan(),
    "text": S > "b",
    "text by bytes": S >= "é",
    "empty text": S == "",
    "boolean": B == True,  # noqa: E712
    "boolean column itself": B,
    "not a boolean column": ~B,
    "decimal": Decimal("15") <= D,
    "timestamp": datetime.datetime(1970, 1, 1, 0, 0, 14) < T,
    "and": (I > 1) & (F < 3.0),
    "or": (I == 1) | (S == "z"),
    "not and": ~((I > 1) & (F < 3.0)),
    "not or": ~((I == 1) | (S == "z")),
    "or with nulls": (I.is_null()) | (F > 8.0),
    "arithmetic": (I + 1) == 8,
    "two columns": I == F,
    "two columns, less": F < I,
    "not two columns": ~(F >= I),
    "a column and itself": I == I,
    "not a column and itself": F != F,
    "function": pc.starts_with(S, "a"),
    "text at the end": pc.ends_with(S, "b"),
    "not text anywhere": ~pc.match_substring(S, "a"),
    "like a beginning": pc.match_like(S, "a%"),
    "not like a beginning": ~pc.match_like(S, "z%"),
    "like a text": pc.match_like(S, "a"),
    "like anything": pc.match_like(S, "%"),
    "like a pattern": pc.match_like(S, "_b%"),
    "text of either case": pc.starts_with(S, "z", ignore_case=True),
    "in, skipping nulls": pc.is_in(I, value_set=pa.array([None, 7], pa.int32()), skip_nulls=True),
    "constant true": pc.scalar(True),
    "constant false": pc.scalar(False),
    "nested": ~(~(I == 7) & ~(S == "a")),
    "between": (I >= 2) & (I <= 3),
}


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_expressions_keep_exactly_their_rows(data: bytes, case: str) -> None:
    expression = EXPRESSIONS[case]
    expected = TABLE.filter(expression)
    assert_same(read(data, filters=expression), expected)
    assert read(data, filters=expression, columns=["row"])["row"].to_pylist() == expected["row"].to_pylist()


TUPLES: dict[str, tuple[list[Any], pc.Expression]] = {
    "one": ([("i", "=", 7)], I == 7),
    "==": ([("i", "==", 7)], I == 7),
    "!=": ([("i", "!=", 7)], I != 7),
    "and": ([("i", ">", 1), ("f", "<=", 3.0)], (I > 1) & (F <= 3.0)),
    "or of ands": ([[("i", ">=", 6), ("s", "==", "")], [("i", "<", 0)]], ((I >= 6) & (S == "")) | (I < 0)),
    "in list": ([("i", "in", [1, 5])], I.isin([1, 5])),
    "in set": ([("i", "in", {1, 5})], I.isin([1, 5])),
    "not in": ([("s", "not in", ["a", "b"])], ~S.isin(["a", "b"])),
    "in, null": ([("s", "in", ["a", None])], S.isin(["a", None])),
    "not in, null": ([("s", "not in", ["a", None])], ~S.isin(["a", None])),
    "in, only null": ([("s", "in", [None])], S.is_null()),
    "not in, only null": ([("s", "not in", [None])], S.is_valid()),
    "in nothing": ([("s", "in", [])], pc.scalar(False)),
    "not in nothing": ([("s", "not in", [])], pc.scalar(True)),
    "a column as the value": ([("i", "=", F), ("s", "!=", "z")], (I == F) & (S != "z")),
    "a literal expression as the value": ([("i", ">=", pc.scalar(6))], I >= 6),
    "computed from another column": (
        [[("i", "<", F + 1), ("i", ">", 2)], [("i", "=", 0)]],
        ((I < F + 1) & (I > 2)) | (I == 0),
    ),
    "date": ([("t", "<", datetime.datetime(1970, 1, 1, 0, 0, 2))], datetime.datetime(1970, 1, 1, 0, 0, 2) > T),
}


@pytest.mark.parametrize("case", TUPLES)
def test_tuples_mean_what_pyarrow_says(data: bytes, case: str) -> None:
    filters, expression = TUPLES[case]
    assert read(data, filters=filters)["row"].to_pylist() == kept(expression)


@pytest.mark.parametrize(
    "filters",
    [[("i", "~", 1)], [("i", "=")], ["i"], "i =", [], [[]], [("i", "in", "abc")], 5, [("i", "in", 5)]],
    ids=repr,
)
def test_malformed_filters(data: bytes, filters: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(data, filters=filters)


def test_unknown_column(data: bytes) -> None:
    with pytest.raises(smalti.SchemaError, match="nope"):
        read(data, filters=[("nope", "=", 1)])


def test_row_groups_are_skipped() -> None:
    """A row group statistics rule out is not even fetched: its bytes may be anything."""
    table = pa.table({"i": pa.array(range(30), pa.int32())})
    blob = bytearray(written(table, row_group_max_rows=10, stats_columns=["i"], compression="none"))
    with smalti.open(bytes(blob)) as file:
        first = file.layout().row_groups[0].buckets[0]
    blob[first.offset : first.offset + first.size] = b"\xff" * first.size
    assert read(bytes(blob), filters=[("i", ">=", 10)])["i"].to_pylist() == list(range(10, 30))
    with pytest.raises(smalti.CorruptFileError):
        read(bytes(blob), filters=[("i", ">=", 9)])


@pytest.mark.parametrize(
    ("prefix", "groups"),
    [("b", [1]), ("bo", [1]), ("c", []), ("", [0, 1, 2]), ("a", [0]), ("é", [2]), ("\U0010ffff", [])],
)
def test_prefixes_skip_row_groups(prefix: str, groups: list[int]) -> None:
    table = pa.table({"s": ["a", "ab", "b", "bookcase", "d", "é"]})
    with smalti.open(written(table, row_group_max_rows=2, stats_columns=["s"])) as file:
        assert file.matching_row_groups(pc.starts_with(pc.field("s"), prefix)) == groups
        assert file.matching_row_groups(pc.match_like(pc.field("s"), prefix + "%")) == (groups if prefix else [0, 1, 2])


def test_comparisons_of_doubles_skip_row_groups() -> None:
    table = pa.table({"x": [1.5, NAN, 3.0, 4.0, NAN, NAN], "y": range(6)})
    with smalti.open(written(table, row_group_max_rows=2, stats_columns="all")) as file:
        assert file.matching_row_groups([("x", ">", 2.5)]) == [1, 2]  # bounds that are NaN say nothing
        assert file.matching_row_groups([[("x", "<", 2.0)], [("y", "=", 4)]]) == [0, 2]


@pytest.mark.parametrize("threshold", [0, 1 << 30], ids=["paged", "monolithic"])
@pytest.mark.parametrize("seed", range(3))
def test_few_rows_of_every_type_and_encoding(threshold: int, seed: int) -> None:
    """Where few rows match, they are decoded without the others."""
    table = matrix(seed, 150 + seed)
    table = table.append_column("row", pa.array(range(table.num_rows)))
    random = np.random.RandomState(seed)
    with smalti.open(written(table, num_buckets=4, row_group_max_rows=90, page_size_threshold=threshold)) as file:
        for count in (1, 2, 10, 25):
            rows = np.sort(random.choice(table.num_rows, count, replace=False))
            assert_same(file.read(filters=pc.field("row").isin(rows)), table.take(rows))


def test_filters_with_row_groups_and_columns(data: bytes) -> None:
    found = read(data, columns=["s", "row"], filters=I.is_valid(), row_groups=[5, 0])
    assert found.to_pydict() == {"s": ["z", "Z", "a", "b", "c"], "row": [15, 16, 0, 1, 2]}


KINDS = [
    pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("ns"),
    pa.decimal128(4, 1), pa.time32("ms"),
]  # fmt: skip
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@st.composite
def conditions(draw: st.DrawFn, name: str, kind: pa.DataType, pool: list[Any]) -> pc.Expression:
    field = pc.field(name)
    shape = draw(st.sampled_from(["compare", "compare", "compare", "swapped", "in", "null", "nan", "text"]))
    literal = st.sampled_from(pool) | values(kind)
    if shape in ("compare", "swapped"):
        other = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        scalar = pc.scalar(
            draw(st.floats(width=32) | st.just(NAN))
            if other and draw(st.booleans())
            else pa.scalar(draw(literal), kind)
        )
        arguments = [field, scalar] if shape == "compare" else [scalar, field]
        return getattr(pc, draw(st.sampled_from(COMPARISONS)))(*arguments)
    if shape == "text" and pa.types.is_string(kind):
        function = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like]))
        text = draw(literal)[:2]
        if function is pc.match_like:
            text = draw(st.sampled_from(["", "%", "_"])) + text + draw(st.sampled_from(["", "%", "%%", "_"]))
        return function(field, text)
    if shape == "in":
        return field.isin(pa.array(draw(st.lists(st.none() | literal, max_size=3)), kind))
    return field.is_null(nan_is_null=shape == "nan" and pa.types.is_floating(kind))


@st.composite
def filtered_tables(draw: st.DrawFn) -> tuple[pa.Table, pc.Expression, int]:
    """A table of a few awkward values, and a filter over them."""
    columns, leaves = {}, []
    rows = draw(st.integers(0, 12))
    for name in ("x", "y"):
        kind = draw(st.sampled_from(KINDS))
        pool = draw(st.lists(values(kind), min_size=1, max_size=4))
        if pa.types.is_floating(kind):
            pool += [NAN, 0.0, -0.0]
        columns[name] = pa.array(draw(st.lists(st.none() | st.sampled_from(pool), min_size=rows, max_size=rows)), kind)
        leaves.append(conditions(name, kind, pool))
    if columns["x"].type == columns["y"].type:
        leaves.append(
            st.sampled_from(COMPARISONS).map(lambda function: getattr(pc, function)(pc.field("x"), pc.field("y")))
        )
    trees = st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            inner.map(lambda a: ~a),
        ),
        max_leaves=4,
    )
    return pa.table(columns), draw(trees), draw(st.integers(1, 4))


@examples(300)
@given(filtered_tables())
def test_prune_and_mask_keep_what_the_mask_alone_keeps(case: tuple[pa.Table, pc.Expression, int]) -> None:
    table, expression, rows = case
    try:
        expected = table.filter(expression)
    except pa.ArrowInvalid:
        reject()  # Arrow narrows literals, and then finds large integers out of range of float
    blob = written(table, row_group_max_rows=rows, stats_columns="all", compression="none")
    assert_same(read(blob, filters=expression), expected)


# --- the language of --where ----------------------------------------------------------------------------------------

Row = dict[str, Any]
#: A condition as text, and its answer for a row as SQL has it: true, false or null.
Said = tuple[str, Callable[[Row], bool | None]]

SYMBOLS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SPOKEN = pa.schema(
    {"i": pa.int8(), "j": pa.int64(), "x": pa.float64(), "y": pa.float32(), "s": pa.string(), "p": pa.bool_()}
)
POOLS: dict[str, list[Any]] = {
    "i": [-128, -1, 0, 1, 127],
    "j": [-(2**63), -1, 0, 1, 127, 2**63 - 1],
    "x": [NAN, -0.0, 0.0, 1.0, 1.5, -1e300, float("inf")],
    "y": [NAN, -0.0, 0.0, 1.0, 1.5],
    "s": ["", "a", "ab", "b", "it's"],
    "p": [True, False],
}


def sql_not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def sql_or(a: bool | None, b: bool | None) -> bool | None:
    return True if a or b else None if a is None or b is None else False


def sql(name: str, test: Callable[[Any], bool]) -> Callable[[Row], bool | None]:
    return lambda row: None if row[name] is None else test(row[name])


def spoken(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


@st.composite
def said(draw: st.DrawFn) -> Said:
    """One condition of the language."""
    name = draw(st.sampled_from(list(POOLS)))
    shape = draw(st.sampled_from(["compare", "compare", "swapped", "columns", "in", "null"]))
    literals: list[Any] = [v for v in POOLS[name] if v == v and v not in (float("inf"), -1e300)]
    if name in ("i", "j"):
        literals += [0.5, 200, 10**30]
    symbol = draw(st.sampled_from(list(SYMBOLS)))
    if shape == "null":
        negated = draw(st.booleans())
        return f"{name} is {'not ' * negated}null", lambda row: (row[name] is None) is not negated
    if shape == "in":
        # Arrow's "is in" tells 0.0 from -0.0, which comparisons do not.
        chosen = draw(st.lists(st.sampled_from([v for v in literals if v or name not in "xy"]), min_size=1, max_size=3))
        negated = draw(st.booleans())
        text = f"{name} {'not ' * negated}in ({', '.join(map(spoken, chosen))})"
        return text, sql(name, lambda value: (value in chosen) is not negated)
    if shape == "columns" and name in "ijxy":
        other = draw(st.sampled_from("ij" if name in "ij" else "xy"))
        test = SYMBOLS[symbol]
        return (
            f"{name} {symbol} {other}",
            lambda row: None if row[name] is None or row[other] is None else test(row[name], row[other]),
        )
    literal = draw(st.sampled_from(literals))
    if shape == "swapped":
        return f"{spoken(literal)} {symbol} {name}", sql(name, lambda value: SYMBOLS[symbol](literal, value))
    return f"{name} {symbol} {spoken(literal)}", sql(name, lambda value: SYMBOLS[symbol](value, literal))


def joined(a: Said, b: Said) -> st.SearchStrategy[Said]:
    (left, first), (right, second) = a, b
    return st.sampled_from(
        [
            (f"({left} or {right})", lambda row: sql_or(first(row), second(row))),
            (f"({left} and {right})", lambda row: sql_not(sql_or(sql_not(first(row)), sql_not(second(row))))),
            (f"not {left}", lambda row: sql_not(first(row))),
        ]
    )


SAID = st.recursive(said(), lambda inner: st.tuples(inner, inner).flatmap(lambda pair: joined(*pair)), max_leaves=4)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | st.sampled_from(pool) for name, pool in POOLS.items()}), max_size=10
)


@given(ROWS, SAID, st.integers(1, 4))
def test_text_keeps_the_rows_that_sql_keeps(rows: list[Row], condition: Said, group: int) -> None:
    """With statistics and without, and with every value as that of a partition."""
    text, answer = condition
    tree = parse_where(text, SPOKEN)
    table = pa.Table.from_pylist(rows, SPOKEN)
    expected = [answer(row) is True for row in rows]
    for stats in ("all", ()):
        blob = written(table, row_group_max_rows=group, stats_columns=stats, compression="none")
        assert_same(read(blob, filters=tree), table.filter(pa.array(expected, pa.bool_())))
    partitions = [{name: pa.scalar(row[name], SPOKEN.field(name).type) for name in POOLS} for row in rows]
    may_match = prune_partitions(tree, partitions)
    assert [may and matches for may, matches in zip(may_match, expected, strict=True)] == expected


def test_sets_that_skip_nulls() -> None:
    """A null in the set is not looked for, so that not every row of a group of 7s and nulls matches."""
    table = pa.table({"i": pa.array([7, None, 7], pa.int32())})
    blob = written(table, stats_columns="all")
    for skip, kept in ((True, 2), (False, 3)):
        expression = pc.is_in(I, value_set=pa.array([7, None], pa.int32()), skip_nulls=skip)
        assert read(blob, filters=expression).num_rows == kept


@pytest.mark.parametrize("columns", [None, ["b"], []])
def test_a_filter_that_is_no_condition_is_refused_or_decides_all(columns: list[str] | None, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
    smalti.write_table(table, tmp_path / "t.mosaic")
    with pytest.raises(pa.ArrowTypeError, match="must evaluate to bool, but a evaluates to int64"):
        smalti.read_table(tmp_path / "t.mosaic", columns, pc.field("a"))
    for answer in (True, False):
        found = smalti.read_table(tmp_path / "t.mosaic", columns, pc.scalar(answer))
        assert found.num_rows == (3 if answer else 0)


def test_values_of_the_types_that_columns_were_given_in() -> None:
    """Columns are compared as they are stored, whatever their values are wrapped in."""
    ids = pa.array([bytes([i] * 16) for i in range(4)], pa.binary(16))
    words = pa.array(["a", "b", None, "a"])
    table = pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), ids), "d": words.dictionary_encode()})
    blob = written(table, stats_columns="all", row_group_max_rows=2)
    assert read(blob, filters=tree.Compare("u", "equal", table["u"][2])).num_rows == 1
    assert read(blob, filters=tree.Compare("u", "not_equal", table["u"][2])).num_rows == 3
    assert read(blob, filters=tree.IsIn("u", table["u"].chunk(0)[1:3])).num_rows == 2
    assert read(blob, filters=tree.Compare("d", "equal", table["d"][0])).num_rows == 2
    assert read(blob, filters=tree.Not(tree.IsIn("d", table["d"].chunk(0)[:1]))).num_rows == 1
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4], pa.int32()), pa.array(["a", "b", None]))
    for filters, rows in (
        ([("d", "=", runs[0])], 2),
        ([("d", "=", runs[3])], 0),
        ([("d", "in", runs[2:])], 2),
        (pc.field("d") == runs[1], 2),
        (pc.field("d").isin(runs[2:]), 2),
        (pc.field("d").isin(runs[:2]), 2),
    ):
        assert read(blob, filters=filters).num_rows == rows


def test_both_zeros_are_in_a_list_that_has_zero() -> None:
    """As in SQL, where `in` means that one of the values is equal."""
    table = pa.table({"x": [0.0, -0.0, 1.0, None]})
    blob = written(table)
    for text, count in {"x in (0, 7)": 2, "x in (-0.0, 1)": 3, "x not in (0)": 1, "x in (1)": 1}.items():
        assert read(blob, filters=parse_where(text, table.schema)).num_rows == count
    assert read(blob, filters=[("x", "in", [0, 7])]).num_rows == 2


_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_INTEGERS = [0, 1, -1, 2, 127, -128, (1 << 24) + 1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), None]


@pytest.mark.parametrize("value", [2.5, -0.5, 2.0, 1e9, -1e30, 2.0**53, 2.0**63, float("inf"), -float("inf"), NAN])
@pytest.mark.parametrize("type_", [pa.int8(), pa.int64()], ids=str)
def test_integers_and_floating_point_values(value: float, type_: pa.DataType) -> None:
    """Arrow casts the integers to a type in which the value is exact, and refuses those that are not."""
    held = [cell for cell in _INTEGERS if type_ == pa.int64() or cell is None or -128 <= cell < 128]
    blob = written(pa.table({"i": pa.array(held, type_)}), stats_columns="all", row_group_max_rows=2)
    for op, compare in _PYTHON.items():
        expected = [cell for cell in held if cell is not None and compare(cell, value)]
        for filters in ([("i", op, value)], getattr(pc, OPERATORS[op])(pc.field("i"), value)):
            assert read(blob, filters=filters)["i"].to_pylist() == expected
        assert read(blob, filters=~getattr(pc, OPERATORS[op])(pc.field("i"), value)).num_rows == (
            len(held) - 1 - len(expected)
        )
    assert read(blob, filters=[("i", "in", [value, 1.0, 0.5])])["i"].to_pylist() == [
        cell for cell in held if cell is not None and cell in (value, 1.0)
    ]


@pytest.mark.parametrize("value", [20_000_001, 30_000_000, (1 << 60) + 1, -(1 << 60) - 1, 0])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_floating_point_numbers_and_integers(value: int, type_: pa.DataType) -> None:
    cells = pa.array([1.5, 0.0, 2e7, 3e7, float(1 << 60), -float(1 << 60), float("inf"), None], type_)
    blob = written(pa.table({"x": cells}), stats_columns="all", row_group_max_rows=3)
    for op, compare in _PYTHON.items():
        expected = [cell for cell in cells.to_pylist() if cell is not None and compare(cell, value)]
        assert read(blob, filters=[("x", op, value)])["x"].to_pylist() == expected
    expected = [cell for cell in cells.to_pylist() if cell == value]
    assert read(blob, filters=[("x", "in", [value, 7])])["x"].to_pylist() == expected


@pytest.mark.parametrize("value", ["2.50", "2.501", "2.5000", "-0.001", "3", "1e30"])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=", "!="])
def test_decimals_and_numbers_of_other_digits(op: str, value: str, tmp_path: Path) -> None:
    """Arrow up to 19 compares 2.50 with 2.501 as if it were 0.250."""
    cells = [
        None if text is None else Decimal(text) for text in ("2.50", "2.51", None, "-0.01", "0.00", "3.00", "7.00")
    ]
    asked = Decimal(value)
    compare: dict[str, Callable[[Decimal], bool]] = {
        "<": lambda cell: cell < asked,
        "<=": lambda cell: cell <= asked,
        ">": lambda cell: cell > asked,
        ">=": lambda cell: cell >= asked,
        "=": lambda cell: cell == asked,
        "!=": lambda cell: cell != asked,
    }
    smalti.write_table(pa.table({"p": pa.array(cells, pa.decimal128(9, 2))}), tmp_path / "a.mosaic")
    expected = [cell for cell in cells if cell is not None and compare[op](cell)]
    filters = [("p", op, asked)]
    assert smalti.read_table(tmp_path / "a.mosaic", filters=filters)["p"].to_pylist() == expected
    assert smalti.dataset(tmp_path).to_table(filters=filters)["p"].to_pylist() == expected


#: A column of one value, and values that become equal to it only if they are rounded to its type.
ROUNDED: dict[str, tuple[pa.Array, Any]] = {
    "decimals as doubles, because of one": (pa.array([Decimal("0.01")], pa.decimal128(9, 2)), [float("inf"), 0.01]),
    "float32 and double": (pa.array([0.1], pa.float32()), 0.1),
    "float32 and an integer it cannot hold": (pa.array([16777216.0], pa.float32()), 16777217.0),
    "float32 and decimal": (pa.array([0.1], pa.float32()), Decimal("0.1")),
    "float32 and what is beyond": (pa.array([float("inf")], pa.float32()), [1e39, 10**400]),
    "half floats and what is beyond": (pa.array([float("inf")], pa.float32()).cast(pa.float16()), [70000, 65520.0]),
    "decimal and double": (pa.array([Decimal("2.50")], pa.decimal128(9, 2)), 2.501),
    "date and timestamp": (pa.array([datetime.date(2020, 1, 1)]), datetime.datetime(2020, 1, 1, 12)),
    "date64 and timestamp": (pa.array([datetime.date(2020, 1, 1)], pa.date64()), datetime.datetime(2020, 1, 1, 12)),
    "seconds and microseconds": (
        pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("s")), datetime.datetime(2020, 1, 1, 0, 0, 0, 5)
    ),
    "integers and a fraction": (pa.array([1, 2]), 1.5),
    "integers and what is beyond": (pa.array([-(2**63), 2**63 - 1]), [2**63, -(2**63) - 1, 2.0**63, 2**64]),
}  # fmt: skip


@pytest.mark.parametrize("case", ROUNDED)
def test_values_are_never_rounded_to_the_column(case: str) -> None:
    """Arrow rounds the values of a list to the type of the column, and finds 0.1 among float32."""
    column, value = ROUNDED[case]
    data = written(pa.table({"a": column}), row_group_max_rows=1, stats_columns=["a"])
    looked_for = value if isinstance(value, list) else [value]
    conditions: list[Any] = [[("a", "in", looked_for)], *([("a", "=", each)] for each in looked_for)]
    negations: list[Any] = [[("a", "not in", looked_for)], *([("a", "!=", each)] for each in looked_for)]
    if not any(isinstance(each, int) for each in looked_for):
        conditions.append(pc.field("a").isin(looked_for))
        negations.append(~pc.field("a").isin(looked_for))
    assert [read(data, filters=condition).num_rows for condition in conditions] == [0] * len(conditions)
    assert [read(data, filters=condition).num_rows for condition in negations] == [len(column)] * len(negations)


def test_computing_with_a_field_of_a_struct() -> None:
    data = written(pa.table({"user": [{"age": 3}, {"age": 1}, None]}))
    for age in (pc.field("user", "age"), pc.struct_field(pc.field("user"), "age"), pc.field("user.age")):
        for condition in (age + 1 > 3, age > 2, (age > 2) & ~pc.is_nan(age.cast("double")), pc.scalar(2) < age):
            assert read(data, filters=condition).to_pylist() == [{"user": {"age": 3}}]
    with pytest.raises(smalti.SchemaError, match="by its number"):
        read(data, filters=pc.struct_field(pc.field("user"), [0]) > 2)
    with pytest.raises(smalti.SchemaError, match="by their names"):
        read(data, filters=pc.field(0) > 2)


@pytest.mark.parametrize("turn", [1, -1], ids=["around those before", "around those after"])
def test_thousands_of_alternatives(turn: int) -> None:
    """Each is around the one before, deeper than Python's functions may call each other."""
    table = pa.table({"a": range(3000), "b": range(3000)})
    data = written(table, row_group_max_rows=1500)
    expected = list(range(1400))
    pairs = [[("a", "=", i), ("b", "=", i)] for i in expected]
    single = [pc.field("a") == i for i in expected]
    whole = single[0]
    for each in single[1:]:
        whole = whole | each if turn == 1 else each | whole
    where = parse_where(" or ".join(f"a = {i}" for i in expected), table.schema)
    for filters in (pairs, whole, where) if turn == 1 else (whole,):
        assert read(data, filters=filters)["a"].to_pylist() == expected
    assert read(data, filters=~whole).num_rows == 1600
    with smalti.open(data) as file:
        assert file.matching_row_groups(whole) == [0]


Around = Callable[[pc.Expression, int], pc.Expression]


def _nested(count: int, around: Around) -> pc.Expression:
    expression = pc.field("a") == 0
    for i in range(count):
        expression = around(expression, i)
    return expression


def test_twelve_thousand_conditions() -> None:
    """Joined one after the other, they overflow Arrow's stack, and the process ends."""
    table = pa.table({"a": [0.0, 0.5, -0.0, 7.5, None], "b": [0, 1, 2, 3, 4]})
    data = written(table)
    halves = [i + 0.5 for i in range(12_000)]
    pairs = [(half, i + 3) for i, half in enumerate(halves[:3000])]
    for filters, expected in (
        (parse_where(f"a in (0, {', '.join(map(str, halves))})", table.schema), [0, 1, 2, 3]),
        (parse_where(" or ".join(f"a = {half}" for half in halves), table.schema), [1, 3]),
        ([[("a", "=", half)] for half in halves], [1, 3]),
        (parse_where(" or ".join(f"(a = {half} and b <= {i})" for half, i in pairs), table.schema), [1, 3]),
        ([[("a", "=", half), ("b", "<=", i)] for half, i in pairs], [1, 3]),
        (_nested(12_000, lambda all_, i: (pc.field("a") > i) | all_), [0, 1, 2, 3]),
        (_nested(12_000, lambda all_, _: ~all_), [0, 2]),
    ):
        assert read(data, filters=filters)["b"].to_pylist() == expected


TOO_DEEP: dict[str, Around] = {
    "and in or": lambda all_, i: all_ | (pc.field("b") == i) if i % 2 else all_ & (pc.field("b") != i),
    "not in and": lambda all_, i: ~(all_ & (pc.field("b") != i)),
    "arithmetic": lambda all_, _: (all_.cast("int8") + 0).cast("bool"),
    "function": lambda all_, _: pc.if_else(all_, True, False),
}


@pytest.mark.parametrize("case", TOO_DEEP)
def test_filters_that_are_nested_too_deep_are_refused(case: str) -> None:
    data = written(pa.table({"a": [0, 5], "b": [0, 1]}))
    with pytest.raises(smalti.SchemaError, match="nested too deep"):
        read(data, filters=_nested(12_000, TOO_DEEP[case]))
    assert read(data, filters=_nested(50, TOO_DEEP[case])).num_rows <= 2


def test_parts_that_only_arrow_understands_leave_the_others_exact() -> None:
    """A bare column, a constant or a function turned the fitting of values off for the whole filter."""
    table = pa.table({
        "u": pa.array([2**64 - 1, 6, 5, None], pa.uint64()),
        "d": pa.array([1, 2, 3, 4], pa.duration("s")).dictionary_encode(),
        "flag": [True, None, True, True],
        "row": [0, 1, 2, 3],
    })  # fmt: skip
    data = written(table, stats_columns="all", row_group_max_rows=2)
    large = pc.field("u") > 5
    for condition, rows in (
        (large & pc.field("flag"), [0]),
        (large & ~pc.field("flag"), []),
        (large & pc.scalar(True), [0, 1]),
        (large | pc.scalar(pa.scalar(None, pa.bool_())), [0, 1]),
        (~(large & pc.scalar(False)), [0, 1, 2, 3]),
        (large & (pc.field("row") + 1 > 1), [1]),
        ((pc.field("u") == pa.scalar(2**64 - 1, pa.uint64())) & pc.coalesce(pc.field("flag"), True), [0]),
        (pc.field("d") < pa.scalar(2500, pa.duration("ms")), [0, 1]),
    ):
        assert read(data, filters=condition)["row"].to_pylist() == rows, str(condition)
        batch = table.combine_chunks().to_batches()[0]
        filter_ = fit_filter(normalize_filters(condition), table.schema)
        assert filtered(batch, filter_, table.schema)["row"].to_pylist() == rows, str(condition)


_LISTS = pa.list_(pa.struct([("x", pa.int64())]))
#: Filters that have no answer, and what the error names.
REFUSED: dict[str, tuple[Any, str]] = {
    "text and number": ([("s", "=", 1)], r"\('s', '=', 1\): column is string, value is a number; write '1'"),
    "text in numbers": ([("s", "in", [1, 2])], r"\('s', 'in', \[1\]\): column is string, value is a number; write '1'"),
    "number and text": (pc.field("i") < "a", r"\('i', '<', 'a'\): column is int64, value is text; write a number"),
    "boolean and number": ([("p", "=", 1)], r"\('p', '=', 1\): column is bool, value is a number; write True or False"),
    "list": ([("l", "=", 1)], r"'l'.*column is list<.*cannot be compared"),
    "list in": ([("l", "in", [1])], r"'l'.*list<"),
    "struct": ([("u", "=", True)], r"'u'.*column is struct<.*cannot be compared"),
    "two columns": ([("i", "=", pc.field("s"))], r"'i' = 's': the columns are int64 and string"),
    "zone": (
        [("t", "<", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))],
        r"'t'.*column is timestamp\[us\], value is a moment with a time zone; write",
    ),
    "time with a zone": ([("c", "<", datetime.time(12, tzinfo=datetime.UTC))], r"'c'.*zone"),
    "duration and number": ([("d", "=", 5)], r"'d'.*column is duration\[s\], value is a number; write a timedelta"),
    "prefix of a number": (pc.starts_with(pc.field("i"), "a"), r"'i': column is int64, and starts_with is for text"),
    "what Arrow cannot compute": (pc.field("s") + 1 == 2, r"'s'.*s string"),
    "a value of no type": ([("i", "=", object())], r"'i'.*object"),
    "field in a list": (pc.field("l", "x").is_null(), r"'l.x'.*inside a list"),
    "field in a list, by its path": ([("l.x", "=", 1)], r"'l.x'.*inside a list"),
    "field in a map": (pc.field("m.value").is_valid(), r"'m.value'.*inside a list or map"),
}


def test_dates_and_times_may_be_written_as_text() -> None:
    """As with `--where`; "in" and "=" take and refuse the same."""
    table = pa.table({
        "day": pa.array([0, 1, 2], pa.date32()),
        "at": pa.array([0, 86_400, 172_800], pa.timestamp("s")),
        "utc": pa.array([0, 86_400, 172_800], pa.timestamp("s", "UTC")),
        "clock": pa.array([0, 3600, 7200], pa.time32("s")),
        "row": [0, 1, 2],
    })  # fmt: skip
    data = written(table, stats_columns="all", row_group_max_rows=1)
    for name, text in {
        "day": "1970-01-02",
        "at": "1970-01-02",
        "utc": "1970-01-02T02:00+02:00",
        "clock": "01:00",
    }.items():
        found = [read(data, filters=filters)["row"].to_pylist() for filters in (
            [(name, "=", text)], [(name, "in", [text])], pc.field(name) == text, [(name, ">=", text)],
            [(name, "<", text)],
        )]  # fmt: skip
        assert found == [[1], [1], [1], [1, 2], [0]], name
        for filters in ([(name, "=", "soon")], [(name, "in", ["soon"])]):
            with pytest.raises(smalti.SchemaError, match=r"value is text; write a .* such as"):
                read(data, filters=filters)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_read(case: str, tmp_path: Path) -> None:
    """With the column and the types; the bytes of all columns are damaged, so that a read would be another error."""
    filters, message = REFUSED[case]
    columns = {
        "s": pa.array(["a"]), "i": pa.array([1]), "p": pa.array([True]), "l": pa.array([[{"x": 1}]], _LISTS),
        "u": pa.array([{"x": 1}]), "t": pa.array([0], pa.timestamp("us")), "c": pa.array([0], pa.time64("us")),
        "d": pa.array([0], pa.duration("s")).dictionary_encode(),
        "m": pa.array([[("k", {"x": 1})]], pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
    }  # fmt: skip
    blob = bytearray(written(pa.table(columns)))
    with smalti.open(bytes(blob)) as file:
        for bucket in file.layout().row_groups[0].buckets:
            blob[bucket.offset : bucket.offset + bucket.size] = b"\xff" * bucket.size
    (tmp_path / "a.mosaic").write_bytes(blob)
    smalti.write_table(pa.table({"other": [1]}), tmp_path / "b.mosaic")
    with smalti.open(tmp_path / "a.mosaic") as file:
        for source in (file, smalti.dataset(tmp_path)):
            with pytest.raises(smalti.SchemaError, match=message):
                source.scan(None, filters).to_table()


def test_columns_of_integers_and_floating_point_numbers_are_compared_exactly() -> None:
    """Arrow refuses integers of more than 53 bits."""
    whole = [0, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 5, None, 1]
    floating = [-0.0, 2.0**53, 2.0**53, 2.0**63, -(2.0**63), NAN, 1.0, None]
    data = written(pa.table({"i": whole, "x": floating, "row": range(8)}))
    for op, compare in _PYTHON.items():
        expected = [
            row for row, (i, x) in enumerate(zip(whole, floating, strict=True))
            if i is not None and x is not None and compare(i, x)
        ]  # fmt: skip
        assert read(data, filters=[("i", op, pc.field("x"))])["row"].to_pylist() == expected
        swapped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        assert read(data, filters=[("x", swapped, pc.field("i"))])["row"].to_pylist() == expected


@pytest.mark.parametrize("case", ["int", "float", "text", "decimal", "date"])
def test_many_values_skip_what_few_would(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared in another order, so that thousands cost no more than a few."""
    columns: dict[str, list[Any]] = {
        "int": [1, 1, None, 5, 9, 9, None, None],
        "float": [1.0, 1.0, NAN, 5.0, 0.0, -0.0, None, NAN],
        "text": ["a", "a", None, "f", "k", "k", None, None],
        "decimal": [Decimal(1), Decimal(1), None, Decimal(5), Decimal(9), Decimal(9), None, None],
        "date": [datetime.date(2020, 1, day) if day else None for day in (1, 1, 0, 5, 9, 9, 0, 0)],
    }
    table = pa.table({"x": columns[case]})
    data = written(table, row_group_max_rows=2, stats_columns=["x"])
    pool = table["x"].combine_chunks().drop_null().unique()
    field = pc.field("x")
    sets = [pool.slice(start, count) for start in range(len(pool)) for count in range(1, len(pool) + 1)]
    sets.append(pa.array([pool[0], None], pool.type))
    for few in sets:
        for condition in (field.isin(few), ~field.isin(few)):
            found = []
            for many in (64, 0):
                monkeypatch.setattr(sys.modules["smalti.predicate.prune"], "MANY_VALUES", many)
                with smalti.open(data) as file:
                    found.append((file.matching_row_groups(condition), repr(file.read(filters=condition).to_pylist())))
            assert found[0] == found[1]
            assert found[0][1] == repr(table.filter(condition).to_pylist())


def test_moments_of_other_zones() -> None:
    """A moment is the same in every zone; Arrow compares none of two different zones."""
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    column = pa.array([noon, noon + datetime.timedelta(hours=1), None], pa.timestamp("ms", "Europe/Berlin"))
    data = written(pa.table({"t": column, "row": [0, 1, 2]}), row_group_max_rows=1)
    east = noon.astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    for moment in (noon, east, pa.scalar(noon, pa.timestamp("ns", "Asia/Tokyo"))):
        for op, rows in (("=", [0]), ("!=", [1]), ("<=", [0]), (">", [1])):
            assert read(data, filters=[("t", op, moment)])["row"].to_pylist() == rows
        assert read(data, filters=[("t", "in", [moment])])["row"].to_pylist() == [0]
    for condition in (pc.field("t") == noon.replace(tzinfo=None), pc.field("t").isin([noon.replace(tzinfo=None)])):
        with pytest.raises(smalti.SchemaError, match=r"'t'.*column is timestamp"):  # No one knows which zone is meant.
            read(data, filters=condition)


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_like_knows_texts_of_every_layout(type_: pa.DataType) -> None:
    data = written(pa.table({"x": array_of(["ab", "b", None, "abc"], type_)}), row_group_max_rows=1)
    schema = pa.schema([("x", type_)])
    for pattern, expected in (("a%", ["ab", "abc"]), ("%c", ["abc"]), ("b", ["b"]), ("_b%", ["ab", "abc"])):
        found = read(data, filters=parse_where(f"x like '{pattern}'", schema))["x"].to_pylist()
        assert found == expected


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint64, np.float32, np.float64])
def test_many_numbers_of_numpy_or_arrow_become_one_array(kind: Any) -> None:
    """Fitting 20,000 values one by one takes longer than reading two million rows."""
    table = pa.table({"x": pa.array(range(-5, 100), pa.int64())})
    data, numbers = written(table), [kind(number) for number in range(0, 100, 3)]
    expected = table.filter(pc.field("x").isin(list(range(0, 100, 3))))
    for given_values in (numbers, [pa.scalar(number) for number in numbers], np.array(numbers)):
        assert_same(smalti.read_table(data, filters=[("x", "in", given_values)]), expected)
    found = normalize_filters([("x", "in", numbers)]).tree
    assert isinstance(found, tree.And)
    assert isinstance(found.parts[0].values, pa.Array)

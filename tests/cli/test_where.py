"""The language of --where: what it accepts, what it refuses and what it says then."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.errors import SchemaError
from smalti.predicate.text import parse_where
from smalti.predicate.tree import And, Compare, CompareColumns, IsIn, IsNull, Not, Or, Tree
from tests.support.files import read, written

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "b": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "f": pa.bool_(),
        "g": pa.bool_(),
        'odd "name': pa.bool_(),
        "and": pa.bool_(),
        "m.n": pa.int64(),
        "größe": pa.int64(),
        "date": pa.int64(),
    }
)
F, G = (Compare(name, "equal", pa.scalar(True)) for name in "fg")


def compare(column: str, op: str, value: object = 5) -> Compare:
    return Compare(column, op, pa.scalar(value, SCHEMA.field(column).type))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a > 5", compare("a", "greater")),
        ("a>5", compare("a", "greater")),
        ("5 <= a", compare("a", "greater_equal")),
        ("5 = a", compare("a", "equal")),
        ("a = 5", compare("a", "equal")),
        ("a == 5", compare("a", "equal")),
        ("a <> 5", compare("a", "not_equal")),
        ("a < b", CompareColumns("a", "less", "b")),
        ("x = -1.5e3", compare("x", "equal", -1500.0)),
        ("x = .5", compare("x", "equal", 0.5)),
        ("s = 'it''s'", compare("s", "equal", "it's")),
        ("s = ''", compare("s", "equal", "")),
        ('"odd ""name" = true', compare('odd "name', "equal", True)),
        ("`and` = FALSE", compare("and", "equal", False)),
        ("m.n = 5", compare("m.n", "equal")),
        ("größe = 5", compare("größe", "equal")),
        ("d = date '2026-01-31'", compare("d", "equal", datetime.date(2026, 1, 31))),
        ("date = 5", compare("date", "equal")),
        ("a is null", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("a in (5)", IsIn("a", pa.array([5]))),
        ("s not in ('5', 'x')", Not(IsIn("s", pa.array(["5", "x"])))),
        ("f", F),
        ("not f", Not(F)),
        ("not not f", Not(Not(F))),
        ("f or g and f", Or((F, And((G, F))))),
        ("(f or g) and f", And((Or((F, G)), F))),
        ("f and g and f", And((F, G, F))),
        ("not a > 5 and g", And((Not(compare("a", "greater")), G))),
        ("  a\t>\n5  ", compare("a", "greater")),
    ],
)
def test_parses(text: str, tree: Tree) -> None:
    assert parse_where(text, SCHEMA) == tree


@pytest.mark.parametrize("text", ["1e99999999", "1e99999999999999999999", "1e400", f"1{'0' * 400}", "1e" + "9" * 5000])
@pytest.mark.parametrize("type_", [pa.int64(), pa.decimal128(9, 2), pa.float32(), pa.float64()], ids=str)
def test_numbers_beyond_every_type_are_above_all_but_infinity(text: str, type_: pa.DataType) -> None:
    """At once: a whole number of 100 million digits is never built."""
    cells: list[Any] = [-1, 1, *([float("inf"), -float("inf")] if pa.types.is_floating(type_) else [])]
    data = written(pa.table({"a": pa.array(cells, pa.float64()).cast(type_)}))
    finite, above, below = cells[:2], cells[2:3], cells[3:]
    for condition, expected in (
        (f"a = {text}", []), (f"a <= {text}", finite + below), (f"a > {text}", above), (f"a in ({text}, -{text})", []),
        (f"a < -{text}", below), (f"a >= -{text}", finite + above), (f"a between -{text} and {text}", finite),
        (f"a != {text}", cells),
    ):  # fmt: skip
        found = read(data, filters=parse_where(condition, pa.schema({"a": type_})))["a"].to_pylist()
        assert sorted(found) == sorted(expected), condition


@pytest.mark.parametrize("text", ["8104e-18888844", "1e-99999999999999999999", f"0.{'0' * 100}1", "1e-60", "1e-5"])
@pytest.mark.parametrize(
    "column",
    [pa.array([0, 1]), pa.array([0, 1]).cast(pa.decimal128(21, 2)), pa.array([0, 1]).cast(pa.decimal256(40, 0))],
)
def test_small_numbers_are_not_zero(text: str, column: pa.Array) -> None:
    """The first ended the process in Arrow, which has no such power of ten."""
    data = written(pa.table({"a": column}))
    found = {
        condition: [
            row["a"] for row in read(data, filters=parse_where(condition, pa.schema({"a": column.type}))).to_pylist()
        ]
        for condition in (f"a = {text}", f"a >= {text}", f"a < {text}", f"a > -{text}", "a = 0e-18888844")
    }
    assert list(found.values()) == [[], [1], [0], [0, 1], [0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the end"),
        ("   ", "the end"),
        ("a >", "found the end, expected a value or a column name"),
        ("a > 5 5", "'5' at character 7"),
        ("a > 5 b", "'and', 'or' or the end"),
        ("(a > 5", "expected ')'"),
        ("a > 5)", "')' at character 6"),
        ("a in 5", "'(' and a list"),
        ("a in ()", "a value"),
        ("a in (5,)", "a value"),
        ("a in (5 6)", "',' or ')'"),
        ("a in (b)", "'b' for a string"),
        ("a is 5", "'null' or 'not null'"),
        ("a not 5", "'in', 'between' or 'like' after 'not'"),
        ("a = null", "is null"),
        ("a = 'x", "a quote is not closed"),
        ('"a = 5', "a quote is not closed"),
        ("a = 5x", "cannot read this"),
        ("a = 1.2.3", "cannot read this"),
        ("a ; drop", "'; drop' at character 3"),
        ("a + 1 > 2", "there are no functions and no arithmetic"),
        ("a = 5 && f", "cannot read this (write 'and'): found '&& f'"),
        ("a b = 5", "a name with a space is in double quotes"),
        ("a like 'x%'", "column 'a' has no strings"),
        ("s like 5", "a pattern in single quotes"),
        ("a between 1", "'and' and the upper end"),
        ("a between 1 and 'x'", "value is text; write a number"),
        ("a ~ 5", "cannot read this"),
        ("5", "a comparison"),
        ("and", "a column name"),
        ("a == == 5", "a value or a column name"),
        ("f(a) = 5", "'is' (there are no functions"),
        ("(" * 200 + "a" + ")" * 200, "nested too deep"),
        ("not " * 200 + "a", "nested too deep"),
        ("(" * 100_000 + "a", "nested too deep"),
        ("(" * 99 + "a not between 1 and 2" + " and f or f)" * 99, "nested too deep"),
    ],
)
def test_refuses_and_says_where(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_where(text, SCHEMA)
    assert message in str(refused.value)


@given(st.text(alphabet="ab()<>=!'\"` ,.0123456789-+eandorinotull", max_size=40))
def test_never_raises_anything_else(text: str) -> None:
    with contextlib.suppress(SchemaError):
        parse_where(text, SCHEMA)


@given(st.text(min_size=1).filter(lambda name: "\0" not in name))
def test_any_name_can_be_quoted(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert parse_where(f"{quoted} is null", pa.schema({name: pa.int8()})) == IsNull(name)

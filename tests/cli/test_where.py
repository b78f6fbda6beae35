"""The language of --where: what it accepts, what it refuses and what it says then."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.cli.where import (
    Among,
    Column,
    Comparison,
    Flag,
    Junction,
    Literal,
    Negation,
    NullTest,
    WhereError,
    parse_where,
)

A, B, FIVE = Column("a"), Column("b"), Literal("number", "5")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a > 5", Comparison(">", A, FIVE)),
        ("a>5", Comparison(">", A, FIVE)),
        ("5 <= a", Comparison("<=", FIVE, A)),
        ("a = 5", Comparison("==", A, FIVE)),
        ("a <> 5", Comparison("!=", A, FIVE)),
        ("a < b", Comparison("<", A, B)),
        ("a = -1.5e3", Comparison("==", A, Literal("number", "-1.5e3"))),
        ("a = .5", Comparison("==", A, Literal("number", ".5"))),
        ("a = 'it''s'", Comparison("==", A, Literal("string", "it's"))),
        ("a = ''", Comparison("==", A, Literal("string", ""))),
        ('"odd ""name" = true', Comparison("==", Column('odd "name'), Literal("boolean", "true"))),
        ("`and` = FALSE", Comparison("==", Column("and"), Literal("boolean", "false"))),
        ("m.n = 5", Comparison("==", Column("m.n"), FIVE)),
        ("größe = 5", Comparison("==", Column("größe"), FIVE)),
        ("a = date '2026-01-31'", Comparison("==", A, Literal("date", "2026-01-31"))),
        ("date = 5", Comparison("==", Column("date"), FIVE)),
        ("a is null", NullTest(A, False)),
        ("a IS NOT NULL", NullTest(A, True)),
        ("a in (5)", Among(A, (FIVE,), False)),
        ("a not in (5, 'x')", Among(A, (FIVE, Literal("string", "x")), True)),
        ("a", Flag(A)),
        ("not a", Negation(Flag(A))),
        ("not not a", Negation(Negation(Flag(A)))),
        ("a or b and a", Junction("or", Flag(A), Junction("and", Flag(B), Flag(A)))),
        ("(a or b) and a", Junction("and", Junction("or", Flag(A), Flag(B)), Flag(A))),
        ("a and b and a", Junction("and", Junction("and", Flag(A), Flag(B)), Flag(A))),
        ("not a > 5 and b", Junction("and", Negation(Comparison(">", A, FIVE)), Flag(B))),
        ("  a\t>\n5  ", Comparison(">", A, FIVE)),
    ],
)
def test_parses(text: str, tree: object) -> None:
    assert parse_where(text) == tree


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
        ("a in (b)", "'b' for text"),
        ("a is 5", "'null' or 'not null'"),
        ("a not 5", "'in' after 'not'"),
        ("a = null", "is null"),
        ("a = 'x", "a quote is not closed"),
        ('"a = 5', "a quote is not closed"),
        ("a = 5x", "cannot read this"),
        ("a = 1.2.3", "cannot read this"),
        ("a ; drop", "'; drop' at character 3"),
        ("a + 1 > 2", "cannot read this"),
        ("a like 'x%'", "expected = != < <= > >=, 'in' or 'is'"),
        ("5", "a comparison"),
        ("and", "a column name"),
        ("a == == 5", "a value or a column name"),
        ("f(a) = 5", "expected = !="),
        ("(" * 200 + "a" + ")" * 200, "nested too deep"),
        ("not " * 200 + "a", "nested too deep"),
    ],
)
def test_refuses_and_says_where(text: str, message: str) -> None:
    with pytest.raises(WhereError) as refused:
        parse_where(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("--where")


@given(st.text(alphabet="ab()<>=!'\"` ,.0123456789-+eandorinotull", max_size=40))
def test_never_raises_anything_else(text: str) -> None:
    with contextlib.suppress(WhereError):
        parse_where(text)


@given(st.text(min_size=1).filter(lambda name: "\0" not in name))
def test_any_name_can_be_quoted(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert parse_where(f"{quoted} is null") == NullTest(Column(name), False)

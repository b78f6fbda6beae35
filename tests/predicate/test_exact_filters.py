"""Any literal against any type, in every language of filters: the rows that exact arithmetic keeps, and no others."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti.logical.types import storage_kind
from smalti.predicate import normalize_filters
from smalti.predicate.text import parse_where
from smalti.predicate.tree import OPERATORS
from smalti.table.planning import fit_filter
from smalti.table.reading import filtered
from tests.support.files import written
from tests.support.older_arrow import array_of
from tests.support.strategies import examples

#: An exact number, or one that is infinite or NaN; a text; whether it is true.
Amount = Any
EXACT = Context(prec=2000)
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
ZONE = "Europe/Berlin"
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NUMBERS: list[pa.DataType] = [
    *(
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint32(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
    ),
    *(pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(60, 3), pa.decimal128(10, -2), pa.decimal128(3, 3)),
    *(
        pa.dictionary(pa.int8(), pa.int64()),
        pa.dictionary(pa.int8(), pa.uint64()),
        pa.dictionary(pa.int8(), pa.float32()),
    ),
    pa.run_end_encoded(pa.int32(), pa.int16()),
]
MOMENTS: list[pa.DataType] = [
    *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
    pa.dictionary(pa.int8(), pa.timestamp("ms")),
]
ZONED: list[pa.DataType] = [pa.timestamp("s", ZONE), pa.timestamp("us", "UTC"), pa.timestamp("ns", ZONE)]
TIMES: list[pa.DataType] = [
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.dictionary(pa.int8(), pa.time64("ns")))
]
DURATIONS: list[pa.DataType] = [
    *(pa.duration("s"), pa.duration("us"), pa.duration("ns"), pa.dictionary(pa.int8(), pa.duration("ms"))),
    pa.run_end_encoded(pa.int32(), pa.duration("s")),
]
TEXTS: list[pa.DataType] = [
    *(
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.binary(1),
        pa.dictionary(pa.int8(), pa.string()),
    )
]


@dataclass(frozen=True)
class Literal:
    """A value as Python has it, None if it cannot, and as text, None if that cannot; and what it is."""

    value: Any
    text: str | None
    amount: Amount


def step(type_: Any) -> Fraction:
    """How much one tick of a type is; of seconds, if it is about time."""
    if pt.is_decimal(type_):
        return Fraction(10) ** -type_.scale
    if pt.is_date(type_):
        return Fraction(DAY) if pt.is_date32(type_) else Fraction(1, 1000)
    return Fraction(1, TICKS[type_.unit]) if pt.is_temporal(type_) else Fraction(1)


def limits(type_: Any) -> tuple[int, int]:
    if pt.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if pt.is_time(type_):
        return 0, DAY * TICKS[type_.unit] - 1
    if pt.is_unsigned_integer(type_):
        return 0, 2**type_.bit_width - 1
    if pt.is_timestamp(type_) and type_.unit == "s":
        return -(2**63) // 1000 + 1, (2**63 - 1) // 1000  # stored as milliseconds
    return -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1


@st.composite
def cell(draw: st.DrawFn, type_: Any) -> tuple[Any, Amount]:
    """A value that Arrow makes a cell of, and what it is."""
    if pt.is_floating(type_):
        chosen = draw(
            st.floats(width=type_.bit_width) | st.sampled_from([0.0, -0.0, 1.5, 0.1, inf, -inf, nan, 2.0**53])
        )
        with np.errstate(over="ignore"):
            held = {16: np.float16, 32: np.float32, 64: np.float64}[type_.bit_width](chosen)
        return held, Fraction(float(held)) if isfinite(held) else float(held)
    if pt.is_boolean(type_):
        answer = draw(st.booleans())
        return answer, answer
    if not (pt.is_integer(type_) or pt.is_decimal(type_) or pt.is_temporal(type_)):
        text = draw(
            st.sampled_from(["", "a", "b", "é", "z"] if not pt.is_fixed_size_binary(type_) else ["a", "b", "z"])
        )
        return text if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(
            type_
        ) else text.encode(), text
    low, high = limits(type_)
    near = st.sampled_from([low, high, 0, 1, -1, 2**53, 2**53 + 1, 10**9]).map(lambda tick: min(max(tick, low), high))
    tick = draw(near | st.integers(low, high))
    if pt.is_date64(type_):
        tick = tick // (DAY * 1000) * DAY * 1000
        tick = max(tick, -(2**31) * DAY * 1000)
        tick = min(tick, (2**31 - 1) * DAY * 1000)  # stored as days
    value = Decimal(tick).scaleb(-type_.scale, EXACT) if pt.is_decimal(type_) else tick
    return value, tick * step(type_)


def shown(amount: Fraction) -> str | None:
    """A number in digits, if it has an end."""
    whole = EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return f"{whole:f}" if Fraction(whole) == amount and len(whole.as_tuple().digits) < 400 else None


@st.composite
def number(draw: st.DrawFn, near: list[Amount]) -> Literal:
    """A number of any size and kind, often next to one that the column has."""
    shape = draw(st.sampled_from(["near", "near", "int", "float", "decimal", "scalar"]))
    if shape == "float":
        value = draw(
            st.floats() | st.sampled_from([nan, inf, -inf, -0.0, 0.1, 1e39, 65520.0, 2.0**63, 2.0**64, 5e-324])
        )
        return Literal(value, repr(value) if isfinite(value) else None, Fraction(value) if isfinite(value) else value)
    if shape == "int":
        whole = draw(st.integers() | st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**40, 10**400, 70000, 2**53 + 1]))
        return Literal(whole, str(whole), Fraction(whole))
    if shape == "decimal":
        exponent = draw(st.sampled_from([0, -1, -3, -30, 5, 60, 500, -500]))
        exact = Decimal(draw(st.integers(-(10**30), 10**30))).scaleb(exponent, EXACT)
        return Literal(exact, str(exact), Fraction(exact))
    if shape == "scalar":
        scalar = draw(st.sampled_from([
            pa.scalar(7, pa.uint8()), pa.scalar(2**64 - 1, pa.uint64()), pa.scalar(0.1, pa.float32()),
            pa.scalar(Decimal("2.501")), pa.scalar(Decimal(10) ** 60),
        ]))  # fmt: skip
        return Literal(scalar, None, Fraction(scalar.as_py()))
    finite = [each for each in near if isfinite(each)] or [Fraction(0)]
    gap = draw(st.sampled_from([0, 0, Fraction(1, 2), Fraction(-1, 2), 1, -1, Fraction(1, 10**12), Fraction(1, 3)]))
    share = draw(
        st.sampled_from([0, 0, Fraction(1, 2**20), Fraction(-1, 2**20), Fraction(1, 2**60), Fraction(-1, 2**60)])
    )
    amount = draw(st.sampled_from([*finite, Fraction(0)])) * (1 + share) + (0 if share else gap)
    if amount.denominator == 1:
        return Literal(int(amount), str(int(amount)), amount)
    return Literal(amount, shown(amount), amount)


@st.composite
def timely(draw: st.DrawFn, near: list[Amount], kind: pa.DataType) -> Literal:
    """A moment, time or duration of any unit, often next to one that the column has."""
    units = ["us", "ns"] if pt.is_time64(kind) else ["s", "ms", "us", "ns"]
    unit = draw(st.sampled_from(units))
    make: Any = {
        "timestamp": lambda: pa.timestamp(unit, kind.tz and draw(st.sampled_from(["UTC", "Asia/Tokyo"]))),
        "time": lambda: pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit),
        "duration": lambda: pa.duration(unit),
    }
    family = "time" if pt.is_time(kind) else "duration" if pt.is_duration(kind) else "timestamp"
    if family == "timestamp" and not getattr(kind, "tz", None) and draw(st.integers(0, 4)) == 0:
        day = draw(st.dates())
        return Literal(day, f"'{day}'", Fraction((day - dt.date(1970, 1, 1)).days * DAY))
    if family == "timestamp" and not pt.is_timestamp(kind):
        kind = pa.timestamp("s")
    type_ = make[family]()
    low, high = limits(type_)
    if family == "timestamp":
        low, high = -(2**63), 2**63 - 1
    target = draw(st.sampled_from([*near, Fraction(0)])) / step(type_)
    tick = min(max(int(target) + draw(st.sampled_from([0, 0, 1, -1, 10**5])), low), high)
    amount = tick * step(type_)
    text = None
    seconds, part = divmod(amount, 1)
    digits = f"{int(part * 10**9):09d}".rstrip("0")
    if family == "time":
        text = f"'{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{'.' if digits else ''}{digits}'"
    elif family == "timestamp" and -(10**10) < seconds < 10**11:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(seconds))
        text = f"'{moment.isoformat()}{'.' if digits else ''}{digits}{'Z' if type_.tz else ''}'"
    return Literal(pa.scalar(tick, type_), text, amount)


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[Amount], str, list[Literal], int]:
    """A column with what its cells are, an operator, literals, and rows of a row group."""
    kinds = [NUMBERS[6:9], NUMBERS, [*MOMENTS, *ZONED], [*TIMES, *DURATIONS], [*TEXTS, pa.bool_()]]
    type_ = draw(st.sampled_from(kinds).flatmap(st.sampled_from))
    plain = storage_kind(type_)
    made = draw(st.lists(st.none() | cell(plain), max_size=8))
    cells = [None if each is None else each[0] for each in made]
    amounts = [None if each is None else each[1] for each in made]
    near = [amount for amount in amounts if isinstance(amount, Fraction)]
    if type_ in NUMBERS:
        literals = number([amount for amount in amounts if amount is not None] or [Fraction(0)])
    elif type_ in TEXTS:
        literals = st.sampled_from(["", "a", "ab", "é", "\U0010ffff"]).map(
            lambda text: Literal(text, f"'{text}'", text)
        )
    elif type_ == pa.bool_():
        literals = st.booleans().map(lambda answer: Literal(answer, str(answer).lower(), answer))
    else:
        literals = timely(near, plain)
    op = draw(st.sampled_from([*TESTS, *TESTS, "in", "not in", "between", "is null"]))
    count = 2 if op == "between" else draw(st.integers(1, 4)) if "in" in op else 1
    return type_, cells, amounts, op, [draw(literals) for _ in range(count)], draw(st.integers(1, 4))


def says(op: str, cell_: Amount, values: list[Amount], *, finds_nan: bool = False) -> bool | None:
    """SQL's answer: true, false or null."""
    if op == "is null":
        return cell_ is None
    if cell_ is None:
        return None
    if op == "between":
        return bool(values[0] <= cell_ <= values[1])
    if op in TESTS:
        return bool(TESTS[op](cell_, values[0]))
    found = any(cell_ == value or (finds_nan and cell_ != cell_ and value != value) for value in values)
    return found is (op == "in")


def as_written(literal: Literal, type_: pa.DataType) -> Amount:
    """What the text of a literal means to a column: a number with a point may be how one of the column is written."""
    text = literal.text
    assert text is not None
    if not pt.is_floating(type_) or not any(mark in text for mark in ".eE"):
        return literal.amount if not isinstance(literal.amount, float) else Fraction(literal.amount)
    exact = Decimal(text)
    with np.errstate(over="ignore", under="ignore"):
        near = {16: np.float16, 32: np.float32, 64: np.float64}[type_.bit_width](float(text))
    digits = len(exact.normalize(EXACT).as_tuple().digits)
    is_written_so = isfinite(near) and near != 0 and Decimal(f"{float(near):.{max(0, digits - 1)}e}") == exact
    return Fraction(float(near)) if is_written_so else Fraction(exact)


@examples(150)
@given(cases())
def test_any_literal_against_any_type(
    case: tuple[pa.DataType, list[Any], list[Amount], str, list[Literal], int],
) -> None:
    type_, cells, amounts, op, literals, group = case
    plain = storage_kind(type_)
    if pt.is_run_end_encoded(type_):
        column = pa.array(cells, plain)
        column = pc.run_end_encode(
            column.cast(pa.int64()) if pt.is_duration(plain) else column, run_end_type=pa.int32()
        )  # type: ignore[attr-defined]
        column = pa.RunEndEncodedArray.from_arrays(column.run_ends, column.values.cast(plain))
    else:
        column = array_of(cells, type_)
    table = pa.table({"c": column, "row": range(len(cells))})
    values = [literal.amount for literal in literals]
    #: Filters, and the rows that they keep. In Python "not in" keeps nulls, as pyarrow's does.
    asked: list[tuple[Any, list[bool]]] = []
    python = [literal.value for literal in literals]
    in_python = [says(op, cell_, values, finds_nan=True) for cell_ in amounts]
    if op in TESTS:
        asked.append(([("c", op, python[0])], [answer is True for answer in in_python]))
    elif op in ("in", "not in"):
        asked.append(
            ([("c", op, python)], [answer is True or (answer is None and op == "not in") for answer in in_python])
        )
    elif op == "between":
        asked.append(([("c", ">=", python[0]), ("c", "<=", python[1])], [answer is True for answer in in_python]))
    else:
        asked.append((pc.field("c").is_null(), [answer is True for answer in in_python]))
    if op in TESTS and not isinstance(python[0], Fraction):
        try:
            said = getattr(pc, OPERATORS[op])(pc.field("c"), pc.scalar(python[0]))
        except (OverflowError, pa.ArrowInvalid):
            pass  # Arrow has no such literal.
        else:
            asked.append((said, [answer is True for answer in in_python]))
            asked.append((~said & pc.scalar(True), [answer is False for answer in in_python]))
    if op != "is null" and all(literal.text is not None for literal in literals):
        texts = [str(literal.text) for literal in literals]
        text = {"in": f"c {op} ({', '.join(texts)})", "not in": f"c {op} ({', '.join(texts)})"}.get(
            op, f"c {op} {texts[0]}"
        )
        text = f"c between {texts[0]} and {texts[-1]}" if op == "between" else text
        if not (pt.is_date(plain) and any("T" in each for each in texts)):
            meant = [as_written(literal, plain) if type_ in NUMBERS else literal.amount for literal in literals]
            answers = [says(op, cell_, meant) for cell_ in amounts]
            asked.append((parse_where(text, table.schema), [answer is True for answer in answers]))
            asked.append((parse_where(f"not ({text})", table.schema), [answer is False for answer in answers]))
    for stats in ("all", ()):
        with smalti.open(written(table, row_group_max_rows=group, stats_columns=stats)) as file:
            for filters, expected in asked:
                found = file.read(["row"], filters)["row"].to_pylist()
                assert found == [row for row, keeps in enumerate(expected) if keeps], (filters, stats)
    for filters, expected in asked:  # as a table whose files differ filters, by the types that were given
        filter_ = fit_filter(normalize_filters(filters), table.schema)
        kept = [
            row for batch in table.to_batches() for row in filtered(batch, filter_, batch.schema)["row"].to_pylist()
        ]
        assert kept == [row for row, keeps in enumerate(expected) if keeps], filters

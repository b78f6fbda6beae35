"""Filters as strings, in a language like that of SQL's WHERE, parsed to a tree.

    a > 5 and (b is not null or name not in ('x', 'y')) and "odd name" = date '2026-01-31'
    id between 5 and 9 and name like 'sensor%' and unit not like '_C'

Names are bare (letters, digits, `_` and `.`) or in double quotes or backticks, strings in single quotes, either with
the quote doubled inside. Keywords are case-insensitive. There are no functions and no arithmetic, which pyarrow's
expressions have. Names and values are checked against a schema while they are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import SchemaError, no_column
from smalti.logical.types import compared_type, is_string_like, storage_kind
from smalti.predicate import tree as t
from smalti.predicate.fitting import fit_condition, kind_of, nearest_float
from smalti.predicate.literals import TYPED, Token, to_value

_OPERATORS = t.OPERATORS | {"<>": "not_equal"}
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null"})
#: Words that are keywords only after a column, so that columns can have them as names.
_AFTER_COLUMN = frozenset({"between", "like", "ilike"})
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<word>[^\W\d][\w.]*)
    | (?P<operator><=|>=|<>|!=|==|[=<>])
    | (?P<mark>[(),])
    | (?P<other>\S)
    )""",
    re.VERBOSE,
)
_NO_FUNCTIONS = " (there are no functions and no arithmetic; SQL queries and pyarrow.compute have them)"
#: What to write instead of a character that no condition has.
_HINTS = {
    **dict.fromkeys("'\"`", " (a quote is not closed)"),
    **dict.fromkeys("+-*/%", _NO_FUNCTIONS),
    "&": " (write 'and')",
    "|": " (write 'or')",
}
#: Nested `not` and parentheses; far more than anyone writes, far below Python's own limit.
_MAX_DEPTH = 100


def parse_where(text: str, schema: pa.Schema) -> t.Tree:
    """The tree of a condition on columns of `schema`.

    Raises
    ------
    SchemaError
        If `text` is not a condition, names a column that does not exist, or compares it with a value of another type.

    Examples
    --------
    >>> parse_where("id >= 5 and name is null", pa.schema({"id": pa.int8(), "name": pa.string()}))
    And(parts=(Compare(column='id', op='greater_equal', value=<pyarrow.Int8Scalar: 5>), IsNull(column='name', ...)))
    """
    return parse_text(text, lambda _: schema)


def parse_text(text: str, schema_of: Callable[[str], pa.Schema]) -> t.Tree:
    """The tree of a condition; `schema_of` is called with each name once, for a schema that tells its type."""
    parser = _Parser(text, schema_of)
    tree = parser.either(1)
    if parser.token.kind != "end":
        parser.fail("'and', 'or' or the end")
    return t.check_depth(tree)


def parse_value(text: str, column: str, schema: pa.Schema) -> pa.Scalar | pc.Expression | None:
    """The value that a text assigns to a column: a literal in the type of the column, null, or another column.

    Examples
    --------
    >>> schema = pa.schema({"price": pa.float64(), "list_price": pa.float64()})
    >>> parse_value("9.5", "price", schema), parse_value("null", "price", schema)
    (<pyarrow.DoubleScalar: 9.5>, None)
    >>> parse_value("list_price", "price", schema)
    <pyarrow.compute.Expression list_price>
    """
    parser = _Parser(text, lambda _: schema)
    type_ = parser._type(column)
    found: pa.Scalar | pc.Expression | None
    if parser._accept("keyword", "null"):
        found = None
    else:
        operand = parser._operand("a value, null, or the name of a column")
        if isinstance(operand, str):
            parser._type(operand)
            found = pc.field(operand)
        else:
            found = _assigned(to_value(operand, column, "=", type_), column, text, type_)
    if parser.token.kind != "end":
        parser.fail("the end")
    return found


def _assigned(value: t.Value, column: str, text: str, type_: pa.DataType) -> pa.Scalar:
    """A value in the type of a column. Floats are rounded; other types have to hold it exactly."""
    kind = storage_kind(type_)
    if isinstance(value, t.Exact) and pt.is_floating(kind):
        near = nearest_float(value.amount, kind.bit_width)
        if isfinite(near):
            return pa.scalar(near, pa.float64())
    else:
        fitted = fit_condition(t.Compare(column, "equal", value), {column: compared_type(type_)})
        # A value that no row can equal becomes a comparison of another kind, with a value that was never written.
        if isinstance(fitted, t.Compare) and fitted.op == "equal" and isinstance(fitted.value, pa.Scalar):
            return fitted.value
    raise SchemaError("the value does not fit the type of the column", column=column, found=text, expected=str(type_))


def _tokens(text: str) -> list[Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token, start = match[kind], match.start(kind)
        if kind == "other":
            raise SchemaError(f"cannot read this{_HINTS.get(token, '')}", found=_excerpt(text, start))
        word = token.lower()
        if kind == "word" and (word in _KEYWORDS or word in ("true", "false")):
            kind, token = "keyword" if word in _KEYWORDS else "boolean", word
        elif kind in ("string", "quoted"):
            token = token[1:-1].replace(token[0] * 2, token[0])
        tokens.append(Token(kind, token, start))
    return [*tokens, Token("end", "", len(text))]


def _excerpt(text: str, start: int) -> str:
    rest = text[start : start + 30]
    return f"{rest!r} at character {start + 1}" if rest else "the end"


class _Parser:
    """Recursive descent: or, and, not, then one condition. An operand is a literal, or the name of a column."""

    def __init__(self, text: str, schema_of: Callable[[str], pa.Schema]) -> None:
        self._text = text
        self._schema_of = schema_of
        self._tokens = _tokens(text)
        self._next = 0
        self._types: dict[str, pa.DataType] = {}
        self._quoted: set[str] = set()  # names in double quotes, where people may have meant text

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self.token
        self._next += 1
        return token

    def _accept(self, kind: str, *texts: str) -> bool:
        if self.token.kind == kind and self.token.text in texts:
            self._next += 1
            return True
        return False

    def _expect(self, kind: str, text: str, expected: str) -> None:
        if not self._accept(kind, text):
            self.fail(expected)

    def fail(self, expected: str) -> NoReturn:
        raise SchemaError("not a condition", found=_excerpt(self._text, self.token.start), expected=expected)

    def either(self, depth: int) -> t.Tree:
        alternatives = [[self._negated(depth)]]
        while self.token.kind == "keyword" and self.token.text in ("and", "or"):
            if self._take().text == "or":
                alternatives.append([])
            alternatives[-1].append(self._negated(depth))
        return t.join(t.Or, [t.join(t.And, parts) for parts in alternatives])

    def _negated(self, depth: int) -> t.Tree:
        if depth > _MAX_DEPTH:
            raise SchemaError("nested too deep", found=depth, expected=f"{_MAX_DEPTH} levels at most")
        if self._accept("keyword", "not"):
            return t.Not(self._negated(depth + 1))
        if self._accept("mark", "("):
            inside = self.either(depth + 1)
            self._expect("mark", ")", "')'")
            return inside
        return self._condition()

    def _condition(self) -> t.Tree:
        left = self._operand("a column name, a value, 'not' or '('")
        if self.token.kind == "operator":
            op = _OPERATORS[self._take().text]
            return self._comparison(left, op, self._operand("a value or a column name"))
        if isinstance(left, Token):
            self.fail("a comparison: = != < <= > >=")
        found: t.Tree
        is_test = self._accept("keyword", "is")
        negated = self._accept("keyword", "not")
        word = self.token.text.lower()
        if is_test:
            self._expect("keyword", "null", "'null' or 'not null'")
            self._type(left)
            found = t.IsNull(left)
        elif self._accept("keyword", "in"):
            found = self._among(left)
        elif self.token.kind == "word" and word in _AFTER_COLUMN:
            self._next += 1
            found = self._between(left) if word == "between" else self._like(left, ignore_case=word == "ilike")
        elif negated:
            self.fail("'in', 'between' or 'like' after 'not'")
        elif self.token.kind == "end" or word in ("and", "or", ")"):
            return self._flag(left)
        else:
            is_call, is_name = self.token.text == "(", self.token.kind in ("word", "quoted")
            hint = _NO_FUNCTIONS if is_call else " (a name with a space is in double quotes)" if is_name else ""
            self.fail(f"= != < <= > >=, 'in', 'between', 'like' or 'is'{hint}")
        return t.Not(found) if negated else found

    def _between(self, column: str) -> t.Tree:
        """SQL's between, which includes both ends."""
        low = self._operand("a value or a column name")
        self._expect("keyword", "and", "'and' and the upper end")
        high = self._operand("a value or a column name")
        return t.And((self._comparison(column, "greater_equal", low), self._comparison(column, "less_equal", high)))

    def _like(self, column: str, *, ignore_case: bool) -> t.Tree:
        """SQL's like: % is any string, _ is any one character, and a backslash escapes the next character."""
        type_ = self._type(column)
        if self.token.kind != "string":
            self.fail("a pattern in single quotes, such as 'sensor%'")
        pattern = self._take().text
        if not is_string_like(type_):
            raise SchemaError(f"column {column!r} has no strings, which 'like' is for", found=str(type_))
        simple = None if ignore_case else t.match_like(column, pattern)
        if simple is not None:
            return fit_condition(simple, self._types)
        return t.Opaque((column,), expression=pc.match_like(pc.field(column), pattern, ignore_case=ignore_case))

    def _among(self, column: str) -> t.Tree:
        self._expect("mark", "(", "'(' and a list of values")
        values: list[Token] = []
        while not values or not self._accept("mark", ")"):
            if values:
                self._expect("mark", ",", "',' or ')'")
            value = self._operand("a value")
            if isinstance(value, str):
                raise SchemaError("a list holds values only", found=value, expected=f"'{value}' for a string")
            values.append(value)
        type_ = self._type(column)
        return fit_condition(
            t.IsIn(column, tuple(to_value(value, column, "in", type_) for value in values)), self._types
        )

    def _operand(self, expected: str) -> str | Token:
        token = self.token
        if token.kind in ("string", "number", "boolean"):
            return self._take()
        if token.kind == "keyword" and token.text == "null":
            self.fail("a value (test for null with 'is null')")
        if token.kind == "word" and token.text.lower() in TYPED and self._tokens[self._next + 1].kind == "string":
            self._next += 1
            return replace(self._take(), kind=token.text.lower())
        if token.kind in ("word", "quoted"):
            if token.kind == "quoted":
                self._quoted.add(token.text)
            return self._take().text
        return self.fail(expected)

    # --- conditions on the columns of the schema --------------------------------------------------------------------

    def _type(self, column: str) -> pa.DataType:
        if column not in self._types:
            schema = self._schema_of(column)
            type_ = _find_type(list(schema), column)
            if type_ is None:
                if column in self._quoted:
                    written = "'" + column.replace("'", "''") + "'"
                    reason = f"no column {column!r}; text belongs in single quotes: {written}"
                    raise SchemaError(reason)
                raise no_column(column, schema.names)
            self._types[column] = type_
        return self._types[column]

    def _comparison(self, left: str | Token, op: str, right: str | Token) -> t.Tree:
        if isinstance(left, Token):
            if isinstance(right, Token):
                raise SchemaError("both sides of a comparison are values", expected="a column on one side")
            left, op, right = right, t.SWAPPED.get(op, op), left
        type_ = self._type(left)
        if isinstance(right, Token):
            return fit_condition(t.Compare(left, op, to_value(right, left, t.SIGNS[op], type_)), self._types)
        other = self._type(right)
        are_numbers = kind_of(type_) == kind_of(other) == "number"
        if type_ != other and not are_numbers and not (pt.is_timestamp(type_) and pt.is_timestamp(other)):
            raise SchemaError("columns of different types", found=f"{left} {type_}", expected=f"{other}")
        return t.CompareColumns(left, op, right)

    def _flag(self, column: str) -> t.Tree:
        if not pt.is_boolean(type_ := self._type(column)):
            reason = f"column {column!r} by itself must be boolean"
            raise SchemaError(reason, found=str(type_), expected="a comparison")
        return t.Compare(column, "equal", pa.scalar(True))


def _find_type(fields: list[pa.Field], path: str) -> pa.DataType | None:
    """The type of the values of a column, or of the field of a struct that has this path; None if there is none."""
    for field in fields:
        if field.name == path:
            return storage_kind(field.type)
    for field in fields:
        inner = storage_kind(field.type)
        if path.startswith(field.name + ".") and pt.is_struct(inner):
            found = _find_type(list(inner), path.removeprefix(field.name + "."))
            if found is not None:
                return found
    return None

"""Filters as text, the language of the command line's `--where`, parsed to a tree.

    a > 5 and (b is not null or name not in ('x', 'y')) and "odd name" = date '2026-01-31'
    id between 5 and 9 and name like 'sensor%' and unit not like '_C'

Names are bare (letters, digits, `_` and `.`) or in double quotes or backticks, strings in single quotes, either with
the quote doubled inside. Keywords are case-insensitive. There are no functions and no arithmetic: what this cannot
say, pyarrow's expressions can. Names and values are checked against a schema as they are met.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import SchemaError, suggestion
from smalti.logical.types import storage_kind
from smalti.predicate.fitting import fit_condition
from smalti.predicate.literals import TYPED, Literal, WhereError, is_number, to_value
from smalti.predicate.tree import (
    OPERATORS,
    SWAPPED,
    And,
    Compare,
    CompareColumns,
    IsIn,
    IsNull,
    MatchText,
    Not,
    Opaque,
    Or,
    Tree,
    check_depth,
    join,
)

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
#: Words that mean something after a column only, and stay usable as names of columns.
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
#: Nested `not` and parentheses; far beyond what anyone writes, far below Python's own limit.
_MAX_DEPTH = 100


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_where(text: str, schema: pa.Schema) -> Tree:
    """The tree of a condition on columns of `schema`.

    Raises
    ------
    WhereError
        If the text is not a condition, names a column that is not there, or compares it with what has another type.

    Examples
    --------
    >>> parse_where("id >= 5 and name is null", pa.schema({"id": pa.int8(), "name": pa.string()}))
    And(left=Compare(column='id', op='greater_equal', value=<pyarrow.Int8Scalar: 5>), right=IsNull(column='name', ...))
    """
    parser = _Parser(text, schema)
    tree = parser.either(1)
    if parser.token.kind != "end":
        parser.fail("'and', 'or' or the end")
    try:
        return check_depth(tree)
    except SchemaError as error:
        raise WhereError(f"--where: {error.reason}", expected=error.expected) from None


def like_tree(column: str, pattern: str, type_: pa.DataType, *, ignore_case: bool = False) -> Tree:
    """A pattern of SQL's like as the simplest condition that says the same, so that statistics can decide it.

    Examples
    --------
    >>> like_tree("a", "sensor%", pa.string())
    MatchText(column='a', op='starts_with', text='sensor')
    >>> like_tree("a", "x", pa.string())
    Compare(column='a', op='equal', value=<pyarrow.StringScalar: 'x'>)
    """
    inside = pattern.strip("%")
    if ignore_case or any(char in inside for char in "%_\\"):
        return Opaque((column,), expression=pc.match_like(pc.field(column), pattern, ignore_case=ignore_case))
    if inside == pattern:
        return Compare(column, "equal", pa.scalar(pattern, type_))
    if not inside:  # every text matches, which "has an empty text in it" says without a case of its own
        return MatchText(column, "match_substring", "")
    op = {(False, True): "starts_with", (True, False): "ends_with", (True, True): "match_substring"}
    return MatchText(column, op[pattern.startswith("%"), pattern.endswith("%")], inside)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token, at = match[kind], match.start(kind)
        if kind == "other":
            hint = " (a quote is not closed)" if token in "'\"`" else ""
            raise WhereError(f"--where: cannot read this{hint}", found=_excerpt(text, at))
        if kind == "word" and token.lower() in KEYWORDS:
            kind, token = "keyword", token.lower()
        elif kind in ("string", "quoted"):
            token = token[1:-1].replace(token[0] * 2, token[0])
        tokens.append(_Token(kind, token, at))
    return [*tokens, _Token("end", "", len(text))]


def _excerpt(text: str, at: int) -> str:
    rest = text[at : at + 30]
    return f"{rest!r} at character {at + 1}" if rest else "the end"


class _Parser:
    """Recursive descent: or, and, not, then one condition. An operand is a Literal, or a column's name as a str."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = _tokens(text)
        self._next = 0
        self._types: dict[str, pa.DataType] = {}

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self.token
        self._next += 1
        return token

    def _accept(self, kind: str, *texts: str) -> bool:
        if self.token.kind == kind and self.token.text in texts:
            self._next += 1
            return True
        return False

    def fail(self, expected: str) -> NoReturn:
        raise WhereError("--where", found=_excerpt(self._text, self.token.at), expected=expected)

    def either(self, depth: int) -> Tree:
        parts = [self._both(depth)]
        while self._accept("keyword", "or"):
            parts.append(self._both(depth))
        return join(Or, parts)

    def _both(self, depth: int) -> Tree:
        parts = [self._negated(depth)]
        while self._accept("keyword", "and"):
            parts.append(self._negated(depth))
        return join(And, parts)

    def _negated(self, depth: int) -> Tree:
        if depth > _MAX_DEPTH:
            raise WhereError("--where: nested too deep", found=depth, expected=f"{_MAX_DEPTH} levels at most")
        if self._accept("keyword", "not"):
            return Not(self._negated(depth + 1))
        if self._accept("mark", "("):
            inside = self.either(depth + 1)
            if not self._accept("mark", ")"):
                self.fail("')'")
            return inside
        return self._condition()

    def _condition(self) -> Tree:
        left = self._operand("a column name, a value, 'not' or '('")
        if self.token.kind == "operator":
            op = (OPERATORS | {"<>": "not_equal"})[self._take().text]
            return self._comparison(left, op, self._operand("a value or a column name"))
        if isinstance(left, Literal):
            self.fail("a comparison: = != < <= > >=")
        if self._accept("keyword", "is"):
            negated = self._accept("keyword", "not")
            if not self._accept("keyword", "null"):
                self.fail("'null' or 'not null'")
            self._type(left)
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._accept("keyword", "not")
        if self._accept("keyword", "in"):
            among = self._among(left, self._values())
            return Not(among) if negated else among
        word = self.token.text.lower() if self.token.kind == "word" else ""
        if word in _AFTER_COLUMN:
            self._next += 1
            found = self._between(left) if word == "between" else self._like(left, ignore_case=word == "ilike")
            return Not(found) if negated else found
        if negated:
            self.fail("'in', 'between' or 'like' after 'not'")
        if self.token.kind == "end" or self.token.text in ("and", "or", ")"):
            return self._flag(left)
        return self.fail("= != < <= > >=, 'in', 'between', 'like' or 'is'")

    def _between(self, column: str) -> Tree:
        """SQL's between, which includes both ends."""
        low = self._operand("a value or a column name")
        if not self._accept("keyword", "and"):
            self.fail("'and' and the upper end")
        high = self._operand("a value or a column name")
        return And(
            self._comparison(column, "greater_equal", low),
            self._comparison(column, "less_equal", high),
        )

    def _like(self, column: str, *, ignore_case: bool) -> Tree:
        """SQL's like: % is any text, _ is any one character, a backslash takes away the meaning of the next one."""
        type_ = self._type(column)
        if self.token.kind != "string":
            self.fail("a pattern in single quotes, such as 'sensor%'")
        pattern = self._take().text
        if not (pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)):
            raise WhereError(f"--where: column {column!r} is not text, which 'like' is for", found=str(type_))
        return like_tree(column, pattern, type_, ignore_case=ignore_case)

    def _values(self) -> list[Literal]:
        if not self._accept("mark", "("):
            self.fail("'(' and a list of values")
        values = []
        while True:
            value = self._operand("a value")
            if isinstance(value, str):
                raise WhereError("--where: a list holds values only", found=value, expected=f"'{value}' for text")
            values.append(value)
            if self._accept("mark", ")"):
                return values
            if not self._accept("mark", ","):
                self.fail("',' or ')'")

    def _operand(self, expected: str) -> str | Literal:
        token = self.token
        if token.kind in ("string", "number"):
            return Literal(token.kind, self._take().text)
        if token.kind == "keyword" and token.text in ("true", "false"):
            return Literal("boolean", self._take().text)
        if token.kind == "keyword" and token.text == "null":
            self.fail("a value (test for null with 'is null')")
        if token.kind == "word" and token.text.lower() in TYPED and self._tokens[self._next + 1].kind == "string":
            self._next += 1
            return Literal(token.text.lower(), self._take().text)
        if token.kind in ("word", "quoted"):
            return self._take().text
        return self.fail(expected)

    # --- conditions on the columns of the schema --------------------------------------------------------------------

    def _type(self, column: str) -> pa.DataType:
        if column not in self._types:
            type_ = _find_type(list(self._schema), column)
            if type_ is None:
                raise WhereError(f"--where: no column {column!r}{suggestion(column, self._schema.names)}")
            self._types[column] = type_
        return self._types[column]

    def _comparison(self, left: str | Literal, op: str, right: str | Literal) -> Tree:
        if isinstance(left, Literal):
            if isinstance(right, Literal):
                raise WhereError("--where: both sides of a comparison are values", expected="a column on one side")
            left, op, right = right, SWAPPED.get(op, op), left
        type_ = self._type(left)
        if isinstance(right, Literal):
            return fit_condition(Compare(left, op, to_value(right, left, type_)), {left: type_})
        other = self._type(right)
        alike = all(map(is_number, (type_, other))) or all(map(pt.is_timestamp, (type_, other)))
        if type_ != other and not alike:
            raise WhereError("--where: columns of different types", found=f"{left} {type_}", expected=f"{other}")
        return CompareColumns(left, op, right)

    def _among(self, column: str, values: list[Literal]) -> Tree:
        type_ = self._type(column)
        return fit_condition(IsIn(column, tuple(to_value(value, column, type_) for value in values)), {column: type_})

    def _flag(self, column: str) -> Tree:
        type_ = self._type(column)
        if not pt.is_boolean(type_):
            raise WhereError(
                f"--where: column {column!r} by itself must be boolean", found=str(type_), expected="a comparison"
            )
        return Compare(column, "equal", pa.scalar(True))


def _find_type(fields: list[pa.Field], path: str) -> pa.DataType | None:
    """The type of the values of a column, or of the field of a struct that a path leads to; None if there is none."""
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

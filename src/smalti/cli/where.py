"""`--where`: a small, strict language for conditions on rows, parsed to a tree.

    a > 5 and (b is not null or not name in ('x', 'y')) and "odd name" = date '2026-01-31'

Names are bare (letters, digits, `_` and `.`) or in double quotes or backticks, strings in single quotes, either with
the quote doubled inside. Keywords are case-insensitive. There are no functions and no arithmetic: what this cannot
say, Python can. `smalti.cli.conditions` gives the tree its meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from smalti.errors import MosaicError

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
OPERATORS = {"=": "==", "==": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: `date '…'` and the like; the words stay usable as names.
TYPED = ("date", "time", "timestamp")

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<word>[^\W\d][\w.]*)
    | (?P<operator><=|>=|<>|!=|==|[=<>])
    | (?P<mark>[(),])
    )""",
    re.VERBOSE,
)


class WhereError(MosaicError):
    """A condition that cannot be understood; says where."""


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Literal:
    """`kind` is "string", "number", "boolean", or one of `TYPED`; `text` is as written, unquoted."""

    kind: str
    text: str


Operand = Column | Literal


@dataclass(frozen=True)
class Comparison:
    op: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Among:
    column: Column
    values: tuple[Literal, ...]
    negated: bool


@dataclass(frozen=True)
class NullTest:
    column: Column
    negated: bool


@dataclass(frozen=True)
class Flag:
    """A boolean column by itself."""

    column: Column


@dataclass(frozen=True)
class Negation:
    operand: Condition


@dataclass(frozen=True)
class Junction:
    """`word` is "and" or "or"."""

    word: str
    left: Condition
    right: Condition


Condition = Comparison | Among | NullTest | Flag | Negation | Junction


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_where(text: str) -> Condition:
    """The tree of a condition.

    Examples
    --------
    >>> parse_where("a >= 5")
    Comparison(op='>=', left=Column(name='a'), right=Literal(kind='number', text='5'))
    """
    return _Parser(text).parse()


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            while text[at].isspace():
                at += 1
            hint = " (a quote is not closed)" if text[at] in "'\"`" else ""
            raise WhereError(f"--where: cannot read this{hint}", found=_excerpt(text, at))
        kind = str(match.lastgroup)
        token = match.group(kind)
        start = match.start(kind)
        if kind == "word" and token.lower() in KEYWORDS:
            kind, token = "keyword", token.lower()
        elif kind in ("string", "quoted"):
            token = token[1:-1].replace(token[0] * 2, token[0])
        tokens.append(_Token(kind, token, start))
        at = match.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _excerpt(text: str, at: int) -> str:
    rest = text[at : at + 30]
    return f"{rest!r} at character {at + 1}" if rest else "the end"


class _Parser:
    """Recursive descent: or, and, not, then one condition."""

    #: Nested `not` and parentheses; far beyond what anyone writes, far below Python's own limit.
    MAX_DEPTH = 100

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def parse(self) -> Condition:
        condition = self._either()
        if self._token.kind != "end":
            self._fail("'and', 'or' or the end")
        return condition

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, kind: str, *texts: str) -> bool:
        if self._token.kind == kind and self._token.text in texts:
            self._next += 1
            return True
        return False

    def _fail(self, expected: str) -> NoReturn:
        raise WhereError("--where", found=_excerpt(self._text, self._token.at), expected=expected)

    def _either(self) -> Condition:
        left = self._both()
        while self._accept("keyword", "or"):
            left = Junction("or", left, self._both())
        return left

    def _both(self) -> Condition:
        left = self._negated()
        while self._accept("keyword", "and"):
            left = Junction("and", left, self._negated())
        return left

    def _negated(self) -> Condition:
        self._depth += 1
        if self._depth > self.MAX_DEPTH:
            raise WhereError("--where: nested too deep", found=self._depth, expected=f"{self.MAX_DEPTH} levels at most")
        try:
            if self._accept("keyword", "not"):
                return Negation(self._negated())
            if self._accept("mark", "("):
                inside = self._either()
                if not self._accept("mark", ")"):
                    self._fail("')'")
                return inside
            return self._condition()
        finally:
            self._depth -= 1

    def _condition(self) -> Condition:
        left = self._operand("a column name, a value, 'not' or '('")
        if self._token.kind == "operator":
            return Comparison(OPERATORS[self._take().text], left, self._operand("a value or a column name"))
        if isinstance(left, Literal):
            self._fail("a comparison: = != < <= > >=")
        if self._accept("keyword", "is"):
            negated = self._accept("keyword", "not")
            if not self._accept("keyword", "null"):
                self._fail("'null' or 'not null'")
            return NullTest(left, negated)
        negated = self._accept("keyword", "not")
        if self._accept("keyword", "in"):
            return Among(left, self._values(), negated)
        if negated:
            self._fail("'in' after 'not'")
        if self._token.kind == "end" or self._token.text in ("and", "or", ")"):
            return Flag(left)
        return self._fail("= != < <= > >=, 'in' or 'is'")

    def _values(self) -> tuple[Literal, ...]:
        if not self._accept("mark", "("):
            self._fail("'(' and a list of values")
        values = []
        while True:
            value = self._operand("a value")
            if isinstance(value, Column):
                raise WhereError(
                    "--where: a list holds values only", found=value.name, expected=f"'{value.name}' for text"
                )
            values.append(value)
            if self._accept("mark", ")"):
                return tuple(values)
            if not self._accept("mark", ","):
                self._fail("',' or ')'")

    def _operand(self, expected: str) -> Operand:
        token = self._token
        if token.kind in ("string", "number"):
            return Literal(token.kind, self._take().text)
        if token.kind == "keyword" and token.text in ("true", "false"):
            return Literal("boolean", self._take().text)
        if token.kind == "keyword" and token.text == "null":
            self._fail("a value (test for null with 'is null')")
        if token.kind == "word" and token.text.lower() in TYPED and self._tokens[self._next + 1].kind == "string":
            self._next += 1
            return Literal(token.text.lower(), self._take().text)
        if token.kind in ("word", "quoted"):
            return Column(self._take().text)
        return self._fail(expected)

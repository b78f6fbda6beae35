"""Filters as Python programs write them, pyarrow's tuples and its expressions, parsed to a tree.

Expressions cannot be walked from Python, but Arrow's own serialised form of them can: a prefix list of
calls, field references and literals in the metadata of a one-row batch. Whatever in it has no meaning here becomes
`Opaque`: it is still applied to rows, it just skips nothing.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat.arrow import pandas_scalar
from smalti._core.arrow_c import schema_metadata
from smalti.errors import MosaicError, SchemaError
from smalti.predicate import tree as t
from smalti.predicate.evaluate import Filter
from smalti.predicate.fitting import exact_number

#: A filter as users pass it: an expression, tuples joined by AND, lists of them joined by OR; or already parsed.
AnyFilter: TypeAlias = (
    "pc.Expression | list[tuple[str, str, object]] | list[list[tuple[str, str, object]]] | t.Tree | Filter | None"
)
#: Arrow's functions that join two conditions.
_JOINS: dict[str, type[t.And] | type[t.Or]] = {"and_kleene": t.And, "and": t.And, "or_kleene": t.Or, "or": t.Or}
#: Arrow's numbers for what its "is in" does with nulls in the list of values.
_MATCH_NULL, _SKIP_NULL = 0, 1
#: Values that Arrow makes arrays of without a change, or refuses.
_ALIKE = (int, float, str, bytes, type(None))
#: Stack of the thread in which Arrow serialises an expression, by recursion: more than it takes to delete it again.
_STACK_BYTES = 256 << 20
_stack_size = threading.Lock()


def normalize_filters(filters: object) -> Filter:
    """Bring `filters` to one form.

    Parameters
    ----------
    filters : pyarrow.compute.Expression, list of tuples, list of lists of tuples, Tree or Filter
        As in `pyarrow.parquet.read_table`: tuples are (column, op, value), joined by AND; outer lists by OR. The value
        may be an expression, such as another column.
    """
    if isinstance(filters, Filter):
        return filters
    if isinstance(filters, pc.Expression):
        return _parse(filters)
    return Filter(t.check_depth(filters if isinstance(filters, t.Tree) else _from_tuples(filters)))


def _from_tuples(filters: object) -> t.Tree:
    if not isinstance(filters, (list, tuple)) or not filters:
        raise SchemaError("filters must be an Expression or a list of (column, op, value)", found=filters)
    alternatives = []
    for group in [filters] if isinstance(filters[0], tuple) else filters:
        if not isinstance(group, (list, tuple)) or not group:
            raise SchemaError("a group of filters must be a list of (column, op, value)", found=group)
        alternatives.append(t.join(t.And, list(map(_from_tuple, group))))
    return t.join(t.Or, alternatives)


def _from_tuple(condition: object) -> t.Tree:
    if not isinstance(condition, tuple) or len(condition) != 3 or not isinstance(condition[0], str):
        raise SchemaError("a filter must be (column, op, value)", found=condition)
    name, op, value = condition
    if op in t.OPERATORS and isinstance(value, pc.Expression):
        return _parse(getattr(pc, t.OPERATORS[op])(pc.field(name), value)).tree
    if op in t.OPERATORS:
        return t.Compare(name, t.OPERATORS[op], _value(name, value))
    if op not in ("in", "not in"):
        raise SchemaError("unknown operator in a filter", found=op, expected=", ".join([*t.OPERATORS, "in", "not in"]))
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise SchemaError(f"operator {op!r} takes a list, tuple or set", found=value)
    values: Any = value
    matches = _is_in(name, pa.array(values)) if hasattr(values, "__array_interface__") else _among(name, list(values))
    return matches if op == "in" else t.Not(matches)


def _value(column: str, value: Any) -> t.Value:
    """A value of Python's. What Arrow has no type for is kept as the exact number that it is."""
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        raise SchemaError("a filter has a time of day with a zone", column=column, found=value, expected="no zone")
    if isinstance(value, Fraction):
        return t.Exact("number", value)
    found: pa.Scalar | None = pandas_scalar(value)
    if found is not None:
        return found
    try:
        return value if isinstance(value, pa.Scalar) else pa.scalar(value)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        if isinstance(value, (int, Decimal)):
            return t.Exact("number", Fraction(value) if isinstance(value, int) else exact_number(value))
        if isinstance(value, datetime.timedelta):
            return t.Exact("duration", Fraction(value // datetime.timedelta.resolution, 10**6))
        raise SchemaError("a filter has a value that Arrow has no type for", column=column, found=value) from None


def _among(column: str, values: list[Any]) -> t.Tree:
    """Pyarrow's "in" for tuples. A list of values of one type becomes an array at once: there may be very many."""
    if all(isinstance(value, _ALIKE) for value in values):
        with suppress(pa.ArrowException, OverflowError):
            array = pa.array(values)
            if not pt.is_floating(array.type):
                return _is_in(column, array)
            zeros = (
                [0.0, -0.0] if pc.any(pc.equal(array, pa.scalar(0.0))).as_py() else []
            )  # They are equal, though not to Arrow.
            return _is_in(column, pa.concat_arrays([array.cast(pa.float64()), pa.array(zeros, pa.float64())]))
    nulls = [value is None or (isinstance(value, pa.Scalar) and not value.is_valid) for value in values]
    given = [_value(column, value) for value, is_null in zip(values, nulls, strict=True) if not is_null]
    return _found(column, tuple(given), match_null=any(nulls))


def _is_in(name: str, values: pa.Array, nulls: int = _MATCH_NULL) -> t.Tree:
    return _found(name, values.drop_null(), match_null=nulls == _MATCH_NULL and bool(values.null_count))


def _found(name: str, values: pa.Array | tuple[t.Value, ...], *, match_null: bool) -> t.Tree:
    """Arrow's "is in", which is never null: a null is found where the list has one, and else it is not in the list."""
    matches = t.IsIn(name, values)
    return t.Or(matches, t.IsNull(name)) if match_null else t.And(matches, t.Not(t.IsNull(name)))


# --- Arrow's serialised expressions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """A column by itself; the call around it may give it a meaning."""

    name: str
    span: slice


@dataclass(frozen=True)
class _Literal:
    """A value by itself, likewise."""

    value: pa.Scalar
    span: slice


@dataclass(frozen=True)
class _Unknown:
    """A call that the tree cannot say."""

    names: tuple[str, ...]
    span: slice


@dataclass(frozen=True)
class _Negated:
    part: _Part
    depth: int


@dataclass
class _Chain:
    """Parts that are joined by `kind`. Programs make filters of thousands of them, each around the one before."""

    kind: type[t.And] | type[t.Or]
    parts: deque[_Part]
    depth: int


#: A part of an expression that has been read. Those that have a depth are conditions around others.
_Part: TypeAlias = "t.Condition | t.And | t.Or | t.Not | t.Constant | _Field | _Literal | _Unknown | _Negated | _Chain"


def _depth(part: _Part) -> int:
    return part.depth if isinstance(part, (_Chain, _Negated)) else 1


def _chained(kind: type[t.And] | type[t.Or], one: _Part, other: _Part) -> _Chain:
    """Two parts as one chain, which takes in those that are of its kind."""
    ours, theirs = (
        part if isinstance(part, _Chain) and part.kind is kind else _Chain(kind, deque([part]), _depth(part) + 1)
        for part in (one, other)
    )
    depth = max(ours.depth, theirs.depth)
    if len(ours.parts) < len(theirs.parts):
        theirs.parts.extendleft(reversed(ours.parts))
        ours = theirs
    else:
        ours.parts.extend(theirs.parts)
    ours.depth = depth
    return ours


def _negated(part: _Part) -> _Part:
    return part.part if isinstance(part, _Negated) else _Negated(part, _depth(part) + 1)


def _names(parts: list[_Part]) -> tuple[str, ...]:
    """The columns that parts read. Parts may be nested deeper than Python's functions may call each other."""
    names: dict[str, None] = {}
    waiting = parts[::-1]
    while waiting:
        match waiting.pop():
            case _Field(name):
                names[name] = None
            case _Unknown(found):
                names.update(dict.fromkeys(found))
            case _Negated(part):
                waiting.append(part)
            case _Chain(_, inner):
                waiting.extend(reversed(inner))
            case _Literal():
                pass
            case tree:
                names.update(dict.fromkeys(t.columns_of(tree)))
    return tuple(names)


def _serialised(expression: pc.Expression) -> pa.RecordBatch:
    """An expression in Arrow's own form. Arrow writes it by recursion, which takes a large stack if it is deep."""
    done: list[Any] = []

    def serialise() -> None:
        try:
            done.append(expression.__reduce__())
        except pa.ArrowNotImplementedError as error:
            done.append(error)

    thread = threading.Thread(target=serialise)
    with _stack_size:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        except RuntimeError:  # There is no room for such a stack.
            serialise()
        finally:
            threading.stack_size(before)
    if thread.ident is not None:
        thread.join()
    if isinstance(done[0], Exception):
        raise SchemaError(f"a filter cannot be read ({done[0]})", expected="columns by their names")
    (buffer,) = done[0][1]
    return pa.ipc.open_file(buffer).get_batch(0)


def _parse(expression: pc.Expression) -> Filter:
    return _Parser(_serialised(expression)).parse()


@dataclass
class _Call:
    """A call that is not complete. `height` is how deep calls are nested in it."""

    function: str
    start: int
    parts: list[_Part] = field(default_factory=list)
    options: dict[str, pa.Scalar] = field(default_factory=dict)
    height: int = 1


class _Parser:
    """From the serialised form of an expression to a tree.

    Calls that are not complete wait in a list: there may be more of them than Python can have functions at work.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._pairs = schema_metadata(batch.schema.__arrow_c_schema__())
        #: Names that were written as a way into structs, field by field.
        self._nested: set[str] = set()
        #: Where such a name begins in the list, where it ends, and the path that files know the field by.
        self._paths: dict[int, tuple[int, str]] = {}

    def parse(self) -> Filter:
        waiting: list[_Call] = []
        part: _Part
        places = iter(range(len(self._pairs)))
        for place in places:
            kind, value = self._pairs[place]
            height = 1
            if kind == b"call":
                waiting.append(_Call(value.decode(), place))
                continue
            if kind == b"options":
                waiting[-1].options.update(dict(cast("Any", self._batch.column(int(value))[0])))
                continue
            if kind == b"end":
                call = waiting.pop()
                part, height = self._finish(call, slice(call.start, place + 1)), call.height + 1
            else:
                part = self._leaf(kind, value, place, places)
            if not waiting:
                return Filter(t.check_depth(self._settle(part)), frozenset(self._nested))
            waiting[-1].parts.append(part)
            waiting[-1].height = max(waiting[-1].height, height)
        raise MosaicError("filter ends early")

    def _leaf(self, kind: bytes, value: bytes, place: int, places: Iterator[int]) -> _Part:
        """A field or a literal of the prefix list."""
        if kind == b"field_ref":
            return _Field(value.decode(), slice(place, place + 1))
        if kind == b"nested_field_ref":  # a field of a struct, which files know by its path
            count = int(value)
            path = [self._pairs[next(places)][1].decode() for _ in range(count)]
            return self._field_at(".".join(path), slice(place, place + 1 + count))
        if kind == b"literal":
            return _Literal(self._batch.column(int(value))[0], slice(place, place + 1))
        raise MosaicError("filter uses a part this version does not know", found=f"{kind!r} {value!r}")

    def _field_at(self, path: str, span: slice) -> _Field:
        self._nested.add(path)
        self._paths[span.start] = span.stop, path
        return _Field(path, span)

    def _finish(self, call: _Call, span: slice) -> _Part:
        kind, parts = _JOINS.get(call.function), call.parts
        if kind is not None and len(parts) == 2:
            return _chained(kind, *parts)
        if call.function == "invert" and len(parts) == 1:
            return _negated(parts[0])
        if call.function == "struct_field" and isinstance(parts[0], _Field):
            return self._field_at(parts[0].name + "".join(_struct_path(call.options["field_ref"].as_py())), span)
        known: _Part | None = _condition(call.function, parts, call.options)
        if known is not None:
            return known
        if call.height > t.MAX_DEPTH:
            raise t.too_deep()
        return _Unknown(_names(parts), span)

    def _settle(self, part: _Part) -> t.Tree:
        if _depth(part) > t.MAX_DEPTH:
            raise t.too_deep()
        match part:
            case _Chain(kind, parts):
                return t.join(kind, [self._settle(each) for each in parts])
            case _Negated(inner):
                return t.Not(self._settle(inner))
            case _Literal(value) if pt.is_boolean(value.type):
                return t.Constant(value.as_py())
            case _Field() | _Literal() | _Unknown():
                return t.Opaque(_names([part]), expression=self._expression(part.span))
        return part

    def _expression(self, span: slice) -> pc.Expression:
        """A part of the expression by itself, with the paths of fields as their names."""
        pairs: list[tuple[bytes, bytes]] = []
        columns: list[pa.Array] = []
        place = span.start
        while place < span.stop:
            kind, value = self._pairs[place]
            place += 1
            if place - 1 in self._paths:
                place, path = self._paths[place - 1]
                kind, value = b"field_ref", path.encode()
            elif kind in (b"literal", b"options"):
                columns.append(self._batch.column(int(value)))
                value = str(len(columns) - 1).encode()
            pairs.append((kind, value))
        if not columns:  # A batch without columns has no row, and Arrow asks for one.
            columns = [pa.nulls(1)]
        metadata: Any = pa.KeyValueMetadata(cast("Any", pairs))  # which has one key many times
        schema = pa.schema([("", column.type) for column in columns], metadata=metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        expression: Any = pc.Expression
        return cast("pc.Expression", expression._deserialize(sink.getvalue()))


_STEP = re.compile(r"\.((?:[^.\\\[]|\\.)*)")


def _struct_path(written: str) -> Iterator[str]:
    r"""The names along Arrow's dot path into a struct, each after a dot.

    Examples
    --------
    >>> list(_struct_path(r".at.x\.y"))
    ['.at', '.x.y']
    """
    place = 0
    while place < len(written):
        step = _STEP.match(written, place)
        if step is None:
            raise SchemaError("a filter names a field of a struct by its number", found=written, expected="its name")
        yield "." + re.sub(r"\\(.)", r"\1", step[1])
        place = step.end()


def _match_like(name: str, pattern: str) -> t.Condition | None:
    """SQL's LIKE, where the pattern is a text with `%` at its ends at most."""
    text = pattern.strip("%")
    if not text or any(wildcard in text for wildcard in "%_\\"):
        return None
    if text == pattern:
        return t.Compare(name, "equal", pa.scalar(text))
    anywhere = pattern.startswith("%") and pattern.endswith("%")
    return t.MatchText(
        name, "match_substring" if anywhere else "ends_with" if pattern.startswith("%") else "starts_with", text
    )


def _condition(function: str, parts: list[_Part], options: dict[str, pa.Scalar]) -> Any:
    """What the tree has for a call; None if it has nothing."""
    match function, parts:
        case _, [_Field(name), _Literal(value)] if function in t.COMPARISONS:
            return t.Compare(name, function, value)
        case _, [_Literal(value), _Field(name)] if function in t.COMPARISONS:
            return t.Compare(name, t.SWAPPED.get(function, function), value)
        case _, [_Field(name), _Field(other)] if function in t.COMPARISONS:
            return t.CompareColumns(name, function, other)
        case "is_null", [_Field(name)]:
            return t.IsNull(name, nan_is_null="nan_is_null" in options and options["nan_is_null"].as_py())
        case "is_valid", [_Field(name)]:
            return t.Not(t.IsNull(name))
        case "is_in", [_Field(name)]:
            values, nulls = options["value_set"], options["null_matching_behavior"].as_py()
            if isinstance(values, pa.ListScalar) and values.values is not None and nulls in (_MATCH_NULL, _SKIP_NULL):
                return _is_in(name, values.values, nulls)
        case "if_else", [
            t.Not(t.IsNull(name)),
            t.And(t.IsIn(column, _) as found, t.Not(t.IsNull())),
            _Literal(value),
        ] if column == name and not value.is_valid:
            return found  # DuckDB's "in", which is null where the column is
        case _, [_Field(name)] if function in t.TEXT_MATCHES and not options["ignore_case"].as_py():
            return t.MatchText(name, function, options["pattern"].as_py())
        case "match_like", [_Field(name)] if not options["ignore_case"].as_py():
            return _match_like(name, options["pattern"].as_py())
    return None

"""Filters as Python programs write them, pyarrow's tuples and its expressions, parsed to a tree.

Expressions cannot be walked from Python, but Arrow's own serialised form of them can: a prefix list of calls, field
references and literals in the metadata of a one-row batch. A part of it that has no form in the tree becomes `Opaque`:
it is still applied to rows, but cannot prune.
"""

from __future__ import annotations

import datetime
import re
import threading
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
#: Python types whose values Arrow puts into arrays unchanged, or refuses.
_UNCHANGED = (int, float, str, bytes, type(None))
#: Stack of the thread in which Arrow serialises an expression, by recursion: more than deleting the expression takes.
_STACK_BYTES = 256 << 20
_stack_size = threading.Lock()


def normalize_filters(filters: object) -> Filter:
    """Parse `filters`, in any form of `AnyFilter`, to a `Filter`.

    Tuples are (column, op, value), as in `pyarrow.parquet.read_table`. The value may be an expression, such as another
    column.
    """
    if isinstance(filters, Filter):
        return filters
    if isinstance(filters, pc.Expression):
        return _Parser(_serialised(filters)).parse()
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
        return normalize_filters(getattr(pc, t.OPERATORS[op])(pc.field(name), value)).tree
    if op in t.OPERATORS:
        return t.Compare(name, t.OPERATORS[op], _value(name, value))
    if op not in ("in", "not in"):
        raise SchemaError("unknown operator in a filter", found=op, expected=", ".join([*t.OPERATORS, "in", "not in"]))
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise SchemaError(f"operator {op!r} takes a list, tuple or set", found=value)
    matches = _among(name, value)
    return matches if op == "in" else t.Not(matches)


def _value(column: str, value: Any) -> t.Value:
    """A Python value. A number that no Arrow type can hold is kept exactly."""
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
            return t.Exact("number", exact_number(value))
        if isinstance(value, datetime.timedelta):
            return t.Exact("duration", Fraction(value // datetime.timedelta.resolution, 10**6))
        raise SchemaError("a filter has a value that Arrow has no type for", column=column, found=value) from None


def _among(column: str, values: Any) -> t.Tree:
    """Pyarrow's "in" for tuples. A list of values of one type becomes an array at once: there may be very many."""
    if hasattr(values, "__array_interface__"):
        return _is_in(column, pa.array(values))
    values = list(values)
    if all(isinstance(value, _UNCHANGED) for value in values):
        with suppress(pa.ArrowException, OverflowError):
            array = pa.array(values)
            if pt.is_float64(array.type) and pc.any(pc.equal(array, pa.scalar(0.0))).as_py():
                array = pa.concat_arrays([array, pa.array([0.0, -0.0])])  # They are equal, but not in `is_in`.
            return _is_in(column, array)
    nulls = [value is None or (isinstance(value, pa.Scalar) and not value.is_valid) for value in values]
    given = [_value(column, value) for value, is_null in zip(values, nulls, strict=True) if not is_null]
    return _found(column, tuple(given), match_null=any(nulls))


def _is_in(name: str, values: pa.Array, nulls: int = _MATCH_NULL) -> t.Tree:
    return _found(name, values.drop_null(), match_null=nulls == _MATCH_NULL and bool(values.null_count))


def _found(name: str, values: pa.Array | tuple[t.Value, ...], *, match_null: bool) -> t.Tree:
    """Arrow's `is_in`, which is never null: a null matches if the list has a null."""
    matches = t.IsIn(name, values)
    return t.Or(matches, t.IsNull(name)) if match_null else t.And(matches, t.Not(t.IsNull(name)))


# --- Arrow's serialised expressions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """A column by itself, until the call around it is complete."""

    name: str
    span: slice


@dataclass(frozen=True)
class _Literal:
    """A value by itself, likewise."""

    value: pa.Scalar
    span: slice


@dataclass(frozen=True)
class _Unknown:
    """A call that has no form in the tree."""

    span: slice


#: A part of an expression. Until the expression is complete, the operands of `And`, `Or` and `Not` can be any part.
_Part: TypeAlias = "t.Tree | _Field | _Literal | _Unknown"


def _joined(part: Any) -> list[_Part]:
    """The parts that are joined by And, or by Or. Programs make chains of thousands, each nested in the next."""
    parts, waiting = [], [part]
    while waiting:
        each = waiting.pop()
        if type(each) is type(part):
            waiting += (each.right, each.left)
        else:
            parts.append(each)
    return parts


def _serialised(expression: pc.Expression) -> pa.RecordBatch:
    """Serialise an expression, in a thread with a large stack: Arrow does it by recursion, however deep it is."""
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
        except RuntimeError:  # There is no memory for such a stack.
            serialise()
        finally:
            threading.stack_size(before)
    if thread.ident is not None:
        thread.join()
    if isinstance(done[0], Exception):
        raise SchemaError(f"a filter cannot be read ({done[0]})", expected="columns by their names")
    (buffer,) = done[0][1]
    return pa.ipc.open_file(buffer).get_batch(0)


@dataclass
class _Call:
    """A call that is not complete. `height` is the depth of the calls nested in it."""

    function: str
    start: int
    parts: list[_Part] = field(default_factory=list)
    options: dict[str, pa.Scalar] = field(default_factory=dict)
    height: int = 1


class _Parser:
    """Parses the serialised form of an expression to a tree.

    Calls that are not complete wait in a list, because they may be nested deeper than Python's recursion limit.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._pairs = schema_metadata(batch.schema.__arrow_c_schema__())
        #: Fields of structs that were written as a path: by the index where the path begins in the list, the index
        #: behind its end, and its names joined by dots, which is how files name the field.
        self._paths: dict[int, tuple[int, str]] = {}

    def parse(self) -> Filter:
        waiting: list[_Call] = []
        part: _Part
        indices = iter(range(len(self._pairs)))
        for index in indices:
            kind, value = self._pairs[index]
            height = 1
            if kind == b"call":
                waiting.append(_Call(value.decode(), index))
                continue
            if kind == b"options":
                waiting[-1].options.update(dict(cast("Any", self._batch.column(int(value))[0])))
                continue
            if kind == b"end":
                call = waiting.pop()
                part, height = self._finish(call, slice(call.start, index + 1)), call.height + 1
            else:
                part = self._leaf(kind, value, index, indices)
            if not waiting:
                nested = frozenset(path for _, path in self._paths.values())
                return Filter(t.check_depth(self._to_tree(part)), nested)
            waiting[-1].parts.append(part)
            waiting[-1].height = max(waiting[-1].height, height)
        raise MosaicError("filter ends early")

    def _leaf(self, kind: bytes, value: bytes, index: int, indices: Iterator[int]) -> _Part:
        """A field or a literal of the prefix list. A field of a struct takes several indices."""
        if kind == b"field_ref":
            return _Field(value.decode(), slice(index, index + 1))
        if kind == b"nested_field_ref":
            count = int(value)
            path = [self._pairs[next(indices)][1].decode() for _ in range(count)]
            return self._field_at(".".join(path), slice(index, index + 1 + count))
        if kind == b"literal":
            return _Literal(self._batch.column(int(value))[0], slice(index, index + 1))
        raise MosaicError("filter uses a part this version does not know", found=f"{kind!r} {value!r}")

    def _field_at(self, path: str, span: slice) -> _Field:
        self._paths[span.start] = span.stop, path
        return _Field(path, span)

    def _finish(self, call: _Call, span: slice) -> _Part:
        kind, parts = _JOINS.get(call.function), call.parts
        if kind is not None and len(parts) == 2:
            return kind(*cast("Any", parts))
        if call.function == "invert" and len(parts) == 1:
            operand: Any = parts[0]
            return operand.operand if isinstance(operand, t.Not) else t.Not(operand)
        if call.function == "struct_field" and isinstance(parts[0], _Field):
            return self._field_at(parts[0].name + "".join(_struct_path(call.options["field_ref"].as_py())), span)
        known: _Part | None = _condition(call.function, parts, call.options)
        if known is not None:
            return known
        if call.height > t.MAX_DEPTH:
            raise t.too_deep()
        return _Unknown(span)

    def _to_tree(self, part: _Part, depth: int = 1) -> t.Tree:
        if depth > t.MAX_DEPTH:
            raise t.too_deep()
        match part:
            case t.And() | t.Or():
                return t.join(type(part), [self._to_tree(each, depth + 1) for each in _joined(part)])
            case t.Not(operand):
                return t.Not(self._to_tree(operand, depth + 1))
            case _Literal(value) if pt.is_boolean(value.type):
                return t.Constant(value.as_py())
            case _Field() | _Literal() | _Unknown():
                return self._opaque(part.span)
        return part

    def _opaque(self, span: slice) -> t.Opaque:
        """A part of the expression by itself, in which the names of fields of structs are their paths."""
        pairs: list[tuple[bytes, bytes]] = []
        columns: list[pa.Array] = []
        index = span.start
        while index < span.stop:
            kind, value = self._pairs[index]
            index += 1
            if index - 1 in self._paths:
                index, path = self._paths[index - 1]
                kind, value = b"field_ref", path.encode()
            elif kind in (b"literal", b"options"):
                columns.append(self._batch.column(int(value)))
                value = str(len(columns) - 1).encode()
            pairs.append((kind, value))
        if not columns:  # A batch without columns has no row, and Arrow asks for one.
            columns = [pa.nulls(1)]
        metadata: Any = pa.KeyValueMetadata(cast("Any", pairs))  # A dictionary would have each key once.
        schema = pa.schema([("", column.type) for column in columns], metadata=metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        names = tuple(dict.fromkeys(value.decode() for kind, value in pairs if kind == b"field_ref"))
        return t.Opaque(names, expression=cast("Any", pc.Expression)._deserialize(sink.getvalue()))


_STEP = re.compile(r"\.((?:[^.\\\[]|\\.)*)")


def _struct_path(written: str) -> Iterator[str]:
    r"""The names along Arrow's dot path into a struct, each after a dot.

    Examples
    --------
    >>> list(_struct_path(r".at.x\.y"))
    ['.at', '.x.y']
    """
    index = 0
    while index < len(written):
        step = _STEP.match(written, index)
        if step is None:
            raise SchemaError("a filter names a field of a struct by its number", found=written, expected="its name")
        yield "." + re.sub(r"\\(.)", r"\1", step[1])
        index = step.end()


def _condition(function: str, parts: list[_Part], options: dict[str, pa.Scalar]) -> Any:
    """The form that a call has in the tree, or None."""
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
            return found  # DuckDB's form of "in", which is null where the column is null
        case _, [_Field(name)] if function in t.STRING_MATCHES and not options["ignore_case"].as_py():
            return t.MatchString(name, function, options["pattern"].as_py())
        case "match_like", [_Field(name)] if not options["ignore_case"].as_py():
            return t.match_like(name, options["pattern"].as_py())
    return None

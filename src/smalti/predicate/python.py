"""Filters as Python programs write them, pyarrow's tuples and its expressions, parsed to a tree.

Expressions cannot be walked from Python, but Arrow's own serialised form of them can: a prefix list of calls, field
references and literals in the metadata of a one-row batch. A part of it that has no form in the tree becomes `Opaque`:
it is still applied to rows, but cannot prune.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from smalti.threads import ForkedLock

#: A filter as users pass it: text like SQL's WHERE (see `predicate.text`), an expression,
#: tuples joined by AND, lists of them joined by OR; or already parsed.
AnyFilter: TypeAlias = (
    "str | pc.Expression | Sequence[tuple[str, str, object]] | Sequence[Sequence[tuple[str, str, object]]] | t.Tree "
    "| Filter | None"
)
#: Arrow's functions that join two conditions.
_JOINS: dict[str, type[t.And] | type[t.Or]] = {"and_kleene": t.And, "and": t.And, "or_kleene": t.Or, "or": t.Or}
#: Arrow's numbers for the ways in which its "is in" treats nulls in the list of values.
_MATCH_NULL, _SKIP_NULL = 0, 1
#: Python types whose values Arrow puts into arrays unchanged, or refuses.
_UNCHANGED = (int, float, str, bytes, type(None))
#: Stack of the thread in which Arrow serialises an expression, by recursion: more than deleting the expression takes.
_STACK_BYTES = 256 << 20
_stack_size = ForkedLock()


def normalize_filters(filters: object, *, is_shallow: bool = False) -> Filter:
    """Parse `filters`, in any form of `AnyFilter`, to a `Filter`.

    Tuples are (column, op, value), as in `pyarrow.parquet.read_table`. The value may be an expression, such as another
    column. An expression that `is_shallow`, with at most a thousand calls nested in each other, takes no thread.
    """
    if isinstance(filters, Filter):
        return filters
    if isinstance(filters, pc.Expression):
        return _Parser(_serialised(filters, is_shallow=is_shallow)).parse()
    return Filter(t.check_depth(filters if isinstance(filters, t.Tree) else _from_tuples(filters)))


def columns_of_expression(expression: pc.Expression) -> tuple[str, ...]:
    """The columns that an expression reads, whatever the type of its value."""
    return _Parser(_serialised(expression)).names()


def _from_tuples(filters: object) -> t.Tree:
    if isinstance(filters, tuple) and len(filters) == 3 and isinstance(filters[0], str):
        raise SchemaError("a single condition: put it in a list", found=filters, expected=[filters])
    if not isinstance(filters, (list, tuple)) or not filters:
        raise SchemaError("filters must be text, an Expression or a list of (column, op, value)", found=filters)
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
    """Pyarrow's "in" for tuples. A list of values of one type becomes an array at once, as there may be very many."""
    if hasattr(values, "__array_interface__"):
        return _is_in(column, pa.array(values))
    values = [_plain_number(value) for value in values]
    if all(isinstance(value, _UNCHANGED) for value in values):
        with suppress(pa.ArrowException, OverflowError):
            array = pa.array(values)
            if pt.is_float64(array.type) and pc.any(pc.equal(array, pa.scalar(0.0))).as_py():
                array = pa.concat_arrays([array, pa.array([0.0, -0.0])])  # They are equal, but not in `is_in`.
            return _is_in(column, array)
    given = [
        value for value in values if value is not None and not (isinstance(value, pa.Scalar) and not value.is_valid)
    ]
    return _found(column, tuple(_value(column, value) for value in given), match_null=len(given) < len(values))


def _plain_number(value: Any) -> Any:
    """A number of numpy as one of Python, which many of can be made an array at once; any other value as it is."""
    dtype = getattr(value, "dtype", None)
    return value.item() if dtype is not None and dtype.kind in "iuf" and dtype.itemsize <= 8 else value


def _is_in(name: str, values: pa.Array, nulls: int = _MATCH_NULL) -> t.Tree:
    if isinstance(values, pa.RunEndEncodedArray):  # It has no nulls of its own: its values do.
        values = values.values.slice(values.find_physical_offset(), values.find_physical_length())
    return _found(name, values.drop_null(), match_null=nulls == _MATCH_NULL and bool(values.null_count))


def _found(name: str, values: pa.Array | tuple[t.Value, ...], *, match_null: bool) -> t.Tree:
    """Arrow's `is_in`, which is never null: a null matches if the list has a null."""
    matches, is_null = t.IsIn(name, values), t.IsNull(name)
    return t.Or((matches, is_null)) if match_null else t.And((matches, t.Not(is_null)))


# --- Arrow's serialised expressions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Operand:
    """A part of an expression that is no condition: a column by its name, a value, or a call unknown to the tree."""

    span: slice
    name: str | None = None
    value: pa.Scalar | None = None


_Part: TypeAlias = "t.Tree | _Operand"


def _serialised(expression: pc.Expression, *, is_shallow: bool = False) -> pa.RecordBatch:
    """Serialise an expression. Arrow does it by recursion, however deep it is, so that it may need a large stack."""
    done: list[Any] = []

    def serialise() -> None:
        try:
            done.append(expression.__reduce__())
        except pa.ArrowNotImplementedError as error:
            done.append(error)

    if is_shallow:
        serialise()
    else:
        _run_in_large_stack(serialise)
    if isinstance(done[0], Exception):
        raise SchemaError(f"a filter cannot be read ({done[0]})", expected="columns by their names")
    (buffer,) = done[0][1]
    return pa.ipc.open_file(buffer).get_batch(0)


def _run_in_large_stack(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    with _stack_size.lock:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        except RuntimeError:  # There is no memory for such a stack.
            function()
        finally:
            threading.stack_size(before)
    if thread.ident is not None:
        thread.join()


@dataclass
class _Call:
    """A call that is not complete. `height` is the depth of the calls nested in it."""

    function: str
    start: int
    parts: list[_Part]
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
        whole = _Call("", 0, [])
        waiting = [whole]
        indices = iter(range(len(self._pairs)))
        for index in indices:
            kind, value = self._pairs[index]
            call = waiting[-1]
            if kind == b"call":
                function = value.decode()
                # Programs make chains of thousands of conditions, each nested in the next: they share a list of parts.
                is_chained = function in _JOINS and _JOINS.get(call.function) is _JOINS[function]
                waiting.append(_Call(function, index, call.parts if is_chained else []))
            elif kind == b"options":
                call.options.update(dict(cast("Any", self._batch.column(int(value))[0])))
            elif kind == b"end":
                waiting.pop()
                waiting[-1].height = max(waiting[-1].height, call.height + 1)
                if call.parts is not waiting[-1].parts:
                    waiting[-1].parts.append(self._finish(call, slice(call.start, index + 1)))
            else:
                call.parts.append(self._leaf(kind, value, index, indices))
        if len(waiting) > 1 or not whole.parts:
            raise MosaicError("filter ends early")
        tree = t.check_depth(self._to_tree(whole.parts[0]))
        return Filter(tree, frozenset(path for _, path in self._paths.values()))

    def names(self) -> tuple[str, ...]:
        """The columns that are named. Of a field of a struct, this is the struct."""
        found, pairs = [], iter(self._pairs)
        for kind, value in pairs:
            if kind == b"field_ref":
                found.append(value.decode())
            elif kind == b"nested_field_ref":
                path = [next(pairs)[1].decode() for _ in range(int(value))]
                found.append(path[0])
        return tuple(dict.fromkeys(found))

    def _leaf(self, kind: bytes, value: bytes, index: int, indices: Iterator[int]) -> _Operand:
        """A field or a literal of the prefix list. A field of a struct takes several indices."""
        if kind == b"field_ref":
            return _Operand(slice(index, index + 1), name=value.decode())
        if kind == b"nested_field_ref":
            path = [self._pairs[next(indices)][1].decode() for _ in range(int(value))]
            return self._field_at(".".join(path), slice(index, index + 1 + len(path)))
        if kind == b"literal":
            return _Operand(slice(index, index + 1), value=self._batch.column(int(value))[0])
        raise MosaicError("filter uses a part this version does not know", found=f"{kind!r} {value!r}")

    def _field_at(self, path: str, span: slice) -> _Operand:
        self._paths[span.start] = span.stop, path
        return _Operand(span, name=path)

    def _finish(self, call: _Call, span: slice) -> _Part:
        match call.function, call.parts:
            case function, parts if function in _JOINS:
                return t.join(_JOINS[function], [self._to_tree(part) for part in parts])
            case "invert", [part]:
                operand = self._to_tree(part)
                return operand.operand if isinstance(operand, t.Not) else t.Not(operand)
            case "struct_field", [_Operand(name=str(name))]:
                return self._field_at(name + _struct_path(call.options["field_ref"].as_py()), span)
        condition: t.Tree | None = _condition(call.function, call.parts, call.options)
        if condition is None and call.height > t.MAX_DEPTH:
            raise t.too_deep()
        return condition or _Operand(span)

    def _to_tree(self, part: _Part) -> t.Tree:
        match part:
            case _Operand(value=pa.BooleanScalar() as value):
                return t.Constant(value.as_py())
            case _Operand(span):
                return self._opaque(span)
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


def _struct_path(written: str) -> str:
    r"""The names along Arrow's dot path into a struct, each after a dot.

    Examples
    --------
    >>> _struct_path(r".at.x\.y")
    '.at.x.y'
    """
    if not re.fullmatch(r"(\.([^.\\\[]|\\.)*)*", written):
        raise SchemaError("a filter names a field of a struct by its number", found=written, expected="its name")
    return re.sub(r"\\(.)", r"\1", written)


def _condition(function: str, parts: list[_Part], options: dict[str, pa.Scalar]) -> Any:
    """The form that a call has in the tree, or None."""
    match function, parts:
        case _, [_Operand(name=str(name)), _Operand(value=pa.Scalar() as value)] if function in t.COMPARISONS:
            return t.Compare(name, function, value)
        case _, [_Operand(value=pa.Scalar() as value), _Operand(name=str(name))] if function in t.COMPARISONS:
            return t.Compare(name, t.SWAPPED.get(function, function), value)
        case _, [_Operand(name=str(name)), _Operand(name=str(other))] if function in t.COMPARISONS:
            return t.CompareColumns(name, function, other)
        case "is_null", [_Operand(name=str(name))]:
            return t.IsNull(name, nan_is_null="nan_is_null" in options and options["nan_is_null"].as_py())
        case "is_valid", [_Operand(name=str(name))]:
            return t.Not(t.IsNull(name))
        case "is_in", [_Operand(name=str(name))]:
            values, nulls = options["value_set"], options["null_matching_behavior"].as_py()
            if isinstance(values, pa.ListScalar) and values.values is not None and nulls in (_MATCH_NULL, _SKIP_NULL):
                return _is_in(name, values.values, nulls)
        case "if_else", [
            t.Not(t.IsNull(name)),
            t.And((t.IsIn(column) as found, t.Not(t.IsNull()))),
            _Operand(value=pa.Scalar() as value),
        ] if column == name and not value.is_valid:
            return found  # DuckDB's form of "in", which is null where the column is null
        case _, [_Operand(name=str(name))] if function in t.STRING_MATCHES and not options["ignore_case"].as_py():
            return t.MatchString(name, function, options["pattern"].as_py())
        case "match_like", [_Operand(name=str(name))] if not options["ignore_case"].as_py():
            return t.match_like(name, options["pattern"].as_py())
    return None

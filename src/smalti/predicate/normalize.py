"""The two ways to write a filter, pyarrow's tuples and its expressions, brought to one form.

Expressions cannot be walked from Python, but Arrow's own serialised form of them can: a prefix list of
calls, field references and literals in the metadata of a one-row batch. Whatever in it has no meaning here becomes
`Opaque`: it is still applied to rows, it just skips nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from smalti._core.arrow_c import schema_metadata
from smalti.errors import MosaicError, SchemaError
from smalti.predicate.tree import SWAPPED, And, Compare, IsIn, IsNull, Not, Opaque, Or, Tree, columns_of

_OPERATORS: dict[str, Any] = {
    "=": lambda column, value: column == value,
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    ">": lambda column, value: column > value,
    "<=": lambda column, value: column <= value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.isin(value),
    "not in": lambda column, value: ~column.isin(value),
}


@dataclass(frozen=True)
class Filter:
    """A filter ready to use: `expression` decides about rows, `tree` about row groups, `columns` are read for both."""

    expression: pc.Expression
    tree: Tree
    columns: tuple[str, ...]


def normalize_filters(filters: Any) -> Filter:
    """Bring `filters` to one form.

    Parameters
    ----------
    filters : pyarrow.compute.Expression, list of tuples, or list of lists of tuples
        As in `pyarrow.parquet.read_table`: tuples are (column, op, value), joined by AND; outer lists by OR.
    """
    if not isinstance(filters, pc.Expression):
        filters = _from_tuples(filters)
    tree = _parse(filters)
    return Filter(filters, tree, tuple(dict.fromkeys(columns_of(tree))))


def _from_tuples(filters: Sequence[Any]) -> pc.Expression:
    if not isinstance(filters, (list, tuple)) or not filters:
        raise SchemaError("filters must be an Expression or a list of (column, op, value)", found=filters)
    groups = [filters] if isinstance(filters[0], tuple) else filters
    disjunction = []
    for group in groups:
        if not isinstance(group, (list, tuple)) or not group:
            raise SchemaError("a group of filters must be a list of (column, op, value)", found=group)
        disjunction.append(reduce(lambda a, b: a & b, [_from_tuple(condition) for condition in group]))
    return reduce(lambda a, b: a | b, disjunction)


def _from_tuple(condition: Any) -> pc.Expression:
    if not isinstance(condition, tuple) or len(condition) != 3 or not isinstance(condition[0], str):
        raise SchemaError("a filter must be (column, op, value)", found=condition)
    name, op, value = condition
    if op not in _OPERATORS:
        raise SchemaError("unknown operator in a filter", found=op, expected=", ".join(_OPERATORS))
    if op in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise SchemaError(f"operator {op!r} takes a list, tuple or set", found=value)
        value = pa.array(list(value))
    return _OPERATORS[op](pc.field(name), value)


# --- Arrow's serialised expressions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    name: str


def _parse(expression: pc.Expression) -> Tree:
    _, arguments = expression.__reduce__()
    batch = pa.ipc.open_file(arguments[0]).get_batch(0)
    pairs = iter(schema_metadata(batch.schema.__arrow_c_schema__()))
    part = _parse_part(*next(pairs), pairs, batch)
    return part if not isinstance(part, (_Field, pa.Scalar)) else Opaque(_names(part))


def _parse_part(kind: bytes, value: bytes, pairs: Any, batch: pa.RecordBatch) -> Any:
    """One part of the prefix list: a field, a literal, or a call with its arguments and options."""
    if kind == b"field_ref":
        return _Field(value.decode())
    if kind == b"literal":
        return batch.column(int(value))[0]
    if kind != b"call":
        raise MosaicError("filter uses a part this version does not know", found=f"{kind!r} {value!r}")
    arguments: list[Any] = []
    options: pa.Scalar | None = None
    for kind, inner in pairs:
        if kind == b"end":
            break
        if kind == b"options":
            options = batch.column(int(inner))[0]
        else:
            arguments.append(_parse_part(kind, inner, pairs, batch))
    return _call(value.decode(), arguments, options)


def _call(function: str, arguments: list[Any], options: pa.Scalar | None) -> Tree:
    match function, arguments:
        case (("and_kleene" | "and"), [left, right]):
            return And(_condition(left), _condition(right))
        case (("or_kleene" | "or"), [left, right]):
            return Or(_condition(left), _condition(right))
        case "invert", [operand]:
            return Not(_condition(operand))
        case _, [_Field(name), pa.Scalar() as literal] if function in SWAPPED:
            return Compare(name, function, literal)
        case _, [pa.Scalar() as literal, _Field(name)] if function in SWAPPED:
            return Compare(name, SWAPPED[function], literal)
        case "is_null", [_Field(name)]:
            return IsNull(name, nan_is_null=bool(options is not None and options["nan_is_null"].as_py()))
        case "is_valid", [_Field(name)]:
            return Not(IsNull(name))
        case "is_in", [_Field(name)] if options is not None:
            values = options["value_set"].values
            return IsIn(name, values.drop_null(), match_null=values.null_count > 0)
    return Opaque(tuple(name for argument in arguments for name in _names(argument)))


def _condition(part: Any) -> Tree:
    return Opaque(_names(part)) if isinstance(part, (_Field, pa.Scalar)) else part


def _names(part: Any) -> tuple[str, ...]:
    if isinstance(part, _Field):
        return (part.name,)
    if isinstance(part, pa.Scalar):
        return ()
    return tuple(columns_of(part))

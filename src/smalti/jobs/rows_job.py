"""Verbs that change rows by a condition: `delete` and `update`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isinf
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from smalti._compat.arrow import empty_batch, null_array, pandas_scalar
from smalti.errors import SchemaError
from smalti.io.locations import AnyPath
from smalti.jobs.change_columns import change_values
from smalti.jobs.change_job import OpenTable, RunValues, run_change
from smalti.jobs.change_plan import check_columns_exist
from smalti.jobs.change_rows import Assignment, Condition, assigned_values, delete_rows, evaluate
from smalti.jobs.change_task import FileChange
from smalti.jobs.staging import describe
from smalti.jobs.summary import ChangeReport
from smalti.logical.adapt import countable, fit_array
from smalti.logical.types import is_encoded, is_list_like, map_children
from smalti.predicate.python import AnyFilter, columns_of_expression


def delete(table: AnyPath, where: AnyFilter | str, **run: Unpack[RunValues]) -> ChangeReport:
    """Delete the rows of a table that match a condition. Their values are gone from the bytes of the files.

    Files without a matching row are not touched, and row groups without one are copied as bytes. Rows for which the
    condition is null are kept, as in SQL: ``user != 'u42'`` is null where `user` is null. The report counts them as
    `rows_unknown`. If all rows are deleted, one file without rows keeps the columns of the table.

    Parameters
    ----------
    table : path or URI
    where : filter
        As `filters` of `smalti.read_table`: an expression, tuples, or a text such as ``"age < 18 and country = 'no'"``.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"user": ["a", "b", None]}), "people.mosaic")
    >>> report = jobs.delete("people.mosaic", "user != 'a'")
    >>> report.rows, report.rows_unknown, smalti.read_table("people.mosaic").to_pydict()
    (1, 1, {'user': ['a', None]})
    """
    if where is None:
        raise SchemaError("delete needs a condition", expected="a filter; one that every row matches deletes all rows")

    def prepare(opened: OpenTable) -> FileChange:
        return FileChange(partial(delete_rows, Condition.of(where, opened.schema)))

    return run_change("delete", table, describe(where), prepare, **run)


def update(
    table: AnyPath, values: Mapping[str, Any], where: AnyFilter | str = None, **run: Unpack[RunValues]
) -> ChangeReport:
    """Give columns of the rows that match a condition other values. Only these columns are encoded anew.

    Parameters
    ----------
    table : path or URI
    values : mapping of str to value or pyarrow.compute.Expression
        Columns of the table, and what they get. A str is a value; ``pc.field("price") * 2`` is an expression, which is
        computed from the old values of the row. Functions such as ``pc.multiply`` wrap around where a number is too
        large; operators and ``pc.multiply_checked`` raise an error. Values are stored in the type of the column, and
        refused if it cannot hold them. Partition columns cannot be changed.
    where : filter, optional
        As in `delete`; by default all rows. Rows for which it is null are kept as they are, and counted.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.compute as pc, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"item": ["a", "b"], "price": [1.0, 2.0]}), "prices.mosaic")
    >>> report = jobs.update("prices.mosaic", {"price": pc.multiply_checked(pc.field("price"), 10)}, "item = 'b'")
    >>> report.rows, smalti.read_table("prices.mosaic").to_pydict()["price"]
    (1, [1.0, 20.0])
    """
    if not values:
        raise SchemaError("update needs at least one column to change", found=dict(values))

    def prepare(opened: OpenTable) -> FileChange:
        check_columns_exist(list(values), opened.changeable, opened.partitions, "to update")
        assignments = tuple(_assignment(opened.schema, name, value) for name, value in values.items())
        source = partial(assigned_values, assignments, None if where is None else Condition.of(where, opened.schema))
        return FileChange(partial(change_values, [opened.schema.field(name) for name in values], source, None))

    request = describe((where, dict(values)))
    return run_change("update", table, request, prepare, **run)


def _assignment(schema: pa.Schema, name: str, value: Any) -> Assignment:
    field = countable(schema.field(name))
    if isinstance(value, pc.Expression):
        columns = columns_of_expression(value)
        check_columns_exist(columns, schema.names, (), f"in the expression for {name!r}")
        # The type of the result is known without rows, so a misfit is found before anything is written.
        fit_array(evaluate(value, empty_batch(pa.schema([schema.field(each) for each in columns]))), field)
        return Assignment(field, value, columns)
    is_scalar = isinstance(value, pa.Scalar)
    try:
        if is_scalar:
            array: Any = pa.repeat(value, 1) if value.is_valid else null_array(1, value.type)
        else:
            array = pa.array([value], _decoded(field.type))
            _refuse_loss(array[0], value)
        fitted = fit_array(array, field)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise SchemaError(
            f"the value does not fit the type of the column ({error})",
            column=name,
            found=repr(value)[:100],
            expected=str(schema.field(name).type),
        ) from None
    if not field.nullable and fitted.null_count:
        raise SchemaError("the column takes no nulls", column=name)
    return Assignment(field, fitted)


def _decoded(type_: Any) -> Any:
    """The type without dictionaries and runs, in which Arrow makes no array of every value."""
    return _decoded(type_.value_type) if is_encoded(type_) else map_children(type_, _decoded)


def _refuse_loss(stored: Any, value: Any) -> None:
    """Raise ValueError if Arrow has made another value of a value of Python.

    It cuts off fractions of numbers and of seconds, makes large numbers infinite, and drops time zones and fields of
    structs that the type lacks.
    """
    type_ = stored.type
    if not stored.is_valid or isinstance(value, pa.Scalar):
        return
    if isinstance(type_, pa.BaseExtensionType):
        _refuse_loss(stored.value, value)
    elif pa.types.is_struct(type_):
        names = [field.name for field in type_]
        given = dict(zip(names, value, strict=True)) if isinstance(value, tuple) else dict(value)
        absent = next((name for name in given if name not in names), None)
        if absent is not None:
            raise ValueError(f"the type has no field {absent!r}")
        for name in given:
            _refuse_loss(stored[name], given[name])
    elif pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        for entry, pair in zip(stored.values, pairs, strict=True):
            for part, given in zip((entry[0], entry[1]), pair, strict=True):
                _refuse_loss(part, given)
    elif is_list_like(type_):
        for part, given in zip(stored.values, value, strict=True):
            _refuse_loss(part, given)
    elif _is_other(stored, value):
        raise ValueError(f"it would become {stored}")


def _is_other(stored: Any, value: Any) -> bool:
    """Whether a value that has no parts has become another one."""
    type_ = stored.type
    if pa.types.is_integer(type_):
        return bool(stored.as_py() != value)
    if pa.types.is_floating(type_):
        return isinf(stored.as_py()) and not isinf(value)
    if not pa.types.is_temporal(type_):
        return False
    given = pandas_scalar(value) or pa.array([value])[0]
    if pa.types.is_timestamp(given.type) and given.type.tz is not None and getattr(type_, "tz", "") is None:
        raise ValueError(f"the column has no time zone, and the value is of zone {given.type.tz}")
    # The value may have finer units.
    return not pa.array([stored], type_).cast(given.type, safe=False).equals(pa.array([given], given.type))

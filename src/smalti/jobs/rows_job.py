"""Verbs that change rows by a condition: `delete` and `update`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isinf
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from smalti._compat.arrow import empty_batch
from smalti.errors import SchemaError
from smalti.io.locations import AnyPath
from smalti.jobs.change_columns import change_values
from smalti.jobs.change_job import OpenTable, RunValues, run_change
from smalti.jobs.change_plan import check_columns_exist
from smalti.jobs.change_rows import Assignment, Condition, assigned_values, delete_rows, evaluate
from smalti.jobs.change_task import FileChange
from smalti.jobs.staging import describe
from smalti.jobs.summary import ChangeReport
from smalti.logical.adapt import widen_array
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
        computed from the old values of the row. Values are stored in the type of the column, and refused if it cannot
        hold them. Partition columns cannot be changed.
    where : filter, optional
        As in `delete`; by default all rows. Rows for which it is null are kept as they are, and counted.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.compute as pc, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"item": ["a", "b"], "price": [1.0, 2.0]}), "prices.mosaic")
    >>> report = jobs.update("prices.mosaic", {"price": pc.multiply(pc.field("price"), 10)}, "item = 'b'")
    >>> report.rows, smalti.read_table("prices.mosaic").to_pydict()["price"]
    (1, [1.0, 20.0])
    """
    if not values:
        raise SchemaError("update needs at least one column to change", found=dict(values))

    def prepare(opened: OpenTable) -> FileChange:
        check_columns_exist(list(values), opened.changeable, opened.partitions, "to update")
        assignments = tuple(_assignment(opened.schema, name, value) for name, value in values.items())
        source = partial(assigned_values, assignments, None if where is None else Condition.of(where, opened.schema))
        return FileChange(partial(change_values, [each.field for each in assignments], source, None))

    request = describe((where, dict(values)))
    return run_change("update", table, request, prepare, **run)


def _assignment(schema: pa.Schema, name: str, value: Any) -> Assignment:
    field = schema.field(name)
    if isinstance(value, pc.Expression):
        columns = columns_of_expression(value)
        check_columns_exist(columns, schema.names, (), f"in the expression for {name!r}")
        # The type of the result is known without rows, so a misfit is found before anything is written.
        widen_array(evaluate(value, empty_batch(pa.schema([schema.field(each) for each in columns]))), field)
        return Assignment(field, value, columns)
    try:
        array: Any = pa.array([value], value.type if isinstance(value, pa.Scalar) else field.type)
        _refuse_loss(array, value)
        fitted = widen_array(array, field)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise SchemaError(
            f"the value does not fit the type of the column ({error})",
            column=name,
            found=repr(value)[:100],
            expected=str(field.type),
        ) from None
    if not field.nullable and fitted.null_count:
        raise SchemaError("the column takes no nulls", column=name)
    return Assignment(field, fitted[0])


def _refuse_loss(array: Any, value: Any) -> None:
    """Raise if a value has become another one, because Arrow cuts off fractions of numbers and of seconds."""
    is_other = False
    if array.null_count or isinstance(value, pa.Scalar):
        return
    if pa.types.is_integer(array.type):
        is_other = array[0].as_py() != value
    elif pa.types.is_floating(array.type):
        is_other = isinf(array[0].as_py()) and not isinf(value)
    elif pa.types.is_temporal(array.type):
        given = pa.array([value])
        is_other = not array.cast(given.type, safe=False).equals(given)  # It may have finer units.
    if is_other:
        raise ValueError(f"it would become {array[0]}")

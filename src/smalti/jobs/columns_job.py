"""Verbs that change columns: `add_columns`, `replace_columns`, `drop_columns`, `rename_columns`, `reorder_columns`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from smalti._compat.arrow import empty_batch
from smalti.errors import MosaicError, SchemaError
from smalti.io.locations import AnyPath
from smalti.jobs.change_columns import (
    ValueSource,
    aligned_values,
    arrange_columns,
    change_values,
    computed_values,
    joined_values,
)
from smalti.jobs.change_data import ColumnFunction, call_function
from smalti.jobs.change_job import OpenTable, RunValues, run_change
from smalti.jobs.change_plan import KnownPlans, check_columns_exist, check_new_names, check_renaming
from smalti.jobs.change_task import FileChange, TableFile
from smalti.jobs.given_data import GivenData, key_names
from smalti.jobs.summary import ChangeReport
from smalti.logical.patterns import check_columns, match_names
from smalti.table.partitions import constants_of


def add_columns(
    table: AnyPath,
    data: Any,
    on: str | Sequence[str] | None = None,
    replace: bool = False,
    columns: Sequence[str] | None = None,
    **run: Unpack[RunValues],
) -> ChangeReport:
    """Add columns to every file of a table. Columns that are there are copied as bytes, without decoding a value.

    Parameters
    ----------
    table : path or URI
        A directory of Mosaic files, or a single file, which is replaced in one step.
    data : Arrow data, path, or callable
        A table, a reader or anything with an Arrow stream; the path of files of any format that `convert` reads; or a
        function that is called with batches of `columns` and returns a batch, or a dict of names and arrays, of as many
        rows. It is called for each row group, in several threads, and once more for the first one to know its columns.
    on : str or sequence of str, optional
        Key columns to join by. Rows of the table without a row of the data get nulls, and two rows of the data with the
        same key are refused. A null key matches nothing. Without `on`, rows are put side by side in the order in which
        `smalti.dataset` reads them, and there have to be as many.
    replace : bool
        Whether columns that exist get the new values, and types, for all rows. Without it they are refused.
    columns : sequence of str, optional
        Columns of the data to add; by default all but the keys. For a function: the columns that it is given, by
        default all.
    dry_run : bool
        Whether to change nothing, and only report what would be changed.
    engine : {"local", "spark"}
        With "spark" every file is a task. Data with keys is staged beside the table, in chunks that every task reads.
    spark, workers, progress, keep
        As for `compact`.
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
        Where table and data are looked up.
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
    resume : bool
        Whether to keep what an earlier, interrupted run has staged and not committed, if the data is a path.
    run_id : str, optional
        A name for this run, such as ``"2026-11-19 scores"``: of the runs of a table with the same name only one is
        committed, and the others return its report. So a scheduler can repeat a job that was killed without doing its
        work twice. A table remembers its last 100 named runs.

    Raises
    ------
    ConflictError
        If another job has replaced files of the table meanwhile. Nothing is changed then. Files that were added
        meanwhile are changed too, except if rows are put side by side.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"user": [1, 2, 3], "age": [31, 42, 53]}), "users.mosaic")
    >>> jobs.add_columns("users.mosaic", pa.table({"user": [3, 1], "city": ["Oslo", "Rome"]}), on="user").rows_unmatched
    1
    >>> smalti.read_table("users.mosaic").to_pydict()["city"]
    ['Rome', None, 'Oslo']
    >>> report = jobs.add_columns("users.mosaic", lambda batch: {"months": [12 * a.as_py() for a in batch["age"]]})
    >>> smalti.read_table("users.mosaic", columns=["months"]).to_pydict()
    {'months': [372, 504, 636]}
    """
    return _set_columns("add_columns", table, data, on, columns, run, replace=replace)


def replace_columns(
    table: AnyPath,
    data: Any,
    on: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    **run: Unpack[RunValues],
) -> ChangeReport:
    """Give columns that exist new values for all rows, with a new type if it differs; parameters as in `add_columns`.

    With `on`, rows of the table without a row of the data get nulls; `merge` leaves their values as they are.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"user": [1, 2], "age": [31, 42]}), "ages.mosaic")
    >>> report = jobs.replace_columns("ages.mosaic", pa.table({"age": [31.5, 42.5]}))
    >>> smalti.read_table("ages.mosaic").to_pydict()
    {'user': [1, 2], 'age': [31.5, 42.5]}
    """
    return _set_columns("replace_columns", table, data, on, columns, run, replace=True, must_exist=True)


def _set_columns(
    job: str,
    table: AnyPath,
    data: Any,
    on: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    run: RunValues,
    *,
    replace: bool,
    must_exist: bool = False,
) -> ChangeReport:
    is_function = callable(data) and not hasattr(data, "__arrow_c_stream__")
    if is_function and on is not None:
        raise SchemaError(
            "a function is called with rows of the table, so there is nothing to join", found=f"on={on!r}"
        )
    keys = None if on is None else key_names(on)
    given = None if is_function else GivenData.of(data, run, columns, keys or ())
    identity = None if given is None or given.identity is None else [given.identity, keys, columns, replace]

    def prepare(opened: OpenTable) -> FileChange:
        schema = _sample(data, columns, opened) if given is None else given.schema
        names = [name for name in schema.names if name not in (keys or ())]
        if not names:
            raise SchemaError("the data has no column to add", found=schema.names)
        existing = [name for name in names if name in opened.changeable]
        if must_exist:
            check_columns_exist(names, opened.changeable, opened.partitions, "to replace")
        check_new_names(names, () if replace else opened.changeable, opened.partitions)
        values: ValueSource
        if given is None:
            values = partial(computed_values, data, _inputs(columns, opened))
        elif keys is None:
            values = partial(aligned_values, given.by_files(opened))
        else:
            values = partial(joined_values, given.by_keys(opened, keys)[0])
        fields = tuple(schema.field(name).with_nullable(True) for name in names)
        retyped = any(opened.schema.field(name).type != schema.field(name).type for name in existing)
        plan = partial(change_values, fields, values, KnownPlans(fields=fields))
        return FileChange(plan, retyped, follows_additions=given is None or keys is not None)

    return run_change(job, table, identity, prepare, **run)


def _inputs(columns: Sequence[str] | None, opened: OpenTable) -> tuple[str, ...]:
    """The columns that a function is given."""
    asked = check_columns(columns)
    return tuple(opened.schema.names if asked is None else match_names(opened.schema.names, asked))


def _sample(function: ColumnFunction, columns: Sequence[str] | None, opened: OpenTable) -> pa.Schema:
    """The columns that a function makes of the first rows."""
    inputs = _inputs(columns, opened)
    for file in opened.snapshot.files:
        if opened.snapshot.counts[file.path]:
            with opened.snapshot.open(file) as found:
                view = TableFile(found, opened.schema, constants_of(file.partition))
                group = next(group for group in view.groups if view.num_rows(group))
                return call_function(function, view.read(inputs, group)).schema
    return call_function(function, empty_batch(pa.schema([opened.schema.field(name) for name in inputs]))).schema


def drop_columns(table: AnyPath, names: str | Sequence[str], **run: Unpack[RunValues]) -> ChangeReport:
    """Drop columns from every file of a table. No value is decoded, and their bytes are gone afterwards.

    Parameters
    ----------
    table : path or URI
    names : str or sequence of str
        Columns, or patterns such as ``click.*``. Partition columns cannot be dropped, nor can all columns.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"id": [1], "click.a": [2], "click.b": [3]}), "drop.mosaic")
    >>> report = jobs.drop_columns("drop.mosaic", "click.*")
    >>> smalti.open("drop.mosaic").column_names
    ['id']
    """
    asked = [names] if isinstance(names, str) else list(names)

    def prepare(opened: OpenTable) -> FileChange:
        plain = [name for name in asked if name in opened.partitions]
        check_columns_exist(plain, opened.changeable, opened.partitions, "to drop")
        found = match_names(opened.changeable, asked)
        if not found:
            raise SchemaError("no column to drop is named", found=asked)
        if len(found) == len(opened.changeable):
            raise SchemaError("a table needs a column, and all of them would go", found=found[:5])
        return FileChange(partial(arrange_columns, KnownPlans(drop=frozenset(found))), changes_columns=True)

    return run_change("drop_columns", table, asked, prepare, **run)


def rename_columns(table: AnyPath, names: Mapping[str, str], **run: Unpack[RunValues]) -> ChangeReport:
    """Give columns of a table other names. No value is decoded. Columns may swap their names.

    Parameters
    ----------
    table : path or URI
    names : mapping of str to str
        Old names and new ones.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"a": [1], "b": [2]}), "swap.mosaic")
    >>> report = jobs.rename_columns("swap.mosaic", {"a": "b", "b": "a"})
    >>> smalti.read_table("swap.mosaic").to_pydict()
    {'b': [1], 'a': [2]}
    """
    if not isinstance(names, Mapping):
        raise MosaicError("new names are a mapping", found=names, expected="{old name: new name}")
    renamed = {old: new for old, new in names.items() if old != new}

    def prepare(opened: OpenTable) -> FileChange:
        check_columns_exist(list(names), opened.changeable, opened.partitions, "to rename")
        check_new_names(list(renamed.values()), (), opened.partitions)
        check_renaming(renamed, opened.changeable)
        return FileChange(partial(arrange_columns, KnownPlans(rename=renamed)), changes_columns=bool(renamed))

    return run_change("rename_columns", table, renamed, prepare, **run)


def reorder_columns(table: AnyPath, names: Sequence[str], **run: Unpack[RunValues]) -> ChangeReport:
    """Put the columns of every file of a table in another order. No value is decoded.

    Parameters
    ----------
    table : path or URI
    names : sequence of str
        The columns that come first, in this order; names or patterns. All others follow in the order that they have.
    **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), "order.mosaic")
    >>> report = jobs.reorder_columns("order.mosaic", ["c"])
    >>> smalti.open("order.mosaic").column_names
    ['c', 'a', 'b']
    """
    asked = list(check_columns(names) or ())

    def prepare(opened: OpenTable) -> FileChange:
        plain = [name for name in asked if name in opened.partitions and name not in opened.stored]
        check_columns_exist(plain, opened.stored, opened.partitions, "to move")
        repeated = [name for name, count in Counter(asked).items() if count > 1]
        if repeated:
            raise SchemaError("a column is named twice", column=repeated[0])
        return FileChange(partial(arrange_columns, KnownPlans(first=match_names(opened.stored, asked))))

    return run_change("reorder_columns", table, asked, prepare, **run)

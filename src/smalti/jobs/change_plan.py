"""What a change makes of one file: which columns it has afterwards, and what becomes of each row group. Pure.

A column that stays is copied as bytes, and only the others are encoded. So everything here is about names, fields and
outcomes of conditions; values are the business of `smalti.jobs.change_task`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from smalti.errors import SchemaError, no_column
from smalti.predicate.prune import Outcome


class Action(Enum):
    """What becomes of a row group."""

    COPY = "copied as bytes"
    ENCODE = "some columns are encoded anew, the others are copied"
    FILTER = "rows are left out, so all columns are encoded anew"
    DROP = "left out"


@dataclass(frozen=True)
class ColumnPlan:
    """The columns of a file after a change.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the new file.
    copied : mapping of str to str
        The name of each column that stays, and its name in the old file.
    encoded : tuple of str
        The columns that are encoded in every row group, because they are new or have another type.
    """

    schema: pa.Schema
    copied: Mapping[str, str]
    encoded: tuple[str, ...] = ()

    def is_same(self, old: pa.Schema) -> bool:
        """Whether the file stays as it is, if no row changes."""
        names = old.names
        return not self.encoded and list(self.copied) == names and list(self.copied.values()) == names


def plan_columns(
    schema: pa.Schema,
    *,
    drop: Collection[str] = (),
    rename: Mapping[str, str] | None = None,
    first: Sequence[str] = (),
    fields: Sequence[pa.Field] = (),
) -> ColumnPlan:
    """Plan the columns of a file with this schema. Names of columns that the file does not have change nothing.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the old file.
    drop : collection of str
    rename : mapping of str to str
        Old names and new ones.
    first : sequence of str
        Columns that come first, in this order; all others follow in theirs.
    fields : sequence of pyarrow.Field
        Columns with new values. They take the place of columns with their names, or follow all others.

    Examples
    --------
    >>> plan = plan_columns(pa.schema({"a": pa.int8(), "b": pa.int8()}), drop=["a"], rename={"b": "c"})
    >>> plan.schema.names, plan.copied
    (['c'], {'c': 'b'})
    """
    renamed, new = rename or {}, {field.name: field for field in fields}
    planned: dict[str, tuple[pa.Field, str | None]] = {}
    for field in schema:
        if field.name not in drop:
            name = renamed.get(field.name, field.name)
            kept = field if name == field.name else field.with_name(name)
            planned[name] = (new[name], None) if name in new else (kept, field.name)
    planned |= {name: (field, None) for name, field in new.items() if name not in planned}
    order = list(dict.fromkeys([*(name for name in first if name in planned), *planned]))
    if not order:
        raise SchemaError("a file needs at least one column, and all of its columns would go", found=schema.names[:5])
    retyped = {field.name: new[field.name].type for field in schema if field.name in new}
    retyped = {name: type_ for name, type_ in retyped.items() if type_ != schema.field(name).type}
    metadata = _described_anew(schema.metadata, drop, renamed, retyped)
    return ColumnPlan(
        pa.schema([planned[name][0] for name in order]).with_metadata(metadata or {}),
        {name: old for name in order if (old := planned[name][1]) is not None},
        tuple(name for name in order if planned[name][1] is None),
    )


class KnownPlans:
    """Plans of `plan_columns`, with some of its arguments, which are kept by the identity of the schemas.

    Planning 10,000 columns takes longer than it takes to copy them, and most files of a table share their schema.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._plans: dict[int, tuple[pa.Schema, ColumnPlan]] = {}

    def of(self, schema: pa.Schema) -> ColumnPlan:
        if id(schema) not in self._plans:  # The schema is kept, so that its id is not reused.
            self._plans[id(schema)] = schema, plan_columns(schema, **self._arguments)
        return self._plans[id(schema)][1]

    def __getstate__(self) -> dict[str, Any]:
        """Without the plans, because a task has other schema objects."""
        return {"_arguments": self._arguments, "_plans": {}}


def _described_anew(
    metadata: Mapping[bytes, bytes] | None,
    drop: Collection[str],
    renamed: Mapping[str, str],
    retyped: Mapping[str, pa.DataType],
) -> dict[bytes, bytes] | None:
    """Metadata in which what pandas says about columns fits the columns of the new file."""
    if not metadata or b"pandas" not in metadata or not (drop or renamed or retyped):
        return dict(metadata) if metadata else None
    try:
        described = json.loads(metadata[b"pandas"])
        index = [each for each in described["index_columns"] if not isinstance(each, str) or each not in drop]
        described["index_columns"] = [renamed.get(each, each) if isinstance(each, str) else each for each in index]
        columns = [each for each in described["columns"] if each.get("field_name", each["name"]) not in drop]
        for each in columns:
            if each.get("field_name", each["name"]) in retyped:  # pandas derives its type from that of Arrow.
                each |= {"pandas_type": "object", "numpy_type": "object", "metadata": None}
            for key in ("name", "field_name"):
                if isinstance(each.get(key), str):
                    each[key] = renamed.get(each[key], each[key])
        described["columns"] = columns
        return {**metadata, b"pandas": json.dumps(described).encode()}
    except (ValueError, LookupError, TypeError, AttributeError):  # metadata that pandas has not written
        return {key: value for key, value in metadata.items() if key != b"pandas"}


def plan_delete(outcomes: Sequence[Outcome]) -> list[Action]:
    """What becomes of row groups of which some rows, all or none are deleted.

    Examples
    --------
    >>> [action.name for action in plan_delete([Outcome.NONE, Outcome.SOME, Outcome.ALL])]
    ['COPY', 'FILTER', 'DROP']
    """
    return [
        {Outcome.NONE: Action.COPY, Outcome.SOME: Action.FILTER, Outcome.ALL: Action.DROP}[each] for each in outcomes
    ]


def plan_update(outcomes: Sequence[Outcome], columns: ColumnPlan) -> list[Action]:
    """What becomes of row groups of which some rows, all or none get new values in some columns.

    A column that the file lacks, or has in another type, is encoded in all row groups.
    """
    copied = Action.ENCODE if columns.encoded else Action.COPY
    return [copied if each is Outcome.NONE else Action.ENCODE for each in outcomes]


# --- checks of names ------------------------------------------------------------------------------------------------


def check_new_names(names: Sequence[str], known: Collection[str], partitions: Collection[str]) -> None:
    """Refuse names for new columns that exist, that partitions have, or that come twice."""
    seen: set[str] = set()
    for name in names:
        if name in partitions:
            raise partition_error(name)
        if name in known:
            raise SchemaError("the table has a column of this name; replace=True gives it new values", column=name)
        if name in seen:
            raise SchemaError("two columns would have the same name", column=name)
        seen.add(name)


def check_columns_exist(names: Sequence[str], known: Collection[str], partitions: Collection[str], what: str) -> None:
    """Refuse names that no stored column of the table has."""
    for name in names:
        if name in partitions:
            raise partition_error(name)
        if name not in known:
            raise no_column(name, known, what)


def partition_error(name: str) -> SchemaError:
    return SchemaError(
        "a partition column is spelled by the names of directories, so it cannot be changed in the files; "
        "write the rows to a table with other partitions instead",
        column=name,
    )


def check_renaming(renamed: Mapping[str, str], known: Sequence[str]) -> None:
    """Refuse new names that other columns have, or that two columns would get. Two columns may swap their names."""
    after = [renamed.get(name, name) for name in known]
    seen: set[str] = set()
    for old, name in zip(known, after, strict=True):
        if name in seen:
            reason = "two columns would have the same name"
            raise SchemaError(reason, column=old if old != name else name, found=name)
        seen.add(name)

"""Plans what is read: from columns, a filter and what is known of the files of a table. Pure: no file is touched.

Files are ruled out here. Row groups are ruled out by the statistics of each file, when it is read. Spark decides some
filters for whole files by its own rules, in `smalti.spark.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti._compat import arrow as compat
from smalti.errors import SchemaError, no_column
from smalti.logical.mapping import field_in_list
from smalti.logical.patterns import is_pattern, match_names
from smalti.mosaic.rows import RowIndex, Rows, split_rows
from smalti.table.columns import TableColumns
from smalti.table.listing import FoundFile
from smalti.table.partitions import infer_type, partition_value
from smalti.table.snapshot import FileFacts
from smalti.table.splits import Piece

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter
    from smalti.predicate.tree import Tree


@dataclass(frozen=True)
class ReadPlan:
    """What a read delivers, and from which files."""

    #: In the order in which they are read.
    files: Sequence[FoundFile]
    #: What batches look like.
    output: pa.Schema
    #: The columns of the output, or the paths below structs, that are read of files.
    asked: Sequence[str]
    #: The columns of the output and those of the filter.
    needed: pa.Schema
    #: The conditions that the names of directories do not decide, with values in the types of the columns.
    filter_: Filter | None = None
    #: The column of the output that has the number of each row.
    row_index: str | None = None
    #: Parts of the files, where rows are asked for by number; by default all files as they are.
    pieces: Sequence[Piece] | None = None


def plan_read(
    files: Sequence[FoundFile],
    columns: TableColumns,
    names: Sequence[str] | None,
    filter_: Filter | None,
    partitions: Sequence[str],
    row_index: str | None = None,
) -> ReadPlan:
    """Plan a read of files that `matching_files` has left.

    `columns` are those of the table. `names` are columns, paths below structs, or patterns; by default all columns.
    `partitions` are the partition columns that no file stores: only the names of directories have their values.
    """
    if row_index is not None and columns.present([row_index]):
        raise RowIndex(row_index).taken_name()

    def types_of(names: Sequence[str] | None) -> pa.Schema:
        stored = columns.project(None if names is None else [name for name in names if name != row_index])
        is_numbered = row_index is not None and (names is None or row_index in names)
        return RowIndex(row_index).add_to(stored) if is_numbered and row_index is not None else stored

    if names is not None:
        names = match_names(columns.names, names) if any(map(is_pattern, names)) else list(dict.fromkeys(names))
        names = names if row_index is None else [row_index, *names]
    output = types_of(names)
    asked = output.names if names is None else names
    if filter_ is None:
        return ReadPlan(files, output, asked, output, row_index=row_index)
    from smalti.predicate import undecided  # slow to import, see smalti.mosaic.filtering

    needed = types_of(list(dict.fromkeys([*asked, *filter_.columns])))
    fitted = fit_filter(filter_, types_of(filter_.columns))
    # Without the conditions that directories meet, files can apply the others by themselves.
    deciding = [needed.field(name) for name in partitions if name in needed.names]
    left = undecided(fitted.tree, _values(files, deciding)) if deciding else fitted.tree
    return ReadPlan(files, output, asked, needed, None if left is None else fitted.with_tree(left), row_index)


# --- files that cannot have a matching row --------------------------------------------------------------------------


def matching_files(files: Sequence[FoundFile], partitions: Sequence[pa.Field], filter_: Filter) -> list[FoundFile]:
    """The files that may have matching rows, by the values of partition columns that no file stores."""
    named = [field for field in partitions if field.name in filter_.columns]
    try:
        values = _values(files, named)
    except SchemaError:  # Files may store what the text of a directory is not, such as a date.
        return list(files)
    return list(compress(files, _may_match(values, filter_)))


def partition_pruner(filter_: Filter) -> Callable[[Sequence[Mapping[str, str | None]]], list[bool]]:
    """A function that tells which directories may hold matching rows, from the partition values that their paths spell.

    The type of a column is inferred from the directories that are asked about together. Among all directories of the
    table, what is a whole number here may be a string. A value of the filter fits only one of the two, but two columns
    can be compared as either, so what compares columns rules out nothing.
    """
    from smalti.predicate.tree import compared_columns

    deciding = set(filter_.columns) - set(compared_columns(filter_.tree))

    def prune(directories: Sequence[Mapping[str, str | None]]) -> list[bool]:
        names = {name for directory in directories for name in directory} & deciding
        types = {name: infer_type({each[name] for each in directories if name in each} - {None}) for name in names}
        values = [
            {name: partition_value(each, pa.field(name, type_)) for name, type_ in types.items() if name in each}
            for each in directories
        ]
        return _may_match(values, filter_)

    return prune


def _values(files: Sequence[FoundFile], fields: Sequence[pa.Field]) -> list[dict[str, pa.Scalar]]:
    return [{field.name: partition_value(file.partition, field) for field in fields} for file in files]


def _may_match(partitions: Sequence[Mapping[str, pa.Scalar]], filter_: Filter) -> list[bool]:
    """Whether a row with these values may match. Where the filter does not fit their types, everything may.

    The files may store the column in another type, and if they do not, the error is raised when the read is planned.
    """
    from smalti.predicate import fit_values, prune_partitions

    types = {name: value.type for partition in partitions for name, value in partition.items()}
    try:
        return prune_partitions(fit_values(filter_, types).tree, partitions) if types else [True] * len(partitions)
    except SchemaError:
        return [True] * len(partitions)


# --- row groups that cannot have a matching row -----------------------------------------------------------------------


def matching_row_groups(
    files: Sequence[FoundFile],
    facts: Mapping[str, FileFacts],
    values: Mapping[str, Mapping[str, pa.Scalar]],
    types: Mapping[str, pa.DataType],
    tree_of: Callable[[Mapping[str, pa.DataType]], Tree | None],
) -> dict[str, list[int] | None]:
    """The row groups that may have matching rows, for the files that have any; None if those of a file are not known.

    `facts`, by path, are of the files whose index was read. `values`, by path, are the partition values of each file,
    which are bounds of all its row groups. `types` has the columns that are compared, and the types that they are
    compared in. `tree_of` makes the filter from the types of columns that have bounds; None if these decide nothing.
    """
    from smalti.predicate.prune import GroupStatistics, Outcome, prune  # slow to import, see smalti.mosaic.filtering

    groups: list[tuple[str, int | None]] = []
    for file in files:
        known = facts.get(file.path)
        groups.extend((file.path, group) for group in (range(len(known.rows)) if known else [None]))
    statistics = {}
    for name, type_ in types.items():
        records = [_bounds(name, values[path], facts.get(path), group) for path, group in groups]
        try:
            statistics[name] = GroupStatistics(
                pa.array([record[0] for record in records], pa.int64()),
                pa.array([record[1] for record in records], type_),
                pa.array([record[2] for record in records], type_),
            )
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue  # Bounds that the type cannot hold decide nothing; a reader of the file will say so.
    tree = tree_of({name: types[name] for name in statistics})
    rows = [1 if group is None else facts[path].rows[group] for path, group in groups]
    outcomes = [Outcome.SOME] * len(rows) if tree is None else prune(tree, statistics, rows)
    found: dict[str, list[int] | None] = {}
    for (path, group), outcome in zip(groups, outcomes, strict=True):
        if outcome is not Outcome.NONE:
            kept = found.setdefault(path, None if group is None else [])
            if kept is not None and group is not None:
                kept.append(group)
    return found


def _bounds(
    name: str, values: Mapping[str, pa.Scalar], known: FileFacts | None, group: int | None
) -> tuple[int | None, Any, Any]:
    """Nulls and bounds of a column in a row group. Of a partition column, one null stands for any number."""
    if name in values:
        value = values[name].as_py()
        return int(value is None), value, value
    found = known.statistics[group].get(name) if known is not None and group is not None else None
    return (None, None, None) if found is None else (found.null_count, found.min, found.max)


# --- rows by their number -------------------------------------------------------------------------------------------


def numbered_pieces(
    files: Sequence[FoundFile], every: Sequence[FoundFile], starts: Sequence[int], rows: Rows | None = None
) -> list[Piece]:
    """Pieces of files that know the number of their first row, and which rows are read, by default all.

    `every` has all files of the table, `files` those of them that are read, in the same order. `starts` has the number
    of the first row of every file, then the number of all rows.
    """
    read = set(map(id, files))
    wanted = dict.fromkeys(range(len(every))) if rows is None else dict(split_rows(rows, starts))
    return [
        Piece(file, file.size, rows=wanted[index], first_row=starts[index])
        for index, file in enumerate(every)
        if id(file) in read and index in wanted
    ]


# --- filters over the columns of a table ----------------------------------------------------------------------------


def parse_filter(filters: AnyFilter | str, schema: pa.Schema | None = None) -> Filter | None:
    """The filter that a user has given, in any language for filters. One that is text is parsed only with a schema."""
    if filters is None:
        return None
    from smalti.predicate import normalize_filters  # slow to import, see smalti.mosaic.filtering

    if isinstance(filters, str) and schema is not None:
        from smalti.predicate.text import parse_where

        return normalize_filters(parse_where(filters, schema))
    return normalize_filters(filters)


def owners_of(paths: Iterable[str], columns: Collection[str]) -> list[str]:
    """The columns that `paths` name, or that have a field which a path names."""
    whole = {path: path for path in columns}
    found = (whole.get(path) or next((n for n in columns if path.startswith(f"{n}.")), path) for path in paths)
    return list(dict.fromkeys(found))


def fit_filter(filter_: Filter, schema: pa.Schema) -> Filter:
    """The filter with values in the types that columns of a schema, and fields of its structs, are compared as.

    Raise `SchemaError` if a column is not there, or cannot be compared so. Nothing has to be read to know that.
    """
    from smalti.logical.types import compared_type
    from smalti.predicate import fit_values

    indices = [schema.get_field_index(name) for name in filter_.columns]
    if min(indices, default=0) >= 0:
        types = [compared_type(schema.field(index).type) for index in indices]
        return fit_values(filter_, dict(zip(filter_.columns, types, strict=True)))
    empty = compat.empty_batch(schema)
    return fit_values(filter_, {name: compared_type(leaf_of(empty, name).type) for name in filter_.columns})


def leaf_of(batch: pa.RecordBatch, name: str) -> Any:
    """A column, or the field of a struct that a path leads to."""
    from smalti.logical.arrays import struct_fields

    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    path = name
    while path not in columns:
        owner = next((each for each in columns if path.startswith(each + ".")), None)
        if owner is None:
            raise no_column(name, columns, "in the dataset")
        struct, path = columns[owner], path.removeprefix(owner + ".")
        while isinstance(struct, pa.ExtensionArray):
            struct = struct.storage
        if not pa.types.is_struct(struct.type):
            raise field_in_list(name)
        columns = dict(zip([field.name for field in struct.type], struct_fields(struct), strict=True))
    return columns[path]


def has_types(schema: pa.Schema, names: Collection[str], needed: pa.Schema) -> bool:
    """Whether columns of a file have the types of a read, so that the file can filter by itself."""
    return schema.types == TableColumns({}, needed).project(list(names)).types

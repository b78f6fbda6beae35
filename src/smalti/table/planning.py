"""From columns, a filter and what is known of the files of a table to what is read. Pure: no file is touched.

This is the only place that rules out files. Row groups are ruled out by the statistics of each file, when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti._compat import arrow as compat
from smalti.errors import SchemaError, no_column
from smalti.logical.mapping import field_in_list
from smalti.logical.tree import project_schema
from smalti.table.listing import FoundFile
from smalti.table.partitions import infer_type, partition_value

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter


@dataclass(frozen=True)
class ReadPlan:
    """What a read delivers, and from which files.

    Attributes
    ----------
    files : sequence of FoundFile
        In the order in which they are read.
    output : pyarrow.Schema
        What batches look like.
    asked : sequence of str
        The columns that are read for it, or paths below structs.
    needed : pyarrow.Schema
        The columns of the output and those of the filter.
    filter_ : Filter, optional
        The conditions that the names of directories do not decide, with values in the types of the columns.
    """

    files: Sequence[FoundFile]
    output: pa.Schema
    asked: Sequence[str]
    needed: pa.Schema
    filter_: Filter | None = None


def plan_read(
    files: Sequence[FoundFile],
    names: Sequence[str] | None,
    filter_: Filter | None,
    types_of: Callable[[Sequence[str] | None], pa.Schema],
    partitions: Sequence[str],
) -> ReadPlan:
    """Plan a read of files that `matching_files` has left.

    Parameters
    ----------
    files : sequence of FoundFile
    names : sequence of str, optional
        Columns, or paths below structs; by default all columns.
    filter_ : Filter, optional
    types_of : callable
        Returns the fields of columns, or of all; raises an error if one does not exist.
    partitions : sequence of str
        The partition columns that no file stores: only the names of directories have their values.
    """
    output = types_of(names)
    asked = output.names if names is None else list(names)
    if filter_ is None:
        return ReadPlan(files, output, asked, output)
    from smalti.predicate import undecided  # slow to import, see smalti.mosaic.filtering

    needed = types_of(list(dict.fromkeys([*asked, *filter_.columns])))
    fitted = fit_filter(filter_, types_of(filter_.columns))
    # Without the conditions that directories meet, files can apply the others by themselves.
    left = undecided(fitted.tree, _values(files, [needed.field(name) for name in partitions if name in needed.names]))
    return ReadPlan(files, output, asked, needed, None if left is None else fitted.with_tree(left))


def project_types(known: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    """The fields of columns, or of paths below them, in this order.

    Raises
    ------
    SchemaError
        If one does not exist.
    """
    if names is None:
        return known
    found, missing = project_schema(known, names)
    if missing:
        raise no_column(missing[0], known.names, "in the dataset")
    return found


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

    The type of a column is inferred from the directories that are asked about together.
    """

    def prune(directories: Sequence[Mapping[str, str | None]]) -> list[bool]:
        names = {name for directory in directories for name in directory} & set(filter_.columns)
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


# --- filters over the columns of a table ----------------------------------------------------------------------------


def parse_filter(filters: AnyFilter) -> Filter | None:
    """The filter that a user has given, in whichever of the languages."""
    if filters is None:
        return None
    from smalti.predicate import normalize_filters  # slow to import, see smalti.mosaic.filtering

    return normalize_filters(filters)


def fit_filter(filter_: Filter, schema: pa.Schema) -> Filter:
    """The filter with values in the types that columns of a schema, and fields of its structs, are compared as.

    Raises
    ------
    SchemaError
        If a column is not there, or cannot be compared so. Nothing has to be read to know that.
    """
    from smalti.logical.types import compared_type
    from smalti.predicate import fit_values

    empty = pa.RecordBatch.from_arrays([compat.null_array(0, field.type) for field in schema], schema=schema)
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
    return schema.types == project_types(needed, list(names)).types

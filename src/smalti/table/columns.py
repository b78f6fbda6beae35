"""The columns of a table, found by name in the columns of its files. Nothing is made for a column nobody asks for.

A process keeps the columns of the tables that it has read last, by the columns of their files: a table that is opened
again, or another one with the same columns, has its schema made, and its names put in order, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from smalti._core.arrow_c import field_kinds
from smalti.errors import no_column
from smalti.logical.mapping import ColumnMapping
from smalti.logical.tree import project_schema
from smalti.logical.widen import unify_schemas
from smalti.mosaic.columns import MAX_KEPT_COLUMNS, keep
from smalti.mosaic.rows import RowIndex
from smalti.table.partitions import with_partitions

#: Tables whose columns a process keeps, the newest last.
_MAX_TABLES = 16
_tables: dict[Any, TableColumns] = {}


class TypedColumns(ABC):
    """Columns with their types, of which a read asks for some. Safe to use from several threads."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of all columns, in the order of `schema`."""

    @abstractmethod
    def project(self, names: Sequence[str] | None) -> pa.Schema:
        """The fields of columns, or of paths below them, in this order; by default all columns.

        Raises
        ------
        SchemaError
            If one does not exist.
        """

    @abstractmethod
    def present(self, names: Sequence[str]) -> list[str]:
        """The names that are columns, not fields of structs."""

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """A key for the type of each column, see `field_kinds`, in the order of `names`."""
        return field_kinds(self.schema.__arrow_c_schema__())

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        folded: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            folded.setdefault(name.casefold(), []).append(index)
        return folded

    def named(self, folded: Iterable[str]) -> list[str]:
        """The columns with these names, which have their case folded, in the order of the table."""
        found = sorted(index for name in folded for index in self._folded.get(name, ()))
        return [self.names[index] for index in found]


class GivenColumns(TypedColumns):
    """The columns of a schema that the caller has given, or of one that was made before."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenColumns, (self._schema,)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @cached_property
    def names(self) -> Sequence[str]:
        return self._schema.names

    def project(self, names: Sequence[str] | None) -> pa.Schema:
        return project_types(self._schema, names)

    def present(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self._schema.get_field_index(name) >= 0]


class NumberedColumns(TypedColumns):
    """Columns after that of the row numbers, whose name none of them may have."""

    def __init__(self, columns: TypedColumns, index: RowIndex) -> None:
        if columns.present([index.name]):
            raise index.taken_name()
        self._columns = columns
        self._index = index

    @property
    def schema(self) -> pa.Schema:
        return self._index.add_to(self._columns.schema)

    @property
    def names(self) -> Sequence[str]:
        return [self._index.name, *self._columns.names]

    def project(self, names: Sequence[str] | None) -> pa.Schema:
        if names is None:
            return self.schema
        others = self._columns.project([name for name in names if name != self._index.name])
        return self._index.add_to(others) if self._index.name in names else others

    def present(self, names: Sequence[str]) -> list[str]:
        others = self._columns.present(names)
        return [name for name in names if name == self._index.name or name in others]


class TableColumns(TypedColumns):
    """The columns of files and the partition columns, each in a type that holds the values of all files.

    Made by `table_columns`. A pickle has the schema.
    """

    def __init__(self, variants: Mapping[ColumnMapping, str], partitions: pa.Schema) -> None:
        #: The different columns that files have, each with the path of a file that has them, in the order of the files.
        self.variants = dict(variants)
        #: The columns that the names of directories spell.
        self.partitions = partitions
        #: How many columns are held for it, over all variants.
        self.width = sum(map(len, variants))
        self._projections: dict[tuple[str, ...], pa.Schema] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenColumns, (self.schema,)

    @cached_property
    def names(self) -> list[str]:
        stored = [columns.names for columns in self.variants]
        if len(stored) == 1 and not len(self.partitions):
            return stored[0]
        return list(dict.fromkeys(chain(*stored, self.partitions.names)))

    @cached_property
    def schema(self) -> pa.Schema:
        return self._union(None)

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        if len(self.variants) == 1 and not len(self.partitions):
            return next(iter(self.variants)).kinds
        return super().kinds

    def present(self, names: Sequence[str]) -> list[str]:
        found = {name for columns in self.variants for name in columns.whole(names)}
        return [name for name in names if name in found or name in self.partitions.names]

    def project(self, names: Sequence[str] | None) -> pa.Schema:
        if names is None:
            return self.schema
        key = tuple(names)
        known = self._projections.get(key)
        if known is not None:
            return known
        found, missing = project_schema(self._union(names), names)
        if missing:
            raise no_column(missing[0], self.names, "in the dataset")
        return keep(self._projections, key, found)

    def _union(self, names: Sequence[str] | None) -> pa.Schema:
        """All columns; or those among `names`. A path that leads to a field which all files lack is left out."""
        schemas = (
            (path, columns.schema if names is None else columns.project(nearest(columns, names)).schema)
            for columns, path in self.variants.items()
        )
        return with_partitions(unify_schemas(schemas), self.partitions)


def table_columns(variants: Mapping[ColumnMapping, str], partitions: pa.Schema) -> TableColumns:
    """The columns of a table: the same object for the same columns of files and partition columns.

    The paths of files with different columns are in the message if these do not fit together, so they count too.
    """
    key = tuple(variants), partitions, tuple(variants.values()) if len(variants) > 1 else None
    known = _tables.get(key)
    if known is None:
        known = _tables.setdefault(key, TableColumns(variants, partitions))
        # Other threads may do the same: a list is a state of the dictionary that does not change.
        while len(kept := [*_tables.items()]) > _MAX_TABLES or sum(each.width for _, each in kept) > MAX_KEPT_COLUMNS:
            _tables.pop(kept[0][0], None)
    return known


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


def nearest(columns: ColumnMapping, names: Sequence[str]) -> list[str]:
    """The columns of a file that are read for names: a struct that lacks a field is read to know where it is null."""
    present = columns.present(names)
    if len(present) == len(names):
        return present
    there = set(present)
    found: dict[str, None] = {}
    for name in names:
        part: str | None = name if name in there else columns.nearest_struct(name)
        if part is not None:
            found[part] = None
    return list(found)

"""The columns of a table, found by name in the columns of its files. Fields are built only for columns asked for.

A process keeps the columns of the tables that it has read last, by the columns of their files: a table that is opened
again, or another one with the same columns, has its schema made, and its names put in order, once.
"""

from __future__ import annotations

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
from smalti.table.partitions import with_partitions

#: Tables whose columns a process keeps, the newest last.
_MAX_TABLES = 16
_tables: dict[Any, TableColumns] = {}


class TableColumns:
    """Columns with their types, of which a read asks for some. Safe to use from several threads.

    `variants` are the different columns that files have, each with the path of a file that has them, in the order of
    the files; a column has a type that holds the values of all of them. `others` come after these, if no file has them:
    partition columns. Without variants they are all columns, those of a schema that the caller has given. A pickle has
    the schema.
    """

    def __init__(self, variants: Mapping[ColumnMapping, str], others: pa.Schema) -> None:
        self.variants = dict(variants)
        self._others, self._other_names = others, frozenset(others.names)
        #: How many columns are held for it, over all variants.
        self.width = sum(map(len, variants))
        self._projections: dict[tuple[str, ...], pa.Schema] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TableColumns, ({}, self.schema)

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns, in the order of `schema`, without building that schema."""
        stored = [columns.names for columns in self.variants]
        if len(stored) == 1 and not self._other_names:
            return stored[0]
        return list(dict.fromkeys(chain(*stored, self._others.names)))

    @cached_property
    def schema(self) -> pa.Schema:
        return self._union(None)

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """A key for the type of each column, see `field_kinds`, in the order of `names`."""
        if len(self.variants) == 1 and not self._other_names:
            return next(iter(self.variants)).kinds
        return field_kinds(self.schema.__arrow_c_schema__())

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        folded: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            folded.setdefault(name.casefold(), []).append(index)
        return folded

    def named(self, folded: Iterable[str]) -> list[str]:
        """The columns whose names with their case folded are among `folded`, in the order of the table."""
        found = sorted(index for name in folded for index in self._folded.get(name, ()))
        return [self.names[index] for index in found]

    def present(self, names: Sequence[str]) -> list[str]:
        """The names that are columns, not fields of structs."""
        found = {name for columns in self.variants for name in columns.whole(names)} | self._other_names
        return [name for name in names if name in found]

    def project(self, names: Sequence[str] | None) -> pa.Schema:
        """The fields of columns, or of paths below them, in this order; by default all. Each of them has to exist."""
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
        if not self.variants:
            return self._others
        schemas = (
            (path, columns.schema if names is None else columns.project(nearest(columns, names)).schema)
            for columns, path in self.variants.items()
        )
        return with_partitions(unify_schemas(schemas), self._others)


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

"""The columns of a schema block: named, found, described to Arrow, grouped into buckets. Each of these is done once.

Files of one table nearly always have the same schema block. `SharedSchemas` recognises a block by its bytes in the
file, so that it is decompressed, checked and searched for the first file only, and all files share one `Columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.arrow_c import field_kinds
from smalti._core.schema import SchemaBlock
from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.file.patterns import is_pattern, match_names
from smalti.format.companion import WRITER as OUR_WRITER
from smalti.format.companion import Companion, Description, parse_description, warn_of
from smalti.logical.tree import (
    Leaf,
    LogicalColumn,
    Node,
    StoredColumn,
    find_path,
    is_composite,
    leaves,
    paths,
    plan_column,
    select_paths,
    stored_columns,
)
from smalti.logical.types import is_list_like
from smalti.mosaic.scan import Projection, plan_buckets
from smalti.mosaic.tail import parse_schema
from smalti.spec import Compression

#: Projections, and schema blocks, that are kept; then the oldest is forgotten. A table rarely has more than a few.
MAX_KEPT = 64
#: Walks over the names of a file before all of them are unpacked.
MAX_WALKS = 10
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class FilterColumn:
    """What a filter compares: one stored column, as `type`; of a struct, whether there is one."""

    stored: str
    type: pa.DataType | None = None
    is_presence: bool = False


class LogicalView:
    """The columns that are more than the stored ones say, by the companion of a file.

    There may be thousands of columns of another type, which have one stored column of their own name: each of these is
    looked at when it is asked for. Columns that are made of others are looked at together, since their names matter.

    Raises
    ------
    CorruptFileError
        If the stored columns cannot be what the companion says.
    """

    def __init__(self, description: Description, describe: Callable[[list[str]], list[pa.DataType | None]]) -> None:
        self._schema, self._names = description.schema, description.names
        self._places = {name: place for place, name in enumerate(self._schema.names)}
        self._kinds = field_kinds(self._schema.__arrow_c_schema__())
        self._nodes: dict[object, Node] = {}
        self._known: dict[str, LogicalColumn] = {}
        self.metadata = self._schema.metadata
        self.entries = description.dictionaries
        #: The column that each stored column belongs to, if that has another name.
        self.owner: dict[str, str] = {}
        #: The column that each path below one leads into.
        self.paths: dict[str, str] = {}
        #: Paths that lead to more than one thing: to two fields, or to a field and a column.
        self.ambiguous: set[str] = set()
        made = [
            name
            for name, place in self._places.items()
            if place in self._names or (self._kinds[place] is None and is_composite(self._schema.field(place).type))
        ]
        taken = {name for name in self._places if name not in set(made)} if made else set()
        for name in made:
            column = self.column(name)
            for each in column.stored:
                if each.name in taken:
                    raise CorruptFileError("companion uses a column twice", column=each.name)
                taken.add(each.name)
                if each.name != name:
                    self.owner[each.name] = name
            for path in paths(column.node, name):
                if path in self.paths:
                    self.ambiguous.add(path)
                self.paths.setdefault(path, name)
        free = [path for path in self.paths if path not in taken]
        others = {path for path, type_ in zip(free, describe(free), strict=True) if type_ is not None}
        for path in [path for path in self.paths if path in others or path in self._places]:
            del self.paths[path]  # Another column has this name.
            self.ambiguous.add(path)
        free = [name for name in made if name not in taken]
        for name, type_ in zip(free, describe(free), strict=True):
            if type_ is not None:
                raise CorruptFileError("companion gives two columns one name", column=name)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @property
    def stored(self) -> list[StoredColumn]:
        """What is expected to be stored."""
        return [each for name in self._places for each in self.column(name).stored]

    def column(self, name: str) -> LogicalColumn:
        """One of the columns."""
        known = self._known.get(name)
        return self._known.setdefault(name, self._build(name)) if known is None else known

    def _build(self, name: str) -> LogicalColumn:
        place = self._places[name]
        field, kind = self._schema.field(place), self._kinds[place]
        node = None if kind is None else self._nodes.get(kind)
        if node is None:
            node = plan_column(field.type, field.nullable)
            if kind is not None:
                self._nodes[kind] = node
        stored = stored_columns(node, name, field.nullable)
        names = self._names.get(place)
        if names is not None:
            if len(names) != len(stored):
                raise CorruptFileError("companion has another number of columns", column=name)
            stored = [replace(column, name=name) for column, name in zip(stored, names, strict=True)]
        column = LogicalColumn(field, node, tuple(stored))
        if self.entries:
            self._check_entries(column)
        return column

    def _check_entries(self, column: LogicalColumn) -> None:
        """Refuse a dictionary for a column that has none, or another one."""
        for each, leaf in zip(column.stored, leaves(column.node), strict=True):
            entries, type_ = self.entries.get(each.name), None if leaf is None else leaf.type
            while type_ is not None and (isinstance(type_, pa.BaseExtensionType) or is_list_like(type_)):
                type_ = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_.value_type
            if entries is not None and not (isinstance(type_, pa.DictionaryType) and type_.value_type == entries.type):
                raise CorruptFileError(
                    "companion has a dictionary of another type",
                    column=each.name,
                    found=str(entries.type),
                    expected=str(type_),
                )

    def logical_names(self, stored: Sequence[str]) -> list[str]:
        """The names of the columns that all stored columns make, in the same order."""
        names = dict.fromkeys(self.owner.get(name, name) for name in stored)
        for name in self._places:
            if name not in names:
                raise CorruptFileError("companion expects another column", section="companion", column=name)
        return list(names)


class Columns:
    """The columns of a file, or of several files with the same schema block. Safe to use from several threads.

    Columns are known by their logical names, which are those of the schema that was written: of a struct its own, and
    for reading also the paths of its fields. Without a companion these are the names of the stored columns.
    """

    def __init__(self, block: SchemaBlock, companion: Companion | None = None) -> None:
        self._block = block
        self._companion = companion
        self._positions: dict[str, int] = {}
        self._walks = 0
        self._projections: dict[tuple[str, ...], Projection] = {}

    @cached_property
    def _view(self) -> LogicalView | None:
        """What the companion says; looked at when it is first needed."""
        if self._companion is None or not self._companion.payload:
            return None
        is_ours = self._companion.writer == OUR_WRITER
        try:
            view = LogicalView(parse_description(self._companion.payload), self._stored_types)
            if not is_ours:  # All of it is used, or nothing.
                self._check_stored(view.stored)
            return view
        except MosaicError as error:
            if is_ours:
                raise error.locate(section="companion") from None
            warn_of(str(error))
            return None

    def _column(self, view: LogicalView, name: str) -> LogicalColumn:
        try:
            return view.column(name)
        except MosaicError as error:
            raise error.locate(section="companion") from None

    def _check_stored(self, expected: Sequence[StoredColumn]) -> None:
        """Refuse columns that are not stored as the companion says."""
        types = self._stored_types([column.name for column in expected])
        for column, type_ in zip(expected, types, strict=True):
            if type_ != column.type:
                raise CorruptFileError(
                    "companion expects another column", column=column.name, found=str(type_), expected=str(column.type)
                )

    @property
    def is_stored(self) -> bool:
        """Whether the columns are the stored ones, as far as that can be told without looking at the companion."""
        return self._companion is None or not self._companion.payload

    def leaf_type(self, stored: str) -> pa.DataType | None:
        """The type that the values of a stored column were given with, None if it is the stored one."""
        view = self._view
        owner = stored if view is None else view.owner.get(stored, stored)
        if view is None or owner not in view:
            return None
        column = self._column(view, owner)
        self._check_stored([each for each in column.stored if each.name == stored])
        return column.leaf_type(stored)

    @cached_property
    def stored_names(self) -> list[str]:
        """Names of the stored columns in the order they were written."""
        by_name = self._block.names()
        return [by_name[i] for i in self._block.column_order()]

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """The stored columns in the order they were written."""
        return self._project_stored(self._block.column_order(), self.stored_names).schema

    @cached_property
    def names(self) -> list[str]:
        """Names in the order the columns were written."""
        return self.stored_names if self._view is None else self._view.logical_names(self.stored_names)

    @property
    def schema(self) -> pa.Schema:
        """All columns in the order they were written."""
        return self.every.schema

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """What tells the types of columns apart, see `field_kinds`, in the order of `names`; takes no Arrow fields."""
        if self._view is not None:
            return field_kinds(self.schema.__arrow_c_schema__())
        return field_kinds(self._block.arrow_schema(self._block.column_order(), self.names))

    @cached_property
    def every(self) -> Projection:
        """A read of all columns in the order they were written."""
        if self._view is not None:
            return self._project_view(self._view, self.names)
        return self._project_stored(self._block.column_order(), self.stored_names)

    def find(self, names: Sequence[str]) -> list[int]:
        """Places of stored columns, -1 for one that is not there; one walk over the schema block for all that are new.

        Who looks for new names again and again gets all names unpacked, which costs as much as some ten walks.
        """
        new = [name for name in dict.fromkeys(names) if name not in self._positions]
        if new:
            for name in new:
                if not isinstance(name, str):
                    raise TypeError(f"column names are strings, got {name!r}")
            self._walks += 1
            if self._walks == MAX_WALKS:
                self._positions.update((name, place) for place, name in enumerate(self._block.names()))
            self._positions.update(zip(new, self._block.find(new), strict=True))
        return [self._positions[name] for name in names]

    def present(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are there: columns, and paths below them."""
        view, places = self._view, self.find(names)
        if view is None:
            return [name for name, place in zip(names, places, strict=True) if place >= 0]
        return [
            name
            for name, place in zip(names, places, strict=True)
            if name in view or name in view.paths or (place >= 0 and name not in view.owner)
        ]

    def whole(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are columns, and not fields of structs."""
        view = self._view
        return [name for name in self.present(names) if view is None or name in view or name not in view.paths]

    def nearest_struct(self, path: str) -> str | None:
        """The struct along a path that goes on to fields which are not there; None if there is none."""
        view = self._view
        while view is not None and "." in path:
            path = path.rpartition(".")[0]
            if path in view or path in view.paths:
                return path
        return None

    def select(self, columns: Sequence[str]) -> list[str]:
        """The names that `columns` asks for, each once: a pattern such as ``click.*`` stands for all that match it.

        A name that exists is never taken for a pattern.
        """
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the string {columns!r}")
        columns = list(columns)
        if not any(isinstance(name, str) and is_pattern(name) for name in columns):
            return list(dict.fromkeys(columns))
        return match_names(self.names if self._view is None else [*self.names, *self._view.paths], columns)

    def project(self, names: Sequence[str]) -> Projection:
        """The columns of a read. They must exist and be named once each.

        Fields of a struct come as a struct of these fields, where the first of them was asked for.
        """
        key = tuple(names)
        known = self._projections.get(key)
        if known is None:
            view = self._view
            known = (
                self._project_stored(self.find(names), list(names))
                if view is None or not any(name in view or name in view.paths for name in names)
                else self._project_view(view, names)
            )
            if view is not None and view.metadata and known.schema.metadata is None:
                known = replace(known, schema=known.schema.with_metadata(view.metadata))
            _keep(self._projections, key, known)
        return known

    def filter_columns(self, names: Sequence[str]) -> list[FilterColumn]:
        """What a filter compares for each name, which must be there."""
        view, found = self._view, []
        for name in names:
            owner = None if view is None else name if name in view else view.paths.get(name)
            if view is None or owner is None:
                found.append(FilterColumn(name))
                continue
            column = self._column(view, owner)
            compared = _filter_column(column, name)
            self._check_stored([each for each in column.stored if each.name == compared.stored])
            found.append(compared)
        return found

    def refuse_ambiguous(self, nested: Iterable[str]) -> None:
        """Refuse names that were meant as fields of structs, if they could be read as something else."""
        view = self._view
        for name in nested:
            if view is not None and name in view.ambiguous:
                raise SchemaError("a filter names a field of a struct by a path that leads to two things", found=name)

    def filter_projection(self, columns: Sequence[FilterColumn]) -> Projection:
        """The stored columns that a filter compares."""
        names = list(dict.fromkeys(column.stored for column in columns))
        return self._project_stored(self.find(names), names)

    def _project_stored(self, places: list[int], names: list[str]) -> Projection:
        schema = pa.Schema._import_from_c_capsule(self._block.arrow_schema(places, names))
        return Projection(schema, plan_buckets(self._block, places))

    def _project_view(self, view: LogicalView, names: Sequence[str]) -> Projection:
        """Columns of which some are made of stored ones."""
        wanted: dict[str, set[str]] = {}
        for name in names:
            owner = name if name in view else view.paths.get(name, name)
            wanted.setdefault(owner, set()).add(name)
        stored: list[str] = []
        expected: list[StoredColumn] = []
        parts: list[tuple[pa.Field, Node, range] | int] = []
        for owner, asked in wanted.items():
            if owner not in view:
                parts.append(len(stored))
                stored.append(owner)
                continue
            column = self._column(view, owner)
            node, kept = select_paths(column.node, owner, asked.__contains__)
            assert node is not None
            start = len(stored)
            made_of = [each for each, is_kept in zip(column.stored, kept, strict=True) if is_kept]
            stored += [each.name for each in made_of]
            expected += made_of
            field = column.field if node is column.node else column.field.with_type(node.type)
            parts.append((field, node, range(start, len(stored))))
        self._check_stored(expected)
        base = self._project_stored(self.find(stored), stored)
        from smalti.logical.arrays import Assembly, Part  # see there why not at the top

        built = [
            part
            if isinstance(part, int)
            else Part(part[0], part[1], part[2], [view.entries.get(stored[place]) for place in part[2]])
            for part in parts
        ]
        fields = [part.field if isinstance(part, Part) else base.schema.field(part) for part in built]
        schema = pa.schema(fields).with_metadata(view.metadata or {})
        return Projection(schema, base.buckets, Assembly(schema, built), base.schema)

    def _stored_types(self, names: list[str]) -> list[pa.DataType | None]:
        """The types of stored columns, None for one that is not there."""
        places = self.find(names)
        there = [place for place in places if place >= 0]
        types = iter(pa.Schema._import_from_c_capsule(self._block.arrow_schema(there, [""] * len(there))).types)
        return [next(types) if place >= 0 else None for place in places]


def restore_bound(type_: pa.DataType | None) -> Callable[[pa.Scalar], pa.Scalar]:
    """From the bound of a stored column to one of the type that the column was given with; None is the stored one.

    That of a dictionary or of runs is one of the values in them.
    """
    if type_ is None:
        return lambda bound: bound
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return restore_bound(type_.value_type)

    def restore(bound: pa.Scalar) -> pa.Scalar:
        from smalti.logical.arrays import from_stored

        try:
            restored: pa.Scalar = from_stored(pa.array([bound], bound.type), type_)[0]
        except pa.ArrowException as error:
            raise CorruptFileError(f"statistics do not fit what the companion says ({error})") from None
        return restored

    return restore


def field_in_list(path: str) -> SchemaError:
    """The error of a filter that no row has one answer to."""
    reason = "a filter names a field inside a list or map, which has many values in each row"
    return SchemaError(reason, column=path, expected="the list or map itself, or a field of a struct")


def _filter_column(column: LogicalColumn, path: str) -> FilterColumn:
    """The stored column that stands for a column, a struct, or a field of one."""
    found = find_path(column.node, column.field.name, path)
    assert found is not None
    if found.is_entry:
        raise field_in_list(path)
    if found.is_repeated:  # Arrow compares no lists, but can say which are null, and how long they are.
        return FilterColumn(column.stored[found.index].name)
    if isinstance(found.node, Leaf):
        from smalti.logical.types import filter_type

        type_ = filter_type(found.node.type)
        return FilterColumn(column.stored[found.index].name, None if type_ == found.node.stored else type_)
    if found.presence is None:
        raise SchemaError("a struct that cannot be null cannot be compared; name one of its fields", column=path)
    return FilterColumn(column.stored[found.presence].name, is_presence=True)


class SharedSchemas:
    """Schema blocks that were checked already, for readers of many files. Safe to use from several threads."""

    def __init__(self) -> None:
        #: Compared one after the other, newest first: most differ in size already, and hashing takes longer.
        self._known: list[tuple[bytes, Compression, tuple[SchemaBlock, int]]] = []
        self._columns: dict[tuple[SchemaBlock, bytes], Columns] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Only its purpose travels to other processes, not what it knows."""
        return SharedSchemas, ()

    def parse(self, section: bytes, compression: Compression) -> tuple[SchemaBlock, int]:
        """As `smalti.mosaic.tail.parse_schema`; equal sections give the same block."""
        for known, how, parsed in self._known:
            if known == section and how is compression:
                return parsed
        parsed = parse_schema(section, compression)
        self._known = [(section, compression, parsed), *self._known[: MAX_KEPT - 1]]
        return parsed

    def columns(self, block: SchemaBlock, companion: Companion | None) -> Columns:
        """The columns of a block that `parse` has returned, as the payload of the companion has them."""
        key = block, b"" if companion is None else companion.payload
        known = self._columns.get(key)
        return _keep(self._columns, key, Columns(block, companion)) if known is None else known


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> Value:
    """Keep a value; the one that another thread was quicker to keep is returned instead, so that there is only one."""
    value = kept.setdefault(key, value)
    if len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)), None)
    return value

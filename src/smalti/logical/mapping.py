"""Maps given columns of a file to its stored columns, as the companion describes; the identity without a companion."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.arrow_c import field_kinds
from smalti._core.schema import SchemaBlock
from smalti.errors import CorruptFileError, MemoryLimitError, MosaicError, SchemaError
from smalti.format.companion import WRITER as OUR_WRITER
from smalti.format.companion import Companion, Description, parse_description, warn_of
from smalti.logical.dictionaries import Dictionary, Indexed, plan_indices
from smalti.logical.patterns import is_pattern, match_names
from smalti.logical.tree import (
    Leaf,
    LogicalColumn,
    Node,
    StoredColumn,
    StructNode,
    is_composite,
    paths_below,
    plan_column,
    select_paths,
    stored_columns,
)
from smalti.logical.types import compared_type, is_encoded, is_list_like, unwrapped
from smalti.mosaic.columns import MAX_KEPT, MAX_KEPT_COLUMNS, Columns, FilterColumn, Projection, keep
from smalti.mosaic.tail import parse_schema
from smalti.spec import Compression
from smalti.threads import renew_in_child
from smalti.units import show_count

if TYPE_CHECKING:
    from smalti.mosaic.scan import Assemble


@dataclass(frozen=True)
class LogicalProjection:
    """Columns of a read: their schema, the stored columns, and how batches of these become batches of the schema."""

    schema: pa.Schema
    stored: Projection
    assemble: Assemble | None = None


class LogicalView:
    """Columns whose Arrow type differs from their stored form, per the companion; none without a companion.

    There may be thousands of columns of another type, with one stored column of their own name: each of these is
    planned when it is first needed. Columns made of several stored columns, or of renamed ones, are planned at once,
    since their names must not collide. Raise CorruptFileError if the companion cannot describe the stored columns.
    """

    def __init__(self, description: Description, find: Callable[[list[str]], list[int]]) -> None:
        self._description = description
        schema = description.schema
        #: The index of each of these columns in the schema of the companion.
        self.indices = {name: index for index, name in enumerate(schema.names)}
        self._kinds = field_kinds(schema.__arrow_c_schema__())
        self._nodes: dict[object, Node] = {}
        self._columns: dict[str, LogicalColumn] = {}
        self._decoded: dict[str, Indexed] = {}
        self.metadata = schema.metadata or {}
        self.has_unknown_types = description.has_unknown_types
        #: The column that a stored column of another name belongs to.
        self.owner: dict[str, str] = {}
        #: The column that each path of a field belongs to.
        self.paths: dict[str, str] = {}
        #: Paths that name two things: two fields, or a field and a column.
        self.ambiguous: set[str] = set()
        made = [
            name
            for name, index in self.indices.items()
            if index in description.names or (self._kinds[index] is None and is_composite(schema.field(index).type))
        ]
        taken = self.indices.keys() - set(made)
        for name in made:
            column = self.column(name)
            for each in column.stored:
                if each.name in taken:
                    raise CorruptFileError("companion uses a column twice", column=each.name)
                taken.add(each.name)
                if each.name != name:
                    self.owner[each.name] = name
            for path in paths_below(column.node, name):
                if path in self.paths:
                    self.ambiguous.add(path)
                self.paths.setdefault(path, name)
        free = [name for name in (*self.paths, *made) if name not in taken]
        others = {name for name, position in zip(free, find(free), strict=True) if position >= 0}
        for name in made:
            if name in others:
                raise CorruptFileError("companion gives two columns one name", column=name)
        for path in others | self.paths.keys() & self.indices.keys():
            del self.paths[path]  # Another column has this name.
            self.ambiguous.add(path)

    def column(self, name: str) -> LogicalColumn:
        known = self._columns.get(name)
        if known is None:
            try:
                known = self._columns.setdefault(name, self._plan(name))
            except MosaicError as error:
                raise error.locate(section="companion") from None
        return known

    def _plan(self, name: str) -> LogicalColumn:
        index = self.indices[name]
        field, kind = self._description.schema.field(index), self._kinds[index]
        node = self._nodes.get(kind)
        if node is None:
            node = plan_column(field.type, field.nullable)
            if kind is not None:
                self._nodes[kind] = node
        stored = stored_columns(node, name, field.nullable)
        names = self._description.names.get(index)
        if names is not None:
            if len(names) != len(stored):
                raise CorruptFileError("companion has another number of columns", column=name)
            stored = [column._replace(name=name) for column, name in zip(stored, names, strict=True)]
        for column in stored if self._description.dictionaries else ():
            self.entries(column)
        return LogicalColumn(field, node, tuple(stored))

    def entries(self, column: StoredColumn) -> pa.Array | None:
        """The entries of the dictionary of a stored column, None if unknown. Refuse entries of another type."""
        entries = self._description.dictionaries.get(column.name)
        if entries is None:
            return None
        type_: Any = column.type if column.leaf is None else unwrapped(column.leaf.type)
        while is_list_like(type_):
            type_ = unwrapped(type_.value_type)
        if not (pt.is_dictionary(type_) and type_.value_type == entries.type):
            reason = "companion has a dictionary of another type"
            raise CorruptFileError(reason, column=column.name, found=str(entries.type), expected=str(type_))
        return entries

    def decoded(self, column: StoredColumn) -> Indexed:
        """See `plan_indices`. Made once for each column, so that its table of values is kept."""
        known = self._decoded.get(column.name)
        if known is None:
            known = self._decoded.setdefault(column.name, plan_indices(column, self.entries(column)))
        return known


@cache
def _without_companion() -> LogicalView:
    return LogicalView(Description(pa.schema([]), {}, {}), lambda _: [])


class ColumnMapping:
    """The columns of a file, or of several files with the same schema block and companion. Safe to use from threads.

    Columns have the names of the schema that was written; fields of structs can be read by their paths. Without a
    companion these are the names of the stored columns.
    """

    def __init__(self, stored: Columns, companion: Companion | None = None) -> None:
        self.stored = stored
        self._companion = companion if companion is not None and companion.payload else None
        self._projections: dict[tuple[str, ...], LogicalProjection] = {}

    @cached_property
    def _view(self) -> LogicalView:
        """The columns that the companion describes; it is parsed when it is first needed."""
        if self._companion is not None:
            is_ours = self._companion.writer == OUR_WRITER
            try:
                view = LogicalView(parse_description(self._companion.payload), self.stored.find)
                if not is_ours:  # A companion of another writer is used as a whole, or ignored.
                    self._check_stored([each for name in view.indices for each in view.column(name).stored])
                return view
            except MosaicError as error:
                if is_ours:
                    raise error.locate(section="companion") from None
                warn_of(str(error))
        return _without_companion()

    @property
    def has_unknown_types(self) -> bool:
        """Whether columns have extension types that were not registered, as far as the companion was parsed."""
        return "_view" in vars(self) and self._view.has_unknown_types

    def _check_stored(self, expected: Sequence[StoredColumn]) -> None:
        """Refuse columns that are not stored as the companion says."""
        types = self.stored.types([column.name for column in expected])
        for column, type_ in zip(expected, types, strict=True):
            if type_ != column.type:
                reason = "companion expects another column"
                raise CorruptFileError(reason, column=column.name, found=str(type_), expected=str(column.type))

    def described(self, names: Sequence[str]) -> list[LogicalColumn | None]:
        """How each column is stored if the companion describes it, None for a column that is stored as it is."""
        found = [self._view.column(name) if name in self._view.indices else None for name in names]
        self._check_stored([each for column in found if column is not None for each in column.stored])
        return found

    def entries(self, column: StoredColumn) -> pa.Array | None:
        """The entries of the dictionary that a stored column has values of; None if the companion does not tell."""
        return self._view.entries(column)

    def given_type(self, stored: str) -> pa.DataType | None:
        """The type that the values of a stored column were given with, None if it is the stored one."""
        owner = self._view.owner.get(stored, stored)
        if owner not in self._view.indices:
            return None
        column = self._view.column(owner).by_name[stored]
        self._check_stored([column])
        return column.given_type

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.names[:5])) + (", …" if len(self.names) > 5 else "")
        return f"<{show_count(len(self.names), 'column')}: {shown}>"

    def __len__(self) -> int:
        """The number of columns; the companion is not parsed if there is nothing in it."""
        return self.stored.block.num_columns if self._companion is None else len(self.names)

    @cached_property
    def names(self) -> list[str]:
        """Names in the order the columns were written."""
        view, stored = self._view, self.stored.names
        if not view.indices:
            return stored
        names = dict.fromkeys(view.owner.get(name, name) for name in stored)
        for name in view.indices:
            if name not in names:
                raise CorruptFileError("companion expects another column", section="companion", column=name)
        return list(names)

    @property
    def schema(self) -> pa.Schema:
        """All columns in the order they were written."""
        return self.every.schema

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """A key for the type of each column, see `field_kinds`, in the order of `names`."""
        return field_kinds(self.schema.__arrow_c_schema__()) if self._view.indices else self.stored.kinds

    def present(self, names: Sequence[str]) -> list[str]:
        """The names that exist: columns, and paths of fields."""
        view, positions = self._view, self.stored.find(names)
        return [
            name
            for name, position in zip(names, positions, strict=True)
            if name in view.indices or name in view.paths or (position >= 0 and name not in view.owner)
        ]

    def whole(self, names: Sequence[str]) -> list[str]:
        """The names that are columns, not fields of structs."""
        view = self._view
        return [name for name in self.present(names) if name in view.indices or name not in view.paths]

    def nearest_struct(self, path: str) -> str | None:
        """The innermost existing struct on a path to a field that is missing; None if there is none."""
        while "." in path:
            path = path.rpartition(".")[0]
            if path in self._view.indices or path in self._view.paths:
                return path
        return None

    def select(self, columns: Sequence[str]) -> list[str]:
        """The names that `columns` asks for, each once: a pattern such as ``click.*`` stands for all that match it.

        A name that exists is never treated as a pattern.
        """
        if not any(isinstance(name, str) and is_pattern(name) for name in columns):
            return list(dict.fromkeys(columns))
        return match_names([*self.names, *self._view.paths], columns)

    # --- projections ----------------------------------------------------------------------------------------------

    @cached_property
    def every(self) -> LogicalProjection:
        """A read of all columns in the order they were written."""
        return self._assembled(self.names) if self._view.indices else self._unchanged(self.stored.every)

    def project(self, names: Sequence[str]) -> LogicalProjection:
        """The columns of a read. They must exist and be named once each.

        Requested fields of one struct are returned as one struct, at the index of the first of them.
        """
        view, key = self._view, tuple(names)
        known = self._projections.get(key)
        if known is None:
            is_stored = not any(name in view.indices or name in view.paths for name in names)
            known = self._unchanged(self.stored.project(names)) if is_stored else self._assembled(names)
            known = keep(self._projections, key, known)
        return known

    def _unchanged(self, stored: Projection) -> LogicalProjection:
        """A projection of stored columns, to which only the metadata of the schema is added."""
        metadata = self._view.metadata
        if not metadata:
            return LogicalProjection(stored.schema, stored)

        def assemble(batch: pa.RecordBatch, _: object) -> pa.RecordBatch:
            return batch.replace_schema_metadata(metadata)

        return LogicalProjection(stored.schema.with_metadata(metadata), stored, assemble)

    def _assembled(self, names: Sequence[str]) -> LogicalProjection:
        """A projection of which some columns are made from stored ones."""
        from smalti.logical.arrays import Part, assemble  # loads Arrow's compute functions, which takes long

        view, wanted = self._view, defaultdict[str, set[str]](set)
        for name in names:
            wanted[name if name in view.indices else view.paths.get(name, name)].add(name)
        stored: list[str] = []
        expected: list[StoredColumn] = []
        parts: list[Part | int] = []
        types: dict[int, pa.DataType] = {}
        dictionaries: dict[int, tuple[tuple[int, Dictionary], ...]] = {}
        for owner, asked in wanted.items():
            if owner not in view.indices:
                parts.append(len(stored))
                stored.append(owner)
                continue
            column = view.column(owner)
            node, is_kept = select_paths(column.node, owner, asked.__contains__)
            assert node is not None
            made_of = list(compress(column.stored, is_kept))
            field = column.field if node is column.node else column.field.with_type(node.type)
            entries: list[pa.Array | Dictionary | None] = []
            for index, each in enumerate(made_of, len(stored)):
                entries.append(view.entries(each))
                if each.leaf is not None and each.leaf.has_dictionary:
                    type_, found = view.decoded(each)
                    if found:
                        entries[-1] = found[0][1]
                        types[index], dictionaries[index] = type_, tuple(found)
            parts.append(Part(field, node, len(stored), entries))
            stored += [each.name for each in made_of]
            expected += made_of
        self._check_stored(expected)
        base = self.stored.project(stored).with_dictionaries(types, dictionaries)
        fields = [part.field if isinstance(part, Part) else base.schema.field(part) for part in parts]
        schema = pa.schema(fields).with_metadata(view.metadata)
        return LogicalProjection(schema, base, partial(assemble, schema, parts))

    # --- filters --------------------------------------------------------------------------------------------------

    def filter_columns(self, names: Sequence[str], computed: Set[str] = frozenset()) -> dict[str, FilterColumn]:
        """The stored columns that are compared for each name, which must exist: all of them for `computed` names."""
        view, found = self._view, {}
        for name in names:
            owner = name if name in view.indices else view.paths.get(name)
            if owner is None:
                found[name] = FilterColumn((name,))
                continue
            column = view.column(owner)
            found[name] = _filter_column(column, name, is_computed=name in computed)
            self._check_stored([column.by_name[each] for each in found[name].stored])
        return found

    def refuse_ambiguous(self, nested: Iterable[str]) -> None:
        """Refuse names that were meant as fields of structs, if they could be read as something else."""
        for name in nested:
            if name in self._view.ambiguous:
                raise SchemaError("a filter names a field of a struct by a path that leads to two things", found=name)


def _filter_column(column: LogicalColumn, path: str, *, is_computed: bool) -> FilterColumn:
    """The stored columns that a filter reads, and the type to compare them in. For a struct: its presence column."""
    import pyarrow.compute as pc

    from smalti.logical.arrays import assemble_array, misfit

    found = column.by_path[path]
    node, names = found.node, tuple(each.name for each in column.stored[found.first : found.first + found.node.width])
    if found.is_entry:
        raise field_in_list(path)
    if isinstance(node, StructNode):
        if found.presence is None:
            raise SchemaError("a struct that cannot be null cannot be compared; name one of its fields", column=path)
        # Only whether a struct is null can be compared. Struct-presence columns have no statistics.
        return FilterColumn(
            (column.stored[found.presence].name,),
            pa.struct([]),
            lambda presence: pc.if_else(presence, presence, pa.scalar(None, pa.bool_())),
            has_bounds=False,
        )
    type_ = compared_type(node.type)
    if pt.is_nested(type_) and not is_computed:  # Arrow compares no lists, and the first column tells which are null.
        return FilterColumn(names[:1])
    if isinstance(node, Leaf) and type_ == node.stored:
        given = unwrapped(node.type)
        is_category = pt.is_dictionary(given) and not is_computed and (pt.is_string(type_) or pt.is_binary(type_))
        compared = pa.dictionary(
            pa.int32(), type_
        )  # A row group of a foreign file may have more values than `given` counts.
        return FilterColumn(names, dictionary=Dictionary(None, type_, compared) if is_category else None)

    def restore(*arrays: pa.Array) -> pa.Array:
        try:
            restored: pa.Array = assemble_array(node, type_, arrays)
            return restored
        except (MemoryLimitError, MemoryError):
            raise
        except (pa.ArrowException, ValueError) as error:
            raise misfit(names[0], error) from None

    return FilterColumn(names, type_, restore, has_bounds=isinstance(node, Leaf))


def field_in_list(path: str) -> SchemaError:
    """The error of a filter that has no single answer for a row."""
    reason = "a filter names a field inside a list or map, which has many values in each row"
    return SchemaError(reason, column=path, expected="the list or map itself, or a field of a struct")


def restore_bound(type_: Any, bound: pa.Scalar) -> pa.Scalar:
    """Convert a bound to the given type (None: unchanged); for dictionaries and runs, to their value type."""
    if type_ is None:
        return bound
    from smalti.logical.arrays import from_stored

    while is_encoded(type_):
        type_ = type_.value_type
    try:
        restored: pa.Scalar = from_stored(pa.array([bound], bound.type), type_)[0]
        return restored
    except pa.ArrowException as error:
        raise CorruptFileError(f"statistics do not fit what the companion says ({error})") from None


@dataclass(frozen=True)
class _SharedBlock:
    """A schema block that was checked, the section that it came from, and its columns by the payload of companions."""

    section: bytes
    compression: Compression
    parsed: tuple[SchemaBlock, int]
    columns: Columns
    mappings: dict[tuple[bytes, int], ColumnMapping] = field(default_factory=dict)


class SharedSchemas:
    """Schema blocks that were checked already, for readers of many files. Safe to use from several threads.

    Files with equal sections and companions get the same objects, also if threads open them at the same time. So a
    table of such files has its columns looked up once, and comparing two files compares two addresses.
    """

    def __init__(self) -> None:
        #: Compared one after the other, newest first: most sections differ in size, and hashing takes longer.
        self._known: list[_SharedBlock] = []
        renew_in_child(self)

    def renew_lock(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes get an empty object, without the schema blocks."""
        return SharedSchemas, ()

    def _find(self, section: bytes, compression: Compression) -> _SharedBlock | None:
        for known in self._known:
            if known.section == section and known.compression is compression:
                return known
        return None

    def parse(
        self, section: bytes, compression: Compression, take: Callable[[int], None] | None = None
    ) -> tuple[SchemaBlock, int]:
        """As `smalti.mosaic.tail.parse_schema`; equal sections give the same block."""
        known = self._find(section, compression)
        if known is None:
            parsed = parse_schema(section, compression, take)
            with self._lock:  # Another thread may have parsed an equal section meanwhile: then all use its block.
                known = self._find(section, compression)
                if known is None:
                    known = _SharedBlock(section, compression, parsed, Columns(parsed[0]))
                    self._known = _newest([known, *self._known])
        return known.parsed

    def columns(self, block: SchemaBlock, companion: Companion | None) -> ColumnMapping:
        """The columns of a block that `parse` has returned, as the payload of the companion describes them."""
        shared = next((known for known in self._known if known.parsed[0] is block), None)
        if shared is None:  # It was parsed, and forgotten since.
            return ColumnMapping(Columns(block), companion)
        key = (b"", 0) if companion is None else (companion.payload, companion.writer)
        with self._lock:
            known = shared.mappings.get(key)
            if known is not None and not known.has_unknown_types:  # They may have been registered since.
                return known
            shared.mappings.pop(key, None)
            return keep(shared.mappings, key, ColumnMapping(shared.columns, companion))

    def forget(self) -> None:
        """Forget all blocks."""
        self._known = []


def _newest(blocks: Sequence[_SharedBlock]) -> list[_SharedBlock]:
    """The first block, and as many after it as are kept: few, and of not too many columns together."""
    widths = accumulate(known.parsed[0].num_columns for known in blocks)
    fitting = [known for known, width in zip(blocks[:MAX_KEPT], widths, strict=False) if width <= MAX_KEPT_COLUMNS]
    return fitting or list(blocks[:1])


#: The schema blocks of the files that this process has opened last. The next file most often has one of them, and then
#: it is neither decompressed nor checked nor searched again.
PROCESS_SCHEMAS = SharedSchemas()

"""How a column of any Arrow type is made of stored columns, which have no structs: a tree of nodes for each column.

A struct is stored as one column for each leaf, named by its path (``user.age``), and, where the struct may be null or
has no fields, a BOOLEAN under the struct's own name that is false for a null struct. Lists of structs become parallel
lists, one for each leaf. Only types are handled here; `smalti.logical.arrays` changes arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.arrow_c import field_kinds
from smalti.errors import SchemaError
from smalti.format.types import TYPE_IDS, pack_descriptor
from smalti.logical.types import (
    contains_type,
    entry_field,
    is_legacy_timestamp,
    is_list_like,
    map_of,
    nested_too_deep,
    storage_kind,
    storage_type,
    unwrapped,
    with_element,
)
from smalti.spec import MAX_NAME_SIZE, MAX_NESTING

#: Bytes that are stored of a name which is too long for the format.
SHORTENED_NAME_SIZE = 1000


@dataclass(frozen=True)
class Leaf:
    """A value that one stored column holds, as it is or as another type."""

    type: pa.DataType
    stored: pa.DataType
    width = 1

    @cached_property
    def has_dictionary(self) -> bool:
        return contains_type(self.type, pt.is_dictionary)


@dataclass(frozen=True)
class StructNode:
    """A struct, or an extension type of one: its fields, and whether it has a presence column (a BOOLEAN)."""

    type: Any
    fields: tuple[tuple[str, Node], ...]
    has_presence: bool

    @cached_property
    def width(self) -> int:
        """The number of stored columns."""
        return self.has_presence + sum(node.width for _, node in self.fields)


@dataclass(frozen=True)
class ListNode:
    """A list of any layout, a map, or an extension type of them, whose elements take several stored columns.

    The `entry` of a map is a struct.
    """

    type: Any
    entry: Node

    @property
    def width(self) -> int:
        """The number of stored columns."""
        return self.entry.width


Node: TypeAlias = "Leaf | StructNode | ListNode"


def plan_column(type_: pa.DataType, nullable: bool, depth: int = 0) -> Node:
    """The tree of a column. Raise SchemaError if there is no way to store the type."""
    if depth > MAX_NESTING:
        raise nested_too_deep(depth)
    if not is_composite(type_):
        return Leaf(type_, storage_type(type_, depth))
    layout = unwrapped(type_)
    if not pt.is_struct(layout):
        is_map = pt.is_map(layout)
        entry = pa.struct([layout.key_field, layout.item_field]) if is_map else layout.value_type
        return ListNode(type_, plan_column(entry, not is_map and layout.value_field.nullable, depth + 1))
    names = [field.name for field in layout]
    if len(set(names)) != len(names):
        raise SchemaError("a struct has two fields of one name", found=str(layout))
    fields = tuple((field.name, plan_column(field.type, field.nullable, depth + 1)) for field in layout)
    return StructNode(type_, fields, nullable or not fields)


def is_composite(type_: Any) -> bool:
    """Whether a column of the type takes more than one stored column, or is an empty struct."""
    type_ = unwrapped(type_)
    if pt.is_struct(type_):
        return not is_legacy_timestamp(type_)
    if is_list_like(type_):
        return is_composite(type_.value_type)
    if pt.is_map(type_):
        key = storage_kind(type_.key_type)
        return is_composite(type_.key_type) or is_composite(type_.item_type) or pt.is_nested(key)
    return False


class StoredColumn(NamedTuple):
    """A column as it is stored. It holds the values of a leaf, or is a presence column (`leaf` is None)."""

    name: str
    type: pa.DataType
    nullable: bool
    leaf: Leaf | None

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, self.nullable)

    @property
    def given_type(self) -> pa.DataType | None:
        """The given type of the values, None if it is the stored type."""
        leaf = self.leaf
        return leaf.type if leaf is not None and leaf.type != leaf.stored == self.type else None


def stored_columns(node: Node, name: str, nullable: bool) -> list[StoredColumn]:
    """The stored columns of a tree, in order: the presence column of a struct before the columns of its fields.

    Examples
    --------
    >>> user = pa.struct([pa.field("age", pa.int32()), pa.field("tags", pa.list_(pa.string()))])
    >>> [(column.name, str(column.type)) for column in stored_columns(plan_column(user, True), "user", True)]
    [('user', 'bool'), ('user.age', 'int32'), ('user.tags', 'list<item: string>')]
    """
    if isinstance(node, Leaf):
        return [StoredColumn(name, node.stored, nullable, node)]
    if isinstance(node, StructNode):
        columns = [StoredColumn(name, pa.bool_(), False, None)] if node.has_presence else []
        for (child, inner), field in zip(node.fields, unwrapped(node.type), strict=True):
            columns += stored_columns(inner, f"{name}.{child}", nullable or field.nullable)
        return columns
    entry = entry_field(node.type)
    return [
        column._replace(type=pa.list_(pa.field(entry.name, column.type, column.nullable)), nullable=nullable)
        for column in stored_columns(node.entry, name, entry.nullable)
    ]


def storable_name(name: str) -> str:
    """A name that the format can hold; the companion keeps the given name.

    Examples
    --------
    >>> storable_name("a"), storable_name(""), storable_name("a\\0b")
    ('a', '_', 'a␀b')
    """
    name = name.replace("\0", "␀") or "_"
    data = name.encode()
    return name if len(data) <= MAX_NAME_SIZE else data[:SHORTENED_NAME_SIZE].decode(errors="ignore")


def unique_name(name: str, taken: set[str]) -> str:
    """Make a name unique, and add it to `taken`: ``user.age`` becomes ``user.age#2`` where a column has that name."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}#{number}"
    taken.add(unique)
    return unique


# --- a whole schema -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogicalColumn:
    """A column whose Arrow field differs from its stored form: in type, name, metadata or number of columns."""

    field: pa.Field
    node: Node
    stored: tuple[StoredColumn, ...]

    @cached_property
    def by_name(self) -> dict[str, StoredColumn]:
        return {each.name: each for each in self.stored}

    @cached_property
    def by_path(self) -> dict[str, Step]:
        """The column and the fields of its structs; the first, where two fields have one name."""
        found: dict[str, Step] = {}
        for step in walk(self.node, self.field.name):
            found.setdefault(step.path, step)
        return found

    @cached_property
    def by_leaf(self) -> dict[int, StoredColumn]:
        """The stored columns of leaves, by the `id` of the leaf: leaves of equal types are equal."""
        return {id(each.leaf): each for each in self.stored if each.leaf is not None}


@dataclass(frozen=True)
class StoredSchema:
    """A schema as it is stored, with the packed types of its columns, and how the given columns map to it."""

    schema: pa.Schema
    descriptors: list[bytes]
    #: The columns of the given schema that differ from their stored form, by their indices in it.
    columns: dict[int, LogicalColumn]
    #: The index of the first stored column of each given column.
    starts: list[int]
    #: A key of the type of each given column, see `field_kinds`.
    kinds: list[tuple[bytes, int] | None]


def _renamed(names: list[str]) -> set[int]:
    """The indices of names that the format cannot hold. Nearly always all names can be ruled out together."""
    if "" not in names and "\0" not in "".join(names) and max(map(len, names), default=0) * 4 <= MAX_NAME_SIZE:
        return set()
    return {index for index, name in enumerate(names) if storable_name(name) != name}


def _exported(schema: pa.Schema) -> object:
    """The schema for kernels. Arrow cannot export some types, such as extension types of extension types."""
    try:
        return schema.__arrow_c_schema__()
    except pa.ArrowNotImplementedError:
        for field in schema:
            try:
                field.__arrow_c_schema__()
            except pa.ArrowNotImplementedError as error:
                reason = f"type has no place in Mosaic ({error})"
                raise SchemaError(reason, column=field.name, found=str(field.type)) from None
        raise


def _unchanged(schema: pa.Schema, kinds: list[tuple[bytes, int] | None]) -> list[bytes] | None:
    """The descriptors of a schema whose columns are all stored as they are; None if some are not.

    Most wide tables are of a few such types, and nothing is done for each of their columns.
    """
    descriptors: dict[Any, bytes] = {}
    for kind, index in dict(zip(kinds, range(len(kinds)), strict=True)).items():
        field = schema.field(index)
        if kind is None or field.type not in TYPE_IDS:
            return None
        descriptors[kind] = pack_descriptor(field.type, field.nullable)
    return list(map(descriptors.__getitem__, kinds))


#: The last schema that was planned, with its plan: a job writes many files of the same schema, one after the other.
_last: tuple[pa.Schema, StoredSchema] | None = None


def plan_schema(schema: pa.Schema) -> StoredSchema:
    """Decide how a schema is stored. Each distinct type is planned once, and the same object is not planned again.

    Raise SchemaError with the name of the first column that cannot be stored.
    """
    global _last
    last = _last  # Another thread may replace it at any moment.
    if last is None or last[0] is not schema:
        _last = last = schema, _plan_schema(schema)
    return last[1]


def _plan_schema(schema: pa.Schema) -> StoredSchema:
    #: By type key, for types stored as one column: the leaf (None if stored unchanged) and the descriptor.
    known: dict[Any, tuple[Leaf | None, bytes]] = {}
    columns: dict[int, LogicalColumn] = {}
    descriptors: list[bytes] = []
    starts: list[int] = []
    taken: set[str] | None = None
    renamed = _renamed(schema.names)
    kinds = field_kinds(_exported(schema))
    if not renamed:
        unchanged = _unchanged(schema, kinds)
        if unchanged is not None:
            return StoredSchema(schema.remove_metadata(), unchanged, {}, list(range(len(kinds))), kinds)
    for i, kind in enumerate(kinds):
        starts.append(len(descriptors))
        if kind in known and i not in renamed:
            leaf, descriptor = known[kind]
            descriptors.append(descriptor)
            if leaf is not None:
                field = schema.field(i)
                columns[i] = LogicalColumn(field, leaf, (StoredColumn(field.name, leaf.stored, field.nullable, leaf),))
            continue
        field = schema.field(i)
        try:
            node = plan_column(field.type, field.nullable)
            stored = stored_columns(node, field.name, field.nullable)
            stored = [column._replace(name=storable_name(column.name)) for column in stored]
            descriptors += [pack_descriptor(column.type, column.nullable) for column in stored]
        except SchemaError as error:
            raise error.locate(column=field.name) from None
        is_same = len(stored) == 1 and stored[0].field.equals(field, check_metadata=True)
        if len(stored) > 1 or stored[0].name != field.name:
            # No leaf gets the name of another column, or of its struct.
            taken = set(schema.names) if taken is None else taken
            stored = [c if c.name == field.name else c._replace(name=unique_name(c.name, taken)) for c in stored]
        elif kind is not None and isinstance(node, Leaf):
            known[kind] = None if is_same else node, descriptors[-1]
        if not is_same:
            columns[i] = LogicalColumn(field, node, tuple(stored))
    if not columns:
        return StoredSchema(schema.remove_metadata(), descriptors, {}, starts, kinds)
    fields = [[c.field for c in columns[i].stored] if i in columns else [field] for i, field in enumerate(schema)]
    return StoredSchema(pa.schema(chain.from_iterable(fields)), descriptors, columns, starts, kinds)


# --- paths ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A node that a path leads to. Indices count the stored columns of the column that the node is in.

    `first` is the index of the node's first stored column. `presence` is the index of the presence column
    of this struct, or of the nearest enclosing struct, or None. `is_entry`: the node is in a list or map.
    """

    path: str
    node: Node
    first: int
    presence: int | None
    is_entry: bool


def walk(node: Node, path: str, first: int = 0, presence: int | None = None, is_entry: bool = False) -> Iterator[Step]:
    """All nodes that have a path: the column itself, then the fields of structs, also of structs in lists and maps."""
    inner = node
    while isinstance(inner, ListNode):
        inner = inner.entry
    if isinstance(inner, StructNode) and inner.has_presence:
        presence = first
    yield Step(path, node, first, presence, is_entry)
    if isinstance(inner, StructNode):
        first += inner.has_presence
        for name, child in inner.fields:
            yield from walk(child, f"{path}.{name}", first, presence, is_entry or inner is not node)
            first += child.width


def paths_below(node: Node, name: str) -> list[str]:
    """The paths of all fields of structs below a column, which can be read alone."""
    return [step.path for step in walk(node, name)][1:]


def _path_owners(schema: pa.Schema) -> dict[str, str]:
    """The column that has the field at each path; the first if several have it."""
    owners: dict[str, str] = {}
    for field in schema:
        if pt.is_nested(storage_kind(field.type)):
            for path in paths_below(plan_column(field.type, field.nullable), field.name):
                owners.setdefault(path, field.name)
    return owners


def field_paths(schema: pa.Schema) -> list[str]:
    """The paths of all fields of structs, at any depth.

    Examples
    --------
    >>> field_paths(pa.schema([("id", pa.int64()), ("user", pa.struct([("age", pa.int32())]))]))
    ['user.age']
    """
    names = set(schema.names)
    return [path for path in _path_owners(schema) if path not in names]


def select_paths(node: Node, name: str, wanted: Callable[[str], bool]) -> tuple[Node | None, list[bool]]:
    """The tree without the leaves that are not wanted, None if none is left; and which stored columns it keeps.

    A struct stays a struct with fewer fields, as in a projection of Parquet; an extension type whose storage changes
    is dropped. The keys of a map always stay.
    """
    if wanted(name):
        return node, [True] * node.width
    if isinstance(node, Leaf):
        return None, [False]
    type_: Any = unwrapped(node.type)
    if isinstance(node, StructNode):
        fields, kept = [], [True] * node.has_presence
        for child, inner in node.fields:
            part, columns = select_paths(inner, f"{name}.{child}", wanted)
            kept += columns
            if part is not None:
                fields.append((child, part))
        types = [type_.field(child).with_type(part.type) for child, part in fields]
        struct = StructNode(pa.struct(types), tuple(fields), node.has_presence)
        return (struct, kept) if fields else (None, [False] * node.width)
    if not pt.is_map(type_):
        entry, kept = select_paths(node.entry, name, wanted)
        if entry is None:
            return None, kept
        return ListNode(with_element(type_, type_.value_field.with_type(entry.type)), entry), kept
    assert isinstance(node.entry, StructNode)
    (key, keys), (item, items) = node.entry.fields
    part, kept = select_paths(items, f"{name}.{item}", wanted)
    if part is None:  # Without values it would be no map: keep it whole, or drop it.
        is_kept = select_paths(keys, f"{name}.{key}", wanted)[0] is not None
        return (node if is_kept else None), [is_kept] * node.width
    type_ = map_of(type_.key_field, type_.item_field.with_type(part.type), type_.keys_sorted)
    entry = StructNode(entry_field(type_).type, ((key, keys), (item, part)), False)
    return ListNode(type_, entry), [True] * keys.width + kept


def project_schema(schema: pa.Schema, names: Sequence[str]) -> tuple[pa.Schema, list[str]]:
    """The fields that names and paths ask for, as a read gives them, and the names that do not exist.

    Examples
    --------
    >>> schema = pa.schema([("id", pa.int64()), ("user", pa.struct([("age", pa.int32()), ("name", pa.string())]))])
    >>> project_schema(schema, ["user.age", "nope"])
    (user: struct<age: int32>
      child 0, age: int32, ['nope'])
    """
    owners = {name: name for name in schema.names}
    if any(name not in owners for name in names):
        owners = _path_owners(schema) | owners
    wanted: dict[str, set[str]] = {}
    for name in names:
        if name in owners:
            wanted.setdefault(owners[name], set()).add(name)
    fields = []
    for owner, asked in wanted.items():
        field = schema.field(owner)
        if owner not in asked:
            node, _ = select_paths(plan_column(field.type, field.nullable), owner, asked.__contains__)
            assert node is not None
            field = field.with_type(node.type)
        fields.append(field)
    return pa.schema(fields).with_metadata(schema.metadata or {}), [name for name in names if name not in owners]


def parts_of_both(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """The leaf types that two types have at the same path, without extensions, dictionaries and runs around them.

    Examples
    --------
    >>> a, b = pa.list_(pa.struct([("x", pa.int8()), ("y", pa.int8())])), pa.large_list(pa.struct([("x", pa.string())]))
    >>> list(parts_of_both(a, b))
    [('.item.x', DataType(int8), DataType(string))]
    """
    a, b = storage_kind(a), storage_kind(b)
    if pt.is_map(a) and pt.is_map(b):
        yield from parts_of_both(a.key_type, b.key_type, f"{path}.key")
        yield from parts_of_both(a.item_type, b.item_type, f"{path}.value")
    elif is_list_like(a) and is_list_like(b):
        yield from parts_of_both(a.value_type, b.value_type, f"{path}.item")
    elif pt.is_struct(a) and pt.is_struct(b):
        names = {field.name for field in a}
        for field in b:
            if field.name in names:
                yield from parts_of_both(a.field(field.name).type, field.type, f"{path}.{field.name}")
    else:
        yield path, a, b

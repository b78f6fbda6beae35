"""How a column of any Arrow type is made of stored columns, which have no structs: a tree of nodes for each column.

A struct is stored as one column for each leaf, named by its path (``user.age``), and, where the struct may be null or
has no fields, a BOOLEAN under the struct's own name that is false for a null struct. Lists of structs become parallel
lists, one for each leaf. Only types are handled here; `smalti.logical.arrays` changes arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.arrow_c import field_kinds
from smalti.errors import SchemaError
from smalti.format.types import pack_descriptor
from smalti.logical.types import (
    entry_field,
    is_legacy_timestamp,
    is_list_like,
    map_of,
    storage_kind,
    storage_type,
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


@dataclass(frozen=True)
class StructNode:
    """A struct: its fields, and whether a BOOLEAN column records which structs are null."""

    type: pa.StructType
    fields: tuple[tuple[str, Node], ...]
    has_presence: bool


@dataclass(frozen=True)
class ListNode:
    """A list of any layout, or a map, whose elements take several stored columns; `entry` of a map is a struct."""

    type: Any
    entry: Node


@dataclass(frozen=True)
class ExtensionNode:
    """An extension type around a struct or a list of structs."""

    type: Any
    inner: Node


Node: TypeAlias = "Leaf | StructNode | ListNode | ExtensionNode"


def plan_column(type_: pa.DataType, nullable: bool, depth: int = 0) -> Node:
    """The tree of a column. Raise SchemaError if there is no way to store the type."""
    if depth > MAX_NESTING:
        raise SchemaError("types are nested too deep", found=depth, expected=f"{MAX_NESTING} levels at most")
    if not is_composite(type_):
        return Leaf(type_, storage_type(type_, depth))
    if isinstance(type_, pa.BaseExtensionType):
        return ExtensionNode(type_, plan_column(type_.storage_type, nullable, depth + 1))
    if pt.is_struct(type_):
        fields: list[pa.Field] = list(type_)
        names = [field.name for field in fields]
        if len(set(names)) != len(names):
            raise SchemaError("a struct has two fields of one name", found=str(type_))
        nodes = [plan_column(field.type, field.nullable, depth + 1) for field in fields]
        return StructNode(type_, tuple(zip(names, nodes, strict=True)), nullable or not fields)
    if is_list_like(type_):
        return ListNode(type_, plan_column(type_.value_type, type_.value_field.nullable, depth + 1))
    if pt.is_map(type_):
        return ListNode(type_, plan_column(pa.struct([type_.key_field, type_.item_field]), False, depth + 1))
    raise SchemaError("type has no place in Mosaic", found=str(type_))


def is_composite(type_: Any) -> bool:
    """Whether a column of the type takes more than one stored column."""
    if isinstance(type_, pa.BaseExtensionType):
        return is_composite(type_.storage_type)
    if pt.is_struct(type_):
        return not is_legacy_timestamp(type_)
    if is_list_like(type_):
        return is_composite(type_.value_type)
    if pt.is_map(type_):
        key = storage_kind(type_.key_type)
        return is_composite(type_.key_type) or is_composite(type_.item_type) or pt.is_nested(key)
    return False


@dataclass(frozen=True)
class StoredColumn:
    """A column as it is stored."""

    name: str
    type: pa.DataType
    nullable: bool

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, self.nullable)


def stored_columns(node: Node, name: str, nullable: bool) -> list[StoredColumn]:
    """The columns of a tree, in order: a struct's own before those of its fields.

    Examples
    --------
    >>> user = pa.struct([pa.field("age", pa.int32()), pa.field("tags", pa.list_(pa.string()))])
    >>> [(column.name, str(column.type)) for column in stored_columns(plan_column(user, True), "user", True)]
    [('user', 'bool'), ('user.age', 'int32'), ('user.tags', 'list<item: string>')]
    """
    if isinstance(node, Leaf):
        return [StoredColumn(name, node.stored, nullable)]
    if isinstance(node, ExtensionNode):
        return stored_columns(node.inner, name, nullable)
    if isinstance(node, StructNode):
        columns = [StoredColumn(name, pa.bool_(), False)] if node.has_presence else []
        for (child, inner), field in zip(node.fields, node.type, strict=True):
            columns += stored_columns(inner, f"{name}.{child}", nullable or field.nullable)
        return columns
    entry = entry_field(node.type)
    return [
        replace(column, type=pa.list_(pa.field(entry.name, column.type, column.nullable)), nullable=nullable)
        for column in stored_columns(node.entry, name, entry.nullable)
    ]


def leaves(node: Node) -> Iterator[Leaf | None]:
    """The leaf of each stored column of a tree, None for a column that records which structs are null."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, StructNode):
        if node.has_presence:
            yield None
        for _, inner in node.fields:
            yield from leaves(inner)
    else:
        yield from leaves(node.inner if isinstance(node, ExtensionNode) else node.entry)


def width(node: Node) -> int:
    """The number of stored columns of a tree."""
    return 1 if isinstance(node, Leaf) else sum(1 for _ in leaves(node))


def storable_name(name: str) -> str:
    """A name that the format can hold; the companion keeps the given one.

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

    @property
    def is_converted(self) -> bool:
        """Whether the stored type or name differs; False if there is only metadata to keep."""
        first, *others = self.stored
        return bool(others) or (first.name, first.type) != (self.field.name, self.field.type)

    def leaf_type(self, name: str) -> pa.DataType | None:
        """The given type of the values of a stored column, None if it is the stored type."""
        for each, leaf in zip(self.stored, leaves(self.node), strict=True):
            if each.name == name and leaf is not None and leaf.type != leaf.stored == each.type:
                return leaf.type
        return None


@dataclass(frozen=True)
class StoredSchema:
    """A schema as it is stored, with the packed types of its columns, and how the given columns map to it."""

    schema: pa.Schema
    descriptors: list[bytes]
    #: The columns of the given schema that differ from their stored form, by their indexes in it.
    columns: dict[int, LogicalColumn]
    #: The index of the first stored column of each given column, and at the end the number of stored columns.
    starts: Sequence[int]


def _renamed(names: list[str]) -> set[int]:
    """The indexes of names that the format cannot hold. Nearly always all names can be ruled out together."""
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


def plan_schema(schema: pa.Schema) -> StoredSchema:
    """Decide how a schema is stored. Each distinct type is planned once.

    Raise SchemaError with the name of the first column that cannot be stored.
    """
    #: Of types that need no other columns: the leaf, None if the column is stored as it is given, and the packed type.
    known: dict[Any, tuple[Leaf | None, list[bytes]]] = {}
    columns: dict[int, LogicalColumn] = {}
    packed: list[list[bytes]] = []
    taken: set[str] | None = None
    renamed = _renamed(schema.names)
    for i, kind in enumerate(field_kinds(_exported(schema))):
        if kind in known and i not in renamed:
            leaf, descriptor = known[kind]
            packed.append(descriptor)
            if leaf is not None:
                field = schema.field(i)
                columns[i] = LogicalColumn(field, leaf, (StoredColumn(field.name, leaf.stored, field.nullable),))
            continue
        field = schema.field(i)
        try:
            node = plan_column(field.type, field.nullable)
            stored = stored_columns(node, field.name, field.nullable)
            stored = [replace(column, name=storable_name(column.name)) for column in stored]
            packed.append([pack_descriptor(column.type, column.nullable) for column in stored])
        except SchemaError as error:
            raise error.locate(column=field.name) from None
        is_same = len(stored) == 1 and stored[0].field.equals(field, check_metadata=True)
        if len(stored) > 1 or stored[0].name != field.name:
            # Names of other columns stay theirs, and the name of the struct itself is not given to its leaves.
            taken = set(schema.names) if taken is None else taken
            stored = [c if c.name == field.name else replace(c, name=unique_name(c.name, taken)) for c in stored]
        elif kind is not None and (is_same or isinstance(node, Leaf)):
            known[kind] = node if isinstance(node, Leaf) and not is_same else None, packed[-1]
        if not is_same:
            columns[i] = LogicalColumn(field, node, tuple(stored))
    if not columns:
        return StoredSchema(schema.remove_metadata(), list(chain.from_iterable(packed)), {}, range(len(packed) + 1))
    fields = [[c.field for c in columns[i].stored] if i in columns else [field] for i, field in enumerate(schema)]
    starts = [0, *accumulate(map(len, packed))]
    return StoredSchema(pa.schema(chain.from_iterable(fields)), list(chain.from_iterable(packed)), columns, starts)


# --- paths ----------------------------------------------------------------------------------------------------------


def paths(node: Node, name: str) -> Iterator[str]:
    """The paths of all fields of structs below a column, which can be read alone."""
    while isinstance(node, (ExtensionNode, ListNode)):
        node = node.inner if isinstance(node, ExtensionNode) else node.entry
    if isinstance(node, StructNode):
        for child, inner in node.fields:
            yield f"{name}.{child}"
            yield from paths(inner, f"{name}.{child}")


def _path_owners(schema: pa.Schema) -> dict[str, str]:
    """The column that each path leads into; where several do, the first."""
    owners: dict[str, str] = {}
    for field in schema:
        if pt.is_nested(storage_kind(field.type)):
            for path in paths(plan_column(field.type, field.nullable), field.name):
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


@dataclass(frozen=True)
class Found:
    """The node that a path leads to, and the index of its first stored column among those of its column.

    `presence` is the index of the BOOLEAN column that records nulls of this struct, or of the nearest enclosing one;
    None without one. `is_entry` tells that the node is in a list or map.
    """

    node: Node
    index: int
    presence: int | None
    is_entry: bool

    @property
    def is_repeated(self) -> bool:
        """Whether the node is a list or map, or in one."""
        return self.is_entry or isinstance(self.node, ListNode)


def find_path(
    node: Node, name: str, path: str, index: int = 0, presence: int | None = None, is_entry: bool = False
) -> Found | None:
    """Find the first node below a column, itself included, that a path leads to."""
    while isinstance(node, ExtensionNode):
        node = node.inner
    if isinstance(node, StructNode) and node.has_presence:
        presence = index
    if name == path:
        return Found(node, index, presence, is_entry)
    if isinstance(node, ListNode):
        return find_path(node.entry, name, path, index, presence, is_entry=True)
    if isinstance(node, StructNode):
        index += node.has_presence
        for child, inner in node.fields:
            at = f"{name}.{child}"
            if path == at or path.startswith(f"{at}."):
                found = find_path(inner, at, path, index, presence, is_entry)
                if found is not None:
                    return found
            index += width(inner)
    return None


def select_paths(node: Node, name: str, wanted: Callable[[str], bool]) -> tuple[Node | None, list[bool]]:
    """The tree without the leaves that are not wanted, None if none is left; and which stored columns it keeps.

    A struct stays a struct with fewer fields, as in a projection of Parquet; an extension type whose storage changes
    is dropped. The keys of a map always stay.
    """
    if wanted(name):
        return node, [True] * width(node)
    if isinstance(node, Leaf):
        return None, [False]
    if isinstance(node, ExtensionNode):
        return select_paths(node.inner, name, wanted)
    if isinstance(node, ListNode):
        chosen, is_map = wanted, pt.is_map(node.type)
        if is_map:
            assert isinstance(node.entry, StructNode)
            (key, _), (item, value) = ((f"{name}.{child}", inner) for child, inner in node.entry.fields)
            if not any(map(wanted, [item, *paths(value, item)])):  # Without values it would be no map: keep it whole.
                is_kept = any(map(wanted, paths(node, name)))
                return (node if is_kept else None), [is_kept] * width(node)

            def chosen(path: str) -> bool:
                return path == key or wanted(path)

        entry, kept = select_paths(node.entry, name, chosen)
        if entry is None:
            return None, kept
        type_: Any = entry.type
        if is_map:
            return ListNode(map_of(type_.field(0), type_.field(1), node.type.keys_sorted), entry), kept
        return ListNode(with_element(node.type, node.type.value_field.with_type(type_)), entry), kept
    fields, kept = [], [True] * node.has_presence
    for child, inner in node.fields:
        part, columns = select_paths(inner, f"{name}.{child}", wanted)
        kept += columns
        if part is not None:
            fields.append((child, part))
    if not fields:
        return None, [False] * len(kept)
    types = {child: part.type for child, part in fields}
    struct = pa.struct([field.with_type(types[field.name]) for field in node.type if field.name in types])
    return StructNode(struct, tuple(fields), node.has_presence), kept


def project_schema(schema: pa.Schema, names: Sequence[str]) -> tuple[pa.Schema, list[str]]:
    """The fields that names and paths ask for, as a read gives them, and the names that do not exist.

    Examples
    --------
    >>> schema = pa.schema([("id", pa.int64()), ("user", pa.struct([("age", pa.int32()), ("name", pa.string())]))])
    >>> project_schema(schema, ["user.age", "nope"])
    (user: struct<age: int32>
      child 0, age: int32, ['nope'])
    """
    top = {name: index for index, name in enumerate(schema.names)}
    owners = {} if all(name in top for name in names) else _path_owners(schema)
    wanted: dict[str, set[str]] = {}
    for name in names:
        owner = name if name in top else owners.get(name)
        if owner is not None:
            wanted.setdefault(owner, set()).add(name)
    fields = []
    for owner, asked in wanted.items():
        field = schema.field(top[owner])
        if owner not in asked:
            node, _ = select_paths(plan_column(field.type, field.nullable), owner, asked.__contains__)
            assert node is not None
            field = field.with_type(node.type)
        fields.append(field)
    missing = [name for name in names if name not in top and name not in owners]
    return pa.schema(fields).with_metadata(schema.metadata or {}), missing


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

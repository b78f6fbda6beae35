"""How a column of any Arrow type is made of stored columns, which have no structs: a tree of nodes for each column.

A struct is stored as one column for each leaf, named by its path (``user.age``), and, where the struct may be null or
has no fields, a BOOLEAN under the struct's own name that says whether there is one. Lists of structs become parallel
lists, one for each leaf. Only types are looked at here; `smalti.logical.arrays` changes arrays.
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
from smalti.logical.types import is_legacy_timestamp, is_list_like, storage_kind, storage_type
from smalti.spec import MAX_NAME_SIZE, MAX_NESTING

#: Bytes of a name that is too long for the format, as it is stored.
SHORTENED_NAME_SIZE = 1000


@dataclass(frozen=True)
class Leaf:
    """A value that one stored column holds, as it is or as another type."""

    type: pa.DataType
    stored: pa.DataType


@dataclass(frozen=True)
class StructNode:
    """A struct: its fields, and whether a stored column says where there is none."""

    type: pa.StructType
    fields: tuple[tuple[str, Node], ...]
    has_presence: bool


@dataclass(frozen=True)
class ListNode:
    """A list of any layout, or a map, of something that takes several columns; of a map `entry` is a struct."""

    type: Any
    entry: Node


@dataclass(frozen=True)
class ExtensionNode:
    """An extension type around a struct or a list of structs."""

    type: Any
    inner: Node


Node: TypeAlias = "Leaf | StructNode | ListNode | ExtensionNode"


def plan_column(type_: pa.DataType, nullable: bool, depth: int = 0) -> Node:
    """The tree of a column.

    Raises
    ------
    SchemaError
        If there is no way to store the type.
    """
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
    """The leaf of each column of a tree, None for a column that says where there are structs."""
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
    """How many stored columns a tree has."""
    return sum(1 for _ in leaves(node))


def entry_field(type_: Any) -> pa.Field:
    """The field of what a list or a map has many of."""
    if pt.is_map(type_):
        return pa.field("entries", pa.struct([type_.key_field, type_.item_field]), False)
    field: pa.Field = type_.value_field
    return field


def storable_name(name: str) -> str:
    """A name that the format can hold; the companion keeps the one that was given.

    Examples
    --------
    >>> storable_name("a"), storable_name(""), storable_name("a\\0b")
    ('a', '_', 'a␀b')
    """
    name = name.replace("\0", "␀") or "_"
    data = name.encode()
    return name if len(data) <= MAX_NAME_SIZE else data[:SHORTENED_NAME_SIZE].decode(errors="ignore")


def unique_names(wanted: Sequence[str], taken: set[str]) -> list[str]:
    """Names that are not taken: ``user.age`` becomes ``user.age#2`` where a column has that name already."""
    names = []
    for name in wanted:
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}#{number}"
        taken.add(unique)
        names.append(unique)
    return names


# --- a whole schema -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogicalColumn:
    """A column that is not what its stored columns say by themselves: another type, several columns, or metadata."""

    field: pa.Field
    node: Node
    stored: tuple[StoredColumn, ...]

    @property
    def is_converted(self) -> bool:
        """Whether what is stored has another type or name; False if there is only metadata to keep."""
        one, *others = self.stored
        return bool(others) or (one.name, one.type) != (self.field.name, self.field.type)

    def leaf_type(self, name: str) -> pa.DataType | None:
        """The type that the values of one of the stored columns were given with, None if it is the stored one."""
        for each, leaf in zip(self.stored, leaves(self.node), strict=True):
            if each.name == name and leaf is not None and leaf.type != leaf.stored == each.type:
                return leaf.type
        return None


@dataclass(frozen=True)
class StoredSchema:
    """A schema as it is stored: `schema` has the stored columns, `descriptors` their packed types, in the same order.

    `columns` are those of the given schema of which this does not tell everything, by their indexes in it, and `starts`
    the index of the first stored column of each column, and where the last one ends.
    """

    schema: pa.Schema
    descriptors: list[bytes]
    columns: dict[int, LogicalColumn]
    starts: Sequence[int]


def _renamed(names: list[str]) -> set[int]:
    """The indexes of names that the format cannot hold. Nearly always all can be ruled out together."""
    if "" not in names and "\0" not in "".join(names) and max(map(len, names), default=0) * 4 <= MAX_NAME_SIZE:
        return set()
    return {index for index, name in enumerate(names) if storable_name(name) != name}


def _exported(schema: pa.Schema) -> object:
    """The schema for kernels. Arrow has types that it cannot hand over, such as extension types of extension types."""
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
    """How a schema is stored. Looks at each type once.

    Raises
    ------
    SchemaError
        With the name of the first column that cannot be stored.
    """
    known: dict[Any, bytes] = {}
    #: Types that are stored as another one: the tree of a column, and its packed type.
    alike: dict[Any, tuple[Leaf, list[bytes]]] = {}
    columns: dict[int, LogicalColumn] = {}
    packed: list[list[bytes]] = []
    taken: set[str] | None = None
    renamed = _renamed(schema.names)
    for i, kind in enumerate(field_kinds(_exported(schema))):
        found = known.get(kind) if kind is not None and i not in renamed else None
        if found is not None:
            packed.append([found])
            continue
        field = schema.field(i)
        if kind in alike and i not in renamed:
            leaf, descriptor = alike[kind]
            packed.append(descriptor)
            columns[i] = LogicalColumn(field, leaf, (StoredColumn(field.name, leaf.stored, field.nullable),))
            continue
        try:
            node = plan_column(field.type, field.nullable)
            stored = stored_columns(node, field.name, field.nullable)
            stored = [replace(column, name=storable_name(column.name)) for column in stored]
            packed.append([pack_descriptor(column.type, column.nullable) for column in stored])
        except SchemaError as error:
            raise error.locate(column=field.name) from None
        if len(stored) == 1 and stored[0].field.equals(field, check_metadata=True):
            if kind is not None:
                known[kind] = packed[-1][0]
            continue
        if len(stored) > 1 or stored[0].name != field.name:
            # The names of other columns are not given away, nor is the name of the struct itself to its own leaves.
            taken = set(schema.names) if taken is None else taken
            own = [column.name == field.name for column in stored]
            names = unique_names([c.name for c, is_own in zip(stored, own, strict=True) if not is_own], taken)
            fresh = iter(names)
            stored = [c if is_own else replace(c, name=next(fresh)) for c, is_own in zip(stored, own, strict=True)]
        elif kind is not None and isinstance(node, Leaf):
            alike[kind] = node, packed[-1]
        columns[i] = LogicalColumn(field, node, tuple(stored))
    if not columns:
        return StoredSchema(schema.remove_metadata(), [part for (part,) in packed], {}, range(len(packed) + 1))
    fields = [[c.field for c in columns[i].stored] if i in columns else [field] for i, field in enumerate(schema)]
    starts = [0, *accumulate(map(len, packed))]
    return StoredSchema(pa.schema(chain.from_iterable(fields)), list(chain.from_iterable(packed)), columns, starts)


# --- parts of a column --------------------------------------------------------------------------------------------


def paths(node: Node, name: str) -> Iterator[str]:
    """The paths of everything below a column that can be read alone."""
    if isinstance(node, ExtensionNode):
        yield from paths(node.inner, name)
    elif isinstance(node, ListNode):
        yield from paths(node.entry, name)
    elif isinstance(node, StructNode):
        for child, inner in node.fields:
            yield f"{name}.{child}"
            yield from paths(inner, f"{name}.{child}")


def field_paths(schema: pa.Schema) -> list[str]:
    """The paths of all fields of structs, and of what is below them.

    Examples
    --------
    >>> field_paths(pa.schema([("id", pa.int64()), ("user", pa.struct([("age", pa.int32())]))]))
    ['user.age']
    """
    names = set(schema.names)
    nested = [field for field in schema if pt.is_nested(storage_kind(field.type))]
    found = chain.from_iterable(paths(plan_column(field.type, field.nullable), field.name) for field in nested)
    return [path for path in dict.fromkeys(found) if path not in names]


@dataclass(frozen=True)
class Found:
    """The node that a path leads to, and the index of its first stored column among those of its column.

    `presence` is the index of the BOOLEAN column that records nulls of this struct, or of the nearest enclosing one;
    None without one. `is_repeated` tells that the node is a list or map, or in one, `is_entry` that it is in one.
    """

    node: Node
    index: int
    presence: int | None = None
    is_repeated: bool = False
    is_entry: bool = False


def find_path(node: Node, name: str, path: str) -> Found | None:
    """The first part of a column, which has a name, that a path leads to."""
    return _find_path(Found(node, 0), name, path)


def _find_path(found: Found, name: str, path: str) -> Found | None:
    node = found.node
    if isinstance(node, ExtensionNode):
        return _find_path(replace(found, node=node.inner), name, path)
    is_repeated = found.is_repeated or isinstance(node, ListNode)
    if isinstance(node, StructNode) and node.has_presence:
        found = replace(found, presence=found.index)
    if name == path:
        return replace(found, is_repeated=is_repeated)
    if isinstance(node, ListNode):
        return _find_path(replace(found, node=node.entry, is_repeated=True, is_entry=True), name, path)
    if isinstance(node, StructNode):
        index = found.index + node.has_presence
        for child, inner in node.fields:
            at = f"{name}.{child}"
            if path.startswith(at) and path[len(at) : len(at) + 1] in ("", "."):
                below = _find_path(replace(found, node=inner, index=index), at, path)
                if below is not None:
                    return below
            index += 1 if isinstance(inner, Leaf) else width(inner)
    return None


def select_paths(node: Node, name: str, wanted: Callable[[str], bool]) -> tuple[Node | None, list[bool]]:
    """The tree without the leaves that are not wanted, None if none is left; and which stored columns it keeps.

    A struct stays a struct with fewer fields, as in a projection of Parquet; an extension type whose storage changes
    is left away. Of a map the keys always stay.
    """
    if wanted(name):
        return node, [True] * width(node)
    if isinstance(node, Leaf):
        return None, [False]
    if isinstance(node, ExtensionNode):
        return select_paths(node.inner, name, wanted)
    if isinstance(node, ListNode):
        chosen = wanted
        if pt.is_map(node.type):
            key = f"{name}.{node.type.key_field.name}"

            def chosen(path: str) -> bool:
                return path == key or wanted(path)

            assert isinstance(node.entry, StructNode)
            below = any(map(wanted, paths(node, name)))
            value, (_, inner) = f"{name}.{node.type.item_field.name}", node.entry.fields[1]
            if not (wanted(value) or any(map(wanted, paths(inner, value)))):  # A map without values would be no map.
                return (node if below else None), [below] * width(node)
        entry, kept = select_paths(node.entry, name, chosen)
        return (None if entry is None else ListNode(_with_entries(node.type, entry), entry)), kept
    fields, kept = [], [True] * node.has_presence
    for child, inner in node.fields:
        part, columns = select_paths(inner, f"{name}.{child}", wanted)
        kept += columns
        if part is not None:
            fields.append((child, part))
    if not fields:
        return None, [False] * len(kept)
    types = {child: part.type for child, part in fields}
    type_ = pa.struct([field.with_type(types[field.name]) for field in node.type if field.name in types])
    return StructNode(type_, tuple(fields), node.has_presence), kept


def _with_entries(type_: Any, entry: Node) -> pa.DataType:
    """The list or map with other entries."""
    if not pt.is_map(type_):
        return with_entry(type_, type_.value_field.with_type(entry.type))
    assert isinstance(entry, StructNode)
    fields = {field.name: field for field in entry.type}
    kept: pa.DataType = pa.map_(*map(fields.get, [type_.key_field.name, type_.item_field.name]), type_.keys_sorted)  # type: ignore[call-overload]
    return kept


def with_entry(type_: Any, entry: pa.Field) -> pa.DataType:
    """A list of the same layout with other elements."""
    for is_kind, make in (
        (pt.is_large_list, pa.large_list),
        (pt.is_list_view, pa.list_view),
        (pt.is_large_list_view, pa.large_list_view),
    ):
        if is_kind(type_):
            return make(entry)
    return pa.list_(entry, type_.list_size) if pt.is_fixed_size_list(type_) else pa.list_(entry)


def with_room(type_: Any, entries: int, rows: int) -> pa.DataType:
    """The type, with wider indices or run ends where those it has cannot count so many entries or rows.

    An extension type has one storage type, and is left away where that would have to change.

    Examples
    --------
    >>> with_room(pa.dictionary(pa.int8(), pa.string()), 129, 0).index_type
    DataType(int16)
    """
    if isinstance(type_, pa.BaseExtensionType):
        inner = with_room(type_.storage_type, entries, rows)
        return type_ if inner == type_.storage_type else inner
    if pt.is_dictionary(type_):
        return pa.dictionary(_wide_enough(type_.index_type, entries - 1), type_.value_type, type_.ordered)
    if pt.is_run_end_encoded(type_):
        values: Any = with_room(type_.value_type, entries, rows)
        return pa.run_end_encoded(_wide_enough(type_.run_end_type, rows), values)
    return with_parts(type_, lambda part: with_room(part, entries, rows))


def without_extensions(type_: Any) -> pa.DataType:
    """The type as Arrow lays it out: without the extension types around it and around what it is made of.

    Examples
    --------
    >>> without_extensions(pa.list_(pa.bool8()))
    ListType(list<item: int8>)
    """
    if isinstance(type_, pa.BaseExtensionType):
        return without_extensions(type_.storage_type)
    return with_parts(type_, without_extensions)


def with_parts(type_: Any, change: Callable[[Any], pa.DataType]) -> pa.DataType:
    """The type with the types that it is made of changed; entries of dictionaries stay what they are."""
    if pt.is_run_end_encoded(type_):
        values: Any = change(type_.value_type)
        return pa.run_end_encoded(type_.run_end_type, values)
    if pt.is_struct(type_):
        return pa.struct([field.with_type(change(field.type)) for field in type_])
    if is_list_like(type_):
        return with_entry(type_, type_.value_field.with_type(change(type_.value_type)))
    changed: pa.DataType = type_
    if pt.is_map(type_):
        fields = [field.with_type(change(field.type)) for field in (type_.key_field, type_.item_field)]
        changed = pa.map_(*fields, type_.keys_sorted)  # type: ignore[call-overload]
    return changed


def parts_of_both(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """What two types have at the same place, without what is wrapped around it: the place, and both types.

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


def _wide_enough(type_: Any, number: int) -> Any:
    """The type of integers, or the next wider one that holds a number."""
    candidates = type_, pa.int16(), pa.int32(), pa.int64()
    return next(each for each in candidates if number < 1 << each.bit_width - pt.is_signed_integer(each))


def project_schema(schema: pa.Schema, names: Sequence[str]) -> tuple[pa.Schema, list[str]]:
    """The fields that names and paths ask for, as a read gives them, and the names that are not there.

    Examples
    --------
    >>> schema = pa.schema([("id", pa.int64()), ("user", pa.struct([("age", pa.int32()), ("name", pa.string())]))])
    >>> project_schema(schema, ["user.age", "nope"])
    (user: struct<age: int32>
      child 0, age: int32, ['nope'])
    """
    top = {name: index for index, name in enumerate(schema.names)}
    wanted: dict[str, set[str]] = {}
    missing = []
    owners: dict[str, str] | None = None
    for name in names:
        if name not in top and owners is None:
            owners = {}
            for field in schema:
                if pt.is_nested(storage_kind(field.type)):
                    for path in paths(plan_column(field.type, field.nullable), field.name):
                        owners.setdefault(path, field.name)
        owner = name if name in top else (owners or {}).get(name)
        if owner is None:
            missing.append(name)
        else:
            wanted.setdefault(owner, set()).add(name)
    fields = []
    for owner, asked in wanted.items():
        field = schema.field(top[owner])
        if owner not in asked:
            node, _ = select_paths(plan_column(field.type, field.nullable), owner, asked.__contains__)
            assert node is not None
            field = field.with_type(node.type)
        fields.append(field)
    return pa.schema(fields).with_metadata(schema.metadata or {}), missing

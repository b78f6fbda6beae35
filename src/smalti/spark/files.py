"""What the driver and the tasks both do with a file: check it against Spark's schema, and report it if it is bad."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.file.reader import MosaicFile
from smalti.logical.types import map_children
from smalti.logical.widen import unify_schemas
from smalti.spark.options import ReadOptions
from smalti.spark.types import fits, needed_paths, spelled_as
from smalti.table.listing import FoundFile
from smalti.table.partitions import with_partitions

#: The errors of files that `ignoreCorruptFiles` passes over. A file that was replaced is never passed over, because
#: then the table is no longer the one that was listed.
UNREADABLE = (CorruptFileError, UnsupportedFeatureError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredColumns:
    """The columns of a file that a scan reads.

    Attributes
    ----------
    wanted : list of str
        Their names, as Spark spells them.
    schema : pyarrow.Schema
        Their names and types, as they are stored, in the same order.
    paths : list of str
        What is read for them: the columns, or of structs only the fields that are asked for.
    """

    wanted: list[str]
    schema: pa.Schema
    paths: list[str]

    @property
    def spelling(self) -> dict[str, str]:
        """The names in the file by the names that Spark uses."""
        return dict(zip(self.wanted, self.schema.names, strict=True))


def stored_columns(
    opened: MosaicFile, file: FoundFile, schema: pa.Schema, *, case_sensitive: bool = True
) -> StoredColumns:
    """The columns of a file that a scan for `schema` reads, with the types they are stored in.

    Raises
    ------
    SchemaError
        If a column cannot be read as the type asked for, or is missing and must not be null.
    """
    columns = opened.columns
    exact = set(columns.whole(schema.names))
    found = [name if name in exact else None for name in schema.names]
    if not case_sensitive and None in found:
        partition = {name.lower() for name in file.partition}
        spelled = {name.lower(): name for name in reversed(opened.column_names) if name.lower() not in partition}
        found = [name or spelled.get(asked.lower()) for name, asked in zip(found, schema.names, strict=True)]
    pairs = [(asked, name) for asked, name in zip(schema.names, found, strict=True) if name is not None]
    stored = opened.schema_of([name for _, name in pairs])
    # Names and types are asked for in lists, which is cheaper than a field object for each of 10,000 columns.
    targets = dict(zip(schema.names, schema.types, strict=True))
    types = dict(zip([asked for asked, _ in pairs], stored.types, strict=True))
    if not case_sensitive:
        targets.update({name: spelled_as(targets[name], type_) for name, type_ in types.items()})
    for name, type_ in types.items():
        if type_ != targets[name] and not fits(type_, targets[name]):
            raise SchemaError(
                "column does not fit the schema asked for",
                path=file.path,
                column=name,
                found=str(type_),
                expected=str(targets[name]),
            )
    for name in targets:
        if name not in types and name not in file.partition and not schema.field(name).nullable:
            raise SchemaError("a column that must not be null is not in the file", path=file.path, column=name)
    paths = [
        path
        for (asked, name), type_ in zip(pairs, stored.types, strict=True)
        for path in needed_paths(name, type_, targets[asked])
    ]
    return StoredColumns(list(types), stored, paths)


#: Schemas of tables and their sources, the newest last.
_unions: dict[tuple[Any, ...], tuple[Any, pa.Schema]] = {}
_MAX_UNIONS = 4


def union_schema(schemas: Sequence[tuple[str, pa.Schema]], partitions: pa.Schema, *, case_sensitive: bool) -> pa.Schema:
    """The columns of files, then the partition columns. The same schemas give the same object, as long as it is cached.

    Files with equal columns share one schema object, so the ids of few objects tell a table that is loaded again.
    """
    key = tuple(dict.fromkeys(id(schema) for _, schema in schemas)), partitions, case_sensitive
    known = _unions.get(key)
    if known is None:
        alike = schemas if case_sensitive else spell_alike(schemas)
        known = schemas, with_partitions(unify_schemas(alike), partitions)
        _unions[key] = known
        for oldest in list(_unions)[:-_MAX_UNIONS]:
            _unions.pop(oldest, None)
    return known[1]


def spell_alike(schemas: Iterable[tuple[str, pa.Schema]]) -> Iterator[tuple[str, pa.Schema]]:
    """Schemas in which every name is spelled as in the first schema that has it, so that case makes no second column.

    So are the fields of structs, at every depth. Files that share a schema share the object, which is looked at once.
    """
    spelling: dict[tuple[str, ...], str] = {}
    seen: dict[int, tuple[pa.Schema, pa.Schema]] = {}
    for path, schema in schemas:
        if id(schema) not in seen:
            names = _spell(schema.names, (), spelling)
            types = [
                _spell_fields(type_, (name.lower(),), spelling) for name, type_ in zip(names, schema.types, strict=True)
            ]
            is_same = names == schema.names and types == schema.types
            fields = () if is_same else map(pa.Field.with_type, map(pa.Field.with_name, schema, names), types)
            seen[id(schema)] = schema, schema if is_same else pa.schema(fields).with_metadata(schema.metadata or {})
        yield path, seen[id(schema)][1]


def _spell(names: Sequence[str], parents: tuple[str, ...], spelling: dict[tuple[str, ...], str]) -> list[str]:
    """Names in the spelling that was found first; `spelling` has it by path in lower case."""
    spelled = [spelling.setdefault((*parents, name.lower()), name) for name in names]
    # If both spellings are there, only the user can tell which one is meant.
    return spelled if len(set(spelled)) == len(names) else list(names)


def _spell_fields(type_: Any, parents: tuple[str, ...], spelling: dict[tuple[str, ...], str]) -> Any:
    """A type with the fields of its structs spelled as they were first."""
    if pt.is_struct(type_):
        names = _spell([field.name for field in type_], parents, spelling)
        types = [_spell_fields(field.type, (*parents, field.name.lower()), spelling) for field in type_]
        return pa.struct(map(pa.Field.with_type, map(pa.Field.with_name, type_, names), types))
    return map_children(type_, lambda child: _spell_fields(child, (*parents, ""), spelling))


def skip_unreadable(file: FoundFile, error: Exception, options: ReadOptions) -> None:
    """Pass over a file because of an error; raise the error if the options do not allow that."""
    if isinstance(error, FileNotFoundError) and options.ignore_missing_files:
        return
    if not isinstance(error, UNREADABLE) or not options.ignore_corrupt_files:
        raise error
    _log.warning("skipping %s: %s", file.path, error)

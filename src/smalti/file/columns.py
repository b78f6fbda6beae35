"""The columns of a schema block: named, found, described to Arrow, grouped into buckets. Each of these is done once.

Files of one table nearly always have the same schema block. `SharedSchemas` recognises a block by its bytes in the
file, so that it is decompressed, checked and searched for the first file only, and all files share one `Columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from smalti._core.arrow_c import field_kinds
from smalti._core.schema import SchemaBlock
from smalti.file.patterns import is_pattern, match_names
from smalti.file.scan import Projection, plan_buckets
from smalti.file.tail import parse_schema
from smalti.spec import Compression

#: Projections, and schema blocks, that are kept; then the oldest is forgotten. A table rarely has more than a few.
MAX_KEPT = 64
#: Walks over the names of a file before all of them are unpacked.
MAX_WALKS = 10
Key = TypeVar("Key")
Value = TypeVar("Value")


class Columns:
    """The columns of a file, or of several files with the same schema block. Safe to use from several threads."""

    def __init__(self, block: SchemaBlock) -> None:
        self._block = block
        self._positions: dict[str, int] = {}
        self._walks = 0
        self._projections: dict[tuple[str, ...], Projection] = {}

    @cached_property
    def names(self) -> list[str]:
        """Names in the order the columns were written."""
        by_name = self._block.names()
        return [by_name[i] for i in self._block.column_order()]

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns in the order they were written."""
        return self._describe(self._block.column_order(), self.names)

    @cached_property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """What tells the types of columns apart, see `field_kinds`, in the order of `names`; takes no Arrow fields."""
        return field_kinds(self._block.arrow_schema(self._block.column_order(), self.names))

    @cached_property
    def every(self) -> Projection:
        """A read of all columns in the order they were written."""
        return Projection(self.schema, plan_buckets(self._block, self._block.column_order()))

    def find(self, names: Sequence[str]) -> list[int]:
        """Sorted indices, -1 for a column that is not there; one walk over the schema block for all that are new.

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
        """Those of the names that are there."""
        return [name for name, position in zip(names, self.find(names), strict=True) if position >= 0]

    def select(self, columns: Sequence[str]) -> list[str]:
        """The names that `columns` asks for, each once: a pattern such as ``click.*`` stands for all that match it.

        A name that exists is never taken for a pattern.
        """
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the string {columns!r}")
        columns = list(columns)
        if not any(isinstance(name, str) and is_pattern(name) for name in columns):
            return list(dict.fromkeys(columns))
        return match_names(self.names, columns)

    def project(self, names: Sequence[str]) -> Projection:
        """The columns of a read. They must exist and be named once each."""
        key = tuple(names)
        known = self._projections.get(key)
        if known is None:
            positions = self.find(names)
            known = Projection(self._describe(positions, list(names)), plan_buckets(self._block, positions))
            _keep(self._projections, key, known)
        return known

    def _describe(self, positions: list[int], names: list[str]) -> pa.Schema:
        return pa.Schema._import_from_c_capsule(self._block.arrow_schema(positions, names))


class SharedSchemas:
    """Schema blocks that were checked already, for readers of many files. Safe to use from several threads."""

    def __init__(self) -> None:
        #: Compared one after the other, newest first: most differ in size already, and hashing takes longer.
        self._known: list[tuple[bytes, Compression, tuple[SchemaBlock, int]]] = []
        self._columns: dict[SchemaBlock, Columns] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Only its purpose travels to other processes, not what it knows."""
        return SharedSchemas, ()

    def parse(self, section: bytes, compression: Compression) -> tuple[SchemaBlock, int]:
        """As `smalti.file.tail.parse_schema`; equal sections give the same block."""
        for known, how, parsed in self._known:
            if known == section and how is compression:
                return parsed
        parsed = parse_schema(section, compression)
        self._known = [(section, compression, parsed), *self._known[: MAX_KEPT - 1]]
        return parsed

    def columns(self, block: SchemaBlock) -> Columns:
        """The columns of a block that `parse` has returned."""
        known = self._columns.get(block)
        return _keep(self._columns, block, Columns(block)) if known is None else known


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> Value:
    """Keep a value; the one that another thread was quicker to keep is returned instead, so that there is only one."""
    value = kept.setdefault(key, value)
    if len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)), None)
    return value

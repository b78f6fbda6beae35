"""The stored columns of a file: from names to positions to buckets. Files with the same schema block share them.

Files of one table nearly always have the same schema block. `SharedSchemas` of `smalti.logical.mapping` recognises a
block by its bytes, so that it is decompressed, checked and searched for the first file only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti._core.arrow_c import field_kinds
from smalti._core.dictionary import DictionaryValues
from smalti._core.physical import PhysicalColumns
from smalti._core.schema import SchemaBlock

#: The number of projections, or of schema blocks, that are kept. A table rarely has more than a few.
MAX_KEPT = 64
#: The number of columns, over all schemas of tables, whose names and types a process keeps for its next query.
MAX_KEPT_COLUMNS = 1 << 18
#: Names that no column has, and that are remembered all the same: a table may be asked about any name.
MAX_MISSES = 1 << 12
#: After this number of lookups, all names are decoded at once, which costs about as much as ten lookups.
MAX_LOOKUPS = 10
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class BucketRead:
    """The columns that a read wants from one bucket.

    `columns` are indices into the bucket, `outputs` the indices of the same columns in the batch that is read.
    """

    bucket: int
    physical: PhysicalColumns
    columns: list[int]
    outputs: list[int]

    @property
    def whole(self) -> bool:
        """Whether all columns of the bucket are wanted."""
        return len(self.columns) == self.physical.num_columns

    @cached_property
    def wanted_physical(self) -> list[int]:
        """The wanted columns, and all physical columns below those that are arrays or maps."""
        if self.physical.num_physical == self.physical.num_columns:
            return self.columns
        return [node for column in self.columns for node in self.physical.subtree(column)]


class Lookup(Protocol):
    """The values of a dictionary, as kernels look them up."""

    @property
    def type(self) -> pa.DataType: ...

    def lookup(self, allowance: Allowance) -> DictionaryValues: ...


@dataclass(frozen=True)
class Projection:
    """Stored columns of a file as one Arrow schema, and the buckets that hold them."""

    schema: pa.Schema
    buckets: list[BucketRead]
    #: For each bucket the physical columns that are decoded as indices of a dictionary; empty if there are none at all.
    dictionaries: Sequence[Sequence[tuple[int, Lookup]]] = ()

    def with_dictionaries(
        self, types: Mapping[int, pa.DataType], dictionaries: Mapping[int, Sequence[tuple[int, Lookup]]]
    ) -> Projection:
        """The same columns, some of them decoded as indices, to these types.

        Both have columns by their indices in the schema; a dictionary comes with the number of its physical column
        among those of the column.
        """
        if not dictionaries:
            return self
        fields = [each.with_type(types.get(index, each.type)) for index, each in enumerate(self.schema)]
        by_bucket = [
            [
                (read.physical.subtree(column)[number], found)
                for column, output in zip(read.columns, read.outputs, strict=True)
                for number, found in dictionaries.get(output, ())
            ]
            for read in self.buckets
        ]
        return Projection(pa.schema(fields), self.buckets, by_bucket)

    @cached_property
    def bucket_ids(self) -> frozenset[int]:
        return frozenset(read.bucket for read in self.buckets)

    @cached_property
    def _widths(self) -> Counter[int]:
        """The number of columns by bits of a row in Arrow's memory; strings and lists count their offsets only."""
        bits: dict[pa.DataType, int] = {}
        for type_ in set(self.schema.types):
            try:
                bits[type_] = type_.bit_width
            except ValueError:
                bits[type_] = 32
        return Counter(bits[type_] for type_ in self.schema.types)

    @property
    def least_bits(self) -> int:
        """Bits of a row in Arrow's memory, without the bytes of strings and the elements of lists."""
        return sum(bits * count for bits, count in self._widths.items())

    @cached_property
    def row_width(self) -> int:
        """Bytes of a row while it is decoded, without strings and elements; booleans take a byte each until packed."""
        return (self.least_bits + 8 * self._widths[1] + 7) // 8


@dataclass(frozen=True)
class FilterColumn:
    """The stored columns that a filter reads for a name, mostly one, and the type to compare them in.

    Attributes
    ----------
    stored : tuple of str
    type : pyarrow.DataType, optional
        By default the stored type.
    convert : callable, optional
        From arrays of the stored columns to the one that is compared.
    has_bounds : bool
        Whether statistics of the stored column are statistics of the values that are compared.
    dictionary : Lookup, optional
        How the stored column is decoded as a dictionary, of which each value is compared once.
    """

    stored: tuple[str, ...]
    type: pa.DataType | None = None
    convert: Callable[..., pa.Array] = lambda array: array
    has_bounds: bool = True
    dictionary: Lookup | None = None


def plan_buckets(
    block: SchemaBlock, positions: Sequence[int], known: dict[int, PhysicalColumns] | None = None
) -> list[BucketRead]:
    """Group columns by bucket, in ascending order. A batch has the columns in the order of `positions`.

    `known` has the physical columns of buckets that were asked for before, and gets those of others.
    """
    known = {} if known is None else known
    wanted = defaultdict(list)
    num_buckets, num_columns = block.num_buckets, block.num_columns
    for output, position in enumerate(positions):
        wanted[position * num_buckets // num_columns].append(output)  # `SchemaBlock.bucket_of`, without a call each
    reads = []
    for bucket, outputs in sorted(wanted.items()):
        physical = known.get(bucket)
        if physical is None:
            physical = known[bucket] = block.physical_columns(bucket)
        reads.append(BucketRead(bucket, physical, [positions[i] - physical.first_column for i in outputs], outputs))
    return reads


class Columns:
    """The columns of a schema block. Safe to use from several threads.

    A column's *position* is its rank among the sorted names, by which schema block, index and statistics know it.
    """

    def __init__(self, block: SchemaBlock) -> None:
        self.block = block
        self._positions: dict[str, int] = {}
        self._lookups = 0
        self._projections: dict[tuple[str, ...], Projection] = {}
        self._physical: dict[int, PhysicalColumns] = {}

    @cached_property
    def names(self) -> list[str]:
        """Names in the order the columns were written."""
        by_position = self.block.names()
        return [by_position[position] for position in self.block.column_order()]

    @cached_property
    def every(self) -> Projection:
        """All columns in the order they were written."""
        return self._project(self.block.column_order(), self.names)

    @property
    def kinds(self) -> list[tuple[bytes, int] | None]:
        """A key for the type of each column, see `field_kinds`, in the order of `names`; builds no Arrow fields."""
        return field_kinds(self.block.arrow_schema(self.block.column_order(), self.names))

    def find(self, names: Sequence[str]) -> list[int]:
        """Positions of columns, -1 for a missing one; one walk over the encoded names finds all new ones."""
        known = self._positions
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new:
            for name in new:
                if not isinstance(name, str):
                    raise TypeError(f"column names are strings, got {name!r}")
            self._lookups += 1
            if self._lookups == MAX_LOOKUPS:
                known.update((name, position) for position, name in enumerate(self.block.names()))
            known.update(zip(new, self.block.find(new), strict=True))
            if len(known) > self.block.num_columns + MAX_MISSES:  # Columns are found again when they are asked for.
                self._positions = {}
        return [known[name] for name in names]

    def types(self, names: list[str]) -> list[pa.DataType | None]:
        """Types of columns, None for a missing one."""
        positions = self.find(names)
        present = [position for position in positions if position >= 0]
        types = iter(self._arrow_schema(present, [""] * len(present)).types)
        return [next(types) if position >= 0 else None for position in positions]

    def project(self, names: Sequence[str]) -> Projection:
        """The columns of a read, which must exist and be named once each."""
        key = tuple(names)
        known = self._projections.get(key)
        return keep(self._projections, key, self._project(self.find(names), list(names))) if known is None else known

    def _project(self, positions: list[int], names: list[str]) -> Projection:
        return Projection(self._arrow_schema(positions, names), plan_buckets(self.block, positions, self._physical))

    def _arrow_schema(self, positions: list[int], names: list[str]) -> pa.Schema:
        return pa.Schema._import_from_c_capsule(self.block.arrow_schema(positions, names))


def keep(kept: dict[Key, Value], key: Key, value: Value, most: int = MAX_KEPT) -> Value:
    """Cache `value` unless another thread has cached one for `key` first; return the cached one.

    Evicts the oldest entry beyond `most`.
    """
    value = kept.setdefault(key, value)
    if len(kept) > most:
        kept.pop(next(iter(kept)), None)
    return value

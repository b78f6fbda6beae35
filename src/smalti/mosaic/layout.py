"""The physical layout of a file as one frozen tree, for the command line, the report and the tests."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

import zstandard

from smalti._core.allowance import Allowance
from smalti._core.physical import PhysicalColumns
from smalti.errors import MosaicError
from smalti.format.bucket import PAGE_HEAD_SIZE, directory_size
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.mosaic.bucket import BucketReader
from smalti.mosaic.bucket_cache import Bucket
from smalti.mosaic.columns import plan_buckets
from smalti.mosaic.tail import Tail
from smalti.spec import FOOTER_SIZE, Encoding, NameEncoding, TypeId
from smalti.units import show_bytes, show_count

#: Names by code: looked up for every column of every row group.
_TYPES = {type_.value: type_.name for type_ in TypeId}
_ENCODINGS = {encoding.value: encoding.name for encoding in Encoding}
#: What the encodings of column names mean.
_NAMES = {"front": "each name stored as its difference from the one before", "bpe": "frequent parts of names as codes"}


@dataclass(frozen=True)
class Section:
    """A section of the file: offset, size, and size once decompressed."""

    offset: int
    size: int
    uncompressed_size: int


@dataclass(frozen=True)
class ColumnLayout:
    """One physical column of a bucket: a column, or the elements, keys or values below an array or map.

    Attributes
    ----------
    name : str
        The column it belongs to.
    path : str
        `name`, or e.g. `name.element`, `name.value.element` below it.
    type : str
        Mosaic's name of the type, such as "STRING".
    encoding : str
        "PLAIN", "CONST", "DICT" or "ALL_NULL".
    has_nulls : bool
        Whether a null bitmap is stored.
    dict_entries : int
        Entries of the dictionary, 0 if there is none.
    num_values : int
        Rows, or elements below a container.
    size : int
        Bytes of its value or dictionary, bitmap and data before compression.
    stored_size : int or None
        Bytes of its slot in the file, in a paged bucket; None where columns are compressed together.
    """

    name: str
    path: str
    type: str
    encoding: str
    has_nulls: bool
    dict_entries: int
    num_values: int
    size: int
    stored_size: int | None
    #: A digest of its slot, or of its bucket if it is alone there: columns of the same type and digest are equal.
    digest: bytes | None = field(default=None, repr=False)


@dataclass
class ColumnBytes:
    """Bytes of a column in a file, before compression, and how many row groups have it in which encoding."""

    stored: int = 0
    unpacked: int = 0
    encodings: Counter[str] = field(default_factory=Counter)
    #: How many of the stored bytes are slots of its own; the others are a share of buckets that are compressed as one.
    slots: int = 0
    #: Of each row group and part, a digest of the stored bytes; None if it is not known of all of them.
    digest: bytes | None = b""

    def add(self, other: ColumnBytes) -> None:
        self.stored += other.stored
        self.unpacked += other.unpacked
        self.slots += other.slots
        self.encodings.update(other.encodings)
        self.digest = None if self.digest is None or other.digest is None else self.digest + other.digest


@dataclass(frozen=True)
class BucketLayout:
    """One bucket of a row group; `mode` is "monolithic", "paged" or "empty".

    A bucket that was not read has no `columns`, and `uncompressed_size` 0 if it is paged: only its pages tell.
    """

    id: int
    mode: str
    offset: int
    size: int
    uncompressed_size: int
    columns: tuple[ColumnLayout, ...]


@dataclass(frozen=True)
class RowGroupLayout:
    index: int
    num_rows: int
    num_statistics: int
    buckets: tuple[BucketLayout, ...]

    def bytes_by_encoding(self) -> dict[str, int]:
        """Bytes before compression, by encoding."""
        sizes = dict.fromkeys((encoding.name for encoding in Encoding), 0)
        for bucket in self.buckets:
            for column in bucket.columns:
                sizes[column.encoding] += column.size
        return sizes


@dataclass(frozen=True)
class FileLayout:
    """The whole file.

    `schema_block` reaches from the end of the last row group to the index; its last part is the `companion`, if the
    file has one. `num_columns` are the stored ones.
    """

    size: int
    compression: str
    num_columns: int
    num_buckets: int
    num_row_groups: int
    name_encoding: str
    bpe_rules: int
    schema_block: Section
    index: Section
    row_groups: tuple[RowGroupLayout, ...]
    companion: Section | None = None

    @property
    def num_rows(self) -> int:
        return sum(group.num_rows for group in self.row_groups)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What is worth knowing of the file as a whole, by name, in words."""
        block, companion = self.schema_block, self.companion
        own_size = block.size - (0 if companion is None else companion.size)
        ratio = f"{block.uncompressed_size / own_size:.1f}x compressed" if block.uncompressed_size else "-"
        return [
            ("size", f"{show_bytes(self.size)} ({self.size:,} bytes)"),
            ("rows", f"{self.num_rows:,} in {show_count(self.num_row_groups, 'row group')}"),
            ("columns", f"{self.num_columns:,}"),
            ("buckets", f"{self.num_buckets:,}"),
            ("layout", self.in_words),
            ("compression", self.compression),
            ("schema block", f"{show_bytes(own_size)} at {block.offset:,} ({ratio}), {_NAMES[self.name_encoding]}"),
            ("companion", self.companion_in_words),
            ("index", f"{show_bytes(self.index.size)} at {self.index.offset:,}"),
        ]

    @property
    def companion_in_words(self) -> str:
        """Whether types and metadata are kept that the format has no field for, and index and footer are checked."""
        if self.companion is None:
            return "none: columns come as they are stored, index and footer have no checksum"
        if not self.companion.uncompressed_size:
            return f"{self.companion.size:,} bytes: a checksum of index and footer; all columns are as they are stored"
        return (
            f"{self.companion.size:,} bytes: a checksum of index and footer, and types and metadata as they were given"
        )

    @property
    def in_words(self) -> str:
        """How columns are laid out and what that means for reading one; the index tells, no bucket has to be read."""
        buckets = [bucket for group in self.row_groups for bucket in group.buckets if bucket.size]
        paged = sum(bucket.mode == PAGED for bucket in buckets)
        width = -(-self.num_columns // max(1, self.num_buckets))
        size = sum(bucket.size for bucket in buckets) // max(1, len(buckets))
        if not buckets:
            return f"{show_count(self.num_buckets, 'bucket')}, nothing stored"
        if width == 1:
            return f"one column in each bucket: a column takes one read of {show_bytes(size)} on average"
        if paged == len(buckets):
            slot = show_bytes(size // width)
            return f"paged: each column is compressed by itself, and takes {slot} in a row group on average"
        together = f"up to {width:,} columns are compressed together, and one takes a read of {show_bytes(size)}"
        if paged == 0:
            return f"monolithic: {together}"
        return f"{paged:,} of {len(buckets):,} buckets paged, each column by itself; in the others {together}"

    def bytes_by_column(self) -> dict[str, ColumnBytes]:
        """What each column takes, over all row groups and with everything below arrays and maps.

        Columns that were compressed together share the compressed bytes by their sizes.
        """
        found: dict[str, ColumnBytes] = {}
        for group in self.row_groups:
            for bucket in group.buckets:
                whole = sum(part.size for part in bucket.columns) or 1
                before = 0
                for part in bucket.columns:
                    column = found.get(part.name)
                    if column is None:
                        column = found[part.name] = ColumnBytes()
                    # Differences of rounded sums add up to the whole bucket; rounded shares would not.
                    shared = bucket.size * (before + part.size) // whole - bucket.size * before // whole
                    before += part.size
                    column.stored += shared if part.stored_size is None else part.stored_size
                    column.unpacked += part.size
                    column.slots += part.stored_size or 0
                    known = column.digest is not None and part.digest is not None
                    column.digest = (column.digest or b"") + (part.digest or b"") if known else None
                    if part.path == part.name:
                        column.encodings[part.encoding] += 1
        return found

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from smalti.report.notebook import view_layout

        return view_layout(self)


def build_layout(reader: BucketReader, memory_limit: int, wanted: Container[int] | None = None) -> FileLayout:
    """Describe every bucket, reading those that are `wanted` (by default all). No values are decoded."""
    tail, size = reader.tail, reader.source.size
    footer, schema, index = tail.footer, tail.schema, tail.index
    names = schema.names()
    reads = [plan_buckets(schema, range(*schema.bucket_columns(bucket)))[0] for bucket in tail.buckets]
    groups = []
    for group in range(index.num_row_groups):
        buckets = []
        for read in reads:
            if wanted is not None and read.bucket not in wanted:
                buckets.append(BucketLayout(read.bucket, *tail.entry(group, read.bucket), ()))
                continue
            (bucket,) = reader.fetch(group, [read])
            try:
                buckets.append(_read_bucket(reader, bucket, names, Allowance(memory_limit)))
            except MosaicError as error:
                raise reader.locate(error, bucket) from None
        groups.append(RowGroupLayout(group, index.rows(group), index.num_statistics(group), tuple(buckets)))
    index_size = size - FOOTER_SIZE - footer.index_offset
    return FileLayout(
        size=size,
        compression=footer.compression.name.lower(),
        num_columns=schema.num_columns,
        num_buckets=schema.num_buckets,
        num_row_groups=index.num_row_groups,
        name_encoding=NameEncoding(schema.name_encoding).name.lower(),
        bpe_rules=schema.num_rules,
        schema_block=Section(footer.schema_offset, footer.index_offset - footer.schema_offset, tail.schema_size),
        index=Section(footer.index_offset, index_size, index_size),
        row_groups=tuple(groups),
        companion=_companion(tail),
    )


def _companion(tail: Tail) -> Section | None:
    found = tail.companion
    if found is None:
        return None
    unpacked = zstandard.frame_content_size(found.payload) if found.payload else 0
    return Section(tail.footer.index_offset - found.size, found.size, max(0, unpacked))


def _read_bucket(reader: BucketReader, bucket: Bucket, names: list[str], allowance: Allowance) -> BucketLayout:
    """One bucket with its columns; the uncompressed size of a paged one counts its directory and its pages."""
    reader.inflate_pages([bucket], allowance)
    physical, entry = bucket.physical, bucket.entry
    described = reader.views(bucket, allowance)[0].describe()
    if entry.mode == EMPTY:  # The nulls of its columns are not stored.
        described = [(encoding, has_nulls, entries, 0, size) for encoding, has_nulls, entries, _, size in described]
    stored: list[int | None] = [None] * physical.num_physical
    if entry.mode == PAGED:
        stored = [len(bucket.slots[node]) for node in range(physical.num_physical)]
        pages = sum(PAGE_HEAD_SIZE + size for (*_, size), slot in zip(described, stored, strict=True) if slot)
        entry = entry._replace(uncompressed_size=directory_size(physical) + pages)
    names = names[physical.first_column : physical.first_column + physical.num_columns]
    digests: list[bytes | None] = [None] * physical.num_physical
    if entry.mode == PAGED:
        digests = [_digest(bucket.slots[node]) for node in range(physical.num_physical)]
    elif entry.mode == MONOLITHIC and physical.num_columns == 1:
        digests = [_digest(bucket.data)] * physical.num_physical
    return BucketLayout(bucket.number, *entry, _columns(physical, names, described, stored, digests))


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=12).digest()


def _columns(
    physical: PhysicalColumns,
    names: list[str],
    described: list[tuple[int, bool, int, int, int]],
    stored: list[int | None],
    digests: list[bytes | None],
) -> tuple[ColumnLayout, ...]:
    paths, types = physical.paths(names), physical.type_ids()
    return tuple(
        ColumnLayout(
            name=names[paths[node][0]],
            path=paths[node][1],
            type=_TYPES[types[node]],
            encoding=_ENCODINGS[encoding],
            has_nulls=has_nulls,
            dict_entries=entries,
            num_values=values,
            size=size,
            stored_size=stored[node],
            digest=digests[node],
        )
        for node, (encoding, has_nulls, entries, values, size) in enumerate(described)
    )

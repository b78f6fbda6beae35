"""The physical layout of a file as one frozen tree: what the command line, the report and the tests look at."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from smalti._core.batch import describe_monolithic, describe_page
from smalti._core.nodes import BucketNodes
from smalti.errors import MosaicError
from smalti.file.tail import Tail
from smalti.format.bucket import open_slot, parse_directory
from smalti.format.compression import inflate
from smalti.io import Source
from smalti.report.notebook import html_summary
from smalti.spec import FOOTER_SIZE, Compression, Encoding, NameEncoding, TypeId

#: Row groups shown in a notebook.
NOTEBOOK_ROWS = 20


@dataclass(frozen=True)
class Section:
    """A piece of the file: where, how many bytes, and how many once decompressed."""

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
    """The whole file."""

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

    def _repr_html_(self) -> str:
        """A small table for notebooks: row groups, and how many bytes are in which encoding."""
        facts = [
            ("size", f"{self.size:,} bytes"),
            ("columns", f"{self.num_columns:,} in {self.num_buckets:,} buckets"),
            ("compression", self.compression),
            ("schema block", f"{self.schema_block.size:,} bytes"),
            ("index", f"{self.index.size:,} bytes"),
        ]
        rows = [
            [
                group.index,
                group.num_rows,
                sum(bucket.size for bucket in group.buckets),
                *group.bytes_by_encoding().values(),
            ]
            for group in self.row_groups[:NOTEBOOK_ROWS]
        ]
        header = ["row group", "rows", "bytes", *(encoding.name for encoding in Encoding)]
        return html_summary("Layout of a Mosaic file", facts, header, rows, hidden=len(self.row_groups) - len(rows))


def build_layout(source: Source, tail: Tail, wanted: Container[int] | None = None) -> FileLayout:
    """Walk every bucket, or those `wanted`; nothing is decoded but what says how long things are."""
    footer, schema, index = tail.footer, tail.schema, tail.index
    names = schema.names()
    groups = []
    for group in range(index.num_row_groups):
        buckets = []
        for bucket in range(schema.num_buckets if schema.num_columns else 0):
            try:
                if wanted is None or bucket in wanted:
                    buckets.append(_bucket(source, tail, names, group, bucket))
                else:
                    buckets.append(_unread_bucket(tail, group, bucket))
            except MosaicError as error:
                raise error.locate(row_group=group, bucket=bucket) from None
        groups.append(RowGroupLayout(group, index.rows(group), index.num_statistics(group), tuple(buckets)))
    index_size = source.size - FOOTER_SIZE - footer.index_offset
    return FileLayout(
        size=source.size,
        compression=footer.compression.name.lower(),
        num_columns=schema.num_columns,
        num_buckets=schema.num_buckets,
        num_row_groups=index.num_row_groups,
        name_encoding=NameEncoding(schema.name_encoding).name.lower(),
        bpe_rules=schema.num_rules,
        schema_block=Section(footer.schema_offset, footer.index_offset - footer.schema_offset, tail.schema_size),
        index=Section(footer.index_offset, index_size, index_size),
        row_groups=tuple(groups),
    )


def _unread_bucket(tail: Tail, group: int, bucket: int) -> BucketLayout:
    entry = tail.index.bucket(group, bucket)
    if entry is None:
        return BucketLayout(bucket, "empty", 0, 0, 0, ())
    offset, size, bulk_size = entry
    return BucketLayout(bucket, "monolithic" if bulk_size else "paged", offset, size, bulk_size, ())


def _bucket(source: Source, tail: Tail, names: list[str], group: int, bucket: int) -> BucketLayout:
    schema, index = tail.schema, tail.index
    nodes = schema.bucket_nodes(bucket)
    first, stop = schema.bucket_columns(bucket)
    rows = index.rows(group)
    entry = index.bucket(group, bucket)
    if entry is None:
        described = [describe_page(nodes, node, None, 0) for node in range(nodes.num_nodes)]
        return BucketLayout(bucket, "empty", 0, 0, 0, _columns(nodes, names[first:stop], described, None))
    offset, size, bulk_size = entry
    data: bytes = source.read_at(offset, size)
    if bulk_size:
        if tail.footer.compression is Compression.ZSTD:
            data = inflate(data, bulk_size)
        described = describe_monolithic(nodes, data, rows)
        return BucketLayout(
            bucket, "monolithic", offset, size, bulk_size, _columns(nodes, names[first:stop], described, None)
        )
    directory = parse_directory(data, nodes, size)
    described = []
    total = directory.slots[0][0]
    for node, (at, slot_size) in enumerate(directory.slots):
        page = open_slot(memoryview(data)[at : at + slot_size]) if slot_size else None
        total += len(page) if page else 0
        node_rows = rows if node < nodes.num_columns else directory.child_rows[node - nodes.num_columns]
        described.append(describe_page(nodes, node, page, node_rows))
    stored = [slot_size for _, slot_size in directory.slots]
    return BucketLayout(bucket, "paged", offset, size, total, _columns(nodes, names[first:stop], described, stored))


def _columns(
    nodes: BucketNodes, names: list[str], described: list[tuple[int, bool, int, int, int]], stored: list[int] | None
) -> tuple[ColumnLayout, ...]:
    paths = nodes.paths(names)
    types = nodes.type_ids()
    return tuple(
        ColumnLayout(
            name=names[paths[node][0]],
            path=paths[node][1],
            type=TypeId(types[node]).name,
            encoding=Encoding(encoding).name,
            has_nulls=has_nulls,
            dict_entries=entries,
            num_values=values,
            size=size,
            stored_size=None if stored is None else stored[node],
        )
        for node, (encoding, has_nulls, entries, values, size) in enumerate(described)
    )

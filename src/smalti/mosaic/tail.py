"""Opening a file: schema block, index and footer, in one read if the guess is large enough, else in two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from functools import cached_property

from smalti._core.allowance import Allowance
from smalti._core.index import RowGroupIndex
from smalti._core.schema import SchemaBlock
from smalti.errors import CorruptFileError, MosaicError
from smalti.format.companion import Companion, check_end, split_section
from smalti.format.footer import Footer, parse_footer
from smalti.format.foreign import HEAD_SIZE, not_mosaic
from smalti.format.index import BucketEntry
from smalti.format.schema import parse_schema_section
from smalti.format.slot_sizes import SlotSizes, parse_slot_sizes, split_slot_sizes
from smalti.format.statistics import StatisticsRecord
from smalti.io import Source
from smalti.memory import allocation_errors
from smalti.spec import FOOTER_SIZE, MAGIC, MAX_BLOCK_SIZE, Compression


@dataclass(frozen=True)
class Tail:
    """Footer, schema block, index and companion of a file, checked. Columns are known by their positions."""

    footer: Footer
    schema: SchemaBlock
    schema_size: int
    index: RowGroupIndex
    companion: Companion | None = None
    #: The frame with the sizes of slots, which is parsed when it is first needed; empty if there is none.
    slot_sizes_frame: bytes = b""

    @cached_property
    def slot_sizes(self) -> SlotSizes | None:
        """Where slots are said to be, as far as the file tells without its directories."""
        return parse_slot_sizes(self.slot_sizes_frame, self.footer.num_row_groups, self.footer.num_buckets)

    @property
    def buckets(self) -> range:
        """The buckets that hold columns; a file without columns counts one bucket and stores none."""
        return range(self.schema.num_buckets if self.schema.num_columns else 0)

    def entry(self, group: int, bucket: int) -> BucketEntry:
        """The offset, size and mode of a bucket of a row group; the mode is EMPTY if nothing is stored for it."""
        return BucketEntry.decode(*self.index.bucket(group, bucket))

    def stored_bytes(self, group: int, buckets: Collection[int]) -> int:
        """Bytes of some buckets of a row group in the file."""
        return sum(self.entry(group, bucket).size for bucket in buckets)

    def statistics(self, group: int, wanted: Set[int] | None = None) -> list[StatisticsRecord]:
        """The statistics of a row group: of all columns that have them, or of the `wanted` ones."""
        return [StatisticsRecord._make(record) for record in self.index.statistics(group, wanted)]


def parse_schema(
    section: bytes, compression: Compression, take: Callable[[int], None] | None = None
) -> tuple[SchemaBlock, int]:
    """Decompress and check the section of the schema block; also return the size of the block."""
    block = parse_schema_section(section, compression, take)
    return SchemaBlock(block), len(block)


def read_tail(
    source: Source,
    parse: Callable[[bytes, Compression, Callable[[int], None]], tuple[SchemaBlock, int]] = parse_schema,
    memory_limit: int = MAX_BLOCK_SIZE,
) -> tuple[Tail, bytes]:
    """Read and check the end of a file; also return the bytes that were read for it.

    `parse` may know the schema block already, see `smalti.logical.mapping.SharedSchemas`. A block that is decompressed
    and an index that is unpacked to more than `memory_limit` bytes are refused before.
    """
    with allocation_errors():
        return _read_tail(source, parse, Allowance(memory_limit))


def _read_tail(
    source: Source,
    parse: Callable[[bytes, Compression, Callable[[int], None]], tuple[SchemaBlock, int]],
    allowance: Allowance,
) -> tuple[Tail, bytes]:
    size = source.size
    guess = min(size, source.tail_size)
    data = source.read_at(size - guess, guess)
    if not data.endswith(MAGIC):
        raise not_mosaic(source.name, source.read_at(0, min(size, HEAD_SIZE)), data[-FOOTER_SIZE:], size)
    footer = parse_footer(data[-FOOTER_SIZE:], size)
    start = footer.schema_offset
    if start < size - guess:
        data = source.read_at(start, size - guess - start) + data
    read, data = data, data[start - size :]
    index_at = footer.index_offset - start
    section, companion, slot_sizes = data[:index_at], None, b""
    try:
        if footer.compression is Compression.ZSTD:
            section, companion = split_section(section)
            if companion is not None:
                check_end(companion, data[index_at:])
            section, slot_sizes = split_slot_sizes(section)
        schema, schema_size = parse(section, footer.compression, allowance.take)
    except MosaicError as error:
        raise error.locate(section="schema block") from None
    if schema.num_buckets != footer.num_buckets:
        raise CorruptFileError(
            "bucket counts of footer and schema block differ",
            section="footer",
            found=footer.num_buckets,
            expected=schema.num_buckets,
        )
    compressed = footer.compression is Compression.ZSTD
    try:
        section = data[index_at:-FOOTER_SIZE]
        index = RowGroupIndex(section, schema, footer.num_row_groups, start, compressed, allowance)
    except MosaicError as error:
        raise error.locate(section="row group index") from None
    return Tail(footer, schema, schema_size, index, companion, slot_sizes), read

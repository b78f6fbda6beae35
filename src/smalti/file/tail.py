"""Opening a file: schema block, index and footer, in one read if the guess is large enough, else in two."""

from __future__ import annotations

from dataclasses import dataclass

from smalti._core.index import RowGroupIndex
from smalti._core.schema import SchemaBlock
from smalti.errors import CorruptFileError, MosaicError
from smalti.format.compression import inflate
from smalti.format.footer import Footer, parse_footer
from smalti.io import Source
from smalti.spec import FOOTER_SIZE, SCHEMA_PREFIX_SIZE, Compression


@dataclass(frozen=True)
class Tail:
    """Everything a file says about itself, checked."""

    footer: Footer
    schema: SchemaBlock
    schema_size: int
    index: RowGroupIndex


def read_tail(source: Source) -> tuple[Tail, bytes]:
    """Read and check the end of a file; returns the bytes it took as well."""
    size = source.size
    guess = min(size, source.tail_size)
    data = source.read_at(size - guess, guess)
    footer = parse_footer(data[-FOOTER_SIZE:], size)
    start = footer.schema_offset
    if start < size - guess:
        data = source.read_at(start, size - guess - start) + data
    read, data = data, data[start - size :]
    index_at = footer.index_offset - start
    try:
        block = _schema_bytes(data[:index_at], footer.compression)
        schema = SchemaBlock(block)
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
        index = RowGroupIndex(data[index_at:-FOOTER_SIZE], schema, footer.num_row_groups, start, compressed)
    except MosaicError as error:
        raise error.locate(section="row group index") from None
    return Tail(footer, schema, len(block), index), read


def _schema_bytes(section: bytes, compression: Compression) -> bytes:
    size = int.from_bytes(section[:SCHEMA_PREFIX_SIZE], "big")
    payload = section[SCHEMA_PREFIX_SIZE:]
    if compression is Compression.ZSTD:
        return inflate(payload, size)
    if len(payload) != size:
        raise CorruptFileError("schema block has another size than declared", found=len(payload), expected=size)
    return payload

"""The section of the schema block (section 2): the size of the block, then the block itself, compressed or not.

`_core.schema` parses the block and `_core.names` packs it.
"""

from __future__ import annotations

from collections.abc import Callable

from smalti.errors import CorruptFileError
from smalti.format.compression import inflate
from smalti.format.varint import pack_varint
from smalti.spec import SCHEMA_PREFIX_SIZE, Compression


def parse_schema_section(section: bytes, compression: Compression, take: Callable[[int], None] | None = None) -> bytes:
    """The uncompressed block of a section; `take` is called with its size before it is decompressed."""
    size = int.from_bytes(section[:SCHEMA_PREFIX_SIZE], "big")
    payload = section[SCHEMA_PREFIX_SIZE:]
    if compression is Compression.ZSTD:
        return inflate(payload, size, take)
    if len(payload) != size:
        raise CorruptFileError("schema block has another size than declared", found=len(payload), expected=size)
    return payload


def pack_schema_section(size: int, payload: bytes) -> bytes:
    """The section of a block of `size` bytes, of which `payload` is the stored form."""
    return size.to_bytes(SCHEMA_PREFIX_SIZE, "big") + payload


def with_num_buckets(block: bytes, num_columns: int, old: int, new: int) -> bytes:
    """An uncompressed block that counts `new` buckets instead of `old`; nothing else in it depends on them."""
    rest = len(pack_varint(num_columns)) + len(pack_varint(old))
    return pack_varint(num_columns) + pack_varint(new) + block[rest:]

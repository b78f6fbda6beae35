"""The row group index (section 10): one entry per row group. Packed here, parsed and checked by `_core.index`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smalti.errors import MosaicError
from smalti.format.varint import pack_varint
from smalti.spec import MAX_UINT32

#: All columns of the bucket are compressed together, in one block.
MONOLITHIC = "monolithic"
#: Every physical column is compressed by itself, in a slot of its own (section 8).
PAGED = "paged"
#: Nothing is stored: the values of all columns are null.
EMPTY = "empty"


class BucketEntry(NamedTuple):
    """Location of a bucket of a row group, and how it is stored.

    The file has no field for the mode: a paged bucket, whose pages have sizes of their own, has an uncompressed size of
    0. Only `decode` and `pack` know this.

    Attributes
    ----------
    mode : str
        `MONOLITHIC`, `PAGED` or `EMPTY`.
    offset, size : int
        The bytes of the bucket in the file.
    uncompressed_size : int
        Size of the block of a monolithic bucket, 0 for other modes.
    """

    mode: str
    offset: int
    size: int
    uncompressed_size: int

    @classmethod
    def decode(cls, offset: int, size: int, uncompressed_size: int) -> BucketEntry:
        """The entry for the three numbers that the file has."""
        mode = EMPTY if size == 0 else MONOLITHIC if uncompressed_size else PAGED
        return cls(mode, offset, size, uncompressed_size)

    def pack(self, bucket: int) -> bytes:
        """The bytes of the entry in the index."""
        if max(self.size, self.uncompressed_size) > MAX_UINT32:
            raise MosaicError("bucket is too large for the format", bucket=bucket, found=self.size, expected=MAX_UINT32)
        sizes = pack_varint(self.size) + pack_varint(0 if self.mode == PAGED else self.uncompressed_size)
        return pack_varint(bucket) + self.offset.to_bytes(8, "big") + sizes


def pack_row_group(num_rows: int, buckets: Sequence[BucketEntry], statistics: Sequence[bytes]) -> bytes:
    """The entry of a row group.

    Parameters
    ----------
    num_rows : int
    buckets : sequence of BucketEntry
        All buckets of the file, in order.
    statistics : sequence of bytes
        Packed records, see `smalti.format.statistics`.
    """
    entries = [entry.pack(bucket) for bucket, entry in enumerate(buckets)]
    counts = pack_varint(num_rows), pack_varint(len(entries)), pack_varint(len(statistics))
    return b"".join([*counts[:2], *entries, counts[2], *statistics])

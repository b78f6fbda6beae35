"""The footer (section 1): the last 32 bytes of a file, which are read first."""

from __future__ import annotations

import struct
from typing import NamedTuple

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.spec import FOOTER_SIZE, MAGIC, SCHEMA_PREFIX_SIZE, VERSION, Compression

#: index offset, schema offset, buckets, row groups, compression, version, 2 reserved bytes, magic; big-endian.
_LAYOUT = struct.Struct(">QQIIBB2s4s")


class Footer(NamedTuple):
    """Offsets of the other sections; the fields are in the order of the file."""

    index_offset: int
    schema_offset: int
    num_buckets: int
    num_row_groups: int
    compression: Compression

    def pack(self) -> bytes:
        return _LAYOUT.pack(*self, VERSION, b"\0\0", MAGIC)


def parse_footer(data: bytes, file_size: int) -> Footer:
    """Parse the last bytes of a file and check its offsets against `file_size`.

    Parameters
    ----------
    data : bytes
        The last `FOOTER_SIZE` bytes, or the whole file if it is shorter.
    file_size : int
    """
    if len(data) < FOOTER_SIZE:
        raise CorruptFileError(
            "file is too small to be Mosaic", section="footer", found=file_size, expected=FOOTER_SIZE
        )
    index, schema, buckets, groups, compression, version, _, magic = _LAYOUT.unpack(data)
    start = file_size - FOOTER_SIZE

    def corrupt(reason: str, field: int, found: object, expected: object) -> CorruptFileError:
        return CorruptFileError(reason, section="footer", offset=start + field, found=found, expected=expected)

    if magic != MAGIC:
        raise corrupt("not a Mosaic file: bad magic", 28, magic, MAGIC)
    if version != VERSION:
        raise UnsupportedFeatureError(
            "format version", section="footer", offset=start + 25, found=version, expected=VERSION
        )
    if compression not in Compression.__members__.values():
        raise UnsupportedFeatureError(
            "compression id", section="footer", offset=start + 24, found=compression, expected="0 (none) or 1 (zstd)"
        )
    if index > start:
        raise corrupt("index lies past the footer", 0, index, f"at most {start}")
    if schema + SCHEMA_PREFIX_SIZE > index:
        raise corrupt("schema block does not fit before the index", 8, schema, f"at most {index - SCHEMA_PREFIX_SIZE}")
    if buckets == 0:
        raise corrupt("no buckets", 16, 0, "1 at least")
    return Footer(index, schema, buckets, groups, Compression(compression))

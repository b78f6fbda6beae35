"""Header, footer, index trailer and block pointer of a CFile as frozen objects (note, section 7).

Owns which field is which, what must be there, and the order Kudu writes them in. A field that comes twice counts
the last time, as protobuf has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smalti.errors import CorruptFileError
from smalti.kudu.protobuf import Field, as_bytes, as_int, fields, put_bytes, put_int
from smalti.kudu.spec import Compression


@dataclass(frozen=True)
class BlockPointer:
    """Where a block lies; the size includes its checksum."""

    offset: int
    size: int

    def pack(self) -> bytes:
        """As `BlockPointerPB`."""
        return put_int(1, self.offset) + put_int(2, self.size)

    @classmethod
    def parse(cls, data: memoryview) -> BlockPointer:
        """From `BlockPointerPB`."""
        found = _numbers(data, {1: "offset", 2: "size"})
        return cls(found["offset"], found["size"])


@dataclass(frozen=True)
class Footer:
    """`CFileFooterPB`: codes as numbers, since a file may name ones this version does not know."""

    data_type: int
    encoding: int
    num_values: int
    index: BlockPointer | None
    compression: int = Compression.NONE
    metadata: dict[str, bytes] = field(default_factory=dict)
    nullable: bool = False
    dictionary: BlockPointer | None = None
    features: int = 0
    is_array: bool = False

    def pack(self) -> bytes:
        """In the order of the fields' numbers, as protobuf writes them; `is_type_array` only when it is one."""
        parts = [put_int(1, self.data_type), put_int(2, self.encoding), put_int(3, self.num_values)]
        if self.index is not None:
            parts.append(put_bytes(4, put_bytes(1, self.index.pack())))
        parts.append(put_int(6, self.compression))
        parts.append(pack_metadata(7, self.metadata))
        parts.append(put_int(8, self.nullable))
        if self.dictionary is not None:
            parts.append(put_bytes(9, self.dictionary.pack()))
        parts.append(put_int(10, self.features))
        if self.is_array:
            parts.append(put_int(12, 1))
        return b"".join(parts)

    @classmethod
    def parse(cls, data: memoryview) -> Footer:
        """Read what is known; `data_type`, `encoding` and `num_values` must be there."""
        numbers = {6: int(Compression.NONE), 8: 0, 10: 0, 12: 0}
        pointers: dict[int, BlockPointer] = {}
        metadata: dict[str, bytes] = {}
        for item in fields(data):
            number = item[0]
            if number in (1, 2, 3, 6, 8, 10, 12):
                numbers[number] = as_int(item)
            elif number == 4:
                pointers[4] = _root(as_bytes(item))
            elif number == 7:
                metadata.update([parse_pair(item)])
            elif number == 9:
                pointers[9] = BlockPointer.parse(as_bytes(item))
        for number, name in ((1, "data_type"), (2, "encoding"), (3, "num_values")):
            if number not in numbers:
                raise CorruptFileError("message lacks a field it must have", expected=name)
        return cls(
            numbers[1], numbers[2], numbers[3], pointers.get(4), numbers[6], metadata,
            bool(numbers[8]), pointers.get(9), numbers[10] & 0xFFFFFFFF, bool(numbers[12]),
        )  # fmt: skip


def pack_metadata(number: int, metadata: dict[str, bytes]) -> bytes:
    """Key and value pairs, each a `FileMetadataPairPB`."""
    return b"".join(put_bytes(number, put_bytes(1, k.encode()) + put_bytes(2, v)) for k, v in metadata.items())


def parse_header(data: memoryview) -> dict[str, bytes]:
    """The metadata of `CFileHeaderPB`."""
    return dict(parse_pair(item) for item in fields(data) if item[0] == 3)


def parse_pair(item: Field) -> tuple[str, bytes]:
    """One `FileMetadataPairPB`."""
    found = {inner[0]: bytes(as_bytes(inner)) for inner in fields(as_bytes(item)) if inner[0] in (1, 2)}
    if found.keys() != {1, 2}:
        raise CorruptFileError("metadata pair lacks its key or value", found=sorted(found), expected=[1, 2])
    try:
        return found[1].decode(), found[2]
    except UnicodeDecodeError:
        raise CorruptFileError("metadata key is not UTF-8", found=found[1]) from None


def _root(data: memoryview) -> BlockPointer:
    """The root of a `BTreeInfoPB`."""
    root = [as_bytes(item) for item in fields(data) if item[0] == 1]
    if not root:
        raise CorruptFileError("message lacks a field it must have", expected="root_block")
    return BlockPointer.parse(root[-1])


def _numbers(data: memoryview, names: dict[int, str]) -> dict[str, int]:
    found = {names[item[0]]: as_int(item) for item in fields(data) if item[0] in names}
    for name in names.values():
        if name not in found:
            raise CorruptFileError("message lacks a field it must have", expected=name)
    return found


def parse_trailer(data: memoryview) -> tuple[int, int]:
    """Number of entries and type of an `IndexBlockTrailerPB`."""
    found = _numbers(data, {1: "num_entries", 2: "type"})
    return found["num_entries"], found["type"]


def pack_trailer(num_entries: int, kind: int) -> bytes:
    """An `IndexBlockTrailerPB`."""
    return put_int(1, num_entries) + put_int(2, kind)

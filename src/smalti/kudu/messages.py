"""The protobuf messages of a CFile as frozen objects: footer, header, index trailer and block pointer (cfile.proto).

Owns which field is which, which ones must be there, and the order in which Kudu writes them. Of a field that comes
twice the last value counts, as in protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from smalti.errors import CorruptFileError
from smalti.kudu.protobuf import parse, put_bytes, put_int
from smalti.kudu.spec import Compression, Feature


@dataclass(frozen=True)
class BlockPointer:
    """`BlockPointerPB`: where a block lies. The size includes its checksum."""

    offset: int
    size: int

    def pack(self) -> bytes:
        return put_int(1, self.offset) + put_int(2, self.size)

    @classmethod
    def parse(cls, data: memoryview) -> BlockPointer:
        return cls(*_two_numbers(data, {1: "offset", 2: "size"}))


@dataclass(frozen=True)
class Footer:
    """`CFileFooterPB`. Codes are plain numbers, since a file may name ones that this version does not know."""

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

    @property
    def checksum(self) -> bool:
        """Whether blocks, header and footer have checksums."""
        return bool(self.features & Feature.CHECKSUM)

    def pack(self) -> bytes:
        """The message with its fields in the order of their numbers; Kudu leaves out `is_type_array` if it is false."""
        parts = [
            put_int(1, self.data_type),
            put_int(2, self.encoding),
            put_int(3, self.num_values),
            b"" if self.index is None else put_bytes(4, put_bytes(1, self.index.pack())),
            put_int(6, self.compression),
            *(put_bytes(7, put_bytes(1, key.encode()) + put_bytes(2, value)) for key, value in self.metadata.items()),
            put_int(8, self.nullable),
            b"" if self.dictionary is None else put_bytes(9, self.dictionary.pack()),
            put_int(10, self.features),
            put_int(12, 1) if self.is_array else b"",
        ]
        return b"".join(parts)

    @classmethod
    def parse(cls, data: memoryview) -> Footer:
        """Read the fields that are known; `data_type`, `encoding` and `num_values` must be there."""
        numbers, parts = parse(data, (1, 2, 3, 6, 8, 10, 12), (4, 7, 9))
        _require(numbers, {1: "data_type", 2: "encoding", 3: "num_values"})
        return cls(
            data_type=numbers[1],
            encoding=numbers[2],
            num_values=numbers[3],
            index=_last([_parse_root(part) for part in parts[4]]),
            compression=numbers.get(6, Compression.NONE),
            metadata=dict(map(_parse_pair, parts[7])),
            nullable=bool(numbers.get(8)),
            dictionary=_last([BlockPointer.parse(part) for part in parts[9]]),
            features=numbers.get(10, 0) & 0xFFFFFFFF,
            is_array=bool(numbers.get(12)),
        )


def parse_header(data: memoryview) -> dict[str, bytes]:
    """The metadata of `CFileHeaderPB`."""
    return dict(map(_parse_pair, parse(data, (), (3,))[1][3]))


def parse_trailer(data: memoryview) -> tuple[int, int]:
    """The number of entries and the type of an index block, from its `IndexBlockTrailerPB`."""
    return _two_numbers(data, {1: "num_entries", 2: "type"})


def pack_trailer(num_entries: int, kind: int) -> bytes:
    """An `IndexBlockTrailerPB`."""
    return put_int(1, num_entries) + put_int(2, kind)


def _parse_pair(data: memoryview) -> tuple[str, bytes]:
    """The key and the value of a `FileMetadataPairPB`."""
    found = {number: bytes(parts[-1]) for number, parts in parse(data, (), (1, 2))[1].items() if parts}
    if found.keys() != {1, 2}:
        raise CorruptFileError("metadata pair lacks its key or value", found=sorted(found), expected=[1, 2])
    try:
        return found[1].decode(), found[2]
    except UnicodeDecodeError:
        raise CorruptFileError("metadata key is not UTF-8", found=found[1]) from None


def _parse_root(data: memoryview) -> BlockPointer:
    """The only field of a `BTreeInfoPB`."""
    found = {number: parts[-1] for number, parts in parse(data, (), (1,))[1].items() if parts}
    _require(found, {1: "root_block"})
    return BlockPointer.parse(found[1])


def _last(pointers: list[BlockPointer]) -> BlockPointer | None:
    return pointers[-1] if pointers else None


def _two_numbers(data: memoryview, names: Mapping[int, str]) -> tuple[int, int]:
    """Fields 1 and 2 of a message, both numbers."""
    found, _ = parse(data, names)
    _require(found, names)
    return found[1], found[2]


def _require(found: Mapping[int, object], names: Mapping[int, str]) -> None:
    for number, name in names.items():
        if number not in found:
            raise CorruptFileError("message lacks a field it must have", expected=name)

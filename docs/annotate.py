"""The bytes of a real, tiny Mosaic file, field by field, for the page about the format.

Walks an uncompressed file of flat INTEGER, BIGINT and STRING columns with nothing but `struct`: independent of the
reader, so that the page cannot repeat the reader's mistakes. Every byte is covered exactly once, or it raises.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import zstandard

import smalti

ENCODINGS = ("PLAIN", "CONST", "DICT", "ALL_NULL")
TYPES = {3: ("INTEGER", 4), 4: ("BIGINT", 8), 10: ("STRING", 0)}


def tiny_file() -> bytes:
    """Two columns in two buckets, four rows, no compression, statistics of one column."""
    table = pa.table(
        {
            "name": pa.array(["Ada", None, "Bo", "Ada", "Bo", "Ada"]),
            "id": pa.array([7, 8, 9, 10, 11, 12], pa.int32()),
        }
    )
    with TemporaryDirectory() as directory:
        path = Path(directory) / "tiny.mosaic"
        smalti.write_table(table, path, compression="none", num_buckets=2, stats_columns=["id"])
        return path.read_bytes()


@dataclass(frozen=True)
class Field:
    """`size` bytes at `offset`, and what they say; a field without bytes is a heading."""

    offset: int
    size: int
    text: str


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.fields: list[Field] = []

    def heading(self, text: str) -> None:
        self.fields.append(Field(self.at, 0, text))

    def take(self, size: int, text: str) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) != size:
            raise ValueError(f"file ends inside {text}")
        self.fields.append(Field(self.at, size, text))
        self.at += size
        return piece

    def varint(self, text: str) -> int:
        value = shift = size = 0
        while True:
            byte = self.data[self.at + size]
            value |= (byte & 0x7F) << shift
            shift += 7
            size += 1
            if byte < 0x80:
                break
        self.take(size, text.replace("{}", str(value)))
        return value

    def value(self, kind: str, width: int, text: str) -> None:
        if kind == "STRING":
            size = self.data[self.at]  # names and values here are short
            word = self.data[self.at + 1 : self.at + 1 + size].decode()
            self.take(1 + size, f'{text}length {size}, "{word}"')
        else:
            number = int.from_bytes(self.data[self.at : self.at + width], "big", signed=True)
            self.take(width, f"{text}{number}")


def annotate(data: bytes) -> list[Field]:
    """Every field of a tiny file, in the order of the file."""
    index_at, schema_at, buckets, groups, _, _ = struct.unpack(">QQIIBB", data[-32:-6])
    columns = _schema(data[schema_at:index_at])
    entries, rows = _index(data[index_at:-32])
    if groups != 1 or len(columns) != buckets:
        raise ValueError("not a tiny file: one row group and one column per bucket are expected")
    walk = _Walk(data)
    for bucket, (offset, size) in enumerate(entries):
        if offset != walk.at:
            raise ValueError("buckets do not follow each other")
        _walk_bucket(walk, bucket, columns[bucket], rows, size)
    _walk_schema(walk, columns)
    _walk_index(walk, columns)
    _walk_footer(walk)
    if walk.at != len(data):
        raise ValueError(f"{len(data) - walk.at} bytes are not explained")
    return walk.fields


def _schema(block: bytes) -> list[tuple[str, str, int]]:
    """(name, type, width) in the order of the block; names share no prefixes here."""
    at = 4 + 3
    columns = []
    for _ in range(block[4]):
        size = block[at + 1]
        name = block[at + 2 : at + 2 + size].decode()
        columns.append((name, *TYPES[block[at + 2 + size]]))
        at += 4 + size
    return columns


def _index(section: bytes) -> tuple[list[tuple[int, int]], int]:
    rows, count = section[0], section[1]
    entries = [struct.unpack_from(">QB", section, 3 + 11 * i) for i in range(count)]
    return [(offset, size) for offset, size in entries], rows


def _walk_bucket(walk: _Walk, bucket: int, column: tuple[str, str, int], rows: int, size: int) -> None:
    name, kind, width = column
    end = walk.at + size
    encoding = walk.data[walk.at] & 3
    walk.heading(f'bucket {bucket}, monolithic: the column "{name}"')
    walk.take(1, f"encoding flags, 2 bits a column: {encoding} = {ENCODINGS[encoding]}")
    nulls = walk.data[walk.at] & 1
    walk.take(1, f"has-nulls flags, 1 bit a column: {'has a null bitmap' if nulls else 'no nulls'}")
    entries = 0
    if encoding == 2:
        entries = walk.varint("dictionary of {} entries")
        for i in range(entries):
            walk.value(kind, width, f"entry {i}: ")
    missing: list[int] = []
    if nulls:
        bitmap = int.from_bytes(walk.data[walk.at : walk.at + (rows + 7) // 8], "little")
        missing = [row for row in range(rows) if bitmap >> row & 1]
        walk.take((rows + 7) // 8, f"null bitmap, row 0 in the lowest bit: {_plural('row', missing)} null")
    present = rows - len(missing)
    if encoding == 2:
        bits = max(1, (entries - 1).bit_length())
        packed = int.from_bytes(walk.data[walk.at : end], "little")
        indices = [packed >> (bits * i) & ((1 << bits) - 1) for i in range(present)]
        walk.take(
            end - walk.at, f"{_bits(bits)} an index, lowest first, none for nulls: {', '.join(map(str, indices))}"
        )
    else:
        for _ in range(present):
            walk.value(kind, width, "value, big-endian: ")


def _plural(noun: str, numbers: list[int]) -> str:
    words = ", ".join(map(str, numbers))
    return f"{noun} {words} is" if len(numbers) == 1 else f"{noun}s {words} are"


def _bits(count: int) -> str:
    return "1 bit" if count == 1 else f"{count} bits"


def _walk_schema(walk: _Walk, columns: list[tuple[str, str, int]]) -> None:
    walk.heading("schema block")
    size = int.from_bytes(walk.data[walk.at : walk.at + 4], "big")
    walk.take(4, f"length before compression: {size}")
    walk.varint("{} columns")
    walk.varint("{} buckets")
    walk.take(1, "names are front-coded, not byte-pair-encoded")
    for name, kind, _ in columns:
        walk.varint("shares {} bytes with the name before it")
        length = walk.varint("then {} bytes of its own")
        walk.take(length, f'"{name}"')
        walk.take(2, f"type {walk.data[walk.at]} = {kind}, {'nullable' if walk.data[walk.at + 1] else 'not null'}")
    place = 0
    for original in range(len(columns)):
        raw = walk.data[walk.at]
        place += (raw >> 1) ^ -(raw & 1)
        walk.take(1, f'order: column {original} as written is "{columns[place][0]}" (zigzag of the step)')


def _walk_index(walk: _Walk, columns: list[tuple[str, str, int]]) -> None:
    walk.heading("row group index")
    rows = walk.varint("row group 0 has {} rows")
    for _ in range(walk.varint("{} buckets follow")):
        bucket = walk.varint("bucket {}")
        offset = int.from_bytes(walk.data[walk.at : walk.at + 8], "big")
        walk.take(8, f"offset of bucket {bucket}: {offset:#04x}")
        walk.varint("{} bytes in the file")
        walk.varint("{} bytes unpacked (0 would mean paged)")
    for _ in range(walk.varint("columns with statistics: {}")):
        name, kind, width = columns[walk.varint("the column at place {} of the schema block")]
        if walk.varint("{} nulls") < rows:
            walk.value(kind, width, f'minimum of "{name}": ')
            walk.value(kind, width, f'maximum of "{name}": ')


def _walk_footer(walk: _Walk) -> None:
    walk.heading("footer, always 32 bytes")
    for size, text in ((8, "index at"), (8, "schema block at")):
        walk.take(size, f"{text} {int.from_bytes(walk.data[walk.at : walk.at + size], 'big'):#04x}")
    for text in ("buckets", "row groups"):
        walk.take(4, f"{text}: {int.from_bytes(walk.data[walk.at : walk.at + 4], 'big')}")
    walk.take(1, "compression: 0 = none, 1 = zstd")
    walk.take(1, "version 1")
    walk.take(2, "reserved")
    walk.take(4, 'magic "MOSA"')


def file_with_companion() -> bytes:
    """A column that Mosaic has no type for, and a struct whose field has the name of another column."""
    struct_ = pa.array([{"b": 7}], pa.struct([("b", pa.int64())]))
    table = pa.table({"a": struct_, "a.b": ["x"], "c": pa.array(["x"], pa.dictionary(pa.int8(), pa.string()))})
    with TemporaryDirectory() as directory:
        path = Path(directory) / "kept.mosaic"
        smalti.write_table(table, path)
        return path.read_bytes()


def annotate_companion(data: bytes) -> tuple[bytes, list[Field], bytes, list[Field]]:
    """The companion of a file and its fields, then its payload, unpacked, and the fields of that."""
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    size = int.from_bytes(data[index_at - 8 : index_at - 4], "big")
    if schema_at + size >= index_at:
        raise ValueError("companion does not fit")
    frame = data[index_at - size : index_at]
    walk = _Walk(frame)
    walk.take(4, "magic number of a skippable frame, 0x184D2A5D, little-endian")
    walk.take(4, f"bytes that follow, little-endian: {size - 8}")
    walk.take(4, 'tag "SMLT"')
    walk.take(1, "version 1")
    walk.take(1, "writer: 0 = smalti")
    walk.take(4, "CRC-32C of the file from the index to its end")
    packed = walk.take(size - 30, "payload: one zstd frame (shown unpacked below)")
    walk.take(4, "CRC-32C of everything before, from the magic number")
    walk.take(4, f"size of the whole frame: {size}")
    walk.take(4, 'tag "SMLT" again, to find the frame from its end')
    payload = zstandard.ZstdDecompressor().decompress(packed)
    inner = _Walk(payload)
    length = inner.varint("an Arrow IPC schema message of {} bytes:")
    schema = pa.ipc.read_schema(pa.py_buffer(payload[inner.at : inner.at + length]))
    inner.take(length, ", ".join(f'"{field.name}" {field.type}' for field in schema))
    for _ in range(inner.varint("{} of these columns is stored under names of its own:")):
        inner.varint("the column at place {}")
        for _ in range(inner.varint("is stored as {} columns")):
            name = payload[inner.at + 1 : inner.at + 1 + payload[inner.at]]
            inner.take(1 + len(name), f'length {len(name)}, "{name.decode()}"')
    rest = payload[inner.at :]
    batch = pa.ipc.open_stream(rest).read_next_batch()
    inner.take(len(rest), f"an Arrow IPC stream of one row: {batch.to_pylist()[0]}")
    return frame, walk.fields, payload, inner.fields


def companion_listing() -> str:
    """The companion and its payload as lines; of long pieces only the beginning."""
    frame, fields, payload, inner = annotate_companion(file_with_companion())
    return "\n".join(
        [*lines_of(frame, fields, shown=9), "", "the payload, unpacked", *lines_of(payload, inner, shown=9)]
    )


def listing(data: bytes) -> str:
    """A file as lines."""
    return "\n".join(lines_of(data, annotate(data)))


def lines_of(data: bytes, fields: list[Field], width: int = 9, shown: int | None = None) -> list[str]:
    """The fields as lines: offset, bytes, meaning; at most `shown` bytes of each."""
    lines = []
    for field in fields:
        if not field.size:
            lines.append(f"      {'':{3 * width}} ── {field.text}")
            continue
        piece = data[field.offset : field.offset + field.size]
        for start in range(0, min(field.size, shown or field.size), width):
            bytes_ = piece[start : start + width].hex(" ")
            if start + width < field.size and shown is not None:
                bytes_ = f"{piece[start : start + width - 1].hex(' ')} …"
            text = field.text if start == 0 else ""
            lines.append(f"{field.offset + start:04x}  {bytes_:{3 * width}} {text}".rstrip())
    return lines

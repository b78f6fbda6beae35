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
    for _ in range(walk.varint("statistics of {} columns")):
        name, kind, width = columns[walk.varint("the column at place {} of the schema block")]
        if walk.varint("{} nulls") < rows:
            walk.value(kind, width, f'minimum of "{name}": ')
            walk.value(kind, width, f'maximum of "{name}": ')


def _walk_footer(walk: _Walk) -> None:
    walk.heading("footer, always 32 bytes")
    for size, text in ((8, "index at"), (8, "schema block at")):
        walk.take(size, f"{text} {int.from_bytes(walk.data[walk.at : walk.at + size], 'big'):#04x}")
    for text in ("buckets", "row groups"):
        walk.take(4, f"{int.from_bytes(walk.data[walk.at : walk.at + 4], 'big')} {text}")
    walk.take(1, "compression: 0 = none, 1 = zstd")
    walk.take(1, "version 1")
    walk.take(2, "reserved")
    walk.take(4, 'magic "MOSA"')


def listing(data: bytes, width: int = 9) -> str:
    """The fields as lines: offset, bytes, meaning."""
    lines = []
    for field in annotate(data):
        if not field.size:
            lines.append(f"      {'':{3 * width}} ── {field.text}")
            continue
        piece = data[field.offset : field.offset + field.size]
        for start in range(0, field.size, width):
            shown = piece[start : start + width].hex(" ")
            text = field.text if start == 0 else ""
            lines.append(f"{field.offset + start:04x}  {shown:{3 * width}} {text}".rstrip())
    return "\n".join(lines)

"""The companion: a zstd skippable frame behind the schema block, for what Mosaic v1 has no field for.

Every zstd decoder skips it, so the file stays Mosaic v1 for everybody else. It carries a checksum of index and footer,
and a description of the columns as they were given, where that is more than the schema block says: Arrow types without
a type of their own, structs, metadata. `docs/format.md` shows it byte by byte.

The envelope (everything but the payload) is the same in all versions:

| offset | bytes | what |
|---|---|---|
| 0 | 4 | 0x184D2A5D, little endian: the magic number of a skippable frame |
| 4 | 4 | bytes that follow, little endian, as zstd has it; all other numbers are big endian, as in Mosaic |
| 8 | 4 | "SMLT" |
| 12 | 1 | version, 1 |
| 13 | 1 | writer: 0 is smalti |
| 14 | 4 | CRC-32C of the file from the index to its end |
| 18 | n | payload: one zstd frame, or nothing |
| 18 + n | 4 | CRC-32C of everything before |
| 22 + n | 4 | size of all, 30 + n |
| 26 + n | 4 | "SMLT" again, so that the frame can be found from its end |
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from typing import Any

import google_crc32c
import pyarrow as pa
import zstandard

from smalti._core.arrow_c import field_kinds
from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.format.compression import deflate, inflate
from smalti.format.varint import pack_varint

VERSION = 1
#: The number of this writer. A frame of another writer that makes no sense to us is passed over.
WRITER = 0
_TAG = b"SMLT"
_MAGIC = struct.pack("<I", 0x184D2A5D)
_HEAD = struct.Struct(">4sBBI")
_END = struct.Struct(">II4s")
_FRAME_HEAD = 8
#: Bytes of a frame without payload.
ENVELOPE_SIZE = _FRAME_HEAD + _HEAD.size + _END.size
#: A payload is refused if it is larger than this uncompressed.
MAX_PAYLOAD = 64 << 20
#: Entries of one dictionary. A larger one comes back with its entries as they are met among the values.
MAX_ENTRIES = 65_536
#: Bytes of the entries of all dictionaries together; those that do not fit come back like larger ones.
MAX_ENTRY_BYTES = 16 << 20


@dataclass(frozen=True)
class Companion:
    """What a frame says: the checksum of index and footer, and the payload, still compressed; `size` is that of all."""

    checksum: int
    payload: bytes
    writer: int
    version: int
    size: int


def pack_companion(payload: bytes, end: bytes) -> bytes:
    """The frame of a file that ends with `end`: its index and footer."""
    size = ENVELOPE_SIZE + len(payload)
    head = _MAGIC + struct.pack("<I", size - _FRAME_HEAD) + _HEAD.pack(_TAG, VERSION, WRITER, google_crc32c.value(end))
    body = head + payload
    return body + _END.pack(google_crc32c.value(body), size, _TAG)


def split_section(section: bytes) -> tuple[bytes, Companion | None]:
    """The section of the schema block without the companion, and the companion, None if there is none to use.

    Raises
    ------
    CorruptFileError
        If there is a companion, and it is damaged.
    """
    if section[-4:] != _TAG:
        at = section.rfind(_TAG)
        if at >= _FRAME_HEAD and section[at - _FRAME_HEAD : at - 4] == _MAGIC:
            raise CorruptFileError("companion is cut or damaged", offset=at - _FRAME_HEAD)
        return section, None
    if len(section) < ENVELOPE_SIZE:
        return section, None
    checksum, size, _ = _END.unpack(section[-_END.size :])
    if not ENVELOPE_SIZE <= size <= len(section):
        raise CorruptFileError("companion does not fit", found=size, expected=f"at most {len(section)}")
    frame = section[-size:]
    if google_crc32c.value(frame[: -_END.size]) != checksum:
        raise CorruptFileError("checksum of the companion does not match", offset=len(section) - size)
    if frame[:4] != _MAGIC or int.from_bytes(frame[4:8], "little") != size - _FRAME_HEAD:
        raise CorruptFileError("companion is no skippable frame", offset=len(section) - size, found=frame[:8].hex())
    _, version, writer, of_end = _HEAD.unpack(frame[_FRAME_HEAD : _FRAME_HEAD + _HEAD.size])
    if version != VERSION:
        warn_of(f"its version is {version}, this is {VERSION}")
        return section[:-size], Companion(of_end, b"", writer, version, size)
    return section[:-size], Companion(of_end, frame[_FRAME_HEAD + _HEAD.size : -_END.size], writer, version, size)


def check_end(companion: Companion, end: bytes) -> None:
    """Refuse an index and footer that are not those the companion was written for."""
    found = google_crc32c.value(end)
    if found != companion.checksum:
        raise CorruptFileError(
            "checksum of index and footer does not match", found=hex(found), expected=hex(companion.checksum)
        )


def warn_of(reason: str) -> None:
    """Say that a companion is not used: columns come as they are stored, without their original types and metadata."""
    warnings.warn(
        f"the companion of a Mosaic file is not used: {reason}; columns come as they are stored", stacklevel=3
    )


# --- the payload --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """The columns that are not what the schema block says of them.

    `schema` has these columns, and the metadata of the whole schema; `names` has the names of the columns that one of
    them is stored as, by its position, if `smalti.logical.tree` would choose others; `dictionaries` has the entries of
    each dictionary-encoded leaf that has some, by its stored name.
    """

    schema: pa.Schema
    names: dict[int, tuple[str, ...]]
    dictionaries: dict[str, pa.Array]


def pack_description(description: Description) -> bytes:
    """The compressed payload of a companion.

    Uncompressed: the size of an Arrow IPC schema message (varint) and the message; the number of its fields whose
    stored columns have other names than usual (varint), and for each its place, the number of columns it is stored as
    (varints) and their names (each a varint of its size, then UTF-8); then an Arrow IPC stream with one column for each
    dictionary, one row, a list of its entries; nothing if there is none.

    Raises
    ------
    SchemaError
        If it is too large to be read again, because of its metadata.
    """
    parts = []
    message = description.schema.serialize().to_pybytes()
    parts += [pack_varint(len(message)), message]
    parts.append(pack_varint(len(description.names)))
    for place, names in description.names.items():
        parts += [pack_varint(place), pack_varint(len(names))]
        for name in names:
            data = name.encode()
            parts += [pack_varint(len(data)), data]
    if description.dictionaries:
        parts.append(_pack_dictionaries(description.dictionaries))
    size = sum(map(len, parts))
    if size > MAX_PAYLOAD:
        raise SchemaError("schema and metadata are too large", found=size, expected=f"at most {MAX_PAYLOAD} bytes")
    return deflate(b"".join(parts), 3, True)


def _pack_dictionaries(dictionaries: dict[str, pa.Array]) -> bytes:
    lists = [
        pa.ListArray.from_arrays(pa.array([0, len(entries)], pa.int32()), entries) for entries in dictionaries.values()
    ]
    batch = pa.RecordBatch.from_arrays(lists, names=list(dictionaries))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def parse_description(payload: bytes) -> Description:
    """What `pack_description` packed.

    Raises
    ------
    CorruptFileError
        If it is anything else.
    """
    try:
        size = zstandard.frame_content_size(payload)
        if not 0 <= size <= MAX_PAYLOAD:
            raise CorruptFileError("companion is too large", found=size, expected=f"at most {MAX_PAYLOAD}")
        cursor = _Cursor(inflate(payload, size))
        schema = pa.ipc.read_schema(pa.py_buffer(cursor.take(cursor.varint())))
        _check_names(schema)
        names = {}
        for _ in range(cursor.count()):
            place = cursor.varint()
            if place in names or place >= len(schema):
                raise CorruptFileError("companion has no such column", found=place)
            names[place] = tuple(cursor.take(cursor.varint()).decode() for _ in range(cursor.count()))
        return Description(schema, names, _parse_dictionaries(cursor.rest()))
    except (MosaicError, MemoryError):
        raise
    except Exception as error:  # Extension types are read by code of their own, which may raise anything.
        raise CorruptFileError(f"companion cannot be read ({error})") from None


def _check_names(schema: pa.Schema) -> None:
    """Refuse names that are no text, which Arrow notices when it is first asked for one, or that are there twice."""
    names = schema.names
    if len(set(names)) != len(names):
        raise CorruptFileError("companion has two columns of one name", found=names[:5])
    for place, kind in enumerate(field_kinds(schema.__arrow_c_schema__())):
        if kind is None:
            _check_nested(schema.field(place).type)


def _check_nested(type_: Any) -> None:
    inner = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    if pa.types.is_nested(inner):
        for i in range(inner.num_fields):
            assert inner.field(i).name is not None
            _check_nested(inner.field(i).type)


def _parse_dictionaries(stream: bytes) -> dict[str, pa.Array]:
    if not stream:
        return {}
    source = pa.BufferReader(stream)
    messages = list(pa.ipc.MessageReader.open_stream(source))
    kinds = [message.type for message in messages]
    if kinds != ["schema", "record batch"] or source.tell() != len(stream):
        raise CorruptFileError("dictionaries of the companion are no stream of one batch", found=kinds)
    if _is_compressed(messages[1].metadata.to_pybytes()):
        raise CorruptFileError("dictionaries of the companion are compressed once more")
    schema = pa.ipc.read_schema(messages[0])
    _check_names(schema)
    batch = pa.ipc.read_record_batch(messages[1], schema)
    batch.validate(full=True)
    if batch.num_rows != 1 or not all(pa.types.is_list(type_) for type_ in schema.types):
        raise CorruptFileError("dictionaries of the companion are not lists", found=str(schema))
    entries = {name: column[0].values for name, column in zip(schema.names, batch.columns, strict=True)}
    for name, values in entries.items():
        if values is None or len(values) > MAX_ENTRIES or values.null_count:
            raise CorruptFileError("companion has no such dictionary", column=name, expected=f"{MAX_ENTRIES} entries")
    return entries


def _is_compressed(message: bytes) -> bool:
    """Whether the buffers of a record batch are compressed, and could be of any size: field 3 of its flatbuffer.

    pyarrow has checked the flatbuffer, but does not tell.
    """

    def field(table: int, number: int) -> int:
        """Where a field of a table is, 0 if it is not there."""
        fields = table - int.from_bytes(message[table : table + 4], "little", signed=True)
        size = int.from_bytes(message[fields : fields + 2], "little")
        at = fields + 4 + 2 * number
        offset = int.from_bytes(message[at : at + 2], "little") if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + int.from_bytes(message[at : at + 4], "little")

    return field(follow(field(follow(0), 2)), 3) != 0


class _Cursor:
    """Reads the payload; nothing is taken that is not there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise CorruptFileError("companion is cut", found=len(self._data) - self._at, expected=size)
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise CorruptFileError("number in the companion is too long")

    def count(self) -> int:
        """A number of things that take a byte each at least."""
        count = self.varint()
        if count > len(self._data) - self._at:
            raise CorruptFileError("companion is cut", found=len(self._data) - self._at, expected=count)
        return count

    def rest(self) -> bytes:
        return self._data[self._at :]

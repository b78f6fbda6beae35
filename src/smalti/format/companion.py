"""The companion: a zstd skippable frame behind the schema block, for information that Mosaic v1 has no field for.

Every zstd decoder skips it, so the file stays Mosaic v1 for other readers. It carries a checksum of index and footer,
and a description of the columns whose Arrow type differs from their stored form: Arrow types that Mosaic lacks,
structs, metadata. `docs/format.md` shows it byte by byte. The envelope (everything but the payload) is the same in all
versions.
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
#: The number of this writer. A frame of another writer that cannot be parsed is ignored.
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
    """A parsed frame of `size` bytes: the checksum of index and footer, and the payload, still compressed."""

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
    """Split the section of the schema block from the companion, which is None if there is none.

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
    """Compare index and footer with the checksum in the companion."""
    found = google_crc32c.value(end)
    if found != companion.checksum:
        raise CorruptFileError(
            "checksum of index and footer does not match", found=hex(found), expected=hex(companion.checksum)
        )


def warn_of(reason: str) -> None:
    """Warn that a companion is not used: columns are read as stored, without their original types and metadata."""
    warnings.warn(
        f"the companion of a Mosaic file is not used: {reason}; columns come as they are stored", stacklevel=3
    )


# --- the payload --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """Columns whose Arrow type differs from their stored form.

    `schema` has these columns, and the metadata of the whole schema. `names` maps the index of a column in it to the
    names of its stored columns, if `smalti.logical.tree` would choose others. `dictionaries` maps the stored name
    of a dictionary-encoded leaf to its entries.
    """

    schema: pa.Schema
    names: dict[int, tuple[str, ...]]
    dictionaries: dict[str, pa.Array]


def pack_description(description: Description) -> bytes:
    """The compressed payload of a companion.

    Uncompressed: the size of an Arrow IPC schema message (varint) and the message; the number of its fields whose
    stored columns have other names than usual (varint), and for each its index, the number of its stored columns
    (varints) and their names (each a varint of its size, then UTF-8); then an Arrow IPC stream with one column for each
    dictionary, one row, a list of its entries; nothing if there is no dictionary.

    Raises
    ------
    SchemaError
        If the description, with its metadata, is too large to be read again.
    """
    parts = []
    message = description.schema.serialize().to_pybytes()
    parts += [pack_varint(len(message)), message]
    parts.append(pack_varint(len(description.names)))
    for index, names in description.names.items():
        parts += [pack_varint(index), pack_varint(len(names))]
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
    """Parse the payload that `pack_description` makes; raises `CorruptFileError` if it is anything else."""
    try:
        size = zstandard.frame_content_size(payload)
        if not 0 <= size <= MAX_PAYLOAD:
            raise CorruptFileError("companion is too large", found=size, expected=f"at most {MAX_PAYLOAD}")
        cursor = _Cursor(inflate(payload, size))
        schema = pa.ipc.read_schema(pa.py_buffer(cursor.take(cursor.varint())))
        _check_names(schema)
        names = {}
        for _ in range(cursor.count()):
            index = cursor.varint()
            if index in names or index >= len(schema):
                raise CorruptFileError("companion has no such column", found=index)
            names[index] = tuple(cursor.take(cursor.varint()).decode() for _ in range(cursor.count()))
        return Description(schema, names, _parse_dictionaries(cursor.rest()))
    except (MosaicError, MemoryError):
        raise
    except Exception as error:  # Extension types are read by code of their own, which may raise anything.
        raise CorruptFileError(f"companion cannot be read ({error})") from None


def _check_names(schema: pa.Schema) -> None:
    """Refuse repeated names, and names that are not UTF-8, for which Arrow raises when they are first used."""
    names = schema.names
    if len(set(names)) != len(names):
        raise CorruptFileError("companion has two columns of one name", found=names[:5])
    for index, kind in enumerate(field_kinds(schema.__arrow_c_schema__())):
        if kind is None:
            _check_nested(schema.field(index).type)


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
    """Whether the buffers of a record batch are compressed, and could expand to any size: field 3 of its flatbuffer.

    pyarrow (26) has checked the flatbuffer, but has no function for the field.
    """

    def field(table: int, number: int) -> int:
        """The offset of a field of a table, 0 if the table lacks it."""
        fields = table - int.from_bytes(message[table : table + 4], "little", signed=True)
        size = int.from_bytes(message[fields : fields + 2], "little")
        at = fields + 4 + 2 * number
        offset = int.from_bytes(message[at : at + 2], "little") if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + int.from_bytes(message[at : at + 4], "little")

    return field(follow(field(follow(0), 2)), 3) != 0


class _Cursor:
    """Reads the payload; every size is compared with the bytes that are left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._need(size)
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
        """Read the number of items that follow; each takes a byte at least."""
        count = self.varint()
        self._need(count)
        return count

    def _need(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise CorruptFileError("companion is cut", found=len(self._data) - self._at, expected=size)

    def rest(self) -> bytes:
        return self._data[self._at :]

"""The companion: a zstd skippable frame behind the schema block, with information that Mosaic v1 has no field for.

Every zstd decoder skips it, so the file stays Mosaic v1 for everybody else. It carries a checksum of index and footer,
and a description of the columns as they were given, where that is more than the schema block says: Arrow types without
a type of their own, structs, metadata. `docs/format.md` shows both byte by byte. The envelope (everything but the
payload) is the same in all versions. Its numbers are big endian, except for those that zstd defines.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import google_crc32c
import pyarrow as pa
import zstandard

from smalti._core.arrow_c import field_kinds
from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.format.compression import deflate, inflate
from smalti.format.varint import pack_sized, pack_varint

VERSION = 1
#: The number of this writer. A frame of another writer that cannot be understood is ignored.
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
#: Entries of one dictionary. A larger dictionary is not kept; reading rebuilds it in the order of the values.
MAX_ENTRIES = 65_536
#: Bytes of the entries of all dictionaries together; dictionaries that do not fit are not kept either.
MAX_ENTRY_BYTES = 16 << 20
#: The metadata of a field by which Arrow names an extension type.
_EXTENSION = b"ARROW:extension:name"


@dataclass(frozen=True)
class Companion:
    """The content of a frame: the checksum of index and footer, and the compressed payload. `size` is the frame's."""

    checksum: int
    payload: bytes
    writer: int
    size: int


def pack_frame(tag: bytes, payload: bytes, checksum: int) -> bytes:
    """A skippable frame with the envelope of the companion. `checksum` is that of something outside of it."""
    size = ENVELOPE_SIZE + len(payload)
    body = _MAGIC + struct.pack("<I", size - _FRAME_HEAD) + _HEAD.pack(tag, VERSION, WRITER, checksum) + payload
    return body + _END.pack(google_crc32c.value(body), size, tag)


def split_frame(section: bytes, tag: bytes) -> tuple[bytes, bytes, int, int, int] | None:
    """Bytes before the frame that ends a section, its payload, checksum, version and writer; None without a frame.

    Raise CorruptFileError if there is a frame, and it is damaged.
    """
    if section[-4:] != tag or len(section) < ENVELOPE_SIZE:
        return None
    checksum, size, _ = _END.unpack(section[-_END.size :])
    if not ENVELOPE_SIZE <= size <= len(section):
        raise CorruptFileError("companion does not fit", found=size, expected=f"at most {len(section)}")
    frame = section[-size:]
    if google_crc32c.value(frame[: -_END.size]) != checksum:
        raise CorruptFileError("checksum of the companion does not match", offset=len(section) - size)
    if frame[:4] != _MAGIC or int.from_bytes(frame[4:8], "little") != size - _FRAME_HEAD:
        raise CorruptFileError("companion is no skippable frame", offset=len(section) - size, found=frame[:8].hex())
    _, version, writer, of_other = _HEAD.unpack(frame[_FRAME_HEAD : _FRAME_HEAD + _HEAD.size])
    return section[:-size], frame[_FRAME_HEAD + _HEAD.size : -_END.size], of_other, version, writer


def pack_companion(payload: bytes, end: bytes) -> bytes:
    """The frame of a file that ends with `end`: its index and footer."""
    return pack_frame(_TAG, payload, google_crc32c.value(end))


def split_section(section: bytes) -> tuple[bytes, Companion | None]:
    """The section of the schema block without the companion, and the companion, None without one.

    Raise CorruptFileError if there is a companion, and it is damaged. Warn of a version that is unknown.
    """
    found = split_frame(section, _TAG)
    if found is None:
        at = section.rfind(_TAG) if section[-4:] != _TAG else -1
        if at >= _FRAME_HEAD and section[at - _FRAME_HEAD : at - 4] == _MAGIC:
            raise CorruptFileError("companion is cut or damaged", offset=at - _FRAME_HEAD)
        return section, None
    before, payload, of_end, version, writer = found
    if version != VERSION:
        warn_of(f"its version is {version}, this is {VERSION}")
        payload = b""
    return before, Companion(of_end, payload, writer, len(section) - len(before))


def check_end(companion: Companion, end: bytes) -> None:
    """Refuse an index and footer that differ from those of the companion's checksum."""
    found = google_crc32c.value(end)
    if found != companion.checksum:
        raise CorruptFileError(
            "checksum of index and footer does not match", found=hex(found), expected=hex(companion.checksum)
        )


def warn_of(reason: str) -> None:
    """Warn that a companion is not used: columns are read as stored, without their given types and metadata."""
    warnings.warn(
        f"the companion of a Mosaic file is not used: {reason}; columns come as they are stored", stacklevel=3
    )


# --- the payload --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """Columns whose Arrow field differs from their stored form, and the metadata of the whole schema.

    `names` has the names of the stored columns of a field, by its index in `schema`, if `smalti.logical.tree` would
    choose others. `dictionaries` has the entries of dictionaries, by the names of their stored columns.
    `has_unknown_types` says whether fields have extension types that nobody had registered when they were parsed.
    """

    schema: pa.Schema
    names: dict[int, tuple[str, ...]]
    dictionaries: dict[str, pa.Array]
    has_unknown_types: bool = False


def pack_description(description: Description) -> bytes:
    """The compressed payload of a companion. Raise SchemaError if metadata make it too large to be read again."""
    parts = [pack_sized(description.schema.serialize().to_pybytes()), pack_varint(len(description.names))]
    for index, names in description.names.items():
        parts += [pack_varint(index), pack_varint(len(names)), *(pack_sized(name.encode()) for name in names)]
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
    """Parse the compressed payload of a companion. Raise CorruptFileError if it breaks the format."""
    try:
        size = zstandard.frame_content_size(payload)
        if not 0 <= size <= MAX_PAYLOAD:
            raise CorruptFileError("companion is too large", found=size, expected=f"at most {MAX_PAYLOAD}")
        stream = BytesIO(inflate(payload, size))
        packed = _take(stream, _take_varint(stream))
        schema = pa.ipc.read_schema(pa.py_buffer(packed))
        _check_names(schema)
        has_unknown_types = _EXTENSION in packed and any(map(_is_unknown, schema))
        names = {}
        for _ in range(_take_count(stream)):
            index = _take_varint(stream)
            if index in names or index >= len(schema):
                raise CorruptFileError("companion has no such column", found=index)
            names[index] = tuple(_take(stream, _take_varint(stream)).decode() for _ in range(_take_count(stream)))
        return Description(schema, names, _parse_dictionaries(stream.read()), has_unknown_types)
    except (MosaicError, MemoryError):
        raise
    except Exception as error:  # Extension types are read by code of their own, which may raise anything.
        raise CorruptFileError(f"companion cannot be read ({error})") from None


def _is_unknown(field: pa.Field) -> bool:
    """Whether a field, or one below it, has an extension type that is not registered: Arrow leaves its name there."""
    children = (field.type.field(i) for i in range(field.type.num_fields))
    return _EXTENSION in (field.metadata or {}) or any(map(_is_unknown, children))


def _check_names(schema: pa.Schema) -> None:
    """Refuse names that are not UTF-8, for which Arrow raises when a name is first asked for, or that occur twice."""
    names = schema.names
    if len(set(names)) != len(names):
        raise CorruptFileError("companion has two columns of one name", found=names[:5])
    for index, kind in enumerate(field_kinds(schema.__arrow_c_schema__())):
        if kind is None:
            _check_nested(schema.field(index).type)


def _check_nested(type_: Any) -> None:
    while isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    for field in map(type_.field, range(type_.num_fields)):
        field.name  # noqa: B018  Arrow raises here if the name is not UTF-8.
        _check_nested(field.type)


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

    pyarrow has checked the flatbuffer, but does not show this field.
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


def _take(stream: BytesIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise CorruptFileError("companion is cut", found=len(data), expected=size)
    return data


def _take_varint(stream: BytesIO) -> int:
    value = 0
    for shift in range(0, 35, 7):
        (byte,) = _take(stream, 1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise CorruptFileError("number in the companion is too long")


def _take_count(stream: BytesIO) -> int:
    """A number of things that take a byte each at least."""
    count, left = _take_varint(stream), len(stream.getbuffer()) - stream.tell()
    if count > left:
        raise CorruptFileError("companion is cut", found=left, expected=count)
    return count

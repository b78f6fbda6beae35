"""The wire format of protobuf, as far as the messages of a CFile use it: varint and length-delimited fields.

Five small messages of a fixed schema need a page of code. The `protobuf` runtime would be a dependency with a compiled
schema and a window of versions, and would not bound what it takes from untrusted bytes. Unknown fields are skipped, as
protobuf asks; wrong wire types and bytes that end early are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import leb128

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZE = {FIXED64: 8, FIXED32: 4}


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in the order they come: their numbers, and their values as numbers or bytes."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise CorruptFileError("protobuf field without a number", found=tag, offset=start)
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in _FIXED_SIZE:
            size = _FIXED_SIZE[wire]
        else:
            raise CorruptFileError("protobuf wire type", found=wire, expected="0, 1, 2 or 5", offset=start)
        if size > len(data) - at:
            raise CorruptFileError("protobuf field is cut off", found=len(data) - at, expected=size, offset=start)
        yield number, data[at : at + size]
        at += size


def parse(
    data: memoryview, numbers: Collection[int], parts: Collection[int] = ()
) -> tuple[dict[int, int], dict[int, list[memoryview]]]:
    """The fields asked for: the last value of each of `numbers`, and all values of the strings and messages `parts`.

    Examples
    --------
    >>> parse(memoryview(bytes.fromhex("08051007")), numbers=[1])
    ({1: 5}, {})
    """
    last: dict[int, int] = {}
    every: dict[int, list[memoryview]] = {number: [] for number in parts}
    for number, value in fields(data):
        if number in numbers:
            if not isinstance(value, int):
                raise CorruptFileError(f"protobuf field {number} is no number", found=bytes(value[:16]))
            last[number] = value
        elif number in parts:
            if isinstance(value, int):
                raise CorruptFileError(f"protobuf field {number} is no string or message", found=value)
            every[number].append(value)
    return last, every


def put_int(number: int, value: int) -> bytes:
    """A varint field."""
    return leb128.encode(number << 3 | VARINT) + leb128.encode(value)


def put_bytes(number: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return leb128.encode(number << 3 | BYTES) + leb128.encode(len(value)) + value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read a LEB128 number. Unlike the kernel, protobuf accepts numbers written in more bytes than they need."""
    value, start = 0, at
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise CorruptFileError("protobuf number is cut off", offset=start)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
    raise CorruptFileError("protobuf number does not fit 64 bits", offset=start)

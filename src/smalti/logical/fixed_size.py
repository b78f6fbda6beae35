"""Values of a fixed size, which are stored as bytes: keys, hashes, and decimals of more than 38 digits, in bulk.

Imported only when an array must be converted, like `smalti.logical.arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat import arrow as compat
from smalti._core.values import swapped
from smalti.errors import CorruptFileError
from smalti.logical.types import fixed_bytes
from smalti.spec import MAX_BLOCK_SIZE

#: The largest number of 64 bits, more bytes than any memory has.
MAX_BYTES = (1 << 63) - 1


def take_fixed(rows: int, type_: Any, stored: Any, take: Callable[[int], None]) -> None:
    """Count fixed-size values before they are allocated.

    Their size comes from the companion, and nulls take no bytes in the file, so a tiny file can declare any amount.
    """
    size = rows * fixed_bytes(type_)
    if rows * (type_.list_size if pt.is_fixed_size_list(type_) else type_.byte_width) > MAX_BLOCK_SIZE:
        raise CorruptFileError("values of fixed size are too large", found=size, expected=MAX_BLOCK_SIZE)
    take(min(max(0, size - compat.size_of(stored)), MAX_BYTES))


def decimals_to_bytes(array: Any) -> Any:
    """Decimals of more than 38 digits as 32 bytes each, big endian, two's complement."""
    array.validate(full=True)  # Digits beyond the precision would be refused when they are read.
    data = memoryview(array.buffers()[1]).cast("B")[32 * array.offset : 32 * (array.offset + len(array))]
    return _with_validity(pa.binary(32), array, swapped(data, 4)).cast(pa.binary())


def bytes_to_decimals(array: Any, type_: Any) -> Any:
    fixed = to_fixed_size(array, pa.binary(32))
    data = memoryview(fixed.buffers()[1]).cast("B")[32 * fixed.offset : 32 * (fixed.offset + len(fixed))]
    values = _with_validity(type_, array, swapped(data, 4))
    values.validate(full=True)
    return values


def to_fixed_size(array: Any, type_: Any) -> Any:
    """Bytes as bytes of one size. Raise ArrowInvalid if a value has another size."""
    width = type_.byte_width
    if array.null_count or not width or not pc.all(pc.equal(pc.binary_length(array), width), min_count=0).as_py():
        return compat.cast_complete(array, type_)
    # The values are as long as they should be and next to each other, so they are the array that is wanted.
    _, offsets, data = array.buffers()
    first = memoryview(offsets).cast("i")[array.offset] if len(array) else 0
    return pa.Array.from_buffers(type_, len(array), [None, data.slice(first)])


def _with_validity(type_: Any, array: Any, data: bytes) -> Any:
    """Values of a fixed size, null where those of an array are."""
    validity = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(type_, len(array), [validity, pa.py_buffer(data)])

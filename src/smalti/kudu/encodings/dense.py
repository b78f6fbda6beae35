"""Values without nulls as the buffers Arrow keeps them in: what encoders take and decoders give.

Owns the way from an Arrow array to those buffers and back, over a bitmap of nulls. Knows no encoding.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import lists
from smalti.kudu.types import Physical

_NOTHING = memoryview(b"")


@dataclass(frozen=True)
class Dense:
    """`count` values: `data` holds words, packed bits or text.

    `offsets` say where texts start (int32, one more than texts), `start` at which bit the first of packed bits is.
    """

    physical: Physical
    count: int
    data: memoryview
    offsets: memoryview = _NOTHING
    start: int = 0

    def slice(self, start: int, count: int) -> Dense:
        """Some of the values, without a copy."""
        if self.physical.width:
            width = self.physical.width
            return Dense(self.physical, count, self.data[start * width : (start + count) * width])
        if self.is_text:
            return Dense(self.physical, count, self.data, self.offsets[start * 4 : (start + count + 1) * 4])
        return Dense(self.physical, count, self.data, start=self.start + start)

    @property
    def is_text(self) -> bool:
        """Whether values differ in length."""
        return bool(self.physical.arrow == pa.binary())

    def text(self) -> memoryview:
        """The bytes of all values, back to back."""
        if not self.count:
            return _NOTHING
        at = self.offsets.cast("i")
        return self.data[at[0] : at[self.count]]

    def packed(self) -> memoryview:
        """The words, or the bits from the first on."""
        if self.physical.width:
            return self.data
        return memoryview(lists.pack_bits(self.data, self.start, self.count))

    def to_texts(self) -> pa.Array:
        """The values of a text type as an Arrow array."""
        return pa.Array.from_buffers(
            pa.binary(), self.count, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        )


def dense_of(values: pa.Array, physical: Physical) -> Dense:
    """The buffers of an array of a physical type that has no nulls."""
    count, start = len(values), values.offset
    if not count:
        return Dense(physical, 0, _NOTHING, memoryview(bytes(4)) if physical.arrow == pa.binary() else _NOTHING)
    buffers = values.buffers()
    if physical.width:
        width = physical.width
        return Dense(physical, count, _view(buffers[1])[start * width : (start + count) * width])
    if physical.arrow == pa.binary():
        return Dense(physical, count, _view(buffers[2]), _view(buffers[1])[start * 4 : (start + count + 1) * 4])
    return Dense(physical, count, _view(buffers[1]), start=start)


def spread_over_nulls(values: Dense, non_null: bytes, count: int) -> pa.Array:
    """An Arrow array of `count` slots, of which the set bits of `non_null` hold the values in turn."""
    physical = values.physical
    full = values.count == count
    data, offsets = values.data, values.offsets
    if not full:
        if physical.width:
            data = memoryview(lists.spread(data, physical.width, non_null, count))
        elif values.is_text:
            offsets = memoryview(lists.spread_offsets(offsets, non_null, count))
        else:
            data = memoryview(lists.spread_bits(data, non_null, count))
    stored = pa.py_buffer(data)
    if physical.width and stored.address % physical.width:
        stored = pa.py_buffer(bytes(data))  # PLAIN words lie anywhere in a block; Arrow wants them aligned
    buffers = [None if full else pa.py_buffer(non_null), stored]
    if values.is_text:
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(physical.arrow, count, buffers, null_count=count - values.count)


def check_header(what: str, found: int, expected: int | None, offset: int) -> None:
    """Refuse a number of a data header that is not the one the rest of the block asks for."""
    if expected is not None and found != expected:
        raise CorruptFileError(f"{what} in the data header", found=found, expected=expected, offset=offset)


def need_header(data: memoryview, size: int) -> None:
    """Refuse a data part that has no room for its header."""
    if len(data) < size:
        raise CorruptFileError("no room for the data header", found=len(data), expected=size, offset=0)


def _view(buffer: pa.Buffer | None) -> memoryview:
    return _NOTHING if buffer is None or not buffer.size else memoryview(buffer).cast("B")

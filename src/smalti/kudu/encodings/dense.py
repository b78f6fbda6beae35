"""Values without nulls, in the buffers that Arrow keeps them in: what encoders take and decoders return.

Owns the way from an Arrow array to those buffers, and back to an array that has nulls again. Knows no encoding.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from smalti.kudu._kernels import lists
from smalti.kudu.types import Physical

_NOTHING = memoryview(b"")


@dataclass(frozen=True)
class Dense:
    """`count` values; `data` holds numbers of one width, packed bits, or the bytes of texts.

    Texts have `offsets` (int32, one more than there are texts); the first of packed bits is bit `start` of `data`.
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
        if self.physical.is_text:
            return Dense(self.physical, count, self.data, self.offsets[start * 4 : (start + count + 1) * 4])
        return Dense(self.physical, count, self.data, start=self.start + start)

    def text(self) -> memoryview:
        """The bytes of all texts, back to back."""
        if not self.count:
            return _NOTHING
        at = self.offsets.cast("i")
        return self.data[at[0] : at[self.count]]

    def packed(self) -> memoryview:
        """The numbers, or the bits moved so that the first is bit 0."""
        if self.physical.width:
            return self.data
        return memoryview(lists.pack_bits(self.data, self.start, self.count))

    def to_texts(self) -> pa.Array:
        """Texts as an Arrow array."""
        return pa.Array.from_buffers(
            pa.binary(), self.count, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        )


def dense_of(values: pa.Array, physical: Physical) -> Dense:
    """The buffers of an array that has a physical type and no nulls."""
    count, start = len(values), values.offset
    if not count:
        return Dense(physical, 0, _NOTHING, memoryview(bytes(4)) if physical.is_text else _NOTHING)
    _, *buffers = map(buffer_view, values.buffers())
    return Dense(physical, start + count, buffers[-1], buffers[0] if physical.is_text else _NOTHING).slice(start, count)


def spread_over_nulls(values: Dense, non_null: bytes, count: int) -> pa.Array:
    """Arrow array of `count` slots. Those whose bit is set in `non_null` hold the values in turn, others are null."""
    physical = values.physical
    full = values.count == count
    data, offsets = values.data, values.offsets
    if not full:
        if physical.width:
            data = memoryview(lists.spread(data, physical.width, non_null, count))
        elif physical.is_text:
            offsets = memoryview(lists.spread_offsets(offsets, non_null, count))
        else:
            data = memoryview(lists.spread_bits(data, non_null, count))
    stored = pa.py_buffer(data)
    if physical.width and stored.address % physical.width:
        stored = pa.py_buffer(bytes(data))  # PLAIN numbers may start at any byte of a block; Arrow wants them aligned
    texts = [pa.py_buffer(offsets)] if physical.is_text else []
    buffers = [None if full else pa.py_buffer(non_null), *texts, stored]
    return pa.Array.from_buffers(physical.arrow, count, buffers, null_count=count - values.count)


def buffer_view(buffer: pa.Buffer | None) -> memoryview:
    """The bytes of an Arrow buffer, which may be missing."""
    return _NOTHING if buffer is None or not buffer.size else memoryview(buffer).cast("B")

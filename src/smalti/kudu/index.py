"""The positional index: a B-tree from the ordinals of blocks' first cells to the blocks (Kudu's index_block.cc).

Owns the bytes of one index block, the growing of the tree while a file is written, and the walk over it, which
visits no block twice however the pointers lie. Knows nothing of files: callers pass functions that read and write
blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import leb128
from smalti.kudu.messages import BlockPointer, pack_trailer, parse_trailer
from smalti.kudu.parsing import inside, need
from smalti.kudu.spec import INDEX_BLOCK_SIZE, INDEX_TRAILER_ESTIMATE

_U32 = struct.Struct("<I")
_KEY = struct.Struct(">I")
_MIN_ENTRY = 1 + _KEY.size + 2  # length of the key, key, and at least a byte each for offset and size
_MAX_DEPTH = 16


class Level(IntEnum):
    """`IndexBlockTrailerPB.type`."""

    LEAF = 0
    INTERNAL = 1


@dataclass(frozen=True)
class Entry:
    """A block and the ordinal (number in the column) of its first cell."""

    ordinal: int
    pointer: BlockPointer

    def pack(self) -> bytes:
        """The entry's bytes in an index block: length-prefixed key, offset, size."""
        key = _KEY.pack(self.ordinal)
        return leb128.encode(len(key)) + key + leb128.encode(self.pointer.offset) + leb128.encode(self.pointer.size)


def pack_index_block(entries: list[Entry], level: Level) -> bytes:
    """One index block: the entries, the offset of each, the trailer and the length of the trailer."""
    packed = [entry.pack() for entry in entries]
    *starts, _ = accumulate(map(len, packed), initial=0)
    trailer = pack_trailer(len(entries), level)
    return b"".join((*packed, *map(_U32.pack, starts), trailer, _U32.pack(len(trailer))))


def parse_index_block(data: memoryview) -> tuple[list[Entry], Level]:
    """The entries of an index block, which must lie back to back in ascending order of their keys."""
    need(data, _U32.size, "the length of the trailer")
    end = len(data) - _U32.size
    (size,) = _U32.unpack(data[end:])
    if size > end:
        raise CorruptFileError("trailer is longer than the block", found=size, expected=end, offset=end)
    end -= size
    count, kind = parse_trailer(data[end : end + size])
    if kind not in (Level.LEAF, Level.INTERNAL):
        raise CorruptFileError("type of an index block", found=kind, expected="0 or 1", offset=end)
    if count * (_MIN_ENTRY + _U32.size) > end:
        raise CorruptFileError("more entries than there is room for", found=count, offset=end)
    end -= count * _U32.size
    entries: list[Entry] = []
    at = 0
    for i in range(count):
        (start,) = _U32.unpack_from(data, end + i * _U32.size)
        if start != at:
            raise CorruptFileError(f"entry {i} starts elsewhere", found=start, expected=at, offset=end + i * _U32.size)
        entry, at = _parse_entry(data[:end], at)
        if entries and entry.ordinal <= entries[-1].ordinal:
            raise CorruptFileError(
                f"entry {i} is out of order",
                found=entry.ordinal,
                expected=f"more than {entries[-1].ordinal}",
                offset=at,
            )
        entries.append(entry)
    if at != end:
        raise CorruptFileError("bytes after the last entry", found=end - at, expected=0, offset=at)
    return entries, Level(kind)


def _parse_entry(data: memoryview, at: int) -> tuple[Entry, int]:
    size, start = leb128.decode32(data, at)
    if size != _KEY.size or size > len(data) - start:
        raise CorruptFileError("length of a positional key", found=size, expected=_KEY.size, offset=at)
    (ordinal,) = _KEY.unpack_from(data, start)
    offset, at = leb128.decode64(data, start + size)
    length, at = leb128.decode32(data, at)
    return Entry(ordinal, BlockPointer(offset, length)), at


def walk_index(root: BlockPointer, read: Callable[[BlockPointer], memoryview]) -> list[Entry]:
    """The entries of all leaves, in order. `read` returns the inside of an index block."""
    leaves: list[Entry] = []
    seen: set[int] = set()

    def visit(pointer: BlockPointer, first: int, depth: int) -> None:
        if pointer.offset in seen or depth > _MAX_DEPTH:
            raise CorruptFileError("index points back into itself", found=pointer.offset)
        seen.add(pointer.offset)
        with inside(f"index block at byte {pointer.offset}"):
            entries, level = parse_index_block(read(pointer))
            if depth and (not entries or entries[0].ordinal != first):
                found = entries[0].ordinal if entries else "no entry"
                raise CorruptFileError("index block begins elsewhere than said", found=found, expected=first)
            if leaves and entries and entries[0].ordinal <= leaves[-1].ordinal:
                raise CorruptFileError("index block is out of order", found=entries[0].ordinal)
        if level is Level.LEAF:
            leaves.extend(entries)
            return
        for entry in entries:
            visit(entry.pointer, entry.ordinal, depth + 1)

    visit(root, 0, 0)
    return leaves


@dataclass
class _OpenBlock:
    """An index block that still takes entries. Its size is counted as Kudu does."""

    entries: list[Entry] = field(default_factory=list)
    size: int = INDEX_TRAILER_ESTIMATE


class IndexBuilder:
    """Grows the tree from its leaves as blocks are written.

    Parameters
    ----------
    write : callable
        Stores the inside of an index block and returns the pointer to it.
    block_size : int
        Bytes at which an index block is closed.
    """

    def __init__(self, write: Callable[[bytes], BlockPointer], block_size: int = INDEX_BLOCK_SIZE) -> None:
        self._write = write
        self._block_size = block_size
        self._levels = [_OpenBlock()]  # from the leaves up

    def add(self, ordinal: int, pointer: BlockPointer, height: int = 0) -> None:
        """Note that a block was written whose first cell is `ordinal`; `height` 0 is for data blocks."""
        if height == len(self._levels):
            self._levels.append(_OpenBlock())
        entry, block = Entry(ordinal, pointer), self._levels[height]
        block.entries.append(entry)
        block.size += len(entry.pack()) + _U32.size
        if len(block.entries) > 1 and block.size > self._block_size:
            self._close(height)

    def finish(self) -> BlockPointer:
        """Write the blocks that are still open, leaves first, and return the root."""
        height = 0
        while height < len(self._levels) - 1:
            if self._levels[height].entries:
                self._close(height)
            height += 1
        return self._write_level(height)

    def _close(self, height: int) -> None:
        first = self._levels[height].entries[0].ordinal
        pointer = self._write_level(height)
        self._levels[height] = _OpenBlock()
        self.add(first, pointer, height + 1)

    def _write_level(self, height: int) -> BlockPointer:
        level = Level.INTERNAL if height else Level.LEAF
        return self._write(pack_index_block(self._levels[height].entries, level))

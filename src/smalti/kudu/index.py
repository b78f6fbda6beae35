"""The positional index: a B-tree from first ordinals to blocks (note, section 7).

Owns the bytes of one index block, the growing of the tree while a file is written, and the walk over it, which
visits no block twice however the pointers lie. Knows nothing of files: blocks come and go through functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import leb128
from smalti.kudu.messages import BlockPointer, pack_trailer, parse_trailer
from smalti.kudu.place import inside
from smalti.kudu.spec import INDEX_BLOCK_SIZE, INDEX_TRAILER_ESTIMATE

_U32 = struct.Struct("<I")
_KEY = struct.Struct(">I")
_MIN_ENTRY = 1 + _KEY.size + 2  # length, key, and pointers of a byte each
_MAX_DEPTH = 16


class Level(IntEnum):
    """`IndexBlockTrailerPB.type`."""

    LEAF = 0
    INTERNAL = 1


@dataclass(frozen=True)
class Entry:
    """A block and the ordinal of its first cell."""

    ordinal: int
    pointer: BlockPointer

    def pack(self) -> bytes:
        """As an index block has it: length-prefixed key, offset, size."""
        key = _KEY.pack(self.ordinal)
        return leb128.encode(len(key)) + key + leb128.encode(self.pointer.offset) + leb128.encode(self.pointer.size)


def pack_index_block(entries: list[Entry], level: Level) -> bytes:
    """One index block: entries, where each starts, trailer, length of the trailer."""
    packed = [entry.pack() for entry in entries]
    starts, at = [], 0
    for entry in packed:
        starts.append(_U32.pack(at))
        at += len(entry)
    trailer = pack_trailer(len(entries), level)
    return b"".join((*packed, *starts, trailer, _U32.pack(len(trailer))))


def parse_index_block(data: memoryview) -> tuple[list[Entry], Level]:
    """The entries of an index block, back to back and in ascending order of their keys."""
    if len(data) < _U32.size:
        raise CorruptFileError("no room for the length of the trailer", found=len(data), expected=4, offset=0)
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
    """The entries of all leaves, in order; `read` gives the inside of an index block."""
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
class _Open:
    """An index block that still takes entries."""

    entries: list[Entry] = field(default_factory=list)
    size: int = 0

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.size += len(entry.pack()) + _U32.size

    def passes(self, block_size: int) -> bool:
        return len(self.entries) > 1 and self.size + INDEX_TRAILER_ESTIMATE > block_size


class IndexBuilder:
    """Grows the tree from its leaves as blocks are written.

    Parameters
    ----------
    write : callable
        Stores the inside of an index block and says where.
    block_size : int
        Bytes at which an index block is closed.
    """

    def __init__(self, write: Callable[[bytes], BlockPointer], block_size: int = INDEX_BLOCK_SIZE) -> None:
        self._write = write
        self._block_size = block_size
        self._levels = [_Open()]

    def add(self, ordinal: int, pointer: BlockPointer) -> None:
        """A block was written whose first cell is `ordinal`."""
        self._add(Entry(ordinal, pointer), 0)

    def finish(self) -> BlockPointer:
        """Write what is open, leaves first, and return the root."""
        height = 0
        while height < len(self._levels) - 1:
            self._close(height)
            height += 1
        return self._write(self._pack(height))

    def _add(self, entry: Entry, height: int) -> None:
        if height == len(self._levels):
            self._levels.append(_Open())
        self._levels[height].add(entry)
        if self._levels[height].passes(self._block_size):
            self._close(height)

    def _close(self, height: int) -> None:
        entries = self._levels[height].entries
        if entries:
            pointer = self._write(self._pack(height))
            self._levels[height] = _Open()
            self._add(Entry(entries[0].ordinal, pointer), height + 1)

    def _pack(self, height: int) -> bytes:
        return pack_index_block(self._levels[height].entries, Level.INTERNAL if height else Level.LEAF)

"""Driver side, pure: which task reads what. Files go in with their sizes, frozen splits come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smalti.table.listing import FoundFile


@dataclass(frozen=True)
class Piece:
    """Row groups of a file that one task reads together; None means all of them, as many as there are."""

    file: FoundFile
    size: int
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Split:
    """What one task reads."""

    pieces: tuple[Piece, ...] = ()

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


def divide(file: FoundFile, group_sizes: Sequence[int], target: int) -> list[Piece]:
    """Cut a file into runs of row groups of about `target` bytes; a larger row group is a piece of its own.

    Examples
    --------
    >>> [piece.row_groups for piece in divide(FoundFile("f", 100), [30, 30, 30, 90, 5], 60)]
    [(0, 1), (2,), (3,), (4,)]
    """
    pieces: list[Piece] = []
    run: list[int] = []
    size = 0
    for group, group_size in enumerate(group_sizes):
        if run and size + group_size > target:
            pieces.append(Piece(file, size, tuple(run)))
            run, size = [], 0
        run.append(group)
        size += group_size
    if run:
        pieces.append(Piece(file, size, tuple(run)))
    return pieces


def pack(pieces: Iterable[Piece], target: int, open_cost: int) -> list[Split]:
    """Put pieces together, in order, until a split would exceed `target` bytes; each counts `open_cost` more.

    Examples
    --------
    >>> small = [Piece(FoundFile(name, 10), 10) for name in "abc"]
    >>> [split.size for split in pack(small, target=30, open_cost=5)]
    [20, 10]
    """
    splits: list[Split] = []
    run: list[Piece] = []
    cost = 0
    for piece in pieces:
        piece_cost = piece.size + open_cost
        if run and cost + piece_cost > target:
            splits.append(Split(tuple(run)))
            run, cost = [], 0
        run.append(piece)
        cost += piece_cost
    if run:
        splits.append(Split(tuple(run)))
    return splits


def rows_per_batch(row_bytes: int, target_bytes: int) -> int:
    """Rows of batches that hold about `target_bytes`, given what a row takes; at least 64, at most 65,536.

    Examples
    --------
    >>> rows_per_batch(80_000, 16 << 20), rows_per_batch(8, 16 << 20)
    (209, 65536)
    """
    return max(64, min(65_536, target_bytes // max(1, row_bytes)))

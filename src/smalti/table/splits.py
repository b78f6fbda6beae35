"""How the files of a table are shared out among tasks. Pure: sizes go in, pieces come out.

A piece is a file or some of its row groups. Spark's scans and the jobs plan with these functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from smalti.mosaic.rows import Rows
from smalti.sizes import MIN_SPLIT_BYTES
from smalti.table.listing import FoundFile

if TYPE_CHECKING:
    from smalti.table.snapshot import FileFacts


@dataclass(frozen=True)
class Piece:
    """A file, or `row_groups` of it (record batches of Arrow IPC, stripes of ORC); None means all of them.

    `rows` are the rows that are read, counted from the beginning of the file; None means all of them. `first_row` is
    the number that the first row of the file has in the table, if row numbers were asked for.
    """

    file: FoundFile
    num_bytes: int
    row_groups: tuple[int, ...] | None = None
    format: str = "mosaic"
    rows: Rows | None = None
    first_row: int = 0

    @classmethod
    def whole(cls, file: FoundFile) -> Piece:
        """All of a Mosaic file."""
        return cls(file, file.size)


def pack(sizes: Sequence[int], limit: int) -> list[tuple[int, ...]]:
    """Put neighbours together until they would exceed `limit`; what is larger by itself stays alone.

    Returns the positions of each group in `sizes`.

    Examples
    --------
    >>> pack([5, 5, 20, 1, 1], 10)
    [(0, 1), (2,), (3, 4)]
    """
    groups: list[tuple[int, ...]] = []
    held = 0
    for index, size in enumerate(sizes):
        if groups and held + size <= limit:
            groups[-1] += (index,)
            held += size
        else:
            groups.append((index,))
            held = size
    return groups


def cut(
    file: FoundFile,
    group_bytes: Sequence[int],
    limit: int,
    format: str = "mosaic",
    row_groups: Sequence[int] | None = None,
) -> list[Piece]:
    """Cut row groups of a file, by default all, into runs of about `limit` bytes.

    Examples
    --------
    >>> [piece.row_groups for piece in cut(FoundFile("f", 100), [30, 30, 30, 90, 5], 60)]
    [(0, 1), (2,), (3,), (4,)]
    """
    groups = range(len(group_bytes)) if row_groups is None else row_groups
    runs = [tuple(groups[index] for index in run) for run in pack([group_bytes[group] for group in groups], limit)]
    return [Piece(file, sum(group_bytes[group] for group in run), run, format) for run in runs]


def cut_files(
    files: Sequence[FoundFile],
    facts: Mapping[str, FileFacts],
    row_groups: Mapping[str, Sequence[int] | None],
    limit: int,
) -> list[Piece]:
    """Pieces of about `limit` bytes, of the row groups that `matching_row_groups` has left."""
    pieces = []
    for file in files:
        known, kept = facts.get(file.path), row_groups[file.path]
        if known is None or kept is None or (file.size <= limit and len(kept) == len(known.rows)):
            pieces.append(Piece.whole(file))
        else:
            pieces += cut(file, known.group_bytes, limit, row_groups=kept)
    return pieces


def rows_of(piece: Piece, facts: Mapping[str, FileFacts]) -> int | None:
    """How many rows a piece has, if the index of its file was read."""
    known = facts.get(piece.file.path)
    if known is None:
        return None
    return sum(known.rows if piece.row_groups is None else (known.rows[group] for group in piece.row_groups))


def first_pieces(pieces: Sequence[Piece], facts: Mapping[str, FileFacts], limit: int) -> list[Piece]:
    """The first pieces that together have `limit` rows, as far as it is known how many they have."""
    before = accumulate((rows_of(piece, facts) or 0 for piece in pieces), initial=0)
    return [piece for piece, rows in zip(pieces, before, strict=False) if rows < limit]


def by_row_group(pieces: Sequence[Piece], facts: Mapping[str, FileFacts]) -> list[Piece]:
    """A piece for each row group of pieces. A piece stays whole if the index of its file was not read."""
    found = []
    for piece in pieces:
        known = facts.get(piece.file.path)
        if known is None:
            found.append(piece)
            continue
        groups = range(len(known.rows)) if piece.row_groups is None else piece.row_groups
        found += [replace(piece, row_groups=(each,), num_bytes=piece.num_bytes // len(groups)) for each in groups]
    return found


def fit_split_bytes(total: int, slots: int, limit: int) -> int:
    """The size of a split: `limit`, or less where that would leave some of `slots` idle.

    Examples
    --------
    >>> fit_split_bytes(1 << 40, 4, 128 << 20) == 128 << 20
    True
    >>> fit_split_bytes(96 << 20, 4, 128 << 20) == 12 << 20
    True
    """
    return min(limit, max(MIN_SPLIT_BYTES, total // (2 * slots)))


def rows_per_batch(row_bytes: float, target_bytes: int, least: int = 64, most: int = 65_536) -> int:
    """Rows of batches that hold about `target_bytes`, given the size of a row, between `least` and `most`.

    Examples
    --------
    >>> rows_per_batch(80_000, 16 << 20), rows_per_batch(8, 16 << 20)
    (209, 65536)
    """
    return max(least, min(most, int(target_bytes / max(1, row_bytes))))

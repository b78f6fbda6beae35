"""Who does what: pure functions from what was found to splits, and nothing that touches a file.

A piece is a file or some of its row groups; an output is the pieces that become one file (or a row of files, rolled at
a size); a split is what one task does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

#: A task reads about so much: enough to be worth starting, little enough to spread and to repeat.
SPLIT_BYTES = 128 << 20
#: Below this, starting a task costs more than another core brings.
MIN_SPLIT_BYTES = 4 << 20
#: Row groups of a Mosaic file smaller than this are worth gathering.
SMALL_ROW_GROUP = 8 << 20


@dataclass(frozen=True)
class FileFacts:
    """What planning knows of a source file; `group_bytes` is empty for formats that cannot be entered midway."""

    path: str
    relative: str
    num_bytes: int
    format: str
    group_bytes: tuple[int, ...] = ()

    @property
    def directory(self) -> str:
        parent = str(PurePosixPath(self.relative).parent)
        return "" if parent == "." else parent


@dataclass(frozen=True)
class Piece:
    """A file, or `row_groups` of it (batches of Arrow IPC, stripes of ORC)."""

    path: str
    format: str
    num_bytes: int
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Output:
    """Pieces, in order, that become `stem` plus the suffix of the target's format; rolled at `roll_bytes`."""

    pieces: tuple[Piece, ...]
    stem: str
    roll_bytes: int | None = None

    @property
    def num_bytes(self) -> int:
        return sum(piece.num_bytes for piece in self.pieces)


@dataclass(frozen=True)
class Split:
    """The work of one task."""

    index: int
    outputs: tuple[Output, ...]

    @property
    def num_bytes(self) -> int:
        return sum(output.num_bytes for output in self.outputs)


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


def cut_groups(sizes: Sequence[int], limit: int) -> list[tuple[int, ...]]:
    """Neighbouring row groups together, up to `limit` bytes; a larger one stays alone.

    Examples
    --------
    >>> cut_groups([5, 5, 20, 1, 1], 10)
    [(0, 1), (2,), (3, 4)]
    """
    cut: list[tuple[int, ...]] = []
    open_: list[int] = []
    held = 0
    for index, size in enumerate(sizes):
        if open_ and held + size > limit:
            cut.append(tuple(open_))
            open_, held = [], 0
        open_.append(index)
        held += size
    if open_:
        cut.append(tuple(open_))
    return cut


def stems(files: Sequence[FileFacts], suffixes: Sequence[str]) -> list[str]:
    """Relative names without their suffix; where two would meet, both keep it.

    Examples
    --------
    >>> files = [FileFacts("/a/x.csv", "x.csv", 1, "csv"), FileFacts("/a/y.csv.gz", "y.csv.gz", 1, "csv")]
    >>> stems(files, [".csv", ".csv.gz"])
    ['x', 'y']
    """
    short = [
        file.relative[: -len(suffix)] if suffix and file.relative.lower().endswith(suffix) else file.relative
        for file, suffix in zip(files, suffixes, strict=True)
    ]
    seen = Counter(short)
    return [stem if seen[stem] == 1 else file.relative for stem, file in zip(short, files, strict=True)]


def plan_convert(
    files: Sequence[FileFacts],
    names: Sequence[str],
    *,
    split_bytes: int = SPLIT_BYTES,
    roll_bytes: int | None = None,
    cut: bool = True,
) -> list[Split]:
    """File by file: large ones cut at row groups where that is possible, small ones several to a task."""
    outputs: list[Output] = []
    for file, stem in zip(files, names, strict=True):
        chunks = cut_groups(file.group_bytes, split_bytes) if cut and file.num_bytes > split_bytes else []
        if len(chunks) < 2:
            outputs.append(Output((Piece(file.path, file.format, file.num_bytes),), stem, roll_bytes))
            continue
        for number, groups in enumerate(chunks):
            size = sum(file.group_bytes[group] for group in groups)
            piece = Piece(file.path, file.format, size, groups)
            outputs.append(Output((piece,), f"{stem}-{number:05d}", roll_bytes))
    return pack(outputs, split_bytes)


def pack(outputs: Iterable[Output], split_bytes: int) -> list[Split]:
    """Outputs in order, as many to a split as fit `split_bytes`."""
    groups: list[list[Output]] = []
    held = 0
    for output in outputs:
        if not groups or held + output.num_bytes > split_bytes:
            groups.append([])
            held = 0
        groups[-1].append(output)
        held += output.num_bytes
    return [Split(index, tuple(group)) for index, group in enumerate(groups)]


def plan_compact(
    files: Sequence[FileFacts], *, target_bytes: int, label: str, rewrite_all: bool
) -> tuple[list[Split], list[FileFacts]]:
    """Neighbours of one directory into files of about `target_bytes`, and the files that are read for it.

    Without `rewrite_all`, a file that is alone in its group and whose row groups are not small stays as it is. Rows
    keep the order of the file names. Each split is one output; `label` makes its name the job's own.
    """
    by_directory: dict[str, list[FileFacts]] = {}
    for file in files:
        by_directory.setdefault(file.directory, []).append(file)
    outputs: list[Output] = []
    read: list[FileFacts] = []
    for directory in sorted(by_directory):
        number = 0
        for group in _gather(by_directory[directory], target_bytes):
            if not rewrite_all and len(group) == 1 and not _has_small_groups(group[0]):
                continue
            pieces = tuple(Piece(file.path, file.format, file.num_bytes) for file in group)
            stem = f"part-{label}-{number:05d}"
            outputs.append(Output(pieces, f"{directory}/{stem}" if directory else stem, target_bytes))
            read += group
            number += 1
    return [Split(index, (output,)) for index, output in enumerate(outputs)], read


def _gather(files: Sequence[FileFacts], target_bytes: int) -> list[list[FileFacts]]:
    return [[files[i] for i in group] for group in cut_groups([file.num_bytes for file in files], target_bytes)]


def _has_small_groups(file: FileFacts) -> bool:
    groups = len(file.group_bytes)
    return groups > 1 and file.num_bytes / groups < SMALL_ROW_GROUP

"""Which task writes which files: pure functions, which touch no file.

An output is the pieces of sources that become one file, or several if a new file begins at a size. A split is the
outputs that one task writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from smalti.sizes import SPLIT_BYTES
from smalti.table.listing import FoundFile
from smalti.table.splits import Piece, cut, pack

#: If the row groups of a Mosaic file are smaller than this, it is worth writing the file anew.
SMALL_ROW_GROUP = 8 << 20
#: Small neighbours become a row group of about this many stored bytes.
MERGED_ROW_GROUP = 32 << 20


@dataclass(frozen=True)
class SourceFile:
    """What planning knows of a source file.

    Attributes
    ----------
    file : FoundFile
    relative : str
        The path of the file below the directory that was listed.
    format : str
    group_bytes : tuple of int
        Bytes of each row group; empty if they were not counted, or if the format has no row groups.
    """

    file: FoundFile
    relative: str
    format: str
    group_bytes: tuple[int, ...] = ()

    @property
    def directory(self) -> str:
        return self.relative.rpartition("/")[0]

    @property
    def whole(self) -> Piece:
        """All of the file."""
        return Piece(self.file, self.file.size, format=self.format)

    def pieces(self, split_bytes: int) -> list[Piece]:
        """Runs of row groups if the file is larger than `split_bytes` and can be cut, else the whole file."""
        pieces = cut(self.file, self.group_bytes, split_bytes, self.format) if self.file.size > split_bytes else []
        return pieces if len(pieces) > 1 else [self.whole]


@dataclass(frozen=True)
class Output:
    """Pieces, in order, that become `stem` with the suffix of the target.

    Outputs of the same `name` are files of one source, or of one directory, and have stems with numbers.
    """

    pieces: tuple[Piece, ...]
    stem: str
    name: str = ""

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


def stems(files: Sequence[SourceFile], suffixes: Sequence[str]) -> list[str]:
    """Relative names without their suffix. If two files would get the same name, both keep the suffix.

    Examples
    --------
    >>> files = [SourceFile(FoundFile(f"/a/{name}", 1), name, "csv") for name in ("x.csv", "y.csv.gz")]
    >>> stems(files, [".csv", ".csv.gz"])
    ['x', 'y']
    """
    short = [
        file.relative[: -len(suffix)] if suffix and file.relative.lower().endswith(suffix) else file.relative
        for file, suffix in zip(files, suffixes, strict=True)
    ]
    seen = Counter(short)
    return [stem if seen[stem] == 1 else file.relative for stem, file in zip(short, files, strict=True)]


def plan_convert(files: Sequence[SourceFile], names: Sequence[str], *, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Every file becomes a file, but large ones are cut at row groups if they have any; small ones share a task."""
    outputs: list[Output] = []
    for file, stem in zip(files, names, strict=True):
        pieces = file.pieces(split_bytes)
        for number, piece in enumerate(pieces):
            numbered = stem if len(pieces) == 1 else f"{stem}-{number:05d}"
            outputs.append(Output((piece,), numbered, stem))
    groups = pack([output.num_bytes for output in outputs], split_bytes)
    return [Split(index, tuple(outputs[i] for i in group)) for index, group in enumerate(groups)]


def plan_compact(
    files: Sequence[SourceFile], *, target_bytes: int, rewrite_all: bool
) -> tuple[list[Split], list[SourceFile]]:
    """Put neighbours of one directory together to files of about `target_bytes`; return splits and the files they read.

    Without `rewrite_all`, a file that has no neighbour to go with and whose row groups are not small stays as it is.
    Rows keep the order of the file names. Each split is one output.
    """
    outputs: list[Output] = []
    read: list[SourceFile] = []
    numbers: Counter[str] = Counter()
    for group in _neighbours(files, target_bytes):
        if not rewrite_all and len(group) == 1 and not _has_small_groups(group[0]):
            continue
        directory = group[0].directory
        name = f"{directory}/part" if directory else "part"
        outputs.append(Output(tuple(file.whole for file in group), f"{name}-{numbers[name]:05d}", name))
        read += group
        numbers[name] += 1
    return [Split(index, (output,)) for index, output in enumerate(outputs)], read


def files_alone(files: Sequence[SourceFile], *, target_bytes: int) -> list[SourceFile]:
    """The files without a neighbour to be joined with: only their row groups decide whether they are rewritten."""
    return [group[0] for group in _neighbours(files, target_bytes) if len(group) == 1]


def _neighbours(files: Sequence[SourceFile], target_bytes: int) -> Iterator[list[SourceFile]]:
    by_directory: dict[str, list[SourceFile]] = {}
    for file in files:
        by_directory.setdefault(file.directory, []).append(file)
    for _, members in sorted(by_directory.items()):
        for indices in pack([file.file.size for file in members], target_bytes):
            yield [members[index] for index in indices]


def _has_small_groups(file: SourceFile) -> bool:
    groups = len(file.group_bytes)
    return groups > 1 and file.file.size / groups < SMALL_ROW_GROUP


def plan_row_groups(sizes: Sequence[int], *, merges: bool, roll_bytes: int | None = None) -> list[list[list[int]]]:
    """Which row groups are copied as they are, and which small neighbours become one: for each new file, runs of them.

    A run of one row group is copied. Rows keep their order.

    Examples
    --------
    >>> MiB = 1 << 20
    >>> plan_row_groups([30 * MiB, MiB, 2 * MiB, 40 * MiB, MiB], merges=True, roll_bytes=64 * MiB)
    [[[0], [1, 2], [3]], [[4]]]
    """
    files: list[list[list[int]]] = []
    in_file = in_run = 0
    for index, size in enumerate(sizes):
        if not files or (roll_bytes is not None and in_file >= roll_bytes):
            files.append([])
            in_file = in_run = 0
        is_small = merges and size < SMALL_ROW_GROUP
        if is_small and 0 < in_run < MERGED_ROW_GROUP:
            files[-1][-1].append(index)
        else:
            files[-1].append([index])
            in_run = 0
        in_run = in_run + size if is_small else 0
        in_file += size
    return files


def copied_share(sizes: Sequence[int], files: Sequence[Sequence[Sequence[int]]]) -> float:
    """The share of the bytes in row groups that a plan copies as they are; 1 if there are none."""
    copied = sum(sizes[run[0]] for runs in files for run in runs if len(run) == 1)
    return copied / sum(sizes) if sum(sizes) else 1.0

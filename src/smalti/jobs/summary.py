"""What tasks and jobs return: the files of a split, the summary of a job, or an error that names files that failed."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from smalti.errors import MosaicError
from smalti.table.staging import WrittenFile
from smalti.units import show_bytes, show_count


@dataclass(frozen=True)
class StagedFile(WrittenFile):
    """A file that is not committed yet: `staged` is where it is now, `sources` are the files that its rows are from."""

    staged: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """A source file that could not be read, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


#: The most files that were skipped which a summary names.
MAX_SKIPPED = 20


def skipped_lines(skipped: Sequence[Skipped], word: str = "skipped", more: str = "more file") -> list[str]:
    """Lines that name what was skipped, each with its reason; of very many, the first ones and how many follow."""
    lines = [f"{word} {item}" for item in skipped[:MAX_SKIPPED]]
    rest = len(skipped) - len(lines)
    return [*lines, f"and {show_count(rest, more)} {word}"] if rest else lines


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(frozen=True)
class SplitResult:
    """What the task of a split returns: small, and the same on every engine."""

    files: tuple[StagedFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    peak_memory: int = field(default_factory=peak_memory)
    #: What a job that changes a table adds up over its files.
    counts: dict[str, Any] = field(default_factory=dict)
    #: Columns that were left out.
    lost: tuple[Skipped, ...] = ()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SplitResult:
        """The result of which `dataclasses.asdict` made these values."""
        files = tuple(StagedFile(**{**file, "sources": tuple(file["sources"])}) for file in values["files"])
        skipped = tuple(Skipped(**item) for item in values["skipped"])
        lost = tuple(Skipped(**item) for item in values.get("lost", ()))
        return cls(files, skipped, values["peak_memory"], values.get("counts", {}), lost)


@dataclass(frozen=True)
class JobSummary:
    """What was done.

    Attributes
    ----------
    job, engine : str
    source, target : str
    num_rows : int
    source_files, source_bytes : int
        What was read, not counting files that were skipped.
    files : tuple of WrittenFile
    splits, resumed_splits : int
        Tasks in all, and those that an earlier, interrupted run had finished already.
    skipped : tuple of Skipped
        Files that could not be read, with ``on_error="skip"``.
    lost : tuple of Skipped
        Columns that could not be read, with ``on_error="skip-columns"``.
    seconds : float
    peak_memory : int
        The most memory that any process which ran tasks has held, in bytes.
    """

    job: str
    engine: str
    source: str
    target: str
    num_rows: int = 0
    source_files: int = 0
    source_bytes: int = 0
    files: tuple[WrittenFile, ...] = ()
    splits: int = 0
    resumed_splits: int = 0
    skipped: tuple[Skipped, ...] = ()
    seconds: float = 0.0
    peak_memory: int = 0
    lost: tuple[Skipped, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Bytes written."""
        return sum(file.num_bytes for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "num_bytes": self.num_bytes}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobSummary:
        """The summary of which `to_dict` made these values."""
        known = {key: value for key, value in values.items() if key != "num_bytes"}
        known["files"] = tuple(WrittenFile(**file) for file in values["files"])
        for name in ("skipped", "lost"):
            known[name] = tuple(Skipped(**item) for item in values.get(name, ()))
        return cls(**known)

    def __str__(self) -> str:
        text = (
            f"{self.job} ({self.engine}): {show_count(self.num_rows, 'row')}, "
            f"{show_count(self.source_files, 'file')} of {show_bytes(self.source_bytes)} to "
            f"{show_count(len(self.files), 'file')} of {show_bytes(self.num_bytes)} "
            f"in {self.seconds:.1f} s"
        )
        if self.resumed_splits:
            text += f", {self.resumed_splits:,} of {self.splits:,} splits done earlier"
        return "\n".join([text, *skipped_lines(self.skipped), *skipped_lines(self.lost, "lost", "more column")])


@dataclass(frozen=True)
class ChangeReport:
    """What a job has changed in a table, or would change.

    Attributes
    ----------
    job, engine, table : str
    rows : int
        Rows that were deleted, updated or inserted; for changes of columns, the rows of the files that were changed.
    files : int
        Files that were replaced, removed or added.
    row_groups : int
        Row groups of which something was encoded anew, or which were left out.
    bytes_copied, bytes_encoded : int
        Bytes that were copied as they were, and bytes of columns that were encoded anew. With `dry_run` both are
        estimates by what the columns take now.
    rows_unknown : int
        Rows that were kept as they are because the condition of `delete` or `update` is null for them.
    rows_unmatched : int
        With `on`: rows of the table without a row of the data, which get nulls. Of `merge`: rows of the data without a
        row of the table, which are inserted or ignored.
    rows_updated, rows_inserted : int
        Of `merge`.
    null_keys : int
        Rows of the data with a null key, which match nothing.
    total_files : int
        All files of the table.
    dry_run : bool
        Whether nothing was changed.
    resumed_files : int
        Files that an earlier, interrupted run had finished already.
    seconds : float
    peak_memory : int
        The most memory that any process which ran tasks has held, in bytes.
    """

    job: str
    engine: str
    table: str
    rows: int = 0
    files: int = 0
    row_groups: int = 0
    bytes_copied: int = 0
    bytes_encoded: int = 0
    rows_unknown: int = 0
    rows_unmatched: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    null_keys: int = 0
    total_files: int = 0
    dry_run: bool = False
    resumed_files: int = 0
    seconds: float = 0.0
    peak_memory: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        would = "would change " if self.dry_run else ""
        about = "about " if self.dry_run else ""
        text = (
            f"{self.job} ({self.engine}): {would}{show_count(self.rows, 'row')} in {self.files:,} of "
            f"{show_count(self.total_files, 'file')}, {show_count(self.row_groups, 'row group')}; {about}"
            f"{show_bytes(self.bytes_copied)} copied, {about}{show_bytes(self.bytes_encoded)} encoded "
            f"in {self.seconds:.1f} s"
        )
        if self.job == "merge":
            text += f"; {self.rows_updated:,} updated, {self.rows_inserted:,} inserted"
        notes = (
            (self.rows_unknown, "kept because the condition is null for them"),
            (self.rows_unmatched if self.job != "merge" else 0, "without a row of the data, which have nulls now"),
            (self.null_keys, "of the data with a null key, which match nothing"),
        )
        for count, what in notes:
            if count:
                text += f"; {show_count(count, 'row')} {what}"
        if self.resumed_files:
            text += f"; {show_count(self.resumed_files, 'file')} done earlier"
        return text


class JobError(MosaicError):
    """Some files could not be read or written.

    Finished splits are kept: repair these files and run the same job again, or skip them with ``on_error="skip"``.

    Attributes
    ----------
    failures : tuple of MosaicError
        One for each file that failed, with its path.
    """

    def __init__(self, failures: tuple[MosaicError, ...]) -> None:
        text = str(failures[0]) + (f" (and {len(failures) - 1} more files)" if len(failures) > 1 else "")
        super().__init__(text)
        self.failures = failures

    def __reduce__(self) -> tuple[type[JobError], tuple[tuple[MosaicError, ...]]]:
        return JobError, (self.failures,)

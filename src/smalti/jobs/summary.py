"""What tasks and jobs return: the files of a split, the summary of a job, or an error that names files that failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from smalti.errors import MosaicError
from smalti.units import show_bytes, show_count


@dataclass(frozen=True)
class WrittenFile:
    """A file that a job wrote; `path` is relative to the target directory."""

    path: str
    num_rows: int
    num_bytes: int


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


@dataclass(frozen=True)
class SplitResult:
    """What the task of a split returns: small, and the same on every engine."""

    files: tuple[StagedFile, ...]
    skipped: tuple[Skipped, ...]
    peak_memory: int

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SplitResult:
        """The result of which `dataclasses.asdict` made these values."""
        files = tuple(StagedFile(**{**file, "sources": tuple(file["sources"])}) for file in values["files"])
        return cls(files, tuple(Skipped(**item) for item in values["skipped"]), values["peak_memory"])


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
        known["skipped"] = tuple(Skipped(**item) for item in values["skipped"])
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
        if self.skipped:
            text += f", {show_count(len(self.skipped), 'file')} skipped"
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

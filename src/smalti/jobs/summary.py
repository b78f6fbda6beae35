"""What a job says when it is over: a frozen summary, or an error that names every file that failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from smalti.errors import MosaicError
from smalti.report.units import show_bytes


@dataclass(frozen=True)
class WrittenFile:
    """A file a job wrote; `path` is relative to the target directory."""

    path: str
    num_rows: int
    num_bytes: int


@dataclass(frozen=True)
class StagedFile:
    """A file on its way: where it is `staged` and its `path` to be, below the target, made from `sources`."""

    staged: str
    path: str
    num_rows: int
    num_bytes: int
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
    """What a task hands back: small, and the same on every engine."""

    files: tuple[StagedFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    num_rows: int = 0
    peak_memory: int = 0
    failure: MosaicError | None = None


@dataclass(frozen=True)
class JobSummary:
    """What was done.

    Attributes
    ----------
    job, engine : str
    source, target : str
    num_rows : int
    source_files, source_bytes : int
        What was read, files that were skipped not counted.
    files : tuple of WrittenFile
    splits, resumed_splits : int
        Tasks in all, and those an earlier, interrupted run had finished already.
    skipped : tuple of Skipped
        Files that could not be read, with ``on_error="skip"``.
    seconds : float
    peak_memory : int
        The most memory a process that ran tasks ever held, in bytes.
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
        known = {key: value for key, value in values.items() if key != "num_bytes"}
        known["files"] = tuple(WrittenFile(**file) for file in values["files"])
        known["skipped"] = tuple(Skipped(**item) for item in values["skipped"])
        return cls(**known)

    def __str__(self) -> str:
        text = (
            f"{self.job} ({self.engine}): {self.num_rows:,} rows, {self.source_files:,} files of "
            f"{show_bytes(self.source_bytes)} to {len(self.files):,} of {show_bytes(self.num_bytes)} "
            f"in {self.seconds:.1f} s"
        )
        if self.resumed_splits:
            text += f", {self.resumed_splits:,} of {self.splits:,} splits done earlier"
        if self.skipped:
            text += f", {len(self.skipped):,} files skipped"
        return text


class JobError(MosaicError):
    """Some files could not be read. What was finished is kept: fix them and run the same job again, or skip them.

    Attributes
    ----------
    failures : tuple of MosaicError
        One for each file that failed, with its path.
    """

    def __init__(self, failures: tuple[MosaicError, ...]) -> None:
        text = str(failures[0]) + (f" (and {len(failures) - 1} more files)" if len(failures) > 1 else "")
        super().__init__(text)
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        return JobError, (self.failures,)


def show_value(scalar: Any) -> str:
    """An Arrow scalar for people; as its number where no Python value can hold it, such as a date past year 9999."""
    try:
        return str(scalar.as_py())
    except (ValueError, OverflowError):
        return str(scalar.cast("int32" if scalar.type.bit_width == 32 else "int64").as_py())

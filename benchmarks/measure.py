"""How a figure is taken: turns, samples, ratios, and the check that a peer gave back what it was given.

Times on shared machines drift by tens of per cent within a minute. So peers take turns (A B C, B C A, C A B ...), each
keeps its best and its median, and only ratios within one run mean anything. No file is kept open between samples; the
page cache is warm; results are freed outside the clock. A pause follows each turn, so that threads that one library
leaves running for a moment are not timed as another's work.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

#: Seconds of rest after a turn.
PAUSE = 0.02

#: Resident memory, in bytes, above which the C library is asked to return what it keeps, and the size of a page.
KEPT = 4 << 30
PAGE = mmap.PAGESIZE


@dataclass
class Measurement:
    """All that is known of one peer doing one work on one data set; what was not measured is None."""

    dataset: str
    work: str
    peer: str
    seconds: list[float] = field(default_factory=list)
    file_bytes: int | None = None
    requests: int | None = None
    bytes_read: int | None = None
    peak_bytes: int | None = None
    remark: str | None = None
    error: str | None = None

    @property
    def best(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "best": self.best, "median": self.median}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Measurement:
        return cls(**{key: value for key, value in record.items() if key not in ("best", "median")})


@dataclass(frozen=True)
class Turn:
    """One peer's action, and what is put in order before its clock starts."""

    run: Callable[[], object]
    before: Callable[[], object] = lambda: None


def take_turns(turns: dict[str, Turn], rounds: int, budget: float) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of every turn, and what went wrong with those that failed, which are not asked again.

    Each has ``rounds`` samples, or fewer once it has used up ``budget`` seconds: then three, or as many as it takes to
    do so if one takes that long. The i-th samples of two turns were taken in the same round.
    """
    samples: dict[str, list[float]] = {name: [] for name in turns}
    errors: dict[str, str] = {}
    order = list(turns)
    for _ in range(rounds):
        for name in order:
            taken = samples[name]
            if name in errors or (sum(taken) >= budget and (len(taken) >= 3 or max(taken) >= budget)):
                continue
            try:
                taken.append(clocked(turns[name]))
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
        order = order[1:] + order[:1]
    return samples, errors


def clocked(turn: Turn) -> float:
    """Seconds of one action with the garbage collector quiet; what it returns dies after the clock has stopped.

    The pause after it is part of the turn but not of the time.
    """
    turn.before()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        result = turn.run()
        seconds = time.perf_counter() - start
    finally:
        gc.enable()
    del result
    give_memory_back()
    time.sleep(PAUSE)
    return seconds


def give_memory_back() -> None:
    """Have the C library return what it keeps for later, once that is a lot.

    Writing 10,000 columns as ORC frees 6 GB in pieces that glibc holds on to, so that the third such turn would meet
    the end of the machine's memory, and with it everybody else's. Other C libraries have no such call and no such need.
    """
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
        if resident > KEPT:
            ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


def difference(expected: pa.Table, found: pa.Table) -> str | None:
    """How a table read back differs from the one written; None when it does not, whatever its string layout."""
    if found.num_rows != expected.num_rows:
        return f"{found.num_rows} rows, expected {expected.num_rows}"
    if sorted(found.column_names) != sorted(expected.column_names):
        return f"{found.num_columns} columns, expected {expected.num_columns}, or not the same ones"
    for name, wanted in zip(expected.column_names, expected.columns, strict=True):
        got = found.column(name)
        if not (got if got.type == wanted.type else got.cast(wanted.type)).equals(wanted):
            return f"column {name!r} differs"
    return None

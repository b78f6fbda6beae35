"""The loop: carries out plans and returns measurements. Decides nothing about what is measured or how it is shown."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets import CACHE, np, scattered, telemetry_filters
from benchmarks.measure import Measurement, Turn, difference, take_turns
from benchmarks.memory import peak_of_read, peak_of_write
from benchmarks.peers import LEVEL, MOSAIC, Peer
from benchmarks.plans import REPEATING, Effort, Plan, work_of

Say = Callable[[str], None]


def run(plans: Iterable[Plan], effort: Effort, peers: list[Peer], say: Say) -> list[Measurement]:
    """Measure every plan in turn, each in a scratch directory that is gone afterwards."""
    CACHE.mkdir(exist_ok=True)
    results: list[Measurement] = []
    for plan in plans:
        data = plan.dataset
        say(f"{data.name}: {data.columns:,} columns x {data.rows:,} rows, {data.about}")
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            taking_part = [peer for peer in peers if peer.name in plan.peers]
            results += Session(plan, effort, taking_part, Path(scratch), say).run()
    return results


class Session:
    """One plan being carried out. A peer that fails is recorded as failed and takes no further part in the plan."""

    def __init__(self, plan: Plan, effort: Effort, peers: list[Peer], scratch: Path, say: Say) -> None:
        self.plan = plan
        self.effort = effort
        self.peers = {peer.name: peer for peer in peers}
        self.scratch = scratch
        self.say = say
        self.results: list[Measurement] = []

    def run(self) -> list[Measurement]:
        """Write, check, read, then memory; the table is let go as soon as nothing is compared with it."""
        table = self.plan.dataset.load()
        names = table.column_names
        self.write(table)
        self.write_at_levels(table)
        self.check(table)
        if self.plan.filtered:
            self.read_filtered(table, self.plan.filtered)
        del table
        for count in self.plan.reads:
            self.read(work_of(count), None if count is None else scattered(names, count))
        if self.plan.repeats:
            self.read_repeatedly(names, self.plan.repeats)
        for work in self.plan.peaks:
            self.peak(work, names)
        return self.results

    def write(self, table: pa.Table) -> None:
        """Time every writer; the last file of each is what is read later."""
        writers: dict[str, Peer] = {}
        for peer in self.peers.values():
            writers.setdefault(peer.writer, peer)
        for result in self.timed("write", {peer.name: self.writing(peer, table) for peer in writers.values()}):
            result.file_bytes = self.file(self.peers[result.peer]).stat().st_size
            result.remark = self.peers[result.peer].remark

    def write_at_levels(self, table: pa.Table) -> None:
        """The two Mosaic writers again, at other levels than the one common to all peers."""
        for level in self.plan.levels:
            peers = {name: MOSAIC[name](level=level) for name in self.peers if name in MOSAIC}
            turns = {name: self.writing(peer, table, level) for name, peer in peers.items()}
            for result in self.timed(f"write-level-{level}", turns):
                result.file_bytes = self.file(peers[result.peer], level).stat().st_size

    def check(self, table: pa.Table) -> None:
        """Read everything back once and compare: a peer that gives other values is out. It also warms the others up."""
        for name, peer in list(self.peers.items()):
            try:
                wrong = difference(table, peer.read(self.file(peer), None))
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                self.fail("check", name, wrong)

    def read(self, work: str, columns: list[str] | None) -> None:
        """Time every reader, then count the requests and bytes of one more read."""
        for result in self.timed(work, {name: self.reading(peer, columns) for name, peer in self.peers.items()}):
            peer = self.peers[result.peer]
            traffic = peer.traffic(self.file(peer), columns)
            if traffic is not None:
                result.requests, result.bytes_read = traffic.requests, traffic.bytes_read

    def read_filtered(self, table: pa.Table, count: int) -> None:
        """For each condition: check that every reader finds the same rows, then time them."""
        columns = scattered([name for name in table.column_names if name.startswith("sensor")], count)
        for name, filters in telemetry_filters(table.num_rows).items():
            work = f"filter-{name}"
            expression = None if filters is None else pq.filters_to_expression(filters)
            expected = (table if expression is None else table.filter(expression)).select(columns)
            turns = {}
            for peer in list(self.peers.values()):
                turns[peer.name] = Turn(run=partial(peer.read_filtered, self.file(peer), columns, filters))
                if wrong := difference(expected, peer.as_table(turns[peer.name].run())):
                    self.fail(work, peer.name, wrong)
                    del turns[peer.name]
            self.timed(work, turns)

    def read_repeatedly(self, names: list[str], count: int) -> None:
        """Time ``count`` reads of one column each from a file that is opened once; what is kept is the time of one.

        A peer that has used up its budget stops there, and its time is that of the reads it came to.
        """
        picked = [names[i] for i in np.random.RandomState(count).randint(0, len(names), count)]
        for name in [name for name in self.peers if name in REPEATING]:
            self.check_open_file(self.peers[name], picked[:3])
        done: dict[str, list[int]] = {name: [] for name in self.peers if name in REPEATING}
        turns = {name: self.repeating(self.peers[name], picked, counts) for name, counts in done.items()}
        for result in self.timed("read-again", turns):
            result.seconds = [time / reads for time, reads in zip(result.seconds, done[result.peer], strict=True)]

    def check_open_file(self, peer: Peer, names: list[str]) -> None:
        """An open file that is read again gives what a fresh one gives, which was compared with the input already."""
        path = self.file(peer)
        with peer.opened(path) as read:
            wrong = [difference(peer.read(path, [name]), peer.as_table(read([name]))) for name in names]
        if any(wrong):
            self.fail("read-again", peer.name, "; ".join(filter(None, wrong)))

    def peak(self, work: str, names: list[str]) -> None:
        """Peak memory in processes of their own; the smallest of several, since what disturbs only adds."""
        for result in self.results:
            if result.work != work or result.error or result.peer in self.plan.peaks_without:
                continue
            peer = self.peers[result.peer]
            self.say(f"  {work}: memory of {peer.label}")
            if work == "write":
                target = self.scratch / f"peak{peer.suffix}"
                peaks = [peak_of_write(peer.name, self.plan.dataset.cached(), target) for _ in self.children()]
            else:
                columns = None if work == "read-all" else scattered(names, int(work.removeprefix("read-")))
                peaks = [peak_of_read(peer.name, self.file(peer), columns) for _ in self.children()]
            result.peak_bytes = min((peak for peak in peaks if peak is not None), default=None)

    def timed(self, work: str, turns: dict[str, Turn]) -> list[Measurement]:
        """Samples of every turn, recorded; those that failed are recorded too, but not returned."""
        self.say(f"  {work}: {', '.join(turns)}")
        samples, errors = take_turns(turns, self.effort.rounds, self.effort.budget)
        for name, error in errors.items():
            self.fail(work, name, error)
        name = self.plan.dataset.name
        done = [Measurement(name, work, peer, seconds) for peer, seconds in samples.items() if peer not in errors]
        self.results += done
        return done

    def fail(self, work: str, peer: str, error: str) -> None:
        """Record the failure and send the peer home, with those that would read its files."""
        self.say(f"  {work}: {peer} failed: {error}")
        self.results.append(Measurement(self.plan.dataset.name, work, peer, error=error))
        for name in [name for name, other in self.peers.items() if peer in (name, other.writer)]:
            del self.peers[name]

    def file(self, peer: Peer, level: int = LEVEL) -> Path:
        return self.scratch / f"{peer.writer}-{level}{peer.suffix}"

    def writing(self, peer: Peer, table: pa.Table, level: int = LEVEL) -> Turn:
        path, ready = self.file(peer, level), peer.prepare(table)
        return Turn(run=lambda: peer.write(ready, path), before=lambda: path.unlink(missing_ok=True))

    def reading(self, peer: Peer, columns: list[str] | None) -> Turn:
        path = self.file(peer)
        return Turn(run=lambda: peer.read(path, columns))

    def repeating(self, peer: Peer, names: list[str], counts: list[int]) -> Turn:
        path, budget = self.file(peer), self.effort.budget

        def read_one_by_one() -> None:
            end = perf_counter() + budget
            counts.append(0)
            with peer.opened(path) as read:
                for name in names:
                    read([name])
                    counts[-1] += 1
                    if perf_counter() >= end:
                        break

        return Turn(run=read_one_by_one)

    def children(self) -> range:
        return range(self.effort.children)

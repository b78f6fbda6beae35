"""The promises of docs/safety.md: what several threads may share, what a forked child may do, what can be pickled."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs, kudu
from smalti.format.statistics import ColumnStatistics
from tests.support.children import ROOT
from tests.support.long import repeated

SCHEMA = pa.schema([("thread", pa.int32()), ("call", pa.int32()), ("text", pa.string())])
THREADS, CALLS, ROWS = 4, 30, 50


def rows_of(thread: int, call: int) -> pa.Table:
    texts = [f"{thread}-{call}-{row}" * (row % 7) for row in range(ROWS)]
    return pa.table({"thread": [thread] * ROWS, "call": [call] * ROWS, "text": texts}, SCHEMA)


def in_threads(act: Callable[[int], None], count: int = THREADS) -> None:
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(act, range(count)))


# --- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_", range(3))
def test_threads_share_a_writer(round_: int) -> None:
    """All rows are there, those of a call together and those of a thread in order. Row groups are cut in between."""
    file = io.BytesIO()
    with smalti.MosaicWriter(file, SCHEMA, row_group_max_rows=ROWS * 3 + round_, num_buckets=3) as writer:

        def write(thread: int) -> None:
            for call in range(CALLS):
                writer.write(rows_of(thread, call))
                assert writer.estimated_size > 0

        in_threads(write)
    table = smalti.read_table(file)
    assert table.num_rows == THREADS * CALLS * ROWS
    calls = [table.slice(start, ROWS) for start in range(0, table.num_rows, ROWS)]
    order = [(part["thread"][0].as_py(), part["call"][0].as_py()) for part in calls]
    assert all(part.equals(rows_of(*key)) for part, key in zip(calls, order, strict=True))
    for thread in range(THREADS):
        assert [call for found, call in order if found == thread] == list(range(CALLS))


def test_threads_share_a_cfile_writer() -> None:
    file = io.BytesIO()
    with kudu.CFileWriter(file, pa.int64(), block_size=512, array=False) as writer:
        in_threads(lambda thread: [writer.write(pa.array([thread * CALLS + i] * ROWS)) for i in range(CALLS)])
    found = kudu.CFileReader(file).read().to_pylist()
    assert sorted(found) == sorted(value for value in range(THREADS * CALLS) for _ in range(ROWS))
    assert all(len(set(found[start : start + ROWS])) == 1 for start in range(0, len(found), ROWS))


def test_a_thread_gives_up_what_others_write(tmp_path: Path) -> None:
    writer = smalti.MosaicWriter(tmp_path / "t.mosaic", SCHEMA, row_group_max_rows=60)
    started = threading.Event()

    def act(thread: int) -> None:
        if thread == 0:
            started.wait()
            writer.abort()
            return

        def write_on() -> None:
            for call in range(10_000):
                writer.write(rows_of(thread, call))
                started.set()

        with pytest.raises(smalti.MosaicError, match="writer is closed"):
            write_on()

    in_threads(act)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_closed_while_others_read_it(tmp_path: Path) -> None:
    """A descriptor that is closed too early is that of another file a moment later, with other values."""
    paths = [tmp_path / f"{number}.mosaic" for number in range(2)]
    for number, path in enumerate(paths):
        data = pa.table({f"c{i}": pa.array([number * 1000 + i] * 300, pa.int32()) for i in range(40)})
        smalti.write_table(data, path, compression="none", layout="fast")
    right = smalti.read_table(paths[0])
    for _ in range(40):
        file = smalti.open(paths[0], cache_bytes=0)
        barrier = threading.Barrier(THREADS)

        def act(thread: int, file: smalti.MosaicFile = file, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            if thread == 0:
                file.close()
                others = [smalti.open(paths[1]) for _ in range(8)]
                for other in others:
                    other.close()
                return
            try:
                for _ in range(50):
                    assert file.read().equals(right)
            except ValueError as error:
                assert "closed file" in str(error)  # noqa: PT017 (after any number of reads)

        in_threads(act)


def test_a_closed_file_is_not_read(tmp_path: Path) -> None:
    """Also where there was nothing to close, and where the answer would be at hand."""
    smalti.write_table(pa.table({"a": [1]}), tmp_path / "t.mosaic")
    data = (tmp_path / "t.mosaic").read_bytes()
    called = smalti.ReadAt(lambda offset, size: data[offset : offset + size], len(data), is_remote=True)
    for source in (tmp_path / "t.mosaic", data, io.BytesIO(data), called, pa.BufferReader(data)):
        file = smalti.open(source)
        file.read()
        rest = file.iter_batches()
        file.close()
        with pytest.raises(ValueError, match="closed"):
            file.read()
        with pytest.raises(ValueError, match="closed"):
            next(rest)
        with pytest.raises(ValueError, match="closed"):
            file.row_group(0).read([])
    assert smalti.read_table(called).num_rows == 1
    cfile = io.BytesIO()
    with kudu.CFileWriter(cfile, pa.int64(), array=False) as writer:
        writer.write(pa.array([1]))
    reader = kudu.CFileReader(cfile)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.read()


def test_threads_share_a_dataset_that_is_replaced(tmp_path: Path) -> None:
    """Every read gives one of the two tables, with its own columns, while the files change underneath."""
    states = [{"a": [1, 2]}, {"a": [1, 2], "b": ["x", "y"]}]
    files = [tmp_path / "source-0.mosaic", tmp_path / "source-1.mosaic"]
    for path, state in zip(files, states, strict=True):
        smalti.write_table(pa.table(state), path)
    table = tmp_path / "table"
    jobs.convert([files[0]], table)
    shared = smalti.dataset(table)
    stop = threading.Event()

    def read(_: int) -> int:
        count = 0
        while not stop.is_set():
            assert shared.to_table().to_pydict() in states
            assert shared.schema.names in [list(state) for state in states]
            assert shared.count_rows([("a", ">", 1)]) == 1
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(read, number) for number in range(3)]
        try:
            for turn in range(1, 13):
                jobs.convert([files[turn % 2]], table, overwrite=True)
        finally:
            stop.set()
        assert all(done.result() for done in reads)
    jobs.convert([files[1]], table, overwrite=True)
    assert smalti.dataset(table).to_table().to_pydict() == states[1]


# --- forks ----------------------------------------------------------------------------------------------------------

FORKING = """
    import gc, os, sys
    import pyarrow as pa, smalti
    from smalti.kudu import CFileWriter
    from smalti.io.sinks import RemoteSink, finish_with
    directory = sys.argv[1]
    batch = pa.table({"a": pa.array(range(5000), pa.int64())})
    writer = smalti.MosaicWriter(f"{directory}/a.mosaic", batch.schema, row_group_max_rows=700, threads=2)
    writer.write(batch)
    cfile = CFileWriter(f"{directory}/a.cfile", pa.int64(), array=False)
    cfile.write(batch["a"])
    file = smalti.open(f"{directory}/old.mosaic")
    before = file.read()
    pid = os.fork()
    if pid == 0:
        for act in (lambda: writer.write(batch), writer.close, lambda: writer.estimated_size,
                    lambda: cfile.write(batch["a"]), cfile.close):
            try:
                act()
                os._exit(3)
            except smalti.MosaicError as error:
                assert "forked child" in str(error)
        writer.abort(); cfile.abort()
        assert file.read().equals(before)
        file.close()
        del writer, cfile, file
        gc.collect()
        sys.exit(0)  # With all that Python does at its end: it closes and flushes files.
    assert os.waitpid(pid, 0)[1] == 0
    writer.write(batch); writer.close()
    cfile.write(batch["a"]); cfile.close()
    assert file.read().equals(before)
    whole = pa.concat_tables([batch, batch])
    assert smalti.read_table(f"{directory}/a.mosaic").equals(whole)
    from smalti.kudu import CFileReader
    assert CFileReader(f"{directory}/a.cfile").read().to_pylist() == whole["a"].to_pylist()
"""

SPOOLING = """
    import os, sys
    import pyarrow.fs as pafs
    from smalti.io import locate, sinks
    sinks.SPOOL_MEMORY = 1000
    location = locate("t", pafs.SubTreeFileSystem(sys.argv[1], pafs.LocalFileSystem()))
    sink = sinks.RemoteSink(location, "t")
    sink.write(b"a" * 1500)
    sink.write(b"b" * 10)
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    sink.write(b"c" * 10)
    sink.commit()
    assert open(sys.argv[1] + "/t", "rb").read() == b"a" * 1500 + b"b" * 10 + b"c" * 10
"""


#: Takes every lock that is reachable from what is read, and forks: the worst moment that a thread can choose.
LOCKED = """
    import gc, io, os, signal, sys, threading, types
    import pyarrow as pa, smalti
    from functools import cached_property, partial
    from smalti.kudu import CFileReader, CFileWriter
    directory = sys.argv[1]
    path = f"{directory}/old.mosaic"
    with CFileWriter(f"{directory}/a.cfile", pa.int64(), array=False) as writer:
        writer.write(pa.array(range(5000)))
    data = open(path, "rb").read()
    slow = smalti.ReadAt(lambda offset, size: data[offset : offset + size], len(data), is_remote=True)
    opened = [smalti.open(path), smalti.dataset(directory), smalti.open(open(path, "rb")), smalti.open(slow)]
    cfile, loader = CFileReader(f"{directory}/a.cfile"), smalti.loader(opened[0], ["c1"], 10)
    before = smalti.open(path).read()
    ids = cfile.read()

    def everything():
        for each in opened:
            for _ in range(2):  # at first from the file, then from the cache
                assert each.to_table().equals(before)
            assert each.to_table(filters="c1 >= 1").equals(before)
            assert pa.Table.from_batches(each.to_batches(batch_size=7)).equals(before)
        assert cfile.read().equals(ids)
        assert sum(len(batch["c1"]) for batch in loader) == before.num_rows
        smalti.write_table(before, f"{directory}/{os.getpid()}.new")
        assert smalti.read_table(f"{directory}/{os.getpid()}.new").equals(before)

    everything()
    locks = type(threading.Lock()), type(threading.RLock())
    inside = dict, list, tuple, set, partial, cached_property, types.CellType
    is_ours = lambda kind: str(kind.__module__).startswith("smalti")
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("smalti")]
    found, seen, left = [], set(), [opened, cfile, loader, *modules]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, locks):
            found.append(each)
        elif isinstance(each, types.ModuleType) and each in modules:
            left += [value for name, value in vars(each).items() if not name.startswith("__")]
        elif isinstance(each, type) and is_ours(each):
            left += [value for value in vars(each).values() if isinstance(value, cached_property)]
        elif isinstance(each, (types.FunctionType, types.MethodType)):
            left += each.__closure__ or ()
        elif is_ours(type(each)) or isinstance(each, inside):
            left += [value for value in gc.get_referents(each) if not isinstance(value, types.ModuleType)]
    assert len(found) > 7 + 30 * (sys.version_info < (3, 12)), found
    taken, done = threading.Event(), threading.Event()

    def hold():
        for lock in found:
            assert lock.acquire(timeout=5)
        taken.set()
        done.wait()
        for lock in found:
            lock.release()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert taken.wait(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        everything()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    done.set()
    holder.join()
    everything()
"""

#: Children go on with what their parent reads, while it reads.
STREAMING = """
    import os, signal, sys
    import pyarrow as pa, smalti
    directory = sys.argv[1]
    table = pa.table({"a": range(9000), "b": ["text"] * 9000})
    smalti.write_dataset(table, f"{directory}/t", max_file_rows=3000, row_group_max_rows=300)
    path = smalti.dataset(f"{directory}/t").files[0]

    def rows(batches):
        return sum(batch.num_rows for batch in batches)

    def in_child(act, refused, end=os._exit):
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            try:
                act()
                assert not refused
            except smalti.MosaicError as error:
                assert refused and "a forked child cannot continue its parent's read" in str(error), error
            end(0)
        assert os.waitpid(pid, 0)[1] == 0

    for ahead in (0, 4):
        file, table = smalti.open(path, readahead=ahead), smalti.dataset(f"{directory}/t", readahead=ahead)
        for source, count in ((file, 3000), (table, 9000)):
            stream = source.to_batches(batch_size=100)
            first = next(stream)
            in_child(lambda: rows(stream) == count - 100 or os._exit(4), ahead > 0)
            in_child(stream.close, False)
            in_child(lambda: rows(source.to_batches()) == count or os._exit(4), False)
            in_child(lambda: None, False, sys.exit)  # Python deletes the stream at the child's end.
            assert rows(stream) == count - 100
    loader = smalti.loader(f"{directory}/t", ["a"], 100, shuffle=True, buffer_bytes=40_000)
    batches = iter(loader)
    first = next(batches)
    in_child(lambda: list(batches), True)
    in_child(lambda: list(loader), False)
    assert sum(len(batch["a"]) for batch in batches) == 8900
"""

#: As PyTorch's loader on Linux: each worker is a fork of a process that reads in other threads, too.
WORKERS = """
    import multiprocessing, os, signal, sys, threading
    import pyarrow as pa, smalti
    path = f"{sys.argv[1]}/t.mosaic"
    smalti.write_table(pa.table({"a": range(20_000), "b": ["text"] * 20_000}), path, row_group_max_rows=500)
    file = smalti.open(path, readahead=2, cache_bytes=1 << 20)
    is_done = threading.Event()

    def read():
        while not is_done.is_set():
            assert file.read(["a"], row_groups=[3]).num_rows == 500
            assert sum(batch.num_rows for batch in file.iter_batches(columns=["a"])) == 20_000

    def work(index, count, found):
        signal.alarm(60)
        loader = smalti.loader(file, ["a"], 300, shuffle=True, shard=(index, count), buffer_bytes=100_000)
        found.put(sorted(int(row) for batch in loader for row in batch["a"]))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    for _ in range(int(sys.argv[2])):
        found = context.SimpleQueue()
        workers = [context.Process(target=work, args=(index, 2, found)) for index in range(2)]
        for worker in workers:
            worker.start()
        assert sorted(found.get() + found.get()) == list(range(20_000))
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
    is_done.set()
    for thread in threads:
        thread.join()
"""

SCRIPTS = {
    "writers and readers": FORKING,
    "a spool on disk": SPOOLING,
    "locks that are held": LOCKED,
    "streams": STREAMING,
    "workers of a loader": WORKERS,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_forked_child_harms_nothing(script: str, tmp_path: Path) -> None:
    smalti.write_table(pa.table({f"c{i}": [i] * 100 for i in range(30)}), tmp_path / "old.mosaic")
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(tmp_path), str(repeated(12))]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# --- pickling -------------------------------------------------------------------------------------------------------

TABLE = pa.table({"a": [1, 2, None]})
PATH = "p.mosaic"
CFILE = "p.cfile"


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    smalti.write_table(TABLE, PATH)
    with kudu.CFileWriter(CFILE, pa.int64()) as writer:
        writer.write(pa.array([[1], None]))


def _written() -> smalti.WriteSummary:
    return smalti.write_table(TABLE, PATH, stats_columns=["a"])


def _piece(offset: int, size: int) -> bytes:
    return Path(PATH).read_bytes()[offset : offset + size]


def _called() -> smalti.ReadAt:
    return smalti.ReadAt(_piece, Path(PATH).stat().st_size)


#: How to make an object of each public class, and how to ask a copy whether it is the same.
TRAVELLERS: dict[type, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    smalti.MosaicFile: (lambda: smalti.open(PATH), lambda file: file.read()),
    smalti.RowGroup: (lambda: smalti.open(PATH).row_group(0), lambda group: group.read()),
    smalti.MosaicDataset: (lambda: smalti.dataset(PATH), lambda found: found.to_table()),
    smalti.Scan: (lambda: smalti.scan(PATH, ["a"], filters=[("a", ">", 1)]), lambda scan: scan.to_table()),
    smalti.ReadAt: (_called, lambda source: smalti.read_table(source)),
    smalti.WriterOptions: (lambda: smalti.WriterOptions(num_buckets=3), lambda options: options),
    smalti.WriteSummary: (_written, lambda summary: (summary.num_rows, summary.statistics)),
    ColumnStatistics: (lambda: smalti.open(PATH).row_group(0).statistics["a"], lambda found: found),
    smalti.FileLayout: (lambda: smalti.open(PATH).layout(), lambda layout: layout),
    smalti.RowGroupLayout: (lambda: smalti.open(PATH).layout().row_groups[0], lambda layout: layout),
    smalti.BucketLayout: (lambda: smalti.open(PATH).layout().row_groups[0].buckets[0], lambda layout: layout),
    smalti.ColumnLayout: (
        lambda: smalti.open(PATH).layout().row_groups[0].buckets[0].columns[0],
        lambda layout: layout,
    ),
    smalti.Section: (lambda: smalti.open(PATH).layout().index, lambda section: section),
    smalti.LayoutChoice: (lambda: smalti.LayoutChoice(2, 512, "fixed"), lambda choice: choice),
    kudu.Compression: (lambda: kudu.Compression(1), lambda found: found),
    kudu.DataType: (lambda: kudu.DataType(1), lambda found: found),
    kudu.Encoding: (lambda: kudu.Encoding(1), lambda found: found),
    kudu.Entry: (lambda: kudu.CFileReader(CFILE).blocks[0], lambda entry: entry),
    kudu.CFileReader: (lambda: kudu.CFileReader(CFILE), lambda reader: reader.read()),
    kudu.CFileMetadata: (lambda: kudu.CFileReader(CFILE).metadata, lambda found: (found.num_values, dict(found.pairs))),
    kudu.Dictionary: (lambda: kudu.Dictionary(1000), lambda words: vars(words) if hasattr(words, "__dict__") else None),
    smalti.DatasetSummary: (
        lambda: smalti.write_dataset(pa.table({"a": [1]}), "summed", mode="overwrite"),
        lambda summary: summary,
    ),
    smalti.Loader: (
        lambda: smalti.loader(PATH, ["a"], 2, fill_null=0),
        lambda loader: [batch["a"].tolist() for batch in loader],
    ),
    jobs.ChangeReport: (lambda: jobs.ChangeReport("delete", "local", "t", rows=3), lambda report: report),
    jobs.JobSummary: (lambda: jobs.compact("."), lambda summary: summary),
    jobs.WrittenFile: (lambda: jobs.WrittenFile("a", 1, 2), lambda file: file),
    jobs.Skipped: (lambda: jobs.Skipped("a", "b"), lambda skipped: skipped),
    jobs.VerifyReport: (lambda: jobs.verify(PATH), lambda report: report),
    jobs.FileReport: (lambda: jobs.verify(PATH).files[0], lambda report: report),
    jobs.Problem: (lambda: jobs.Problem("CorruptFileError", "text", {"path": "a"}), lambda problem: problem),
    jobs.Profile: (lambda: jobs.profile(PATH), lambda profile: profile.table),
}
ERRORS = (smalti.MosaicError, smalti.CorruptFileError, smalti.SchemaError, smalti.UnsupportedFeatureError)
STAY = (smalti.MosaicWriter, kudu.CFileWriter)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("kind", TRAVELLERS, ids=lambda kind: kind.__name__)
def test_what_travels_by_pickle(kind: type) -> None:
    make, ask = TRAVELLERS[kind]
    made = make()
    assert type(made) is kind
    arrived = pickle.loads(pickle.dumps(made))
    assert type(arrived) is kind
    assert ask(arrived) == ask(made)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    "make",
    [
        lambda: smalti.MosaicWriter("new.mosaic", SCHEMA),
        lambda: kudu.CFileWriter("new.cfile", pa.int64()),
        lambda: smalti.open(io.BytesIO(Path(PATH).read_bytes())),
        lambda: kudu.CFileReader(io.BytesIO(Path(CFILE).read_bytes())),
    ],
    ids=["MosaicWriter", "CFileWriter", "a file object", "a CFile object"],
)
def test_what_does_not(make: Callable[[], Any]) -> None:
    made = make()
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(made)
    with pytest.raises(TypeError, match="pickled"):
        copy.copy(made)
    made.close()


def test_the_page_names_every_public_class() -> None:
    """A class that becomes public must say what it promises."""
    public = {name: getattr(room, name) for room in (smalti, kudu, jobs) for name in room.__all__}
    classes = {name for name, value in public.items() if inspect.isclass(value)}
    known = {kind.__name__ for kind in (*TRAVELLERS, *STAY)}
    errors = {name for name in classes if issubclass(public[name], BaseException)}
    assert classes - known - errors == {"Progress"}  # made for a listener, in the process of the job
    page = (Path(ROOT) / "docs/safety.md").read_text()
    table = page.partition("## Threads, forks, pickling")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(?:\w+\.)*([A-Z]\w+)`", table))
    assert classes - errors <= named

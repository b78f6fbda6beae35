"""The program as the shell sees it: how fast it starts, how it fails, how it ends."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smalti.cli.main import one_line

SMALTI = [sys.executable, "-m", "smalti"]


def call(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*SMALTI, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def test_version_is_quick() -> None:
    """Half a second at most, in processor time: the clock would measure whatever else this machine is doing."""
    spent = []
    for _ in range(3):
        process = subprocess.Popen([*SMALTI, "--version"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.read().startswith("smalti ")
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        spent.append(usage.ru_utime + usage.ru_stime)
    assert min(spent) < 0.4


@pytest.mark.parametrize("arguments", ["--version", "--help", ""])
def test_answers_without_arrow(arguments: str) -> None:
    script = (
        "import sys\n"
        "from smalti.cli.main import main\n"
        "try:\n"
        f"    main({arguments.split()!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = ['pyarrow', 'numpy', 'pyspark', 'zstandard']\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_looking_needs_no_engine(mixed: Path) -> None:
    script = (
        "import sys\n"
        "from smalti.cli.main import main\n"
        f"main(['count', {str(mixed)!r}])\n"
        "heavy = ['pyspark', 'pandas', 'pyarrow.parquet', 'pyarrow.fs', 'pyarrow.dataset']\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schema", "missing.mosaic"], "missing.mosaic: No such file or directory"),
        (["schema", "docs/images"], "no files of a known format"),
        (["schema", "LICENSE"], "LICENSE is a text file, not a Mosaic file"),
        (["head", "nosuch://bucket/x"], "nosuch"),
        (["cat", "tests/data/golden/array_basic.mosaic", "--where", "x ="], "--where: not a condition: found the end"),
        (["cat", "tests/data/golden/array_basic.mosaic", "-c", "nope"], "no column 'nope'"),
        (["report", "tests/data/golden/array_basic.mosaic", "-o", "/nonexistent/x.html"], "No such file"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("smalti: error: ")
    assert message in done.stderr


@pytest.mark.parametrize("arguments", [["nope"], ["head"], ["head", "x", "-n", "-3"], ["head", "x", "--nope"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert "usage: smalti" in done.stderr


@pytest.mark.parametrize("arguments", [["--debug", "schema", "missing"], ["schema", "missing", "--debug"]])
def test_debug_shows_the_traceback(arguments: list[str]) -> None:
    done = call(*arguments)
    assert "Traceback" in done.stderr
    assert "FileNotFoundError" in done.stderr


def test_every_malformed_file_is_one_line_or_none() -> None:
    """Whatever a file holds, no traceback and nothing but 0 or 1; in one process, since each start costs."""
    script = (
        "import sys, glob\n"
        "from smalti.cli.main import main\n"
        "for path in sorted(glob.glob('tests/data/malformed/*.mosaic')):\n"
        "    for command in ('schema', 'meta', 'layout', 'stats', 'head'):\n"
        "        code = main([command, path, '--json'])\n"
        "        assert code in (0, 1), (command, path, code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(line.startswith("smalti: error: ") for line in done.stderr.splitlines()), done.stderr[-2000:]
    assert "bug" not in done.stderr


def test_a_closed_pipe_is_quiet(wide: Path) -> None:
    with subprocess.Popen(
        [*SMALTI, "schema", str(wide)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(120) == 141


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    """Blocked on a pipe nobody writes to, as a stand-in for a long read."""
    script = (
        "import sys, time\n"
        "from smalti.cli import main as cli\n"
        "def forever(*_): print('ready', flush=True); time.sleep(60)\n"
        "cli._run = forever\n"
        "sys.exit(cli.main(['head', 'x']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait(120) == 130


def test_ctrl_c_stops_a_job_in_an_orderly_way(tmp_path: Path) -> None:
    """It took seconds and printed nothing; a second one left a stale line."""
    values = np.random.default_rng(0).standard_normal((20, 40_000))
    (tmp_path / "in").mkdir()
    for number in range(6):
        pq.write_table(pa.table(list(values), [f"c{i}" for i in range(20)]), tmp_path / "in" / f"{number}.parquet")
    for attempt in range(5):  # until the signal comes before the end
        target = tmp_path / f"out{attempt}"
        command = [*SMALTI, "convert", "in", target.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as job:
            while not list(target.glob("_mosaic_jobs/*")) and job.poll() is None:
                time.sleep(0.002)
            job.send_signal(signal.SIGINT)
            _, said = job.communicate(timeout=120)
        if job.returncode:
            break
    assert job.returncode == 130
    assert re.fullmatch(
        r"stopping after the current file \.\.\. .*\ninterrupted at \d+ %; run the same command to continue\n", said
    )
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "240,000 rows" in again.stdout
    # A second Ctrl-C ends the process, and leaves no half-drawn bar behind.
    script = (
        "import sys, time\n"
        "from smalti.cli.progress import job_progress\n"
        "from smalti.progress import Progress\n"
        "with job_progress(sys.stderr) as listen:\n"
        "    listen(Progress('verify', 0, 4, 10, 40, 7))\n"
        "    try: print('ready', flush=True); time.sleep(60)\n"
        "    finally: print('waiting', flush=True); time.sleep(60)\n"
    )
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=slave, text=True) as job:
        os.close(slave)
        assert job.stdout is not None
        for word in ("ready\n", "waiting\n"):
            assert job.stdout.readline() == word
            job.send_signal(signal.SIGINT)
        assert job.wait(120) == 130
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while data := os.read(master, 4096):
            shown += data
    os.close(master)
    assert shown.decode().endswith("7 rows\x1b[K\r\x1b[Kstopping ...\r\nstopped\r\n")


def test_on_a_terminal_tables_fit_and_page(wide: Path) -> None:
    """A real pseudo-terminal, 60 columns wide, with a pager that only counts."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "LINES": "20", "PAGER": "wc -l"}
    with subprocess.Popen([*SMALTI, "schema", str(wide)], stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 4096):
                shown += data
        except OSError:  # the other end is closed
            pass
        assert process.wait(120) == 0
    os.close(master)
    assert shown.split() == [b"10002"]


def test_unforeseen_errors_are_one_line_too() -> None:
    assert one_line(KeyError("x")) == "KeyError: 'x' (this is a bug; --debug shows where)"
    assert one_line(ValueError("two\nlines")) == "two lines"
    assert one_line(MemoryError()) == "out of memory"

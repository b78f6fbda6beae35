"""What a file holds cannot steer a terminal: tried on a real pseudo-terminal. In a pipe, CSV and JSON are exact."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import smalti
from tests.support.children import ROOT

C0 = "".join(map(chr, [*range(1, 32), 127]))
C1 = "".join(map(chr, range(128, 160)))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
OTHER = "\u2028\u2029\ufeff\u200b\U000e0041"
HOSTILE = f"a\x1b[2J\x1b]0;title\x07{C0}é漢{C1}{BIDI}{OTHER}z"
#: What may reach a terminal beside lines of text that it only shows: our own colours, and the bar of progress.
OURS = re.compile("\x1b\\[(0|1|2|31|32)m|\r[a-z]+ [█░]+[ \\w%,]*\x1b\\[K|\r\x1b\\[K")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A file with such names, values, statistics and path."""
    path = tmp_path / f"x\x1b[31m{BIDI[7]}{C1[27]}.mosaic"
    table = pa.table({f"n{HOSTILE}": [HOSTILE, None], "list": [[HOSTILE], []], "text": [HOSTILE, "plain"]})
    smalti.write_table(table, path, stats_columns=["text"])
    return path


def on_a_terminal(commands: list[list[str]]) -> str:
    """All that the commands print to standard output and error, both of which are a terminal; in one process."""
    script = "import json, sys\nfrom smalti.cli.main import main\n"
    script += "for command in json.loads(sys.argv[1]):\n    try: main(command)\n    except SystemExit: pass\n"
    master, slave = pty.openpty()
    environment = {**os.environ, "PAGER": "cat", "LINES": "30", "COLUMNS": "500", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", script, json.dumps(commands)]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment, cwd=ROOT) as process:
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 65536):
                shown += data
        except OSError:  # the other end is closed
            pass
        assert process.wait(300) == 0
    os.close(master)
    return shown.decode()


COMMANDS = [
    [],
    ["--csv"],
    ["--json"],
    ["--vertical"],
]


def test_nothing_steers_a_terminal(hostile: Path, tmp_path: Path) -> None:
    path = str(hostile)
    commands = [[name, path, *more] for name in ("head", "cat") for more in COMMANDS]
    commands += [[name, path, *more] for name in ("schema", "meta", "stats", "layout") for more in ([], ["--json"])]
    commands += [["verify", path], ["count", path, "--json"], ["diff", path, path]]
    commands += [["report", path, "-o", f"{path}.html"]]
    commands += [["head", path, "-c", f"no{HOSTILE}such"], ["head", path, "--where", f"no{HOSTILE}such = 1"]]
    commands += [["head", f"{path}.none"], ["--debug", "head", f"{path}.none"], ["head", path, f"--no{HOSTILE}"]]
    commands += [["convert", path, str(tmp_path / f"out{HOSTILE[:20]}.csv")], ["convert", path, path]]
    shown = on_a_terminal(commands)
    steering = [char for char in OURS.sub("", shown).replace("\r\n", "") if not char.isprintable()]
    assert steering == []
    assert "\\x1b" in shown  # in tables and errors
    assert "\\u001b" in shown  # in CSV and JSON
    assert shown.count("plain") >= 10


def test_json_on_a_terminal_is_json(hostile: Path) -> None:
    lines = on_a_terminal([["head", str(hostile), "--json"]]).splitlines()
    assert [json.loads(line)["text"] for line in lines] == [HOSTILE, "plain"]


def test_a_pipe_gets_the_bytes(hostile: Path) -> None:
    """What is printed is what the file holds."""

    def piped(*arguments: str) -> str:
        command = [sys.executable, "-m", "smalti", *arguments]
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=environment).stdout.decode()

    rows = [json.loads(line) for line in piped("head", str(hostile), "--json").split("\n") if line]
    assert [row["text"] for row in rows] == [HOSTILE, "plain"]
    assert json.dumps(HOSTILE, ensure_ascii=False) in piped("head", str(hostile), "--json")
    text = piped("head", str(hostile), "--csv")
    assert HOSTILE in text
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[2] for row in found] == ["text", HOSTILE, "plain"]

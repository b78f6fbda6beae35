"""Tables and values as text."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import smalti
from smalti.cli.main import build_parser
from smalti.cli.progress import ProgressBar, line
from smalti.cli.render.rows import csv_lines, json_lines, plain_values, row_table, vertical
from smalti.cli.render.table import Head, table
from smalti.cli.render.text import cell, fit, printable, size, width
from smalti.cli.rows import run_cat, run_count
from smalti.cli.screen import Screen


def test_control_characters_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\n\u202e") == "a\\x1b[31mb\\n\\u202e"
    assert cell("grün") == "grün"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), ((1 << 30) - 1, "1.0 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_fit_is_exact_for_wide_characters() -> None:
    for text in ("abc", "日本語テキスト", "e\u0301a", ""):
        for room in range(1, 12):
            assert width(fit(text, room)) == room
    assert fit("日本語", 4) == "…語 "


def test_tables_keep_to_the_width() -> None:
    heads = [Head("#", right=True), Head("name", least=8), Head("type", least=6)]
    rows = [[str(i), "n" * (10 * i + 1), "t" * 30] for i in range(8)]
    for room in (40, 60, 100):
        assert max(width(text) for text in table(heads, rows, room)) <= room
    assert any("n" * 71 in text for text in table(heads, rows, None))


def wide_batch(columns: int) -> pa.RecordBatch:
    return pa.record_batch({f"column_{i}_{'x' * (i % 60)}": pa.array([i, None, 7]) for i in range(columns)})


@pytest.mark.parametrize("room", [40, 80, 200])
def test_10_000_columns_fit(room: int) -> None:
    batch = wide_batch(10_000)
    lines = list(row_table([batch], batch.schema, room))
    assert max(width(text) for text in lines[:-1]) <= room
    assert "of 10,000 columns not shown" in lines[-1]
    tall = list(vertical([batch], batch.schema, room))
    assert len(tall) == 10_002
    assert max(width(text) for text in tall) <= room


def test_values_in_json_lose_nothing() -> None:
    nanos = pa.array([1, None], pa.timestamp("ns"))
    assert plain_values(nanos) == ["1970-01-01T00:00:00.000000001", None]
    assert plain_values(pa.array([1], pa.timestamp("ns", "Europe/Berlin"))) == ["1970-01-01T00:00:00.000000001Z"]
    assert plain_values(pa.array([float("nan"), float("-inf"), 0.1])) == ["NaN", "-Infinity", 0.1]
    assert plain_values(pa.array([b"\x00\xff"])) == ["00ff"]
    lists = pa.array([[1, None], None, []], pa.list_(pa.timestamp("s")))
    assert plain_values(lists) == [["1970-01-01T00:00:01", None], None, []]
    assert plain_values(lists.slice(1)) == [None, []]
    maps = pa.array([[("a", 1)], None, [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int8()))
    assert plain_values(maps) == [[["a", 1]], None, [["b", None], ["c", 3]]]
    assert plain_values(maps.slice(1, 2)) == [None, [["b", None], ["c", 3]]]


def test_json_lines_and_csv() -> None:
    batch = pa.record_batch({"a": pa.array([1, None]), 'b"': pa.array(["x,y", ""]), "c": pa.array([[1], None])})
    assert [json.loads(text) for text in json_lines([batch])] == [
        {"a": 1, 'b"': "x,y", "c": [1]},
        {"a": None, 'b"': "", "c": None},
    ]
    assert list(csv_lines([batch], batch.schema)) == ['a,"b""",c', '1,"x,y",[1]', ',"",']


def test_no_columns() -> None:
    assert list(row_table([], pa.schema([]), 80)) == ["0 rows of no columns"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_is_never_paged_and_a_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PAGER", "sh -c 'cat > /dev/null'")
    pipe, terminal, off = io.StringIO(), Terminal(), Terminal()
    Screen(pipe).lines(str(i) for i in range(100))
    Screen(terminal).lines(str(i) for i in range(100))
    Screen(off, pager=False).lines(str(i) for i in range(100))
    assert pipe.getvalue().count("\n") == off.getvalue().count("\n") == 100
    assert terminal.getvalue() == ""
    Screen(terminal).lines(["short"])
    assert terminal.getvalue() == "short\n"


def test_progress_fits_its_line() -> None:
    for fraction in (0.0, 0.5, 1.0):
        event = SimpleNamespace(job="convert", fraction=fraction, num_rows=1_000_000)
        for room in (20, 80, 200):
            assert len(line(event, 3.0, room)) < room


@pytest.mark.parametrize("command", ["count --where x>1", "cat --csv"])
def test_a_long_read_shows_a_bar_beside_what_it_prints(tmp_path: Path, command: str) -> None:
    smalti.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "x.mosaic", row_group_max_rows=1)
    name, *rest = command.split()
    options = build_parser().parse_args([name, str(tmp_path / "x.mosaic"), *rest])
    out, terminal = io.StringIO(), Terminal()
    {"count": run_count, "cat": run_cat}[name](options, Screen(out, terminal))
    assert "read" in terminal.getvalue()
    assert "read" not in out.getvalue()


def test_a_progress_bar_is_drawn_and_removed_on_a_terminal_only() -> None:
    event = SimpleNamespace(job="convert", fraction=0.5, num_rows=10)
    terminal, pipe = Terminal(), io.StringIO()
    with ProgressBar(terminal) as show:
        show(event)
        show(event)  # too soon to draw again
    assert terminal.getvalue().count("convert") == 1
    assert terminal.getvalue().endswith("\r\x1b[K")
    with ProgressBar(pipe) as show:
        assert show is None
    assert pipe.getvalue() == ""

"""Tables and values as text."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import smalti
from smalti.cli.main import build_parser
from smalti.cli.render.rows import row_table, vertical
from smalti.cli.render.table import Head, table
from smalti.cli.render.text import cell, fit, printable, size, width
from smalti.cli.rows import run_cat, run_count
from smalti.cli.screen import Screen
from smalti.jobs.formats.text_values import csv_header, csv_lines, json_lines, plain_values
from smalti.progress import ProgressBar, line
from tests.support.any_arrow import Money, any_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


@pytest.mark.parametrize("room", [None, 40, 200])
def test_long_tables_are_not_garbled(room: int | None) -> None:
    """Widths were those of the first rows: `1…0  sens…_1000`, and sizes were cut to `11.…KiB`."""
    heads = [Head("#", right=True), Head("name", least=8), Head("min"), Head("bytes", right=True)]
    numbers = [*range(700, 1300), *range(9_000, 12_000), 1_234_567]
    rows = [[f"{i}", f"sensor_{i}", f"-{i}.5e-300", f"{i:,} KiB"] for i in numbers]
    last = ["10000000", "x", "-1.2345678901234567e-300", "11.0 KiB"]
    lines = list(table(heads, [*rows, *rows, *rows, last], room))[2:]
    for printed, (number, name, low, size_) in zip(lines, rows, strict=False):
        cells = printed.split(maxsplit=3)
        assert [cells[0], *cells[2:]] == [number, low, size_]
        assert room == 40 or cells[1] == name
    assert lines[-1].split() == ["10000000", "x", "-1.2345678901234567e-300", "11.0", "KiB"]
    assert len({width(line) for line in lines[:-1]}) == 1


def wide_batch(columns: int) -> pa.RecordBatch:
    return pa.record_batch({f"column_{i}_{'x' * (i % 60)}": pa.array([i, None, 7]) for i in range(columns)})


@pytest.mark.parametrize("room", [40, 80, 200])
def test_10_000_columns_fit(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(room))
    monkeypatch.setenv("NO_COLOR", "1")
    batch, screen = wide_batch(10_000), Screen(Terminal())
    lines = list(row_table(screen, [batch], batch.schema))
    assert max(width(text) for text in lines[:-1]) <= room
    assert "of 10,000 columns not shown" in lines[-1]
    tall = list(vertical(screen, [batch], batch.schema))
    assert len(tall) == 10_002
    assert max(width(text) for text in tall) <= room


def test_values_in_json_lose_nothing() -> None:
    nanos = pa.array([1, None], pa.timestamp("ns"))
    assert plain_values(nanos) == ["1970-01-01T00:00:00.000000001", None]
    assert plain_values(pa.array([1], pa.timestamp("ns", "Europe/Berlin"))) == ["1970-01-01T00:00:00.000000001Z"]
    assert plain_values(pa.array([float("nan"), float("-inf"), 0.1])) == ["NaN", "-Infinity", 0.1]
    assert plain_values(pa.array([b"\x00\xff"])) == ["AP8="]
    ids = pa.uuid().wrap_array(pa.array([bytes(16), None], pa.binary(16)))
    assert plain_values(pa.ListArray.from_arrays([0, 2, 2], ids)) == [[str(UUID(int=0)), None], []]
    lists = pa.array([[1, None], None, []], pa.list_(pa.timestamp("s")))
    assert plain_values(lists) == [["1970-01-01T00:00:01", None], None, []]
    assert plain_values(lists.slice(1)) == [None, []]
    maps = pa.array([[("a", 1)], None, [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int8()))
    assert plain_values(maps) == [[["a", 1]], None, [["b", None], ["c", 3]]]
    assert plain_values(maps.slice(1, 2)) == [None, [["b", None], ["c", 3]]]
    assert plain_values(pa.nulls(2, pa.map_(pa.string(), pa.list_view(pa.int8())))) == [None, None]


MILLENNIA = 9_000_000_000_000


@pytest.mark.parametrize(
    ("type_", "ticks", "texts"),
    [
        (pa.timestamp("s"), [-MILLENNIA, MILLENNIA], ["-283229-05-10T08:00:00", "287168-08-24T16:00:00"]),
        (pa.timestamp("ms", "Europe/Berlin"), [-(1 << 63)], ["-292275055-05-16T16:47:04.192Z"]),
        (pa.timestamp("ns", "UTC"), [-(1 << 63)], ["1677-09-21T00:12:43.145224192Z"]),
        (pa.date32(), [-(1 << 31), 11_248_737, 11_248_738], ["-5877641-06-23", "32767-12-31", "32768-01-01"]),
        (pa.date64(), [-86_400_000, (1 << 60) // 86_400_000 * 86_400_000], ["1969-12-31", "36536598-01-28"]),
    ],
)
def test_moments_of_any_year(type_: Any, ticks: list[int], texts: list[str]) -> None:
    """Arrow wrote `<value out of range>`; dictionaries, runs, lists and structs have the same."""
    array = pa.array(ticks, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    count = len(ticks)
    assert plain_values(array) == texts
    assert plain_values(pa.DictionaryArray.from_arrays(pa.array(range(count)), array)) == texts
    ends: Any = pa.array(range(1, count + 1), pa.int32())
    assert plain_values(pa.RunEndEncodedArray.from_arrays(ends, array)) == texts
    assert plain_values(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), array)) == [texts]


def test_every_value_is_json() -> None:
    """All types in all nestings, as JSON reads them: what Arrow has, with texts for what JSON lacks."""
    pa.register_extension_type(Money(pa.int8()))
    try:
        for seed in range(150):
            table = any_table(random.Random(seed), 3)
            lines = [json.loads(line, parse_constant=_refuse) for line in json_lines(table.to_batches())]
            assert [list(line) for line in lines] == [table.column_names] * table.num_rows
            for name, column in zip(table.column_names, table.columns, strict=True):
                assert [line[name] is None for line in lines] == [value is None for value in column.to_pylist()], seed
                lengths = [len(value) if isinstance(value, (list, dict)) else 0 for value in column.to_pylist()]
                if not isinstance(column.type, pa.FixedShapeTensorType):
                    found = [len(line[name]) if isinstance(line[name], (list, dict)) else 0 for line in lines]
                    assert found == lengths, (seed, column.type)
    finally:
        pa.unregister_extension_type("smalti.tests.money")


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_json_lines_and_csv() -> None:
    batch = pa.record_batch({"a": pa.array([1, None]), 'b"': pa.array(["x,y", ""]), "c": pa.array([[1], None])})
    assert [json.loads(text) for text in json_lines([batch])] == [
        {"a": 1, 'b"': "x,y", "c": [1]},
        {"a": None, 'b"': "", "c": None},
    ]
    twice = pa.RecordBatch.from_arrays([pa.array([i]) for i in range(3)], ["a", "a", "a#2"])
    assert [json.loads(text) for text in json_lines([twice])] == [{"a": 0, "a#2": 1, "a#2#2": 2}]
    assert csv_header(batch.schema.names) == 'a,"b""",c'
    assert list(csv_lines([batch])) == ['1,"x,y",[1]', ',"",']


def test_no_columns() -> None:
    assert list(row_table(Screen(io.StringIO()), [], pa.schema([]))) == ["0 rows of no columns"]


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
    # After a resume, what an earlier run has done tells nothing about the time that is left.
    event = SimpleNamespace(job="convert", fraction=0.75, num_rows=0)
    assert "10 s left" in line(event, 10.0, 80, first=0.5)
    assert "3 s left" in line(event, 10.0, 80)


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

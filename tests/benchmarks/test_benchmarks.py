"""The benchmark runs, its data never changes, its arithmetic is right. No test here asserts a time."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("numpy")

from benchmarks.__main__ import main
from benchmarks.announced import beside
from benchmarks.datasets import DATASETS, column_names, np, scattered, telemetry_filters
from benchmarks.environment import busy_share
from benchmarks.goals import GOALS, Goal, outcomes
from benchmarks.measure import Measurement, Turn, difference, take_turns
from benchmarks.peers import PEERS, installed
from benchmarks.plans import PROFILES, REPEATING, Effort, smoke
from benchmarks.session import Session

import smalti
from benchmarks import change, choices, cliffs, doors, floor, measure, remote, report, tables
from tests.docs.test_pages import script
from tests.support.children import ROOT
from tests.support.long import long_only

HERE = [peer.name for peer in installed(PEERS)[0]]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """No pause after a turn, and no search for garbage, before each turn, among all that the tests have loaded."""
    monkeypatch.setattr(measure, "PAUSE", 0)
    gc.freeze()
    yield
    gc.unfreeze()


def digest(table: pa.Table) -> str:
    text = json.dumps(table.to_pydict()) + str(table.schema)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wide-500", "d584b5b7a4f5848c"),
        ("sparse", "a65d72ad08a2db02"),
        ("narrow", "27c0cc150e607366"),
        ("telemetry", "c2c653e0e5cb7d5f"),
        ("vectors", "0fe8d8a047b2055d"),
    ],
)
def test_a_data_set_is_the_same_everywhere(name, expected):
    small = dataclasses.replace(DATASETS[name], columns=30, rows=20)
    assert digest(small.build()) == expected


def test_the_wide_table_is_as_announced():
    table = dataclasses.replace(DATASETS["wide-10"], columns=500).build()
    assert sum(pa.types.is_string(kind) for kind in table.schema.types) == 450
    assert table.schema.types.count(pa.int32()) == 50
    assert len(set(table.column_names)) == 500


def test_names_are_long_and_unique():
    names = column_names(np.random.RandomState(1), 5_000)
    assert len(set(names)) == 5_000
    assert 75 <= sum(map(len, names)) / len(names) <= 85


def test_the_sparse_table_has_the_shares_of_the_requirement():
    table = dataclasses.replace(DATASETS["sparse"], columns=1_000, rows=200).build()
    kinds = table.schema.types
    assert [kinds.count(kind) for kind in (pa.int8(), pa.float64(), pa.int16(), pa.int32())] == [790, 110, 50, 50]
    nulls = [column.null_count for column in table.columns]
    assert nulls.count(200) == 180
    assert nulls.count(0) == 160
    holes = [count / 200 for count in nulls if 0 < count < 200]
    assert sum(holes) / len(holes) == pytest.approx(0.75, abs=0.01)


def test_scattered_columns_are_the_same_for_every_peer():
    names = [f"c{i}" for i in range(1_000)]
    picked = scattered(names, 10)
    assert picked == scattered(names, 10)
    assert len(set(picked)) == 10
    assert picked == sorted(picked, key=names.index)


SECONDS = Goal("t", "d", "w", "seconds", "reference", 4.0)
BYTES = Goal("t", "d", "w", "file_bytes", "reference", 1.01)


@pytest.mark.parametrize(
    ("goal", "ours", "theirs", "measured", "reached"),
    [
        pytest.param(SECONDS, {"seconds": [2.0, 1.0]}, {"seconds": [9.0, 4.0]}, 4.0, True, id="best against best"),
        pytest.param(SECONDS, {"seconds": [1.0]}, {"seconds": [3.9]}, 3.9, False, id="slower than the goal"),
        pytest.param(SECONDS, {"seconds": [2.0, 1.0]}, {"seconds": [4.0]}, 2.0, False, id="same rounds only"),
        pytest.param(SECONDS, {"seconds": [1.0]}, None, None, None, id="the peer was not measured"),
        pytest.param(SECONDS, {"error": "x"}, {"seconds": [3.9]}, None, None, id="we failed"),
        pytest.param(BYTES, {"file_bytes": 101}, {"file_bytes": 100}, 1.01, True, id="exactly at the limit"),
        pytest.param(BYTES, {"file_bytes": 102}, {"file_bytes": 100}, 1.02, False, id="larger than the limit"),
        pytest.param(BYTES, {"file_bytes": 102}, {}, None, None, id="the peer has no such figure"),
    ],
)
def test_a_goal_is_judged_by_what_was_measured(goal, ours, theirs, measured, reached):
    results = [Measurement("d", "w", "smalti", **ours)]
    if theirs is not None:
        results.append(Measurement("d", "w", "reference", **theirs))
    (outcome,) = outcomes(results, [goal])
    assert outcome.measured == measured
    assert outcome.reached is reached


def test_every_goal_is_measured_by_the_headline_run():
    plans = {plan.dataset.name: plan for plan in PROFILES["headline"][0]}
    for goal in GOALS:
        plan = plans[goal.dataset]
        works = {"write", *(f"write-level-{n}" for n in plan.levels), *(f"read-{n or 'all'}" for n in plan.reads)}
        works |= {f"filter-{name}" for name in telemetry_filters(100)} if plan.filtered else set()
        assert goal.work in works
        assert {goal.ours, goal.peer} <= set(plan.peers)
        if goal.figure == "peak_bytes":
            assert goal.work in plan.peaks
            assert goal.peer not in plan.peaks_without


def test_turns_are_interleaved_and_rotate():
    calls = []
    turns = {name: Turn(run=lambda name=name: calls.append(name)) for name in "abc"}
    samples, errors = take_turns(turns, rounds=3, budget=60.0)
    assert "".join(calls) == "abcbcacab"
    assert [len(samples[name]) for name in "abc"] == [3, 3, 3]
    assert errors == {}


@pytest.mark.parametrize(("each", "samples"), [(0.0, 5), (0.6, 3), (1.0, 1)])
def test_a_slow_turn_leaves_early(monkeypatch, each, samples):
    monkeypatch.setattr(measure, "clocked", lambda _: each)
    assert take_turns({"a": Turn(lambda: None)}, rounds=5, budget=1.0) == ({"a": [each] * samples}, {})


def test_a_turn_that_fails_is_not_asked_again():
    calls = []

    def fail() -> None:
        calls.append(1)
        raise ValueError("broken")

    samples, errors = take_turns({"bad": Turn(fail), "good": Turn(lambda: None)}, rounds=3, budget=60.0)
    assert len(calls) == 1
    assert errors == {"bad": "ValueError: broken"}
    assert len(samples["good"]) == 3


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a": [1, None], "b": ["x", "y"]}, None),
        ({"b": pa.array(["x", "y"], pa.string_view()), "a": [1, None]}, None),
        ({"a": [1, 2], "b": ["x", "y"]}, "column 'a' differs"),
        ({"a": [1, None]}, "1 columns, expected 2, or not the same ones"),
        ({"a": [1], "b": ["x"]}, "1 rows, expected 2"),
    ],
)
def test_what_a_peer_gives_back_is_compared(found, expected):
    assert difference(pa.table({"a": [1, None], "b": ["x", "y"]}), pa.table(found)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.0169, "16.9 ms"), (0.11, "110 ms"), (1.49, "1.49 s"), (18.7, "18.7 s"), (0.0009, "0.900 ms")],
)
def test_durations_are_shown_with_three_digits(value, text):
    assert report.seconds(value) == text


@pytest.mark.parametrize(("share", "busy"), [(None, False), (0.05, False), (0.15, False), (0.4, True)])
def test_a_busy_machine_is_admitted(share, busy):
    assert ("not to be quoted" in report.warning({"busy_at_start": share, "cores": 2})) is busy


def test_other_work_is_noticed():
    assert 0 <= busy_share(0.1) <= 1
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            assert busy_share(1.0) > 0.5 / os.cpu_count()
        finally:
            other.kill()


def test_every_benchmark_can_be_imported():
    """They import names of the package that nothing else checks."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "benchmarks").rglob("*.py")]
    for name in sorted(".".join(path.parts) for path in paths):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] in ("benchmarks", "smalti"):
                raise


def test_smoke_run(tmp_path, capsys):
    """Every data set, work and peer installed here, on tiny tables, memory included."""
    assert main(["--smoke", "--no-charts", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "smoke.json").read_text())
    assert {result["dataset"] for result in document["results"]} == set(DATASETS)
    asked = {name for plan in smoke("full")[0] for name in plan.peers}
    assert {result["peer"] for result in document["results"]} == asked & set(HERE)
    again = {result["peer"] for result in document["results"] if result["work"] == "read-again"}
    assert again == set(REPEATING) & set(HERE)
    assert all(result["best"] <= result["median"] for result in document["results"])
    assert len(document["goals"]) == len(GOALS)
    assert any(result["peak_bytes"] for result in document["results"])
    text = (tmp_path / "smoke.md").read_text()
    assert text.strip() == capsys.readouterr().out.strip()
    assert "## Goals" in text


@long_only
def test_charts_are_drawn_for_light_and_dark_pages(tmp_path):
    pytest.importorskip("matplotlib")
    peers = [name for name in ("smalti", "reference", "parquet") if name in HERE]
    main(["--smoke", "--only", "wide-500", "growth-1000", "--peers", *peers, "--rounds", "1", "--out", str(tmp_path)])
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert set(drawn) == {f"smoke-{name}.svg" for name in ("read", "bytes", "write", "growth")}
    assert all("prefers-color-scheme: dark" in text for text in drawn.values())


@long_only
def test_short_run_of_tables(tmp_path):
    """Many files: little processor time for each, and memory within its limit, whatever else the machine does."""
    assert tables.main(["--smoke", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "tables.json").read_text())
    assert document["cpu_ms_per_file"]["list, open and unify"] < 0.5
    limit = document["shape"]["memory_limit"]
    limited, unlimited = document["peak_bytes"][str(limit)], document["peak_bytes"][str(1 << 40)]
    assert limited <= 1.5 * limit < unlimited


@long_only
@pytest.mark.parametrize("part", ["engines", "first", "spark"])
def test_short_run_of_doors(tmp_path, part):
    """Every door that is installed finds the same means, in both formats, and what was measured before stays."""
    doors.main(["--smoke", "--only", "commands", "--out", str(tmp_path)])
    assert doors.main(["--smoke", "--only", part, "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "doors.json").read_text())
    assert len(document["commands"]) == 3
    names = {"engines": {door.name for door in doors.doors()}, "first": set(doors.FIRSTS)}
    assert document[part].keys() == names.get(part, document[part].keys())
    assert document[part]
    text = (tmp_path / "doors.md").read_text()
    assert all(f"| {name} |" in text for name in document[part])


def test_goals_of_doors_are_judged_by_ratios():
    ours, own = [0.004, 0.005, 0.012], [0.002, 0.002, 0.006]
    measured = {
        "Python": {"mosaic": [0.001, 0.002, 0.004], "parquet": [0.001, 0.01, 0.1]},
        "Polars": {"mosaic": ours, "parquet": [0.002, 0.01, 0.030]},
        doors.ITSELF: {"parquet": own},
        "Spark, SQL over a view": {"mosaic": [1, 1, 1], "parquet": [1, 2, 3.5]},
    }
    assert doors.goals(measured) == [
        ["Python: 10,000 columns cost at most 3 times 10", "4.00", "**missed**"],
        ["Polars: 10,000 columns cost at most 3 times 10, without Polars' own part", "3.00", "reached"],
        ["Polars: at 10,000 columns 3 times as fast as Parquet", "2.50", "**missed**"],
        ["Spark, SQL over a view: at 10,000 columns 3 times as fast as Parquet", "3.50", "reached"],
        ["Polars: at 10 columns at most 2 times as long as Parquet", "2.00", "reached"],
    ]


@long_only
def test_layouts_are_compared_at_every_number_of_columns(tmp_path):
    pytest.importorskip("matplotlib")
    peers = [name for name in ("smalti", "smalti-small", "smalti-fast", "reference", "parquet") if name in HERE]
    assert main(["--layouts", "--smoke", "--only", "wide-500", "--peers", *peers, "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.glob("*.svg")} == {"smoke-wide-500.svg"}
    results = json.loads((tmp_path / "smoke.json").read_text())["results"]
    assert {(result["work"], result["peer"]) for result in results if result["bytes_read"]} == {
        (f"read-{count}", peer) for count in (1, 3, 10, 24) for peer in peers
    }
    chosen = {result["peer"] for result in results if result["remark"]}
    assert chosen == {peer for peer in peers if peer.startswith("smalti")}
    table = script("generate").layouts(tmp_path / "smoke.json")
    (line,) = [line.split(" | ") for line in table.splitlines() if line.startswith("| smalti, fast ")]
    assert re.fullmatch(r"[\d.]+ ms, [\d.]+ KB", line[3])
    assert len(line) == 7


def test_layouts_that_are_the_same_file_share_a_line():
    charts = pytest.importorskip("benchmarks.charts", exc_type=ImportError)
    results = [
        Measurement("d", work, peer, file_bytes=size if work == "write" else None, bytes_read=size // 2)
        for peer, size in {"smalti": 10, "smalti-small": 8, "smalti-fast": 10}.items()
        for work in ("write", "read-1")
    ]
    assert charts.same_files(results, ["smalti", "smalti-small", "smalti-fast"]) == {
        "smalti": ["smalti", "smalti-fast"],
        "smalti-small": ["smalti-small"],
    }


def test_a_filtered_read_that_finds_other_rows_is_failed(tmp_path, monkeypatch):
    wrong = PEERS["parquet"].read_filtered
    monkeypatch.setattr(PEERS["parquet"], "read_filtered", lambda *args: wrong(*args).slice(1))
    arguments = ["--smoke", "--only", "telemetry", "--peers", "smalti-groups", "parquet", "--no-charts"]
    assert main([*arguments, "--out", str(tmp_path)]) == 1
    results = json.loads((tmp_path / "smoke.json").read_text())["results"]
    assert [(r["work"], r["peer"], r["error"]) for r in results if r["error"]] == [
        ("filter-none", "parquet", "39 rows, expected 40")
    ]
    assert {r["work"] for r in results if r["peer"] == "smalti-groups"} == {
        "write",
        *(f"filter-{name}" for name in telemetry_filters(40)),
    }


def test_an_open_file_is_read_until_the_budget_is_used_up(tmp_path, monkeypatch):
    """The figure is the time of one read, over the reads that were made."""
    plan = next(plan for plan in smoke("full")[0] if plan.repeats)
    plan = dataclasses.replace(plan, reads=(), peaks=(), levels=(), peers=("smalti",))
    reads = []

    @contextmanager
    def opened(*_):
        yield lambda columns: (reads.append(columns), time.sleep(0.02), pa.table({columns[0]: [1]}))[2]

    peer = PEERS["smalti"]()
    monkeypatch.setattr(peer, "opened", opened)
    monkeypatch.setattr(peer, "read", lambda _, columns: opened().__enter__()(columns))
    session = Session(plan, Effort(rounds=1, budget=0.1, children=1), [peer], tmp_path, lambda _: None)
    session.read_repeatedly(["a", "b"], 20)
    (result,) = session.results
    checked = 6
    assert 1 <= len(reads) - checked <= 5
    assert 0.02 <= result.seconds[0] < 0.1


def test_published_figures_stand_beside_those_of_the_run():
    read = Measurement("wide-500", "read-1", "smalti", [0.002, 0.001])
    written = Measurement("wide-500", "write", "smalti", [1.0], file_bytes=9_000_000)
    assert [(line.work, figures) for line, figures in beside([read, written])] == [
        ("write", [None, None, None, 9_000_000]),
        ("read-1", [None, None, None, 0.001]),
    ]
    for profile in ("headline", "full"):
        text = report.announcement({"profile": profile}, [read])
        line = "| 500 rows: read 1 of 10,000 | 50.9 ms | 70.7 ms | 2.37 ms |" + " not measured |" * 3 + " 1.00 ms |"
        assert line in text
    assert report.announcement({"profile": "smoke"}, [read]) == ""


@pytest.mark.parametrize(
    ("figure", "factor", "text"),
    [
        ("seconds", 5, "5 x faster"),
        ("seconds", 1, "not slower"),
        ("seconds", 1 / 1.5, "at least 0.667 x as fast"),
        ("file_bytes", 1.02, "at most 1.02 x"),
    ],
)
def test_goals_are_put_in_words(figure, factor, text):
    assert report.wanted(figure, factor) == text


def test_short_run_on_s3(tmp_path):
    assert remote.main(["--smoke", "--out", str(tmp_path)]) == 0
    costs = json.loads((tmp_path / "remote.json").read_text())["costs"]
    ours = {cost["work"]: cost for cost in costs if cost["peer"] == "smalti"}
    assert ours["open"]["requests"] == 1
    assert {goal.work for goal in remote.GOALS} <= set(ours)
    assert all(cost["bytes"] > 0 for cost in costs if cost["work"] in ("open", "open and read", "row groups", "files"))


@long_only
def test_short_run_of_changes(tmp_path):
    """Every part is measured, and what is copied and encoded is counted; the rest of a table is never encoded."""
    assert change.main(["--smoke", "--out", str(tmp_path)]) == 0
    parts = json.loads((tmp_path / "change.json").read_text())["parts"]
    assert list(parts) == list(change.PARTS)
    assert {goal.figure for goal in change.GOALS if goal.part != "merge"} <= {
        figure for part in parts.values() for figure in part["figures"]
    }
    added = next(cost for cost in parts["columns"]["costs"] if cost["peer"] == "smalti")
    assert 0 < added["bytes_encoded"] < added["bytes_copied"]
    assert not any(cost["remark"].startswith(("failed", "not done")) for cost in parts["merge"]["costs"])


@long_only
def test_short_run_of_small_reads(tmp_path):
    assert floor.main(["--smoke", "--repeats", "2", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "floor.json").read_text())
    assert all(0 < read["floor"] < read["first"] for read in document["reads"])
    assert (tmp_path / "floor.md").read_text().count("at most") == 6


@long_only  # It starts six sessions of Spark.
def test_short_run_of_spark(tmp_path):
    """A process of its own, because it starts and stops sessions."""
    command = [sys.executable, "-m", "benchmarks.spark", "--columns=20", "--rows=40", "--files=2", "--rounds=1"]
    command += ["--sessions=1", "--narrow=100", "--only", "first", "read", "convert", "write"]
    done = subprocess.run([*command, f"--out={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "spark.json").read_text())
    assert len(document["convert"]["job"]["runs"]) == 3
    for road in ("dataframe", "parquet"):
        measured = document["convert"][road]
        assert measured["times"] == pytest.approx(measured["seconds"] / document["convert"]["job"]["seconds"])
    for work in ("narrow", "half"):
        measured = document["write"][work]
        assert measured["ratio"] == pytest.approx(measured["seconds"] / measured["peer"])
    assert len(document["read"]["mosaic"]["collect"]) == len(document["read"]["parquet"]["load_and_collect"]) == 1
    assert document["read"]["mosaic"]["peak_bytes"] > document["read"]["mosaic"]["idle_bytes"] > 1 << 26
    first = document["first"]
    assert first["ratio"] == pytest.approx(first["mosaic"]["seconds"] / first["parquet"]["seconds"])
    assert first["mosaic"]["processes"] <= first["parquet"]["processes"] == 2  # a session starts these ahead
    assert 2 <= first["mosaic"]["processes"] <= 3  # a daemon, a worker that plans and reads, and perhaps a second one
    text = (tmp_path / "spark.md").read_text()
    assert "first query of a session" in text
    assert "Converting 20 columns x 40 rows" in text
    assert "Reading 10 of 20 columns" in text
    assert "10 of 20 columns, filtered" in text


@pytest.mark.parametrize("suffix", ["mosaic", "parquet"])
def test_own_files_are_measured_in_both_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    from benchmarks.own import main as measure_own

    table = pa.table({"a": [1, 2], "s": [{"x": 1}, None], "l": [[{"y": "a"}], []], "u": pa.array([1, 2], pa.uint64())})
    path = tmp_path / f"t.{suffix}"
    smalti.write_table(table, path) if suffix == "mosaic" else pq.write_table(table, path)
    measure_own([str(path), "--rounds", "1", "--columns", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 rows, 4 columns, zstd 1 for both, best of 1"
    works = ["size", "write", "open", "read 1 column", "read 3 columns", "read all"]
    assert [line.split("  ")[0] for line in lines[3:]] == works


@long_only
def test_short_run_of_rows(tmp_path):
    """All peers that are installed give the same rows, and the page has all parts."""
    for package in ("lance", "vortex", "polars"):
        pytest.importorskip(package)
    from benchmarks import rows

    assert rows.main(["--smoke", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "rows.json").read_text())
    assert set(rows.PARTS) <= set(document)
    assert document["epoch"]["rows_per_second"].keys() == rows.EPOCHS.keys()


@long_only
def test_choices_and_cliffs_run_and_say_what_they_found(tmp_path, capsys):
    assert choices.main(["--smoke", "--out", str(tmp_path)]) == 0
    assert cliffs.main(["--smoke", "--only", "first", "IN", "fixed_size", "--out", str(tmp_path)]) == 0
    (found,) = json.loads((tmp_path / "choices.json").read_text())["results"]
    assert found["chosen"]["seconds"].keys() == {"1", "10", "100"}
    assert "slower than the best" in (tmp_path / "choices.md").read_text()
    page = (tmp_path / "cliffs.md").read_text()
    assert "| first 10 rows of 10 million x 3 columns |" in page
    assert page.count("| reached |") + page.count("| missed |") == 4
    assert len(capsys.readouterr().out) > 500


def test_a_choice_is_judged_by_the_best_candidate_within_the_bound():
    def layout(name, size, seconds):
        return choices.Layout(name, size, size, 1.0, {1: seconds, 10: seconds, 100: seconds})

    fast, small, large = layout("fast", 1.10, 1.0), layout("small", 1.0, 2.0), layout("large", 1.2, 0.1)
    outcome = choices.Outcome("d", "about", 200, 10, small, "small", [fast, small, large])
    assert outcome.fastest is fast
    assert outcome.slowdown == pytest.approx(2.0)
    assert outcome.regret == pytest.approx(1.0)  # 1.1 ** 10 is more than 2

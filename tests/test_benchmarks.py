"""The benchmark runs, its data never changes, its arithmetic is right. No test here asserts a time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys

import pyarrow as pa
import pytest

pytest.importorskip("numpy")

from benchmarks import measure, report
from benchmarks.__main__ import main
from benchmarks.datasets import DATASETS, column_names, np, scattered, telemetry_filters
from benchmarks.goals import GOALS, Goal, outcomes
from benchmarks.measure import Measurement, Turn, difference, take_turns
from benchmarks.peers import PEERS, installed
from benchmarks.plans import PROFILES, REPEATING, smoke

from tests.children import ROOT

HERE = [peer.name for peer in installed(PEERS)[0]]


def digest(table: pa.Table) -> str:
    text = json.dumps(table.to_pydict()) + str(table.schema)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wide-500", "d584b5b7a4f5848c"), ("sparse", "a65d72ad08a2db02"), ("narrow", "27c0cc150e607366"), ("telemetry", "")],
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


@pytest.mark.parametrize(("load", "busy"), [(0.2, False), (1.0, False), (1.1, True)])
def test_a_busy_machine_is_admitted(load, busy):
    assert ("not to be quoted" in report.warning({"load_at_start": load, "cores": 2})) is busy


def test_smoke_run(tmp_path, capsys):
    """Every data set, work and peer installed here, on tiny tables, memory included."""
    assert main(["--smoke", "--no-charts", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "smoke.json").read_text())
    assert {result["dataset"] for result in document["results"]} == set(DATASETS)
    assert {result["peer"] for result in document["results"]} == set(HERE)
    assert all(result["best"] <= result["median"] for result in document["results"])
    assert len(document["goals"]) == len(GOALS)
    assert any(result["peak_bytes"] for result in document["results"])
    text = (tmp_path / "smoke.md").read_text()
    assert text.strip() == capsys.readouterr().out.strip()
    assert "## Goals" in text


def test_charts_are_drawn_for_light_and_dark_pages(tmp_path):
    pytest.importorskip("matplotlib")
    peers = [name for name in ("smalti", "reference", "parquet") if name in HERE]
    main(["--smoke", "--only", "wide-500", "growth-1000", "--peers", *peers, "--rounds", "1", "--out", str(tmp_path)])
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert set(drawn) == {f"smoke-{name}.svg" for name in ("read", "bytes", "write", "growth")}
    assert all("prefers-color-scheme: dark" in text for text in drawn.values())


def test_short_run_of_spark(tmp_path):
    """A process of its own, because it starts and stops sessions."""
    command = [sys.executable, "-m", "benchmarks.spark", "--columns=20", "--rows=40", "--files=2", "--rounds=1"]
    done = subprocess.run([*command, f"--out={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "spark.json").read_text())
    assert len(document["convert"]["job"]["runs"]) == 3
    for road in ("dataframe", "parquet"):
        measured = document["convert"][road]
        assert measured["times"] == pytest.approx(measured["seconds"] / document["convert"]["job"]["seconds"])
    assert len(document["read"]["mosaic"]["collect"]) == len(document["read"]["parquet"]["load_and_collect"]) == 1
    assert document["read"]["mosaic"]["peak_bytes"] > document["read"]["mosaic"]["idle_bytes"] > 1 << 26
    text = (tmp_path / "spark.md").read_text()
    assert "Converting 20 columns x 40 rows" in text
    assert "Reading 10 of 20 columns" in text

"""`smalti.loader`: every row once, resumed exactly, in bounded memory, and never rows of two states of a table."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti.errors import MosaicError, ReplacedError
from smalti.loading.arrays import to_numpy
from tests.support.strategies import examples

ROWS = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of four files, one without rows and one that lacks a column."""
    path = tmp_path_factory.mktemp("loader") / "table"
    for place, (start, end) in enumerate([(0, 250), (250, 250), (250, 900), (900, ROWS)]):
        (path / f"part={place}").mkdir(parents=True)
        data = {"id": pa.array(range(start, end), pa.int64()), "x": pa.array([row / 2 for row in range(start, end)])}
        data |= {} if place == 3 else {"name": pa.array([f"row {row}" for row in range(start, end)])}
        smalti.write_table(pa.table(data), path / f"part={place}/rows.mosaic", row_group_max_rows=60)
    return path


def ids(batches: Iterable[Any]) -> list[int]:
    return [int(row) for batch in batches for row in batch["id"]]


@examples(40)
@given(data=st.data())
def test_shards_are_a_permutation(path: Path, data: st.DataObject) -> None:
    """For any settings; an epoch has another order than the one before, and a resumed run the same rows."""
    shards = data.draw(st.integers(1, 5))
    options: dict[str, Any] = {
        "batch_size": data.draw(st.sampled_from([1, 7, 64, 333, 5000])),
        "shuffle": data.draw(st.booleans()),
        "seed": data.draw(st.integers(0, 1 << 40)),
        "epochs": data.draw(st.integers(1, 2)),
        "buffer_bytes": data.draw(st.sampled_from([1, 2000, 30_000, 1 << 20])),
        "drop_last": data.draw(st.booleans()),
    }
    source: Any = data.draw(st.sampled_from([path, path / "part=2/rows.mosaic"]))
    total = smalti.loader(source, ["id"], epochs=1)
    every = sorted(ids(total))
    epochs: dict[int, list[int]] = {}
    for index in range(shards):
        loader = smalti.loader(source, ["id"], shard=(index, shards), **options)
        batches = [batch["id"].tolist() for batch in loader]
        assert len(batches) == loader.num_batches * options["epochs"]
        for number, batch in enumerate(batches):
            epochs.setdefault(number // max(1, loader.num_batches), []).extend(batch)
        if batches:
            stop = data.draw(st.integers(1, len(batches)))
            first = smalti.loader(source, ["id"], shard=(index, shards), **options)
            head = [batch["id"].tolist() for batch in islice(first, stop)]
            second = smalti.loader(source, ["id"], shard=(index, shards), **options)
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
            assert head + [batch["id"].tolist() for batch in second] == batches
    for rows in epochs.values():
        if options["drop_last"]:
            size = options["batch_size"]
            assert len(set(rows)) == len(rows) == len(every) // shards // size * size * shards
        else:
            assert sorted(rows) == every
    if options["shuffle"] and len(epochs) == 2 and len(epochs[0]) > 100:
        assert epochs[0] != epochs[1]


def test_what_a_batch_is(path: Path) -> None:
    loader = smalti.loader(path, batch_size=300, fill_null={"part": -1})
    batches = list(loader)
    assert [len(batch["id"]) for batch in batches] == [300, 300, 300, 100]
    assert (batches[0]["x"].dtype, batches[0]["part"].tolist()[:2]) == (np.float64, [0, 0])
    assert batches[3]["name"].tolist() == [None] * 100
    arrow = next(iter(smalti.loader(path, ["x"], 5, output="arrow")))
    assert arrow.equals(pa.table({"x": [0.0, 0.5, 1.0, 1.5, 2.0]}))
    assert np.shares_memory(batches[1]["x"], batches[0]["x"]) or not batches[0]["x"].flags.owndata


def test_a_repeated_column_comes_once(path: Path) -> None:
    for source in (path, path / "part=2/rows.mosaic"):
        loader = smalti.loader(source, ["id", "x", "id"], 5)
        assert list(next(iter(loader))) == loader.schema.names == ["id", "x"]


def test_single_rows(path: Path) -> None:
    """A dataset of rows, as PyTorch's map-style datasets are."""
    loader = smalti.loader(path, ["id", "name"])
    assert len(loader) == ROWS
    assert loader[-1] == {"id": 999, "name": None}
    assert loader.__getitems__([999, 0]) == [{"id": 999, "name": None}, {"id": 0, "name": "row 0"}]
    assert loader[[5, 3]]["id"].tolist() == [5, 3]
    assert loader[250:252]["name"].tolist() == ["row 250", "row 251"]
    with pytest.raises(IndexError):
        loader[ROWS]


def test_it_goes_on_where_it_stopped(path: Path) -> None:
    loader = smalti.loader(path, ["id"], 100, shuffle=True)
    first = [next(iter(loader))["id"].tolist() for _ in range(3)]
    rest = [batch["id"].tolist() for batch in loader]
    assert sorted(chain(*first, *rest)) == list(range(ROWS))
    assert (loader.epoch, loader.state_dict()["batch"]) == (1, 0)
    assert ids(loader) != [*chain(*first, *rest)]  # the next epoch
    loader.set_epoch(0)
    assert [batch["id"].tolist() for batch in loader] == first + rest
    done = smalti.loader(path, ["id"], 100, shuffle=True)
    loader.set_epoch(0)
    list(loader)
    done.load_state_dict(loader.state_dict())
    assert list(done) == []  # nothing was missing
    endless = iter(smalti.loader(path, ["id"], 600, epochs=None))
    assert [len(next(endless)["id"]) for _ in range(5)] == [600, 400, 600, 400, 600]
    assert list(smalti.loader(path / "part=1/rows.mosaic", epochs=None)) == []


def test_resumes_after_kill(path: Path, tmp_path: Path) -> None:
    """A real process that is killed with kill -9 goes on with exactly the rows that are missing."""
    log, state = tmp_path / "log", tmp_path / "state"
    command = [sys.executable, "-m", "tests.support.loading_child", str(path), str(log), str(state)]
    for stop in (13, 20):
        with subprocess.Popen([*command, str(stop)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            child.send_signal(signal.SIGKILL)
    subprocess.run([*command, "-1"], check=True)
    found = [int(row) for line in log.read_text().splitlines() for row in line.split()]
    whole = smalti.loader(path, ["id"], 37, shuffle=True, seed=11, epochs=2, buffer_bytes=4000)
    assert found == ids(whole)
    assert sorted(found) == sorted(2 * list(range(ROWS)))


def test_pickled_and_in_another_place(path: Path) -> None:
    for source in (path, path / "part=2/rows.mosaic"):
        loader = smalti.loader(source, ["id"], 50, shuffle=True, seed=2)
        next(iter(loader))
        copy = pickle.loads(pickle.dumps(loader))
        assert ids(copy) == ids(loader)


def replace_rows(path: Path, *, add: int) -> None:
    table = smalti.read_table(path)
    other = pa.array([row + add for row in table["id"].to_pylist()])
    smalti.write_table(table.set_column(0, "id", other), path, row_group_max_rows=50)


def test_files_that_are_replaced(tmp_path: Path) -> None:
    """The loader stays with the files it has listed, or stops; it never mixes rows of two states."""
    for place in range(3):
        rows = pa.table({"id": range(place * 100, place * 100 + 100)})
        smalti.write_table(rows, tmp_path / f"{place}.mosaic", row_group_max_rows=50)
    loader = smalti.loader(tmp_path, ["id"], 10, buffer_bytes=1)
    found = [next(iter(loader))["id"].tolist() for _ in range(11)]
    replace_rows(tmp_path / "1.mosaic", add=1000)  # open already, so that the rows of the old file are read
    replace_rows(tmp_path / "2.mosaic", add=1000)
    smalti.write_table(pa.table({"id": [5000]}), tmp_path / "3.mosaic")
    with pytest.raises(ReplacedError, match="was replaced after the table was listed"):
        found.extend(batch["id"].tolist() for batch in loader)
    assert [*chain(*found)] == list(range(len(found) * 10))
    again = smalti.loader(tmp_path, ["id"], 10, buffer_bytes=1)
    with pytest.raises(MosaicError, match="the state is of another table"):
        again.load_state_dict(loader.state_dict())
    one = smalti.loader(tmp_path / "0.mosaic", ["id"], 10)
    pickled = pickle.dumps(one)
    smalti.write_table(pa.table({"id": range(7)}), tmp_path / "0.mosaic")
    with pytest.raises(ReplacedError):
        pickle.loads(pickled)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": (2, 2)}, r"no such shard: found \(2, 2\), expected \(i, n\), with i from 0 to n - 1"),
        ({"shard": (-1, 2)}, "no such shard"),
        ({"shard": 3}, "no such shard: found 3"),
        ({"shard": (0.5, 2)}, "no such shard"),
        ({"batch_size": 0}, "batch_size is a whole number: found 0, expected 1 or more"),
        ({"batch_size": 2.5}, "batch_size is a whole number"),
        ({"seed": -1}, "seed is a whole number"),
        ({"epochs": "3"}, "epochs is a whole number"),
        ({"buffer_bytes": 0}, "buffer_bytes is a whole number"),
        ({"output": "pandas"}, "output is numpy or arrow: found pandas"),
        ({"columns": ["nothing"]}, "no column 'nothing'"),
    ],
)
def test_settings_that_make_no_sense(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MosaicError, match=message):
        smalti.loader(path, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "a loader with another seed: found 1, expected 0"),
        ({"batch_size": 5}, "another batch_size: found 5, expected 1024"),
        ({"columns": ["x"]}, "another columns"),
        ({"table": "x"}, "another table"),
        ({"epoch": -1}, "epoch is a whole number: found -1"),
        ({"batch": None}, "batch is a whole number"),
        ({"version": 2}, "another version"),
    ],
)
def test_states_that_do_not_fit(path: Path, change: dict[str, Any], message: str) -> None:
    loader = smalti.loader(path, ["id"])
    with pytest.raises(MosaicError, match=message):
        loader.load_state_dict(loader.state_dict() | change)
    with pytest.raises(MosaicError, match="this is no state of a loader: found no 'version'"):
        loader.load_state_dict({})


@pytest.mark.parametrize(
    ("array", "fill", "expected"),
    [
        (pa.array([1, 2], pa.int8()), None, np.array([1, 2], np.int8)),
        (pa.array([1, None], pa.int8()), 0, np.array([1, 0], np.int8)),
        (pa.array([True, False]), None, np.array([True, False])),
        (pa.array([1.5, None], pa.float32()), None, np.array([1.5, np.nan], np.float32)),
        (pa.array([1, None], pa.date32()), None, np.array([1, "NaT"], "datetime64[D]")),
        (pa.array([1, None], pa.timestamp("ms", "UTC")), None, np.array([1, "NaT"], "datetime64[ms]")),
        (pa.array(["a", None]).dictionary_encode(), None, np.array(["a", None], object)),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)), None, np.array([[1, 2], [3, 4]], np.int16)),
    ],
)
def test_arrays(array: pa.Array, fill: Any, expected: np.ndarray) -> None:
    found = to_numpy(array, "a", fill)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_arrays_of_lists_and_nulls() -> None:
    lists = to_numpy(pa.array([[1, 2], None, []], pa.list_(pa.int8())), "a")
    assert [None if each is None else each.tolist() for each in lists] == [[1, 2], None, []]
    assert to_numpy(pa.array([[[1], [2]], [[3], [4]]]), "a").tolist() == [[[1], [2]], [[3], [4]]]
    with pytest.raises(MosaicError, match="column 'a': int64 arrays of NumPy have no nulls: found 1 nulls"):
        to_numpy(pa.array([1, None]), "a")
    with pytest.raises(MosaicError, match="fill_null does not fit the column"):
        to_numpy(pa.array([1, None]), "a", "x")

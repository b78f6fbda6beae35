"""Every option of every command does something, or is refused by its name: on every road that the command can take."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import smalti
from smalti.cli.commands import COMMANDS
from smalti.errors import MosaicError
from smalti.jobs.staging import Staging
from tests.support.flags import contents, ignored_options

#: What a command reads, and further arguments that it needs.
ROADS: dict[str, list[str]] = {
    **{key: ["a.mosaic", "t", "a.parquet"] for key in ["head", "tail", "count"]},
    **{key: ["t", "a.csv"] for key in ["sample", "cat"]},
    **{key: ["a.mosaic", "t", "a.parquet"] for key in ["schema", "meta", "size", "report", "profile"]},
    **{key: ["a.mosaic", "t"] for key in ["stats", "layout", "verify"]},
    "layout": ["a.mosaic", "t", "a.mosaic --weigh"],
    "sql": ["q.sql t=a.parquet", "q.sql"],
    "diff": ["a.mosaic b.mosaic", "a.parquet b.mosaic"],
    "convert": ["a.csv new.mosaic", "a.parquet new.csv", "t new"],
    "compact": ["t", "t new"],
    "add-columns": ["a.mosaic new.parquet --on id", "t new.parquet --on id"],
    "replace-columns": ["t x.parquet --on id"],
    "drop-columns": ["a.mosaic n"],
    "rename-columns": ["t n=m"],
    "reorder-columns": ["t n"],
    "delete": ["a.mosaic --where id<3"],
    "update": ["t --set n=5"],
    "merge": ["a.mosaic x.parquet --on id", "t x.parquet --on id"],
    "clean": ["t"],
    "spark-jar": [],
}
#: For options that need something special, such as a file in the way.
INSTEAD: dict[str, dict[str, str]] = {
    "convert": {"--overwrite": "a.csv old.mosaic", "--on-error": "broken new"},
    "compact": {"--overwrite": "t old", "--on-error": "broken new"},
    "report": {"--overwrite": "a.mosaic -o old.html"},
    "diff": {"--strict": "a.mosaic c.mosaic"},
    "add-columns": {"--replace": "a.mosaic x.parquet --on id"},
    "profile": {"--overwrite": "a.mosaic --html old.html", "--on-error": "broken"},
}
#: Options that have nothing to do.
NOTHING_TO_DO: dict[str, dict[str, str]] = {
    "layout a.mosaic --weigh": {"--weigh": "twice", "--compression-level": "40 rows are as large with any level"},
    "report a.parquet": {"--values": "always done for formats but Mosaic"},
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of inputs, which is copied for each run."""
    root = tmp_path / "inputs"
    numbers = range(40)
    rows = pa.table(
        {
            "id": numbers,
            "n": [i % 4 for i in numbers],
            "x": [i % 9 for i in numbers],
            "text": [f"s{(40 - i) // 3}" for i in numbers],
        }
    )
    nested = rows.append_column("point", pa.array([{"a": i, "b": -i} for i in numbers]))
    other = nested.set_column(1, "n", pa.array(numbers)).set_column(3, "text", rows["text"].cast(pa.large_string()))
    for name in ("a", "b", "old", "old/1", "t/1", "t/2", "broken/1", "t/_mosaic_jobs/dead/0/part"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        smalti.write_table(other if name == "b" else nested, root / f"{name}.mosaic")
    smalti.write_table(nested.set_column(3, "text", rows["text"].cast(pa.large_string())), root / "c.mosaic")
    (root / "broken/2.mosaic").write_bytes(b"broken")
    pq.write_table(nested, root / "a.parquet")
    pq.write_table(pa.table({"id": range(30, 50), "x": range(20), "n": range(20)}), root / "x.parquet")
    pq.write_table(pa.table({"id": range(50), "x2": range(50), "x3": range(50)}), root / "new.parquet")
    pyarrow.csv.write_csv(rows, root / "a.csv")
    (root / "old.html").touch()

    def asked_for(*_: Any) -> None:
        raise MosaicError("engine spark was asked for")

    monkeypatch.setattr("smalti.spark.executor.SparkExecutor", asked_for)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(os, "fsync", lambda _: None)  # It would take half of the time.
    return root


@pytest.mark.parametrize("road", [f"{command} {road}" for command in COMMANDS for road in ROADS[command]])
def test_every_option_works_or_is_refused_by_name(
    road: str, files: Path, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *arguments = road.split()
    work, discarded = tmp_path / "work", [0]
    discard = Staging.discard

    def counted(staging: Staging) -> Any:
        discarded[0] += 1
        return discard(staging)

    def call(typed: list[str]) -> Any:
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(files, work)
        monkeypatch.chdir(work)
        discarded[0] = 0
        done = run(
            *(
                each.replace("q.sql", "select * from " + ("t" if "t=" in road else "'a.mosaic'") + " order by id")
                for each in typed
            )
        )
        return done, (contents(work), discarded[0])

    monkeypatch.setattr(Staging, "discard", counted)
    instead = {option: each.split() for option, each in INSTEAD.get(command, {}).items()}
    nothing = NOTHING_TO_DO.get(command, {}) | NOTHING_TO_DO.get(road, {})
    assert ignored_options(command, arguments, call, instead, nothing) == []

"""What the page is drawn from, and what notebooks show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import smalti
from smalti.report import render_report
from smalti.report.model import build_model
from smalti.report.notebook import small_map
from tests.support.files import written
from tests.support.golden import GOLDEN


def model_of(data: bytes) -> dict[str, object]:
    with smalti.open(data) as file:
        return build_model(file, "x")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.mosaic")), ids=lambda path: path.stem)
def test_every_golden_file_can_be_drawn(path: Path) -> None:
    with smalti.open(path) as file:
        page = render_report(file, path.name)
    found = re.search(r'<script id="model" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    model = json.loads(found[1])
    with smalti.open(path) as file:
        assert sorted(model["columns"]["name"]) == sorted(file.column_names)
        layout = file.layout()
    for group, drawn in zip(layout.row_groups, model["groups"], strict=True):
        assert sum(drawn["size"]) == sum(bucket.size for bucket in group.buckets)
        assert len(drawn["encoding"]) == len(model["nodes"]["column"])


def test_columns_know_their_place() -> None:
    table = pa.table({"z": [1], "a": [[1]], "m": ["x"]})
    model = model_of(written(table, num_buckets=2, stats_columns=["m"]))
    assert model["columns"] == {
        "name": ["z", "a", "m"],
        "type": ["int64", str(pa.list_(pa.int64())), "string"],
        "bucket": [1, 0, 0],
    }
    assert model["nodes"] == {"column": [1, 2, 1, 0], "path": ["", "", ".element", ""], "bucket": [0, 0, 0, 1]}
    assert model["statistics"] == {2: [[0, "x", "x"]]}


def test_dates_that_python_does_not_have() -> None:
    table = pa.table(
        {"day": pa.array([3_000_000, -3_000_000], pa.date32()), "at": pa.array([1 << 62, 5], pa.timestamp("ms"))}
    )
    statistics = model_of(written(table, stats_columns="all"))["statistics"]
    assert "-6244-04-12" in str(statistics)


def test_page_has_no_address_in_it() -> None:
    page = render_report(smalti.open(written(pa.table({"a": [1]}))))
    assert not re.search(r"(https?:)?//[a-z]", re.sub(r"//[^\n]*", "", page))
    assert "default-src 'none'" in page


def test_braces_in_names_stay() -> None:
    page = render_report(smalti.open(written(pa.table({"{{data}}": [1], "{{style}}": [1]}))), "{{script}}.mosaic")
    assert page.count("{{data}}") == 1
    assert "{{script}}.mosaic" in page


def test_notebook_display() -> None:
    table = pa.table({"<b>": [1, 2], **{f"c{i}": [i, i] for i in range(50)}})
    with smalti.open(written(table, row_group_max_rows=1)) as file:
        shown = file._repr_html_()
        layout = file.layout()._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "c…" in shown  # wide tables are shown by prefix
    assert "2 in 2 row groups" in shown
    assert "row group 1" in shown  # a small map
    assert layout.count("<tr>") == 9 + 1 + 2
    assert len(shown) < 10_000
    with smalti.open(written(pa.table({"a": [1], "s": [{"x": 1, "y": 2}]}))) as file:
        assert "2, stored as 4" in file._repr_html_()


def test_a_partial_layout_can_be_shown() -> None:
    with smalti.open(written(pa.table({"a": [1], "b": [2]}), num_buckets=2)) as file:
        part = file.layout([1])
        assert [len(bucket.columns) for bucket in part.row_groups[0].buckets] == [0, 1]
        assert file.bucket_of("b") == 1
        assert part._repr_html_()
        assert [bucket.size for bucket in part.row_groups[0].buckets] == [
            bucket.size for bucket in file.layout().row_groups[0].buckets
        ]


def test_tables_and_summaries_are_shown_too(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        smalti.write_table(pa.table({"<i>": range(100 * day)}), tmp_path / f"day={day}" / "<a>.mosaic")
    shown = smalti.dataset(tmp_path)._repr_html_()
    assert '<th style="text-align:left">files</th><td style="text-align:left">2 files</td>' in shown
    assert shown.count("&lt;a&gt;.mosaic") == 2
    assert "partition columns" in shown
    assert "300 rows" in shown
    with smalti.MosaicWriter(tmp_path / "x.mosaic", pa.schema({"n": pa.int64()})) as writer:
        writer.write(pa.table({"n": [1, 2, 3]}))
    assert writer.summary is not None
    summary = writer.summary._repr_html_()
    assert "3 in 1 row group" in summary
    assert "1 column" in summary


def test_texts_of_wide_things_are_short(tmp_path: Path) -> None:
    """That of a summary had 61,457 characters, that of a table neither rows nor columns."""
    frame = pd.DataFrame({"id": range(10), **{f"sensor_{i:04}": np.arange(10, dtype="f4") for i in range(1500)}})
    summary = smalti.write_table(frame, tmp_path / "wide.mosaic", num_buckets=100)
    assert re.fullmatch(r"WriteSummary: 10 rows x 1,501 columns, \d+\.\d KiB, 100 buckets", repr(summary))
    with smalti.open(tmp_path / "wide.mosaic") as file:
        assert repr(file.columns) == (
            "<1,501 columns: 'id', 'sensor_0000', 'sensor_0001', 'sensor_0002', 'sensor_0003', …>"
        )
    table = smalti.dataset(tmp_path)
    assert re.fullmatch(r"<smalti.MosaicDataset: 1 file, \d+\.\d KiB, 10 rows, 1,501 columns>", repr(table))
    for view in (smalti.open(tmp_path / "wide.mosaic"), table, table.scan(["s*"]), table.scan(filters="id > 5")):
        shown = view._repr_html_()
        cells = [re.sub("<.*?>", "", row) for row in re.findall("<tr>.*?</tr>", shown)]
        assert "sensor_…1,500float" in cells
        assert "sensor_0001" not in shown
        assert len(shown) < 20_000


def test_a_small_map_stays_small() -> None:
    many = small_map([(f"row group {i}", list(range(1000))) for i in range(100)])
    assert many.count("<tr>") == 12
    assert many.count("<i ") <= 12 * 50
    assert "… and 88 more" in many
    assert small_map([]) == small_map([("empty", [])]) == ""

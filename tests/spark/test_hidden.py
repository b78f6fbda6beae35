"""Names of ours beside columns of users: the hidden column, row numbers, and the keys of an order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize(
    "stored", ["named_struct('file_path', 'mine', 'row_index', id * 10)", "named_struct('x', id)", "id + 7"]
)
def test_a_stored_column_called_metadata(spark: Any, tmp_path: Path, stored: str) -> None:
    """It is read as stored, and the hidden column is found beside it, as with Parquet."""
    found = {}
    for format_ in ("mosaic", "parquet"):
        path = str(tmp_path / format_)
        spark.range(3).selectExpr("id", f"{stored} AS _metadata").coalesce(1).write.format(format_).save(path)
        frame = spark.read.format(format_).load(path)
        hidden = frame.metadataColumn("_metadata")
        beside = frame.select(
            "id", "_metadata", hidden.getField("row_index"), hidden.getField("file_name").contains("part")
        )
        found[format_] = frame.columns, rows(frame.where("_metadata IS NOT NULL")), rows(beside.orderBy("id"))
    assert found["mosaic"] == found["parquet"]
    assert [row[2:] for row in found["mosaic"][2]] == [(0, True), (1, True), (2, True)]


def test_columns_called_like_ours(spark: Any, tmp_path: Path) -> None:
    """`has value 0` and numbers were keys of an order, `row_index` is the column of row numbers on its way."""
    names = ["has value 0", "0", "1", "row_index", "row_index_", "row number"]
    columns = [f"if(id % 3 = 0, null, (id * 7 + {n}) % 11) AS `{name}`" for n, name in enumerate(names)]
    found = {}
    for format_ in ("mosaic", "parquet"):
        spark.range(60).selectExpr("id", *columns).coalesce(1).write.format(format_).save(str(tmp_path / format_))
        frame = spark.read.format(format_).load(str(tmp_path / format_))
        orders = [frame.orderBy(f"`{first}`", "id").limit(4) for first in names[:3]]
        orders += [frame.orderBy(frame["has value 0"].desc_nulls_first(), frame["1"], frame["id"]).limit(25)]
        numbered = frame.select("id", "row_index", "`row_index_`", "_metadata.row_index").where("id > 55")
        found[format_] = [rows(each) for each in (*orders, numbered.orderBy("id"))]
    assert found["mosaic"] == found["parquet"]


def test_the_hidden_column_of_a_stream(spark: Any, tmp_path: Path) -> None:
    for format_ in ("mosaic", "parquet"):
        path = str(tmp_path / format_)
        spark.range(5).selectExpr("id", "id AS _metadata").coalesce(1).write.format(format_).save(path)
        stream = spark.readStream.format(format_).schema("id bigint").load(path).select("id", "_metadata.row_index")
        writer = stream.writeStream.format("memory").queryName(f"hidden_{format_}")
        query = (
            writer.option("checkpointLocation", str(tmp_path / f"{format_}.state")).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(60)
        assert rows(spark.table(f"hidden_{format_}").orderBy("id")) == [(n, n) for n in range(5)]

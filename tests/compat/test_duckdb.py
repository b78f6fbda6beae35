"""DuckDB still needs each workaround of `smalti._compat.duckdb`; a test that fails here says which one can go."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from smalti._compat.duckdb import sql_with_tables
from smalti.duckdb import ArrowTable
from tests.docs.blocks import ROOT

TABLE = pa.table({"a": [1]})


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_to_arrow_reader_is_missing_in_the_oldest_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["duckdb"] == ["duckdb>=1.4"]  # which has `fetch_arrow_reader` only


def test_tables_are_passed_as_variables_only(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(TypeError):
        connection.sql("FROM given", tables={"given": TABLE})  # type: ignore[call-arg]
    connection.register("given", TABLE)
    relation = connection.sql("FROM given")
    connection.unregister("given")
    with pytest.raises(duckdb.Error):
        relation.filter("a > 0").fetchall()


def test_own_tables_are_preferred_to_variables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE given AS SELECT 7 AS a")
    relation = sql_with_tables(connection, "FROM given", {"given": TABLE})
    assert relation is not None
    assert relation.fetchall() == [(7,)]


def test_unknown_suffixes_are_csv(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    connection.execute(f"COPY (SELECT 1 AS a) TO '{tmp_path}/x.mosaic'")
    assert (tmp_path / "x.mosaic").read_text() == "a\n1\n"


def test_a_view_finds_its_tables_when_it_is_read(connection: duckdb.DuckDBPyConnection) -> None:
    sql_with_tables(connection, "CREATE VIEW kept AS FROM given", {"given": TABLE})
    with pytest.raises(duckdb.CatalogException):
        connection.sql("FROM kept")


def test_a_prepared_statement_with_parameters_finds_its_tables_when_it_is_executed(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    sql_with_tables(connection, "PREPARE kept AS FROM given WHERE a = $1", {"given": TABLE})
    with pytest.raises(duckdb.CatalogException):
        connection.execute("EXECUTE kept(1)")


@pytest.mark.parametrize(
    "sql", ["PIVOT 'x' ON a USING sum(b)", "MERGE INTO t USING 'x' s ON true WHEN MATCHED THEN DELETE"]
)
def test_names_of_tables_are_not_told(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises((duckdb.InvalidInputException, duckdb.BinderException)):
        connection.get_table_names(sql)


@pytest.mark.parametrize("sql", ["CREATE TABLE t AS SELECT 1", "EXPLAIN SELECT 1", "PIVOT 'x' ON a USING sum(b)"])
def test_the_parser_shows_only_queries(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert connection.execute("SELECT json_extract(json_serialize_sql(?), 'error')", [sql]).fetchall() == [("true",)]


class _Columns(ArrowTable):
    """Columns that are never read."""

    def __init__(self, num_columns: int) -> None:
        self._schema = pa.schema([(f"c{i}", pa.int64()) for i in range(num_columns)])

    def scanner(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("read")


def test_a_table_needs_a_column(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="at least one column"):
        connection.from_arrow(_Columns(0))


def test_every_column_of_a_source_takes_time(connection: duckdb.DuckDBPyConnection) -> None:
    """On a machine that is busy it takes more time, never less."""
    table = _Columns(10_000)
    start = time.process_time()
    connection.from_arrow(table)
    assert time.process_time() - start > 10_000 * 5e-6

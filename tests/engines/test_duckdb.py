"""SQL over files and tables: DuckDB's rows, with only the columns that a statement names shown to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
import smalti.duckdb
from smalti._compat.duckdb import named_columns, parse_statement
from smalti.duckdb import ArrowTable, Scanner

NAN = float("nan")
COLUMNS = {
    "id": list(range(40)),
    "g": ["a", "b", None, "d"] * 10,
    "x": [NAN, None, 0.5, 7.0, float("inf")] * 8,
    "Mixed Name": [i % 3 for i in range(40)],
    "unnamed": [1] * 40,
    "l": [[1, 2], [], None, [3]] * 10,
}
TABLE = pa.table(COLUMNS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("duck")
    smalti.write_table(TABLE, directory / "t.mosaic", row_group_max_rows=7, stats_columns=["id", "x"])
    for part in (0, 1):
        (directory / "many").mkdir(exist_ok=True)
        smalti.write_table(TABLE.slice(20 * part, 20), directory / "many" / f"{part}.mosaic")
    return directory


@pytest.fixture
def connection(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[duckdb.DuckDBPyConnection]:
    monkeypatch.chdir(directory)
    with duckdb.connect() as connection:
        connection.from_arrow(TABLE).create("native")
        connection.execute("CREATE TABLE other AS SELECT id, id * 10 AS ten FROM native WHERE id < 5")
        yield connection


QUERIES = [
    "SELECT id, x FROM {} WHERE id > 30",
    'SELECT ID, "mixed name" FROM {} WHERE X > 5',
    "SELECT count(*) FROM {}",
    "SELECT count(*), sum(id) FROM {} WHERE g IN ('a', 'd') AND x IS NOT NULL",
    "SELECT * FROM {}",
    "FROM {} SELECT id",
    "FROM {}",
    "SELECT * EXCLUDE (x) FROM {}",
    "SELECT COLUMNS('.*d.*') FROM {}",
    "SELECT t FROM {} t",
    "SELECT t.* FROM {} t",
    "SELECT t.id, o.ten FROM {} t JOIN other o USING (id)",
    "SELECT ten FROM {} NATURAL JOIN other",
    "WITH c AS (SELECT id, g FROM {} WHERE id < 9) SELECT g, max(id) FROM c GROUP BY ALL",
    "SELECT id FROM {} WHERE id IN (SELECT ten FROM other)",
    "SELECT (SELECT max(x) FROM {} WHERE id < 4) AS top",
    "SELECT unnest(l), id FROM {}",
    "SELECT list_transform(l, lambda v: v + id) FROM {} WHERE id < 4",
    "SELECT g, row_number() OVER (PARTITION BY g ORDER BY id DESC) FROM {} ORDER BY x, id LIMIT 5",
    "SELECT id FROM {} WHERE x = 'nan'::DOUBLE OR x >= 7",
    "SELECT a.id FROM {} a, {} b WHERE a.id = b.id + 1 AND b.x < 1",
    "PIVOT {} ON g USING sum(id)",
    "SUMMARIZE {}",
    "SELECT #2, x FROM {}",
    "SELECT b FROM {} t(a, b)",
    "SELECT 'éééééééééééééééééééé', id FROM {}",
    "SELECT 1",
]


def rows(relation: duckdb.DuckDBPyRelation | None) -> list[str]:
    """Sorted, and with twelve digits: the last ones of a deviation depend on which thread adds up first."""
    assert relation is not None
    return sorted(re.sub(r"(\.\d{12})\d+", r"\1", str(row)) for row in relation.fetchall())


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("table", ["'t.mosaic'", "'many/*.mosaic'", "'many/'"])
def test_a_query_gives_what_it_gives_on_a_table_of_duckdb(
    connection: duckdb.DuckDBPyConnection, sql: str, table: str
) -> None:
    expected = connection.sql(sql.replace("{}", "native"))
    found = smalti.duckdb.query(sql.replace("{}", table), connection=connection)
    assert found is not None
    assert [name.casefold() for name in found.columns] == [name.casefold() for name in expected.columns]
    assert rows(found) == rows(expected)


def test_tables_by_name(connection: duckdb.DuckDBPyConnection) -> None:
    with smalti.open("t.mosaic") as file:
        statement = "SELECT sum(t.id) FROM t JOIN u USING (id) WHERE t.g = 'a'"
        assert rows(smalti.duckdb.query(statement, t=file, u=smalti.dataset("many"), connection=connection)) == [
            "(180,)"
        ]


def test_a_table_of_duckdbs_is_not_read_instead(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(ValueError, match="'Other' already: pass this one by another name"):
        smalti.duckdb.query("SELECT id FROM Other", Other="t.mosaic", connection=connection)


def test_statements_without_a_result(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    smalti.duckdb.query("CREATE TABLE made AS SELECT id, g FROM 't.mosaic' WHERE id < 3", connection=connection)
    assert connection.sql("FROM made").fetchall() == [(0, "a"), (1, "b"), (2, None)]
    smalti.duckdb.query("INSERT INTO made SELECT id, g FROM 't.mosaic' WHERE id = 3", connection=connection)
    assert connection.sql("SELECT count(*) FROM made").fetchall() == [(4,)]
    smalti.duckdb.query(f"COPY (SELECT id FROM 't.mosaic' WHERE id < 2) TO '{tmp_path}/x.csv'", connection=connection)
    assert (tmp_path / "x.csv").read_text().split() == ["id", "0", "1"]
    smalti.duckdb.query(f"COPY 't.mosaic' TO '{tmp_path}/y.csv'", connection=connection)
    assert len((tmp_path / "y.csv").read_text().splitlines()) == 41
    smalti.duckdb.query(
        "UPDATE made SET g = t.g || 't.mosaic' FROM 't.mosaic' t WHERE made.id = t.id", connection=connection
    )
    assert connection.sql("SELECT g FROM made WHERE id = 0").fetchall() == [("at.mosaic",)]
    smalti.duckdb.query("DELETE FROM made USING 't.mosaic' t WHERE made.id = t.id AND t.id < 2", connection=connection)
    merge = "MERGE INTO made USING 't.mosaic' t ON made.id = t.id WHEN NOT MATCHED AND t.id < 2 THEN INSERT (id, g)"
    assert connection.sql("SELECT id FROM made ORDER BY id").fetchall() == [(2,), (3,)]
    smalti.duckdb.query(f"{merge} VALUES (t.id, 'new')", connection=connection)
    assert connection.sql("SELECT id FROM made WHERE g = 'new' ORDER BY id").fetchall() == [(0,), (1,)]
    smalti.duckdb.query("CREATE VIEW seen AS SELECT copy FROM (SELECT 1 AS copy)", connection=connection)
    assert connection.sql("FROM seen").fetchall() == [(1,)]


REFUSED = {
    "writes and changes no Mosaic file": [
        "COPY (SELECT id FROM 't.mosaic') TO 'out.mosaic'",
        "copy native to 'OUT.MOSAIC' (FORMAT csv)",
        "COPY (SELECT ')' AS \"(\") /* ( */ TO 'out.mosaic'",
        "COPY native FROM 't.mosaic'",
        "EXPLAIN ANALYZE COPY native TO 'out.mosaic'",
        "SELECT 1; COPY native TO 'out.mosaic'",
        "EXPORT DATABASE 'out.mosaic'",
        "ATTACH 'out.mosaic'",
        "ATTACH IF NOT EXISTS 'out.mosaic' AS o",
        "CREATE OR REPLACE TEMP TABLE 'out.mosaic' AS SELECT 1",
        'CREATE TABLE IF NOT EXISTS "out.mosaic" (a INT)',
        "INSERT INTO 't.mosaic' FROM native",
        "WITH c AS (SELECT 1) INSERT OR REPLACE INTO 't.mosaic' FROM c",
        "UPDATE 't.mosaic' SET id = 1",
        "DELETE FROM 't.mosaic'",
        "MERGE INTO 't.mosaic' USING native n ON true WHEN MATCHED THEN DELETE",
    ],
    "cannot keep a query over a Mosaic file": [
        "CREATE VIEW made AS SELECT * FROM 't.mosaic'",
        "CREATE OR REPLACE TEMP VIEW made AS FROM native, (SELECT id FROM 't.mosaic')",
        "CREATE VIEW made AS SELECT * FROM Given",
        "CREATE MACRO made() AS TABLE FROM 't.mosaic'",
        "CREATE FUNCTION made() AS (SELECT max(id) FROM 't.mosaic')",
        "PREPARE made AS SELECT id FROM 't.mosaic'",
        "PREPARE made AS COPY native TO 'out.mosaic'",
    ],
}


@pytest.mark.parametrize(("reason", "sql"), [(reason, sql) for reason in REFUSED for sql in REFUSED[reason]])
def test_statements_that_duckdb_would_carry_out_otherwise(
    connection: duckdb.DuckDBPyConnection, directory: Path, reason: str, sql: str
) -> None:
    """DuckDB wrote CSV as out.mosaic, or made a view that nobody could read."""
    what = "SELECT table_name FROM information_schema.tables UNION ALL SELECT database_name FROM duckdb_databases()"
    before = sorted(directory.iterdir()), rows(connection.sql(what))
    with pytest.raises(smalti.MosaicError, match=reason):
        smalti.duckdb.query(sql, given="t.mosaic", connection=connection)
    assert (sorted(directory.iterdir()), rows(connection.sql(what))) == before


def test_a_relation_stays_lazy_and_leaves_nothing_behind(connection: duckdb.DuckDBPyConnection) -> None:
    relation = smalti.duckdb.query("SELECT id, x FROM 't.mosaic'", connection=connection)
    assert relation is not None
    assert relation.filter("id = 3").project("x").fetchall() == [(7.0,)]
    assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_a_name_that_is_no_column(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.BinderException, match="nope"):
        smalti.duckdb.query("SELECT nope, id FROM 't.mosaic'", connection=connection)
    with pytest.raises(FileNotFoundError):
        smalti.duckdb.query("SELECT id FROM 'nowhere.mosaic'", connection=connection)
    with pytest.raises(duckdb.ParserException):
        smalti.duckdb.query("SELEC id FROM 't.mosaic'", connection=connection)


def test_a_scan_shows_the_columns_asked_for(connection: duckdb.DuckDBPyConnection) -> None:
    assert smalti.duckdb.scan("t.mosaic", connection=connection).columns == TABLE.column_names
    relation = smalti.duckdb.scan("many", ["id", "g*"], connection=connection)
    assert relation.columns == ["id", "g"]
    assert relation.filter("id >= 38").fetchall() == [(38, None), (39, "d")]


def test_a_table_of_other_types_by_now(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """DuckDB would take four bytes of each number, and what is in memory after them, for eight."""
    smalti.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int64())}), tmp_path / "a.mosaic")
    relations = [
        smalti.duckdb.scan(tmp_path, connection=connection),
        smalti.duckdb.query(f"SELECT a FROM '{tmp_path}/'", connection=connection),
    ]
    smalti.write_table(pa.table({"a": pa.array([7] * 10, pa.int32())}), tmp_path / "a.mosaic")
    for relation in relations:
        assert relation is not None
        assert relation.fetchall() == [(7,)] * 10
    smalti.write_table(pa.table({"a": ["x"]}), tmp_path / "a.mosaic")
    with pytest.raises(duckdb.Error, match="cannot be read as the table's type"):
        relations[0].fetchall()  # type: ignore[union-attr]


def test_columns_and_conditions_reach_the_file(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    scanner = ArrowTable.scanner

    def noting(self: ArrowTable, *arguments: Any, **options: Any) -> Scanner:
        found = scanner(self, *arguments, **options)
        scan = found.scan
        assert isinstance(scan.origin, smalti.MosaicFile)
        seen.append((self.schema.names, scan.columns, scan.origin.matching_row_groups(scan.filters)))
        return found

    monkeypatch.setattr(ArrowTable, "scanner", noting)
    for condition, groups in (("id > 34", [5]), ("id IN (1, 22)", [0, 3]), ("id BETWEEN 8 AND 9", [1])):
        sql = f"SELECT g FROM 't.mosaic' WHERE {condition}"
        assert rows(smalti.duckdb.query(sql, connection=connection)) == rows(
            connection.sql(sql.replace("'t.mosaic'", "native"))
        )
        assert seen.pop() == (["id", "g"], ("g",), groups)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT a, B + 1 FROM t WHERE c > 1", {"a", "b", "c"}),
        ("SELECT a FROM t JOIN u USING (k) ORDER BY z", {"a", "k", "z"}),
        ("CREATE TABLE x AS SELECT a FROM t", {"a"}),
        ("SELECT count(*) FROM t", set()),
        ("SELECT * FROM t", None),
        ("SELECT t.* FROM t", None),
        ("SELECT COLUMNS('a') FROM t", None),
        ("SELECT w FROM t AS w", None),
        ("SELECT a FROM t NATURAL JOIN u", None),
        ("SELECT a, #1 FROM t", None),
        ("SELECT b FROM t AS w(a, b)", None),
        ("CREATE TABLE é AS SELECT a FROM t", {"a"}),
    ],
)
def test_names_of_a_statement(connection: duckdb.DuckDBPyConnection, sql: str, names: set[str] | None) -> None:
    found = named_columns(parse_statement(connection, sql))
    assert (found is None) == (names is None)
    if found is not None and names is not None:
        assert names <= found
        assert not found & {"unnamed", "d", "e"}


def test_row_numbers(tmp_path: Path) -> None:
    """`file_row_number`, as DuckDB's own `read_parquet` has it: in each file of a table."""
    for place in range(2):
        table = pa.table({"a": range(place * 100, place * 100 + 100)})
        smalti.write_table(table, tmp_path / f"{place}.mosaic", row_group_max_rows=30)
        pq.write_table(table, tmp_path / f"{place}.parquet")
    for query in (
        "SELECT a, file_row_number FROM {} WHERE file_row_number BETWEEN 29 AND 31 ORDER BY a",
        "SELECT file_row_number FROM {} WHERE a % 50 = 7 ORDER BY a",
        "SELECT count(*), max(file_row_number) FROM {} WHERE file_row_number > 97",
    ):
        expected = duckdb.sql(query.format(f"read_parquet('{tmp_path}/*.parquet', file_row_number=true)")).fetchall()
        found = smalti.duckdb.query(query.format(f"'{tmp_path}/*.mosaic'"))
        assert found is not None
        assert found.fetchall() == expected
    relation = smalti.duckdb.scan(tmp_path, file_row_number=True)
    assert relation.columns == ["a", "file_row_number"]
    assert relation.filter("file_row_number = 3").order("a").fetchall() == [(3, 3), (103, 3)]


def test_a_directory_needs_its_slash(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.CatalogException) as caught:
        smalti.duckdb.query("FROM 'many'", connection=connection)
    assert caught.value.__notes__ == ["no table 'many'; a directory is written with a slash at its end: FROM 'many/'"]

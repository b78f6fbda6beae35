"""Mosaic files and tables in DuckDB's SQL. The only module that imports DuckDB.

DuckDB asks an Arrow source for the columns and rows that a query needs, but first it looks at every column of the
source, which takes it most of a second for 10,000 of them. So `query` asks DuckDB's parser which names a statement has,
and shows it only the columns with these names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as pads

from smalti.errors import MosaicError, no_column
from smalti.extras import optional_module
from smalti.file.streams import Scan, Scannable, read_as
from smalti.io.locations import AnyFileSystem
from smalti.spec import FILE_SUFFIX
from smalti.table.reading import open_any

optional_module("duckdb")

import duckdb  # noqa: E402 (what is missing is said by the line above)

if TYPE_CHECKING:
    import pyarrow.compute as pc

#: Tables in a statement that show no columns but those that are named, or a star that is seen as such.
_PLAIN_TABLES = {"BASE_TABLE", "JOIN", "SUBQUERY", "EMPTY", "TABLE_FUNCTION", "EXPRESSION_LIST"}
#: Where a query can begin inside another statement.
_STARTS = {b"select", b"with", b"from"}
#: Statements, as `_outlines` shows them, for which DuckDB would write CSV or a database, or look for its own table.
_WRITES = re.compile(
    r"^(explain (analyze )?)?(copy( .*)? (to|from)|export database|attach( database)?( if not exists)?"
    r"|create( or replace)?( \w+){1,2}( if not exists)?|update|delete from|truncate( table)?"
    r"|(with .*)?(insert( or \w+)?|merge) into) MOSAIC\b"
)
#: Statements that keep a query, for which DuckDB would have to find the tables of a later moment.
_KEEPS = re.compile(
    r"^(prepare|create( or replace)?( temp| temporary| recursive| materialized)* (view|macro|function))\b"
)


def scan(
    connection: duckdb.DuckDBPyConnection | None,
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    filesystem: AnyFileSystem = None,
) -> duckdb.DuckDBPyRelation:
    """A relation over a file, directory, pattern or list; DuckDB reads the columns and rows that a query needs.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection, optional
        By default DuckDB's own.
    source : str, os.PathLike, bytes-like, list of paths, MosaicFile or MosaicDataset
    columns : sequence of str, optional
        Columns that the relation shows, patterns included; by default all. On very wide tables name those you need:
        DuckDB takes about 0.1 ms to look at a column.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional

    Examples
    --------
    >>> import pyarrow as pa, smalti, smalti.duckdb
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), "duck.mosaic")
    >>> smalti.duckdb.scan(None, "duck.mosaic", ["id"]).filter("id > 1").fetchall()
    [(2,), (3,)]
    """
    origin = _open(source, filesystem)
    return (connection or duckdb.default_connection()).from_arrow(ArrowTable(origin, columns))


def query(
    connection: duckdb.DuckDBPyConnection | None, sql: str, *, filesystem: AnyFileSystem = None, **tables: Any
) -> duckdb.DuckDBPyRelation | None:
    """Run a statement in which Mosaic files and tables may stand where DuckDB expects a table.

    Quoted paths that end in ``.mosaic`` or ``/`` are tables, as in ``FROM 'wide.mosaic'``, ``FROM 'days/*.mosaic'`` and
    ``FROM 's3://bucket/sales/'``; so are the names that are passed as keywords. DuckDB's own tables and files can be
    joined with them. Nothing is left behind in the connection.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection, optional
        By default DuckDB's own.
    sql : str
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Where the paths are looked up.
    **tables : path, list of paths, MosaicFile or MosaicDataset
        Tables by the name that they have in the statement; DuckDB may have none of the same name.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Lazy, like the result of ``connection.sql``; None for statements without a result.

    Raises
    ------
    MosaicError
        If the statement would write to a Mosaic file (`smalti.write_table` writes the result of a query), or keep a
        query over one, as views, macros and prepared statements do: DuckDB cannot read the file by itself.

    Examples
    --------
    >>> import pyarrow as pa, smalti, smalti.duckdb
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), "duck.mosaic")
    >>> smalti.duckdb.query(None, "SELECT sum(x) FROM 'duck.mosaic' WHERE id > 1").fetchall()
    [(4.0,)]
    """
    connection = connection or duckdb.default_connection()
    _refuse_unsupported(sql, tables)
    statements = _parse(connection, sql)
    found = _table_names(statements) if statements is not None else _names_in(connection, sql)
    paths = {name: name for name in found if name.endswith((FILE_SUFFIX, "/")) and name not in tables}
    named = None if statements is None else named_columns(statements)
    _refuse_shadowed(connection, tables)
    sources: dict[str, Any] = {}
    for name, source in {**paths, **tables}.items():
        origin = _open(source, filesystem)
        columns = None if named is None else [c for c in _column_names(origin) if c.casefold() in named]
        # A query such as count(*) names no column, and DuckDB knows no table without columns.
        sources[name] = ArrowTable(origin, columns or (_column_names(origin)[:1] if columns == [] else None))
    # DuckDB looks up a table that it does not know among the variables of the code that calls it. This code has the
    # sources as variables, by names that only a dictionary can have.
    variables = {**sources, "_connection": connection, "_sql": sql}
    relation: duckdb.DuckDBPyRelation | None = eval("_connection.sql(_sql)", variables)
    return relation


@contextmanager
def query_reader(sql: str, **tables: Any) -> Iterator[pa.RecordBatchReader | None]:
    """The result of `query` on a connection of its own, batch by batch; None for statements without a result.

    DuckDB's errors are raised as `MosaicError`. A column that it does not find is looked for among all columns of the
    tables, of which DuckDB was shown only those that the statement names.
    """
    with duckdb.connect() as connection:
        try:
            relation = query(connection, sql, **tables)
            if relation is None:
                yield None
                return
            to_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # before DuckDB 1.5
            yield to_reader(1 << 10)
        except duckdb.Error as error:
            missing = re.search(r'Referenced column "(.+?)" not found', str(error))
            if missing is None:
                raise MosaicError(str(error)) from None
            names = [name for table in tables.values() for name in _column_names(_open(table, None))]
            raise no_column(missing[1], names) from None


def _refuse_shadowed(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """DuckDB prefers its own tables to those that are passed, and would read them without a word."""
    for name in names:
        own = "FROM information_schema.tables WHERE table_schema = current_schema() AND lower(table_name) = lower(?)"
        if connection.execute(own, [name]).fetchall():
            raise ValueError(f"DuckDB has a table or view {name!r} already: pass this one by another name")


class ArrowTable(pads.Dataset):
    """Columns of a file or table as DuckDB takes them: it calls `scanner` with the columns and filter of a query."""

    def __init__(self, origin: Scannable, columns: Sequence[str] | None = None) -> None:
        """Dataset has no constructor to call: it stands for a C++ object, and nothing here asks that object."""
        self._origin = origin
        self._schema = origin.scan(columns).schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Scanner:  # type: ignore[override]
        names = self._schema.names if columns is None else columns
        return Scanner(self._origin.scan(names, filter), pa.schema([self._schema.field(name) for name in names]))


class Scanner(NamedTuple):
    """A scan in the types that DuckDB was told when it prepared the query."""

    scan: Scan
    projected_schema: pa.Schema

    def to_reader(self) -> pa.RecordBatchReader:
        return read_as(self.scan, self.projected_schema)


def _open(source: Any, filesystem: AnyFileSystem) -> Scannable:
    return source if isinstance(source, Scannable) else open_any(source, filesystem)


def _column_names(origin: Scannable) -> list[str]:
    names = getattr(origin, "column_names", None)
    return origin.scan().schema.names if names is None else names


# --- statements -----------------------------------------------------------------------------------------------------


def _refuse_unsupported(sql: str, tables: Collection[str]) -> None:
    """Refuse statements that DuckDB would carry out in another way than it seems, see `query`."""
    ours = {"MOSAIC", *map(str.casefold, tables)}
    for outline, words in _outlines(sql):
        if _WRITES.match(outline):
            raise MosaicError(
                "DuckDB writes and changes no Mosaic file: smalti.write_table writes the result of a query, and INSERT "
                "INTO t FROM 'a.mosaic' fills a table",
                found=outline.replace("MOSAIC", "a Mosaic file"),
            )
        if _KEEPS.match(outline) and not ours.isdisjoint(words):
            raise MosaicError(
                "DuckDB cannot keep a query over a Mosaic file, which it could not read later; create a table, or "
                "a view by smalti.duckdb.scan(...).create_view(name)",
                found=outline.replace("MOSAIC", "a Mosaic file"),
            )


def _outlines(sql: str) -> Iterator[tuple[str, set[str]]]:
    """Each statement without comments and what is in parentheses, and all of its words.

    Words are in small letters, quoted paths of Mosaic files are MOSAIC.
    """
    data, depth = sql.encode(), 0  # DuckDB counts bytes.
    tokens = duckdb.tokenize(sql)
    ends = [at for at, _ in tokens[1:]] + [len(data)]
    outline: list[str] = []
    words: set[str] = set()
    for (at, kind), end in zip(tokens, ends, strict=True):
        word = data[at:end].decode().strip().casefold()
        if kind == duckdb.token_type.comment:
            continue
        if word[0] in "'\"":
            word = "MOSAIC" if word.endswith(FILE_SUFFIX + word[0]) else word[1:-1]
        words.add(word)
        if word == ";" and depth == 0:
            yield " ".join(outline), words
            outline, words = [], set()
        elif word in ("(", ")"):
            depth += 1 if word == "(" else -1
        elif depth == 0:
            outline.append(word)
    yield " ".join(outline), words


def _parse(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """A statement as DuckDB's parser sees it, or the query inside of it; None if there is none that it shows."""
    data = sql.encode()  # DuckDB counts bytes.
    begins = [data[at:] for at, _ in duckdb.tokenize(sql)]
    starts = [rest.decode() for rest in begins if rest.split(maxsplit=1)[0].lower() in _STARTS]
    for statement in dict.fromkeys([sql, *starts[:1]]):
        ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
        parsed = json.loads(text)
        if not parsed["error"]:
            return parsed["statements"]
    return None


def _names_in(connection: duckdb.DuckDBPyConnection, sql: str) -> Collection[str]:
    """The tables of a statement that DuckDB's parser does not show."""
    try:
        return connection.get_table_names(sql)
    except (duckdb.InvalidInputException, duckdb.BinderException):
        # A pivot is several statements to DuckDB, and it does not tell the tables of MERGE INTO and DELETE ... USING:
        # quoted texts are looked for.
        return re.findall(r"'([^']+)'", sql) + re.findall(r'"([^"]+)"', sql)


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _walk(part)


def _table_names(statements: Any) -> list[str]:
    nodes = (node for node in _walk(statements) if isinstance(node, dict))
    return list(dict.fromkeys(node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"))


def named_columns(statements: Any) -> set[str] | None:
    """Every name in a statement, in small letters, since DuckDB compares names so; None if it may need all columns.

    All texts of the statement are taken for names. That may be a few columns too many, and never one too few.
    """
    names: set[str] = set()
    rows: set[str] = set()
    for node in _walk(statements):
        if isinstance(node, str):
            names.add(node.casefold())
        elif isinstance(node, dict):
            if node.get("class") in ("STAR", "POSITIONAL_REFERENCE") or node.get("ref_type") == "NATURAL":
                return None
            if node.get("type") == "BASE_TABLE" and node.get("column_name_alias"):
                return None  # Names that are given to the columns in their order.
            if "table_name" in node:
                rows |= {node["table_name"].casefold(), node.get("alias", "").casefold()}
            elif "sample" in node and "alias" in node and node.get("type") not in _PLAIN_TABLES:
                return None  # such as a pivot
    refs = [node["column_names"] for node in _walk(statements) if isinstance(node, dict) and "column_names" in node]
    if any(len(path) == 1 and path[0].casefold() in rows for path in refs):
        return None  # a whole row, by the name of its table
    return names

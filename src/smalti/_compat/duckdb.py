"""Workarounds for DuckDB. Each says what DuckDB does, in which version it was seen, and when the workaround can go.

`tests/compat/test_duckdb.py` fails if one is no longer needed. Only `smalti.duckdb` imports this module.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import duckdb
import pyarrow as pa

from smalti.errors import MosaicError
from smalti.spec import FILE_SUFFIX

#: Statements that were parsed last. Long ones, such as an INSERT with its values, are not kept.
_parsed: dict[str, Any] = {}
_MAX_PARSED, _MAX_KEPT_SQL = 64, 1 << 14
#: Kinds of tables in a parsed statement whose columns are all named in the statement, or are a node of class STAR.
_PLAIN_TABLES = {"BASE_TABLE", "JOIN", "SUBQUERY", "EMPTY", "TABLE_FUNCTION", "EXPRESSION_LIST"}
#: Statements, as `_outlines` shows them, for which DuckDB would write CSV or a database, or look for its own table.
_WRITES = re.compile(
    r"^(explain (analyze )?)?(copy( .*)? (to|from)|export database|attach( database)?( if not exists)?"
    r"|create( or replace)?( \w+){1,2}( if not exists)?|update|delete from|truncate( table)?"
    r"|(with .*)?(insert( or \w+)?|merge) into) MOSAIC\b"
)
#: Statements that keep a query, which DuckDB would run when the tables of this call are gone.
_KEEPS = re.compile(
    r"^(prepare|create( or replace)?( temp| temporary| recursive| materialized)* (view|macro|function))\b"
)


def to_arrow_reader(relation: duckdb.DuckDBPyRelation, batch_size: int) -> pa.RecordBatchReader:
    """DuckDB 1.4 has `fetch_arrow_reader`, which 1.5 deprecates for `to_arrow_reader`. Can go when 1.5 is required."""
    to_reader: Any = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return cast("pa.RecordBatchReader", to_reader(batch_size))


def sql_with_tables(
    connection: duckdb.DuckDBPyConnection, sql: str, tables: Mapping[str, Any], params: Any = None
) -> duckdb.DuckDBPyRelation | None:
    """Run a statement with Arrow tables of these names, which may be paths, and leave nothing in the connection.

    DuckDB 2.0 takes no tables for one statement. It looks up unknown tables among the variables of its caller, so the
    caller is code whose variables have these names. `register` would leave a view in the connection, and removing the
    view would break the relation, which is lazy. Can go when `sql` takes tables.
    """
    variables = {**tables, "_connection": connection, "_sql": sql, "_params": params}
    call = "_connection.sql(_sql)" if params is None else "_connection.sql(_sql, params=_params)"
    return cast("duckdb.DuckDBPyRelation | None", eval(call, variables))


def refuse_shadowed(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """Refuse tables that have the name of one of DuckDB's own: DuckDB 2.0 would read its own, without a warning."""
    kind_of = getattr(connection, "_table_kind", None)  # DuckDB 2.0 has it for its own use; a query takes 1.3 ms.
    for name in names:
        if kind_of is not None and kind_of(name) == "none":
            continue
        own = "FROM information_schema.tables WHERE table_schema = current_schema() AND lower(table_name) = lower(?)"
        if connection.execute(own, [name]).fetchall():
            raise ValueError(f"DuckDB has a table or view {name!r} already: pass this one by another name")


def refuse_unsupported(sql: str, tables: Collection[str]) -> None:
    """Refuse statements that write to a Mosaic file, or keep a query over one.

    DuckDB 2.0 chooses a format by the suffix of a path and takes CSV, or a database of its own, for suffixes that it
    does not know. A view looks for its tables when it is read, and a prepared statement with parameters when it is
    executed. Can go when Python can register a format with DuckDB.
    """
    ours = {"MOSAIC", *map(str.casefold, tables)}
    for outline, words in _outlines(sql):
        found = outline.replace("MOSAIC", "a Mosaic file")
        if _WRITES.match(outline):
            reason = (
                "DuckDB writes and changes no Mosaic file: smalti.write_table writes the result of a query, and INSERT "
                "INTO t FROM 'a.mosaic' fills a table"
            )
            raise MosaicError(reason, found=found)
        if _KEEPS.match(outline) and not ours.isdisjoint(words):
            reason = (
                "DuckDB cannot keep a query over a Mosaic file, which it could not read later; create a table, or "
                "a view by smalti.duckdb.scan(...).create_view(name)"
            )
            raise MosaicError(reason, found=found)


def _outlines(sql: str) -> Iterator[tuple[str, set[str]]]:
    """Each statement without comments and parentheses with their content, and the set of all its words.

    Words are in lower case. A quoted path of a Mosaic file is the word MOSAIC.
    """
    depth = 0
    outline: list[str] = []
    words: set[str] = set()
    for _, kind, word in _tokens(sql):
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


def _tokens(sql: str) -> Iterator[tuple[int, Any, str]]:
    """The index of the first byte, the kind and the word, in lower case, of each token."""
    data, tokens = sql.encode(), duckdb.tokenize(sql)  # DuckDB counts bytes.
    for (start, kind), (end, _) in itertools.pairwise([*tokens, (len(data), None)]):
        yield start, kind, data[start:end].decode().strip().casefold()


def parse_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """A statement as DuckDB's parser shows it, or None. DuckDB 2.0 shows only queries: try the query inside it, too.

    On a connection that was just opened DuckDB takes 5 ms for that, more than for many queries, so the statements that
    were parsed last are kept. What is returned must not be changed.
    """
    known = _parsed.get(sql)
    if known is None:
        known = _parse(connection, sql)
        if len(_parsed) >= _MAX_PARSED:
            _parsed.clear()
        if len(sql) <= _MAX_KEPT_SQL:
            _parsed[sql] = known
    return known


def _parse(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    query = next((start for start, _, word in _tokens(sql) if word in ("select", "with", "from")), 0)
    for statement in dict.fromkeys([sql, sql.encode()[query:].decode()]):
        ((written,),) = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
        parsed = json.loads(written)
        if not parsed["error"]:
            return parsed["statements"]
    return None


def table_names(connection: duckdb.DuckDBPyConnection, sql: str, statements: Any) -> Collection[str]:
    """The tables of a statement, and of `statements` that it was parsed to.

    `get_table_names` of DuckDB 2.0 refuses PIVOT, MERGE INTO and DELETE ... USING: then take every quoted string for a
    table. Can go when it does not.
    """
    if statements is not None:
        return {node["table_name"] for node in _nodes(statements) if node.get("type") == "BASE_TABLE"}
    try:
        return connection.get_table_names(sql)
    except (duckdb.InvalidInputException, duckdb.BinderException):
        return re.findall(r"'([^']+)'", sql) + re.findall(r'"([^"]+)"', sql)


def named_columns(statements: Any) -> set[str] | None:
    """Every name in a parsed statement, in lower case; None if it may need all columns.

    DuckDB 2.0 looks at every column of an Arrow source, which takes 0.7 s for 10,000 columns, so it is shown only
    columns with these names. All strings of the statement are taken for names: that can be a few columns too many, and
    never one too few. Can go when DuckDB needs microseconds for a column.
    """
    if statements is None:
        return None
    nodes = list(_nodes(statements))
    rows: set[str] = set()
    for node in nodes:
        if node.get("class") in ("STAR", "POSITIONAL_REFERENCE") or node.get("ref_type") == "NATURAL":
            return None
        if node.get("type") == "BASE_TABLE" and node.get("column_name_alias"):
            return None  # Names that are given to the columns in their order.
        if "table_name" in node:
            rows |= {node["table_name"].casefold(), node.get("alias", "").casefold()}
        elif "sample" in node and "alias" in node and node.get("type") not in _PLAIN_TABLES:
            return None  # such as a pivot
    paths = [node["column_names"] for node in nodes if "column_names" in node]
    if any(len(path) == 1 and path[0].casefold() in rows for path in paths):
        return None  # a whole row, by the name of its table
    return {part.casefold() for part in _walk(statements) if isinstance(part, str)}


def _walk(part: Any) -> Iterator[Any]:
    yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _walk(inner)


def _nodes(statements: Any) -> Iterator[dict[str, Any]]:
    return (part for part in _walk(statements) if isinstance(part, dict))

"""Mosaic files and tables in DuckDB's SQL. Only this module and `_compat.duckdb` import DuckDB.

DuckDB asks an Arrow source for the columns and rows that a query needs. `query` shows it only the columns that the
statement names (`_compat.duckdb.named_columns` says why).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as pads

from smalti.errors import MosaicError, no_column, suggestion
from smalti.extras import optional_module
from smalti.file.scans import Scan, read_as
from smalti.file.streams import Scannable
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.mosaic.rows import RowIndex
from smalti.predicate import normalize_filters
from smalti.spec import FILE_SUFFIX
from smalti.table.dataset import MosaicDataset
from smalti.table.opening import open_any

optional_module("duckdb")

import duckdb  # noqa: E402 (the line above raises with advice if DuckDB is missing)

from smalti._compat import duckdb as compat  # noqa: E402

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = ["query", "query_reader", "scan"]

#: The column of row numbers, under DuckDB's own name for it.
NUMBERS = "file_row_number"
#: The same for the column of paths.
PATHS = "filename"


def scan(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    file_row_number: bool = False,
    filename: bool = False,
) -> duckdb.DuckDBPyRelation:
    """Return a relation over a file, directory, pattern or list; DuckDB reads the columns and rows that a query needs.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, list of paths, MosaicFile or MosaicDataset
    columns : sequence of str, optional
        Columns that the relation shows, patterns included; by default all. On very wide tables name the columns you
        need: DuckDB takes about 0.1 ms for each column.
    connection : duckdb.DuckDBPyConnection, optional
        By default DuckDB's own.
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
    file_row_number : bool
        Whether there is a column of this name with the number of each row in its file, as in DuckDB's `read_parquet`.
    filename : bool
        Whether there is a column of this name, the last one, with the path of each row's file.

    Examples
    --------
    >>> import pyarrow as pa, smalti, smalti.duckdb
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), "duck.mosaic")
    >>> smalti.duckdb.scan("duck.mosaic", ["id"]).filter("id > 1").fetchall()
    [(2,), (3,)]
    """
    filesystem = chosen(filesystem, storage_options)
    origin = _open(source, filesystem, with_paths=filename)
    if filename and columns is not None:
        columns = [*columns, *({PATHS} - set(columns))]
    return (connection or duckdb.default_connection()).from_arrow(
        ArrowTable(origin, columns, is_numbered=file_row_number)
    )


def query(
    sql: str,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    **tables: Any,
) -> duckdb.DuckDBPyRelation | None:
    """Run a statement in which Mosaic files and tables may stand where DuckDB expects a table.

    Quoted paths that end in ``.mosaic`` or ``/`` are tables, as in ``FROM 'wide.mosaic'``, ``FROM 'days/*.mosaic'`` and
    ``FROM 's3://bucket/sales/'``; so are the names that are passed as keywords. DuckDB's own tables and files can be
    joined with them. Nothing is left behind in the connection. A statement that names a column ``file_row_number``
    gets the number of each row in its file, and one that names ``filename`` the path of the file.

    Parameters
    ----------
    sql : str
    connection : duckdb.DuckDBPyConnection, optional
        By default DuckDB's own.
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
        Where the paths are looked up.
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
    params : sequence or mapping, optional
        Values for ``?`` or ``$1`` in the statement, in their order, or for ``$name`` by name.
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
    >>> smalti.duckdb.query("SELECT sum(x) FROM 'duck.mosaic' WHERE id > 1").fetchall()
    [(4.0,)]
    >>> smalti.duckdb.query("SELECT x FROM 'duck.mosaic' WHERE id = ?", params=[3]).fetchall()
    [(2.5,)]
    """
    filesystem = chosen(filesystem, storage_options)
    connection = connection or duckdb.default_connection()
    compat.refuse_unsupported(sql, tables)
    statements = compat.parse_statement(connection, sql)
    found = compat.table_names(connection, sql, statements)
    paths = {name: name for name in found if name.endswith((FILE_SUFFIX, "/")) and name not in tables}
    named = compat.named_columns(statements)
    compat.refuse_shadowed(connection, tables)
    sources: dict[str, Any] = {}
    for name, source in {**paths, **tables}.items():
        origin = _open(source, filesystem)
        asked = None if named is None else _columns_named(origin, named)
        if named is not None and PATHS in named and PATHS not in (asked or ()):
            origin = _open(source, filesystem, with_paths=True)
            asked = _columns_named(origin, named)
        is_numbered = named is not None and NUMBERS in named and NUMBERS not in (asked or ())
        # Each call of a condition takes at least three characters, such as " OR".
        is_shallow = len(sql) < 3 * _MOST_NESTED
        sources[name] = ArrowTable(origin, asked, is_numbered=is_numbered, is_shallow=is_shallow)
    try:
        return compat.sql_with_tables(connection, sql, sources, params)
    except duckdb.CatalogException as error:
        error.add_note(str(_in_our_words(str(error), sql, tables)))
        raise


@contextmanager
def query_reader(sql: str, **tables: Any) -> Iterator[pa.RecordBatchReader | None]:
    """The result of `query` on a connection of its own, batch by batch; None for statements without a result.

    DuckDB's errors are raised as `MosaicError`. For an unknown column, similar names are suggested from all columns of
    the tables, because DuckDB was shown only columns that the statement names.
    """
    with duckdb.connect() as connection:
        try:
            relation = query(sql, connection=connection, **tables)
            if relation is None:
                yield None
                return
            yield compat.to_arrow_reader(relation, 1 << 10)
        except duckdb.Error as error:
            raise _in_our_words(str(error), sql, tables) from None


def _in_our_words(said: str, sql: str, tables: Mapping[str, Any]) -> MosaicError:
    """Return the error for what DuckDB says. It knows neither all columns nor paths, so its suggestions mislead."""
    missing = re.search(r"Table with name (.+?) does not exist", said)
    if missing is not None:
        name = missing[1]
        if Path(name).is_dir():
            return MosaicError(f"no table {name!r}; a directory is written with a slash at its end: FROM '{name}/'")
        ways = f"; FROM 'file{FILE_SUFFIX}' names a file, FROM 'directory/' a table of many"
        return MosaicError(f"no table {name!r}{suggestion(name, tables) or ways}")
    missing = re.search(r'Referenced column "(.+?)" not found', said)
    if missing is None:
        return MosaicError(said)
    quoted = [path for path in re.findall(r"'([^']+)'", sql) if path.endswith((FILE_SUFFIX, "/"))]
    names: list[str] = []
    with suppress(MosaicError, OSError):
        names = [name for table in [*tables.values(), *quoted] for name in _open(table, None).column_names]
    return no_column(missing[1], names)


#: Conditions nested no deeper than this are serialised in any stack.
_MOST_NESTED = 1_000


class ArrowTable(pads.Dataset):
    """Columns of a file or table as DuckDB takes them: it calls `scanner` with the columns and filter of a query."""

    def __init__(
        self,
        origin: Scannable,
        columns: Sequence[str] | None = None,
        *,
        is_numbered: bool = False,
        is_shallow: bool = False,
    ) -> None:
        """Set the attributes only: Dataset has no constructor, and nothing here uses its C++ object.

        A filter of a short statement `is_shallow`, see `normalize_filters`.
        """
        self._is_shallow = is_shallow
        self._origin = origin.with_schema() if isinstance(origin, MosaicDataset) else origin
        self._schema = self._origin.scan(columns).schema
        self._is_numbered = is_numbered
        if is_numbered:
            if self._schema.get_field_index(NUMBERS) >= 0:
                raise RowIndex(NUMBERS).taken_name()
            self._schema = self._schema.append(RowIndex(NUMBERS).field)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Scanner:  # type: ignore[override]
        names = self._schema.names if columns is None else columns
        parsed = None if filter is None else normalize_filters(filter, is_shallow=self._is_shallow)
        scan = self._origin.scan(names, parsed)
        if self._is_numbered and (NUMBERS in names or (filter is not None and NUMBERS in str(filter))):
            scan = replace(scan, row_index=NUMBERS, is_per_file=True)
        return Scanner(scan, pa.schema([self._schema.field(name) for name in names]))


class Scanner(NamedTuple):
    """A scan with the schema that DuckDB was given when it prepared the query."""

    scan: Scan
    projected_schema: pa.Schema

    def to_reader(self) -> pa.RecordBatchReader:
        if self.scan.row_index is None:
            return read_as(self.scan, self.projected_schema)
        # The numbers come first; DuckDB wants them where it has named them, or not at all.
        numbered = read_as(self.scan, self.scan.schema)
        batches = (batch.select(self.projected_schema.names) for batch in numbered)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


def _open(source: Any, filesystem: AnyFileSystem, *, with_paths: bool = False) -> Scannable:
    if not isinstance(source, Scannable):
        return open_any(source, filesystem, file_paths=PATHS if with_paths else None)
    if with_paths and isinstance(source, MosaicDataset):
        return source.with_file_paths(PATHS)
    return source


def _columns_named(origin: Scannable, names: Set[str]) -> Sequence[str]:
    """The columns with some names, in whichever case; the first column if there are none.

    A query such as count(*) names no column, and DuckDB refuses tables without columns.
    """
    if isinstance(origin, MosaicDataset):
        return origin.typed_columns.named(names) or origin.typed_columns.names[:1]
    every = origin.column_names
    return [name for name in every if name.casefold() in names] or every[:1]

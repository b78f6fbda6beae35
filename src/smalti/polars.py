"""Mosaic files and tables as lazy frames of Polars. The only module that imports Polars.

Polars passes columns, number of rows and predicate of a query. Conditions of the predicate on single columns apply
while reading, so that statistics prune row groups and files; then Polars applies the whole predicate.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from math import isnan
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.types as pt

from smalti.extras import optional_module
from smalti.file.reader import MosaicFile
from smalti.file.streams import Scannable
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.logical.mapping import ColumnMapping
from smalti.logical.types import is_binary_like, is_string_like
from smalti.mosaic.rows import RowIndex
from smalti.predicate import tree as t
from smalti.table.columns import TableColumns
from smalti.table.dataset import MosaicDataset
from smalti.table.opening import open_any

optional_module("polars")

import polars as pl  # noqa: E402 (the line above raises with advice if Polars is missing)
from polars.io.plugins import register_io_source  # noqa: E402

__all__ = ["scan_mosaic"]

#: Whether plans can show a name for a source: since Polars 2. pypaimon requires Polars 1.
_HAS_NAMES = "explain_name" in signature(register_io_source).parameters
#: Polars' names of comparisons, and their replacements when the sides are swapped.
_COMPARISONS = {"Eq": "equal", "Lt": "less", "LtEq": "less_equal", "Gt": "greater", "GtEq": "greater_equal"}
_SWAPPED = {"Lt": "Gt", "Gt": "Lt", "LtEq": "GtEq", "GtEq": "LtEq"}
_JOINS: dict[str, type[t.And] | type[t.Or]] = {"And": t.And, "LogicalAnd": t.And, "Or": t.Or, "LogicalOr": t.Or}
#: Types of different size or layout that are compared exactly.
_COMPARABLE = (pt.is_integer, is_string_like, is_binary_like)
#: Polars' types of the columns of tables, for as long as the process keeps these columns.
_schemas: WeakKeyDictionary[Any, Mapping[str, pl.DataType]] = WeakKeyDictionary()


def scan_mosaic(
    source: Any,
    *,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
    row_index_name: str | None = None,
    n_rows: int | None = None,
    hive_partitioning: bool | None = None,
    include_file_paths: str | None = None,
) -> pl.LazyFrame:
    """A lazy frame over a file, a directory or pattern of files, or a list of them.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, list of paths, MosaicFile or MosaicDataset
    filesystem, storage_options, readahead, memory_limit
        As in `smalti.open` and `smalti.dataset`.
    row_index_name : str, optional
        The name of a column that comes first and has the number of each row, as in `polars.scan_parquet`. Conditions on
        it skip row groups.
    n_rows : int, optional
        Read only the first rows.
    hive_partitioning : bool, optional
        Whether directories called ``key=value`` are columns; by default of tables, and not of a single file.
    include_file_paths : str, optional
        The name of a column, the last one, with the path of each row's file. Conditions on it rule out files.

    Examples
    --------
    >>> import polars as pl, pyarrow as pa, smalti, smalti.polars
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), "lazy.mosaic", stats_columns=["id"])
    >>> smalti.polars.scan_mosaic("lazy.mosaic").filter(pl.col("id") > 1).select(pl.col("x").sum()).collect().item()
    4.0
    """
    filesystem = chosen(filesystem, storage_options)
    if not isinstance(source, Scannable):
        source = open_any(
            source,
            filesystem,
            readahead=readahead,
            memory_limit=memory_limit,
            hive_partitioning=hive_partitioning,
            file_paths=include_file_paths,
        )
    elif hive_partitioning is not None or include_file_paths is not None:
        raise TypeError("hive_partitioning and include_file_paths are for paths; smalti.dataset has them, too")
    if isinstance(source, MosaicDataset):
        source = source.with_schema()  # Polars asks for types first, and relies on them for every read.
    named: dict[str, Any] = {"explain_name": "mosaic"} if _HAS_NAMES else {}
    schema = _polars_schema(source)
    if row_index_name is not None:
        if row_index_name in schema:
            raise RowIndex(row_index_name).taken_name()
        index = pl.get_index_type()
        schema = {row_index_name: index() if isinstance(index, type) else index, **schema}
    frame = register_io_source(partial(_frames, source, row_index_name), schema=schema, is_pure=True, **named)
    return frame if n_rows is None else frame.head(n_rows)


def _frames(
    origin: Scannable,
    row_index: str | None,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,  # noqa: ARG001 (a hint; row groups are the batches that cost least)
) -> Iterator[pl.DataFrame]:
    """Read for Polars. `n_rows` counts rows before the predicate, so a filter is applied only without it."""
    filters = None if predicate is None or n_rows is not None else parse_predicate(predicate, origin, row_index)
    asked = set() if predicate is None or row_index is None else set(predicate.meta.root_names())
    is_numbered = row_index is not None and (with_columns is None or row_index in {*with_columns, *asked})
    left = n_rows
    for batch in origin.scan(with_columns, filters, with_row_index=row_index if is_numbered else None).to_batches():
        frame = pl.DataFrame(height=batch.num_rows) if not batch.num_columns else pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        if is_numbered and row_index is not None:
            frame = frame.with_columns(pl.col(row_index).cast(pl.get_index_type()))
            frame = frame if with_columns is None else frame.select(list(dict.fromkeys([*with_columns, *asked])))
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame if predicate is None else frame.filter(predicate)
        if left == 0:
            return


# --- types ----------------------------------------------------------------------------------------------------------


def _polars_schema(origin: Scannable) -> Mapping[str, pl.DataType]:
    """Names and types. They are made once for all tables of a process that have the same columns.

    Polars would also take a function that returns them, but it takes 170 ms for 10,000 columns then, and 2 ms so.
    """
    columns = _typed_columns(origin)
    types = _schemas.get(columns)
    if types is None:
        types = _schemas[columns] = _polars_types(origin, columns.names, columns.kinds)
    return types


def _typed_columns(origin: Scannable) -> TableColumns | ColumnMapping:
    if isinstance(origin, MosaicFile):
        return origin.columns
    return origin.typed_columns if isinstance(origin, MosaicDataset) else TableColumns({}, origin.schema)


def _polars_types(origin: Scannable, names: Sequence[str], kinds: Sequence[Any]) -> dict[str, pl.DataType]:
    """Polars is asked once for each different type: 10,000 questions take longer than a read."""
    known: dict[Any, pl.DataType] = {}
    types: dict[str, pl.DataType] = {}
    for name, kind in zip(names, kinds, strict=True):
        type_ = known.get(kind)
        if type_ is None:
            # A stream without batches, because Arrow makes no empty arrays of some types.
            type_ = pl.DataFrame(pa.RecordBatchReader.from_batches(origin.scan([name]).schema, [])).dtypes[0]
            if kind is not None:
                known[kind] = type_
        types[name] = type_
    return types


# --- predicates -----------------------------------------------------------------------------------------------------


def parse_predicate(predicate: pl.Expr, origin: Scannable, row_index: str | None = None) -> t.Tree | None:
    """A filter that keeps every row for which a predicate of Polars is true, and maybe more; None keeps all.

    Polars' JSON form of expressions is not stable. Unknown parts are left to Polars, which filters the rows anyway.
    """
    try:
        parsed = json.loads(predicate.meta.serialize(format="json"))
        names = predicate.meta.root_names()
        schema = origin.scan(list(dict.fromkeys(names)), with_row_index=row_index).schema
        tree = _parse(parsed, {field.name: field.type for field in schema})
        return None if tree is None else t.check_depth(tree)
    except (pl.exceptions.PolarsError, ValueError, RecursionError):  # such as a function of Python's
        return None


def _parse(node: Any, types: Mapping[str, pa.DataType]) -> t.Tree | None:
    match node:
        case {"BinaryExpr": {"op": op}} if op in _JOINS:
            return _join(_JOINS[op], [_parse(part, types) for part in _joined(node, _JOINS[op])])
        case {"BinaryExpr": {"left": {"Column": name}, "op": op, "right": {"Literal": _} as literal}}:
            return _compare(name, _COMPARISONS.get(op), literal, types[name])
        case {"BinaryExpr": {"left": {"Literal": _} as literal, "op": op, "right": {"Column": name}}}:
            return _compare(name, _COMPARISONS.get(_SWAPPED.get(op, op)), literal, types[name])
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNull"}}}:
            return t.IsNull(name)
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNotNull"}}}:
            return t.Not(t.IsNull(name))
        case {"Function": {"input": [{"Column": name}, low, high], "function": {"Boolean": {"IsBetween": _}}}}:
            bounds = ("greater_equal", low), ("less_equal", high)
            return _join(t.And, [_compare(name, op, bound, types[name]) for op, bound in bounds])
        case {"Function": {"input": [{"Column": name}, literal], "function": {"Boolean": {"IsIn": _}}}}:
            values = getattr(_value(literal), "values", None)
            if isinstance(values, pa.Array) and not values.null_count and not pt.is_floating(types[name]):
                return t.IsIn(name, values) if _is_comparable(types[name], values.type) else None
    return None


def _joined(node: Any, kind: type[t.And] | type[t.Or]) -> list[Any]:
    """The parts that are joined by And or by Or. Programs make chains of thousands, each nested in the next."""
    parts, waiting = [], [node]
    while waiting:
        match waiting.pop():
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if _JOINS.get(op) is kind:
                waiting += (right, left)
            case part:
                parts.append(part)
    return parts


def _join(kind: type[t.And] | type[t.Or], parts: list[t.Tree | None]) -> t.Tree | None:
    """Join parts, of which `And` can leave out unknown ones."""
    known = [part for part in parts if part is not None]
    return t.join(kind, known) if known and (kind is t.And or len(known) == len(parts)) else None


def _compare(name: str, op: str | None, literal: Any, type_: pa.DataType) -> t.Tree | None:
    value = _value(literal)
    if op is None or value is None or not value.is_valid or not _is_comparable(type_, value.type):
        return None
    # To Polars NaN is the largest number and equals itself, while it matches nothing in Arrow.
    if pt.is_floating(type_) and (op.startswith("greater") or isnan(value.as_py())):
        return None
    return t.Compare(name, op, value)


def _value(literal: Any) -> pa.Scalar | None:
    """The value of a literal, evaluated by Polars itself; None if it is not one value."""
    if "Literal" not in literal:
        return None
    try:
        series = pl.select(pl.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json")).to_series()
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array[0] if len(array) == 1 else None


def _is_comparable(column: pa.DataType, value: pa.DataType) -> bool:
    """Whether a filter compares the two types as Polars does. Polars has only one type of strings, and one of bytes."""
    return column == value or any(is_kind(column) and is_kind(value) for is_kind in _COMPARABLE)

"""Making a file from columns of other files that stay as they are, and from new ones.

Columns that stay are copied as the bytes they are stored as (see `smalti.mosaic.rewriter`); only new ones are encoded.
This is the place where given columns, with their Arrow types, meet the stored columns that are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.file.reader import MosaicFile
from smalti.file.writer import MosaicWriter
from smalti.io.locations import AnyFileSystem
from smalti.options import WriterOptions


@dataclass(frozen=True)
class GroupSource:
    """Where the columns of one row group of the new file come from.

    Attributes
    ----------
    file : MosaicFile, optional
        The file that columns are copied from. None if every column is in `fresh`.
    group : int
        The row group of `file`.
    copied : mapping of str to str, optional
        The name of each copied column in the new file, and its name in `file`. By default all columns of the new schema
        that are not in `fresh`, by the same names.
    fresh : pyarrow.RecordBatch or pyarrow.Table, optional
        Columns that are encoded anew, by their names in the new file. It has as many rows as the row group.
    """

    file: MosaicFile | None
    group: int = 0
    copied: Mapping[str, str] | None = None
    fresh: pa.RecordBatch | pa.Table | None = None


@dataclass(frozen=True)
class RewriteSummary:
    """What `rewrite_file` has written.

    Attributes
    ----------
    rows, row_groups : int
    bytes : int
        Of the file.
    bytes_copied : int
        Bytes that were copied as they were stored, or only compressed again, without decoding a value.
    bytes_encoded : int
        Bytes of columns that were encoded anew.
    row_groups_copied : int
        Row groups without a column that was encoded anew.
    """

    rows: int
    row_groups: int
    bytes: int
    bytes_copied: int
    bytes_encoded: int
    row_groups_copied: int


def rewrite_file(
    where: Any,
    schema: pa.Schema,
    groups: Iterable[GroupSource],
    *,
    options: WriterOptions | None = None,
    verify: bool = False,  # noqa: ARG001  decoding checks everything
    filesystem: AnyFileSystem = None,
    like: MosaicFile | None = None,
) -> RewriteSummary:
    """Write a file whose row groups are copied from other files, column by column, or encoded anew.

    Row groups keep their number of rows. The file appears when it is complete, as with `write_table`.

    Parameters
    ----------
    where : str, os.PathLike or binary file object
    schema : pyarrow.Schema
        The columns of the new file, in their order, with the metadata. Columns that are copied have the same type in
        the file that they are copied from.
    groups : iterable of GroupSource
        The row groups of the new file, in order. They are consumed one by one, so that fresh columns need not be in
        memory together.
    options : WriterOptions, optional
        By default the compression of `like`, and otherwise the defaults.
    verify : bool
        Whether copied columns are also decompressed and decoded, which compares the checksums of their frames.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    like : MosaicFile, optional
        The file whose layout and choice of statistics is kept; by default the file of the first row group.
    """
    writer: MosaicWriter | None = None
    copied = rows = count = untouched = 0
    try:
        for source in groups:
            if writer is None:
                like = like or source.file
                options = options or WriterOptions(num_buckets=like.num_buckets if like is not None else None)
                writer = MosaicWriter(where, schema, options, filesystem=filesystem)
            table = _decoded(source, schema)
            writer.write(table)
            writer._stored_writer.flush()
            rows, count, untouched = rows + table.num_rows, count + 1, untouched + (source.fresh is None)
        if writer is None:
            writer = MosaicWriter(where, schema, options, filesystem=filesystem)
        writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    assert writer.summary is not None
    size = writer.summary.num_bytes
    return RewriteSummary(rows, count, size, copied, size, untouched)


def _decoded(source: GroupSource, schema: pa.Schema) -> pa.Table:
    fresh = source.fresh
    columns: dict[str, Any] = {} if fresh is None else dict(zip(fresh.schema.names, fresh.columns, strict=True))
    wanted = source.copied
    if wanted is None:
        wanted = {name: name for name in schema.names if name not in columns}
    if source.file is not None:
        table = source.file.row_group(source.group).read(list(dict.fromkeys(wanted.values())))
        for new, old in wanted.items():
            found, expected = table.schema.field(old).type, schema.field(new).type
            if found != expected:
                raise SchemaError("a copied column has another type", column=new, found=found, expected=expected)
            columns[new] = table.column(old)
        if fresh is not None and fresh.num_rows != table.num_rows:
            reason = "fresh columns have another number of rows"
            raise SchemaError(reason, found=fresh.num_rows, expected=table.num_rows)
    return pa.table([columns[name] for name in schema.names], schema=schema)

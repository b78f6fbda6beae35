"""Reading by path, whatever is there: a file, a directory, a pattern, a list of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.errors import MosaicError, without_secrets
from smalti.file.reader import MosaicFile, open_file
from smalti.file.scans import Scan
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, Location, chosen

if TYPE_CHECKING:
    from smalti.predicate.python import AnyFilter
    from smalti.progress import Listener
    from smalti.table.dataset import MosaicDataset


def open_any(
    source: Any,
    filesystem: AnyFileSystem = None,
    *,
    readahead: int | None = None,
    memory_limit: int | None = None,
    logical: bool = True,
    filters: AnyFilter = None,
    hive_partitioning: bool | None = None,
    file_paths: str | None = None,
) -> MosaicFile | MosaicDataset:
    """Open a file, or a table if the source is a directory, a pattern or a list.

    A file is tried first, because it opens without a listing, and listing takes another round trip on object stores.
    The caller reads it once, so no bucket is cached. With `filters`, a table is opened for a single read that has them.

    `hive_partitioning` says whether names of directories are columns, by default of tables only. `file_paths` is the
    name of a column with the path of each row's file. With either of them, a single file is a table of one file.
    """
    is_table = isinstance(source, (list, tuple))
    if not is_table:
        try:
            opened = open_file(
                source,
                filesystem=filesystem,
                readahead=readahead,
                memory_limit=memory_limit,
                cache_bytes=0,
                logical=logical,
            )
            if file_paths is None and not hive_partitioning:
                return opened
            opened.close()
            if not isinstance(source, (str, os.PathLike)):
                raise MosaicError(
                    "only a file that is opened by its path has partition columns or a column of file paths",
                    found=type(source).__name__,
                )
        except OSError as error:
            is_missing = isinstance(error, (FileNotFoundError, IsADirectoryError)) or type(error) is OSError
            if not is_missing or not isinstance(source, (str, os.PathLike)):
                raise
            is_table = True
    # Imported late, because a single file is opened without the modules that list and plan a table.
    from smalti.table.dataset import open_dataset
    from smalti.table.snapshot import ReadSettings

    is_partitioned = is_table if hive_partitioning is None else hive_partitioning
    settings = ReadSettings(is_partitioned, readahead, memory_limit, logical, file_paths)
    return open_dataset(source, filesystem, settings, filters=filters)


def open_locations(locations: Sequence[Location]) -> Iterator[tuple[str, MosaicFile]]:
    """Each of some Mosaic files, open in its turn, with its path."""
    for location in locations:
        with open_file(location.path, filesystem=location.filesystem) as file:
            yield location.path, file


def source_name(source: Any) -> str:
    """The name of a source in messages and output: what the user has passed, without the credentials of a URI."""
    if isinstance(source, (list, tuple)):
        return ", ".join(map(source_name, source))
    return without_secrets(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "in memory"


def scan(
    source: Any,
    columns: Sequence[str] | None = None,
    filters: AnyFilter = None,
    *,
    batch_size: int | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
    progress: Listener | None = None,
    schema: pa.Schema | None = None,
    logical: bool = True,
    exact: bool = False,
    rows: range | slice | None = None,
    with_row_index: str | None = None,
) -> Scan:
    """Columns and rows of a file or table, to be read later by anything that takes Arrow streams.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, file object, or list of paths
        A file, a directory or pattern of files, or a list of them.
    columns, filters, batch_size, exact
        As in `MosaicFile.read` and `MosaicFile.iter_batches`.
    filesystem, storage_options, readahead, memory_limit
        As in `smalti.open` and `smalti.dataset`.
    progress : callable or bool, optional
        Called with a `smalti.jobs.Progress` while the scan is read. True draws a bar on stderr, if it is a terminal.
    schema, logical
        As in `smalti.read_table`.
    rows, with_row_index
        As in `MosaicFile.read`; in a table, rows are counted over all its files.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "b": ["x", "y", "z"]}), "three.mosaic")
    >>> for batch in smalti.scan("three.mosaic", ["b"], batch_size=2).to_batches():
    ...     batch.to_pydict()
    {'b': ['x', 'y']}
    {'b': ['z']}
    """
    filesystem = chosen(filesystem, storage_options)
    origin = open_any(
        source, filesystem, readahead=readahead, memory_limit=memory_limit, logical=logical, filters=filters
    )
    options: dict[str, Any] = {"schema": schema, "exact": exact, "rows": rows, "with_row_index": with_row_index}
    return origin.scan(columns, filters, batch_size=batch_size, progress=progress, **options)


def read_table(
    source: Any,
    columns: Sequence[str] | None = None,
    filters: AnyFilter = None,
    *,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    memory_limit: int | None = None,
    schema: pa.Schema | None = None,
    logical: bool = True,
    rows: range | slice | None = None,
    with_row_index: str | None = None,
    progress: Listener | None = None,
) -> pa.Table:
    """Read a file to a table, or all files of a directory, pattern or list.

    Parameters
    ----------
    source, filesystem, storage_options, progress, rows, with_row_index
        As in `smalti.scan`.
    columns, filters
        As in `MosaicFile.read`; a column that is named twice comes twice, as in `pyarrow.parquet.read_table`.
    memory_limit : int, optional
        Bytes that the table and reading it may take; see `smalti.open`.
    schema
        Read as these columns and types, as in `MosaicFile.read`.
    logical
        As in `smalti.open`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "b": ["x", "y", "z"]}), "three.mosaic", stats_columns=["id"])
    >>> smalti.read_table("three.mosaic", columns=["b"], filters=[("id", ">", 1)]).to_pydict()
    {'b': ['y', 'z']}
    >>> wanted = pa.schema([("id", pa.uint8()), ("c", pa.string())])
    >>> smalti.read_table("three.mosaic", schema=wanted).to_pydict()
    {'id': [1, 2, 3], 'c': [None, None, None]}
    """
    filesystem = chosen(filesystem, storage_options)
    with open_any(source, filesystem, memory_limit=memory_limit, logical=logical, filters=filters) as opened:
        options: dict[str, Any] = {"schema": schema, "rows": rows, "with_row_index": with_row_index}
        return opened.scan(columns, filters, progress=progress, **options).to_table()

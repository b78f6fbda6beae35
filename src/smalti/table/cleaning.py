"""Removing what killed jobs left behind in a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from smalti.io.places import AnyFileSystem, AnyPath, locate
from smalti.table.commit_log import CommitLog


def clean(
    directory: AnyPath,
    older_than: timedelta = timedelta(days=1),
    storage: Mapping[str, str] | None = None,
    *,
    filesystem: AnyFileSystem = None,
) -> list[str]:
    """Finish commits that were interrupted, and remove what jobs staged that never committed.

    It makes no difference whether a job or Spark wrote to the table, and readers see the same rows before and after.

    Parameters
    ----------
    directory : path or URI
    older_than : timedelta
        Jobs that wrote something since are left alone, because they may still be running.
    storage : mapping, optional
        Credentials and endpoints for a URI; see `smalti.io.places.locate`.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional

    Returns
    -------
    list of str
        The ids of the jobs whose files were removed.
    """
    return CommitLog(locate(directory, filesystem, storage).absolute()).clean(older_than)

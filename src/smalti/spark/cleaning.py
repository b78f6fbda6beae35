"""Cleaning up after jobs that were killed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from smalti.spark.storage import resolve
from smalti.table.commit_log import CommitLog


def clean(path: str, older_than: timedelta = timedelta(days=1), storage: Mapping[str, str] | None = None) -> list[str]:
    """Finish what killed jobs had committed and remove what they had not. Readers see neither, before and after.

    Parameters
    ----------
    path : str
        The table's directory.
    older_than : timedelta
        Jobs that wrote something since are left alone: they may be running.
    storage : mapping, optional
        As the `storage.*` options, without the prefix.

    Returns
    -------
    list of str
        The jobs whose leftovers were removed.
    """
    return CommitLog(*resolve(path, storage or {})).clean(older_than)

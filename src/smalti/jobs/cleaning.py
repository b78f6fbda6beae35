"""What to do about jobs that were interrupted and will not be run again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from smalti.io.places import locate
from smalti.jobs.staging import clean as clean_staging
from smalti.jobs.staging import recover as recover_staging
from smalti.jobs.summary import JobSummary


def recover(directory: Any, *, filesystem: Any = None) -> list[JobSummary]:
    """Finish commits that were interrupted in a directory. Every job does this to its target before anything else."""
    return list(recover_staging(locate(directory, filesystem)).values())


def clean(directory: Any, older_than: timedelta = timedelta(days=1), *, filesystem: Any = None) -> list[str]:
    """Finish interrupted commits and remove what unfinished jobs left, of Spark's writers too; their ids.

    Parameters
    ----------
    directory : path or URI
    older_than : timedelta
        Jobs that wrote something since are left alone: they may be running.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    """
    return clean_staging(locate(directory, filesystem), older_than)

"""Which of the files found are read, and the partitions they are in, by the options that Spark has for its own formats.

Pure: files go in, files come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

from smalti.errors import MosaicError
from smalti.spark.options import ReadOptions
from smalti.table.listing import FoundFile, matches
from smalti.table.partitions import parse_partition


def choose_files(
    files: Sequence[FoundFile], roots: Sequence[str], base: str | None, options: ReadOptions
) -> list[FoundFile]:
    """The files that options leave.

    Parameters
    ----------
    files : sequence of FoundFile
    roots : sequence of str
        The paths that were asked for, of which some may be globs, as the file system has them.
    base : str, optional
        The option basePath, as the file system has it.
    options : ReadOptions

    Raises
    ------
    MosaicError
        If a file is not below `base`.
    """
    chosen = [file for file in files if _is_wanted(file, options)]
    if options.recursive_file_lookup:
        return [replace(file, partition={}) for file in chosen]
    if base is not None:
        return [replace(file, partition=_below(file.name, base)) for file in chosen]
    # Directories that a glob has matched are paths that were asked for, as to Spark, and not partitions.
    depths = {root: len(PurePosixPath(root).parts) for root in roots}
    return [replace(file, partition=_partition(file.name, depths)) for file in chosen]


def _is_wanted(file: FoundFile, options: ReadOptions) -> bool:
    pattern = options.path_glob_filter
    if pattern is not None and not matches(PurePosixPath(file.name).name, pattern):
        return False
    before, after = (_nanoseconds(moment, options) for moment in (options.modified_before, options.modified_after))
    return (before is None or file.modified < before) and (after is None or file.modified > after)


def _nanoseconds(moment: str | None, options: ReadOptions) -> int | None:
    """When a moment without zone is, in the zone of the session."""
    if moment is None:
        return None
    zone = timezone.utc if options.time_zone == "UTC" else ZoneInfo(options.time_zone)
    return int(datetime.fromisoformat(moment).replace(tzinfo=zone).timestamp()) * 10**9


def _below(name: str, base: str) -> dict[str, str | None]:
    try:
        return parse_partition(PurePosixPath(name).relative_to(base).parts[:-1])
    except ValueError:
        raise MosaicError("a file is not below basePath", path=name, expected=base) from None


def _partition(name: str, depths: dict[str, int]) -> dict[str, str | None]:
    """The partition values below the first path that leads to a file."""
    parts = PurePosixPath(name).parts
    for root, depth in depths.items():
        if len(parts) >= depth and all(
            part == wanted or matches(part, wanted)
            for part, wanted in zip(parts, PurePosixPath(root).parts, strict=False)
        ):
            return parse_partition(parts[depth:-1])
    return {}

"""Which of the files found are read, and the partitions they are in, by the options that Spark has for its own formats.

Pure: files go in, files come out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MosaicError
from smalti.spark.options import ReadOptions
from smalti.spark.types import is_moment
from smalti.table.listing import FoundFile
from smalti.table.names import matches, parse_partition


def choose_files(
    files: Sequence[FoundFile], roots: Sequence[str], base: str | None, options: ReadOptions
) -> list[FoundFile]:
    """The files that options leave.

    `roots` are the paths that were asked for, of which some may be globs, and `base` is the option basePath, below
    which all files have to be; both as the file system has them.
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
    return int(datetime.fromisoformat(moment).replace(tzinfo=parse_zone(options.time_zone)).timestamp()) * 10**9


def parse_zone(name: str) -> tzinfo:
    """A zone as Spark names it: by region, or by its distance from UTC.

    Examples
    --------
    >>> parse_zone("Asia/Tokyo"), parse_zone("GMT+2"), parse_zone("-03:30").utcoffset(None)
    (zoneinfo.ZoneInfo(key='Asia/Tokyo'), datetime.timezone(datetime.timedelta(seconds=7200)), \
datetime.timedelta(days=-1, seconds=73800))
    """
    distance = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{2}))?", name)
    if distance is None:
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    sign, hours, minutes = distance.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if sign == "-" else offset)


def fit_partitions(files: Sequence[FoundFile], schema: pa.Schema, options: ReadOptions) -> Sequence[FoundFile]:
    """Files whose partition columns are spelled as in a schema, and whose moments say their zone.

    Spark writes moments in the zone of the session, without naming it, and reads them so.
    """
    names = {name for file in files for name in file.partition}
    if not names:
        return files
    known = set(schema.names)
    spelling = {} if options.case_sensitive else {name.lower(): name for name in schema.names}
    asked = {name: name if name in known else spelling.get(name.lower(), name) for name in names}
    moments = {
        name
        for name in asked.values()
        if name in known and pt.is_timestamp(schema.field(name).type) and schema.field(name).type.tz is not None
    }
    zone = parse_zone(options.time_zone) if moments else UTC

    def fit(file: FoundFile) -> FoundFile:
        texts = {asked[name]: text for name, text in file.partition.items()}
        partition = {name: _in_utc(text, zone) if name in moments else text for name, text in texts.items()}
        return file if partition == file.partition else replace(file, partition=partition)

    return [fit(file) for file in files]


def _in_utc(text: str | None, zone: tzinfo) -> str | None:
    """A moment without zone as one in UTC; any other text as it is."""
    if text is None or not is_moment(text) or text.endswith("Z"):
        return text
    moment = datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    return f"{moment.replace(tzinfo=None).isoformat(' ')}Z"


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

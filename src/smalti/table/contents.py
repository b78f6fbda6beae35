"""What a directory holds, for the error of a directory in which there is nothing to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from smalti.errors import NoMosaicFilesError
from smalti.io.locations import Location
from smalti.spec import FILE_SUFFIX
from smalti.table.names import Selection


def nothing_to_read(locations: Sequence[Location], wanted: str = f"*{FILE_SUFFIX} files") -> NoMosaicFilesError:
    """Return the error of directories without files that are `wanted`; it says what they hold instead."""
    found: Counter[str] = Counter()
    for location in locations:
        every = Selection(location.path, (), "")
        names = [info.path for info in location.entries(recursive=True) if info.is_file]
        found.update(PurePosixPath(name).suffix for name in names if every.partition(name) is not None)
    holds = ", ".join(f"{count:,} {suffix or 'without a suffix'}" for suffix, count in found.most_common())
    where = ", ".join(repr(location.path) for location in locations[:3]) + (", …" if len(locations) > 3 else "")
    return NoMosaicFilesError(f"no {wanted} in {where} ({holds or 'no files at all'})")

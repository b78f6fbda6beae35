"""Locations of files, and reading and writing bytes there. Knows paths and file systems, and nothing of formats."""

from smalti.io.locations import Location, locate
from smalti.io.ranges import fetch
from smalti.io.sinks import open_sink, write_whole
from smalti.io.sources import Range, Source, lasting_path, open_source

__all__ = [
    "Location",
    "Range",
    "Source",
    "fetch",
    "lasting_path",
    "locate",
    "open_sink",
    "open_source",
    "write_whole",
]

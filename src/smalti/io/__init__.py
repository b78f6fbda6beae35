"""Reading ranges and writing files. Knows paths, file systems and bytes; knows nothing of the format."""

from smalti.io.ranges import Range, fetch
from smalti.io.sinks import Sink, open_sink
from smalti.io.sources import CachedEnd, Source, is_local, open_source

__all__ = ["CachedEnd", "Range", "Sink", "Source", "fetch", "is_local", "open_sink", "open_source"]

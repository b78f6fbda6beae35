"""The table of formats, and telling one from a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa

from smalti.errors import MosaicError, suggestion
from smalti.io.locations import Location
from smalti.jobs.formats import writers
from smalti.jobs.formats.cfile import CFileColumnReader, CFileColumnWriter
from smalti.jobs.formats.columnar import MosaicFileReader, OrcReader, ParquetReader, open_arrow
from smalti.jobs.formats.request import Reader, ReadRequest
from smalti.jobs.formats.text import CsvReader, JsonReader
from smalti.options import WriterOptions


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    name : str
        The name in arguments.
    title : str
        The name in messages.
    suffixes : tuple of str
        Suffixes of file names; new files get the first.
    grouped : bool
        Whether the rows are stored in groups (row groups, stripes, record batches) that can be read one by one.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    grouped: bool
    reader: Callable[[Location, ReadRequest], Reader]
    writer: Callable[[Location, pa.Schema, WriterOptions], writers.FileWriter]

    @property
    def is_text(self) -> bool:
        return self.name in ("csv", "json")


FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in [
        Format("mosaic", "Mosaic", (".mosaic",), True, MosaicFileReader, writers.MosaicFileWriter),
        Format("parquet", "Parquet", (".parquet", ".pq", ".parq"), True, ParquetReader, writers.ParquetFileWriter),
        Format("orc", "ORC", (".orc",), True, OrcReader, writers.OrcFileWriter),
        Format("arrow", "Arrow IPC", (".arrow", ".feather", ".ipc"), True, open_arrow, writers.ArrowFileWriter),
        Format("arrows", "Arrow IPC stream", (".arrows",), False, open_arrow, writers.ArrowStreamWriter),
        Format("csv", "CSV", (".csv",), False, CsvReader, writers.CsvFileWriter),
        Format("json", "JSON lines", (".jsonl", ".ndjson", ".json"), False, JsonReader, writers.JsonFileWriter),
        Format("cfile", "Kudu CFile", (".cfile",), False, CFileColumnReader, CFileColumnWriter),
    ]
}
#: Other names that people use for these formats.
_ALIASES = {"jsonl": "json", "ndjson": "json", "ipc": "arrow", "feather": "arrow", "arrow_stream": "arrows"}
_COMPRESSED = (".gz", ".bz2", ".zst")


def format_by_name(name: str) -> Format:
    """A format by the name in an argument."""
    known = FORMATS.get(_ALIASES.get(name.lower(), name.lower()))
    if known is None:
        raise MosaicError("unknown format", found=name, expected=", ".join(FORMATS))
    return known


def format_of_path(path: str) -> tuple[Format, str] | None:
    """The format and the suffix of a path, or None if the suffix is not known.

    Examples
    --------
    >>> format_, suffix = format_of_path("raw/readings.csv.gz")
    >>> format_.name, suffix
    ('csv', '.csv.gz')
    """
    lower = path.lower()
    for format_ in FORMATS.values():
        for suffix in format_.suffixes:
            packed = _COMPRESSED if format_.is_text or format_.name == "arrows" else ()
            for whole in (suffix, *(suffix + extra for extra in packed)):
                if lower.endswith(whole):
                    return format_, whole
    return None


def format_of_source(paths: Sequence[str], wanted: str | None) -> list[tuple[Format, str]]:
    """The format and suffix of each file."""
    format_ = None if wanted is None else format_by_name(wanted)
    found: list[tuple[Format, str]] = []
    for path in paths:
        guess = format_of_path(path)
        if guess is not None and format_ in (None, guess[0]):
            found.append(guess)
        elif format_ is not None:
            found.append((format_, PurePosixPath(path.lower()).suffix))
        else:
            raise MosaicError(
                "cannot tell the format by the name; give source_format", path=path, expected=", ".join(FORMATS)
            )
    return found


def format_of_target(path: str, wanted: str | None, *, is_directory: bool = False) -> tuple[Format, str, bool]:
    """The format and suffix of what is to be written, and whether the path names one file.

    A name with a suffix that no format has is refused, because it is a mistyped one more often than a directory;
    `is_directory` says that it is one.
    """
    guess = format_of_path(path)
    if wanted is None:
        suffix = PurePosixPath(path).suffix.lower()
        if guess is None and not is_directory and re.fullmatch(r"\.[a-z]\w*", suffix):
            known = [found for format_ in FORMATS.values() for found in format_.suffixes]
            raise MosaicError(
                f"no format has the suffix {suffix!r}{suggestion(suffix, known)} (a directory: {path}/)", path=path
            )
        return (guess[0], guess[1], True) if guess is not None else (FORMATS["mosaic"], ".mosaic", False)
    format_ = format_by_name(wanted)
    if guess is not None and guess[0] is not format_:
        raise MosaicError("the target's name says another format", path=path, found=format_.name)
    return format_, guess[1] if guess else format_.suffixes[0], guess is not None

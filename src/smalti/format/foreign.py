"""Files that are not Mosaic, told by their first and last bytes, so that an error can say what a file is instead.

Whoever opens such a file has most often named the wrong one, or has a file whose end was lost on the way.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from smalti.errors import CorruptFileError, ForeignFileError
from smalti.spec import FILE_SUFFIX, FOOTER_SIZE, MAGIC

#: How many of the first bytes of a file tell its format.
HEAD_SIZE = 512


class Foreign(NamedTuple):
    """A format: what people call it, the bytes that its files begin with, and what reads it, if anything is known."""

    title: str
    begins: bytes
    reader: str = ""
    converts: bool = True


#: By the names that `smalti convert` has for them; the last ones are not among its formats.
FOREIGN = {
    "parquet": Foreign("a Parquet file", b"PAR1", "pyarrow.parquet"),
    "arrow": Foreign("an Arrow IPC file", b"ARROW1", "pyarrow.ipc"),
    "orc": Foreign("an ORC file", b"ORC", "pyarrow.orc"),
    "arrows": Foreign("an Arrow IPC stream", b"\xff\xff\xff\xff", "pyarrow.ipc"),
    "cfile": Foreign("a Kudu CFile", b"kuducf", "smalti.kudu"),
    "avro": Foreign("an Avro file", b"Obj\x01", converts=False),
    "hdf5": Foreign("an HDF5 file", b"\x89HDF\r\n", "pandas.read_hdf", converts=False),
    "sqlite": Foreign("an SQLite database", b"SQLite format 3\0", converts=False),
    "gzip": Foreign("a gzip file", b"\x1f\x8b", "gunzip, then open what it holds", converts=False),
    "zip": Foreign("a zip archive", b"PK\x03\x04", converts=False),
}
#: Suffixes that say another format than Mosaic, with its name in words.
SUFFIXES = {
    ".parquet": "Parquet", ".pq": "Parquet", ".parq": "Parquet", ".orc": "ORC", ".arrow": "Arrow", ".feather": "Arrow",
    ".ipc": "Arrow", ".arrows": "Arrow", ".csv": "CSV", ".json": "JSON", ".jsonl": "JSON", ".ndjson": "JSON",
    ".cfile": "CFile", ".avro": "Avro", ".xlsx": "Excel", ".h5": "HDF5", ".pkl": "pickle",
}  # fmt: skip


def sniff(head: bytes) -> str | None:
    """Return the name in `FOREIGN` of the format that a file with these first bytes has; None if none is known.

    Examples
    --------
    >>> sniff(b"PAR1..."), sniff(b"a,b\\n1,2\\n")
    ('parquet', None)
    """
    return next((name for name, format_ in FOREIGN.items() if head.startswith(format_.begins)), None)


def is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are text, as far as one can see."""
    return bool(head) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in head)


def not_mosaic(name: str | None, head: bytes, end: bytes, size: int) -> CorruptFileError:
    """Return the error of a file that does not end as a Mosaic file does; it says what the file is, as far as known.

    Parameters
    ----------
    name : str, optional
        The path of the file.
    head, end : bytes
        The first and the last bytes of the file.
    size : int

    Examples
    --------
    >>> print(not_mosaic("p.parquet", b"PAR1", b"PAR1", 4490))
    p.parquet is a Parquet file: use pyarrow.parquet, or smalti convert p.parquet p.mosaic
    """
    shown = name or "this"
    found = sniff(head)
    suffix = PurePosixPath(shown.lower()).suffix
    convert = f"smalti convert {shown} {shown[: len(shown) - len(suffix)] if name else shown}{FILE_SUFFIX}"
    if found is not None:
        format_ = FOREIGN[found]
        if suffix == FILE_SUFFIX:
            convert = f"smalti convert --from {found} {shown} new{FILE_SUFFIX}"
        ways = [f"use {format_.reader}"] if format_.reader else []
        ways += [convert] if format_.converts and name else []
        what = f"{shown} is {format_.title}"
        return ForeignFileError(f"{what}: {', or '.join(ways)}" if ways else what, section="footer")
    if name and suffix != FILE_SUFFIX and is_text(head):
        known = SUFFIXES.get(suffix)
        ways = [f" ({known}): {convert}" if known else ", not a Mosaic file"]
        return ForeignFileError(f"{shown} is a text file{ways[0]}", section="footer")
    what = "the end is missing (it was not closed, or not copied whole)"
    if size < FOOTER_SIZE:
        expected = f"{FOOTER_SIZE} bytes at least"
        found_bytes = f"{size} bytes" if size else "no bytes"
        return CorruptFileError(what, section="footer", found=found_bytes, expected=expected)
    offset = size - len(MAGIC)
    return CorruptFileError(
        what if suffix == FILE_SUFFIX else f"not a Mosaic file, or {what}",
        section="footer",
        offset=offset,
        found=end[-len(MAGIC) :],
        expected=MAGIC,
    )

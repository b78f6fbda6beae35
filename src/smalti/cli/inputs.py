"""What commands read: from the paths on the command line to something that can be scanned.

Paths are files, directories, patterns and URIs, of Mosaic and of every other format that `convert` reads; `-` is
standard input. A single Mosaic file is opened without a listing, which would take time to import and a round trip.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import smalti
from smalti.errors import MosaicError, NoMosaicFilesError, PaimonTableError
from smalti.file.streams import Scannable
from smalti.format import foreign
from smalti.io.locations import locate
from smalti.spec import FILE_SUFFIX, MAGIC
from smalti.table.opening import open_any, open_locations, source_name

if TYPE_CHECKING:
    from smalti.jobs.formats.registry import Format
    from smalti.table.listing import Listing

STANDARD_INPUT = "-"


@contextmanager
def local_paths(paths: Sequence[str], source_format: str | None = None) -> Iterator[tuple[list[str], str | None]]:
    """The paths and their format, with standard input as a temporary file whose suffix says the format.

    It is a file because every format but text has to be read from its end.
    """
    if STANDARD_INPUT not in paths:
        yield list(paths), source_format
        return
    if len(paths) > 1:
        raise MosaicError("standard input cannot be read together with other files", found=" ".join(paths))
    with tempfile.TemporaryDirectory(prefix="smalti-stdin-") as directory:
        path = Path(directory, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not path.stat().st_size:
            raise MosaicError("standard input is empty")
        from smalti.jobs.formats.registry import FORMATS, format_by_name

        name = format_by_name(source_format).name if source_format else _sniffed(path)
        yield [str(path.rename(path.with_suffix(FORMATS[name].suffixes[0])))], None


def _sniffed(path: Path) -> str:
    """The format of a file by its first bytes and its last four; text that is not JSON is taken for CSV."""
    from smalti.jobs.formats.registry import FORMATS

    with path.open("rb") as file:
        head = file.read(1 << 12)
        file.seek(-min(4, path.stat().st_size), 2)
        if file.read() == MAGIC:
            return "mosaic"
    found = foreign.sniff(head)
    if found in FORMATS:
        return found
    return "json" if head.lstrip().startswith(b"{") else "csv"


@contextmanager
def open_table(paths: Sequence[str], source_format: str | None = None) -> Iterator[Scannable]:
    """Open everything that the paths lead to, as one table.

    A path with the suffix of another format is read as that format, and so is a directory without Mosaic files. A
    Paimon table is read as of its newest snapshot.
    """
    with local_paths(paths, source_format) as found, _open(*found) as opened:
        yield opened


def _open(paths: list[str], source_format: str | None) -> Scannable:
    if source_format in (None, "mosaic") and not any(map(_is_foreign, paths)):
        try:
            opened = open_any(paths[0] if len(paths) == 1 else paths)
        except PaimonTableError:
            if len(paths) > 1 or not is_paimon(paths[0]):
                raise
            from smalti import paimon

            return paimon.dataset(paths[0])
        except NoMosaicFilesError:
            if source_format:
                raise
        else:
            if source_format or getattr(opened, "files", True):
                return opened
    from smalti.jobs.formats.tables import FormatTable

    return FormatTable(*list_inputs(paths, source_format))


def is_paimon(path: str) -> bool:
    """Whether there is a Paimon table at a path, which `smalti.paimon` reads and writes.

    Without pypaimon the answer is no: the path is then opened as a directory, which is refused with what to install.
    """
    from smalti.table.paimon_layout import is_paimon_table

    return find_spec("pypaimon") is not None and is_paimon_table(locate(path))


def _is_foreign(path: str) -> bool:
    """Whether a path has the suffix of another format; options of a URI follow a "?", unless it is a wildcard."""
    if path.endswith(FILE_SUFFIX):
        return False
    from smalti.jobs.formats.registry import format_of_path

    found = format_of_path(path.partition("?")[0] if "://" in path else path)
    return found is not None and found[0].name != "mosaic"


def list_inputs(paths: Sequence[str], source_format: str | None) -> tuple[Listing, list[tuple[Format, str]]]:
    """The files that the paths lead to, and their formats; below a directory, files of unknown formats are passed over.

    A directory that has Mosaic files is a Mosaic table: files of other formats beside them are passed over.
    """
    from smalti.jobs.formats.registry import FORMATS, format_of_path, format_of_source
    from smalti.table.listing import list_files, no_files_error

    listing = list_files([path.removesuffix("/") or path for path in paths], suffix="")
    if source_format is None:
        known = [file for file in listing.files if format_of_path(file.path) is not None]
        if len(paths) == 1 and len(listing.files) > 1:
            mosaic = [file for file in known if file.path.endswith(FILE_SUFFIX)]
            known = mosaic or known
        if not known:
            raise no_files_error([locate(path) for path in paths], f"files of a known format ({', '.join(FORMATS)})")
        listing = replace(listing, files=known)
    return listing, format_of_source([file.path for file in listing.files], source_format)


def open_each(paths: Sequence[str]) -> Iterator[tuple[str, smalti.MosaicFile]]:
    """Every Mosaic file that the paths lead to, open, by its name; for commands about how files are stored."""
    from smalti.jobs.formats.tables import FormatTable

    with open_table(paths) as opened:
        if isinstance(opened, smalti.MosaicFile):
            yield source_name(paths), opened
        elif isinstance(opened, smalti.MosaicDataset):
            yield from open_locations(opened.locations)
        else:
            formats = zip(opened.files, opened.formats, strict=True) if isinstance(opened, FormatTable) else ()
            path, found = next(((path, each.title) for path, each in formats if each.name != "mosaic"), (None, None))
            where = source_name(paths) if path is None or len(paths) == 1 else path
            raise MosaicError("this command is about Mosaic files", path=where, found=found)

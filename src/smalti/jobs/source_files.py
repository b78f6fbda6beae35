"""The files that a job reads: which there are, what tells them from other files, and what planning needs to know."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

from smalti.errors import MosaicError
from smalti.io.locations import AnyFileSystem, AnyPath, Location, locate
from smalti.jobs.formats.columnar import GroupedReader
from smalti.jobs.formats.registry import FORMATS, Format
from smalti.jobs.formats.request import ReadRequest, content_errors
from smalti.jobs.planning import SourceFile
from smalti.table.listing import FoundFile, Listing, list_files, location_of, no_files_error
from smalti.table.splits import Piece

#: What users may pass as the source of a job.
AnySource: TypeAlias = "AnyPath | Sequence[AnyPath]"
#: How many files are opened at once to count their row groups.
_OPENED_AT_ONCE = 32


def list_sources(
    source: AnySource, filesystem: AnyFileSystem = None, suffix: str = "", *, globs: bool = True, plain: bool = False
) -> Listing:
    """The visible files of a path, a glob or a list of them.

    Raises
    ------
    FileNotFoundError
        If there is nothing at a path, or no visible file with the suffix.
    PaimonTableError
        If there is a Paimon table, unless its files are asked for as `plain` ones.
    """
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    locations = [locate(path, filesystem).absolute() for path in paths]
    listing = list_files(locations, suffix=suffix, globs=globs, plain=plain)
    if not listing.files:
        raise no_files_error(locations, f"*{suffix} files" if suffix else "visible files")
    return listing


def is_one_file(source: AnySource, filesystem: AnyFileSystem, listing: Listing) -> bool:
    """Whether the source is the path of a file, and not a directory, a glob or a list that led to one."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    return locate(source, filesystem).absolute().path == listing.files[0].name


def fingerprint(listing: Listing) -> list[tuple[str, str, int, str]]:
    """What identifies the sources of a job: if any of it changes, an interrupted job is not resumed."""
    return [(file.name, listing.relative(file), file.size, file.id.mark) for file in listing.files]


def source_files(
    listing: Listing, formats: Sequence[tuple[Format, str]], counts_groups: Callable[[FoundFile], bool]
) -> list[SourceFile]:
    """Metadata of files for planning. Files whose row groups matter are opened, several at a time.

    A broken file has no row groups here: the task that reads it will fail and say why.
    """
    found = [
        SourceFile(file, listing.relative(file), format_.name)
        for file, (format_, _) in zip(listing.files, formats, strict=True)
    ]
    counted = [at for at, file in enumerate(found) if FORMATS[file.format].grouped and counts_groups(file.file)]
    with ThreadPoolExecutor(max(1, min(_OPENED_AT_ONCE, len(counted)))) as pool:
        sizes = pool.map(lambda at: _group_bytes(location_of(found[at].file, listing.filesystem), found[at]), counted)
        for at, group_bytes in zip(counted, sizes, strict=True):
            found[at] = replace(found[at], group_bytes=group_bytes)
    return found


def _group_bytes(location: Location, file: SourceFile) -> tuple[int, ...]:
    format_ = FORMATS[file.format]
    try:
        with content_errors(file.file.path, format_.title), closing(format_.reader(location, ReadRequest())) as reader:
            assert isinstance(reader, GroupedReader)
            return reader.group_bytes()
    except MosaicError:
        return ()


def pieces_of(listing: Listing, formats: Sequence[tuple[Format, str]], split_bytes: int) -> list[list[Piece]]:
    """For each file its runs of row groups if it is larger than `split_bytes`, or the whole file."""
    return [file.pieces(split_bytes) for file in source_files(listing, formats, lambda file: file.size > split_bytes)]

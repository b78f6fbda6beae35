"""The files that a job reads: which there are, what tells them from other files, and what planning needs to know."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import TypeAlias

from smalti.errors import MosaicError
from smalti.io.locations import AnyFileSystem, AnyPath, locate
from smalti.jobs.formats.columnar import GroupedReader
from smalti.jobs.formats.registry import Format
from smalti.jobs.formats.request import ReadRequest, content_errors
from smalti.jobs.planning import SourceFile
from smalti.table.listing import FoundFile, Listing, list_files, location_of, no_files_error
from smalti.table.splits import Piece

#: What users may pass as the source of a job.
AnySource: TypeAlias = "AnyPath | Sequence[AnyPath]"


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


def source_file(listing: Listing, file: FoundFile, format_: Format, *, count_groups: bool) -> SourceFile:
    """What planning needs to know of a file; its row groups are counted only if they matter.

    A broken file has no row groups here: the task that reads it will fail and say why.
    """
    sizes: tuple[int, ...] = ()
    if count_groups and format_.grouped:
        location = location_of(file, listing.filesystem)
        try:
            with content_errors(file.path, format_.title), closing(format_.reader(location, ReadRequest())) as reader:
                assert isinstance(reader, GroupedReader)
                sizes = reader.group_bytes()
        except MosaicError:
            sizes = ()
    return SourceFile(file, listing.relative(file), format_.name, sizes)


def pieces_of(listing: Listing, file: FoundFile, format_: Format, split_bytes: int) -> list[Piece]:
    """Runs of row groups of a file that is larger than `split_bytes`, or the whole file."""
    return source_file(listing, file, format_, count_groups=file.size > split_bytes).pieces(split_bytes)

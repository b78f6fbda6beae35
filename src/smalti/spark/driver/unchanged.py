"""Whether files are still those that were listed when a DataFrame was loaded, for queries that do not open them.

Aggregates that the index answers, and filters that rule out files, open no file. Tasks check the files that they read.
Without this check, a query after an overwrite would mix what the table was with what it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from smalti.errors import ReplacedError
from smalti.io.locations import Location
from smalti.spark.options import ReadOptions
from smalti.table.listing import FoundFile, list_files, open_found
from smalti.table.names import is_ours


def check_unchanged(files: Sequence[FoundFile], locations: Sequence[Location], options: ReadOptions) -> None:
    """Compare files of the table at `locations`, which are on one file system, with what is there now.

    Raise `ReplacedError` if one has gone, unless missing files are ignored, or was replaced. A store is listed, which
    takes fewer requests than to ask for each file.
    """
    listed: dict[str, FoundFile] | None = None
    if files and not locations[0].is_local:
        listed = {}
        with suppress(FileNotFoundError):
            listed = {file.name: file for file in list_files(locations, plain=options.plain).files}
    for file in files:
        try:
            if listed is None:
                open_found(file, locations[0].filesystem).close()
            elif file.name not in listed:
                raise FileNotFoundError(2, "No such file", file.name)
            elif not is_ours(file.name) and file.id.is_other(listed[file.name].id):
                raise ReplacedError("the file was replaced after the table was loaded; load it again", path=file.name)
        except FileNotFoundError:
            if not options.ignore_missing_files:
                message = "the file has gone after the table was loaded; load it again"
                raise ReplacedError(message, path=file.name) from None

"""The HTML page of a file, a table or a profile: one file, with its style, script and data inside.

There is one page, which shows the parts that its data has. Its content policy forbids all access to the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.file.reader import MosaicFile, open_file
from smalti.io import open_sink
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, Location, chosen
from smalti.io.sinks import finish_with
from smalti.report.model import build_model, build_table_model
from smalti.table.opening import open_any, open_locations, source_name

if TYPE_CHECKING:
    from smalti.table.dataset import MosaicDataset

#: The scripts, in the order they are joined: each uses only what the ones before it define.
SCRIPTS = ("page.js", "data.js", "map.js", "projection.js", "tree.js", "columns.js", "table.js", "main.js")


def render_report(file: MosaicFile | MosaicDataset, name: str = "") -> str:
    """The HTML page of an open file or table.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2]}), "a.mosaic")
    >>> with smalti.open("a.mosaic") as f:
    ...     render_report(f, "a.mosaic").startswith("<!doctype html>")
    True
    """
    if not isinstance(file, MosaicFile):
        return render_table(name or "Mosaic table", file.locations)
    return _assemble(name or "Mosaic file", build_model(file, name))


def render_table(
    name: str, locations: Sequence[Location], values: pa.Table | None = None, facts: Mapping[str, int] | None = None
) -> str:
    """The HTML page of Mosaic files, of measured values of columns (the table of a profile), or of both.

    One file is drawn with all its row groups and buckets, several side by side.
    """
    if len(locations) == 1:
        with open_file(locations[0].path, filesystem=locations[0].filesystem) as file:
            return _assemble(name, build_model(file, name, values))
    files = open_locations(locations)
    return _assemble(name, build_table_model(name, files, values, facts or {"numFiles": len(locations)}))


def write_report(
    source: Any, target: Any, *, filesystem: AnyFileSystem = None, storage_options: AnyStorageOptions = None
) -> None:
    """Write the page of a file, or of all files of a directory, pattern or list.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, file object, or list of paths
        As for `smalti.open` and `smalti.dataset`.
    target : str, os.PathLike or binary file object
        Where the page goes.
    filesystem, storage_options
        Of `source`, as in `smalti.open`.
    """
    name = source_name(source)
    filesystem = chosen(filesystem, storage_options)
    with open_any(source, filesystem) as opened:
        page = render_report(opened, name)
    finish_with(open_sink(target), page.encode())


def _assemble(name: str, model: dict[str, Any]) -> str:
    # JSON may write "<" as an escape, and then no name of a column can close the script that holds the data.
    data = json.dumps(model, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": escape(f"{Path(name).name or name} · smalti report"),
        "headline": escape(name),
        "style": _asset("page.css"),
        "data": data,
        "script": "\n".join(map(_asset, SCRIPTS)),
    }
    # A single pass, so that braces in the name of a file or in its data are left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files("smalti.report").joinpath("assets", name).read_text(encoding="utf-8")

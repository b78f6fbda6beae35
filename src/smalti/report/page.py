"""The HTML pages, of a file and of a profile: one file each, with its style, script and data inside.

Both are set into the same frame, `assets/page.html`, whose content policy forbids all access to the network.
"""

from __future__ import annotations

import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa

from smalti.file.reader import MosaicFile, open_file
from smalti.io import open_sink
from smalti.io.places import AnyFileSystem
from smalti.io.sinks import finish_with
from smalti.report.model import build_model
from smalti.spec import Encoding

#: The scripts of each page, in the order they are joined: each uses only what the ones before it define.
SCRIPTS = {
    "file": ("page.js", "table.js", "data.js", "map.js", "projection.js", "columns.js", "main.js"),
    "profile": ("page.js", "table.js", "profile.js"),
}
#: Columns of a profile's table that its page shows, in the order of the heads in `assets/profile.js`.
PROFILE_COLUMNS = ("column", "type", "nulls", "distinct", "min", "max", "encodings", "stored_bytes", "raw_bytes")


def render_report(file: MosaicFile, name: str = "") -> str:
    """The HTML page of an open file.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2]}), "a.mosaic")
    >>> with smalti.open("a.mosaic") as f:
    ...     render_report(f, "a.mosaic").startswith("<!doctype html>")
    True
    """
    title = f"{Path(name).name or 'Mosaic file'} · smalti report"
    return _assemble("file", title, name or "Mosaic file", build_model(file, file.layout(), name))


def write_report(source: Any, target: Any, *, filesystem: AnyFileSystem = None) -> None:
    """Write the page of a file.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like or file object
        As for `smalti.open`.
    target : str, os.PathLike or binary file object
        Where the page goes.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Of `source`.
    """
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else "in memory"
    with open_file(source, filesystem=filesystem) as file:
        page = render_report(file, name)
    finish_with(open_sink(target), page.encode())


def render_profile(
    source: str, table: pa.Table, *, num_rows: int, num_files: int, num_bytes: int, num_skipped: int
) -> str:
    """The HTML page of a profile of some files; `table` is that of `smalti.jobs.Profile`, a row for each column."""
    data = {
        "numRows": num_rows,
        "numFiles": num_files,
        "numBytes": num_bytes,
        "numSkipped": num_skipped,
        "encodings": [encoding.name for encoding in Encoding],
        "rows": list(zip(*(table.column(name).to_pylist() for name in PROFILE_COLUMNS), strict=True)),
    }
    return _assemble("profile", f"Profile of {source}", source, data)


def _assemble(page: str, title: str, headline: str, model: dict[str, Any]) -> str:
    # JSON may write "<" as an escape, and then no name of a column can close the script that holds the data.
    data = json.dumps(model, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": escape(title),
        "headline": escape(headline),
        "style": _asset("page.css"),
        "data": data,
        "script": "\n".join(_asset(name) for name in SCRIPTS[page]),
    }
    frame = _asset("page.html").replace("{{body}}", _asset(f"{page}.html"))
    # A single pass, so that braces in the name of a file or in its data are left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], frame)


def _asset(name: str) -> str:
    return files("smalti.report").joinpath("assets", name).read_text(encoding="utf-8")

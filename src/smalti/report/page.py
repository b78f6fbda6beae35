"""The page itself: markup, style, script and data in one file. A policy in it forbids the network."""

from __future__ import annotations

import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from smalti.file.reader import MosaicFile, open_file
from smalti.io import open_sink
from smalti.report.model import build_model

#: In the order they are joined: each uses only what came before it.
SCRIPTS = ("data.js", "map.js", "projection.js", "columns.js", "main.js")


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
    return _assemble(build_model(file, file.layout(), name))


def write_report(source: Any, target: Any, *, filesystem: Any = None) -> None:
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
    sink = open_sink(target)
    try:
        sink.write(page.encode())
        sink.commit()
    except BaseException:
        sink.abort()
        raise


def _assemble(model: dict[str, Any]) -> str:
    # "<" never stands in the data as itself, so no name of a column can close the script.
    data = json.dumps(model, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": escape(f"{Path(model['file']).name or 'Mosaic file'} · smalti report"),
        "style": _asset("page.css"),
        "data": data,
        "script": "\n".join(_asset(name) for name in SCRIPTS),
    }
    # One pass: braces in a file's name or data are not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files("smalti.report").joinpath("assets", name).read_text(encoding="utf-8")

"""Everything drawn in HTML: the page of a file, a table or a profile, and what notebooks show.

The page is imported only when they are used, because `MosaicFile` imports `report.notebook` to show itself in
notebooks, and the page of a file in turn imports `MosaicFile`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("smalti.report.page"), name)

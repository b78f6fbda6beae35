"""The picture of a file: one HTML page that needs nothing but itself, drawn from `MosaicFile.layout()`."""

from smalti.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]

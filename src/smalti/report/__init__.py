"""Everything drawn in HTML: the page of a file, a table or a profile, and what notebooks show."""

from smalti.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]

"""The formats jobs read and write: one table of names, suffixes and what opens them.

A reader gives a schema and batches; a writer takes batches. Neither knows of jobs, splits or commits.
"""

from smalti.jobs.formats.registry import FORMATS, Format, format_of_path, format_of_source, format_of_target

__all__ = ["FORMATS", "Format", "format_of_path", "format_of_source", "format_of_target"]

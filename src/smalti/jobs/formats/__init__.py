"""The formats jobs read and write: one table of names, suffixes and what opens them.

A reader gives a schema and batches; a writer takes batches. Neither knows of jobs, splits or commits.
"""

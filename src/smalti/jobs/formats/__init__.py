"""The formats jobs read and write: one table of names, suffixes and what opens them.

A reader gives a schema and batches; a writer takes batches. Neither knows of splits or commits. `tables` reads files of
any format as one table, and `selecting` leaves out rows, and columns that the task of `verify` finds damaged.
"""

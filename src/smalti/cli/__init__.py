"""The command line, `smalti`: the library does the work, modules here have the commands, `render` makes their text.

`commands` lists all commands with their modules, which are imported only when their command is run, so that
`smalti --version` and `smalti --help` answer without importing pyarrow.
"""

"""The command line, `smalti`: arguments and commands here, what they print in `render`, what they do in the library.

Nothing heavy is imported before a command needs it: `smalti --version` and `--help` answer without pyarrow.
"""

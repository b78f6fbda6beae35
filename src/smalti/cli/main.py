"""The entry point: find the command, run it, and turn what goes wrong into one line and an exit code.

Exit codes: 0 done, 1 an error (or `diff` found differences, or `verify` found damage), 2 wrong usage,
130 interrupted, 141 the reader of our output went away.

argparse, from the standard library, reads the arguments: it costs nothing to install and 10 ms to import.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

import smalti
from smalti.cli.arguments import byte_count, key_value
from smalti.cli.commands import COMMANDS, Command
from smalti.cli.render.text import RED, painted, printable
from smalti.errors import suggestion, without_secrets

INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # characters that the locale cannot say must not stop a table
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            for line in "".join(traceback.format_exception(error)).split("\n"):
                print(printable(line), file=sys.stderr)
            return 1
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(error, BrokenPipeError):
            # Python flushes standard output once more when it exits: what it still holds must go nowhere.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        from smalti.cli.screen import wants_colour

        label = painted("error:", RED) if wants_colour(sys.stderr.isatty()) else "error:"
        print(f"smalti: {label} {one_line(error)}", file=sys.stderr)
        return 1


def one_line(error: BaseException) -> str:
    """The message of an error, in one line."""
    is_arrows = type(error).__module__.partition(".")[0] == "pyarrow"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        text = f"{where}{error.strerror}"
    elif isinstance(error, (ValueError, OSError, TypeError, NotImplementedError, ImportError)) or is_arrows:
        text = str(error) or type(error).__name__
    elif isinstance(error, MemoryError):
        text = f"out of memory ({error})" if str(error) else "out of memory"
    else:
        text = f"{type(error).__name__}: {error} (this is a bug; --debug shows where)"
    return printable(without_secrets(" ".join(text.split())))


def _run(argv: list[str]) -> int:
    named = next((argument for argument in argv if not argument.startswith("-")), None)
    parser = build_parser(only=named or "")
    if named is not None and named not in COMMANDS:
        parser.error(f"no command {named!r}{suggestion(named, COMMANDS) or '; smalti --help lists them'}")
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse_unknown(unknown, parser if options.command is None else parser.commands[options.command])
    if options.command is None:
        parser.print_help()
        return 0
    command = COMMANDS[options.command]
    from smalti.cli.screen import Screen
    from smalti.memory import memory_limit

    screen = Screen(pager=not options.no_pager, markdown=options.markdown, as_json=options.json)
    run = getattr(_module(command), f"run_{command.function}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(memory_limit(options.memory_limit))
        if options.storage_option:
            from smalti.io.locations import default_storage_options

            stack.enter_context(default_storage_options(dict(options.storage_option)))
        return int(run(options, screen) or 0)


def _refuse_unknown(unknown: list[str], parser: argparse.ArgumentParser) -> NoReturn:
    """Show the usage of the command, and the options that are close to what was typed."""
    flag = next((argument for argument in unknown if argument.startswith("-")), None)
    if flag is None:
        parser.error(f"unexpected argument {unknown[0]!r}")
    name = flag.partition("=")[0]
    known = [known for known in parser._option_string_actions if known.startswith("--")]
    parser.error(f"no option {name!r}{suggestion(name, known)}")


def build_parser(only: str | None = None) -> _Parser:
    """The parser of all commands.

    `only` names the one command whose arguments are needed: the others are left without, because the module of a
    command takes time to import.
    """
    parser = _Parser(
        prog="smalti",
        description="Look at Mosaic files and tables, query, compare, convert and check them. Most commands also read "
        "Parquet, ORC, Arrow, CSV and JSON lines. Files may be local, or URIs (s3://, gs://, az://).",
        epilog="`smalti COMMAND --help` lists the arguments of a command, and says how much of a file it reads.",
    )
    parser.add_argument(
        "--version", action="version", version=f"smalti {smalti.__version__}", help="print the version and exit"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(json=False, markdown=False, no_pager=False)  # of commands that print a line at most
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parser.commands = commands.choices
    for command in COMMANDS.values():
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"Reads {command.reads}.",
        )
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if only is None or only == command.name:
            about = "memory for reading Mosaic, such as 2G (default: 1,152 MiB plus 256 times the size of a file)"
            sub.add_argument("--memory-limit", type=byte_count, metavar="SIZE", help=about)
            about = (
                "a storage option for URIs, such as endpoint=http://localhost:9000 (may be repeated; other users of "
            )
            about += "this machine can see a command, so keep secrets in the environment, as AWS_SECRET_ACCESS_KEY)"
            sub.add_argument(
                "--storage-option", action="append", default=[], type=key_value, metavar="KEY=VALUE", help=about
            )
            getattr(_module(command), f"arguments_{command.function}")(sub)
    return parser


def _module(command: Command) -> ModuleType:
    return importlib.import_module(f"smalti.cli.{command.module}")


class _Parser(argparse.ArgumentParser):
    """A parser whose messages repeat arguments without what could steer a terminal: a shell puts in names of files.

    `commands` are the parsers of the commands by name.
    """

    commands: Mapping[str, argparse.ArgumentParser]

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

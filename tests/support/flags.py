"""Every option of a command, tried on one road: it changes what the command does, or is refused by its name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from smalti.cli.main import build_parser

#: What an option is tried with; others that take a value are an error of the test.
VALUES: dict[str, str] = {
    "--bucket": "0",
    "--column": "x",
    "--columns": "x",
    "--compression": "none",
    "--compression-level": "19",
    "--dict-max-bytes": "0",
    "--dict-max-entries": "0",
    "--engine": "spark",
    "--html": "page.html",
    "--keep": "-1",
    "--num-buckets": "1",
    "--older-than": "0",
    "--on": "n",
    "--on-error": "skip",
    "--only": "constant",
    "--output": "made.csv",
    "--page-size-threshold": "1",
    "--prefix": "1",
    "--row-group": "99",
    "--row-group-max-bytes": "100",
    "--row-group-max-rows": "7",
    "--rows": "3:5",
    "--run-id": "",
    "--seed": "2",
    "--set": "id=7",
    "--snapshot": "1",
    "--sort": "name",
    "--sort-by": "text",
    "--source-format": "orc",
    "--stats-columns": "id",
    "--tag": "x",
    "--target-file-bytes": "600",
    "--target-format": "parquet",
    "--types": "id=string",
    "--when-matched": "ignore",
    "--when-not-matched": "ignore",
    "--where": "id = 3",
    "--workers": "0",
    "-n": "1",
}
#: Options that say how output looks, or where nothing can be seen from outside.
UNSEEN = {
    *("--help", "--debug", "--json", "--markdown", "--no-pager"),
    *("--memory-limit", "--storage-option", "--plain", "--threads", "--layout"),
}


def options_of(command: str) -> Iterator[list[str]]:
    """The options of a command, each as it is typed."""
    parser = build_parser(only=command).commands[command]
    for action in parser._actions:
        names = action.option_strings
        flag = next((name for name in names if name.startswith("--")), names[0] if names else None)
        if flag is None or flag in UNSEEN or action.required:
            continue
        if isinstance(action, argparse.BooleanOptionalAction):
            yield [names[1] if action.default is not False else names[0]]
        else:
            yield [flag] if action.nargs == 0 else [flag, VALUES[flag]]


def ignored_options(
    command: str,
    arguments: list[str],
    call: Callable[[list[str]], Any],
    instead: Mapping[str, list[str]],
    nothing_to_do: Mapping[str, str],
) -> list[str]:
    """The options that are neither refused by name nor change what a command does.

    Parameters
    ----------
    arguments : list of str
        What the command needs. `instead` has others for options that need something special, such as a file in the way.
    call : callable
        Runs the command; returns its exit code, output and errors, and what it has made.
    nothing_to_do : mapping of str to str
        Options that have nothing to do with these arguments, each with the reason. One that does something is an error.
    """
    ignored, usual = [], {}
    for typed in options_of(command):
        needed = instead.get(typed[0], arguments)
        key = " ".join(needed)
        if key not in usual:
            usual[key] = call([command, *needed])
        result, made = call([command, *needed, *typed])
        # An option may be called like the parameter of the library, without dashes.
        name = typed[0].removeprefix("--no-").lstrip("-")
        is_named = result.code and re.search(rf"{name}|{name.replace('-', '_')}", result.err)
        is_ignored = not is_named and (plain(usual[key][0]), usual[key][1]) == (plain(result), made)
        assert typed[0] not in nothing_to_do or is_ignored, f"{command} {typed[0]}: it does something"
        if is_ignored and typed[0] not in nothing_to_do:
            ignored.append(" ".join(typed))
    assert not usual[" ".join(arguments)][0].err, "with these arguments the command fails"
    return ignored


def plain(result: Any) -> tuple[int, str, str]:
    """What a command has printed, without what differs in each run."""
    texts = (
        re.sub(r"[\d.,]+ (ms|s|MiB|MB)\b|[\d.]+ rows/s|-0[0-9a-f]{15}-\d{5}", "", text)
        for text in (result.out, result.err)
    )
    return (result.code, *texts)


def contents(*roots: Path) -> dict[str, bytes]:
    """The files below some directories, without the parts of names that are never the same, and without records."""
    files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    return {
        re.sub(r"-0[0-9a-f]{15}-\d{5}(?=\.)", "", str(path)): path.read_bytes()
        for path in files
        if "_mosaic_jobs" not in path.parts
    }

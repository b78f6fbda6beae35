"""`completion`: scripts that complete commands and options in a shell, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from smalti.cli.screen import Screen

SHELLS = ("bash", "zsh", "fish")


def arguments_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help='bash: eval "$(smalti completion bash)" in ~/.bashrc')


def run_completion(options: argparse.Namespace, screen: Screen) -> None:
    screen.lines(completion_script(options.shell))


def completion_script(shell: str) -> Iterator[str]:
    """The lines of a shell's script. Options are completed by the command that is typed, everything else by files."""
    from smalti.cli.main import build_parser

    commands, helps = _commands(build_parser())
    if shell == "fish":
        yield "complete -c smalti -n __fish_use_subcommand -f"
        for name, about in helps.items():
            yield f"complete -c smalti -n __fish_use_subcommand -a {name} -d {_quoted(about)}"
        for name, flags in commands.items():
            for flag, (about, choices) in flags.items():
                how = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                values = f" -xa {_quoted(' '.join(choices))}" if choices else ""
                condition = _quoted(f"__fish_seen_subcommand_from {name}")
                yield f"complete -c smalti -n {condition} {how}{values} -d {_quoted(about)}"
        return
    if shell == "zsh":
        yield "autoload -U +X bashcompinit && bashcompinit"
    yield "_smalti() {"
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield "  COMPREPLY=()"
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"    words={_quoted(' '.join(['--help', '--version', '--debug', *helps]))}"
    yield "  else"
    yield '    case "${COMP_WORDS[1]} $previous" in'
    for name, flags in commands.items():
        for flag, (_, choices) in flags.items():
            if choices:
                yield f"      {_quoted(f'{name} {flag}')}) words={_quoted(' '.join(choices))} ;;"
    yield "    esac"
    yield '    if [ -z "$words" ] && [[ "$current" == -* ]]; then'
    yield '      case "${COMP_WORDS[1]}" in'
    for name, flags in commands.items():
        yield f"        {name}) words={_quoted(' '.join(flags))} ;;"
    yield "      esac"
    yield "    fi"
    yield "  fi"
    yield '  if [ -n "$words" ]; then'
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "  fi"
    yield "}"
    yield "complete -o default -F _smalti smalti"


def _commands(
    parser: argparse.ArgumentParser,
) -> tuple[dict[str, dict[str, tuple[str, list[str]]]], dict[str, str]]:
    """For each command its options, with their help and choices; and what each command is for."""
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest.partition(" ")[0]: action.help or "" for action in subparsers._choices_actions}
    commands = {}
    for name, command in subparsers.choices.items():
        flags: dict[str, tuple[str, list[str]]] = {}
        for action in command._actions:
            if action.help == argparse.SUPPRESS:
                continue
            for flag in action.option_strings:
                flags[flag] = (action.help or "", [str(choice) for choice in action.choices or ()])
        commands[name] = flags
    return commands, helps


def _quoted(text: str) -> str:
    """Text in single quotes, for any of the shells."""
    return "'" + text.replace("%%", "%").replace("'", "'\\''") + "'"

"""`benchstudy completion`: a script that makes a shell complete commands, options and files."""

import argparse
from pathlib import Path

_SHELLS = ("bash", "zsh")


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", whole: argparse.ArgumentParser
) -> None:
    """`benchstudy completion bash|zsh`. `whole`: the parser that holds all commands."""
    completion = commands.add_parser(
        "completion", help='print a completion script; in ~/.bashrc: eval "$(benchstudy completion bash)"'
    )
    completion.add_argument("shell", choices=_SHELLS)
    completion.set_defaults(command=lambda arguments: _print(whole, arguments.shell))


def _print(whole: argparse.ArgumentParser, shell: str) -> int:
    import shtab

    for parser in parsers(whole).values():
        for action in parser._actions:
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
    print(shtab.complete(whole, shell))
    return 0


def parsers(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, by its name."""
    (commands,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)

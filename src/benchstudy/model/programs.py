"""A program with its arguments and environment, as a study writes it. What no program can be or get is refused."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_OF_A_SHELL = re.compile(r"[|<>&;$`*]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def require_program(argv: list[str]) -> list[str]:
    """Raise ValueError if the first word is no program's name. A path may contain blanks."""
    words = argv[0].split()
    if not words:
        raise ValueError("the name of the program is empty: write it first, such as [gzip, -k, file]")
    if len(words) > 1 and "{{" not in words[0] and ("/" not in words[0] or words[1].startswith("-")):
        if len(argv) == 1 and _OF_A_SHELL.search(argv[0]):
            fix = f"give it to a shell: [sh, -c, {argv[0]!r}]"
        else:
            fix = f"write each word apart: [{', '.join([*words, *argv[1:]])}]"
        raise ValueError(f"{argv[0]!r} is a command line, not a program's name: {fix}")
    return argv


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError(f"{value!r}: no program can receive a NUL character: leave it out")
    return value


def _variables(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} cannot be an environment variable: use letters, digits and _, no digit first")
    return value


_Text = Annotated[str, AfterValidator(_without_nul)]
Words = Annotated[list[_Text], Field(min_length=1)]  # a program and its arguments, or a text for a shell
Argv = Annotated[Words, AfterValidator(require_program)]
Environment = Annotated[dict[str, _Text], AfterValidator(_variables)]

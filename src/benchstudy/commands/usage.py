"""The parser of every command. It refuses a word with the usage of the command that got it, and with what is near."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from benchstudy.model.names import nearest

# As other commands, and Snakemake, take a study.
_NAMES_STUDY = ("--study", "--configfile")


class Parser(argparse.ArgumentParser):
    """argparse alone leaves unknown words of a command to `benchstudy`, which shows its own usage."""

    # Every command is parsed through this method, also by argparse's subcommands.
    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse's, but never returns unknown words: it exits with status 2."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal(unknown[0]))
        return known, unknown

    def _refusal(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one argument too many"
        option, known = word.partition("=")[0], {*self._option_string_actions}
        takes_study = any(action.dest in ("study", "what") and not action.option_strings for action in self._actions)
        if takes_study and {*get_close_matches(option, known.union(_NAMES_STUDY), n=1)} - known:
            return f"there is no option {option!r}: write the study's file alone: {self.prog} FILE"
        return f"there is no option {option!r}: {nearest(option, known)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {value!r}: {nearest(value, action.choices)}")

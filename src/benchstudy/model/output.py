"""A command's facts as JSON, for programs. docs/commands.md lists the fields; a key keeps its name and meaning."""

import argparse
import json
from typing import Any

MAKES = "makes"


def add_json(command: argparse.ArgumentParser) -> None:
    """`--json`: every command that reports something has it. See `makes` for others."""
    command.add_argument("--json", action="store_true", help="the same facts as JSON")


def makes(command: argparse.ArgumentParser, what: str) -> None:
    """For a command that reports nothing: what it makes, such as a script or a folder."""
    command.set_defaults(**{MAKES: what})


def print_json(facts: Any) -> None:
    """Print one JSON document, indented, on standard output. Raises ValueError for NaN and infinity."""
    print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False, default=str))

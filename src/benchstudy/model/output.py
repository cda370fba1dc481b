"""A command's facts as JSON, for programs. docs/commands.md lists the fields; a key keeps its name and meaning."""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def add_json(command: argparse.ArgumentParser) -> None:
    """`--json`: every command that reports something has it."""
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def print_json(facts: Any) -> None:
    """Print one JSON document, indented, on standard output. Raises ValueError for NaN and infinity."""
    print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False, default=str))


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """Shows on a terminal what is done, how much of it, and of how much; elsewhere it prints nothing."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(doing)
        yield lambda what, done, total: shown.update(task, description=f"{doing} {what}", completed=done, total=total)

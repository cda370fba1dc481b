"""`benchstudy docs`: the documentation that comes with the package, because a project of your own has no checkout."""

import argparse
import os
import sys
from pathlib import Path

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.names import nearest
from benchstudy.model.output import add_json, print_json


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`benchstudy docs [PAGE] [--json]`."""
    docs = commands.add_parser("docs", help="list the pages of the documentation, or show one")
    docs.add_argument("page", nargs="?", metavar="PAGE", help="name of a page (default: list all)")
    add_json(docs)
    docs.set_defaults(command=_docs)


def _docs(arguments: argparse.Namespace) -> int:
    found = pages()
    if arguments.page is not None and arguments.page not in found:
        raise BenchstudyError(f"no page {arguments.page!r}: {nearest(arguments.page, found)}")
    told = {name: {"name": name, "title": _title(file), "file": str(file)} for name, file in found.items()}
    if arguments.json:
        print_json(list(told.values()) if arguments.page is None else told[arguments.page])
    elif arguments.page is None:
        width = max(map(len, found))
        for name, page in told.items():
            print(f"{name:{width}}  {page['title']}")
    else:
        _show(found[arguments.page].read_text(encoding="utf-8"))
    return 0


def pages() -> dict[str, Path]:
    """The file of each page by its name; `config`, a README in a folder of this name, has the keys of a study."""
    files = [file for pattern in paths.DOCUMENTS for file in sorted(paths.shipped().glob(pattern))]
    return {file.parent.name if file.stem == "README" else file.stem: file for file in files}


def _title(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def _show(text: str) -> None:
    """In a terminal, formatted and page by page; elsewhere as it is."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "FRX")  # as git does: colours, and no pager for what fits on the screen
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))

"""`benchstudy docs`: the documentation is there without a checkout, and messages name pages that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from conftest import CHECKOUT

from benchstudy.commands import docs
from benchstudy.commands.cli import main
from benchstudy.model import paths

SOURCE = CHECKOUT / "src" / "benchstudy"


def test_pages_are_listed_and_one_is_shown_as_it_is_written(capsys):
    assert main(["docs"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["systems"] == "Systems" and {"tutorial", "config", "fio"} < listed.keys()
    assert main(["docs", "systems"]) == 0
    assert capsys.readouterr().out == (CHECKOUT / "docs" / "systems.md").read_text()
    assert main(["docs", "system"]) == 1
    assert "no page 'system': did you mean \"systems\"?" in capsys.readouterr().err


def test_messages_name_pages_that_exist_and_no_file_of_a_checkout():
    told = [text for file in SOURCE.rglob("*.py") for text in texts_of(file)]
    told += [file.read_text() for file in (SOURCE / "commands" / "project").rglob("*") if file.is_file()]
    named = {page for text in told for page in re.findall(r"`benchstudy docs ([\w-]+)`", text)}
    assert {"config", "systems"} <= named <= docs.pages().keys()
    files = [text for text in told if re.search(r"\b(docs|config)/[\w/-]*\.md", text)]
    assert [text for text in files if text not in paths.DOCUMENTS] == []


def texts_of(file: Path) -> Iterator[str]:
    """The strings of a module, without docstrings. Pages are left out: they are read by people without benchstudy."""
    if SOURCE / "report" in file.parents:
        return
    tree = ast.parse(file.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(statement.value) for statement in first if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value

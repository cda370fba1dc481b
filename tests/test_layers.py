"""What import-linter cannot see: the contracts in pyproject.toml are about modules, and code for hosts is none."""

import ast
from pathlib import Path

import pytest
from conftest import CHECKOUT

PACKAGE = CHECKOUT / "src" / "benchstudy"
ON_HOSTS = sorted(
    [
        *PACKAGE.glob("agent/*.py"),
        *PACKAGE.glob("families/**/on_host/*.py"),
        *CHECKOUT.glob("envs/mattermost/*/*.py"),
        # Files that services of systems get. A deploy runs here instead.
        *(path for path in CHECKOUT.glob("envs/*/*.py") if path.name != "deploy.py"),
    ]
)


def test_there_is_something_that_runs_on_hosts():
    assert {path.parent.name for path in ON_HOSTS} >= {"agent", "on_host", "users", "data", "file-tree"}


@pytest.mark.parametrize("file", ON_HOSTS, ids=lambda path: path.relative_to(CHECKOUT).as_posix())
def test_what_runs_on_hosts_imports_nothing_of_the_package(file: Path):
    imported = [
        node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = [name for node in imported for name in names_of(node)]
    assert [name for name in names if name.split(".")[0] == "benchstudy"] == []


def names_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]

"""What import-linter cannot see: the contracts in pyproject.toml are about modules, and code for hosts is none."""

import ast
import tomllib
from collections.abc import Iterator
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


def test_no_module_imports_a_higher_layer_by_its_name_as_text():
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (contract["layers"] for contract in contracts["contracts"] if contract["id"] == "layers")
    height = {name: -floor for floor, layer in enumerate(layers) for name in layer.split(" | ")}
    upwards = [
        f"{file.relative_to(PACKAGE)}: {text}"
        for file in PACKAGE.rglob("*.py")
        for text in named_in_calls(ast.parse(file.read_bytes()))
        if text.startswith("benchstudy.")
        and height[text.split(".")[1]] > height.get(file.relative_to(PACKAGE).parts[0], 1)
    ]
    assert upwards == []


def named_in_calls(tree: ast.AST) -> Iterator[str]:
    """The names of modules that a file imports with `import_module`."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("import_module"):
            yield from (str(told.value) for told in call.args if isinstance(told, ast.Constant))

"""Which code measured: a digest of all that decides what is executed, so that a study which mixes two can be told.

Only that: after an edit of a chart, a parser, a statistic or a message of the SSH library the instrument is the same.
"""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parent
_FAMILIES = "benchstudy.families"
_ON_HOST = "on_host"
# What stands between a family and a command on a host; sizes and durations become numbers in `units`.
_COMMON = (
    "trial.py",
    "sessionstate.py",
    "hostagent.py",
    "hostcommands.py",
    "hostservices.py",
    "services.py",
    "shipping.py",
    "units.py",
)


def instrument_sha256(family: str, package: Path = _PACKAGE) -> str:
    """Of the measuring code of a family: every module of `instrument_files`, by name and content.

    `package`: the folder of the package, this very one when left out.
    """
    digest = hashlib.sha256()
    for path in instrument_files(family, package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def instrument_files(family: str, package: Path = _PACKAGE) -> list[Path]:
    """The agent, what all families share, the family's module, and what it imports of `families`, wherever in it.

    With what a family's own package has besides modules, such as scripts for its tools, and with all that lies in its
    folder `on_host`: that runs on hosts, and may never be imported here.
    """
    modules = _family_modules(f"{_FAMILIES}.{family}", package)
    packages = {path.parent for path in modules} - {package / "families"}
    scripts = {
        path
        for folder in packages
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and (path.suffix != ".py" or _ON_HOST in path.parts)
    }
    common = {package / name for name in _COMMON}
    return sorted({*package.glob("agent/**/*.py"), *common, *modules, *scripts})


def _family_modules(start: str, package: Path) -> set[Path]:
    found: set[Path] = set()
    names = [start]
    while names:
        path = _source(names.pop(), package)
        if path is not None and path not in found:
            found.add(path)
            names += _imports(ast.parse(path.read_bytes(), str(path)))
    return found


def _source(module: str, package: Path) -> Path | None:
    """The file of a module below `families`; None for any other, and for names that are no module."""
    if not module.startswith(f"{_FAMILIES}."):
        return None
    path = package.joinpath(*module.split(".")[1:])
    places = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((place for place in places if place.is_file()), None)


def _imports(node: ast.AST) -> Iterator[str]:
    """Every name that may be a module, but those that only a type checker imports."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)

"""The files that modules consist of: their own, those of all their imports, and data files beside these.

Imports within functions count, and so do the packages around a module, which Python imports first. Imports for type
checkers only do not count: they are never executed, so no result can depend on them.
"""

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.files import json_of, write_atomically

_OWN = "benchstudy"
# Folders that are not part of the modules around them: files for measured hosts, and what a wheel carries beside
# the package.
_APART = ("on_host", paths.SHIPPED, "__pycache__")
_COUNTED_ELSEWHERE = (".py", ".pyc", ".ipynb")  # as modules, or by the rule that runs a notebook


def closure(roots: Iterable[str]) -> set[str]:
    """Every module that importing `roots` may import, with the roots, of this package and those that provide families.

    `roots`: names. A name that is not such a module is left out, so names of things within a module may be among
    them. Raises StudyError for a root in a package of which a file is not valid Python.
    """
    imports, unreadable = _graph(_packages())
    found, todo = set[str](), list(roots)
    for name in todo:
        for package, why in unreadable.items():
            if f"{name}.".startswith(f"{package}."):
                raise StudyError(f"{package}: {why}; correct it")
    while todo:
        name = todo.pop()
        if name in imports and name not in found:
            found.add(name)
            todo += imports[name]
            todo.append(name.rpartition(".")[0])
    return found


def files(modules: Iterable[str]) -> list[Path]:
    """The file of each module, and the other files beside them, such as templates; sorted."""
    own = {path_of(name) for name in modules}
    beside = (path for folder in {path.parent for path in own} for path in _beside(folder))
    return sorted({*own, *beside})


@cache
def path_of(module: str) -> Path:
    """The file of a module that `closure` found."""
    outermost = _outermost(module)
    base = _folder(outermost).joinpath(*module.removeprefix(outermost).split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_name(f"{base.name}.py")


def name_of(path: Path) -> str:
    """A file's name that is the same wherever its package lies, such as benchstudy/agent/record.py."""
    for package in _packages():
        above = _folder(package).parents[package.count(".")]
        if path.is_relative_to(above):
            return path.relative_to(above).as_posix()
    return path.name


def imported_by_notebook(notebook: Path) -> list[str]:
    """Names that a notebook's code cells import: modules and possible modules, including other packages'.

    Raises BenchstudyError if the file is not a notebook, as after a merge that left its marks in it.
    """
    try:
        cells = json.loads(notebook.read_bytes())["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        told = f"no {error}, which nbformat 4 needs" if isinstance(error, KeyError) else error
        raise BenchstudyError(
            f"{notebook}: not a notebook: {told}: take out the marks of a merge, or restore the file from a copy"
        ) from error
    return [name for source in sources for name in _imported(source)]


def _imported(source: str) -> Iterator[str]:
    tree = _parsed(source)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _parsed(cell: str) -> ast.Module | None:
    """A cell's code, which may have commands for IPython, such as `files = !ls`. None if it is not Python."""
    code = cell.partition("\n")[2] if cell.startswith("%%") else cell
    with suppress(SyntaxError):
        return ast.parse(code)
    from IPython.core.inputtransformer2 import TransformerManager  # slow to import, and few cells need it

    with suppress(SyntaxError):  # the notebook's job reports it, with the cell
        return ast.parse(TransformerManager().transform_cell(code))
    return None


def _packages() -> frozenset[str]:
    """The packages whose imports are followed; a family that is a single module has no imports of its own."""
    outermost = {_outermost(name) for name in (_OWN, *registry.packages().values())}
    return frozenset(name for name in outermost if (spec := find_spec(name)) and spec.submodule_search_locations)


def readable_families() -> list[str]:
    """Those in packages of which each file is valid Python. `closure` refuses modules of the others."""
    unreadable = _graph(_packages())[1]
    return [name for name, package in registry.packages().items() if _outermost(package) not in unreadable]


@cache
def _graph(packages: frozenset[str]) -> tuple[Mapping[str, list[str]], Mapping[str, str]]:
    """What each module imports, and why packages are not in it: the file of each that is not valid Python.

    The last result is kept beside the compiled modules, as they are, where Python may write them.
    """
    kept, digest = _folder(_OWN) / "__pycache__" / "imports.json", _sha256(packages)
    with suppress(OSError, ValueError, LookupError, TypeError):
        last = json_of(kept.read_bytes())
        if last["sha256"] == digest:
            return last["imports"], {}
    import grimp  # imported here: most commands need no graph
    from grimp.exceptions import SourceSyntaxError

    try:
        # Without its cache, which trusts file times.
        graph = grimp.build_graph(*sorted(packages), cache_dir=None, exclude_type_checking_imports=True)
    except SourceSyntaxError as error:
        file = Path(error.filename)
        broken = next(name for name in packages if file.is_relative_to(_folder(name)))
        if broken == _OWN:
            raise
        imports, others = _graph(packages - {broken})
        return imports, {**others, broken: f"SyntaxError: line {error.lineno} of {file}"}
    imports = {name: sorted(graph.find_modules_directly_imported_by(name)) for name in sorted(graph.modules)}
    with suppress(OSError):
        write_atomically(kept, json.dumps({"sha256": digest, "imports": imports}))
    return imports, {}


def _sha256(packages: Iterable[str]) -> str:
    """Of all that their graph depends on: reading everything takes a tenth of the time that parsing takes."""
    digest = hashlib.sha256(version("grimp").encode())
    for package in sorted(packages):
        for folder, _, names in sorted(os.walk(_folder(package), followlinks=True)):
            for file in (Path(folder, name) for name in sorted(names) if name.endswith(".py") and name[0] != "."):
                content = file.read_bytes()
                name = file.relative_to(_folder(package))
                digest.update(f"\0{package}\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"there is no package {package!r}", name=package)
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def _outermost(module: str) -> str:
    """The package that a module lies in: its first name, or more names if that is only a namespace."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        package = ".".join(parts[:length])
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            return package
    raise ModuleNotFoundError(f"there is no package {module!r}", name=module)


@cache
def _beside(folder: Path) -> list[Path]:
    """Files below a package's folder that are not modules, without those of packages in it."""
    found = []
    for path in folder.iterdir():
        if path.is_dir() and path.name not in _APART and not (path / "__init__.py").is_file():
            found += _beside(path)
        elif path.is_file() and path.suffix not in _COUNTED_ELSEWHERE:
            found.append(path)
    return found

"""The families there are, found by themselves: each folder below `families`, and whatever other packages bring.

The only door by which a family is found. It imports by name, as every host of plug-ins does, so that nothing below the
families has to know one. Another package says in its own metadata which of its packages are families:

    [project.entry-points."benchstudy.families"]
    my_family = "my_package.my_family"
"""

import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

from benchstudy.model import paths
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Family

ENTRY_POINTS = "benchstudy.families"
_SHIPPED = "benchstudy.families"


@cache
def packages() -> Mapping[str, str]:
    """The package of each family, by the family's name, sorted. Imports none of them.

    Raises StudyError when two packages bring a family of one name.
    """
    folders = importlib.import_module(_SHIPPED).__path__
    found = {
        module.name: f"{_SHIPPED}.{module.name}"
        for module in pkgutil.iter_modules(folders)
        if module.ispkg and _has_family(f"{_SHIPPED}.{module.name}")
    }
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if found.get(point.name, point.value) != point.value:
            raise StudyError(
                f"two packages bring a family {point.name!r}: {found[point.name]} and {point.value}; remove one"
            )
        found[point.name] = point.value
    return dict(sorted(found.items()))


def names() -> list[str]:
    return list(packages())


@cache
def get(name: str) -> Family:
    """The family of this name; only its own package is imported. Raises KeyError, or StudyError for a broken one."""
    package = packages()[name]
    family = importlib.import_module(f"{package}.family").FAMILY
    if family.name != name:
        raise StudyError(f"{package}.family: FAMILY.name is {family.name!r}, and its package is found as {name!r}")
    return family


def part(name: str, module: str) -> ModuleType | None:
    """The module of this name in a family's package, such as "lints" or "page.published"; None where it has none."""
    place = folder(name).joinpath(*module.split("."))
    if not (place.with_suffix(".py").is_file() or place.is_dir()):
        return None  # without importing what is around it
    return importlib.import_module(f"{packages()[name]}.{module}")


def folder(name: str) -> Path:
    """Where a family's package lies. Imports nothing of it."""
    spec = importlib.util.find_spec(packages()[name])
    assert spec is not None and spec.origin is not None, f"{packages()[name]} is no package with an __init__.py"
    return Path(spec.origin).parent


def notebook(page: str, root: Path) -> Path:
    """What makes a page: the notebook of its name that the project has or that ships, or else what the family's package
    brings.
    """
    own = paths.nearest(root, f"notebooks/{page}.ipynb")
    if own.exists() or page not in packages():
        return own
    brought = folder(page) / "notebook.ipynb"
    return brought if brought.exists() else own


def deploy(name: str) -> Path | None:
    """The file `deploy.py` of a family's package, which says what its hosts need; None where it has none."""
    path = folder(name) / "deploy.py"
    return path if path.is_file() else None


def lint_names() -> list[str]:
    """Every rule that a study may acknowledge a finding of."""
    return list(importlib.import_module("benchstudy.lints").rules())


def _has_family(package: str) -> bool:
    return _exists(f"{package}.family")


def _exists(module: str) -> bool:
    """Whether there is such a module. Raises ModuleNotFoundError where a package around it lacks another one."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):  # a package around it is missing, or is none
            return False
        raise

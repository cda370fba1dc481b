"""Discovers the installed families: each folder below `families`, and those that other packages provide.

This is the only way to find a family. It imports families by name, as every plug-in host does, so that no lower layer
names one. Another package declares in its own metadata which of its packages are families:

    [project.entry-points."benchstudy.families"]
    my_family = "my_package.my_family"
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import cast

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError, StudyError, as_line, plain_line
from benchstudy.model.family import Family

log = logging.getLogger("benchstudy")

ENTRY_POINTS = "benchstudy.families"
# In the environment of a command and of its jobs: the SHA-256 of each warning that was given.
WARNED = "BENCHSTUDY_WARNED"
_SHIPPED = "benchstudy.families"
_NO_FAMILY = "FAMILY must be an instance of a subclass of Family, such as `FAMILY = MyFamily()`"


@cache
def packages() -> Mapping[str, str]:
    """The package of each family that can be used, by the family's name, sorted. Imports none of them."""
    taken = left_out()
    found = _shipped() | {point.name: point.value for point in _points() if point.name not in taken}
    return dict(sorted(found.items()))


@cache
def left_out() -> Mapping[str, str]:
    """Why entry points of other packages give no family, by name, with the fix. A study of that name is refused."""
    found: dict[str, str] = {}
    values = _shipped()
    for point in _points():
        package = point.dist.name if point.dist else point.value
        other = values.setdefault(point.name, point.value)
        if other != point.value:
            found[point.name] = (
                f"two packages provide a family {point.name!r}: {other} and {point.value}; uninstall "
                f"{package}, or rename its entry point and its family"
            )
            continue
        try:
            provided(point, f"a family {point.name!r}", "with an __init__.py", lambda spec: spec.origin is not None)
        except StudyError as error:
            found[point.name] = str(error)
    for told in found.values():
        warn_once(f"left out: {told}")
    return found


def _shipped() -> dict[str, str]:
    folders = importlib.import_module(_SHIPPED).__path__
    return {
        module.name: f"{_SHIPPED}.{module.name}"
        for module in pkgutil.iter_modules(folders)
        if module.ispkg and _exists(f"{_SHIPPED}.{module.name}.family")
    }


def _points() -> Iterable[EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def provided(point: EntryPoint, what: str, kind: str, fits: Callable[[ModuleSpec], bool]) -> ModuleSpec:
    """The package of an entry point, not imported. Raises StudyError if there is none that `fits`, a package `kind`."""
    package = point.dist.name if point.dist else point.value
    told = f"{package} provides {what}, but {point.value}"
    try:
        spec = _spec(point.value)
    except Exception as error:
        said = plain_line(f"{type(error).__name__}: {error}")
        raise StudyError(
            f"{told} cannot be imported: {said}; correct it and install it again, or uninstall {package}"
        ) from error
    if spec is None or not fits(spec):
        raise StudyError(
            f"{told} is not a package {kind}; correct its entry point and install it again, or uninstall {package}"
        )
    return spec


def names() -> list[str]:
    """Names of all families that are installed."""
    return list(packages())


def brought() -> list[str]:
    """Names of the families that other packages provide."""
    return [name for name, package in packages().items() if not package.startswith(f"{_SHIPPED}.")]


def sound(of: Iterable[str] | None = None) -> Iterator[Family]:
    """The installed families. A broken one is left out, with a warning: it must not take down studies without it.

    `of`: the names of those to look at (default: all).
    """
    for name in names() if of is None else of:
        try:
            yield get(name)
        except StudyError as error:
            warn_once(f"the family {name} is left out: {error}")


def warn_once(told: str) -> None:
    """Log a warning, unless this process has given it before, or the command that started this process."""
    digest, given = hashlib.sha256(told.encode()).hexdigest(), os.environ.get(WARNED, "").split()
    if digest not in given:
        os.environ[WARNED] = " ".join([*given, digest])
        log.warning("%s", told)


@cache
def get(name: str) -> Family:
    """The family of this name; only its own package is imported. Raises KeyError, or StudyError for a broken one."""
    if name in left_out():
        raise StudyError(left_out()[name])
    package = packages()[name]
    try:
        family = importlib.import_module(f"{package}.family").FAMILY
        wrong = next(family.misdeclared(), None) if isinstance(family, Family) else _NO_FAMILY
    except StudyError:
        raise
    except Exception as error:
        said = as_line(error, folder(name))
        raise StudyError(f"{package}.family: {said}; correct it, or install the whole package again") from error
    if wrong is not None:
        raise StudyError(f"{package}.family: {wrong}")
    if family.name != name:
        raise StudyError(f"{package}.family: FAMILY.name is {family.name!r}, but its package is registered as {name!r}")
    return cast(Family, family)


def part(name: str, module: str) -> ModuleType | None:
    """The module of this name in a family's package, such as "lints" or "page.published"; None if it has none.

    Raises StudyError if another package's module cannot be imported.
    """
    place = folder(name).joinpath(*module.split("."))
    if not (place.with_suffix(".py").is_file() or place.is_dir()):
        return None  # without importing the packages around it
    with blamed(name, f"its {module.replace('.', '/')}.py"):
        return importlib.import_module(f"{packages()[name]}.{module}")


def folder(name: str) -> Path:
    """The folder of a family's package. Imports nothing of it."""
    spec = importlib.util.find_spec(packages()[name])
    assert spec is not None and spec.origin is not None, f"{packages()[name]} is not a package with an __init__.py"
    return Path(spec.origin).parent


@contextmanager
def blamed(name: str, what: str) -> Iterator[None]:
    """Raise what the code of another package's family raises as a StudyError. A defect of a shipped one stays one."""
    try:
        yield
    except BenchstudyError:
        raise
    except Exception as error:
        if name not in brought():
            raise
        said = as_line(error, folder(name))
        raise StudyError(
            f"families.{name}: {what} fails: {said}; correct the code of the family, {folder(name)}"
        ) from error


def notebook(page: str, root: Path) -> Path:
    """The notebook that makes a page: the one of its name in the project or in what ships, or else the one in the
    family's package.
    """
    own = paths.nearest(root, f"notebooks/{page}.ipynb")
    if own.exists() or page not in packages():
        return own
    brought = folder(page) / "notebook.ipynb"
    return brought if brought.exists() else own


def deploy(name: str) -> Path | None:
    """The file `deploy.py` of a family's package, which says what its hosts need; None if it has none."""
    path = folder(name) / "deploy.py"
    return path if path.is_file() else None


def _exists(module: str) -> bool:
    return _spec(module) is not None


def _spec(module: str) -> ModuleSpec | None:
    """None if there is no such module. Raises ModuleNotFoundError if a package around it lacks another one."""
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):  # a package around it is missing, or is not a package
            return None
        raise

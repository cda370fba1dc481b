"""Where systems are found: in the user's own folders, in the project, and in packages that provide some.

Another package declares in its own metadata which of its packages hold systems, one folder each:

    [project.entry-points."benchstudy.systems"]
    mine = "my_package.systems"
"""

import importlib.metadata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchstudy.model import paths, registry
from benchstudy.model.catalogue.system import DEPLOY, FILE, Found
from benchstudy.model.errors import StudyError

ENTRY_POINTS = "benchstudy.systems"
OWN_FOLDER = "systems"  # beside a study, and in a project
_SHIPPED = "envs"
_DECIDE_NOTHING = (".py", ".pyc", ".sh", ".md")


class Catalogue(dict[str, Found]):
    """Systems by name, each read only when it is used. If two have the same name, the nearer one wins.

    `folders`: the user's own, nearest first. What an installed package declares wrongly is left out, with a warning.
    """

    def __init__(self, folders: Sequence[Path] = ()):
        found = _of_packages()
        for folder in reversed([*folders, *_of_project()]):
            found |= {system.name: Found(system.name, system) for system in _in(folder)}
        super().__init__(sorted(found.items()))

    def sound(self) -> Iterator[Found]:
        """The systems that can be read. A broken one is left out, with a warning: it must not stop other studies."""
        for found in self.values():
            try:
                found.system  # noqa: B018  reads the file
            except StudyError as error:
                registry.warn_once(f"left out: {error}")
            else:
                yield found


def installing_files(catalogue: Catalogue) -> list[Path]:
    """The files of systems that decide what hosts have: descriptions, deploys and pins. Reads none of them.

    Scripts are not among them, because sessions send those to hosts.
    """
    files = (path for found in catalogue.values() for path in sorted(found.folder.rglob("*")) if path.is_file())
    return [path for path in files if decides_what_hosts_have(path)]


def decides_what_hosts_have(path: Path) -> bool:
    """Whether a file of a system, or a pin that several share, decides what hosts have; by its name."""
    return path.name in (FILE, DEPLOY) or path.suffix not in _DECIDE_NOTHING


def own_folders(said: Any, beside: Path | None) -> list[Path]:
    """A study's own folders: those that its `systems` names (`said`), relative to its file, and `systems/` beside it.

    Raises StudyError if it is not a list of folders, or if a folder does not exist.
    """
    if said is not None and not (isinstance(said, list) and all(isinstance(folder, str) for folder in said)):
        raise StudyError("systems: give a list of folders")
    found = [(beside or Path()) / folder for folder in said or ()]
    for folder in found:
        if not folder.is_dir():
            raise StudyError(f"systems: there is no folder {folder}")
    default = beside / OWN_FOLDER if beside is not None else None
    if default is not None and default.is_dir():
        found.append(default)
    return [folder.resolve() for folder in found]


def _in(folder: Path) -> Iterator[Path]:
    """The folders with a system. Raises OSError for one that may not be read, which `glob` skips."""
    for inner in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(FileNotFoundError, NotADirectoryError):
            (inner / FILE).lstat()
            yield inner


def _of_project() -> list[Path]:
    """The project's own, then what ships."""
    try:
        root = paths.project_root()
    except FileNotFoundError:
        return [paths.shipped() / _SHIPPED]
    return [root / OWN_FOLDER, *paths.places(root, _SHIPPED)]


def _of_packages() -> dict[str, Found]:
    found: dict[str, Found] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            spec = registry.provided(point, "systems", "of Python", lambda spec: bool(spec.submodule_search_locations))
        except StudyError as error:
            registry.warn_once(f"left out: {error}")
            continue
        for system in _in(Path(next(iter(spec.submodule_search_locations or ())))):
            other = found.get(system.name)
            also = other.folder if other is not None and other.folder != system else None
            found[system.name] = Found(system.name, system, also)
    return found

"""The packages that made the reports: in a checkout those of its lock, elsewhere all that are installed."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from benchstudy.model import paths
from benchstudy.provenance.checks import Crate

LOCK = "requirements.lock"
# For a project made by `benchstudy init`, whose packages an installer chose. The format is that of `pip freeze`.
INSTALLED = "installed.txt"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: *; *([^\\\n]+))?", re.MULTILINE)


def installed_text() -> str:
    """One line per package that this process can import."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(_installed().items()))


def differing(crate: Crate, root: Path) -> Iterator[str]:
    """Packages of a crate that differ from those of the project at `root`, as "name 1.0, here 1.1"."""
    own = INSTALLED in crate.sums
    if not own and LOCK not in crate.sums:
        return
    theirs = _pins(crate.read(INSTALLED if own else LOCK).decode(errors="replace"))
    ours = _here(root, theirs)
    # Packages that are only installed here do not matter; those in a lock do.
    for name in sorted(theirs.keys() & ours.keys() if own else theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            yield f"{name} {theirs.get(name, 'not there')}, here {ours.get(name, 'not')}"


def _here(root: Path, theirs: Mapping[str, str]) -> Mapping[str, str]:
    """Those of `theirs` that are installed here. A lock also pins packages that this machine does not need."""
    if not paths.is_whole(root):
        return {**theirs, **{name: version for name, version in _installed().items() if name in theirs}}
    lock = root / LOCK
    return _pins(lock.read_text()) if lock.is_file() else theirs


def _installed() -> dict[str, str]:
    """Versions by name. Of several with one name, the first is imported."""
    found: dict[str, str] = {}
    for each in distributions():
        found.setdefault(re.sub(r"[-_.]+", "-", each.name).lower(), each.version)
    return found


def _pins(text: str) -> dict[str, str]:
    """Versions by name. Of several pins of one package, the one for this Python and this machine."""
    return {name: version for name, version, marker in _PINNED.findall(text) if not marker or _is_true(marker)}


def _is_true(marker: str) -> bool:
    try:
        return Marker(marker).evaluate()
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):  # a crate may hold anything
        return True

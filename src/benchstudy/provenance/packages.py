"""Which packages made the reports: in a checkout those of the lock that its environment is made from, elsewhere all."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

from benchstudy.model import paths
from benchstudy.provenance.checks import Crate

LOCK = "requirements.lock"
# Of a project of one's own, whose packages an installer chose; `pip freeze` writes the same form.
INSTALLED = "installed.txt"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def installed_text() -> str:
    """A line for each package that this process could import."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(_installed().items()))


def differing(crate: Crate, root: Path) -> Iterator[str]:
    """Packages of a crate that are not the same for the project at `root`, as "name 1.0, here 1.1"."""
    own = INSTALLED in crate.names
    if not own and LOCK not in crate.names:
        return
    theirs = _pins(crate.read(INSTALLED if own else LOCK).decode(errors="replace"))
    ours = _here(root, theirs)
    # What is installed beside is nobody's pin; what a lock has is needed.
    for name in sorted(theirs.keys() & ours.keys() if own else theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            yield f"{name} {theirs.get(name, 'not there')}, here {ours.get(name, 'not')}"


def _here(root: Path, theirs: Mapping[str, str]) -> Mapping[str, str]:
    """What is there of `theirs` where an installer chose: a lock also pins what this machine has no need of."""
    if not paths.is_whole(root):
        return {**theirs, **{name: version for name, version in _installed().items() if name in theirs}}
    lock = root / LOCK
    return _pins(lock.read_text()) if lock.is_file() else theirs


def _installed() -> dict[str, str]:
    """The first of a name is the one that is imported."""
    found: dict[str, str] = {}
    for each in distributions():
        found.setdefault(re.sub(r"[-_.]+", "-", each.name).lower(), each.version)
    return found


def _pins(text: str) -> dict[str, str]:
    return dict(_PINNED.findall(text))

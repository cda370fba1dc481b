"""Identifies the measuring code: a digest of the code that decides what is executed, to notice mixed versions.

Nothing else counts: an edit of a chart, a parser, a statistic or the SSH library does not change the instrument. Nor do
the parameters of a case, because each trial stores its definition, which is compared.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from benchstudy.model import registry, sources
from benchstudy.model.family import Family

_AGENT = "benchstudy.agent"
_GIVEN_TO_A_RUN = "benchstudy.measuring.trial"
# How bytes get to a host, and how they are kept here. Neither decides what is executed there.
_CARRIERS = ("benchstudy.hosts.remote", "benchstudy.measuring.raw")
# Of what a study is read with: sizes and durations become numbers, services, limits and clients become commands.
_MODEL = "benchstudy.model"
_BECOME_COMMANDS = {f"{_MODEL}.{name}" for name in ("units", "services", "clients")}


def instrument_sha256(family: str) -> str:
    """Digest of a family's measuring code, by name and content: the agent, the family's `run` with all its imports, the
    family's files on hosts, and the code between them.

    A library that is shipped to hosts counts under its name there, wherever it lies here.
    """
    brought = registry.get(family)
    files = {(sources.name_of(path), path) for path in _here(brought)}
    for library, shipped in brought.libraries().items():
        files |= {(f"{library}/{name}", path) for name, path in shipped().items()}
    digest = hashlib.sha256()
    for name, content in sorted((name, path.read_bytes()) for name, path in files):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _here(family: Family) -> Iterator[Path]:
    roots = [f"{registry.packages()[family.name]}.run", _GIVEN_TO_A_RUN]
    imported = sources.closure(roots) - sources.closure(_CARRIERS)
    modules = {name for name in imported if not f"{name}.".startswith(f"{_MODEL}.")} | _BECOME_COMMANDS
    yield from sources.files(modules)
    yield from sources.path_of(_AGENT).parent.glob("*.py")
    for folder in family.extensions:
        yield from (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)

"""Which code measured: a digest of all that decides what is executed, so that a study which mixes two can be told.

Only that: after an edit of a chart, a parser, a statistic or a message of the SSH library the instrument is the same.
What a case is made of needs no place here: its definition is stored with each trial, and compared.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from benchstudy.model import registry, sources
from benchstudy.model.family import Family

_AGENT = "benchstudy.agent"
_GIVEN_TO_A_RUN = "benchstudy.measuring.trial"
# How bytes come to a host, and how they are kept here: neither decides what is executed there.
_CARRIERS = ("benchstudy.hosts.remote", "benchstudy.measuring.raw")
# Of what a study is read with: sizes and durations become numbers, services and limits become commands.
_MODEL, _BECOME_COMMANDS = "benchstudy.model", {"benchstudy.model.units", "benchstudy.model.services"}


def instrument_sha256(family: str) -> str:
    """Of the measuring code of a family, by name and content: the agent, the family's `run` with all it imports, what
    hosts get of the family, and what stands between.

    What is shipped as a library is called as it is there, wherever it lies here.
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

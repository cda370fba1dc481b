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
    """Of the measuring code of a family: every file of `instrument_files`, by name and content."""
    digest = hashlib.sha256()
    for path in instrument_files(family):
        digest.update(sources.name_of(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def instrument_files(family: str) -> list[Path]:
    """The agent, the family's `run` with all it imports, what hosts get of the family, and what stands between."""
    roots = [f"{registry.packages()[family]}.run", _GIVEN_TO_A_RUN]
    imported = sources.closure(roots) - sources.closure(_CARRIERS)
    modules = {name for name in imported if not f"{name}.".startswith(f"{_MODEL}.")} | _BECOME_COMMANDS
    agent = sources.path_of(_AGENT).parent.glob("*.py")
    return sorted({*sources.files(modules), *agent, *_shipped(registry.get(family))}, key=sources.name_of)


def _shipped(family: Family) -> Iterator[Path]:
    for folder in family.extensions:
        yield from (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    for library in family.libraries().values():
        yield from library.values()

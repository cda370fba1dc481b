"""The rules that find misleading figures, by name. They are found as families are: in each package's module `lints`."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError, StudyError

Severity = Literal["error", "warning", "note"]
Kind = Literal["published", "measured"]  # a published table, or a family of a study
Found = Iterable[tuple[str, str]]  # where, what

_defined: dict[str, "Rule"] = {}


@dataclass(frozen=True)
class Rule:
    """`find` takes a Material and yields where and what; `why` and `action` are the same for all its findings.

    `of`: the only kind of material that it examines; None for every kind.
    """

    name: str
    severity: Severity
    why: str
    action: str
    find: Callable[[Any], Found]
    of: Kind | None = None

    def examine(self, material: Any) -> list[tuple[str, str]]:
        """What it finds. Raises BenchstudyError that names the rule and its module if it fails."""
        if self.of not in (None, material.kind):
            return []
        try:
            return list(self.find(material))
        except Exception as error:
            told = f"the lint {self.name} ({self.find.__module__}) fails on {material.name}"
            raise BenchstudyError(f"{told}: {type(error).__name__}: {error}; correct it") from error


def define(rule: Rule) -> Rule:
    """Adds a rule, and returns it."""
    known = get_args(Severity)
    assert rule.severity in known, f"the lint {rule.name} is {rule.severity!r}: use {', '.join(known)}"
    assert rule.name not in _defined, f"two lints are called {rule.name}: rename that of {rule.find.__module__}"
    _defined[rule.name] = rule
    return rule


def rules() -> Mapping[str, Rule]:
    """All rules by name, in order of definition: the general ones, then those of families.

    If a family's rules cannot be imported, they are left out with a warning. `require_of` refuses them.
    """
    importlib.import_module(f"{__name__.partition('.')[0]}.lints")
    for family in registry.names():
        try:
            require_of(family)
        except StudyError as error:
            registry.warn_once(f"the lints of {family} are left out: {error}")
    return _defined


def require_of(family: str) -> None:
    """Import the rules of a family. Raises StudyError if that fails, and defines none of them then."""
    before = {*_defined}
    try:
        registry.part(family, "lints")
    except StudyError:
        for name in _defined.keys() - before:
            del _defined[name]
        raise


def names() -> list[str]:
    """Every rule whose findings a study may acknowledge."""
    return list(rules())

"""The rules that find misleading figures, by name. They are found as families are: in each package's module `lints`."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchstudy.model import registry

Severity = Literal["error", "warning", "note"]
Found = Iterable[tuple[str, str]]  # where, what

_defined: dict[str, "Rule"] = {}


@dataclass(frozen=True)
class Rule:
    """`find` takes a Material and yields where and what; `why` and `action` are the same for all its findings."""

    name: str
    severity: Severity
    why: str
    action: str
    find: Callable[[Any], Found]


def define(rule: Rule) -> Rule:
    """Adds a rule, and returns it."""
    assert rule.name not in _defined, f"two lints are called {rule.name}"
    _defined[rule.name] = rule
    return rule


def rules() -> Mapping[str, Rule]:
    """All rules by name, in order of definition: the general ones, then those of families."""
    importlib.import_module(f"{__name__.partition('.')[0]}.lints")
    for family in registry.names():
        registry.part(family, "lints")
    return _defined


def names() -> list[str]:
    """Every rule whose findings a study may acknowledge."""
    return list(rules())

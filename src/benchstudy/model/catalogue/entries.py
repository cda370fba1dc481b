"""Turns entries of a family's lists that name a system, such as servers and backends, into ones that name a service."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from benchstudy.model import registry
from benchstudy.model.catalogue.instances import Instances, Spec
from benchstudy.model.catalogue.merging import above, left_out
from benchstudy.model.catalogue.parameter import as_level
from benchstudy.model.catalogue.system import FILE, Found
from benchstudy.model.errors import StudyError
from benchstudy.model.family import TakesSystem
from benchstudy.model.names import nearest

_SHORT = ("system", "with")


@dataclass(frozen=True)
class _Level:
    """One combination of an entry's parameters: its instance's name, the entry's name, and its levels."""

    instance: str
    name: str
    levels: Mapping[str, str]


class Entries:
    """One key of a family's block: a list of entries, or a single one. The constructor announces its instances.

    A parameter with a list of values makes levels: one entry per value, or a factor if the family has a matrix.
    """

    def __init__(self, family: str, key: str, value: Any, takes: TakesSystem, instances: Instances):
        self.key, self._family, self._takes, self._instances = key, family, takes, instances
        self._is_list = isinstance(value, list)
        self._value = value if isinstance(value, list) else [value]
        self._levels = {i: self._announced(i, entry) for i, entry in enumerate(self._value) if self._is_ours(entry)}

    def expanded(self) -> Any:
        """The list, or the one entry, with an entry per level where a parameter has several values."""
        found = []
        for number, entry in enumerate(self._value):
            if number in self._levels:
                found += self._entries(self._where(number), entry, self._levels[number])
            else:
                found.append(entry)
        return found if self._is_list else found[0]

    def _where(self, number: int) -> str:
        return f"families.{self._family}.{self.key}" + (f".{number}" if self._is_list else "")

    def _is_ours(self, entry: Any) -> bool:
        """Whether it names a system of the catalogue or a service that is one, rather than a service of the study."""
        if not isinstance(entry, Mapping) or not isinstance(entry.get("system"), str):
            return False
        plain = "{{" in entry["system"] or self._instances.describes(entry["system"])
        return "with" in entry or not plain

    def _announced(self, number: int, entry: Mapping[str, Any]) -> list[_Level]:
        where, named = self._where(number), entry["system"]
        given = entry.get("with")
        if given is not None and not isinstance(given, Mapping):
            raise StudyError(f"{where}.with: write a mapping of parameters to values")
        if given is None and self._instances.is_named(named):
            return [_Level(named, str(entry.get("name", named)), {})]
        self._instances.require_system(f"{where}.system", named, ", and no service of this name")
        name, given = str(entry.get("name", named)), dict(given or {})
        base = name if self._is_list and not self._takes.levels else f"{name}-{named}" if given else named
        varied = {p: v for p, v in given.items() if isinstance(v, list)}
        for parameter, values in varied.items():
            if not self._is_list:
                raise StudyError(f"{where}.with.{parameter}: a list makes levels, and only one list is possible")
            if any(isinstance(value, Mapping | list) for value in values):
                raise StudyError(
                    f"{where}.with.{parameter}: a level needs a name: describe each below services, and name it here"
                )
            if len({*map(as_level, values)}) < len(values) or not values:
                raise StudyError(f"{where}.with.{parameter}: give each level once, and at least one")
        found = []
        for combination in itertools.product(*varied.values()):
            chosen = dict(zip(varied, combination, strict=True))
            levels = {parameter: as_level(value) for parameter, value in chosen.items()}
            suffix = "".join(f"-{parameter}-{level}" for parameter, level in levels.items())
            spec = Spec(named, {**given, **chosen}, where)
            self._instances.announce(base + suffix, spec)
            found.append(_Level(base + suffix, name if self._takes.levels else name + suffix, levels))
        return found

    def _entries(self, where: str, entry: Mapping[str, Any], levels: list[_Level]) -> list[dict[str, Any]]:
        said = {key: value for key, value in entry.items() if key not in _SHORT}
        made = [self._merged(said, level) for level in levels]
        if self._takes.levels is None or not levels[0].levels:
            return made
        return [self._with_matrix(where, levels, made)]

    def _merged(self, said: Mapping[str, Any], level: _Level) -> dict[str, Any]:
        """What the system offers, overridden by what the entry says."""
        instance = self._instances.instance(level.instance)
        self._require_spelt(instance.found)
        beneath = {self._takes.field: "{{self}}"} if self._takes.field else {}
        beneath |= instance.found.system.offers.get(self._family, {}).get(self.key, {})
        offered = instance.offered(left_out(beneath, said))
        name = {"name": level.name} if self._is_list else {}
        return above({**name, **offered}, {**said, **name})

    def _require_spelt(self, found: Found) -> None:
        """Raises StudyError if what a system offers this family is under a misspelt name. Other unknown names are of
        families that are not installed.
        """
        offers = found.system.offers
        for name in offers if self._family not in offers else ():
            if name not in registry.packages() and get_close_matches(name, [self._family]):
                hint = nearest(name, [self._family])
                raise StudyError(f"system {found.name}: {found.folder / FILE}: offers.{name}: no such family: {hint}")

    def _with_matrix(self, where: str, levels: list[_Level], made: list[dict[str, Any]]) -> dict[str, Any]:
        """One entry whose factors are the parameters, with one service per combination of their levels."""
        assert self._takes.field and self._takes.levels, "a family with a matrix names its service"
        names = list(levels[0].levels)
        first, service = made[0], self._takes.field
        for other in made[1:]:
            if {**other, service: None} != {**first, service: None}:
                raise StudyError(
                    f"{where}.with: what the system offers differs between these levels, which a factor "
                    "cannot express: write one entry per level"
                )
        prefix = levels[0].instance.removesuffix("".join(f"-{n}-{level}" for n, level in levels[0].levels.items()))
        template = prefix + "".join(f"-{name}-{{{{{name}}}}}" for name in names)
        factors = {name: list(dict.fromkeys(level.levels[name] for level in levels)) for name in names}
        matrix = first.get(self._takes.levels, {})
        if not isinstance(matrix, Mapping):
            raise StudyError(f"{where}.{self._takes.levels}: write a mapping of factors to levels")
        twice = sorted(factors.keys() & matrix.keys())
        if twice:
            raise StudyError(f"{where}.with.{twice[0]}: the {self._takes.levels} already has it")
        return {**first, service: template, self._takes.levels: {**factors, **matrix}}

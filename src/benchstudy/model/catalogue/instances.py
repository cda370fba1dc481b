"""The systems of one family's block: each with its parameters, and made into services when something needs it."""

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from benchstudy.model.catalogue.parameter import SYSTEM, Words, as_text
from benchstudy.model.catalogue.system import FILE, OWN, Found, texts_of
from benchstudy.model.errors import StudyError
from benchstudy.model.names import check_name, nearest
from benchstudy.model.services import PLACEHOLDER, Service
from benchstudy.model.wording import explained

# Where it runs, and how long its setup may take: set by studies, not by systems.
_OF_HOSTS = ("role", "setup_timeout")
OF_A_SYSTEM = ("system", "with", *_OF_HOSTS)


@dataclass(frozen=True)
class Spec:
    """What a study says about an instance. `where`: the field that says it."""

    system: str
    given: Mapping[str, Any]
    where: str
    on_host: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Described:
    """A service that the study describes itself; others can use only what every service has."""

    name: str


@dataclass(eq=False)
class Instance:
    """A system with its parameters. `values`: by parameter; for a `system`, another instance or a described service."""

    name: str
    found: Found
    on_host: Mapping[str, Any]
    house: "Instances" = field(repr=False)
    values: dict[str, "Any | Instance | Described"] = field(default_factory=dict)

    def part(self, service: str) -> str:
        """The name that one of its services has in the study."""
        return self.name if service == self.found.name else f"{self.name}-{service}"

    def offered(self, value: Any) -> Any:
        """`value` of what it offers, with the names of its services filled in; these services are made."""
        filled = _filled(value, lambda text: self._resolved(text, names=True))
        self.house.make_what_is_spoken_of(filled)
        return filled

    def offered_to_all(self, value: Any) -> Any:
        """`value` of what it offers a family as a whole: only its parameters are filled in; other placeholders stay."""
        return _filled(value, lambda text: self._resolved(text) if text.startswith("with.") else f"{{{{{text}}}}}")

    def given(self, name: str) -> Any:
        """What it gives to others under this name, in the form in which they write it."""
        return _filled(self.found.system.gives[name], lambda text: self._resolved(text, own=True))

    def service(self, name: str) -> dict[str, Any]:
        """One of its services as a study describes it: values filled in, needs under their names in the study."""
        said = self.found.service(name)
        if "env_like" in said:
            said["env"] = {**self.house.env_of(self, said.pop("env_like")), **said.get("env", {})}
        said["needs"] = [self._needed(name, other) for other in said.get("needs", ())]
        # Arguments, files and variables are texts, whatever the parameter's type.
        made: dict[str, Any] = _filled(said, self._text)
        made |= {key: value for key, value in self.on_host.items() if key == "role" or made.get("setup")}
        spoken_of = [owner for owner in self.house.owners_in(made) if owner != self.part(name)]
        made["needs"] = list(dict.fromkeys([*made["needs"], *spoken_of]))
        return {key: value for key, value in made.items() if key != "needs" or value}

    def _text(self, text: str) -> str | Words:
        value = self._resolved(text)
        return value if isinstance(value, Words) else as_text(value)

    def _needed(self, service: str, other: str) -> str:
        if other in self.found.system.services:
            return self.part(other)
        if other in self.values and isinstance(self.values[other], Instance | Described):
            return str(self.values[other].name)
        known = [*self.found.system.services, *self.found.system.systems_of]
        raise StudyError(f"system {self.found.name}: services.{service}.needs: {other!r}: {nearest(other, known)}")

    def _resolved(self, text: str, *, names: bool = False, own: bool = False) -> Any:
        """What a placeholder in its texts stands for here; the placeholder itself if a host must fill it in.

        `names`: one without a dot may be the name of a service. `own`: what every service has refers to this one.
        """
        owner, dot, rest = text.partition(".")
        if owner == "with" and dot:
            return self._value(rest)
        if names and text == "self":
            return self.name
        if owner in self.found.system.services and (dot or names):
            return self.part(owner) if not dot else f"{{{{{self.part(owner)}.{rest}}}}}"
        other = self.values.get(owner)
        if isinstance(other, Instance | Described) and (dot or names):
            return self._of(owner, other, rest) if dot else other.name
        if own and owner in OWN:
            return f"{{{{{self.name}.{text}}}}}"
        return f"{{{{{text}}}}}"

    def _value(self, name: str) -> Any:
        parameter, dot, fact = name.partition(".")
        if parameter not in self.values:  # from what another system says for both
            raise StudyError(f"system {self.found.name}: {{{{with.{name}}}}}: {nearest(parameter, self.values)}")
        value = self.values[parameter]
        if isinstance(value, Instance | Described):
            return value.name
        return self.found.system.parameters[parameter].choices[value][fact] if dot else value

    def _of(self, parameter: str, other: "Instance | Described", name: str) -> Any:
        gives = other.found.system.gives if isinstance(other, Instance) else {}
        if isinstance(other, Instance) and name in gives:
            return other.given(name)
        if name.partition(".")[0] in OWN:
            return f"{{{{{other.name}.{name}}}}}"
        what = f"system {other.found.name}" if isinstance(other, Instance) else f"service {other.name}"
        raise StudyError(
            f"{self.house.where_of(self.name)}: its {parameter} must give {name!r}, but {what} does not: "
            f"{nearest(name, gives)}"
        )


class Instances:
    """All instances of a family's block. `where`: the field of its services. `given`: that field's value."""

    def __init__(self, where: str, given: Any, catalogue: Mapping[str, Found]):
        self._where, self._catalogue = where, catalogue
        given = given if isinstance(given, Mapping) else {}
        systems = {name: s for name, s in given.items() if isinstance(s, Mapping) and "system" in s}
        self._described = {name: service for name, service in given.items() if name not in systems}
        self._specs: dict[str, Spec] = {}
        self._instances: dict[str, Instance] = {}
        self._parts: dict[str, tuple[Instance, str]] = {}
        self._made: dict[str, dict[str, Any]] = {}
        self._resolving: list[str] = []
        for name, said in systems.items():
            self._announce_named(str(name), said)
        self._named = list(self._specs)

    def _announce_named(self, name: str, said: Mapping[str, Any]) -> None:
        where = f"{self._where}.{name}"
        for key in said:
            if key not in OF_A_SYSTEM:
                raise StudyError(f"{where}.{key}: unknown key of a system: {nearest(str(key), OF_A_SYSTEM)}")
        given = said.get("with") or {}
        if not isinstance(given, Mapping):
            raise StudyError(f"{where}.with: write a mapping of parameters to values")
        for parameter, value in given.items():
            if isinstance(value, list):
                raise StudyError(f"{where}.with.{parameter}: a list makes levels, and a service has none: give one")
        self.require_system(f"{where}.system", said["system"])
        on_host = {key: said[key] for key in _OF_HOSTS if key in said}
        self.announce(name, Spec(said["system"], given, where, on_host))

    def describes(self, name: str) -> bool:
        """Whether the study describes a service of this name itself."""
        return name in self._described

    def is_named(self, name: str) -> bool:
        """Whether the study has a system of this name among its services."""
        return name in self._named

    def require_system(self, where: str, name: Any, nor: str = "") -> None:
        """Raises StudyError, with the nearest name, if this is not a system (`nor`: what else it is not)."""
        if not isinstance(name, str) or name not in self._catalogue:
            known = [*self._catalogue, *(map(str, self._described) if nor else ())]
            raise StudyError(f"{where}: no system {name!r}{nor}: {nearest(str(name), known)}")

    def announce(self, name: str, spec: Spec) -> None:
        """Register an instance. Raises StudyError if its name already means something else."""
        try:
            check_name(name)
        except ValueError as error:
            raise StudyError(f"{spec.where}: {error}") from error
        if name in self._described:
            raise StudyError(f"{spec.where}: a service {name!r} is described below services: give it another name")
        known = self._specs.setdefault(name, spec)
        if (known.system, known.given, known.on_host) != (spec.system, spec.given, spec.on_host):
            raise StudyError(f"{spec.where}: {known.where} already has a system {name!r}: give it another name")

    def where_of(self, name: str) -> str:
        """The place in the study that announced a system, for messages."""
        return self._specs[name].where

    def instance(self, name: str) -> Instance:
        """An announced instance, with its parameters. Raises StudyError for a wrong or missing parameter."""
        if name in self._instances:
            return self._instances[name]
        spec = self._specs[name]
        if name in self._resolving:
            chain = " → ".join([*self._resolving[self._resolving.index(name) :], name])
            raise StudyError(f"{spec.where}: {name} needs itself: {chain}")
        self._resolving.append(name)
        made = Instance(name, self._catalogue[spec.system], spec.on_host, self)
        system = made.found.system
        for parameter in spec.given:
            if parameter not in system.parameters:
                said = f"{spec.where}.with: {spec.system} has no parameter {parameter!r}"
                raise StudyError(f"{said}: {nearest(str(parameter), system.parameters)}")
        for parameter, declared in system.parameters.items():
            where = f"{spec.where}.with.{parameter}"
            if parameter not in spec.given and declared.required:
                raise StudyError(f"{where}: {spec.system} needs it: {declared.description}")
            try:
                value = declared.value(spec.given.get(parameter, declared.default))
            except ValueError as error:
                raise StudyError(f"{where}: {error}") from error
            made.values[parameter] = self._chosen(where, name, parameter, value) if declared.type == SYSTEM else value
        self._resolving.pop()
        self._instances[name] = made
        for service in system.services:
            self._register(made, service)
        return made

    def _register(self, instance: Instance, service: str) -> None:
        name = instance.part(service)
        if self._parts.setdefault(name, (instance, service)) != (instance, service) or name in self._described:
            raise StudyError(f"{self.where_of(instance.name)}: two services would have the name {name!r}: rename one")

    def _chosen(self, where: str, name: str, parameter: str, value: Any) -> "Instance | Described":
        """The instance that a parameter names: one of the study's, one with defaults, or one of its own."""
        if isinstance(value, str):
            if value in self._described:
                return Described(value)
            if value not in self._specs:
                if value not in self._catalogue:
                    known = [*map(str, self._described), *self._specs, *self._catalogue]
                    raise StudyError(f"{where}: no system or service {value!r}: {nearest(value, known)}")
                self.announce(value, Spec(value, {}, where))
            return self.instance(value)
        self.require_system(f"{where}.system", value["system"])
        own = f"{name}-{parameter}"
        self.announce(own, Spec(value["system"], value.get("with") or {}, where))
        return self.instance(own)

    def env_of(self, instance: Instance, system: str) -> Mapping[str, Any]:
        """The environment of another system's service; the instance has its parameters under the same names."""
        if system not in self._catalogue or system not in self._catalogue[system].system.services:
            raise StudyError(f"system {instance.found.name}: env_like: no system {system!r} with a service")
        env: Mapping[str, Any] = self._catalogue[system].service(system).get("env", {})
        return env

    def owners_in(self, value: Any) -> Iterator[str]:
        """The services that texts refer to, each once."""
        spoken_of = (used.partition(".") for text in texts_of(value) for used in PLACEHOLDER.findall(text))
        yield from dict.fromkeys(o for o, dot, _ in spoken_of if dot and (o in self._parts or o in self._described))

    def make_what_is_spoken_of(self, value: Any) -> None:
        """Make every system that the texts in `value` mention, so that its services exist."""
        for name in dict.fromkeys([*(text for text in texts_of(value) if text in self._parts), *self.owners_in(value)]):
            self._make(name)

    def services(self) -> dict[str, Any]:
        """Every service of the block: described ones unchanged, and those that something names or needs."""
        for name in self._named:
            self._make(self.instance(name).name)
        for name in texts_of([s.get("needs") for s in self._described.values() if isinstance(s, Mapping)]):
            if name in self._specs:
                self.instance(name)
            self._make(name)
        return {**self._described, **self._made}

    def offered_to(self, family: str, lists: Container[str], keys: Collection[str]) -> dict[str, Any]:
        """What its systems offer to a family as a whole, by key of its block, without what they offer to entries of its
        `lists`. Raises StudyError where two systems differ, and for what is none of the block's `keys`.
        """
        found: dict[str, Any] = {}
        by: dict[str, str] = {}
        for instance in self._instances.values():
            for key, offer in instance.found.system.offers.get(family, {}).items():
                if key in lists:
                    continue
                if key not in keys:
                    where = f"system {instance.found.name}: {instance.found.folder / FILE}: offers.{family}.{key}"
                    raise StudyError(f"{where}: the family has no such key: {nearest(key, keys)}")
                offered = instance.offered_to_all(offer)
                if found.setdefault(key, offered) != offered:
                    raise StudyError(
                        f"families.{family}.{key}: {by[key]} and {instance.name} offer different values, but a family "
                        "has one: move one of them to another study"
                    )
                by.setdefault(key, instance.name)
        return found

    def _make(self, name: str) -> None:
        if name in self._made or name not in self._parts:
            return
        instance, service = self._parts[name]
        made = self._made[name] = {}
        made |= instance.service(service)
        try:
            Service.model_validate(made)
        except ValidationError as error:
            what = f"system {instance.found.name}: services.{service}"
            raise StudyError("\n".join(f"{what}.{text}" for text in explained(error, Service))) from error
        for other in made.get("needs", ()):
            self._make(other)


def _filled(value: Any, resolved: Callable[[str], Any]) -> Any:
    """Plain data with its placeholders resolved. A text that is only a placeholder becomes its value; words become
    items of the list that contains them.
    """
    if isinstance(value, str):
        whole = PLACEHOLDER.fullmatch(value)
        if whole:
            return resolved(whole[1])
        return PLACEHOLDER.sub(lambda match: as_text(resolved(match[1])), value)
    if isinstance(value, Mapping):
        return {_filled(key, resolved): _filled(part, resolved) for key, part in value.items()}
    if isinstance(value, list):
        parts = (_filled(part, resolved) for part in value)
        return [item for part in parts for item in (part if isinstance(part, Words) else (part,))]
    return value

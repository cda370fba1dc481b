"""What a system.yaml says, and the folder in which it lies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from benchstudy.model.authorship import LicenceField
from benchstudy.model.catalogue.parameter import SYSTEM, Parameter, check_parameter_name
from benchstudy.model.errors import StudyError
from benchstudy.model.names import Name, check_name, require_known
from benchstudy.model.services import PLACEHOLDER, Service
from benchstudy.model.strict import Spelled, Strict
from benchstudy.model.wording import explained
from benchstudy.model.yamltext import read_yaml, yaml_problem

FILE, DEPLOY, README = "system.yaml", "deploy.py", "README.md"
# Keys of a system's service beyond those of every service.
_SHORT = ("files_from", "like", "argv_added", "env_like")
# What makes one service from others; `Service` checks the rest when a study has filled in its values.
_LISTS, _MAPPINGS, _TEXTS = ("argv", "argv_added", "files_from", "needs"), ("env", "files"), ("like", "env_like")
# A part that other systems may refer to although `gives` does not list it.
OWN = ("dir", "bind", "port", "secret")


class Package(Strict):
    """A package of a host's package manager, by Debian's name."""

    programs: list[str] = Field(min_length=1, description="its programs that services and commands start")
    starts: list[Name] = Field(
        [], description="services that it would start by itself, on ports that a measurement may need"
    )
    dnf: str | None = Field(None, description="its name in dnf, if different")
    apk: str | None = Field(None, description="its name in apk, if different")


class System(Strict):
    """Something that studies start: what it is, how it is installed, and how it is started."""

    title: str = Field(min_length=1)
    about: str = Field(min_length=1, description="what it is for, in one sentence")
    homepage: Annotated[str, Spelled("^https?://", "an address that begins with http:// or https://")]
    license: Annotated[LicenceField, Field(min_length=1)] = Field(description="of the program: an SPDX identifier")
    tested: list[str] = Field(description="versions that its services were started with; empty if untested")
    packages: dict[str, Package] = Field({}, description="packages to install, by Debian's name")
    builds: list[Name] = Field([], description=f"programs that its {DEPLOY} builds")
    parameters: dict[Annotated[str, AfterValidator(check_parameter_name)], Parameter] = Field({})
    services: dict[Name, dict[str, Any]] = Field(
        {}, description="the one with the system's own name is the system; others are its parts, made when referred to"
    )
    gives: dict[Name, Any] = Field({}, description="what other systems may refer to as {{PARAMETER.NAME}}")
    offers: dict[str, dict[str, dict[str, Any]]] = Field(
        {}, description="by family and list: the entry, when a study names only the system"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "System":
        both = sorted(self.parameters.keys() & self.services.keys())
        if both:
            raise ValueError(f"{both[0]!r} is both a parameter and a service: rename one")
        for name, service in self.services.items():
            known = [*Service.model_fields, *_SHORT]
            for key, value in service.items():
                require_known(key, known, f"services.{name}.{key}: unknown key")
                _check_form(f"services.{name}.{key}", key, value)
            self._check_like(name)
        for text in texts_of([self.services, self.gives, self.offers]):
            for used in PLACEHOLDER.findall(text):
                self._check_value(used)
        return self

    def _check_like(self, name: str) -> None:
        chain = [name]
        while (other := self.services[chain[-1]].get("like")) is not None:
            where = f"services.{chain[-1]}.like"
            require_known(other, self.services, f"{where}: no such service of this system")
            if other in chain:
                raise ValueError(f"{where}: it is like itself: {' → '.join([*chain, other])}")
            chain.append(other)

    def _check_value(self, used: str) -> None:
        """Raises ValueError for `with.NAME` of no parameter, and for `with.NAME.FACT` that its choices lack."""
        first, *rest = used.split(".")
        if first != "with" or not rest:
            return
        require_known(rest[0], self.parameters, f"{{{{{used}}}}}: no such parameter")
        if rest[1:]:
            require_known(".".join(rest[1:]), self.parameters[rest[0]].facts, f"{{{{{used}}}}}: no such fact")

    @property
    def tried(self) -> str:
        """The versions with which it was tested, in words."""
        return f"tested: {', '.join(self.tested)}" if self.tested else "untried"

    @property
    def systems_of(self) -> list[str]:
        """Its parameters that take another system."""
        return [name for name, parameter in self.parameters.items() if parameter.type == SYSTEM]


def _check_form(where: str, key: str, value: Any) -> None:
    if key in _LISTS and not (isinstance(value, list) and all(isinstance(part, str) for part in value)):
        raise ValueError(f"{where}: write a list of texts, such as [a, b]")
    if key in _MAPPINGS and not isinstance(value, Mapping):
        raise ValueError(f"{where}: write a mapping of names to texts")
    if key in _TEXTS and not isinstance(value, str):
        raise ValueError(f"{where}: write the name of a service")


@dataclass(frozen=True)
class Found:
    """A folder of a catalogue; its name is the system's name. `also`: another package's folder of the same name."""

    name: str
    folder: Path
    also: Path | None = None

    @cached_property
    def system(self) -> System:
        """Raises StudyError that names the file, the field and the fix."""
        path = self.folder / FILE
        if self.also is not None:
            raise StudyError(f"two packages provide a system {self.name!r}: {self.also} and {self.folder}; remove one")
        try:
            data = read_yaml(path.read_text(encoding="utf-8"))
            if not isinstance(data, Mapping):
                raise ValueError("a system is a mapping of names to values; see `benchstudy docs systems`")
            system = System.model_validate(data)
            if system.services:
                require_known(self.name, system.services, f"services: none has the system's own name {self.name!r}")
            if system.builds and not (self.folder / DEPLOY).is_file():
                raise ValueError(f"builds: {system.builds[0]}: the folder has no {DEPLOY} that makes it: write one")
            check_name(self.name)
        except ValidationError as error:
            problems = explained(error, System)
            raise StudyError("\n".join(f"system {self.name}: {path}: {text}" for text in problems)) from error
        except yaml.MarkedYAMLError as error:
            raise StudyError(f"system {self.name}: {path}: not valid YAML: {yaml_problem(error)}") from error
        except UnicodeDecodeError as error:
            where = f"{error.reason} at byte {error.start}"
            raise StudyError(f"system {self.name}: {path}: not UTF-8 text: {where}: save it as UTF-8") from error
        except (OSError, ValueError, yaml.YAMLError, StudyError) as error:
            raise StudyError(f"system {self.name}: {path}: {error}") from error
        self._require_used(system)
        return system

    def _require_used(self, system: System) -> None:
        """Raises StudyError for a parameter that changes nothing: its levels would be measured, and be the same."""
        services = system.services.values()
        if any("env_like" in service for service in services):  # the other system's texts may use it
            return
        files = [self._text(name, f) for name, said in system.services.items() for f in said.get("files_from", ())]
        texts = [*texts_of([system.services, system.gives, system.offers]), *files]
        used = {u.split(".")[1] for text in texts for u in PLACEHOLDER.findall(text) if u.startswith("with.")}
        for name in sorted(system.parameters.keys() - used - {*system.systems_of}):
            where = f"system {self.name}: {self.folder / FILE}: parameters.{name}"
            raise StudyError(f"{where}: nothing uses {{{{with.{name}}}}}: use it, or remove the parameter")

    def service(self, name: str) -> dict[str, Any]:
        """One of its services as a study would write it, with file contents; `needs` and `{{…}}` stay as written.

        Raises StudyError for a file that is missing or outside of the folder.
        """
        said = dict(self.system.services[name])
        base = self.service(said.pop("like")) if "like" in said else {}
        added = said.pop("argv_added", [])
        files = {file: self._text(name, file) for file in said.pop("files_from", ())}
        merged = {**base, **said}
        for key, own in (("files", files), ("env", {})):
            together = {**base.get(key, {}), **said.get(key, {}), **own}
            if together:
                merged[key] = together
        merged["argv"] = [*merged.get("argv", []), *added]
        return merged

    def _text(self, service: str, file: str) -> str:
        path = self.folder / file
        where = f"system {self.name}: services.{service}.files_from"
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise StudyError(f"{where}: {file!r} must lie in its own folder")
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise StudyError(f"{where}: there is no file {path}: make it, or correct the name") from error
        except (OSError, ValueError) as error:
            raise StudyError(f"{where}: {path}: {error}") from error


def texts_of(value: Any) -> Iterator[str]:
    """Every text in plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from texts_of(key)
            yield from texts_of(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from texts_of(part)

"""Servers and mounts that a session starts, as a study describes them.

Texts may hold `{{…}}` placeholders, filled in on the host when the service starts:
`{{dir}}` the service's own folder, `{{port.NAME}}` a free port of it, `{{secret.NAME}}` a random secret that
lives as long as the service or one that `secret_env` takes from the controller, `{{bind}}` the address to listen on,
`{{OTHER.dir}}`, `{{OTHER.port.NAME}}`, `{{OTHER.secret.NAME}}` and `{{OTHER.bind}}` those of a service named in
`needs`; `{{library.NAME}}` the folder of something shipped to the host (named in `libraries`), `{{tools}}` where
provisioning put programs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from benchstudy.model.names import EachOnce, Name, require_known
from benchstudy.model.programs import Argv, Environment
from benchstudy.model.strict import Spelled, Strict
from benchstudy.model.units import PositiveSizeField, Size, TimeoutField

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")


_LEAST_MEMORY = 256 << 10  # in a group with less, not even `true` starts


def _lets_a_program_start(memory: Size) -> Size:
    if memory.bytes < _LEAST_MEMORY:
        raise ValueError(f"{memory}: no program starts in so little memory: give at least 256KiB")
    return memory


MemoryField = Annotated[PositiveSizeField, AfterValidator(_lets_a_program_start)]


class Limits(Strict):
    """What a process and all its descendants may use. A limit that the host cannot enforce is refused.

    Without any limit, peak memory and CPU time are still recorded if the host supports it.
    """

    cpus: int | None = Field(None, ge=1, description="this many whole CPUs; all when left out")
    memory: MemoryField | None = Field(None, description="including page cache and swap; all when left out")


@dataclass(frozen=True)
class Confinement:
    """How a host confines a process: its limits, the CPUs it runs on, how many files it may open at once.

    `limits.cpus` with `cpu_list`: only this many of the listed ones, from the first. None: the host's default.
    """

    limits: Limits | None = None
    cpu_list: tuple[int, ...] | None = None
    open_files: int | None = None

    def spec(self) -> dict[str, Any]:
        """The form that the agent reads."""
        limits = self.limits
        return {
            "limits": limits and {"cpus": limits.cpus, "memory_bytes": limits.memory and limits.memory.bytes},
            "cpu_list": None if self.cpu_list is None else list(self.cpu_list),
            "open_files": self.open_files,
        }

    def with_files(self, open_files: int | None) -> "Confinement":
        """A copy that may open at least this many files at once."""
        return replace(self, open_files=max(self.open_files or 0, open_files or 0) or None)


_URL = Spelled(r"^(https?://|\{\{ *([^ }]+\.)?secret\.)", "an address that begins with http:// or https://")


class Ready(Strict):
    """The condition for a service to count as ready. Give exactly one of the first four."""

    tcp: Name | None = Field(None, description="this named port accepts a connection")
    http: Annotated[str, _URL] | None = Field(None, description="this URL answers with a status below 500")
    mount: str | None = Field(None, description="this path is a mount point")
    file: str | None = Field(None, description="this path exists, for a service that only holds data for others")
    timeout: TimeoutField = 30.0

    exactly_one: ClassVar[tuple[str, ...]] = ("tcp", "http", "mount", "file")


class Service(Strict):
    """One server or mount, in the foreground under the supervisor, for the session or (some families) for one trial."""

    role: Name = Field(
        "sut",
        description="the role on whose host it runs; with `load`, each client that measures its folder starts its own",
    )
    needs: list[Name] = Field([], description="services that must be ready first")
    ports: EachOnce[Name] = Field([], description="names of its ports; {{port.NAME}} is a free one")
    secrets: EachOnce[Name] = Field([], description="names of its secrets; {{secret.NAME}} is a random one")
    secret_env: dict[Name, str] = Field(
        {}, description="your own secrets: the environment variable of the controller that holds {{secret.NAME}}"
    )
    libraries: list[Name] = Field([], description='libraries to copy to the host first, such as "rclone"')
    files: dict[str, str] = Field({}, description="files written below {{dir}} before the start")
    setup: list[Argv] = Field([], description="commands that run to completion before the start")
    setup_timeout: TimeoutField | None = Field(None, description="timeout of each setup command; the default is 10 min")
    argv: Argv = Field(description="command of the server, which stays in the foreground")
    env: Environment = Field({}, description="environment variables")
    open_files: int | None = Field(
        None,
        ge=1,
        description="number of files that it must be able to open at once; it fails if the host allows fewer",
    )
    ready: Ready
    stop: Argv | None = Field(None, description="command that ends it gracefully, such as an unmount")

    @model_validator(mode="after")
    def _each_secret_once(self) -> "Service":
        both = sorted({*self.secrets} & self.secret_env.keys())
        if both:
            raise ValueError(f"{both[0]!r} is in secrets, which are generated, and in secret_env: remove it from one")
        return self


def needed(services: Mapping[str, Service], names: Iterable[str]) -> list[str]:
    """The services of these names and all that they need, each once. Names of no service are left out."""
    found: list[str] = []
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name not in found and name in services:
            found.append(name)
            wanted += services[name].needs
    return found


def definition(services: Mapping[str, Service], name: str | None) -> dict[str, Any]:
    """The service `name` and all it needs, as plain data for a case's definition; {} for None.

    A different server or mount under the same name is a different thing to measure.
    """
    # Defaults are left out: a key added by a later version must not make old trials look like another case.
    of = needed(services, [name] if name else [])
    return {each: services[each].model_dump(mode="json", exclude_defaults=True) for each in of}


def check_service(where: str, name: str, services: Mapping[str, Service]) -> Service:
    """The service of this name. Raises ValueError if the study describes none."""
    require_known(name, services, f"{where}: no service {name!r} below services")
    return services[name]


def check_port(where: str, name: str, port: str, services: Mapping[str, Service]) -> Service:
    """The service of this name, which has this port. Raises ValueError."""
    service = check_service(where, name, services)
    require_known(port, service.ports, f"{where}: service {name} has no port {port!r}")
    return service

"""How a family checks a host before anything is measured."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from benchstudy.hosts.agent import HostAgent
from benchstudy.model import hints
from benchstudy.model.clients import makes_load, role_of_service
from benchstudy.model.secret_forms import unfit
from benchstudy.model.services import Limits, Service

_CHECK_TIMEOUT_S = 120.0


class HostCheck:
    """How a family checks a host for `benchstudy check`. Measures nothing and leaves nothing behind."""

    def __init__(
        self,
        agent: HostAgent,
        roles: Iterable[str],
        target_roles: Iterable[str] = (),
        is_provisioned: Callable[[str], bool] = lambda program: True,
    ):
        """`roles` are the host's, `target_roles` all roles of the target. `is_provisioned`: whether provisioning may
        install the program of this name.
        """
        self._is_provisioned = is_provisioned
        self._agent = agent
        self.name = agent.remote.name
        self.roles = tuple(roles)
        self.makes_load = makes_load(self.roles, tuple(target_roles) or self.roles)
        self.findings: list[tuple[bool, str, str]] = []
        self._programs: set[str] = set()
        self._variables: set[str] = set()

    def agent_call(self, command: str, *args: str, input: bytes = b"") -> Any:
        """Ask the agent on the host. Raises HostRefused."""
        return self._agent.call(command, *args, input=input, timeout_s=_CHECK_TIMEOUT_S)

    def library(self, name: str) -> str:
        """The path on the host of a library shipped from here. It stays for the session. Raises TrialFailed."""
        return self._agent.library(name)

    def which(self, tool: str) -> str | None:
        """The path of a program: the provisioned one, or else the one on the PATH."""
        places = (f"{self._agent.tools_dir}/{tool}", tool)
        found = (self._agent.tool(place).get("path") for place in places)
        return next((path for path in found if path), None)

    def path_info(self, path: str) -> dict[str, Any]:
        return self._agent.call("path-info", self._agent.remote.expand(path))

    def program(self, program: str, what: str) -> None:
        """Report whether `program`, the first word of a service's argv or the name of a tool, exists."""
        self._programs.add(program)
        program = program.removeprefix("{{tools}}/")
        if "{{" in program:
            return  # known only during the session
        found = self.which(program)
        if found:
            self.ok(f"{what}: {found}")
        else:
            self.problem(f"{what}: {program} is missing", self._how_to_get(program))

    def _how_to_get(self, program: str) -> str:
        if self._is_provisioned(PurePosixPath(program).name):
            return f"{hints.snakemake('provision')}, or install it on the PATH"
        there = "at this path" if "/" in program else "so that it is found on the PATH"
        return (
            f"install it on {self.name} {there}: no system has this program. If a package has it, name the package in "
            "`packages` of the family command, or of a system of your own (`benchstudy docs systems`), then run "
            f"{hints.snakemake('provision')}"
        )

    def services(self, services: Mapping[str, Service]) -> None:
        """Report the programs and variables of this host's services that the family did not report."""
        for name, service in services.items():
            here = any(role_of_service(service.role, role) == role for role in self.roles)
            if here and service.argv[0] not in self._programs:
                self.program(service.argv[0], f"service {name}")
            for variable in sorted({*service.secret_env.values()} - self._variables) if here else ():
                self.variable(variable, f"service {name}")

    def limits(self, limits: Sequence[Limits], where: str) -> None:
        """Report limits of servers that exceed what the host has. `where` names the server."""
        facts = self._agent.facts()
        cpus = max((limit.cpus or 0 for limit in limits), default=0)
        memory = max((limit.memory.bytes if limit.memory else 0 for limit in limits), default=0)
        for asked, has, unit in ((cpus, facts["cpus_allowed"], "CPUs"), (memory, facts["memory_total_bytes"], "bytes")):
            if has is not None and asked > has:
                self.problem(f"{where}: asks for {asked} {unit}, but {self.name} has {has}", "ask for less")

    def variable(self, name: str, what: str = "") -> bool:
        """Whether the controller's environment has a secret in the variable; reports it if not. `what` needs it."""
        self._variables.add(name)
        value = os.environ.get(name)
        wrong = unfit(value) if value else ("is not set", f"export {name} where snakemake runs")
        if wrong:
            self.problem(f"{what}: {name} {wrong[0]}" if what else f"{name} {wrong[0]}", wrong[1])
        return not wrong

    def ok(self, text: str) -> None:
        self.findings.append((True, text, ""))

    def problem(self, text: str, fix: str) -> None:
        self.findings.append((False, text, fix))

"""Which programs a study's services, commands and generators start: what provisioning depends on."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from benchstudy.model.catalogue.system import texts_of
from benchstudy.model.clients import makes_load, role_of_service
from benchstudy.model.study import Study

_TOOL = re.compile(r"\{\{\s*tools\s*\}\}/([A-Za-z0-9_][A-Za-z0-9._-]*)")


def started_programs(family: Mapping[str, Any], roles: Iterable[str]) -> set[str]:
    """Programs that services on a host with these roles start: `sshfs`, and `/usr/sbin/sshd` as `sshd`.

    `sh SCRIPT PROGRAM …` starts both. `family`: a family's block of a study, as plain data.
    """
    return {
        PurePosixPath(program).name
        for service in _services(family, roles)
        for argv in (service["argv"], *service.get("setup", ()), service.get("stop") or [])
        for program in _programs(argv)
    }


def named_tools(family: Mapping[str, Any], roles: Iterable[str]) -> set[str]:
    """Every `NAME` in `{{tools}}/NAME` in these services' arguments, files and environment."""
    return {name for service in _services(family, roles) for text in texts_of(service) for name in _TOOL.findall(text)}


def generator_tools(family: Mapping[str, Any], roles: Iterable[str], target_roles: Iterable[str]) -> set[str]:
    """Programs that load the servers; they run on load hosts, or where the role `sut` is in a target without any."""
    here = makes_load(list(roles), list(target_roles))
    return {generator["tool"] for generator in family.get("generators", ())} if here else set()


def commanded_programs(family: Mapping[str, Any], roles: Iterable[str]) -> set[str]:
    """Programs of a family's own commands, and of what goes before and after them; not those in a shell script."""
    return {
        PurePosixPath(program).name
        for command in family.get("commands", ())
        if command.get("role", "sut") in roles
        for argv in (
            *([] if command.get("shell") else [command["argv"]]),
            *command.get("prepare", ()),
            *command.get("cleanup", ()),
        )
        for program in _programs(argv)
    }


def programs_by_host(study: Study, target: str, family: str | None = None) -> dict[str, list[str]]:
    """For each host of the target, the sorted names of all these programs, and of packages that a family's block lists.

    A changed list may require an installation. `family`: only of this family.
    """
    blocks = [
        config.model_dump(mode="json", serialize_as_any=True)
        for name, config in study.families.items()
        if family in (None, name) and target in (config.targets or study.targets)
    ]
    return programs_of_blocks(blocks, study.targets[target].roles)


def programs_of_blocks(blocks: Iterable[Mapping[str, Any]], target_roles: Mapping[str, str]) -> dict[str, list[str]]:
    """Like `programs_by_host`. `blocks`: of families, as plain data. `target_roles`: role to host."""
    blocks = list(blocks)
    found: dict[str, set[str]] = {name: set() for name in target_roles.values()}
    for name, programs in found.items():
        roles = {role for role, host in target_roles.items() if host == name}
        for block in blocks:
            programs |= started_programs(block, roles) | named_tools(block, roles)
            programs |= generator_tools(block, roles, target_roles) | commanded_programs(block, roles)
            programs |= set(block.get("packages", ()))
    return {name: sorted(programs) for name, programs in found.items()}


def _programs(argv: Sequence[str]) -> list[str]:
    through_script = argv[2:3] if argv[:1] == ["sh"] and len(argv) > 1 and not argv[1].startswith("-") else []
    return [*argv[:1], *through_script]


def _services(family: Mapping[str, Any], roles: Iterable[str]) -> list[Mapping[str, Any]]:
    def runs_here(service: Mapping[str, Any]) -> bool:
        return any(role_of_service(service.get("role", "sut"), role) == role for role in roles)

    return [service for service in family.get("services", {}).values() if runs_here(service)]

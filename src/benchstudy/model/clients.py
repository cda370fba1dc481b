"""Clients: the hosts of a target that make load; which ones they are, and how many of them load a case."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema

from benchstudy.model.errors import StudyError
from benchstudy.model.family import Case, FamilyConfig

LOAD = "load"
CLIENTS = "clients"  # the factor: from how many
NUMBER = "clients_n"  # its column of the case table that is a number
CLIENTS_FILE = "clients.json"  # of a trial, below the label of their commands: when each client began and ended
_MOST = 10_000
_NUMBERED = re.compile(rf"{LOAD}-(\d+)")


def generates_load(role: str) -> bool:
    """Whether the role's host makes load: `load`, or `load-…` if several do."""
    return role == LOAD or role.startswith(f"{LOAD}-")


def makes_load(roles: Collection[str], target_roles: Collection[str]) -> bool:
    """Whether the host with these `roles` of the target makes load. Without a load host, `sut` does."""
    if any(map(generates_load, target_roles)):
        return any(map(generates_load, roles))
    return "sut" in roles


def load_roles(roles: Mapping[str, str]) -> list[str]:
    """The roles whose hosts make load, in their order: `load`, `load-1`, …, `load-10`, or `sut` if there is none.

    `roles`: role to host; a host that plays several counts once.
    """
    by_host: dict[str, str] = {}
    for role in sorted(filter(generates_load, roles), key=_place) or ["sut"]:
        by_host.setdefault(roles.get(role, ""), role)
    return list(by_host.values())


def _place(role: str) -> tuple[bool, int, str]:
    number = _NUMBERED.fullmatch(role)
    return (role != LOAD, int(number[1]) if number else 0, role)


def client_roles(levels: Mapping[str, str], roles: Mapping[str, str]) -> list[str]:
    """The roles whose hosts load a case: the first load hosts; only one if clients are not a factor."""
    return load_roles(roles)[: int(levels.get(CLIENTS, "1"))]


def role_of_service(role: str, client: str | None) -> str:
    """The role on whose host a service runs for a client: the client's own if the study says `role: load`."""
    return client if client is not None and role == LOAD and generates_load(client) else role


def part_of(total: int, client: int, clients: int) -> int:
    """The part of `total` for one of several clients, counted from 1; the first ones get the remainder."""
    each, rest = divmod(total, clients)
    return each + (client <= rest)


def numbered(roles: Any) -> Any:
    """The roles of a target as a study gives them, with `load: [l1, l2]` as `load-1: l1` and `load-2: l2`.

    Raises ValueError for a list where none is allowed, or one with duplicates.
    """
    if not isinstance(roles, Mapping):
        return roles
    found: dict[Any, Any] = {}
    for role, host in roles.items():
        if not isinstance(host, list):
            found[role] = host
            continue
        if role != LOAD:
            raise ValueError(f"{role}: only {LOAD} takes a list: give {role} the name of one host")
        if not host or len({str(name) for name in host}) < len(host):
            raise ValueError(f"{role}: {host}: give one host or more, each of them once")
        expanded = {f"{LOAD}-{number}": name for number, name in enumerate(host, 1)}
        both = next((name for name in expanded if name in roles), None)
        if both:
            raise ValueError(f"{role}: its list stands for {', '.join(expanded)}: take {both} out of the roles")
        found |= expanded
    return found


def _counts(value: list[int]) -> list[int]:
    wrong = [count for count in value if not 1 <= count <= _MOST]
    if wrong or not value or len({*value}) < len(value):
        raise ValueError(f"{value}: give numbers of clients from 1, each once, such as [1, 2, 3]")
    return value


Counts = Annotated[
    list[int],
    AfterValidator(_counts),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": _MOST},
            "minItems": 1,
            "uniqueItems": True,
        }
    ),
]


class LoadedByClients(FamilyConfig):
    """The block of a family whose cases may be loaded from several hosts at once."""

    # Whether its load comes from load hosts by default; else from the role `sut`, unless a study says `clients`.
    from_load_hosts: ClassVar[bool] = True

    clients: Counts | None = Field(
        None, description="numbers of the target's load hosts that load each case; the default is all"
    )

    def why_not(self, case: Case, clients: int) -> str | None:
        """Why this many clients cannot load a case, with the fix; None if they can."""
        return None


class StorageOfClients(LoadedByClients):
    """The block of a family that measures storage: that of the role `sut`, unless a study says `clients`."""

    from_load_hosts: ClassVar[bool] = False

    clients: Counts | None = Field(
        None, description="numbers of the target's load hosts that load each case; by default, only `sut` does"
    )


def client_counts(config: FamilyConfig, roles: Mapping[str, str]) -> tuple[int, ...]:
    """How many clients load the cases of a family's block on a target; empty if that is not a factor.

    `roles`: role to host.
    """
    if not isinstance(config, LoadedByClients):
        return ()
    if config.clients is not None:
        return tuple(config.clients)
    hosts = len(load_roles(roles))
    return (hosts,) if config.from_load_hosts and hosts > 1 else ()


def roles_of_services(config: FamilyConfig, roles: Mapping[str, str]) -> Mapping[str, str]:
    """The roles that services of a family's block may have on a target; `load` may stand for several load hosts."""
    each = isinstance(config, StorageOfClients) and config.clients and any(map(generates_load, roles))
    return {LOAD: "", **roles} if each else roles


def with_clients(config: FamilyConfig, cases: Sequence[Case], counts: Sequence[int]) -> list[Case]:
    """Each case once per number of clients, as a level `clients`; without counts, the cases themselves.

    Raises StudyError with the reason if a case cannot be loaded by this many.
    """
    if not counts or not isinstance(config, LoadedByClients):
        return list(cases)
    for count in counts:
        why = next((why for case in cases if (why := config.why_not(case, count))), None)
        if why:
            raise StudyError(f"{CLIENTS}: {count}: {why}")
    return [replace(case, levels={**case.levels, CLIENTS: str(n)}) for case in cases for n in counts]


def too_many(config: FamilyConfig, roles: Mapping[str, str]) -> str | None:
    """Why a target lacks the clients that a family's block asks for, with the fix; None if it has them."""
    hosts = {role: roles[role] for role in load_roles(roles) if role in roles}
    most = max(client_counts(config, roles), default=0)
    if most <= max(1, len(hosts)):
        return None
    named = ", ".join(hosts.values())
    return (
        f"{most} clients, and it has {len(hosts)} load host{'s' * (len(hosts) != 1)} ({named}): give it more, as in "
        f"roles: {{{LOAD}: [l1, l2, …]}}, or ask for fewer"
    )

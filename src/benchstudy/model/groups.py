"""Splits a study of many hosts into groups, so that a job knows only its own hosts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from benchstudy.model.grouping import grouped
from benchstudy.model.study import Study

# With up to so many parts, each target has jobs of its own: the documented `--cores 8` runs as many at once.
MOST_ALONE = 8
# Each runs the sessions of all its targets side by side. Few: each holds 45 MiB, however many targets it has.
GROUPS = 4
# With more, resources stand for groups and parts instead of single hosts.
MOST_HOSTS = 32


@dataclass(frozen=True)
class Group:
    """Targets that one job of a family measures. `parts`: targets of one part share hosts, and take turns."""

    number: int
    parts: tuple[tuple[str, ...], ...]

    @cached_property
    def targets(self) -> list[str]:
        """Targets of all parts of the group, in the order of the study."""
        return [target for part in self.parts for target in part]

    def targets_of(self, study: Study, family: str) -> list[str]:
        """The targets on which the family is measured."""
        measured = study.families[family].targets
        return self.targets if measured is None else [target for target in self.targets if target in measured]


def connected(hosts: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Targets grouped by shared hosts, directly or through others, in their order. `hosts`: by target."""
    towards: dict[str, str] = {}

    def representative(host: str) -> str:
        while towards.setdefault(host, host) != host:
            towards[host] = host = towards[towards[host]]
        return host

    for names in hosts.values():
        first, *others = map(representative, names)
        for other in others:
            towards[representative(other)] = first
    return list(grouped((representative(next(iter(names))), target) for target, names in hosts.items()).values())


def groups(study: Study) -> list[Group]:
    """The groups of a study with more than MOST_ALONE parts that share no host; [] if each target has its own jobs.

    Each part joins the group with the fewest targets so far, so a target added at the end moves no other.
    """
    parts = connected(machines_of_targets(study))
    if len(parts) <= MOST_ALONE:
        return []
    filled: list[list[list[str]]] = [[] for _ in range(GROUPS)]
    for part in parts:
        min(filled, key=lambda group: sum(map(len, group))).append(part)
    return [Group(number, tuple(map(tuple, group))) for number, group in enumerate(filled, start=1)]


def places(study: Study) -> dict[str, set[str]]:
    """What no two jobs may use at once, by name: one machine's hosts in a small study, or those of a group."""
    together = [group.targets for group in groups(study)]
    if not together:
        if len(study.hosts) <= MOST_HOSTS:
            machines = grouped((host.machine(name), name) for name, host in study.hosts.items())
            return {f"host_{names[0]}": set(names) for names in machines.values()}
        together = connected(machines_of_targets(study))
    return {
        f"group_{number}": {host for target in targets for host in study.targets[target].roles.values()}
        for number, targets in enumerate(together, start=1)
    }


def machines_of_targets(study: Study) -> dict[str, list[str]]:
    """The machines of each target: two names of one machine count as one."""
    machines = {name: host.machine(name) for name, host in study.hosts.items()}
    return {
        name: list(dict.fromkeys(machines[host] for host in target.roles.values()))
        for name, target in study.targets.items()
    }

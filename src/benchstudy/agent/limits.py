"""Limits what one command may use, before it executes its program, and reads what it used."""

from __future__ import annotations

import os
import resource

import cgroups
import processes

_PLENTY_OF_FILES = 1 << 20
_NEARLY = 0.99  # of a limit: the kernel reclaims memory just below it


class Refused(processes.StartFailed):
    """A limit that this host cannot provide or enforce; the message says which, with the numbers."""


class Confinement:
    """The confinement that a specification asks for, prepared. Raises Refused; `close` undoes it.

    `limits` puts the command into a group of its own, even when nothing is limited, because a group accounts for memory
    and CPU time. `cpu_list` alone is not a limit: it sets the command's affinity, which needs no privileges.
    """

    def __init__(self, folder: str, spec: dict):
        limits = spec["limits"] or {}
        self.asked = {
            "cpus": limits.get("cpus"),
            "memory_bytes": limits.get("memory_bytes"),
            "cpu_list": spec["cpu_list"],
            "open_files": spec["open_files"],
        }
        self.cpus = _chosen_cpus(self.asked["cpus"], self.asked["cpu_list"])
        self.open_files: int | None = None
        self.group: cgroups.Group | None = None
        self.why_no_group: str | None = None
        _check_memory(self.asked["memory_bytes"])
        if spec["limits"] is not None:
            self._make_group(folder, spec["uuid"])

    def _make_group(self, folder: str, uuid: str) -> None:
        held_cpus = self.cpus if self.asked["cpus"] is not None else None
        memory_bytes = self.asked["memory_bytes"]
        try:
            self.group = cgroups.make(folder, uuid, held_cpus, memory_bytes)
        except cgroups.Unavailable as error:
            if held_cpus is not None or memory_bytes is not None:
                raise Refused(
                    f"this host cannot enforce limits for {processes.user_name()}: {error}; "
                    "connect as root, or as a user to whom a control group is delegated"
                ) from error
            self.why_no_group = str(error)  # nothing was to be enforced
            return
        problem = self._difference(self.group, held_cpus, memory_bytes)
        if problem:
            kind = self.group.kind
            self.close()
            raise Refused(f"{kind}: {problem}")

    @staticmethod
    def _difference(group: cgroups.Group, cpus: list[int] | None, memory_bytes: int | None) -> str | None:
        """How what the kernel reports, when read back, differs from what was set."""
        if cpus is not None and group.effective_cpus() != cpus:
            return f"the CPUs {cgroups.list_of(cpus)} were set, but {group.effective_cpus()} are in effect"
        found = group.effective_memory_bytes()
        page = resource.getpagesize()
        if memory_bytes is not None and found != memory_bytes // page * page:
            return f"a memory limit of {memory_bytes} bytes was set, but {found} is in effect"
        return None

    def admit(self, pid: int) -> None:
        """Confine the process `pid`, a child that waits before it executes its program. Raises Refused."""
        if self.group is not None:
            try:
                self.group.admit(pid)
            except OSError as error:
                kind = self.group.kind
                raise Refused(f"{kind}: the process cannot be put into its group: {error.strerror}") from error
        if self.asked["cpus"] is None and self.cpus is not None:
            os.sched_setaffinity(pid, self.cpus)
        self.open_files = _raise_open_files(pid, self.asked["open_files"])
        self.running_on = sorted(os.sched_getaffinity(pid))

    @property
    def spared(self) -> list[int]:
        """Processes that keep the group alive and are not part of the command."""
        return getattr(self.group, "spared", [])

    def described(self) -> dict:
        """For the record, once the command runs."""
        content = {
            "kind": self.group.kind if self.group else None,
            "asked": self.asked,
            "effective": {
                "cpus": self.running_on,
                "memory_bytes": self.group.effective_memory_bytes() if self.group else None,
                "open_files": self.open_files,
            },
            "peak_memory_bytes": None,
            "oom_kills": None,
            "cpu_user_s": None,
            "cpu_system_s": None,
        }
        return {**content, "why_no_group": self.why_no_group} if self.why_no_group else content

    def usage(self) -> dict:
        return self.group.usage() if self.group else {}

    def close(self) -> str | None:
        """End what is left in the group and remove it. None, or why it is still there."""
        return self.group.close() if self.group else None


def out_of_memory(limits: dict, survived: bool) -> str:
    """The cause when the kernel killed processes. `survived`: the command itself went on without them."""
    limit, peak = limits["effective"]["memory_bytes"], limits["peak_memory_bytes"]
    who = f"{limits['oom_kills']} of its processes killed" if survived else "killed"
    where = f"at its memory limit of {_shown(limit)}" if limit is not None else "because the host was out of memory"
    return f"OOM: {who} by the kernel {where} (peak {'unknown' if peak is None else _shown(peak)})"


def used_up(limits: dict | None) -> str | None:
    """The remark about a command that survived with no memory left: it may only have waited for its pages."""
    limit, peak = (limits or {}).get("effective", {}).get("memory_bytes"), (limits or {}).get("peak_memory_bytes")
    if limit is None or peak is None or peak < _NEARLY * limit:
        return None
    return f"its memory limit of {_shown(limit)} was used up"


def _shown(size: int) -> str:
    value = size / (1 << 20)
    for unit in ("MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def _chosen_cpus(number: int | None, listed: list[int] | None) -> list[int] | None:
    """The CPUs to run on; None for all."""
    allowed = sorted(os.sched_getaffinity(0))
    if listed is not None:
        foreign = [cpu for cpu in listed if cpu not in allowed]
        if foreign or not listed:
            raise Refused(f"cpu_list: CPU {cgroups.list_of(foreign)} does not exist; this host has {allowed}")
    if number is None:
        return listed and sorted(listed)
    among = allowed if listed is None else listed
    if number > len(among):
        where = "this host has" if listed is None else "cpu_list names"
        raise Refused(f"limits.cpus: {number} CPUs are requested, but {where} {len(among)}")
    return sorted(among[:number])


def _check_memory(asked: int | None) -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if asked is not None and asked > total:
        raise Refused(f"limits.memory: {_shown(asked)} are requested, but this host has {_shown(total)}")


def _raise_open_files(pid: int, asked: int | None) -> int:
    """Raise the open-files limit of `pid` to its hard limit, or higher if more are asked for. Returns the limit."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # Some programs close every possible descriptor: a thousand million, as some hosts allow, would take minutes.
    number = max(min(hard, _PLENTY_OF_FILES), asked or 0)
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, max(hard, number)))
    except (ValueError, OSError) as error:
        raise Refused(
            f"open_files: {asked} are requested, but {processes.user_name()} may have {hard} on this host "
            f"(ulimit -Hn; the kernel's own limit fs.nr_open is {_nr_open()})"
        ) from error
    return number


def _nr_open() -> str:
    with open("/proc/sys/fs/nr_open", encoding="ascii") as file:
        return file.read().strip()

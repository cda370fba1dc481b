"""Records the activity of every host of the target around each command of a trial, and keeps it with the trial."""

import logging
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.errors import HostRefused
from benchstudy.hosts.remote import CommandTimeout
from benchstudy.model import interference, machine
from benchstudy.model.files import as_json, write_atomically

log = logging.getLogger("benchstudy")

Readings = Sequence[Mapping[str, Any]]


class Neighbours:
    """The readings of one trial. The supervisor reads the host of its command; the other hosts are asked."""

    def __init__(self, hosts: Mapping[str, HostAgent]):
        self._hosts = hosts
        self._commands: list[dict[str, Any]] = []
        self._under_way = 0
        self._lock = Lock()

    @contextmanager
    def around(self, label: str, host: str, measured: bool) -> Iterator[Callable[[Readings | None], None]]:
        """Around a command on `host`. Pass the supervisor's readings to what it yields.

        `measured`: see Command. Other hosts are read around each command, which disturbs what is measured.

        Other hosts are read once for commands that run at the same time.
        """
        with self._lock:
            asks = self._under_way == 0
            self._under_way += 1
        others = {n: c for n, c in self._hosts.items() if n != host} if asks else {}
        of_host: list[Readings] = []
        try:
            before = self._read(others)
            own_before = _used_by_controller()
            yield lambda readings: of_host.append(readings or ())
            own = (own_before, _used_by_controller())
            after = self._read(others)
        finally:
            with self._lock:
                self._under_way -= 1
        found = {name: [before[name], after[name]] for name in before if name in after}
        if of_host:
            found[host] = list(of_host[0])
        about = {
            name: {
                "boot_id": (boot := self._hosts[name].boot_id),
                "controller": own if boot == machine.boot_id() else None,
                "readings": readings,
            }
            for name, readings in found.items()
        }
        self._commands.append({"label": label, "on": host, "measured": measured, "hosts": about})

    def _read(self, hosts: Mapping[str, HostAgent]) -> dict[str, Any]:
        found = {}
        for name, host in hosts.items():
            with suppress(HostRefused, CommandTimeout):  # no reading is worth a trial
                found[name] = host.read_host()
        return found

    def keep(self, files: Path) -> None:
        """Write the trial's file with what was seen, which decides from now on whether the trial was disturbed."""
        if self._commands:
            document = {"schema_version": 1, "commands": self._commands}
            try:
                document["seen"] = interference.seen(document)
            except interference.MALFORMED:
                log.exception("cannot tell what other work ran during a trial")
                document["seen"] = {}
            write_atomically(files / interference.FILE, as_json(document))


def watch(agent: HostAgent, seconds: float) -> dict[str, Any]:
    """What a host does in the next seconds, in the form that a trial keeps, for a command that does nothing."""
    own_before = _used_by_controller()
    answer = agent.call("watch-host", str(seconds))
    own = (own_before, _used_by_controller()) if answer["boot_id"] == machine.boot_id() else None
    return {"commands": [{"hosts": {agent.remote.name: {**answer, "controller": own}}}]}


def _used_by_controller() -> dict[str, Any]:
    """Usage by this process, its descendants, and processes of this terminal that wait for it, such as Snakemake.

    "cpu_s", and the bytes that disks read and wrote for them: a program whose pages were dropped is read again. "pids"
    are the processes that must not be named as neighbours.
    """
    pids = (os.getpid(), *_waiting())
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found: dict[str, Any] = {"cpu_s": sum(r.ru_utime + r.ru_stime for r in used) + sum(map(_ran_s, _waiting()))}
    found["pids"] = list(pids)
    for pid in pids:
        with suppress(OSError, ValueError, KeyError):
            io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            for name in ("read_bytes", "write_bytes"):
                found[name] = found.get(name, 0) + int(io[name])
    return found


@lru_cache(maxsize=1)
def _waiting() -> tuple[int, ...]:
    found, pid = [], os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while pid > 1 and os.getsid(pid) == os.getsid(0):
            found.append(pid)
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return tuple(found)


def _ran_s(pid: int) -> float:
    try:
        return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid() of another process
    except OSError:
        return 0.0

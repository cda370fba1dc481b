"""Samples of the processes and the disk beside a load: taken in a thread, read afterwards, and what limited the log."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import ParseError

if TYPE_CHECKING:
    from benchstudy.hosts.agent import RunningService
    from benchstudy.measuring.trial import TrialContext

SERVER, DATABASE, GENERATOR = "server", "database", "generator"
SAMPLES = "samples"  # folders of the samplers' output begin so
_INTERVAL_S = 0.25
_BUSY = 0.9  # of a processor or disk: nothing else waits for it without queueing
_HOST_FULL = 0.95
_FOREIGN = 0.3  # of a host's CPUs in the hands of others: nothing can be said
_DISTURBED = 0.1  # so much of them explains a stall that nothing else does
_IN_FSYNC = 0.6  # of the samples
_READY = 0.5  # threads that wait for a processor, on average: it is short, though idle between bursts
_CPU_OF = {SERVER: "server CPU", GENERATOR: "generator CPU: client-limited", DATABASE: "database: its CPU"}


@dataclass
class _Watched:
    """On one host."""

    role: str
    services: dict[str, list[str]] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    disk: str | None = None


@contextmanager
def sampled(
    trial: "TrialContext",
    servers: Sequence["RunningService"],
    databases: Sequence["RunningService"],
    program: str,
    load_role: str,
    disk: str | None,
    suffix: str = "",
) -> Iterator[None]:
    """Samples while the block runs, on each host that has a part; `<trial>/samples-<host><suffix>/stdout` has them.

    `program`: of the generator. `disk`: a folder on the first server's host. Sampling that fails is a note, no failure.
    """
    watched: dict[str, _Watched] = {}

    def on(role: str) -> _Watched:
        return watched.setdefault(trial.roles[role], _Watched(role))

    for name, members in ((SERVER, servers), (DATABASE, databases)):
        for running in members:
            role = trial.config.services[running.name].role
            on(role).services.setdefault(name, []).append(running.folder)
    on(load_role).programs[GENERATOR] = program
    on(trial.config.services[servers[0].name].role).disk = disk
    samplers = [_Sampler(trial, host, what, suffix) for host, what in watched.items()]
    for sampler in samplers:
        sampler.start()
    try:
        yield
    finally:
        for sampler in samplers:
            sampler.end()


class _Sampler(Thread):
    def __init__(self, trial: "TrialContext", host: str, what: _Watched, suffix: str):
        super().__init__(name=f"samples of {host}", daemon=True)
        self.trial, self.host, self.what, self.suffix = trial, host, what, suffix
        self.until = f"{trial.scratch('/tmp', what.role)}/samples-{trial.uuid}{suffix}"

    def run(self) -> None:
        from benchstudy.hosts.agent import Command

        spec = {
            "interval_s": _INTERVAL_S,
            "until": self.until,
            "most_s": self.trial.config.timeout,
            "services": self.what.services,
            "programs": self.what.programs,
            "disk": self.what.disk,
        }
        command = Command(
            self.trial.agent_argv("log_samples:sample", role=self.what.role),
            stdin=json.dumps(spec).encode() + b"\n",
            timeout_s=self.trial.config.timeout + 60.0,
            max_output_bytes=64 << 20,
            label=f"{SAMPLES}-{self.host}{self.suffix}",
        )
        try:
            done = self.trial.execute(command, self.what.role)
            if done.execution.exit_status != 0:
                self._failed(done.stderr.read_text(errors="replace")[-300:] or done.execution.state)
        except BenchstudyError as error:
            self._failed(str(error))

    def end(self) -> None:
        try:
            self.trial.agent_call("log_samples:end", self.until, role=self.what.role)
        except BenchstudyError as error:
            self._failed(str(error))  # it ends with the session's lease
        self.join(timeout=30.0)

    def _failed(self, why: str) -> None:
        self.trial.note(**{f"samples_of_{self.host}": f"not taken: {why}"})


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shares:
    """Of what a process may use, between two moments: processor as a share, the rest as rates."""

    cpu: float | None
    rss_peak: float | None
    fsync: float | None  # share of the samples with a thread in fsync
    cpu_wait: float | None = None  # threads that were ready and had no processor, on average; None: not counted


@dataclass(frozen=True)
class Found:
    """What the samples of all hosts say about a window. `rows`: the series `resources`."""

    processes: Mapping[str, Shares]
    host_cpu: Mapping[str, float]  # busy share of all CPUs, by host
    own_cpu: Mapping[str, float]  # of that, by the processes above
    disk_write: float | None  # B/s
    disk_busy: float | None
    rows: Sequence[Mapping[str, Any]]


def read_samples(files: Path, cpus: Mapping[str, int], begin: float, end: float, started: float) -> Found:
    """`cpus`: how many each process may use. `begin`, `end`: the window, and `started`: the time from which rows count,
    on the hosts' wall clock. Raises ParseError.
    """
    processes: dict[str, Shares] = {}
    host_cpu: dict[str, float] = {}
    own_cpu: dict[str, float] = {}
    disk_write = disk_busy = None
    rows: list[dict[str, Any]] = []
    for folder in sorted(files.glob(f"{SAMPLES}-*")):
        head, samples = _lines(folder / "stdout")
        inside = [sample for sample in samples if begin <= sample["wall"] <= end]
        rows += _rows(samples, cpus, started)
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        took = last["t"] - first["t"]
        host_cpu[folder.name] = (last["host_cpu_s"] - first["host_cpu_s"]) / (took * head["cpus"])
        own_cpu[folder.name] = 0.0
        for name in last["processes"]:
            if not any(sample["processes"][name]["threads"] for sample in inside):
                continue
            spent = last["processes"][name]["cpu_s"] - first["processes"][name]["cpu_s"]
            own_cpu[folder.name] += spent / (took * head["cpus"])
            processes[name] = Shares(
                cpu=spent / (took * cpus.get(name, head["cpus"])),
                rss_peak=max(sample["processes"][name]["rss_bytes"] for sample in inside),
                fsync=sum(sample["processes"][name]["fsync"] > 0 for sample in inside) / len(inside),
                cpu_wait=_waited(first["processes"][name], last["processes"][name], took),
            )
        if last["disk"] and first["disk"]:
            disk_write = (last["disk"]["written_bytes"] - first["disk"]["written_bytes"]) / took
            disk_busy = min((last["disk"]["busy_s"] - first["disk"]["busy_s"]) / took, 1.0)
    return Found(processes, host_cpu, own_cpu, disk_write, disk_busy, rows)


def _waited(first: Mapping[str, Any], last: Mapping[str, Any], took: float) -> float | None:
    begun, ended = (moment.get("cpu_wait_s") for moment in (first, last))
    # Samples of before it was counted have none.
    return None if begun is None or ended is None else (ended - begun) / took


def _lines(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    if not path.is_file():
        raise ParseError(f"the file {path.parent.name}/{path.name} is missing")
    lines = path.read_text(errors="replace").splitlines()
    try:
        head, *samples = [json.loads(line) for line in lines]
        return {"cpus": head["cpus"]}, samples
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"{path.parent.name}/{path.name} is truncated or no list of samples: {error}") from error


def _rows(samples: Sequence[Mapping[str, Any]], cpus: Mapping[str, int], started: float) -> Iterator[dict[str, Any]]:
    """One row a second and process, for a chart; the disk is a process without a processor."""
    kept: list[Mapping[str, Any]] = []
    for sample in samples:
        if not kept or sample["t"] - kept[-1]["t"] >= 1.0 - _INTERVAL_S / 2:
            kept.append(sample)
    for before, after in pairwise(kept):
        took, moment = after["t"] - before["t"], after["wall"] - started
        for name, now in after["processes"].items():
            then = before["processes"][name]
            written = [p["write_bytes"] for p in (then, now)]
            rate = None if None in written else max(written[1] - written[0], 0) / took
            share = (now["cpu_s"] - then["cpu_s"]) / (took * cpus.get(name, 1))
            yield {"t_s": moment, "process": name, "cpu_share": share, "disk_write_b_per_s": rate}
        if after["disk"] and before["disk"]:
            rate = (after["disk"]["written_bytes"] - before["disk"]["written_bytes"]) / took
            yield {"t_s": moment, "process": "disk", "cpu_share": None, "disk_write_b_per_s": rate}


def limited_by(found: Found, *, at_its_limit: bool) -> str:
    """Which resource the log, or its generator, had used up; begins with the resource's name.

    `at_its_limit`: it did less than was asked for. Otherwise nothing was a limit.
    """
    if not at_its_limit:
        return "nothing: the offered rate was met"
    used = {name: shares.cpu or 0.0 for name, shares in found.processes.items()}
    shown = ", ".join(f"{name} {share:.0%}" for name, share in used.items())
    if used.get(GENERATOR, 0.0) >= _BUSY:
        return f"generator CPU: client-limited ({shown})"
    if used.get(SERVER, 0.0) >= _BUSY:
        return f"server CPU ({shown})"
    if used.get(DATABASE, 0.0) >= _BUSY:
        return f"database: its CPU ({shown})"
    full = [host for host, share in found.host_cpu.items() if share >= _HOST_FULL]
    foreign = max((found.host_cpu[host] - found.own_cpu[host] for host in full), default=0.0)
    if foreign > _FOREIGN:
        whose = "other processes and the kernel's own threads"
        return f"unknown: {whose} had {foreign:.0%} of the host's CPUs, all of which were busy ({shown})"
    if full and used:
        name = max(used, key=lambda process: used[process])
        return f"{_CPU_OF[name]}, on a host whose CPUs all were busy ({shown})"
    for name, what in ((DATABASE, "database: waits for fsync"), (SERVER, "fsync: the server waits for the disk")):
        share = (found.processes[name].fsync or 0.0) if name in found.processes else 0.0
        if share >= _IN_FSYNC:
            return f"{what} in {share:.0%} of the samples ({shown})"
    if (found.disk_busy or 0.0) >= _BUSY:
        return f"disk: busy {found.disk_busy:.0%} of the time ({shown})"
    if found.disk_busy is not None:
        shown += f", disk busy {found.disk_busy:.0%}"
    foreign = max((found.host_cpu[host] - found.own_cpu[host] for host in found.host_cpu), default=0.0)
    if foreign >= _DISTURBED:
        return f"unknown: no resource was used up, and other processes had {foreign:.0%} of the host's CPUs ({shown})"
    ready = {name: shares.cpu_wait or 0.0 for name, shares in found.processes.items()}
    name = max(ready, key=lambda process: ready[process], default=SERVER)
    if ready.get(name, 0.0) >= _READY:
        bursts = f"in bursts: {ready[name]:.1f} of its threads were ready and had none, on average"
        return f"{_CPU_OF[name]}, {bursts} ({shown})"
    return f"unknown: no resource was used up ({shown})"

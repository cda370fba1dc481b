"""Parser of the samples of processes and disk during a load. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchstudy.families.log_write.layout import INTERVAL_S, SAMPLES
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError
from benchstudy.model.interference import disk_busy_s


@dataclass(frozen=True)
class Shares:
    """Resources of a process between two moments. `cpu`: share of what it may use. `rss_peak`: in bytes."""

    cpu: float | None
    rss_peak: float | None
    fsync: float | None  # share of samples with a thread in fsync
    cpu_wait: float | None = None  # mean number of threads that waited for a CPU; None: not counted


@dataclass(frozen=True)
class Found:
    """The samples of all hosts in a window. `rows`: the series `resources`."""

    processes: Mapping[str, Shares]  # if several hosts run a process: the highest share of any host
    host_cpu: Mapping[str, float]  # busy share of all CPUs, by host
    own_cpu: Mapping[str, float]  # the part of it that the processes above used
    disk_write: float | None  # B/s
    disk_busy: float | None
    rows: Sequence[Mapping[str, Any]]


@damaged("the samples are damaged")
def read_samples(
    files: Path,
    cpus: Mapping[str, int],
    begin: float,
    end: float,
    started: float,
    ahead_s: Mapping[str, float] = MappingProxyType({}),
) -> Found:
    """Read the samples of a window. Raises ParseError.

    `cpus`: the number of CPUs that each process may use. `begin`, `end`: the window, and `started`: the time zero of
    rows, in Unix seconds by the clock of the load host. `ahead_s`: the clock of each host minus that one.
    """
    processes: dict[str, Shares] = {}
    host_cpu: dict[str, float] = {}
    own_cpu: dict[str, float] = {}
    disk_write = disk_busy = None
    rows: list[dict[str, Any]] = []
    read = {folder.name: _lines(folder / "stdout") for folder in sorted(files.glob(f"{SAMPLES}-*"))}
    for folder, (_, samples) in read.items():
        for sample in samples:
            sample["wall"] -= ahead_s.get(_host_of(folder), 0.0)
    hosts_of = Counter(name for _, name in {(_host_of(f), name) for f, (_, s) in read.items() for name in _names(s)})
    for folder, (head, samples) in read.items():
        inside = [sample for sample in samples if begin <= sample["wall"] <= end]
        may_use = {name: head["may_use"].get(name, cpus.get(name, head["cpus"])) for name in _names(samples)}
        titles = {name: f"{name} on {_host_of(folder)}" if hosts_of[name] > 1 else name for name in may_use}
        rows += _rows(samples, may_use, titles, started)
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        took = last["t"] - first["t"]
        host_cpu[folder] = (last["host_cpu_s"] - first["host_cpu_s"]) / (took * head["cpus"])
        own_cpu[folder] = 0.0
        for name in last["processes"]:
            if not any(sample["processes"][name]["threads"] for sample in inside):
                continue
            spent = last["processes"][name]["cpu_s"] - first["processes"][name]["cpu_s"]
            own_cpu[folder] += spent / (took * head["cpus"])
            shares = Shares(
                cpu=spent / (took * may_use[name]),
                rss_peak=max(sample["processes"][name]["rss_bytes"] for sample in inside),
                fsync=sum(sample["processes"][name]["fsync"] > 0 for sample in inside) / len(inside),
                cpu_wait=_waited(first["processes"][name], last["processes"][name], took),
            )
            processes[name] = _highest(processes[name], shares) if name in processes else shares
        if last["disk"] and first["disk"]:
            disk_write = (last["disk"]["written_bytes"] - first["disk"]["written_bytes"]) / took
            disk_busy = min(disk_busy_s(first["disk"], last["disk"]) / took, 1.0)
    return Found(processes, host_cpu, own_cpu, disk_write, disk_busy, rows)


def _names(samples: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    return samples[0]["processes"] if samples else ()


def _host_of(folder: str) -> str:
    """Return the host of `samples-<host>`, or of `samples-<host>-start-2`."""
    return re.sub(r"-start-\d+$", "", folder.removeprefix(f"{SAMPLES}-"))


def _highest(one: Shares, other: Shares) -> Shares:
    """Return the highest of each share, because a load ends with the first of its hosts that is at its end."""
    pairs = ((getattr(one, each.name), getattr(other, each.name)) for each in fields(Shares))
    return Shares(*(max((value for value in pair if value is not None), default=None) for pair in pairs))


def _waited(first: Mapping[str, Any], last: Mapping[str, Any], took: float) -> float | None:
    begun, ended = (moment.get("cpu_wait_s") for moment in (first, last))
    # Older samples have no such count.
    return None if begun is None or ended is None else (ended - begun) / took


def _lines(path: Path) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    if not path.is_file():
        raise ParseError(f"the file {path.parent.name}/{path.name} is missing")
    lines = path.read_text(errors="replace").splitlines()
    try:
        head, *samples = [json.loads(line) for line in lines]
        return {"cpus": head["cpus"], "may_use": head.get("may_use", {})}, samples
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"{path.parent.name}/{path.name} is truncated or not a list of samples: {error}") from error


def _rows(
    samples: Sequence[Mapping[str, Any]], may_use: Mapping[str, int], titles: Mapping[str, str], started: float
) -> Iterator[dict[str, Any]]:
    """Yield one row per second and process; the disk is a process without CPU."""
    kept: list[Mapping[str, Any]] = []
    for sample in samples:
        if not kept or sample["t"] - kept[-1]["t"] >= 1.0 - INTERVAL_S / 2:
            kept.append(sample)
    for before, after in pairwise(kept):
        took, moment = after["t"] - before["t"], after["wall"] - started
        for name, now in after["processes"].items():
            then = before["processes"][name]
            written = [p["write_bytes"] for p in (then, now)]
            rate = None if None in written else max(written[1] - written[0], 0) / took
            share = (now["cpu_s"] - then["cpu_s"]) / (took * may_use[name])
            yield {"t_s": moment, "process": titles[name], "cpu_share": share, "disk_write_b_per_s": rate}
        if after["disk"] and before["disk"]:
            rate = (after["disk"]["written_bytes"] - before["disk"]["written_bytes"]) / took
            yield {"t_s": moment, "process": "disk", "cpu_share": None, "disk_write_b_per_s": rate}

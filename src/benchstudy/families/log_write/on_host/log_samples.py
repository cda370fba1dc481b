"""Samples of a log's processes and disk during a write load, a few times per second."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

import processes
import record
import wire

_FSYNC = {"x86_64": (74, 75, 162, 277, 306), "aarch64": (81, 82, 83, 84, 267)}  # (f(data)sync, sync, sync_file_range)
_MOST_THREADS = 64  # threads per process whose waiting is read: some databases have hundreds
_MOST_S = 24 * 3600.0
_SECTOR = 512


def sample(arguments: list[str]) -> None:
    """`log-samples`: first line of stdin {"interval_s", "until": a file whose existence ends the sampling, "most_s",
    "services": {process: [folders of services]}, "programs": {process: path of the program}, "disk": folder or null,
    "may_use": {process: number of CPUs, where the reader does not know it otherwise}}.

    Prints one line of JSON, {"cpus": number of CPUs that this host may use, "may_use", "disk": name or null, "pid"},
    then one per sample: {"t": monotonic s, "wall": s, "host_cpu_s": busy time of these CPUs, "processes": {process:
    {"cpu_s", "rss_bytes", "write_bytes": null if this user may not read it, "threads", "fsync": threads in fsync,
    "waiting": threads in disk sleep, "cpu_wait_s": time for which threads waited for a CPU, null if not counted}},
    "disk": {"written_bytes", "busy_s"}}. Counters are cumulative: the reader takes differences.
    """
    spec = json.loads(wire.Lines().next() or b"{}")
    disk = disk_of(spec["disk"]) if spec.get("disk") else None
    own = sorted(os.sched_getaffinity(0))
    name = disk and os.path.basename(os.path.realpath(disk))
    wire.emit({"cpus": len(own), "may_use": spec.get("may_use", {}), "disk": name, "pid": os.getpid()})
    deadline = time.monotonic() + min(spec.get("most_s", _MOST_S), _MOST_S)
    ended: dict[str, dict[int, float]] = {}
    waited: dict[str, dict[int, float]] = {}
    due = time.monotonic()
    while not os.path.exists(spec["until"]) and time.monotonic() < deadline:
        members = _members(spec.get("services", {}), spec.get("programs", {}))
        found = {
            name: _used(pids, ended.setdefault(name, {}), waited.setdefault(name, {})) for name, pids in members.items()
        }
        moment = {"t": time.monotonic(), "wall": time.time(), "host_cpu_s": _host_cpu_s(own), "processes": found}
        wire.emit({**moment, "disk": _disk_used(disk) if disk else None})
        due = max(due + spec["interval_s"], time.monotonic() + 0.01)
        time.sleep(max(0.0, due - time.monotonic()))


def end(arguments: list[str]) -> None:
    """`log-samples-end FILE`: create the file that ends the sampling."""
    (path,) = arguments
    with open(path, "w", encoding="utf-8"):
        pass
    wire.emit({"ended": path})


def key(arguments: list[str]) -> None:
    """`log-key FILE`: print {"text", "problem": why it is not a valid file of a public key, or null}."""
    (path,) = arguments
    try:
        with open(path, "rb") as file:
            content = file.read(4096)
    except OSError as error:
        wire.emit({"text": "", "problem": f"the public key {path}: {error.strerror}"})
        return
    text = content.decode("utf-8", "replace")
    problem = None
    if text.strip() != text:
        where = "ends with a newline" if text.endswith("\n") else "begins or ends with white space"
        problem = f"the key file {path} {where}: it must contain nothing but the key (printf %s, not echo)"
    elif text.startswith("PRIVATE+KEY+"):
        problem = f"the key file {path} holds a private key instead of the public key"
    elif text.count("+") < 2:
        problem = f"the key file {path} holds no public key, which has the form NAME+HASH+KEY"
    wire.emit({"text": "" if text.startswith("PRIVATE") else text, "problem": problem})


def disk_of(folder: str) -> str | None:
    """Return the folder in /sys of the disk that holds `folder`; None if it is not on a disk of this host."""
    device = os.stat(folder).st_dev
    path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    return path if os.path.exists(path + "/stat") else None


def _members(services: dict, programs: dict) -> dict[str, list[int]]:
    """Return the current process IDs by name."""
    found: dict[str, list[int]] = {name: [] for name in (*services, *programs)}
    for name, folders in services.items():
        for folder in folders:
            supervisor = (record.read(folder) or {}).get("supervisor_pid")
            if supervisor:
                found[name] += processes.descendants(supervisor)
    wanted = {os.fsencode(path): name for name, path in programs.items()}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()) if wanted else ():
        with suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                name = wanted.get(file.read().partition(b"\0")[0])
            if name is not None and _is_of_this_host(pid):
                found[name].append(pid)
    return found


def _is_of_this_host(pid: int) -> bool:
    """Whether the process was started for the host of this one: several hosts of a study may be one machine."""
    own = os.fsencode(f"BENCHSTUDY_LOCK={os.environ.get('BENCHSTUDY_LOCK')}")
    with open(f"/proc/{pid}/environ", "rb") as file:
        return own in file.read().split(b"\0")


def _used(pids: list[int], known: dict[int, float], waited: dict[int, float]) -> dict:
    """Return the sums over all processes.

    `known`: CPU time of each process, including those that ended, so that the sum never falls. `waited`: time for which
    each thread waited for a CPU, including those that ended.
    """
    total: dict[str, float] = {"rss_bytes": 0, "threads": 0, "fsync": 0, "waiting": 0}
    written: int | None = 0
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            known[pid] = (int(fields[11]) + int(fields[12])) / tick
            total["threads"] += int(fields[17])
            total["rss_bytes"] += int(fields[21]) * page
            own = _written(pid)
            written = None if own is None or written is None else written + own
            for state, call in _threads(pid, waited):
                total["waiting"] += state == b"D"
                total["fsync"] += call in _FSYNC.get(os.uname().machine, ())
    cpu_s, cpu_wait_s = round(sum(known.values()), 3), round(sum(waited.values()), 3) if waited else None
    return {"cpu_s": cpu_s, **total, "write_bytes": written, "cpu_wait_s": cpu_wait_s}


def _written(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            pairs = dict(line.split(b":") for line in file.read().splitlines())
    except OSError:
        return None
    return int(pairs[b"write_bytes"])


def _threads(pid: int, waited: dict[int, float]):
    """Yield (state, number of the current system call or None) per thread, up to a limit. Updates `waited`."""
    for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int)[:_MOST_THREADS]:
        with suppress(OSError, IndexError):
            folder = f"/proc/{pid}/task/{thread}"
            with open(f"{folder}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            with suppress(OSError, ValueError, IndexError), open(f"{folder}/schedstat", "rb") as file:
                waited[int(thread)] = int(file.read().split()[1]) / 1e9
            call = None
            with suppress(OSError, ValueError), open(f"{folder}/syscall", "rb") as file:
                call = int(file.read().split()[0])
            yield state, call


def _host_cpu_s(cpus: list[int]) -> float:
    """Return the busy time of these CPUs. In a container, the others of its machine are not this host's."""
    busy = {}
    with open("/proc/stat", "rb") as file:
        for name, *counts in (line.split() for line in file if line.startswith(b"cpu")):
            user, nice, system, _idle, _wait, interrupt, soft = map(int, counts[:7])
            busy[name] = user + nice + system + interrupt + soft
    # lxcfs shows a container only its own CPUs, under other numbers.
    own = [busy[name] for cpu in cpus if (name := b"cpu%d" % cpu) in busy] or [busy[b"cpu"]]
    return sum(own) / os.sysconf("SC_CLK_TCK")


def _disk_used(folder: str) -> dict | None:
    try:
        with open(f"{folder}/stat", "rb") as file:
            fields = file.read().split()
    except OSError:
        return None
    return {"written_bytes": int(fields[6]) * _SECTOR, "busy_s": int(fields[9]) / 1000}

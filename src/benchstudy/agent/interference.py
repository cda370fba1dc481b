"""What the whole host did, and what of it was ours: counters that are read before and after a command.

Ours are the processes below those that joined the session's accounts: supervisors, the keeper, the desk with its SSH
connection. A process that ends leaves its times with the one that waited for it, so none is lost between two readings;
where a command has a control group, that counts also those that nobody waited for. Who of the others was busiest is
told by name, because that is what a person asks next.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import time
from collections import namedtuple
from contextlib import suppress

import cgroups
import record

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SECTOR = 512  # bytes, in /proc/diskstats, whatever the disk has
_KTHREADD = 2
_ENDED = "ended"
_FIRST_POINT_S = 1.0
_MOST_POINTS = 16
_BUSIEST = 3
_SSH_SERVERS = (b"sshd", b"dropbear")


# `ran_s`: seconds on processors, of its own threads; `started`: in ticks since the host's start.
Process = namedtuple("Process", "parent ran_s started")


class Accounts:
    """Which processes are a session's, in a folder of the session's own: a file for each that others descend from.

    Without a session's folder, as of a command under no lock, there is nobody but the reader itself.
    """

    def __init__(self, session_dir: str):
        self.folder = os.path.join(session_dir, "accounts")

    def join(self, pid: int, run_folder: str = "", alone: bool = False) -> None:
        """From now on `pid` is ours, with all below it unless `alone`. `run_folder`: of the command it supervises."""
        with suppress(OSError, IndexError):
            started = _stat(pid)[19]
            with open(os.path.join(self.folder, str(pid)), "x", encoding="ascii") as file:
                json.dump({"started": int(started), "run": run_folder, "alone": alone}, file)

    def leave(self) -> None:
        """This process ends: what it used, with all it waited for, stays in the books."""
        mine = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        used = {"cpu_s": sum(r.ru_utime + r.ru_stime for r in mine), **(_io(os.getpid()) or {})}
        with suppress(OSError, ValueError), self._ended("r+") as file:
            before = json.load(file)
            file.seek(0)
            file.truncate()
            json.dump({name: before.get(name, 0) + used.get(name, 0) for name in {*before, *used}}, file)
            file.flush()
            os.unlink(os.path.join(self.folder, str(os.getpid())))

    def open(self) -> None:
        """Make the books of a new session."""
        os.mkdir(self.folder, 0o700)
        with open(os.path.join(self.folder, _ENDED), "x", encoding="ascii") as file:
            file.write("{}")

    def roots(self) -> tuple[dict, dict]:
        """Those that live, by pid, and what those used that ended."""
        try:
            with self._ended("r") as file:
                ended = json.load(file)
                found = {}
                for name in os.listdir(self.folder):
                    if name.isdigit():
                        with open(os.path.join(self.folder, name), encoding="ascii") as entry:
                            found[int(name)] = json.load(entry)
                return found, ended
        except (OSError, ValueError):
            return {}, {}

    def _ended(self, mode: str):
        file = open(os.path.join(self.folder, _ENDED), mode, encoding="ascii")  # noqa: SIM115 the caller closes it
        fcntl.flock(file, fcntl.LOCK_EX)  # who leaves must not be counted twice, nor not at all
        return file


def of_run(run_folder: str, session: str) -> Accounts:
    """The accounts of the session that a command or service belongs to."""
    return Accounts(os.path.join(os.path.dirname(os.path.dirname(run_folder)), "sessions", session))


def join_desk(accounts: Accounts, desk: int) -> None:
    """The desk is ours, with the SSH connection that it came by and all else that this connection started."""
    accounts.join(desk)
    above = desk
    servers = []
    with suppress(OSError, IndexError, ValueError):
        while (above := int(_stat(above)[1])) > 1:
            if _comm(above).startswith(_SSH_SERVERS):
                servers.append(above)
    for number, pid in enumerate(servers):
        # The next one listens for others, too.
        accounts.join(pid, alone=number > 0)


def join(arguments: list[str]) -> None:
    """`join-accounts SESSION_DIR`, asked at the desk: {"boot_id"} of the host that the readings are of."""
    import wire

    join_desk(Accounts(arguments[0]), os.getppid())
    wire.emit({"boot_id": record.boot_id()})


def read_command(arguments: list[str]) -> None:
    """`read-host SESSION_DIR`: one reading, see `Reader.read`."""
    import wire

    wire.emit(Reader(Accounts(arguments[0])).read())


def watch(arguments: list[str]) -> None:
    """`watch-host SECONDS`: {"boot_id", "readings"} of so long a window, in which we do nothing."""
    import wire

    reader = Reader(Accounts(""))
    reader.begin()
    time.sleep(float(arguments[0]))
    reader.end()
    wire.emit({"boot_id": record.boot_id(), "readings": reader.readings})


class Reader:
    """Readings of one window. It remembers what others had used at the first, to name the busiest at the last."""

    def __init__(self, accounts: Accounts):
        self._accounts = accounts
        self._at_first: dict[int, float] | None = None
        self._known: dict[int, Process] = {}
        self.readings: list[dict] = []
        self._step_s = _FIRST_POINT_S

    def begin(self) -> None:
        self.readings = [self.read()]

    def next_point(self) -> float:
        """When, on the monotonic clock, the next reading inside the window is due."""
        return self.readings[-1]["monotonic"] + self._step_s

    def point(self) -> None:
        """A reading inside the window. Their number is bounded however long it is: every second one goes."""
        self.readings.append(self.read())
        if len(self.readings) > _MOST_POINTS:
            self.readings = self.readings[::2]
            self._step_s *= 2

    def end(self) -> None:
        self.readings.append(self.read())

    def read(self) -> dict:
        """Counters since the host's start, in seconds, bytes and numbers; what the kernel does not tell is None.

        "busy_s" is what the kernel's ticks saw, "kernel_s" interrupts and the kernel's own threads, "ours_s" ours, and
        "resolution_s" how far these may be off. "others_s" is that of others' processes which still live, exactly.
        "busiest": of these, from the second reading on.
        """
        begun = time.thread_time()
        stat, at = _lines("/proc/stat"), time.monotonic()
        counters = times(stat)
        kernels = {_KTHREADD, *_children(_KTHREADD)} if _comm(_KTHREADD) == b"kthreadd" else set()
        self._known = processes = _processes(self._known, kernels)
        ours, used, io, inexact = self._ours(processes)
        others = {pid: process.ran_s for pid, process in processes.items() if pid not in ours}
        available, dirty, due = _numbers("/proc/meminfo", "MemAvailable:", "Dirty:", "Writeback:")
        swapped = _numbers("/proc/vmstat", "pswpin", "pswpout")
        reading = {
            **counters,
            "monotonic": at,
            "wall": time.time(),
            "others_s": sum(others.values()),
            "kernel_s": counters["interrupts_s"] + sum(map(_clock_or_none_s, kernels)),
            "ours_s": used,
            "resolution_s": (2 + 2 * inexact) / _TICKS,
            "ours_io": io,
            "pressure": {kind: pressure(_lines(f"/proc/pressure/{kind}")) for kind in ("cpu", "io", "memory")},
            "disks": {n: d for n, d in disks(_lines("/proc/diskstats")).items() if _is_real("block", n)},
            "interfaces": {n: i for n, i in interfaces(_lines("/proc/net/dev")).items() if _is_real("net", n)},
            "available_bytes": None if available is None else available * 1024,
            "dirty_bytes": ((dirty or 0) + (due or 0)) * 1024,
            "swapped_bytes": None if None in swapped else sum(pages or 0 for pages in swapped) * _PAGE,
            **_clock_rate(),
        }
        if self._at_first is None:
            self._at_first = others
        else:
            first = self._at_first
            grown = {pid: ran_s - first.get(pid, 0.0) for pid, ran_s in others.items()}
            reading["others_s"] = sum(first.values()) + sum(grown.values())
            reading["busiest"] = _busiest(grown)
        reading["cost_s"] = time.thread_time() - begun
        return reading

    def _ours(self, processes: dict[int, Process]) -> tuple[set[int], float, dict | None, int]:
        """Our processes, their processor time, their disk bytes, and how many of the times are in ticks only."""
        roots, ended = self._accounts.roots()
        roots.setdefault(os.getpid(), {"run": "", "alone": False})
        children: dict[int, list[int]] = {}
        for pid, process in processes.items():
            children.setdefault(process.parent, []).append(pid)
        ours: set[int] = set()
        total_s, inexact = ended.get("cpu_s", 0.0), 0
        for root, what in roots.items():
            if root not in processes or root in ours:
                continue
            process = processes[root]
            if what.get("started", process.started) != process.started:
                continue
            below = _tree(root, children) - ours
            # What an earlier listener gave to others is not ours, only what it did itself.
            tree_s = process.ran_s if what["alone"] else 0.0
            if not what["alone"]:
                for pid in below:
                    waited_s, is_exact = _waited_s(pid)
                    tree_s += processes[pid].ran_s + waited_s
                    inexact += not is_exact
            group = cgroups.usage_of(cgroups.registered(what["run"])) if what["run"] else {}
            if group.get("cpu_user_s") is not None:
                # Of the two, what counts more: neither counts what is not ours.
                tree_s = max(tree_s, process.ran_s + group["cpu_user_s"] + group["cpu_system_s"])
            ours |= {root} if what["alone"] else below
            total_s += tree_s
        return ours, total_s, _sum_io(ours, ended), min(inexact, 4)


def _busiest(grown: dict[int, float]) -> list[dict]:
    used = sorted(((ran_s, pid) for pid, ran_s in grown.items() if ran_s > 0), reverse=True)[:_BUSIEST]
    return [{"name": _comm(pid).decode("utf-8", "replace"), "pid": pid, "cpu_s": round(s, 4)} for s, pid in used]


def times(lines: list[str]) -> dict:
    """Of /proc/stat: seconds of all processors together, their number, and how many tasks run or wait to."""
    fields = [int(word) / _TICKS for word in lines[0].split()[1:]]
    fields += [0.0] * (8 - len(fields))
    running = next((int(line.split()[1]) for line in lines if line.startswith("procs_running ")), None)
    return {
        "cpus": sum(line.startswith("cpu") for line in lines) - 1,
        "busy_s": sum(fields[:3]) + sum(fields[5:7]),
        "idle_s": fields[3] + fields[4],
        "interrupts_s": fields[5] + fields[6],
        "steal_s": fields[7],
        "running": running,
    }


def pressure(lines: list[str]) -> float | None:
    """Seconds in which some task waited; None where the kernel does not count them."""
    some = next((line for line in lines if line.startswith("some ")), None)
    return int(some.rpartition("total=")[2]) / 1e6 if some else None


def disks(lines: list[str]) -> dict[str, dict]:
    """Of /proc/diskstats. "flushes" since Linux 5.5."""
    found = {}
    for line in lines:
        _, _, name, *rest = line.split()
        if name.startswith(("loop", "ram", "zram")):
            continue
        numbers = [int(word) for word in rest]
        found[name] = {
            "reads": numbers[0],
            "read_bytes": numbers[2] * _SECTOR,
            "writes": numbers[4],
            "written_bytes": numbers[6] * _SECTOR,
            "busy_s": numbers[9] / 1000,
            "flushes": numbers[15] if len(numbers) > 15 else None,
        }
    return found


def interfaces(lines: list[str]) -> dict[str, dict]:
    """Of /proc/net/dev."""
    found = {}
    for line in lines[2:]:
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            continue
        numbers = [int(word) for word in rest.split()]
        found[name.strip()] = {"received_bytes": numbers[0], "sent_bytes": numbers[8]}
    return found


def _is_real(kind: str, name: str) -> bool:
    """Whether it is hardware, and no partition, mapping or bridge, through which the same bytes pass again."""
    return os.path.exists(f"/sys/class/{kind}/{name}/device")


def _processes(known: dict[int, Process], kernels: set[int]) -> dict[int, Process]:
    """Every process but the `kernels` own. Of one that is `known`, only its time is asked, which takes 1 µs."""
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - kernels
    found = {}
    for pid in pids:
        before = known.get(pid)
        try:
            ran_s = _clock(pid)
            if before is not None and (before.parent in pids or not before.parent) and ran_s >= before.ran_s:
                found[pid] = before._replace(ran_s=ran_s)
            else:  # new, or its parent ended and another one takes it
                fields = _stat(pid)
                found[pid] = Process(int(fields[1]), ran_s, int(fields[19]))
            if found[pid].parent in kernels:  # a kernel that does not list children
                kernels.add(pid)
                del found[pid]
        except (OSError, IndexError, ValueError):
            continue  # it ended: who waited for it has its times
    return found


def _stat(pid: int) -> list[bytes]:
    """Of /proc/PID/stat what follows the name: state, parent, …"""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 2048).rpartition(b")")[2].split()
    finally:
        os.close(fd)


def _clock(pid: int) -> float:
    """The seconds that all threads of a process ran, to the nanosecond where /proc has ticks. Raises OSError."""
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid() makes it


def _waited_s(pid: int) -> tuple[float, bool]:
    """What the children used that a process waited for, and whether that is known better than to a tick."""
    if pid == os.getpid():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime, True
    try:
        fields = _stat(pid)
        ticks = int(fields[13]) + int(fields[14])
    except (OSError, IndexError):
        return 0.0, True
    return ticks / _TICKS, not ticks


def _tree(root: int, children: dict[int, list[int]]) -> set[int]:
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return set(found)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _clock_or_none_s(pid: int) -> float:
    try:
        return _clock(pid)
    except OSError:
        return 0.0


def _comm(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""


def _io(pid: int) -> dict | None:
    """Bytes that a process, with all it waited for, had storage read and write; None when we may not know."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            found = dict(line.split(": ") for line in file)
        return {name: int(found[name]) for name in ("read_bytes", "write_bytes")}
    except FileNotFoundError:
        return {} if not os.path.exists(f"/proc/{pid}") else None
    except ProcessLookupError:
        return {}
    except PermissionError:  # an SSH server hides it from its own user, and has nothing to do with disks
        return {} if _comm(pid).startswith(_SSH_SERVERS) else None
    except (OSError, KeyError, ValueError):
        return None


def _sum_io(pids: set[int], ended: dict) -> dict | None:
    found = [_io(pid) for pid in pids]
    if None in found:
        return None
    found.append(ended)
    return {name: sum(of.get(name, 0) for of in found if of) for name in ("read_bytes", "write_bytes")}


def _clock_rate() -> dict:
    cpu = "/sys/devices/system/cpu/cpu0"
    rate = _lines(f"{cpu}/cpufreq/scaling_cur_freq")
    throttled = _lines(f"{cpu}/thermal_throttle/package_throttle_count")
    return {
        "clock_hz": int(rate[0]) * 1000 if rate else None,
        "throttled": int(throttled[0]) if throttled else None,
    }


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _numbers(path: str, *names: str) -> list[int | None]:
    """The numbers behind these names, each at the start of a line; None for one that is not there."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = b"\n" + file.read()
    except OSError:
        text = b""
    places = [text.find(f"\n{name} ".encode()) for name in names]
    return [int(text[place:].split(None, 2)[1]) if place >= 0 else None for place in places]

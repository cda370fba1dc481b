"""What the whole host did, and how much of it was ours: counters that are read before and after a command.

Ours are the registered processes of the session's accounts and their descendants: supervisors, the keeper, the desk
with its SSH connection. A process that ends leaves its times with the one that waited for it, so none is lost between
two readings. A command's control group also counts processes that nobody waited for. The busiest of the other
processes is reported by name, because that is what a person asks next.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import cgroups
import kernel
import record
import wire
from accounts import Accounts

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KTHREADD = 2
_FIRST_POINT_S = 1.0
_MOST_POINTS = 16
_BUSIEST = 8
_WORTH_NAMING = 0.01  # processors
_MOST_TRIED = 256  # new process numbers that are tried one by one; more would take longer than listing all processes


def read_command(arguments: list[str]) -> None:
    """`read-host SESSION_DIR`: one reading, see `Reader.read`."""
    wire.emit(Reader(Accounts(arguments[0])).read())


def watch(arguments: list[str]) -> None:
    """`watch-host SECONDS`: {"boot_id", "readings"} of a window of this length, in which we do nothing."""
    reader = Reader(Accounts(""))
    reader.begin()
    time.sleep(float(arguments[0]))
    reader.end()
    wire.emit({"boot_id": record.boot_id(), "readings": reader.readings})


class Own:
    """One of our processes. `waited_s` and `io` were read when it had run for `ran_s`, and are valid until it runs."""

    __slots__ = ("alone", "io", "is_exact", "ran_s", "root", "waited_s")

    def __init__(self, root: int, alone: bool):
        self.root, self.alone = root, alone
        self.ran_s, self.waited_s, self.is_exact = -1.0, 0.0, True
        self.io: dict | None = None

    def update(self, pid: int, ran_s: float) -> None:
        if ran_s != self.ran_s or pid == os.getpid():
            self.ran_s, self.io = ran_s, kernel.io(pid)
            # Only what a shared listener did itself is ours, not what it did for others.
            self.waited_s, self.is_exact = (0.0, True) if self.alone else kernel.waited_s(pid)


class Reader:
    """Readings of one window. It remembers what others had used at the start, to name the busiest at the end.

    A reading inside the window disturbs what is measured. So it keeps files open, reads our own processes only, skips
    those that did not run, and looks for new ones only among the process numbers given since the last reading.
    """

    def __init__(self, accounts: Accounts):
        self._accounts = accounts
        self._ran: dict[int, float] = {}  # CPU seconds of all threads, by process
        self._numbered = (0, 0)  # the last process number, and how many were ever started
        self._kernels: set[int] = set()
        self._ours: dict[int, Own] = {}
        self._at_first: dict[int, float] | None = None
        self._others: dict[int, float] = {}
        self.readings: list[dict] = []
        self._step_s = _FIRST_POINT_S

    def begin(self) -> None:
        self.readings = [self.read()]

    def next_point(self) -> float:
        """When, on the monotonic clock, the next reading inside the window is due."""
        return self.readings[-1]["monotonic"] + self._step_s

    def point(self) -> None:
        """A reading inside the window. To bound their number, every second one is dropped when there are too many."""
        self.readings.append(self.read(within=True))
        if len(self.readings) > _MOST_POINTS:
            self.readings = self.readings[::2]
            self._step_s *= 2

    def end(self) -> None:
        first, last = self.readings[0], self.read()
        at_first = self._at_first or {}
        grown = {pid: ran_s - at_first.get(pid, 0.0) for pid, ran_s in self._others.items()}
        last["busiest"] = _busiest(grown, _WORTH_NAMING * (last["monotonic"] - first["monotonic"]))
        self.readings.append(last)

    def read(self, within: bool = False) -> dict:
        """Counters since the host's start, in seconds, bytes and counts; None for what the kernel does not report.

        "busy_s" is what the kernel's ticks saw. "kernel_s" is interrupts and kernel threads. "ours_s" is ours.
        "resolution_s" is how far these may be off. "others_s" is exact, for processes of others that are still alive.
        "ours_pids" lists our processes. The last reading of a window has "busiest": which others ran most in it.
        `within` a window only our processes are read, to disturb less: "kernel_s" and "others_s" are None.
        """
        begun = time.thread_time()
        stat, at = kernel.lines("/proc/stat"), time.monotonic()
        counters = kernel.times(stat)
        self._find(self._look(kernel.forks(stat), within))
        used, io, inexact = self._count()
        kernel_s, others_s = (None, None) if within else self._apart()
        available, dirty, due, swap = kernel.numbers(
            "/proc/meminfo", "MemAvailable:", "Dirty:", "Writeback:", "SwapTotal:"
        )
        swapped = kernel.numbers("/proc/vmstat", "pswpin", "pswpout") if swap else (0, 0)
        reading = {
            **counters,
            "monotonic": at,
            "wall": time.time(),
            "others_s": others_s,
            "kernel_s": None if kernel_s is None else counters["interrupts_s"] + kernel_s,
            "ours_s": used,
            "ours_pids": sorted(self._ours),
            "resolution_s": (2 + 2 * inexact) / kernel.TICKS,
            "ours_io": io,
            "pressure": {
                kind: kernel.pressure(kernel.lines(f"/proc/pressure/{kind}")) for kind in ("cpu", "io", "memory")
            },
            "disks": kernel.disks(
                line for line in kernel.lines("/proc/diskstats") if kernel.is_real("block", line.split(None, 3)[2])
            ),
            "interfaces": kernel.interfaces(
                line
                for line in kernel.lines("/proc/net/dev")[2:]
                if kernel.is_real("net", line.partition(":")[0].strip())
            ),
            "available_bytes": None if available is None else available * 1024,
            "dirty_bytes": ((dirty or 0) + (due or 0)) * 1024,
            "swapped_bytes": None if None in swapped else sum(pages or 0 for pages in swapped) * _PAGE,
            **kernel.clock_rate(),
        }
        reading["cost_s"] = time.thread_time() - begun
        return reading

    def _look(self, forks: int, within: bool) -> set[int]:
        """Read how long processes ran, only ours `within` a window; returns the new ones.

        `forks`: how many processes and threads were ever started. If as many numbers were given in sequence since,
        these are the new ones. In a container, or when numbering restarted, all processes are listed.
        """
        ran, last = self._ran, kernel.last_pid()
        given = last - self._numbered[0]
        known = list(self._ours if within else ran)
        if ran and given == forks - self._numbered[1] <= _MOST_TRIED:
            pids = [*known, *range(self._numbered[0] + 1, last + 1)]
        else:
            listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
            pids = [*known, *(listed - ran.keys())]
        self._numbered = (last, forks)
        new = set()
        for pid in pids:
            try:
                ran_s = time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid() makes it
            except OSError:
                ran.pop(pid, None)  # it ended, and whoever waited for it has its times; or it is a thread
                continue
            if pid not in ran or ran_s < ran[pid]:
                new.add(pid)
            ran[pid] = ran_s
        return new

    def _find(self, new: set[int]) -> None:
        """Find which new processes are the kernel's own, and which are ours."""
        for pid in [pid for pid in self._ours if pid not in self._ran or pid in new]:
            del self._ours[pid]
            kernel.forget(f"/proc/{pid}/stat", f"/proc/{pid}/io")
        self._kernels = (self._kernels & self._ran.keys()) - new
        roots, self._ended = self._accounts.roots()
        self._roots = {os.getpid(): {"run": "", "alone": False}, **roots}
        # At first all are new, and the kernel lists our descendants. Later each of the few is asked for its parent.
        asked = new if self._at_first is not None or not kernel.LISTS_CHILDREN else ()
        parents: dict[int, list[int]] = {}
        for pid in asked:
            with suppress(OSError, IndexError, ValueError):
                parents.setdefault(int(kernel.stat(pid)[1]), []).append(pid)

        def below(pid: int) -> list[int]:
            return parents.get(pid, []) if asked else kernel.children(pid)

        if new and kernel.comm(_KTHREADD) == b"kthreadd":
            self._kernels |= _tree(_KTHREADD, below) & self._ran.keys()  # not those that began since
        for pid, own in list(self._ours.items()):
            for child in () if own.alone else parents.get(pid, ()):
                self._take(_tree(child, below), own.root)
        for root, what in self._roots.items():
            if root not in self._ours and root in self._ran and _is_it(root, what.get("started")):
                self._take({root} if what["alone"] else _tree(root, below), root, what["alone"])

    def _take(self, pids: set[int], root: int, alone: bool = False) -> None:
        for pid in pids & self._ran.keys() - self._ours.keys():
            self._ours[pid] = Own(root, alone)

    def _apart(self) -> tuple[float, float]:
        """What the kernel's own threads used, and what processes of others used."""
        ran = self._ran
        self._others = {pid: s for pid, s in ran.items() if pid not in self._ours and pid not in self._kernels}
        if self._at_first is None:
            self._at_first = self._others
        ended_s = sum(ran_s for pid, ran_s in self._at_first.items() if pid not in self._others)
        return sum(ran[pid] for pid in self._kernels), sum(self._others.values()) + ended_s

    def _count(self) -> tuple[float, dict | None, int]:
        """Our CPU time, our disk bytes, and how many of the times have only tick resolution."""
        by_root: dict[int, float] = {}
        inexact = 0
        for pid, own in self._ours.items():
            own.update(pid, self._ran[pid])
            by_root[own.root] = by_root.get(own.root, 0.0) + own.ran_s + own.waited_s
            inexact += not own.is_exact
        for root, tree_s in by_root.items():
            run = self._roots.get(root, {}).get("run")
            group_s = _group_s(run) if run else None
            if group_s is not None:
                # The larger of the two: neither counts what is not ours.
                by_root[root] = max(tree_s, self._ran.get(root, 0.0) + group_s)
        total_s = self._ended.get("cpu_s", 0.0) + sum(by_root.values())
        return total_s, _sum_io([own.io for own in self._ours.values()], self._ended), min(inexact, 4)


def _busiest(grown: dict[int, float], least_s: float) -> list[dict]:
    used = sorted(((ran_s, pid) for pid, ran_s in grown.items() if ran_s > least_s), reverse=True)[:_BUSIEST]
    return [{"name": kernel.comm(pid).decode("utf-8", "replace"), "pid": pid, "cpu_s": round(s, 4)} for s, pid in used]


def _is_it(pid: int, started: int | None) -> bool:
    """Whether this is still the process that was registered."""
    try:
        return started is None or int(kernel.stat(pid)[19]) == started
    except (OSError, IndexError, ValueError):
        return False


def _tree(root: int, below: Callable[[int], list[int]]) -> set[int]:
    found = [root]
    for pid in found:
        found.extend(below(pid))
    return set(found)


_groups: dict[str, str] = {}  # run folder: the file that counts the CPU time of its control group


def _group_s(run: str) -> float | None:
    """What a command's control group used; None without one that counts."""
    if run not in _groups:
        path = cgroups.counter_of(cgroups.registered(run))
        if path is None:
            return None  # it may get one yet
        _groups[run] = path
    try:
        return cgroups.counted_s(kernel.pread(_groups[run]))
    except OSError:
        return None


def _sum_io(found: list[dict | None], ended: dict) -> dict | None:
    if None in found:
        return None
    return {name: sum(of.get(name, 0) for of in (*found, ended) if of) for name in ("read_bytes", "write_bytes")}

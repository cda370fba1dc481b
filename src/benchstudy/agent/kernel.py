"""What this host's kernel reports in files: counters as numbers, and what /proc says of processes.

Files that are read repeatedly stay open, because opening one takes longer than reading it.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from functools import lru_cache

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable

TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512  # bytes: the unit of /proc/diskstats, whatever the disk's own sector size
LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")  # of a thread, if the kernel was built with it
_MOST_KEPT = 256  # open files: a command may have thousands of processes, and a supervisor only 1,024 descriptors
SSH_SERVERS = (b"sshd", b"dropbear")


def times(lines: list[str]) -> dict:
    """Of /proc/stat: seconds summed over all CPUs, the number of CPUs, and how many tasks run or wait to run."""
    fields = [int(word) / TICKS for word in lines[0].split()[1:]]
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


def disks(lines: Iterable[str]) -> dict[str, dict]:
    """Of lines of /proc/diskstats. "flushes" since Linux 5.5."""
    found = {}
    for line in lines:
        _, _, name, *rest = line.split()
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


def interfaces(lines: Iterable[str]) -> dict[str, dict]:
    """Of lines of /proc/net/dev."""
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        numbers = [int(word) for word in rest.split()]
        found[name.strip()] = {"received_bytes": numbers[0], "sent_bytes": numbers[8]}
    return found


@lru_cache(maxsize=None)
def is_real(kind: str, name: str) -> bool:
    """Whether it is hardware, not a partition, mapping or bridge, where the same bytes would count twice."""
    return os.path.exists(f"/sys/class/{kind}/{name}/device")


def clock_rate() -> dict:
    cpu = "/sys/devices/system/cpu/cpu0"
    rate = lines(f"{cpu}/cpufreq/scaling_cur_freq")
    throttled = lines(f"{cpu}/thermal_throttle/package_throttle_count")
    return {
        "clock_hz": int(rate[0]) * 1000 if rate else None,
        "throttled": int(throttled[0]) if throttled else None,
    }


def forks(lines: list[str]) -> int:
    """Of /proc/stat: how many processes and threads were started since the host's start."""
    return next((int(line.split()[1]) for line in lines if line.startswith("processes ")), -1)


def last_pid() -> int:
    """The number last given to a process or thread; 0 if unknown."""
    words = " ".join(lines("/proc/loadavg")).split()
    return int(words[-1]) if words else 0


def stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may contain spaces and parentheses: state, parent, …"""
    fd = _opened(f"/proc/{pid}/stat")
    try:
        return os.read(fd, 2048).rpartition(b")")[2].split()
    finally:
        os.close(fd)


def comm(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""


def children(pid: int) -> list[int]:
    """Of all its threads; each of them may have started some."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += map(int, file.read().split())
    return found


def io(pid: int) -> dict | None:
    """Bytes that a process, and those it waited for, had storage read and write; None without permission to know."""
    try:
        text = pread(f"/proc/{pid}/io")
        found = dict(line.split(b": ") for line in text.splitlines())
        return {name: int(found[name.encode()]) for name in ("read_bytes", "write_bytes")}
    except FileNotFoundError:
        return {} if not os.path.exists(f"/proc/{pid}") else None
    except ProcessLookupError:
        return {}
    except PermissionError:  # an SSH server hides it from its own user, and does no disk I/O
        return {} if comm(pid).startswith(SSH_SERVERS) else None
    except (OSError, KeyError, ValueError):
        return None


def waited_s(pid: int) -> tuple[float, bool]:
    """CPU seconds of the children that a process waited for, and whether they are exact to better than a tick."""
    if pid == os.getpid():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime, True
    try:
        fields = pread(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        ticks = int(fields[13]) + int(fields[14])
    except (OSError, IndexError):
        return 0.0, True
    return ticks / TICKS, not ticks


_descriptors: dict[str, int] = {}


def kept(path: str) -> int:
    """A descriptor of a file that is read repeatedly: opening it takes longer than reading it. Raises OSError."""
    if path not in _descriptors:
        _descriptors[path] = _opened(path)
    return _descriptors[path]


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def forget(*paths: str) -> None:
    for path in paths:
        if path in _descriptors:
            os.close(_descriptors.pop(path))


def pread(path: str) -> bytes:
    """The whole content of a file that the kernel generates. Raises OSError."""
    stays = path in _descriptors or len(_descriptors) < _MOST_KEPT
    fd, parts, size = kept(path) if stays else _opened(path), [], 0
    try:
        while part := os.pread(fd, 1 << 16, size):
            parts.append(part)
            size += len(part)
    finally:
        if not stays:
            os.close(fd)
    return b"".join(parts)


@lru_cache(maxsize=None)
def _exists(path: str) -> bool:
    return os.path.exists(path)


def lines(path: str) -> list[str]:
    try:
        return pread(path).decode("utf-8", "replace").splitlines() if _exists(path) else []
    except OSError:
        return []


def numbers(path: str, *names: str) -> list[int | None]:
    """The number after each of these names at the start of a line; None for a missing one."""
    try:
        text = b"\n" + pread(path)
    except OSError:
        text = b""
    places = [text.find(f"\n{name} ".encode()) for name in names]
    return [int(text[place:].split(None, 2)[1]) if place >= 0 else None for place in places]

"""Control groups: one group for one command, made in whichever of three ways this host offers.

- `cgroup-v1`: a folder in each of the hierarchies memory, cpuset and cpuacct, below this process's own group.
- `systemd-run`: a transient scope, where systemd manages a v2 tree. systemd would undo changes made by others there.
- `cgroup-v2`: a folder in the unified hierarchy, below the nearest group that can delegate memory and CPUs.

A group is known by the file `.cgroup` in the command's own folder, written before the group is made, so that the next
session finds and removes what a killed supervisor left.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from abc import ABC, abstractmethod
from contextlib import suppress

import folders

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    import subprocess

REGISTER = ".cgroup"
PREFIX = "benchstudy-"
_UNLIMITED = 1 << 60  # v1 says "no limit" as the largest multiple of a page
_REMOVAL_S = 5.0
_SCOPE_S = 10.0


class Unavailable(Exception):
    """This way does not work on this host; the message says why."""


class Hierarchy:
    """One mounted cgroup file system: its mount point, its controllers, and this process's own folder in it."""

    def __init__(self, point: str, own: str, controllers: list[str]):
        self.point, self.own, self.controllers = point, own, controllers


def hierarchies() -> tuple[list[Hierarchy], Hierarchy | None]:
    """The v1 hierarchies, and the unified one."""
    own = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    old, unified = [], None
    for line in _read("/proc/self/mountinfo").splitlines():
        place, _, source = line.partition(" - ")
        root, point = (folders.unescape(field) for field in place.split()[3:5])
        kind, _, options = source.split()[:3]
        if kind == "cgroup2":
            unified = Hierarchy(point, _below(point, root, own.get("", "/")), [])
        elif kind == "cgroup":
            held = options.split(",")
            inside = next((path for names, path in own.items() if names and names.split(",")[0] in held), None)
            if inside is not None:
                old.append(Hierarchy(point, _below(point, root, inside), held))
    return old, unified


def _below(point: str, root: str, own: str) -> str:
    """The own group's folder; the mount itself if, in a container, the mounted part does not contain it."""
    relative = os.path.relpath(own, root)
    return point if relative == "." or relative.startswith("..") else os.path.join(point, relative)


class Group(ABC):
    """One command's group. `folders` are joined and removed together."""

    kind = ""

    def __init__(self, run_folder: str, name: str):
        self.run_folder, self.name = run_folder, name
        self.folders: list[str] = []

    def admit(self, pid: int) -> None:
        """Put a process, before it executes its program, into the group. Raises OSError."""
        for folder in self.folders:
            _write(folder, "cgroup.procs", str(pid))

    @abstractmethod
    def effective_cpus(self) -> list[int] | None:
        """The CPUs that the group is limited to, read back from the kernel; None when it has no limit."""

    @abstractmethod
    def effective_memory_bytes(self) -> int | None:
        """The lowest limit of the group and those above it, read back from the kernel; None without any."""

    def usage(self) -> dict:
        """See usage_of."""
        return usage_of(self.folders)

    def close(self) -> str | None:
        """End the processes still in it and remove it. None, or why it is still there."""
        return remove_left(self.run_folder)

    def _make(self, folder: str) -> str:
        """One folder of the group, registered before it exists, so that it cannot be forgotten."""
        self.folders.append(folder)
        _register(self.run_folder, self.folders)
        try:
            os.mkdir(folder, 0o755)
        except OSError as error:
            self.folders.remove(folder)
            why = "no permission to make a group in" if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else ""
            raise Unavailable(f"{why or error.strerror} {os.path.dirname(folder)}") from error
        return folder

    def _set(self, folder: str, file: str, value: str) -> None:
        try:
            _write(folder, file, value)
        except OSError as error:
            raise Unavailable(f"{os.path.join(folder, file)} rejects {value!r}: {error.strerror}") from error


class OldGroup(Group):
    """Version 1: each controller has a tree of its own."""

    kind = "cgroup-v1"

    def __init__(self, run_folder: str, name: str, cpus: list[int] | None, memory_bytes: int | None):
        super().__init__(run_folder, name)
        found, _ = hierarchies()
        self._parents = {c: h.own for h in found for c in h.controllers if c in ("memory", "cpuset", "cpuacct")}
        self._of: dict[str, str] = {}
        for controller, needed in (("memory", True), ("cpuset", cpus is not None), ("cpuacct", False)):
            if controller in self._parents:
                if controller != "cpuset" or needed:
                    self._join(controller)
            elif needed:
                raise Unavailable(f"no hierarchy with the controller {controller}")
        if cpus is not None:
            self._limit_cpus(cpus)
        if memory_bytes is not None:
            self._limit_memory(memory_bytes)

    def _join(self, controller: str) -> None:
        folder = os.path.join(self._parents[controller], self.name)
        # Two controllers may share one tree.
        self._of[controller] = folder if folder in self.folders else self._make(folder)

    def _limit_cpus(self, cpus: list[int]) -> None:
        folder, parent = self._of["cpuset"], self._parents["cpuset"]
        mems = _text(parent, "cpuset.effective_mems") or _text(parent, "cpuset.mems") or ""
        self._set(folder, "cpuset.mems", mems)  # without it no process can join
        self._set(folder, "cpuset.cpus", list_of(cpus))

    def _limit_memory(self, memory_bytes: int) -> None:
        folder = self._of["memory"]
        self._set(folder, "memory.limit_in_bytes", str(memory_bytes))
        if os.path.exists(os.path.join(folder, "memory.memsw.limit_in_bytes")):
            self._set(folder, "memory.memsw.limit_in_bytes", str(memory_bytes))
        elif has_swap():
            raise Unavailable("the kernel does not account for swap (boot it with swapaccount=1, or swapoff -a)")

    def effective_cpus(self) -> list[int] | None:
        return cpus_in(_text(self._of["cpuset"], "cpuset.cpus") or "") if "cpuset" in self._of else None

    def effective_memory_bytes(self) -> int | None:
        limits = [_number(self._of["memory"], "memory.limit_in_bytes")]
        limits.append(_pairs(self._of["memory"], "memory.stat").get("hierarchical_memory_limit"))
        known = [limit for limit in limits if limit is not None and limit < _UNLIMITED]
        return min(known, default=None)


class UnifiedGroup(Group):
    """Version 2."""

    kind = "cgroup-v2"

    def __init__(
        self,
        run_folder: str,
        name: str,
        cpus: list[int] | None,
        memory_bytes: int | None,
        hierarchy: Hierarchy | None = None,
    ):
        super().__init__(run_folder, name)
        found = hierarchy or hierarchies()[1]
        if found is None:
            raise Unavailable("no unified hierarchy is mounted")
        self._point, self._cpus = found.point, cpus
        needed = ["memory"] * (memory_bytes is not None) + ["cpuset"] * (cpus is not None)
        self._make_below(self._parent(found, needed))
        if cpus is not None:
            self._set(self.folder, "cpuset.cpus", list_of(cpus))
        if memory_bytes is not None:
            self._limit_memory(memory_bytes)

    @property
    def folder(self) -> str:
        return self.folders[0]

    def _make_below(self, parent: str) -> None:
        self._make(os.path.join(parent, self.name))

    def _parent(self, found: Hierarchy, needed: list[str]) -> str:
        """The nearest group, from this process's own upwards, that can delegate the needed controllers to a child."""
        why = []
        candidate = found.own
        while True:
            problem = _hand_on(candidate, needed)
            if problem is None:
                # Memory accounting is enabled where it costs nothing.
                _hand_on(candidate, ["memory"])
                return candidate
            why.append(problem)
            if os.path.realpath(candidate) == os.path.realpath(found.point):
                raise Unavailable("; ".join(dict.fromkeys(why)))
            candidate = os.path.dirname(candidate)

    def _limit_memory(self, memory_bytes: int) -> None:
        self._set(self.folder, "memory.max", str(memory_bytes))
        if os.path.exists(os.path.join(self.folder, "memory.swap.max")):
            self._set(self.folder, "memory.swap.max", "0")
        elif has_swap():
            raise Unavailable("the kernel cannot keep the group out of swap (swapoff -a)")

    def effective_cpus(self) -> list[int] | None:
        text = _text(self.folder, "cpuset.cpus.effective") if self._cpus is not None else None
        return cpus_in(text) if text else None

    def effective_memory_bytes(self) -> int | None:
        limits = []
        folder = self.folder
        while folder.startswith(self._point):
            limits.append(_number(folder, "memory.max"))  # "max" and a missing file (in the root) both give None
            folder = os.path.dirname(folder)
        return min((limit for limit in limits if limit is not None), default=None)


class ScopeGroup(UnifiedGroup):
    """A transient scope of systemd, kept by a process that waits in it until our end of its input closes."""

    kind = "systemd-run"

    def __init__(self, run_folder: str, name: str, cpus: list[int] | None, memory_bytes: int | None):
        self._limits = (cpus, memory_bytes)
        self._holder: subprocess.Popen[bytes] | None = None
        if not os.path.isdir("/run/systemd/system"):
            raise Unavailable("systemd is not running here")
        if os.geteuid() != 0:
            raise Unavailable("only root may move a process into a scope of systemd")
        super().__init__(run_folder, name, None, None)
        self._cpus = cpus

    @staticmethod
    def command(name: str, cpus: list[int] | None, memory_bytes: int | None) -> list[str]:
        properties = ["Delegate=yes", "MemoryAccounting=yes", "CPUAccounting=yes"]
        if memory_bytes is not None:
            properties += [f"MemoryMax={memory_bytes}", "MemorySwapMax=0"]
        if cpus is not None:
            properties.append(f"AllowedCPUs={list_of(cpus)}")
        options = [f"--property={text}" for text in properties]
        return ["systemd-run", "--scope", "--quiet", "--collect", f"--unit={name}", *options, "--", "cat"]

    def _parent(self, found: Hierarchy, needed: list[str]) -> str:
        return found.point

    def _make_below(self, parent: str) -> None:
        import subprocess  # slow to import, and needed nowhere else

        argv = self.command(self.name, *self._limits)
        pipe = subprocess.PIPE
        try:
            holder = subprocess.Popen(argv, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe)
        except OSError as error:
            raise Unavailable(f"{argv[0]}: {error.strerror}") from error
        self._holder = holder
        deadline = time.monotonic() + _SCOPE_S
        unit = f"{self.name}.scope"
        while time.monotonic() < deadline:
            if holder.poll() is not None:
                said = holder.stderr.read().decode("utf-8", "replace").strip() if holder.stderr else ""
                raise Unavailable(f"systemd-run ended with status {holder.returncode}: {said}")
            with suppress(OSError):
                own = next(line for line in _read(f"/proc/{holder.pid}/cgroup").splitlines() if line[:3] == "0::")
                if os.path.basename(own[3:]) == unit:
                    self.folders.append(os.path.join(parent, own[3:].lstrip("/")))
                    _register(self.run_folder, self.folders)
                    return
            time.sleep(0.01)
        self._release()
        raise Unavailable(f"systemd-run did not make a scope within {_SCOPE_S:g} s")

    @property
    def spared(self) -> list[int]:
        return [self._holder.pid] if self._holder else []

    def _release(self) -> None:
        if self._holder is not None:
            self._holder.communicate()  # it ends when its input does
            self._holder = None

    def close(self) -> str | None:
        for pid in set(_members(self.folder)) - set(self.spared):
            _kill(pid)
        self._release()
        deadline = time.monotonic() + _REMOVAL_S
        while os.path.exists(self.folder) and time.monotonic() < deadline:
            time.sleep(0.01)  # systemd removes an empty scope
        return remove_left(self.run_folder)


def make(run_folder: str, uuid: str, cpus: list[int] | None, memory_bytes: int | None) -> Group:
    """A group for one command, with its limits set but not yet read back. Raises Unavailable with all reasons."""
    old, _ = hierarchies()
    ways: list[type[OldGroup] | type[UnifiedGroup]] = (
        [OldGroup] if any("memory" in h.controllers for h in old) else [ScopeGroup, UnifiedGroup]
    )
    reasons = []
    for way in ways:
        try:
            return way(run_folder, PREFIX + uuid, cpus, memory_bytes)
        except Unavailable as error:
            remove_left(run_folder)
            reasons.append(f"{way.kind}: {error}")
    raise Unavailable("; ".join(reasons))


def usage_of(group: list[str]) -> dict:
    """What this group has used so far: peak_memory_bytes, oom_kills, cpu_user_s, cpu_system_s.

    None for what the kernel does not report. The peak includes the page cache, as the limit does.
    """
    peaks = [_number(folder, name) for folder in group for name in ("memory.peak", "memory.max_usage_in_bytes")]
    kills = [_pairs(f, name).get("oom_kill") for f in group for name in ("memory.events", "memory.oom_control")]
    user_s, system_s = next(filter(None, map(_cpu_s, group)), (None, None))
    return {
        "peak_memory_bytes": next((peak for peak in peaks if peak is not None), None),  # v2: since Linux 5.19
        "oom_kills": next((number for number in kills if number is not None), None),
        "cpu_user_s": user_s,
        "cpu_system_s": system_s,
    }


def _cpu_s(folder: str) -> tuple[float, float] | None:
    """CPU time in user and system; None where the folder's hierarchy does not count it."""
    unified = _pairs(folder, "cpu.stat")
    if "user_usec" in unified:
        return unified["user_usec"] / 1e6, unified["system_usec"] / 1e6
    total_ns, ticks = _number(folder, "cpuacct.usage"), _pairs(folder, "cpuacct.stat")
    if total_ns is None or not {"user", "system"} <= ticks.keys():
        return None
    # The sum is exact; the split is what the kernel sampled at its ticks. v2 computes its figures in the same way.
    seen = ticks["user"] + ticks["system"]
    user_s = total_ns / 1e9 * (ticks["user"] / seen if seen else 1.0)
    return user_s, total_ns / 1e9 - user_s


def counter_of(group: list[str]) -> str | None:
    """The file of these folders that counts processor time, for `counted_s`."""
    paths = [os.path.join(folder, name) for name in ("cpuacct.usage", "cpu.stat") for folder in group]
    return next(filter(os.path.exists, paths), None)


def counted_s(text: bytes) -> float:
    """CPU seconds, summed over all CPUs, from the content of such a file."""
    return int(text) / 1e9 if text.strip().isdigit() else int(text.split()[1]) / 1e6  # usage_usec is the first


def registered(run_folder: str) -> list[str]:
    """The folders of the group that belongs to a command's own folder; none when it has none (any more)."""
    try:
        with open(os.path.join(run_folder, REGISTER), encoding="utf-8") as file:
            return json.load(file)["folders"]
    except (OSError, ValueError):
        return []


def remove_left(run_folder: str) -> str | None:
    """End the processes of the group registered in `run_folder` and remove it. None, or why it is still there."""
    problems = []
    for folder in registered(run_folder):
        # Never a folder of somebody else's, whatever the register says. rmdir removes nothing but a group anyway.
        if os.path.basename(folder).startswith(PREFIX):
            problem = _remove(folder)
            problems += [problem] if problem else []
    if problems:
        return "; ".join(problems)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(run_folder, REGISTER))
    return None


def _remove(folder: str) -> str | None:
    deadline = time.monotonic() + _REMOVAL_S
    while True:
        for pid in _members(folder):
            _kill(pid)
        try:
            os.rmdir(folder)
            return None
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                return f"{folder} is still there: {error.strerror}"
        time.sleep(0.01)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _members(folder: str) -> list[int]:
    return [int(line) for line in (_text(folder, "cgroup.procs") or "").split()]


def _register(run_folder: str, paths: list[str]) -> None:
    temporary = os.path.join(run_folder, f"{REGISTER}.new")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({"folders": paths}, file)
    os.rename(temporary, os.path.join(run_folder, REGISTER))


def _hand_on(folder: str, controllers: list[str]) -> str | None:
    """Enable the controllers for groups below `folder`. None, or why that is impossible."""
    missing = [name for name in controllers if name not in (_text(folder, "cgroup.subtree_control") or "").split()]
    if not missing:
        return None
    absent = [name for name in missing if name not in (_text(folder, "cgroup.controllers") or "").split()]
    if absent:
        return f"{folder} has no controller {' and '.join(absent)}"
    try:
        _write(folder, "cgroup.subtree_control", " ".join(f"+{name}" for name in missing))
    except OSError as error:
        holds = "it contains processes itself" if error.errno == errno.EBUSY else error.strerror
        return f"{folder} cannot delegate {' and '.join(missing)}: {holds}"
    return None


def has_swap() -> bool:
    return len(_read("/proc/swaps").splitlines()) > 1


def list_of(cpus: list[int]) -> str:
    return ",".join(map(str, cpus))


def cpus_in(text: str) -> list[int]:
    """The CPUs in a list as the kernel writes it, such as "0-2,5"."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _text(folder: str, name: str) -> str | None:
    try:
        return _read(os.path.join(folder, name)).strip()
    except OSError:
        return None


def _number(folder: str, name: str) -> int | None:
    text = _text(folder, name)
    return int(text) if text is not None and text.isdigit() else None


def _pairs(folder: str, name: str) -> dict[str, int]:
    lines = (line.split() for line in (_text(folder, name) or "").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def _write(folder: str, name: str, value: str) -> None:
    # One unbuffered write: the kernel takes each write as one request and reports its error.
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode("ascii"))
    finally:
        os.close(fd)

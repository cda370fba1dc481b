"""What a command and all processes that it starts cost: time, processor time, memory.

With root, a control group of version 1 holds its processes. Without root, processor time is that of descendants that
were waited for, here or by their parents, and memory is that of the largest process.
"""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup/cpuacct")
_LOOK_EVERY_S = 0.5
_SUBREAPER = 36  # of prctl: processes that lose their parent become children of this one


@dataclass(frozen=True)
class Cost:
    """`peak`: bytes that all processes held at the same time; shared pages count once."""

    wall_s: float
    busy_s: float
    peak: int

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s, {self.busy_s:.2f} s of processor, {self.peak / (1 << 20):.0f} MiB"


def cost_of(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Cost:
    """Run the command. If it fails, end this program with the command's last output."""
    began, group = time.monotonic(), _Group()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    own, before = {*psutil.Process().children()}, resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as said:
        started = subprocess.Popen(
            argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            preexec_fn=group.enter,
        )  # fmt: skip
        group.watch()
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        found = group.end()
        while late := {*psutil.Process().children()} - own:  # their processor time counts, too
            for process in late:
                os.waitpid(process.pid, 0)
        if started.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(argv)}: exit status {started.returncode}\n{said.read()[-3000:].decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    busy_s, peak = found or (waited_s, used.ru_maxrss << 10)
    return Cost(wall_s, busy_s, peak)


@contextmanager
def scratch(keep: Path | None, name: str) -> Iterator[Path]:
    """A new folder to work in: `name` in the folder `keep`, which stays, or else one that is removed afterwards."""
    if keep is not None:
        yield (keep / name).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="benchstudy-scratch-") as folder:
        yield Path(folder, name).resolve()
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)  # trials are read-only, folders included


class _Group:
    def __init__(self) -> None:
        self._folder = _GROUPS / f"benchstudy-cost-{os.getpid()}"
        self._peak, self._ended = 0, threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)
        try:
            self._folder.mkdir(exist_ok=True)
            self._is_there = (self._folder / "cpuacct.usage").is_file()
            (self._folder / "cpuacct.usage").write_text("0")
        except OSError:
            self._is_there = False

    def enter(self) -> None:
        if self._is_there:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def watch(self) -> None:
        if self._is_there:
            self._looking.start()

    def end(self) -> tuple[float, int] | None:
        """Seconds of processor time and the peak in bytes, when all processes are gone: some end a little later."""
        if not self._is_there:
            return None
        deadline = time.monotonic() + 10
        while (self._folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._ended.set()
        self._looking.join()
        busy_s = int((self._folder / "cpuacct.usage").read_text()) / 1e9
        self._folder.rmdir()
        return busy_s, self._peak

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            held = sum(memory_of(pid)[0] for pid in (self._folder / "cgroup.procs").read_text().split())
            self._peak = max(self._peak, held)


def memory_of(pid: int | str) -> tuple[int, int]:
    """Pss and private memory of a process, in bytes; zeros for one that is ending."""
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    kibi = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return kibi.get("Pss", 0) << 10, (kibi.get("Private_Clean", 0) + kibi.get("Private_Dirty", 0)) << 10

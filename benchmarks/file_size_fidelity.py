"""Does the file_size probe measure what fio measures? Interleaved pairs of both, doing the same I/O.

    python benchmarks/file_size_fidelity.py --folder /mnt/disk [--pairs 100] [--output fidelity.json]

Each pair uses the same file, the same calls (1 MiB each and a remainder) and the same fsync, directly one after the
other in random order, each in a process of its own on the same processor. fio replays a log of exactly these calls, and
its time is the sum of its own latencies in nanoseconds, of writes or reads and of the fsync. The probe's time is the
sum of the same parts (transfer and sync). Neither includes opening and closing.

For warm reads, each process makes a few, each after as many passes over the file as the probe makes. Its time is their
median.

From 1 MB on, the median of the pairs' ratios (probe over fio) must be in 0.97–1.03, and its 95 % order-statistic
interval in 0.95–1.05. For 100 KB, the median difference must be below 25 µs. Otherwise, the exit status is 1.
"""

import argparse
import atexit
import json
import mmap
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from scipy.stats import quantile_test

from benchstudy.hosts.line import agent_sources, write_agent
from benchstudy.model import registry
from benchstudy.model.units import Size

# The agent with the family's probe, as on a host.
PROBE = Path(tempfile.mkdtemp(prefix="benchstudy-probe-"))
atexit.register(shutil.rmtree, PROBE)
write_agent(PROBE, agent_sources(registry.get("file_size").extensions))
CHUNK = 1 << 20
# Both run on one: pages that a process has freed are available to the next one only on the same processor.
ON_PROCESSOR = ("taskset", "-c", "1")
WARM_READS = 5
SIZES = ("100KB", "1MB", "10MB", "100MB")
OPERATIONS = ("write+fsync", "read cold", "read warm")
MEDIAN_RATIO, INTERVAL_RATIO, MOST_DIFFERENCE_S = (0.97, 1.03), (0.95, 1.05), 25e-6

sys.path.insert(0, str(PROBE))
import file_size  # noqa: E402  (what runs on hosts lives in a folder, not in a package)


@dataclass(frozen=True)
class Comparison:
    """Pairs of one operation and size. Times are in seconds, and the intervals of medians are at 95 %."""

    operation: str
    size: str
    pairs: int
    probe_s: float
    fio_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    difference_s: float
    difference_high_s: float

    @property
    def holds(self) -> bool:
        if Size(self.size).bytes < 1_000_000:
            return self.difference_s < MOST_DIFFERENCE_S
        median_fits = MEDIAN_RATIO[0] <= self.ratio <= MEDIAN_RATIO[1]
        return median_fits and INTERVAL_RATIO[0] <= self.ratio_low and self.ratio_high <= INTERVAL_RATIO[1]

    def __str__(self) -> str:
        return (
            f"{self.operation:12} {self.size:>6}  n={self.pairs:<4} probe {self.probe_s * 1e3:9.3f} ms  "
            f"fio {self.fio_s * 1e3:9.3f} ms  ratio {self.ratio:.4f} [{self.ratio_low:.4f}, {self.ratio_high:.4f}]  "
            f"difference {self.difference_s * 1e6:+8.1f} µs  {'holds' if self.holds else 'DOES NOT HOLD'}"
        )


def compare(folder: Path, operation: str, size: str, pairs: int, rng: random.Random) -> Comparison:
    """Measure `pairs` pairs in `folder`."""
    path = folder / "file"
    if operation != "write+fsync":
        path = _prepare(folder, Size(size).bytes)
    measures = {"probe": time_probe, "fio": time_fio}
    found: dict[str, list[float]] = {name: [] for name in measures}
    one_call = operation == "read cold" and Size(size).bytes <= CHUNK
    with processor_awake() if one_call else nullcontext():
        for _ in range(pairs):
            for name in rng.sample(list(measures), k=2):
                found[name].append(measures[name](folder, path, operation, Size(size).bytes))
    path.unlink(missing_ok=True)
    ratios = [probe / fio for probe, fio in zip(found["probe"], found["fio"], strict=True)]
    differences = [probe - fio for probe, fio in zip(found["probe"], found["fio"], strict=True)]
    low, high = median_interval(ratios)
    return Comparison(
        operation,
        size,
        pairs,
        statistics.median(found["probe"]),
        statistics.median(found["fio"]),
        statistics.median(ratios),
        low,
        high,
        statistics.median(differences),
        median_interval(differences)[1],
    )


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % order-statistic interval of the median."""
    interval = quantile_test(values, p=0.5).confidence_interval(confidence_level=0.95)
    return float(interval.low), float(interval.high)


def time_probe(folder: Path, path: Path, operation: str, size: int) -> float:
    """Seconds of transfer and sync, by the probe."""
    request = {
        "kind": "path",
        "action": operation.split("+")[0].split()[0],
        "path": str(folder),
        "directory": str(folder),
        "file": str(path),
        "size": size,
        "chunk": CHUNK,
        "operations": WARM_READS if operation == "read warm" else 1,
        "sync": "fsync",
        "cache": operation.split()[-1],
        "direct": False,
        "verify": False,
    }
    answer = json.loads(_run([sys.executable, "-I", str(PROBE), "file_size:main", json.dumps(request)]))
    times = [measured["transfer_ns"] + measured["sync_ns"] for measured in answer["operations"]]
    return statistics.median(times) / 1e9


def time_fio(folder: Path, path: Path, operation: str, size: int) -> float:
    """Seconds of the same calls, by fio's own latencies."""
    action = "write" if operation.startswith("write") else "read"
    calls = [f"{path} {action} {offset} {min(CHUNK, size - offset)}" for offset in range(0, size, CHUNK)]
    sync = [f"{path} sync 0 0"] if action == "write" else []
    # The probe opens the file for each warm read and reads it through first. It rehearses all of that if the file is
    # small.
    passes = file_size.passes_before_warm_read(size) + 1
    warm_reads = (WARM_READS + (size <= file_size.REHEARSAL_BYTES)) * _opened(path, passes * calls)
    timed = warm_reads if operation == "read warm" else _opened(path, [*calls, *sync])
    with tempfile.TemporaryDirectory(prefix="fidelity-", dir="/dev/shm") as memory:
        # Before the probe times anything, its buffer is in place and its code is warm. For fio, a call in memory does
        # this. Before a write, the probe rehearses one with its fsync; for fio, a separate job does.
        jobs = []
        beside = folder / "rehearsal"
        if sync:
            ends = min(size, file_size.REHEARSAL_BYTES)
            rehearsed = [f"{beside} write {at} {min(CHUNK, ends - at)}" for at in range(0, ends, CHUNK)]
            _write_log(Path(memory, "first"), [beside], _opened(beside, [*rehearsed, f"{beside} sync 0 0"]))
            jobs += ["--name=first", f"--read_iolog={memory}/first"]
        in_memory = Path(memory, "file")
        in_memory.write_bytes(bytes(CHUNK))
        touch = f"{in_memory} {action} 0 {CHUNK}"
        # fio rests itself, as the probe does: a child that rested and ended just before would leave freed pages behind.
        # fio can only rest after every so many calls. More of them come before the rest than after it; otherwise fio,
        # and with it the disk, would rest once more between the last write and its fsync.
        rested = len(calls) + 2
        begins = _opened(in_memory, [touch] * (1 if operation == "read warm" else rested + 1))
        _write_log(Path(memory, "second"), [in_memory, path], [*begins, *timed])
        jobs += ["--name=second", "--stonewall", f"--read_iolog={memory}/second", f"--write_lat_log={memory}/each"]
        jobs += [f"--exec_prerun={_make_ready(folder, beside, operation)}"]
        if operation != "read warm":
            jobs += [f"--thinktime={round(file_size.REST_S * 1e6)}", f"--thinktime_blocks={rested}"]
        try:
            # Like an application, the probe gives the kernel no advice.
            plain = ["--ioengine=psync", "--invalidate=0", "--fadvise_hint=0", "--output-format=json"]
            # The probe's buffer begins at a page boundary. With fio's default, which does not, copies in memory take a
            # sixth longer. Nor does the probe change its data before each write, for which fio counts 30 µs per MiB as
            # part of the write.
            plain += [f"--iomem_align={mmap.PAGESIZE}", "--scramble_buffers=0"]
            # The report goes to a file, because on stdout the messages of the prerun would come before it.
            _run(["fio", *plain, "--output=report", *jobs], cwd=memory)
        finally:
            beside.unlink(missing_ok=True)
            if action == "write":
                path.unlink(missing_ok=True)
        (log,) = Path(memory).glob("each_lat.*.log")
        report = json.loads(Path(memory, "report").read_text())
        latencies = [int(line.split(",")[1]) for line in log.read_text().splitlines()]
    syncs = report["jobs"][-1]["sync"]
    transfers = [line for line in [*begins, *timed] if " read " in line or " write " in line]
    if len(latencies) != len(transfers) or syncs["total_ios"] != len(sync):
        raise RuntimeError(f"fio did something else: {len(latencies)} calls, {syncs}")
    if operation == "read warm":
        each = passes * len(calls)
        ends = range(len(latencies), len(latencies) - WARM_READS * each, -each)
        return statistics.median(sum(latencies[end - len(calls) : end]) for end in ends) / 1e9
    return (sum(latencies[-len(calls) :]) + (syncs["lat_ns"]["mean"] if sync else 0)) / 1e9


def _opened(path: Path, calls: Sequence[str]) -> list[str]:
    return [f"{path} open", *calls, f"{path} close"]


def _write_log(log: Path, files: Sequence[Path], lines: Sequence[str]) -> None:
    log.write_text("\n".join(["fio version 2 iolog", *(f"{file} add" for file in files), *lines]) + "\n")


def _make_ready(folder: Path, rehearsal: Path, operation: str) -> str:
    """What the probe does before each operation, as a shell command that fio runs just before its own.

    If fio ran it any earlier, it would find the machine in another state than the probe does: pages that its own
    rehearsal still holds (a virtual machine gets its memory when it is touched: 10 MB took 19 ms instead of 2 ms).
    """
    settle = f"sync -f {shlex.quote(str(folder))}"
    return {
        "write+fsync": f"rm {shlex.quote(str(rehearsal))} && {settle}",
        # fio sends the output of the last command to a separate file.
        "read cold": f"{settle} && echo 3 > /proc/sys/vm/drop_caches && true",
        "read warm": "true",
    }[operation]


def _prepare(folder: Path, size: int) -> Path:
    request = {"kind": "path", "action": "prepare", "path": str(folder), "directory": str(folder)}
    request |= {"size": size, "chunk": CHUNK}
    return Path(json.loads(_run([sys.executable, "-I", str(PROBE), "file_size:main", json.dumps(request)]))["file"])


@contextmanager
def processor_awake() -> Iterator[None]:
    """Keep the processor awake with an empty loop, whose priority gives way to the measured program.

    How long a virtual machine's processor takes to wake up when the disk answers depends on how long it slept before:
    up to 30 µs more or less for a cold read, which says nothing about either program. This works for single calls only:
    the kernel threads that an fsync or a long read waits for do not take a processor from the loop quickly enough.
    """
    loop = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]
    with subprocess.Popen([*ON_PROCESSOR, "setpriv", "--pdeathsig", "KILL", *loop]) as spinning:
        try:
            yield
        finally:
            spinning.kill()


def _run(argv: Sequence[str], cwd: str | None = None) -> bytes:
    done = subprocess.run([*ON_PROCESSOR, *argv], capture_output=True, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: {done.stderr.decode()}{done.stdout.decode()}")
    return done.stdout


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True, help="folder on the file system to measure")
    options.add_argument("--pairs", type=int, default=100)
    options.add_argument("--sizes", nargs="+", default=SIZES)
    options.add_argument("--operations", nargs="+", default=OPERATIONS, choices=OPERATIONS)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--output", type=Path, help="write the figures to this file as JSON")
    given = options.parse_args()
    rng = random.Random(given.seed)
    found = []
    with tempfile.TemporaryDirectory(prefix="fidelity-", dir=given.folder) as folder:
        for size in given.sizes:
            for operation in given.operations:
                found.append(compare(Path(folder), operation, size, given.pairs, rng))
                print(found[-1], flush=True)
    if given.output:
        given.output.write_text(json.dumps([asdict(c) | {"holds": c.holds} for c in found], indent=1) + "\n")
    return 0 if all(comparison.holds for comparison in found) else 1


if __name__ == "__main__":
    sys.exit(main())

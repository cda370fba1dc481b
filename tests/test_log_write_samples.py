"""Samples of real processes that wait for their only core, from the kernel to the sentence on a page."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sshd_hosts import SshdHost

from benchstudy.families.log_write.layout import GENERATOR, SERVER
from benchstudy.families.log_write.limits import LimitedBy, limited_by
from benchstudy.families.log_write.page.limits import told
from benchstudy.families.log_write.samples import Found, Shares, read_samples
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.model import registry
from benchstudy.model.family import ParseError
from benchstudy.model.services import Confinement, Service
from benchstudy.report import human

SESSION, OWNER = "session-samples", {"study": "tests", "controller": "here"}
LASTS_S = 2.5
# Processes that all have work at the same times: every tenth of a second, each with this much processor time.
BURSTS = """
import os, sys, time
count, busy_s, ready = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
for _ in range(count - 1):
    if os.fork() == 0:
        break
open(ready, "w").close()
while True:
    time.sleep(0.1 - time.time() % 0.1)
    until = time.process_time() + busy_s
    while time.process_time() < until:
        pass
"""


@pytest.fixture
def agent(tmp_path: Path):
    with SshdHost(tmp_path / "sshd") as sshd:
        host = sshd.host.model_copy(update={"work_dir": str(tmp_path / "work")})
        with Remote("alpha", host) as remote:
            lock = {"lock_path": str(tmp_path / "host.lock"), "lease_s": 20.0, "reconnect_s": 10.0}
            yield HostAgent.deploy(remote, on_event=print, extensions=registry.get("log_write").extensions, **lock)


@pytest.fixture
def sampled(agent, tmp_path: Path):
    """What the agent's sampler says about such processes on one core, read like a trial's samples."""
    return lambda count, busy_s: _sampled(agent, tmp_path, count, busy_s)


def _sampled(agent: HostAgent, folder: Path, count: int, busy_s: float) -> Found:
    argv = [sys.executable, "-c", BURSTS, str(count), str(busy_s), "{{dir}}/ready"]
    service = Service(argv=argv, ready={"file": "{{dir}}/ready", "timeout": "30s"})
    one_core = Confinement(cpu_list=(min(os.sched_getaffinity(0)),))
    with agent.lock(SESSION, OWNER):
        running = agent.start_service("bursts", service, confinement=one_core)
        files = folder / f"trial-{count}"
        samples = _samples(agent, files, services={SERVER: [running.folder]}, most_s=LASTS_S)
        running.stop()
    # The second half: by then, all of them have begun.
    ends = samples[len(samples) // 2]["wall"], samples[-1]["wall"]
    return read_samples(files, {SERVER: 1}, *ends, ends[0])


def _samples(agent: HostAgent, files: Path, cpu_list: Any = None, **spec: Any) -> list[dict[str, Any]]:
    """What the sampler says, which stays in `files` as a trial has it. `cpu_list`: the CPUs that it may use."""
    given = {"interval_s": 0.25, "until": str(files / "never"), **spec}
    argv = agent.argv("log_samples:sample")
    command = Command(argv, stdin=json.dumps(given).encode() + b"\n", timeout_s=60, label="samples", cpu_list=cpu_list)
    agent.fetch(agent.execute(command), files / "samples-alpha")
    return [json.loads(line) for line in (files / "samples-alpha" / "stdout").read_text().splitlines()[1:]]


def test_a_generator_of_another_host_on_the_same_machine_is_not_sampled(agent, tmp_path):
    sleep = ["/bin/sleep", "60"]
    with agent.lock(SESSION, OWNER), subprocess.Popen(sleep) as of_another_host:
        try:
            running = agent.start_service("sleeps", Service(argv=sleep, ready={"mount": "/proc"}))
            samples = _samples(agent, tmp_path / "trial", programs={GENERATOR: sleep[0]}, most_s=0.5)
            running.stop()
        finally:
            of_another_host.kill()
    assert {sample["processes"][GENERATOR]["threads"] for sample in samples} == {1}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it needs a processor that the host may not use")
def test_processors_that_a_host_may_not_use_are_not_its_own(agent, tmp_path):
    """A container with one processor of a machine whose others are busy, too."""
    own, *others = sorted(os.sched_getaffinity(0))
    busy = [subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]) for cpu in (own, *others)]
    try:
        with agent.lock(SESSION, OWNER):
            samples = _samples(agent, tmp_path / "trial", (own,), most_s=1.0)
    finally:
        for one in busy:
            one.kill()
            one.wait()
    found = read_samples(tmp_path / "trial", {}, samples[0]["wall"], samples[-1]["wall"], samples[0]["wall"])
    assert 0.5 < found.host_cpu["samples-alpha"] < 1.1


# --- made up: counters of which every difference is known ------------------------------------------------------------


def process(cpu_s: float, **changes: Any) -> dict[str, Any]:
    """Counters of a process, which are cumulative, and its state."""
    used = {"cpu_s": cpu_s, "rss_bytes": 1, "write_bytes": 0, "threads": 1, "fsync": 0, "waiting": 0, "cpu_wait_s": 0.0}
    return used | changes


def moment(at: float, host_cpu_s: float = 0.0, disk: Any = None, **processes: dict[str, Any]) -> dict[str, Any]:
    """A sample. The clock for durations is not the clock for moments."""
    return {"t": 500.0 + at, "wall": 1000.0 + at, "host_cpu_s": host_cpu_s, "processes": processes, "disk": disk}


def written(bytes_: int, busy_s: float) -> dict[str, float]:
    return {"written_bytes": bytes_, "busy_s": busy_s}


def keep(folder: Path, name: str, moments: list[dict[str, Any]], **head: Any) -> None:
    """Write the output of a sampler of a host with two CPUs."""
    (folder / f"samples-{name}").mkdir()
    lines = [{"cpus": 2, "disk": None, "pid": 1, **head}, *moments]
    (folder / f"samples-{name}" / "stdout").write_text("\n".join(map(json.dumps, lines)))


def test_shares_are_the_differences_between_the_first_and_the_last_sample_in_the_window(tmp_path):
    host = [0, 10, 11, 13, 14.5, 99]
    counts = [(0, 9, 1, 0), (1, 1, 0, 1), (2, 5, 2, 1), (2, 2, 0, 2), (4, 3, 1, 5.5), (50, 9, 1, 90)]
    server = [process(cpu, rss_bytes=rss, fsync=fsync, cpu_wait_s=wait) for cpu, rss, fsync, wait in counts]
    generator = [process(cpu) for cpu in (0, 0, 0, 1, 1.5, 60)]
    ended = [process(7, threads=threads) for threads in (3, 0, 0, 0, 0, 3)]
    disk = [written(size, busy) for size, busy in [(0, 0), (100, 1), (100, 1), (350, 2), (700, 2.5), (9999, 9)]]
    moments = [
        moment(at, host[at], disk[at], database=ended[at], server=server[at], generator=generator[at])
        for at in range(6)
    ]
    keep(tmp_path, "a", moments)
    found = read_samples(tmp_path, {SERVER: 3}, 1001.0, 1004.0, 1000.5)
    # From second 1 to second 4. The server may use 3 CPUs, and the generator all of the host.
    assert found.processes == {
        SERVER: Shares(cpu=3 / (3 * 3), rss_peak=5, fsync=2 / 4, cpu_wait=4.5 / 3),
        GENERATOR: Shares(cpu=1.5 / (3 * 2), rss_peak=1, fsync=0, cpu_wait=0),
    }, "the database had no thread in the window"
    assert found.host_cpu == {"samples-a": pytest.approx(4.5 / (3 * 2))}
    assert found.own_cpu == {"samples-a": pytest.approx((3 + 1.5) / (3 * 2))}
    assert (found.disk_write, found.disk_busy) == (pytest.approx(600 / 3), pytest.approx(1.5 / 3))
    # Rows are of all seconds, not only of the window's. Their time is that of the sample that ends them.
    rows = {(row["t_s"], row["process"]): row for row in found.rows}
    assert {at for at, _ in rows} == {0.5, 1.5, 2.5, 3.5, 4.5}
    assert [rows[at + 0.5, SERVER]["cpu_share"] for at in range(5)] == [
        pytest.approx(used / 3) for used in (1, 1, 0, 2, 46)
    ]
    assert [rows[at + 0.5, "disk"]["disk_write_b_per_s"] for at in range(5)] == [100, 0, 250, 350, 9299]


def test_a_disk_is_never_busier_than_all_the_time(tmp_path):
    """The kernel counts in ticks, and so may count more than the time that went by."""
    keep(tmp_path, "a", [moment(0, disk=written(0, 1.0)), moment(2, disk=written(10, 3.2))])
    found = read_samples(tmp_path, {}, 1000.0, 1002.0, 1000.0)
    assert (found.disk_busy, found.disk_write) == (1.0, 5.0)
    (tmp_path / "samples-a" / "stdout").unlink()
    (tmp_path / "samples-a").rmdir()
    for first, last in ((None, written(1, 1)), (written(1, 1), None)):
        keep(tmp_path, f"{first is None}", [moment(0, disk=first), moment(2, disk=last)])
    found = read_samples(tmp_path, {}, 1000.0, 1002.0, 1000.0)
    assert (found.disk_busy, found.disk_write, list(found.rows)) == (None, None, [])


def test_the_busy_time_of_a_disk_wraps_after_50_days(tmp_path):
    keep(tmp_path, "a", [moment(0, disk=written(0, 4294967.0)), moment(2, disk=written(10, 0.704))])
    assert read_samples(tmp_path, {}, 1000.0, 1002.0, 1000.0).disk_busy == pytest.approx(0.5)


def test_of_several_hosts_each_share_is_the_highest(tmp_path):
    """Some samplers do not know for how long threads waited, and some hosts have no sample in the window."""
    early = [moment(at, server=process(9.0 * at)) for at in range(-9, -5)]
    once = [moment(0, server=process(0)), moment(9, server=process(99))]
    many = [[process(0), process(1.0, rss_bytes=4, fsync=1, cpu_wait_s=None)],
            [process(0, rss_bytes=8), process(0.5, cpu_wait_s=0.25)],
            [process(0, cpu_wait_s=None), process(0.5, cpu_wait_s=7)]]  # fmt: skip
    for name, moments in (("a", early), ("b", once)):
        keep(tmp_path, name, moments)
    for name, (first, last) in zip("cde", many, strict=True):
        keep(tmp_path, name, [moment(0, server=first), moment(1, server=last)])
    found = read_samples(tmp_path, {SERVER: 1}, 1000.0, 1001.0, 1000.0)
    assert found.processes == {SERVER: Shares(cpu=1.0, rss_peak=8, fsync=0.5, cpu_wait=0.25)}
    assert set(found.host_cpu) == {"samples-c", "samples-d", "samples-e"}
    assert {row["process"] for row in found.rows} == {f"server on {name}" for name in "abcde"}


def test_a_load_of_several_hosts_ends_with_the_first_that_is_at_its_end(tmp_path):
    """Host a has two CPUs and its generator one, of which it uses half; host b's generator uses all of its own."""
    for host, may_use, used_s in (("a", 1, 0.5), ("b", 2, 2.0)):
        moments = [moment(second, second * used_s, generator=process(second * used_s)) for second in range(3)]
        keep(tmp_path, host, moments, may_use={GENERATOR: may_use})
    found = read_samples(tmp_path, {GENERATOR: 1}, 1000.0, 1002.0, 1000.0)
    assert found.processes[GENERATOR].cpu == 1.0
    assert limited_by(found, at_its_limit=True).by is LimitedBy.GENERATOR_CPU
    shares = {row["process"]: row["cpu_share"] for row in found.rows}
    assert shares == {"generator on a": 0.5, "generator on b": 1.0}


def test_several_starts_on_one_host_are_one_process(tmp_path):
    for name in ("a", "a-start-2"):
        keep(tmp_path, name, [moment(0, server=process(0)), moment(1, server=process(1.0))])
    rows = read_samples(tmp_path, {SERVER: 1}, 1000.0, 1001.0, 1000.0).rows
    assert [row["process"] for row in rows] == [SERVER, SERVER]


def test_a_row_is_of_a_second_give_or_take_half_a_sample(tmp_path):
    """Samples are 0.25 s apart. One that is due after a second may come an eighth earlier."""
    at = [0, 0.25, 0.5, 0.75, 0.87, 1.0, 1.25, 1.5, 1.75, 1.88, 2.0]
    keep(tmp_path, "a", [moment(t, server=process(t)) for t in at])
    rows = read_samples(tmp_path, {SERVER: 1}, 1000.0, 1002.0, 1000.0).rows
    assert [row["t_s"] for row in rows] == pytest.approx([1.0, 1.88])
    assert [row["cpu_share"] for row in rows] == [pytest.approx(1.0)] * 2


def test_what_a_process_wrote_is_unknown_or_not_negative(tmp_path):
    """A process that ends takes its count with it, and some may not be read."""
    counts = [0, 501, 300, None, 700, 901]
    keep(tmp_path, "a", [moment(1.25 * t, server=process(0, write_bytes=count)) for t, count in enumerate(counts)])
    rows = read_samples(tmp_path, {SERVER: 1}, 1000.0, 1001.0, 1000.0).rows
    assert [row["disk_write_b_per_s"] for row in rows] == [501 / 1.25, 0, None, None, 201 / 1.25]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "the file samples-a/stdout is missing"),
        ("", "samples-a/stdout is truncated or not a list of samples"),
        ('{"cpus": 2}\n{"t": 1.0, "wa', "samples-a/stdout is truncated or not a list of samples"),
        ('{"disk": null}\n', "samples-a/stdout is truncated or not a list of samples: 'cpus'"),
        ("[2]\n", "samples-a/stdout is truncated or not a list of samples"),
        ('{"cpus": 2}\n{"t": 1.0, "wall": 1.0}\n', "the samples are damaged: KeyError: 'processes'"),
    ],
)
def test_samples_that_are_missing_or_damaged_are_refused_with_their_file(tmp_path, text, message):
    (tmp_path / "samples-a").mkdir()
    if text is not None:
        (tmp_path / "samples-a" / "stdout").write_text(text)
    with pytest.raises(ParseError, match=message):
        read_samples(tmp_path, {}, 0.0, 1.0, 0.0)


def test_a_host_without_a_sample_has_no_share(tmp_path):
    keep(tmp_path, "a", [])
    assert read_samples(tmp_path, {}, 0.0, 1.0, 0.0) == Found({}, {}, {}, None, None, [])


# --- real processes ---------------------------------------------------------------------------------------------------


def test_processes_that_all_want_the_core_at_once_wait_for_it_though_it_is_idle_between(sampled):
    found = sampled(4, 0.015)
    server = found.processes[SERVER]
    assert 0 < server.cpu < 0.8, "at most 15 ms of each 100 are theirs, four times"
    assert server.cpu_wait > 0.5, "three of four wait while one has it"
    # Other work on this machine is not part of the test.
    quiet = Found(found.processes, {}, {}, found.disk_write, 0.1, found.rows)
    said = told(limited_by(quiet, at_its_limit=True))
    assert said.startswith(
        f"server CPU, in bursts: {human.number(server.cpu_wait)} of its threads were waiting for a CPU"
    ), said


def test_one_that_has_the_core_to_itself_does_not_wait_for_others_of_its_own(sampled):
    alone, together = (sampled(count, 0.015).processes[SERVER] for count in (1, 4))
    assert alone.cpu_wait < together.cpu_wait / 2

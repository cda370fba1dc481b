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
from benchstudy.families.log_write.samples import Found, read_samples
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.model import registry
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
        running = agent.start_service(SESSION, "bursts", service, confinement=one_core)
        files = folder / f"trial-{count}"
        samples = _samples(agent, files, services={SERVER: [running.folder]}, most_s=LASTS_S)
        running.stop()
    # The second half: by then, all of them have begun.
    ends = samples[len(samples) // 2]["wall"], samples[-1]["wall"]
    return read_samples(files, {SERVER: 1}, *ends, ends[0])


def _samples(agent: HostAgent, files: Path, **spec: Any) -> list[dict[str, Any]]:
    """What the sampler says, which stays in `files` as a trial has it."""
    given = {"interval_s": 0.25, "until": str(files / "never"), **spec}
    argv = agent.argv("log_samples:sample")
    command = Command(argv, stdin=json.dumps(given).encode() + b"\n", timeout_s=60, label="samples")
    agent.fetch(agent.execute(SESSION, command), files / "samples-alpha")
    return [json.loads(line) for line in (files / "samples-alpha" / "stdout").read_text().splitlines()[1:]]


def test_a_generator_of_another_host_on_the_same_machine_is_not_sampled(agent, tmp_path):
    sleep = ["/bin/sleep", "60"]
    with agent.lock(SESSION, OWNER), subprocess.Popen(sleep) as of_another_host:
        try:
            running = agent.start_service(SESSION, "sleeps", Service(argv=sleep, ready={"mount": "/proc"}))
            samples = _samples(agent, tmp_path / "trial", programs={GENERATOR: sleep[0]}, most_s=0.5)
            running.stop()
        finally:
            of_another_host.kill()
    assert {sample["processes"][GENERATOR]["threads"] for sample in samples} == {1}


def test_a_load_of_several_hosts_ends_with_the_first_that_is_at_its_end(tmp_path):
    # Made up: host a has two CPUs and its generator one, of which it uses half; host b's generator uses all of its own.
    for host, may_use, used_s in (("a", 1, 0.5), ("b", 2, 2.0)):
        lines = [{"cpus": 2, "may_use": {GENERATOR: may_use}, "disk": None, "pid": 1}]
        for second in range(3):
            one = {"cpu_s": second * used_s, "rss_bytes": 1, "write_bytes": 0, "threads": 1, "fsync": 0, "waiting": 0}
            now = {"t": second, "wall": second, "host_cpu_s": second * used_s, "disk": None}
            lines.append({**now, "processes": {GENERATOR: {**one, "cpu_wait_s": 0.0}}})
        (tmp_path / f"samples-{host}").mkdir()
        (tmp_path / f"samples-{host}" / "stdout").write_text("\n".join(json.dumps(line) for line in lines))
    found = read_samples(tmp_path, {GENERATOR: 1}, 0.0, 2.0, 0.0)
    assert found.processes[GENERATOR].cpu == 1.0
    assert limited_by(found, at_its_limit=True).by is LimitedBy.GENERATOR_CPU
    shares = {row["process"]: row["cpu_share"] for row in found.rows}
    assert shares == {"generator on a": 0.5, "generator on b": 1.0}


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

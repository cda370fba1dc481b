"""A capacity search whose servers die at a rate: killed at a real memory limit, or by somebody else's hand."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import log_write_study
import polars as pl
import pytest
from conftest import CHECKOUT
from log_write_study import FAMILY
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.families.log_write.config import CapacitySearch
from benchstudy.families.log_write.logbench import LogbenchResult, parse_logbench
from benchstudy.families.log_write.page.capacity import LogCapacity
from benchstudy.families.log_write.page.limits import told
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.families.log_write.page.searched import LogSearched
from benchstudy.families.log_write.page.summary import LogSummary
from benchstudy.families.log_write.parse import limit_of
from benchstudy.families.log_write.search import Attempt, Step, tried
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.raw import StoredTrial
from benchstudy.model import registry
from benchstudy.model.causes import Cause
from benchstudy.provisioning.target import provision_target
from benchstudy.report.results.results import Results

# A server at its memory limit is killed, or crawls and hangs where others want its processor.
pytestmark = pytest.mark.alone
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups here")
# A rate at which leaves pile up on any machine: 10 000 are under way then, which take some 320 MB of the server; at a
# tenth of that rate 50 MB.
TOO_MUCH, LIMIT = 20_000, {"name": "1-core-192MiB", "cpus": 1, "memory": "192MiB"}
GENERATOR = {
    "name": "open",
    "tool": "logbench",
    "cpus": 1,
    "drain": "5s",
    "write_time": "500ms",
    "request_timeout": "5s",
    "proof_sample": 3,
}
# So low a bar that a machine with other work passes it, unless the server dies.
SEARCH = {
    "window": "5s",
    "warm_up": "0s",
    "windows": 1,
    "min_achieved": 0.02,
    "max_errors": 0.99,
    "max_integrate_p99": "60s",
    "highest": f"{TOO_MUCH}/s",
}


def block(limits: list[dict[str, Any]], **search: Any) -> dict[str, Any]:
    return log_write_study.family(
        generators=[GENERATOR],
        rates=["search"],
        limits=limits,
        search={**SEARCH, **search},
        sweeps=[{"antispam": ["no"]}],
        timeout="200s",
    )


@dataclass(frozen=True)
class Searched:
    root: Path
    family: dict[str, Any]
    trial: StoredTrial

    @property
    def parsed(self) -> Any:
        return registry.get(FAMILY).parse(self.trial.record.levels, self.trial.folder)

    @property
    def values(self) -> dict[str, float]:
        assert self.trial.record.status == "ok", self.trial.record.cause
        return {one.metric: one.value for one in self.parsed.observations}

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.parsed.series["steps"])

    @property
    def labels(self) -> set[str]:
        return {command.label for command in self.trial.record.commands}

    def result(self, label: str) -> LogbenchResult:
        return parse_logbench((self.trial.folder / label / "files" / "result.json").read_text())


@dataclass(frozen=True)
class Host:
    """A real host, provisioned. `work`: its work folder; a path below it is what its programs are known by."""

    described: dict[str, Any]
    work: Path
    results: pytest.TempPathFactory

    def search(self, family: dict[str, Any]) -> Searched:
        root = self.results.mktemp("search")
        (trial,) = log_write_study.hold(root, family, self.described)
        assert not list((self.work / "services").glob("*")), "a server of some start is left"
        return Searched(root, family, trial)

    def running(self) -> dict[int, str]:
        """Command lines of its programs, by pid."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.work) in words and "sshd" not in words.split()[0]:
                    found[int(folder.name)] = words
        return found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("restarts")
    with SshdHost(folder / "sshd") as sshd, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(folder / "host.lock"))
        work = folder / "work"
        described = {**sshd.host.model_dump(exclude_none=True, exclude_defaults=True), "work_dir": str(work)}
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.chdir(CHECKOUT)
            provision_target(log_write_study.study_of(block([LIMIT]), described), "bench", folder / "facts.json")
        made = Host(described, work, tmp_path_factory)
        yield made
        until(lambda: not made.running(), 20)  # the agent ends when its connection does, a moment later


@pytest.fixture(scope="module")
def out_of_memory(host: Host) -> Searched:
    return host.search(block([LIMIT], start=f"{TOO_MUCH}/s", factor=10, max_steps=2))


@needs_root
def test_a_rate_at_which_the_server_ran_out_of_memory_has_failed_and_the_search_goes_on_below(out_of_memory: Searched):
    fatal, after = out_of_memory.steps
    assert not fatal["passed"] and fatal["offered_per_s"] == TOO_MUCH
    assert fatal["why"].startswith("OOM: killed by the kernel at its memory limit of 192 MiB (peak 19")
    assert fatal["integrate_p99_s"] is None and fatal["errors"] > 0
    assert (after["step"], after["attempt"]) == (2, 1), "memory that was used up is no stall: it is not tried again"
    assert after["passed"] and after["offered_per_s"] == TOO_MUCH / 10
    values = out_of_memory.values
    assert (values["capacity_pass"], values["capacity_fail"]) == (TOO_MUCH / 10, TOO_MUCH)
    said = told(limit_of(out_of_memory.trial.folder))
    assert said.startswith("memory: OOM: killed by the kernel at its memory limit of 192 MiB"), said
    assert said.endswith(f" at {TOO_MUCH}/s")


@needs_root
def test_what_every_start_left_is_kept_and_sampled(out_of_memory: Searched):
    folder, record = out_of_memory.trial.folder, out_of_memory.trial.record
    starts = ("", "-start-2")
    expected = {f"{what}{start}" for what in ("server", "store", "samples-here") for start in starts}
    assert expected <= out_of_memory.labels
    killed, fresh = (next(c for c in record.commands if c.label == f"server{start}") for start in starts)
    assert killed.signal == signal.SIGKILL and killed.limits["oom_kills"] == 1
    assert fresh.started > killed.finished
    assert all((folder / f"server{start}" / "stderr").stat().st_size for start in starts)
    # The fresh log begins empty, and its own process is what the samples after it are of.
    assert out_of_memory.result("load-step-02-attempt-1-window-1").checkpoints[0].size == 0
    rows = [row for row in out_of_memory.parsed.series["resources"] if row["process"] == "server"]
    assert any(row["t_s"] < 0 for row in rows), "the first start was sampled"
    assert any(0 < row["t_s"] < 6 and row["cpu_share"] > 0 for row in rows)
    # That of the start that the figures are of, and not of the one that was killed.
    assert 1 << 20 < out_of_memory.values["server_peak_memory"] < 150 << 20


@needs_root
def test_the_report_shows_the_rate_as_failed_with_its_cause(out_of_memory: Searched):
    plan = log_write_study.study_of(out_of_memory.family).session("bench", FAMILY)
    tidy = out_of_memory.root / "tidy"
    tidy_family(out_of_memory.root, [plan], tidy)
    load = LogWrite(Results(tidy, study="small", family=FAMILY), {})
    steps = pl.read_parquet(tidy / "steps.parquet")
    assert steps.filter(pl.col("why").str.starts_with("OOM"))["passed"].to_list().count(False) >= 1
    (table,) = LogCapacity(load).steps()
    verdicts = [row[-1] for row in table.rows]
    assert verdicts[0].kind == "failed" and verdicts[0].lines[0].startswith("OOM: killed by the kernel")
    (capacity,) = LogCapacity(load).table().rows
    assert capacity[-1].lines == ("memory",)
    (figure,) = LogSearched(load).figures()
    _, caption, panels, _, shown = figure
    assert f"OOM at {TOO_MUCH:,}/s" in caption
    assert [panel.title for panel in panels] == ["Achieved", "Time to integrate, p99"] and "no dedup, passed" in shown
    drawn = json.dumps(panels[0].spec(400, legend=False))
    assert '"OOM"' in drawn, "there is a line at the rate"
    assert '"hidden"' in json.dumps(panels[0].spec(400, legend=False)["params"]), "its legend still hides series"
    assert any("servers that died in the capacity search" in text for text in LogSummary(load).weaknesses())


@needs_root
def test_where_even_the_lowest_rate_ends_the_server_that_is_the_trials_cause(host: Host):
    lowest = f"{TOO_MUCH}/s"
    record = host.search(block([LIMIT], start=lowest, lowest=lowest)).trial.record
    assert record.status == "failed"
    assert record.cause.startswith("OOM: killed by the kernel at its memory limit of 192 MiB")
    assert record.cause.endswith(f"at {TOO_MUCH}/s; no rate kept the objective, 1 tried, down to {TOO_MUCH}/s")


@needs_root
def test_a_log_is_not_started_again_for_ever(host: Host):
    record = host.search(block([LIMIT], start=f"{TOO_MUCH}/s", max_restarts=0)).trial.record
    assert record.status == "failed" and record.cause.startswith("OOM: killed by the kernel")
    assert "servers have died 1 times in this search (none passed), and max_restarts is 0" in record.cause


def searched_with_a_signal(host: Host, number: signal.Signals, **search: Any) -> Searched:
    """A search of two rates that any machine keeps; its server gets the signal in the second rate's load."""
    sent: list[int] = []
    over = Event()

    def send() -> None:
        generators: set[int] = set()
        while not over.wait(0.05) and not sent:
            running = host.running()
            generators |= {pid for pid, words in running.items() if "/logbench write " in words}
            servers = [pid for pid, words in running.items() if words.split()[0].endswith("/tessera-posix")]
            if len(generators) == 2 and servers:
                time.sleep(0.5)  # into its load: any moment of its six seconds will do
                os.kill(servers[0], number)
                sent.append(servers[0])

    thread = Thread(target=send, daemon=True)
    thread.start()
    try:
        searched = host.search(block([], start="100/s", highest="150/s", **search))
    finally:
        over.set()
        thread.join()
    assert sent
    return searched


def test_a_server_that_somebody_killed_costs_an_attempt_and_not_the_trial(host: Host):
    searched = searched_with_a_signal(host, signal.SIGKILL)
    passed, died, again = searched.steps
    assert passed["passed"] and again["passed"] and (again["step"], again["attempt"]) == (2, 2)
    assert died["why"] == "server died: it ended with signal 9" and (died["step"], died["attempt"]) == (2, 1)
    assert searched.values["capacity_pass"] == 150 and "capacity_fail" not in searched.values
    said = told(limit_of(searched.trial.folder))
    assert said.startswith("nothing: every rate that was tried kept the objective")
    problems = searched.trial.record.verified["problems"]
    assert any(problem.startswith("died: servers died at 1 of 3 windows") for problem in problems)
    assert {"server", "server-start-2"} <= searched.labels


def test_a_server_that_hangs_before_the_next_load_begins_is_started_afresh_too(host: Host):
    searched = searched_with_a_signal(host, signal.SIGSTOP, attempts=3)
    first, stopped, hung, again = searched.steps
    assert first["passed"] and not stopped["passed"]
    assert hung["why"] == "server hung: no checkpoint came before the load began"
    assert hung["achieved_per_s"] is None, "its generator left no result"
    assert again["passed"] and (again["step"], again["attempt"]) == (2, 3)
    assert {"server", "server-start-2"} <= searched.labels


def test_an_attempt_that_is_final_is_the_last():
    numbers: list[int] = []

    def attempt(number: int) -> Attempt:
        numbers.append(number)
        return Attempt("OOM: killed", Cause.OOM)

    assert tried(100.0, CapacitySearch(), attempt) == Step(100.0, passed=False, why="OOM: killed", cause=Cause.OOM)
    assert numbers == [1]

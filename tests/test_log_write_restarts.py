"""A capacity search whose servers die at a rate: killed at a real memory limit, or from outside."""

import json
import os
import signal
from collections.abc import Iterator

import log_write_study
import polars as pl
import pytest
from log_write_search import LIMIT, TOO_MUCH, Host, Searched, block, provisioned
from log_write_study import FAMILY

from benchstudy.families.log_write.page.capacity import LogCapacity
from benchstudy.families.log_write.page.limits import told
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.families.log_write.page.summary import LogSummary
from benchstudy.families.log_write.parse import note_trial
from benchstudy.jobs.tidy import tidy_family
from benchstudy.model.causes import Cause
from benchstudy.report.results.results import Results

# A server at its memory limit is killed, or slows down and hangs if others want its processor.
pytestmark = pytest.mark.alone
# A window by whose end it has long been killed; until then, the generator continues to ask.
ENDS_SOON = "3s"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups here")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with provisioned(tmp_path_factory) as host:
        yield host


@pytest.fixture(scope="module")
def out_of_memory(host: Host) -> Searched:
    return host.search(block([LIMIT], start=f"{TOO_MUCH}/s", factor=10, max_steps=2))


@needs_root
def test_a_rate_at_which_the_server_ran_out_of_memory_has_failed_and_the_search_goes_on_below(out_of_memory: Searched):
    fatal, after = out_of_memory.steps
    assert not fatal["passed"] and fatal["offered_per_s"] == TOO_MUCH
    assert fatal["said"].startswith("OOM: killed by the kernel at its memory limit of 192 MiB (peak 19")
    assert fatal["integrate_p99_s"] is None and fatal["errors"] > 0
    assert (after["step"], after["attempt"]) == (2, 1), "memory that was used up is no stall: it is not tried again"
    assert after["passed"] and after["offered_per_s"] == TOO_MUCH / 10
    values = out_of_memory.values
    assert (values["capacity_pass"], values["capacity_fail"]) == (TOO_MUCH / 10, TOO_MUCH)
    said = told(note_trial(out_of_memory.trial.folder)["limited_by"])
    assert said.startswith("memory: OOM: killed by the kernel at its memory limit of 192 MiB"), said
    assert said.endswith(f" at {TOO_MUCH:,}/s")


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
    # The fresh log begins empty, and the samples after it are of its own process.
    assert out_of_memory.result("load-step-02-attempt-1-window-1").checkpoints[0].size == 0
    rows = [row for row in out_of_memory.parsed.series["resources"] if row["process"] == "server"]
    assert any(row["t_s"] < 0 for row in rows), "the first start was sampled"
    assert any(0 < row["t_s"] < 6 and row["cpu_share"] > 0 for row in rows)
    # It is the start to which the figures belong, not that of the killed server.
    assert 1 << 20 < out_of_memory.values["server_peak_memory"] < 150 << 20


@needs_root
def test_the_report_shows_the_rate_as_failed_with_its_cause(out_of_memory: Searched):
    plan = log_write_study.study_of(out_of_memory.family).session("bench", FAMILY)
    tidy = out_of_memory.root / "tidy"
    tidy_family(out_of_memory.root, [plan], tidy)
    load = LogWrite(Results(tidy, study="small", family=FAMILY), {})
    steps = pl.read_parquet(tidy / "steps.parquet")
    assert steps.filter(pl.col("cause") == Cause.OOM)["passed"].to_list().count(False) >= 1
    (table,) = LogCapacity(load).steps()
    verdicts = [row[-1] for row in table.rows]
    assert verdicts[0].kind == "failed" and verdicts[0].lines[0].startswith("OOM: killed by the kernel")
    (capacity,) = LogCapacity(load).table().rows
    assert capacity[-1].lines == ("memory",)
    (figure,) = LogCapacity(load).figures()
    _, caption, panels, _, shown = figure
    assert f"OOM at {TOO_MUCH:,}/s" in caption
    assert [panel.title for panel in panels] == ["Achieved", "Time to integrate, p99"] and "no dedup, passed" in shown
    drawn = json.dumps(panels[0].spec(400))
    assert '"OOM"' in drawn, "there is a line at the rate"
    assert '"hidden"' in json.dumps(panels[0].spec(400)["params"]), "its legend still hides series"
    assert any("servers that died in the capacity search" in text for text in LogSummary(load).weaknesses())


@needs_root
def test_where_even_the_lowest_rate_ends_the_server_that_is_the_trials_cause(host: Host):
    lowest = f"{TOO_MUCH}/s"
    record = host.search(block([LIMIT], start=lowest, lowest=lowest, window=ENDS_SOON)).trial.record
    assert record.status == "failed"
    assert record.cause.startswith("OOM: killed by the kernel at its memory limit of 192 MiB")
    assert record.cause.endswith(f"at {TOO_MUCH}/s; no rate met the objective, 1 tried, down to {TOO_MUCH}/s")


@needs_root
def test_a_log_is_not_started_again_for_ever(host: Host):
    record = host.search(block([LIMIT], start=f"{TOO_MUCH}/s", max_restarts=0, window=ENDS_SOON)).trial.record
    assert record.status == "failed" and record.cause.startswith("OOM: killed by the kernel")
    assert "servers died once in this search (no rate passed), and max_restarts is 0" in record.cause

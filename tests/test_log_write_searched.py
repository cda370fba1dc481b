"""Every figure of a capacity search, against the numbers in its files. It was a real one; no server runs here."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from log_write_trials import NO_TIMES, TESSERA, change, copy_of, parsed, raw, samples, unpack
from scipy.stats import linregress

from benchstudy.families.log_write.limits import LimitedBy
from benchstudy.families.log_write.parse import note_trial
from benchstudy.families.log_write.reading import window_of
from benchstudy.model.causes import Cause

SEARCH = {"front_ends": "1", "rate": "search"}
FIRST, SECOND = (f"load-step-0{number}-attempt-1-window-1" for number in (1, 2))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def copied(stores: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda pattern: copy_of(stores, pattern, tmp_path / "trial")


def test_a_search_that_nothing_stopped_has_the_figures_of_its_last_rate(copied):
    trial = copied("*rate=search")
    values, found = parsed(SEARCH, trial)
    assert values["capacity_pass"] == 150 and "capacity_fail" not in values
    results = [raw(trial / label / "files/result.json") for label in (FIRST, SECOND)]
    assert values["accepted"] == results[1]["window"]["accepted"] == 450
    assert values["offered"] == 150
    slopes = []
    for result in results:
        inside = [(one["t_s"], one["size"]) for one in result["checkpoints"] if 0.5 <= one["t_s"] <= 3.5]
        slopes.append(linregress(*zip(*inside, strict=True)).slope)
    rows = [{name: row[name] for name in row if row[name] is not None} for row in found.series["steps"]]
    assert rows == [
        {
            "step": number,
            "attempt": 1,
            "offered_per_s": rate,
            "passed": True,
            "achieved_per_s": pytest.approx(slope),
            "errors": 0,
            "pushback": 0,
            "dropped": 0,
            "integrate_p99_s": p99_s,
        }
        for number, rate, slope, p99_s in ((1, 100.0, slopes[0], 3.040807), (2, 150.0, slopes[1], 3.00125))
    ]
    limit = note_trial(trial)["limited_by"]
    assert (limit.by, limit.rate_per_s) == (LimitedBy.NOTHING, 150)
    assert values["server_peak_memory"] == 16_306_176
    # The CPU that the server used, by the samples in the window of the last rate.
    begin = results[1]["started_unix_s"] + 0.5
    counted, lasted_s = samples(trial, begin, begin + 3.0)
    assert values["server_cpu"] == pytest.approx(counted["server"] / lasted_s / 2)


ACHIEVED = {"missed": "achieved", "seen": 0.9, "bound": 0.99, "busy_generator": None, "cause": None, "said": None}
DIED = {"missed": "died", "seen": None, "bound": None, "busy_generator": None, "cause": "server-died", "said": "gone"}


def failing(reason: Mapping[str, Any] | None, *again: Mapping[str, Any]) -> Callable[[Any], None]:
    """A search in which 150/s failed for this reason. `again`: windows that it had besides, before this one."""

    def change(facts: Any) -> None:
        passed, last = facts["steps"]
        last |= {"reason": reason, "attempt": len(again) + 1}
        facts["steps"] = [passed, *(last | {"attempt": 1} | row for row in again), last]
        facts["bracket"] = {"highest_pass": 100.0, "lowest_fail": 150.0}

    return change


def test_a_search_that_failed_has_the_figures_of_the_rate_that_passed_and_the_limit_of_the_other(copied):
    trial = copied("*rate=search")
    change(trial / "log.json", failing(ACHIEVED))
    values, found = parsed(SEARCH, trial)
    assert (values["capacity_pass"], values["capacity_fail"]) == (100, 150)
    assert (values["offered"], values["accepted"]) == (100, 300)
    begin = raw(trial / SECOND / "files/result.json")["started_unix_s"] + 0.5
    counted, lasted_s = samples(trial, begin, begin + 3.0)
    limit = note_trial(trial)["limited_by"]
    assert limit.server_cpu == pytest.approx(counted["server"] / lasted_s / 2) and limit.rate_per_s is None
    assert [(row["passed"], row.get("missed"), row.get("seen")) for row in found.series["steps"]] == [
        (True, None, None),
        (False, "achieved", 0.9),
    ]
    assert deaths(trial) == []


def deaths(trial: Path) -> list[Mapping[str, Any]]:
    return [problem for problem in note_trial(trial)["problems"] if problem["rule"] == "died"]


@pytest.mark.parametrize(
    ("cause", "by"), [("server-died", LimitedBy.DEATH), ("server-hung", LimitedBy.DEATH), ("oom", LimitedBy.MEMORY)]
)
def test_a_server_that_died_is_the_limit_with_its_rate_and_its_words(copied, cause, by):
    trial = copied("*rate=search")
    change(trial / "log.json", failing(DIED | {"cause": cause}))
    limit = note_trial(trial)["limited_by"]
    assert (limit.by, limit.rate_per_s, limit.died) == (by, 150, "gone")
    assert deaths(trial) == [{"rule": "died", "died": 1, "windows": 2, "rate_per_s": 150.0, "said": "gone"}]
    died = parsed(SEARCH, trial)[1].series["steps"][-1]
    assert (died["cause"], died["said"], died["integrate_p99_s"]) == (Cause(cause), "gone", None)
    assert died["achieved_per_s"] > 0
    (trial / SECOND / "files/result.json").unlink()
    died = parsed(SEARCH, trial)[1].series["steps"][-1]
    assert not died.keys() & {"achieved_per_s", "errors", "integrate_p99_s"}, "its generator left no result"


def test_only_the_window_that_decided_an_attempt_is_a_row_and_every_death_is_counted(copied):
    trial = copied("*rate=search")
    first = {"window": 1, "reason": None, "label": FIRST}
    second = {"window": 2, "reason": DIED | {"said": "first"}}
    change(trial / "log.json", failing(DIED, first, second))
    rows = parsed(SEARCH, trial)[1].series["steps"]
    assert [(row["step"], row["attempt"], row.get("said")) for row in rows] == [
        (1, 1, None),
        (2, 1, "first"),
        (2, 3, "gone"),
    ]
    assert note_trial(trial)["limited_by"].died == "gone", "the last attempt"
    (problem,) = deaths(trial)
    assert (problem["died"], problem["windows"], problem["said"]) == (2, 4, "first")


def test_the_limit_is_that_of_the_lowest_rate_that_failed_and_not_of_a_stall_below_it(copied):
    trial = copied("*rate=search")
    change(trial / "log.json", failing(DIED))

    def stall(facts: Any) -> None:
        passed, died = facts["steps"]
        facts["steps"] = [died, passed | {"reason": DIED | {"said": "stalled"}}, passed | {"attempt": 2}]

    change(trial / "log.json", stall)
    assert (note_trial(trial)["limited_by"].died, note_trial(trial)["limited_by"].rate_per_s) == ("gone", 150)


def test_the_figures_are_those_of_the_last_window_at_the_highest_rate_that_passed(copied):
    trial = copied("*rate=search")
    change(trial / "log.json", lambda facts: facts["steps"][0].update(rate_per_s=150.0))
    assert parsed(SEARCH, trial)[0]["accepted"] == 450
    change(trial / "log.json", lambda facts: facts["steps"].reverse())
    assert parsed(SEARCH, trial)[0]["accepted"] == 300


@pytest.mark.parametrize(
    ("start", "died", "memory"),
    [
        (1, None, 111),
        (2, None, 222),
        (2, "it ended with signal 9", None),  # the peak belongs to another rate
    ],
)
def test_the_memory_of_a_search_is_that_of_the_start_that_has_its_figures(copied, start, died, memory):
    trial = copied("*rate=search")

    def restart(facts: Any) -> None:
        facts["steps"][1]["start"] = start
        facts["starts"] = [{"servers": [{"peak_memory_bytes": peak}], "died": died} for peak in (111, 222)]
        facts["servers"] = [{"peak_memory_bytes": 333}]

    change(trial / "log.json", restart)
    begin = raw(trial / SECOND / "files/result.json")["started_unix_s"] + 0.5
    _, *lines = map(json.loads, (trial / "samples-local/stdout").read_text().splitlines())
    resident = [line["processes"]["server"]["rss_bytes"] for line in lines if begin <= line["wall"] <= begin + 3.0]
    assert parsed(SEARCH, trial)[0]["server_peak_memory"] == (memory or max(resident))


# --- one window ---------------------------------------------------------------------------------------------


def test_a_window_of_a_search_has_the_numbers_of_its_result(tmp_path):
    (tmp_path / "files").mkdir()
    shutil.copyfile(TESSERA / "logbench-posix-antispam.json", tmp_path / "files/result.json")
    result = raw(tmp_path / "files/result.json")
    window = window_of(tmp_path, 2, 1.0)
    inside = [(one["t_s"], one["size"]) for one in result["checkpoints"] if 3 <= one["t_s"] <= 18]
    assert asdict(window) == {
        "offered_per_s": 500,
        "sent": 7500,
        "dropped": 0,
        "achieved_per_s": pytest.approx(linregress(*zip(*inside, strict=True)).slope),
        "errors": 0,
        "pushback": 0,
        "integrate_p99_s": next(one["value_s"] for one in result["integrate_latency"]["quantiles"] if one["q"] == 0.99),
        "not_integrated": 0,
        "expected_share": pytest.approx(6731 / 7500),
        "generator_cpu": pytest.approx((0.562533 + 0.752311) / 15 / 2),
    }
    shutil.copyfile(TESSERA / "logbench-killed.json", tmp_path / "files/result.json")
    window = window_of(tmp_path, 2, 1.0)
    assert (window.errors, window.not_integrated, window.expected_share) == (1708, 256, 1)
    shutil.copyfile(TESSERA / "logbench-pushback.json", tmp_path / "files/result.json")
    window = window_of(tmp_path, 2, 1.0)
    assert (window.sent, window.dropped, window.pushback) == (74_292, 85_708, 7517)
    # Nothing was accepted, and the tree did not grow.
    change(tmp_path / "files/result.json", grow_by_nothing)
    window = window_of(tmp_path, 2, 1.0)
    assert (window.achieved_per_s, window.expected_share, window.integrate_p99_s) == (0, 1, None)


def grow_by_nothing(result: Any) -> None:
    for counts in (result["window"], result["total"]):
        counts |= {"pushback_500": counts["sent"], "accepted": 0}
    result |= {"add_latency": NO_TIMES, "integrate_latency": NO_TIMES, "checkpoints": result["checkpoints"][:1]}


@pytest.mark.parametrize("ahead_s", [-180.0, 2.5, 180.0])
def test_samples_of_a_host_whose_clock_differs_are_of_the_same_window(copied, ahead_s: float):
    """The samples of minutes before and after had no part in the window, and of seconds, the wrong part."""
    trial = copied("*rate=search")
    values, found = parsed(SEARCH, trial)
    path = trial / "samples-local" / "stdout"
    head, *lines = map(json.loads, path.read_text().splitlines())
    moved = [line | {"wall": line["wall"] + ahead_s} for line in lines]
    path.write_text("\n".join(map(json.dumps, [head, *moved])))
    assert parsed(SEARCH, trial)[0] != values
    change(trial / "log.json", lambda facts: facts.update(clocks_ahead_s={"local": ahead_s}))
    again, shown = parsed(SEARCH, trial)
    assert again == values
    assert [row["t_s"] for row in shown.series["resources"]] == pytest.approx(
        [row["t_s"] for row in found.series["resources"]], abs=1e-3
    )

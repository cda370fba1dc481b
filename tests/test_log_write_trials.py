"""Every figure of trials of log_write with a constant rate, against the numbers in their files. No server runs here.

The trials are real ones (data/store-b9a61cf), and some of them changed in one place. What is expected is computed from
the raw files by the definitions in docs/families/log_write.md.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from log_write_trials import NO_TIMES, TESSERA, change, copy_of, parsed, raw, samples, unpack

from benchstudy.families.log_write.hammer import HammerScreen, parse_box, replay
from benchstudy.families.log_write.limits import LimitedBy
from benchstudy.families.log_write.parse import note_trial
from benchstudy.model.family import ParseError

OPEN, HAMMER = ({"front_ends": "1", "rate": rate} for rate in ("2000-per-s", "200-per-s"))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def copied(stores: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda pattern: copy_of(stores, pattern, tmp_path / "trial")


# --- an open loop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["posix", "mariadb"])
def test_the_figures_of_an_open_loop_are_those_of_its_files(copied, backend: str):
    trial = copied(f"backend={backend},*rate=2000-per-s")
    result, facts = raw(trial / "load/files/result.json"), raw(trial / "log.json")
    values, found = parsed(OPEN, trial)
    window, proofs = result["window"], result["proofs"]
    assert {name: values[name] for name in ("accepted", "duplicates", "dropped", "proofs_asked", "proofs_proved")} == {
        **{name: window[name] for name in ("accepted", "duplicates", "dropped")},
        "proofs_asked": proofs["asked"],
        "proofs_proved": proofs["proved"],
    }
    assert values["pushback"] == window["pushback_500"] + window["pushback_503"]
    assert values["errors"] == sum(count for name, count in window.items() if name.startswith("errors_"))
    assert values["offered"] == result["offered_per_s"]
    assert values["tree_size"] == result["checkpoints"][-1]["size"]
    for name, times in (("queue", result["add_latency"]), ("integrate", result["integrate_latency"])):
        told = {f"p{100 * one['q']:g}": one["value_s"] for one in times["quantiles"]}
        for statistic in ("p50", "p90", "p99"):
            assert values[f"{name}_{statistic}"] == told[statistic]
        assert (values[f"{name}_mean"], values[f"{name}_max"]) == (times["mean_s"], times["max_s"])
        bins = [
            {k: row[k] for k in ("low_s", "high_s", "count")}
            for row in found.series["histogram"]
            if row["which"] == name
        ]
        assert bins == times["bins"]
    assert [list(row.values()) for row in found.series["latency"]] == [
        [one[name] for name in ("t_s", "integrate_p50_s", "integrate_p99_s", "add_p50_s", "add_p99_s")]
        for one in result["samples"]
    ]
    # The rate, by the checkpoints in the window, which lasts from 0.5 s to 3.5 s.
    inside = [one for one in result["checkpoints"] if 0.5 <= one["t_s"] <= 3.5]
    grew, took_s = inside[-1]["size"] - inside[0]["size"], inside[-1]["t_s"] - inside[0]["t_s"]
    assert values["publish_steps"] == len(inside) - 1
    assert values["qps"] == pytest.approx(grew / took_s)
    assert values["achieved_share"] == pytest.approx(grew / took_s / 2000)
    assert values["generator_cpu"] == pytest.approx((result["cpu_user_s"] + result["cpu_system_s"]) / 3.0)
    assert [(row["t_s"], row["size"]) for row in found.series["growth"]] == [
        (one["t_s"], one["size"]) for one in result["checkpoints"]
    ]
    # What the kernel counted between the first and the last sample in the window. Both CPUs were the server's.
    begin = result["started_unix_s"] + 0.5
    counted, lasted_s = samples(trial, begin, begin + 3.0)
    assert values["server_cpu"] == pytest.approx(counted["server"] / lasted_s / 2)
    assert values.get("database_cpu") == (
        pytest.approx(counted["database"] / lasted_s / 2) if backend == "mariadb" else None
    )
    assert values["disk_write"] == pytest.approx(counted["written_bytes"] / lasted_s)
    assert values["disk_busy"] == pytest.approx(counted["busy_s"] / lasted_s)
    assert values["server_peak_memory"] == facts["servers"][0]["peak_memory_bytes"]
    assert "clients" not in found.series and found.series["steps"] == []


@pytest.mark.parametrize(("name", "kind"), [("integrate", "integrate_latency"), ("queue", "add_latency")])
def test_leaves_without_a_time_are_slower_than_all_others(copied, name: str, kind: str):
    trial = copied("backend=posix,*rate=2000-per-s")
    before, _ = parsed(OPEN, trial)

    def end_early(result: dict[str, Any]) -> None:
        """Nobody waited for the slowest third."""
        times = result[kind]
        bins, slowest = times["bins"], []
        while sum(one["count"] for one in slowest) < times["count"] / 3:
            slowest.append(bins.pop())
        left = sum(one["count"] for one in slowest)
        times["count"] -= left
        low, high = times["min_s"], bins[-1]["low_s"]
        times |= {"mean_s": low, "max_s": high}
        times["quantiles"] = [{"q": one["q"], "value_s": low} for one in times["quantiles"]]
        if name == "integrate":
            result["proofs"]["not_integrated"] = left
            return
        for counts in (result["window"], result["total"]):
            counts |= {"accepted": counts["accepted"] - left, "errors_timeout": left}
        result["integrate_latency"] |= NO_TIMES
        result["proofs"]["not_integrated"] = times["count"]

    change(trial / "load/files/result.json", end_early)
    values, _ = parsed(OPEN, trial)
    assert values[f"{name}_p50"] == pytest.approx(before[f"{name}_p50"], rel=0.01)
    assert not {f"{name}_{which}" for which in ("p90", "p99", "mean", "max")} & values.keys()
    assert "integrate_p99" not in values
    problems = [problem for problem in note_trial(trial)["problems"] if problem["rule"] == "not-integrated"]
    result = raw(trial / "load/files/result.json")
    counted = {"not_integrated": result["proofs"]["not_integrated"], "accepted": result["add_latency"]["count"]}
    assert problems == [{"rule": "not-integrated", **counted}]


def test_the_phases_of_a_load_follow_each_other_and_the_drain_ends_with_the_last_checkpoint(copied):
    trial = copied("backend=posix,*rate=2000-per-s")
    result = raw(trial / "load/files/result.json")
    after_s = 3.5 + result["cool_down_s"]
    last_s = result["checkpoints"][-1]["t_s"]
    _, found = parsed(OPEN, trial)
    expected = [("warm-up", 0.0, 0.5), ("window", 0.5, 3.5), ("cool-down", 3.5, after_s), ("drain", after_s, last_s)]
    assert [tuple(row.values()) for row in found.series["phases"]] == expected
    change(trial / "load/files/result.json", lambda result: result.update(cool_down_s=0.0))
    _, found = parsed(OPEN, trial)
    assert [row["phase"] for row in found.series["phases"]] == ["warm-up", "window", "drain"]


def test_the_rows_of_resources_add_up_to_what_the_kernel_counted(copied):
    trial = copied("backend=mariadb,*rate=2000-per-s")
    started = raw(trial / "load/files/result.json")["started_unix_s"]
    _, *lines = map(json.loads, (trial / "samples-local/stdout").read_text().splitlines())
    rows = pl.DataFrame(parsed(OPEN, trial)[1].series["resources"])
    assert set(rows["process"]) == {"server", "database", "generator", "disk"}
    moments = rows["t_s"].unique().sort()
    last = next(line for line in lines if line["wall"] - started == moments[-1])
    took_s = np.diff([lines[0]["wall"] - started, *moments])
    # A row per second, of samples that are 0.25 s apart. A busy host is a little late.
    assert min(took_s) > 0.87 and max(took_s) < 1.3
    for process, cpus in (("server", 2), ("database", 2), ("generator", 1)):
        of_process = rows.filter(process=process).sort("t_s")
        begun, ended = (line["processes"][process] for line in (lines[0], last))
        assert (of_process["cpu_share"] * cpus * took_s).sum() == pytest.approx(
            ended["cpu_s"] - begun["cpu_s"], rel=1e-4
        )
        written = (of_process["disk_write_b_per_s"] * took_s).sum()
        assert written == pytest.approx(ended["write_bytes"] - begun["write_bytes"], rel=1e-4)
    disk = rows.filter(process="disk").sort("t_s")
    assert disk["cpu_share"].is_null().all()
    by_all = last["disk"]["written_bytes"] - lines[0]["disk"]["written_bytes"]
    assert (disk["disk_write_b_per_s"] * took_s).sum() == pytest.approx(by_all, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ([{"peak_memory_bytes": 5_000_000}, {"peak_memory_bytes": 7_000_000}], 12_000_000),
        ([{"peak_memory_bytes": 5_000_000}, {"peak_memory_bytes": None}], None),
        ([{}], None),
    ],
)
def test_memory_is_of_all_servers_or_else_what_was_resident_in_the_window(copied, changes, memory):
    trial = copied("backend=posix,*rate=2000-per-s")
    change(trial / "log.json", lambda facts: facts.update(servers=changes))
    begin = raw(trial / "load/files/result.json")["started_unix_s"] + 0.5
    _, *lines = map(json.loads, (trial / "samples-local/stdout").read_text().splitlines())
    resident = [line["processes"]["server"]["rss_bytes"] for line in lines if begin <= line["wall"] <= begin + 3.0]
    assert parsed(OPEN, trial)[0]["server_peak_memory"] == (memory or max(resident))


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"rate": "2001-per-s"}, "measured at 2000.0 leaves/s, but the case has 2001-per-s"),
        ({"rate": "search"}, "measured at 2000.0 leaves/s, but the case has search"),
        ({"front_ends": "2"}, "measured with 1 front ends, but the case has 2"),
    ],
)
def test_files_of_another_case_are_refused(copied, levels, message):
    with pytest.raises(ParseError, match=message):
        parsed({**OPEN, **levels}, copied("backend=posix,*rate=2000-per-s"))


@pytest.mark.parametrize(
    ("change_of", "missing"),
    [({"schema": 2}, "log.json: schema 2, but only 1 is known"), ({"cpus": ...}, "log.json lacks cpus")],
)
def test_facts_of_another_schema_and_incomplete_ones_are_refused(copied, change_of, missing):
    trial = copied("backend=posix,*rate=2000-per-s")
    facts = {k: v for k, v in {**raw(trial / "log.json"), **change_of}.items() if v is not ...}
    (trial / "log.json").write_text(json.dumps(facts))
    with pytest.raises(ParseError, match=missing):
        parsed(OPEN, trial)


# --- whether the log was at its limit -------------------------------------------------------------------------


def drop(leaves: int) -> Callable[[Any], None]:
    """A result in which this many leaves more were due in the window, but not sent."""

    def change(result: Any) -> None:
        for counts in (result["window"], result["total"]):
            counts["planned"] += leaves
            counts["dropped"] += leaves

    return change


def refuse(result: Any) -> None:
    """A result in which one of the accepted leaves of the warm-up was refused, and one of the window."""
    for counts in (result["window"], result["total"]):
        counts["sent"] += 1
        counts["planned"] += 1
        counts["pushback_500"] += 1
    result["offered_per_s"] = result["window"]["sent"] / result["duration_s"]
    result["start_delay"]["count"] += 1
    result["samples"][1]["sent"] += 1


def at_rate(rate: float) -> Callable[[Any], None]:
    return lambda result: result.update(rate_per_s=rate)


def stop_at_once(result: Any) -> None:
    """A log that published nothing in the window: the rest came late."""
    result["checkpoints"] = [one | {"t_s": one["t_s"] + 5} for one in result["checkpoints"]]


@pytest.mark.parametrize(
    ("changed", "at_its_limit"),
    [
        (drop(0), False),
        (drop(1), True),
        (refuse, True),
        (at_rate(2029.0), True),  # the tree grew by 2007.7 per second, which is 99 % of 2028
        (at_rate(2027.0), False),
        (at_rate(0.5), False),
        (stop_at_once, True),
    ],
)
def test_a_log_was_at_its_limit_if_it_refused_leaves_or_grew_by_less_than_99_per_cent(copied, changed, at_its_limit):
    trial = copied("backend=posix,*rate=2000-per-s")
    change(trial / "load/files/result.json", changed)
    limit = note_trial(trial)["limited_by"]
    assert (limit.by is not LimitedBy.NOTHING) == at_its_limit
    assert parsed(OPEN, trial)[1].series["limits"] == [asdict(limit)]


def test_a_log_that_published_nothing_in_the_window_has_no_rate(copied):
    trial = copied("backend=posix,*rate=2000-per-s")
    change(trial / "load/files/result.json", stop_at_once)
    values, _ = parsed(OPEN, trial)
    assert values["publish_steps"] == 0 and not values.keys() & {"qps", "qps_low", "qps_high", "achieved_share"}


def repeat(result: Any) -> None:
    """A result in which all leaves had been sent before, and got the index that they had."""
    for counts in (result["window"], result["total"]):
        counts |= dict.fromkeys(("duplicates", "duplicates_sent"), counts["accepted"])
    result |= {"duplicate_latency": result["add_latency"], "add_latency": NO_TIMES, "integrate_latency": NO_TIMES}


def test_without_new_leaves_no_share_of_them_is_known(copied):
    trial = copied("backend=posix,*rate=2000-per-s")
    change(trial / "load/files/result.json", repeat)
    values, _ = parsed(OPEN, trial)
    assert values["duplicates"] == values["accepted"] == 6000 and "achieved_share" not in values
    assert note_trial(trial)["limited_by"].by is not LimitedBy.NOTHING


def test_duplicates_that_a_log_knew_are_no_growth_that_is_missing(copied):
    """A tenth was sent again, and the log gave each of them the index that it had."""
    trial = copied("backend=posix,*rate=2000-per-s")
    shutil.copyfile(TESSERA / "logbench-posix-antispam.json", trial / "load/files/result.json")
    change(trial / "log.json", lambda facts: facts.update(rate_per_s=500.0))
    values, _ = parsed({"front_ends": "1", "rate": "500-per-s"}, trial)
    assert (values["accepted"], values["duplicates"]) == (7500, 769)
    assert values["achieved_share"] == pytest.approx(values["qps"] / (500 * 6731 / 7500))
    assert values["achieved_share"] == pytest.approx(1.0, abs=0.03) and values["qps"] < 460


# --- the hammer -----------------------------------------------------------------------------------------------


def test_the_figures_of_a_hammer_are_those_of_its_files(copied):
    trial = copied("*generator=hammer*")
    watched = raw(trial / "watch/files/result.json")
    # The hammer began at 16:52:53.078, and its window 2 s later.
    started = datetime(2026, 11, 22, 16, 52, 53, 78_000, tzinfo=UTC).timestamp()
    seen = [(one["t_s"] + watched["started_unix_s"] - started, one["size"]) for one in watched["checkpoints"]]
    (begin_s, begin), (end_s, end) = [one for one in seen if 2.0 <= one[0] <= 5.0]
    values, found = parsed(HAMMER, trial)
    assert values["qps"] == pytest.approx((end - begin) / (end_s - begin_s), rel=1e-6)
    assert values["achieved_share"] == pytest.approx(values["qps"] / 200)
    assert (values["publish_steps"], values["offered"], values["tree_size"]) == (1, 200, 800)
    assert (values["pushback"], values["errors"]) == (0, 0)
    counted, lasted_s = samples(trial, started + 2.0, started + 5.0)
    for process in ("server", "generator"):
        assert values[f"{process}_cpu"] == pytest.approx(counted[process] / lasted_s / 2)
    screen = replay((trial / "load/stdout").read_bytes())[-1]
    assert values["hammer_qps"] == screen.qps and values["hammer_tree_size"] == screen.tree_size
    assert "hammer_qps_mean" not in values, "no screen covers its 30 s"
    phases = [tuple(row.values()) for row in found.series["phases"]]
    assert phases == [("warm-up", 0.0, 2.0), ("window", 2.0, 5.0), ("drain", 5.0, pytest.approx(seen[-1][0]))]
    assert found.series["growth"][-1]["t_s"] == pytest.approx(seen[-1][0], abs=1e-6)
    assert found.series["latency"] == found.series["histogram"] == found.series["steps"] == []


BOX = parse_box((TESSERA / "page-e2-micro.txt").read_text())


def recording(*screens: HammerScreen) -> bytes:
    """What a terminal got that showed one screen per tick, in the form of the captured recordings."""
    frames = ("\x1b[H" + screen.box().replace("\n", "\r\n") + "\x1b[?2026l" for screen in screens)
    return "".join(["\x1b[?1049h", *frames]).encode()


@pytest.fixture
def hammered(tmp_path: Path) -> Callable[..., Path]:
    """The hammer, whose screen covers 2 s, beside a log whose tree has 10 n² leaves from second n on."""

    def make(*screens: HammerScreen, started: str = "2026-01-01T00:00:00+00:00", **facts: Any) -> Path:
        began = datetime.fromisoformat(started).timestamp()
        watched = raw(TESSERA / "logbench-watch.json") | {"started_unix_s": began}
        watched["checkpoints"] = [{"t_s": float(n), "size": 10 * n * n} for n in range(44)]
        said = {
            "schema": 1, "mode": "hammer", "rate_per_s": 400.0, "duplicate_share": 0.0, "front_ends": 1,
            "publish_interval_s": 1.0, "cpus": {"server": 2, "generator": 2}, "servers": [{"peak_memory_bytes": 1}],
            "window": {"warm_up_s": 10.0, "duration_s": 20.0}, **facts,
        }  # fmt: skip
        for folder in ("load", "watch/files"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "log.json").write_text(json.dumps(said))
        (tmp_path / "watch/files/result.json").write_text(json.dumps(watched))
        (tmp_path / "load/supervisor.json").write_text(json.dumps({"started": started}))
        (tmp_path / "load/stderr").write_text("")
        (tmp_path / "load/stdout").write_bytes(recording(*screens or [BOX]))
        return tmp_path

    return make


STEADY = {"front_ends": "1", "rate": "400-per-s"}


def test_screens_and_checkpoints_are_compared_over_the_same_full_windows(hammered):
    trial = hammered(*(replace(BOX, window_s=2, qps=10 * tick) for tick in range(1, 9)))
    values, _ = parsed(STEADY, trial)
    # The screens of 2.0, 2.5, 3.0, 3.5 and 4.0 s say 40, 50, 60, 70 and 80/s.
    assert values["hammer_qps_mean"] == pytest.approx(60)
    # In the 2 s before each of them the tree grew from 0 to 40, again, from 10 to 90, again, and from 40 to 160.
    assert values["qps_of_hammer_window"] == pytest.approx((20 + 20 + 40 + 40 + 60) / 5)
    assert values["qps"] == pytest.approx((10 * 30**2 - 10 * 10**2) / 20)
    assert values["hammer_qps"] == 80


@pytest.mark.parametrize(
    ("facts", "share", "at_its_limit"),
    [
        ({"rate_per_s": 404.0}, 400 / 404, False),
        ({"rate_per_s": 405.0}, 400 / 405, True),
        ({"rate_per_s": 405.0, "duplicate_share": 0.1}, None, False),  # it does not say which leaves are duplicates
    ],
)
def test_a_hammer_met_the_limit_of_the_log_below_99_per_cent(hammered, facts, share, at_its_limit):
    trial = hammered(**facts)
    values, found = parsed({"front_ends": "1", "rate": f"{facts['rate_per_s']:g}-per-s"}, trial)
    assert values.get("achieved_share") == (share and pytest.approx(share))
    (limit,) = found.series["limits"]
    assert (limit["by"] != LimitedBy.NOTHING) == at_its_limit


def test_a_hammer_without_a_free_writer_met_a_limit_too(hammered):
    trial = hammered()
    assert note_trial(trial)["limited_by"].by is LimitedBy.NOTHING
    (trial / "load/stdout").write_bytes(recording(replace(BOX, oversupply=1)))
    assert note_trial(trial)["limited_by"].by is not LimitedBy.NOTHING
    change(trial / "watch/files/result.json", lambda watched: watched["polls"].update(failed=2))
    rules = [problem["rule"] for problem in note_trial(trial)["problems"]]
    assert rules == ["offered", "oversupply", "writers", "window", "means", "polls"]


def test_pushback_and_errors_of_a_hammer_are_those_of_its_log(hammered):
    trial = hammered(started="2026-11-21T16:35:00+00:00")
    head = "W1121 16:35:30.{:06}   28750 analysis.go:121] "
    said = ["17 requests received pushback from log", "(3 x) connection refused", "(5 x) EOF"]
    more = [head.format(number) + text for number, text in enumerate(said)]
    log = (TESSERA / "hammer-antispam.stderr").read_text()
    (trial / "load/stderr").write_text(log + "\n".join([*more, ""]))
    values, _ = parsed(STEADY, trial)
    told = sum(map(int, re.findall(r"\((\d+) x\)", log)))
    assert (values["pushback"], values["errors"]) == (told + 17, 8)


@pytest.mark.parametrize("started", ["2026-11-21T16:35:12+00:00", "2026-11-21T22:05:12+00:00"])
@pytest.mark.parametrize(
    ("warm_up_s", "duration_s", "pushback"), [(0, 30, 7244), (5, 30, 5140), (5, 2, 1754 + 2926), (8, 30, 0)]
)
def test_pushback_of_a_hammer_is_that_of_the_window(hammered, started, warm_up_s, duration_s, pushback):
    """Each line is about the second before it, by the clock of a host in any time zone."""
    trial = hammered(started=started, window={"warm_up_s": float(warm_up_s), "duration_s": float(duration_s)})
    (trial / "load/stderr").write_text((TESSERA / "hammer-antispam.stderr").read_text())
    assert parsed(STEADY, trial)[0]["pushback"] == pushback

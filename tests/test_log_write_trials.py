"""Every figure of trials of log_write, against the numbers in their files. No server runs here.

The trials are real ones (data/store-b9a61cf), and some of them changed in one place. What is expected is computed from
the raw files by the definitions in docs/families/log_write.md.
"""

import json
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import linregress

from benchstudy.families.log_write.hammer import HammerScreen, parse_box, replay
from benchstudy.families.log_write.limits import LimitedBy
from benchstudy.families.log_write.logbench import LogbenchResult, parse_logbench
from benchstudy.families.log_write.parse import limit_of, note_trial
from benchstudy.families.log_write.reading import window_of
from benchstudy.families.log_write.shards import together
from benchstudy.families.shared.clients import read_clients
from benchstudy.model import registry
from benchstudy.model.causes import Cause
from benchstudy.model.family import Parsed, ParseError

DATA = Path(__file__).parent / "data"
STORES = DATA / "store-b9a61cf"
TESSERA = DATA / "tessera"
OPEN, SEARCH, HAMMER = ({"front_ends": "1", "rate": rate} for rate in ("2000-per-s", "search", "200-per-s"))
FIRST, SECOND = (f"load-step-0{number}-attempt-1-window-1" for number in (1, 2))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trials of two old stores: posix and mariadb in an open loop, the hammer, and a search."""
    root = tmp_path_factory.mktemp("stores")
    for name in ("embedded", "endings"):
        with tarfile.open(STORES / f"{name}.tar.xz") as archive:
            archive.extractall(root, [one for one in archive if "/log_write/" in one.name])
    return root / "data" / "raw"


@pytest.fixture
def copied(stores: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the first trial whose case has this pattern, to be changed."""

    def copy(pattern: str) -> Path:
        trial = min(stores.glob(f"*/*/log_write/{pattern}/0001-*"))
        shutil.copytree(trial, tmp_path / "trial", copy_function=shutil.copyfile)
        for path in (tmp_path / "trial").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return tmp_path / "trial"

    return copy


def change(path: Path, by: Callable[[Any], object]) -> Any:
    """The JSON of a file, after the change, which is written."""
    content = json.loads(path.read_text())
    by(content)
    path.write_text(json.dumps(content))
    return content


def raw(path: Path) -> Any:
    return json.loads(path.read_text())


def parsed(levels: Mapping[str, str], trial: Path) -> tuple[dict[str, float], Parsed]:
    found = registry.get("log_write").parse(levels, trial)
    return {one.metric: one.value for one in found.observations}, found


def samples(trial: Path, begin: float, end: float, folder: str = "samples-local") -> tuple[dict[str, Any], float]:
    """The growth of each counter of the samples between two moments, and the time between the first and the last."""
    _, *lines = map(json.loads, (trial / folder / "stdout").read_text().splitlines())
    inside = [line for line in lines if begin <= line["wall"] <= end]
    first, last = inside[0], inside[-1]
    grown = {
        "host": last["host_cpu_s"] - first["host_cpu_s"],
        **{name: now["cpu_s"] - first["processes"][name]["cpu_s"] for name, now in last["processes"].items()},
        **{name: last["disk"][name] - first["disk"][name] for name in first["disk"]},
    }
    return grown, last["t"] - first["t"]


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
    limit = limit_of(trial)
    assert (limit.by is not LimitedBy.NOTHING) == at_its_limit
    assert parsed(OPEN, trial)[1].series["limits"] == [limit.row]
    assert note_trial(trial)["limited_by"] == limit


def test_duplicates_that_a_log_knew_are_no_growth_that_is_missing(copied):
    """A tenth was sent again, and the log gave each of them the index that it had."""
    trial = copied("backend=posix,*rate=2000-per-s")
    shutil.copyfile(TESSERA / "logbench-posix-antispam.json", trial / "load/files/result.json")
    change(trial / "log.json", lambda facts: facts.update(rate_per_s=500.0))
    values, _ = parsed({"front_ends": "1", "rate": "500-per-s"}, trial)
    assert (values["accepted"], values["duplicates"]) == (7500, 769)
    assert values["achieved_share"] == pytest.approx(values["qps"] / (500 * 6731 / 7500))
    assert values["achieved_share"] == pytest.approx(1.0, abs=0.03) and values["qps"] < 460


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
        "duration_s": 15,
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
    none = {"count": 0, "min_s": None, "mean_s": None, "max_s": None, "quantiles": [], "bins": [], "hdr": ""}
    for counts in (result["window"], result["total"]):
        counts |= {"pushback_500": counts["sent"], "accepted": 0}
    result |= {"add_latency": none, "integrate_latency": none, "checkpoints": result["checkpoints"][:1]}


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

    def make(*screens: HammerScreen, **facts: Any) -> Path:
        began = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
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
        (tmp_path / "load/supervisor.json").write_text(json.dumps({"started": "2026-01-01T00:00:00Z"}))
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
    assert limit_of(trial).by is LimitedBy.NOTHING
    (trial / "load/stdout").write_bytes(recording(replace(BOX, oversupply=1)))
    assert limit_of(trial).by is not LimitedBy.NOTHING
    change(trial / "watch/files/result.json", lambda watched: watched["polls"].update(failed=2))
    rules = [problem["rule"] for problem in note_trial(trial)["problems"]]
    assert rules == ["offered", "oversupply", "writers", "window", "means", "polls"]


def test_pushback_and_errors_of_a_hammer_are_those_of_its_log(hammered):
    trial = hammered()
    head = "W1121 16:35:30.{:06}   28750 analysis.go:121] "
    said = ["17 requests received pushback from log", "(3 x) connection refused", "(5 x) EOF"]
    more = [head.format(number) + text for number, text in enumerate(said)]
    log = (TESSERA / "hammer-antispam.stderr").read_text()
    (trial / "load/stderr").write_text(log + "\n".join([*more, ""]))
    values, _ = parsed(STEADY, trial)
    told = sum(map(int, re.findall(r"\((\d+) x\)", log)))
    assert (values["pushback"], values["errors"]) == (told + 17, 8)


# --- a search -------------------------------------------------------------------------------------------------


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
    limit = limit_of(trial)
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
    limit = limit_of(trial)
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
    limit = limit_of(trial)
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
    (problem,) = deaths(trial)
    assert (problem["died"], problem["windows"], problem["said"]) == (2, 4, "first")


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
    change(trial / "log.json", lambda facts: facts.pop("starts"))  # as in old trials
    assert parsed(SEARCH, trial)[0]["server_peak_memory"] == 333


# --- several clients ------------------------------------------------------------------------------------------


def clients_of(*starts_s: float, offsets_s: Sequence[float] = (0.0, 0.0)) -> dict[str, Any]:
    """What is known about clients that began at these times of the controller, for 19 s each."""
    return {
        "schema": 1,
        "clients": [
            {"client": number, "role": f"load-{number}", "host": f"h{number}", "start_s": start, "end_s": start + 19,
             "offset_s": offset, "uncertainty_s": 0.001 * number}
            for number, (start, offset) in enumerate(zip(starts_s, offsets_s, strict=True), start=1)
        ],
    }  # fmt: skip


def shard(name: str, **changes: Any) -> dict[str, Any]:
    return raw(TESSERA / f"logbench-{name}.json") | changes


@pytest.fixture
def shared(tmp_path: Path) -> Callable[..., Path]:
    """A trial in which two clients made the load: the captured runs without and with duplicates, of 500/s each."""

    def make(clients: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any]) -> Path:
        facts = {
            "schema": 1, "mode": "open", "rate_per_s": 1000.0, "duplicate_share": 0.05, "front_ends": 1,
            "publish_interval_s": 1.0, "cpus": {"server": 2, "generator": 1}, "servers": [{"peak_memory_bytes": 1}],
            "clients": [{"cpus": 1}, {"cpus": 2}],
        }  # fmt: skip
        (tmp_path / "log.json").write_text(json.dumps(facts))
        for number, result in (("1", first), ("2", second)):
            (tmp_path / "load" / number / "files").mkdir(parents=True)
            (tmp_path / "load" / number / "files/result.json").write_text(json.dumps(result))
        (tmp_path / "load/clients.json").write_text(json.dumps(clients))
        return tmp_path

    return make


SHARED = {"front_ends": "1", "rate": "1000-per-s"}


def pooled(kind: str, *results: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """The times of all leaves in ascending order, each by the middle of its bin; and their exact mean."""
    bins = [one for result in results for one in result[kind]["bins"]]
    times = np.repeat([(one["low_s"] + one["high_s"]) / 2 for one in bins], [one["count"] for one in bins])
    counts = [result[kind]["count"] for result in results]
    return np.sort(times), float(np.average([result[kind]["mean_s"] for result in results], weights=counts))


def test_several_clients_are_one_load_whose_window_is_common_to_all(shared):
    first, second = shard("posix", started_unix_s=1000.0), shard("posix-antispam")
    # Their clocks are 7 s and 100 s ahead. The second began 0.25 s after the first.
    second["started_unix_s"] = 1000.0 - 7 + 100 + 0.25
    trial = shared(clients_of(993.0, 993.25, offsets_s=(7.0, 100.0)), first, second)
    values, found = parsed(SHARED, trial)
    # Both windows last 15 s after 3 s: from 3.25 s to 18 s of the first one's clock.
    assert [tuple(row.values()) for row in found.series["phases"]][:2] == [
        ("warm-up", 0.0, 3.25),
        ("window", 3.25, 18.0),
    ]
    inside = [one for one in first["checkpoints"] if 3.25 <= one["t_s"] <= 18]
    grew, took_s = inside[-1]["size"] - inside[0]["size"], inside[-1]["t_s"] - inside[0]["t_s"]
    assert values["qps"] == pytest.approx(grew / took_s)
    assert values["achieved_share"] == pytest.approx(grew / took_s / (1000 * (15_000 - 769) / 15_000))
    assert (values["offered"], values["accepted"], values["duplicates"]) == (1000, 15_000, 769)
    assert (values["proofs_asked"], values["proofs_proved"]) == (200, 200)
    for name, kind in (("queue", "add_latency"), ("integrate", "integrate_latency")):
        times, mean_s = pooled(kind, first, second)
        assert len(times) == 7500 + 6731
        for percent in (50, 90, 99):  # the nearest rank
            assert values[f"{name}_p{percent}"] == pytest.approx(times[-(-len(times) * percent // 100) - 1])
        assert values[f"{name}_mean"] == pytest.approx(mean_s)
        assert values[f"{name}_max"] == max(first[kind]["max_s"], second[kind]["max_s"])
        assert sum(row["count"] for row in found.series["histogram"] if row["which"] == name) == len(times)
    # Each used its own CPUs in its own window.
    used = [(0.716413 + 0.826461) / 15, (0.562533 + 0.752311) / 15 / 2]
    assert values["generator_cpu"] == pytest.approx(max(used))
    assert (values["client_skew"], values["client_clocks"]) == (0.25, pytest.approx(0.003))
    assert values["client_skew_share"] == pytest.approx(0.25 / 14.75)
    own = {(row["client"], row["metric"]): row["value"] for row in found.series["clients"]}
    assert {metric for _, metric in own} == {
        *(f"{name}_{which}" for name in ("queue", "integrate") for which in ("p50", "p90", "p99", "mean", "max")),
        *("offered", "accepted", "duplicates", "pushback", "errors", "dropped", "proofs_asked", "proofs_proved"),
        *("generator_cpu", "began"),
    }
    for number, result, cpu in ((1, first, used[0]), (2, second, used[1])):
        assert own[number, "accepted"] == result["window"]["accepted"]
        assert own[number, "queue_mean"] == result["add_latency"]["mean_s"]
        assert own[number, "generator_cpu"] == pytest.approx(cpu)
    assert found.series["latency"] == [], "percentiles of seconds cannot be combined"


@pytest.mark.parametrize(("apart_s", "share"), [(0.15, None), (0.16, 0.16 / 15)])
def test_clients_that_started_more_than_a_hundredth_of_the_window_apart_are_a_problem(shared, apart_s, share):
    results = (shard(name, started_unix_s=0.0) for name in ("posix", "posix-antispam"))
    trial = shared(clients_of(0.0, apart_s), *results)
    skewed = [problem for problem in note_trial(trial)["problems"] if problem["rule"] == "skew"]
    assert skewed == ([{"rule": "skew", "skew_s": apart_s, "share": pytest.approx(share)}] if share else [])


@pytest.mark.parametrize(("apart_s", "overlap"), [(14.0, True), (15.0, False), (15.5, False)])
def test_windows_of_clients_that_do_not_overlap_are_no_measurement(shared, apart_s, overlap):
    results = [shard("posix", started_unix_s=start) for start in (1000.0, 1000.0 + apart_s)]
    trial = shared(clients_of(0.0, 0.0), *results)
    if overlap:
        assert parsed(SHARED, trial)[1].series["phases"][1] == {"phase": "window", "start_s": 17.0, "end_s": 18.0}
        return
    with pytest.raises(ParseError, match=f"do not overlap: the clients started {apart_s:g} s apart"):
        parsed(SHARED, trial)


def together_of(tmp_path: Path, *shards: Mapping[str, Any]) -> LogbenchResult:
    """The combined result of clients that began at the same moment."""
    (tmp_path / "clients.json").write_text(json.dumps(clients_of(0.0, 0.0)))
    return together(read_clients(tmp_path), [parse_logbench(json.dumps(one)) for one in shards])


def test_counts_proofs_polls_and_messages_of_clients_are_added_up(tmp_path):
    lost, killed = (shard(name, started_unix_s=0.0) for name in ("lost", "killed"))
    both = together_of(tmp_path, lost, killed)
    for name in ("window", "total"):
        assert asdict(getattr(both, name)) == {key: lost[name][key] + killed[name][key] for key in lost[name]}
    assert (both.rate_per_s, both.offered_per_s, both.max_in_flight, both.samples) == (1000, 1000, 1000 + 4096, [])
    assert (both.warm_up_s, both.duration_s) == (1, 1), "from 0 s to 2 s, and from 1 s to 7 s"
    assert asdict(both.polls) == {"asked": 63 + 261, "failed": 181, "why": ""}
    proofs = asdict(both.proofs)
    assert [leaf["index"] for leaf in proofs.pop("lost")] == [leaf["index"] for leaf in lost["proofs"]["lost"]]
    assert proofs == {
        "asked": 200, "proved": 82, "unread": 100, "lost_count": 18, "not_integrated": 256,
        "consistency_asked": 32, "consistency_proved": 30, "unread_why": killed["proofs"]["unread_why"],
    }  # fmt: skip
    assert (both.cpu_user_s, both.cpu_system_s) == (0.188394, 0.342422)
    assert lost["start_delay"]["quantiles"][3]["q"] == 0.99
    most_s = max(result["start_delay"]["quantiles"][3]["value_s"] for result in (lost, killed))
    idle = shard("watch", started_unix_s=0.0)
    for shards in ((lost, killed), (killed, lost)):
        assert together_of(tmp_path, *shards).start_delay.quantile(0.99) == most_s
    assert (
        together_of(tmp_path, lost, idle).start_delay.quantile(0.99) == lost["start_delay"]["quantiles"][3]["value_s"]
    )
    assert both.duplicate_latency.count == 0 and both.duplicate_latency.quantiles == []
    twice = together_of(tmp_path, killed | {"texts_other": 1}, killed | {"texts_other": 2})
    assert [(text.text, text.count) for text in twice.texts] == [
        (text["text"], 2 * text["count"]) for text in killed["texts"]
    ]
    assert twice.texts_other == 3
    assert [(one.q, one.value_s) for one in twice.add_latency.quantiles] == [
        (one["q"], pytest.approx(one["value_s"], rel=0.008)) for one in killed["add_latency"]["quantiles"]
    ]


def with_times(result: dict[str, Any], *bins: tuple[float, float, int], **times: float) -> dict[str, Any]:
    """The result with these answers: bins, and `min_s`, `mean_s` and `max_s`."""
    for kind in ("add_latency", "integrate_latency"):
        result[kind] |= {**times, "quantiles": [{"q": 0.5, "value_s": times["mean_s"]}]}
        result[kind]["bins"] = [{"low_s": low, "high_s": high, "count": count} for low, high, count in bins]
    return result


@pytest.mark.parametrize(
    ("low_s", "high_s", "exact_s"),
    [
        (0.0100, 0.0108, 0.0100),
        (0.0100, 0.0108, 0.0108),
        (0.0, 1e-6, 0.0),  # less than the clock resolves
    ],
)
def test_a_combined_quantile_lies_within_the_times(tmp_path, low_s, high_s, exact_s):
    at_once = {"min_s": exact_s, "mean_s": exact_s, "max_s": exact_s}
    shards = [with_times(shard("posix", started_unix_s=0.0), (low_s, high_s, 7500), **at_once) for _ in range(2)]
    both = together_of(tmp_path, *shards).add_latency
    assert (both.count, both.min_s, both.mean_s, both.max_s) == (15_000, exact_s, exact_s, exact_s)
    assert {one.value_s for one in both.quantiles} == {exact_s}


def test_a_combined_quantile_is_the_nearest_rank(tmp_path):
    """Half of the leaves took 0.01 s, and the others 0.03 s: the median is the longest of the first half."""
    times = {"min_s": 0.01, "mean_s": 0.02, "max_s": 0.03}

    def quantiles(slow: int) -> dict[float, float]:
        bins = (0.005, 0.015, 7500 - slow), (0.02, 0.04, slow)
        shards = [with_times(shard("posix", started_unix_s=0.0), *bins, **times) for _ in range(2)]
        return {one.q: pytest.approx(one.value_s) for one in together_of(tmp_path, *shards).add_latency.quantiles}

    assert quantiles(3750) == {0.5: 0.01, 0.9: 0.03, 0.95: 0.03, 0.99: 0.03, 0.999: 0.03}
    assert quantiles(3751)[0.5] == 0.03
    assert quantiles(75)[0.99] == 0.01 and quantiles(76)[0.99] == 0.03

"""Several clients of one log: their captured results combined into one, against the numbers of each. No server runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_write_trials import TESSERA, parsed, raw

from benchstudy.families.log_write.logbench import LogbenchResult, parse_logbench
from benchstudy.families.log_write.parse import note_trial
from benchstudy.families.log_write.shards import together
from benchstudy.families.shared.clients import read_clients
from benchstudy.model.family import ParseError


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

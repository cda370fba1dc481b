"""The parsers of ab, wrk and k6 on captured outputs (see data/http/README.md), and the script that runs in wrk."""

import csv
import gzip
import json
import math
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import CHECKOUT
from http_study import load
from provisioning import provision_here

from benchstudy.families.http_concurrency.ab import (
    AbResult,
    histogram_of_gnuplot,
    parse_ab,
    parse_ab_percentiles,
    recognise_ab,
    split_ab,
)
from benchstudy.families.http_concurrency.ab_result import mean_between, percentile_place, steps_of_percentiles
from benchstudy.families.http_concurrency.config import Expect
from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.k6 import K6Result, parse_k6_summary
from benchstudy.families.http_concurrency.load_result import ab_load, parse_load
from benchstudy.families.http_concurrency.scripts import SCRIPTS
from benchstudy.families.http_concurrency.wrk import WrkResult, parse_wrk
from benchstudy.families.http_concurrency.wrk_printed import parse_wrk_printed
from benchstudy.model.family import ParseError

DATA = Path(__file__).parent / "data" / "http"
PUBLISHED = Path(__file__).parents[1] / "data" / "published"
TRANSCRIPTS = ("static-c10", "static-c100", "static-c1000", "static-c4000", "list-c1000")
BROKEN_RUNS = ("timeout", "refused", "server-gone", "badurl")


def text(name: str) -> str:
    return (DATA / name).read_text()


def ab(name: str) -> AbResult:
    return parse_ab(text(f"{name}.txt"))


def transcript(name: str) -> AbResult:
    return ab(f"filestash-{name}")


def wrk(name: str) -> WrkResult:
    return parse_wrk(text(f"wrk-{name}.txt"))


def k6(name: str) -> K6Result:
    return parse_k6_summary(text(f"k6-{name}.json"))


def names(problems: list[str]) -> list[str]:
    return [problem.split(":")[0] for problem in problems]


# --- ab: the page's transcripts -----------------------------------------------------------------------------


def test_every_field_of_a_transcript():
    result = transcript("list-c1000")
    assert result.command == (
        'ab -k -c 1000 -n 100000 -H "X-Requested-With: XmlHttpRequest" -H "Cookie: xxxxx" '
        "http://127.0.0.1:8334/api/files/ls?path=%2F"
    )
    assert (result.hostname, result.port, result.path) == ("127.0.0.1", 8334, "/api/files/ls?path=%2F")
    assert (result.server_software, result.version) == ("", None)
    assert (result.document_length, result.concurrency, result.duration) == (1344, 1000, 28.417)
    assert (result.complete, result.failed, result.keepalive_requests, result.non_2xx) == (100_000, 0, 100_000, 0)
    assert (result.transferred, result.html_transferred) == (160_800_000, 134_400_000)
    assert (result.requests_per_second, result.transfer_rate) == (3518.99, 5525.91 * 1024)
    assert result.time_per_request == pytest.approx(0.284172)
    assert result.time_per_request_across == pytest.approx(0.000284)
    assert set(result.times) == {"connect", "processing", "waiting", "total"}
    total = result.times["total"]
    assert (total.min, total.mean, total.median, total.max) == (0.020, 0.284, 0.281, 1.318)
    assert total.sd == pytest.approx(0.047)
    assert result.times["waiting"].min == 0.001 and result.times["connect"].sd == pytest.approx(0.0228)
    assert list(result.percentiles) == [50, 66, 75, 80, 90, 95, 98, 99, 100]
    assert (result.percentiles[50], result.percentiles[99], result.percentiles[100]) == (0.281, 0.365, 1.318)


@pytest.mark.parametrize(
    "note", ["Failed requests: 12 in another attempt", "Concurrency Level: 50", "Complete requests: none at first"]
)
def test_notes_around_a_report_are_none_of_its_figures(note: str):
    report = text("filestash-list-c1000.txt")
    assert parse_ab(f"{note}\n{report}") == parse_ab(f"{report}\n{note}\n") == parse_ab(report)


def test_what_is_wrong_with_each_transcript():
    assert {name: names(transcript(name).problems()) for name in TRANSCRIPTS} == {
        "static-c10": ["keep-alive"],
        "static-c100": ["keep-alive"],
        "static-c1000": ["keep-alive", "little"],
        "static-c4000": ["concurrency", "keep-alive", "little"],
        "list-c1000": [],
    }


def test_the_command_that_says_3000_under_the_heading_4000():
    problems = transcript("static-c4000").problems()
    assert "concurrency: the command says -c 3000, but ab reports a level of 4000" in problems
    assert any("0 requests were kept alive" in problem for problem in problems)
    assert any(
        "throughput × mean latency is 1,970 requests in flight on average, not 4000" in problem for problem in problems
    )
    # The same output with the command that the level would have needed.
    mended = transcript("static-c4000").problems("ab -k -c 4000 -n 50000 http://127.0.0.1:8334/")
    assert names(mended) == ["keep-alive", "little"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ab -kc 5 -n50000 http://x/", ["concurrency"]),
        ("/usr/bin/ab -k -c 99 -c 10 -n 60000 http://x/", ["incomplete"]),
        ("ab -k -H 'X: -c 7' -c 10 -n 60000 -t 9 http://x/", []),
        ("ab -k -c 10 -n 40000 http://x/", ["incomplete"]),
        ("ab -k -c 10 -n 50000 http://x/?-c5", []),
        ("ab -k -c 10 -n 50000 http://x/ | tee -a -c 7", []),
        ("ab -k -q -c 11 -n 50000 http://x/", ["concurrency"]),
        ("ab -k -c 10 -n 50001 http://x/", ["incomplete"]),
        ("ab -k -c 10 -n 49999 http://x/", ["incomplete"]),
        ("ab -k -c ten -n many http://x/", []),
        ("ab -k -c ten -c 11 -n 50000 http://x/", ["concurrency"]),
        ("ab -k -H 'broken -c 10", []),
        ("", []),
    ],
)
def test_commands_are_read_as_ab_reads_them(command: str, expected: list[str]):
    assert names(transcript("static-c10").problems(command)) == [*expected, "keep-alive"]


# --- the published figures ----------------------------------------------------------------------------------

_METRICS: dict[str, Callable[[AbResult], float | None]] = {
    "document_length": lambda r: r.document_length,
    "concurrency": lambda r: r.concurrency,
    "duration": lambda r: r.duration,
    "requests": lambda r: r.complete,
    "errors": lambda r: r.failed,
    "keepalive_requests": lambda r: r.keepalive_requests,
    "transferred": lambda r: r.transferred,
    "html_transferred": lambda r: r.html_transferred,
    "throughput": lambda r: r.throughput,
    "time_per_request": lambda r: r.time_per_request,
    "time_per_request_across": lambda r: r.time_per_request_across,
    "transfer_rate": lambda r: r.transfer_rate,
    "command_concurrency": lambda r: int(re.search(r"-c (\d+)", r.command)[1]),
    "command_requests": lambda r: int(re.search(r"-n (\d+)", r.command)[1]),
}


def _derived(result: AbResult, page: str, statistic: str) -> float | None:
    if statistic == "server_peak_memory":
        return int(re.search(r"^peak RAM: (\d+)MB$", page, re.M)[1]) * 1e6
    if match := re.fullmatch(r"latency_p(\d+)", statistic):
        return result.percentiles[int(match[1])]
    if match := re.fullmatch(r"(connect|processing|waiting|latency)_(min|mean|sd|median|max)", statistic):
        return getattr(result.times["total" if match[1] == "latency" else match[1]], match[2])
    return _METRICS[statistic](result)


def test_every_figure_of_the_transcripts_is_published():
    rows = list(csv.DictReader((PUBLISHED / "filestash-ab.csv").open()))
    seen: Counter[str] = Counter()
    for name in TRANSCRIPTS:
        page, result = text(f"filestash-{name}.txt"), transcript(name)
        endpoint, concurrency = name.split("-c")
        mine = [row for row in rows if (row["endpoint"], row["concurrency"]) == (endpoint, concurrency)]
        assert len({row["statistic"] for row in mine}) == len(mine)
        for row in mine:
            assert float(row["value"]) == pytest.approx(_derived(result, page, row["statistic"]), rel=1e-9), row
            assert row["as_printed"].split()[0] in page
            assert row["section"] in page
            assert row["unit"] in {"s", "B", "B/s", "1/s", "1"}
        seen[name] = len(mine)
    # The first one prints no peak memory.
    assert sum(seen.values()) == len(rows) and seen == {name: 43 + (name != "static-c10") for name in TRANSCRIPTS}


def test_every_cell_of_the_tables_is_published():
    expected = []
    for section, body in re.findall(r"\*\*(.+?):\*\*\n```\n(.+?)```", text("filestash-tables.txt"), re.S):
        for level, *cells in re.findall(r"^\| +(\d+) \| (.+?) +\| (.+?) +\| (.+?) +\|$", body, re.M):
            expected += [(section, level, e, c) for e, c in zip(("static", "list", "transcode"), cells, strict=True)]
    rows = list(csv.DictReader((PUBLISHED / "filestash-http.csv").open()))
    found = [(row["section"], row["concurrency"], row["endpoint"], row["as_printed"]) for row in rows]
    assert found == expected and len(rows) == 3 * 8 * 3
    for row in rows:
        failed = row["as_printed"] == "failed"
        assert (row["value"] == "", row["status"]) == (failed, "failed" if failed else "ok")
        assert failed or float(row["value"]) == float(row["as_printed"].removesuffix(" req/s"))
        assert row["limits"] in {"1-core-32MiB", "2-cores-128MiB", "4-cores-512MiB"}
    assert sum(row["status"] == "failed" for row in rows) == 6
    assert pl.read_csv(PUBLISHED / "filestash-http.csv")["value"].null_count() == 6


# --- ab: captured -------------------------------------------------------------------------------------------


def test_a_good_run_has_no_problem():
    result = ab("ab-ok")
    assert result.version == "2.3"
    assert result.server_software == "nginx/1.22.1"
    assert (result.good, result.errors()) == (20_000, Errors(0, 0, 0))
    assert result.throughput == result.requests_per_second
    percentiles = parse_ab_percentiles(text("ab-ok.csv"))
    mean = result.mean_between(steps_of_percentiles(result.complete, percentiles))
    assert result.problems("ab -k -c 50 -n 20000 -e ab.csv http://x/", mean) == []


def test_ab_counts_404s_as_success_and_the_parser_does_not():
    result = ab("ab-404")
    assert (result.failed, result.complete, result.good, result.throughput) == (0, 1000, 0, 0.0)
    assert 'status: 1000 of 1000 answers were not 2xx, although ab says "Failed requests: 0"' in result.problems()
    assert names(ab("ab-302").problems()) == ["status"]


def test_wrong_lengths():
    result = ab("ab-vary")
    assert result.errors() == Errors(connect=0, status=0, length=100)
    assert result.problems()[0] == "length: 100 of 300 answers had another length than the first one (1000 B)"
    allowed = ab("ab-vary-l")
    assert allowed.document_length is None and allowed.good == 300 and allowed.problems() == []


def test_one_failure_is_counted_once():
    assert ab("ab-flaky").errors() == Errors(connect=0, status=100, length=0), "a short 503 is Length and Non-2xx"
    reset = ab("ab-reset-r")
    assert reset.failed == 45 and reset.errors() == Errors(connect=15, status=0, length=0)
    gone = ab("ab-server-gone-r")
    assert gone.failed == 106_887, "ab counts more failures than it made requests"
    assert (gone.errors().connect, gone.good) == (42_017, 7_983)
    assert gone.throughput == pytest.approx(7_983 / 9.083, rel=1e-3)
    assert gone.html_transferred // 11_413 == pytest.approx(gone.good, abs=10), "the rest was under way"
    assert "connection" in names(gone.problems())


def test_what_failed_is_told_by_how_it_failed():
    fine = ab("ab-ok")
    assert (fine.failed_connect, fine.failed_receive, fine.failed_length, fine.failed_exceptions) == (0, 0, 0, 0)
    assert (fine.write_errors, fine.non_2xx, fine.hostname, fine.port, fine.path) == (0, 0, "127.0.0.1", 55_893, "/")
    reset = ab("ab-reset-r")
    assert (reset.failed_connect, reset.failed_receive, reset.failed_length, reset.failed_exceptions) == (0, 15, 15, 15)
    broken = "connection: 15 requests got no whole answer (connect 0, receive 15, exceptions 15, write 0)"
    broken += "; ab's times include those that broke"
    assert broken in reset.problems()
    whole = text("ab-reset-r.txt")
    writes = parse_ab(whole.replace("Keep-Alive requests", "Write errors:           3\nKeep-Alive requests"))
    assert (writes.write_errors, writes.errors().connect) == (3, 18)
    # Versions before 2.2 do not say how many failed in receiving.
    old = parse_ab(whole.replace("Receive: 15, ", ""))
    assert (old.failed_connect, old.failed_receive, old.failed_length, old.failed_exceptions) == (0, 0, 15, 15)
    untold = parse_ab(re.sub(r"   \(Connect.*\n", "", whole))
    assert "connection: 45 of 300 requests failed, ab does not say how" in untold.problems()
    status = 'status: 100 of 1000 answers were not 2xx, although ab says "Failed requests: 0"'
    assert status in parse_ab(text("ab-404.txt").replace("responses:      1000", "responses:      100")).problems()


def test_a_failure_is_not_counted_beyond_the_requests_that_there_were():
    """ab counts a request up to three times, and a request that failed counts as one kind only."""
    fine = ab("ab-ok")

    def errors(**failed: int) -> Errors:
        return replace(fine, complete=100, **failed).errors()

    assert errors(failed_receive=70, failed_connect=40) == Errors(connect=100)
    assert errors(failed_receive=30, failed_exceptions=31, failed_length=30) == Errors(connect=31)
    assert errors(failed_exceptions=30, non_2xx=90, failed_length=40) == Errors(connect=30, status=70)
    assert errors(non_2xx=10, failed_length=40) == Errors(status=10, length=30)
    assert errors(failed_length=140) == Errors(length=100)
    assert Errors(connect=1, timeout=20, status=300, length=4000, text=50_000).total == 54_321


def test_figures_without_the_rest_of_a_report_have_the_problems_of_the_whole_one():
    for name in TRANSCRIPTS:
        whole = transcript(name)
        figures = {f.name: getattr(whole, f.name) for f in fields(AbResult) if f.default is MISSING}
        assert AbResult(**figures).problems() == replace(whole, command=None).problems()
        assert AbResult(**figures).errors() == whole.errors() and AbResult(**figures).port == 0


def test_keep_alive_that_was_not_granted():
    assert names(ab("ab-close").problems()) == ["keep-alive"]
    without = ab("ab-no-keepalive")
    assert without.keepalive_requests is None and without.problems() == []
    assert names(without.problems("ab -k -c 5 -n 2000 http://x/")) == ["keep-alive"]
    assert without.problems("ab -HX-Task:k -c 5 -n 2000 http://x/") == [], "the letters of a value are no options"


def test_other_forms_of_the_report():
    assert ab("ab-post").complete == 100
    assert ab("ab-one").percentiles == {}, "ab prints none for one request"
    assert ab("ab-one").throughput == 4184.10, "although the time it took is printed as 0.000 s"
    assert ab("ab-t").complete == 84_733
    # An option leaves out deviations and percentiles. Only the command distinguishes this from a truncated report.
    bare = parse_ab("$ ab -S -d -q -c 2 -n 100 http://127.0.0.1/null\n" + text("ab-S.txt"))
    assert bare.times["total"].sd is None and bare.percentiles == {} and bare.problems() == []
    rows = text("ab-S.txt").replace("Total:          0     0    0", "Total:          1     2    7")
    total = parse_ab("$ ab -S -d -q -c 2 -n 100 http://127.0.0.1/null\n" + rows).times["total"]
    assert (total.min, total.mean, total.median, total.max) == (0.001, 0.002, None, 0.007)
    with pytest.raises(ParseError, match=r"the end of its percentiles is missing; .*if ab ran with -d, put its"):
        ab("ab-S")


@pytest.mark.parametrize(
    ("printed_s", "rate", "agrees"),
    [("0.000", "4184.10", True), ("0.000", "1000.00", False), ("0.001", "1700.00", True), ("0.001", "600.00", False)],
)
def test_a_run_of_less_than_a_millisecond_is_checked_as_far_as_its_duration_tells(printed_s, rate, agrees):
    """One request in 0.000 s agreed with any rate, and one in 0.0006 s, printed as 0.001 s, contradicted its own."""
    told = text("ab-one.txt").replace("tests:   0.000", f"tests:   {printed_s}").replace("4184.10", rate)
    told = re.sub(r"(Transfer rate: +)[\d.]+", lambda m: m[1] + f"{float(rate) * 11649 / 1024:.2f}", told)
    told = re.sub(r"(Time per request: +)[\d.]+", lambda m: m[1] + f"{1000 / float(rate):.3f}", told)
    found = [problem.partition(" is ")[0] for problem in parse_ab(told).contradictions()]
    rest = ["arithmetic: Transfer rate", "arithmetic: Time per request"]
    assert found == ([] if agrees else ["arithmetic: Requests per second", *rest])


def test_percentiles_judge_littles_law_where_whole_milliseconds_cannot():
    result, percentiles = ab("ab-ok"), parse_ab_percentiles(text("ab-ok.csv"))
    low, high = mean_between(steps_of_percentiles(result.complete, percentiles))
    assert low < result.times["total"].mean + 0.0005 and high > result.times["total"].mean - 0.0005
    assert low * result.requests_per_second < 50 * 1.05 and high * result.requests_per_second > 50 * 0.95
    assert "little" in names(result.problems(mean=(low / 2, high / 2)))


def test_the_slowest_hundredth_is_not_taken_for_half_as_slow_as_the_longest_request():
    """Their percentiles are 22.8 ms and 113.7 ms. That half way alone made 55 requests in flight of 50 connections."""
    load = ab_load(ab("ab-ok"), parse_ab_percentiles(text("ab-ok.csv")), DATA / "ab-ok.tsv.gz")
    assert load.values["concurrency_measured"][0] == pytest.approx(50, rel=0.01)
    assert load.in_flight_blur < 1.0


@pytest.mark.parametrize("requests", [1, 2, 7, 50, 99, 100, 101, 20_000])
def test_the_mean_lies_within_what_ab_tells_of_single_requests(requests: int):
    """Latencies of a fast server with a long tail, told as ab tells them: percentiles in µs, and counts per ms."""
    latencies_s = np.sort(np.random.default_rng(requests).lognormal(-9, 1.5, requests).round(6))
    percentiles = [
        (float(percent), float(latencies_s[min(percentile_place(requests, percent), requests - 1)]))
        for percent in range(101)
    ]
    whole_ms, counts = np.unique(np.floor(latencies_s * 1000 + 0.5), return_counts=True)
    binned = [
        (int(end), max(0.0, ms - 0.5) / 1000, (ms + 0.5) / 1000)
        for end, ms in zip(np.cumsum(counts), whole_ms, strict=True)
    ]
    low, high = mean_between(steps_of_percentiles(requests, percentiles), binned)
    assert low * 0.999999 <= latencies_s.mean() <= high * 1.000001
    assert high / low < 1.15, "those of either alone are wider"


@pytest.mark.parametrize(("granted", "told"), [(49_500, False), (49_499, True), (1, True)])
def test_a_hundredth_of_the_requests_may_open_a_connection(granted: int, told: bool):
    """ab's transcript is of 50 000 requests."""
    page = text("filestash-static-c10.txt").replace("Keep-Alive requests:    0", f"Keep-Alive requests:    {granted}")
    only = f"keep-alive: only {granted} of 50000 requests were kept alive"
    assert [only] * told == parse_ab(page).problems()


@pytest.mark.parametrize(
    ("mean_s", "told"),
    [(0.0469, True), (0.0471, False), (0.0499, False), (0.0529, False), (0.0531, True)],
)
def test_littles_law_is_kept_within_a_twentieth_and_half_a_millisecond(mean_s: float, told: bool):
    """50 connections at 1000 requests per second: 47.5 ms to 52.5 ms, and ab prints whole milliseconds."""
    result = replace(ab("ab-ok"), requests_per_second=1000.0, concurrency=50)
    total = replace(result.times["total"], mean=mean_s)
    problems = replace(result, times={**result.times, "total": total}).problems()
    assert ("little" in names(problems)) == told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        # 20 000 requests in 1.149 s, which may be 1.1485 s to 1.1495 s, and 233 080 000 B.
        ({"requests_per_second": 17_399.0}, False),
        ({"requests_per_second": 17_414.0}, False),
        ({"requests_per_second": 17_397.0}, True),
        ({"requests_per_second": 17_416.0}, True),
        ({"transfer_rate": 202.78e6}, False),
        ({"transfer_rate": 202.94e6}, False),
        ({"transfer_rate": 202.74e6}, True),
        ({"transfer_rate": 202.97e6}, True),
        # 50 at once, so 50 × 1.149 s / 20 000 each.
        ({"time_per_request": 2.8713e-3}, False),
        ({"time_per_request": 2.8737e-3}, False),
        ({"time_per_request": 2.870e-3}, True),
        ({"time_per_request": 2.875e-3}, True),
        ({"html_transferred": 233_080_000}, False),
        ({"html_transferred": 233_080_001}, True),
        ({"html_transferred": 228_259_999}, True),
        ({"html_transferred": 228_259_999, "failed": 1}, False),
        ({"html_transferred": 228_259_999, "document_length": None}, False),
        ({"html_transferred": 228_260_000 - 11_413, "non_2xx": 1}, False),
        ({"html_transferred": 228_260_000 - 11_414, "non_2xx": 1}, True),
        ({"time_per_request": None, "transfer_rate": None}, False),
    ],
)
def test_figures_contradict_each_other_beyond_their_digits(changed: dict[str, Any], told: bool):
    assert ("arithmetic" in names(replace(ab("ab-ok"), **changed).problems())) == told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        # Rates have two digits, the latter one of kilobytes; a time per request has three, of milliseconds.
        ({"requests_per_second": 1.005}, False),
        ({"requests_per_second": 1.006}, True),
        ({"transfer_rate": 2000.0 + 5.12}, False),
        ({"transfer_rate": 2000.0 - 5.12}, False),
        ({"transfer_rate": 2000.0 + 6}, True),
        ({"transfer_rate": 2000.0 - 6}, True),
        ({"time_per_request": 1.000001}, False),
        ({"time_per_request": 1.000002}, True),
    ],
)
def test_the_digits_of_a_long_run_are_all_that_its_figures_may_be_off(changed: dict[str, Any], told: bool):
    """1000 requests of 2 kB in 1000 s, one at a time."""
    exact = {"duration": 1000.0, "complete": 1000, "concurrency": 1, "requests_per_second": 1.0}
    exact |= {"transferred": 2_000_000, "transfer_rate": 2000.0, "html_transferred": 2_000_000, "document_length": 2000}
    exact |= {"time_per_request": 1.0}
    assert ("arithmetic" in names(replace(ab("ab-ok"), **exact | changed).problems())) == told


def test_mean_and_median_are_a_standard_deviation_apart_at_most():
    result = ab("ab-ok")

    def apart(median: float | None, sd: float | None) -> list[str]:
        waiting = replace(result.times["waiting"], mean=0.010, median=median, sd=sd)
        return names(replace(result, times={**result.times, "waiting": waiting}).problems())

    # Both are rounded to a millisecond.
    assert apart(0.0051, 0.004) == apart(0.0149, 0.004) == apart(None, 0.004) == apart(0.001, None) == []
    assert apart(0.0049, 0.004) == apart(0.0151, 0.004) == ["summary"]


def test_the_mean_is_between_the_bounds_of_all_steps():
    """Half of the requests took 1 s to 2 s, and the other half 2 s to 4 s."""
    assert mean_between([(2, 1.0, 2.0), (4, 2.0, 4.0)]) == (1.5, 3.0)
    assert mean_between([(2, 1.0, 2.0), (4, 2.0, 4.0)], [(3, 0.0, 2.5), (4, 3.0, 5.0)]) == (1.75, 2.625)


def test_edited_figures_contradict_each_other():
    page = text("filestash-static-c100.txt")
    for old, new, expected in (
        ("6308.11", "8308.11", "arithmetic: Requests per second"),
        ("71643.87", "91643.87", "arithmetic: Transfer rate"),
        ("15.853 [ms]", "1.853 [ms]", "arithmetic: Time per request"),
        ("  90%     29", "  90%     39", "percentiles: they fall"),
        ("100%    112", "100%    912", "percentiles: the longest"),
        ("100%    112", "100%    111", "percentiles: the longest"),
        ("570650000", "57065000", "arithmetic: HTML transferred"),
        ("16  10.2     14", "46  10.2     14", "summary: mean 0.046 s and median 0.014 s of total"),
    ):
        assert old in page
        problems = parse_ab(page.replace(old, new, 1)).problems()
        assert [p for p in problems if p.startswith(expected)], (new, problems)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("timeout", "after 244 requests: apr_pollset_poll: The timeout specified has expired (70007)"),
        ("refused", "it said: apr_socket_recv: Connection refused (111)"),
        ("server-gone", "after 26221 requests: apr_socket_recv: Connection reset by peer (104)"),
        ("badurl", "Cannot use concurrency level greater than total number of requests"),
    ],
)
def test_a_run_without_a_report_says_why(name: str, reason: str):
    with pytest.raises(ParseError, match=re.escape(reason)):
        parse_ab(text(f"ab-{name}.stdout"), text(f"ab-{name}.stderr"))


def ab_reports() -> list[str]:
    return sorted(path.name for path in DATA.glob("*.txt") if re.match(r"ab-(?!S\.)|filestash-[sl]", path.name))


@pytest.mark.parametrize("name", ab_reports())
def test_a_report_cut_off_anywhere_is_refused(name: str):
    whole = text(name)
    last = "(longest request)" if "(longest request)" in whole else "\nTotal:"
    end = whole.index(last) + len(last)
    for cut in [*range(0, end - 1, 7), end - 1, end - 30]:
        with pytest.raises(ParseError):
            parse_ab(whole[:cut])


def _mangled(whole: str) -> Iterator[str]:
    """Pieces left out, lines doubled, numbers replaced by other numbers and by words, at many places."""
    lines = whole.splitlines(keepends=True)
    for index in range(len(lines)):
        yield "".join(lines[:index] + lines[index + 1 :])
        yield "".join(lines[:index] + lines[index : index + 1] * 2 + lines[index + 1 :])
        for new in ("0", "-7", "nan", "9" * 400, "1.5", "", "null", "é"):
            yield "".join([*lines[:index], re.sub(r"\d+(\.\d+)?", new, lines[index]), *lines[index + 1 :]])
    for start in range(0, len(whole), max(1, len(whole) // 150)):
        yield whole[:start] + whole[start + 23 :]


def _only_parse_errors(parse: Callable[[str], Any], whole: str) -> None:
    refused = 0
    for mangled in _mangled(whole):
        try:
            parse(mangled).problems()
        except ParseError:
            refused += 1
    assert refused, "some of these cannot be what the tool wrote"


@pytest.mark.parametrize("name", ["filestash-static-c4000", "ab-server-gone-r", "ab-post", "ab-one"])
def test_damaged_reports_raise_nothing_else(name: str):
    _only_parse_errors(parse_ab, text(f"{name}.txt"))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  50%      1", f"  {'9' * 5000}%      1", "ab's report is damaged"),
        ("20000\nFailed", f"{'9' * 400}\nFailed", "it has a number of 400 digits"),
        ("20000\nFailed", "20000.5\nFailed", "'Complete requests' is not a whole number: '20000.5'"),
        ("20000\nFailed", "many\nFailed", "'many' does not begin with a number"),
        ("20000\nFailed", "0\nFailed", "ab completed no request; it gives no reason"),
        ("0    3   7.1      1     114\n\nP", "0    3   7.1      1\n\nP", "the row Total of its times has 4 numbers"),
        ("Waiting: ", "Wait: ", "the row Waiting of its times is missing"),
        ("Time per request:       0.057", "Time:  0.057", "its time per request is missing"),
        ("114 (longest request)", "114", "the end of its percentiles is missing"),
        ("Server Port:            55893\n", "", "it has no 'Server Port'"),
    ],
)
def test_what_is_damaged_or_missing_in_a_report_is_named(old: str, new: str, told: str):
    assert old in text("ab-ok.txt")
    with pytest.raises(ParseError, match=re.escape(told)):
        parse_ab(text("ab-ok.txt").replace(old, new, 1))


def test_reports_in_one_text_are_split_where_each_begins():
    one, other = text("ab-ok.txt"), text("ab-vary.txt")
    assert split_ab(one) == [one] and split_ab("") == [""] and split_ab(f"{one}{other}") == [one, other]
    command = "$ ab -k -c 5 -n 300 http://127.0.0.1/vary\n"
    first = f"$ ab -k -c 50 -n 20000 http://127.0.0.1/\n{one}and then\n"
    assert split_ab(f"{first}{command}{other}{one}") == [first, f"{command}{other}", one]
    # A transcript may lack ab's first lines.
    bare = [re.sub(r"(?s)^.*?(?=Server Software)", "", whole) for whole in (one, other)]
    assert split_ab("".join(bare)) == bare
    unclear = f"{one}{other.replace('Server Software', 'Software')}".replace("This is ApacheBench", "This is ab", 1)
    assert split_ab(unclear) == [unclear], "they are refused, and not split in the wrong place"


def test_two_reports_in_one_text_are_refused():
    with pytest.raises(ParseError, match="2 reports"):
        parse_ab(text("filestash-static-c10.txt") + text("filestash-static-c100.txt"))


def test_recognising_ab():
    for path in sorted(DATA.glob("*[!z]")):
        is_ab = re.match(r"ab-.*(txt|stdout)$|filestash-[sl].*txt$", path.name) is not None
        assert recognise_ab(path.read_text()) == (is_ab and path.name != "ab-badurl.stdout"), path.name
    assert not recognise_ab("")


# --- ab: -e and -g ------------------------------------------------------------------------------------------


def test_percentiles_of_e():
    rows = parse_ab_percentiles(text("ab-ok.csv"))
    assert len(rows) == 101 and rows[0][0] == 0 and rows[100][0] == 100
    assert rows[100][1] == float(text("ab-ok.csv").splitlines()[-1].split(",")[1]) / 1000
    assert round(rows[100][1], 3) == ab("ab-ok").percentiles[100]
    whole = text("ab-ok.csv").rstrip("\n")
    for cut in range(len(whole)):
        with pytest.raises(ParseError):
            parse_ab_percentiles(whole[:cut])


@pytest.mark.parametrize("compressed", [False, True])
def test_histogram_of_g(tmp_path: Path, compressed: bool):
    content = gzip.decompress((DATA / "ab-ok.tsv.gz").read_bytes())
    path = tmp_path / ("ab.tsv.gz" if compressed else "ab.tsv")
    path.write_bytes(gzip.compress(content) if compressed else content)
    bins = histogram_of_gnuplot(path, expected=20_000)
    counted = Counter(int(line.split("\t")[4]) for line in content.decode().splitlines()[1:])
    assert [count for *_, count in bins] == [counted[ms] for ms in sorted(counted)]
    assert [high for _, high, _ in bins] == pytest.approx([(ms + 0.5) / 1000 for ms in sorted(counted)])
    assert [low for low, *_ in bins] == pytest.approx([max(0, ms - 0.5) / 1000 for ms in sorted(counted)])


def test_a_file_of_g_that_is_cut_off_is_refused(tmp_path: Path):
    content, path = gzip.decompress((DATA / "ab-ok.tsv.gz").read_bytes()), tmp_path / "ab.tsv"
    for cut in [0, 10, 43, *range(len(content) - 60, len(content) - 3), len(content) // 2]:
        path.write_bytes(content[:cut])
        with pytest.raises(ParseError):
            histogram_of_gnuplot(path, expected=20_000)
    (tmp_path / "ab.tsv.gz").write_bytes(gzip.compress(content)[:-100])
    with pytest.raises(ParseError):
        histogram_of_gnuplot(tmp_path / "ab.tsv.gz", expected=20_000)
    with pytest.raises(ParseError):
        histogram_of_gnuplot(tmp_path / "absent.tsv")


# --- wrk ----------------------------------------------------------------------------------------------------


def test_a_run_of_wrk_with_the_script():
    result = wrk("ok")
    assert (result.threads, result.connections) == (2, 10)
    assert (result.requests, result.good, result.duration) == (46_751, 46_751, pytest.approx(1.099723))
    assert result.statuses == {200: 46_751} and result.errors.total == 0 and result.checked
    assert result.read == 544_836_154 and result.throughput == pytest.approx(42_511.6, abs=0.1)
    assert result.latency.count == result.requests, "what wrk added is taken out again"
    assert sum(count for *_, count in result.latency.bins) == result.requests
    assert result.latency.min == 26e-6 == result.latency.percentile(0)
    assert result.latency.percentile(100) == result.latency.max == pytest.approx(9459e-6)
    values = [seconds for _, seconds in result.latency.percentiles]
    assert values == sorted(values) and len(values) == 111
    assert all(low < high for low, high, _ in result.latency.bins)


def test_wrk_without_the_script_is_refused():
    with pytest.raises(ParseError, match="0 lines of our script's JSON"):
        parse_wrk(text("wrk-plain.txt"))


@pytest.mark.parametrize("name", ["ok", "404", "length", "reset", "server-gone", "full", "slow", "late"])
def test_what_wrk_prints_agrees_with_what_our_script_adds(name: str):
    printed = text(f"wrk-{name}.txt").partition('{"benchstudy"')[0]
    exact, found = wrk(name), {metric: value for metric, (value, _) in parse_wrk_printed(printed).values.items()}
    wrong = exact.errors.length + exact.errors.text  # wrk does not look at bodies
    assert found["requests"] == exact.requests + exact.errors.connect
    assert found["errors"] == exact.errors.total - wrong and found["errors_connect"] == exact.errors.connect
    assert found["duration"] == pytest.approx(exact.duration, rel=1e-4)
    assert found["throughput"] == pytest.approx((exact.good + wrong) / exact.duration, rel=1e-4)
    assert found["transfer_rate"] == pytest.approx(exact.transfer_rate, rel=1e-2)
    untimed = {"slow": {"latency_max", "latency_p99"}, "late": {"latency_max", "latency_p50", "latency_p99"}}
    late = untimed.get(name, set())
    assert {"latency_max", "latency_p50", "latency_p99"} - found.keys() == late
    assert late or found["latency_max"] == pytest.approx(exact.latency.max, rel=1e-2)
    assert not {"latency_mean", "latency_sd"} & found.keys()


def test_answers_that_wrk_does_not_time_are_the_slowest(tmp_path: Path):
    """60 of 68 answers came too late, and the median of the other 8 stood for all."""

    def figures(name: str) -> dict[str, float | None]:
        (tmp_path / "stdout").write_text(text(f"wrk-{name}.txt"))
        load = parse_load("wrk", tmp_path)
        assert load.late == wrk(name).late and max((p for p, _ in load.percentiles), default=0) < 100
        return {metric: value for metric, (value, _) in load.values.items() if metric.startswith("latency")}

    late, slow = figures("late"), figures("slow")
    assert {name: value for name, value in late.items() if value is not None} == {"latency_min": pytest.approx(200e-6)}
    given = {name for name, value in slow.items() if value is not None}
    assert given == {"latency_min", *(f"latency_p{percent}" for percent in (50, 66, 75, 80, 90, 95, 98))}
    bins = wrk("slow").latency.bins
    ends = list(accumulate(count for *_, count in bins))
    low, high, _ = bins[next(i for i, end in enumerate(ends) if end >= 0.95 * 457)]
    assert low <= slow["latency_p95"] < high


def test_a_run_of_wrk_without_a_recorded_latency_has_none():
    printed = text("wrk-plain.txt").replace("\n", "\r\n").replace("7.46ms   85.83%", "0.00us    -nan%")
    assert "0.00us    -nan%" in printed
    assert not any(name.startswith("latency") for name in parse_wrk_printed(printed).values)


def test_what_wrk_met():
    assert wrk("404").errors.status == wrk("404").requests and wrk("404").throughput == 0
    assert "status: 42545 of 42545 answers had another status (42545 × 404)" in wrk("404").problems()
    length = wrk("length")
    assert length.errors.length * 3 == length.requests and "length" in names(length.problems())
    assert (wrk("slow").errors.timeout, wrk("slow").latency.count) == (7, 450)
    assert wrk("slow").good == 450 and "timeout" in names(wrk("slow").problems())
    assert wrk("reset").read_errors == 1161 and "connection" in names(wrk("reset").problems())
    assert wrk("server-gone").errors.connect == 54_023
    late = wrk("late")
    assert (late.requests, late.late, late.errors, late.good) == (68, 60, Errors(status=60), 8), "all 60 are late 503s"
    assert late.throughput == pytest.approx(8 / 4.03548) and names(late.problems())[:2] == ["status", "timeout"]
    assert wrk("auth").good == wrk("auth").requests


def test_connections_that_wrk_forgot_show_in_littles_law():
    hang = wrk("hang")
    assert hang.errors.total == 0, "wrk does not count requests that are never answered"
    assert names(hang.problems()) == ["little"]
    assert hang.concurrency_measured < 0.01


def changed_line(name: str, change: Callable[[dict[str, Any]], None]) -> str:
    """A captured output in which our script's line is another."""
    *lines, last = text(f"wrk-{name}.txt").splitlines()
    line = json.loads(last)
    change(line)
    return "\n".join([*lines, json.dumps(line, separators=(",", ":"))])


def test_failures_of_wrk_are_those_of_connections_and_of_answers():
    def failed(line: dict[str, Any]) -> None:
        line["errors"] |= {"connect": 1, "read": 20, "write": 300, "timeout": 4000, "status": 7}
        line["wrong"] |= {"status": 5, "length": 60, "text": 700}
        line["statuses"] = {"503": 3, "200": 46_746, "404": 2}

    result = parse_wrk(changed_line("ok", failed))
    assert (result.connect_errors, result.read_errors, result.write_errors) == (1, 20, 300)
    assert result.errors == Errors(connect=321, timeout=4000 - 765, status=5, length=60, text=700)
    assert result.good == 46_751 - 4000, "a late answer may be a wrong one; a broken connection gave none"
    assert result.transfer_rate == pytest.approx(544_836_154 / 1.099723)
    assert [problem for problem in result.problems() if not problem.startswith("little")] == [
        "status: 5 of 46751 answers had another status (46746 × 200, 2 × 404, 3 × 503)",
        "length: 60 of 46751 answers had another length",
        "text: 700 of 46751 answers lacked the expected text",
        "timeout: 4000 of 46751 answers came after wrk's timeout, which does not time them; percentiles count them as "
        "slower than all others",
        "connection: 1 could not be opened, 20 broke while reading, 300 while writing",
    ]
    unchecked = parse_wrk(changed_line("ok", lambda line: (failed(line), line.update(checked=False, statuses={}))))
    assert (unchecked.errors.status, unchecked.statuses) == (7, {})
    assert "status: 7 of 46751 answers had another status (above 399)" in unchecked.problems()
    assert names(parse_wrk(changed_line("ok", lambda line: line.update(checked=False))).problems())[0] == "unchecked"


@pytest.mark.parametrize(("under_way", "told"), [(9.49, True), (9.51, False), (10.49, False), (10.51, True)])
def test_littles_law_is_kept_by_wrk_within_a_twentieth(under_way: float, told: bool):
    """Ten connections."""
    result = wrk("ok")
    mean_s = under_way * result.duration / result.latency.count
    found = replace(result, latency=replace(result.latency, mean=mean_s))
    assert found.concurrency_measured == pytest.approx(under_way)
    assert names(found.problems()) == ["little"] * told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda line: line.update(requests=46_752),
            "wrk prints 46751 requests of 2 threads, our script's JSON 46752 of 2",
        ),
        (lambda line: line.update(threads=3), "our script's JSON 46751 of 3"),
        (lambda line: line.update(requests=0), "wrk completed no request in 1.10 s"),
        (lambda line: line.update(duration_us=0), "wrk says that its run took no time"),
        (lambda line: line.update(format=2), "our script's JSON has format 2, and only 1 is known"),
        (lambda line: line.update(latency_us=None), "wrk does not keep the times of answers as our script knows it"),
        (
            lambda line: (line.update(latency_us=None), line["errors"].update(timeout=46_751)),
            "each of 46751 answers came after wrk's timeout, so wrk recorded no time",
        ),
        (lambda line: line.pop("wrong"), "our script's JSON in wrk's output is damaged"),
        (lambda line: line["latency_us"].update(bins=[[1, 2]]), "our script's JSON in wrk's output is damaged"),
    ],
)
def test_what_cannot_be_in_an_output_of_wrk_is_named(change: Callable[[dict[str, Any]], None], told: str):
    with pytest.raises(ParseError, match=re.escape(told)):
        parse_wrk(changed_line("ok", change))


def test_each_figure_of_wrk_has_one_place():
    whole = text("wrk-ok.txt")
    for old, new, told in (
        ("2 threads and 10 connections", "", "truncated: it has no threads and connections"),
        ("46751 requests in", "many requests in", "truncated: it has no total of requests"),
        ("Running 1s", "Ran 1s", "wrk left 0 reports instead of one"),
        ("Running 1s test @ http://127.0.0.1:55893/", "Running 1s test @ x\nRunning 1s test @ y", "wrk left 2 reports"),
        ('"format":1', '"format":1,,', "our script's JSON is not whole"),
    ):
        assert old in whole
        with pytest.raises(ParseError, match=re.escape(told)):
            parse_wrk(whole.replace(old, new, 1))
    with pytest.raises(ParseError, match="2 lines of our script's JSON"):
        parse_wrk(f"{whole}\n{whole.splitlines()[-1]}")


def test_wrk_cut_off_or_damaged():
    whole = text("wrk-ok.txt").rstrip("\n")
    for cut in [*range(0, 900, 3), *range(900, len(whole), 101), len(whole) - 1]:
        with pytest.raises(ParseError):
            parse_wrk(whole[:cut])
    _only_parse_errors(parse_wrk, text("wrk-reset.txt"))
    plain = text("wrk-plain.txt").rstrip("\n")
    with pytest.raises(ParseError, match="not of one run"):
        parse_wrk(plain + "\n" + whole.splitlines()[-1])


# --- k6 -----------------------------------------------------------------------------------------------------


def test_a_run_of_k6():
    result = k6("ok")
    assert (result.rate, result.load_duration, result.vus) == (200, 2, 20)
    assert (result.requests, result.dropped, result.good, result.errors.total) == (401, 0, 401, 0)
    assert result.offered == result.throughput == 200, "k6 sends one request more as the load ends"
    raw = json.loads(text("k6-ok.json"))["metrics"]
    assert result.latency is result.latency_intended
    assert result.latency.mean == pytest.approx(raw["latency"]["values"]["avg"] / 1000)
    assert result.latency_sent.percentile(50) == pytest.approx(raw["http_req_duration"]["values"]["p(50)"] / 1000)
    assert result.latency.mean >= result.latency_sent.mean
    for latency in (result.latency, result.latency_sent):
        assert sum(count for *_, count in latency.bins) == latency.count == 401
        assert latency.bins[0][0] <= latency.min and latency.bins[-1][1] >= latency.max
        values = [seconds for _, seconds in latency.percentiles]
        assert values == sorted(values)
        # The histogram has its median in the same bin as the quantiles.
        seen = accumulate(count for *_, count in latency.bins)
        low, high, _ = next(one for one, upto in zip(latency.bins, seen, strict=True) if upto >= 201)
        assert low - 1e-5 <= latency.percentile(50) <= high + 1e-5


def test_what_k6_met():
    assert (k6("404").errors.status, k6("404").good, k6("404").throughput) == (101, 0, 0)
    assert k6("length").errors.length == 61 and k6("noauth").errors.text == 102
    assert (k6("timeout").errors.timeout, k6("timeout").errors.connect) == (4, 0)
    assert (k6("refused").errors.connect, k6("refused").errors.timeout) == (101, 0)
    for name, problem in (
        ("404", "status"),
        ("length", "length"),
        ("noauth", "text"),
        ("timeout", "timeout"),
        ("refused", "connection"),
    ):
        assert problem in names(k6(name).problems())


def test_dropped_arrivals():
    result = k6("dropped")
    assert (result.requests, result.dropped) == (267, 734)
    assert result.offered == 500 and result.throughput == 132, "offered is kept apart from achieved"
    assert result.latency is result.latency_sent
    assert "dropped" in names(result.problems())


def test_a_generator_that_was_late_is_named():
    """These outputs come from a busy machine, on which k6 started some requests late."""
    problem = next(p for p in k6("ok").problems() if p.startswith("late"))
    assert "the generator is part of that tail" in problem


def test_k6_cut_off_or_damaged():
    whole = text("k6-ok.json")
    for cut in range(0, len(whole), 997):
        with pytest.raises(ParseError):
            parse_k6_summary(whole[:cut])
    document = json.loads(whole)
    for wrong in ([], {}, None, 7, {"benchstudy": "k6", "format": 2}):
        with pytest.raises(ParseError):
            parse_k6_summary(json.dumps(wrong))

    def broken(change: Callable[[dict[str, Any]], None]) -> str:
        copy = json.loads(whole)
        change(copy)
        return json.dumps(copy)

    for change in (
        lambda d: d["metrics"].pop("latency"),
        lambda d: d["metrics"].pop("http_reqs"),
        lambda d: d["metrics"]["latency"]["values"].update({"count": 3}),
        lambda d: d["metrics"]["latency"]["values"].pop("avg"),
        lambda d: d["metrics"]["latency"].update({"values": {"count": 401}}),
        lambda d: d["state"].update({"testRunDurationMs": 0}),
        lambda d: d["load"].update({"rate": None}),
        lambda d: d.update({"metrics": []}),
        lambda d: [
            d["metrics"]["latency"]["values"].update({k: None}) for k in document["metrics"]["latency"]["values"]
        ],
    ):
        with pytest.raises(ParseError):
            parse_k6_summary(broken(change))


@pytest.mark.long
def test_k6_summaries_with_odd_values_raise_nothing_else():
    whole = json.loads(text("k6-timeout.json"))

    def leaves(node: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for key, value in node.items():
            quantile = re.fullmatch(r"p\((.+)\)", key)
            if quantile is None or float(quantile[1]) in (0, 100):
                yield (*way, key)
            if isinstance(value, dict):
                yield from leaves(value, (*way, key))

    refused = 0
    for way in leaves(whole):
        parent = whole
        for key in way[:-1]:
            parent = parent[key]
        kept = parent[way[-1]]
        for odd in (None, float("nan"), float("inf"), 10**400):
            parent[way[-1]] = odd
            try:
                parse_k6_summary(json.dumps(whole)).problems()
            except ParseError:
                refused += 1
        parent[way[-1]] = kept
    assert refused > 100


# --- the scripts, in their tools ----------------------------------------------------------------------------


WELCOME, TOKEN = Expect(text="welcome", length=7), {"X-Token": "se: cret"}


class _Recorder(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: float = math.inf) -> None:
        """After `answers`, requests wait until the server ends."""
        self.seen: list[tuple[str, str, str | None]] = []
        self.ends = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet, or each answer waits for an acknowledgement

            def do_GET(self) -> None:
                self.server.seen.append((self.command, self.path, self.headers.get("X-Token")))
                if len(self.server.seen) > answers:
                    self.server.ends.wait()
                body = b"welcome" if self.headers.get("X-Token") == "se: cret" else b"please log in"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """The generator closes its connections in the middle of an answer."""


@contextmanager
def recorder(answers: float = math.inf) -> Iterator[_Recorder]:
    with _Recorder(answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.ends.set()
            server.shutdown()
            thread.join()


def address(server: _Recorder, tool: str) -> dict[str, str]:
    return {"base": f"http://127.0.0.1:{server.server_port}", "folder": str(SCRIPTS[tool].parent)}


def run_wrk(server: _Recorder, connections: int, threads: int, **changed: Any) -> WrkResult:
    made = load("wrk", connections, threads=threads, duration=1.0, program="wrk", **address(server, "wrk"), **changed)
    done = subprocess.run(made.argv(), env=made.environment(), capture_output=True, text=True, timeout=30, check=True)
    return parse_wrk(done.stdout)


@pytest.mark.long
def test_wrk_walks_a_path_with_numbers_of_its_own():
    with recorder() as server:
        result = run_wrk(server, 4, 2, path="/b/{{n}}.jpg", first=1000, expect=WELCOME, headers=TOKEN)
        assert result.good == result.requests > 50
    assert {(method, token) for method, _, token in server.seen} == {("GET", "se: cret")}
    numbers = [int(re.fullmatch(r"/b/(\d+)\.jpg", path)[1]) for _, path, _ in server.seen]
    assert len(numbers) == len(set(numbers)) and min(numbers) >= 1000, "no number was asked for twice"


@pytest.mark.long
def test_wrk_tells_a_login_page_from_the_page():
    with recorder() as server:
        good = run_wrk(server, 2, 1, expect=WELCOME, headers=TOKEN)
        assert good.errors.total == 0 and good.good > 50
        login = run_wrk(server, 2, 1, expect=Expect(text="welcome"))
        assert login.errors.text == login.requests > 50 and login.good == 0
        length = run_wrk(server, 2, 1, expect=Expect(length=7))
        assert length.errors.length == length.requests > 50
        unchecked = run_wrk(server, 2, 1, expect=Expect(length=7), check_answers=False)
        assert not unchecked.checked and unchecked.errors.total == 0 and "unchecked" in names(unchecked.problems())
        status = run_wrk(server, 2, 1, expect=Expect(status=204, length=0))
        assert status.errors.status == status.requests and status.statuses == {200: status.requests}


def test_wrk_without_one_answer_is_a_failure_and_not_a_rate_of_nothing():
    with _Recorder() as server, pytest.raises(ParseError, match=r"wrk completed no request in 1\.\d+ s"):
        run_wrk(server, 2, 1)  # accepts connections, and never answers


def test_fewer_answers_than_connections_have_their_times_all_the_same():
    """wrk then adds none for stalled connections, so there is nothing to take out."""
    with recorder(answers=3) as server:
        result = run_wrk(server, 5, 1, expect=WELCOME, headers=TOKEN)
    assert result.requests == result.latency.count == result.good == 3 and result.connections == 5


def test_k6_asks_at_a_rate_for_numbers_of_their_own(tmp_path: Path):
    generators = [{"name": "k6", "tool": "k6", "duration": "1s"}]
    provision_here(CHECKOUT, "http_concurrency", {"generators": generators}, tmp_path / "work")
    with recorder() as server:
        made = load(
            "k6", rate_per_s=20.5, duration=1.0, max_in_flight=10, path="/b/{{n}}", first=500, expect=WELCOME,
            headers=TOKEN, program=str(tmp_path / "work/tools/bin/k6"), **address(server, "k6"),
        )  # fmt: skip
        subprocess.run(made.argv(), env=made.environment(), cwd=tmp_path, timeout=60, check=True, capture_output=True)
    result = parse_k6_summary((tmp_path / "k6-summary.json").read_text())
    assert result.good == result.requests == len(server.seen) == pytest.approx(20.5, abs=1.5)
    assert {(method, token) for method, _, token in server.seen} == {("GET", "se: cret")}
    numbers = sorted(int(n) for _, path, _ in server.seen for n in re.findall(r"\d+", path))
    assert numbers == list(range(500, 500 + len(numbers)))

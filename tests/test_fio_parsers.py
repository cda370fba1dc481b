"""The parsers of fio's outputs and of the small-file test, on captured outputs (see data/fio/README.md)."""

import json
import math
import os
import re
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchstudy.families.fio import fio_printed, fio_text
from benchstudy.families.fio.config import Directory
from benchstudy.families.fio.fio_json import parse_fio_json, split_fio_json
from benchstudy.families.fio.fio_result import MIN_OPERATIONS, Direction, FioJob, FioRun, Latency, observe
from benchstudy.families.fio.fio_text import parse_fio_text, split_fio_text
from benchstudy.families.fio.parse import note_trial, parse_trial
from benchstudy.families.fio.place import unusable
from benchstudy.families.fio.small_files import parse_no_fork, parse_shell_loop
from benchstudy.model.family import Parsed, ParseError
from benchstudy.statistics import stats
from benchstudy.statistics.histograms import cumulative, merge_histograms, quantile_interval_from_histogram

DATA = Path(__file__).parent / "data" / "fio"


def text(name: str) -> str:
    return (DATA / name).read_text()


def values(parsed: Parsed) -> dict[str, float]:
    found = {o.metric: o.value for o in parsed.observations}
    assert len(found) == len(parsed.observations), "a metric was given twice"
    return found


def from_json(name: str) -> dict[str, float]:
    return values(observe(parse_fio_json(text(name))))


def from_text(name: str) -> dict[str, float]:
    return values(observe(parse_fio_text(text(name))))


def histogram(name: str) -> pl.DataFrame:
    return pl.DataFrame(observe(parse_fio_json(text(name))).series["latency_histogram"])


# --- plain text ---------------------------------------------------------------------------------------------


def test_the_output_printed_on_the_page():
    run = parse_fio_text(text("fio-2.2.10-page.txt"))
    found = values(observe(run))
    assert (run.version, run.name) == ("fio-2.2.10", "test")
    # Computed from the totals, and what the page prints if cut to a whole number.
    assert (math.floor(found["read_iops"]), math.floor(found["write_iops"])) == (33415, 11219)
    assert found["read_bandwidth"] == 133662 * 1024
    assert found["write_bandwidth"] == 44880 * 1024
    assert found["read_bytes"] == 784996 * 1024
    assert (found["read_ios"], found["write_ios"]) == (196249, 65895)
    assert found["read_runtime"] == 5.873
    assert found["cpu_user"] == pytest.approx(0.0656) and found["cpu_system"] == pytest.approx(0.2311)


def test_latencies_that_gtod_reduce_switched_off_are_absent_and_not_zero():
    for found in (
        from_text("fio-2.2.10-page.txt"),
        from_text("fio-3.33-page.txt"),
        from_json("fio-3.33-page.json"),
    ):
        assert not [metric for metric in found if "lat" in metric]
        assert found["read_iops"] > 0


def test_text_of_3x_with_latencies():
    found = from_text("fio-3.33-latency.txt")
    assert found["read_iops"] == 12276 / 0.168
    assert found["read_bandwidth"] == 285 * 1024**2
    assert found["read_slat_mean"] == pytest.approx(1982.06e-9)
    assert found["read_clat_p50"] == 611e-6
    assert found["read_clat_p99.9"] == 3130e-6
    assert found["write_clat_p99"] == 2114e-6
    assert found["write_lat_max"] == 3247e-6
    assert found["cpu_system"] == pytest.approx(0.2216)


def test_text_of_an_fdatasync_job_tells_syncs_from_writes():
    found = from_text("fio-3.33-fdatasync.txt")
    assert found["write_clat_mean"] == pytest.approx(9272.29e-9)
    assert found["write_clat_max"] == pytest.approx(2765.9e-6), "2765.9k nanoseconds"
    assert found["sync_lat_mean"] == pytest.approx(188.92e-6)
    assert "sync_lat_p99" not in found, "plain text does not say how many syncs there were"


def test_text_of_two_jobs_adds_up():
    found = from_text("fio-3.33-two-jobs.txt")
    assert found["read_ios"] == 2048
    assert found["read_runtime"] == 0.055
    assert found["read_iops"] == pytest.approx(2048 / 0.055), "the other job ended 1 ms earlier"
    assert found["read_clat_mean"] == pytest.approx((52947.12 + 51952.48) / 2 * 1e-9)
    assert not [metric for metric in found if "_p" in metric], "percentiles do not merge"


@pytest.mark.parametrize("name", ["fio-2.2.10-page.txt", "fio-3.33-latency.txt"])
def test_text_cut_off_anywhere_is_refused(name: str):
    whole = text(name)
    for end in range(0, whole.index("Run status group"), 97):
        with pytest.raises(ParseError):
            observe(parse_fio_text(whole[:end]))


@pytest.mark.fault(14)
def test_text_of_a_full_disk_is_no_result():
    whole = text("fio-3.33-disk-full.txt")
    with pytest.raises(ParseError, match=r"job full ended in error 28: .*No space left on device$"):
        observe(parse_fio_text(whole))
    without_words = re.sub(r"err=28 \(.*\): pid", "err=28: pid", whole)
    with pytest.raises(ParseError, match=r"job full ended in error 28: full: \(groupid=0, jobs=1\): err=28: pid="):
        observe(parse_fio_text(without_words))


# --- JSON ---------------------------------------------------------------------------------------------------


def test_json_plus_of_3x():
    run = parse_fio_json(text("fio-3.33-latency-plus.json"))
    job = json.loads(text("fio-3.33-latency-plus.json"))["jobs"][0]
    found = values(observe(run))
    assert run.version == "fio-3.33"
    for op in ("read", "write"):
        raw = job[op]
        assert found[f"{op}_iops"] == raw["iops"]
        assert found[f"{op}_bandwidth"] == pytest.approx(raw["bw_bytes"], abs=1)
        assert found[f"{op}_bytes"] == raw["io_bytes"]
        assert found[f"{op}_runtime"] == raw["runtime"] / 1000
        assert found[f"{op}_lat_mean"] == pytest.approx(raw["lat_ns"]["mean"] / 1e9)
        for percentile in ("50", "90", "95", "99", "99.9"):
            key = f"{float(percentile):.6f}"
            assert found[f"{op}_clat_p{percentile}"] == raw["clat_ns"]["percentile"][key] / 1e9
    units = {o.metric: o.unit for o in observe(run).observations}
    assert (units["read_iops"], units["read_bandwidth"], units["read_bytes"]) == ("1/s", "B/s", "B")
    assert (units["read_clat_p50"], units["cpu_user"], units["read_ios"]) == ("s", "1", "1")


def test_percentiles_need_operations():
    assert dict(MIN_OPERATIONS) == {p: stats.smallest_n(p) for p in MIN_OPERATIONS}
    found = from_json("fio-3.33-fdatasync-plus.json")
    assert found["write_ios"] == 512
    assert "write_clat_p99" in found
    assert "write_clat_p99.9" not in found, "512 operations cannot tell the 99.9th percentile"


def test_fdatasync_latencies_are_their_own():
    found = from_json("fio-3.33-fdatasync-plus.json")
    raw = json.loads(text("fio-3.33-fdatasync-plus.json"))["jobs"][0]["sync"]["lat_ns"]
    assert found["sync_ios"] == raw["N"]
    assert found["sync_lat_p99"] == raw["percentile"]["99.000000"] / 1e9
    rows = histogram("fio-3.33-fdatasync-plus.json").filter(pl.col("op") == "sync")
    assert rows["count"].sum() == raw["N"]


def test_two_jobs_are_one_trial():
    jobs = [job["read"] for job in json.loads(text("fio-3.33-two-jobs-plus.json"))["jobs"]]
    found = from_json("fio-3.33-two-jobs-plus.json")
    longest_s = max(job["runtime"] for job in jobs) / 1000
    assert found["read_iops"] == pytest.approx(2048 / longest_s) and found["read_ios"] == 2048
    assert found["read_clat_mean"] == pytest.approx(sum(job["clat_ns"]["mean"] for job in jobs) / 2e9)
    # From the merged histogram, so between the two jobs' own values, and not their mean.
    medians = sorted(job["clat_ns"]["percentile"]["50.000000"] / 1e9 for job in jobs)
    assert medians[0] <= found["read_clat_p50"] <= medians[1]
    assert histogram("fio-3.33-two-jobs-plus.json")["count"].sum() == 2048


def test_rates_of_jobs_that_end_at_different_times_are_those_of_the_longest():
    """fio's own total of such a group: 22.0 MiB/s, of jobs with 20.3 MiB/s for 0.2 s and 20.0 MiB/s for 2 s."""

    def shorten(document):
        read = document["jobs"][0]["read"]
        ios, size = read["total_ios"] // 8, read["io_bytes"] // 8
        ms = read["runtime"] // 8
        read.update(total_ios=ios, io_bytes=size, io_kbytes=size // 1024, runtime=ms, iops=1000 * ios / ms)
        read.update(bw_bytes=1000 * size // ms, bw=1000 * size // ms // 1024)

    found = values(observe(parse_fio_json(edited("fio-3.33-two-jobs-plus.json", shorten))))
    assert found["read_iops"] == pytest.approx(found["read_ios"] / found["read_runtime"])
    assert found["read_bandwidth"] == pytest.approx(found["read_bytes"] / found["read_runtime"], rel=1e-4)


@pytest.mark.parametrize("before", ["", "fio: this platform does not support process shared mutexes\n"])
@pytest.mark.parametrize("after", ["", "\nfio: a note\n"])
def test_notes_around_the_document_are_passed_over(before: str, after: str):
    whole = text("fio-3.33-normal-and-json.txt")  # fio's own text is around the JSON here
    assert values(observe(parse_fio_json(before + whole + after)))["read_ios"] == 12276


@pytest.mark.fault(20)
def test_json_cut_off_anywhere_is_refused():
    whole = text("fio-3.33-latency-plus.json")
    for end in range(0, len(whole) - 3, 499):
        with pytest.raises(ParseError):
            parse_fio_json(whole[:end])
    with pytest.raises(ParseError, match="truncated: it ends in the middle"):
        parse_fio_json(whole[: len(whole) // 2])


def test_without_a_document_fios_own_words_are_the_cause():
    with pytest.raises(ParseError, match=r"no JSON document, only: .*No space left on device"):
        parse_fio_json(text("fio-3.33-disk-full.stderr"))
    with pytest.raises(ParseError, match="nothing else either"):
        parse_fio_json("")


def test_an_error_of_a_job_is_no_result():
    with pytest.raises(ParseError, match="fio job full ended in error 28: No space left on device"):
        observe(parse_fio_json(text("fio-3.33-disk-full.stdout")))


def edited(name: str, edit) -> str:
    document = json.loads(text(name))
    edit(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (lambda d: d["jobs"][0]["read"].update(bw=17), "inconsistent"),
        (lambda d: d["jobs"][0]["read"]["clat_ns"]["bins"].popitem(), "clat: inconsistent: the histogram holds"),
        (lambda d: d["jobs"][0]["read"].update(iops=None), "iops is None"),
        (lambda d: d["jobs"][0]["read"].update(iops=-5), "iops is -5"),
        (lambda d: d["jobs"][0].pop("usr_cpu"), "usr_cpu is None"),
        (lambda d: d["jobs"][0]["read"].update(runtime=0), "too short for fio's clock"),
        (lambda d: d.update(jobs=[]), "no job"),
        (lambda d: d.pop("fio version"), "not an output of fio"),
        (lambda d: d.update(client_stats=[]), "client mode"),
        (lambda d: d["jobs"][0].update(mixed={}), "unified_rw_reporting"),
        (lambda d: [d["jobs"][0].pop(op) for op in ("read", "write", "trim")], "was done at all"),
        (lambda d: d["jobs"].append({**d["jobs"][0], "groupid": 1}), "one after another"),
    ],
)
def test_documents_that_cannot_be_right(edit, cause: str):
    with pytest.raises(ParseError, match=cause):
        observe(parse_fio_json(edited("fio-3.33-latency-plus.json", edit)))


def test_json_of_2_2_10():
    found, printed = from_json("fio-2.2.10-constructed.json"), from_text("fio-2.2.10-page.txt")
    for metric in ("read_bytes", "write_bytes", "read_runtime", "read_ios", "cpu_user"):
        assert found[metric] == printed[metric]
    assert found["read_iops"] == pytest.approx(printed["read_iops"])
    assert found["read_bandwidth"] == pytest.approx(printed["read_bandwidth"], rel=1e-5)
    assert not [metric for metric in found if "lat" in metric]


def test_json_plus_of_2_10_has_microseconds_and_bins_by_number():
    found = from_json("fio-2.10-constructed-plus.json")
    assert found["read_clat_p50"] == 100e-6
    assert found["read_clat_p99"] == 302e-6
    assert found["read_slat_mean"] == 2e-6
    assert found["read_bytes"] == 4000 * 1024
    rows = histogram("fio-2.10-constructed-plus.json").select("lower_s", "upper_s", "count").rows()
    assert rows == [(100e-6, 101e-6, 800), (300e-6, 304e-6, 200)]


def fios_bins() -> list[tuple[int, int]]:
    """As in fio's stat.h: a bin for each value below 128, then 64 equal bins per power of two."""
    wide = [
        (low, low + (1 << power) // 64)
        for power in range(7, 12)
        for low in range(1 << power, 2 << power, (1 << power) // 64)
    ]
    return [(n, n + 1) for n in range(128)] + wide


def test_every_bin_has_the_edges_that_fio_gives_it():
    bins = fios_bins()

    def parsed(**bins: int) -> list[tuple[int, int, int]]:
        def edit(document):
            read = document["jobs"][0]["read"]
            total = sum(count for key, count in bins.items() if key.isdecimal())
            read["clat_ns"] |= {"bins": bins, "N": total}

        document = parse_fio_json(edited("fio-3.33-latency-plus.json", edit))
        found = document.jobs[0].directions["read"].latencies["clat"].bins
        return [(round(lower * 1e9), round(upper * 1e9), count) for lower, upper, count in found]

    counted = [(low, high, number + 1) for number, (low, high) in enumerate(bins)]
    assert parsed(**{str((low + high) // 2): count for low, high, count in counted}) == counted, "by a value in it"
    numbered = {str(number): count for number, (_, _, count) in enumerate(counted)}
    assert parsed(FIO_IO_U_PLAT_BITS=6, **numbered) == counted, "by its number"
    assert parsed(**{"100": 0, "200": 7}) == [(200, 202, 7)]
    with pytest.raises(ParseError, match="with 7 bits per bin"):
        parsed(FIO_IO_U_PLAT_BITS=7, **numbered)


def test_what_took_longer_than_fios_range_is_in_a_bin_that_reaches_to_the_slowest():
    """fio counts all from 17.2 s on in its last bin, so the page said that p99 of a 40 s stall was 17.0-17.2 s."""

    def stalled(document):
        latency = document["jobs"][0]["read"]["clat_ns"]
        last = str((1 << 34) - (1 << 26))
        latency |= {"N": 1000, "max": 40_000_000_000, "bins": {"100": 980, last: 20}}
        latency["percentile"] = {"50.000000": 100, "99.000000": int(last)}

    found = observe(parse_fio_json(edited("fio-3.33-latency-plus.json", stalled)))
    rows = [row for row in found.series["latency_histogram"] if (row["op"], row["kind"]) == ("read", "clat")]
    (fast, slow) = rows
    assert (fast["count"], slow["count"], slow["lower_s"]) == (980, 20, pytest.approx(17.05, abs=0.01))
    assert fast["upper_s"] == 101e-9 and 40.0 < slow["upper_s"] < 40.001
    given = values(found)
    assert given["read_clat_p50"] == 100e-9 and given["read_clat_max"] == 40.0 and "read_clat_p99" not in given


def test_shares_of_a_core_are_told_of_both_kinds():
    job = json.loads(text("fio-3.33-latency-plus.json"))["jobs"][0]
    found = from_json("fio-3.33-latency-plus.json")
    assert (found["cpu_user"], found["cpu_system"]) == pytest.approx((job["usr_cpu"] / 100, job["sys_cpu"] / 100))


def test_processes_use_as_many_cores_as_their_cpu_times_fill():
    """With group_reporting fio divides the CPU times by the sum of its processes' run times, 4.001 s in 2.002 s."""
    found = from_json("fio-3.33-grouped.json")
    assert found["cpu_user"] == pytest.approx(0.06623344 * 4001 / 2002)
    assert found["cpu_user"] + found["cpu_system"] == pytest.approx(0.48, abs=1e-3)
    untold = edited("fio-3.33-grouped.json", lambda d: d["jobs"][0].pop("job_runtime"))
    assert values(observe(parse_fio_json(untold)))["cpu_user"] == pytest.approx(2 * 0.06623344)
    two = from_json("fio-3.33-two-jobs-plus.json")
    assert two["cpu_system"] == pytest.approx(0.21568627 + 0.10 * 50 / 51), "a sum over the longer, 51 ms"


def test_fio_is_the_limit_where_its_processes_or_its_host_are_busy(tmp_path):
    """Two processes that each keep half a core busy are far from any limit on two cores, and at it on one."""
    (tmp_path / "fio.json").write_text(
        edited("fio-3.33-grouped.json", lambda d: d["jobs"][0].update(usr_cpu=20.0, sys_cpu=30.0))
    )
    for processors, busy in ((None, 0.5), (8, 0.5), (2, 0.5), (1, 4001 / 4004)):
        readings = [{"cpus": processors}] if processors else []
        (tmp_path / "supervisor.json").write_text(json.dumps({"readings": readings}))
        found = values(parse_trial({"test": "fio", "job": "y"}, tmp_path))
        assert found["generator_cpu"] == pytest.approx(busy, rel=1e-3) and found["cpu_system"] > 0.59
    for damaged in ([7], [{"cpus": "two"}], 7):
        (tmp_path / "supervisor.json").write_text(json.dumps({"readings": damaged}))
        with pytest.raises(ParseError, match=r"readings in supervisor\.json are damaged"):
            parse_trial({"test": "fio", "job": "y"}, tmp_path)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("fio-2.10-constructed-plus.json", 0.009, 0.013), ("fio-3.33-latency-plus.json", 5e-5, 1e-3)],
)
def test_a_rate_may_be_off_by_what_is_lost_in_printing_it(name, right, wrong):
    def off_by(iops: float) -> str:
        def edit(document):
            read = document["jobs"][0]["read"]
            read["iops"] = 1000 * read["total_ios"] / read["runtime"] + iops

        return edited(name, edit)

    assert parse_fio_json(off_by(right)) and parse_fio_json(off_by(-right))
    for off in (wrong, -wrong):
        with pytest.raises(ParseError, match="iops: inconsistent"):
            parse_fio_json(off_by(off))


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"error": 5}, True),
        ({"error": 5, "total_err": 3, "first_error": 5}, False),
        ({"error": 5, "total_err": 3, "first_error": 28}, True),
        ({"error": 5, "total_err": 0, "first_error": 5}, True),
        ({"error": 28, "total_err": 3, "first_error": 28}, True),
        ({"error": 0, "total_err": 3, "first_error": 5}, False),
    ],
)
def test_a_job_that_went_on_after_errors_did_not_fail_by_them(fields, failed):
    run = parse_fio_json(edited("fio-3.33-latency-plus.json", lambda d: d["jobs"][0].update(fields)))
    assert (run.failure is not None) is failed and run.jobs[0].io_errors == fields.get("total_err", 0)
    if failed:
        assert run.failure == f"fio job test ended in error {fields['error']}: {os.strerror(fields['error'])}"


def test_the_largest_count_of_64_bits_is_a_number_also_where_a_tool_made_it_a_float():
    def parsed(value: float) -> float | None:
        return (
            parse_fio_json(edited("fio-3.33-latency-plus.json", lambda d: d["jobs"][0].update(usr_cpu=value)))
            .jobs[0]
            .cpu_user
        )

    assert parsed(2**64 - 1) == parsed(float(2**64 - 1)) == 2**64 / 100
    for wrong in (math.nextafter(2.0**64, math.inf), 2**64 + 1, -1e-9, True, "7"):
        with pytest.raises(ParseError, match=r"usr_cpu is .* where fio writes a number"):
            parsed(wrong)


@pytest.mark.parametrize(
    ("errors", "err", "fails"),
    [
        ("total=2, first_error=84", 84, False),
        ("total=1, first_error=84", 84, False),
        ("total=0, first_error=84", 84, True),
        ("total=2, first_error=5", 84, True),
        ("total=2, first_error=28", 28, True),  # fio ends a job on a full disk, whatever it was asked
    ],
)
def test_text_of_a_job_that_went_on_after_errors_is_a_result(errors, err, fails):
    page = text("fio-3.33-continued.txt").replace("total=2, first_error=84", errors).replace("err=84", f"err={err}")
    (job,) = parse_fio_text(page).jobs
    assert (job.failed is not None) == fails and job.io_errors == int(errors[6])


@pytest.mark.parametrize(
    ("printed", "factor", "step"),
    [("11.9MiB", 2**20, 0.1), ("784996KB", 1000, 1), ("95.4Mibit", 2**20 / 8, 0.1), ("66.2k", 1000, 0.1), ("8", 1, 1)],
)
def test_a_printed_amount_is_known_to_its_last_digit(printed, factor, step):
    found = fio_text._figure(printed, "an amount", pow2=False)
    assert found.value == pytest.approx(float(re.match(r"[\d.]+", printed)[0]) * factor)
    assert found.step == pytest.approx(step * factor)
    assert fio_text._figure("784996KB", "an amount", pow2=True).value == 784996 * 1024


@pytest.mark.parametrize(
    ("given", "in_s"),
    [("10", 10), ("30s", 30), ("500ms", 0.5), ("90us", 90e-6), ("2m", 120), ("3H", 10800), ("1d", 86400), ("x", None)],
)
def test_times_of_fios_options_are_in_seconds(given, in_s):
    assert fio_printed.seconds(given) == (None if in_s is None else pytest.approx(in_s))


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("  read :", "  raed :", "'raed' hides which operation"),
        (
            "read : io=784996KB, bw=133662KB/s, iops=33415, runt=  5873msec",
            "",
            "196249 operations of 'read' were issued",
        ),
        ("total=r=196249", "total=r=196269", "read: iops: inconsistent"),
        ("io=784996KB", "io=774996KB", "inconsistent"),
        ("mint=5873msec, maxt=5873msec", "mint=5873msec, maxt=5883msec", "run time: inconsistent"),
        ("Run status group 0", "Run status group 1", "summary"),
    ],
)
def test_text_whose_figures_contradict_each_other_is_refused(was, now, told):
    whole = text("fio-2.2.10-page.txt")
    assert was in whole
    with pytest.raises(ParseError, match=told):
        parse_fio_text(whole.replace(was, now))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "fio --name=x --rw=read --bs=4k --direct 1 --thread",
            {"name": "x", "rw": "read", "bs": "4k", "direct": "1", "thread": "1"},
        ),
        ("fio --thread --name=x", {"thread": "1", "name": "x"}),
        ("fio --name 'a b' --ioengine=libaio", {"name": "a b", "ioengine": "libaio"}),
        ("fio job.fio", None),
        ("fio --name='x", None),
    ],
)
def test_options_of_a_command_line_are_read_as_fio_reads_them(command, options):
    assert fio_text._options_of(command) == options


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B", "4096"),
        ("4K-4K/4K-4K/4K-4K", "4096"),
        ("(R) 4096B-8192B, (W) 4096B-8192B, (T) 4096B-8192B", None),
        ("(R) 4096B-4096B, (W) 8192B-8192B, (T) 4096B-4096B", None),
        ("various", None),
    ],
)
def test_a_block_size_is_a_number_where_all_are_the_same(printed, told):
    page = text("fio-3.33-latency.txt").replace("(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B", printed)
    options = parse_fio_text(page).jobs[0].options
    assert options == {"rw": "randrw", "bs": told or printed, "ioengine": "libaio", "iodepth": "64"}


def test_several_texts_are_cut_where_the_next_run_begins():
    page, latency = text("fio-2.2.10-page.txt"), text("fio-3.33-latency.txt")
    assert split_fio_text(page) == [page]
    parts = split_fio_text(page + latency)
    assert "".join(parts) == page + latency
    assert [parse_fio_text(part).version for part in parts] == ["fio-2.2.10", "fio-3.33"]


def test_a_text_without_a_command_or_heading_begins_with_its_version():
    _, bare = text("fio-2.2.10-page.txt").split("\n", 1)
    assert bare.strip().startswith("fio-2.2.10\n")
    assert split_fio_text(bare + bare) == [bare, bare]


def test_a_disk_without_a_name_is_left_out():
    def unnamed(document):
        document["disk_util"] = [{"name": "vda"}, {"read_ios": 3}, "name"]

    assert parse_fio_json(edited("fio-3.33-page.json", unnamed)).devices == ["vda"]


def test_parts_of_an_output_cannot_be_of_another_run():
    """Documents at intervals have the same jobs; each begins before the one before it was written."""

    def named(name: str, ios: int, group: int = 0, **options: str) -> str:
        def edit(document):
            (job,) = document["jobs"]
            job |= {"jobname": name, "groupid": group, "job options": {**job["job options"], **options}}
            job["write"] = {"total_ios": 0, "io_bytes": 0}
            values, runtime, size = job["read"], 2000, 4096 * ios
            values |= {
                "runtime": runtime,
                "total_ios": ios,
                "io_bytes": size,
                "io_kbytes": size // 1024,
                "iops": 1000 * ios / runtime,
            }
            values |= {"bw_bytes": 1000 * size // runtime, "bw": 1000 * size // runtime // 1024}

        return edited("fio-3.33-latency-plus.json", edit)

    assert parse_fio_json(named("a", 10) + "\n" + named("a", 20)).jobs[0].directions["read"].ios == 20
    assert parse_fio_json(named("a", 10) + "\n" + named("a", 10)).jobs[0].directions["read"].ios == 10
    for one, other in (
        (named("a", 10), named("b", 20)),
        (named("b", 10), named("a", 20)),
        (named("a", 10), named("a", 20, group=1)),
        (named("a", 10, bs="8k"), named("a", 20, bs="4k")),
        (named("a", 10, bs="4k"), named("a", 20, bs="8k")),
        (named("a", 20), named("a", 10)),
    ):
        with pytest.raises(ParseError, match="several runs of fio are in one text, of 2 documents"):
            parse_fio_json(f"{one}\n{other}")
        assert len(split_fio_json(f"{one}\n{other}")) == 2


def test_when_a_document_was_written_is_in_seconds():
    """Versions before 2.17 write no milliseconds."""
    assert parse_fio_json(text("fio-3.33-latency-plus.json")).ended == 1_795_201_707.212
    assert parse_fio_json(text("fio-2.2.10-constructed.json")).ended == 1_549_129_210
    untold = edited("fio-2.2.10-constructed.json", lambda d: d.pop("timestamp"))
    assert parse_fio_json(untold).ended is None
    told = text("fio-2.2.10-constructed.json")
    for pair in ((untold, untold), (untold, told), (told, untold)):
        with pytest.raises(ParseError, match="do not all say which was written when: split them"):
            parse_fio_json("\n".join(pair))


def test_every_figure_of_a_document_is_observed():
    found = from_json("fio-3.33-latency-plus.json")
    printed = {
        "read_bytes": 50_282_496, "read_runtime": 0.161, "read_ios": 12_276, "read_iops": 76_248.447205,
        "read_bandwidth": 312_313_639, "write_bytes": 16_826_368, "write_iops": 25_515.52795,
        "read_slat_mean": 2408.755947e-9, "read_slat_stddev": 4272.149561e-9, "read_slat_min": 1178e-9,
        "read_slat_max": 91_617e-9, "read_clat_mean": 599_521.489003e-9, "read_clat_stddev": 101_541.004087e-9,
        "read_clat_min": 128_767e-9, "read_clat_max": 1_277_503e-9, "read_lat_mean": 601_930.244949e-9,
        "write_lat_max": 1_371_940e-9, "cpu_user": 0.03125, "cpu_system": 0.3125, "io_errors": 0,
        "read_short_ios": 0, "read_dropped_ios": 0,
    }  # fmt: skip
    assert {name: found[name] for name in printed} == pytest.approx(printed, rel=1e-8)


@pytest.mark.parametrize(("unit", "per_second"), [("nsec", 1e9), ("usec", 1e6), ("msec", 1e3)])
def test_latencies_of_text_are_in_the_unit_that_it_names(unit: str, per_second: float):
    page = text("fio-3.33-latency.txt").replace(
        "clat (usec): min=100, max=3141", f"clat ({unit}): min=100, max=3141", 1
    )
    page = page.replace("clat percentiles (usec)", f"clat percentiles ({unit})", 1)
    found = values(observe(parse_fio_text(page)))
    times = [found[f"read_clat_{name}"] for name in ("min", "max", "mean", "stddev", "p50", "p99")]
    assert times == pytest.approx([n / per_second for n in (100, 3141, 630.45, 228.19, 611, 2073)])
    assert found["write_clat_p99"] == pytest.approx(2114e-6) and found["read_slat_max"] == pytest.approx(324_514e-9)


# --- histograms ---------------------------------------------------------------------------------------------


def test_histogram_holds_every_operation_and_fios_own_percentiles():
    job = json.loads(text("fio-3.33-latency-plus.json"))["jobs"][0]
    frame = histogram("fio-3.33-latency-plus.json")
    for op in ("read", "write"):
        rows = frame.filter((pl.col("op") == op) & (pl.col("kind") == "clat"))
        raw = job[op]["clat_ns"]
        assert rows["count"].sum() == raw["N"]
        assert rows["lower_s"].min() <= raw["min"] / 1e9 < rows["upper_s"].min()
        assert rows["lower_s"].max() <= raw["max"] / 1e9 < rows["upper_s"].max()
        for percentile, value in raw["percentile"].items():
            interval = quantile_interval_from_histogram(rows, float(percentile) / 100, ["op"])
            assert interval["lower_s"][0] <= value / 1e9 < interval["upper_s"][0], percentile


def test_histograms_merge_and_end_at_one():
    frame = histogram("fio-3.33-latency-plus.json")
    trials = pl.concat([frame.with_columns(trial=pl.lit(name)) for name in ("a", "b")])
    merged = merge_histograms(trials, ["op", "kind"])
    assert merged.height == frame.height
    assert merged["count"].sum() == 2 * frame["count"].sum()
    points = cumulative(trials, ["op", "kind"])
    for _, group in points.group_by("op", "kind"):
        assert group["fraction"][-1] == 1.0
        assert group["fraction"].is_sorted()
    one = quantile_interval_from_histogram(frame, 0.5, ["op"])
    both = quantile_interval_from_histogram(trials, 0.5, ["op"])
    assert one.select("op", "lower_s", "upper_s").equals(both.select("op", "lower_s", "upper_s"))
    assert both["count"].to_list() == [2 * n for n in one["count"]]
    assert quantile_interval_from_histogram(trials, 1.0, [])["count"].to_list() == [trials["count"].sum()]
    nothing = trials.with_columns(pl.lit(0, trials.schema["count"]).alias("count"))
    assert quantile_interval_from_histogram(nothing, 0.5, ["op"]).is_empty(), "there was no operation"


def test_bins_of_different_instruments_become_one_that_holds_both():
    """What it says stays true, and no page is lost because another version measured one trial."""
    old, new = (
        histogram("fio-2.10-constructed-plus.json"),
        pl.DataFrame({"op": "read", "kind": "clat", "lower_s": [300.5e-6], "upper_s": [301e-6], "count": [1]}),
    )
    apart, merged = merge_histograms(old, ["op"]), merge_histograms(pl.concat([old, new]), ["op"])
    assert merged["count"].sum() == apart["count"].sum() + 1
    (low, high, count), *_ = merged.filter(pl.col("upper_s") > 300.6e-6).select("lower_s", "upper_s", "count").rows()
    assert low <= 300.5e-6 and high >= 301e-6 and count > 1
    assert not merged.filter(pl.col("lower_s") < pl.col("upper_s").shift(1).over("op")).height
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval_from_histogram(old, 0.0, ["op"])


def ran(name: str, *, group: int = 0, **took_s: list[float]) -> FioJob:
    """A job whose operation times are all known, by direction."""
    directions = {}
    for op, times in took_s.items():
        bins = [
            (low, low + 0.01, count) for low, count in sorted(Counter(math.floor(t * 100) / 100 for t in times).items())
        ]
        moments = (len(times), min(times), max(times), statistics.fmean(times), statistics.stdev(times))
        directions[op] = Direction(
            len(times) / 2,
            8 * len(times),
            16 * len(times),
            2.0 + group,
            len(times),
            1,
            2,
            {"clat": Latency(*moments, {}, bins)},
        )
    return FioJob(name, group, directions, None, 0.25, None, io_errors=3)


def test_jobs_side_by_side_are_one_sample_of_all_their_operations():
    random = np.random.default_rng(3)
    one, other = (list(random.gamma(2, 0.1, n)) for n in (500, 200))
    both = sorted([*one, *other])
    found = values(observe(FioRun("fio-3.33", [ran("a", read=one), ran("b", read=other)])))
    assert (found["read_clat_min"], found["read_clat_max"]) == (both[0], both[-1])
    assert found["read_clat_mean"] == pytest.approx(statistics.fmean(both), rel=1e-12)
    assert found["read_clat_stddev"] == pytest.approx(statistics.stdev(both), rel=1e-9)
    for percent in (50, 90, 95, 99):
        nearest_rank = both[math.ceil(percent / 100 * 700) - 1]
        assert found[f"read_clat_p{percent}"] == pytest.approx(math.floor(nearest_rank * 100) / 100 + 0.005), percent
    assert "read_clat_p99.9" not in found
    assert (found["read_iops"], found["read_bandwidth"], found["read_bytes"]) == (350, 5600, 11200)
    assert (found["read_ios"], found["read_short_ios"], found["read_dropped_ios"]) == (700, 2, 4)
    assert (found["read_runtime"], found["cpu_user"], found["io_errors"]) == (2, 0.5, 6) and "cpu_system" not in found


def test_the_latencies_of_jobs_are_given_where_each_of_them_has_some_and_says_of_how_many():
    one, other = ran("a", read=[0.1] * 9 + [0.2]), ran("b", read=[0.3] * 10)
    silent = replace(other, directions={"read": replace(other.directions["read"], latencies={})})
    assert "read_clat_min" not in values(observe(FioRun("", [one, silent])))
    latency = other.directions["read"].latencies["clat"]
    untold = replace(
        other, directions={"read": replace(other.directions["read"], latencies={"clat": replace(latency, count=None)})}
    )
    found = values(observe(FioRun("", [one, untold])))
    assert (found["read_clat_max"], "read_clat_mean" in found, "read_clat_p50" in found) == (0.3, False, False)
    binless = replace(
        other, directions={"read": replace(other.directions["read"], latencies={"clat": replace(latency, bins=())})}
    )
    found = values(observe(FioRun("", [one, binless])))
    assert found["read_clat_mean"] == pytest.approx(0.205) and "read_clat_p50" not in found


def test_groups_ran_one_after_the_other():
    run = FioRun(
        "",
        [ran("a", read=[1, 2]), ran("b", write=[1, 2]), ran("c", group=4, read=[1, 2])],
        ended=100.0,
        interrupted="x",
    )
    assert (run.name, run.groups, run.runtime) == ("a+b+c", [0, 4], 2 + 6)
    first, last = run.only(0), run.only(4)
    assert (first.name, first.runtime, first.ended, first.interrupted) == ("a+b", 2, 94, None)
    assert (last.name, last.runtime, last.ended, last.interrupted) == ("c", 6, 100, "x")
    assert last.failure == "fio was interrupted: x" and first.failure is None
    assert replace(run, ended=None).only(0).ended is None
    with pytest.raises(ParseError, match="no group 1 of jobs: 0, 4"):
        run.only(1)
    with pytest.raises(ParseError, match="in groups one after another"):
        observe(replace(run, interrupted=None))


@pytest.mark.parametrize(
    ("asked", "times", "numjobs", "cut"),
    [
        (8.8, 1.02, None, False),
        (9.0, 1.02, None, True),
        (9.0, 1.0, None, False),
        (9.0, 1.02, 2, False),
        (9.0, 2.04, 2, True),
    ],
)
def test_a_run_that_went_over_its_file_again_and_ended_early_was_cut_short(asked, times, numjobs, cut):
    """It ran for 8 s, and 0.9 s are enough."""

    def edit(document):
        (job,) = document["jobs"]
        done = sum(job[op]["io_bytes"] for op in ("read", "write"))
        job["job options"] |= {"runtime": f"{asked:g}", "size": f"{round(done / times)}"}
        if numjobs:
            job["job options"] |= {"numjobs": str(numjobs), "group_reporting": "1"}
        for op in ("read", "write"):
            slower = 8000 / job[op]["runtime"]
            job[op] |= {"runtime": 8000, "iops": job[op]["iops"] / slower}
            job[op] |= {name: int(job[op][name] / slower) for name in ("bw", "bw_bytes")}

    run = parse_fio_json(edited("fio-3.33-latency-plus.json", edit))
    assert run.interrupted == (f"it ran for 8 s of {asked:g} s" if cut else None)


@pytest.mark.parametrize(("name", "lasted_s"), [("steadystate", 1.874), ("latency-target", 0.503)])
def test_a_job_that_ends_when_it_has_found_what_it_looks_for_is_whole(name, lasted_s):
    """Both had gone over their file again, in a tenth of the time that was their limit."""
    run = parse_fio_json(text(f"fio-3.33-{name}.json"))
    (job,) = run.jobs
    assert (run.failure, job.directions["read"].runtime, job.options["time_based"]) == (None, lasted_s, "1")
    assert job.directions["read"].bytes > 2 * fio_printed.amount(job.options["size"])


@pytest.mark.parametrize("option", ["io_size", "io_limit", "loops", "number_ios", "verify"])
def test_a_job_that_does_another_amount_than_its_size_may_end_before_its_limit_of_time(option):
    document = json.loads("{" + text("fio-3.33-interrupted.json").partition("{")[2])
    told = document["jobs"][0]["job options"]
    cut = "fio was interrupted: it ran for 1.245 s of 3 s"
    for further, failure in (({}, cut), ({option: "7"}, None), ({option: "7", "time_based": "1"}, cut)):
        document["jobs"][0]["job options"] = told | further
        assert parse_fio_json(json.dumps(document)).failure == failure


@pytest.mark.parametrize(("later_s", "of_the_same"), [(-0.4, True), (0.17, True), (0.19, False), (20, False)])
def test_a_later_document_is_of_the_same_run_when_it_began_before_the_first_was_written(later_s, of_the_same):
    def at(written: float, runtime_ms: int) -> str:
        def edit(document):
            document["timestamp_ms"] = round(1000 * written)
            for op in ("read", "write"):
                values = document["jobs"][0][op]
                ios, size = (round(values[name] * runtime_ms / 168) for name in ("total_ios", "io_bytes"))
                rates = {"iops": 1000 * ios / runtime_ms, "bw_bytes": 1000 * size // runtime_ms}
                values |= {"runtime": runtime_ms, "total_ios": ios, "io_bytes": size, "io_kbytes": size // 1024}
                values |= rates | {"bw": rates["bw_bytes"] // 1024}

        return edited("fio-3.33-latency-plus.json", edit)

    first, second = at(1000.0, 168), at(1001.0 + later_s, 1680)
    if of_the_same:
        assert parse_fio_json(f"{first}\n{second}").runtime == 1.68
        assert split_fio_json(f"{first}\n{second}") == [f"{first}\n{second}"]
    else:
        with pytest.raises(ParseError, match="several runs of fio are in one text, of 2 documents"):
            parse_fio_json(f"{first}\n{second}")
        assert split_fio_json(f"x{first}\n{second}\n") == [f"x{first}", f"\n{second}\n"]
    with pytest.raises(ParseError, match="several runs"):
        parse_fio_json(f"{second}\n{first}")


# --- several clients ----------------------------------------------------------------------------------------


CAPTURED = ("fio-3.33-latency-plus.json", "fio-3.33-two-jobs-plus.json")


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """A trial of two clients; the second began half a second after the first."""
    clients = []
    for number, name in enumerate(CAPTURED, start=1):
        folder = tmp_path / "load" / str(number) / "files"
        folder.mkdir(parents=True)
        (folder / "fio.json").write_text(text(name))
        clock = {"start_s": 100 + number / 2, "end_s": 110.0, "offset_s": 0.0, "uncertainty_s": 0.001}
        clients.append({"client": number, "role": f"load-{number}", "host": f"l{number}", **clock})
    (tmp_path / "load" / "clients.json").write_text(json.dumps({"schema": 1, "clients": clients}))
    return tmp_path


def test_clients_are_one_sample_of_all_their_operations(loaded: Path):
    parsed = parse_trial({"test": "x", "job": "y", "clients": "2"}, loaded)
    found = values(parsed)
    jobs = [job for name in CAPTURED for job in json.loads(text(name))["jobs"]]
    assert found["read_iops"] == pytest.approx((12_276 + 1024 + 1024) / 0.161)
    assert found["write_iops"] == pytest.approx(25_515.52795)
    assert (found["read_ios"], found["read_bytes"]) == (12_276 + 1024 + 1024, 50_282_496 + 2 * 4_194_304)
    assert found["read_clat_min"] == 346e-9 and found["read_clat_max"] == 1_277_503e-9
    times = [job["read"]["clat_ns"] for job in jobs]
    assert found["read_clat_mean"] == pytest.approx(sum(t["N"] * t["mean"] for t in times) / 14_324 / 1e9)
    counts = pl.DataFrame(parsed.series["latency_histogram"]).filter(op="read", kind="clat")["count"]
    assert counts.sum() == 14_324
    # The busiest client's, because a limit is one host's.
    assert found["cpu_system"] == pytest.approx(0.21568627 + 0.10 * 50 / 51)
    assert found["cpu_user"] == pytest.approx(0.10 * 50 / 51) and found["generator_cpu"] == 0.34375
    # Both ended together, and one did I/O for 0.161 s and the other for 0.052 s: each did a fixed amount of work.
    assert found["client_skew"] == 0.5 and found["client_skew_share"] == pytest.approx(1 - 0.052 / 0.161)
    assert found["client_clocks"] == pytest.approx(0.002)
    each = {(row["client"], row["metric"]): row["value"] for row in parsed.series["clients"]}
    assert (each[1, "read_ios"], each[2, "read_ios"], each[2, "began"]) == (12_276, 2048, 0.5)
    (problem,) = note_trial(loaded)["problems"]
    assert problem.startswith(
        "skew: for 67.7 % of the measured 0.161 s, not all clients sent load: they started 0.500 s"
    )


def test_clients_that_end_by_time_add_up_their_rates(loaded: Path):
    """Although one began later than the other, which is their skew."""
    clients = json.loads((loaded / "load" / "clients.json").read_text())
    clients["clients"][1]["end_s"] = 110.5
    (loaded / "load" / "clients.json").write_text(json.dumps(clients))
    document = json.loads(text("fio-3.33-latency-plus.json"))
    document["jobs"][0]["job options"]["time_based"] = "1"
    for path in loaded.glob("load/*/files/fio.json"):
        path.write_text(json.dumps(document))
    found = values(parse_trial({"test": "x", "job": "y", "clients": "2"}, loaded))
    assert found["read_iops"] == pytest.approx(2 * 76_248.447205)


def test_a_single_client_has_nothing_to_note_and_no_output_is_no_result(tmp_path: Path):
    assert note_trial(tmp_path) == {}
    with pytest.raises(ParseError, match=r"neither fio\.json nor fio\.txt is there"):
        parse_trial({"test": "x", "job": "y"}, tmp_path)
    (tmp_path / "fio.txt").write_text(text("fio-3.33-latency.txt"))
    assert values(parse_trial({"test": "x", "job": "y"}, tmp_path))["read_ios"] == 12_276
    (tmp_path / "fio.json").write_text(text("fio-3.33-stonewall.json"))
    groups = parse_fio_json(text("fio-3.33-stonewall.json")).groups
    for group in groups:
        (tmp_path / "part.json").write_text(json.dumps({"group": group}))
        assert values(parse_trial({"test": "x", "job": "y"}, tmp_path))
    assert len(groups) > 1


# --- its folder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, None),
        ({"refusal": "is no place"}, "is no place"),
        ({"free_bytes": 4096}, None),
        ({"free_bytes": 4095}, "has 4095 bytes free, but the test needs 4096: free some, or lower the size"),
        ({"exists": False}, "does not exist: mount or create it first"),
        ({"is_dir": False}, "is not a directory"),
        ({"writable": False}, "is not writable for the user of this host"),
        ({"fs_type": "tmpfs"}, "is on a tmpfs file system (mounted at /), and the study expects ext4"),
        ({"fs_type": "tmpfs", "is_dir": False}, "is not a directory"),
    ],
)
def test_a_folder_that_cannot_be_measured_says_why(changed, told):
    directory = Directory(name="d", path="/srv", expect_fs=["ext4"])
    info = {"exists": True, "is_dir": True, "fs_type": "ext4", "mount_point": "/", "writable": True, "free_bytes": 9999}
    info["refusal"] = ""
    for path in (None, "/srv/filled-in"):
        why = unusable(directory, info | changed, 4096, path)
        assert why is None if told is None else why.startswith(f"{path or '/srv'} {told}")


# --- the small-file test ------------------------------------------------------------------------------------


def test_times_of_the_shell_loop():
    found = values(parse_shell_loop(text("shell-loop.stdout"), text("shell-loop.stderr")))
    assert found["files"] == 1001
    assert found["write_time"] == 0.019
    assert (found["read_time"], found["read_user"], found["read_system"]) == (1.609, 0.841, 0.172)
    assert found["read_time_per_file"] == 1.609 / 1001


def test_minutes_count():
    said = text("shell-loop.stderr").replace("0m1.609s", "2m1.609s")
    assert values(parse_shell_loop(text("shell-loop.stdout"), said))["read_time"] == 121.609


@pytest.mark.parametrize(
    ("stdout", "stderr", "cause"),
    [
        (
            "shell-loop-disk-full.stdout",
            "shell-loop-disk-full.stderr",
            "errors, the first: .*No space left on device",
        ),
        ("shell-loop-disk-full.stdout", "shell-loop.stderr", "instead of 1001 with 5005"),
        ("no-fork.stdout", "shell-loop.stderr", "before the files were counted"),
    ],
)
def test_a_loop_that_met_errors_is_no_result(stdout: str, stderr: str, cause: str):
    with pytest.raises(ParseError, match=cause):
        parse_shell_loop(text(stdout), text(stderr))


def test_one_time_of_two_is_no_result():
    said = text("shell-loop.stderr")
    with pytest.raises(ParseError, match="1 times instead of one for writing and one for reading"):
        parse_shell_loop(text("shell-loop.stdout"), said[: len(said) // 2 + 1])


def test_the_answer_without_a_fork():
    parsed = parse_no_fork(text("no-fork.stdout"))
    found, answer = values(parsed), json.loads(text("no-fork.stdout"))
    assert found["write_time"] == answer["write"]["real_s"]
    rows = parsed.series["small_file_operations"]
    assert len(rows) == 2 * 1001
    reads = [row["duration_s"] for row in rows if row["op"] == "read"]
    assert 0.5 * found["read_time"] < sum(reads) <= found["read_time"]


@pytest.mark.parametrize("end", [0, 500, 12_000])
def test_an_answer_cut_off_is_refused(end: int):
    with pytest.raises(ParseError, match="truncated"):
        parse_no_fork(text("no-fork.stdout")[:end])


def test_an_answer_with_files_missing_is_refused():
    answer = json.loads(text("no-fork.stdout"))
    with pytest.raises(ParseError, match="1000 files with 5000 bytes"):
        parse_no_fork(json.dumps(answer | {"files": 1000, "bytes": 5000}))
    for times in ({"each_ns": [True, *answer["read"]["each_ns"][1:]]}, {"real_s": True}):
        with pytest.raises(ParseError, match="is True, where a number belongs"):
            parse_no_fork(json.dumps(answer | {"read": answer["read"] | times}))
    answer["read"]["each_ns"].pop()
    with pytest.raises(ParseError, match="1000 read times instead of 1001"):
        parse_no_fork(json.dumps(answer))

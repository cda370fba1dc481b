"""The parsers of fio's outputs and of the small-file test, on captured outputs (see data/fio/README.md)."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import MIN_OPERATIONS, observe
from benchstudy.families.fio.fio_text import parse_fio_text
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
    # Recomputed from the totals, and what the page prints when cut to a whole number.
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
    assert found["read_iops"] == pytest.approx(1024 / 0.055 + 1024 / 0.054)
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
    with pytest.raises(ParseError, match=r"job full ended in error 28: .*No space left on device"):
        observe(parse_fio_text(text("fio-3.33-disk-full.txt")))


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
    assert found["read_iops"] == pytest.approx(sum(job["iops"] for job in jobs))
    assert found["read_ios"] == 2048
    assert found["read_clat_mean"] == pytest.approx(sum(job["clat_ns"]["mean"] for job in jobs) / 2e9)
    # Out of the merged histogram, so between the two jobs' own, and not their mean.
    medians = sorted(job["clat_ns"]["percentile"]["50.000000"] / 1e9 for job in jobs)
    assert medians[0] <= found["read_clat_p50"] <= medians[1]
    assert histogram("fio-3.33-two-jobs-plus.json")["count"].sum() == 2048


@pytest.mark.parametrize("before", ["", "fio: this platform does not support process shared mutexes\n"])
@pytest.mark.parametrize("after", ["", "\nfio: a note\n"])
def test_notes_around_the_document_are_passed_over(before: str, after: str):
    whole = text("fio-3.33-normal-and-json.txt")  # fio's own text stands around the JSON here
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
    """As fio's stat.h has it: a bin for each value below 128, then 64 equal ones to each power of two."""
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
            read["clat_ns"]["bins"] = bins

        document = parse_fio_json(edited("fio-3.33-latency-plus.json", edit))
        found = document.jobs[0].directions["read"].latencies["clat"].bins
        return [(round(one.lower_s * 1e9), round(one.upper_s * 1e9), one.count) for one in found]

    counted = [(low, high, number + 1) for number, (low, high) in enumerate(bins)]
    assert parsed(**{str((low + high) // 2): count for low, high, count in counted}) == counted, "by a value in it"
    numbered = {str(number): count for number, (_, _, count) in enumerate(counted)}
    assert parsed(FIO_IO_U_PLAT_BITS=6, **numbered) == counted, "by its number"
    assert parsed(**{"100": 0, "200": 7}) == [(200, 202, 7)]
    with pytest.raises(ParseError, match="with 7 bits a bin"):
        parsed(FIO_IO_U_PLAT_BITS=7, **numbered)


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


def test_bins_of_different_instruments_become_one_that_holds_both():
    """What it says stays true, and no page is lost because one trial was measured by another version."""
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
    answer["read"]["each_ns"].pop()
    with pytest.raises(ParseError, match="1000 read times instead of 1001"):
        parse_no_fork(json.dumps(answer))

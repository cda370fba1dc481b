"""Lints: every complaint of RIGOR about the published pages is found by name, from data/published/ alone."""

import csv
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from tidy_fixture import Tables

from benchstudy import lints
from benchstudy.lints import Finding
from benchstudy.lints.acknowledge import fits
from benchstudy.lints.load import plateau
from benchstudy.model.declared import Acknowledgement
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.studyfile import load_study, parse_study
from benchstudy.report.results import ceilings, material
from benchstudy.report.results.results import Results

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
COLUMNS = ["page", "section", "backend", "op", "size", "statistic", "value", "unit", "as_printed", "source_line"]


@cache
def found(table: str) -> list[Finding]:
    return lints.lint(PUBLISHED / table)


def called(name: str, table: str) -> list[Finding]:
    return [finding for finding in found(table) if finding.lint == name]


# -- the eight findings on the pages -----------------------------------------------------------------------------------


def test_1_a_mean_and_a_median_that_no_sample_has():
    (finding,) = called("impossible-mean-median", "mattermost-storage.csv")
    assert finding.where.endswith("Write operations, Local (EBS), write, 10GB")
    assert "70.66 s" in finding.what and "80.50 s" in finding.what and "1.4 standard deviations" in finding.what
    assert finding.severity == "error" and finding.why and finding.action


def test_2_a_page_cache_published_as_a_disk_and_single_cold_reads():
    cached = called("cache-speed-reads", "mattermost-storage.csv")
    local = [f for f in cached if "Local (EBS)" in f.where]
    assert len(local) == 6, "every local read is faster than the volume"
    assert any("6.41 GB/s" in f.what and "125 MiB/s" in f.what for f in local)
    assert not any("S3" in f.where for f in cached)
    (cold,) = called("single-outlier", "mattermost-storage.csv")
    assert "EFS" in cold.where and "n ≈ 9–10" in cold.what
    assert all(size in cold.what for size in ("10MB", "100MB", "1GB")), "the three that agree"


def test_3_writes_that_were_not_synced_and_no_n():
    unsynced = called("unsynced-writes", "mattermost-storage.csv")
    assert [f.where.rsplit(", ", 1)[1] for f in unsynced] == ["100KB", "1MB", "10MB"], "from 100MB on the volume shows"
    assert "549 MB/s" in unsynced[2].what
    assert called("n-missing", "mattermost-storage.csv") and called("interval-missing", "mattermost-storage.csv")


def test_4_a_text_that_contradicts_its_sample_and_a_loop_that_measures_cat():
    sizes, files = called("text-against-sample", "gitlab-filesystem.csv")
    assert "“4G”" in sizes.what and "“1024MB”" in sizes.what
    assert "“1,000”" in files.what and "“{0..1000}”" in files.what
    (limit,) = called("loose-threshold", "gitlab-filesystem.csv")
    assert "86 times" in limit.what
    read = called("processor-bound", "gitlab-filesystem.csv")[1]
    assert read.where.endswith("read") and "starting a program" in read.what
    assert read.what.endswith(", so the disk may be faster"), "the processor hides it"
    assert "sync its writes and empty the cache" in read.action, "also for a process that starts no other"


def test_5_a_change_against_nothing_a_lowest_bucket_and_a_vanished_series():
    table = "mattermost-v9.11-v10.0.csv"
    (zero,) = called("zero-base", table)
    assert "RoleStore.GetByNames" in zero.where and "3,802,036 %" in zero.what
    old, new = called("lowest-bucket", table)
    assert old.where.endswith("v9.11.0") and old.what.startswith("23 figures of p99 are exactly 5 ms")
    assert new.what.startswith("21 ")
    vanished = called("vanished-series", table)
    assert {f.where.rsplit(", ", 1)[1] for f in vanished} == {
        "ChannelStore.CreateSidebarCategory",
        "createCategoryForTeamForUser",
    }
    assert any("-101.5 %" in f.what for f in vanished)


def test_5_a_regression_that_is_the_mix():
    """Found by hand on the page, after two runs of the comparison."""
    mean, p99 = called("mix-driven", "mattermost-v9.11-v10.0.csv")
    assert mean.what == ("mean: 1.9 milliseconds slower, and 0.0525 milliseconds faster without RoleStore.GetByNames")
    assert p99.what.startswith("p99: 14.7 milliseconds slower, and 0.462 milliseconds slower without")


def test_6_a_variance_from_elsewhere():
    (finding,) = called("borrowed-variance", "mattermost-v9.11-v10.0.csv")
    assert "5%" in finding.what and "-2.96%" in finding.what and "A/A" in finding.action


def test_7_rates_that_were_asked_for_windows_of_means_and_pasted_screens():
    offered = called("offered-above-achieved", "tessera.csv")
    assert len(offered) == 5
    assert any("2,571/s offered, 2,047/s achieved" in f.what for f in offered)
    (means,) = called("window-of-means", "tessera.csv")
    assert "tick means" in means.what and means.where.count("box") == 5
    (missing,) = called("n-missing", "tessera.csv")
    assert "5 of its tables are pasted terminal screens" in missing.what
    assert any("589 waiting writers, and there were 600" in f.what for f in called("client-limited", "tessera.csv"))


def test_8_failures_without_reason_a_sweep_full_from_its_start_and_a_command_that_was_not_run():
    failed = called("failed-without-reason", "filestash-http.csv")
    assert sum(int(f.what.split()[0]) for f in failed) == 6
    assert any("from 5 connections on" in f.what for f in called("saturated-from-the-start", "filestash-http.csv"))
    (limits,) = called("client-limited", "filestash-http.csv")
    assert "neither limit determines the throughput" in limits.what
    assert len(called("keep-alive-none", "filestash-ab.csv")) == 4
    (declared,) = called("declared-against-used", "filestash-ab.csv")
    assert "-c 3000" in declared.what and "4000" in declared.what


# -- no false alarms ---------------------------------------------------------------------------------------------------


def clean_rows(**changed: tuple[float, str]) -> list[list[object]]:
    """A complete table: n, interval, and figures that fit each other and the hardware."""
    rows = []
    for op, factor in (("write", 1.0), ("read", 0.8)):
        for size, seconds in (("10MB", 0.10), ("100MB", 1.0), ("1GB", 10.0)):
            cell = {"mean": 1.02, "sd": 0.05, "p50": 1.0, "p50_low": 0.97, "p50_high": 1.04}
            figures = {name: (part * seconds * factor, "s") for name, part in cell.items()}
            figures |= {"n": (10, "1")} | (changed if (op, size) == ("write", "1GB") else {})
            rows += [
                ["P", op, "Local (EBS)", op, size, name, value, unit, f"{value:.4f}{' s' if unit == 's' else ''}", 1]
                for name, (value, unit) in figures.items()
            ]
    return rows


def table(folder: Path, rows: list[list[object]]) -> Path:
    path = folder / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    ceilings = (PUBLISHED / "ceilings.csv").read_text(encoding="utf-8")
    (folder / "ceilings.csv").write_text(ceilings.replace("Backing storage benchmarks", "P"), encoding="utf-8")
    return path


def test_a_clean_table_has_no_finding(tmp_path: Path):
    assert lints.lint(table(tmp_path, clean_rows())) == []
    (finding,) = lints.lint(table(tmp_path, clean_rows(p50=(9.0, "s"))))
    assert finding.lint == "impossible-mean-median", "and the same table with one figure changed has just that one"


def test_rounding_alone_is_no_contradiction(tmp_path: Path):
    (row,) = [r for r in clean_rows() if r[3:6] == ["write", "1GB", "mean"]]
    rounded = [[*row[:5], name, value, "s", text, 1] for name, value, text in (
        ("mean", 11.05, "11.05 s"), ("sd", 0.0, "0.00 s"), ("p50", 11.06, "11.06 s"), ("n", 9, "9"), ("low", 0, "0"),
    )]  # fmt: skip
    assert [f.lint for f in lints.lint(table(tmp_path, rounded))] == []


MISTYPED = ("quantiles-out-of-order", "negative-figure", "value-against-print")


def mistyped(folder: Path, **figures: tuple[float, str, str]) -> list[tuple[str, str]]:
    """Findings of the rules about mistyped figures in a table of one cell, by rule."""
    rows = [["P", "A", "", "", "", name, *figure, 1] for name, figure in figures.items()]
    return [(f.lint, f.what) for f in lints.lint(table(folder, rows)) if f.lint in MISTYPED]


MS = {f"p{n}": (seconds, "s", f"{seconds * 1e3:g} ms") for n, seconds in ((50, 0.02), (95, 0.03), (99, 0.04))}
EXTREMES = {"min": (0.01, "s", "10 ms"), "mean": (0.02, "s", "20 ms"), "max": (0.9, "s", "900 ms")}


def test_quantiles_rise(tmp_path: Path):
    assert mistyped(tmp_path, **EXTREMES, **MS) == []
    for name, low, high in (("p99", "p50 (20 ms)", "p99 (2 ms)"), ("max", "p50 (20 ms)", "max (2 ms)")):
        changed = {**MS, **EXTREMES, name: (0.002, "s", "2 ms")}
        assert mistyped(tmp_path, **changed) == [("quantiles-out-of-order", f"{low} lies above {high}")]
    for name, said in (
        ("median", "min (10 ms) lies above median (0 ms)"),
        ("mean", "mean (1000 ms) lies above max (900 ms)"),
    ):
        seconds, printed = (0.0, "0 ms") if name == "median" else (1.0, "1000 ms")
        changed = {f"get_{n}": figure for n, figure in {**EXTREMES, name: (seconds, "s", printed)}.items()}
        assert mistyped(tmp_path, **changed) == [("quantiles-out-of-order", f"get: {said}")]


def test_rounding_bounds_and_percentiles_of_rates_are_in_order(tmp_path: Path):
    assert mistyped(tmp_path, p99=(5.1, "s", "5.1 s"), max=(5.068, "s", "5.068 s")) == [], "rounded to two digits"
    assert mistyped(tmp_path, p50=(0.0006, "s", "0.6 ms"), p99=(0.0, "s", "0 ms")) == [
        ("quantiles-out-of-order", "p50 (0.6 ms) lies above p99 (0 ms)")
    ]
    assert mistyped(tmp_path, p50=(0.0004, "s", "0.4 ms"), p99=(0.0, "s", "0 ms")) == []
    assert mistyped(tmp_path, p50=(900.0, "1/s", "900/s"), p99=(700.0, "1/s", "700/s")) == []
    assert mistyped(tmp_path, p50=(1.0, "s", "1 s"), p50_high=(1.2, "s", "1.2 s"), p99=(1.1, "s", "1.1 s")) == []


@pytest.mark.parametrize(
    ("name", "figure", "found"),
    [
        ("qps", (-5.0, "1/s", "-5 req/s"), True),
        ("sd", (-5.0, "1", "-5"), True),
        ("mean_difference", (-5.0, "s", "-5 s"), False),
        ("p50_low", (-5.0, "s", "-5 s"), False),
        ("mean", (-5.0, "s", "5 s faster"), False),
        ("score", (-5.0, "1", "-5"), False),
    ],
)
def test_only_differences_are_below_zero(tmp_path: Path, name: str, figure: tuple[float, str, str], found: bool):
    said = [("negative-figure", f"“{figure[2]}” is below zero")] if found else []
    assert mistyped(tmp_path, **{name: figure}) == said


@pytest.mark.parametrize(
    ("value", "unit", "printed", "found"),
    [
        (0.63, "s", "0.63 ms", True),
        (0.00036, "s", "0.63 ms", True),
        (0.00063, "s", "±0.63 [ms]", False),
        (91.5, "s", "1m30.5s", True),
        (90.5, "s", "1m30.5s", False),
        (1243, "1/s", "1,234 req/s", True),
        (1234, "1/s", "1,234 req/s", False),
        (1.234, "s", "1,234 s", False),  # a decimal comma
        (6.56, "1", "6.56%", True),
        (0.0656, "1", "6.56%", False),
        (4e6, "B", "4 GB", True),
        (4 * 1024**3, "B", "4 GB", False),
        (125e6, "B/s", "1 Gbit/s", False),
        (1.25e6, "1", "1.25 million", False),
        (7200, "s", "120", False),  # of a column in minutes
        (1001, "1", "{0..1000}", False),
        (0, "s", "< 5 ms", False),
        (5e-5, "s", "5e-05 s", False),
        (2.0, "s", "two seconds", False),
    ],
)
def test_a_value_is_what_was_printed(tmp_path: Path, value: float, unit: str, printed: str, found: bool):
    said = f"the value is {value:g}{'' if unit == '1' else ' ' + unit}, and printed is “{printed}”"
    assert mistyped(tmp_path, mean=(value, unit, printed)) == ([("value-against-print", said)] if found else [])


def test_what_cannot_be_linted_says_so(tmp_path: Path):
    with pytest.raises(BenchstudyError, match="there is no published table"):
        lints.lint(tmp_path)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BenchstudyError, match=r"no column .*as_printed"):
        lints.lint(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("sweep", "start"),
    [
        ([(1, 10), (5, 100), (10, 101), (50, 99), (100, 100)], 5),
        ([(1, 10), (10, 20), (50, 40), (100, 80)], None),
        ([(10, 100), (20, 100), (40, 100), (80, 100)], None),  # flat, but over less than a factor of ten
    ],
)
def test_a_plateau_is_long_and_wide(sweep: list[tuple[int, float]], start: int | None):
    assert plateau(sweep) == start


# -- measured and imported results -------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """A disk with a ceiling, an object store with a cold first request, and a trial that failed without saying why."""
    tables = Tables(tmp_path, "s", "file_size")
    gigabyte = {"size_bytes": 1e9}
    for block in range(1, 9):
        rates = {"fsync": 9e7, "none": 3e9}
        for sync, rate in rates.items():
            levels = {"backend": "disk", "op": "write", "size": "1GB", "sync": sync}
            seconds = 1e9 / tables.noisy(rate, 0.02)
            tables.add(levels, block, {"duration": (seconds, "s")}, numbers=gigabyte)
        for state, rate in (("cold", 6e9), ("warm", 6e9)):
            levels = {"backend": "disk", "op": "read", "size": "1GB", "cache": state}
            tables.add(levels, block, {"duration": (1e9 / tables.noisy(rate, 0.02), "s")}, numbers=gigabyte)
        seconds = tables.noisy(6.0 if block == 1 else 0.2, 0.02)
        levels = {"backend": "store", "op": "read", "size": "1GB", "cache": "uncontrolled"}
        tables.add(levels, block, {"duration": (seconds, "s")}, numbers=gigabyte)
    tables.add({"backend": "store", "op": "write", "size": "1GB", "sync": "server"}, 1, {}, status="failed",
               numbers=gigabyte)  # fmt: skip
    return tables.results()


CEILINGS = [lints.Ceiling(op, 131e6, "125 MiB/s (its data sheet)", where="*backend=disk*") for op in ("read", "write")]


def test_measured_results_pass_the_same_rules(results: Results):
    listed = [(f.lint, f.where) for f in lints.lint(material.read(results, CEILINGS))]
    assert listed == [
        ("cache-speed-reads", "file_size: disk, read, 1GB, cold"),
        ("single-outlier", "file_size: store, read, 1GB, uncontrolled"),
        ("failed-without-reason", "file_size: store, write, 1GB, server"),
    ], "warm reads and unsynced writes are declared as what they are"
    without = {f.lint for f in lints.lint(material.read(results))}
    assert "cache-speed-reads" not in without, "nothing declared, nothing exceeded"


def test_an_imported_summary_that_contradicts_itself(tmp_path: Path):
    tables = Tables(tmp_path, "s", "http_concurrency")
    latency = {"latency_mean": (0.9, "s"), "latency_sd": (0.1, "s"), "latency_p50": (0.2, "s")}
    tables.add({"server": "x", "concurrency": "5"}, 1, latency, imported=True)
    tables.add({"server": "x", "concurrency": "9"}, 1, latency | {"latency_p50": (0.85, "s")})
    (finding,) = lints.lint(material.read(tables.results()))
    assert finding.lint == "impossible-mean-median" and "x, 5, trial" in finding.where


def test_findings_come_in_one_order(results: Results):
    assert lints.lint(PUBLISHED) == lints.lint(PUBLISHED)
    severities = [f.severity for f in lints.lint(PUBLISHED)]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_an_acknowledged_finding_stays_with_its_reason(results: Results):
    told = {"lint": "single-outlier", "where": "file_size: store*", "reason": "the first one opens the link"}
    entries = [Acknowledgement(**told)]
    by_name = {f.lint: f.acknowledged for f in lints.lint(material.read(results), entries)}
    assert by_name == {"single-outlier": "the first one opens the link", "failed-without-reason": ""}


def test_patterns_of_places():
    assert fits("*1gb*", "file_size: store, read, 1GB") and fits("*", "anything")
    assert fits("store, *", "file_size: store, read"), "as a page of that table or family alone would say it"
    assert fits("a[b]*", "a[b], c") and not fits("store", "file_size: store, read")


def test_every_rule_explains_itself_and_is_called_once():
    for name, rule in lints.rules().items():
        assert name == rule.name and name == name.lower() and rule.why.endswith(".") and rule.action.endswith(".")
        assert f"`{name}`" in (PUBLISHED.parents[1] / "docs" / "lints.md").read_text(encoding="utf-8")
    every = {f.lint for f in lints.lint(PUBLISHED)}
    # No page prints what was scraped, trials, other work of the host, storage counters, clients, or a mistyped figure.
    # Tests here, in test_load_test_report.py, test_modes.py, test_disturbed.py, test_clients.py and
    # test_http_verdicts.py have results with each of these.
    unprinted = (
        "benchstudy.families.command.lints",
        "benchstudy.families.load_test.lints",
        "benchstudy.lints.clients",
        "benchstudy.lints.neighbours",
    )
    of_pages = {name for name, rule in lints.rules().items() if rule.find.__module__ not in unprinted}
    of_pages -= {"two-modes", "low-ceiling", "unequal-responses", *MISTYPED}
    assert every == of_pages, "the pages have one of each"
    assert pl.read_csv(PUBLISHED / "ceilings.csv").height


DECLARED = load_study(Path(__file__).parents[1] / "config" / "config.yaml").model_dump(
    mode="json", exclude_defaults=True, serialize_as_any=True, exclude={"ceilings", "acknowledge"}
)


MEASURED_BY_FIO = {"family": "fio", "metric": "read_bandwidth", "where": "*job=in-a-row"}


def test_a_ceiling_is_what_other_cases_of_the_study_measured_on_the_same_target(tmp_path: Path):
    ceiling = {"family": "file_size", "op": "read", "measured": MEASURED_BY_FIO, "source": "fio", "where": "backend=d*"}
    study = parse_study(DECLARED | {"ceilings": [ceiling]}, stored=True)
    files, jobs = Tables(tmp_path, "s", "file_size"), Tables(tmp_path, "s", "fio")
    for target, rate in (("slow", 100e6), ("fast", 900e6)):
        levels = {"backend": "d", "op": "read", "size": "1GB", "cache": "cold"}
        numbers = {"size_bytes": 1_000_000_000}
        files.add(levels, 1, {"duration": (2.0, "s")}, numbers=numbers, target=target)
        for block, share in enumerate((0.9, 1.0), start=1):
            bandwidth = {"read_bandwidth": (share * rate, "B/s")}
            jobs.add({"directory": "d", "test": "fio", "job": "in-a-row"}, block, bandwidth, target=target)
        jobs.add({"directory": "d", "test": "fio", "job": "other"}, 1, {"read_bandwidth": (9e9, "B/s")}, target=target)
    own = files.results()
    ((_, nothing),) = ceilings.known(study, "file_size", ceilings.beside(own))
    assert nothing == [], "fio has no tables yet"
    jobs.write()
    ((_, known),) = ceilings.known(study, "file_size", ceilings.beside(own))
    assert {c.levels["target"]: c.rate for c in known} == {"slow": 100e6, "fast": 900e6}
    (finding,) = lints.lint(material.read(own, known))
    assert finding.lint == "cache-speed-reads" and "slow" in finding.where and "100 MB/s (fio)" in finding.what


@pytest.mark.parametrize(
    ("fetched", "found"), [(1e9, ["low-ceiling"]), (9e8, ["cache-speed-reads"]), (0.0, ["cache-speed-reads"])]
)
def test_a_ceiling_that_was_measured_is_too_low_for_a_read_whose_bytes_storage_gave(tmp_path: Path, fetched, found):
    """fio past the page cache gets half of what a disk gives to a reader with larger requests."""
    tables = Tables(tmp_path, "s", "file_size")
    levels = {"backend": "disk", "op": "read", "size": "1GB", "cache": "cold"}
    for block in (1, 2):
        values = {"duration": (0.5, "s"), "device_read": (fetched if block == 1 else 1e9, "B")}
        tables.add(levels, block, values, numbers={"size_bytes": 1_000_000_000})
    results = tables.results()
    measured = lints.Ceiling("read", 1e9, "1 GB/s (fio)", measured=True)
    assert [f.lint for f in lints.lint(material.read(results, [measured]))] == found
    declared = lints.Ceiling("read", 1e9, "1 GB/s (its data sheet)")
    assert [f.lint for f in lints.lint(material.read(results, [declared]))] == ["cache-speed-reads"]


def test_a_metric_of_ours_that_fell_to_zero_is_no_series_that_is_missing(tmp_path: Path):
    tables = Tables(tmp_path, "s", "load_test")
    for version, share in (("old", 0.01), ("new", 0.0)):
        tables.add({"version": version, "load": "l"}, 1, {"tcp_retransmits": (share, "1")})
    assert lints.lint(material.read(tables.results())) == []


def test_processor_time_is_a_share_of_its_own_trial(tmp_path: Path):
    """Each trial used the processor all the time. The medians of user and system time add up to 120 % of the time's."""
    tables = Tables(tmp_path, "s", "fio")
    for block, (user, system) in enumerate([(0.9, 0.1), (0.2, 1.8), (1.5, 1.5)], 1):
        values = {"read_time": (user + system, "s"), "read_user": (user, "s"), "read_system": (system, "s")}
        tables.add({"test": "small-files", "job": "no-fork"}, block, values)
    (found,) = [f.what for f in lints.lint(material.read(tables.results())) if f.lint == "processor-bound"]
    assert found == "read: 100 % of 2 s is processor time, so the disk may be faster"


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([(0.0, 0.005), (0.005, 0.01)], ["lies in the lowest bucket, below 5 ms, in 1 of 2 trials"]),
        ([(5.0, None), (2.5, 5.0)], ["lies above the last edge of the histogram, 5 s, in 1 of 2 trials"]),
        ([(5.0, None), (5.0, None)], ["lies above the last edge of the histogram, 5 s"]),
        ([(0.0, None)], ["lies in the lowest bucket, below 7 ms"]),
        ([(0.005, 0.01), (0.01, 0.025)], []),
    ],
)
def test_a_p99_at_an_end_of_its_histogram_is_found_in_single_trials(tmp_path: Path, edges, said):
    """The median of two edges, 0 and 5 ms, is in no trial, and the bucket that it was found in had two edges."""
    tables = Tables(tmp_path, "s", "load_test")
    for block, (low, high) in enumerate(edges, 1):
        values = {"store_p99": (0.007, "s"), "store_p99_low": (low, "s")}
        tables.add({"version": "old"}, block, values | ({"store_p99_high": (high, "s")} if high else {}))
    found = [f.what for f in lints.lint(material.read(tables.results())) if f.lint == "histogram-end"]
    assert found == [f"store: the p99 {text}" for text in said]


def test_a_study_declares_ceilings_and_acknowledges_findings():
    acknowledged = {"lint": "single-outlier", "where": "file_size: s3*", "reason": "The first one opens the link."}
    ceiling = {"family": "file_size", "op": "read", "rate": "125MiB/s", "source": "its data sheet"}
    plain = parse_study(DECLARED, stored=True)
    short = {"question": "Enough duration", "reason": "The whole study has ten minutes."}
    later = parse_study(DECLARED | {"acknowledge": [acknowledged, short]}, stored=True)
    assert later.acknowledge[0].where == "file_size: s3*"
    assert later.sha256 == plain.sha256, "it comes after the measurement and must not make it look post hoc"
    bounded = parse_study(DECLARED | {"ceilings": [ceiling]}, stored=True)
    assert bounded.ceilings[0].rate == 125 * 1024**2
    assert bounded.sha256 != plain.sha256, "what is plausible is declared before"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"acknowledge": [{"lint": "single-outlyer", "reason": "it does not matter"}]}, 'mean "single-outlier"?'),
        (
            {"acknowledge": [{"lint": "single-outlier", "reason": "fine"}]},
            "acknowledge.0.reason: 'fine' is not a reason",
        ),
        ({"acknowledge": [{"lint": "single-outlier", "wher": "*", "reason": "not so bad"}]}, 'did you mean "where"?'),
        ({"ceilings": [{"family": "fil_size", "op": "read", "rate": "1GB/s", "source": "AWS"}]}, 'mean "file_size"?'),
        (
            {"ceilings": [{"family": "fio", "op": "read", "rate": "1GB", "source": "AWS"}]},
            "ceilings.0.rate: '1GB' is not",
        ),
        ({"ceilings": [{"family": "fio", "op": "read", "source": "AWS"}]}, "give exactly one of rate, measured"),
        (
            {"ceilings": [{"family": "file_size", "op": "read", "source": "fio", "measured": MEASURED_BY_FIO}]}
            | {"families": {"file_size": DECLARED["families"]["file_size"]}},
            "ceilings.0.measured.family: this study measures no such family",
        ),
        ({"acknowledge": [{"question": "Enough durations", "reason": "no time is left"}]}, 'mean "Enough duration"?'),
        ({"acknowledge": [{"reason": "no time is left"}]}, "give exactly one of lint, question"),
    ],
)
def test_what_a_study_cannot_say_about_lints(said: dict, why: str):
    with pytest.raises(StudyError) as refused:
        parse_study(DECLARED | said, stored=True)
    assert why in str(refused.value)

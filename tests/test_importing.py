"""`benchstudy import`: which outputs become one case, which trials a file contains, and what is refused."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from conftest import as_project
from one_host import study_on

from benchstudy import lints
from benchstudy.commands import cli, imported_trials
from benchstudy.commands.given_levels import levels_said
from benchstudy.commands.imported_trials import Outcome
from benchstudy.commands.importing import import_outputs
from benchstudy.families.fio.family import FAMILY as FIO
from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.families.http_concurrency.family import FAMILY as HTTP
from benchstudy.families.log_write.family import FAMILY as LOGS
from benchstudy.jobs.tidy import tidy_family
from benchstudy.lints.published import read as read_published
from benchstudy.measuring.raw import NOT_HELD, index_problem
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.sessionindex import is_held
from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.family import Case, ParseError
from benchstudy.model.study import Study
from benchstudy.report.exhibits import exhibits
from benchstudy.report.published import published_page
from benchstudy.report.published.published_page import PublishedPage
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import evidence

DATA = Path(__file__).parent / "data"
FIO_DATA = DATA / "fio"


def study_of(**families: dict) -> Study:
    gone = {"address": "nobody@192.0.2.1"}
    return study_on(gone, families or {"fio": {}}, study="archive", target="machine", name="gone")


def imported(root: Path, *outputs: Path, **options) -> Outcome:
    return import_outputs(root, study_of(fio={}, http_concurrency={}, log_write={}), None, outputs, **options)


def another(text: str, number: int) -> str:
    """fio's JSON of a later run, longer by `number` characters."""
    later = re.sub(r'(?<="timestamp_ms" : )\d+', lambda ms: str(int(ms[0]) + number), text)
    assert later != text or not number
    return later + " " * number


def values(trial) -> dict[str, float]:
    return {o.metric: o.value for o in FIO.parse(trial.record.levels, trial.folder).observations}


# --- unlike options are unlike cases --------------------------------------------------------------------------------

OPTIONS = {
    "rw": ["randread", "randwrite", "randrw"],
    "bs": ["4k", "8k", "4k-8k", "4k,8k"],
    "iodepth": ["1", "64"],
    "numjobs": ["1", "2"],
    "ioengine": ["libaio", "io_uring"],
    "direct": ["0", "1"],
    "size": ["64M", "1G"],
    "filename": ["/dev/sda", "/dev/sdb", "dev+sda", "dev/sda", "a b", "a-b"],
    "rwmixread": ["75", "50"],
    "fsync": ["1", "32"],
    "gtod_reduce": ["1"],
    "runtime": ["10", "60"],
    "rate": ["1m,2m", "1m-2m"],
}
# The same option in two spellings.
ALIKE = [("4k", "4096"), ("1G", "1024m")]


def with_options(folder: Path, options: dict[str, str]) -> dict[str, str]:
    document = json.loads((FIO_DATA / "fio-3.33-latency-plus.json").read_text())
    document["global options"], document["jobs"][0]["job options"] = {}, {"name": "iotest", **options}
    file = folder / "one.json"
    file.write_text(json.dumps(document))
    (found,) = FIO.parse_import(file)
    return dict(found.levels)


def test_two_documents_are_one_case_exactly_when_all_of_their_options_are_the_same(tmp_path: Path):
    rng = random.Random(5)
    seen: dict[str, dict[str, str]] = {}
    for _ in range(400):
        options = {name: rng.choice(given) for name, given in OPTIONS.items() if rng.random() < 0.8}
        case = Case(with_options(tmp_path, options)).id
        assert len(case) <= 255 and "/" not in case
        effective = {"rw": "read", "bs": "4k", "iodepth": "1", "numjobs": "1", "direct": "0", **options}
        assert seen.setdefault(case, effective) == effective
    names = dict.fromkeys(OPTIONS, "")
    for name, given in OPTIONS.items():
        cases = {Case(with_options(tmp_path, {**names, "bs": "4k", name: value})).id for value in given}
        assert len(cases) == len(given), name


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_a_size_is_the_same_however_it_is_spelt(tmp_path: Path, one: str, other: str):
    assert with_options(tmp_path, {"size": one}) == with_options(tmp_path, {"size": other})


def test_fios_4ki_is_not_4k(tmp_path: Path):
    assert with_options(tmp_path, {"bs": "4ki"}) != with_options(tmp_path, {"bs": "4k"})


def test_what_only_names_or_prints_makes_no_other_case(tmp_path: Path):
    plain = with_options(tmp_path, {"rw": "read"})
    assert with_options(tmp_path, {"rw": "read", "description": "the same", "group_reporting": "1"}) == plain


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (
            "/var/tmp/benchstudy-8b1d9d8faa04600611d777f22b433372/testfile-1d9a61ea",
            "/var/tmp/benchstudy-c1a5a9f32c0e4f0bb9e4f9a3a1f3c27d/testfile-cb3382ac",
            True,
        ),
        ("/tmp/tmp.GrxE2jAZ9k/data", "/tmp/tmp.RgC5oewEKE/data", True),
        ("/tmp/tmpa2_x7k9q", "/tmp/tmpzz81m4ct", True),
        ("/tmp/tmp.GrxE2jAZ9k/data", "/tmp/tmp.RgC5oewEKE/other", False),
        ("/tmp/tmpfs_disk", "/tmp/tmpfs_disk2", False),
        ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d5", False),
    ],
)
def test_a_name_that_is_new_in_every_run_makes_no_other_case(tmp_path: Path, one: str, other: str, alike: bool):
    files = [with_options(tmp_path, {option: path}) for option in ("filename", "directory") for path in (one, other)]
    assert [files[0] == files[1], files[2] == files[3]] == [alike, alike]


def test_jobs_that_swapped_their_options_are_another_case(tmp_path: Path):
    def of_jobs(*jobs: dict[str, str]) -> dict[str, str]:
        document = json.loads((FIO_DATA / "fio-3.33-latency-plus.json").read_text())
        document["jobs"] = [{**document["jobs"][0], "job options": job} for job in jobs]
        (tmp_path / "two.json").write_text(json.dumps(document))
        return dict(FIO.parse_import(tmp_path / "two.json")[0].levels)

    straight = of_jobs({"rw": "read", "bs": "4k"}, {"rw": "write", "bs": "1m"})
    crossed = of_jobs({"rw": "read", "bs": "1m"}, {"rw": "write", "bs": "4k"})
    assert straight["rw"] == crossed["rw"] == "read+write" and straight != crossed


def test_plain_text_tells_some_options_its_command_all_and_nothing_is_guessed(tmp_path: Path):
    page = (FIO_DATA / "fio-2.2.10-page.txt").read_text()
    (alone,) = FIO.parse_import(FIO_DATA / "fio-2.2.10-page.txt")
    assert (alone.levels["rw"], alone.levels["bs"], alone.levels["iodepth"]) == ("randrw", "4KiB", "64")
    assert {alone.levels[name] for name in ("direct", "size", "file", "further")} == {"unknown"}
    with_latencies, without = (FIO.parse_import(FIO_DATA / f"fio-3.33-{name}.txt") for name in ("latency", "page"))
    assert (with_latencies[0].levels["recorded"], without[0].levels["recorded"]) == ("latencies", "rates")
    transcript = tmp_path / "page.txt"
    transcript.write_text(f"$ fio --direct=1 --gtod_reduce=1 --name=test --bs=4k --readwrite=randrw --size=4G\n{page}")
    (told,) = FIO.parse_import(transcript)
    assert (told.levels["direct"], told.levels["size"], told.levels["rw"]) == ("1", "4GiB", "randrw")
    assert told.command.startswith("fio --direct=1") and told.levels["further"] != "unknown"


def ab(folder: Path, *, command: str = "ab -k -n 50000 -c 10 http://127.0.0.1:8334/", **edits: str) -> dict[str, str]:
    text = (DATA / "http" / "filestash-static-c10.txt").read_text()
    text = re.sub(r"(?m)^[\s`$]*ab -.*$", command, text)
    for name, value in edits.items():
        text = re.sub(rf"(?m)^({name.replace('_', ' ')}:\s+)\S+", rf"\g<1>{value}", text)
    (folder / "ab.txt").write_text(text)
    (found,) = HTTP.parse_import(folder / "ab.txt")
    return dict(found.levels)


def test_reports_of_ab_that_asked_for_different_things_are_different_cases(tmp_path: Path):
    ways = [
        ab(tmp_path),
        ab(tmp_path, command=""),
        ab(tmp_path, command="ab -k -i -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, command="ab -k -m DELETE -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, command="ab -k -H 'Accept-Encoding: gzip' -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, command="ab -k -H 'Accept-Encoding: br' -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, command="ab -k -t 30 -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, command="ab -k -l -n 50000 -c 10 http://127.0.0.1:8334/"),
        ab(tmp_path, Document_Path="/other"),
        ab(tmp_path, Server_Port="80"),
        ab(tmp_path, Server_Hostname="10.0.0.1"),
    ]
    assert len({Case(levels).id for levels in ways}) == len(ways)
    assert ways[0]["keep_alive"] == "yes" and ways[0]["limits"] == "unknown"
    assert ways[1]["method"] == ways[1]["headers"] == "unknown" and ways[0]["method"] == "GET"
    assert "gzip" not in Case(ways[4]).id, "a header may hold a secret"


def test_runs_of_ab_for_a_time_are_one_case_also_without_their_command(tmp_path: Path):
    timed = DATA / "http" / "ab-t.txt"
    text = timed.read_text()
    (tmp_path / "next.txt").write_text(text.replace("84733", "84741"))
    outcome = imported(tmp_path, timed, tmp_path / "next.txt", said={"requests": "1s"})
    assert not outcome.refused and len({trial.record.case for _, trial in outcome.imported}) == 1
    (tmp_path / "counted.txt").write_text(text.replace("84733", "84700"))
    (counted,) = HTTP.parse_import(tmp_path / "counted.txt")
    assert counted.levels["requests"] == "84700"


def test_a_screen_of_the_hammer_does_not_learn_from_its_files_name(tmp_path: Path):
    box = tmp_path / "posix-without-antispam.txt"
    box.write_bytes((DATA / "tessera" / "page-posix-antispam.txt").read_bytes())
    (found,) = LOGS.parse_import(box)
    assert found.levels["antispam"] == found.levels["backend"] == found.levels["limits"] == "unknown"


# --- levels from options and paths ----------------------------------------------------------------------------------


def test_levels_are_said_by_a_person_and_by_the_path_and_contradict_nothing(tmp_path: Path):
    folder = tmp_path / "runs" / "nfs" / "6.1"
    folder.mkdir(parents=True)
    (folder / "x.json").write_bytes((FIO_DATA / "fio-3.33-page.json").read_bytes())
    outcome = imported(
        tmp_path, tmp_path / "runs", said=levels_said(["disk=nvme"]), pattern="{directory}/{kernel}/*.json"
    )
    ((_, trial),) = outcome.imported
    levels = trial.record.levels
    assert (levels["directory"], levels["kernel"], levels["disk"]) == ("nfs", "6.1", "nvme")
    assert trial.record.verified["said"] == {"disk": "nvme", "directory": "nfs", "kernel": "6.1"}
    (refusal,) = imported(tmp_path, FIO_DATA / "fio-3.33-latency-plus.json", said={"rw": "read"}).refused
    assert "rw=read was given, but the output itself has rw=randrw" in refusal[1]
    (refusal,) = imported(tmp_path, DATA / "tessera" / "page-posix.txt", said={"front_ends": "two"}).refused
    assert "front_ends=two" in refusal[1]
    again = tmp_path / "fio-3.33-two-jobs.txt"
    again.write_bytes((FIO_DATA / again.name).read_bytes())
    (refusal,) = imported(tmp_path, again, said={"host": "h"}, pattern="{host}/*.txt").refused
    assert refusal[1] == f"--level host=h contradicts --case: the path has {tmp_path.name!r}"
    (refusal,) = imported(tmp_path, FIO_DATA / "fio-3.33-page.txt", pattern="{host}/*.json").refused
    assert "does not match the end of this path" in refusal[1]


@pytest.mark.parametrize(
    ("level", "cause"),
    [("disk", "write it as name=level"), ("a=1", None), ("trial=x", "cannot be a factor"), ("disk=a b", "cannot be a")],
)
def test_a_level_that_cannot_be_is_refused_before_anything_is_stored(tmp_path: Path, level: str, cause: str | None):
    if cause is None:
        assert imported(tmp_path, FIO_DATA / "fio-3.33-page.json", said=levels_said([level])).imported
        return
    with pytest.raises(BenchstudyError, match=cause):
        imported(tmp_path, FIO_DATA / "fio-3.33-page.json", said=levels_said([level]))
    with pytest.raises(BenchstudyError, match="where the path has a level"):
        imported(tmp_path, FIO_DATA, pattern="runs/*.json")


# --- several runs in one file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ios"), [("fio-3.33-status-interval.json", 34972), ("fio-3.33-status-interval.txt", 48903)]
)
def test_of_reports_at_intervals_the_final_one_counts(tmp_path: Path, name: str, ios: int):
    ((_, trial),) = imported(tmp_path, FIO_DATA / name).imported
    assert values(trial)["read_ios"] == ios and values(trial)["read_runtime"] > 3
    assert (trial.folder / f"fio.{name.rpartition('.')[2]}").read_bytes() == (FIO_DATA / name).read_bytes()


@pytest.mark.parametrize("end", ["json", "txt"])
def test_runs_appended_to_one_file_are_a_trial_each(tmp_path: Path, end: str):
    source = FIO_DATA / f"fio-3.33-appended.{end}"
    first, second = (trial for _, trial in imported(tmp_path, source).imported)
    assert first.record.case == second.record.case and (first.record.block, second.record.block) == (1, 2)
    assert values(first)["write_runtime"] != values(second)["write_runtime"]
    pieces = [(trial.folder / f"fio.{end}").read_bytes() for trial in (first, second)]
    assert b"".join(pieces) == source.read_bytes(), "nothing is left out"
    assert first.record.verified["source"] == second.record.verified["source"]
    with pytest.raises(ParseError, match="runs of fio are in one text"):
        (parse_fio_json if end == "json" else parse_fio_text)(source.read_text())


@pytest.mark.parametrize("end", ["json", "txt"])
def test_groups_that_ran_one_after_another_are_a_trial_each(tmp_path: Path, end: str):
    writes, reads = (trial for _, trial in imported(tmp_path, FIO_DATA / f"fio-3.33-stonewall.{end}").imported)
    assert (writes.record.levels["job"], reads.record.levels["job"]) == ("a", "b")
    assert values(writes)["write_ios"] == 1024 and "read_ios" not in values(writes)
    assert values(reads)["read_ios"] == 512 and reads.record.levels["bs"] == "8KiB"


def test_two_reports_of_ab_in_one_file_are_two_trials(tmp_path: Path):
    both = tmp_path / "both.txt"
    parts = [(DATA / "http" / name).read_bytes() for name in ("ab-ok.txt", "ab-post.txt")]
    both.write_bytes(b"".join(parts))
    outcome = imported(tmp_path, both)
    assert [(trial.folder / "ab.txt").read_bytes() for _, trial in outcome.imported] == parts


@pytest.mark.long
def test_a_report_in_a_long_log_is_found(tmp_path: Path):
    """It was refused as the output of no family above 16 MiB."""
    report = (DATA / "http/ab-ok.txt").read_text()
    (tmp_path / "load.log").write_text("GET / 200\n" * 2_000_000 + report)
    (found,) = HTTP.parse_import(tmp_path / "load.log")
    assert found.tool == "ab"


# --- summaries of other generators ------------------------------------------------------------------------------------

K6, HEY = DATA / "http" / "k6-export.json", DATA / "http" / "hey.txt"
K6_NEWER = DATA / "http" / "k6-machine-readable.json"
LOCUST = DATA / "load_users" / "bounded" / "locust_stats.csv"


def figures(trial) -> dict[str, float]:
    return {o.metric: o.value for o in HTTP.parse(trial.record.levels, trial.folder).observations}


def test_summaries_of_k6_hey_and_locust_become_trials_of_what_they_tell(tmp_path: Path):
    outcome = imported(tmp_path, K6, HEY, LOCUST)
    assert not outcome.refused
    by_tool = {trial.record.verified["tool"]: trial for _, trial in outcome.imported}
    k6, hey = figures(by_tool["k6"]), figures(by_tool["hey"])
    assert k6["requests"] == 2150 and k6["throughput"] == pytest.approx(1071.5825517891362)
    assert k6["latency_p95"] == pytest.approx(8.515414899999993e-3) and "latency_p99" not in k6
    assert hey["requests"] == 200 and hey["latency_p99"] == 0.037 and hey["errors"] == 0
    assert by_tool["hey"].record.levels["concurrency"] == "unknown"
    rows = [trial for _, trial in outcome.imported if trial.record.verified["tool"] == "locust"]
    assert len(rows) == len(LOCUST.read_text().splitlines()) - 2, "each kind of request, without their sum"
    of = {trial.record.levels["endpoint"][:20]: figures(trial) for trial in rows}
    assert of["check_unread-enter-9"]["requests"] == 13 and of["check_unread-enter-9"]["latency_p95"] == 0.004
    tidy_family(
        tmp_path, [study_of(http_concurrency={}).session("machine", "http_concurrency")], tmp_path / "tidy"
    )  # with levels for which no number is known


def test_requests_that_hey_did_not_time_are_noted(tmp_path: Path):
    (_, whole), (_, refused) = imported(tmp_path, HEY, DATA / "http" / "hey-refused.txt").imported
    said = [[note for note in trial.record.verified["notes"] if "time them" in note] for trial in (whole, refused)]
    assert said == [[], ["connection: 200 of 200 requests got no response, and hey does not time them, however long"]]


@pytest.mark.parametrize(("name", "checks"), [("k6-export-thresholds.json", 165), ("k6-handle-thresholds.json", 171)])
def test_failed_thresholds_and_checks_of_k6_are_noted(tmp_path: Path, name: str, checks: int):
    ((_, trial),) = imported(tmp_path, DATA / "http" / name).imported
    notes = trial.record.verified["notes"]
    assert trial.record.status == "ok", "the run itself ended well"
    assert sorted(note for note in notes if note.startswith(("threshold", "check"))) == [
        f"check: 'body is long' failed {checks} of {checks} times",
        "threshold: checks: rate>0.9 failed",
        "threshold: http_req_duration: p(95)<0.1 failed",
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("6308.11", "8308.11", "arithmetic: Requests per second is 8308.11"),
        ("  90%     29", "  90%     129", "percentiles: they fall where they must rise"),
        ("Failed requests:        0", "Failed requests:        500", "500 of 50000 requests failed, ab does not"),
    ],
)
def test_a_report_of_ab_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, why: str):
    """A report with 9,999,999 requests per second, 2,525 by its other figures, led the page; so did failed requests."""
    file = tmp_path / "ab.txt"
    file.write_text((DATA / "http" / "filestash-static-c100.txt").read_text().replace(old, new))
    outcome = imported(tmp_path, file)
    ((_, cause),) = outcome.refused
    assert not outcome.imported and why in cause and cause.endswith("so it was altered or damaged")


WRK = DATA / "http" / "wrk-plain.txt"


def test_transcripts_of_wrk_become_a_trial_a_run(tmp_path: Path):
    both, ours = tmp_path / "both.txt", DATA / "http" / "wrk-ok.txt"
    both.write_text("$ sh all.sh\n" + WRK.read_text() + WRK.read_text().replace("10 connections", "20 connections"))
    outcome = imported(tmp_path, both, ours)
    assert [(path, cause.partition(" (")[0]) for path, cause in outcome.refused] == [(ours, "no family of the study")]
    one, two = (trial for _, trial in outcome.imported)
    assert [trial.record.levels["concurrency"] for trial in (one, two)] == ["10", "20"]
    assert "".join((trial.folder / "wrk.txt").read_text() for trial in (one, two)) == both.read_text()
    known = {name: level for name, level in one.record.levels.items() if level != "unknown"}
    assert known == {
        "generator": "wrk", "server": "127.0.0.1-55893", "endpoint": "root", "concurrency": "10", "requests": "1s",
        "threads": "2",
    }  # fmt: skip
    found = figures(one)
    assert found["requests"] == 41795 and found["throughput"] == pytest.approx(41598.24) and found["errors"] == 0
    assert (found["latency_p99"], found["latency_max"]) == (pytest.approx(3.81e-3), pytest.approx(7.46e-3))
    assert found["transfer_rate"] == pytest.approx(462.33 * 1024**2) and "little_error" not in found


@pytest.mark.parametrize("end", ["", "-full"])
def test_the_newer_summary_of_k6_becomes_a_trial(tmp_path: Path, end: str):
    source = DATA / "http" / f"k6-machine-readable{end}.json"
    ((_, trial),) = imported(tmp_path, source).imported
    document, found, record = json.loads(source.read_text()), figures(trial), trial.record
    metrics = {metric["name"]: metric["values"] for metric in document["results"]["metrics"]}
    requests, took, times = metrics["http_reqs"]["count"], document["config"]["duration"], metrics["http_req_duration"]
    assert (found["requests"], found["errors"], found["duration"]) == (requests, 0, pytest.approx(took))
    assert found["throughput"] == pytest.approx(requests / took)
    assert found["transfer_rate"] == pytest.approx(metrics["data_received"]["count"] / took)
    assert [found[f"latency_{name}"] for name in ("min", "mean", "max", "p50", "p90", "p95")] == pytest.approx(
        [times[name] / 1e3 for name in ("min", "avg", "max", "med", "p90", "p95")]
    )
    assert ("waiting_mean" in found) == bool(end) and record.levels["vus"] == "4"
    assert record.verified["tool_version"] == "1.8.1" and record.duration_s == pytest.approx(took, abs=0.002)
    assert document["metadata"]["generated_at"].startswith(record.finished[:23])
    notes = [note for note in record.verified["notes"] if note.startswith(("threshold", "check"))]
    failed = document["results"]["checks"]["results"][1]["fails"]
    assert notes == [
        f"check: 'body is long' failed {failed} of {failed} times",
        "threshold: this format of k6 does not say which failed",
    ]


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        ([DATA / "http" / "ab-ok.txt", WRK], "has outputs of ab and wrk: give each tool a file of its own"),
        ([WRK, HEY], "has outputs of hey and wrk: give each tool a file of its own"),
        ([K6, K6], "follows k6's summary in its file"),
        ([K6_NEWER, K6_NEWER], "follows k6's summary in its file"),
        ([LOCUST, LOCUST], "several tables of Locust"),
        ([DATA / "command" / "hyperfine" / "pair.json"] * 2, "several exports of hyperfine"),
    ],
)
def test_no_run_of_a_file_is_left_out_without_a_word(tmp_path: Path, parts: list[Path], cause: str):
    (tmp_path / "both").write_text("".join(part.read_text() for part in parts))
    outcome = import_outputs(tmp_path, study_of(http_concurrency={}, command={}), None, [tmp_path / "both"])
    assert not outcome.imported and cause in outcome.refused[0][1]


def test_a_summary_of_k6_that_was_cut_off_is_said_to_be_so(tmp_path: Path):
    text = K6.read_text()
    (tmp_path / "cut.json").write_text(text[: text.index('"root_group"') // 2])
    assert "or is truncated" in imported(tmp_path, tmp_path / "cut.json").refused[0][1]


K6_POINTS = DATA / "http" / "k6-points.json"


def test_points_of_k6_become_the_trial_that_its_summary_becomes(tmp_path: Path):
    ((_, points),) = imported(tmp_path / "points", K6_POINTS).imported
    ((_, summary),) = imported(tmp_path / "summary", DATA / "http" / "k6-points-export.json").imported
    found, told = figures(points), figures(summary)
    rates = {"duration", "throughput", "transfer_rate", "concurrency_measured"}  # points lack k6's own duration
    assert told.keys() <= found.keys() and {"latency_p99", "waiting_mean", "connect_max", "errors"} < told.keys()
    assert {name: found[name] for name in told.keys() - rates} == pytest.approx(
        {name: told[name] for name in told.keys() - rates}
    )
    assert [found[name] for name in rates] == pytest.approx([told[name] for name in rates], rel=0.002)
    levels = points.record.levels
    assert (levels["server"], levels["method"], levels["endpoint"]) == ("127.0.0.1-8080", "GET", "unknown")
    assert levels["vus"] == "2" and points.record.finished.startswith("2026-")
    assert {"check: 'is short' failed 6 of 6 times", "threshold: this output of k6 does not say which failed"} < {
        *points.record.verified["notes"]
    }


@pytest.mark.parametrize("end", ["", "-newer"])
@pytest.mark.parametrize("of_points_first", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_summary_and_the_points_of_one_run_of_k6_are_one_trial(
    tmp_path: Path, end: str, of_points_first: bool, at_once: bool
):
    """Also if points are read before the summary. Only the newer summary says when the run was."""
    points = tmp_path / "points.json"
    points.write_bytes(gzip.decompress((DATA / "http" / f"k6-points-refused{end}.json.gz").read_bytes()))
    summary = DATA / "http" / ("k6-machine-readable-refused.json" if end else "k6-export-refused.json")
    first, second = (points, summary) if of_points_first else (summary, points)
    if at_once:
        outcome = imported(tmp_path, first, second)
    else:
        assert not imported(tmp_path, first).refused
        outcome = imported(tmp_path, second)
    assert len(outcome.imported) == at_once
    ((path, cause),) = outcome.refused
    assert path == second and "already holds this run, so it is skipped: a run counts once" in cause
    other = K6_POINTS if of_points_first else K6
    assert not imported(tmp_path, other).refused, "another run"


def test_points_of_broken_connections_are_no_latencies(tmp_path: Path):
    """As captured from a server that answers after 20 ms, and resets every third connection."""
    whole = gzip.decompress((DATA / "http" / "k6-points-broken.json.gz").read_bytes()).decode()
    lines = whole.splitlines(keepends=True)
    answered = [line for line in lines if '"status":"200"' in line]
    none = "".join(line for line in lines if line not in answered)
    late = whole.replace('"error_code":"1220"', '"error_code":"1050"')
    trials = {}
    for name, content in {"broken": whole, "none": none, "late": late}.items():
        (tmp_path / f"{name}.json").write_text(content)
        ((_, trial),) = imported(tmp_path / f"to-{name}", tmp_path / f"{name}.json").imported
        trials[name] = figures(trial)
    broken = trials["broken"]
    assert (broken["requests"], broken["errors"], broken["errors_connect"]) == (121, 40, 40)
    assert 0.02 < broken["latency_min"] <= broken["latency_p50"] <= broken["latency_mean"]
    assert 0.02 < broken["waiting_mean"] <= broken["latency_mean"], "from sending to the first byte of an answer"
    assert broken["concurrency_measured"] == pytest.approx(81 / broken["duration"] * broken["latency_mean"])
    assert trials["none"]["errors_connect"] == 40
    assert not [name for name in trials["none"] if name.startswith(("latency", "waiting", "connect"))]
    assert trials["late"]["latency_min"] == 0 and "errors_connect" not in trials["late"], "timeouts are waits"


@pytest.mark.parametrize("name", ["k6-export-refused.json", "k6-machine-readable-refused.json"])
def test_a_summary_of_k6_with_refused_connections_has_no_latencies(tmp_path: Path, name: str):
    """A quarter of the connections were refused. k6 timed each of them with 0 s."""
    ((_, trial),) = imported(tmp_path, DATA / "http" / name).imported
    found = figures(trial)
    assert (found["requests"], found["errors"]) == (40, 11)
    assert not [metric for metric in found if metric.startswith(("latency", "waiting", "connect", "concurrency_m"))]
    said = "latency: k6 has the times of refused connections, 0 s, among those of answers, so none are known"
    assert said in trial.record.verified["notes"]


def test_points_of_k6_that_are_not_of_one_whole_run_are_refused(tmp_path: Path):
    text = K6_POINTS.read_text()
    lines = text.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if '"http_req_failed","type":"Point"' in line)
    texts = {
        "cut": text[: len(text) // 2],
        "lost": "".join(lines[:first] + lines[first + 1 :]),
        "two": text + text,
        "none": "".join(line for line in lines if '"metric":"http_req' not in line),
    }
    for name, content in texts.items():
        (tmp_path / f"{name}.json").write_text(content)
    outcome = imported(tmp_path, *(tmp_path / f"{name}.json" for name in texts))
    assert not outcome.imported
    said = {path.stem: why for path, why in outcome.refused}
    assert "truncated" in said["cut"] and "7 of http_req_failed and 8 of http_reqs" in said["lost"]
    assert "give each run a file of its own" in said["two"] and "no HTTP request" in said["none"]


@pytest.mark.parametrize("name", ["short", "calibrated"])
def test_what_wrk2_prints_is_not_taken_for_wrks(tmp_path: Path, name: str):
    outcome = imported(tmp_path, DATA / "http" / f"wrk2-{name}.txt")
    assert not outcome.imported and outcome.refused[0][1].startswith("wrk2 printed this, not wrk")


@pytest.mark.parametrize(
    ("source", "old", "new", "cause"),
    [
        (WRK, "Requests/sec:  41598.24", "Requests/sec:  51598.24", "inconsistent"),
        (WRK, "Requests/sec:", "Requests:", "truncated"),
        (K6_NEWER, '"total": 166', '"total": 165', "inconsistent: http_req_failed is of 165 requests"),
        (K6_NEWER, '"version": "1.0.0"', '"version": "2.0.0"', "run k6 with --new-machine-readable-summary=false"),
        (K6, '"rate": 1071.58', '"rate": 2071.58', "inconsistent"),
        (K6, '"p(95)": 8.515', '"p(95)": 0.515', "do not rise"),
        (HEY, "Requests/sec:\t720.6436", "Requests/sec:\t7206.436", "inconsistent"),
        (HEY, "[200]\t200 responses", "[200]\t190 responses", "inconsistent"),
        (HEY, "Slowest:", "Slow:", "truncated: it has no 'Slowest'"),
        (LOCUST, ",13,0,2,", ",13,5,2,", "inconsistent"),
    ],
)
def test_a_summary_that_contradicts_itself_is_refused(tmp_path: Path, source: Path, old: str, new: str, cause: str):
    text = source.read_text()
    assert old in text
    (tmp_path / source.name).write_text(text.replace(old, new, 1))
    outcome = imported(tmp_path, tmp_path / source.name)
    assert not outcome.imported and cause in outcome.refused[0][1]


# --- tools that no family knows ---------------------------------------------------------------------------------------

LINES = re.findall(r"(?m)^jq -r .*$", (Path(__file__).parents[1] / "docs" / "importing.md").read_text())


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.rpartition("/")[2])
def test_the_documented_line_makes_a_published_table(tmp_path: Path, line: str):
    (tmp_path / "data" / "published").mkdir(parents=True)
    for file in (DATA / "elsewhere").glob("*.json"):
        shutil.copy(file, tmp_path)
    subprocess.run(["sh", "-ec", line], cwd=tmp_path, check=True)
    (table,) = (tmp_path / "data" / "published").iterdir()
    groups = lints.published.read(table).groups
    assert groups and all(figure.value is not None for group in groups for figure in group.figures.values())


def test_a_link_that_leads_nowhere_is_refused_and_a_folder_that_cannot_be_read_ends_the_import(tmp_path: Path):
    runs = tmp_path / "runs"
    (runs / "closed").mkdir(parents=True)
    (runs / "gone.json").symlink_to("nowhere")
    ((path, cause),) = imported(tmp_path, runs).refused
    assert path.name == "gone.json" and cause == "cannot be read: No such file or directory"
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study_of(fio={}).model_dump(mode="json", exclude_unset=True)))
    (runs / "closed").chmod(0)
    rights = "-dac_override,-dac_read_search"
    as_owner = ["setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}"] if os.getuid() == 0 else []
    command = [sys.executable, "-m", "benchstudy.commands.cli", "import", str(runs), "--study", "study.yaml"]
    done = subprocess.run([*as_owner, *command], cwd=as_project(tmp_path), capture_output=True, text=True)
    assert done.returncode == 1 and f"{runs}/closed: Permission denied: give your user the right" in done.stderr


def test_what_no_family_knows_is_refused_with_the_way_to_bring_it_in(tmp_path: Path):
    ((_, cause),) = imported(tmp_path, DATA / "elsewhere" / "google-benchmark.json").refused
    assert "no family of the study" in cause and "benchstudy docs importing" in cause and len(LINES) == 2


@pytest.mark.parametrize("family", [name for name in registry.names() if registry.get(name).outputs])
def test_a_refusal_says_what_each_family_of_the_study_takes(tmp_path: Path, family: str):
    stranger = DATA / "elsewhere" / "google-benchmark.json"
    ((_, cause),) = import_outputs(tmp_path, study_of(**{family: {}}), None, [stranger]).refused
    assert f"({family}) recognises this output: {family} takes {registry.get(family).outputs}; `benchstudy" in cause
    assert registry.get(family).outputs == registry.part(family, "imported").OUTPUTS


@pytest.mark.parametrize(
    ("output", "family"), [(K6, "http_concurrency"), (DATA / "command" / "hyperfine" / "pair.json", "command")]
)
def test_a_family_that_the_study_lacks_is_named(tmp_path: Path, output: Path, family: str):
    ((_, cause),) = import_outputs(tmp_path, study_of(fio={}), None, [output]).refused
    assert cause == f"the study has no family {family}, which takes this output: add `{family}: {{}}` to its families"


def test_a_compressed_output_is_refused_with_what_to_do(tmp_path: Path):
    packed = tmp_path / "fio.json.gz"
    packed.write_bytes(gzip.compress((FIO_DATA / "fio-3.33-latency-plus.json").read_bytes()))
    ((_, cause),) = imported(tmp_path, packed).refused
    assert "compressed" in cause and "unpack it" in cause


def test_two_pages_in_one_table_keep_their_figures(tmp_path: Path):
    (tmp_path / "two.csv").write_text(f"page,{HEADING}\nOne,A,mean,1,s,1\nTwo,A,mean,2,points,2\n")
    assert [group.figures["mean"].value for group in read_published(tmp_path / "two.csv").groups] == [1, 2]


def own_table(root: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the published page shows of a table of one's own."""
    (root / "workflow").mkdir()
    (root / "workflow" / "Snakefile").touch()
    (root / "data" / "published").mkdir(parents=True)
    (root / "data" / "published" / "mine.csv").write_bytes(content)
    monkeypatch.chdir(root)
    page = PublishedPage(study="archive", tidy="data/tidy", output="reports")
    shown: list[str] = []
    monkeypatch.setattr(exhibits, "display", lambda one: shown.append(getattr(one, "data", str(one))))
    monkeypatch.setattr(published_page, "display", lambda one: shown.append(one.data))
    page.summary()
    page.show_own()
    return "\n".join(shown)


def test_a_published_table_of_ones_own_appears_by_being_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = "page,section,disk,statistic,value,unit,as_printed\nOur wiki,Disks,nvme,mean,0.5,s,half a second\n"
    text = own_table(tmp_path, table.encode(), monkeypatch)
    assert "<h2>Our wiki</h2>" in text and "half a second" in text and "nvme" in text and text.count("Our wiki") >= 2


HEADING = "section,statistic,value,unit,as_printed"


def test_a_table_of_ones_own_is_shown_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a spreadsheet saves it, with texts that look like numbers, and with a cell that is not there."""
    rows = "3.10,50,0.5,s,0.50\n,90,0.75,s,0.750\n3.20,mean,0.6,s,"
    text = own_table(tmp_path, f"\N{BYTE ORDER MARK}{HEADING}\n{rows}\n".encode(), monkeypatch)
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", text[text.index("figures as printed") :])
    assert cells[-15:] == ["–", "3.10", "–", "50", "0.50", "–", "", "–", "90", "0.750", "–", "3.20", "–", "mean", "–"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "no figures"),
        (f"{HEADING}\nA,mean,fast,s,fast\n", "row 1: value or source_line: could not convert string to float: 'fast'"),
        (f"{HEADING}\nA,mean,20,ms,20 ms\n", "row 1: unit: ms is not a base unit: write the value in s"),
        (f"{HEADING}\nA,mean,nan,s,-\n", "row 1: value: nan is not a number: leave it empty"),
        (f"{HEADING}\nA,mean,1,s,1\nA,mean,2,s,2\n", "row 2: has the section, statistic and levels of row 1"),
        (f"{HEADING}\nA,mean,1,s,1\nA,p50,1234,s,1,234\n", "row 2: more cells than columns; put a text with a comma"),
        (f"{HEADING}\nA,mean,1,s,1 µs\n".encode("latin-1"), "is not a CSV file in UTF-8"),
    ],
)
def test_a_table_of_ones_own_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str | bytes, said: str
):
    with pytest.raises(BenchstudyError, match=re.escape(said)) as refused:
        own_table(tmp_path, table if isinstance(table, bytes) else table.encode(), monkeypatch)
    assert "data/published/mine.csv" in str(refused.value)


# --- how runs ended, when, and with what ------------------------------------------------------------------------------


def quietly_interrupted(text: str) -> str:
    return text[text.index("{") :]  # fio's own messages may have gone to another file


@pytest.mark.parametrize(("end", "edit"), [("json", str), ("txt", str), ("json", quietly_interrupted)])
def test_an_interrupted_run_is_a_failure(tmp_path: Path, end: str, edit):
    file = tmp_path / f"run.{end}"
    file.write_text(edit((FIO_DATA / f"fio-3.33-interrupted.{end}").read_text()))
    ((_, trial),) = imported(tmp_path, file).imported
    assert trial.record.status == "failed" and "fio was interrupted" in trial.record.cause
    assert trial.record.failure.cause == "signal"
    study = study_of()
    tidy_family(tmp_path, [study.session("machine", "fio")], tmp_path / "tidy")
    (row,) = pl.read_parquet(tmp_path / "tidy" / "observations.parquet").iter_rows(named=True)
    assert (row["metric"], row["value"], row["status"]) == ("trial", None, "failed")


@pytest.mark.parametrize("end", ["json", "txt"])
def test_errors_that_fio_went_on_after_are_counted(tmp_path: Path, end: str):
    ((_, trial),) = imported(tmp_path, FIO_DATA / f"fio-3.33-continued.{end}").imported
    assert trial.record.status == "ok" and values(trial)["io_errors"] == 2
    assert any("went on after 2" in note for note in trial.record.verified["notes"])


def test_an_error_that_fio_cannot_go_on_after_is_a_failure_whatever_it_was_asked(tmp_path: Path):
    """`continue_on_error=all` on a disk that was full after half of it."""
    ((_, trial),) = imported(tmp_path, FIO_DATA / "fio-3.33-continued-disk-full.json").imported
    assert trial.record.status == "failed" and "No space left on device" in trial.record.cause


def test_when_and_with_what_it_was_run_comes_from_the_document(tmp_path: Path):
    outcome = imported(tmp_path, FIO_DATA / "fio-3.33-page.json", FIO_DATA / "fio-3.33-page.txt")
    told, text = (trial.record for _, trial in outcome.imported)
    assert told.finished.startswith("2026-11-20T19:08:26.247") and told.duration_s == pytest.approx(0.169, abs=1e-3)
    assert told.verified["options"]["test"]["gtod_reduce"] == "1" and told.verified["tool_version"] == "3.33"
    assert text.verified["clock"] == "Fri Nov 20 19:08:25 2026"
    tidy_family(tmp_path, [study_of().session("machine", "fio")], tmp_path / "tidy")
    trials = pl.read_parquet(tmp_path / "tidy" / "trials.parquet").sort("started")
    assert trials["started"].to_list() == [None, told.started], "the time of the import is not that of the run"
    assert trials["tool_version"].to_list() == ["3.33", "3.33"]


# --- figures that appear twice in a document ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "cause"),
    [
        ("fio-3.33-latency.txt", "BW=285MiB/s", "BW=5700MiB/s", "bandwidth: inconsistent"),
        ("fio-3.33-latency.txt", "BW=285MiB/s (299MB/s)", "BW=5700MiB/s (5980MB/s)", "bandwidth: inconsistent"),
        ("fio-3.33-latency.txt", "IOPS=73.1k", "IOPS=731k", "iops: inconsistent"),
        ("fio-3.33-latency.txt", "total=12276,", "total=1227,", "iops: inconsistent"),
        ("fio-3.33-latency.txt", "io=48.0MiB", "io=480MiB", "group 0, read: io: inconsistent"),
        ("fio-3.33-latency.txt", "run=168-168msec\n  WRITE", "run=16-16msec\n  WRITE", "run time: inconsistent"),
        ("fio-2.2.10-page.txt", "bw=133662KB/s", "bw=2673240KB/s", "bandwidth: inconsistent"),
        ("fio-2.2.10-page.txt", "iops=11219", "iops=112190", "iops: inconsistent"),
        ("fio-3.33-latency-plus.json", '"iops" : 76248', '"iops" : 762480', "iops: inconsistent"),
        ("fio-3.33-latency-plus.json", '"total_ios" : 12276', '"total_ios" : 1227', "iops: inconsistent"),
        ("fio-3.33-latency-plus.json", '"bw" : 304993', '"bw" : 305993', "bw: inconsistent"),
        ("fio-3.33-latency-plus.json", '"io_kbytes" : 49104', '"io_kbytes" : 49106', "io_kbytes: inconsistent"),
        ("fio-3.33-latency-plus.json", '"runtime" : 161', '"runtime" : 162', "inconsistent"),
        ("fio-2.2.10-constructed.json", '"iops": 33415.46', '"iops": 334154.6', "iops: inconsistent"),
    ],
)
def test_a_figure_that_contradicts_another_is_refused(tmp_path: Path, name: str, old: str, new: str, cause: str):
    text = (FIO_DATA / name).read_text()
    assert old in text
    file = tmp_path / name
    file.write_text(text.replace(old, new, 1))
    outcome = imported(tmp_path, file)
    assert not outcome.imported and cause in outcome.refused[0][1]


def test_every_captured_output_agrees_with_itself():
    for file in FIO_DATA.glob("fio-*"):
        if file.suffix in (".json", ".txt"):
            FIO.parse_import(file)


def test_latencies_of_writes_do_not_become_those_of_reads():
    whole = (FIO_DATA / "fio-3.33-latency.txt").read_text()
    without = re.sub(r"(?m)^  write: .*\n", "", whole)
    with pytest.raises(ParseError, match="two lines 'slat' follow its line 'read'"):
        observe(parse_fio_text(without))
    begin, end = whole.index("  write: "), whole.index("  cpu  ")
    with pytest.raises(ParseError, match="4108 operations of 'write' were issued, and its line 'write' is missing"):
        observe(parse_fio_text(whole[:begin] + whole[end:]))


# --- the store, and studies of imports alone --------------------------------------------------------------------------


def test_nothing_counts_twice_and_a_lost_index_is_made_again(tmp_path: Path):
    names = ["fio-3.33-page.json", "fio-3.33-appended.json"]
    first = imported(tmp_path, *(FIO_DATA / name for name in names))
    index = tmp_path / "data/raw/archive/machine/fio/session.json"
    before = json.loads(index.read_text())["trials"]
    index.unlink()  # for example by a kill between the trials and their index
    again = imported(tmp_path, *(FIO_DATA / name for name in names), said={"directory": "nfs"})
    assert len(first.imported) == len(again.refused) == 3 and not again.imported
    assert all("already holds the same content" in cause for _, cause in again.refused)
    assert json.loads(index.read_text())["trials"] == before


def test_no_import_hides_that_a_trial_is_lost(tmp_path: Path):
    first = imported(tmp_path, FIO_DATA / "fio-3.33-page.json")
    ((_, lost),) = first.imported
    index = tmp_path / "data/raw/archive/machine/fio/session.json"
    before = index.read_bytes()
    lost.folder.rename(tmp_path / "kept")
    for _ in range(2):
        again = imported(tmp_path, FIO_DATA / "fio-3.33-appended.json")
        assert not again.imported and index.read_bytes() == before
        ((_, cause),) = again.refused
        assert "session.json lists this trial, and its folder is gone" in cause


@pytest.mark.parametrize("name", ["fio-3.33-page.json", "fio-3.33-appended.json"])
def test_a_copy_in_another_encoding_or_with_other_line_ends_counts_once(tmp_path: Path, name: str):
    text = (FIO_DATA / name).read_text()
    copies = [
        text.replace("\n", end).encode(encoding)
        for encoding in ("utf-16", "utf-8", "utf-8-sig")
        for end in ("\r\n", "\n")
    ]
    for number, content in enumerate(copies):
        (tmp_path / f"{number}.json").write_bytes(content)
    first = imported(tmp_path, tmp_path / "0.json")
    again = imported(tmp_path, *(tmp_path / f"{number}.json" for number in range(1, len(copies))))
    assert first.imported and not first.refused and not again.imported
    assert len(again.refused) == len(first.imported) * (len(copies) - 1)
    assert all("already holds the same content" in cause for _, cause in again.refused)


def in_parts(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """By kind of output: a file with several runs, and texts with one of them each, as they were before."""
    fio_json, fio_text = ((FIO_DATA / f"fio-3.33-appended.{end}").read_text() for end in ("json", "txt"))
    runs = [json.JSONDecoder().raw_decode(fio_json)[0], json.loads(fio_json[fio_json.rindex('{\n  "fio version"') :])]
    texts = [found.strip() for found in re.split(r"(?m)^(?=.*\): rw=)", fio_text) if found.strip()]
    ab = [(DATA / "http" / name).read_text() for name in ("ab-ok.txt", "ab-post.txt")]
    wrk = [WRK.read_text(), WRK.read_text().replace("10 connections", "20 connections")]
    head, *rows, total = LOCUST.read_text().splitlines()
    export = {"command": "true", "mean": 1.5, "times": [1.0, 2.0], "exit_codes": [0, 0]}
    results = [export, {**export, "command": "false"}]
    return {
        "fio.json": (fio_json, [json.dumps(run, indent=1) for run in runs]),
        "fio.txt": (fio_text, [f"$ fio job\n{text}\n\n" for text in texts]),
        "ab.txt": ("\n$ # one more\n".join(ab), ab),
        "wrk.txt": ("\n$ # one more\n".join(wrk), wrk),
        "locust_stats.csv": ("\n".join([head, *rows, total]), ["\n".join([head, row, total]) for row in rows]),
        "hyperfine.json": (json.dumps({"results": results}), [json.dumps({"results": [one]}) for one in results]),
    }


@pytest.mark.parametrize("kind", ["fio.json", "fio.txt", "ab.txt", "wrk.txt", "locust_stats.csv", "hyperfine.json"])
def test_a_run_counts_once_alone_and_in_a_file_with_others(tmp_path: Path, monkeypatch, capsys, kind: str):
    together, alone = in_parts(tmp_path)[kind]
    as_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    declared = study_of().model_dump(mode="json", include={"study", "hosts", "targets"})
    families = {"fio": {}, "http_concurrency": {}, "command": {}}
    Path("study.yaml").write_text(json.dumps({**declared, "families": families}))
    for number, text in enumerate([*alone, together]):
        Path(f"{number}-{kind}").write_text(text)
    names = [f"{number}-{kind}" for number in range(len(alone) + 1)]
    assert cli.main(["import", names[0], "--study", "study.yaml", "--json"]) == 0
    assert cli.main(["import", names[-1], "--study", "study.yaml", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0")]
    assert [len(one["imported"]) for one in told] == [1, len(alone) - 1]
    (why,) = [one["why"] for one in told[1]["refused"]]
    assert re.match(rf"run 1 of {len(alone)}: trial \w{{8}} .*already holds", why)
    assert cli.main(["import", *names, "--study", "study.yaml", "--json"]) == 1, "and the other way round"
    assert json.loads(capsys.readouterr().out)["imported"] == []


def test_only_copies_that_have_the_size_of_a_trial_are_hashed(tmp_path: Path, monkeypatch):
    text, hashed, contents = (FIO_DATA / "fio-3.33-page.json").read_text(), [], imported_trials._contents
    monkeypatch.setattr(imported_trials, "_contents", lambda files: hashed.append(files) or contents(files))
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(another(text, number))
    assert len(imported(tmp_path, *(tmp_path / f"{number}.json" for number in range(3))).imported) == len(hashed) == 3


def test_a_dry_run_tells_what_an_import_then_does_and_writes_nothing(tmp_path: Path, monkeypatch, capsys):
    as_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    declared = study_of().model_dump(mode="json", include={"study", "hosts", "targets"})
    Path("study.yaml").write_text(json.dumps({**declared, "families": {"fio": {}}}))
    page = (FIO_DATA / "fio-3.33-page.json").read_text()
    for name, text in {"a": page, "b": another(page, 1), "copy": page, "stranger": "nothing"}.items():
        (tmp_path / f"{name}.json").write_text(text)
    names = [str(tmp_path / f"{name}.json") for name in ("b", "copy", "stranger")]
    assert cli.main(["import", str(tmp_path / "a.json"), "--study", "study.yaml"]) == 0
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path().rglob("*") if path.is_file()}
    capsys.readouterr()

    assert cli.main(["import", *names, names[0], "--study", "study.yaml", "--dry-run"]) == 1
    printed = capsys.readouterr()
    assert re.search(
        r"would import \S+/b\.json as \S+, fio, block 2\n1 trial of 1 case would be imported, 3 refused", printed.out
    )
    assert (
        re.search(r"copy\.json: trial \w{8} already holds", printed.err) and "stranger.json: no family" in printed.err
    )
    assert re.search(r"b\.json: \S+/b\.json already holds the same content", printed.err), "given twice"
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path().rglob("*") if path.is_file()}
    assert after == before

    told = []
    for words in (["--dry-run"], []):
        assert cli.main(["import", *names, "--study", "study.yaml", "--json", *words]) == 1
        told.append(json.loads(capsys.readouterr().out))
    planned, done = ([{**one, "trial": None} for one in facts["imported"]] for facts in told)
    assert planned == done == [{**told[0]["imported"][0], "block": 2}] and told[0]["imported"][0]["trial"] is None
    assert told[0]["refused"] == told[1]["refused"] and [facts["dry_run"] for facts in told] == [True, False]


def test_a_dry_run_in_a_study_without_trials_makes_no_folder(tmp_path: Path):
    outcome = imported(tmp_path, FIO_DATA / "fio-3.33-page.json", dry_run=True)
    assert len(outcome.imported) == 1 and not any(tmp_path.iterdir())


def test_a_file_whose_name_is_no_utf_8_is_imported_like_others(tmp_path: Path, monkeypatch, capsys):
    as_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    declared = study_of().model_dump(mode="json", include={"study", "hosts", "targets"})
    Path("study.yaml").write_text(json.dumps({**declared, "families": {"fio": {}}}))
    for number, name in enumerate((b"a.json", b"b-\xff.json", b"c.json")):
        text = (FIO_DATA / "fio-3.33-page.json").read_text()
        (tmp_path / os.fsdecode(name)).write_text(another(text, number))
    outputs = [str(path) for path in sorted(tmp_path.glob("*.json"))]
    assert cli.main(["import", *outputs, "--study", "study.yaml"]) == 0
    assert "b-\\xff.json as" in capsys.readouterr().out
    store = Path("data/raw/archive/machine/fio")
    names = [json.loads(path.read_text())["imported_from"] for path in store.glob("*/*/trial.json")]
    assert sorted(names) == ["a.json", "b-\\xff.json", "c.json"]
    assert (store / "session.json").is_file() and not [*store.rglob(".partial-*")]
    assert cli.main(["cases", "study.yaml"]) == 0
    head, case = capsys.readouterr().out.splitlines()
    assert head == "fio on machine: 1 case" and case.endswith("  3 ok, 3 imported")
    assert cli.main(["import", outputs[1], "--study", "study.yaml", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["refused"][0]["path"].endswith("b-\\xff.json")


def test_progress_is_told_for_each_file(tmp_path: Path):
    told: list[tuple[int, int]] = []
    files = [FIO_DATA / "fio-3.33-page.json", FIO_DATA / "README.md"]
    imported(tmp_path, *files, advance=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_an_empty_block_is_a_study_of_imports_and_reaches_no_host(tmp_path: Path):
    study = study_of()
    import_outputs(tmp_path, study, None, [FIO_DATA / "fio-3.33-page.json", FIO_DATA / "fio-3.33-page.txt"])
    plan = study.session("machine", "fio")
    assert plan.hosts == {} and plan.cases == []
    assert json.loads(hold_session(tmp_path, plan).read_text())["problem"] is None
    tidy_family(tmp_path, [plan], tmp_path / "tidy")
    results = Results(tmp_path / "tidy", study="archive", family="fio")
    method = evidence.method(results, ())
    assert "Their time, their order and other load on the host are unknown" in method and "random" not in method
    assert "at a time" not in method and "Block" not in method
    weak = " ".join(evidence.weak_points(results, ()))
    assert "2 imported cases with unknown levels (directory, direct" in weak


@pytest.mark.parametrize("family", ["command", "fio", "http_concurrency", "log_write"])
def test_a_family_of_which_nothing_was_imported_is_named_before_its_page_is_made(tmp_path: Path, family: str):
    plan = study_of(**{family: {}}).session("machine", family)
    hold_session(tmp_path, plan)
    with pytest.raises(BenchstudyError, match=f"families.{family}: nothing was imported yet: `benchstudy import"):
        tidy_family(tmp_path, [plan], tmp_path / "tidy")
    assert not (tmp_path / "tidy").exists()


def test_an_import_beside_what_is_measured_leaves_its_session_due(tmp_path: Path):
    job = {"name": "mixed", "rw": "randrw", "engine": "psync", "direct": False, "size": "4MiB", "runtime": "1s"}
    study = study_of(fio={"directories": [{"name": "here", "path": "/tmp"}], "page_jobs": [], "jobs": [job]})
    assert import_outputs(tmp_path, study, None, [FIO_DATA / "fio-3.33-page.json"]).imported
    assert index_problem(tmp_path / "data/raw/archive/machine/fio/session.json") == NOT_HELD
    assert not is_held(tmp_path, study.session("machine", "fio"))


def test_a_block_that_measures_names_what_it_lacks():
    with pytest.raises(StudyError, match="directories: give at least one; an empty block, "):
        study_of(fio={"size": "1MiB"})
    with pytest.raises(StudyError, match=r"families\.file_size"):
        study_of(file_size={})


def test_pages_tell_imported_cases_apart_by_whatever_differs(tmp_path: Path):
    document = (FIO_DATA / "fio-3.33-latency-plus.json").read_text()
    for number, depth in enumerate(("1", "8", "64")):
        (tmp_path / f"{number}.json").write_text(document.replace('"iodepth" : "64"', f'"iodepth" : "{depth}"'))
    imported(tmp_path, *sorted(tmp_path.glob("*.json")))
    tidy_family(tmp_path, [study_of().session("machine", "fio")], tmp_path / "tidy")
    results = Results(tmp_path / "tidy", study="archive", family="fio")
    assert set(results.levels("job")) == {"test · iodepth 1", "test · iodepth 8", "test · iodepth 64"}
    assert results.factors == ["directory", "test", "job"]

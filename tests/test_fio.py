"""The fio family through its public interfaces: cases, real sessions over SSH, imports, checks, judgements."""

import json
import re
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from notebook_outputs import code_of
from one_host import findings_of, study_on
from sshd_hosts import SshdHost
from tidy_fixture import Tables

from benchstudy.commands.importing import import_outputs
from benchstudy.families.fio.page import fast_enough, small_files
from benchstudy.families.fio.page.small_files import judge
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import paths, registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import StudyError
from benchstudy.model.family import ParseError
from benchstudy.model.host import Host
from benchstudy.model.study import SessionPlan, Study

pytestmark = pytest.mark.usefixtures("own_host_lock")
DATA = Path(__file__).parent / "data" / "fio"
PROJECT = Path(__file__).parents[1]
PUBLISHED = PROJECT / "data" / "published" / "gitlab-filesystem.csv"
FAMILY = registry.get("fio")
ONLY_NO_FORK = {"page_jobs": [], "small_files": ["no-fork"]}
ONLY_GITLAB = {"page_jobs": ["gitlab"], "small_files": []}


def study_of(host: Host | Mapping[str, Any], **fio: Any) -> Study:
    return study_on(host, {"fio": fio}, target="machine", blocks=1)


def plan_of(**fio: Any) -> SessionPlan:
    fio.setdefault("directories", [{"name": "data", "path": "/srv/data"}])
    return study_of({"loopback": True}, **fio).session("machine", "fio")


# --- what a study says --------------------------------------------------------------------------------------


def argv_of(plan: SessionPlan, job: str) -> list[str]:
    return next(case for case in plan.cases if case.levels["job"] == job).definition["argv"]


def test_the_pages_command_word_for_word():
    page = shlex.split(
        "fio --randrepeat=1 --ioengine=libaio --direct=1 --gtod_reduce=1 --name=test --bs=4k --iodepth=64 "
        "--readwrite=randrw --rwmixread=75 --size=4G --filename={file}"
    )
    ours = ["--output-format=json+", "--output=fio.json"]
    assert argv_of(plan_of(), "gitlab") == page + ours
    page.remove("--gtod_reduce=1")
    assert argv_of(plan_of(), "gitlab-latency") == page + ours
    timed = argv_of(plan_of(size="100MB", runtime="2.5s"), "gitlab")
    assert "--size=100000000" in timed and "--runtime=2500ms" in timed and "--time_based=1" in timed


def test_every_case_has_the_same_factors():
    directories = [{"name": name, "path": f"/srv/{name}"} for name in ("a", "b")]
    plan = plan_of(directories=directories, jobs=[{"name": "log", "rw": "write"}])
    jobs = ("gitlab", "gitlab-latency", "log")
    expected = []
    for name in ("a", "b"):
        expected += [f"directory={name},test=fio,job={job}" for job in jobs]
        expected += [f"directory={name},test=small-files,job={job}" for job in ("shell-loop", "no-fork")]
    assert [case.id for case in plan.cases] == expected


def test_a_job_of_ones_own():
    job = {
        "name": "mixed", "rw": "randrw", "rwmixread": 70, "bs": "16KiB", "iodepth": 8, "engine": "io_uring",
        "direct": False, "size": "1GiB", "runtime": "10s", "ramp_time": "2s", "fsync": 32, "numjobs": 4,
        "extra": {"norandommap": True, "rate_iops": "500,100"},
    }  # fmt: skip
    argv = argv_of(plan_of(jobs=[job]), "mixed")
    for option in (
        "--ioengine=io_uring", "--direct=0", "--bs=16k", "--iodepth=8", "--rwmixread=70", "--fsync=32", "--size=1G",
        "--runtime=10000ms", "--ramp_time=2000ms", "--numjobs=4", "--group_reporting=1", "--norandommap=1",
        "--rate_iops=500,100",
    ):  # fmt: skip
        assert option in argv


def test_what_is_expected_of_a_directory_does_not_make_another_case():
    where = {"name": "data", "path": "/srv/data"}
    loose, strict = plan_of(directories=[where]), plan_of(directories=[{**where, "expect_fs": "xfs"}])
    assert [c.definition_sha256 for c in loose.cases] == [c.definition_sha256 for c in strict.cases]
    elsewhere = plan_of(directories=[{**where, "path": "/srv/other"}])
    assert elsewhere.cases[0].definition_sha256 != loose.cases[0].definition_sha256


def job(**changes: Any) -> dict[str, Any]:
    return {"jobs": [{"name": "x", "rw": "read", **changes}]}


def directory(**changes: Any) -> dict[str, Any]:
    return {"directories": [{"name": "d", "path": "/srv/d", **changes}]}


@pytest.mark.parametrize(
    ("fio", "message"),
    [
        (job(iodpeth=4), 'families.fio.jobs.0.iodpeth: unknown key: did you mean "iodepth"?'),
        (job(rw="randomread"), "families.fio.jobs.0.rw"),
        (job(engine="rados"), "families.fio.jobs.0.engine"),
        (job(bs=4096), "has no unit"),
        (job(rwmixread=50), "rwmixread has no effect with rw: read"),
        (job(name="gitlab"), "is a job of the page"),
        (job(name="a,b=c"), "cannot be a name"),
        (job(extra={"exec_prerun": "rm -rf /"}), "'exec_prerun' is not allowed here"),
        (job(extra={"write_lat_log": "/etc/x"}), "'write_lat_log' is not allowed here"),
        (job(extra={"randreapet": 1}), 'did you mean "randrepeat"?'),
        (job(extra={"filename": "/etc/passwd"}), "'filename' is a field of the job"),
        (job(extra={"rate": "1;2"}), "of rate may contain only letters"),
        (job(extra={"rate": "1\n2"}), "of rate may contain only letters"),
        (directory(path="relative/path"), "give an absolute path"),
        (directory(path="/srv/../etc"), "give an absolute path"),
        (directory(path="/srv/a:b"), "give an absolute path"),
        (directory(path="/srv/$HOME"), "give an absolute path"),
        (directory(path="/srv/a\nb"), "give an absolute path"),
        (directory(name="../x"), "cannot be a name"),
        (directory(path="{{dir}}/mnt"), "give the `service`"),
        (directory(service="mnt"), "no service 'mnt'"),
        ({"directories": []}, "families.fio.directories"),
        ({"page_jobs": ["gitlba"]}, "families.fio.page_jobs.0"),
        ({"jobs": [{"name": "x", "rw": "read"}, {"name": "x", "rw": "write"}]}, "described twice"),
    ],
)
def test_what_a_study_must_not_say(fio: dict[str, Any], message: str):
    with pytest.raises(StudyError) as caught:
        plan_of(**fio)
    assert message in str(caught.value)


# --- sessions over SSH --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("fio-host")
    with SshdHost(folder / "sshd") as sshd:
        yield sshd.host.model_copy(update={"work_dir": str(folder / "host" / "work")})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory to be measured."""
    folder = tmp_path / "data to measure"
    folder.mkdir()
    return folder


def measure(root: Path, host: Host, **fio: Any) -> dict[str, StoredTrial]:
    """The trials of a session, by case without its directory."""
    plan = study_of(host, **fio).session("machine", "fio")
    index = json.loads(hold_session(root, plan).read_text())
    assert index["problem"] is None
    store = TrialStore(root / "data" / "raw" / "small" / "machine" / "fio")
    return {trial.record.case.partition(",")[2]: trial for trial in store.trials()}


@contextmanager
def watching(folder: Path) -> Iterator[list[frozenset[str]]]:
    """Watch every content that the scratch folder below `folder` has."""
    seen: list[frozenset[str]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            seen.append(frozenset(path.name for path in folder.glob("*/[!.]*")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield seen
    over.set()
    watcher.join()


def test_a_session_from_the_command_to_the_tables(tmp_path: Path, here: Host, data: Path):
    log = {"name": "log", "rw": "write", "engine": "psync", "direct": False, "fdatasync": 1, "size": "1MiB"}
    # What it verifies was never written, so each block is an error, after which it goes on.
    going_on = {"verify": "crc32c", "continue_on_error": "verify", "rate_iops": 100}
    unverified = {"name": "unverified", "rw": "randread", "engine": "psync", "size": "64KiB", "extra": going_on}
    where = {"name": "d", "path": str(data)}
    with watching(data) as seen:
        fio = {"size": "16MiB", "runtime": "400ms", "jobs": [log, unverified], "directories": [where]}
        trials = measure(tmp_path, here, **fio)
    assert len(frozenset().union(*seen)) >= 3, "trials were seen at work"
    assert max(len(names) for names in seen) == 1, "a trial's file must not wait for the session's end"
    jobs = ["fio,job=gitlab", "fio,job=gitlab-latency", "fio,job=log", "fio,job=unverified"]
    variants = ["small-files,job=shell-loop", "small-files,job=no-fork"]
    assert {case: trial.record.cause for case, trial in trials.items()} == {
        f"test={case}": None for case in (*jobs, *variants)
    }
    assert list(data.iterdir()) == [], "the scratch folder and all files in it are gone"

    record = trials["test=fio,job=gitlab"].record
    assert record.commands[0].tool.name == "fio" and record.commands[0].tool.sha256
    assert record.verified["directory"] == str(data) and record.verified["fs_type"]
    kept = json.loads((trials["test=fio,job=gitlab"].folder / "files" / "fio.json").read_text())
    assert kept["jobs"][0]["job options"]["rwmixread"] == "75"

    tidy_family(tmp_path, [study_of(here, **fio).session("machine", "fio")], tmp_path / "tidy")
    observations = pl.read_parquet(tmp_path / "tidy" / "observations.parquet")
    cases = pl.read_parquet(tmp_path / "tidy" / "cases.parquet")
    metrics = {case.partition(",")[2]: set(rows["metric"]) for (case,), rows in observations.group_by("case")}
    assert {"read_iops", "write_bandwidth", "cpu_system"} <= metrics["test=fio,job=gitlab"]
    assert not [m for m in metrics["test=fio,job=gitlab"] if "lat" in m]
    assert {"read_clat_p99", "write_lat_mean"} <= metrics["test=fio,job=gitlab-latency"]
    assert {"sync_ios", "sync_lat_p50"} <= metrics["test=fio,job=log"]
    errors = observations.filter((pl.col("metric") == "io_errors") & pl.col("case").str.ends_with("unverified"))
    read = observations.filter((pl.col("metric") == "read_ios") & pl.col("case").str.ends_with("unverified"))
    assert errors["value"].item() >= 2, "it continues after an error"
    assert errors["value"].item() == pytest.approx(read["value"].item(), rel=0.1), "every read is an error"
    histogram = pl.read_parquet(tmp_path / "tidy" / "latency_histogram.parquet")
    histogram = histogram.filter(pl.col("case").str.ends_with("gitlab-latency"))
    ios = observations.filter((pl.col("metric") == "read_ios") & pl.col("case").str.ends_with("gitlab-latency"))
    assert histogram.filter(pl.col("op") == "read")["count"].sum() == ios["value"].item()
    operations = pl.read_parquet(tmp_path / "tidy" / "small_file_operations.parquet")
    assert operations.height == 2 * 1001

    judged = judge(observations, cases, PUBLISHED)
    assert judged.select("job", "op").rows() == [
        ("shell-loop", "write"), ("shell-loop", "read"), ("no-fork", "write"), ("no-fork", "read")
    ]  # fmt: skip
    reading = judged.filter((pl.col("job") == "shell-loop") & (pl.col("op") == "read"))
    assert reading["not_storage"].item() > 0.5, "a page cache answers faster than a thousand forks"


def test_a_directory_that_is_not_what_the_study_says(tmp_path: Path, here: Host, data: Path):
    def cause(name: str, **directory: Any) -> str:
        fio = {**ONLY_GITLAB, "size": "1MiB", **directory.pop("fio", {})}
        trials = measure(tmp_path / name, here, directories=[{"name": "d", **directory}], **fio)
        (trial,) = trials.values()
        assert trial.record.status == "failed"
        return trial.record.cause

    assert "does not exist" in cause("absent", path=str(data / "absent"))
    unmounted = cause("unmounted", path=str(data), expect_fs=["nfs4", "cifs"])
    assert "and the study expects nfs4 or cifs: is the mount missing?" in unmounted
    assert "bytes free, but the test needs" in cause("no-space", path=str(data), fio={"size": "900TB"})
    file = data / "a-file"
    file.touch()
    assert "is not a directory" in cause("file", path=str(file))
    assert [path.name for path in data.iterdir()] == ["a-file"]


def test_a_directory_of_a_service(tmp_path: Path, here: Host):
    server = {
        "ports": ["web"],
        "argv": ["python3", "-m", "http.server", "--bind", "127.0.0.1", "{{port.web}}"],
        "ready": {"tcp": "web"},
    }
    where = {"name": "d", "path": "{{dir}}", "service": "server"}
    trials = measure(tmp_path, here, directories=[where], services={"server": server}, **ONLY_NO_FORK)
    (trial,) = trials.values()
    assert trial.record.status == "ok", trial.record.cause
    assert "/services/" in trial.record.verified["directory"]


@pytest.mark.fault(17)
def test_a_hanging_job_is_ended_and_its_file_removed(tmp_path: Path, here: Host, data: Path):
    trials = measure(
        tmp_path, here, timeout="1s", size="1MiB", runtime="1h", directories=[{"name": "d", "path": str(data)}],
        **ONLY_GITLAB,
    )  # fmt: skip
    (trial,) = trials.values()
    assert trial.record.status == "timeout"
    assert "fio was ended at its timeout" in trial.record.cause
    failure = trial.record.failure
    assert (failure.cause, failure.name) == (Cause.TIMEOUT, "fio") and 1 <= failure.duration_s < 60
    assert list(data.iterdir()) == []


def test_a_job_that_fio_refuses_says_why(tmp_path: Path, here: Host, data: Path):
    refused = {"name": "d", "path": str(data)}
    bad = {"name": "odd", "rw": "write", "extra": {"iodepth_batch": "not-a-number"}}
    trials = measure(tmp_path, here, directories=[refused], jobs=[bad], page_jobs=[], small_files=[], size="1MiB")
    (trial,) = trials.values()
    assert trial.record.status == "failed"
    assert "fio exited with status 1" in trial.record.cause and "iodepth_batch" in trial.record.cause
    failure = trial.record.failure
    assert (failure.cause, failure.exit_status) == (Cause.EXITED, 1) and "iodepth_batch" in failure.said


@pytest.fixture
def without_fio(tmp_path: Path, here: Host) -> Host:
    """A host whose PATH has everything except fio."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "fio" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPATH={tools} exec python3 "$@"\n')
    python.chmod(0o755)
    return here.model_copy(update={"python": str(python)})


def test_fio_missing_names_the_package(tmp_path: Path, without_fio: Host, data: Path):
    where = {"name": "d", "path": str(data)}
    fio = {"page_jobs": ["gitlab"], "small_files": ["no-fork"], "size": "1MiB"}
    trials = measure(tmp_path, without_fio, directories=[where], **fio)
    cause = trials["test=fio,job=gitlab"].record.cause
    assert "fio cannot be started on the host: install the package fio (apt install fio" in cause
    assert trials["test=small-files,job=no-fork"].record.status == "ok", "the rest of the study goes on"
    checked = check(tmp_path, without_fio, directories=[where], **fio)
    assert (False, "fio is not installed") in checked


# --- check --------------------------------------------------------------------------------------------------


def check(tmp_path: Path, host: Host, **fio: Any) -> list[tuple[bool, str]]:
    config = study_of(host, **fio).families["fio"]
    return [(fine, what) for fine, what, _ in findings_of(FAMILY, config, host, "sut")]


def test_check_looks_without_measuring(tmp_path: Path, here: Host, data: Path):
    good, bad = {"name": "good", "path": str(data)}, {"name": "bad", "path": str(data), "expect_fs": "nfs4"}
    found = check(tmp_path, here, size="1MiB", directories=[good, bad])
    assert (True, f"directory good: {data} can be measured") in found
    assert [fine for fine, what in found if what.startswith("directory bad:")] == [False]
    assert any(fine and what.startswith("fio is ") for fine, what in found)
    assert list(data.iterdir()) == []


# --- import -------------------------------------------------------------------------------------------------


def test_existing_outputs_become_trials(tmp_path: Path):
    study = study_of({"loopback": True}, **directory())
    outcome = import_outputs(tmp_path, study, None, [DATA])
    trials = {path.name: trial.record for path, trial in outcome.imported}
    told = trials["fio-3.33-fdatasync-plus.json"].levels
    assert told["directory"] == "unknown" and told["job"] == "commit-log" and told["further"] == "fdatasync.1"
    assert trials["fio-2.2.10-page.txt"].imported_from == "fio-2.2.10-page.txt"
    full = trials["fio-3.33-disk-full.stdout"]
    assert full.status == "failed" and "error 28" in full.cause, "a failure is a result"
    causes = {path.name: cause for path, cause in outcome.refused}
    assert {"README.md", "no-fork.stdout", "shell-loop.stderr"} <= set(causes)

    tidy_family(tmp_path, [study.session("machine", "fio")], tmp_path / "tidy")
    observations = pl.read_parquet(tmp_path / "tidy" / "observations.parquet")
    reads = observations.filter(pl.col("metric") == "read_iops")["value"].to_list()
    assert any(int(value) == 33415 for value in reads)


def test_a_name_that_cannot_be_a_level_is_made_one(tmp_path: Path):
    hostile = tmp_path / "x.json"
    document = (DATA / "fio-3.33-page.json").read_text()
    hostile.write_text(document.replace('"jobname" : "test"', '"jobname" : "../; rm -rf $(x) é,a=b"'))
    (hostile_one,) = FAMILY.parse_import(hostile)
    assert re.fullmatch(r"rm--rf-x-a-b-[0-9a-f]{6}", hostile_one.levels["job"]), "no two names become one level"
    hostile.write_text(document[:1000])
    with pytest.raises(ParseError, match="truncated"):
        FAMILY.parse_import(hostile)
    hostile.write_bytes(b"\x00\xff something else")
    assert FAMILY.parse_import(hostile) == []


# --- judgement ----------------------------------------------------------------------------------------------


def test_the_pages_limit_and_the_stricter_one():
    times = {
        # An NFS server that answers in 0.6 ms: good enough for the page, not for the stricter limit.
        "directory=nfs,test=small-files,job=shell-loop": {"write": [0.7, 0.6, 0.8], "read": [3.0, 3.2, 3.1]},
        "directory=nfs,test=small-files,job=no-fork": {"write": [0.6, 0.6, 0.5], "read": [0.3, 0.3, 0.4]},
        "directory=slow,test=small-files,job=shell-loop": {"write": [9.0, 11.0], "read": [30.0, 31.0]},
    }
    rows = [
        {"target": "t", "case": case, "metric": f"{op}_time", "value": value}
        for case, ops in times.items()
        for op, values in ops.items()
        for value in values
    ]
    rows.append({"target": "t", "case": list(times)[2], "metric": "trial", "value": None})
    cases = [{"target": "t", "case": case, **dict(level.split("=") for level in case.split(","))} for case in times]
    judged = judge(pl.DataFrame(rows), pl.DataFrame(cases), PUBLISHED)
    found = {(r["directory"], r["job"], r["op"]): r for r in judged.iter_rows(named=True)}
    loop, floor = found["nfs", "shell-loop", "read"], found["nfs", "no-fork", "read"]
    assert (loop["n"], loop["within_page_limit"], loop["within_strict_limit"]) == (3, 3, None)
    assert (floor["within_page_limit"], floor["within_strict_limit"]) == (3, 2)
    assert found["nfs", "no-fork", "write"]["within_strict_limit"] == 0
    assert loop["not_storage"] == pytest.approx(1 - 0.3 / 3.1)
    assert found["nfs", "shell-loop", "write"]["not_storage"] is None, "its fastest trial is not slower than no-fork"
    slow = found["slow", "shell-loop", "write"]
    assert (slow["n"], slow["failed"], slow["within_page_limit"], slow["not_storage"]) == (2, 1, 1, None)


def test_a_directory_whose_trials_all_failed_is_neither_fast_nor_slow(bare_project):
    tables = Tables(bare_project, "embedded", "fio")
    of_page = {"test": "small-files", "job": "shell-loop"}
    for block in range(1, 4):
        tables.add({"directory": "good"} | of_page, block, {f"{op}_time": (0.2, "s") for op in ("write", "read")})
        tables.add({"directory": "bad"} | of_page, block, {}, status="failed", cause="disk full")
    results = tables.results()
    judged = judge(results.observed, results.cases, PUBLISHED)
    found = {answer["what"]: answer for answer in fast_enough.answered(results, judged, PUBLISHED)}
    written = found["1001 small files written, shell-loop"]
    assert {line["name"]: line["value"] for line in written["lines"]} == {"good": "200 ms", "bad": "–"}
    assert written["note"] == "good is fast by the published limit: 3 of 3 trials took less than 10.0 s."


def test_only_the_loop_that_reads_starts_processes(bare_project):
    tables, levels = Tables(bare_project, "embedded", "fio"), {"directory": "data", "test": "small-files"}
    for block in range(1, 4):
        for job, took_s in (("shell-loop", 0.4), ("no-fork", 0.1)):
            tables.add(levels | {"job": job}, block, {f"{op}_time": (took_s, "s") for op in ("write", "read")})
    results = tables.results()
    answers = fast_enough.answered(results, judge(results.observed, results.cases, PUBLISHED), PUBLISHED)
    notes = {answer["what"]: answer["note"].rpartition(": ")[2] for answer in answers}
    assert (
        notes["1001 small files read, shell-loop"]
        == "the loop starts a process for each file, so the disk may be faster."
    )
    assert notes["1001 small files written, shell-loop"] == "the shell itself takes it, so the disk may be faster."


def test_jobs_of_your_own_answer_if_the_pages_command_was_not_run(bare_project):
    tables = Tables(bare_project, "embedded", "fio")
    for job in ("sequential", "mixed"):
        for block in range(1, 4):
            tables.add({"directory": "data", "test": "fio", "job": job}, block, {"read_iops": (900.0 + block, "1/s")})
    results = tables.results()
    judged = judge(results.observed, results.cases, PUBLISHED)
    answers = fast_enough.answered(results, judged, PUBLISHED)
    title = results.declared("read_iops").title
    told = {answer["what"]: [(line["name"], line["value"]) for line in answer["lines"]] for answer in answers}
    assert told == {f"{title}, {job}": [("data", "902/s")] for job in ("sequential", "mixed")}


def test_a_synced_write_has_the_latency_of_its_sync_beside_it(bare_project, displayed):
    """The kernel takes each write in microseconds, and the storage stores it in milliseconds."""
    tables = Tables(bare_project, "embedded", "fio")
    for block in range(1, 4):
        levels = {"directory": "data", "test": "fio", "job": "log"}
        trial = tables.add(levels, block, {"write_clat_p50": (4e-6, "s"), "sync_lat_p50": (2e-3, "s")})
        key = {"target": "this-machine", "case": "directory=data,test=fio,job=log", "block": block, "trial": trial}
        for op, kind, low in (("write", "clat", 3.9e-6), ("write", "lat", 3.9e-6), ("sync", "lat", 1.9e-3)):
            bucket = {"op": op, "kind": kind, "lower_s": low, "upper_s": low * 1.1, "count": 100}
            tables.series["latency_histogram"] = [*tables.series.get("latency_histogram", []), key | bucket]
    page = tables.page()
    page.latency_table("latency", [50], kind="clat", caption="Latency")
    page.latency_cdf("cdf", series="directory", kind="clat", caption="Latency")
    shown = (bare_project / "reports/embedded/fio/tables/latency.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[2:5]] for line in shown.splitlines()[2:]]
    assert [(op, p50.split("<br>")[1]) for op, _, p50 in rows] == [
        ("sync", "trials: 2.00 ms"),
        ("write", "trials: 4.00 µs"),
    ]
    drawn = (bare_project / "reports/embedded/fio/figures/cdf.svg").read_text(encoding="utf-8")
    assert re.findall(r">(log: \w+)<", drawn) == ["log: sync", "log: write"]
    assert "Latency. The axis of latencies is logarithmic.</figcaption>" in displayed[-1]


def test_a_percentile_that_only_fast_trials_have_says_how_many_these_are(bare_project):
    """The slow trials make too few operations for a p99 of their own."""
    tables, histogram = Tables(bare_project, "embedded", "fio"), []
    for block, took_s in enumerate((0.03, 0.05, 0.05, 0.05), start=1):
        values = {"write_clat_mean": (took_s, "s"), "write_clat_p99": (took_s, "s")}
        given = dict(list(values.items())[: 2 if took_s < 0.04 else 1])
        tables.add({"directory": "data", "test": "fio", "job": "log"}, block, given)
        bucket = {"op": "write", "kind": "clat", "lower_s": took_s, "upper_s": took_s * 1.1, "count": 300}
        histogram.append(tables.head() | bucket)
    tables.series["latency_histogram"] = histogram
    tables.page().latency_table("latency", [99], kind="clat", caption="Latency")
    shown = (bare_project / "reports/embedded/fio/tables/latency.md").read_text(encoding="utf-8")
    assert "1 of 4 trials: 30.0 ms" in shown.splitlines()[2]


def test_the_page_judges_no_trial_that_was_measured_again(bare_project):
    """A disturbed trial of a minute was set aside, and another one stands for it."""
    tables, levels = Tables(bare_project, "embedded", "fio"), {"directory": "data", "test": "small-files"}
    for job, again in (("shell-loop", {"set_aside": "3-again"}), ("no-fork", {"status": "failed", "set_aside": "4"})):
        for block in range(1, 4):
            times = {f"{op}_time": (0.1 * block, "s") for op in ("write", "read")}
            tables.add(levels | {"job": job}, block, times, set_aside=None)
        tables.add(levels | {"job": job}, 3, {"write_time": (60.0, "s"), "read_time": (60.0, "s")}, **again)
    code = "\n".join(c.source for c in code_of(PROJECT / "notebooks" / "fio.ipynb") if "judged" in c.source)
    page = tables.page()
    shown = {"page": page, "pl": pl, "paths": paths, "small_files": small_files, "fast_enough": fast_enough}
    exec(code, shown)
    judged = shown["judged"].select("job", "op", "median_s", "page_says", "failed").rows()
    jobs = [(job, op) for job in ("shell-loop", "no-fork") for op in ("write", "read")]
    assert judged == [(*job, 0.2, "3 of 3 under 10.0 s", 0) for job in jobs]
    answers = json.loads((bare_project / "reports" / "embedded" / "fio" / "answer.json").read_text(encoding="utf-8"))
    told = {answer["what"]: (answer["lines"][0]["value"], answer["note"]) for answer in answers}
    by_page = "data is fast by the published limit"
    scaled = " (10.0 s, scaled by how much faster the published loop without forks was)"
    below = "3 of 3 trials took less than"
    assert told["1001 small files written, shell-loop"] == ("200 ms", f"{by_page}: {below} 10.0 s.")
    assert told["1001 small files read, no-fork"] == ("200 ms", f"{by_page}{scaled}: {below} 372 ms.")

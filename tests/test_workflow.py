"""The rule that must never break: only missing trials are measured, and only if that is requested."""

import json
import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import calm_study
import pytest
import warm_snakemake
from conftest import Project, copy_project
from planned import Job, following, jobs_in

from benchstudy.commands import cli

pytestmark = pytest.mark.usefixtures("own_host_lock")
STUDY = {
    "study": "tiny",
    "blocks": 1,
    "hosts": {"local": {"loopback": True, "work_dir": "/var/tmp/benchstudy-test-workflow"}},
    "targets": {"one": {"roles": {"sut": "local"}}},
    "families": {
        "file_size": {
            "backends": [{"name": "disk", "kind": "path", "path": "/var/tmp"}],
            "sizes": ["100KB"],
            "sync": ["fsync"],
            "cache": ["cold"],
            "operations": 2,
        }
    },
}


def study(**family):
    return STUDY | {"families": {"file_size": STUDY["families"]["file_size"] | family}}


def trials(project: Project) -> set[str]:
    """The folders of all committed trials."""
    return {f"{folder.parent.name}/{folder.name}" for folder in calm_study.sealed(project, STUDY, "one")}


def index(project: Project) -> dict:
    (file,) = project.root.glob("data/raw/tiny/one/*/session.json")
    return json.loads(file.read_text())


def report(project: Project, *arguments, **options) -> subprocess.CompletedProcess[str]:
    return project.snakemake("report", "--configfile", "config/study.yaml", *arguments, **options)


def measure(project: Project, *arguments, **options) -> subprocess.CompletedProcess[str]:
    return project.snakemake("measure", "--configfile", "config/study.yaml", *arguments, **options)


def planned(project: Project, *arguments) -> str:
    done = report(project, "-n", *arguments)
    return done.stdout + done.stderr


# Runs at the end of every Python process: how it was started, and the package's files that it imported. A fork for a
# job ends by `os._exit`. The process that forks may still be ending when the files are read.
TELLING = """
import atexit, json, os, sys
end = os._exit
def tell(*status):
    files = [getattr(module, "__file__", None) or "" for name, module in sys.modules.items() if "benchstudy" in name]
    told = os.path.join(os.environ["IMPORTED_INTO"], str(os.getpid()))
    with open(told, "w") as file:
        json.dump({"argv": sys.argv, "files": files}, file)
    os.rename(told, f"{told}.json")
    if status:
        end(*status)
if "IMPORTED_INTO" in os.environ:
    atexit.register(tell)
    os._exit = tell
"""
STARTING = """
import benchstudy.jobs.job, benchstudy.jobs.preloaded, benchstudy.jobs.running
from benchstudy.model import registry
registry.get("file_size")
"""


def imported_into(project: Project) -> Path:
    return project.root.parent / "imported"


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Project:
    """A project with the tiny study measured and reported, and what its jobs imported."""
    folder = tmp_path_factory.mktemp("workflow")
    project = copy_project(folder / "project")
    project.write_study(STUDY)
    telling = project.root / "src/sitecustomize.py"
    telling.write_text(TELLING)
    imported_into(project).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(folder / "host.lock"))
        patch.setenv("IMPORTED_INTO", str(imported_into(project)))
        project.run("python", "-c", STARTING)
        # The process that forks for jobs has to run the above, too: not that of all tests, but one that jobs start.
        patch.setattr(warm_snakemake, "_libraries", lambda: folder / "nothing")
        (folder / "said").write_text(report(project).stderr)
    telling.unlink()
    assert len(trials(project)) == 2  # cases
    assert (project.root / "reports/index.html").is_file()
    return project


def test_a_command_says_at_its_end_what_was_found_and_where_to_read_it(measured):
    lines = (measured.root.parent / "said").read_text().splitlines()
    at = lines.index("reports/tiny/index.html")
    state, found = lines[at - 2 : at]
    assert state.startswith("tiny: 2 trials, 0 failed; "), state
    assert re.fullmatch(r"  Files by size: Write.* ms \(n = 1.*\)", found), found


def test_nothing_changed_means_nothing_to_do(measured):
    assert "Nothing to be done" in planned(measured)


@pytest.fixture(scope="module")
def all_jobs(measured) -> list[Job]:
    return jobs_in(planned(measured, "-p", "--forceall"))


PAGES = {"make_page file_size", "build_index", "report"}


def test_jobs_import_nothing_beside_their_inputs_and_what_starts_them(measured, all_jobs):
    told = [json.loads(path.read_text()) for path in imported_into(measured).glob("*.json")]
    files = defaultdict(set)  # of a job and of the fork in which it continued
    for one in told:
        files[tuple(one["argv"])] |= {os.path.relpath(file, measured.root) for file in one["files"]}
    started = files[("-c",)]
    seen = set()
    for argv, imported in files.items():
        for job in all_jobs:
            if Path(argv[0]).stem == job.rule and (not job.of or job.of in argv) and imported:
                seen.add(job.name)
                assert imported - started - job.inputs == set(), job.name
    assert seen >= {"tidy_family file_size", *PAGES} - {"report"}


@pytest.mark.parametrize(
    ("module", "least"),
    [
        ("families/file_size/parse.py", {"tidy_family file_size", *PAGES}),
        ("statistics/change_points.py", PAGES),
        ("statistics/steady.py", PAGES),
        ("model/criteria.py", PAGES),
        ("statistics/within_trial.py", {"make_page published"}),
        ("model/questions.py", {"build_index"}),
        ("families/fio/fio_json.py", set()),
        ("measuring/session.py", set()),
    ],
)
def test_an_edit_makes_the_jobs_due_that_import_the_module(measured, all_jobs, module, least):
    """Runs before anything else is edited here. It tries a few of the claims of test_job_inputs.py.

    The edited file has the time of the old one, as `rsync -a` brings it.
    """
    path = measured.root / "src/benchstudy" / module
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content + b"\n# edited\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        due = {job.name for job in jobs_in(planned(measured, "-p"))}
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert due == following(all_jobs, f"src/benchstudy/{module}")
    assert due >= least and bool(due) == bool(least)


def test_an_edit_of_what_pages_show_makes_them_again_and_measures_nothing(measured):
    study = (measured.root / "config/study.yaml").read_text()
    try:
        measured.write_study({**STUDY, "authors": [{"name": "A. Author"}], "disturbance": {"limit": "50 %"}})
        jobs = {job.name for job in jobs_in(planned(measured, "-p"))}
    finally:
        (measured.root / "config/study.yaml").write_text(study)
    # The limit decides which trials the tables mark.
    assert jobs >= {"tidy_family file_size", "make_page file_size", "make_page published", "build_index"}
    assert not [job for job in jobs if job.startswith(("measure_session", "provision_target"))]


def test_a_role_that_moves_to_another_host_has_its_session_looked_at_again(measured):
    study = (measured.root / "config/study.yaml").read_text()
    try:
        hosts = {**STUDY["hosts"], "other": {"address": "other.example"}}
        measured.write_study({**STUDY, "hosts": hosts, "targets": {"one": {"roles": {"sut": "other"}}}})
        assert "measure_session" in {job.rule for job in jobs_in(planned(measured, "-p"))}
    finally:
        (measured.root / "config/study.yaml").write_text(study)
    assert planned(measured, "-p").count("measure_session") == 0


def test_a_host_with_another_address_is_provisioned_if_something_is_missing_there(measured):
    study = (measured.root / "config/study.yaml").read_text()
    moved = {**STUDY, "hosts": {"local": {"address": "other.example"}}}
    try:
        measured.write_study(moved)
        complete = {job.rule for job in jobs_in(planned(measured, "-p"))}
        measured.write_study(moved | {"blocks": 2})
        lacking = {job.rule for job in jobs_in(planned(measured, "-p"))}
    finally:
        (measured.root / "config/study.yaml").write_text(study)
    assert complete.isdisjoint({"provision_target", "measure_session"})
    assert lacking >= {"provision_target", "measure_session"}


def test_tables_follow_the_content_of_an_index_whatever_its_time(measured):
    (index,) = measured.root.glob("data/raw/tiny/one/*/session.json")
    content, times = index.read_bytes(), index.stat()
    earlier = (times.st_atime_ns, times.st_mtime_ns - 3600 * 10**9)
    try:
        os.utime(index, ns=earlier)
        assert {job.rule for job in jobs_in(planned(measured, "-p"))} <= {"confirm_sessions", "report"}
        index.write_bytes(content + b"\n")
        os.utime(index, ns=earlier)  # as `rsync -a` brings what another machine has measured
        due = {job.rule for job in jobs_in(planned(measured, "-p"))}
    finally:
        index.write_bytes(content)
        os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert due >= {"tidy_family", "make_page", "build_index"} and "measure_session" not in due


def test_a_forced_run_adopts_everything_and_connects_to_nothing(measured):
    before, sessions = trials(measured), len(index(measured)["sessions"])
    measure(measured, "--forcerun", "measure_session")
    assert trials(measured) == before
    assert len(index(measured)["sessions"]) == sessions


def test_measure_false_plans_no_session_whatever_is_missing(measured):
    (measured.root / "config/more.yaml").write_text((measured.root / "config/study.yaml").read_text())
    for value in ("false", "False", "no"):
        plan = planned(measured, "--config", f"measure={value}", "blocks=9")
        assert "measure_session" not in plan
    done = report(measured, "--config", "measure=perhaps", check=False)
    assert done.returncode != 0
    assert "Error: --config: measure: 'perhaps': write true or false" in done.stdout + done.stderr


def test_a_study_that_is_refused_is_named_with_its_file_and_the_line(measured):
    study = (measured.root / "config/study.yaml").read_text()
    (measured.root / "config/wrong.yaml").write_text(f"blocks: -1\n{study.replace('blocks:', 'seed:')}")
    done = measured.snakemake("report", "--configfile", "config/wrong.yaml", check=False)
    assert done.returncode == 1 and "config/wrong.yaml: line 1: blocks: " in done.stdout + done.stderr


def test_measure_false_with_nothing_measured_says_so(measured):
    done = report(measured, "--config", "measure=false", "study=another", check=False)
    assert done.returncode != 0
    assert "study 'another' has no measured data of: file_size on one" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def flip(path: Path) -> bytes:
    """Flip one bit, and keep the file's times and size; returns the previous content."""
    content, times = path.read_bytes(), path.stat()
    path.chmod(0o644)
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return content


def state_of(project: Project) -> dict[str, tuple[int, int]]:
    """The state of every file that a command might touch."""
    files = (path for name in ("data", "reports", ".benchstudy") for path in (project.root / name).rglob("*"))
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files if path.is_file()}


@pytest.mark.fault(30)
def test_a_flipped_bit_is_refused_with_its_file_when_everything_is_up_to_date(measured, monkeypatch, capsys):
    entry = index(measured)["trials"][0]
    path = measured.root / "data/raw/tiny/one/file_size" / entry["path"] / "stdout"
    content = flip(path)
    before = state_of(measured)
    plan = planned(measured)
    name = path.relative_to(measured.root)
    assert f"compare with their SHA-256: {name}" in plan and "rule confirm_sessions:" in plan
    assert not any(f"rule {rule}:" in plan for rule in ("measure_session", "tidy_family", "make_page"))
    assert "Nothing to be done" not in planned(measured, "--config", "measure=false")
    for arguments in (("--summary",), ("--dag",)):
        report(measured, *arguments)
    assert state_of(measured) == before, "who looks on writes nothing"
    for arguments in ((), ("--config", "measure=false"), ("--forcerun", "tidy_family")):
        done = report(measured, *arguments, check=False)
        told = done.stdout + done.stderr
        assert done.returncode != 0 and f"{name}: altered" in told
        assert (
            f"benchstudy discard {entry['uuid'][:8]}" in told
            and "rule tidy_family:" not in told.partition("altered")[2]
        )
    monkeypatch.chdir(measured.root)
    assert cli.main(["verify", "config/study.yaml"]) == 1 and f"{name}: altered" in capsys.readouterr().err
    path.write_bytes(content)
    report(measured)
    assert "Nothing to be done" in planned(measured)
    path.touch()
    report(measured)
    assert "Nothing to be done" in planned(measured)


@pytest.mark.fault(36)
def test_what_is_remembered_of_raw_files_may_be_deleted(measured):
    shutil.rmtree(measured.root / ".benchstudy/studies/tiny/confirmed")
    assert "rule confirm_sessions:" in planned(measured)
    report(measured)
    assert "Nothing to be done" in planned(measured)


def test_a_case_described_anew_is_not_measured_again_by_itself(measured):
    before = trials(measured)
    original = (measured.root / "config/study.yaml").read_text()
    measured.write_study(study(operations=3))
    done = measure(measured, check=False)
    (measured.root / "config/study.yaml").write_text(original)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "describes this case differently (operations changed)" in told
    assert re.search(r"`benchstudy discard --case \S+ --why … --study config/study\.yaml`", told)
    assert trials(measured) == before
    measure(measured)


def discard(project: Project, trial: dict, why: str, monkeypatch, capsys) -> str:
    monkeypatch.chdir(project.root)
    assert cli.main(["discard", trial["uuid"][:8], "--why", why, "--study", "config/study.yaml"]) == 0
    return capsys.readouterr().out


def test_a_discarded_trial_is_kept_and_replaced_by_one(measured, monkeypatch, capsys):
    before = trials(measured)
    chosen = index(measured)["trials"][0]
    said = discard(measured, chosen, "a backup was running", monkeypatch, capsys)
    assert "`snakemake --cores 8 report --configfile config/study.yaml` measures them again" in said
    measured.snakemake("measure", "reports/tiny/file_size.html", "--configfile", "config/study.yaml")
    (replacement,) = trials(measured) - before
    assert before < trials(measured)
    assert replacement.startswith(f"{chosen['case']}/{chosen['block']:04d}-")
    (discarded,) = index(measured)["discarded"]
    assert (discarded["uuid"], discarded["why"]) == (chosen["uuid"], "a backup was running")
    assert "a backup was running" in (measured.root / "reports/tiny/file_size.html").read_text()


def test_damaged_trials_that_are_discarded_are_measured_again(measured, monkeypatch, capsys):
    before, gone = trials(measured), [entry["uuid"] for entry in index(measured)["discarded"]]
    entries = [entry for entry in index(measured)["trials"] if entry["uuid"] not in gone]
    for entry, file in zip(entries, ("trial.json", "stdout"), strict=True):
        flip(measured.root / "data/raw/tiny/one/file_size" / entry["path"] / file)
    for entry in entries:
        discard(measured, entry, "its disk was failing", monkeypatch, capsys)
    measure(measured)
    replaced = {replacement.rpartition("-")[0] for replacement in trials(measured) - before}
    assert replaced == {f"{entry['case']}/{entry['block']:04d}" for entry in entries}
    assert {entry["uuid"] for entry in entries} <= {discarded["uuid"] for discarded in index(measured)["discarded"]}
    done = measure(measured, "-n")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_adding_a_block_or_a_case_measures_only_what_is_new(measured):
    before = trials(measured)
    measured.write_study(STUDY | {"blocks": 2})
    measure(measured)
    after_block = trials(measured)
    assert before < after_block
    assert all("/0002-" in trial for trial in after_block - before)
    measured.write_study(study(sizes=["100KB", "200KB"]) | {"blocks": 2})
    measure(measured)
    new = trials(measured) - after_block
    assert len(new) == 4
    assert all("size=200KB" in trial for trial in new)


CODE = ("notebooks/*.ipynb", "src/benchstudy/**/*.py", "workflow/scripts/*.py", "workflow/**/*.smk")


def edit(file: Path) -> None:
    if file.suffix != ".ipynb":
        file.write_text(file.read_text() + "\n# edited\n")
        return
    notebook = json.loads(file.read_text())
    notebook["cells"].append({"cell_type": "markdown", "id": f"n{time.time_ns()}", "metadata": {}, "source": "!"})
    file.write_text(json.dumps(notebook))


@pytest.mark.parametrize("change", [Path.touch, edit])
def test_no_edit_of_code_and_no_touch_plans_a_measurement(measured, change):
    for pattern in CODE if change is edit else (*CODE, "envs/*.py"):
        files = sorted(measured.root.glob(pattern))
        assert files
        for file in files:
            change(file)
    plan = planned(measured)
    assert "measure_session" not in plan
    assert "provision_target" not in plan


def test_an_edit_of_what_is_installed_provisions_and_adopts_everything(measured):
    """Provisioning comes before measuring, so Snakemake plans the job that then adopts everything."""
    for file in measured.root.glob("envs/*.py"):
        edit(file)
    assert "provision_target" in planned(measured)
    before = trials(measured)
    measure(measured)
    assert trials(measured) == before

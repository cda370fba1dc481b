"""A command does only what is asked, the quick part first, announces it, and loses nothing that works."""

import io
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from conftest import TOOL_STORE, Project, copy_project
from planned import jobs_in
from test_tools import PYTHON_TOOL, REQUIREMENTS

from benchstudy.commands import cli
from benchstudy.commands import plan as plans
from benchstudy.measuring.raw import NOT_HELD
from benchstudy.model import paths
from benchstudy.model.studyfile import parse_study

SCREEN = 50  # lines


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A fresh copy, in which only dry runs happen."""
    return copy_project(tmp_path_factory.mktemp("clone") / "project")


def test_a_page_provisions_and_measures_its_own_family_alone(clone):
    jobs = {job.name: job for job in jobs_in(clone.snakemake("-n", "-p", "reports/embedded/fio.html").stdout)}
    assert set(jobs) == {
        *("provision_target this-machine fio", "measure_session this-machine fio", "tidy_family fio", "make_page fio")
    }
    deploys = {file for file in jobs["provision_target this-machine fio"].inputs if re.fullmatch(r"envs/\w+\.py", file)}
    assert deploys == {"envs/common.py", "envs/fio.py"}


def test_families_that_build_nothing_come_first_with_their_pages(clone):
    printed = clone.snakemake("-n", "-p", "report").stdout
    found = re.findall(
        r"rule (\w+):\n(?:    .*\n)*?    wildcards: .*?(?:family|page)=(\w+)\n    priority: (\d+)", printed
    )
    turn: dict[str, set[int]] = {}
    for rule, family, priority in found:
        if rule != "tidy_family":
            turn.setdefault(family, set()).add(int(priority))
    assert {rule for rule, _, _ in found} == {"provision_target", "measure_session", "tidy_family", "make_page"}
    assert all(len(priorities) == 1 for priorities in turn.values()), "a family's jobs stay together"
    (fio,), (file_size,), *others = (turn.pop("fio"), turn.pop("file_size"), *turn.values())
    assert fio > file_size > max(max(other) for other in others), "one of its tables is on the other's page"
    of_tables = [int(priority) for rule, _, priority in found if rule == "tidy_family"]
    assert min(of_tables) > fio, "whatever its family, the page of measured trials waits for no other measurement"


def test_a_dry_run_fits_on_a_screen(clone):
    done = clone.snakemake("-n", "reports/embedded/fio.html", "reports/embedded/file_size.html")
    lines = (done.stdout + done.stderr).splitlines()
    assert len([line for line in lines if line.startswith("rule ")]) == 8
    assert len(lines) < SCREEN and max(map(len, lines)) < 200
    assert "rule measure_session: target=this-machine, family=fio: Missing output files: data/raw" in done.stdout


# -- two families, one of which needs a program that is built ----------------------


def study(tmp: Path) -> dict[str, Any]:
    tool = {"argv": ["{{tools}}/wheel", "version"], "ready": {"file": "{{dir}}/never"}}
    return {
        "study": "two",
        "blocks": 1,
        "hosts": {"local": {"loopback": True, "work_dir": str(tmp / "work")}},
        "targets": {"one": {"roles": {"sut": "local"}}},
        "families": {
            "file_size": {
                "backends": [{"name": "disk", "kind": "path", "path": str(tmp)}],
                "sizes": ["100KB"],
                "sync": ["fsync"],
                "cache": ["cold"],
                "operations": 2,
                "services": {"never-started": tool},
            },
            "fio": {
                "directories": [{"name": "disk", "path": str(tmp)}],
                "size": "1MiB",
                "runtime": "1s",
                "page_jobs": ["gitlab"],
                "small_files": [],
            },
        },
    }


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """The project, and the output after the page of the family that needs no build was requested."""
    folder = tmp_path_factory.mktemp("asked")
    project = copy_project(folder / "project")
    project.write_study(study(folder))
    (project.root / "envs/file_size.py").write_text(PYTHON_TOOL)
    (project.root / "envs/wheel-requirements.txt").write_text(REQUIREMENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(folder / "host.lock"))
        patch.delenv(TOOL_STORE, raising=False)
        return project, run(project, "reports/two/fio.html")


def run(project: Project, *arguments: str, **options: Any) -> str:
    done = project.snakemake(*arguments, "--configfile", "config/study.yaml", **options)
    return done.stdout + done.stderr


@pytest.fixture(autouse=True)
def host_lock_of_this_test(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path / "host.lock"))
    monkeypatch.delenv(TOOL_STORE, raising=False)


def planned(project: Project, *arguments: str) -> set[str]:
    return {job.name for job in jobs_in(run(project, "-n", "-p", *arguments))}


def test_what_nobody_asked_for_is_not_built(asked):
    project, said = asked
    assert "To build" not in said and (project.root / "reports/two/fio.html").is_file()
    assert not (project.root.parent / "work" / "tools").exists()
    facts = json.loads((project.root / "data/provision/two/one/fio.json").read_text())
    assert facts["families"] == ["fio"] and "fio" in facts["hosts"]["local"]["packages"]
    assert not (project.root / "data/provision/two/one/file_size.json").exists()


def test_measure_false_refuses_only_what_the_asked_page_needs(asked):
    project, _ = asked
    page = project.root / "reports/two/fio.html"
    kept = page.rename(page.with_suffix(".kept"))
    assert planned(project, "reports/two/fio.html", "--config", "measure=false") == {"make_page fio"}
    kept.rename(page)
    said = run(project, "report", "--config", "measure=false", check=False)
    assert "study 'two' has no measured data of: file_size on one. " in said
    assert "no measured data" in run(project, "reports/two/file_size.html", "--config", "measure=false", check=False)


@pytest.fixture(scope="module")
def reported(asked) -> tuple[Project, str]:
    """The same project, and the output after everything was requested."""
    project, _ = asked
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(project.root.parent / "host.lock"))
        patch.delenv(TOOL_STORE, raising=False)
        # As on a fresh clone, nothing of the other family exists either.
        for made in ("data/provision", "data/tidy", "reports"):
            shutil.rmtree(project.root / made)
        return project, run(project, "report")


def test_it_says_what_it_builds_before_it_begins_and_builds_it_last(reported):
    _, said = reported
    first_job = said.index("rule ")
    assert re.search(
        r"To build on local, about 0:08 in total, after everything that needs no build: wheel 0:08", said[:first_job]
    )
    page, build = re.search(r"rule make_page: page=fio", said), re.search(r"wheel 0.45.1: building", said)
    assert page and build and page.start() < build.start()


def test_what_was_deleted_is_made_again(reported):
    project, _ = reported
    made = [project.root / "reports/two" / name for name in ("fio.html", "fio", "notebooks/fio.ipynb", "index.html")]
    aside = project.root / "aside"
    for path in made:
        path.rename(aside)
        due = planned(project, "report")
        assert due >= {"build_index" if path.name == "index.html" else "make_page fio"}
        assert not {name for name in due if name.startswith(("measure", "provision", "tidy"))}
        aside.rename(path)
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    run(project, "report")
    assert all(path.exists() for path in made) and planned(project, "report") == set()


OF_PAGE = ("two/fio.html", "two/fio/overview.json", "two/fio/tables/trials.csv", "two/notebooks/fio.ipynb")
OF_FIRST_PAGE = ("two/study.json", "two/CITATION.cff", "two/methods.md", "two/index.html", "two.zip")


@contextmanager
def cut_off(file: Path, size: int = 10) -> Iterator[None]:
    content, times = file.read_bytes(), file.stat()
    os.truncate(file, size)
    try:
        yield
    finally:
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def state_below(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.fault(36)
def test_what_was_cut_off_is_planned_again_and_planning_writes_nothing(reported):
    project, _ = reported
    reports, of_study = project.root / "reports", project.root / ".benchstudy/studies/two"
    first = {"build_index", "list_studies", "report"}
    for name in OF_PAGE:
        before = state_below(of_study)
        with cut_off(reports / name):
            said = run(project, "report", "-n", "-p")
            assert {job.name for job in jobs_in(said)} == {"make_page fio", *first}, name
        assert f"Made again, because altered or removed: reports/{name}" in said
        assert state_below(of_study) == before
    for name in OF_FIRST_PAGE:
        with cut_off(reports / name):
            assert planned(project, "report") == first, name
    with cut_off(reports / "index.html"):
        assert planned(project, "report") == {"list_studies", "report"}
    assert planned(project, "report") == set()


@pytest.mark.fault(36)
def test_what_was_cut_off_is_made_again_and_what_somebody_added_stays(reported):
    project, _ = reported
    reports, mine = project.root / "reports", [project.root / f"reports/two{of}" for of in ("/mine.txt", ".pdf")]
    files = [reports / name for name in (*OF_PAGE, *OF_FIRST_PAGE)]
    whole = {file: file.stat().st_size for file in files}
    for file in mine:
        file.write_text("mine")
    (reports / "two/fio/mine.txt").write_text("mine")
    assert planned(project, "report") == set()
    for file in files:
        os.truncate(file, 10)
    run(project, "report")
    assert {file: file.stat().st_size for file in files} == whole
    assert all(file.read_text() == "mine" for file in mine)
    run(project, "report", "--touch")
    assert planned(project, "report") == set()


@pytest.mark.fault(36)
def test_a_crate_that_was_cut_off_is_packed_again(reported):
    project, _ = reported
    run(project, "crate")
    assert planned(project, "crate") == set()
    with cut_off(project.root / "reports/two.crate.zip"):
        assert planned(project, "crate") == {"build_crate", "crate"}
        assert planned(project, "report") == set()


def content(project: Project) -> dict[Path, bytes]:
    """The state of the page with its figures, tables and executed notebook."""
    folder = project.root / "reports/two"
    files = [folder / "fio.html", folder / "notebooks/fio.ipynb", *(folder / "fio").rglob("*")]
    return {file: file.read_bytes() for file in files if file.is_file()}


def test_a_notebook_that_fails_says_its_line_in_words_and_leaves_the_last_good_page(reported):
    project, _ = reported
    path, before = project.root / "notebooks/fio.ipynb", content(project)
    assert len(before) > 5
    good, times = path.read_text(), path.stat()
    notebook = json.loads(good)
    table = 'page.metrics_table("by-block", ["read_iops"], rows=["block"], caption="By block")'
    cell = {"cell_type": "code", "id": "wrong", "metadata": {}, "outputs": [], "execution_count": None}
    cell["source"] = f"# A table by block.\n{table}"
    path.write_text(json.dumps(notebook | {"cells": [*notebook["cells"], cell]}))
    try:
        said = run(project, "reports/two/fio.html", check=False)
    finally:
        path.write_text(good)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # otherwise it would be due because it is newer
    words = r"fio\.ipynb: cell \d+, line 2, `page\.metrics_table\(.*`: no factor 'block'; known: directory"
    assert re.search(words, said), said
    assert content(project) == before
    said = run(project, "report", "-n", "-p")
    assert "make_page fio" in {job.name for job in jobs_in(said)} and "altered" not in said
    run(project, "reports/two/fio.html")
    assert set(content(project)) == set(before)


def test_a_notebook_without_cells_makes_an_empty_page(reported):
    """Snakemake would delete the page if its folder of exports were missing."""
    project, _ = reported
    path = project.root / "notebooks/fio.ipynb"
    good, times = path.read_text(), path.stat()
    path.write_text(json.dumps(json.loads(good) | {"cells": []}))
    try:
        run(project, "reports/two/fio.html")
        assert (project.root / "reports/two/fio").is_dir() and (project.root / "reports/two/fio.html").is_file()
    finally:
        path.write_text(good)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    run(project, "report")


def test_a_first_page_that_cannot_be_made_leaves_the_last_good_files(reported):
    project, _ = reported
    reports, broken = project.root / "reports", project.root / "reports/two/fio/overview.json"
    good, times = broken.read_text(), broken.stat()
    made = [reports / name for name in ("two.zip", "two/index.html", "two/study.json", "two/CITATION.cff")]
    before = [file.read_bytes() for file in made]
    record = paths.made(project.root, "two", "fio")
    whole = record.read_text()
    record.unlink()  # as if an earlier version had made the page
    broken.write_text("")
    try:
        assert "Error" in run(project, "report", "--forcerun", "build_index", check=False)
        log = (project.root / "logs/build_index/two.log").read_text()
        assert "two/fio/overview.json: cut off or damaged; the next `snakemake --cores 8 report --configfile" in log
        assert "Traceback" not in log
        assert planned(project, "report") == {"make_page fio", "build_index", "list_studies", "report"}
    finally:
        record.write_text(whole)
        broken.write_text(good)
        os.utime(broken, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [file.read_bytes() for file in made] == before


def test_what_the_study_measured_on_another_target_once_is_not_on_its_pages(reported):
    project, _ = reported
    raw, before = project.root / "data/raw/two", content(project)
    session = json.loads((raw / "one/fio/session.json").read_text())
    for held in session["sessions"]:
        held["started"] = "2001" + held["started"][4:]
        held["declared"].setdefault("thresholds", {})["margin"] = 0.6
    gone = raw / "gone/fio/session.json"
    gone.parent.mkdir(parents=True)
    gone.write_text(json.dumps(session))
    try:
        run(project, "reports/two/fio.html", "--forcerun", "make_page")
        made = content(project)
        assert {file for file in before if made.get(file) != before[file]} == set()
    finally:
        shutil.rmtree(raw / "gone")


def test_what_a_killed_command_was_making_anew_is_there_again(reported):
    """Snakemake keeps a copy of each, and would stumble over it."""
    project, _ = reported
    names = ("two/fio.html", "two.zip")
    folders = (project.root / "reports", project.root / ".snakemake/backups/reports")
    made, kept = ([folder / name for name in names] for folder in folders)
    whole = [file.read_bytes() for file in made]
    for file, copy, content in zip(made, kept, whole, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        file.write_bytes(content[: len(content) // 2])
    run(project, "reports/index.html", "--forcerun", "list_studies")
    assert [file.read_bytes() for file in made] == whole and not any(copy.exists() for copy in kept)


def test_a_file_whose_time_lies_in_the_future_fails_no_job(reported):
    """As a clock that differs makes it. Its page was put back by each command."""
    project, _ = reported
    notebook, page = project.root / "notebooks/fio.ipynb", project.root / "reports/two/fio.html"
    times, before = notebook.stat(), page.stat().st_mtime_ns
    notebook.write_bytes(notebook.read_bytes() + b"\n")
    os.utime(notebook, (time.time(), time.time() + 7200))
    try:
        said = run(project, "report")
        assert "notebooks/fio.ipynb: its time lies in the future" in said
        assert page.stat().st_mtime_ns > before and planned(project, "report") == set()
    finally:
        os.utime(notebook, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_each_study_of_a_project_leaves_the_pages_of_the_others_and_what_is_removed_is_not_listed(reported):
    project, _ = reported
    tmp, reports = project.root.parent, project.root / "reports"
    first, only = (project.root / "config/study.yaml").read_text(), (reports / "index.html").read_bytes()
    project.write_study(study(tmp) | {"study": "second", "families": {"fio": study(tmp)["families"]["fio"]}})
    try:
        run(project, "report")
        listed = (reports / "index.html").read_text()
        assert "./two/index.html" in listed and "./second/index.html" in listed
        assert planned(project, "report") == set()
    finally:
        (project.root / "config/study.yaml").write_text(first)
    assert planned(project, "report") == set()
    (reports / "second/index.html").unlink()
    assert planned(project, "report") == {"list_studies", "report"}
    shutil.rmtree(reports / "second")
    assert planned(project, "report") == {"list_studies", "report"}
    run(project, "report")
    assert (reports / "index.html").read_bytes() == only


# -- what a command would do ----------------------------------------------------------------------------------


def test_a_plan_says_what_is_measured_built_and_written_and_does_nothing(reported):
    project, _ = reported
    study_file = project.root / "config/study.yaml"
    good = study_file.read_text()
    before = {path: path.stat().st_mtime_ns for path in (project.root / "data").rglob("*")}
    try:
        study_file.write_text(good.replace("blocks: 1", "blocks: 3"))
        told = json.loads(plan(project, "config/study.yaml", "--json"))
        words = plan(project, "config/study.yaml")
    finally:
        study_file.write_text(good)
    sessions = {session["family"]: session for session in told["sessions"]}
    assert (sessions["fio"]["trials"], sessions["fio"]["adopted"], sessions["fio"]["source"]) == (2, 1, "seen")
    assert (sessions["file_size"]["trials"], sessions["file_size"]["adopted"]) == (4, 2)
    assert 2 < sessions["fio"]["seconds"] < 20 and told["hosts"]["local"]["builds"] == {}
    assert told["writes"]["here"][0] == "data/raw/two" and str(project.root.parent) in told["writes"]["local"]
    assert "fio on one: 2 trials to measure, 1 adopted: about 0:0" in words and " as seen" in words
    assert {path: path.stat().st_mtime_ns for path in (project.root / "data").rglob("*")} == before


@pytest.mark.parametrize(("clients", "written"), [({}, ["s"]), ({"clients": [1, 2]}, ["a", "b"])])
def test_a_plan_names_the_folders_of_the_hosts_that_write_there(tmp_path, clients, written):
    study = parse_study(
        {
            "study": "disks",
            "hosts": {name: {"address": name} for name in "sabc"},
            "targets": {"t": {"roles": {"sut": "s", "load": ["a", "b", "c"]}}},
            "families": {"fio": {"directories": [{"name": "disk", "path": "/disk"}], "small_files": [], **clients}},
        }
    )
    writes = plans.planned(study, tmp_path, look=False)["writes"]
    assert [host for host, folders in writes.items() if "/disk" in folders] == written


def test_a_plan_looks_at_each_case_once_however_many_hosts_there_are(tmp_path, monkeypatch):
    hosts = {f"h{number}": {"address": "192.0.2.1"} for number in range(9)}
    targets = {name: {"roles": {"sut": name}} for name in hosts}
    families = {"command": {"commands": [{"name": "true", "argv": ["true"]}]}}
    study = parse_study({"study": "fleet", "hosts": hosts, "targets": targets, "families": families})
    asked, hosts_of = [], plans._hosts_of
    monkeypatch.setattr(plans, "_hosts_of", lambda plan, case: asked.append(plan.target) or hosts_of(plan, case))
    assert set(plans.planned(study, tmp_path, look=False)["writes"]) == {"here", *hosts}
    assert asked == list(hosts)


def plan(project: Project, *words: str) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.chdir(project.root)
        assert cli.main(["plan", *words]) == 0
    return said.getvalue()


def test_a_plan_knows_what_is_to_be_built_and_downloaded(reported):
    """And about how long: as long as the last build with this name, here a wheel of another version."""
    project, _ = reported
    good = (project.root / "envs/file_size.py").read_text()
    try:
        (project.root / "envs/file_size.py").write_text(good.replace("txt'))", "txt'), module='wheel.cli')"))
        told = json.loads(plan(project, "config/study.yaml", "--json"))["hosts"]["local"]
    finally:
        (project.root / "envs/file_size.py").write_text(good)
    (built,) = (project.root.parent / "work" / "tools").glob("wheel-*/tool.json")
    assert told["builds"] == {"wheel": json.loads(built.read_text())["built_in_s"]}
    assert told["downloads"] == {"wheel": "1 wheel"} and told["installs"] == []


def test_a_plan_of_a_fresh_clone_goes_by_declared_times(clone):
    said = plan(clone, "--no-hosts")
    assert "log_write on this-machine: 18 trials to measure, 0 adopted: about 1:30 as declared" in said
    assert "file_size on this-machine: 228 trials to measure, 0 adopted: 228 with no declared time" in said
    assert "in total at least " in said


def test_what_is_there_is_not_announced(reported):
    project, _ = reported
    (project.root / "data/provision/two/one/file_size.json").unlink()
    said = run(project, "provision")
    assert "rule provision_target: target=one, family=file_size" in said and "To build" not in said


def test_after_a_discard_measure_false_reports_what_is_left_and_measures_nothing(reported):
    project, _ = reported
    (trial,) = (project.root / "data/raw/two/one/fio").glob("*/0001-*")
    index = project.root / "data/raw/two/one/fio/session.json"
    listed = project.root / "data/raw/two/one/file_size/session.json"
    before = listed.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        assert cli.main(["discard", trial.name[-8:], "--why", "a test"]) == 0
    assert not index.exists()
    due = planned(project, "report", "--config", "measure=false")
    (listing,) = {name for name in due if name.startswith(("list_session", "measure", "provision"))}
    assert listing.startswith("list_session_")
    said = run(project, "report", "--config", "measure=false", check=False)
    assert f"fio on one: {NOT_HELD}" in said
    assert trial.name[-8:] in json.loads(index.read_text())["discarded"][0]["uuid"]
    assert "a test" in (project.root / "reports/two/fio.html").read_text()
    assert listed.read_bytes() == before
    assert "measure_session one fio" in planned(project, "report")

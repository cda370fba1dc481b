"""Several commands in one project: looking is always possible, and commands that do not meet run at the same time."""

import errno
import inspect
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import calm_study
import pytest
from calm_study import sealed
from conftest import CHECKOUT, Project, copy_project
from sshd_hosts import SshdHost
from waiting import until
from warm_snakemake import Started

from benchstudy.measuring.beside import Beside
from benchstudy.measuring.progress import under_way
from benchstudy.model import machine
from benchstudy.model.files import now

LOOK = [("-n", "report"), ("--summary",), ("--dag",), ("--list-rules",), ("--unlock",), ("--report", "seen.html")]


def test_a_process_that_was_given_the_number_of_an_ended_one_is_another(tmp_path):
    noted, progress = tmp_path / "beside", tmp_path / f"{machine.process()}.json"
    command = {"pid": os.getpid(), "study": "other"}
    noted.write_text(json.dumps(command | {"since": "2020-01-01T00:00:00.000+00:00"}) + "\n")
    assert list(Beside(noted).news()) == [], "it ended years ago, and this process was given its number"
    noted.write_text(json.dumps(command | {"since": now()}) + "\n")
    assert "study other" in next(Beside(noted).news())
    state = {"session": "fio on one", "adaptive": False, "done": 0}
    progress.write_text(json.dumps(state))
    assert under_way(tmp_path) == ["fio on one, ? left"]
    os.utime(progress, (0, 0))
    assert under_way(tmp_path) == [] and not progress.exists()


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Iterator[dict[str, Any]]:
    """This machine as a host. Another suite on it must not look like a second controller."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path_factory.mktemp("lock") / "host.lock"))
        yield {"loopback": True}


def study(name: str, host: Mapping[str, Any], folder: Path, blocks: int = 1) -> dict[str, Any]:
    commands = [{"name": text, "argv": ["echo", text], "warm_up": 0, "repeat": 1} for text in ("a", "b")]
    return {
        "study": name,
        "blocks": blocks,
        "hosts": {"there": {"work_dir": str(folder / f"work-{name}")} | host},
        "targets": {"one": {"roles": {"sut": "there"}}},
        "families": {"command": {"commands": commands}},
    }


def endless(name: str, host: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A study that measures until it is interrupted."""
    return study(name, host, folder, blocks=1000) | {"families": calm_study.asleep()}


@contextmanager
def measuring(project: Project, declared: Mapping[str, Any]) -> Iterator[Started]:
    """A measurement with one trial done and far from its end; Ctrl-C ends it."""
    file = project.write_study(declared, f"{declared['study']}.yaml")
    process = project.start("measure", "--configfile", file)
    try:
        until(lambda: process.poll() is not None or sealed(project, declared, "one"), timeout_s=180)
        assert process.poll() is None, process.stdout.read()
        yield process
        assert process.poll() is None, process.stdout.read()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=120)


def command(project: Project, declared: Mapping[str, Any], *arguments: str, **options: Any) -> str:
    """What `snakemake` prints for it."""
    file = project.write_study(declared, f"{declared['study']}.yaml")
    done = project.snakemake(*arguments, "--configfile", file, **options)
    return done.stdout + done.stderr


def refused(project: Project, declared: Mapping[str, Any], *arguments: str) -> str:
    file = project.write_study(declared, f"{declared['study']}.yaml")
    done = project.snakemake(*arguments, "--configfile", file, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


def everything(project: Project, name: str) -> dict[Path, int]:
    """All files that benchstudy keeps of a study, with their modification times."""
    roots = [f"data/raw/{name}", f"data/provision/{name}", f"data/tidy/{name}", f".benchstudy/studies/{name}"]
    files = (path for root in roots for path in (project.root / root).rglob("*"))
    return {path: path.stat().st_mtime_ns for path in files}


@dataclass(frozen=True)
class Shared:
    """A project that several tests look at. `small` is measured, and `running` may be under way."""

    project: Project
    folder: Path
    small: Mapping[str, Any]
    running: Mapping[str, Any]


@pytest.fixture(scope="module")
def shared(here, tmp_path_factory) -> Shared:
    folder = tmp_path_factory.mktemp("shared")
    project = copy_project(folder / "project")
    small = study("small", here, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        command(project, small, "measure", "data/tidy/small/command")
    return Shared(project, folder, small, endless("running", here, folder))


@pytest.fixture(scope="module")
def process(shared) -> Iterator[Started]:
    """The project while it measures `running`."""
    with measuring(shared.project, shared.running) as process:
        yield process


def test_jobs_run_under_the_interpreter_of_snakemake_whatever_the_path_says(shared):
    assert len(sealed(shared.project, shared.small, "one")) == 2
    assert (shared.project.root / "data/tidy/small/command").is_dir()


def test_looking_on_takes_no_lock_and_changes_nothing_beside_a_measurement(shared, process):
    project = shared.project
    unreachable = study("held-up", {"address": "127.0.0.1", "port": 1, "known_hosts": os.devnull}, shared.folder)
    said = refused(project, unreachable, "measure")
    assert said.count("could not be held") == 1, "once, and at the end, where a person looks"
    assert said.index("could not be held") > said.index("Exiting because a job execution failed")
    before = everything(project, "held-up")
    index, facts = "data/raw/held-up/one/command/session.json", "data/provision/held-up/one/command.json"
    assert {project.root / index, project.root / facts} <= set(before)
    assert json.loads((project.root / index).read_text())["problem"]

    with ThreadPoolExecutor(max_workers=4) as people:
        looks = [(arguments, "held-up") for arguments in LOOK] + [(arguments, "running") for arguments in LOOK[:2]]
        list(people.map(lambda look: project.snakemake(*look[0], "--configfile", f"config/{look[1]}.yaml"), looks))
    assert everything(project, "held-up") == before
    plan = command(project, unreachable, "-n", "report")
    assert "rule measure_session" in plan and "rule provision_target" in plan, "what a real run would do"
    assert "rule measure_session" not in command(project, unreachable, "-n", "report", "--config", "measure=false")
    findings = refused(project, unreachable, "--lint")
    assert set(line for line in findings.splitlines() if line.startswith("    * ")) == {
        "    * Specify a conda environment or container for each rule.:"
    }, "its exit status tells findings, and the environment is the set-up's affair"
    assert everything(project, "held-up") == before
    assert process.poll() is None
    profile = shared.folder / "profile"
    profile.mkdir()
    (profile / "config.yaml").write_text("latency-wait: 1\n")
    said = refused(project, unreachable, "measure", "--profile", str(profile))
    assert "could not be held" in said, "it was tried again"
    assert f"report --profile {profile} --configfile config/held-up.yaml`" in said, "on the same cluster"
    assert everything(project, "held-up")[project.root / index] > before[project.root / index]


def test_a_second_command_for_the_same_study_is_refused_by_name(shared, process):
    project, running = shared.project, shared.running
    said = refused(project, running, "measure")
    assert f"process {process.pid} is already working on study 'running' (since 2" in said
    assert "; command on one, " in said and " left): wait for it, end it" in said
    assert '", line ' not in said, "no place in our code"
    declared = json.loads((project.root / ".benchstudy/studies/running/declared.json").read_text())
    assert "measure" not in declared
    assert "is already working on study 'running'" in refused(project, running, "report", "--config", "blocks=7")
    assert json.loads((project.root / ".benchstudy/studies/running/declared.json").read_text()) == declared


def test_a_page_is_made_beside_a_measurement_of_this_machine_only_by_request_and_trials_record_it(shared, process):
    project, small = shared.project, shared.small
    said = refused(project, small, "report", "--config", "measure=false")
    assert f"process {process.pid} is measuring study 'running' on this machine" in said
    assert "; command on one, " in said and "--config beside=true" in said
    assert "is measuring study 'running' on this machine, which" in refused(
        project, small | {"blocks": 2}, "measure", "--config", "beside=true"
    ), "two measurements of one host: never"
    page = "reports/small/command.html"
    command(project, small, page, "--config", "measure=false", "beside=true")
    assert (project.root / page).is_file()
    (session,) = project.root.glob("data/raw/running/one/command/sessions/*/session.json")

    def events() -> list[str]:
        return [event for event in json.loads(session.read_text())["events"] if "beside the trials" in event]

    until(lambda: len(events()) == 2, timeout_s=60)
    assert all("makes tables and pages of study small" in event for event in events())
    assert "no longer beside" in events()[1]


def test_studies_of_different_hosts_are_measured_and_reported_at_once(project, tmp_path, monkeypatch):
    monkeypatch.delenv("BENCHSTUDY_HOST_LOCK", raising=False)  # each has its own
    with (
        SshdHost(tmp_path / "near") as near,
        SshdHost(tmp_path / "far") as far,
        measuring(project, endless("running", near.described(), tmp_path)) as process,
    ):
        other = study("other", far.described(), tmp_path)
        page = "reports/other/command.html"
        command(project, other, "measure", page)
        assert len(sealed(project, other, "one")) == 2
        assert (project.root / page).is_file()
        said = refused(project, study("third", near.described(), tmp_path), "measure")
        assert f"process {process.pid} is measuring study 'running' on 127.0.0.1:{near.host.port}" in said
        assert not (project.root / "data/raw/third").exists()


def test_it_works_only_in_its_own_folder_and_as_a_whole(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = project.snakemake("-n", "--directory", elsewhere, "--config", "blocks=6", check=False)
    assert done.returncode == 1 and "is not the folder of this workflow" in done.stdout + done.stderr
    module = project.root / "workflow" / "of_another"
    module.write_text(
        'configfile: "config/config.yaml"\n'
        'module study:\n    snakefile: "Snakefile"\n    config: config\n'
        "use rule * from study as study_*\n"
    )
    done = project.snakemake("-n", "-s", module, check=False)
    assert done.returncode == 1 and "not as a module of another workflow" in done.stdout + done.stderr
    done = project.snakemake("--no-hooks", check=False)
    assert done.returncode == 1 and "--no-hooks disables" in done.stdout + done.stderr
    for cores in ("0", "-1"):
        done = project.snakemake("--cores", cores, check=False)
        assert done.returncode == 1 and f"--cores {cores}: without a core" in done.stdout + done.stderr
    done = project.run("python", "-m", "benchstudy.commands.cli", "run", "--jobs", "0", check=False)
    assert done.returncode == 1 and "--jobs 0: without a core" in done.stdout + done.stderr


def test_plain_snakemake_says_in_words_why_a_study_cannot_be_read(project):
    """Its own last lines are a traceback, places in our code, or name no place in the file."""
    (project.root / "typo.yaml").write_text("study: x\nblokcs: 6\n")
    (project.root / "tab.yaml").write_text("study: x\n\tblocks: 6\n")
    (project.root / "twice.yaml").write_text("study: x\nstudy: y\n")
    for file, said in {
        "nope.yaml": "nope.yaml: there is no such study file; give its path from this folder",
        "notebooks": "notebooks: cannot be read as a study: Is a directory",
        "tab.yaml": "tab.yaml: not valid YAML: line 2, column 1: found a tab character that violates indentation",
        "twice.yaml": "twice.yaml: line 2: the key 'study' occurs twice",
        "typo.yaml": 'blokcs: unknown key: did you mean "blocks"?',
    }.items():
        done = project.snakemake("-n", "--configfile", file, check=False)
        told = done.stdout + done.stderr
        assert done.returncode == 1 and said in told and "Traceback" not in told, told
        assert '", line ' not in told, "no place in our code"


def test_a_notebook_with_the_marks_of_a_merge_is_named(project):
    notebook = project.root / "notebooks" / "fio.ipynb"
    notebook.write_text("<<<<<<< HEAD\n" + notebook.read_text())
    done = project.snakemake("-n", "report", check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 1 and "notebooks/fio.ipynb: not a notebook: Expecting value" in told, told
    assert "Traceback" not in told, told


def test_a_command_imports_no_client_of_a_protocol_that_no_path_has(project):
    """By itself, Snakemake would, through smart_open."""
    done = project.run("python", "-X", "importtime", "-m", "snakemake", "-n", "provision")
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "smart_open.transport" in imported
    assert not imported & {"botocore", "paramiko.transport", "requests.api"}


def test_a_command_that_contacts_nobody_imports_no_client(project):
    """Half of the time of `benchstudy --version` was the import of an SSH client."""
    done = project.run("python", "-X", "importtime", "-m", "benchstudy.commands.cli", "--version")
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "benchstudy.families.load_test" in imported
    assert not imported & {"botocore", "paramiko", "polars"}


@pytest.mark.long
def test_what_is_used_of_snakemake_beyond_its_manual_is_there():
    import snakemake.api  # noqa: F401  first, because Snakemake's modules import each other
    from snakemake import modules
    from snakemake.dag import DAG
    from snakemake.jobs import Job
    from snakemake.logging import LoggerManager
    from snakemake.persistence import FileBackupMixin
    from snakemake.scheduling import job_scheduler
    from snakemake.settings.types import ConfigSettings
    from snakemake.workflow import Workflow

    names = {
        Workflow: ("is_main_process", "overwrite_configfiles", "register_resource", "basedir", "modifier", "dag"),
        modules.WorkflowModifier: ("is_main_snakefile",),
        DAG: ("needrun_jobs",),
        FileBackupMixin: ("restore_output", "cleanup_backup"),
    }
    texts = {
        Workflow: ("self.configfiles = list(", "output_settings: Optional[OutputSettings]"),
        DAG: ("self.forcefiles = set()", "self.forcefiles.isdisjoint(job.output)"),
        job_scheduler: (
            "if self.job_rate_limiter is None:",
            "signal.signal(signal.SIGTERM, self.exit_gracefully)",
            '_user_kill = "graceful"',
            "self._open_jobs.release()",
        ),
        LoggerManager: ('stream_handler.name = "DefaultStreamHandler"',),
        FileBackupMixin: ('return self.path / "backups"', "no backup found."),
        Job: ("self.rule: Rule = ", "self.wildcards_dict = ", "(updating job failed)"),
        ConfigSettings: ("update_config(overwrite_config, load_configfile(f))",),
    }
    missing = [f"{of.__name__}.{name}" for of, wanted in names.items() for name in wanted if not hasattr(of, name)]
    missing += [
        f"{of.__name__}: {text}" for of, wanted in texts.items() for text in wanted if text not in inspect.getsource(of)
    ]
    assert missing == []


def of_its_own(folder: Path, workflow: str, *arguments: str) -> tuple[int, str]:
    """The exit status of `snakemake` with a workflow that only has parts of the adapter, and what it prints."""
    (folder / "Snakefile").write_text(workflow)
    # The streams are a pipe: the workflow may have a disk that takes nothing.
    process = Started(["--cores", "1", *arguments], folder, {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")})
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


FIRST_FAILURE = """
from benchstudy.jobs import snakemake_adapter
snakemake_adapter.print_short_lines(workflow)
rule:
    output: update("facts")
    log: "log"
    shell: "false"
"""


def test_nothing_seems_lost_when_a_job_fails_for_the_first_time(tmp_path):
    _, said = of_its_own(tmp_path, FIRST_FAILURE)
    assert "see log" in said and "no backup found" not in said


WAITING = """
from benchstudy.jobs import snakemake_adapter
onstart:
    snakemake_adapter.start_jobs_at_once(workflow)
rule both:
    input: "slow", "quick"
rule slow:
    output: "slow"
    priority: 1
    shell: "sleep 3; touch {output}"
rule quick:
    output: "quick"
    shell: "touch {output}"
"""


@pytest.mark.long
def test_a_command_does_not_wake_every_second_to_look_at_jobs_that_wait(tmp_path):
    """It would look at each of their inputs, on a machine that may be measured."""
    status, said = of_its_own(tmp_path, WAITING, "--verbose", "--scheduler", "greedy")
    # As it starts, after either job, and for the target.
    assert status == 0 and 3 <= said.count("Ready jobs: ") <= 4, said


TERMINATED = """
import os, signal
from snakemake.jobs import Job
from benchstudy.jobs import snakemake_adapter
snakemake_adapter.end_on_sigterm()
postprocess = Job.postprocess
async def terminated(*args, **options):  # the scheduler holds its lock meanwhile
    os.kill(os.getpid(), signal.SIGTERM)
    return await postprocess(*args, **options)
Job.postprocess = terminated
rule second:
    input: "first"
    output: "second"
    shell: "touch {output}"
rule first:
    output: "first"
    shell: "touch {output}"
"""


@pytest.mark.long
def test_sigterm_while_a_job_ends_ends_the_command(tmp_path):
    """Snakemake's own handler would wait for a lock that the code holds which it interrupted."""
    status, said = of_its_own(tmp_path, TERMINATED)
    assert status != 0 and "Will exit after finishing currently running jobs" in said, said
    assert (tmp_path / "first").exists() and not (tmp_path / "second").exists()


FAILING = """
from benchstudy.jobs import snakemake_adapter
snakemake_adapter.end_in_words_on_errors(workflow)
def pins(wildcards):
    raise OSError(5, "Input/output error", "envs/pins.txt")
rule all:
    input: "session.json"
rule measure:
    input: "facts.json"
    output: "session.json"
    shell: "touch {output}"
rule provision:
    input: pins
    output: "facts.json"
    shell: "touch {output}"
"""


@pytest.mark.long
@pytest.mark.fault(38)
def test_a_plan_that_cannot_be_made_is_no_plan_without_the_measurement(tmp_path):
    """Alone, Snakemake says "Nothing to be done" and ends with 0."""
    for made in ("facts.json", "session.json"):
        (tmp_path / made).touch()
    status, said = of_its_own(tmp_path, FAILING)
    assert status == 1 and "Nothing to be done" not in said
    assert "Error: rule provision: envs/pins.txt: Input/output error: find out what is wrong" in said
    assert "Traceback" not in said


FAULTY = """
import os
from benchstudy.jobs import snakemake_adapter
snakemake_adapter.end_in_words_on_errors(workflow)
real = os.{call}
def fails(path=".", *args, **options):
    if str(path) == "{path}":
        raise OSError({number}, os.strerror({number}), path)
    return real(path, *args, **options)
os.{call} = fails
rule all:
    input: "data/session.json"
rule measure:
    output: "data/session.json"
    shell: "touch {{output}}"
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "path", "number", "there", "told"),
    [
        ("scandir", "data", errno.EIO, False, "Input/output error: find out what is wrong"),
        ("remove", "data/session.json", errno.EROFS, True, "Read-only file system: mount it read-write"),
    ],
)
@pytest.mark.fault(38)
def test_an_error_of_the_disk_in_snakemake_itself_is_told_in_words(tmp_path, call, path, number, there, told):
    """While jobs are planned, and as an old output is removed before its job."""
    (tmp_path / "data").mkdir()
    made = tmp_path / "data" / "session.json"
    if there:
        made.touch()
    workflow = FAULTY.format(call=call, path=path, number=number)
    status, said = of_its_own(tmp_path, workflow, "--forcerun", "measure")
    assert status == 1 and f"Error: {path}: {told}" in said
    assert "Traceback" not in said and made.exists() == there


TAKES_NO_MORE = """
import resource
from benchstudy.jobs import snakemake_adapter
snakemake_adapter.end_in_words_on_errors(workflow)
onstart:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
rule all:
    input: "session.json"
rule measure:
    output: "session.json"
    shell: "touch {output}"
"""


@pytest.mark.long
@pytest.mark.fault(38)
def test_a_disk_that_takes_neither_log_nor_metadata_is_told_in_one_sentence(tmp_path):
    """Alone, Python prints a traceback for each line of the log, and Snakemake asks for permissions."""
    status, said = of_its_own(tmp_path, TAKES_NO_MORE)
    assert status == 1 and said.count("File too large: allow larger files (ulimit -f)") == 1
    assert "Traceback" not in said and "permissions" not in said

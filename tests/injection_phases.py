"""Commands whose system calls are failed one by one, and the projects in which they start."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import s3_server
import yaml
from injected import PRELOADED, run

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent
_ARCHIVE_URL = "BENCHSTUDY_TEST_ARCHIVE"


@dataclass(frozen=True)
class Phase:
    """`command` is called in the project that `prepare` made, and ends like a script.

    `finished`: what the same command may print, with a failing status, if nothing is left to do. `same`: files that
    must have the same bytes as without a fault. `most`: number of random injections; None for all.
    """

    name: str
    prepare: Callable[["Lab", Path], None]
    command: Callable[[], object]
    most: int | None = None
    finished: str | None = None
    same: Sequence[str] = ()
    patience_s: float = 0.0
    of_many: bool = False  # a command of several processes: if one is killed, this is not the command itself


# --- what is run --------------------------------------------------------------------------------------------------

SMALL = {
    "study": "small",
    "blocks": {"min": 6, "max": 7},
    "until": "99 %",
    "thresholds": {"lease": "2s", "reconnect": "2s"},
    "targets": {"near": {"roles": {"sut": "near"}}},
    "families": {"command": {"commands": [{"name": "sleep", "argv": ["sleep", "0.02"]}]}},
}
ARCHIVE = {
    "study": "archive",
    "hosts": {"gone": {"address": "nobody@192.0.2.1"}},
    "targets": {"machine": {"roles": {"sut": "gone"}}},
    "families": {"fio": {}},
}
STORE = Path("data/raw/small/near/command")
OUTPUTS = [TESTS / "data" / "fio" / f"fio-3.33-{name}.json" for name in ("page", "latency-plus", "fdatasync-plus")]


def script(name: str, **told: object) -> None:
    """A job of the workflow, as Snakemake calls it."""
    sys.argv = [name, *(word for key, value in told.items() for word in (f"--{key}", str(value)))]
    runpy.run_path(str(CHECKOUT / "workflow" / "scripts" / f"{name}.py"), run_name="__main__")


def benchstudy(*argv: object) -> int:
    from benchstudy.commands.cli import main

    return main([*map(str, argv), "--study", "config/study.yaml"])


def measure() -> None:
    """As in the workflow: it begins, the session is held, and then it is told whether the session succeeded."""
    begin()
    script("measure_session", target="near", family="command", study="small", log="logs/measure.log")
    told = {"held": "data/held.txt"}
    script("confirm_sessions", **told, study="small")


def seal() -> None:
    """What a session does here for the missing trials, with the files of a trial that was measured on a host."""
    from benchstudy.jobs.job import job
    from benchstudy.measuring.raw import TrialStore
    from benchstudy.measuring.schedule import missing_trials
    from benchstudy.measuring.sessionindex import write_index
    from benchstudy.measuring.sessionrecord import SessionRecord

    sys.argv = ["seal", "--study", "small", "--log", "logs/measure.log"]
    with job() as (_, study, _):
        plan = study.session("near", "command")
        store = TrialStore(STORE.absolute())
        with store.exclusive():
            trials = store.trials()
            if missing := missing_trials(plan, store, trials, print):
                record = SessionRecord(store.folder, str(uuid4()), plan, "instrument")
                record.begin({"near": {}})
                for scheduled in missing:
                    partial = store.begin(scheduled.case.id, scheduled.block)
                    for file in trials[0].files:
                        if file.name != "trial.json":
                            (partial.folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                            (partial.folder / file.name).write_bytes((trials[0].folder / file.name).read_bytes())
                    told = {"uuid": partial.uuid, "block": scheduled.block, "position": scheduled.position}
                    trials.append(partial.commit(trials[0].record.model_copy(update=told)))
                    record.save()
                record.end({"near": {}})
            write_index(plan, store, trials, None)


def begin() -> None:
    from benchstudy.jobs.running import begin as begin_command
    from benchstudy.measuring.confirmed import doubtful
    from benchstudy.model.errors import BenchstudyError
    from benchstudy.model.studyfile import parse_study

    try:
        declared = yaml.safe_load(Path("config/study.yaml").read_text())
        study = parse_study(declared)
        begin_command(study, declared, [("tidy_family", {})], print, lambda: doubtful(Path(), study.stores(Path())))
    except (BenchstudyError, OSError) as error:  # for our own errors; for OSErrors, only the first line counts
        sys.exit(str(error))


def tidy() -> None:
    script("tidy_family", family="command", tables="data/tidy/small/command", study="small", log="logs/tidy.log")


def page() -> None:
    own = "reports/small"
    script(
        "make_page",
        **{"page": "command", "notebook": CHECKOUT / "notebooks" / "command.ipynb"},
        **{"tables": "data/tidy/small/command", "trace": "logs/command.ipynb"},
        **{"executed": f"{own}/notebooks/command.ipynb", "exports": f"{own}/command", "html": f"{own}/command.html"},
        **{"study": "small", "log": "logs/page.log"},
    )


def overview() -> None:
    script("build_index", study="small", log="logs/index.log")
    script("list_studies", study="small", log="logs/list.log")


def crate() -> None:
    script("build_crate", crate="reports/small.crate.zip", study="small", log="logs/crate.log")


def workflow() -> None:
    """The whole command. The shim is armed in its processes as they start."""
    os.environ["LD_PRELOAD"] = os.environ[PRELOADED]
    os.environ["PYTHONPATH"] = "src"
    argv = ["snakemake", "--cores", "2", "measure", "--configfile", "config/study.yaml"]
    os.execvp(argv[0], argv)


def at_archive(*words: str) -> int:
    from benchstudy.archive import bucket

    bucket.REQUESTS = 1  # with several threads, the same number would be another call each time
    access = {"ACCESS_KEY_ID": s3_server.ACCESS, "SECRET_ACCESS_KEY": s3_server.SECRET, "CONFIG_FILE": "/dev/null"}
    os.environ |= {f"AWS_{name}": value for name, value in access.items()}
    return benchstudy(*words, "s3://data/archive", "--endpoint-url", os.environ[_ARCHIVE_URL])


def pull() -> int:
    return at_archive("pull")


def pull_all() -> int:
    return at_archive("pull", "--all")


def reproduce() -> int:
    """The command without Snakemake, whose jobs are other phases. Pages and tables are copied instead of made.

    One folder stands for all software, because every file is copied in the same way.
    """
    from benchstudy.commands.cli import main
    from benchstudy.provenance import reproduce as command

    made, software = Path("made").absolute(), command.software
    command.software = lambda root: {
        n: path for n, path in software(root).items() if n.startswith("src/benchstudy/agent/")
    }
    command._make_reports = lambda into, cores: subprocess.run(["cp", "-r", made, into / "reports"], check=True)
    return main(["reproduce", "made/small.crate.zip"])


def discard() -> int:
    return benchstudy("discard", "--case", "command=sleep", "--why", "it was hot")


# --- what it begins with ------------------------------------------------------------------------------------------


class Lab:
    """Makes what phases begin with, each once. `folder` is for everything that it needs. `close` ends its host."""

    def __init__(self, folder: Path):
        from sshd_hosts import SshdHost

        self.folder = folder
        self.host = SshdHost(folder / "sshd")
        self.host.start()
        self._archive: s3_server.S3Server | None = None

    def close(self) -> None:
        self.host.stop()
        if self._archive is not None:
            self._archive.stop()

    def run(self, root: Path, command: Callable[[], object]) -> str:
        """Run the command without a fault, and return its output."""
        ended = run(root, command, None, self.folder / "plan", of_many=command is workflow)
        assert ended.code == 0, ended
        return ended.said

    def small(self, root: Path, **changes: object) -> None:
        """A project with the study, of which nothing is measured yet."""
        study = {**SMALL, "hosts": {"near": self.host.described(self.folder / "work")}, **changes}
        as_project(root, study)

    def once(self, name: str, begin: Callable[[Path], None], command: Callable[[], object]) -> Path:
        """The folder of what `command` makes of what `begin` has made. It is made once."""
        made = self.folder / name
        if not made.exists():
            begin(made)
            self.run(made, command)
        return made

    def measured(self, root: Path) -> None:
        """The same project, measured. Its trials are the same everywhere."""
        shutil.copytree(self.once("measured", self.small, measure), root)

    def interrupted(self, root: Path) -> None:
        """The same project, whose controller was killed in a further session before the look was taken."""
        self.measured(root)
        store = root / STORE
        (store / "session.json").unlink()
        remove(store / "looks")
        (session,) = (store / "sessions").iterdir()
        shutil.copytree(session, store / "sessions" / ".partial-01234567")
        for path in (store / "sessions" / ".partial-01234567", store / "sessions" / ".partial-01234567/session.json"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        record = store / "sessions" / ".partial-01234567" / "session.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"uuid": "01234567-abcd"}))
        (record.parent / "SHA256SUMS").unlink()
        case = next(store.glob("*=*"))
        (case / ".partial-89abcdef" / "files").mkdir(parents=True)
        (case / ".partial-89abcdef" / "stdout").write_text("half of it")

    def one_more_block(self, root: Path) -> None:
        """A study that asks for two blocks, one of which is measured."""
        self.small(root, blocks=1, until=None)
        self.run(root, measure)
        self.small(root, blocks=2, until=None)

    def tidied(self, root: Path) -> None:
        shutil.copytree(self.once("tidied", self.measured, tidy), root)

    def paged(self, root: Path) -> None:
        shutil.copytree(self.once("paged", self.tidied, page), root)

    def reported(self, root: Path) -> None:
        shutil.copytree(self.once("reported", self.paged, overview), root)

    def project(self, root: Path) -> None:
        """A whole project whose study asks for one more block than was measured."""
        from conftest import copy_project

        copy_project(root)
        self.small(root, blocks=1, until=None)
        self.run(root, workflow)
        self.small(root, blocks=2, until=None)

    def pushed(self, root: Path) -> None:
        """A study that is in an archive, with a failed trial. Nothing of it is here."""
        bad = {"name": "bad", "argv": ["false"]}
        families = {"command": {"commands": [*SMALL["families"]["command"]["commands"], bad]}}
        changes = {"blocks": 1, "until": None, "families": families}
        if self._archive is None:
            self._archive = s3_server.S3Server(self.folder / "s3")
            os.environ[_ARCHIVE_URL] = self._archive.url
            made = self.folder / "pushed"
            self.small(made, **changes)
            self.run(made, measure)
            self.run(made, lambda: at_archive("push"))
        self.small(root, **changes)

    def pulled(self, root: Path) -> None:
        """The same study, with the files that tables need."""
        self.pushed(root)
        self.run(root, pull)

    def packed(self, root: Path) -> None:
        """A project with a crate, whose reports are in another folder."""
        self.small(root)
        shutil.copytree(self.once("packed", self.reported, crate) / "reports", root / "made")

    def reproduced(self, root: Path) -> None:
        """The folder in which the crate was reproduced before."""
        self.packed(root)
        self.run(root, reproduce)

    def archive(self, root: Path) -> None:
        """A study with one imported output."""
        as_project(root, ARCHIVE)
        self.run(root, lambda: benchstudy("import", OUTPUTS[0]))


def as_project(root: Path, study: Mapping[str, object]) -> None:
    from benchstudy.model import paths

    study = {key: value for key, value in study.items() if value is not None}
    for folder in ("workflow", "config", "logs", "data", "reports"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "workflow" / "Snakefile").touch()
    (root / "config" / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    declared = paths.declared_study(root, str(study["study"]))
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(json.dumps(study))


PHASES = {
    phase.name: phase
    for phase in (
        Phase("seal", Lab.one_more_block, seal),
        Phase("session", Lab.one_more_block, measure, 120, patience_s=15),
        Phase("adopt", Lab.interrupted, measure, 400),
        Phase("begin", Lab.measured, begin, 250),
        Phase(
            "import",
            Lab.archive,
            lambda: benchstudy("import", *OUTPUTS),
            finished="already holds the same content",
        ),
        Phase("discard", Lab.measured, discard, finished="are discarded already"),
        Phase("tidy", Lab.measured, tidy, 300, same=["data/tidy/**/*.parquet"]),
        Phase("page", Lab.tidied, page, 60, same=["reports/**/*"]),
        Phase("overview", Lab.paged, overview, 60, same=["reports/**/*"]),
        Phase("crate", Lab.reported, crate, 60, same=["reports/*.crate.zip"]),
        Phase("pull", Lab.pushed, pull, 250),
        Phase("pull-all", Lab.pulled, pull_all, 250),
        Phase("reproduce", Lab.packed, reproduce, 150, same=["reproduced/**/*"]),
        Phase("reproduce-again", Lab.reproduced, reproduce, 150, same=["reproduced/**/*"]),
        Phase("workflow", Lab.project, workflow, 24, patience_s=30, of_many=True),
    )
}


def remove(folder: Path) -> None:
    """Remove a folder, whatever its permissions."""
    if folder.exists():
        for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
            path.chmod(0o755)
        shutil.rmtree(folder)

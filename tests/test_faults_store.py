"""Damage to a store, its index, its tables and imports: one bad file costs only its own trial."""

import errno
import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from conftest import CHECKOUT, as_owner
from one_host import study_on

from benchstudy.commands.cli import main
from benchstudy.commands.imported_trials import Outcome
from benchstudy.commands.importing import import_outputs
from benchstudy.hosts.controller import CONTROLLER_PID
from benchstudy.jobs import made
from benchstudy.jobs.running import begin, not_confirmed
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring import confirmed, sealed
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.progress import log_to
from benchstudy.measuring.raw import TrialStore, index_problem
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.sessionindex import write_index
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.measuring.storedtrials import CorruptTrial
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import disk_trouble
from benchstudy.model.study import Study
from benchstudy.report.results.results import Results

FIO = Path(__file__).parent / "data" / "fio"
LATENCY = (FIO / "fio-3.33-latency-plus.json").read_text()


@pytest.fixture(scope="module")
def study() -> Study:
    gone, families = {"address": "nobody@192.0.2.1"}, {"fio": {}, "http_concurrency": {}, "log_write": {}}
    return study_on(gone, families, study="archive", target="machine", name="gone")


def imported(root: Path, study: Study, *outputs: Path) -> Outcome:
    return import_outputs(root, study, None, outputs)


@pytest.fixture
def store(tmp_path: Path, study: Study) -> TrialStore:
    """Three good trials."""
    outcome = imported(
        tmp_path, study, *(FIO / f"fio-3.33-{name}.json" for name in ("page", "latency-plus", "fdatasync-plus"))
    )
    assert len(outcome.imported) == 3
    return TrialStore(tmp_path / "data/raw/archive/machine/fio")


# --- one bad trial ------------------------------------------------------------------------------------------------


@pytest.mark.fault(37)
def test_a_trial_that_cannot_be_is_a_failed_one_and_all_others_have_their_figures(tmp_path, study, store, caplog):
    """As an earlier parser would return it, which accepted such figures."""
    plan = study.session("machine", "fio")
    bad = next(trial for trial in store.trials() if '"bins" : {' in (trial.folder / "fio.json").read_text())
    file = bad.folder / "fio.json"
    text = file.read_text()
    bad.folder.chmod(0o755)
    for path in bad.folder.iterdir():
        path.chmod(0o644)
    start = text.index('"bins" : {') + len('"bins" : {')
    file.write_text(text[:start] + f'"1048576" : 1{"0" * 24},' + text[start:])
    (bad.folder / SUMS).unlink()
    sealed.seal(bad.folder)
    write_index(plan, store, store.trials(), problem=None)

    tidy_family(tmp_path, [plan], tmp_path / "tidy")
    trials = pl.read_parquet(tmp_path / "tidy" / "trials.parquet")
    row = trials.row(by_predicate=pl.col("trial") == bad.short, named=True)
    assert row["status"] == "failed" and row["cause_kind"] == "parse"
    assert "1" + 24 * "0" in row["cause"] and "benchstudy discard TRIAL --why" in row["cause"]
    assert bad.short not in row["cause"], "the causes of all trials that a wrong parser cannot read are counted as one"
    assert f"benchstudy discard {bad.short} --why" in caplog.text
    assert sorted(trials["status"]) == ["failed", "ok", "ok"]
    observations = pl.read_parquet(tmp_path / "tidy" / "observations.parquet")
    assert observations.filter(pl.col("trial") == bad.short).select("metric", "value", "status").rows() == [
        ("trial", None, "failed")
    ]
    assert Results(tmp_path / "tidy", study="archive", family="fio")


def test_the_log_shows_where_a_parser_failed_and_the_terminal_only_why(tmp_path, study, store, monkeypatch, capsys):
    plan = study.session("machine", "fio")
    write_index(plan, store, store.trials(), problem=None)
    monkeypatch.setattr(type(plan.family), "read", lambda self, case_levels, files: {}["tok_s"])
    undo = log_to(tmp_path / "log")
    tidy_family(tmp_path, [plan], tmp_path / "tidy")
    undo()
    assert '{}["tok_s"]' in (tmp_path / "log").read_text()
    told = capsys.readouterr().err
    assert "KeyError: 'tok_s'" in told and "Traceback" not in told


# --- imports --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(37)
def test_one_absurd_file_among_good_ones_is_refused_and_the_others_are_stored(tmp_path, study):
    folder = tmp_path / "outputs"
    folder.mkdir()
    shutil.copy(FIO / "fio-3.33-page.json", folder / "1-good.json")
    absurd = {
        "2-digits.json": LATENCY.replace('"total_ios" : 12276', f'"total_ios" : {"9" * 5000}', 1),
        "3-nested.json": LATENCY.replace('"randrepeat" : "1"', f'"randrepeat" : {"[" * 20000}', 1),
        "4-percentile.json": LATENCY.replace('"1.000000"', '"one"', 1),
        "5-infinite.json": LATENCY.replace('"usr_cpu" : ', '"usr_cpu" : 1e999, "x" : ', 1),
        "6-escape.json": LATENCY.replace('"fio-3.33"', '"fio-3.33\\ud800"', 1),
    }
    for name, text in absurd.items():
        (folder / name).write_text(text)
    shutil.copy(FIO / "fio-3.33-fdatasync-plus.json", folder / "7-good.json")
    outcome = imported(tmp_path, study, folder)
    assert [path.name for path, _ in outcome.imported] == ["1-good.json", "7-good.json"]
    assert [path.name for path, _ in outcome.refused] == list(absurd)
    assert all(len(cause) < 1200 for _, cause in outcome.refused)


def test_text_in_the_encodings_of_other_systems_is_read(tmp_path, study):
    for encoding in ("utf-8-sig", "utf-16"):
        root = tmp_path / encoding  # in one study, the second would be a copy
        root.mkdir()
        for name in ("fio-3.33-page.json", "fio-3.33-latency.txt"):
            (root / name).write_bytes((FIO / name).read_text().encode(encoding))
        outcome = imported(root, study, *root.glob("fio*"))
        assert len(outcome.imported) == 2 and not outcome.refused


@pytest.mark.fault(39)
def test_what_is_no_output_is_refused_with_what_it_is(tmp_path, study):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "empty", "this folder has no files"),
        (tmp_path / "pipe", "is a pipe"),
        (Path("/dev/zero"), "a device"),
    ):
        with pytest.raises(BenchstudyError, match=words):
            imported(tmp_path, study, path)
    (tmp_path / "nothing").touch()
    (tmp_path / "terse").write_text("3;fio-3.33;name;0;0;50282496;304993;76248\n")
    (tmp_path / "wide").write_bytes(LATENCY.encode("utf-16-le"))
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    outcome = imported(tmp_path, study, *(tmp_path / name for name in ("nothing", "terse", "wide", "huge")))
    told = {path.name: cause for path, cause in outcome.refused}
    assert told["nothing"] == "is empty" and "--output-format=json+" in told["terse"]
    assert "save it as UTF-8" in told["wide"] and "split it" in told["huge"]


def failing_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def failing(self: Path) -> bytes:
        if self == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))  # a failed read does not name the file
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", failing)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        (lambda path, monkeypatch: path.unlink(), "No such file or directory"),
        (failing_read, "cannot be read: Input/output error"),
        (lambda path, monkeypatch: path.write_text(LATENCY), "changed while it was being imported"),
    ],
)
@pytest.mark.fault(37, 38)
def test_an_output_that_changes_or_goes_while_it_is_imported_is_refused_alone(
    tmp_path, study, monkeypatch, happens, cause, after
):
    """Before it was looked at by its family, or after."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    for number, name in enumerate(("page", "fdatasync-plus", "two-jobs-plus"), start=1):
        shutil.copy(FIO / f"fio-3.33-{name}.json", folder / f"{number}.json")
    family = type(registry.get("fio"))
    parse = family.parse_import

    def parse_import(self, path):
        if path.name != "2.json":
            return parse(self, path)
        if not after:
            happens(path, monkeypatch)
        runs = parse(self, path)
        if after:
            happens(path, monkeypatch)
        return runs

    monkeypatch.setattr(family, "parse_import", parse_import)
    outcome = imported(tmp_path, study, folder)
    assert [path.name for path, _ in outcome.imported] == ["1.json", "3.json"]
    ((refused, why),) = outcome.refused
    assert refused.name == "2.json" and cause in why
    store = TrialStore(tmp_path / "data/raw/archive/machine/fio")
    assert len(store.trials()) == 2 and not confirmed.check(tmp_path, store.folder).lines


# --- the index, sums and tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", '{"trials": [', "[]", "{}"])
@pytest.mark.fault(36)
def test_a_damaged_index_is_named_and_made_again(tmp_path, study, store, text):
    plan = study.session("machine", "fio")
    whole = json.loads(store.index.read_text())
    store.index.write_text(text)
    assert "made again" in index_problem(store.index), "so its session is planned"
    with pytest.raises(BenchstudyError, match=r"session\.json: missing or damaged"):
        tidy_family(tmp_path, [plan], tmp_path / "tidy")
    assert any("session.json: damaged" in line for line in confirmed.check(tmp_path, store.folder).lines)
    confirmed.confirm(tmp_path, [store.folder])  # is not an altered raw file
    hold_session(tmp_path, plan)
    assert json.loads(store.index.read_text()) == whole


@pytest.mark.fault(36, 38)
def test_an_index_that_cannot_be_read_is_not_called_damaged_nor_made_again(tmp_path, study, store, monkeypatch):
    plan = study.session("machine", "fio")
    write_index(plan, store, store.trials(), problem=None)
    whole = tmp_path / "whole"
    store.index.rename(whole)
    store.index.symlink_to("/proc/self/mem")  # the first byte of which gives an I/O error
    told = os.strerror(errno.EIO)
    assert told in index_problem(store.index)
    assert confirmed.check(tmp_path, store.folder).lines == [disk_trouble(OSError(errno.EIO, told, str(store.index)))]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONTROLLER_PID, str(os.getpid()))  # otherwise this process would be announced as a command
    declared = paths.declared_sessions(Path(), "archive")
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(f"{store.index.relative_to(tmp_path)}\n")
    argv = ["confirm_sessions", "--held", "held", "--study", "archive"]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit, match=f"session.json: {told}: find out what is wrong with the disk"):
        runpy.run_path(str(CHECKOUT / "workflow" / "scripts" / "confirm_sessions.py"))
    with pytest.raises(BenchstudyError, match=told):
        begin(study, {}, [("tidy_family", {})], print, lambda: ["session.json"])
    with pytest.raises(OSError, match=told):
        tidy_family(tmp_path, [plan], tmp_path / "tidy")
    assert store.index.is_symlink(), "nothing was put in its place"
    whole.rename(store.index)
    assert index_problem(store.index) is None


@pytest.mark.fault(38)
@pytest.mark.parametrize("ends", ["killed", "refused"])
def test_a_part_of_a_trial_that_is_replaced_by_all_of_it_is_there_whatever_happens(store, ends):
    """The process is killed, or the disk refuses, between removing the old and putting the new in its place."""
    trial = store.trials()[0]
    place, files = trial.folder.relative_to(store.folder).as_posix(), {p.name for p in trial.folder.iterdir()}
    if (pid := os.fork()) == 0:
        rename, calls = os.rename, itertools.count()

        def second(*paths: Path) -> None:
            if next(calls) == 1:
                if ends == "killed":
                    os._exit(9)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            rename(*paths)

        try:
            with store.receiving(place) as folder:
                shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
            os.rename = second
            store.commit_received([place])
        except OSError:
            os._exit(9)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert trial.folder.exists() == (ends == "refused")
    with store.exclusive():
        assert {path.name for path in trial.folder.iterdir()} == files
    assert [path.name for path in trial.folder.parent.iterdir()] == [trial.folder.name]


@pytest.mark.fault(36)
def test_a_trial_without_its_sums_is_damaged_and_not_passed_over(tmp_path, study, store):
    trial = store.trials()[0]
    trial.folder.chmod(0o755)
    (trial.folder / SUMS).unlink()
    with pytest.raises(CorruptTrial, match=f"its SHA256SUMS is missing; .*discard {trial.short}"):
        store.trials()
    with pytest.raises(CorruptTrial, match="its SHA256SUMS is missing"):
        tidy_family(tmp_path, [study.session("machine", "fio")], tmp_path / "tidy")


@pytest.mark.parametrize("how", ["cut off", "edited", "deleted"])
@pytest.mark.fault(36)
def test_tables_that_are_not_as_they_were_made_are_known(tmp_path, study, store, how):
    tables = tmp_path / "tidy"
    assert made.altered(paths.made_tables(tables), below=tables) == []
    tidy_family(tmp_path, [study.session("machine", "fio")], tables)
    assert made.altered(paths.made_tables(tables), below=tables) == []
    table = tables / "trials.parquet"
    content = table.read_bytes()
    table.unlink()
    if how != "deleted":
        table.write_bytes(content[:-100] if how == "cut off" else content[::-1])
    assert made.altered(paths.made_tables(tables), below=tables) == [table]


@pytest.mark.parametrize("link", ["data/raw", "data/raw/archive", "data/raw/archive/machine/fio"])
def test_raw_files_may_lie_on_another_disk_behind_a_link(tmp_path, study, link):
    (tmp_path / "disk").mkdir()
    (tmp_path / link).parent.mkdir(parents=True)
    (tmp_path / link).symlink_to(tmp_path / "disk")
    imported(tmp_path, study, *FIO.glob("fio-3.33-latency-*.json"))
    tidy_family(tmp_path, [study.session("machine", "fio")], tmp_path / "tidy")
    raw = pl.read_parquet(tmp_path / "tidy" / "trials.parquet")["raw"].to_list()
    assert raw and all(re.match("data/raw/archive/machine/fio/.", path) for path in raw)
    assert all((tmp_path / path / "trial.json").is_file() for path in raw)


# --- a controller that is killed, and its disk -----------------------------------------------------------------------


@pytest.mark.fault(38)
def test_a_session_that_was_killed_leaves_its_record(tmp_path, study, store):
    plan = study.session("machine", "fio")
    record = SessionRecord(store.folder, "0123456789ab", plan, "instrument")
    record.begin({"gone": {"kernel": {"release": "6.1"}}})
    record.event("something happened")
    del record  # as a kill leaves it: never sealed
    hold_session(tmp_path, plan)
    (session,) = json.loads(store.index.read_text())["sessions"]
    assert session["uuid"] == "0123456789ab" and session["seed"] == 1 and session["finished"] >= session["started"]
    assert session["hosts"]["gone"]["before"]["kernel"]["release"] == "6.1"
    assert "something happened" in session["events"][0] and "its controller was killed" in session["events"][1]
    assert not confirmed.check(tmp_path, store.folder).lines
    assert not list(store.folder.glob("sessions/.partial*"))


@pytest.mark.parametrize(
    ("number", "way"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "mount it"),
        (errno.EIO, "dmesg"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EFBIG, "ulimit -f"),
    ],
)
@pytest.mark.fault(38)
def test_a_disk_that_takes_no_more_is_said_with_the_way_on(number, way):
    told = disk_trouble(OSError(number, os.strerror(number), "/data/raw/x"))
    assert told is not None and "/data/raw/x: " in told and way in told and "the same command again" in told
    assert disk_trouble(OSError(errno.EACCES, "denied")) is None, "a socket or a process, perhaps"


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True).returncode
    ):
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.fault(15, 38)
def test_an_import_onto_a_full_disk_says_what_to_free_and_the_same_command_goes_on(
    full_disk, tmp_path, capsys, monkeypatch
):
    (full_disk / "workflow").mkdir()
    (full_disk / "workflow" / "Snakefile").touch()
    (full_disk / "study.yaml").write_text(
        "study: archive\nhosts: {gone: {address: nobody@192.0.2.1}}\n"
        "targets: {machine: {roles: {sut: gone}}}\nfamilies: {fio: {}}\n"
    )
    monkeypatch.chdir(full_disk)
    files = [str(FIO / f"fio-3.33-{name}.json") for name in ("page", "latency-plus", "two-jobs-plus", "fdatasync-plus")]
    assert main(["import", *files, "--study", "study.yaml"]) == 1
    assert "No space left on device: free some space there, and run the same command again" in capsys.readouterr().err
    subprocess.run(["mount", "-o", "remount,size=4m", full_disk], check=True)
    main(["import", *files, "--study", "study.yaml"])
    store = TrialStore(full_disk / "data/raw/archive/machine/fio")
    assert len(store.trials()) == 4 and not confirmed.check(full_disk, store.folder).lines


@pytest.mark.long
@pytest.mark.fault(15, 38)
def test_a_job_on_a_full_disk_says_what_to_free(full_disk, tmp_path, study, store):
    declared = paths.declared_study(tmp_path, study.study)
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(json.dumps(study.model_dump(mode="json", serialize_as_any=True, exclude_unset=True)))
    (full_disk / "filler").write_bytes(bytes(1 << 16)[: 60 << 10])
    script = CHECKOUT / "workflow" / "scripts" / "tidy_family.py"
    told = ["--family", "fio", "--tables", full_disk / "tidy", "--study", study.study, "--log", tmp_path / "log"]
    done = subprocess.run([sys.executable, script, *told], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "free some space there, and run the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    subprocess.run(["mount", "-o", "remount,ro", full_disk], check=True)
    done = subprocess.run([sys.executable, script, *told], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "mount it read-write" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.fault(15, 38)
def test_a_command_whose_last_message_finds_no_room_in_its_log_says_so(full_disk):
    log = paths.confirmation_log(full_disk, "small")
    log.parent.mkdir(parents=True)
    log.touch()
    assert not_confirmed(full_disk, "small") == [] and log.read_bytes() == b"", "there is room, so nothing to say"
    with suppress(OSError):
        (full_disk / "filler").write_bytes(bytes(1 << 17))
    (told,) = not_confirmed(full_disk, "small")
    assert told.startswith(f"{log}: No space left on device: free some space there")


@pytest.mark.parametrize("command", [["verify", "data"], ["discard", "0123abcd", "--why", "because"]])
@pytest.mark.parametrize("closed", ["data", "data/raw/archive", "data/raw/archive/machine/fio"])
def test_a_command_that_may_not_look_into_a_folder_does_not_say_that_it_is_empty(closed, command, tmp_path, store):
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").touch()
    (tmp_path / closed).chmod(0)
    done = as_owner([sys.executable, "-m", "benchstudy.commands.cli", *command], tmp_path)
    (tmp_path / closed).chmod(0o755)
    assert f"{closed}: Permission denied" in done.stderr or f"{closed}/raw: Permission" in done.stderr, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("closed", ["data/raw", "data/raw/archive/machine/fio/session.json", "tidy"])
def test_a_job_that_may_not_read_or_write_says_where_and_what_to_do(closed, tmp_path, study, store):
    declared = paths.declared_study(tmp_path, study.study)
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(json.dumps(study.model_dump(mode="json", serialize_as_any=True, exclude_unset=True)))
    write_index(study.session("machine", "fio"), store, store.trials(), problem=None)
    (tmp_path / "tidy").mkdir()
    script = CHECKOUT / "workflow" / "scripts" / "tidy_family.py"
    told = ["--family", "fio", "--tables", tmp_path / "tidy", "--study", study.study, "--log", tmp_path / "log"]
    mode = (tmp_path / closed).stat().st_mode
    (tmp_path / closed).chmod(0)
    done = as_owner([sys.executable, script, *told], tmp_path)
    (tmp_path / closed).chmod(mode)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = f"{closed}[^ ]*: Permission denied: give your user the right to read and write there, and run the same "
    assert re.search(said, done.stderr), done.stderr

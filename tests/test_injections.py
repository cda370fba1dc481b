"""A sample of the injections (`make test-long` is their long form), and their findings."""

import os
import subprocess

import injections
import pytest
from test_faults_store import study  # noqa: F401  a fixture
from test_report_jobs import code, run

from benchstudy.measuring import sealed
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.model import machine
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import write_atomically


@pytest.mark.fault(38)
def test_no_call_that_fails_costs_a_trial_and_each_is_told_in_words():
    phases = [f"--phase={name}" for name in ("seal", "adopt", "begin", "import", "discard", "tidy")]
    done = injections.under_shim(*phases, "--most=8", "--seed=16", "--workers=1", capture_output=True, text=True)
    assert done.returncode == 0 and "\n48 injections, 0 with faults" in done.stdout, done.stdout + done.stderr


@pytest.mark.fault(38)
def test_a_session_that_was_killed_while_it_was_sealed_is_sealed_all_the_same(tmp_path, study):  # noqa: F811
    record = SessionRecord(tmp_path, "0123456789ab", study.session("machine", "fio"), "instrument")
    record.begin({"gone": {}})
    sealed.seal(record.folder)
    with TrialStore(tmp_path).exclusive():
        pass
    assert not sealed.check_folder("", tmp_path / "sessions" / "01234567").differences


def test_an_event_that_comes_while_a_session_is_sealed_alters_nothing(tmp_path, study, monkeypatch):  # noqa: F811
    record = SessionRecord(tmp_path, "0123456789ab", study.session("machine", "fio"), "instrument")
    record.begin({"gone": {}})
    protect = sealed.protect
    monkeypatch.setattr(sealed, "protect", lambda folder: (record.event("a late beat"), protect(folder)))
    record.end({"gone": {}})
    assert not sealed.check_folder("", tmp_path / "sessions" / "01234567").differences


def test_what_a_killed_process_was_writing_goes_when_the_same_file_is_written(tmp_path):
    killed = subprocess.Popen(["true"])
    killed.wait()
    left, begun = (tmp_path / f".x.json.{machine.process(str(pid))}" for pid in (killed.pid, os.getppid()))
    left.touch()
    begun.touch()
    write_atomically(tmp_path / "x.json", "{}")
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", begun.name}


def test_a_cell_that_meets_a_full_disk_says_what_to_free(tmp_path):
    with pytest.raises(BenchstudyError, match=r"cell \d+.*: OSError: .*\n.*free some space there, and run the same"):
        run(tmp_path, code("open('/dev/full', 'w', buffering=1).write('\\n')"))

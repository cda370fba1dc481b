"""The trial store: a trial is whole or not there at all, and never altered unnoticed."""

import json
import multiprocessing
import os
import signal
import subprocess

import pytest

from benchstudy.measuring.raw import CorruptTrial, TrialRecord, TrialStore, find_trials
from benchstudy.model.errors import SessionFailed
from benchstudy.model.files import now


def record(partial, case="size=1MB", status="ok", **fields):
    return TrialRecord(
        uuid=partial.uuid,
        study="s",
        study_sha256="0" * 64,
        target="t",
        family="file_size",
        case=case,
        levels={"size": "1MB"},
        definition={},
        definition_sha256="1" * 64,
        block=1,
        position=1,
        session="x",
        roles={"sut": "local"},
        status=status,
        cause=None,
        started=now(),
        finished=now(),
        duration_s=0.1,
        commands=[],
        verified={},
        instrument="2" * 64,
        **fields,
    )


@pytest.fixture
def store(tmp_path):
    return TrialStore(tmp_path / "raw" / "study" / "target" / "file_size")


def committed(store, content=b"output\n"):
    partial = store.begin("size=1MB", 1)
    (partial.folder / "stdout").write_bytes(content)
    (partial.folder / "files").mkdir()
    (partial.folder / "files" / "result.json").write_text("{}")
    return partial.commit(record(partial))


def test_a_committed_trial_is_read_back_read_only_and_sha256sum_agrees(store):
    trial = committed(store)
    (again,) = store.trials()
    assert again == trial
    assert {file.name for file in again.files} == {"stdout", "files/result.json", "trial.json"}
    assert not os.stat(trial.folder / "stdout").st_mode & 0o222
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=trial.folder, check=True)


@pytest.mark.fault(22)
def test_whatever_a_tool_leaves_behind_can_be_stored_and_read_back(store):
    partial = store.begin("size=1MB", 1)
    (partial.folder / "files" / "a\nfolder").mkdir(parents=True)
    (partial.folder / "files" / "a\nfolder" / "x\r").write_text("1")
    (partial.folder / os.fsdecode(b"\xff\xfe%")).write_text("2")
    (partial.folder / "files" / "latest").symlink_to("a\nfolder/x\r")
    (partial.folder / "out").symlink_to("/etc/passwd")
    (partial.folder / "round").symlink_to("round")
    os.mkfifo(partial.folder / "pipe")
    trial = partial.commit(record(partial))
    (again,) = store.trials()
    assert again == trial
    names = {"trial.json", "files/a%0Afolder/x%0D", "%FF%FE%25", "files/latest", "out.link", "round.link"}
    assert {file.name for file in again.files} == names
    assert (trial.folder / "files" / "latest").read_text() == "1"
    assert (trial.folder / "out.link").read_text() == "/etc/passwd"
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=trial.folder, check=True)


@pytest.mark.parametrize("name", ["stdout", "files/result.json", "trial.json"])
@pytest.mark.fault(30)
def test_one_flipped_bit_is_found_and_the_file_named(store, name):
    path = committed(store).folder / name
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptTrial, match=name):
        store.trials()


def test_a_missing_raw_file_is_found_and_named(store):
    folder = committed(store).folder
    folder.chmod(0o755)
    (folder / "stdout").unlink()
    with pytest.raises(CorruptTrial, match="stdout: missing"):
        store.trials()


@pytest.mark.fault(2)
def test_a_trial_that_was_never_committed_is_not_seen_and_goes_with_the_next_session(store):
    partial = store.begin("size=1MB", 1)
    (partial.folder / "stdout").write_text("half")
    assert store.trials() == []
    with store.exclusive():
        assert not partial.folder.exists()


def _killed_while_committing(folder):
    store = TrialStore(folder)
    partial = store.begin("size=1MB", 1)
    for number in range(200):
        (partial.folder / f"file{number}").write_bytes(b"x" * 10_000)
    (folder / "started").touch()
    partial.commit(record(partial))


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.05])
@pytest.mark.fault(2)
def test_kill_9_during_a_commit_leaves_a_whole_trial_or_none(store, delay_s):
    process = multiprocessing.get_context("spawn").Process(target=_killed_while_committing, args=(store.folder,))
    process.start()
    while not (store.folder / "started").exists():
        assert process.is_alive() or (store.folder / "started").exists()
    process.join(delay_s)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert [len(trial.files) for trial in store.trials()] in ([], [201])


def test_a_second_session_is_refused_while_one_writes(store):
    with (
        store.exclusive(),
        pytest.raises(SessionFailed, match=f"process {os.getpid()}"),
        TrialStore(store.folder).exclusive(),
    ):
        pass


@pytest.mark.parametrize("name", ["stdout", "trial.json"])
def test_a_damaged_trial_that_is_discarded_is_left_out(store, name):
    damaged, whole = committed(store), committed(store)
    index = {"trials": [{"path": str(damaged.folder.relative_to(store.folder)), **vars_of(damaged), "files": []}]}
    index |= {"target": "target", "family": "file_size", "problem": None, "sessions": [], "discarded": []}
    store.index.write_text(json.dumps(index))
    path = damaged.folder / name
    path.chmod(0o644)
    path.write_bytes(b"{" + path.read_bytes()[1:].replace(b":", b";"))
    with pytest.raises(CorruptTrial, match=name):
        store.trials()
    raw = store.folder.parents[2]
    ((found_in, found),) = find_trials(raw, damaged.short)
    assert found_in.folder == store.folder and found.record.uuid == damaged.record.uuid
    store.discard(found, "its disk was failing")
    assert store.trials() == [whole] and damaged.folder.is_dir()


def test_a_trial_is_found_by_how_its_id_begins_in_whatever_study(store, tmp_path):
    one, other = committed(store), committed(TrialStore(tmp_path / "raw" / "another" / "target" / "fio"))
    raw = tmp_path / "raw"
    for prefix in (one.record.uuid[:5], one.short, one.record.uuid[:12], one.record.uuid):
        ((found_in, found),) = find_trials(raw, prefix)
        assert (found_in.folder, found.folder, found.record) == (store.folder, one.folder, one.record)
    assert [found.record.uuid for _, found in find_trials(raw, other.short)] == [other.record.uuid]
    assert {found.record.uuid for _, found in find_trials(raw, "")} == {one.record.uuid, other.record.uuid}
    assert find_trials(raw, f"{one.short}-0000-0000") == [] == find_trials(raw, "x")


def vars_of(trial):
    return {key: getattr(trial.record, key) for key in ("uuid", "case", "block", "status")}


def test_a_discarded_trial_stays_and_the_reason_with_it(store):
    trial = committed(store)
    (store.folder / "session.json").write_text("{}")
    store.discard(trial, "the disk was being scrubbed")
    assert store.trials() == [trial]
    assert store.discards()[trial.record.uuid].why == "the disk was being scrubbed"
    assert not (store.folder / "session.json").exists(), "so that the workflow plans the session again"

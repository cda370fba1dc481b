"""The trial store: a trial is whole or not there at all, and never altered unnoticed."""

import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from waiting import until

from benchstudy.measuring import confirmed, raw, sealed
from benchstudy.measuring.raw import PartialTrial, TrialStore, find_trials, index_problem
from benchstudy.measuring.storedtrials import CorruptTrial
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model import paths
from benchstudy.model.causes import Cause, Failure
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
    (partial.folder / os.fsdecode(b"\xff\xfe%\x7f")).write_text("2")
    (partial.folder / "files" / "C:\\data").write_text("3")
    (partial.folder / "files" / "latest").symlink_to("a\nfolder/x\r")
    (partial.folder / "out").symlink_to("/etc/passwd")
    (partial.folder / "round").symlink_to("round")
    os.mkfifo(partial.folder / "pipe")
    trial = partial.commit(record(partial))
    (again,) = store.trials()
    assert again == trial
    names = {"trial.json", "files/a%0Afolder/x%0D", "%FF%FE%25%7F", "files/latest", "out.link", "round.link"}
    names.add("files/C:%5Cdata")
    assert {file.name for file in again.files} == names
    assert (trial.folder / "files" / "latest").read_text() == "1"
    assert (trial.folder / "out.link").read_text() == "/etc/passwd"
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=trial.folder, check=True)


def test_the_cause_of_an_old_failure_is_translated_anew_and_no_other_record_is_read_again(tmp_path):
    store = TrialStore(paths.family_raw(tmp_path, "study", "target", "file_size"))
    wanted = set()
    for version in (1, 2):
        for status, failure in (("ok", {}), ("failed", {"cause": "exited", "failure": Failure(cause=Cause.EXITED)})):
            partial = store.begin("size=1MB", 1)
            told = record(partial, status=status).model_copy(update={"schema_version": version, **failure})
            trial = partial.commit(told)
            if version == 1 and failure:
                wanted.add(trial.facts.uuid)
    began = confirmed.clock_ns(store.folder)
    until(lambda: confirmed.clock_ns(store.folder) > began)  # what changed in the same tick is not remembered
    store.trials()
    again = [trial.facts for trial in store.trials()]
    assert {facts.uuid for facts in again if isinstance(facts, TrialRecord)} == wanted and len(again) == 4


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


@pytest.mark.long
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
def test_a_damaged_trial_that_is_discarded_is_left_out(store, name, caplog):
    damaged, whole = committed(store), committed(store)
    entry = {"path": str(damaged.folder.relative_to(store.folder)), **vars_of(damaged), "files": []}
    others = [{**entry, "path": path, "uuid": "x"} for path in ("size=1MB/0000-00000000", "size=1MB/9999-ffffffff")]
    index = {"trials": [*others, entry]}
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
    assert name in caplog.text and "benchstudy discard" not in caplog.text, "that is done"


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


def test_no_two_trials_of_a_store_begin_alike_because_discards_are_named_by_it(store, monkeypatch):
    ids = ["0123abcd-1", "0123abcd-2", "0123abcd-3", "99999999-4", "99999999-5", "88888888-6"]
    drawn = iter(UUID(hex=f"{start}{number:0>24}") for start, number in (one.split("-") for one in ids))
    monkeypatch.setattr(raw, "uuid4", lambda: next(drawn))
    trials = [committed(opened) for opened in (store, store, TrialStore(store.folder))]
    assert [trial.short for trial in trials] == ["0123abcd", "99999999", "88888888"]
    for trial in trials:
        store.discard(trial, "a test")
    assert store.discards().keys() == {trial.record.uuid for trial in trials}


def test_trials_come_by_case_block_and_start(store):
    def held(case, block, second):
        partial = store.begin(case, block)
        started = (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=second)).isoformat()
        return partial.commit(record(partial, case).model_copy(update={"block": block, "started": started}))

    expected = [held("a", 1, 9), held("a", 2, 3), held("a", 2, 5), held("a", 10, 1), held("b", 1, 0)]
    assert [trial.folder for trial in store.trials()] == [trial.folder for trial in expected]
    assert [trial.folder.name for trial in expected[:1]] == [f"0001-{expected[0].record.uuid[:8]}"]
    assert expected[3].folder.name == f"0010-{expected[3].short}" and expected[3].folder.parent.name == "a"


def test_trials_that_are_committed_together_are_as_whole_as_one(store):
    partials = [store.begin("size=1MB", block) for block in (1, 2)]
    for number, partial in enumerate(partials):
        (partial.folder / "stdout").write_text(f"{number}")
    records = [record(partial).model_copy(update={"block": block}) for block, partial in enumerate(partials, start=1)]
    together = PartialTrial.commit_together(list(zip(partials, records, strict=True)))
    assert store.trials(read=True) == together and [trial.files[0].size for trial in together] == [1, 1]
    for trial in together:
        assert stat.S_IMODE(trial.folder.stat().st_mode) == 0o555
        assert {stat.S_IMODE(path.stat().st_mode) for path in trial.folder.iterdir()} == {0o444}
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=trial.folder, check=True)


def test_all_of_a_trial_is_on_the_disk_before_it_has_its_name(store, monkeypatch):
    """A power cut cannot be tried here, so the test hears what the kernel is asked for."""
    asked, fsync, rename = [], sealed.fsync, os.rename
    monkeypatch.setattr(sealed, "fsync", lambda path: (asked.append(path.name), fsync(path)))
    monkeypatch.setattr(raw, "fsync", lambda path: (asked.append(path.name), fsync(path)))
    monkeypatch.setattr(os, "rename", lambda *paths: (asked.append("renamed"), rename(*paths)))
    monkeypatch.setattr(os, "sync", lambda: asked.append("all"))
    partial = store.begin("size=1MB", 1)
    (partial.folder / "files").mkdir()
    (partial.folder / "files" / "result.json").write_text("{}")
    partial.commit(record(partial))
    before = {"result.json", "trial.json", "SHA256SUMS", "files", partial.folder.name}
    assert {*asked[:-2]} == before and asked[-2:] == ["renamed", "size=1MB"]
    asked.clear()
    partials = [store.begin("size=1MB", block) for block in (2, 3)]
    PartialTrial.commit_together([(partial, record(partial)) for partial in partials])
    assert asked == ["all", "renamed", "renamed", "all"]
    asked.clear()
    store.keep_look(look_of(1, "2026-01-03"))
    assert {*asked[:-2]} == {"look.json", "SHA256SUMS", ".partial-00000001"} and asked[-2:] == ["renamed", "looks"]


def test_what_is_abandoned_is_gone_and_what_its_links_lead_to_is_not_touched(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o750)
    (outside / "kept").write_text("x")
    partial = store.begin("size=1MB", 1)
    (partial.folder / "files").mkdir()
    (partial.folder / "files" / "link").symlink_to(outside)
    (partial.folder / "files").chmod(0o500)
    partial.abandon()
    assert not partial.folder.exists() and (outside / "kept").read_text() == "x"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o750


def test_a_refused_session_waits_as_long_as_it_is_told_to(store):
    answers = iter([True, True, False])
    with store.exclusive():
        with (
            pytest.raises(SessionFailed, match="another session is writing here"),
            store.exclusive(lambda: next(answers)),
        ):
            pass
        assert next(answers, None) is None, "it asked until the answer was no"
    with store.exclusive(lambda: False):
        assert (store.folder / ".lock").read_text().startswith(f"process {os.getpid()} on ")


def test_what_a_killed_move_left_is_put_back_or_removed(store):
    one, other = committed(store), committed(store)
    aside = one.folder.with_name(f".replaced-{one.folder.name}")
    one.folder.rename(aside)
    shutil.copytree(other.folder, other.folder.with_name(f".replaced-{other.folder.name}"))
    shutil.copytree(other.folder, other.folder.with_name(f".received-{other.folder.name}"))
    with store.exclusive():
        names = {path.name for path in one.folder.parent.iterdir()}
    assert names == {one.folder.name, other.folder.name} and len(store.trials()) == 2


# -- looks -----------------------------------------------------------------------------------------------------


def look_of(number, when):
    return {"uuid": f"{number:08x}-0000-4000-8000-000000000000", "when": when, "blocks": 6, "cases": {}}


def test_looks_are_kept_sealed_and_come_back_earliest_first(store):
    assert store.looks() == []
    late, early, same = look_of(1, "2026-01-03"), look_of(2, "2026-01-01"), look_of(3, "2026-01-01")
    for look in (late, same, early):
        store.keep_look(look)
    assert store.looks() == [early, same, late]
    folder = store.folder / "looks" / "00000002"
    assert {path.name for path in folder.iterdir()} == {"look.json", "SHA256SUMS"}
    assert sorted(path.name for path in folder.parent.iterdir()) == ["00000001", "00000002", "00000003"]
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    assert store.trials() == [], "a look is no trial"


def test_a_look_that_is_not_as_it_was_kept_is_named_with_what_to_do(store):
    store.keep_look(look_of(1, "2026-01-03"))
    path = store.folder / "looks" / "00000001" / "look.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("2026-01-03", "2026-01-04"))
    with pytest.raises(
        CorruptTrial, match=r"look\.json: altered.*; it belongs to a look: restore it from a copy, or rem"
    ):
        store.looks()


@pytest.mark.parametrize("content", ["[1]", "{", "{}", '{"when": "x"}', '{"when": 3, "uuid": "x"}', "[" * 100_000, "7"])
def test_a_file_that_was_never_a_look_is_named(store, content):
    folder = store.folder / "looks" / "00000001"
    folder.mkdir(parents=True)
    (folder / "look.json").write_text(content)
    sealed.seal(folder)
    with pytest.raises(CorruptTrial, match=r"look\.json: damaged: not a look of a session"):
        store.looks()


# -- what another store sealed ---------------------------------------------------------------------------------


def test_what_another_store_sealed_becomes_part_of_this_one_only_whole(store, tmp_path):
    other = TrialStore(tmp_path / "raw" / "other" / "target" / "file_size")
    trial = committed(other)
    place = f"{trial.folder.parent.name}/{trial.folder.name}"
    with store.receiving(place) as folder:
        shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
        for path in folder.rglob("*"):
            path.chmod(0o755)
        assert store.trials() == [], "not before it is committed"
    store.commit_received([place])
    (received,) = store.trials()
    assert received.files == trial.files and received.record == trial.record
    assert stat.S_IMODE((received.folder / "stdout").stat().st_mode) == 0o444
    entry = other.discard(trial, "a test")
    name = f"{trial.short}.json"
    store.receive_discard(name, (other.folder / "discards" / name).read_text())
    assert store.discards() == {trial.record.uuid: entry}


@pytest.mark.parametrize("ends", ["altered", "added", "interrupted", "full"])
def test_what_was_not_received_whole_leaves_nothing(store, tmp_path, ends):
    trial = committed(TrialStore(tmp_path / "raw" / "other" / "target" / "file_size"))
    place = f"{trial.folder.parent.name}/{trial.folder.name}"
    raised = {"interrupted": KeyboardInterrupt, "full": OSError}.get(ends, CorruptTrial)
    with pytest.raises(raised) as caught, store.receiving(place) as folder:
        shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
        if ends == "altered":
            (folder / "stdout").chmod(0o644)
            (folder / "stdout").write_text("other")
            (folder / "trial.json").unlink()
        elif ends == "added":
            folder.chmod(0o755)
            (folder / "nicer").touch()
        else:
            raise raised
    told = {"altered": f"{place}/stdout: altered: its SHA-256", "added": f"{place}/nicer: added: SHA256SUMS"}
    assert told.get(ends, "") in str(caught.value)
    assert ends != "altered" or f"; {place}/trial.json: missing" in str(caught.value)
    assert list(store.folder.rglob("*/*")) == [] and store.trials() == []


def test_a_part_that_was_here_is_replaced_by_the_whole(store, tmp_path):
    trial = committed(TrialStore(tmp_path / "raw" / "other" / "target" / "file_size"))
    place = f"{trial.folder.parent.name}/{trial.folder.name}"
    part = store.folder / place
    shutil.copytree(trial.folder, part)
    size = (part / "stdout").stat().st_size
    (part / "stdout").unlink()
    (part / "IN_ARCHIVE").write_text(json.dumps({"stdout": size}))
    (here,) = store.trials()
    assert here.files == trial.files, "sizes of files that only the archive has are known"
    with store.receiving(place) as folder:
        shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
    store.commit_received([place])
    assert {path.name for path in part.iterdir()} == {path.name for path in trial.folder.iterdir()}
    assert [path.name for path in part.parent.iterdir()] == [part.name]


# -- records that cannot be read -------------------------------------------------------------------------------


def test_a_damaged_record_is_told_with_what_to_do(store):
    trial = committed(store)
    path = trial.folder / "trial.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"block": 1', '"block": "one"'))
    raw = store.folder.parents[2]
    with pytest.raises(
        CorruptTrial, match=r"(?s)trial\.json: cannot be read .* and session\.json does not list this trial"
    ):
        find_trials(raw, trial.short)
    path.unlink()
    with pytest.raises(CorruptTrial, match=r"trial\.json: cannot be read"):
        find_trials(raw, trial.short)
    sealed.seal(trial.folder)
    with pytest.raises(CorruptTrial, match=r"trial\.json: not a trial record that this version can read"):
        store.trials()


def test_a_damaged_discard_is_told(store):
    trial = committed(store)
    store.discard(trial, "a test")
    path = store.folder / "discards" / f"{trial.short}.json"
    path.write_text(path.read_text().replace('"why"', '"how"'))
    with pytest.raises(CorruptTrial, match="damaged: cannot tell which trial was discarded"):
        store.discards()


def test_records_of_the_first_schema_get_the_failure_that_their_words_say():
    partial = PartialTrial("01234567-0000-4000-8000-000000000000", None, None)
    now_told = record(partial).model_dump(mode="json") | {"status": "aborted", "cause": "interrupted"}
    told = now_told | {"schema_version": 1}
    assert TrialRecord.model_validate(told).failure.cause is Cause.INTERRUPTED
    assert TrialRecord.model_validate(now_told).failure is None
    assert TrialRecord.model_validate(told | {"cause": None}).failure is None


def test_why_no_session_was_held_is_read_from_its_index(store):
    assert index_problem(store.index) is None
    store.index.parent.mkdir(parents=True)
    least = {"target": "t", "family": "f", "problem": None, "sessions": [], "trials": [], "discarded": []}
    for content, told in (
        (json.dumps(least), None),
        (json.dumps(least | {"problem": "no host"}), "no host"),
        ("{", "session.json was damaged, and is made again"),
        (json.dumps(least | {"trials": 7}), "session.json was damaged, and is made again"),
    ):
        store.index.write_text(content)
        assert index_problem(store.index) == told
    store.index.unlink()
    store.index.mkdir()
    assert "Is a directory" in index_problem(store.index)

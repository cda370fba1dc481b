"""Raw decides: changes since sealing are found by sizes, times and inodes, and only changed files are read."""

import json
import os
import shutil
from pathlib import Path

import pytest
from stored_study import SESSION, StoredStudy

from benchstudy.measuring import confirmed, sealed
from benchstudy.measuring.confirmed import RawAltered
from benchstudy.measuring.raw import CorruptTrial, StoredTrial, TrialFacts, TrialStore
from benchstudy.model import paths


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> StoredStudy:
    return StoredStudy(tmp_path_factory.mktemp("sealed"))


class Store:
    """A family's raw folder that was confirmed, and what was read since then."""

    def __init__(self, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.root, self.folder, self.read = root, folder, []
        self.index = paths.remembered(folder, paths.CONFIRMED)
        self.index.parent.mkdir(parents=True)
        until_times_differ(self.index.parent, folder)
        sha256 = sealed._sha256
        monkeypatch.setattr(sealed, "_sha256", lambda path: (self.read.append(path.name), sha256(path))[1])
        assert self.doubtful() != [] and self.confirm() is None and self.read != []
        self.read.clear()

    def doubtful(self) -> list[str]:
        return confirmed.doubtful(self.root, [self.folder])

    def confirm(self) -> str | None:
        """The message about altered files; None if all is well."""
        try:
            confirmed.confirm(self.root, [self.folder])
        except RawAltered as error:
            return str(error)
        return None


@pytest.fixture
def store(original: StoredStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    root = tmp_path / "project"
    folder = root / original.store.folder.relative_to(original.root)
    shutil.copytree(original.store.folder, folder)
    for path in folder.rglob("*"):
        path.chmod(0o755)
    return Store(root, folder, monkeypatch)


@pytest.fixture
def trial(store: Store, original: StoredStudy) -> Path:
    return store.folder / original.ok.folder.relative_to(original.store.folder)


def until_times_differ(folder: Path, *changed: Path) -> None:
    """Wait until a new file's time is later than any time below `changed`."""
    last = max(path.stat().st_ctime_ns for top in changed for path in (top, *top.rglob("*")))
    while confirmed.clock_ns(folder) <= last:
        pass


def flip(path: Path) -> None:
    """Flip one bit, and keep everything else that a file says about itself, except the time of its change."""
    times, content = path.stat(), bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_what_nobody_touched_is_not_read(store):
    assert store.doubtful() == [] and store.confirm() is None and store.read == []


@pytest.mark.fault(30)
def test_a_flipped_bit_is_named_each_time_until_it_is_mended(store, trial):
    flip(trial / "stdout")
    for _ in range(2):
        told = store.confirm()
        assert f"{(trial / 'stdout').relative_to(store.root)}: altered" in told
        assert f"benchstudy discard {trial.name[-8:]}" in told
    assert set(store.read) >= {"stdout"} and "trial.json" not in store.read[:1]
    flip(trial / "stdout")
    assert store.confirm() is None


def test_what_was_only_touched_is_read_once(store, trial):
    (trial / "stdout").touch()
    assert store.doubtful() == [(trial / "stdout").relative_to(store.root).as_posix()]
    until_times_differ(store.index.parent, trial)
    assert store.confirm() is None and store.read == ["stdout"]
    assert store.doubtful() == []


def test_another_file_of_the_same_size_and_time_in_its_place_is_read(store, trial):
    content, times = (trial / "stdout").read_bytes(), (trial / "stdout").stat()
    other = trial.with_name("other")
    other.write_bytes(bytes(reversed(content)))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(trial / "stdout")
    assert "stdout: altered" in store.confirm()


def test_a_file_that_changed_in_the_moment_it_was_read_is_read_again(store, trial, monkeypatch):
    """The second change is within the same tick of the file system's clock, so nothing distinguishes the two."""
    (trial / "stdout").touch()
    then = (trial / "stdout").stat().st_ctime_ns
    monkeypatch.setattr(confirmed, "clock_ns", lambda folder: then)
    assert store.confirm() is None
    assert store.doubtful() == [(trial / "stdout").relative_to(store.root).as_posix()]
    monkeypatch.undo()


def test_added_and_missing_files_are_named_and_a_link_is_no_file(store, trial):
    (trial / "nicer.txt").write_text("x")
    (trial / "stderr").unlink()
    (trial / "supervisor.json").rename(trial.with_name("kept"))
    (trial / "supervisor.json").symlink_to(trial.with_name("kept"))
    for _ in range(2):
        told = store.confirm()
        for line in ("nicer.txt: added", "stderr: missing", "supervisor.json: a link instead of a file"):
            assert f"{trial.relative_to(store.root)}/{line}" in told


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("scrubbed", "polished"))


def copied(path: Path) -> None:
    shutil.copytree(path, path.with_name("0099-01234567"))


@pytest.mark.parametrize(
    ("place", "how", "words"),
    [
        ("{trial}", gone, "session.json lists this trial, and its folder is gone"),
        ("sessions/{session}", gone, "session.json lists this session, and its folder is gone"),
        ("sessions/{session}/session.json", flip, "session.json: altered"),
        ("discards/{discarded}.json", gone, "missing"),
        ("discards/{discarded}.json", edited, "do not agree"),
        ("{trial}", copied, "is on disk, but not listed"),
        ("{trial}/SHA256SUMS", gone, "its SHA256SUMS is missing"),
    ],
)
def test_all_that_belongs_to_a_study_is_watched(store, trial, original, place, how, words):
    names = {"trial": trial.relative_to(store.folder), "session": SESSION[:8], "discarded": original.discarded.short}
    how(store.folder / place.format(**names))
    for _ in range(2):
        assert words in (store.confirm() or ""), "also the second time"


def test_a_sum_that_was_altered_with_its_file_is_found_in_session_json(store, trial):
    digest = sealed.sums_in((trial / "SHA256SUMS").read_text())["stdout"]
    (trial / "stdout").write_text("better\n")
    other = sealed.sha256_of(trial / "stdout")
    (trial / "SHA256SUMS").write_text((trial / "SHA256SUMS").read_text().replace(digest, other))
    assert "stdout: SHA256SUMS and session.json do not agree on it" in store.confirm()


def test_a_look_is_watched(store):
    look = {"uuid": "abcdef01-0000-4000-8000-000000000000"}
    index = store.folder / paths.SESSION_INDEX
    index.write_text(json.dumps(json.loads(index.read_text()) | {"stopping": {"looks": [look]}}))
    assert "looks/abcdef01: session.json lists this look, and its folder is gone" in store.confirm()


def test_a_discarded_trial_may_be_damaged(store, original):
    path = store.folder / original.discarded.folder.relative_to(original.store.folder) / "stdout"
    flip(path)
    until_times_differ(store.index.parent, path)
    assert store.confirm() is None and store.doubtful() == []
    assert len(confirmed.check(store.root, store.folder).differences) == 1, "`benchstudy verify` names it all the same"


@pytest.mark.parametrize("spoil", [lambda content: b"", lambda content: content.replace(b"stdout", b"stdouT")])
def test_a_spoilt_memory_is_made_again(store, spoil):
    store.index.write_bytes(spoil(store.index.read_bytes()))
    assert store.confirm() is None and len(store.read) > 10
    assert store.doubtful() == []


# -- code that asks for trials ----------------------------------------------------------------------------------------


def facts_of(trials: list[StoredTrial]) -> list[dict[str, object]]:
    return [trial.facts.model_dump(include=set(TrialFacts.model_fields)) | {"files": trial.files} for trial in trials]


def test_trials_are_read_once_and_discarded_ones_each_time(store, original):
    discarded = sorted(file.name.rpartition("/")[2] for file in original.discarded.files)
    first = TrialStore(store.folder).trials()
    assert sorted(store.read) == discarded
    again = TrialStore(store.folder).trials()
    assert facts_of(again) == facts_of(first) and sorted(store.read) == sorted(2 * discarded)
    assert [trial.record for trial in again] == [trial.record for trial in first]
    store.read.clear()
    checked = confirmed.check(store.root, store.folder)
    assert sorted(store.read) == discarded and not checked.differences
    assert checked == confirmed.check(store.root, store.folder, read=True) and len(store.read) > checked.files


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (flip, "stdout: altered"),
        (gone, "stdout: missing"),
        (lambda path: path.with_name("nicer.txt").write_text("x"), "nicer.txt: added"),
    ],
)
def test_whoever_asks_for_trials_notices_what_is_not_as_it_was(store, trial, how, words):
    TrialStore(store.folder).trials()
    how(trial / "stdout")
    for _ in range(2):
        with pytest.raises(CorruptTrial, match=words):
            TrialStore(store.folder).trials()
        assert any(words in line for line in confirmed.check(store.root, store.folder).differences)


def test_a_trial_whose_discard_was_taken_back_is_compared(store, original):
    path = store.folder / original.discarded.folder.relative_to(original.store.folder) / "stdout"
    flip(path)
    assert store.confirm() is None
    shutil.rmtree(store.folder / "discards")
    (store.folder / paths.SESSION_INDEX).unlink()
    assert "stdout: altered" in store.confirm()
    with pytest.raises(CorruptTrial, match="stdout: altered"):
        TrialStore(store.folder).trials()

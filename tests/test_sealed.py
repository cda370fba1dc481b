"""Raw decides: changes since sealing are found by sizes, times and inodes, and only changed files are read."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import as_project
from stored_study import SESSION, STUDY, StoredStudy

from benchstudy.commands.cli import main
from benchstudy.measuring import confirmed, sealed
from benchstudy.measuring.confirmed import RawAltered
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sessionindex import write_index
from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial, load_trial
from benchstudy.measuring.trialrecord import TrialFacts
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
    for _ in range(2):
        flip(trial / "stdout")
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


def test_sealing_overwrites_no_file_of_a_tool_and_cuts_names_that_get_too_long(tmp_path):
    contents = {"x.link": "of the tool", "r%0A1": "first", "r\n1": "second", "\n" * 90: "third"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "x").symlink_to("/nowhere")
    (tmp_path / ("y" * 252)).symlink_to("/no-such-file")
    sealed.seal(tmp_path, durable=False)
    found = sorted(path.read_text() for path in tmp_path.iterdir() if path.name != "SHA256SUMS")
    assert found == sorted([*contents.values(), "/nowhere", "/no-such-file"])
    assert (tmp_path / "x.link").read_text() == "of the tool" and (tmp_path / "r%0A1").read_text() == "first"
    assert sealed.check_folder("it", tmp_path).differences == []


def test_a_link_to_nowhere_is_named_and_hides_nothing_else(store, trial):
    """Sorted by name, it comes before the other file."""
    (trial / "stderr").unlink()
    (trial / "stderr").symlink_to("nowhere")
    flip(trial / "stdout")
    for _ in range(2):
        told = store.confirm()
        assert f"{trial.relative_to(store.root)}/stderr: a link instead of a file" in told
        assert f"{trial.relative_to(store.root)}/stdout: altered" in told
    with pytest.raises(CorruptTrial, match="stderr: a link instead of a file; restore the folder from a copy"):
        TrialStore(store.folder).trials()


def test_links_to_the_very_file_are_no_files_either(store, trial):
    """A link would let the content change without a trace in the folder."""
    kept = store.root / "kept"
    (trial / "stdout").rename(kept)
    (trial / "stdout").symlink_to(kept)
    assert "stdout: a link instead of a file" in store.confirm()
    (trial / "files").rename(store.root / "files")
    (trial / "files").symlink_to(store.root / "files")
    assert "files/answer of it.json: missing" in store.confirm()


@pytest.mark.parametrize("of", ["case", "trial"])
def test_a_folder_that_is_a_link_is_not_there(store, trial, of):
    """What is behind it may be anything tomorrow, and a copy of the store would not have it."""
    linked = trial if of == "trial" else trial.parent
    linked.rename(store.root / "kept")
    linked.symlink_to(store.root / "kept")
    assert f"{trial.relative_to(store.root)}: session.json lists this trial, and its folder is gone" in store.confirm()
    assert trial not in [found.folder for found in TrialStore(store.folder).trials()]


def test_forty_files_are_named_and_the_others_are_counted(store, trial):
    for number in range(40):
        (trial / f"new{number:02}").touch()
    told = store.confirm()
    assert told.count(": added") == 40 and "more" not in told
    for number in range(40, 43):
        (trial / f"new{number:02}").touch()
    lines = store.confirm().splitlines()
    assert [line.strip() for line in lines[40:42]] == [
        f"{trial.relative_to(store.root)}/new39: added: SHA256SUMS does not list it",
        "and 3 more",
    ]
    assert lines[42].startswith("Restore altered and missing files")
    assert lines[43].endswith(f"`benchstudy discard {trial.name[-8:]} --why …`") and len(lines) == 44


def test_what_is_lost_whole_cannot_be_measured_again_by_discarding_it(store, trial, original):
    shutil.rmtree(trial)
    told = store.confirm()
    assert "benchstudy discard" not in told and "If a folder is lost, you can remove session.json" in told
    other = store.folder / original.failed.folder.relative_to(original.store.folder)
    flip(other / "stdout")
    told = store.confirm()
    assert f"benchstudy discard {other.name[-8:]} --why" in told and "If a folder is lost" in told


@pytest.mark.parametrize("left", ["an empty disk", "no folder"])
def test_a_whole_store_that_is_lost_is_not_one_to_measure_again(store, tmp_path, left):
    """As when the disk of data/raw is not mounted: session.json went with the trials."""
    at, kept = store.folder.relative_to(store.root), tmp_path / "kept"
    had = len(TrialStore(store.folder).trials())
    store.folder.rename(kept)
    if left == "an empty disk":
        store.folder.mkdir()
    for _ in range(2):
        assert store.doubtful() != []
        assert f"{at}: missing or empty, and it had {had} trials when it was last compared; if you" in store.confirm()
    for read in (False, True):
        assert [found.name for found in confirmed.check(store.root, store.folder, read=read).differences] == [str(at)]
    if store.folder.exists():
        store.folder.rmdir()
    kept.rename(store.folder)
    assert store.doubtful() == [] and store.confirm() is None
    shutil.rmtree(store.folder)
    (memory,) = (word.rstrip(",") for word in store.confirm().split() if word.startswith(".benchstudy/"))
    (store.root / memory).unlink()
    assert store.doubtful() == [] and store.confirm() is None


@pytest.mark.parametrize("command", ["plan", "cases"])
def test_a_lost_trial_is_named_and_not_told_as_one_to_measure(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    stored = StoredStudy(Path())
    Path("small.yaml").write_text(yaml.safe_dump(STUDY))
    assert main([command, *(["--no-hosts"] if command == "plan" else []), "small.yaml"]) == 0
    capsys.readouterr()
    for trial in (stored.ok, stored.failed):
        sealed.make_writable(trial.folder)
        shutil.rmtree(trial.folder)
    for measure in (True, False):
        Path("small.yaml").write_text(yaml.safe_dump(STUDY | {"measure": measure}))
        assert main([command, *(["--no-hosts"] if command == "plan" else []), "small.yaml"]) == 1
        printed = capsys.readouterr()
        told = printed.out if command == "plan" else printed.err
        for trial in (stored.ok, stored.failed):
            assert f"{trial.folder}: session.json lists this trial, and its folder is gone" in told
        assert "Restore altered and missing files from a copy" in told and "you can remove session.json" in told
        assert "to measure" not in told


def test_no_discard_hides_that_another_trial_is_lost(tmp_path, monkeypatch, capsys):
    """It removes session.json, which alone tells of the other one."""
    monkeypatch.chdir(as_project(tmp_path))
    stored = StoredStudy(Path())
    Path("small.yaml").write_text(yaml.safe_dump(STUDY))
    discard = ["discard", stored.ok.short, "--why", "a test", "--study", "small.yaml"]
    kept = tmp_path / "kept"
    stored.failed.folder.rename(kept)
    assert main(discard) == 1
    told = capsys.readouterr().err
    assert f"{stored.failed.folder}: session.json lists this trial, and its folder is gone" in told
    assert main(["cases", "small.yaml"]) == 1, "it is still found"
    kept.rename(stored.failed.folder)
    (stored.failed.folder / "SHA256SUMS").rename(tmp_path / "lost")  # damaged: a discard is the remedy
    assert main(discard) == 0


def test_a_damaged_trial_that_was_aborted_is_discarded_too(store, original, monkeypatch):
    """It is no result, but all that exists is compared."""
    (store.root / "workflow").mkdir()
    (store.root / "workflow" / "Snakefile").touch()
    monkeypatch.chdir(store.root)
    aborted = store.folder / original.aborted.folder.relative_to(original.store.folder)
    flip(aborted / "stdout")
    assert f"benchstudy discard {original.aborted.short} --why" in store.confirm()
    assert main(["discard", original.aborted.short, "--why", "its disk was failing"]) == 0
    assert store.confirm() is None
    left = TrialStore(store.folder)
    write_index(original.plan, left, left.trials(), None)
    assert store.confirm() is None


def test_the_memory_begins_where_there_was_no_folder_for_it(store, tmp_path):
    root = tmp_path / "another"
    folder = root / store.folder.relative_to(store.root)
    shutil.copytree(store.folder, folder)
    until_times_differ(tmp_path, folder)
    assert not (root / ".benchstudy").exists() and confirmed.doubtful(root, [folder]) != []
    confirmed.confirm(root, [folder])
    assert confirmed.doubtful(root, [folder]) == [] and len(store.read) > 10


def test_a_store_that_is_not_there_leaves_no_memory(tmp_path):
    store = paths.family_raw(tmp_path, "s", "t", "fio")
    confirmed.confirm(tmp_path, [store])
    assert confirmed.doubtful(tmp_path, [store]) == [] and list(tmp_path.iterdir()) == []
    assert TrialStore(store).trials() == [] and confirmed.check(tmp_path, store).lines == []


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
        ("{trial}", copied, "0099-01234567: is a copy of, or was moved from, {trial}: move it back, or remove it if"),
        ("{trial}/SHA256SUMS", gone, "its SHA256SUMS is missing"),
    ],
)
def test_all_that_belongs_to_a_study_is_watched(store, trial, original, place, how, words):
    names = {"trial": trial.relative_to(store.folder), "session": SESSION[:8], "discarded": original.discarded.short}
    how(store.folder / place.format(**names))
    for _ in range(2):
        assert words.format(**names) in (store.confirm() or ""), "also the second time"


@pytest.mark.parametrize("how", [shutil.copytree, shutil.move])
def test_a_trial_counts_only_where_it_was_stored(store, trial, original, how):
    """Its files are as they were sealed, wherever they lie."""
    place = trial.relative_to(store.folder).as_posix()
    other = trial.with_name("0002-01234567")
    how(trial, other)
    words = f"{other.name}: is a copy of, or was moved from, {place}: move it back, or remove it if that exists"
    told = store.confirm()
    assert words in told and "benchstudy discard" not in told
    (store.folder / paths.SESSION_INDEX).unlink()  # is made again of what exists
    for _ in range(2):
        with pytest.raises(CorruptTrial, match=re.escape(words)):
            TrialStore(store.folder).trials()
    with pytest.raises(CorruptTrial, match=re.escape(words)):
        load_trial(other)


def test_a_copy_that_an_index_lists_is_named(store, trial):
    """As an earlier version listed it."""
    other = trial.with_name("0002-01234567")
    shutil.copytree(trial, other)
    index = store.folder / paths.SESSION_INDEX
    content = json.loads(index.read_text())
    (entry,) = (entry for entry in content["trials"] if entry["path"].endswith(trial.name))
    content["trials"].append({**entry, "path": other.relative_to(store.folder).as_posix()})
    index.write_text(json.dumps(content))
    assert f"{other.name}: is a copy of" in store.confirm()


def test_a_sum_that_was_altered_with_its_file_is_found_in_session_json(store, trial):
    digest = sealed.sums_in((trial / "SHA256SUMS").read_text())["stdout"]
    (trial / "stdout").write_text("better\n")
    other = sealed.sha256_of(trial / "stdout")
    (trial / "SHA256SUMS").write_text((trial / "SHA256SUMS").read_text().replace(digest, other))
    assert "stdout: SHA256SUMS and session.json do not agree on it" in store.confirm()


def with_its_sum(path: Path, digest: str | None = None) -> None:
    """Write something else into a file, and its sum, or another one, into the list beside it."""
    sums = path.parent / "SHA256SUMS"
    was = sealed.sums_in(sums.read_text())[path.name]
    path.write_text("better\n")
    sums.write_text(sums.read_text().replace(was, digest or sealed.sha256_of(path)))


def test_what_is_wrong_in_two_ways_is_told_once(store, trial):
    with_its_sum(trial / "stdout", "0" * 64)
    told = store.confirm()
    assert "stdout: altered" in told and "do not agree" not in told


def test_a_discarded_trial_whose_sums_are_others_stops_no_report(store, original):
    with_its_sum(store.folder / original.discarded.folder.relative_to(original.store.folder) / "stdout")
    assert store.confirm() is None
    assert [
        "stdout: SHA256SUMS and session.json do not agree on it" in line
        for line in confirmed.check(store.root, store.folder).lines
    ] == [True]


def test_a_session_whose_record_and_sums_were_altered_together_is_found(store):
    folder = store.folder / "sessions" / SESSION[:8]
    record = folder / paths.SESSION_INDEX
    record.write_text(record.read_text().replace("6.1.0", "6.1.1"))
    sealed.seal(folder)
    at = folder.relative_to(store.root)
    assert f"{at}/session.json: it and {at.parents[1]}/session.json do not agree" in store.confirm()


def test_a_discard_that_nobody_listed_is_named(store, trial):
    short = trial.name[-8:]
    (store.folder / "discards" / f"{short}.json").write_text('{"uuid": "x"}')
    told = store.confirm()
    assert f"discards/{short}.json: was added; remove " in told and "which lists it" in told


def test_the_names_and_contents_that_sums_cannot_hold_are_differences(store, trial):
    sums = (trial / "SHA256SUMS").read_text()
    assert sealed.sums_in(sums).keys() == {str(p.relative_to(trial)) for p in trial.rglob("*") if p.is_file()} - {
        "SHA256SUMS"
    }
    (trial / "SHA256SUMS").write_text(sums + "not a line of sums\n")
    told = store.confirm()
    assert "not a line of sums: missing" in told and "stdout" not in told


def test_what_only_an_archive_has_is_counted_and_not_missing(store, trial):
    before = confirmed.check(store.root, store.folder)
    listed = sum(len(path.read_text().splitlines()) for path in store.folder.rglob("SHA256SUMS"))
    assert (before.files, before.in_archive, before.differences) == (listed, 0, [])
    sizes = {name: (trial / name).stat().st_size for name in ("stdout", "stderr")}
    for name in sizes:
        (trial / name).unlink()
    (trial / "IN_ARCHIVE").write_text(json.dumps(sizes))
    until_times_differ(store.index.parent, trial)
    for read in (False, False, True):
        checked = confirmed.check(store.root, store.folder, read=read)
        assert (checked.files, checked.in_archive, checked.differences) == (before.files - 2, 2, [])
    (trial / "IN_ARCHIVE").write_text("[]")
    assert [line.partition(": ")[2] for line in confirmed.check(store.root, store.folder).lines] == [
        "added: SHA256SUMS does not list it",
        "missing",
        "missing",
    ]


def test_a_damaged_index_is_told_and_one_that_cannot_be_read_now_is_no_damage(store):
    index = store.folder / paths.SESSION_INDEX
    whole = index.read_text()
    for content in ("{", whole.replace('"trials"', '"trails"'), "[]", whole.replace('"sha256"', '"sha"')):
        index.write_text(content)
        (told,) = confirmed.check(store.root, store.folder).lines
        assert told.startswith(f"{index.relative_to(store.root)}: damaged; ")
    index.unlink()
    assert confirmed.check(store.root, store.folder).lines == [], "it can be made again"
    index.write_text(whole)
    until_times_differ(store.index.parent, index)
    assert confirmed.check(store.root, store.folder).lines == []
    index.unlink()
    assert confirmed.check(store.root, store.folder).lines == [], "also one that was compared"
    index.mkdir()
    assert "Is a directory" in confirmed.check(store.root, store.folder).lines[0]


def test_sums_are_added_up_over_stores():
    total = sealed.Checked(1, 2, ["a"])
    total += sealed.Checked(10, 20, ["b"])
    assert total == sealed.Checked(11, 22, ["a", "b"])


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
    [line] = confirmed.check(store.root, store.folder).lines
    assert line.startswith(f"{path.relative_to(store.root)}: altered"), "`benchstudy verify` names it all the same"
    assert line.endswith("its trial is discarded, and no figure uses it: restore it from a copy, or leave it as it is")


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
    assert again == first and [type(trial.facts) for trial in again] != [type(trial.facts) for trial in first]
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
        assert any(words in line for line in confirmed.check(store.root, store.folder).lines)


def test_a_trial_whose_discard_was_taken_back_is_compared(store, original):
    path = store.folder / original.discarded.folder.relative_to(original.store.folder) / "stdout"
    flip(path)
    assert store.confirm() is None
    shutil.rmtree(store.folder / "discards")
    (store.folder / paths.SESSION_INDEX).unlink()
    assert "stdout: altered" in store.confirm()
    with pytest.raises(CorruptTrial, match="stdout: altered"):
        TrialStore(store.folder).trials()


def test_records_are_utf_8_whatever_the_locale(tmp_path):
    """Those who read them take them as such."""
    code = "from benchstudy.model.files import write_atomically, Path; write_atomically(Path('record.json'), '\\u2265')"
    without = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=without, check=True)
    assert (tmp_path / "record.json").read_text(encoding="utf-8") == "≥"

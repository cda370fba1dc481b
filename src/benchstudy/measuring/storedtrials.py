"""Reads committed trials, and compares their files with what was sealed unless it is known that none changed."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from benchstudy.measuring import confirmed
from benchstudy.measuring.checked import SUMS, Difference, How
from benchstudy.measuring.sealed import (
    RECORD,
    Seen,
    check_folder,
    in_archive,
    place_of,
    sums_in,
)
from benchstudy.measuring.trialrecord import TrialFacts, TrialRecord
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError


class CorruptTrial(BenchstudyError):
    """A raw file is not what was stored. `remedy`: what to do if the trial is not discarded yet."""

    def __init__(self, difference: str, remedy: str = ""):
        super().__init__(f"{difference}; {remedy}" if remedy else difference)
        self.difference = difference


class StoredFile(NamedTuple):
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class StoredTrial:
    """A committed trial whose files were compared with SHA256SUMS."""

    folder: Path
    facts: TrialFacts = field(compare=False)
    files: tuple[StoredFile, ...]

    @cached_property
    def record(self) -> TrialRecord:
        """The whole `trial.json`, read on first access. Raises CorruptTrial."""
        return self.facts if isinstance(self.facts, TrialRecord) else _record_in(self.folder)

    @property
    def short(self) -> str:
        return self.facts.uuid[:8]


class Reading:
    """Reads the trials of a store. What is remembered of a trial is valid as long as its files do not change.

    `read`: compare the files anyway.
    """

    def __init__(self, store: Path, moment: confirmed.Moment, seen: Seen, read: bool):
        self._store, self._moment, self._seen, self._read = store, moment, seen, read
        self._known, self._before = confirmed.known(store, seen), confirmed.recall(store, paths.READ)
        self._sure, self._facts = dict(self._known), dict[str, Any]()

    def trial(self, place: str) -> StoredTrial:
        return _in_its_place(self._trial(place))

    def _trial(self, place: str) -> StoredTrial:
        folder, files = self._store / place, self._seen[place]
        known = {} if self._read else self._known.get(place, {})
        if files != known:
            checked = confirmed.check_place(f"{folder}/", folder, files, known)
            if checked.differences:
                self._sure.pop(place, None)
                raise _corrupt(folder, checked.differences[0])
            self._sure[place] = self._moment.certain(files)
        sums, before = files[SUMS], self._before.get(place)
        with suppress(LookupError, TypeError, ValueError):  # damaged, or from another version
            if before and before["sums"] == sums:
                stored = tuple(map(StoredFile._make, before["files"]))
                trial = StoredTrial(folder, TrialFacts.model_validate(before["facts"]), stored)
                self._facts[place] = before
                return trial
        record = _record_in(folder)
        trial = StoredTrial(folder, record, tuple(read_sums(folder)))
        # Another version may translate a failure better.
        if SUMS in self._sure[place] and not (record.failure and record.schema_version == 1):
            told = record.model_dump(mode="json", include=set(TrialFacts.model_fields))
            self._facts[place] = {"sums": sums, "files": list(map(list, trial.files)), "facts": told}
        return trial

    def remember(self) -> None:
        if self._facts != self._before:
            confirmed.remember(self._store, paths.READ, self._facts)
        if self._sure != self._known:
            confirmed.remember(self._store, paths.CONFIRMED, self._sure)


def in_order(trials: Iterable[StoredTrial]) -> list[StoredTrial]:
    """By case, block and start."""
    return sorted(trials, key=lambda t: (t.facts.case, t.facts.block, t.facts.started))


def load_trial(folder: Path) -> StoredTrial:
    """A committed trial, verified. Raises CorruptTrial that names the file and what is wrong with it."""
    files = tuple(verify(folder))
    return _in_its_place(StoredTrial(folder, _record_in(folder), files))


def _in_its_place(trial: StoredTrial) -> StoredTrial:
    """Raises CorruptTrial for a copy, whose files are as they were sealed."""
    folder, facts = trial.folder, trial.facts
    stored = place_of(facts.case, facts.block, facts.uuid)
    if f"{folder.parent.name}/{folder.name}" != stored:
        raise CorruptTrial(str(Difference(str(folder), How.MOVED, stored)))
    return trial


def _record_in(folder: Path) -> TrialRecord:
    try:
        return TrialRecord.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValueError) as error:
        raise CorruptTrial(f"{folder / RECORD}: not a trial record that this version can read: {error}") from error


def verify(folder: Path) -> list[StoredFile]:
    """The files of a sealed folder, each checked against SHA256SUMS. Raises CorruptTrial."""
    if differences := check_folder(f"{folder}/", folder).differences:
        raise _corrupt(folder, differences[0])
    return read_sums(folder)


def _corrupt(folder: Path, difference: Difference) -> CorruptTrial:
    return CorruptTrial(
        str(difference),
        "restore the folder from a copy, or have the trial measured again with "
        f"`benchstudy discard {folder.name[-8:]} --why …`",
    )


def read_sums(folder: Path) -> list[StoredFile]:
    sums, elsewhere = sums_in((folder / SUMS).read_text(encoding="utf-8")), in_archive(folder)
    sizes = {name: elsewhere[name] if name in elsewhere else (folder / name).stat().st_size for name in sums}
    return [StoredFile(name, sizes[name], digest) for name, digest in sums.items()]

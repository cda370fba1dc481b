"""The trial store: the only writer below data/raw. It appends; it never changes or removes a committed trial.

A trial is a folder that appears whole: it is filled as `.partial-…`, hashed, fsynced, made read-only and renamed.
`SHA256SUMS` in it covers every other file and can be checked with `sha256sum -c`.
"""

import getpass
import json
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from benchstudy.measuring import confirmed
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.sealed import (
    DISCARDS,
    LOOKS,
    RECORD,
    SESSIONS,
    check_folder,
    discarded_in,
    look,
    make_writable,
    place_of,
    protect,
    read_index,
    seal,
    trial_of,
)
from benchstudy.measuring.sessionrecord import keep_interrupted
from benchstudy.measuring.storedtrials import CorruptTrial, Reading, StoredTrial, in_order, read_sums
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model import paths
from benchstudy.model.errors import SessionFailed
from benchstudy.model.files import (
    as_json,
    disk_trouble,
    files_below,
    fsync,
    json_of,
    lock_if_free,
    nothing_collected,
    now,
    write_atomically,
)

log = logging.getLogger("benchstudy")

_LOOK = "look.json"
_PARTIAL = ".partial-"
_RECEIVED, _REPLACED = ".received-", ".replaced-"

# The problem of a session that left no index. The next run with hosts holds a session, which resolves it.
NOT_HELD = "its last session did not finish, or trials were discarded and no session was held since"


@dataclass(frozen=True)
class Discard:
    uuid: str
    why: str
    by: str
    when: str


class TrialStore:
    """The trials of one family on one target of one study."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.index = folder / paths.SESSION_INDEX
        self._shorts: set[str] | None = None  # how trials begin; discards and folders are named by it

    @contextmanager
    def exclusive(self, again: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold the lock that lets one session at a time write here. The end of the process releases it in any case.

        Raises SessionFailed if another session has it and `again`, which may wait before it answers, returns False.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("a+") as lock:
            while not lock_if_free(lock.fileno()):
                if not again():
                    lock.seek(0)
                    raise SessionFailed(f"{self.folder}: another session is writing here ({lock.read().strip()})")
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()} since {now()}")
            lock.flush()
            for abandoned in self.folder.glob(f"*/{_PARTIAL}*"):  # of a controller that was killed
                if abandoned.parent.name != SESSIONS or not keep_interrupted(abandoned):
                    _remove(abandoned)
            for replaced in self.folder.glob(f"*/{_REPLACED}*"):
                if not (final := replaced.with_name(replaced.name.removeprefix(_REPLACED))).exists():
                    os.rename(replaced, final)
            for abandoned in (*self.folder.glob(f"*/{_RECEIVED}*"), *self.folder.glob(f"*/{_REPLACED}*")):
                _remove(abandoned)
            yield

    def begin(self, case: str, block: int) -> "PartialTrial":
        """A place for a new trial's files. Others see nothing of it before `commit`."""
        if self._shorts is None:
            self._shorts = {trial for folder in self.folder.glob("*/[0-9]*") if (trial := trial_of(folder.name))}
        while (short := (uuid := str(uuid4()))[:8]) in self._shorts:
            pass
        self._shorts.add(short)
        folder = self.folder / case / f"{_PARTIAL}{short}"
        folder.mkdir(parents=True)
        return PartialTrial(uuid, folder, self.folder / place_of(case, block, uuid))

    @nothing_collected()
    def trials(self, *, read: bool = False, remember: bool = True) -> list[StoredTrial]:
        """Every committed trial, by case, block and start. Raises CorruptTrial that names the file.

        Files that have not changed since they were compared are read again only with `read`. What was compared is
        written down, unless `remember` is False. A discarded trial that was
        altered is left out: no figure uses it, and its content is no longer reliable.
        """
        moment, seen = confirmed.Moment(self.folder), look(self.folder)
        discarded = discarded_in(seen)
        reading = Reading(self.folder, moment, seen, read)
        trials = []
        for place in seen:
            # A trial without sums is damaged. Skipping it would have it measured again.
            if not trial_of(place):
                continue
            try:
                trials.append(reading.trial(place))
            except CorruptTrial as error:
                if trial_of(place) not in discarded:
                    raise
                log.warning("left out a discarded trial: %s", error.difference)
        if remember:
            reading.remember()
        return in_order(trials)

    def looks(self) -> list[dict[str, Any]]:
        """The looks on which adaptive sessions decided whether to continue, earliest first. Raises CorruptTrial."""
        found = []
        for sums in self.folder.glob(f"{LOOKS}/[!.]*/{SUMS}"):
            if differences := check_folder(f"{sums.parent}/", sums.parent).differences:
                raise CorruptTrial(
                    f"{differences[0]}; it belongs to a look: restore it from a copy, or remove {sums.parent}, and the "
                    "session takes the look again"
                )
            found.append(_look(sums.parent / _LOOK))
        return sorted(found, key=lambda look: (look["when"], look["uuid"]))

    def keep_look(self, look: Mapping[str, Any]) -> None:
        """Store a look: a decision to stop is a fact that no later version of a parser may revoke."""
        final = self.folder / LOOKS / look["uuid"][:8]
        folder = final.with_name(f"{_PARTIAL}{final.name}")
        folder.mkdir(parents=True)
        write_atomically(folder / _LOOK, as_json(look))
        seal(folder)
        os.rename(folder, final)
        fsync(final.parent)

    @contextmanager
    def receiving(self, place: str) -> Iterator[Path]:
        """A folder to fill with what another store sealed as `place`; `commit_received` makes it part of this store.

        Raises CorruptTrial if the content does not match its sums, and leaves nothing then.
        """
        folder = self._received(place)
        folder.mkdir(parents=True)
        try:
            yield folder
            if differences := check_folder(f"{place}/", folder).lines:
                raise CorruptTrial("; ".join(differences))
            protect(folder)
        except BaseException:
            _remove(folder)
            raise

    def commit_received(self, places: Sequence[str]) -> None:
        """Make received folders durable, all at once, and then part of the store.

        A folder that exists is replaced, because only a part of it was here.
        """
        os.sync()
        for place in places:
            _exchange(self._received(place), self.folder / place)
        os.sync()
        for place in places:
            if (replaced := _aside(self.folder / place)).exists():
                _remove(replaced)

    def _received(self, place: str) -> Path:
        final = self.folder / place
        return final.with_name(f"{_RECEIVED}{final.name}")

    def receive_discard(self, file: str, text: str) -> None:
        """Store a discard as it was written in another store."""
        folder = self.folder / DISCARDS
        folder.mkdir(exist_ok=True)
        write_atomically(folder / file, text)

    def discards(self) -> dict[str, Discard]:
        """By trial uuid."""
        found = (_discard(path) for path in sorted((self.folder / DISCARDS).glob("*.json")))
        return {entry.uuid: entry for entry in found}

    def discard(self, trial: StoredTrial, why: str) -> Discard:
        """Have the next session replace a trial. It stays on disk, and reports show it as discarded."""
        entry = Discard(trial.record.uuid, why, f"{getpass.getuser()}@{socket.gethostname()}", now())
        folder = self.folder / DISCARDS
        folder.mkdir(exist_ok=True)
        self.forget_index()
        write_atomically(folder / f"{trial.short}.json", json.dumps(entry.__dict__, indent=2) + "\n")
        self.forget_index()  # a session that was just ending may have written it without this discard
        return entry

    def forget_index(self) -> None:
        """Remove the index before its content changes. It is derived: if it is missing, the workflow plans a session.

        An old index beside new trials would look as if somebody had added them.
        """
        self.index.unlink(missing_ok=True)


class PartialTrial:
    """A trial that is being filled. Exactly one of `commit`, `commit_together` and `abandon` ends it."""

    def __init__(self, uuid: str, folder: Path, final: Path):
        self.uuid, self.folder, self._final = uuid, folder, final

    def commit(self, record: TrialRecord) -> StoredTrial:
        write_atomically(self.folder / RECORD, record.model_dump_json(indent=2) + "\n")
        seal(self.folder)
        os.rename(self.folder, self._final)
        fsync(self._final.parent)
        return StoredTrial(self._final, record, tuple(read_sums(self._final)))

    @classmethod
    def commit_together(cls, filled: Sequence[tuple["PartialTrial", TrialRecord]]) -> list[StoredTrial]:
        """Commit several trials. Their bytes reach the disk all at once, which takes a tenth of the time."""
        for partial, record in filled:
            (partial.folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
            seal(partial.folder, durable=False)
        os.sync()
        for partial, _ in filled:
            os.rename(partial.folder, partial._final)
        os.sync()
        return [StoredTrial(one._final, record, tuple(read_sums(one._final))) for one, record in filled]

    def abandon(self) -> None:
        _remove(self.folder)


def find_trials(raw: Path, prefix: str) -> list[tuple[TrialStore, StoredTrial]]:
    """Trials of any study below `raw` whose uuid begins with `prefix`. Their files are not checked, so that you can
    discard a damaged trial.
    """
    found = []
    for folder in raw.glob(f"*/*/*/*/[!.]*-{prefix[:8]}*"):
        record = _record(folder)
        if record.uuid.startswith(prefix):
            found.append((TrialStore(folder.parents[1]), StoredTrial(folder, record, ())))
    if not found:
        for _ in files_below(raw) if raw.exists() else ():  # the trial may be where this user may not look
            pass
    return found


def _record(folder: Path) -> TrialRecord:
    """The record of a trial; if it cannot be read, the little that session.json has of it."""
    try:
        return TrialRecord.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValueError) as error:
        index = folder.parents[1] / paths.SESSION_INDEX
        for entry in (read_index(index) or {"trials": ()})["trials"]:
            if index.parent / entry["path"] == folder:
                return TrialRecord.model_construct(**{key: entry[key] for key in ("uuid", "case", "block", "status")})
        raise CorruptTrial(
            f"{folder / RECORD}: cannot be read ({error}), and session.json does not list this trial: restore it"
        ) from error


def _discard(path: Path) -> Discard:
    try:
        return TypeAdapter(Discard).validate_json(path.read_bytes())
    except ValueError as error:
        raise CorruptTrial(f"{path}: damaged: cannot tell which trial was discarded; restore it from a copy") from error


def record_of(path: Path, what: str, *texts: str) -> dict[str, Any]:
    """The content of a JSON file with at least these `texts`. Raises CorruptTrial, which says `what` it is not."""
    try:
        found = json_of(path.read_bytes())
        if all(isinstance(found[name], str) for name in texts):
            return found
    except (LookupError, TypeError, ValueError):
        pass
    raise CorruptTrial(f"{path}: damaged: not {what}; restore it from a copy")


def _look(path: Path) -> dict[str, Any]:
    return record_of(path, "a look of a session", "when", "uuid")


def index_problem(index: Path) -> str | None:
    """Why a session could not be held, from its index; None if it was held, or if there is no index."""
    if not index.exists():
        return None
    try:
        found = read_index(index)
    except OSError as error:
        return disk_trouble(error) or str(error)
    return found["problem"] if found else "session.json was damaged, and is made again"


def _aside(final: Path) -> Path:
    return final.with_name(f"{_REPLACED}{final.name}")


def _exchange(folder: Path, final: Path) -> None:
    """Move a folder into place. What was there before is moved aside."""
    if final.is_dir():
        os.rename(final, _aside(final))
    try:
        os.rename(folder, final)
    except OSError:
        if _aside(final).is_dir():
            os.rename(_aside(final), final)
        raise


def _remove(folder: Path) -> None:
    """Remove a folder that was never committed, whatever its permissions."""
    make_writable(folder)
    shutil.rmtree(folder)

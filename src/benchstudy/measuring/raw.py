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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from benchstudy.measuring import confirmed
from benchstudy.measuring.checked import SUMS, Difference, How
from benchstudy.measuring.sealed import (
    DISCARDS,
    LOOKS,
    RECORD,
    SESSIONS,
    Seen,
    check_folder,
    discarded_in,
    in_archive,
    look,
    make_writable,
    place_of,
    protect,
    read_index,
    seal,
    sums_in,
    trial_of,
)
from benchstudy.measuring.sessionrecord import keep_interrupted
from benchstudy.model import paths
from benchstudy.model.causes import Failure, translated
from benchstudy.model.errors import BenchstudyError, SessionFailed
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

Status = Literal["ok", "failed", "timeout", "aborted"]
# An aborted trial says nothing about the system under test (the controller or the connection went away). It is kept
# as evidence and repeated. The others are results.
RESULTS: tuple[Status, ...] = ("ok", "failed", "timeout")


# The problem of a session that left no index. The next run with hosts holds a session, which resolves it.
NOT_HELD = "its last session did not finish, or trials were discarded and no session was held since"


class CorruptTrial(BenchstudyError):
    """A raw file is not what was stored. `remedy`: what to do if the trial is not discarded yet."""

    def __init__(self, difference: str, remedy: str = ""):
        super().__init__(f"{difference}; {remedy}" if remedy else difference)
        self.difference = difference


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToolRecord(_Record):
    """The program a command ran, as found on the host."""

    name: str
    path: str | None = None
    version: str | None = None
    sha256: str | None = None


class CommandRecord(_Record):
    """One supervised command of a trial. Durations are monotonic seconds."""

    label: str
    role: str
    host: str
    argv: list[str]
    tool: ToolRecord
    state: str
    exit_status: int | None
    signal: int | None
    started: str
    finished: str
    duration_s: float | None
    stdout_truncated: bool
    stderr_truncated: bool
    boot_id: str | None
    load_before: float | None
    load_after: float | None
    clock_offset_s: float | None
    events: list[str] = []
    limits: dict[str, Any] | None = None


class TrialFacts(_Record):
    """The part of a trial's record that decides whether anything is left to measure. Times are UTC, ISO 8601.

    `cause`: why it failed, in words; `failure`: the same as a value. Both are None if it did not fail.
    `roles`: the target's hosts by role, as the study named them.
    """

    schema_version: Literal[1, 2] = 2
    uuid: str
    target: str
    case: str
    definition_sha256: str
    block: int
    position: int
    session: str
    status: Status
    cause: str | None
    failure: Failure | None = None
    started: str
    finished: str
    duration_s: float
    imported_from: str | None = None
    roles: dict[str, str]


class TrialRecord(TrialFacts):
    """What `trial.json` holds.

    Records of schema 1 describe failures only in words. These are translated to values here, on reading, and nowhere
    else.
    """

    study: str
    study_sha256: str
    family: str
    levels: dict[str, str]
    definition: dict[str, Any]
    commands: list[CommandRecord]
    verified: dict[str, Any]
    instrument: str

    @model_validator(mode="before")
    @classmethod
    def _translate(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("schema_version") == 1 and data.get("cause"):
            return {**data, "failure": translated(data["cause"], data["status"], data["commands"])}
        return data

    @property
    def programs(self) -> list[tuple[str, str, str]]:
        """Role, path and SHA-256 of each program that ran, and of each file that the arguments of a command named."""
        ran = {(c.role, c.tool.path, c.tool.sha256) for c in self.commands if c.tool.path and c.tool.sha256}
        named = {(self.commands[0].role, *file) for file in self.verified.get("named_files", {}).items()}
        return sorted(ran | named)


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
        reading = _Reading(self.folder, moment, seen, read)
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
        return StoredTrial(self._final, record, tuple(_read_sums(self._final)))

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
        return [StoredTrial(one._final, record, tuple(_read_sums(one._final))) for one, record in filled]

    def abandon(self) -> None:
        _remove(self.folder)


class _Reading:
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
        trial = StoredTrial(folder, record, tuple(_read_sums(folder)))
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
    return _read_sums(folder)


def _corrupt(folder: Path, difference: Difference) -> CorruptTrial:
    return CorruptTrial(
        str(difference),
        "restore the folder from a copy, or have the trial measured again with "
        f"`benchstudy discard {folder.name[-8:]} --why …`",
    )


def _read_sums(folder: Path) -> list[StoredFile]:
    sums, elsewhere = sums_in((folder / SUMS).read_text(encoding="utf-8")), in_archive(folder)
    sizes = {name: elsewhere[name] if name in elsewhere else (folder / name).stat().st_size for name in sums}
    return [StoredFile(name, sizes[name], digest) for name, digest in sums.items()]


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

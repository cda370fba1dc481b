"""`benchstudy push`: sends what the archive lacks of a study, then a manifest of each session."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Any, NamedTuple

from benchstudy.archive.bucket import LARGEST, Bucket, DamagedObject, side_by_side
from benchstudy.archive.manifests import SEALED, Entry, History, Manifest, history_of
from benchstudy.archive.packs import pack
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.raw import NOT_HELD, TrialStore
from benchstudy.measuring.sealed import (
    DISCARDS,
    RECORD,
    SESSIONS,
    Seen,
    discarded_in,
    in_archive,
    look,
    read_index,
    trial_of,
)
from benchstudy.measuring.storedtrials import CorruptTrial
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import sha256_of
from benchstudy.model.study import SessionPlan, Study

# Folders up to this size are packed in memory.
_IN_MEMORY = 8 << 20
# Called with the name of a session, the number of folders done, and the number of all.
Advance = Callable[[str, int, int], None]


@dataclass
class Pushed:
    """`sent`, `there`: numbers of sealed folders; `bytes`: how many were sent. `manifests`: the new ones.

    `conditional`: whether the server itself refuses to overwrite; `compares`: whether it compares what arrives with its
    SHA-256. `left_out`: discarded trials that are damaged here.
    """

    archive: str
    study: str
    dry_run: bool
    sent: int = 0
    bytes: int = 0
    there: int = 0
    manifests: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    conditional: bool | None = None
    compares: bool | None = None


class _Sent(NamedTuple):
    """The result for one folder. If it has no entry, `problem` says why; `is_there`: it is one of the archive."""

    place: str
    entry: Entry | None = None
    is_new: bool = False
    problem: str = ""
    is_there: bool = False


def push(root: Path, study: Study, bucket: Bucket, advance: Advance, *, dry_run: bool = False) -> Pushed:
    """Raises ArchiveError, and BenchstudyError that names altered files and objects, after all others were sent."""
    stores = zip(study.sessions(), study.stores(root), strict=True)
    begun = [(plan, TrialStore(folder)) for plan, folder in stores if folder.is_dir()]
    if not begun:
        raise BenchstudyError(f"study {study.study}: nothing was measured or imported yet, so there is nothing to push")
    pushing = _Pushing(root, bucket, advance, Pushed(bucket.url, study.study, dry_run))
    damaged = []
    for plan, store in begun:
        try:
            pushing.session(plan, store)
        except (CorruptTrial, DamagedObject) as error:  # says nothing about other sessions
            damaged.append(str(error))
    if damaged:
        raise BenchstudyError("\n".join(damaged))
    return pushing.told


def room_for_a_pack(root: Path) -> "SpooledTemporaryFile[bytes]":
    """A file in memory, and on the project's disk once it is large: of that disk messages say that it is full."""
    paths.local_state(root).mkdir(parents=True, exist_ok=True)
    return SpooledTemporaryFile(_IN_MEMORY, dir=str(paths.local_state(root)))


class _Pushing:
    def __init__(self, root: Path, bucket: Bucket, advance: Advance, told: Pushed):
        self._root, self._bucket, self._advance, self.told = root, bucket, advance, told
        # Uploads wait for the server, but packing several folders at once takes longer than one after the other.
        self._packing = Lock()
        self._listed = bucket.objects(SEALED)
        if not told.dry_run:
            bucket.open_to_write()
            told.conditional, told.compares = bucket.is_conditional, bucket.compares

    def session(self, plan: SessionPlan, store: TrialStore) -> None:
        # Listed once: what a concurrent session adds belongs to the next push.
        seen, index = look(store.folder), read_index(store.index)
        discards = {name: (store.folder / DISCARDS / name).read_text() for name in seen.get(DISCARDS, ())}
        history = history_of(self._bucket, plan)
        places = [place for place in seen if "/" in place]
        known = _known(store, places, history)
        results = {place: self._found(place, entry) for place, entry in known if entry.object in self._listed}
        missing = [place for place in places if place not in results]
        sending = side_by_side(lambda place: self._send(store.folder / place, place), missing)
        for done, sent in enumerate(sending, start=1):
            self._advance(f"{plan.family_name} on {plan.target}", done, len(missing))
            results[sent.place] = sent
        entries, damaged = {}, []
        for sent in results.values():
            if sent.entry:
                entries[sent.place] = sent.entry
                self.told.sent += sent.is_new
                self.told.there += not sent.is_new
                self.told.bytes += sent.entry.size * sent.is_new
            elif f"{trial_of(sent.place)}.json" in discards and not sent.is_there:
                self.told.left_out.append(sent.problem)
            else:
                damaged.append(sent.problem)
        if damaged:
            raise CorruptTrial("\n".join(["a session with damaged raw files or objects gets no manifest:", *damaged]))
        made = Manifest(
            study=plan.study.study,
            target=plan.target,
            family=plan.family_name,
            problem=_problem(index, seen),
            sealed=entries,
            discards=discards,
        )
        if entries and made.object not in history.manifests:
            self.told.manifests.append(made.object)
            if not self.told.dry_run:
                self._bucket.put_if_absent(made.object, made.content, Path(made.object).stem)

    def _send(self, folder: Path, place: str) -> _Sent:
        if in_archive(folder):
            return _Sent(
                place, problem=f"{folder}: a part is in another archive: fetch it with `benchstudy pull --all`"
            )
        with room_for_a_pack(self._root) as file:
            try:
                with self._packing:
                    packed = pack(folder, file)
                rest = {} if _is_read(folder) else dict(packed.rest)
            except (CorruptTrial, ValueError) as error:
                return _Sent(place, problem=str(error))
            if packed.size > LARGEST:
                return _Sent(place, problem=f"{folder}: {packed.size} B exceed what S3 takes in one request (5 GiB)")
            sums = sha256_of(folder / SUMS)
            entry = Entry(pack=packed.sha256, size=packed.size, sums=sums, head=packed.head, rest=rest)
            if entry.object in self._listed:
                return self._found(place, entry)
            is_new = self.told.dry_run or self._bucket.put_if_absent(entry.object, file, entry.pack)
            return _Sent(place, entry, is_new)

    def _found(self, place: str, entry: Entry) -> _Sent:
        """The result for a folder whose object the archive has."""
        wrong = entry.difference(self._listed[entry.object], self._bucket.url)
        if not wrong:
            return _Sent(place, entry)
        way = "Nothing is overwritten: remove that object with the tools of your store, and push again"
        return _Sent(place, problem=f"{wrong}. {way}", is_there=True)


def _problem(index: Mapping[str, Any] | None, seen: Seen) -> str | None:
    """Why a session has to be held again. The index tells it only of what it lists: if a session ended or a trial was
    discarded after the folders were listed, it is about others than those that are sent.
    """
    if index is None:
        return NOT_HELD
    trials, discarded = {entry["path"] for entry in index["trials"]}, discarded_in(seen)
    sessions = {f"{SESSIONS}/{entry['uuid'][:8]}" for entry in index["sessions"]}
    # A damaged trial is no longer listed once it is discarded.
    differ = {trial_of(place) for place in trials ^ set(filter(trial_of, seen))} - discarded
    if differ or not sessions <= seen.keys() or {entry["uuid"][:8] for entry in index["discarded"]} != discarded:
        return NOT_HELD
    return index["problem"]


def _known(store: TrialStore, places: list[str], history: History) -> list[tuple[str, Entry]]:
    """Folders that were pushed before, which are not read again. Raises ArchiveError if the archive's copies differ."""
    known = history.sealed
    found = [(place, known[place]) for place in places if place in known and (store.folder / place / SUMS).is_file()]
    for place, entry in found:
        entry.require_in(store.folder / place)
    return found


def _is_read(folder: Path) -> bool:
    """Whether tables need all its files. For a session, or a trial without a result, the record is enough."""
    if folder.parent.name == SESSIONS:
        return False
    record = folder / RECORD
    return not record.is_file() or json.loads(record.read_bytes())["status"] == "ok"

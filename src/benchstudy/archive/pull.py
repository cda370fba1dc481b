"""`benchstudy pull`: fetches the raw files of a study that are missing here, and makes session.json anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from benchstudy.archive.bucket import ArchiveError, Bucket, DamagedObject, side_by_side
from benchstudy.archive.manifests import Entry, History, history_of
from benchstudy.archive.packs import unpack
from benchstudy.archive.push import Advance, room_for_a_pack
from benchstudy.measuring import confirmed
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.raw import NOT_HELD, TrialStore
from benchstudy.measuring.sealed import DISCARDS, IN_ARCHIVE, in_archive, look, read_index
from benchstudy.measuring.sessionindex import unheld, write_index
from benchstudy.measuring.storedtrials import CorruptTrial
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import as_json, write_atomically
from benchstudy.model.rounding import plural
from benchstudy.model.study import SessionPlan, Study

# So many folders become durable together: a killed pull loses no more.
_TOGETHER = 64


@dataclass
class Pulled:
    """`fetched`, `here`: numbers of sealed folders; `bytes`: how many were fetched. `discards`: how many are new here.

    `in_archive`: files that no table needs and that stay there; `sessions`: those whose session.json was made anew.
    """

    archive: str
    study: str
    dry_run: bool
    fetched: int = 0
    bytes: int = 0
    here: int = 0
    discards: int = 0
    in_archive: int = 0
    sessions: list[str] = field(default_factory=list)


def pull(
    root: Path, study: Study, bucket: Bucket, advance: Advance, *, whole: bool = False, dry_run: bool = False
) -> Pulled:
    """`whole`: also fetch what no table needs. Raises ArchiveError, and BenchstudyError that names damaged objects and
    trials; all undamaged objects have been fetched then.
    """
    bucket.require()
    told, found, damaged = Pulled(bucket.url, study.study, dry_run), False, []
    for plan, folder in zip(study.sessions(), study.stores(root), strict=True):
        history = history_of(bucket, plan)
        found |= bool(history.manifests)
        if history.manifests:
            try:
                _Pulling(root, plan, TrialStore(folder), bucket, history, told, whole).session(advance)
            except (CorruptTrial, confirmed.RawAltered, _NotFetched) as error:  # says nothing about other sessions
                damaged.append(str(error))
    if not found:
        raise ArchiveError(
            f"{bucket.url}: has no session of study {study.study!r}: it was pushed under another name, or its first "
            "push has not ended"
        )
    if damaged:
        raise BenchstudyError("\n".join(damaged))
    return told


class _NotFetched(BenchstudyError):
    """Some objects of a session are damaged; all others have been fetched."""


class _Pulling:
    def __init__(
        self,
        root: Path,
        plan: SessionPlan,
        store: TrialStore,
        bucket: Bucket,
        history: History,
        told: Pulled,
        whole: bool,
    ):
        self._root, self._plan, self._store, self._bucket, self._history = root, plan, store, bucket, history
        self._told, self._whole = told, whole
        self._name = f"{plan.family_name} on {plan.target}"

    def session(self, advance: Advance) -> None:
        sealed, folder = self._history.sealed, self._store.folder
        missing = {place: entry for place, entry in sealed.items() if not self._is_here(place, entry)}
        discards = {n: t for n, t in self._history.discards.items() if not (folder / DISCARDS / n).is_file()}
        kept = [entry for place, entry in sealed.items() if entry.rest and self._leaves_rest(place, missing)]
        self._told.in_archive += sum(len(entry.rest) for entry in kept)
        self._told.here += len(sealed) - len(missing)
        self._told.discards += len(discards)
        if self._told.dry_run:
            self._told.fetched += len(missing)
            self._told.bytes += sum(map(self._bytes, missing.values()))
            return
        index = read_index(self._store.index)
        if not (missing or discards or index is None):
            return
        with self._store.exclusive():
            confirmed.require_none_lost(self._root, folder, fetched=missing)
            # The index is derived and about to be outdated, so a killed pull leaves none.
            self._store.index.unlink(missing_ok=True)
            # Before any trial, because tables can be made of what a pull that does not finish leaves here.
            for name, text in discards.items():
                self._store.receive_discard(name, text)
            self._fetch_all(missing, advance)
            trials = self._store.trials()
            # The archive speaks of the study that was pushed; the one here may plan more, or describe a case anew.
            problem = self._problem(index) or unheld(self._plan, self._store, trials)
            write_index(self._plan, self._store, trials, problem)
        self._told.sessions.append(self._name)

    def _problem(self, index: Mapping[str, Any] | None) -> str | None:
        """Why a session has to be held again: the archive's problem, or the one here for what only this store has."""
        here, there = look(self._store.folder), self._history
        ours = {place for place in here if "/" in place} - there.sealed.keys()
        if not ours and here.get(DISCARDS, {}).keys() <= there.discards.keys():
            return there.problem
        return index["problem"] or there.problem if index else NOT_HELD

    def _leaves_rest(self, place: str, missing: dict[str, Entry]) -> bool:
        return not self._whole if place in missing else bool(in_archive(self._store.folder / place))

    def _is_here(self, place: str, entry: Entry) -> bool:
        """Raises ArchiveError if the folder here differs."""
        folder = self._store.folder / place
        if not folder.is_dir():
            return False
        entry.require_in(folder)
        return not (self._whole and in_archive(folder))

    def _bytes(self, entry: Entry) -> int:
        return entry.head if entry.rest and not self._whole else entry.size

    def _fetch_all(self, missing: dict[str, Entry], advance: Advance) -> None:
        problems, done = [], 0
        fetching = side_by_side(lambda item: self._fetch(*item), missing.items())
        while some := list(islice(fetching, _TOGETHER)):
            done += len(some)
            arrived = [place for place, problem in some if not problem]
            problems += [problem for _, problem in some if problem]
            self._store.commit_received(arrived)
            self._told.fetched += len(arrived)
            self._told.bytes += sum(self._bytes(missing[place]) for place in arrived)
            advance(self._name, done, len(missing))
        if problems:
            folders = plural(len(missing), "folder")
            raise _NotFetched(
                "\n  ".join([f"{self._name}: {len(problems)} of {folders} could not be fetched:", *problems])
                + "\nUndamaged folders stay here. Remove the damaged objects with the tools of your store, push these "
                "folders again from where they are undamaged, then pull again"
            )

    def _fetch(self, place: str, entry: Entry) -> tuple[str, str]:
        """Fetch into a folder that waits to be committed. Returns the place, and what is wrong with it."""
        name, size = f"{self._bucket.url}/{entry.object}", self._bytes(entry)
        is_part = size < entry.size
        try:
            with room_for_a_pack(self._root) as file:
                digest = self._bucket.get(entry.object, file, size, part=is_part)
                if not is_part and digest != entry.pack:
                    raise DamagedObject(f"{name}: altered: its SHA-256 does not match its name")
                file.seek(0)
                with self._store.receiving(place) as folder:
                    unpack(file, folder, name)
                    if is_part:
                        write_atomically(folder / IN_ARCHIVE, as_json(entry.rest))
                    if not entry.is_in(folder):
                        raise DamagedObject(f"{name}: altered: its {SUMS} is not the one in its manifest")
        except (DamagedObject, CorruptTrial) as error:
            return place, str(error)
        return place, ""

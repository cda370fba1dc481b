"""The trials that an import makes. A run counts once, whichever file it comes from."""

import codecs
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchstudy.commands.given_levels import levels_of
from benchstudy.families.shared.files import text_of
from benchstudy.measuring import confirmed
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.raw import PartialTrial, TrialStore
from benchstudy.measuring.sealed import RECORD
from benchstudy.measuring.sessionindex import write_index_only
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import UNKNOWN, Case, Family, Imported, ParseError
from benchstudy.model.files import now
from benchstudy.model.study import Study

_NO_DEFINITION = hashlib.sha256(b"imported").hexdigest()
# Byte order marks and encodings of text, as `text_of` reads it.
_ENCODINGS = (
    (b"", "utf-8"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TOGETHER = 500  # trials that reach the disk at once
Contents = frozenset[tuple[str, str]]  # names of files, with their SHA-256
Sizes = frozenset[tuple[str, int]]
_Key = tuple[str | None, str | None, str | None, str | None]  # of a run: tool, its version, clock, start


def readable(path: str | Path) -> str:
    """The path as text that can be stored and printed: a byte that is no UTF-8 becomes `\\xff`."""
    return os.fsencode(path).decode(errors="backslashreplace")


@dataclass
class Outcome:
    """The outcome of an import. `unknown`: by family, factors that neither an output nor the caller gave.

    `dry_run`: nothing was written, and the trials would have other ids.
    """

    dry_run: bool = False
    imported: list[tuple[Path, StoredTrial]] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def unknown(self) -> dict[str, list[str]]:
        """By family, the factors whose level no output contained."""
        found: dict[str, dict[str, None]] = {}
        for _, trial in self.imported:
            levels = trial.record.levels
            found.setdefault(trial.record.family, {}).update((n, None) for n in levels if levels[n] == UNKNOWN)
        return {family: list(factors) for family, factors in found.items() if factors}

    @property
    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        taken = (
            {
                "path": readable(path),
                "trial": None if self.dry_run else r.uuid,
                "family": r.family,
                "case": r.case,
                "block": r.block,
                "status": r.status,
                "cause": r.cause,
            }
            for path, r in ((path, trial.record) for path, trial in self.imported)
        )
        refused = [{"path": readable(path), "why": why} for path, why in self.refused]
        return {"dry_run": self.dry_run, "imported": list(taken), "refused": refused, "unknown": self.unknown}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises BenchstudyError if the output cannot be read, which refuses no other one. A full disk is another error."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, path, str(path)):  # a failed read does not name the file
            raise
        raise BenchstudyError(f"cannot be read: {error.strerror}") from error


def _contents(files: Mapping[str, bytes]) -> Contents:
    return frozenset((name, hashlib.sha256(content).hexdigest()) for name, content in files.items())


def _copies(files: Mapping[str, bytes], whole: str, sizes: Collection[Sizes]) -> Iterator[Contents]:
    """The contents of copies with other line ends and, of the file `whole`, in other encodings.

    Only copies that have one of the `sizes` are made: hashing all eight would take most of an import's time.
    """
    texts = {name: text_of(content).replace("\r\n", "\n") for name, content in files.items()}
    for end in ("\n", "\r\n"):
        ended = {name: text.replace("\n", end) for name, text in texts.items()}
        lengths = {name: _length(text, "utf-8") for name, text in ended.items()}
        for mark, encoding in _ENCODINGS:
            length = len(mark) + _length(ended[whole], encoding)
            if frozenset({**lengths, whole: length}.items()) in sizes:
                parts = {name: text.encode() for name, text in ended.items() if name != whole}
                yield _contents({**parts, whole: mark + ended[whole].encode(encoding)})


def _own(run: Imported, content: bytes) -> str:
    """A digest of the run that does not depend on what surrounds it in the file, whose content is `content`."""
    lines = "\n".join(line.rstrip() for line in text_of(content).splitlines()).strip()
    others = sorted((name, part.hex()) for name, part in run.files.items() if name != run.file_name)
    return hashlib.sha256(repr((run.tool, run.own or (lines, others))).encode(errors="replace")).hexdigest()


def _length(text: str, encoding: str) -> int:
    """The number of bytes of a text in UTF-8 or UTF-16."""
    return len(text) * (1 if encoding == "utf-8" else 2) if text.isascii() else len(text.encode(encoding))


def _key_of(record: TrialRecord) -> _Key:
    told, began = record.verified, record.started
    start = None if began == told.get("imported", began) else began
    return told.get("tool"), told.get("tool_version"), told.get("clock"), start


class ImportedTrials:
    """The trials of one family during an import. They are read, and so hashed, once."""

    def __init__(self, root: Path, study: Study, target: str, family: Family, outcome: Outcome):
        self._root, self._study, self._target, self._family, self._outcome = root, study, target, family, outcome
        self._store = self._filling = TrialStore(paths.family_raw(root, study.study, target, family.name))
        self._instrument = instrument_sha256(family.name)
        self._filled: list[tuple[Path, PartialTrial, TrialRecord]] = []
        self._own: dict[str, str] = {}  # runs by their digest, and what holds them
        self._unread: dict[_Key, list[StoredTrial]] = {}  # trials whose runs are not among these yet
        self._runs: dict[str, list[tuple[Contents, str]]] = {}  # by SHA-256 of a stored file

    def __enter__(self) -> "ImportedTrials":
        with ExitStack() as stack:  # releases the lock if the trials cannot be read
            if self._outcome.dry_run:
                self._filling = TrialStore(Path(stack.enter_context(TemporaryDirectory(prefix="benchstudy-"))))
            else:
                stack.enter_context(self._store.exclusive())
                confirmed.confirm(self._root, [self._store.folder])  # a new index would hide a loss
            self._trials = self._store.trials(remember=not self._outcome.dry_run)
            discarded = self._store.discards()
            self._stack = stack.pop_all()
        self._held: dict[Contents, str] = {}
        self._sizes: set[Sizes] = set()  # of what is held
        self._blocks: dict[str, int] = {}
        for trial in self._trials:
            record = trial.record
            self._blocks[record.case] = max(self._blocks.get(record.case, 0), record.block)
            if record.imported_from is not None and record.uuid not in discarded:
                own = [file for file in trial.files if file.name != RECORD]
                self._held[frozenset((file.name, file.sha256) for file in own)] = f"trial {trial.short}"
                self._sizes.add(frozenset((file.name, file.size) for file in own))
                self._unread.setdefault(_key_of(record), []).append(trial)
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an interrupt, and for trials that an earlier import left without an index.
        with self._stack:
            self._commit()
            if self._outcome.dry_run:
                return
            plan = self._study.session(self._target, self._family.name)
            write_index_only(plan, self._store, self._trials)

    def _commit(self) -> None:
        if self._outcome.dry_run:
            self._outcome.imported += [(path, StoredTrial(p.folder, record, ())) for path, p, record in self._filled]
            for _, partial, _ in self._filled:
                partial.abandon()
            self._filled.clear()
            return
        self._store.forget_index()
        trials = PartialTrial.commit_together([(partial, record) for _, partial, record in self._filled])
        self._trials += trials
        self._outcome.imported += [(path, trial) for (path, _, _), trial in zip(self._filled, trials, strict=True)]
        self._filled.clear()

    def add(self, path: Path, sha256: str, runs: list[Imported], said: Mapping[str, str]) -> None:
        """Store the runs of a file; refused runs are listed in the outcome.

        Raises BenchstudyError if its content is no longer that of `sha256`, in which the runs were found.
        """
        with reading(path):
            whole = path.read_bytes()
        if hashlib.sha256(whole).hexdigest() != sha256:
            raise BenchstudyError("changed while it was being imported; import it when it is finished")
        for number, run in enumerate(runs, start=1):
            try:
                self._add(path, whole, sha256, run, said)
            except (BenchstudyError, ParseError) as error:
                where = f"run {number} of {len(runs)}: " if len(runs) > 1 else ""
                self._outcome.refused.append((path, f"{where}{error}"))
        if len(self._filled) >= _TOGETHER:
            self._commit()

    def _add(self, path: Path, whole: bytes, sha256: str, run: Imported, said: Mapping[str, str]) -> None:
        """Store a run of the file's content `whole`, whose digest is `sha256`.

        Raises BenchstudyError if the study already has the run, or if a level contradicts it.
        """
        files = {run.file_name: whole, **run.files}
        contents = _contents(files)
        copies = chain([contents], _copies(files, run.file_name, self._sizes))
        held = next((self._held[copy] for copy in copies if copy in self._held), None)
        if held is not None:
            raise BenchstudyError(f"{held} already holds the same content")
        own = _own(run, files[run.file_name])
        held = self._holding(run, own)
        if held is not None:
            raise BenchstudyError(f"{held} already holds this run, so it is skipped: a run counts once")
        levels = levels_of(self._family, run, said)
        case = Case(levels).id
        block = self._blocks.get(case, 0) + 1
        partial = self._filling.begin(case, block)
        try:
            for name, content in files.items():
                (partial.folder / name).write_bytes(content)
            if run.failure is None:
                self._family.parse(levels, partial.folder)
        except BaseException:
            partial.abandon()
            raise
        source = {"name": readable(path.name), "sha256": sha256}
        record = self._record(partial.uuid, case, block, levels, run, said, source)
        self._filled.append((path, partial, record))
        self._blocks[case] = block
        held_by = readable(path) if self._outcome.dry_run else f"trial {partial.uuid[:8]}"
        self._held[contents] = held_by
        self._sizes.add(frozenset((name, len(content)) for name, content in files.items()))
        self._own[own] = held_by

    def _holding(self, run: Imported, own: str) -> str | None:
        """What holds the run with this digest. Only trials that may are read, and each of them once."""
        if own not in self._own:
            told = (run.tool, run.tool_version, run.clock)
            keys: list[_Key] = [(*told, start) for start in {run.started, None}]
            if run.outputs:  # not each of them tells version and start
                keys = [key for key in self._unread if key[0] == run.tool]
            for trial in chain(*(self._unread.pop(key, ()) for key in keys)):
                parts = {file.name: file.sha256 for file in trial.files if file.name != RECORD}
                name = next((name for name in (run.file_name, *run.outputs) if name in parts), None)
                if name is None:
                    continue
                whole = parts.pop(name)
                if whole not in self._runs:
                    self._runs[whole] = self._read(trial.folder / name)
                for others, digest in self._runs[whole]:
                    if others == frozenset(parts.items()):
                        self._own[digest] = f"trial {trial.short} (from {trial.record.imported_from})"
        return self._own.get(own)

    def _read(self, file: Path) -> list[tuple[Contents, str]]:
        """The runs in a stored file, as what else their trials hold, and their digests."""
        try:
            runs, content = self._family.parse_import(file), file.read_bytes()
        except (ParseError, OSError):  # an earlier version took it; or it is only in the archive
            return []
        others = ({name: part for name, part in run.files.items() if name != file.name} for run in runs)
        return [(_contents(other), _own(run, content)) for run, other in zip(runs, others, strict=True)]

    def _record(
        self,
        uuid: str,
        case: str,
        block: int,
        levels: dict[str, str],
        run: Imported,
        said: Mapping[str, str],
        source: Mapping[str, str],
    ) -> TrialRecord:
        when = now()
        started, finished = run.started or when, run.finished or run.started or when
        told = {"command": run.command, "clock": run.clock, "options": run.options, "said": dict(said)}
        return TrialRecord(
            uuid=uuid,
            study=self._study.study,
            study_sha256=self._study.sha256,
            target=self._target,
            family=self._family.name,
            case=case,
            levels=levels,
            definition={},
            definition_sha256=_NO_DEFINITION,
            block=block,
            position=0,
            session="imported",
            roles={},
            status="ok" if run.failure is None else "failed",
            cause=run.cause,
            failure=run.failure,
            started=started,
            finished=finished,
            duration_s=(datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds(),
            commands=[],
            verified={
                "tool": run.tool,
                "tool_version": run.tool_version,
                "notes": list(run.notes),
                "source": source,
                "imported": when,
                **{name: value for name, value in told.items() if value},
            },
            instrument=self._instrument,
            imported_from=source["name"],
        )

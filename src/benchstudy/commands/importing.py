"""`benchstudy import`: stores existing outputs of a tool as trials, verbatim and marked as imported."""

import codecs
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchstudy.families.shared.files import text_of
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.raw import PartialTrial, StoredTrial, TrialRecord, TrialStore
from benchstudy.measuring.sealed import RECORD
from benchstudy.measuring.sessionindex import write_index_only
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import UNKNOWN, Case, Family, Imported, ParseError
from benchstudy.model.files import files_below, now, sha256_of
from benchstudy.model.names import COLUMNS, FACTOR, check_name, nearest
from benchstudy.model.study import Study

_NO_DEFINITION = hashlib.sha256(b"imported").hexdigest()
_PLACE = re.compile(r"\{(\w*)\}|(\*)")
_LARGEST = 256 << 20  # bytes of a file
_BEGINNING = 4096
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")  # gzip, bzip2, xz, zstd, zip
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


def import_outputs(
    root: Path,
    study: Study,
    target: str | None,
    outputs: Iterable[Path],
    *,
    said: Mapping[str, str] | None = None,
    pattern: str | None = None,
    dry_run: bool = False,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Store every run in each file that a family of the study recognises.

    `said`: levels that the caller knows; `pattern`: levels in paths, such as `{host}/{kernel}/*.json`. `dry_run`: write
    nothing. `advance` gets the numbers of files done and of all files. A run that the study already has is refused, so
    importing a file twice counts it once. Raises BenchstudyError for an invalid level or pattern.
    """
    target = target or next(iter(study.targets))
    if target not in study.targets:
        raise BenchstudyError(f"--target: the study has no target {target!r}: {nearest(target, study.targets)}")
    of_path = _pattern(pattern) if pattern else None
    for name, level in (said or {}).items():
        _check_level("--level", name, level)
    files, outcome = _files(outputs), Outcome(dry_run)
    with ExitStack() as stack:
        stores: dict[str, _Store] = {}
        for number, path in enumerate(files, start=1):
            try:
                levels = _given(said or {}, _of_path(of_path, path) if of_path else {})
                family, runs, sha256 = _recognise(study, path)
                if family.name not in stores:
                    stores[family.name] = stack.enter_context(_Store(root, study, target, family, outcome))
                stores[family.name].add(path, sha256, runs, levels)
            except (BenchstudyError, ParseError) as error:
                outcome.refused.append((path, str(error)))
            advance(number, len(files))
    return outcome


def _files(outputs: Iterable[Path]) -> list[Path]:
    """Raises BenchstudyError for a path that cannot be an output, before anything is stored."""
    found = []
    for path in outputs:
        if not path.exists():
            raise BenchstudyError(f"{path}: no such file or folder")
        inside = _below(path) if path.is_dir() else [path]
        if not inside:
            raise BenchstudyError(f"{path}: this folder has no files")
        if not path.is_dir() and not path.is_file():  # a pipe may never end, and a device has no end
            raise BenchstudyError(f"{path}: is a pipe, a socket or a device; write the output to a file first")
        found += inside
    return found


def _below(folder: Path) -> list[Path]:
    """All files, and links that lead nowhere, which are refused later. Raises OSError for an unreadable folder."""
    return sorted(path for path in files_below(folder) if path.is_file() or not path.exists())


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raises BenchstudyError if the output cannot be read, which refuses no other one. A full disk is another error."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, path, str(path)):  # a failed read does not name the file
            raise
        raise BenchstudyError(f"cannot be read: {error.strerror}") from error


def _beginning(path: Path) -> bytes:
    """Raises BenchstudyError for a file that cannot be read, or is too large."""
    with _reading(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    if size > _LARGEST:
        raise BenchstudyError(f"has {size} bytes, but at most {_LARGEST} can be read: split it")
    return beginning


def _recognise(study: Study, path: Path) -> tuple[Family, list[Imported], str]:
    """The family and the runs of an output, and the SHA-256 that it had before it was read for them."""
    beginning = _beginning(path)
    with _reading(path):
        sha256 = sha256_of(path)
    for name in study.families:
        family = registry.get(name).of(study.families[name])
        with _reading(path):
            runs = family.parse_import(path)
        if runs:
            return family, runs, sha256
    if not beginning.strip():
        raise BenchstudyError("is empty")
    if beginning.startswith(_PACKED):
        raise BenchstudyError("is compressed or an archive: unpack it first")
    if b"\0" in beginning and not beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BenchstudyError("is not UTF-8 text: save it as UTF-8 first")
    raise BenchstudyError(_unknown(study, path))


def _unknown(study: Study, path: Path) -> str:
    """Why an output is refused, and what to do: which other family takes it, or what those of the study take."""
    for name in registry.names():
        if name not in study.families and _takes(name, path):
            return f"the study has no family {name}, which takes this output: add `{name}: {{}}` to its families"
    taken = {name: registry.get(name).outputs for name in study.families}
    told = "; ".join(f"{name} takes {outputs}" for name, outputs in taken.items() if outputs) or "they take none"
    return (
        f"no family of the study ({', '.join(study.families)}) recognises this output: {told}; docs/importing.md says "
        "how to import figures from any other tool"
    )


def _takes(family: str, path: Path) -> bool:
    """Whether an installed family knows the output; if it is damaged, the family says so when the study has it."""
    try:
        return bool(registry.get(family).parse_import(path))
    except ParseError:
        return True
    except (BenchstudyError, OSError):  # a broken package
        return False


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


class _Store:
    """The trials of one family during an import. They are read, and so hashed, once."""

    def __init__(self, root: Path, study: Study, target: str, family: Family, outcome: Outcome):
        self._study, self._target, self._family, self._outcome = study, target, family, outcome
        self._store = self._filling = TrialStore(paths.family_raw(root, study.study, target, family.name))
        self._instrument = instrument_sha256(family.name)
        self._filled: list[tuple[Path, PartialTrial, TrialRecord]] = []
        self._own: dict[str, str] = {}  # runs by their digest, and what holds them
        self._unread: dict[_Key, list[StoredTrial]] = {}  # trials whose runs are not among these yet
        self._runs: dict[str, list[tuple[Contents, str]]] = {}  # by SHA-256 of a stored file

    def __enter__(self) -> "_Store":
        with ExitStack() as stack:  # releases the lock if the trials cannot be read
            if self._outcome.dry_run:
                self._filling = TrialStore(Path(stack.enter_context(TemporaryDirectory(prefix="benchstudy-"))))
            else:
                stack.enter_context(self._store.exclusive())
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
        with _reading(path):
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
        levels = _levels(self._family, run, said)
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
            for trial in chain(*(self._unread.pop((*told, start), ()) for start in {run.started, None})):
                parts = {file.name: file.sha256 for file in trial.files if file.name != RECORD}
                if run.file_name not in parts:
                    continue
                whole = parts.pop(run.file_name)
                if whole not in self._runs:
                    self._runs[whole] = self._read(trial.folder / run.file_name)
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


# -- levels that people and paths give ---------------------------------------------------------------------------------


def levels_said(texts: Collection[str]) -> dict[str, str]:
    """Levels by name, from texts `name=level`. Raises BenchstudyError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals:
            raise BenchstudyError(f"--level {text}: write it as name=level, such as --level backend=posix")
        if found.setdefault(name, level) != level:
            raise BenchstudyError(f"--level {text}: {name} is already given as {found[name]!r}; give it once")
    return found


def _check_level(where: str, name: str, level: str) -> None:
    if not FACTOR.fullmatch(name) or name in COLUMNS:
        raise BenchstudyError(
            f"{where}: {name!r} cannot be a factor: use small letters, digits and _, and none of " + ", ".join(COLUMNS)
        )
    try:
        check_name(level)
    except ValueError as error:
        raise BenchstudyError(f"{where} {name}: {error}") from error


def _pattern(pattern: str) -> re.Pattern[str]:
    """Matches the end of a path: `{name}` is a level, `*` anything, both within one part."""
    names = [match[1] for match in _PLACE.finditer(pattern) if not match[2]]
    wrong = next((name for name in names if not FACTOR.fullmatch(name) or names.count(name) > 1), None)
    if not names or wrong is not None:
        raise BenchstudyError(
            f"--case {pattern!r}: write {{name}} where the path has a level, each name once, such as "
            "--case '{host}/{kernel}/*.json'; give levels that no path contains with --level name=level"
        )
    parts, end = [], 0
    for match in _PLACE.finditer(pattern):
        parts += [re.escape(pattern[end : match.start()]), "[^/]*" if match[2] else f"(?P<{match[1]}>[^/]+?)"]
        end = match.end()
    return re.compile(f"(?:.*/)?{''.join(parts)}{re.escape(pattern[end:])}")


def _of_path(pattern: re.Pattern[str], path: Path) -> dict[str, str]:
    match = pattern.fullmatch(path.absolute().as_posix())
    if match is None:
        raise BenchstudyError("--case: the pattern does not match the end of this path")
    for name, level in match.groupdict().items():
        _check_level("--case", name, level)
    return match.groupdict()


def _given(said: Mapping[str, str], of_path: Mapping[str, str]) -> dict[str, str]:
    """What `--level` and the path give together. Raises BenchstudyError if they contradict."""
    for name in said.keys() & of_path.keys():
        if said[name] != of_path[name]:
            raise BenchstudyError(f"--level {name}={said[name]} contradicts --case: the path has {of_path[name]!r}")
    return {**said, **of_path}


def _levels(family: Family, run: Imported, said: Mapping[str, str]) -> dict[str, str]:
    """The levels of a run together with those that were given for it. Raises BenchstudyError if they contradict."""
    levels = dict(run.levels)
    for name, level in said.items():
        told = levels.get(name, UNKNOWN)
        if told not in (UNKNOWN, level):
            raise BenchstudyError(f"{name}={level} was given, but the output itself has {name}={told}")
        if name in family.numeric_levels and level != UNKNOWN:
            try:
                family.numeric_levels[name][1](level)
            except ValueError as error:
                raise BenchstudyError(f"{name}={level}: {error}") from error
        levels[name] = level
    return levels

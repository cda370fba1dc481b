"""The content of a crate: every trial, session and discard, the reports and their software, laid out like a project."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchstudy.measuring import disturbances
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sealed import against_index, in_archive, look, read_index, trial_of
from benchstudy.measuring.storedtrials import StoredFile, StoredTrial, verify
from benchstudy.model import hints, paths, sources
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.interference import Disturbance
from benchstudy.model.study import SessionPlan, Study
from benchstudy.provenance.packages import INSTALLED, installed_text
from benchstudy.report.overview.bundle import report_files
from benchstudy.report.study.studypages import STUDY_PAGES
from benchstudy.report.zips import chunks

STUDY_FILE = "study.json"
# What makes the tables from raw files. Folders are packed whole.
CODE = (*paths.SOFTWARE, "src")
# Which of these a project made by `benchstudy init` has of its own.
_OWN = ("envs", "notebooks", "workflow/rules", paths.PUBLISHED)
_LEFT_BEHIND = {"__pycache__", ".ipynb_checkpoints"}
_SCRATCH_ENDINGS = ("~", ".pyc", ".orig", ".rej", ".swp")


@dataclass(frozen=True)
class Part:
    """One file of a crate: its name, and where its content comes from. `sha256` is that of the verified content."""

    name: str
    source: Path | bytes
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, source: Path | bytes) -> "Part":
        """A file of the crate with the size and SHA-256 of its content, `source`."""
        digest, size = hashlib.sha256(), 0
        for chunk in chunks(source):
            digest.update(chunk)
            size += len(chunk)
        return cls(name, source, size, digest.hexdigest())


@dataclass(frozen=True)
class Measured:
    """The trials and sessions of one family on one target, all verified."""

    plan: SessionPlan
    folder: str
    index: Mapping[str, Any]
    trials: tuple[StoredTrial, ...]
    sessions: Mapping[str, Mapping[str, Any]]
    parts: tuple[Part, ...]

    def name_of(self, trial: StoredTrial) -> str:
        """The trial's folder in the crate."""
        return f"{self.folder}/{trial.folder.parent.name}/{trial.folder.name}"

    def disturbance_of(self, trial: StoredTrial) -> Disturbance | None:
        """What others used of its hosts meanwhile, if that exceeded the study's limits."""
        return self.plan.disturbance.disturbed(disturbances.seen(trial))


@dataclass(frozen=True)
class Contents:
    """A whole study. `declared` is the study as the workflow reads it.

    `instruments`: by family, SHA-256 of the packed measuring code. Other versions may have measured the trials.
    """

    study: Study
    declared: Mapping[str, Any]
    instruments: Mapping[str, str]
    measured: tuple[Measured, ...]
    reports: tuple[Part, ...]
    others: tuple[Part, ...]

    @property
    def parts(self) -> list[Part]:
        """Every file, by name."""
        measured = (part for each in self.measured for part in each.parts)
        return sorted([*measured, *self.reports, *self.others], key=lambda part: part.name)

    @property
    def trials(self) -> list[StoredTrial]:
        """The trials of all families and targets."""
        return [trial for each in self.measured for trial in each.trials]


def gather(root: Path, study: Study) -> Contents:
    """Everything that belongs to `study` in the project at `root`.

    Raises CorruptTrial for an altered raw file, and BenchstudyError with the remedy for what does not exist yet.
    """
    declared = as_declared(study)
    measured = tuple(_measured(root, plan) for plan in study.sessions())
    if not any(each.trials for each in measured):
        raise BenchstudyError(f"study {study.study}: nothing was measured or imported yet, so there is nothing to pack")
    text = json.dumps(declared, indent=2, ensure_ascii=False) + "\n"
    others = [Part.of(STUDY_FILE, text.encode()), *_facts(root, study)]
    if not paths.is_whole(root):
        others.append(Part.of(INSTALLED, installed_text().encode()))
    code = software(root)
    others += [Part.of(name, path) for name, path in code.items()]
    is_packed = sources.path_of("benchstudy").resolve() in {path.resolve() for path in code.values()}
    instruments = {family: instrument_sha256(family) for family in study.families} if is_packed else {}
    return Contents(study, declared, instruments, measured, tuple(_reports(root, study)), tuple(others))


def as_declared(study: Study) -> dict[str, Any]:
    """The study as its file has it, without defaults, so that it means the same when it is read again."""
    return study.model_dump(mode="json", serialize_as_any=True, exclude_unset=True, exclude={"measure", "beside"})


def _measured(root: Path, plan: SessionPlan) -> Measured:
    folder = plan.raw(root)
    name = folder.relative_to(root).as_posix()
    store = TrialStore(folder)
    index = read_index(store.index)
    if index is None:
        raise BenchstudyError(
            f"{plan.family_name} on {plan.target}: {name}/session.json is missing or damaged; run "
            f"{hints.snakemake()} first"
        )
    trials = store.trials(read=True)
    # Reports are made from what the index lists, so a crate with other trials could not reproduce them.
    for _, difference in against_index(root, folder, index, look(folder)):
        raise BenchstudyError(str(difference))
    parts = [Part.of(f"{name}/{paths.SESSION_INDEX}", store.index)]
    verified = {trial.folder: trial.files for trial in trials}
    sessions = {}
    # Sessions and other sealed folders lie beside the cases, in the same form.
    for sealed in sorted(sums.parent for sums in folder.glob(f"*/[!.]*/{SUMS}")):
        if sealed not in verified and trial_of(sealed.name):
            continue  # altered, and therefore discarded; its record may be what is lost
        if in_archive(sealed):
            raise BenchstudyError(
                f"{sealed}: a part is only in an archive, and a crate needs all: run `benchstudy pull --all`"
            )
        parts += _sealed(name, folder, sealed, verified.get(sealed) or verify(sealed))
        if sealed.parent.name == "sessions":
            place = f"{name}/sessions/{sealed.name}"
            sessions[place] = json.loads((sealed / paths.SESSION_INDEX).read_bytes())
    parts += [Part.of(f"{name}/discards/{path.name}", path) for path in sorted(folder.glob("discards/*.json"))]
    return Measured(plan, name, index, tuple(trials), sessions, tuple(parts))


def _sealed(name: str, store: Path, folder: Path, files: Sequence[StoredFile]) -> Iterator[Part]:
    """A sealed folder's files with their verified hashes, and its list of sums."""
    place = f"{name}/{folder.relative_to(store).as_posix()}"
    yield from (Part(f"{place}/{file.name}", folder / file.name, file.size, file.sha256) for file in files)
    yield Part.of(f"{place}/{SUMS}", folder / SUMS)


def _facts(root: Path, study: Study) -> Iterator[Part]:
    """What hosts had, by target and family."""
    folder = root / "data" / "provision" / study.study
    for target in study.targets:
        for path in sorted(folder.glob(f"{target}/*.json")):
            yield Part.of(path.relative_to(root).as_posix(), path)


def software(root: Path) -> dict[str, Path]:
    """Everything but the study in a crate of the project at `root`, by name: code, and figures that others published.

    A project made by `benchstudy init` gets the layout of a checkout: its own files replace those that ship, and the
    workflow replaces the Snakefile that includes it.
    """
    if paths.is_whole(root):
        return named_files(root, (*CODE, paths.PUBLISHED))
    package = {f"src/{path.relative_to(paths.PACKAGE.parent).as_posix()}": path for path in files_below(paths.PACKAGE)}
    modules = {name: path for name, path in package.items() if paths.SHIPPED not in path.parts}
    return {**modules, **named_files(paths.shipped(), (*paths.SOFTWARE, paths.PUBLISHED)), **named_files(root, _OWN)}


def named_files(top: Path, names: Iterable[str]) -> dict[str, Path]:
    """The files of these names, and those below folders of these names, by their names below `top`."""
    places = (top / name for name in names)
    files = (path for place in places for path in ([place] if place.is_file() else files_below(place)))
    return {path.relative_to(top).as_posix(): path for path in files}


def files_below(top: Path) -> list[Path]:
    """Files written by people, in a fixed order: no caches, no editors' copies, nothing behind a link."""
    return sorted(
        path
        for path in top.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and not path.name.endswith(_SCRATCH_ENDINGS)
        and not _LEFT_BEHIND.intersection(path.parts)
        and not any(part.endswith(".egg-info") or part.startswith(".") for part in path.relative_to(top).parts)
    )


def _reports(root: Path, study: Study) -> list[Part]:
    folder = root / "reports" / study.study
    found = set(report_files(folder, [*study.families, *STUDY_PAGES]))
    if folder / "index.html" not in found:
        raise BenchstudyError(f"study {study.study}: there are no reports yet; run {hints.snakemake()} first")
    return [Part.of(path.relative_to(root).as_posix(), path) for path in sorted(found)]

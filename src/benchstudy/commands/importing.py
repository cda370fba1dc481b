"""`benchstudy import`: existing outputs of a tool become trials, kept verbatim and marked as imported."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.raw import StoredTrial, TrialRecord, TrialStore
from benchstudy.measuring.session import write_index
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Family, Imported, ParseError
from benchstudy.model.files import now
from benchstudy.model.names import nearest
from benchstudy.model.study import Study

_NO_DEFINITION = hashlib.sha256(b"imported").hexdigest()


def import_outputs(
    root: Path, study: Study, target: str | None, outputs: Iterable[Path]
) -> tuple[list[tuple[Path, StoredTrial]], list[tuple[Path, str]]]:
    """Store each file that a family of the study recognises. Returns what was imported, and what was not and why.

    A file whose content is in the study already is refused, so that importing twice counts nothing twice.
    """
    target = target or next(iter(study.targets))
    if target not in study.targets:
        raise BenchstudyError(f"--target: the study has no target {target!r}: {nearest(target, study.targets)}")
    imported, refused = [], []
    for path in _files(outputs):
        try:
            imported.append((path, _import_one(root, study, target, path)))
        except (BenchstudyError, ParseError) as error:
            refused.append((path, str(error)))
    for family in {trial.record.family for _, trial in imported}:
        plan = study.session(target, family)
        store = TrialStore(paths.family_raw(root, study.study, target, family))
        write_index(plan, store, store.trials(), problem=None)
    return imported, refused


def _files(outputs: Iterable[Path]) -> list[Path]:
    found = []
    for path in outputs:
        if not path.exists():
            raise BenchstudyError(f"{path}: there is no such file or folder")
        found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return found


def _import_one(root: Path, study: Study, target: str, path: Path) -> StoredTrial:
    family, recognised = _recognise(study, path)
    store = TrialStore(paths.family_raw(root, study.study, target, family.name))
    with store.exclusive():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        case = ",".join(f"{factor}={level}" for factor, level in recognised.levels.items())
        same_case = [trial for trial in store.trials() if trial.record.case == case]
        for trial in same_case:
            if any(file.sha256 == digest for file in trial.files):
                raise BenchstudyError(f"trial {trial.short} holds the same content already")
        block = 1 + max((trial.record.block for trial in same_case), default=0)
        partial = store.begin(case, block)
        shutil.copyfile(path, partial.folder / recognised.file_name)
        try:
            family.parse(recognised.levels, partial.folder)
        except ParseError:
            partial.abandon()
            raise
        when = now()
        return partial.commit(
            TrialRecord(
                uuid=partial.uuid,
                study=study.study,
                study_sha256=study.sha256,
                target=target,
                family=family.name,
                case=case,
                levels=dict(recognised.levels),
                definition={},
                definition_sha256=_NO_DEFINITION,
                block=block,
                position=0,
                session="imported",
                roles={},
                status="ok",
                cause=None,
                started=when,
                finished=when,
                duration_s=0.0,
                commands=[],
                verified={
                    "tool": recognised.tool,
                    "tool_version": recognised.tool_version,
                    "notes": list(recognised.notes),
                },
                instrument=instrument_sha256(family.name),
                imported_from=path.name,
            )
        )


def _recognise(study: Study, path: Path) -> tuple[Family, Imported]:
    for name in study.families:
        family = registry.get(name)
        recognised = family.parse_import(path)
        if recognised is not None:
            return family, recognised
    raise BenchstudyError(f"no family of the study ({', '.join(study.families)}) knows this output")

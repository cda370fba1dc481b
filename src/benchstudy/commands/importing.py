"""`benchstudy import`: stores existing outputs of a tool as trials, verbatim and marked as imported."""

import codecs
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from benchstudy.commands.given_levels import check_level, levels_in, path_pattern, together
from benchstudy.commands.imported_trials import ImportedTrials, Outcome, reading
from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import Family, Imported, ParseError
from benchstudy.model.files import files_below, sha256_of
from benchstudy.model.names import nearest
from benchstudy.model.study import Study

_LARGEST = 256 << 20  # bytes of a file
_BEGINNING = 4096
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")  # gzip, bzip2, xz, zstd, zip


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
    of_path = path_pattern(pattern) if pattern else None
    for name, level in (said or {}).items():
        check_level("--level", name, level)
    files, outcome = _files(outputs), Outcome(dry_run)
    with ExitStack() as stack:
        stores: dict[str, ImportedTrials] = {}
        for number, path in enumerate(files, start=1):
            try:
                levels = together(said or {}, levels_in(of_path, path) if of_path else {})
                family, runs, sha256 = _recognise(study, path)
                if family.name not in stores:
                    stores[family.name] = stack.enter_context(ImportedTrials(root, study, target, family, outcome))
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


def _beginning(path: Path) -> bytes:
    """Raises BenchstudyError for a file that cannot be read, or is too large."""
    with reading(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    if size > _LARGEST:
        raise BenchstudyError(f"has {size} bytes, but at most {_LARGEST} can be read: split it")
    return beginning


def _recognise(study: Study, path: Path) -> tuple[Family, list[Imported], str]:
    """The family and the runs of an output, and the SHA-256 that it had before it was read for them."""
    beginning = _beginning(path)
    with reading(path):
        sha256 = sha256_of(path)
    for name in study.families:
        family = registry.get(name).of(study.families[name])
        with reading(path):
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
        f"no family of the study ({', '.join(study.families)}) recognises this output: {told}; "
        "`benchstudy docs importing` says how to import figures from any other tool"
    )


def _takes(family: str, path: Path) -> bool:
    """Whether an installed family knows the output; if it is damaged, the family says so when the study has it."""
    try:
        return bool(registry.get(family).parse_import(path))
    except ParseError:
        return True
    except (BenchstudyError, OSError):  # a broken package
        return False

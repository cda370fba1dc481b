"""`benchstudy reproduce`: makes the reports of a crate again from its raw files, and compares them with the crate's.

It uses the software installed here, never the software in the crate, so you need not trust a crate. It reports
where the two differ.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import is_taken, json_of, sha256_of
from benchstudy.model.paths import PUBLISHED
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study
from benchstudy.provenance import packages
from benchstudy.provenance.checks import Crate
from benchstudy.provenance.contents import CODE, STUDY_FILE, named_files, software
from benchstudy.provenance.tables import Difference, differences
from benchstudy.report.overview.bundle import report_files
from benchstudy.report.study.studypages import STUDY_PAGES

_MARKER = ".benchstudy-reproduction"
_LOG = "snakemake.log"
_LAST_LINES, _LONGEST_LINE = 30, 200


@dataclass(frozen=True)
class Reproduction:
    """The result of reproducing a crate.

    `tables`: how many tables are the same in every cell as the crate's. `differences`: tables and cells that differ.
    `others_same`, `others_differ`: pages, figures and tables in other formats, compared byte for byte. `code`: files of
    the software that differ here; `packages`: pinned packages that differ, as "name 1.0, here 1.1".
    """

    folder: Path
    study: str
    trials: int
    files: int
    tables: int
    differences: tuple[Difference, ...]
    others_same: int
    others_differ: tuple[str, ...]
    code: tuple[str, ...]
    packages: tuple[str, ...]


def reproduce(path: Path, root: Path, into: Path | None = None, cores: int = 2) -> Reproduction:
    """Make the reports of the crate at `path` in the folder `into`, with the project at `root`. Contacts no host.

    Makes `into`. If `into` exists, it must hold an earlier reproduction, which is replaced.
    Raises BenchstudyError if the crate is not as it was packed (naming each file), or gives no report.
    """
    with Crate(path) as crate:
        checked = crate.check()
        if checked.differences:
            raise BenchstudyError(
                f"{path}: altered since it was packed, so nothing is made from it:\n" + "\n".join(checked.lines)
            )
        study = _study(crate)
        into = (into or root / "reproduced" / study.study).absolute()
        _prepare(into)
        _copy_software(root, into)
        _unpack(crate, study, into)
        _make_reports(into, cores)
        return _compare(crate, study, root, into, checked.files)


def _study(crate: Crate) -> Study:
    try:
        return parse_study(json_of(crate.read(STUDY_FILE)), stored=True)
    except (BenchstudyError, ValueError) as error:
        raise BenchstudyError(
            f"{crate.path}: this version of benchstudy cannot read its study ({error}); the crate holds the version "
            "that can: unpack it, and run `make reproduce CRATE=…` there"
        ) from error


def _prepare(into: Path) -> None:
    if is_taken(into):
        if not (into / _MARKER).is_file() or into.is_symlink():
            raise BenchstudyError(f"{into}: exists and is not an earlier reproduction; name another folder with --into")
        for entry in into.iterdir():  # the marker stays, so that a killed run can be repeated
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != _MARKER:
                entry.unlink()
    into.mkdir(parents=True, exist_ok=True)
    (into / _MARKER).write_text("Made by `benchstudy reproduce`, which may replace this folder.\n")


def _copy_software(root: Path, into: Path) -> None:
    """Copy the software, so that edits made meanwhile do not affect the reports."""
    for name, path in software(root).items():
        if not name.startswith(f"{PUBLISHED}/"):
            copy = into / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _unpack(crate: Crate, study: Study, into: Path) -> None:
    """Unpack data only. No file of a crate is ever executed.

    Here and below, `crate.sums` names what was checked: an unpacked crate may have further files.
    """
    folders = (f"data/raw/{study.study}/", f"data/provision/{study.study}/", f"{PUBLISHED}/")
    wanted = [name for name in sorted(crate.sums) if name == STUDY_FILE or name.startswith(folders)]
    needed, free = sum(map(crate.size, wanted)), shutil.disk_usage(into).free
    if needed > free:
        raise BenchstudyError(
            f"{into}: has {free} B free, but the crate's data need {needed} B; name another folder with --into"
        )
    for name in wanted:
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            for piece in crate.pieces(name):
                out.write(piece)


def _make_reports(into: Path, cores: int) -> None:
    command = [sys.executable, "-m", "snakemake", "--cores", str(cores), "reports/index.html"]
    command += ["--configfile", STUDY_FILE, "--config", "measure=false", "--show-failed-logs"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCHSTUDY_CONTROLLER")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment.get('PATH', os.defpath)}"
    environment["PYTHONPATH"] = str(into / "src")
    with (into / _LOG).open("w") as log:
        done = subprocess.run(
            command, cwd=into, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        lines = [line[:_LONGEST_LINE] for line in (into / _LOG).read_text(errors="replace").splitlines()]
        last = "\n".join(lines[-_LAST_LINES:])
        raise BenchstudyError(f"the reports could not be made; the whole log is {into / _LOG}:\n{last}")


def _compare(crate: Crate, study: Study, root: Path, into: Path, files: int) -> Reproduction:
    place = f"reports/{study.study}/"
    was = {name: digest for name, digest in crate.sums.items() if name.startswith(place)}
    pages = [*study.families, *STUDY_PAGES]
    now = {p.relative_to(into).as_posix(): sha256_of(p) for p in report_files(into / "reports" / study.study, pages)}
    csvs = {name for name in was.keys() | now.keys() if name.endswith(".csv")}
    unequal = {name for name in csvs if was.get(name) != now.get(name)}
    found = differences(
        {name.removeprefix(place): crate.read(name) for name in unequal & was.keys()},
        {name.removeprefix(place): (into / name).read_bytes() for name in unequal & now.keys()},
    )
    others = sorted((was.keys() | now.keys()) - csvs)
    differ = [name for name in others if was.get(name) != now.get(name)]
    trials = sum(name.endswith("/trial.json") and name.startswith("data/raw/") for name in crate.sums)
    return Reproduction(
        folder=into,
        study=study.study,
        trials=trials,
        files=files,
        tables=len(csvs) - len(unequal),
        differences=tuple(found),
        others_same=len(others) - len(differ),
        others_differ=tuple(name.removeprefix(place) for name in differ),
        code=tuple(_other_code(crate, into)),
        packages=tuple(packages.differing(crate, root)),
    )


def _other_code(crate: Crate, into: Path) -> Iterable[str]:
    """Files of the software that differ from the crate's. Locks are compared by package instead."""
    ours = named_files(into, CODE)
    theirs = {name for name in crate.sums if name in CODE or name.startswith(tuple(f"{top}/" for top in CODE))}
    for name in sorted((ours.keys() | theirs) - {packages.LOCK}):
        if name not in ours:
            yield f"{name} (not here)"
        elif name not in theirs:
            yield f"{name} (only here)"
        elif sha256_of(ours[name]) != crate.sums[name]:
            yield name

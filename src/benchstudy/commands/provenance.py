"""The commands of `benchstudy` that pack, check and reproduce a study."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError, plain_line
from benchstudy.model.output import add_json, print_json
from benchstudy.model.rounding import plural
from benchstudy.model.studyfile import load_study

if TYPE_CHECKING:
    from benchstudy.model.study import Study

_MOST_SHOWN = 40


def add_commands(commands: Any, study_help: str) -> None:
    """Adds them to argparse's subcommands."""
    verify = commands.add_parser("verify", help="compare every raw file, or every file of a crate, with its SHA-256")
    verify.add_argument(
        "what", nargs="?", type=Path, default=hints.EMBEDDED, metavar="STUDY|CRATE",
        help=f"{study_help}; or a crate, packed or unpacked",
    )  # fmt: skip
    verify.add_argument(
        "--read", action="store_true", help="also read files that have not changed since they were last compared"
    )
    add_json(verify)
    verify.set_defaults(command=_verify)

    crate = commands.add_parser("crate", help="pack a study, its raw files and reports into reports/<study>.crate.zip")
    crate.add_argument("study", nargs="?", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=study_help)
    crate.add_argument(
        "--accept", action="append", default=[], metavar="FILE",
        help="accept this file, which you checked and which only looks as if it held a secret; may be repeated",
    )  # fmt: skip
    add_json(crate)
    crate.set_defaults(command=_crate)

    reproduce = commands.add_parser("reproduce", help="make the reports of a crate again and compare their tables")
    reproduce.add_argument("crate", type=Path, metavar="CRATE", help="the zip file, or the folder it was unpacked into")
    reproduce.add_argument(
        "--into",
        type=Path,
        metavar="FOLDER",
        help="folder to write to (default: reproduced/<study> in the project, or here)",
    )
    cores = os.cpu_count() or 1
    reproduce.add_argument(
        "--cores", type=_cores, default=cores, metavar="N", help="number of cores (default: %(default)s)"
    )
    add_json(reproduce)
    reproduce.set_defaults(command=_reproduce)


def _verify(arguments: argparse.Namespace) -> int:
    from benchstudy.measuring.sealed import has_trials
    from benchstudy.provenance.checks import BadCrate, begins_as_zip, check_crate, check_study

    what = arguments.what
    # A browser gives a download that was cut off another ending.
    if what.is_dir() or what.suffix == ".zip" or (what.is_file() and begins_as_zip(what)):
        name: dict[str, str] = {"crate": str(what)}
        checked = check_crate(what)
        lines = checked.lines
    else:
        root, study = paths.project_root(), load_study(what)
        name = {"study": study.study}
        checked = check_study(root, study, read=arguments.read)
        lines = checked.lines
        if not checked.files and not lines:  # 0 differences in 0 files would look like a check
            raise BenchstudyError(f"{what}: nothing to verify: data/raw/{study.study} has no file yet")
        for store in study.stores(root):
            index = store / paths.SESSION_INDEX
            if has_trials(store) and not index.exists():
                missing = f"{index.relative_to(root)}: missing, so nothing says whether a trial was removed"
                print(f"note: {missing}; {hints.snakemake()} makes it again", file=sys.stderr)
        packed = paths.crate(root, study.study)
        if packed.is_file():
            try:
                of_crate = check_crate(packed)
                checked.files += of_crate.files
                in_crate = of_crate.lines
            except BadCrate as error:  # what was found in raw files is told, too
                in_crate = [error.why]
            lines += [f"{packed.relative_to(root)}: {line}" for line in in_crate]
    for line in lines:
        print(plain_line(line), file=sys.stderr)
    summary = {**name, "files": checked.files, "in_archive": checked.in_archive, "altered": len(lines)}
    if arguments.json:
        print_json({**summary, "differences": lines})
    else:
        print(json.dumps(summary))
    return 1 if lines else 0


def _crate(arguments: argparse.Namespace) -> int:
    from benchstudy.jobs import made
    from benchstudy.provenance.crate import build_crate
    from benchstudy.report.study.studypages import STUDY_PAGES

    root, study = paths.project_root(), load_study(arguments.study)
    for page in (*study.families, *STUDY_PAGES, paths.FIRST_PAGE):
        if altered := made.altered(paths.made(root, study.study, page), root):
            raise BenchstudyError(f"{altered[0]}: not as it was made; run {hints.snakemake()}, which makes it again")
    if paths.with_first_page(root, study.study)[0].exists():  # else packing says what is missing
        _require_up_to_date(root, study, arguments.study.absolute())
    packed = build_crate(root, study, paths.crate(root, study.study), frozenset(arguments.accept))
    for name in packed.not_looked_for:
        print(f"note: {name} is not set here or is very short, so nothing was searched for its value", file=sys.stderr)
    if arguments.json:
        print_json(asdict(packed))
        return 0
    counted = f"{plural(packed.trials, 'trial')}, {plural(packed.files, 'file')}"
    print(f"{packed.path}: {counted}, {packed.size} B, SHA-256 {packed.sha256}")
    return 0


def _require_up_to_date(root: Path, study: "Study", file: Path) -> None:
    """Raises BenchstudyError for reports that were made of other data, code or notebooks than those here now.

    Nobody could make their tables again from the crate. Only the workflow knows what is due: it plans the first page.
    """
    first_page = str(paths.with_first_page(Path(), study.study)[0])
    plan = ["-n", "--cores", "1", first_page, "--configfile", str(file), "--config", "measure=false"]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *plan], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    for line in f"{done.stdout}{done.stderr}".splitlines():
        if line.startswith("Error: "):
            raise BenchstudyError(line.removeprefix("Error: "))
        if line.startswith("rule "):
            way = f"run {hints.snakemake('report', '--config', 'measure=false')} first"
            raise BenchstudyError(
                f"study {study.study}: its reports are not made from what is here now ({line}); {way}"
            )
    if done.returncode:
        raise BenchstudyError(f"Snakemake cannot plan the reports: {done.stderr.strip()}")


def _cores(given: str) -> int:
    if not given.isdecimal() or not int(given):
        raise argparse.ArgumentTypeError(f"{given!r}: write a whole number, 1 or more")
    return int(given)


def _reproduce(arguments: argparse.Namespace) -> int:
    from benchstudy.provenance.reproduce import reproduce

    try:
        root = paths.project_root()
    except FileNotFoundError:  # a reviewer needs no project: what ships is enough
        root = Path.cwd()
    done = reproduce(arguments.crate, root, arguments.into, arguments.cores)
    if arguments.json:
        print_json(asdict(done))
    else:
        counted = f"{plural(done.files, 'file')} as packed, {plural(done.trials, 'trial')}"
        print(f"study {done.study}: {counted}, no host contacted")
        _tell("the software here differs from the crate's", done.code)
        _tell("packages here differ from the crate's", done.packages)
        total = done.others_same + len(done.others_differ)
        print(f"pages, figures, tables in other formats: {done.others_same} of {total} files are identical")
        _tell("these differ", done.others_differ)
        print(f"{done.folder}/reports/index.html")
    if done.differences:
        _tell("TABLES DIFFER", [str(difference) for difference in done.differences], sys.stderr)
        print(f"{done.tables} tables are the same, the others differ", file=sys.stderr)
        if done.code or done.packages:
            way = f"unpack the crate, and run `make reproduce CRATE={arguments.crate.absolute()}` there"
            print(f"different software may be the cause; to use the crate's own, {way}", file=sys.stderr)
        return 1
    if not arguments.json:
        print(f"{done.tables} tables are the same in every cell")
    return 0


def _tell(what: str, lines: Sequence[str], where: Any = None) -> None:
    if lines:
        more = [f"and {len(lines) - _MOST_SHOWN} more"] if len(lines) > _MOST_SHOWN else []
        print("\n  ".join([f"{what}:", *map(plain_line, lines[:_MOST_SHOWN]), *more]), file=where)

"""The `benchstudy` command: everything that you do with a study besides `snakemake report`."""

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchstudy import __version__
from benchstudy.commands.archiving import add_commands as add_archive_commands
from benchstudy.commands.cases import print_cases
from benchstudy.commands.comparing import add_command as add_compare_command
from benchstudy.commands.completion import add_command as add_completion_command
from benchstudy.commands.docs import add_command as add_docs_command
from benchstudy.commands.init import add_command as add_init_command
from benchstudy.commands.plan import add_command as add_plan_command
from benchstudy.commands.printing import add_command as add_pdf_command
from benchstudy.commands.provenance import add_commands as add_provenance_commands
from benchstudy.commands.schema import add_command as add_schema_command
from benchstudy.commands.starting import add_commands as add_starting_commands
from benchstudy.commands.systems import add_command as add_systems_command
from benchstudy.commands.usage import Parser
from benchstudy.model import hints, paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import disk_trouble
from benchstudy.model.names import nearest
from benchstudy.model.output import add_json, print_json, progress
from benchstudy.model.rounding import plural
from benchstudy.model.studyfile import load_study, read_study

_STUDY_HELP = "the study's file (default: %(default)s)"
_TRIAL_ID = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `benchstudy` with `argv`, or with what was typed. Returns the exit status."""
    _open_what_was_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold bytes that are no text
    try:
        arguments = command_parser().parse_args(argv)
        _require_a_folder()
        with hints.about(_study_file(arguments)):
            status = arguments.command(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        print(f"benchstudy: {disk_trouble(error) or what}", file=sys.stderr)
        return 1
    except BenchstudyError as error:
        print(f"benchstudy: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchstudy: interrupted", file=sys.stderr)
        return 130


def _open_what_was_closed() -> None:
    """A service or `>&-` may have closed the standard streams: what is said is then dropped, here and by children."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def _require_a_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise BenchstudyError("this folder was removed: change to one that exists") from error


def _study_file(arguments: argparse.Namespace) -> Path | None:
    """The study that the command was given, unless it is a crate."""
    study = getattr(arguments, "study", None) or getattr(arguments, "what", None)
    return study if isinstance(study, Path) and study.suffix in (".yaml", ".yml", ".json") else None


def command_parser() -> argparse.ArgumentParser:
    """The parser of `benchstudy`, with all of its commands."""
    parser = Parser(
        prog="benchstudy",
        description="Start benchmark studies, check hosts and manage trials. To measure and report, run "
        f"{hints.snakemake()}.",
    )
    parser.add_argument("--version", action="version", version=f"benchstudy {__version__}")
    commands: Any = parser.add_subparsers(required=True, metavar="COMMAND")

    add_init_command(commands)
    add_starting_commands(commands)
    check = commands.add_parser("check", help="validate a study and try every host, without measuring")
    check.add_argument("--no-hosts", action="store_true", help="validate the file only; connect to nothing")
    check.add_argument(
        "--try",
        action="store_true",
        dest="trying",
        help="also run each case for at most 10 s, without storing results",
    )
    check.set_defaults(command=_check)

    cases = commands.add_parser("cases", help="list the cases of a study and their results")
    cases.set_defaults(command=print_cases)

    discard = commands.add_parser("discard", help="have trials measured again; the old ones stay, marked as discarded")
    discard.add_argument("trials", nargs="*", metavar="TRIAL", help="a trial's id, as the report shows it")
    discard.add_argument("--case", help="every trial of this case")
    discard.add_argument("--target", help="every trial of this target; with --case, only those of the case")
    discard.add_argument("--status", choices=["failed", "timeout"], help="every trial with this status")
    discard.add_argument("--why", required=True, help="the reason, which is recorded and printed in the report")
    discard.set_defaults(command=_discard)

    imports = commands.add_parser("import", help="import existing outputs of a tool as trials, marked as imported")
    imports.add_argument("outputs", nargs="+", metavar="PATH", help="a file, or a folder of files")
    imports.add_argument("--target", help="the target of the outputs (default: the study's first)")
    imports.add_argument(
        "--level",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a level that the outputs do not contain, for all of them, such as backend=posix; may be repeated",
    )
    imports.add_argument(
        "--case",
        metavar="PATTERN",
        help="pattern of levels in the paths, such as '{host}/{kernel}/*.json': it matches the end of a path, and "
        "{name} stands for a level",
    )
    imports.add_argument(
        "--dry-run", action="store_true", help="print which file would become which trial, and write nothing"
    )
    imports.set_defaults(command=_import)

    prose = commands.add_parser("prose", help="find numbers that were typed into the prose of notebooks")
    prose.add_argument(
        "notebooks",
        nargs="*",
        type=Path,
        metavar="NOTEBOOK",
        help="notebooks to check (default: all of notebooks/ and those of families from other packages)",
    )
    prose.set_defaults(command=_prose)

    add_compare_command(commands)
    add_systems_command(commands)
    add_docs_command(commands)
    add_schema_command(commands)

    for command in (check, cases, discard, imports, prose):
        add_json(command)
    for command in (check, cases):
        command.add_argument("study", nargs="?", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=_STUDY_HELP)
    for command in (discard, imports):
        command.add_argument("--study", type=Path, default=hints.EMBEDDED, metavar="STUDY", help=_STUDY_HELP)
    add_plan_command(commands, _STUDY_HELP)
    add_provenance_commands(commands, _STUDY_HELP)
    add_pdf_command(commands, _STUDY_HELP)
    add_archive_commands(commands, _STUDY_HELP)
    _add_those_of_families(commands)
    add_completion_command(commands, parser)
    for listed in commands._choices_actions:  # argparse shows what a command does in the list of commands only
        command = commands.choices[listed.dest]
        does = listed.help or ""
        command.description = command.description or f"{does[:1].upper()}{does[1:]}."
    return parser


def _add_those_of_families(commands: Any) -> None:
    """Last, so that a family's command of a taken name is its own defect. One that fails leaves the others."""
    for family in registry.names():
        try:
            with registry.blamed(family, "its commands.py"):
                if own := registry.part(family, "commands"):
                    own.add_commands(commands)
        except BenchstudyError as error:
            print(f"benchstudy: the commands of {registry.packages()[family]} are missing: {error}", file=sys.stderr)


def _check(arguments: argparse.Namespace) -> int:
    from benchstudy.commands.checks import check_study

    return check_study(arguments)


def _prose(arguments: argparse.Namespace) -> int:
    from benchstudy.report.prose import read

    notebooks = arguments.notebooks or _all_notebooks(paths.project_root())
    if not notebooks:
        raise BenchstudyError("notebooks/ has no notebook: name the notebooks to read")
    found = [(notebook, typed) for notebook in notebooks for typed in read(notebook)]
    if arguments.json:
        print_json([{"notebook": str(notebook), **typed._asdict()} for notebook, typed in found])
    for notebook, typed in () if arguments.json else found:
        print(f"{notebook}: cell {typed.cell}: {typed.number}: … {typed.sentence} …")
    if found:
        print("results change and prose does not: write numbers with page.say, or as `code`", file=sys.stderr)
    return 1 if found else 0


def _all_notebooks(root: Path) -> list[Path]:
    """Notebooks of the project, then those of families from other packages; not those that ship with benchstudy."""
    families = (registry.notebook(name, root) for name in registry.names())
    brought = (path for path in families if path.is_file() and path.parent != paths.shipped() / "notebooks")
    return list(dict.fromkeys([*sorted((root / "notebooks").glob("*.ipynb")), *brought]))


def _discard(arguments: argparse.Namespace) -> int:
    from benchstudy.measuring import confirmed
    from benchstudy.measuring.raw import TrialStore, find_trials
    from benchstudy.measuring.trialrecord import RESULTS

    if not arguments.why.strip():
        raise BenchstudyError("--why: give the reason; the report prints it")
    chooses = arguments.case or arguments.target or arguments.status
    if arguments.trials and chooses:
        raise BenchstudyError("--case, --target and --status exclude TRIAL: name trials, or give these options")
    chosen, cases = [], set()
    if arguments.trials:
        raw = paths.project_root() / "data" / "raw"
        for prefix in arguments.trials:
            if not _TRIAL_ID.fullmatch(prefix):
                raise BenchstudyError(
                    f"{prefix!r} is not the id of a trial: give it as a report shows it, or its first four digits"
                )
            found = find_trials(raw, prefix)
            if len(found) != 1:
                several = "several trials begin with this: give more of the id"
                raise BenchstudyError(f"{prefix}: {several if found else 'no trial has this id: reports show the ids'}")
            chosen += found
    elif chooses:
        study = load_study(arguments.study)
        if arguments.target not in (None, *study.targets):
            near = nearest(arguments.target, study.targets)
            raise BenchstudyError(f"--target: {study.study} has no target {arguments.target!r}: {near}")
        for plan in study.sessions():
            if arguments.target not in (None, plan.target):
                continue
            store = TrialStore(plan.raw(paths.project_root()))
            cases |= {trial.facts.case for trial in store.trials()}
            chosen += [
                (store, trial)
                for trial in store.trials()
                if arguments.case in (None, trial.facts.case) and arguments.status in (None, trial.facts.status)
            ]
    else:
        raise BenchstudyError("name the trials: TRIAL …, --case CASE, --target TARGET or --status failed")
    if arguments.case and arguments.case not in cases:
        raise BenchstudyError(
            f"--case: {study.study} has no trial of {arguments.case!r}: {nearest(arguments.case, cases)}"
        )
    once = {trial.folder: (store, trial) for store, trial in chosen}  # two beginnings may name the same one
    chosen = [
        (store, trial)
        for store, trial in once.values()
        # A trial that is named may be an aborted one: if it is damaged, only a discard leads on.
        if trial.facts.uuid not in store.discards() and (arguments.trials or trial.facts.status in RESULTS)
    ]
    if not chosen:
        raise BenchstudyError("nothing to discard: no such trial has a result, or all of them are discarded already")
    for folder in {store.folder for store, _ in chosen}:
        confirmed.require_none_lost(paths.project_root(), folder)
    for store, trial in chosen:
        store.discard(trial, arguments.why.strip())
        if not arguments.json:
            print(f"discarded {trial.short}: {trial.record.case}, block {trial.record.block} ({trial.record.status})")
    if arguments.json:
        records = [trial.record.model_dump(mode="json") for _, trial in chosen]
        print_json([{key: record[key] for key in ("uuid", "case", "block", "status")} for record in records])
        return 0
    imported = all(trial.facts.imported_from for _, trial in chosen)
    again = f"{hints.benchstudy('import', '…')} takes" if imported else f"{_reports(arguments.study, chosen)} measures"
    print(f"{len(chosen)} discarded; {again} them again")
    return 0


def _reports(file: Path, chosen: Sequence[tuple[Any, Any]]) -> str:
    """What measures discarded trials again: a command, if they are of the study in `file`."""
    studies = {store.folder.parents[1].name for store, _ in chosen}  # a damaged trial does not say it
    with suppress(BenchstudyError):
        if studies == {read_study(file).get("study")}:
            return hints.snakemake()
    return f"the next report of {' and '.join(sorted(studies))}"


def _import(arguments: argparse.Namespace) -> int:
    from benchstudy.commands.given_levels import levels_said
    from benchstudy.commands.imported_trials import readable
    from benchstudy.commands.importing import import_outputs

    study = load_study(arguments.study)
    if "" in arguments.outputs:  # as a path, it would be this whole folder
        raise BenchstudyError("PATH: empty: name a file or a folder; a variable of your shell may be unset")
    with progress("importing") as advance:
        outcome = import_outputs(
            paths.project_root(),
            study,
            arguments.target,
            map(Path, arguments.outputs),
            said=levels_said(arguments.level),
            pattern=arguments.case,
            dry_run=arguments.dry_run,
            advance=lambda done, total: advance("", done, total),
        )
    status = 1 if outcome.refused or not outcome.imported else 0
    if arguments.json:
        print_json(outcome.facts)
        return status
    verb, would = ("would import", "would be ") if outcome.dry_run else ("imported", "")
    for path, trial in outcome.imported:
        record = trial.record
        failed = f", as a failure: {record.cause}" if record.cause else ""
        told = f"{record.family}, block {record.block}" if outcome.dry_run else f"trial {trial.short}"
        print(f"{verb} {readable(path)} as {record.case}, {told}{failed}")
    for path, reason in outcome.refused:
        print(f"not imported {readable(path)}: {reason}", file=sys.stderr)
    cases = {(trial.record.family, trial.record.case) for _, trial in outcome.imported}
    imported = f"{plural(len(outcome.imported), 'trial')} of {plural(len(cases), 'case')} {would}imported"
    print(f"{imported}, {len(outcome.refused)} refused")
    for family, factors in outcome.unknown.items():
        print(f"{family}: {', '.join(factors)} unknown; give what the outputs do not contain with --level and --case")
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Everything undocumented that the workflow uses of Snakemake: to upgrade Snakemake, adapt this file.

tests/test_side_by_side.py fails for what a release of Snakemake no longer has.
"""

import _thread
import argparse
import atexit
import gc
import importlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TextIO

from benchstudy.hosts.controller import end_jobs_elsewhere
from benchstudy.jobs.preloaded import FEWEST_TO_COLLECT
from benchstudy.model import hints, paths
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import disk_trouble
from benchstudy.model.names import nearest
from benchstudy.model.studyfile import read_study

_STUDIES = (".yaml", ".yml")


def collect_rarely() -> None:
    """Garbage collections that visit all that Snakemake has imported would take a tenth of a command's time."""
    gc.freeze()
    gc.set_threshold(FEWEST_TO_COLLECT)


def check_place(workflow: Any) -> None:
    """The first call of the Snakefile. Raises BenchstudyError if the workflow cannot run in this way."""
    if not workflow.modifier.is_main_snakefile() or Path(workflow.basedir) != Path.cwd() / "workflow":
        raise BenchstudyError(
            f"{Path.cwd()} is not the folder of this workflow: raw files, reports and locks belong to one project. Run "
            "snakemake in the project's folder, without --directory, and not as a module of another workflow"
        )
    if workflow.is_main_process and "--no-hooks" in sys.argv:
        raise BenchstudyError("--no-hooks disables the check for conflicting commands: run snakemake without it")
    cores = workflow.resource_settings.cores
    if workflow.is_main_process and cores is not None and cores < 1:
        # Without --cores, Snakemake takes the number of --jobs.
        option = "--cores" if any(re.match("-c|--cores", word) for word in sys.argv[1:]) else "--jobs"
        raise BenchstudyError(f"{option} {cores}: without a core, Snakemake waits forever: give 1 or more")
    if workflow.is_main_process and (refusal := study_as_target(sys.argv[1:])):
        raise BenchstudyError(refusal)


def study_as_target(given: Sequence[str]) -> str:
    """What to write instead if a command line names a study as a target; "" if it does not.

    Snakemake takes a file that no rule makes for one that is up to date, and has nothing to do.
    """
    if not any(word.endswith(_STUDIES) for word in given):
        return ""
    from snakemake.cli import get_argument_parser

    named, _ = get_argument_parser().parse_known_args(given)
    for target in named.targets:
        if target.endswith(_STUDIES):
            return f"{target}: a study is not a target: write {hints.snakemake('report', '--configfile', target)}"
    return ""


def make_default(workflow: Any, rule: str) -> None:
    """Called by the Snakefile of a project: Snakemake forgets the default target of a file when its include ends."""
    workflow.default_target = rule


def asked_pages(workflow: Any) -> list[str]:
    """Pages that the command line names as targets; `--report FILE` is Snakemake's own."""
    given = sys.argv if workflow.is_main_process else []
    pairs = pairwise(given)
    return [word for before, word in pairs if re.fullmatch(r"reports/.+\.html", word) and before != "--report"]


def names_study(workflow: Any) -> bool:
    """Whether the command line names one with --configfile."""
    return bool(workflow.overwrite_configfiles)


def given_config(workflow: Any) -> Mapping[str, Any]:
    """What the command line gives with --config."""
    given: Mapping[str, Any] = workflow.config_settings.config
    return given


def asked_profile(workflow: Any) -> str | None:
    """The profile that the command line names; of a job's command None, because Snakemake wrote it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile")
    return parser.parse_known_args(sys.argv[1:] if workflow.is_main_process else [])[0].profile


def tell_what_is_wrong_in_a_study() -> None:
    """Called by the profile, before Snakemake reads the file of --configfile.

    Alone, Snakemake prints a traceback for a file that it cannot open, names no place in a file that is not valid YAML,
    and keeps the last of repeated keys.
    """
    from snakemake.common import configfile
    from snakemake.settings import types

    load = configfile.load_configfile

    def loaded(path: str | Path) -> Any:
        read_study(Path(path))
        return load(path)

    _format_in_words()
    configfile.load_configfile = types.load_configfile = loaded


def require_executor(name: str, *, extra: str) -> None:
    """Called by a profile. Alone, Snakemake prints all its options and then that the executor is an invalid choice."""
    package = f"snakemake-executor-plugin-{name}"
    if importlib.util.find_spec(package.replace("-", "_")) is None:
        raise SystemExit(f"Error: {package} is not installed: install the extra {extra!r} (`benchstudy docs scale`)")


def import_no_clients() -> None:
    """Called by the profile: spares each command half a second of processor time.

    Snakemake lets smart_open say whether a path is a local one, and smart_open imports the clients of all protocols
    that it finds. Paths of this workflow are local.
    """
    clients = [name for name in ("boto3", "paramiko", "requests") if name not in sys.modules]
    for name in clients:
        sys.modules[name] = None  # type: ignore[assignment]  # so it cannot be imported
    try:
        importlib.import_module("smart_open")
    finally:
        for name in clients:
            del sys.modules[name]


def limit_resources(workflow: Any, limits: Mapping[str, int]) -> None:
    """Limit each resource for all jobs together. Not in the profile, because `--resources` replaces all its limits."""
    for name, amount in limits.items():
        workflow.register_resource(name, amount)


def plan_again(workflow: Any, file: str | Path) -> None:
    """Called while jobs are planned: make `file` whatever its age, as --forcerun does. It stays until then."""
    workflow.dag.forcefiles.add(str(file))


def refuse_to_plan(why: str) -> NoReturn:
    """Called while jobs are planned. Snakemake prints any other exception as a defect of the rule, with a traceback."""
    raise SystemExit(f"Error: {why}")


def accept_clocks_that_differ() -> None:
    """Let a job succeed whose input lies in the future by this machine's clock: it only warns.

    Snakemake would fail the job each time, and put the previous page back.
    """
    from snakemake.dag import DAG
    from snakemake.exceptions import WorkflowError

    check = DAG.check_output_mtime

    async def checked(dag: DAG, job: Any, outputs: Any) -> None:
        try:
            await check(dag, job, outputs)
        except WorkflowError:
            late = [f for f in job.input if Path(f).exists() and Path(f).stat().st_mtime > time.time()]
            for file in late:
                say(f"{file}: its time lies in the future. If this machine's clock is right, `touch` the file")

    DAG.check_output_mtime = checked


def leave_indexes_of_failed_jobs() -> None:
    """Leave each session.json as a failed job left it: a true one, or none.

    Of a group of targets whose job failed, as after Ctrl-C, Snakemake would put back those from before the job. They do
    not list what was measured since, so the next command would take these trials for added by somebody.
    """
    from snakemake.persistence import FileBackupMixin

    restore = FileBackupMixin.restore_output

    def restored(persistence: FileBackupMixin, path: Path) -> bool:
        if path.name != paths.SESSION_INDEX:
            return restore(persistence, path)
        persistence.cleanup_backup(path)
        return True  # else Snakemake removes it

    FileBackupMixin.restore_output = restored


def end_on_sigterm() -> None:
    """Let SIGTERM end the command after the jobs that run, as Snakemake means it to.

    Its handler takes a lock that the interrupted code holds while a job ends. Then the command would wait for itself
    for ever, and keep its locks of hosts. Nothing here takes a lock of the interrupted code, nor does a thread of
    `_thread`, unlike one of `threading`, as it starts.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    def begin_no_more(scheduler: JobScheduler, *_: Any) -> None:
        scheduler._user_kill = "graceful"
        _thread.start_new_thread(scheduler._open_jobs.release, ())  # it wakes the scheduler

    JobScheduler.exit_gracefully = begin_no_more


def end_in_words_on_errors(workflow: Any) -> None:
    """Let our errors and those of the disk end the command in words, and so a function that finds a rule's inputs.

    Snakemake would print the first two with a traceback, wherever it meets them. Of the third it says nothing where the
    rule's outputs exist, and takes these as up to date (`DAG.update_`): if the disk failed once while a measurement was
    planned, nothing was measured, and the command ended well.
    """
    from snakemake import exceptions
    from snakemake.rules import Rule

    apply = Rule.apply_input_function

    def applied(rule: Rule, *args: Any, **options: Any) -> Any:
        try:
            return apply(rule, *args, **options)
        except exceptions.InputFunctionException as error:
            cause = error.__context__
            if not isinstance(cause, Exception):
                raise
            if not isinstance(cause, BenchstudyError | OSError):  # a defect
                traceback.print_exception(cause)
            refuse_to_plan(f"rule {rule.name}: {disk_trouble(cause) or cause}")

    Rule.apply_input_function = applied
    _format_in_words(workflow)
    _lose_lines_of_the_log()


def _format_in_words(workflow: Any = None) -> None:
    from snakemake import exceptions

    formatted = exceptions.format_exception_to_string

    def in_words(error: Exception, linemaps: Any = None) -> str:
        if isinstance(error, BenchstudyError):
            return f"Error: {error}"
        if workflow and isinstance(error, exceptions.MissingRuleException):
            target = str(error).removeprefix("No rule to produce ").partition(" (if you use")[0]
            targets = [rule.name for rule in workflow.rules if not rule.has_wildcards()]
            return f"Error: {target}: no rule makes this target: {nearest(target, targets)}"
        # Snakemake raises an error of its own where it cannot write its metadata.
        cause = error.__context__ if isinstance(error, exceptions.WorkflowError) else error
        trouble = disk_trouble(cause) if isinstance(cause, OSError) else None
        return f"Error: {trouble}" if trouble else formatted(error, linemaps)

    exceptions.format_exception_to_string = in_words


def _lose_lines_of_the_log() -> None:
    """A disk that takes no line of Snakemake's log loses it: Python would print a long traceback per line.

    The screen has each line, and what else the disk does not take ends the command in words.
    """
    handle = logging.FileHandler.handleError

    def handled(handler: logging.FileHandler, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError) or not disk_trouble(error):
            handle(handler, record)

    logging.FileHandler.handleError = handled  # type: ignore[assignment, method-assign]


def say(text: str) -> None:
    """Print where Snakemake prints its plan, separate from the output of `--summary` and similar options."""
    from snakemake.logging import logger

    logger.info(text)


def print_short_lines(workflow: Any) -> None:
    """Print one line per job, without its inputs, of which there may be hundreds. --printshellcmds and --verbose print
    everything, as in Snakemake's log file.
    """
    settings = workflow.output_settings
    for handler in () if settings.printshellcmds or settings.verbose else _on_screen():
        # It says so of every output that a failed job had not made before, as if something were lost.
        handler.addFilter(lambda record: not record.getMessage().endswith(": no backup found."))
        # It was not restored, see `leave_indexes_of_failed_jobs`.
        handler.addFilter(lambda record: f"/{paths.SESSION_INDEX} (updating job failed)" not in record.getMessage())
        handler.formatter.format_workflow_started = lambda msg: ""
        handler.formatter.format_job_info = _job_line
        if not settings.show_failed_logs:
            handler.formatter.format_job_error = _error_line


def _on_screen() -> list[Any]:
    from snakemake.logging import logger

    return [handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"]


def print_as_one(workflow: Any, rule: str, pattern: str) -> None:
    """In a plan, print this rule and all others of the same pattern, such as `measure_*`, as one."""
    for handler in _on_screen():
        if not isinstance(handler.formatter, _AsOne):
            handler.setFormatter(_AsOne(workflow, handler.formatter))
        handler.formatter.patterns[rule] = pattern


class _AsOne(logging.Formatter):
    """Formats Snakemake's plan with one line per pattern instead of one per rule."""

    def __init__(self, workflow: Any, snakemakes_own: logging.Formatter):
        super().__init__()
        self._workflow, self._own = workflow, snakemakes_own
        self.patterns: dict[str, str] = {}
        self._told: set[str] = set()

    def format(self, record: logging.LogRecord) -> str:
        pattern = self.patterns.get(getattr(record, "rule_name", ""))
        if pattern and self._workflow.dryrun:
            if pattern in self._told:
                return ""
            self._told.add(pattern)
        return "\n".join(self._lines(self._own.format(record)))

    def _lines(self, text: str) -> Iterator[str]:
        """Add up rows in the table of jobs, and name each pattern once in lists of rules."""
        counts: dict[str, int] = {}
        rows = [(line, row) for line in text.split("\n") for row in [_ROW_OF_A_RULE.fullmatch(line)]]
        for _, row in rows:
            if row and row[1] in self.patterns:
                counts[self.patterns[row[1]]] = counts.get(self.patterns[row[1]], 0) + int(row[2])
        for line, row in rows:
            if row and row[1] in self.patterns:
                pattern = self.patterns[row[1]]
                if pattern in counts:
                    yield f"{pattern}{counts.pop(pattern):>{len(line) - len(pattern)}}"
            elif line.startswith("        "):
                names = dict.fromkeys(self.patterns.get(name, name) for name in line.strip().split(", "))
                yield f"        {', '.join(names)}"
            elif line.startswith("Command '"):  # it may name thousands of files
                yield _cut(line)
            else:
                yield line


_ROW_OF_A_RULE = re.compile(r"(\w+) +(\d+)")


_WIDEST = 160


def _job_line(msg: Mapping[str, Any]) -> str:
    line = ": ".join([f"rule {msg['rule_name']}", *_for_what(msg), " ".join(str(msg["reason"]).split())])
    return _cut(line)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _error_line(msg: Mapping[str, Any]) -> str:
    line = ": ".join([f"Error in rule {msg['rule_name']}", *_for_what(msg), f"see {', '.join(msg['log'])}"])
    # The executor's message, such as why a queue refuses the job. Then there is no log.
    return f"{line}\n    {msg['rule_msg'].strip()}" if msg.get("rule_msg") else line


def _for_what(msg: Mapping[str, Any]) -> list[str]:
    """`target=one, family=x`, and resources that are texts. The study is the same for all."""
    named = [*(msg.get("wildcards") or {}).items(), *(msg.get("resources") or {}).items()]
    of = [f"{name}={value}" for name, value in named if isinstance(value, str) and name not in _SAYS_NOTHING]
    return [", ".join(of)] if of else []


_SAYS_NOTHING = ("study", "tmpdir")


def end_with_ctrl_c(workflow: Any) -> None:
    """From now on one Ctrl-C ends the command as soon as its jobs have ended, which get it from the terminal too.

    Snakemake loses a Ctrl-C that comes while it prints, and would continue with the next job. If the reader of its
    output has ended, such as `tee` after the same Ctrl-C, failing prints would keep it from ending its jobs.
    """
    if not workflow.is_main_process:
        return
    sys.stdout, sys.stderr = _Printing(sys.stdout), _Printing(sys.stderr)
    for handler in _on_screen():
        handler.stream = _Printing(handler.stream)
    signal.signal(signal.SIGINT, _on_ctrl_c)


def _on_ctrl_c(number: int, frame: Any) -> None:
    # A second Ctrl-C means impatience: it leaves the jobs to their leases.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin_no_more = signal.getsignal(signal.SIGTERM)
    if not callable(begin_no_more):
        # Nothing runs yet, and what was begun is begun again, as after a kill. An exception would not do: in grimp it
        # is a panic of Rust, which Snakemake prints with all of its traceback.
        os.write(2, b"interrupted\n")
        try:
            atexit._run_exitfuncs()  # they remove Snakemake's temporary folder
        finally:
            os._exit(130)
    end_jobs_elsewhere()
    begin_no_more(number, None)


class _Printing:
    """A stream that may lose its reader. From then on its output is dropped, and the program continues."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._lead_nowhere()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._lead_nowhere()

    def _lead_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def runs_elsewhere(workflow: Any) -> bool:
    """Whether an executor runs jobs on other machines; known when `onstart` is called."""
    return not workflow.local_exec


def warn_of_lost_jobs(workflow: Any) -> None:
    """Called by `onstart`: alone, cluster-generic sees how a job ended only by a file that the job's node writes."""
    settings = workflow.executor_settings
    if hasattr(settings, "status_cmd") and not settings.status_cmd:
        say(
            "No --cluster-generic-status-cmd: if a job's node dies or lacks this folder, this command waits for it "
            "without end. Set it (`benchstudy docs scale`)."
        )


def start_jobs_at_once(workflow: Any) -> None:
    """Called by `onstart`: no limit of starts per second, which only the scheduler of a cluster may need.

    With one, Snakemake looks every second at each input of each job that waits. Of a study of 1,000 targets, that took
    more than half of a processor. Python also waits for its timers when the command ends.
    """
    if not runs_elsewhere(workflow):
        workflow.scheduler.job_rate_limiter = None


def restore_unfinished(*outputs: Path) -> None:
    """Restore what a job was replacing of these when its command was killed. The job itself is run again."""
    for output in outputs:
        kept = Path(".snakemake") / "backups" / output
        if kept.is_dir():
            shutil.copytree(kept, output, dirs_exist_ok=True)
            shutil.rmtree(kept)
        elif kept.exists():
            shutil.move(kept, output)


def planned_jobs(workflow: Any) -> list[tuple[str, dict[str, str]]]:
    """Rule and wildcards of each job of the command; known from `onstart` on."""
    jobs = workflow.dag.needrun_jobs(exclude_finished=False)
    return [(job.rule.name, dict(job.wildcards_dict)) for job in jobs]


def is_forced(workflow: Any, names: Iterable[str]) -> bool:
    """Whether --forcerun or --forceall asks for one of these rules or files, whatever exists.

    Snakemake does not pass this on to jobs on other machines.
    """
    if workflow.is_main_process:
        asked = [_ALL] if workflow.dag_settings.forceall else map(str, workflow.dag_settings.forcerun)
        os.environ[_FORCED] = os.pathsep.join(asked)
    forced = os.environ.get(_FORCED, "").split(os.pathsep)
    return _ALL in forced or not {*names}.isdisjoint(forced)


_FORCED = "BENCHSTUDY_JOBS_FORCED"
_ALL = "*"

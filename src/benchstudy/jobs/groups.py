"""Jobs for studies with many targets: one job holds the sessions of a group of targets in parallel."""

import logging
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

from benchstudy.hosts import interrupts, ssh_config
from benchstudy.hosts.forks import INTERRUPTED, Tell, in_forks
from benchstudy.jobs.job import said_in_log
from benchstudy.jobs.running import others_build_soon
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.progress import Drawing, log_to
from benchstudy.measuring.raw import index_problem
from benchstudy.measuring.session import OneOfMany, hold_session
from benchstudy.measuring.sessionindex import is_held
from benchstudy.measuring.statuslines import live_terminal
from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.groups import connected, groups, machines_of_targets
from benchstudy.model.study import Study
from benchstudy.provisioning.target import asked_of_targets, has_what_is_asked, provision_targets

log = logging.getLogger("benchstudy")

# As in the rule for a single target.
_LOG = "logs/{rule}/{study}/{target}/{family}.log"
_SAID_EVERY_S = 30.0


def measure_group(root: Path, study: Study, family: str, group: int, *, again: bool) -> None:
    """Hold the session of the family on each target of the group, each in its own process and with its own log.

    A complete session is skipped, and its index gets the present time. `again`: skip none.
    Raises BenchstudyError with the targets whose session left no index.
    """
    targets = groups(study)[group - 1].targets_of(study, family)
    plans = {target: study.session(target, family) for target in targets}
    due = [target for target in targets if again or not is_held(root, plans[target])]
    for target in set(targets) - set(due):
        os.utime(paths.session_index(root, study.study, target, family))
    log.info("%s: %d sessions, %d of them have all their trials", family, len(targets), len(targets) - len(due))
    if due:
        _import_once(family)
        _ = study.sha256  # kept; a session of a thousand hosts that computes it holds 3 MiB more
    instrument = instrument_sha256(family) if due else ""

    def hold(target: str, tell: Tell) -> None:
        for handler in list(log.handlers):
            log.removeHandler(handler)
        undo = log_to(
            Path(_LOG.format(rule="measure_session", study=study.study, target=target, family=family)), one_of_many=True
        )
        try:
            with said_in_log():
                interrupts.install()
                hold_session(root, plans[target], OneOfMany(lambda: tell(b"connected"), instrument))
        finally:
            undo()

    machines = machines_of_targets(study)
    turns = connected({target: machines[target] for target in due})
    with Drawing(paths.progress(root, study.study)) if live_terminal() else nullcontext() as drawing:
        said = _Said(family, len(due))
        meanwhile: Callable[[], None] = drawing.step if drawing else lambda: None
        statuses = in_forks(turns, hold, ended=said.ended, meanwhile=meanwhile)
    troubled = [t for t in due if index_problem(paths.session_index(root, study.study, t, family))]
    if troubled:
        log.warning("%s: sessions with a problem: %s", family, ", ".join(troubled))
    failed = [f"{target} ({_ending(status)})" for target, status in statuses.items() if status]
    if failed:
        raise BenchstudyError(f"{family}: these sessions ended early: {', '.join(failed)}; see their logs")


def provision_group(root: Path, study: Study, family: str, group: int, *, again: bool) -> None:
    """Provision the targets of the group for the family, each with its own log.

    A target is not contacted if its facts say that it has everything it needs, unless `again`.
    """
    targets = groups(study)[group - 1].targets_of(study, family)
    logs = {
        target: Path(_LOG.format(rule="provision_target", study=study.study, target=target, family=family))
        for target in targets
    }
    facts = {target: paths.provision_facts(root, study.study, target, family) for target in targets}
    asked = asked_of_targets(root, study, [family], targets)
    due = [name for name in targets if again or not has_what_is_asked(facts[name], study, name, asked[name])]
    for target in set(targets) - set(due):
        os.utime(facts[target])
    log.info("%s: %d targets, %d of them have what they need", family, len(targets), len(targets) - len(due))
    for target in due:
        logs[target].parent.mkdir(parents=True, exist_ok=True)
        logs[target].write_text("")

    def say(target: str, line: str) -> None:
        with logs[target].open("a") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}\n")

    soon = any(others_build_soon(root, study, target, family) for target in due)
    results = provision_targets(
        study, {target: facts[target] for target in due}, [family], keep_downloads=soon, say=say
    )
    for target, result in results.items():
        for problem in result.problems:
            say(target, problem)
    changed = sum(result.changed > 0 for result in results.values())
    troubled = sum(bool(result.problems) for result in results.values())
    log.info("%s: %d of %d targets were changed, %d have a problem", family, changed, len(due), troubled)


class _Said:
    """Logs now and then how many sessions have ended: a line for each would bury what matters."""

    def __init__(self, family: str, count: int):
        self._family, self._count, self._ended, self._next = family, count, 0, time.monotonic() + _SAID_EVERY_S

    def ended(self, target: str, status: int) -> None:
        self._ended += 1
        if self._ended == self._count or time.monotonic() >= self._next:
            self._next = time.monotonic() + _SAID_EVERY_S
            log.info("%s: %d of %d sessions have ended", self._family, self._ended, self._count)


def _import_once(family: str) -> None:
    """Import and ask what each session would."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork would not have numpy's threads
    for module in ("run", "parse"):
        registry.part(family, module)
    ssh_config.ask_once()


def _ending(status: int) -> str:
    return "interrupted" if status == INTERRUPTED else f"signal {-status}" if status < 0 else f"status {status}"

"""One measuring job: the missing trials of a family on a target, in random block order, under a lock on its hosts."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from traceback import format_exc
from typing import Any
from uuid import uuid4

from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.controller import ends_with_controller
from benchstudy.hosts.errors import LockLost
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost, Remote, RemoteError
from benchstudy.measuring.beside import Beside
from benchstudy.measuring.giving_up import GivenUp, given_up
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.progress import Progress
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.schedule import Scheduled, adopt, missing_trials, results, waiting_s
from benchstudy.measuring.sessionindex import write_index
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.storedtrials import CorruptTrial, StoredTrial
from benchstudy.measuring.trial import TrialContext
from benchstudy.measuring.trialrecord import RESULTS, Status, TrialRecord
from benchstudy.model import paths
from benchstudy.model.causes import NO_RESULT, Cause, Failure
from benchstudy.model.errors import BenchstudyError, BrokenPart, SessionFailed, TrialFailed, as_line
from benchstudy.model.family import Case, ParseError
from benchstudy.model.files import disk_trouble, now
from benchstudy.model.rounding import listed, plural
from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")


_MOST_NAMED = 5
_ASKED_EVERY_S = 0.2
_MOST_FRUITLESS_SESSIONS = 3  # in a row that lost their hosts or services and measured nothing
# The states of a command whose supervisor or controller went away.
_NOT_THE_TOOLS_DOING = {"lease-expired", "lost", "stopped"}


def _while_another_ends(plan: SessionPlan) -> Callable[[], bool]:
    """Waits for a session whose command was killed on another machine: it ends by its lease, which takes a while."""
    deadline, first = time.monotonic() + 2 * plan.study.thresholds.lease, iter([True])

    def again() -> bool:
        if next(first, False):
            log.info("%s on %s: waiting for another session of it to end", plan.family_name, plan.target)
        interrupts.pause(_ASKED_EVERY_S)
        return time.monotonic() < deadline

    return again


class ServicesEnded(SessionFailed):
    """Services that run for the whole session ended in its middle. Later trials would only fail without them."""


@dataclass(frozen=True)
class OneOfMany:
    """What a session gets from a process that holds many, each in a fork, and draws their progress.

    `connected` is called when the hosts are connected. `instrument` is the family's `instrument_sha256`, computed once
    for all, because it reads all measuring code.
    """

    connected: Callable[[], None]
    instrument: str


def hold_session(root: Path, plan: SessionPlan, one_of_many: OneOfMany | None = None) -> Path:
    """Measure what is missing and write the index `session.json`; returns its path.

    If nothing is missing, no host is contacted. A session that fails or does not finish still leaves an index of what
    exists, and `problem` says why. Raises CorruptTrial for an altered raw file.
    """
    store = TrialStore(plan.raw(root))
    with store.exclusive(_while_another_ends(plan)):
        trials = store.trials()
        while True:
            problem = _measure_missing(root, plan, store, trials, one_of_many)
            index = write_index(plan, store, trials, problem)
            # A discard made while the session ended was too late for it. A later one removes the index.
            if problem or not missing_trials(plan, store, trials):
                return index


def _measure_missing(
    root: Path, plan: SessionPlan, store: TrialStore, trials: list[StoredTrial], one_of_many: OneOfMany | None
) -> str | None:
    """Hold sessions until nothing is missing. Returns what ended them before that, in words, or None."""
    say = partial(log.warning, "%s on %s: %s", plan.family_name, plan.target)
    fruitless = 0
    try:
        while missing := missing_trials(plan, store, trials, say):
            store.forget_index()
            before = _results_in(trials)
            try:
                _Session(root, plan, store, trials, one_of_many).measure(missing)
                return None
            # The hosts may become available again, and services start afresh: a new session continues from here.
            except (LockLost, ServicesEnded) as error:
                fruitless = 0 if _results_in(trials) > before else fruitless + 1
                if fruitless == _MOST_FRUITLESS_SESSIONS:
                    raise
                say(f"{error}; beginning another session")
    except CorruptTrial:
        raise
    except BenchstudyError as error:
        log.error("%s on %s: %s", plan.family_name, plan.target, error)
        return str(error)
    except OSError:  # on this machine, where an index could not be written either
        raise
    except Exception as error:  # a host's nonsense, or a defect here, must not end other targets
        problem = f"internal error: {type(error).__name__}: {error}"
        log.exception("%s on %s: %s", plan.family_name, plan.target, problem)
        return problem
    return None


def _results_in(trials: Iterable[StoredTrial]) -> int:
    return sum(trial.facts.status in RESULTS for trial in trials)


class _Session:
    """The connection, lock and schedule of one run of `hold_session`."""

    def __init__(
        self, root: Path, plan: SessionPlan, store: TrialStore, trials: list[StoredTrial], one_of_many: OneOfMany | None
    ):
        """`trials`: measured trials are added to it, even if the session does not finish."""
        self._one_of_many = one_of_many
        self._plan, self._store, self._trials = plan, store, trials
        self._uuid = str(uuid4())
        self._instrument = one_of_many.instrument if one_of_many else instrument_sha256(plan.family_name)
        self._record = SessionRecord(store.folder, self._uuid, plan, self._instrument)
        self._state: SessionState | None = None  # from when its hosts are locked
        self._beside = Beside(paths.beside(root, plan.study.study))
        self._progress = Progress(
            paths.progress(root, plan.study.study),
            f"{plan.family_name} on {plan.target}",
            plan.blocks,
            adaptive=plan.stopping is not None,
            apart_s=plan.blocks_apart_s,
            draws=one_of_many is None,
        )

    def measure(self, missing: list[Scheduled]) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._progress)
            stack.enter_context(ends_with_controller())
            hosts = self._connect(stack)
            if self._one_of_many:
                self._one_of_many.connected()
            self._record.begin({name: host.facts() for name, host in hosts.items()})
            state = self._state = SessionState(self._uuid, self._plan, hosts, self._record.folder, self._event)
            # Whatever happens, end what the session started and record what it saw.
            stack.callback(self._end, hosts)
            stack.callback(state.close)
            adopted = len(adopt(self._plan, self._trials, self._store.discards()))
            self._progress.begin(len(missing), adopted, blocks=len({scheduled.block for scheduled in missing}))
            while missing:
                # Repeats come at the end of their block, so that they are compared with trials of about the same time.
                by_block = self._plan.disturbance.then == "repeat"
                now_due = [s for s in missing if s.block == missing[0].block] if by_block else missing
                self._results_of(now_due, state)
                expected = len(missing) - len(now_due)
                missing = missing_trials(self._plan, self._store, self._trials, self._event)
                begun = {scheduled.block for scheduled in now_due}
                further = {scheduled.block for scheduled in missing} - begun
                self._progress.extend(len(missing) - expected, blocks=0 if expected else len(further))
                again = [s.case.id for s in missing if s.block == now_due[-1].block] if by_block else []
                if again:
                    self._event(f"block {now_due[-1].block}: other work disturbed {', '.join(again)}: measuring again")

    def _results_of(self, missing: list[Scheduled], state: SessionState) -> None:
        """Measure all of these. Raises SessionFailed if one of them has no result in the end."""
        aborted, given = [], self._given_up()
        for scheduled in missing:
            if scheduled.case.id in given:
                self._progress.extend(-1, blocks=0)
                continue
            self._wait_for(scheduled.block)
            status = self._one_trial(scheduled, state)
            if status == "aborted":
                aborted.append(scheduled)
            elif status != "ok":
                known, given = given, self._given_up()
                for case in given.keys() - known.keys():
                    self._event(str(given[case]))
        # Out of order, which their record shows. A second abort is left to the next run.
        again = [scheduled for scheduled in aborted if self._one_trial(scheduled, state) == "aborted"]
        if again:
            named = listed([f"{scheduled.case.id} in block {scheduled.block}" for scheduled in again], _MOST_NAMED)
            why = self._trials[-1].record.cause
            raise SessionFailed(
                f"{plural(len(again), 'trial')} aborted twice and got no result: {named}; lastly: {why}"
            )

    def _given_up(self) -> dict[str, GivenUp]:
        return given_up(self._plan, results(self._plan, self._trials, self._store.discards()))

    def _wait_for(self, block: int) -> None:
        """Wait until the previous block began as long ago as the study demands, whichever session held it.

        Heartbeats continue in their own threads, and Ctrl-C ends a wait as it ends a trial.
        """
        wait_s = waiting_s(self._plan, self._trials, block, datetime.now(UTC))
        if wait_s > 0:
            self._progress.wait(block, wait_s)
            interrupts.pause(wait_s)
            self._progress.waited(wait_s)

    def _connect(self, stack: ExitStack) -> dict[str, HostAgent]:
        thresholds = self._plan.study.thresholds
        owner = {
            "study": self._plan.study.study,
            "session": f"{self._plan.family_name} on {self._plan.target}",
            "controller": socket.gethostname(),
            "pid": os.getpid(),
            "since": now(),
        }
        hosts = {}
        for name, host in self._plan.hosts.items():
            remote = stack.enter_context(Remote(name, host))
            hosts[name] = agent = HostAgent.deploy(
                remote,
                lease_s=thresholds.lease,
                reconnect_s=thresholds.reconnect,
                on_event=self._event,
                extensions=self._plan.family.extensions,
            )
            stack.enter_context(agent.lock(self._uuid, owner))
            agent.sweep()
            agent.join_accounts()
        return hosts

    def _one_trial(self, scheduled: Scheduled, state: SessionState) -> Status:
        case = scheduled.case
        partial = self._store.begin(case.id, scheduled.block)
        self._progress.trial_started(scheduled.block, case.id)
        trial = TrialContext(state, partial.uuid, partial.folder, scheduled.block)
        started, begun = now(), time.monotonic()
        status: Status = "aborted"
        cause: str | None = "the session ended during the trial"
        failure: Failure | None = Failure(cause=Cause.INTERRUPTED)
        try:
            status, cause, failure = self._run_and_parse(case, trial)
        except (ConnectionFailed, ConnectionLost) as error:
            kind = error.cause if isinstance(error, LockLost) else Cause.CONNECTION
            cause, failure = str(error), Failure(cause=kind, host=error.host)
            raise
        except BrokenPart as error:
            cause, failure = str(error), Failure(cause=Cause.INTERNAL)
            raise
        except OSError as error:
            cause = disk_trouble(error) or str(error)
            raise
        except KeyboardInterrupt:
            cause = "interrupted"
            raise
        finally:
            record = TrialRecord(
                uuid=partial.uuid,
                study=self._plan.study.study,
                study_sha256=self._plan.study.sha256,
                target=self._plan.target,
                family=self._plan.family_name,
                case=case.id,
                levels=dict(case.levels),
                definition=dict(case.definition),
                definition_sha256=case.definition_sha256,
                block=scheduled.block,
                position=scheduled.position,
                session=self._uuid,
                roles=dict(self._plan.roles),
                status=status,
                cause=state.redact(cause, may_be_cut=True) if cause else None,
                failure=failure and failure.with_said(lambda said: state.redact(said, may_be_cut=True)),
                started=started,
                finished=now(),
                duration_s=time.monotonic() - begun,
                commands=trial.commands,
                verified=state.redacted(trial.notes),
                instrument=self._instrument,
            )
            trial.keep_neighbours()
            state.redact_files(partial.folder)
            self._trials.append(partial.commit(record))
            for text in self._beside.news():
                self._event(text)
            self._record.save()
            self._progress.trial_finished(scheduled.block, case.id, status, record.cause, record.duration_s)
        if state.ended:
            named = listed(sorted({running.name for running in state.ended}), _MOST_NAMED)
            raise ServicesEnded(f"no longer running: {named}")
        return status

    def _run_and_parse(self, case: Case, trial: TrialContext) -> tuple[Status, str | None, Failure | None]:
        assert self._state is not None
        try:
            try:
                self._plan.family.run(case, trial)
                self._read(case, trial, self._state)
            except (TrialFailed, ParseError) as symptom:
                trial.require_services(symptom)
                raise
            trial.require_services()
        except (TrialFailed, ParseError) as error:
            states = {command.state for command in trial.commands}
            if states & _NOT_THE_TOOLS_DOING or error.failure.cause in NO_RESULT:
                return "aborted", str(error), error.failure
            return ("timeout" if "timeout" in states else "failed"), str(error), error.failure
        except (ConnectionFailed, ConnectionLost, BrokenPart):  # no other trial would fare better
            raise
        except RemoteError as error:  # such as files that arrived damaged: nothing is known about the trial
            return "aborted", str(error), Failure(cause=Cause.CONNECTION)
        except Exception as error:  # a defect here: it must not end other trials, and it is not a result
            if isinstance(error, OSError) and disk_trouble(error):  # then no other trial could be stored either
                raise
            log.error("%s: internal error\n%s", case.id, self._state.redact(format_exc().rstrip()))
            words = f"internal error: {as_line(error, self._plan.family.folder)}"
            return "aborted", words, Failure(cause=Cause.INTERNAL)
        if trial.commands and len({c.boot_id for c in trial.commands if c.host == trial.commands[0].host}) > 1:
            return "aborted", "the host was restarted during the trial", Failure(cause=Cause.HOST_RESTARTED)
        return "ok", None, None

    def _read(self, case: Case, trial: TrialContext, state: SessionState) -> None:
        """Read what is stored. A tool can exit 0 and leave nonsense, which only another way to read it can help."""
        held = state.redact_files(trial.files)
        try:
            self._plan.family.parse(case.levels, trial.files)
        except ParseError as error:
            if not held:
                raise
            told = f"secrets were removed from {', '.join(held)}: use values that occur nowhere else in outputs"
            raise ParseError(f"{error}; {told}", error.failure) from error
        trial.note(**self._plan.family.notes(trial.files))

    def _event(self, text: str) -> None:
        text = self._state.redact(text) if self._state else text
        self._record.event(text)
        self._progress.event(text)

    def _end(self, hosts: Mapping[str, HostAgent]) -> None:
        after: dict[str, dict[str, Any] | None] = {}
        for name, host in hosts.items():
            try:
                after[name] = host.facts()
            except BenchstudyError as error:
                after[name] = None
                self._event(f"{name}: the environment after the session is unknown: {error}")
        self._record.end(after)

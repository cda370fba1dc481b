"""One measuring job: the missing trials of a family on a target, in random block order, under a lock on its hosts."""

import json
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import HostAgent, LockLost
from benchstudy.hosts.controller import ends_with_controller
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost, Remote, RemoteError
from benchstudy.measuring import disturbances, looks
from benchstudy.measuring.beside import Beside
from benchstudy.measuring.giving_up import GivenUp, given_up
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.measuring.progress import Progress
from benchstudy.measuring.raw import (
    NOT_HELD,
    RESULTS,
    CorruptTrial,
    Status,
    StoredTrial,
    TrialRecord,
    TrialStore,
    in_order,
)
from benchstudy.measuring.sealed import read_index
from benchstudy.measuring.sessionrecord import SessionRecord
from benchstudy.measuring.state import HostConnection, SessionState
from benchstudy.measuring.trial import TrialContext
from benchstudy.model import hints, paths
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import BenchstudyError, SessionFailed, TrialFailed
from benchstudy.model.family import Case, ParseError
from benchstudy.model.files import as_json, disk_trouble, json_of, now, write_atomically
from benchstudy.model.rounding import listed
from benchstudy.model.study import SessionPlan

log = logging.getLogger("benchstudy")


_MOST_NAMED = 5
_ASKED_EVERY_S = 0.2
_MOST_FRUITLESS_SESSIONS = 3  # in a row that lost their hosts and measured nothing
# The states of a command whose supervisor or controller went away.
_NOT_THE_TOOLS_DOING = {"lease-expired", "lost", "stopped"}


@dataclass(frozen=True)
class Scheduled:
    """A trial to measure. Its position in the random order of its block is recorded with it."""

    case: Case
    block: int
    position: int


def schedule(plan: SessionPlan, blocks: int | None = None) -> list[Scheduled]:
    """Every trial of the first `blocks` blocks (default: of all), in the order of measuring.

    The same study always gives the same order.
    """
    order = []
    for block in range(1, (plan.blocks if blocks is None else blocks) + 1):
        # A block's order must not depend on the number of blocks, so that adding a block changes no other.
        rng = random.Random(f"{plan.study.seed}/{plan.target}/{plan.family_name}/{block}")
        cases = plan.family.order([case for case in plan.cases if case.is_in(block)], block, rng)
        order += [Scheduled(case.in_block(block), block, position) for position, case in enumerate(cases, start=1)]
    return order


def adopt(
    plan: SessionPlan, trials: Iterable[StoredTrial], discarded: Container[str]
) -> dict[tuple[str, int], StoredTrial]:
    """The verified `trials` that are results for the plan, by case and block. `discarded`: uuids.

    Raises SessionFailed if the study describes a case differently than when it was measured, or has it elsewhere.
    """
    return {key: _standing(plan, found) for key, found in results(plan, trials, discarded).items()}


def _standing(plan: SessionPlan, found: list[StoredTrial]) -> StoredTrial:
    """The result of a case in one block that figures use: the first undisturbed one, or else the first."""
    if len(found) == 1:  # no choice, so the files of ten thousand trials need not be read
        return found[0]
    return next((trial for trial in found if not _disturbed(plan, trial)), found[0])


def _disturbed(plan: SessionPlan, trial: StoredTrial) -> bool:
    return plan.disturbance.disturbed(disturbances.seen(trial)) is not None


def results(
    plan: SessionPlan, trials: Iterable[StoredTrial], discarded: Container[str]
) -> dict[tuple[str, int], list[StoredTrial]]:
    """Like `adopt`, but with all results of a case in a block, including those repeated after a disturbance."""
    cases = {case.id: case for case in plan.cases}
    found: dict[tuple[str, int], list[StoredTrial]] = {}
    for trial in trials:
        facts = trial.facts
        if facts.uuid in discarded or facts.status not in RESULTS or facts.case not in cases:
            continue
        case = cases[facts.case].in_block(facts.block)
        if facts.definition_sha256 != case.definition_sha256 and facts.imported_from is None:
            was, is_now = trial.record.definition, dict(case.definition)
            changed = sorted(
                k for k in {*was, *is_now} if was.get(k) != json.loads(json.dumps(is_now, default=str)).get(k)
            )
            raise SessionFailed(
                f"{facts.case}: the study now describes this case differently ({', '.join(changed) or 'levels'} "
                f"changed) than when trial {trial.short} measured it. Give the study a new name to measure afresh, or "
                f"restore the old value, or run {hints.benchstudy('discard', '--case', facts.case, '--why', '…')}"
            )
        for role, host in _elsewhere(plan, trial).items():
            raise SessionFailed(
                f"{facts.case}: trial {trial.short} was measured with the role {role} on the host {host}, and the "
                f"target {plan.target} now gives it to {plan.roles[role]}: one case would have trials of two hosts. "
                "Give the target a new name to measure there, or restore the old host, or run "
                f"{hints.benchstudy('discard', '--case', facts.case, '--why', '…')}"
            )
        found.setdefault((facts.case, facts.block), []).append(trial)
    return found


def _elsewhere(plan: SessionPlan, trial: StoredTrial) -> dict[str, str]:
    """Roles in which a trial's commands ran on another host than they would now, and that host."""
    was = trial.facts.roles
    if all(plan.roles.get(role, host) == host for role, host in was.items()):
        return {}
    return {c.role: c.host for c in trial.record.commands if plan.roles.get(c.role, c.host) != c.host}


def set_aside(plan: SessionPlan, trials: Iterable[StoredTrial], discarded: Container[str]) -> dict[str, str]:
    """Disturbed trials that another trial of the same case and block replaces: uuid to uuid of the other."""
    aside: dict[str, str] = {}
    for found in results(plan, trials, discarded).values():
        standing = _standing(plan, found)
        aside |= {t.facts.uuid: standing.facts.uuid for t in found if t is not standing and _disturbed(plan, t)}
    return aside


def missing_trials(
    plan: SessionPlan,
    store: TrialStore,
    trials: Iterable[StoredTrial],
    say: Callable[[str], None] | None = None,
) -> list[Scheduled]:
    """The trials to measure next: all missing ones, or in an adaptive session those missing before its next look.

    If none is missing, a look is taken from the verified `trials`, stored, passed to `say`, and decides. A stored look
    is never taken again. Without `say` none is taken. Returns [] if the session is complete, or has to look first.
    Raises SessionFailed like `adopt`, and if a trial that a look needs can no longer be parsed.
    """
    found = results(plan, trials, store.discards())
    adopted = {key: _standing(plan, repeated) for key, repeated in found.items()}
    stopping, given = plan.stopping, given_up(plan, found)
    blocks = stopping.look_from(looks.begun(adopted)) if stopping else plan.blocks
    while True:
        missing = [s for s in schedule(plan, blocks) if _is_missing(plan, found.get((s.case.id, s.block), []))]
        missing = [scheduled for scheduled in missing if scheduled.case.id not in given]
        if missing or stopping is None:
            return missing
        look = looks.find_look(store.looks(), plan, blocks, adopted)
        if look is None:
            if say is None:
                return []
            look = looks.take_look(plan, blocks, adopted)
            store.keep_look(look)
            say(looks.verdict(look, plan, stopping))
        if looks.enough(look, plan, stopping):
            return []
        blocks = stopping.look_after(blocks)


def _is_missing(plan: SessionPlan, found: list[StoredTrial]) -> bool:
    """Whether a case must still be measured in a block: it has no result, or only disturbed ones that are repeated."""
    return not found or (plan.disturbance.repeats(len(found)) and all(_disturbed(plan, trial) for trial in found))


def waiting_s(plan: SessionPlan, trials: Iterable[StoredTrial], block: int, moment: datetime) -> float:
    """How long a block has to wait at this moment, in seconds: 0 if it was begun before, or needs no distance."""
    begun: dict[int, datetime] = {}
    for trial in trials if plan.blocks_apart_s else ():
        if trial.facts.imported_from is None:
            started = datetime.fromisoformat(trial.facts.started)
            begun[trial.facts.block] = min(started, begun.get(trial.facts.block, started))
    if block in begun or not begun:
        return 0.0
    since = (moment - max(begun.values())).total_seconds()
    # If the clock was set back, it must not wait longer than the distance.
    return min(max(plan.blocks_apart_s - since, 0.0), plan.blocks_apart_s)


def _while_another_ends(plan: SessionPlan) -> Callable[[], bool]:
    """Waits for a session whose command was killed on another machine: it ends by its lease, which takes a while."""
    deadline, first = time.monotonic() + 2 * plan.study.thresholds.lease, iter([True])

    def again() -> bool:
        if next(first, False):
            log.info("%s on %s: waiting for another session of it to end", plan.family_name, plan.target)
        interrupts.pause(_ASKED_EVERY_S)
        return time.monotonic() < deadline

    return again


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
            except LockLost as error:  # the hosts may become available again: a new session continues from here
                fruitless = 0 if _results_in(trials) > before else fruitless + 1
                if fruitless == _MOST_FRUITLESS_SESSIONS:
                    raise
                say(f"{error}; taking the lock again")
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


def write_index_only(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial]) -> None:
    """Write the index without holding a session: if it was damaged, or trials were imported. Raises CorruptTrial.

    The problem is NOT_HELD if trials are missing, or the look that would end an adaptive session.
    """
    try:
        held = not missing_trials(plan, store, trials)
        if held and plan.stopping:
            adopted, taken = adopt(plan, trials, store.discards()), store.looks()
            valid = (looks.find_look(taken, plan, look["blocks"], adopted) for look in taken)
            held = any(look and looks.enough(look, plan, plan.stopping) for look in valid)
        problem = None if held else NOT_HELD
    except SessionFailed as error:  # a case was described anew
        problem = str(error)
    write_index(plan, store, trials, problem)


def is_held(root: Path, plan: SessionPlan) -> bool:
    """Whether a session's index says that it has everything in the plan. Reads no trial."""
    store = TrialStore(plan.raw(root))
    index = read_index(store.index)
    if index is None or index["problem"] or index.get("plan") != plan.digest or plan.config.import_only:
        return False
    return {entry["uuid"] for entry in index["discarded"]} == store.discards().keys()


def _results_in(trials: Iterable[StoredTrial]) -> int:
    return sum(trial.facts.status in RESULTS for trial in trials)


def write_index(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial], problem: str | None) -> Path:
    """Write `session.json`: every trial with the SHA-256 of each of its files, every session, every discard."""
    listed = []
    for trial in in_order(trials):
        facts = trial.facts
        listed.append(
            {
                "uuid": facts.uuid,
                "case": facts.case,
                "block": facts.block,
                "position": facts.position,
                "session": facts.session,
                "status": facts.status,
                "cause": facts.cause,
                "path": f"{trial.folder.parent.name}/{trial.folder.name}",  # ten times as fast as pathlib finds it
                "files": [file._asdict() for file in trial.files],
            }
        )
    try:
        repeated = set_aside(plan, trials, store.discards())
        given = [vars(case) for case in given_up(plan, results(plan, trials, store.discards())).values()]
    except SessionFailed:  # a case was described anew, and the index says so already
        repeated, given = {}, []
    sessions = [_session(path) for path in store.folder.glob("sessions/[!.]*/session.json")]
    index = {
        "schema_version": 1,
        "study": plan.study.study,
        "target": plan.target,
        "family": plan.family_name,
        "study_sha256": plan.study.sha256,
        "plan": plan.digest,
        "problem": problem,
        "stopping": _stopping(plan, store, trials),
        "sessions": sorted(sessions, key=lambda s: s["started"]),
        "trials": listed,
        "disturbance": {**plan.disturbance.model_dump(mode="json"), "repeated": repeated},
        "discarded": [vars(d) for d in store.discards().values()],
        "given_up": given,
    }
    write_atomically(store.index, _as_json(index))
    return store.index


def _as_json(index: Mapping[str, Any]) -> str:
    """The same text as `as_json`, which would take seconds for the files of ten thousand trials."""
    try:
        return orjson.dumps(index, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    except TypeError:  # output of a tool that is not Unicode
        return as_json(index)


def _session(path: Path) -> dict[str, Any]:
    try:
        found = json_of(path.read_bytes())
        if all(isinstance(found[name], str) for name in ("uuid", "started")):
            return found
    except (LookupError, TypeError, ValueError):
        pass
    raise CorruptTrial(f"{path}: damaged: not the record of a session; restore it from a copy")


def _stopping(plan: SessionPlan, store: TrialStore, trials: Iterable[StoredTrial]) -> dict[str, Any] | None:
    """What an adaptive session has seen so far; None for a fixed number of blocks."""
    if plan.stopping is None:
        return None
    try:
        return looks.course(plan, store.looks(), adopt(plan, trials, store.discards()))
    except SessionFailed:  # a case was described anew, and the index says so already
        return looks.course(plan, [], {})


class _Session:
    """The connection, lock and schedule of one run of `hold_session`."""

    def __init__(
        self,
        root: Path,
        plan: SessionPlan,
        store: TrialStore,
        trials: list[StoredTrial],
        one_of_many: OneOfMany | None,
    ):
        """`trials`: measured trials are added to it, even if the session does not finish."""
        self._one_of_many = one_of_many
        self._root, self._plan, self._store, self._trials = root, plan, store, trials
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
            self._record.begin({name: host.agent.facts() for name, host in hosts.items()})
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
                    self._event(f"block {now_due[-1].block}: others disturbed {', '.join(again)}: measuring again")

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
            raise SessionFailed(f"{len(again)} trials were aborted twice and have no result: {named}")

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

    def _connect(self, stack: ExitStack) -> dict[str, HostConnection]:
        thresholds = self._plan.study.thresholds
        owner = {
            "study": self._plan.study.study,
            "session": f"{self._plan.family_name} on {self._plan.target}",
            "controller": socket.gethostname(),
            "pid": os.getpid(),
            "since": now(),
        }
        connections = {}
        for name, host in self._plan.hosts.items():
            remote = stack.enter_context(Remote(name, host))
            agent = HostAgent.deploy(
                remote,
                lease_s=thresholds.lease,
                reconnect_s=thresholds.reconnect,
                on_event=self._event,
                extensions=self._plan.family.extensions,
            )
            stack.enter_context(agent.lock(self._uuid, owner))
            agent.sweep()
            connections[name] = HostConnection(remote, agent, agent.join_accounts(self._uuid))
        return connections

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
                cause=state.redact(cause) if cause else None,
                failure=failure and failure.with_said(state.redact),
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
        return status

    def _run_and_parse(self, case: Case, trial: TrialContext) -> tuple[Status, str | None, Failure | None]:
        family = self._plan.family
        try:
            family.run(case, trial)
            # A tool can exit 0 and leave nonsense. What cannot be parsed now will never be.
            family.parse(case.levels, trial.files)
            trial.note(**family.notes(trial.files))
        except (TrialFailed, ParseError) as error:
            states = {command.state for command in trial.commands}
            if states & _NOT_THE_TOOLS_DOING or error.failure.cause is Cause.CONNECTION:
                return "aborted", str(error), error.failure
            return ("timeout" if "timeout" in states else "failed"), str(error), error.failure
        except (ConnectionFailed, ConnectionLost):
            raise
        except RemoteError as error:  # such as files that arrived damaged: nothing is known about the trial
            return "aborted", str(error), Failure(cause=Cause.CONNECTION)
        except Exception as error:  # a defect here: it must not end other trials, and it is not a result
            if isinstance(error, OSError) and disk_trouble(error):  # then no other trial could be stored either
                raise
            log.exception("%s: internal error", case.id)
            words = f"internal error: {type(error).__name__}: {error}"
            return "aborted", words, Failure(cause=Cause.INTERNAL)
        if trial.commands and len({c.boot_id for c in trial.commands if c.host == trial.commands[0].host}) > 1:
            return "aborted", "the host was restarted during the trial", Failure(cause=Cause.HOST_RESTARTED)
        return "ok", None, None

    def _event(self, text: str) -> None:
        text = self._state.redact(text) if self._state else text
        self._record.event(text)
        self._progress.event(text)

    def _end(self, hosts: Mapping[str, HostConnection]) -> None:
        after: dict[str, dict[str, Any] | None] = {}
        for name, host in hosts.items():
            try:
                after[name] = host.agent.facts()
            except BenchstudyError as error:
                after[name] = None
                self._event(f"{name}: the environment after the session is unknown: {error}")
        self._record.end(after)

"""One trial of log_write: a fresh log with its servers, load and proofs, and the removal of the log.

Facts about the load go into `log.json` in the trial's folder, so that parsing needs only files.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchstudy.families.log_write.causes import explain, explained
from benchstudy.families.log_write.command import Load
from benchstudy.families.log_write.config import SEARCH, LogWriteConfig, share_of
from benchstudy.families.log_write.layout import FACTS, HAMMER, LOAD, SEARCHED, WATCH
from benchstudy.families.log_write.log import Log, Wanted
from benchstudy.families.log_write.reading import read_hammer_log, read_written, window_of
from benchstudy.families.log_write.search import Missed, Reason, Step, bracket, next_rate, tried, verdict
from benchstudy.families.log_write.starts import Death, ServerDied, Starts
from benchstudy.families.shared.levels import Rate, limits_named
from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import Command
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.clients import CLIENTS, client_roles
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.family import Case, ParseError
from benchstudy.model.files import as_json, write_atomically
from benchstudy.model.rounding import plural

if TYPE_CHECKING:
    from benchstudy.families.log_write.logbench import LogbenchResult
    from benchstudy.measuring.trial import TrialContext, TrialExecution

_OPEN = "open"
# The message of logbench about a log that answered before, but is still overloaded after a rate that was too high.
_UNANSWERED = re.compile(r"no checkpoint at .*(deadline exceeded|timeout|refused|reset by peer|EOF)", re.IGNORECASE)
_LONGER_S = 120.0  # time beyond load and waiting after which a generator counts as hung


def run_trial(case: Case, trial: "TrialContext[LogWriteConfig]") -> None:
    """Run one trial. Raises TrialFailed with an explained cause."""
    try:
        _Trial(case, trial).run()
    except TrialFailed as error:
        raise TrialFailed(explained(str(error))) from error
    finally:
        # The program of the trial is the generator, not the server.
        trial.commands.sort(key=lambda command: not command.label.startswith(LOAD))


class _NothingAccepted(TrialFailed):
    """The log accepted no leaf in the window. `said`: its messages."""

    def __init__(self, said: str):
        super().__init__(f"the log accepted no leaf in the window: {said}")
        self.said = said


class _Trial:
    starts: Starts
    loaded = 0  # the number of the last start that had a load

    def __init__(self, case: Case, trial: "TrialContext[LogWriteConfig]"):
        self.trial, levels = trial, case.levels
        config = trial.config
        self.config = config
        self.backend, self.generator = config.backend(levels["backend"]), config.generator(levels["generator"])
        self.duplicate_share = share_of(levels["duplicates"])
        self.rate = None if levels["rate"] == SEARCH else Rate.of_level(levels["rate"]).per_s
        self.roles = client_roles(levels, trial.roles)
        self.role = self.roles[0]
        self.has_clients = CLIENTS in levels
        bound = self.backend.max_integrate_p99
        self.objective = config.search.model_copy(update={"max_integrate_p99": bound} if bound else {})
        self.steps: list[Step] = []  # of a search, and its windows
        self.windows: list[dict[str, Any]] = []
        highest = Rate(config.search.highest).per_s if self.rate is None else self.rate
        self.wanted = Wanted(
            backend=self.backend,
            service=self.backend.server(levels["antispam"]) or "",
            limits=limits_named(levels["limits"], config.limits),
            front_ends=int(levels["front_ends"]),
            generator=self.generator,
            under_way=self.generator.under_way(highest),
            load_roles=self.roles,
        )

    def run(self) -> None:
        trial = self.trial
        self.programs = {role: trial.tool_path(self.generator.tool, role) for role in self.roles}
        self.logbench = trial.tool_path("logbench", self.role)
        trial.note(loop="open" if self.generator.is_open else "closed")
        with Starts(self.wanted, trial, self.programs) as self.starts:
            facts: dict[str, Any] = {
                "schema": 1,
                "tool": self.generator.tool,
                "mode": SEARCH if self.rate is None else _OPEN if self.generator.is_open else HAMMER,
                "rate_per_s": self.rate,
                "duplicate_share": self.duplicate_share,
                "front_ends": self.wanted.front_ends,
                "publish_interval_s": self.backend.publish_interval,
                "placement": asdict(self.log.placement),
                "cpus": self.log.cpus,
            }
            if self.has_clients:
                facts["clients"] = [{"cpus": self.log.placements[role].usable} for role in self.roles]
            facts |= self._loaded()
            facts["clocks_ahead_s"] = self._clocks_ahead_s()
            self._require_no_known_cause(facts)
        # The servers have ended, and their records have their resources.
        facts["starts"] = self.starts.described()
        facts["servers"] = facts["starts"][-1]["servers"]
        write_atomically(trial.files / FACTS, as_json(facts))

    @property
    def log(self) -> Log:
        return self.starts.log

    def _clocks_ahead_s(self) -> dict[str, float]:
        """The clock of each host minus that of the load host: samples have the time of their own host."""
        own_s = self.trial.clock_offset_s(self.role)
        return {host: self.trial.clock_offset_s(role) - own_s for role, host in self.trial.roles.items()}

    # --- load ------------------------------------------------------------------------------------------------

    def _loaded(self) -> dict[str, Any]:
        if self.rate is None:
            return self._search()
        load = self._load_of(self.rate, self.generator.warm_up, self.generator.duration)
        if self.generator.is_open:
            self._write(load)
        else:
            self._hammer(load)
        return {"under_way": load.under_way, "window": {"warm_up_s": load.warm_up_s, "duration_s": load.duration_s}}

    def _load_of(self, rate_per_s: float, warm_up_s: float, duration_s: float) -> Load:
        return Load(
            generator=self.generator,
            target=self.log.target,
            rate_per_s=rate_per_s,
            under_way=self.generator.under_way(rate_per_s),
            duplicate_share=self.duplicate_share,
            warm_up_s=warm_up_s,
            duration_s=self.backend.window_s(duration_s),
            cool_down_s=self.backend.cool_down_s if self.generator.is_open else 0.0,
        )

    def _timeout_s(self, load: Load) -> float:
        generator = self.generator
        return min(load.total_s + generator.drain + generator.request_timeout + _LONGER_S, self.config.timeout)

    def _write(self, load: Load, label: str = LOAD) -> None:
        """Run the open loop, on each client with its part of the rate.

        Raises ServerDied, and TrialFailed if a leaf was lost or none was accepted. In a search, a late leaf is not a
        lost one: the rate was too high.
        """
        commands = {}
        for client, role in enumerate(self.roles, 1):
            part, cpus = load.part(client, len(self.roles)), self.log.placements[role].generator
            commands[role] = part.write(self.programs[role], label, cpus, self._timeout_s(load))
        if self.has_clients:
            self._require(lambda: self.trial.execute_together(commands, label))
        else:
            self._require(self.trial.execute(commands[self.role], self.role).require_success)
        written = self._read(label)
        self._require_nothing_lost(written)
        if not written.window.accepted:
            said = "; ".join(f"{text.count}× {text.kind}: {text.text}" for text in written.texts[:3])
            raise _NothingAccepted(said or "no answer came")

    def _require_nothing_lost(self, written: "LogbenchResult") -> None:
        lost = written.proofs.lost_count - (written.proofs.not_integrated if self.rate is None else 0)
        if lost > 0:
            first = written.proofs.lost[0]
            words = f"the log lost {lost} accepted leaves, such as index {first.index}: {first.why}"
            raise TrialFailed(words, Failure(cause=Cause.DATA_LOST))

    def _read(self, label: str) -> "LogbenchResult":
        try:
            return read_written(self.trial.files / label)
        except ParseError as error:
            raise TrialFailed(f"the result of logbench: {error}", Failure(cause=Cause.PARSE)) from error

    def _require(self, succeed: Callable[[], Any]) -> None:
        """Call `succeed`. If it fails, report the servers' failure first: a refused connection is only a symptom."""
        try:
            succeed()
        except TrialFailed as error:
            self.starts.check()
            if self.rate is None and self.starts.number == self.loaded and _UNANSWERED.search(str(error)):
                words = "server hung: no checkpoint came before the load started"
                raise ServerDied(words, Failure(cause=Cause.SERVER_HUNG)) from error
            raise
        self.starts.check()
        self.loaded = self.starts.number

    def _hammer(self, load: Load) -> None:
        """Run the hammer on a terminal, and logbench, which watches checkpoints and proves leaves."""
        cpus = self.log.placement.generator
        with self._beside(load.watch(self.logbench, self._timeout_s(load))) as watching:
            done = self.trial.execute(load.hammer(self.programs[self.role], cpus), self.role)
            self.starts.check()
            if done.execution.state != "timeout":
                done.require_success()
                raise TrialFailed(f"the hammer ended early, after {done.execution.duration_s:.0f} s")
        self._require(watching[0].require_success)
        watched = self._read(WATCH)
        if watched.proofs.lost_count:
            first = watched.proofs.lost[0]
            words = f"the log lost leaves, such as index {first.index}: {first.why}"
            raise TrialFailed(words, Failure(cause=Cause.DATA_LOST))

    @contextmanager
    def _beside(self, command: Command) -> Iterator[list["TrialExecution"]]:
        """Run the command during the block and to its end, or until the block fails. The list gets its execution."""
        ending = Event()
        done: list[TrialExecution] = []
        problems: list[BenchstudyError] = []

        def run() -> None:
            try:
                done.append(self.trial.execute(replace(command, stop_when=ending), self.role))
            except BenchstudyError as error:
                problems.append(error)

        thread = Thread(target=run, name=command.label, daemon=True)
        thread.start()
        try:
            yield done
            interrupts.join(thread, command.timeout_s + _LONGER_S)
        except BaseException:
            ending.set()
            thread.join(_LONGER_S)
            raise
        if problems:
            raise problems[0]
        if not done:
            raise TrialFailed(f"{command.label} did not end")

    # --- capacity --------------------------------------------------------------------------------------------

    def _search(self) -> dict[str, Any]:
        """Search on one log until the bracket is narrow, and on a fresh log after a server died.

        Raises TrialFailed if no rate passes, or if servers die too often.
        """
        begun = time.monotonic()
        while (rate := next_rate(self.steps, self.objective)) is not None:
            self._require_time(begun, rate)
            self.steps.append(tried(rate, self.objective, partial(self._attempt, rate)))
        found = bracket(self.steps)
        if found.highest_pass is None:
            raise _none_passed(self.steps)
        return {
            "search": self.objective.model_dump(mode="json"),
            "steps": [row | {"reason": row["reason"] and asdict(row["reason"])} for row in self.windows],
            "bracket": asdict(found),
            "under_way": self.wanted.under_way,
        }

    def _ensure_up(self) -> None:
        """Start a fresh log if needed. Raises TrialFailed if that fails, or if logs died too often."""
        deaths, most = self.starts.deaths, self.objective.max_restarts
        if deaths > most:
            last, passed = self.windows[-1], bracket(self.steps).highest_pass
            reason: Reason = last["reason"]
            times = "once" if deaths == 1 else f"{deaths} times"
            shown = "no rate passed" if passed is None else f"{passed:g}/s passed"
            raise TrialFailed(
                f"{reason}, at {last['rate_per_s']:g}/s; servers died {times} in this search ({shown}), and "
                f"max_restarts is {most}: start closer to the capacity, or raise max_restarts",
                Failure(cause=reason.cause or Cause.SERVER_DIED),
            )
        self.starts.ensure_up()

    def _require_time(self, begun: float, rate: float) -> None:
        objective = self.objective
        one_s = self._load_of(rate, objective.warm_up, objective.window).total_s
        left = self.config.timeout - (time.monotonic() - begun)
        if left < objective.attempts * objective.windows * one_s:
            found, tried_so_far = bracket(self.steps), len(self.steps)
            raise TrialFailed(
                f"the search needs more than the timeout of {self.config.timeout:g} s: after {tried_so_far} rates, the "
                f"capacity lies between {found.highest_pass} and {found.lowest_fail}/s; raise timeout, or start closer"
            )

    def _attempt(self, rate: float, attempt: int) -> Reason | None:
        """Return why the rate failed, by its first failed window, or None."""
        objective, number = self.objective, len(self.steps) + 1
        for turn in range(1, objective.windows + 1):
            self._ensure_up()
            label = f"{SEARCHED}{number:02d}-attempt-{attempt}-window-{turn}"
            load = self._load_of(rate, objective.warm_up, objective.window)
            row = {"step": number, "attempt": attempt, "window": turn, "label": label, "rate_per_s": rate}
            row["start"] = self.starts.number
            try:
                self._write(load, label)
                window = window_of(self.trial.files / label, self.log.placement.usable, self.backend.publish_interval)
                reason = verdict(window, objective)
            except _NothingAccepted as error:
                reason = Reason(Missed.NOTHING_ACCEPTED, said=error.said)
            except ServerDied as error:
                death = self._died(error, label)
                reason = Reason(Missed.DIED, cause=death.cause, said=death.how)
            self.windows.append({**row, "reason": reason})
            if reason is not None:
                return reason
        return None

    def _died(self, symptom: ServerDied, label: str) -> Death:
        """Stop the log, and return how its servers died.

        Raises TrialFailed if a wrong setup is the cause, or if leaves are lost.
        """
        death = self.starts.end(symptom)
        if explain(death.said) is not None:
            raise TrialFailed(death.said) from symptom
        with suppress(ParseError):  # without its log, the generator may leave no result
            self._require_nothing_lost(read_written(self.trial.files / label))
        return death

    # --- afterwards ------------------------------------------------------------------------------------------

    def _require_no_known_cause(self, facts: dict[str, Any]) -> None:
        """Raise TrialFailed with the cause of errors if that is a wrong setup."""
        errors, texts = 0, []
        if facts["mode"] == HAMMER:
            said = read_hammer_log(self.trial.files)
            errors, texts = said.error_count, [*said.errors]
        else:
            # Errors after the death of a server have been reported already.
            steps = facts.get("steps", ())
            answered = [row for row in steps if not row["reason"] or row["reason"]["missed"] is not Missed.DIED]
            for label in [row["label"] for row in answered] or [LOAD]:
                written = self._read(label)
                errors += written.window.errors
                texts += [text.text for text in written.texts]
        if not errors:
            return
        up = self.log.servers if self.starts.is_up else ()
        logs = [str(server.status()["log"]) for server in up]
        cause = explain(*texts, *logs)
        if cause:
            raise TrialFailed(f"{cause}: {plural(errors, 'error')}" + (f", such as {texts[0]}" if texts else ""))


def _none_passed(steps: Sequence[Step]) -> TrialFailed:
    """Return the failure of a search in which no rate passed, by the lowest rate that was tried."""
    least = min(steps, key=lambda step: step.rate_per_s)
    tried_so_far = f"no rate met the objective, {len(steps)} tried, down to {least.rate_per_s:g}/s"
    reason = least.reason
    assert reason is not None, "none passed"
    failure = Failure(cause=reason.cause or Cause.TOLD)
    if reason.cause is Cause.OOM:
        return TrialFailed(f"{reason}, at {least.rate_per_s:g}/s; {tried_so_far}", failure)
    return TrialFailed(f"{tried_so_far}; at the lowest rate: {reason}", failure)

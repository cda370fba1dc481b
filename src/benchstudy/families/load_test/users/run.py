"""Runs one load in a trial: Locust's master and workers as supervised commands on the load hosts."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchstudy.families.load_test.users import LIBRARY
from benchstudy.families.load_test.users.command import MASTER, TOOL, WORKER, Started
from benchstudy.families.load_test.users.config import Behaviour, LoadLevel
from benchstudy.families.load_test.users.on_host.master import RESULT
from benchstudy.families.load_test.users.site import Site
from benchstudy.families.shared.files import read_json
from benchstudy.model.clients import load_roles
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.family import ParseError

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

_COME_AND_GO_S = 600.0  # for users to log in, and for Locust to start and end
_WORKERS_END_S = 60.0  # after the master tells them to
_MASTER_ENDS_S = 30.0  # after its workers end
_LOOK_S = 0.2


@dataclass(frozen=True)
class Loaded:
    """A completed load. Times are Unix seconds on the load host's wall clock.

    `phases`: (name, start, end): ramp and steady of a bounded load, search and stable of an unbounded one. `result`:
    the content of load.json, with the feedback rule's result.
    """

    started_s: float
    phases: Sequence[tuple[str, float, float]]
    problems: Sequence[str]
    result: Mapping[str, Any]


def run_load(
    trial: "TrialContext", load: LoadLevel, behaviour: Behaviour, site: Site, cancelled: threading.Event
) -> Loaded:
    """Load the site. The files are written to `<trial>/load/` (master) and `<trial>/load-worker-N/`.

    `cancelled`: if set, the load ends soon, and so does the trial. Raises TrialFailed with the cause: too few accounts,
    a port in use, users that cannot log in, a rule without data, a worker that ended.
    """
    roles = load_roles(trial.roles)
    started = Started(
        load=load,
        behaviour=behaviour,
        site=site,
        accounts=accounts_of(site.accounts.content),
        hosts=len(roles),
        seed=f"{behaviour.seed}-{trial.block}",
        timeout_s=load.longest_s + behaviour.arrival + behaviour.request_timeout + _COME_AND_GO_S,
    )
    if len(started.accounts) < started.accounts_needed:
        raise TrialFailed(
            f"load {load.name}: {load.most_users} users on {started.workers} workers need {started.accounts_needed} "
            f"accounts, and the data set has {len(started.accounts)}: make it with more users"
        )
    return _Run(trial, started, roles, cancelled).to_its_end()


def accounts_of(content: bytes) -> list[tuple[str, str]]:
    """List (username, password) of accounts.json, in its order. Raises TrialFailed if the content is malformed."""
    try:
        document = json.loads(content)
        common = document.get("password")
        return [(str(user["username"]), str(user.get("password", common))) for user in document["users"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialFailed(f"accounts.json of the data set: {type(error).__name__}: {error}") from error


class _Run:
    def __init__(self, trial: "TrialContext", started: Started, roles: Sequence[str], cancelled: threading.Event):
        self.trial, self.started, self.roles, self.cancelled = trial, started, roles, cancelled
        self.ending = threading.Event()  # of all commands
        self.over = threading.Event()  # the master has ended, and workers must end
        self.problems: list[str] = []

    def to_its_end(self) -> Loaded:
        trial = self.trial
        places = {role: (trial.tool_path(TOOL, role), trial.library(LIBRARY, role)) for role in self.roles}
        workers = [
            threading.Thread(
                target=self._work, args=(number, role, *places[role]), name=f"{WORKER}-{number}", daemon=True
            )
            for number, role in enumerate(self.roles, 1)
        ]
        watcher = threading.Thread(target=self._watch, name="load-watch", daemon=True)
        for thread in (*workers, watcher):
            thread.start()
        ended_well = False
        try:
            master = trial.execute(self.started.master(*places[self.roles[0]], self.ending), self.roles[0])
            ended_well = master.execution.exit_status == 0
        finally:
            self.over.set()
            for patience_s in (_WORKERS_END_S if ended_well else 0.0, _WORKERS_END_S):
                for worker in workers:
                    worker.join(timeout=patience_s)
                self.ending.set()  # stops commands that have not ended by themselves
        if self.cancelled.is_set():
            raise TrialFailed("the load was ended early")
        if self.problems:
            raise TrialFailed(self.problems[0])
        failure = self._failure(trial.files / MASTER / "files")
        if failure:
            raise TrialFailed(failure)
        master.require_success()
        return loaded(trial.files / MASTER / "files")

    def _work(self, number: int, role: str, program: str, folder: str) -> None:
        """Run all workers of one host. They are told to end a moment before the master ends itself."""
        host = self.trial.roles[role]
        try:
            done = self.trial.execute(self.started.worker(program, folder, number, self.ending), role)
            if not self.over.is_set() and not self.ending.is_set():
                done.require_success()
                if not self.over.wait(_MASTER_ENDS_S):
                    raise TrialFailed("they ended before the load did")
        except BenchstudyError as error:
            if not self.over.is_set():
                self.problems.append(f"Locust's workers on {host}: {error}")
                self.ending.set()  # the master has nothing left to wait for

    def _watch(self) -> None:
        while not self.ending.is_set():
            if self.cancelled.wait(_LOOK_S):
                self.ending.set()

    def _failure(self, folder: Path) -> str | None:
        """The reason that the load itself gives for having no result."""
        try:
            return read_json(folder / RESULT).get("failure")
        except ParseError:
            return None  # Locust ended too early to write it; its exit status says more


def loaded(folder: Path) -> Loaded:
    """Read the master's files. Raises TrialFailed if the load was not completed."""
    try:
        result = read_json(folder / RESULT)
        started = float(result["started_unix_s"])
        phases = [(p["name"], started + p["start_s"], started + p["end_s"]) for p in result["phases"]]
    except (ParseError, KeyError, TypeError) as error:
        raise TrialFailed(f"Locust's result: {error}") from error
    return Loaded(started, phases, list(result["problems"]), result)

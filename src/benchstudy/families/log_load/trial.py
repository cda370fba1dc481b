"""One trial of log_write: a fresh log, its servers, load, proofs; all of it gone afterwards.

What was found around the load goes into `log.json` in the trial's folder, so that parsing needs the files alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING, Any

from benchstudy.errors import BenchstudyError, TrialFailed
from benchstudy.families.base import Case, ParseError
from benchstudy.families.log_load.causes import explain, explained
from benchstudy.families.log_load.command import Load, Target
from benchstudy.families.log_load.result import FACTS, SEARCHED, limit_of, problems_of
from benchstudy.families.log_load.samples import DATABASE, GENERATOR, SERVER, sampled
from benchstudy.families.log_load.search import Step, Window, bracket, next_rate, verdict
from benchstudy.families.log_load.windows import HAMMER, LOAD, WATCH, read_written, window_of
from benchstudy.families.log_write_config import SEARCH, Backend, LogGenerator, LogWriteConfig, share_of
from benchstudy.families.under_load import Rate, load_role, place
from benchstudy.hostagent import Command
from benchstudy.raw import as_json, write_atomically
from benchstudy.services import Limits

if TYPE_CHECKING:
    from benchstudy.hostagent import RunningService
    from benchstudy.trial import TrialContext, TrialExecution

_STORE = "store"
_LEAST_COOL_DOWN_S = 1.0
_SPARE_FILES = 512  # of a server: its log's tiles, its database's connections
_LONGER_S = 120.0  # than its load and its waiting a generator may take before it hangs


def run_trial(case: Case, trial: "TrialContext") -> None:
    """See the family. Raises TrialFailed with a cause a person understands."""
    _Trial(case, trial).run()


class _Trial:
    def __init__(self, case: Case, trial: "TrialContext"):
        self.trial = trial
        config: LogWriteConfig = trial.config
        self.config, levels = config, case.levels
        self.backend: Backend = config.backend(levels["backend"])
        self.generator: LogGenerator = config.generator(levels["generator"])
        self.service = self.backend.server(levels["antispam"]) or ""
        limit = config.limit(levels["limits"])
        self.limits = limit.limits if limit else Limits()
        self.front_ends = int(levels["front_ends"])
        self.duplicate_share = share_of(levels["duplicates"])
        self.rate = None if levels["rate"] == SEARCH else Rate.of_level(levels["rate"]).per_s
        self.load_role = load_role(trial.roles)
        self.server_role = config.services[self.service].role

    def run(self) -> None:
        trial = self.trial
        self.program = trial.tool_path(self.generator.tool, self.load_role)
        self.logbench = trial.tool_path("logbench", self.load_role)
        self._place()
        try:
            with ExitStack() as stack:
                self._start(stack)
                self._load(stack)
        except TrialFailed as error:
            raise TrialFailed(explained(str(error))) from error
        # The trial's program is what wrote, not the store's.
        trial.commands.sort(key=lambda command: not command.label.startswith(LOAD))

    # --- the log ---------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Which CPUs the generator and each server run on. Raises TrialFailed for too few."""
        trial, wanted = self.trial, self.generator.cpus
        cpus = trial.once(f"cpus of {self.load_role}", lambda: trial.agent_call("cpus", role=self.load_role)["cpus"])
        if wanted is not None and wanted > len(cpus):
            host = trial.roles[self.load_role]
            raise TrialFailed(f"generator {self.generator.name}: cpus: {wanted}, but {host} has {len(cpus)}: {cpus}")
        same_host = trial.roles[self.load_role] == trial.roles[self.server_role]
        each = self.limits.cpus
        held = each and min(each * self.front_ends, len(cpus) if same_host else each * self.front_ends)
        self.placement = place(cpus, held=held, wanted=wanted, same_host=same_host)
        together = self.placement.server
        self.server_cpus: list[tuple[int, ...] | None] = [None] * self.front_ends
        if together is not None and each is not None and len(together) >= each * self.front_ends:
            self.server_cpus = [together[n * each : (n + 1) * each] for n in range(self.front_ends)]
        elif together is not None:
            self.server_cpus = [together] * self.front_ends

    def _start(self, stack: ExitStack) -> None:
        """The log's store, its servers, and what a generator must know of them."""
        trial, backend = self.trial, self.backend
        beside: list[RunningService] = []
        if backend.store is not None:
            beside.append(stack.enter_context(trial.server(backend.store, label=_STORE)))
        self.servers: list[RunningService] = [
            stack.enter_context(
                trial.server(
                    self.service,
                    limits=self.limits,
                    cpu_list=self.server_cpus[number],
                    open_files=self._most_under_way() + _SPARE_FILES,
                    label=SERVER if number == 0 else f"{SERVER}-{number + 1}",
                    beside=beside,
                )
            )
            for number in range(self.front_ends)
        ]
        first = self.servers[0]
        self.databases = [first.needed.get(name) or trial.service(name) for name in backend.databases]
        write_urls = [f"http://{server.address}:{server.ports[backend.port]}/" for server in self.servers]
        read_url = first.fill(backend.read) if backend.read else write_urls[0]
        self.target = Target(read_url.rstrip("/") + "/", write_urls, self._key(first.fill(backend.public_key)))
        self.directory = first.fill(backend.directory) if backend.directory else None
        self._check_directory()
        trial.note(
            backend=backend.label,
            emulated=backend.emulated,
            read=backend.read or "the server itself",
            limits=first.limits,
            placement=asdict(self.placement),
            loop="open" if self.generator.is_open else "closed",
        )

    def _most_under_way(self) -> int:
        rate = Rate(self.config.search.highest).per_s if self.rate is None else self.rate
        return self.generator.under_way(rate)

    def _key(self, path: str) -> str:
        found = self.trial.agent_call("log-key", path, role=self.server_role)
        if found["problem"]:
            raise TrialFailed(found["problem"])
        return found["text"]

    def _check_directory(self) -> None:
        """Raises TrialFailed when the log lies on another file system than the study says."""
        if self.directory is None:
            return
        info = self.trial.agent_call("path-info", self.directory, role=self.server_role)
        self.trial.note(file_system={name: info[name] for name in ("fs_type", "mount_point", "free_bytes")})
        expected = self.backend.expect_fs
        if expected and info["fs_type"] not in expected:
            raise TrialFailed(
                f"backend {self.backend.name}: its directory is on {info['fs_type']}, and the study expects "
                f"{' or '.join(expected)}: is it mounted?"
            )

    # --- load ------------------------------------------------------------------------------------------------

    def _load(self, stack: ExitStack) -> None:
        facts: dict[str, Any] = {
            "schema": 1,
            "tool": self.generator.tool,
            "mode": SEARCH if self.rate is None else "hammer" if not self.generator.is_open else "open",
            "rate_per_s": self.rate,
            "duplicate_share": self.duplicate_share,
            "front_ends": self.front_ends,
            "publish_interval_s": self.backend.publish_interval,
            "placement": asdict(self.placement),
            "cpus": self._cpus_of(),
        }
        with sampled(self.trial, self.servers, self.databases, self.program, self.load_role, self.directory):
            if self.rate is None:
                facts |= self._search()
            elif self.generator.is_open:
                facts |= self._write(self._load_of(self.rate, self.generator.warm_up, self.generator.duration))
            else:
                facts |= self._hammer(self._load_of(self.rate, self.generator.warm_up, self.generator.duration))
        self._require_no_known_cause(facts)
        stack.close()  # the servers' records say what they used
        facts["servers"] = [dict((server.record or {}).get("limits") or {}) for server in self.servers]
        facts["clock_offset_s"] = {role: self.servers[0].agent.last_clock_offset_s for role in (self.server_role,)}
        write_atomically(self.trial.files / FACTS, as_json(facts))
        try:
            self.trial.note(limited_by=limit_of(self.trial.files), problems=problems_of(self.trial.files))
        except ParseError as error:
            raise TrialFailed(str(error)) from error

    def _cpus_of(self) -> dict[str, int]:
        """How many CPUs each process may use."""
        trial = self.trial
        of_server = [len(((server.limits or {}).get("effective") or {}).get("cpus") or ()) for server in self.servers]
        on_host = trial.once(
            f"cpus of {self.server_role}", lambda: trial.agent_call("cpus", role=self.server_role)["cpus"]
        )
        together = min(sum(of_server), len(on_host)) if all(of_server) else len(on_host)
        found = {SERVER: together, GENERATOR: self.placement.usable}
        if self.databases:
            role = self.config.services[self.databases[0].name].role
            found[DATABASE] = len(trial.once(f"cpus of {role}", lambda: trial.agent_call("cpus", role=role)["cpus"]))
        return found

    def _load_of(self, rate_per_s: float, warm_up_s: float, duration_s: float) -> Load:
        return Load(
            generator=self.generator,
            target=self.target,
            rate_per_s=rate_per_s,
            under_way=self.generator.under_way(rate_per_s),
            duplicate_share=self.duplicate_share,
            warm_up_s=warm_up_s,
            duration_s=self.backend.window_s(duration_s),
            cool_down_s=max(self.backend.publish_interval, _LEAST_COOL_DOWN_S) if self.generator.is_open else 0.0,
        )

    def _timeout_s(self, load: Load) -> float:
        generator = self.generator
        return min(load.total_s + generator.drain + generator.request_timeout + _LONGER_S, self.config.timeout)

    def _write(self, load: Load, label: str = LOAD) -> dict[str, Any]:
        """One run of the open loop. Raises TrialFailed when a leaf was lost, or none was accepted.

        In a search a leaf that is only late is no lost one: the rate was too high.
        """
        command = load.write(self.logbench, label, self.placement.generator, self._timeout_s(load))
        done = self.trial.execute(command, self.load_role)
        self._require(done)
        written = self._read(label)
        lost = written.proofs.lost_count - (written.proofs.not_integrated if self.rate is None else 0)
        if lost > 0:
            first = written.proofs.lost[0]
            raise TrialFailed(f"{lost} accepted leaves are lost, such as that of index {first.index}: {first.why}")
        if not written.window.accepted:
            said = "; ".join(f"{text.count}× {text.kind}: {text.text}" for text in written.texts[:3])
            raise TrialFailed(f"the log accepted no leaf in the window: {said or 'no answer came'}")
        return {"under_way": load.under_way, "window": {"warm_up_s": load.warm_up_s, "duration_s": load.duration_s}}

    def _read(self, label: str) -> Any:
        try:
            return read_written(self.trial.files / label)
        except ParseError as error:
            raise TrialFailed(f"logbench's result: {error}") from error

    def _require(self, done: "TrialExecution") -> None:
        """As require_success, with what the servers say: a refused connection is only the symptom."""
        for server in self.servers:
            server.check()
        done.require_success()

    def _hammer(self, load: Load) -> dict[str, Any]:
        """The hammer on a terminal, and logbench beside it, which looks at the checkpoints and has leaves proved."""
        cpus = self.placement.generator
        # With a screen it never ends by itself: its time is over when ours is.
        hammer = load.hammer(self.program, LOAD, cpus, load.total_s)
        with self._beside(load.watch(self.logbench, WATCH, None, self._timeout_s(load))) as watching:
            done = self.trial.execute(hammer, self.load_role)
            for server in self.servers:
                server.check()
            if done.execution.state != "timeout":
                done.require_success()
                raise TrialFailed(f"the hammer ended by itself after {done.execution.duration_s:.0f} s")
        self._require(watching[0])
        watched = self._read(WATCH)
        if watched.proofs.lost_count:
            first = watched.proofs.lost[0]
            raise TrialFailed(f"leaves are lost, such as that of index {first.index}: {first.why}")
        return {"under_way": load.under_way, "window": {"warm_up_s": load.warm_up_s, "duration_s": load.duration_s}}

    @contextmanager
    def _beside(self, command: Command) -> Iterator[list["TrialExecution"]]:
        """Runs the command while the block runs, and waits for it; the list holds how it went."""
        done: list[TrialExecution] = []
        problems: list[BenchstudyError] = []

        def run() -> None:
            try:
                done.append(self.trial.execute(command, self.load_role))
            except BenchstudyError as error:
                problems.append(error)

        thread = Thread(target=run, name=command.label, daemon=True)
        thread.start()
        yield done
        thread.join(timeout=command.timeout_s + _LONGER_S)
        if problems:
            raise problems[0]
        if not done:
            raise TrialFailed(f"{command.label} did not end")

    # --- capacity --------------------------------------------------------------------------------------------

    def _search(self) -> dict[str, Any]:
        """Rates up and down on one server, until the bracket is narrow. Raises TrialFailed when no rate passes."""
        objective = self.config.search
        steps: list[Step] = []
        rows: list[dict[str, Any]] = []
        begun = time.monotonic()
        while (rate := next_rate(steps, objective)) is not None:
            self._require_time(begun, rate, steps)
            step = self._step(len(steps) + 1, rate, rows)
            steps.append(step)
        found = bracket(steps)
        if found.highest_pass is None:
            raise TrialFailed(f"no rate from {objective.lowest} on keeps the objective; the last: {steps[-1].why}")
        return {
            "search": objective.model_dump(mode="json"),
            "steps": rows,
            "bracket": asdict(found),
            "under_way": self._most_under_way(),
        }

    def _require_time(self, begun: float, rate: float, steps: Sequence[Step]) -> None:
        objective = self.config.search
        one = objective.windows * self._timeout_free_s(rate)
        left = self.config.timeout - (time.monotonic() - begun)
        if left < one:
            found = bracket(steps)
            raise TrialFailed(
                f"the search needs more than the timeout of {self.config.timeout:g} s: after {len(steps)} rates the "
                f"capacity lies between {found.highest_pass} and {found.lowest_fail}/s; raise timeout, or start nearer"
            )

    def _timeout_free_s(self, rate: float) -> float:
        return self._load_of(rate, self.config.search.warm_up, self.config.search.window).total_s

    def _step(self, number: int, rate: float, rows: list[dict[str, Any]]) -> Step:
        objective = self.config.search
        why = ""
        for window in range(1, objective.windows + 1):
            label = f"{SEARCHED}{number:02d}-window-{window}"
            load = self._load_of(rate, objective.warm_up, objective.window)
            try:
                self._write(load, label)
                why = verdict(self._window(label), objective)
            except TrialFailed as error:
                # A rate at which the log accepts nothing has failed; a log that lost leaves has failed as a log.
                if "accepted no leaf" not in str(error):
                    raise
                why = str(error)
            rows.append({"step": number, "window": window, "label": label, "rate_per_s": rate, "why": why})
            if why:
                break
        return Step(rate, passed=not why, why=why)

    def _window(self, label: str) -> Window:
        return window_of(self.trial.files / label, self.placement.usable, self.backend.publish_interval)

    # --- afterwards ------------------------------------------------------------------------------------------

    def _require_no_known_cause(self, facts: dict[str, Any]) -> None:
        """Errors whose cause is a wrong setup make no result. Raises TrialFailed with that cause."""
        labels = [row["label"] for row in facts.get("steps", ())] or [LOAD]
        if facts["mode"] == HAMMER:
            return
        for label in labels:
            written = self._read(label)
            if not written.window.errors:
                continue
            texts = [text.text for text in written.texts]
            logs = [str(server.agent.service_status(server)["log"]) for server in self.servers]
            cause = explain(*texts, *logs)
            if cause:
                said = f"{written.texts[0].count}× {written.texts[0].text}" if written.texts else ""
                raise TrialFailed(f"{cause}: {written.window.errors} errors, such as {said}")

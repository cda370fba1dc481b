"""The controller's side of the agent on a host: deploy it, run commands and services, hold the lock."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

from benchstudy.hosts import shipping
from benchstudy.hosts.commands import Command, Execution, SupervisedRun
from benchstudy.hosts.errors import HostRefused, ServiceFailed, understood
from benchstudy.hosts.line import AgentLine
from benchstudy.hosts.lock import HostLock
from benchstudy.hosts.remote import TransferFailed
from benchstudy.hosts.services import (
    STOP_S,
    RunningService,
    check_addresses,
    fetch_logs,
    not_ready,
    secrets_of,
    with_log,
)
from benchstudy.model.secret_forms import without
from benchstudy.model.services import Confinement, Service

_SETUP_S = 1200.0


class HostAgent(AgentLine):
    """What a session does with the agent: its lock, supervised commands, services, folders and facts."""

    _lock: HostLock  # from `lock` on; what needs a session needs its lock
    boot_id: str | None = None  # once a session holds the host

    # --- lock and clock --------------------------------------------------------------------------------------

    def lock(self, session: str, owner: Mapping[str, Any]) -> HostLock:
        """The host for this session alone; a context manager, see HostLock. Raises HostBusy, HostRefused."""
        self._lock = HostLock(self, session, owner)
        return self._lock

    # --- commands --------------------------------------------------------------------------------------------

    def execute(self, command: Command) -> Execution:
        """Run a command under the supervisor to its end, through dropped connections. Its files stay on the host.

        Raises:
            HostRefused: the agent could not start a supervisor.
            LockLost: the session no longer holds the host.
            ConnectionFailed: the host could not be reached again in time; what is running there ends with its lease.
        """
        self._lock.check()
        execution = SupervisedRun(self, self._lock.session, command).to_its_end()
        # Another session that took the lock may have ended the command, or measured beside it.
        if execution.state in ("lost", "lease-expired"):
            self._lock.confirm()
        self._lock.check()
        return execution

    def fetch(self, execution: Execution, into: Path) -> None:
        """Bring `stdout`, `stderr`, `supervisor.json` and `files/` of an execution into the folder `into`.

        Raises:
            LockLost: the session no longer holds the host, so its files may be gone.
            TransferFailed: something else removed the files, so nothing is known about the trial.
        """
        self.retrying(lambda: self.remote.get_tree(execution.run_dir, into))
        (into / ".benchstudy").unlink(missing_ok=True)
        if not (into / "stdout").exists():
            self._lock.confirm()
            where = f"{self.remote.name}: the output in {execution.run_dir}"
            raise TransferFailed(f"{where} was removed before it was copied")

    def discard(self, execution: Execution) -> None:
        """Remove the execution's folder from the host; further calls do nothing."""
        self.call("remove", execution.uuid, execution.run_dir)

    # --- services, folders, facts ----------------------------------------------------------------------------

    def start_service(
        self,
        name: str,
        service: Service,
        needed: Mapping[str, RunningService] | None = None,
        libraries: Mapping[str, str] | None = None,
        *,
        confinement: Confinement | None = None,
        bind: str | None = "127.0.0.1",
        secrets: Mapping[str, str] | None = None,
        into: Path | None = None,
    ) -> RunningService:
        """Start a service and wait until it is ready and proven to be ours. The lock's heartbeat keeps it running.

        Args:
            confinement: limits of the server itself; its setup steps are not limited.
            bind: what `{{bind}}` stands for; with None, a service that uses it is refused.
            secrets: those that the caller already knows; the others are generated.
            into: a local folder that gets its logs if it does not come up.

        Raises ServiceFailed with the tail of its log; "OOM: …" when the kernel killed it at its memory limit.
        """
        needed, libraries, given = needed or {}, libraries or {}, secrets or {}
        secrets = {**given, **{secret: given.get(secret) or token_hex(16) for secret in service.secrets}}
        check_addresses(self.remote.name, service, bind, needed)

        attempts: list[tuple[str, str]] = []

        def attempt() -> tuple[str, str, dict]:
            # A lost connection may leave a service that nobody knows, and heartbeats of the session would keep it.
            for lost, its_folder in attempts:
                with suppress(HostRefused):  # it may not even have begun
                    self.ask("stop-service", its_folder, timeout_s=STOP_S)
                self.ask("remove", lost, its_folder)
            uuid = str(uuid4())
            folder = f"{self.work_dir}/services/{uuid}"
            attempts.append((uuid, folder))
            spec = {
                "uuid": uuid,
                "session": self._lock.session,
                "lock": self.lock_path,
                "lease_s": self.lease_s,
                "name": name,
                "service": service.model_dump(mode="json"),
                "secrets": secrets,
                "others": {
                    other: {"dir": s.dir, "bind": s.bind, "ports": dict(s.ports), "secrets": dict(s.secrets)}
                    for other, s in needed.items()
                },
                "libraries": dict(libraries),
                "bind": bind,
                "tools": self.tools_dir,
                "confinement": (confinement or Confinement()).spec(),
            }
            timeout_s = max(_SETUP_S, len(service.setup) * (service.setup_timeout or 0.0)) + service.ready.timeout
            return (
                uuid,
                folder,
                self.ask("start-service", folder, input=json.dumps(spec).encode() + b"\n", timeout_s=timeout_s),
            )

        try:
            uuid, folder, answer = self.retrying(attempt)
        except HostRefused as error:
            raise ServiceFailed(str(error)) from error
        with understood(self.remote.name):
            if not answer["ready"]:
                fetch_logs(self, folder, answer["logs"], into)
                self.call("remove", uuid, folder)
                log = without(answer["log"], secrets_of(secrets, needed))
                failure = not_ready(answer["record"], name, log)
                told = answer["record"]["state"] == "setup-failed"  # then the cause ends with the step's output
                cause = answer["cause"] if told else with_log(answer["cause"], log)
                raise ServiceFailed(cause, answer["record"], failure)
            return RunningService(
                name,
                uuid,
                folder,
                answer["dir"],
                answer["ports"],
                secrets,
                dict(libraries),
                dict(needed),
                host=self.remote.name,
                bind=bind,
                tools=self.tools_dir,
                limits=answer["limits"],
                agent=self,
            )

    def scratch(self, parent: str) -> str:
        """The session's own folder below `parent`; it is removed with the lock, or when the lease expires."""
        with understood(self.remote.name):
            return self.call("scratch", self._lock.folder, self.remote.expand(parent))["path"]

    def remove_scratch(self) -> None:
        """Remove these folders now, because services that mount the file systems below them are about to end."""
        self.call("remove-scratch", self._lock.folder, timeout_s=600.0)

    def sweep(self) -> dict[str, list[str]]:
        """End and remove what earlier sessions left: {"ended", "removed", "kept"}. Only while holding the lock."""
        self._lock.check()
        swept = self.call("sweep", self.work_dir, self._lock.session, self.lock_path, timeout_s=600.0)
        with understood(self.remote.name):
            swept["removed"] += self.retrying(lambda: self.remote.remove_left_parts(self.work_dir))
            for what in ("ended", "removed"):
                if swept[what]:
                    self.on_event(f"{self.remote.name}: {what} what an earlier session left: {', '.join(swept[what])}")
            for why in swept["kept"]:
                self.on_event(f"{self.remote.name}: an earlier session left something: {why}")
        return swept

    def join_accounts(self) -> None:
        """Count what this connection does on the host as the session's, and learn the host's `boot_id`."""
        with understood(self.remote.name):
            self.boot_id = self.call("join-accounts", self._lock.folder)["boot_id"]

    def read_host(self) -> dict[str, Any]:
        """What the host has done so far, and how much of it was ours; see agent/interference.py."""
        return self.call("read-host", self._lock.folder)

    def facts(self, tools: Sequence[str] = ()) -> dict[str, Any]:
        """The host's environment (agent/facts.py), with `clock.offset_s` to this machine. Unknown facts are None."""
        found = self.call("facts", *tools)
        with understood(self.remote.name):
            found["clock"]["offset_s"] = self.clock().offset_s
        return found

    def library(self, name: str) -> str:
        """The path on the host of a library shipped from here, see shipping.py. Raises TrialFailed."""
        return self.retrying(lambda: shipping.ship(self.remote, self.work_dir, name))

    def tool(self, program: str) -> dict[str, str | None]:
        """{"path", "version", "sha256"} of a program on the host; None for what is unknown."""
        return self.call("tool", program)

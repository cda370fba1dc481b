"""Services on a host, seen from the controller."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

from benchstudy.hosts.errors import HostRefused, ServiceFailed
from benchstudy.hosts.line import AgentLine
from benchstudy.model.causes import Cause, Failure, failure_of, ran_out_of_memory
from benchstudy.model.services import PLACEHOLDER, Confinement, Service

_SETUP_S = 1200.0


@dataclass(eq=False)
class RunningService:
    """A service that is up.

    `dir`: its own folder on the host. `ports`: on the host, at `address`.
    `bind`: where the target's hosts reach it; None when that is not known, see `address`.
    `tools`: where provisioning puts programs on the host.
    `limits`: how it is confined, as in Execution.limits but for what is known at the end only; None without.
    `record`: its supervisor's record, once it has ended.
    """

    name: str
    uuid: str
    folder: str
    dir: str
    ports: Mapping[str, int]
    secrets: Mapping[str, str] = field(repr=False)
    libraries: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, "RunningService"] = field(default_factory=dict)
    host: str = ""
    bind: str | None = "127.0.0.1"
    tools: str = ""
    limits: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    agent: AgentLine | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Where it listens if it listens on `{{bind}}`. Raises ServiceFailed with the fix when it is not known."""
        if self.bind is None:
            raise ServiceFailed(no_address(self.host))
        return self.bind

    def check(self) -> None:
        """Raise ServiceFailed with the cause and the end of its log when it does not run any more."""
        status = service_status(self)
        if status["state"] != "running":
            log = self.redacted(status["log"])
            raise ServiceFailed(_with_log(how_it_ended(status), log), status, died(status, self.name, log))

    def usage(self) -> Mapping[str, Any]:
        """What it used up to now: peak_memory_bytes, oom_kills, cpu_user_s, cpu_system_s, each None when unknown.

        `monotonic`: the host's clock at that moment, in seconds. Two of these around a load leave the start-up out.
        """
        status = service_status(self)
        return {**status["used"], "monotonic": status["monotonic"]}

    def redacted(self, text: str) -> str:
        """`text` without the secrets of this service and of those it needs."""
        for service in (self, *self.needed.values()):
            for secret in service.secrets.values():
                text = text.replace(secret, "«redacted»")
        return text

    def fill(self, text: str) -> str:
        """`text` with this service's placeholders, and its needs', filled. Raises ServiceFailed for an unknown one."""
        values = self._values()

        def value(match: re.Match) -> str:
            if match[1] not in values:
                known = ", ".join(sorted(values))
                raise ServiceFailed(f"service {self.name}: unknown placeholder {match[0]}; known: {known}")
            found = values[match[1]]
            if found is None:
                owner = self.needed.get(match[1].rpartition(".")[0], self)
                raise ServiceFailed(f"service {self.name}: {match[0]}: {no_address(owner.host)}")
            return found

        return PLACEHOLDER.sub(value, text)

    def _values(self) -> dict[str, str | None]:
        values = self._own("")
        values |= {f"library.{name}": path for name, path in self.libraries.items()}
        values["tools"] = self.tools
        for name, other in self.needed.items():
            values |= other._own(f"{name}.")
        return values

    def _own(self, prefix: str) -> dict[str, str | None]:
        return {
            f"{prefix}dir": self.dir,
            f"{prefix}bind": self.bind,
            **{f"{prefix}port.{name}": str(port) for name, port in self.ports.items()},
            **{f"{prefix}secret.{name}": text for name, text in self.secrets.items()},
        }


def service_status(running: RunningService) -> dict[str, Any]:
    """{"state": "running" while it lives, "cause", "log": the tail}"""
    assert running.agent is not None, "a service that was started has its agent"
    return running.agent.call("service-status", running.folder)


def no_address(host: str) -> str:
    return (
        f"the target has several hosts, so hosts.{host}.service_address must say at which address of {host} "
        "the others reach it"
    )


def how_it_ended(record: Mapping[str, Any]) -> str:
    """A record's end in a sentence."""
    cause = record.get("cause")
    if ran_out_of_memory(record):
        return cause or ""
    if record["state"] == "exited":
        how = f"signal {record['signal']}" if record.get("signal") else f"exit status {record.get('exit_status')}"
        return f"it ended with {how}" + (f" ({cause})" if cause else "")
    return f"{record['state']}: {cause}" if cause else record["state"]


def died(record: Mapping[str, Any], name: str, said: str | None = None) -> Failure:
    """The failure of a service that does not run any more."""
    found = failure_of(record, name, said)
    return found if ran_out_of_memory(record) else found.model_copy(update={"cause": Cause.SERVER_DIED})


def _not_ready(record: Mapping[str, Any], name: str, log: str) -> Failure:
    found = failure_of(record, name, log.strip())
    by_itself = found.cause in (Cause.EXITED, Cause.SIGNAL, Cause.STOPPED)
    return found.model_copy(update={"cause": Cause.NOT_READY}) if by_itself else found


def _with_log(cause: str, log: str) -> str:
    return cause + (f"; the end of its log:\n{log.strip()}" if log.strip() else "")


def start_service(
    agent: AgentLine,
    session: str,
    name: str,
    service: Service,
    needed: Mapping[str, RunningService],
    libraries: Mapping[str, str],
    *,
    confinement: Confinement,
    bind: str | None,
    secrets: Mapping[str, str],
    into: Path | None,
) -> RunningService:
    """See HostAgent.start_service."""
    secrets = {**secrets, **{secret: secrets.get(secret) or token_hex(16) for secret in service.secrets}}
    _check_addresses(agent.remote.name, service, bind, needed)

    def attempt() -> tuple[str, str, dict]:
        uuid = str(uuid4())  # a lost connection leaves an attempt that the lease ends; a new one must not meet it
        folder = f"{agent.work_dir}/services/{uuid}"
        spec = {
            "uuid": uuid,
            "session": session,
            "lock": agent.held_lock_path,
            "lease_s": agent.lease_s,
            "name": name,
            "service": service.model_dump(mode="json"),
            "secrets": secrets,
            "others": {
                other: {"dir": s.dir, "bind": s.bind, "ports": dict(s.ports), "secrets": dict(s.secrets)}
                for other, s in needed.items()
            },
            "libraries": dict(libraries),
            "bind": bind,
            "tools": agent.tools_dir,
            "confinement": confinement.spec(),
        }
        timeout_s = max(_SETUP_S, len(service.setup) * (service.setup_timeout or 0.0)) + service.ready.timeout
        return (
            uuid,
            folder,
            agent.ask("start-service", folder, input=json.dumps(spec).encode() + b"\n", timeout_s=timeout_s),
        )

    try:
        uuid, folder, answer = agent.retrying(attempt)
    except HostRefused as error:
        raise ServiceFailed(str(error)) from error
    if not answer["ready"]:
        _fetch_logs(agent, folder, answer["logs"], into)
        agent.call("remove", uuid, folder)
        failure = _not_ready(answer["record"], name, answer["log"])
        raise ServiceFailed(_with_log(answer["cause"], answer["log"]), answer["record"], failure)
    return RunningService(
        name,
        uuid,
        folder,
        answer["dir"],
        answer["ports"],
        secrets,
        dict(libraries),
        dict(needed),
        host=agent.remote.name,
        bind=bind,
        tools=agent.tools_dir,
        limits=answer["limits"],
        agent=agent,
    )


def stop_service(agent: AgentLine, running: RunningService, into: Path | None) -> None:
    """See HostAgent.stop_service."""
    answer = agent.call("stop-service", running.folder, timeout_s=120.0)
    running.record = {key: value for key, value in answer.items() if key != "logs"}
    _fetch_logs(agent, running.folder, answer["logs"], into)
    agent.call("remove", running.uuid, running.folder)


def _fetch_logs(agent: AgentLine, folder: str, logs: list[str], into: Path | None) -> None:
    if into is not None:
        for log in logs:
            agent.remote.get(f"{folder}/{log}", into / log)


def _check_addresses(host: str, service: Service, bind: str | None, needed: Mapping[str, RunningService]) -> None:
    """Raise ServiceFailed when the service names an address that nobody gave."""
    used = {match[1] for match in PLACEHOLDER.finditer(service.model_dump_json())}
    if bind is None and "bind" in used:
        raise ServiceFailed(f"{{{{bind}}}}: {no_address(host)}")
    for name, other in needed.items():
        if other.bind is None and f"{name}.bind" in used:
            raise ServiceFailed(f"{{{{{name}.bind}}}}: {no_address(other.host)}")

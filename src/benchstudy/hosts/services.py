"""Services that are running on a host, seen from the controller; HostAgent.start_service starts one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchstudy.hosts.errors import HostRefused, ServiceFailed, understood
from benchstudy.hosts.line import AgentLine
from benchstudy.model.causes import Cause, Failure, failure_of, ran_out_of_memory
from benchstudy.model.secret_forms import without
from benchstudy.model.services import PLACEHOLDER, Service

STOP_S = 120.0  # for an agent that ends a service


@dataclass(eq=False)
class RunningService:
    """A running service.

    `dir`: its own folder on the host. `ports`: on the host, at `address`.
    `bind`: the address at which the target's hosts reach it; None if unknown, see `address`.
    `tools`: where provisioning puts programs on the host.
    `limits`: how it is confined, as in Execution.limits, without what is known only at the end; None without limits.
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
        """Where it listens if it listens on `{{bind}}`. If that is unknown, raises ServiceFailed with the fix."""
        if self.bind is None:
            raise ServiceFailed(no_address(self.host))
        return self.bind

    def status(self) -> dict[str, Any]:
        """{"state": "running" while it lives, "cause", "log": the tail, "used", "monotonic"}, see `usage`."""
        return self._line.call("service-status", self.folder)

    def stop(self, into: Path | None = None) -> Mapping[str, Any]:
        """End it, copy its logs into the folder `into`, and remove its folder from the host. Returns its `record`."""
        answer = self._line.call("stop-service", self.folder, timeout_s=STOP_S)
        with understood(self.host):
            self.record = record = {key: value for key, value in answer.items() if key != "logs"}
            fetch_logs(self._line, self.folder, answer["logs"], into)
        self._line.call("remove", self.uuid, self.folder)
        return record

    def check(self) -> None:
        """Raise ServiceFailed with the cause and the end of its log if it is no longer running."""
        status = self.status()
        with understood(self.host):
            if status["state"] != "running":
                log = self.redacted(status["log"])
                raise ServiceFailed(with_log(how_it_ended(status), log), status, died(status, self.name, log))

    def usage(self) -> Mapping[str, Any]:
        """What it has used so far: peak_memory_bytes, oom_kills, cpu_user_s, cpu_system_s, each None when unknown.

        `monotonic`: the host's clock at that moment, in seconds. The difference of two readings excludes the start-up.
        """
        status = self.status()
        with understood(self.host):
            return {**status["used"], "monotonic": status["monotonic"]}

    def redacted(self, text: str) -> str:
        """`text` without the secrets of this service and of the services it needs."""
        return without(text, secrets_of(self.secrets, self.needed))

    def with_needs(self) -> set["RunningService"]:
        """This service and all that it needs, also through others."""
        return {self}.union(*(other.with_needs() for other in self.needed.values()))

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

    @property
    def _line(self) -> AgentLine:
        assert self.agent is not None, "a service that was started has its agent"
        return self.agent

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


def secrets_of(own: Mapping[str, str], needed: Mapping[str, RunningService]) -> set[str]:
    """The secrets of a service and of the services it needs."""
    return {*own.values(), *(secret for other in needed.values() for secret in other.secrets.values())}


def no_address(host: str) -> str:
    return (
        f"the target has several hosts, so hosts.{host}.service_address must be the address of {host} at which "
        "the others reach it"
    )


def how_it_ended(record: Mapping[str, Any]) -> str:
    """How a run ended, in a sentence, from its record."""
    cause = record.get("cause")
    if ran_out_of_memory(record):
        return cause or ""
    if record["state"] == "exited":
        how = f"signal {record['signal']}" if record.get("signal") else f"exit status {record.get('exit_status')}"
        return f"it ended with {how}" + (f" ({cause})" if cause else "")
    return f"{record['state']}: {cause}" if cause else record["state"]


def died(record: Mapping[str, Any], name: str, said: str | None = None) -> Failure:
    """The failure of a service that is no longer running."""
    found = failure_of(record, name, said)
    return found if ran_out_of_memory(record) else replace(found, cause=Cause.SERVER_DIED)


def not_ready(record: Mapping[str, Any], name: str, log: str) -> Failure:
    """The failure of a service that did not come up."""
    found = failure_of(record, name, log.strip())
    by_itself = found.cause in (Cause.EXITED, Cause.SIGNAL, Cause.STOPPED)
    return replace(found, cause=Cause.NOT_READY) if by_itself else found


def with_log(cause: str, log: str) -> str:
    """A cause, with the end of a log if there is one."""
    return cause + (f"; the end of its log:\n{log.strip()}" if log.strip() else "")


def fetch_logs(agent: AgentLine, folder: str, logs: list[str], into: Path | None) -> None:
    """Copy these files of a service's folder into the folder `into`, if one is given. Raises HostRefused."""
    if into is None or not logs:
        return
    for log in logs:
        if Path(log).name != log:
            raise HostRefused(f"{agent.remote.name}: {log!r} is not the name of a log, and is not copied")
    agent.remote.get_tree(folder, into, logs)


def check_addresses(host: str, service: Service, bind: str | None, needed: Mapping[str, RunningService]) -> None:
    """Raise ServiceFailed if the service refers to an address that is not configured."""
    used = {match[1] for match in PLACEHOLDER.finditer(service.model_dump_json())}
    if bind is None and "bind" in used:
        raise ServiceFailed(f"{{{{bind}}}}: {no_address(host)}")
    for name, other in needed.items():
        if other.bind is None and f"{name}.bind" in used:
            raise ServiceFailed(f"{{{{{name}.bind}}}}: {no_address(other.host)}")

"""Services on a host, seen from the controller."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING
from uuid import uuid4

from benchstudy.hosterrors import HostRefused, ServiceFailed
from benchstudy.services import Service

if TYPE_CHECKING:
    from benchstudy.hostagent import HostAgent

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_SETUP_S = 1200.0


@dataclass(frozen=True)
class RunningService:
    """A service that is up. `dir` is its own folder on the host; `ports` are on the host's loopback interface."""

    name: str
    uuid: str
    folder: str
    dir: str
    ports: Mapping[str, int]
    secrets: Mapping[str, str] = field(repr=False)
    libraries: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, "RunningService"] = field(default_factory=dict)

    def fill(self, text: str) -> str:
        """`text` with this service's placeholders, and its needs', filled. Raises ServiceFailed for an unknown one."""
        values = self._values()

        def value(match: re.Match) -> str:
            if match[1] not in values:
                known = ", ".join(sorted(values))
                raise ServiceFailed(f"service {self.name}: unknown placeholder {match[0]}; known: {known}")
            return values[match[1]]

        return _PLACEHOLDER.sub(value, text)

    def _values(self) -> dict[str, str]:
        values = self._own("")
        values |= {f"library.{name}": path for name, path in self.libraries.items()}
        for name, other in self.needed.items():
            values |= other._own(f"{name}.")
        return values

    def _own(self, prefix: str) -> dict[str, str]:
        return {
            f"{prefix}dir": self.dir,
            **{f"{prefix}port.{name}": str(port) for name, port in self.ports.items()},
            **{f"{prefix}secret.{name}": text for name, text in self.secrets.items()},
        }


def start_service(
    agent: "HostAgent",
    session: str,
    name: str,
    service: Service,
    needed: Mapping[str, RunningService],
    libraries: Mapping[str, str],
) -> RunningService:
    """See HostAgent.start_service."""
    secrets = {secret: token_hex(16) for secret in service.secrets}

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
                other: {"dir": s.dir, "ports": dict(s.ports), "secrets": dict(s.secrets)} for other, s in needed.items()
            },
            "libraries": dict(libraries),
        }
        timeout_s = _SETUP_S + service.ready.timeout
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
        agent.call("remove", uuid, folder)
        log = answer["log"].strip()
        raise ServiceFailed(answer["cause"] + (f"; the end of its log:\n{log}" if log else ""))
    return RunningService(name, uuid, folder, answer["dir"], answer["ports"], secrets, dict(libraries), dict(needed))


def stop_service(agent: "HostAgent", running: RunningService, into: Path | None) -> None:
    """See HostAgent.stop_service."""
    logs = agent.call("stop-service", running.folder, timeout_s=120.0)["logs"]
    if into is not None:
        for log in logs:
            agent.remote.get(f"{running.folder}/{log}", into / log)
    agent.call("remove", running.uuid, running.folder)

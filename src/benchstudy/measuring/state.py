"""State that the trials of one session share: hosts, services, results of `once`, and secrets."""

import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, TypeVar

from benchstudy.hosts.agent import HostAgent, RunningService, ServiceFailed
from benchstudy.measuring.sessionrecord import UNREDACTED
from benchstudy.measuring.trialrecord import ToolRecord
from benchstudy.model.causes import Cause
from benchstudy.model.clients import role_of_service
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.files import whole_or_nothing
from benchstudy.model.secret_forms import REDACTED, begun, forms_of, unfit
from benchstudy.model.services import Confinement, Service
from benchstudy.model.study import SessionPlan

T = TypeVar("T")
_LOOPBACK = "127.0.0.1"
# Servers are not on the PATH of an ordinary user.
_FIND_PROGRAM = 'PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; command -v -- "$1"'


class SessionState:
    """State that trials of one session share: hosts, services, results of `once`, secrets to keep out of files."""

    def __init__(
        self,
        uuid: str,
        plan: SessionPlan,
        hosts: Mapping[str, HostAgent],
        folder: Path,
        on_event: Callable[[str], None],
    ):
        self.uuid, self.plan, self.hosts, self.folder, self.event = uuid, plan, hosts, folder, on_event
        self._services: dict[str, RunningService] = {}
        self.ended: dict[RunningService, ServiceFailed] = {}  # of these services, those that `see_services` found
        self._scratched: dict[str, HostAgent] = {}  # hosts with a scratch folder
        self._made: dict[Hashable, Any] = {}
        self._asking: dict[Hashable, Lock] = {}
        self._secrets: set[str] = set()

    def host(self, role: str) -> HostAgent:
        if role not in self.plan.roles:
            raise TrialFailed(f"target {self.plan.target} gives no host the role {role!r}; add it under targets")
        return self.hosts[self.plan.roles[role]]

    def service(self, name: str, client: str | None = None) -> RunningService:
        """The service, started at its first use. If it cannot start, each trial fails with the same cause.

        `client`: the role of the client that uses it. A service of the role `load` runs on the host of each.
        """
        role = self.described(name).role
        own = role_of_service(role, client)
        place = name if own == role else f"{name}/{own}"
        if place not in self._services:
            self._services[place] = self.once(("service", place), lambda: self.start(name, client=client))
        return self._services[place]

    def start(
        self,
        name: str,
        confinement: Confinement | None = None,
        into: Path | None = None,
        beside: Sequence[RunningService] = (),
        also: Mapping[str, RunningService] | None = None,
        client: str | None = None,
    ) -> RunningService:
        """A fresh instance of a service of the study, with what it needs. The caller ends it. Raises TrialFailed.

        Services that it needs are taken from `beside`, or else run for the whole session. `also`: further services, by
        the name that placeholders use, which the study cannot name in advance. `client`: as for `service`.
        """
        spec = self.described(name)
        role = role_of_service(spec.role, client)
        try:
            given = {running.name: running for running in beside}
            needed = {other: given.get(other) or self.service(other, client) for other in spec.needs}
            needed |= also or {}
            libraries = {library: self.library(library, role) for library in spec.libraries}
            secrets = {secret: token_hex(16) for secret in spec.secrets}
            secrets |= {secret: self.secret(variable) for secret, variable in spec.secret_env.items()}
            self._secrets.update(secrets.values())
            return self.host(role).start_service(
                name,
                spec,
                needed,
                libraries,
                confinement=(confinement or Confinement()).with_files(spec.open_files),
                bind=self.address(role),
                secrets=secrets,
                into=into,
            )
        except ServiceFailed as error:
            # A table's cell has to show the cause first, not the name of the service.
            text = str(error) if error.failure.cause is Cause.OOM else f"service {name}: {error}"
            raise ServiceFailed(text, error.record) from error
        except TrialFailed as error:
            raise TrialFailed(f"service {name}: {error}") from error

    def hold(self, name: str, service: Service, secrets: Mapping[str, str], into: Path) -> RunningService:
        self._secrets.update(secrets.values())
        host = self.host(service.role)
        self._services[name] = running = host.start_service(name, service, secrets=secrets, into=into)
        return running

    def see_services(self) -> None:
        """Find services that run for the session, and no longer do. Raises HostRefused, ConnectionLost."""
        for running in self._services.values():
            try:
                running.check()
            except ServiceFailed as death:
                self.ended[running] = death

    def described(self, name: str) -> Service:
        if name not in self.plan.config.services:
            raise TrialFailed(f"the study describes no service {name!r}")
        return self.plan.config.services[name]

    def address(self, role: str) -> str | None:
        """The address at which the target's hosts reach servers of the role's host; None if the study gives none."""
        host = self.host(role).remote.host
        return _LOOPBACK if len(self.plan.hosts) == 1 else host.service_address

    def library(self, name: str, role: str) -> str:
        host = self.host(role)
        return self._known(("library", host.remote.name, name), lambda: host.library(name))

    def scratch(self, parent: str, role: str) -> str:
        host = self.host(role)
        self._scratched[host.remote.name] = host
        return self._known(("scratch", host.remote.name, parent), lambda: host.scratch(parent))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make()`, called once per key. Later calls repeat its result or its TrialFailed."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except TrialFailed as error:
                self._made[key] = error
        if isinstance(self._made[key], TrialFailed):
            raise TrialFailed(str(self._made[key])) from self._made[key]
        return self._made[key]

    def _known(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Like `once`, but after a failure the host is asked again, and commands that run together may ask."""
        with self._asking.setdefault(key, Lock()):
            if key not in self._made:
                self._made[key] = ask()
            return self._made[key]

    def tool(self, role: str, program: str) -> ToolRecord:
        """The binary of `program` on the role's host; asked once per session."""
        host = self.host(role)

        def ask() -> ToolRecord:
            return ToolRecord(name=Path(program).name, **host.tool(program))

        return self._known(("tool", host.remote.name, program), ask)

    def tool_path(self, program: str, role: str) -> str:
        host, remote = self.host(role), self.host(role).remote

        def find() -> str:
            path = f"{host.tools_dir}/{program}"
            if remote.run(["test", "-x", path], check=False).exit_status == 0:
                return path
            path = remote.run(["sh", "-c", _FIND_PROGRAM, "sh", program], check=False).text.strip()
            if not path.startswith("/"):
                raise TrialFailed(
                    f"{program} is missing on {remote.name}: provisioning puts it into {host.tools_dir}, or install "
                    "it there so that it is found on the PATH"
                )
            return path

        return self._known(("tool_path", remote.name, program), lambda: host.retrying(find))

    def secret(self, env_name: str) -> str:
        value = os.environ.get(env_name, "")
        if not value:
            raise TrialFailed(f"the environment variable {env_name} is not set where snakemake runs")
        if wrong := unfit(value):
            raise TrialFailed(f"the environment variable {env_name} {': '.join(wrong)}")
        self._secrets.add(value)
        return value

    def redact(self, text: str, *, may_be_cut: bool = False) -> str:
        """`text` without secrets. `may_be_cut`: it may end within one, as the end of an output that was cut off."""
        forms = self._secret_forms()
        for form in forms:
            text = text.replace(form, REDACTED)
        cut = begun(text, forms) if may_be_cut else 0
        return text[: len(text) - cut] + REDACTED if cut else text

    def redacted(self, value: Any) -> Any:
        """Plain data without secrets in any of its texts."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self.redacted(each) for key, each in value.items()}
        return [self.redacted(each) for each in value] if isinstance(value, list | tuple) else value

    def redact_files(self, folder: Path) -> list[str]:
        """Remove secrets from files, which it returns: a tool may print the key that it was given.

        Files may be larger than memory, and may end within a secret: where outputs are cut off, a copy was refused, or
        a program was killed.
        """
        forms, changed = [form.encode() for form in self._secret_forms()], []
        for path in (p for p in folder.rglob("*") if forms and p.is_file() and p.stat().st_size):
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                if any(content.find(form) >= 0 for form in forms) or _begun_in(content, forms):
                    _write_redacted(path, content, forms)
                    changed.append(path.relative_to(folder).as_posix())
        return sorted(changed)

    def _secret_forms(self) -> list[str]:
        """Each secret in each of its forms, longest first because one may contain another."""
        return sorted({form for secret in self._secrets - {""} for form in forms_of(secret)}, key=len, reverse=True)

    def close(self) -> None:
        """Remove scratch folders, then end services in reverse order of their start, and keep the services' logs."""
        for host in self._scratched.values():
            try:
                host.remove_scratch()
            except BenchstudyError as error:  # the host's lease removes what it still reaches
                self.event(f"{host.remote.name}: folders of the session could not be removed: {error}")
        for name, running in reversed(self._services.items()):
            # If this is interrupted, the record is sealed without what still may hold secrets.
            logs, kept = self.folder / UNREDACTED / name, self.folder / "services" / name
            try:
                running.stop(logs)
            except BenchstudyError as error:  # the host's lease ends it anyway
                self.event(f"service {name} could not be stopped cleanly: {error}")
            if logs.exists():
                self.redact_files(logs)
                kept.parent.mkdir(parents=True, exist_ok=True)
                logs.rename(kept)
        self.redact_files(self.folder)


def _write_redacted(path: Path, content: mmap, forms: Sequence[bytes]) -> None:
    """Replace a file by its `content` without the `forms`, of which the first to match counts."""
    with whole_or_nothing(path.resolve()) as temporary, temporary.open("wb") as file, memoryview(content) as view:
        written = 0
        for match in re.finditer(b"|".join(map(re.escape, forms)), content):
            file.write(view[written : match.start()])
            file.write(REDACTED.encode())
            written = match.end()
        end = max(written, len(content) - _begun_in(content, forms))
        file.write(view[written:end])
        file.write(REDACTED.encode() if end < len(content) else b"")


def _begun_in(content: mmap, forms: Sequence[bytes]) -> int:
    return begun(content[-max(map(len, forms)) :], forms)

"""One trial of http_concurrency: start a server, check it, warm it up, load it, and check it again.

Facts about the load go into `http.json` in the trial's folder, so that parsing needs only files.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from benchstudy.families.http_concurrency.command import FACTS, LOAD, Load
from benchstudy.families.http_concurrency.config import (
    COUNTER,
    Endpoint,
    Expect,
    Generator,
    HttpConcurrencyConfig,
    Server,
)
from benchstudy.families.http_concurrency.scripts import HEADERS, LIBRARY, SCRIPTS
from benchstudy.families.shared.levels import Rate, limits_named
from benchstudy.families.shared.under_load import Placement, cpus_for_generator, place
from benchstudy.hosts.agent import Command
from benchstudy.model.clients import CLIENTS, client_roles
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case
from benchstudy.model.files import as_json, write_atomically
from benchstudy.model.services import PLACEHOLDER

if TYPE_CHECKING:
    from benchstudy.hosts.agent import RunningService
    from benchstudy.measuring.trial import TrialContext

WARM_UP, SERVER = "warm-up", "server"
_TOKEN_ENV = "BENCHSTUDY_HTTP_TOKEN"
_CHECK_TIMEOUT_S = 20.0
_SPARE_FILES = 128  # additional open files of a server: libraries, logs, backend
_TITLE = re.compile(r"<title[^>]*>\s*(.*?)\s*</title>", re.I | re.S)


def run_trial(case: Case, trial: "TrialContext[HttpConcurrencyConfig]") -> None:
    """Run one trial, see the family. Raises TrialFailed with a readable cause."""
    _Trial(case, trial).run()


class _Trial:
    def __init__(self, case: Case, trial: "TrialContext[HttpConcurrencyConfig]"):
        self.case, self.trial = case, trial
        config = trial.config
        self.server: Server = config.server(case.levels["server"])
        self.endpoint: Endpoint = self.server.endpoint(case.levels["endpoint"])
        self.generator: Generator = config.generator(case.levels["generator"]).at_least(self.server.ceiling_time)
        self.limits = limits_named(case.levels["limits"], config.limits)
        self.clients = client_roles(case.levels, trial.roles)
        self.load_role = self.clients[0]
        self.server_role = config.services[self.server.service].role
        self.concurrency = int(case.levels["concurrency"]) if "concurrency" in case.levels else None
        self.rate = Rate.of_level(case.levels["rate"]) if "rate" in case.levels else None
        self.programs = {role: trial.tool_path(self.generator.tool, role) for role in self.clients}
        self.folders = {
            role: trial.library(LIBRARY, role) if self.generator.tool in SCRIPTS else "" for role in self.clients
        }
        self.placements = {role: self._placement(role) for role in self.clients}

    def run(self) -> None:
        trial, generator = self.trial, self.generator
        placement = self.placements[self.load_role]
        facts: dict[str, Any] = {
            "schema": 1,
            "tool": generator.tool,
            "loop": "open" if generator.is_open else "closed",
            "concurrency": self.concurrency,
            "rate_per_s": self.rate.per_s if self.rate else None,
            "ceiling": self.server.ceiling,
            "warm_up": bool(generator.warm_up),
            "placement": asdict(placement),
        }
        trial.note(loop=facts["loop"], tool=generator.tool, placement=facts["placement"])
        with trial.server(
            self.server.service,
            limits=self.limits,
            cpu_list=placement.server,
            open_files=self._server_files,
            label=SERVER,
        ) as running:
            base = f"http://{running.address}:{running.ports[self.server.port]}"
            trial.note(url=base + self.endpoint.path, limits=running.limits)
            open_files = self._prove(running)
            token, before = self._check(running, base, "before the load", last=0)
            headers = {name: self._fill(running, text, token) for name, text in self.endpoint.headers.items()}

            def load(warm_up: bool, role: str = self.load_role) -> Load:
                return Load(
                    generator=generator,
                    program=self.programs[role],
                    folder=self.folders[role],
                    base=base,
                    path=self.endpoint.path,
                    expect=self.endpoint.expect,
                    headers=headers,
                    concurrency=self.concurrency,
                    rate_per_s=self.rate.per_s if self.rate else None,
                    same_length=self.endpoint.same_length,
                    first=self._first(warm_up),
                    warm_up=warm_up,
                    client=self.clients.index(role) + 1,
                    clients=len(self.clients),
                )

            if generator.warm_up:
                self._execute(partial(load, True), WARM_UP, token)
            left_before, used_before = self._left(running), dict(running.usage())
            self._execute(partial(load, False), LOAD, token)
            used_after = dict(running.usage())
            left_after = self._left(running)
            _, after = self._check(running, base, "after the load", last=1)
            facts |= {
                "checks": {"before": before, "after": after},
                "usage": {"before": used_before, "after": used_after},
                "threads": self._threads(load(warm_up=False), self.load_role),
                "open_files": open_files,
                "leaves": self.endpoint.leaves,
                "left": {"before": left_before, "after": left_after},
            }
            if CLIENTS in self.case.levels:
                facts["clients"] = [
                    {"threads": self._threads(load(False, role), role), "placement": asdict(self.placements[role])}
                    for role in self.clients
                ]
        facts["server"] = dict(running.record.get("limits") or {}) if running.record else None
        write_atomically(trial.files / FACTS, as_json(facts))
        self._note(facts)

    # --- where it runs ---------------------------------------------------------------------------------------

    def _placement(self, role: str) -> Placement:
        """Give the generator CPUs apart from the server's if there are enough. Raises TrialFailed for too few CPUs."""
        trial, wanted = self.trial, self.generator.cpus
        cpus = cpus_for_generator(trial, role, self.generator.name, wanted)
        same_host = trial.roles[role] == trial.roles[self.server_role]
        held = self.limits.cpus
        if held is None and self.server.ceiling and wanted and wanted < len(cpus):
            held = len(cpus) - wanted  # the generator has the same CPUs as with other servers
        return place(cpus, held=held, wanted=wanted, same_host=same_host)

    def _threads(self, load: Load, role: str) -> int:
        usable = self.placements[role].usable
        return min(load.threads or usable, usable)

    @property
    def _server_files(self) -> int:
        # For each request, one connection, and one file or connection to a backend.
        return 2 * (self.concurrency or self.generator.max_in_flight) + _SPARE_FILES

    def _first(self, warm_up: bool) -> int:
        walk = self.endpoint.walk
        return 0 if walk is None else walk.warm_up_first if warm_up else walk.first

    # --- checking the server ---------------------------------------------------------------------------------

    def _check(self, running: "RunningService", base: str, when: str, last: int) -> tuple[str | None, dict[str, Any]]:
        """Log in, send one request, and check the response. Returns (token, response).

        `last`: the number for a walk, counted back from its end. Raises TrialFailed for an unexpected response.
        """
        path = self.endpoint.path
        if self.endpoint.walk:
            path = path.replace(COUNTER, str(self.endpoint.walk.last - last))
        headers = {
            name: self._fill(running, text, token=None, keep_token=True) for name, text in self.endpoint.headers.items()
        }
        request = {
            "base": base,
            "timeout_s": _CHECK_TIMEOUT_S,
            "login": self._login(running),
            "requests": [{"path": path, "headers": headers, "text": self.endpoint.expect.text}],
        }
        answer = self.trial.agent_call("http-check", input=json.dumps(request).encode() + b"\n", role=self.load_role)
        if answer["problem"]:
            raise TrialFailed(answer["problem"])
        if answer["token"]:
            self.trial.keep_secret(answer["token"], f"servers.{self.server.name}.login: the token")
        (found,) = answer["answers"]
        problem = problem_of(found, self.endpoint.expect)
        if problem:
            raise TrialFailed(f"no right answer {when}: {self.endpoint.name} of {self.server.name}: {problem}")
        return answer["token"], found

    def _login(self, running: "RunningService") -> dict[str, Any] | None:
        login = self.server.login
        if login is None:
            return None

        def filled(texts: Mapping[str, str]) -> dict[str, str]:
            return {name: self._fill(running, text) for name, text in texts.items()}

        basic = (
            None if login.user is None else [self._fill(running, text) for text in (login.user, login.password or "")]
        )
        return {
            "method": login.method,
            "path": login.path,
            "headers": filled(login.headers),
            "basic": basic,
            "form": filled(login.form),
            "json": filled(login.json_body),
            "status": login.status,
            "token": login.token.model_dump(),
        }

    def _fill(self, running: "RunningService", text: str, token: str | None = None, keep_token: bool = False) -> str:
        """Return `text` with its placeholders filled in, in one pass: filled-in values are not searched again."""

        def value(match: re.Match[str]) -> str:
            if match[1].startswith("env."):
                return self.trial.secret(match[1].removeprefix("env."))
            if match[1] == "token":
                return "{{token}}" if keep_token else token or ""
            return running.fill(match[0])

        return PLACEHOLDER.sub(value, text)

    def _prove(self, running: "RunningService") -> int:
        """Prove, before anything is sent, that the server owns the port. Returns the limit of its open files.

        Readiness of the service proves this only for the port of its probe, which can be a different one. Raises
        TrialFailed for another owner, or too few open files.
        """
        port = self.server.port
        found = self.trial.agent_call(
            "server-listens", running.folder, port, str(running.ports[port]), role=self.server_role
        )
        if found["problem"]:
            raise TrialFailed(f"service {self.server.service}: {found['problem']}")
        needed = self.concurrency or 1
        if found["open_files"] < needed:
            raise TrialFailed(
                f"the server {self.server.name} may open {found['open_files']} files, but {needed} concurrent requests "
                "need as many: raise the limit in the server's own configuration (ulimit -n alone is not enough)"
            )
        return found["open_files"]

    def _left(self, running: "RunningService") -> int | None:
        """Return the number of files that requests created so far; None if the endpoint has no `leaves`."""
        if not self.endpoint.leaves:
            return None
        pattern = running.fill(self.endpoint.leaves)
        return self.trial.agent_call("server-files", running.folder, pattern, role=self.server_role)["left"]

    # --- load ------------------------------------------------------------------------------------------------

    def _execute(self, load_of: Callable[[str], Load], label: str, token: str | None) -> None:
        commands = {role: self._command(load_of(role), label, self.placements[role], token) for role in self.clients}
        if CLIENTS in self.case.levels:
            self.trial.execute_together(commands, label)
        else:
            self.trial.execute(commands[self.load_role], self.load_role).require_success()

    def _command(self, load: Load, label: str, placement: Placement, token: str | None) -> Command:
        secrets, given = ({_TOKEN_ENV: token} if token else {}), load.environment()
        if HEADERS in given and "{{" in "".join(self.endpoint.headers.values()):
            secrets[HEADERS] = given.pop(HEADERS)
        return Command(
            load.argv(),
            env=given,
            secret_env=secrets,
            timeout_s=self.trial.config.timeout,
            label=label,
            measured=label == LOAD,
            cpu_list=placement.generator,
            open_files=load.open_files,
        )

    def _note(self, facts: Mapping[str, Any]) -> None:
        checks, left = facts["checks"], facts["left"]
        self.trial.note(
            checked={
                when: {name: checks[when][name] for name in ("status", "length", "content_type", "sha256")}
                for when in ("before", "after")
            },
            server_open_files=facts["open_files"],
            limits=facts["server"],
        )
        if self.endpoint.leaves:
            self.trial.note(left_by_the_load=left["after"] - left["before"])


def problem_of(answer: Mapping[str, Any], expect: Expect) -> str | None:
    """Describe in a sentence how a response differs from the expected one; None if it does not."""
    if "error" in answer:
        return f"GET {answer['url']} got no response: {answer['error']}"
    wrong = []
    if answer["status"] != expect.status:
        wrong.append(f"status {expect.status}")
    if expect.content_type and not (answer["content_type"] or "").lower().startswith(expect.content_type.lower()):
        wrong.append(expect.content_type)
    if expect.length is not None and answer["length"] != expect.length:
        wrong.append(f"{expect.length} bytes")
    missing = [key for key in expect.json_keys if key not in (answer["json_keys"] or ())]
    if missing:
        wrong.append(f"JSON with the key{'s' * (len(missing) > 1)} {', '.join(missing)}")
    if expect.text and not answer["has_text"]:
        wrong.append(f"the text {expect.text!r} in it")
    if not wrong:
        return None
    title = _TITLE.search(answer["head"])
    kind = answer["content_type"] or "no content type"
    came = f"{answer['status']} {answer['reason']}, {kind}, {answer['length']} bytes"
    where = answer["headers"].get("Location")
    hints = [
        f"it redirects to {where}" if where else "",
        f'a page called "{title[1]}"' if title else "",
        "is it a login page? then the server needs a `login`" if _looks_like_login(answer) else "",
        "is the path right?" if answer["status"] == 404 else "",
    ]
    shown = "; ".join(hint for hint in hints if hint)
    expected = ", ".join(wrong)
    return f"GET {answer['url']} returned {came}; the study expects {expected}" + (f" ({shown})" if shown else "")


def _looks_like_login(answer: Mapping[str, Any]) -> bool:
    text = f"{answer['head']} {answer['headers'].get('Location', '')}".lower()
    return answer["status"] in (401, 403) or any(word in text for word in ("login", "log in", "sign in", "password"))

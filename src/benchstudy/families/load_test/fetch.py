"""Fetches the samples of a window from a Prometheus once, through the host that reaches it, into the trial's files."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchstudy.families.load_test.config import Source
from benchstudy.families.load_test.metric_names import NODE, Names
from benchstudy.hosts.agent import Command
from benchstudy.model.errors import TrialFailed

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext, TrialExecution

METRICS, CLOCK = "metrics", "clock"  # folders of the trial
FILE = "metrics.ndjson.gz"
RAW = f"{METRICS}/files/{FILE}"
TOKEN, USER, PASSWORD = (f"BENCHSTUDY_PROMETHEUS_{name}" for name in ("TOKEN", "USER", "PASSWORD"))
_CLOCK_TIMEOUT_S = 200.0  # the agent gives up before, and says why
_PARENT = "/tmp"


@dataclass(frozen=True)
class Server:
    """A Prometheus, as the host with `role` reaches it. `credentials`: bearer or basic, with `secret_env` and `env`."""

    url: str
    role: str
    credentials: str | None = None
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None


@dataclass(frozen=True)
class Span:
    """What is fetched: Unix seconds on Prometheus' own clock, and the matchers of the series.

    `margin_s`: extra time before the start, for rates at the start. `select_hosts`: matchers of node_*; `select` if
    empty. `names`: the system's own metric names; see MetricNames.
    """

    start_s: float
    end_s: float
    margin_s: float
    select: str
    select_hosts: str
    scrape_interval_s: float
    names: Mapping[str, str] = field(default_factory=dict)


def ask_clock(trial: "TrialContext", server: Server) -> dict[str, Any]:
    """Ask how Prometheus' clock differs from the querying host's. Raises TrialFailed if it cannot be asked."""
    arguments = [server.url, *([server.credentials] if server.credentials else [])]
    command = Command(
        trial.agent_argv("prometheus:clock", *arguments, role=server.role),
        env=server.env,
        secret_env=server.secret_env,
        timeout_s=_CLOCK_TIMEOUT_S,
        label=CLOCK,
        measured=False,
    )
    return _answer(trial.execute(command, server.role))


def fetch(trial: "TrialContext", server: Server, span: Span) -> dict[str, Any]:
    """Fetch the span to RAW and return the agent's summary. Raises TrialFailed with a readable cause.

    The fetch continues a killed attempt of the same session.
    """
    spec = spec_of(server, span)
    key = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
    partial = f"{trial.scratch(_PARENT, server.role)}/{key}.partial"
    command = Command(
        trial.agent_argv("prometheus:fetch", role=server.role),
        stdin=json.dumps({**spec, "partial": partial}).encode() + b"\n",
        env=server.env,
        secret_env=server.secret_env,
        timeout_s=trial.config.timeout,
        label=METRICS,
        measured=False,
    )
    return _answer(trial.execute(command, server.role))


def spec_of(server: Server, span: Span) -> dict[str, Any]:
    """The agent's specification of a fetch, see on_host/prometheus.py."""
    return {
        "url": server.url,
        "start_s": span.start_s,
        "end_s": span.end_s,
        "margin_s": span.margin_s,
        "scrape_interval_s": span.scrape_interval_s,
        "select": span.select or None,
        "select_host": span.select_hosts or None,
        "metrics": {"system": Names(**span.names).fetched, "host": NODE},
        "credentials": server.credentials,
        "ca_file": server.ca_file,
        "into": FILE,
    }


def server_of(source: Source, secret: Callable[[str], str]) -> Server:
    """The server of a source. `secret` returns the value of an environment variable, and raises if it is not set."""
    credentials, secrets, env = None, {}, {}
    if source.bearer_env is not None:
        credentials, secrets = "bearer", {TOKEN: secret(source.bearer_env)}
    elif source.password_env is not None:
        # The name of the user is no secret: it would be removed from all that tools write.
        credentials, secrets, env = "basic", {PASSWORD: secret(source.password_env)}, {USER: source.user or ""}
    return Server(source.url or "", source.role, credentials, secrets, env, source.ca_file)


def _answer(done: "TrialExecution") -> dict[str, Any]:
    execution = done.execution
    if execution.state == "exited" and execution.exit_status:
        # The agent speaks to a person, on stderr or as {"error": …}.
        said = done.stderr.read_text(errors="replace").strip() or _error(done.stdout.read_text(errors="replace"))
        raise TrialFailed(" ".join(said.split()) or f"the agent ended with status {execution.exit_status}")
    done.require_success()
    try:
        return dict(json.loads(done.stdout.read_text()))
    except (ValueError, TypeError) as error:
        raise TrialFailed(f"the agent's answer is not a JSON object: {error}") from error


def _error(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip()

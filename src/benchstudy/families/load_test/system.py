"""The services of a trial that the study runs: database, server, Prometheus and their dependencies, started afresh."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchstudy.families.load_test.config import LOAD_PORTS, LoadTestConfig
from benchstudy.families.load_test.system_files import ACCOUNTS_SCHEMA
from benchstudy.families.load_test.users.site import Accounts, Site
from benchstudy.hosts import interrupts
from benchstudy.hosts.agent import RunningService, ServiceFailed
from benchstudy.model.clients import load_roles
from benchstudy.model.errors import BenchstudyError, TrialFailed
from benchstudy.model.services import PLACEHOLDER

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

DATABASE, SERVER, PROMETHEUS, LOAD = "database", "server", "prometheus", "load"
_FILES_OF_A_USER = 4  # its websocket, a request, the server's own connection to the database, one to spare
_SPARE_FILES = 1024
_TARGETS_S = 60.0  # Prometheus looks for what it is to scrape every five seconds
_LOOK_EVERY_S = 0.25
_WATCH_EVERY_S = 2.0
_BUILT = "{{tools}}/"


@contextmanager
def fresh_site(trial: "TrialContext[LoadTestConfig]", version: str, database: str, most_users: int) -> Iterator[Site]:
    """Start all services afresh, and end them with the block. Raises TrialFailed with a readable cause."""
    config = trial.config
    monitor = config.monitor
    role = load_roles(trial.roles)[0]
    _require_programs(trial, [config.database(database).service or "", config.server(version, database)])
    ports = trial.agent_call("load_site:free_ports", *LOAD_PORTS, role=role)["ports"]
    # The load does not run yet, but Prometheus needs its address now.
    load = RunningService(LOAD, "", "", "", ports, {}, host=trial.roles[role], bind=trial.address(role))
    open_files = _FILES_OF_A_USER * most_users + _SPARE_FILES
    with ExitStack() as stack:
        store = stack.enter_context(trial.server(config.database(database).service or "", label=DATABASE))
        server = stack.enter_context(
            trial.server(config.server(version, database), label=SERVER, open_files=open_files, beside=[store])
        )
        others = [
            stack.enter_context(trial.server(name, label=name, beside=[store, server]))
            for name in config.services[monitor.service].needs
            if name not in (store.name, server.name)
        ]
        prometheus = stack.enter_context(
            trial.server(
                monitor.service, label=PROMETHEUS, beside=[store, server, *others], also={SERVER: server, LOAD: load}
            )
        )
        yield Site(
            server=server,
            database=store,
            prometheus=prometheus,
            others=others,
            accounts=_accounts(trial, server, store),
            url=f"http://{server.address}:{server.ports[config.system.port]}",
            prometheus_url=f"http://{prometheus.address}:{prometheus.ports[monitor.port]}",
            prometheus_role=config.services[monitor.service].role,
            load_role=role,
            load=load,
        )


def _require_programs(trial: "TrialContext", names: Sequence[str]) -> None:
    """Raise TrialFailed for a program that could not be built here; otherwise its service would only time out."""
    for name in names:
        service = trial.config.services[name]
        for argv in (service.argv, *service.setup):
            if argv[0].startswith(_BUILT):
                trial.tool_path(argv[0].removeprefix(_BUILT), service.role)


def _accounts(trial: "TrialContext[LoadTestConfig]", server: RunningService, database: RunningService) -> Accounts:
    """Read the accounts of the data set. Raises TrialFailed if there are none."""
    config = trial.config
    given = config.system.accounts
    known = {**_all_needed(server), DATABASE: database}
    owner = next((name for name in map(_owner, PLACEHOLDER.findall(given)) if name in known), None)
    running = known[owner] if owner else server
    path = PLACEHOLDER.sub(lambda match: _filled(match[1], known, server), given)
    answer = trial.agent_call("load_site:text", path, role=config.services[running.name].role)
    content, passwords = read_accounts(f"system.accounts: {given}", answer["text"])
    for password in passwords:
        trial.keep_secret(password, f"system.accounts: {given}: a password")
    return Accounts(
        answer["text"].encode(),
        content.get("import_sha256") or answer["sha256"],
        content.get("counts") or {"users": len(content["users"])},
        content.get("database"),
    )


def read_accounts(where: str, text: str) -> tuple[dict[str, Any], set[str]]:
    """The content of accounts.json, and the passwords in it. Raises TrialFailed, which says `where`."""
    try:
        content = json.loads(text)
        users = content["users"]
        passwords = {content.get("password"), *(user.get("password") for user in users)} - {None, ""}
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise TrialFailed(f"{where}: it is not a JSON object with users, each an object: {error}") from error
    if content.get("schema", ACCOUNTS_SCHEMA) != ACCOUNTS_SCHEMA:
        raise TrialFailed(f"{where}: schema {content['schema']} is not known")
    if not users:
        raise TrialFailed(f"{where}: the data set has no users")
    return content, {str(password) for password in passwords}


def _all_needed(service: RunningService) -> dict[str, RunningService]:
    """The service and all its direct and indirect dependencies, by name."""
    found = {service.name: service}
    for other in service.needed.values():
        found |= {name: running for name, running in _all_needed(other).items() if name not in found}
    return found


def _owner(placeholder: str) -> str:
    return placeholder.rpartition(".")[0]


def _filled(placeholder: str, known: Mapping[str, RunningService], server: RunningService) -> str:
    owner = known.get(_owner(placeholder))
    if owner is not None and placeholder.endswith(".dir"):
        return owner.dir
    return server.fill("{{" + placeholder + "}}")


def wait_for_targets(trial: "TrialContext", site: Site) -> None:
    """Wait until Prometheus has scraped each target once, except the load's. Raises TrialFailed naming the target."""
    deadline = time.monotonic() + _TARGETS_S
    while True:
        answer = trial.agent_call("prometheus:targets", site.prometheus_url, role=site.prometheus_role)
        targets = [target for target in answer["targets"] if target["job"] != LOAD]
        missing = [target for target in targets if target["health"] != "up"]
        if targets and not missing:
            return
        if time.monotonic() > deadline:
            if not targets:
                raise TrialFailed(f"Prometheus has no target after {_TARGETS_S:g} s: does its scrape_configs name any?")
            first = missing[0]
            why = first["last_error"] or "it was not scraped yet"
            raise TrialFailed(f"Prometheus does not scrape {first['job']} at {first['instance']}: {why}")
        site.check()
        interrupts.pause(_LOOK_EVERY_S)


@contextmanager
def watched(site: Site, on_event: Callable[[str], None]) -> Iterator[Event]:
    """Check every few seconds, while the block runs, whether all services of the site still run. The event is set once
    one has ended, so that the load can stop.
    """
    died, over = Event(), Event()

    def watch() -> None:
        while not over.wait(_WATCH_EVERY_S):
            for service in site.services:
                try:
                    service.check()
                except ServiceFailed as error:
                    on_event(f"{service.name} no longer runs: {str(error).splitlines()[0]}")
                    died.set()
                    return
                except BenchstudyError:
                    continue  # a broken connection: the command of the load reports it

    thread = Thread(target=watch, name="watch of the site", daemon=True)
    thread.start()
    try:
        yield died
    finally:
        over.set()
        thread.join(timeout=60.0)


def said_version(trial: "TrialContext[LoadTestConfig]", site: Site) -> str | None:
    """The version that the server reports; None if the study does not say where. Raises TrialFailed without answer."""
    asked = trial.config.system.version
    if asked is None:
        return None
    answer = trial.agent_call("load_site:says", site.url, asked.path, asked.key, role=site.load_role)
    if answer["problem"]:
        raise TrialFailed(f"system.version: {answer['problem']}")
    return str(answer["value"])

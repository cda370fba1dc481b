"""Provisions hosts, each in a fork of this process, because pyinfra keeps its state in globals."""

import io
import json
import logging
import os
import re
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyinfra
from gevent.hub import Hub
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operations import run_ops
from pyinfra.api.state import State, StateStage
from pyinfra.context import ctx_host, ctx_state
from pyinfra.facts.apk import ApkPackages
from pyinfra.facts.deb import DebPackages
from pyinfra.facts.rpm import RpmPackages

from benchstudy.hosts import ssh_config
from benchstudy.hosts.controller import ends_with_controller
from benchstudy.hosts.forks import Tell, in_forks
from benchstudy.hosts.remote import ConnectionLost, Remote, RemoteError
from benchstudy.hosts.transfer import MOST_RECONNECTS
from benchstudy.model.errors import COLOURS, BenchstudyError, as_line
from benchstudy.model.files import disk_trouble
from benchstudy.model.grouping import grouped
from benchstudy.model.host import Host
from benchstudy.provisioning.pyinfra_remote import OneHost
from benchstudy.provisioning.systems import install_systems
from benchstudy.provisioning.tools import downloads, ensure_tools, missing_tools

Say = Callable[[str], None]
# At once: hosts download and compile what they lack, and a hundred of them would share one link to the mirrors.
_MOST = 64
# The host's name in front, which the reader adds.
_DECORATION = re.compile(r"^\s*\[[^]]*\]\s+")
# How each package manager refreshes its lists and waits for other installations; dnf does both by itself.
_REFRESH = {
    "apt-get": [
        # Nothing to install: takes and releases the lock.
        ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=600", "install"],
        ["apt-get", "-qq", "update"],
    ],
    "apk": [["apk", "update"]],
}


def provision(request: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """The host's facts, as `ProvisionResult.hosts` describes them. `say` gets progress messages.

    With `look` in the request nothing is changed, and the answer is what remains to be done: `installs`, packages;
    `builds`, programs and roughly how many seconds each takes; and their `downloads`, in words.

    Raises BenchstudyError when a deploy file is wrong.
    """
    host = Host.model_validate(request["host"])
    try:
        with Remote(request["name"], host) as remote:
            say("reached")
            for _ in range(MOST_RECONNECTS):
                try:
                    return _provision(remote, host, request, say)
                except ConnectionLost as error:  # what was done is not done again
                    say(f"{error}; reconnecting")
                    remote.reconnect()
                    say("connected again")
            return _provision(remote, host, request, say)
    except (RemoteError, OSError) as error:
        # Unreachable or unusable: a login shell that runs nothing, a full disk, a command that hangs.
        cause = disk_trouble(error) or str(error).removeprefix(f"{request['name']}: ")
        return {"unreachable": cause, "changed": 0, "problems": [cause]}


def _provision(remote: Remote, host: Host, request: Mapping[str, Any], say: Say) -> dict[str, Any]:
    work_dir = remote.expand(host.work_dir)
    is_root = remote.is_root()
    refused = remote.sudo_refused() if host.sudo and not is_root else ""
    sudo = host.sudo and not is_root and not refused
    # One unavailable package must not keep the others from being installed.
    data = {name: request[name] for name in ("roles", "target_roles")}
    data |= {"work_dir": work_dir, "python": host.python}
    state = State(OneHost(remote, data), Config(SUDO=sudo, IGNORE_ERRORS=True))
    pyinfra_host = state.inventory.get_host(remote.name)
    with ctx_state.use(state), ctx_host.use(pyinfra_host):
        state.set_stage(StateStage.Connect)
        connect_all(state)
        state.set_stage(StateStage.Prepare)
        problems = _prepare(pyinfra_host, request["deploys"])
        if request.get("look"):
            missing = [name for name, version in _versions(pyinfra_host).items() if version is None]
            tools = pyinfra_host.data.get("tools", [])
            builds = missing_tools(remote, tools)
            fetched = {tool["name"]: downloads(tool) for tool in tools if tool["name"] in builds}
            disconnect_all(state)
            return {"installs": missing, "builds": builds, "downloads": fetched}
        operations = state.ops[pyinfra_host]
        # Read now: after its execution, an operation reports what it would do next.
        pending = [op for op in operations if operations[op].operation_meta.will_change]
        changed = 0
        if pending and not (is_root or sudo):
            problems += [f"{_title(state, op)}: {_how_to_allow(remote.name, host, refused)}" for op in pending]
        elif pending:
            if None in _versions(pyinfra_host).values():
                problems += _refresh_package_lists(remote, sudo, say)
            state.set_stage(StateStage.Execute)
            run_ops(state)
            results = {op: operations[op].operation_meta for op in pending}
            changed = sum(result.did_change() for result in results.values())
            problems += [f"{_title(state, op)}: {_tail(r)}" for op, r in results.items() if r.did_error()]
        # After the packages, which may bring what a build needs; as the user who will run the tools, never by sudo.
        tools, built, unbuilt = ensure_tools(
            remote, pyinfra_host.data.get("tools", []), say, keep_downloads=request.get("keep_downloads", False)
        )
        facts = {
            "os": _os_release(remote),
            "machine": remote.run(["uname", "-srm"]).text.strip(),
            "packages": _versions(pyinfra_host),
            "programs": _programs(remote, pyinfra_host.data.get("programs", [])),
            "tools": tools,
            "changed": changed + built,
            "problems": problems + unbuilt,
        }
        disconnect_all(state)
    return facts


def _prepare(pyinfra_host: Any, deploys: list[dict[str, Any]]) -> list[str]:
    """Run the deploy files and what systems declare; this only plans operations."""
    problems = []
    for deploy in deploys:
        pyinfra_host.data.family = deploy["family"]
        files = [Path(deploy["path"])] if "path" in deploy else []
        try:
            files += install_systems(deploy["systems"]) if "systems" in deploy else []
        except PyinfraError as error:  # such as a package manager that pyinfra does not support
            problems.append(str(error))
        for path in files:
            try:
                runpy.run_path(str(path))
            except PyinfraError as error:
                problems.append(f"{_shown(path)}: {error}")
            except BenchstudyError:
                raise
            except (Exception, SystemExit) as error:
                raise BenchstudyError(f"{_shown(path)}: {as_line(error, path.parent)}; correct it") from error
    return problems


def _shown(path: Path) -> Path:
    """A deploy's path for messages: relative to the project, in which this process runs, or absolute."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _refresh_package_lists(remote: Remote, sudo: bool, say: Say) -> list[str]:
    """Called only when a package is missing, so that a complete host needs no network."""
    prefix = ["sudo", "-n"] if sudo else []
    for manager, commands in _REFRESH.items():
        if remote.run(["sh", "-c", 'command -v "$1"', "sh", manager], check=False).exit_status != 0:
            continue
        for command in commands:
            say(f"{' '.join(command)}")
            done = remote.run([*prefix, *command], timeout_s=1200.0, check=False)
            if done.exit_status != 0:
                # Not fatal: the package may be in the present lists.
                return [f"{' '.join(command)}: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}"]
    return []


def _how_to_allow(name: str, host: Host, refused: str) -> str:
    if refused:
        return (
            f"missing on {name}, where hosts.{name}.sudo: true does not help: {refused}. "
            "Allow every command with password-less sudo there, or install them by hand"
        )
    return (
        f"missing on {name}, and {host.user or 'the user'} may not install packages there. "
        f"Set hosts.{name}.sudo: true if password-less sudo is allowed, or install them by hand"
    )


def _title(state: State, op: str) -> str:
    return ", ".join(sorted(state.get_op_meta(op).names))


def _tail(result: Any) -> str:
    """The last lines of a failed operation's output: package managers put the cause there."""
    lines = [line for line in (result.stderr_lines or result.stdout_lines) if line.strip()]
    return "; ".join(lines[-4:]) or "it failed without a message"


def _os_release(remote: Remote) -> str:
    release = remote.run(["cat", "/etc/os-release"], check=False).text
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return match[1] if match else "unknown"


def _versions(pyinfra_host: Any) -> dict[str, str | None]:
    """The version of each package that a deploy asked for; None: not installed under this name."""
    requested = pyinfra_host.data.get("requested", [])
    for fact in (DebPackages, RpmPackages, ApkPackages):
        installed = pyinfra_host.get_fact(fact)
        if installed:
            return {name: _version(installed.get(name)) for name in requested}
    return dict.fromkeys(requested)


def _programs(remote: Remote, names: Sequence[str]) -> dict[str, dict[str, str] | None]:
    """Path and SHA-256 of programs from packages; None: there is none."""
    if not names:
        return {}
    # sshd and nginx are not on an ordinary user's PATH.
    script = (
        "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
        'for name; do path=$(command -v "$name") && [ -f "$path" ] && sha256sum "$path"; done\ntrue'
    )
    found = {}
    for line in remote.run(["sh", "-c", script, "sh", *names]).text.splitlines():
        sha256, path = line.split(maxsplit=1)
        found[Path(path).name] = {"path": path, "sha256": sha256}
    return {name: found.get(name) for name in names}


def _version(found: Any) -> str | None:
    versions = getattr(found, "installed_versions", found)
    return max(versions) if versions else None


class _PlainLines(logging.Handler):
    """pyinfra's log without colours: it goes to a file."""

    def __init__(self, say: Say):
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(_DECORATION.sub("", COLOURS.sub("", record.getMessage())))


class _Said(io.TextIOBase):
    """A stream that passes its text on line by line."""

    def __init__(self, say: Say):
        self._say = say

    def write(self, text: str) -> int:
        self._say(text)
        return len(text)


def provision_hosts(
    root: Path,
    requests: Mapping[str, Mapping[str, Any]],
    answered: Callable[[str, dict[str, Any]], None],
    said: Callable[[str, str], None],
) -> None:
    """Answer all requests: those for one host one after another, the rest side by side.

    Args:
        root: the project, in which deploys run.
        requests: what is asked of a host, by key.
        answered: gets the key, and {"facts": …} as `ProvisionResult.hosts` describes them, or {"error": text} for a
            wrong deploy. Packages that could not be installed and tools not built are facts, too: `problems`.
        said: gets the key, and progress messages from that host.

    Raises KeyboardInterrupt when this process was told to end, or its controller is gone.
    """
    turns = grouped((request["name"], key) for key, request in requests.items())
    left = set(requests)

    def heard(key: str, line: bytes) -> None:
        told = json.loads(line)
        if "said" in told:
            said(key, told["said"])
        else:
            left.discard(key)
            answered(key, told)

    def ended(key: str, status: int) -> None:
        if key in left:  # a defect, or killed; it affects only this host
            cause = f"the provisioning process ended with status {status}; its log may say why"
            answered(key, {"facts": {"unreachable": cause, "changed": 0, "problems": [cause]}})

    ssh_config.ask_once()
    in_forks(turns.values(), lambda key, tell: _answer(root, requests[key], tell), heard, ended=ended, at_once=_MOST)


def _answer(root: Path, request: Mapping[str, Any], tell: Tell) -> None:
    """In a fork of its own."""

    def say(text: str) -> None:
        for line in text.splitlines():
            if plain := line.strip():
                tell(json.dumps({"said": plain}).encode())

    os.chdir(root)
    os.dup2(2, 1)
    sys.stdout = sys.stderr = _Said(say)  # what a deploy prints is for the log
    Hub.NOT_ERROR += (RemoteError,)  # it reaches us, and gevent prints no traceback
    pyinfra.logger.setLevel(logging.INFO)
    pyinfra.logger.propagate = False
    pyinfra.logger.handlers = [_PlainLines(say)]
    reply: dict[str, Any]
    try:
        with ends_with_controller():
            reply = {"facts": provision(request, say)}
    except BenchstudyError as error:
        reply = {"error": str(error)}
    tell(json.dumps(reply).encode())

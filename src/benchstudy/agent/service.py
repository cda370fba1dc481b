"""Services: a server or mount under the supervisor, proven to be ours and ready before anybody uses it."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
import urllib.error
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

import cgroups
import folders
import outputs
import record
import sockets
import sweeper
import watcher
import wire

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_LOG_TAIL = 3000
LOGS = ("setup.log", "stdout", "stderr", "stop.log", "supervisor.json")
_PROBE_EVERY_S = 0.03
_WORDS_S = 2.0  # for the words of a service that cannot listen, because another process does
_HOW_IT_ENDED = ("state", "cause", "cause_kind", "exit_status", "signal", "duration_s", "limits")
_DEFAULTS: dict[str, object] = {"bind": None, "tools": "", "confinement": {}}


def start(arguments: list[str]) -> None:
    """`start-service SERVICE_DIR`: start it and wait until it is ready.

    First stdin line: {"uuid", "session", "lock", "lease_s", "name", "service": {as in a study}, "secrets": {name:
    text}, "others": {service: {"dir", "bind", "ports", "secrets"}}, "libraries": {name: folder}, "bind": address or
    null, "tools": folder, "confinement": {"limits", "cpu_list", "open_files"}}. Prints {"ready": true, "dir", "ports",
    "limits"} or, after ending what was started, {"ready": false, "cause", "log", "logs", "record"}.
    """
    (folder,) = arguments
    spec = {**_DEFAULTS, **wire.read_spec(wire.Lines())}
    service = spec["service"]
    files = os.path.join(folder, "files")
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    folders.create(folder, spec["uuid"], spec["session"], "service", spec["lock"])
    os.mkdir(files, 0o700)
    ports = sockets.free_ports(service["ports"])
    values = _values(files, ports, spec)
    _write_files(files, service["files"], values)
    fill = _Filler(values)
    ready = {name: fill(how) if isinstance(how, str) else how for name, how in service["ready"].items()}
    supervised = {
        **{name: spec[name] for name in ("uuid", "session", "lock", "lease_s")},
        "label": spec["name"],
        "argv": [fill(text) for text in service["argv"]],
        "shown_argv": service["argv"],  # with its placeholders: filled in, it may hold secrets
        "secret_env": {name: fill(text) for name, text in service["env"].items()},
        "setup": [[fill(text) for text in argv] for argv in service["setup"]],
        "stop": [fill(text) for text in service["stop"]] if service["stop"] else None,
        **({"setup_timeout_s": service["setup_timeout"]} if service.get("setup_timeout") else {}),
        **spec["confinement"],
    }
    watcher.start(folder, supervised)
    cause = _wait_ready(folder, ready, ports, _probed_address(spec))
    if cause is None:
        wire.emit({"ready": True, "dir": files, "ports": ports, "limits": (record.read(folder) or {}).get("limits")})
        return
    sweeper.stop_daemon(folder)
    content = watcher.last_word(folder)
    if content.get("cause_kind") == record.OOM:
        cause = content["cause"]
    else:
        import limits  # rarely needed, and every command would pay for the import

        squeezed = limits.used_up(content.get("limits"))
        cause = f"{squeezed}: {cause}" if squeezed else cause
    failed = {"ready": False, "cause": _hide(cause, spec), "log": _hide(_log_tail(folder), spec)}
    wire.emit({**failed, "logs": _logs(folder), "record": content})


def stop(arguments: list[str]) -> None:
    """`stop-service SERVICE_DIR`: end it, its stop command first; prints its record and the names of its "logs"."""
    (folder,) = arguments
    sweeper.stop_daemon(folder)
    wire.emit({**watcher.last_word(folder), "logs": _logs(folder)})


def _logs(folder: str) -> list[str]:
    return [name for name in LOGS if os.path.exists(os.path.join(folder, name))]


def status(arguments: list[str]) -> None:
    """`service-status SERVICE_DIR`: {"state", "cause", …, "log", "used", "monotonic"}.

    The state is "running" while it lives. `used`: by its control group so far, see cgroups.usage_of.
    """
    (folder,) = arguments
    renewal = watcher.attach(folder)
    content = watcher.last_word(folder) if renewal is None else record.read(folder)
    if content is None:
        raise wire.AgentError(f"{folder} holds no record of a run")
    how = {name: content.get(name) for name in _HOW_IT_ENDED}
    used = {"used": cgroups.usage_of(cgroups.registered(folder)), "monotonic": time.monotonic()}
    wire.emit({**how, "log": _log_tail(folder), **used})


def _values(files: str, ports: dict[str, int], spec: dict) -> dict[str, str]:
    """What each placeholder stands for."""
    own = {"dir": files, "bind": spec["bind"], "ports": ports, "secrets": spec["secrets"]}
    values = {"tools": spec["tools"], **_values_of("", own)}
    values.update({f"library.{name}": path for name, path in spec["libraries"].items()})
    for other, its in spec["others"].items():
        values.update(_values_of(f"{other}.", its))
    return values


def _values_of(prefix: str, service: dict) -> dict[str, str]:
    """An unknown address is left out: the controller already refused what would need it."""
    return {
        f"{prefix}dir": service["dir"],
        **({f"{prefix}bind": service["bind"]} if service["bind"] else {}),
        **{f"{prefix}port.{name}": str(port) for name, port in service["ports"].items()},
        **{f"{prefix}secret.{name}": text for name, text in service["secrets"].items()},
    }


def _probed_address(spec: dict) -> str:
    """A service that does not say where it listens is on loopback."""
    says_it = any(match[1] == "bind" for match in _PLACEHOLDER.finditer(json.dumps(spec["service"])))
    return spec["bind"] if says_it else "127.0.0.1"


class _Filler:
    def __init__(self, values: dict[str, str]):
        self.values = values

    def __call__(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._value, text)

    def _value(self, match: re.Match) -> str:
        name = match[1]
        if name not in self.values:
            raise wire.AgentError(f"unknown placeholder {{{{{name}}}}}; known here: {', '.join(sorted(self.values))}")
        return self.values[name]


def _write_files(files: str, contents: dict[str, str], values: dict[str, str]) -> None:
    fill = _Filler(values)
    for name, text in contents.items():
        if os.path.isabs(name) or ".." in name.split("/") or not name:
            raise wire.AgentError(f"files: {name!r} must be a path below the service's own folder")
        path = os.path.join(files, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(fill(text))


def _wait_ready(folder: str, ready: dict, ports: dict[str, int], address: str) -> str | None:
    """None once the service is ready and proven ours; else why not."""
    deadline = None
    while True:
        content = record.read(folder) or {"state": "starting"}
        if watcher.daemon_is_gone(folder):
            return _how_it_ended(watcher.last_word(folder))
        if content["state"] == "running":
            # The setup steps have their own timeout.
            deadline = deadline or time.monotonic() + ready["timeout"]
            wanted = _probe(ready, ports, address)
            if wanted is not None:
                foreign = sockets.foreign_listener(wanted, content["supervisor_pid"])
                if foreign is not None:
                    _wait_for_words(folder)
                return foreign
            if time.monotonic() > deadline:
                return f"not ready within {ready['timeout']:g} s ({_probe_text(ready, ports)})"
        time.sleep(_PROBE_EVERY_S)


def _wait_for_words(folder: str) -> None:
    """Wait until the service has said something. One that may not listen says so, but another may answer before."""
    until, files = time.monotonic() + _WORDS_S, [os.path.join(folder, name) for name in ("stdout", "stderr")]
    while time.monotonic() < until and not any(os.path.exists(file) and os.path.getsize(file) for file in files):
        time.sleep(_PROBE_EVERY_S)


def _how_it_ended(content: dict) -> str:
    if content.get("cause_kind") == record.OOM:
        return content["cause"]
    if content["state"] == "exited":
        how = f"signal {content['signal']}" if content["signal"] else f"exit status {content['exit_status']}"
        return f"it ended before it was ready, with {how}" + (f" ({content['cause']})" if content["cause"] else "")
    return f"{content['state']}: {content['cause']}"


def _probe(ready: dict, ports: dict[str, int], address: str) -> dict[str, int] | None:
    """The ports that must be ours for the answer to be ours, by their name in messages; None without an answer."""
    if ready.get("tcp"):
        port = ports[ready["tcp"]]
        try:
            socket.create_connection((address, port), timeout=1.0).close()
        except OSError:
            return None
        return {f"port {ready['tcp']}": port}
    if ready.get("http"):
        status = _status(ready["http"])
        return {ready["http"]: urlsplit(ready["http"]).port or 80} if status and status < 500 else None
    if ready.get("file"):
        return {} if os.path.exists(ready["file"]) else None
    return {} if os.path.realpath(ready["mount"]) in folders.mount_points() else None


def _status(url: str) -> int | None:
    # No proxy: one set by http_proxy would get the request for our own loopback server.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _probe_text(ready: dict, ports: dict[str, int]) -> str:
    if ready.get("tcp"):
        return f"nothing listens on port {ports[ready['tcp']]}, {ready['tcp']!r}"
    if ready.get("file"):
        return f"{ready['file']} does not exist"
    if ready.get("http"):
        status = _status(ready["http"])
        return f"{ready['http']} {f'answers with status {status}' if status else 'does not answer'}"
    return f"{ready['mount']} is not a mount point"


def _log_tail(folder: str) -> str:
    texts = []
    for name in ("setup.log", "stdout", "stderr"):
        with suppress(OSError):
            texts.append(outputs.tail_of(os.path.join(folder, name), _LOG_TAIL).strip())
    text = "\n".join(text for text in texts if text)
    return outputs.whole(text[-_LOG_TAIL:]) if len(text) > _LOG_TAIL else text


def _hide(text: str, spec: dict) -> str:
    secrets = [
        *spec["secrets"].values(),
        *(s for its in spec["others"].values() for s in its["secrets"].values()),
    ]
    for secret in sorted(secrets, key=len, reverse=True):  # one may contain another
        text = text.replace(secret, "«redacted»").replace(json.dumps(secret)[1:-1], "«redacted»")
    return text

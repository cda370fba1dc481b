"""Checks a server from where the load will come: logs in, sends requests, prints the answers. Measures nothing.

Requests arrive on stdin, headers included, because everybody can read the arguments of a process.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import http.client
import json
import os
import resource
import time
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlencode, urlsplit

import processes
import record
import sockets
import wire

HEAD = 300  # bytes of a body that are shown to a person
_MOST = 64 << 20  # bytes of a body that are read
_SHOWN = ("Content-Type", "Content-Length", "Content-Encoding", "Server", "Location", "Cache-Control", "Connection")
_TOKEN = "{{token}}"


def check(arguments: list[str]) -> None:
    """`http-check`: first stdin line {"base": "http://host:port", "timeout_s", "login": {"method", "path", "headers",
    "basic": [user, password] or null, "form", "json", "status", "token": {"json_key", "cookie", "header"}} or null,
    "requests": [{"path", "headers", "text"}]}.

    Prints {"token", "problem", "answers": [as `ask` gives them]}; a login that fails is a "problem", with no answers.
    "{{token}}" in a request's headers stands for the token.
    """
    request = wire.read_spec(wire.Lines())
    token = None
    if request.get("login"):
        answer, body, received = ask(request["base"], _login(request["login"]), request["timeout_s"])
        token, problem = _token(request["login"], answer, body, received)
        if problem:
            wire.emit({"token": None, "problem": problem, "answers": []})
            return
    answers = []
    for wanted in request["requests"]:
        headers = {name: value.replace(_TOKEN, token or "") for name, value in wanted["headers"].items()}
        filled = {"method": "GET", "path": wanted["path"], "headers": headers, "text": wanted.get("text")}
        answers.append(ask(request["base"], filled, request["timeout_s"])[0])
    wire.emit({"token": token, "problem": None, "answers": answers})


def ask(base: str, wanted: dict, timeout_s: float) -> tuple[dict, bytes, Message]:
    """One request on a connection of its own: (the answer, the body, all headers).

    The answer: {"url", "error"} or {"url", "status", "reason", "length", "content_type", "headers", "sha256", "head",
    "json_keys": of an object, "has_text": whether the requested text is in it, "duration_s"}.
    """
    parts = urlsplit(base)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    begun = time.monotonic()
    try:
        connection.request(wanted["method"], wanted["path"], body=wanted.get("body"), headers=wanted["headers"])
        response = connection.getresponse()
        body = response.read(_MOST)
    except (OSError, http.client.HTTPException) as error:
        return {"url": base + wanted["path"], "error": f"{type(error).__name__}: {error}"}, b"", Message()
    finally:
        connection.close()
    answer = {
        "url": base + wanted["path"],
        "status": response.status,
        "reason": response.reason,
        "length": len(body),
        "content_type": response.getheader("Content-Type"),
        "headers": {name: response.getheader(name) for name in _SHOWN if response.getheader(name) is not None},
        "sha256": hashlib.sha256(body).hexdigest(),
        "head": body[:HEAD].decode("utf-8", "replace"),
        "json_keys": _json_keys(body),
        "has_text": wanted["text"].encode() in body if wanted.get("text") else None,
        "duration_s": time.monotonic() - begun,
    }
    return answer, body, response.headers


def _json_keys(body: bytes) -> list[str] | None:
    found = wire.document(body) if body[:1] == b"{" else None
    return None if found is None else sorted(found)


def _login(login: dict) -> dict:
    headers, body = dict(login["headers"]), None
    if login["basic"]:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login["basic"]).encode()).decode()
    if login["form"]:
        body = urlencode(login["form"])
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    elif login["json"]:
        body = json.dumps(login["json"])
        headers.setdefault("Content-Type", "application/json")
    return {"method": login["method"], "path": login["path"], "headers": headers, "body": body}


def _token(login: dict, answer: dict, body: bytes, headers: Message) -> tuple[str | None, str | None]:
    """The token, or why there is none. The reason quotes no body, which may hold a secret."""
    where = f"the login {login['method']} {answer['url']}"
    if "error" in answer:
        return None, f"{where} failed: {answer['error']}"
    if answer["status"] != login["status"]:
        return None, (
            f"{where} was answered {answer['status']} {answer['reason']} instead of {login['status']}: is the account "
            "right, and the path?"
        )
    place = login["token"]
    if place["json_key"]:
        found = (wire.document(body) or {}).get(place["json_key"])
        what = f"the JSON key {place['json_key']!r}"
    elif place["cookie"]:
        found, what = _cookie(headers, place["cookie"]), f"the cookie {place['cookie']!r}"
    else:
        found, what = headers.get(place["header"]), f"the header {place['header']!r}"
    if not isinstance(found, str) or not found:
        return None, f"{where} was answered {answer['status']}, but without {what}"
    if not (found.isascii() and found.isprintable()):
        return None, f"{where}: the value of {what} is not valid in a header"
    return found, None


def _cookie(headers: Message, name: str) -> str | None:
    for text in headers.get_all("Set-Cookie") or ():
        jar = SimpleCookie()
        try:
            jar.load(text)
        except CookieError:
            continue
        if name in jar:
            return jar[name].value
    return None


def server_files(arguments: list[str]) -> None:
    """`server-files SERVICE_DIR PATTERN`: prints {"left": how many files below the service's own folder match}."""
    folder, pattern = arguments
    wire.emit({"left": _count(os.path.join(folder, "files"), pattern)})


def server_listens(arguments: list[str]) -> None:
    """`server-listens SERVICE_DIR NAME PORT`: prints {"problem", "open_files"}. "problem": why the port called NAME
    does not belong to the service alone, else None. "open_files": the highest limit among the service's processes.
    """
    folder, name, port = arguments[0], arguments[1], int(arguments[2])
    content = record.read(folder) or {}
    if "supervisor_pid" not in content:
        raise wire.AgentError(f"{folder}: no server is running there")
    supervisor = content["supervisor_pid"]
    if sockets.listening_inodes(port):
        problem = sockets.foreign_listener({f"port {name}": port}, supervisor)
    else:
        problem = f"port {name}: nothing listens on port {port}"
    open_files = max((_open_files(pid) for pid in processes.descendants(supervisor)), default=0)
    wire.emit({"problem": problem, "open_files": open_files})


def _open_files(pid: int) -> int:
    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except (OSError, ValueError):
        return 0
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _count(folder: str, pattern: str) -> int:
    # The folder is escaped, so only the pattern matches. Hidden folders count only if the pattern names them.
    return sum(1 for _ in glob.iglob(os.path.join(glob.escape(folder), pattern), recursive=True))


def cpus(arguments: list[str]) -> None:
    """`cpus`: {"cpus": the numbers of the CPUs that a process of this user may run on}."""
    wire.emit({"cpus": sorted(os.sched_getaffinity(0))})

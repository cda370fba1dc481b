"""Facts of a site that a load needs before it begins: free ports, the accounts of its users, the server's version."""

from __future__ import annotations

import hashlib
import os

import http_check
import sockets
import wire

_MOST = 64 << 20
_TIMEOUT_S = 20.0


def free_ports(arguments: list[str]) -> None:
    """`free-ports NAME ...`: {"ports": {name: a port that nothing uses now, and no service gets before the load}}."""
    wire.emit({"ports": sockets.free_ports(arguments, for_later=True)})


def text(arguments: list[str]) -> None:
    """`site-text PATH`: {"text", "sha256"} of a file. Raises AgentError if it is missing, too large, or not UTF-8."""
    (path,) = arguments
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MOST:
                raise wire.AgentError(f"{path} has {size} bytes, more than the {_MOST >> 20} MiB that can be sent")
            content = file.read()
        wire.emit({"text": content.decode(), "sha256": hashlib.sha256(content).hexdigest()})
    except OSError as error:
        raise wire.AgentError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise wire.AgentError(f"{path} is not text in UTF-8") from None


def says(arguments: list[str]) -> None:
    """`site-says BASE PATH KEY`: {"value": value of a key of the JSON object there, "problem": why there is none}."""
    base, path, key = arguments
    answer, body, _ = http_check.ask(base, {"method": "GET", "path": path, "headers": {}}, _TIMEOUT_S)
    value = problem = None
    if answer.get("status") == 200:
        found = wire.document(body) or {}
        if key in found:
            value = found[key]
        else:
            problem = f"{base}{path} does not answer a JSON object with {key!r}"
    else:
        problem = f"{base}{path} answers {answer.get('error') or answer['status']}"
    wire.emit({"value": value, "problem": problem})

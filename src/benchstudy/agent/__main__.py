"""`python3 -I <this folder> COMMAND [ARGUMENT …]`: one command, imported only when it is asked for.

What families run beside the agent lies in the same folder, and is called as `module:function`. A command is a
function that takes the list of its arguments, prints JSON on stdout and may return an exit status. An AgentError or
OSError becomes `{"error": text}` with exit status 3, with "disk_full": true for a full disk; an unknown command gets
the same with exit status 2.
"""

from __future__ import annotations

import errno
import importlib
import os
import resource
import sys

import wire

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "run": "watcher:run",
    "watch": "watcher:watch",
    "clock": "watcher:clock",
    "serve": "desk:serve",
    "lock": "keeper:lock",
    "hold": "keeper:hold",
    "end-session": "keeper:end",
    "scratch": "keeper:scratch",
    "sweep": "sweeper:sweep",
    "remove": "folders:remove_command",
    "remove-scratch": "sweeper:remove_scratch",
    "start-service": "service:start",
    "stop-service": "service:stop",
    "service-status": "service:status",
    "join-accounts": "accounts:join",
    "read-host": "interference:read_command",
    "watch-host": "interference:watch",
    "facts": "facts:facts",
    "tool": "facts:tool_command",
    "digests": "facts:digests",
    "path-info": "facts:path_info",
    "http-check": "http_check:check",
    "server-files": "http_check:server_files",
    "server-listens": "http_check:server_listens",
    "cpus": "http_check:cpus",
}


# Servers such as nginx and mariadbd are not on the PATH of an ordinary user.
_OF_SERVERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def located(command: str) -> tuple[str, str]:
    """Module and function of a command; no function where there is none."""
    module, _, function = COMMANDS.get(command, command).partition(":")
    return module, function


def _found(command: str) -> Callable[[list[str]], int | None] | None:
    """The function of a command; None if the module or function does not exist."""
    module, function = located(command)
    if not module or not function:
        return None
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but one that it imports does not
        return None
    return found if callable(found) else None


def main(arguments: list[str]) -> int:
    command = _found(arguments[0] if arguments else "")
    if command is None:
        asked = "".join(repr(name) for name in arguments[:1])
        wire.emit({"error": f"no such command: {asked}; known: {', '.join(COMMANDS)}, and MODULE:FUNCTION"})
        return 2
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*path, *(folder for folder in _OF_SERVERS if folder not in path)])
    # The core dump of a crashed server would hold its secrets and lie among the files of a trial.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        return command(arguments[1:]) or 0
    except wire.AgentError as error:
        wire.emit({"error": str(error)})
        return 3
    except BrokenPipeError:
        return 1  # the controller hung up
    except OSError as error:
        said = f"{arguments[0]}: {error}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        wire.emit({"error": f"{said}; free some space there", "disk_full": True} if full else {"error": said})
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

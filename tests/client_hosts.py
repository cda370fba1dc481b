"""Hosts that load a server together: real sshd servers on loopback, each with a work folder."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from sshd_hosts import SshdHost


@contextmanager
def hosts(folder: Path, *names: str) -> Iterator[dict[str, Any]]:
    """The hosts' entries in a study, by name."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            sshd = stack.enter_context(SshdHost(folder / name))
            found[name] = sshd.described(folder / name / "work", service_address="127.0.0.1")
        yield found


def roles(clients: int) -> dict[str, Any]:
    """A target's roles: a server, and `count` load hosts l1, l2, …"""
    return {"sut": "server", "load": [f"l{number}" for number in range(1, clients + 1)]}


def process_of(program: str, host: dict[str, Any]) -> int | None:
    """The pid of a program that runs below the host's work folder, or None."""
    for process in psutil.process_iter(["name", "cwd", "status"]):
        place, zombie = process.info["cwd"] or "", process.info["status"] == psutil.STATUS_ZOMBIE
        if process.info["name"] == program and not zombie and place.startswith(host["work_dir"]):
            return process.pid
    return None


def unplug(folder: Path) -> None:
    """End the sshd whose configuration is in the folder, with all its connections, as if the host lost its network."""
    of_it = str(folder / "sshd_config")
    (listener,) = [process for process in psutil.process_iter(["cmdline"]) if of_it in (process.info["cmdline"] or ())]
    for process in [listener, *(child for child in listener.children(recursive=True) if child.name() == "sshd")]:
        process.kill()

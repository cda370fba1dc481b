"""Ports: which are free, and whose process listens on one."""

from __future__ import annotations

import os
import socket

import processes

_LISTEN = "0A"


def free_ports(names: list[str]) -> dict[str, int]:
    """A port for each name that nothing on this host uses now. Whether the service got it is proven later."""
    held = []
    try:
        for _ in names:
            probe = socket.socket()
            held.append(probe)
            probe.bind(("", 0))
        return {name: held[position].getsockname()[1] for position, name in enumerate(names)}
    finally:
        for probe in held:
            probe.close()


def foreign_listener(wanted: dict[str, int], supervisor: int) -> str | None:
    """Why the listener on one of the `wanted` ports (by name) is not the supervisor's; None when all are its own."""
    own = _socket_inodes([supervisor, *processes.descendants(supervisor)])
    for name, port in wanted.items():
        listening = listening_inodes(port)
        if not listening & own:
            return f"{name}: port {port} belongs to another process, {_owner_of(listening)}"
        if listening - own:
            return f"{name}: port {port} is shared with another process, {_owner_of(listening - own)}"
    return None


def listening_inodes(port: int) -> set[str]:
    """The sockets that listen on a TCP port, by inode."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue  # a kernel without IPv6
        found.update(row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port)
    return found


def _socket_inodes(pids: list[int]) -> set[str]:
    inodes = set()
    for pid in pids:
        try:
            links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
        except OSError:
            continue  # ended, or of a user whose descriptors we may not see
        inodes.update(link[8:-1] for link in links if link.startswith("socket:["))
    return inodes


def _owner_of(inodes: set[str]) -> str:
    for pid in processes.parents():
        if _socket_inodes([pid]) & inodes:
            return f"{processes.name_of(pid)} ({pid})"
    return "which this user may not see"

"""Ports: which are free, and whose process listens on one."""

from __future__ import annotations

import os
import socket

import processes

_LISTEN = "0A"
_FIRST = 10_000  # well-known ports are below
_FOR_LATER = 1_000  # the last ports below those of the kernel
_MOST_TRIES = 50


def free_ports(names: list[str], for_later: bool = False) -> dict[str, int]:
    """For each name a port that nothing on this host uses now. Whether the service got it is proven later.

    Ports that the kernel gives to connections are left out: one might be taken before the service listens on it.
    `for_later`: services start before these ports are used, and are given none of them.
    """
    held = []
    try:
        for _ in names:
            probe = socket.socket()
            held.append(probe)
            _bind_somewhere(probe, for_later)
        return {name: held[position].getsockname()[1] for position, name in enumerate(names)}
    finally:
        for probe in held:
            probe.close()


def _bind_somewhere(probe: socket.socket, for_later: bool) -> None:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            last = int(file.read().split()[0]) - 1
    except (OSError, ValueError, IndexError):
        last = 0
    end = last + 1 - _FOR_LATER
    first, count = (end, _FOR_LATER) if for_later else (_FIRST, end - _FIRST)
    for _ in range(_MOST_TRIES if last >= 2 * _FIRST else 0):
        try:
            return probe.bind(("", first + int.from_bytes(os.urandom(4), "big") % count))
        except OSError:
            continue
    return probe.bind(("", 0))


def foreign_listener(wanted: dict[str, int], supervisor: int) -> str | None:
    """Why the listener on one of the `wanted` ports (by name) is not the supervisor's; None when all are."""
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
    found: set[str] = set()
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
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # it ended, or its user's descriptors are not visible to us
        for descriptor in descriptors:
            try:
                link = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue  # closed meanwhile: servers close connections all the time
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    return inodes


def _owner_of(inodes: set[str]) -> str:
    for pid in processes.parents():
        if _socket_inodes([pid]) & inodes:
            return f"{processes.name_of(pid)} ({pid})"
    return "which this user may not see"

"""Identifies this machine when several work in one folder. Standard library only, because model/files.py uses it."""

import hashlib
import os
import re
from functools import cache
from pathlib import Path

_PROCESS = re.compile(r"([0-9a-f]{8})-([0-9]+)")
ANY_PROCESS = f"{'[0-9a-f]' * 8}-[0-9]*"


def boot_id() -> str:
    """What the kernel calls this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@cache
def place() -> str:
    """This boot of this machine and its pid namespace; within both, a process id is unique."""
    return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"


@cache
def _short() -> str:
    return hashlib.sha256(place().encode()).hexdigest()[:8]


def process(pid: str = "") -> str:
    """A name for files of this process, or of another one here; no other running process on any machine has it."""
    return f"{_short()}-{pid or os.getpid()}"


def pid_here(name: str) -> int | None:
    """The process id in such a name; None if it has none or the process is on another machine."""
    found = _PROCESS.fullmatch(name)
    return int(found[2]) if found and found[1] == _short() else None

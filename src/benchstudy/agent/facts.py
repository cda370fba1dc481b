"""Facts about this host. Each is a value or null, because not every host has every tool and file."""

from __future__ import annotations

import concurrent.futures
import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from typing import Any

import exposure
import folders
import processes
import record
import wire

_COMMAND_TIMEOUT_S = 10.0
# Only options that no program takes for an action; `touch version` would make a file.
_VERSION_ARGUMENTS = (["--version"], ["-V"])
_VERSION_ARGUMENTS_OF = {"go": (["version"],), "versitygw": (["--version"],), "rclone": (["--version"],)}
_STATUS_OF = {"wrk": 1}  # its exit status after it has printed its version


def facts(arguments: list[str]) -> None:
    """`facts [TOOL …]`: the environment of a measurement, with path, version and SHA-256 of each TOOL."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        lscpu = pool.submit(_json_of, ["lscpu", "-J"])
        lsblk = pool.submit(
            _json_of, ["lsblk", "-J", "-b", "-o", "NAME,TYPE,SIZE,MODEL,ROTA,SCHED,FSTYPE,MOUNTPOINT,RO"]
        )
        tools = {name: pool.submit(tool, name) for name in arguments}
        wire.emit(
            {
                "boot_id": record.boot_id(),
                "clock": {"wall_clock": time.time(), "monotonic": time.monotonic()},
                "kernel": {
                    "system": os.uname().sysname,
                    "release": os.uname().release,
                    "version": os.uname().version,
                },
                "machine": os.uname().machine,
                "hostname": os.uname().nodename,
                "python": {"version": platform.python_version(), "path": sys.executable},
                "os_release": _os_release(),
                "user": {"uid": os.geteuid(), "groups": sorted(os.getgroups())},
                "cpus_allowed": len(os.sched_getaffinity(0)),
                "governor": _unique("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"),
                "turbo": _turbo(),
                "smt": _text("/sys/devices/system/cpu/smt/active"),
                "vulnerabilities": _folder_of_texts("/sys/devices/system/cpu/vulnerabilities"),
                "transparent_hugepage": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
                "swappiness": _text("/proc/sys/vm/swappiness"),
                "dirty_ratio": _text("/proc/sys/vm/dirty_ratio"),
                "dirty_background_ratio": _text("/proc/sys/vm/dirty_background_ratio"),
                "can_drop_caches": os.access("/proc/sys/vm/drop_caches", os.W_OK),
                "cgroup_version": _cgroup_version(),
                "virtualisation": _first_line_of(["systemd-detect-virt"]),
                "mounts": folders.mounts(),
                "queues": _queues(),
                "loadavg": _text("/proc/loadavg"),
                "meminfo": _meminfo(),
                "memory_total_bytes": _meminfo().get("MemTotal"),
                "swap_total_bytes": _meminfo().get("SwapTotal"),
                "lscpu": _flat(lscpu.result()),
                "lsblk": (lsblk.result() or {}).get("blockdevices"),
                "tools": {name: found.result() for name, found in tools.items()},
            }
        )


def tool_command(arguments: list[str]) -> None:
    """`tool PROGRAM`: its path, version and SHA-256, each null when unknown."""
    processes.become_subreaper()
    found = tool(arguments[0])
    # One that knows no such option may have begun its work, which must not go on beside a trial.
    processes.end(lambda: processes.descendants(os.getpid()))
    wire.emit(found)


def tool(program: str) -> dict[str, Any]:
    called = shutil.which(program)
    if called is None:
        return {"path": None, "version": None, "sha256": None}
    path = os.path.realpath(called)
    name, sha256 = os.path.basename(path), _sha256(path)
    ways = _VERSION_ARGUMENTS_OF.get(name, _VERSION_ARGUMENTS)
    # Called by the name given: one file may be many programs, as busybox and Debian's pgbench are.
    versions = (_first_line_of([called, *arguments], _STATUS_OF.get(name, 0)) for arguments in ways)
    return {"path": path, "version": next(filter(None, versions), None) or _built(path, sha256), "sha256": sha256}


def digests(paths: list[str]) -> None:
    """`digests PATH …`: the SHA-256 of each file by its path, null if it cannot be read."""
    wire.emit({path: _sha256(path) for path in paths})


def _built(path: str, sha256: str | None) -> str | None:
    """The version of a program that was built here. Its builder wrote it beside the file, with the file's SHA-256."""
    beside = _text(os.path.join(os.path.dirname(os.path.dirname(path)), "tool.json"))
    try:
        built = json.loads(beside or "null")
    except ValueError:
        return None
    known = isinstance(built, dict) and sha256 is not None and built.get("sha256") == sha256
    return str(built["version"]) if known and built.get("version") else None


def path_info(arguments: list[str]) -> None:
    """`path-info PATH`: exists, is_dir, writable, fs_type, mount_point, free_bytes, of PATH or its nearest parent.

    `refusal`: why it is no place for scratch folders; "" if it is one.
    """
    path = os.path.expanduser(arguments[0])
    exists = os.path.lexists(path)
    near = os.path.realpath(path)
    while not os.path.exists(near):
        near = os.path.dirname(near)
    space = os.statvfs(near)
    mount = folders.mount_of(near)
    wire.emit(
        {
            "exists": exists,
            "is_dir": os.path.isdir(path),
            "writable": os.access(near, os.W_OK | os.X_OK if os.path.isdir(near) else os.W_OK),
            "refusal": exposure.refusal(near),
            "fs_type": mount and mount["type"],
            "mount_point": mount and mount["point"],
            "mount_source": mount and mount["source"],
            "free_bytes": space.f_bavail * space.f_frsize,
        }
    )


def _run(argv: list[str], status: int = 0) -> str | None:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == status else None


def _first_line_of(argv: list[str], status: int = 0) -> str | None:
    text = (_run(argv, status) or "").strip()
    return text.splitlines()[0].strip()[:200] if text else None


def _json_of(argv: list[str]) -> Any:
    try:
        return json.loads(_run(argv) or "null")
    except ValueError:
        return None


def _flat(lscpu: Any) -> dict[str, str] | None:
    """`lscpu -J` prints a list of field and data, nested in newer versions; the current clock speed is left out."""
    if not isinstance(lscpu, dict):
        return None
    flat: dict[str, str] = {}
    entries = list(lscpu.get("lscpu", []))
    while entries:
        entry = entries.pop(0)
        name = str(entry.get("field", "")).rstrip(":")
        if entry.get("data") is not None and "scaling MHz" not in name and name != "CPU MHz":
            flat[name] = entry["data"]
        entries = list(entry.get("children", [])) + entries
    return flat


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def _unique(pattern: str) -> list[str] | None:
    """The distinct contents of many files."""
    values = {text for path in glob.glob(pattern) if (text := _text(path)) is not None}
    return sorted(values) or None


def _folder_of_texts(folder: str) -> dict[str, str | None] | None:
    try:
        return {name: _text(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
    except OSError:
        return None


def _turbo() -> bool | None:
    intel = _text("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if intel is not None:
        return intel == "0"
    boost = _text("/sys/devices/system/cpu/cpufreq/boost")
    return None if boost is None else boost == "1"


def _os_release() -> dict[str, str] | None:
    text = _text("/etc/os-release")
    if text is None:
        return None
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: value.strip("\"'") for key, _, value in pairs}


def _cgroup_version() -> int | None:
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return 2
    return 1 if os.path.isdir("/sys/fs/cgroup") and os.listdir("/sys/fs/cgroup") else None


def _queues() -> dict[str, dict[str, str | None]]:
    """The queue settings that decide how a block device performs."""
    names = ("scheduler", "nr_requests", "read_ahead_kb", "rotational", "write_cache", "nomerges", "max_sectors_kb",
             "logical_block_size", "physical_block_size", "io_poll", "wbt_lat_usec", "rq_affinity")  # fmt: skip
    found = {}
    for queue in sorted(glob.glob("/sys/block/*/queue")):
        device = queue.split("/")[3]
        if not device.startswith(("ram", "loop")):
            found[device] = {name: _text(os.path.join(queue, name)) for name in names}
    return found


def _meminfo() -> dict[str, int]:
    """In bytes."""
    lines = (line.split() for line in (_text("/proc/meminfo") or "").splitlines())
    return {f[0].rstrip(":"): int(f[1]) * (1024 if len(f) > 2 else 1) for f in lines}


def _sha256(path: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 18), b""):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()

"""Ending what sessions left on the host and removing their marked folders."""

from __future__ import annotations

import os
import signal
import time

import folders
import lease
import processes
import wire

_SUPERVISOR_S = 60.0  # a supervisor's own end: stop command, grace, cleanup steps
_KINDS = ("runs", "services")


def sweep(arguments: list[str]) -> None:
    """`sweep WORK_DIR SESSION LOCK`: end and remove what other sessions left; SESSION must hold the lock.

    Prints {"ended": [process …], "removed": [folder …], "kept": [why …]}.
    """
    work_dir, session, lock = arguments
    for path, marker in _folders(work_dir, lock):
        if marker["session"] != session:
            stop_daemon(path)
    ended = end_marked(lock, other_than=session)
    removed, kept = [], []
    for path, marker in [*_folders(work_dir, lock), *_session_folders(work_dir, lock)]:
        if marker["session"] == session:
            continue
        try:
            if marker["kind"] == "session":
                removed += remove_scratch(path)
            unmount_below(path)
            folders.remove(path, marker["uuid"])
            removed.append(path)
        except (wire.AgentError, OSError) as error:
            kept.append(str(error))
    wire.emit({"ended": ended, "removed": removed, "kept": kept})


def _folders(work_dir: str, lock: str) -> list[tuple[str, dict]]:
    found = [entry for kind in _KINDS for entry in folders.listing(os.path.join(work_dir, kind))]
    return [(path, marker) for path, marker in found if marker.get("lock") == lock]


def _session_folders(work_dir: str, lock: str) -> list[tuple[str, dict]]:
    found = folders.listing(os.path.join(work_dir, "sessions"))
    return [(path, marker) for path, marker in found if marker.get("lock") == lock]


def end_session(work_dir: str, session: str, lock: str) -> None:
    """End the session's supervisors, then whatever still carries its mark."""
    for path, marker in _folders(work_dir, lock):
        if marker["session"] == session:
            stop_daemon(path)
    end_marked(lock, session=session)


def stop_daemon(folder: str) -> bool:
    """Ask the supervisor of `folder` to end its command, and wait until it has. Whether it is gone."""
    try:
        renewal = lease.Renewal(folder)
    except lease.DaemonGone:
        return True
    try:
        renewal.stop()
        return lease.wait_gone(renewal, _SUPERVISOR_S)
    except lease.DaemonGone:
        return True
    finally:
        renewal.close()


def end_marked(lock: str, session: str | None = None, other_than: str | None = None) -> list[str]:
    """TERM, then KILL every process that carries the mark; their names."""
    found = processes.marked(lock, session=session, other_than=other_than)
    names = [f"{processes.name_of(pid)} ({pid})" for pid in found]
    processes.send(found, signal.SIGTERM)
    patience = time.monotonic() + 3.0
    while found and time.monotonic() < patience + 5.0:
        time.sleep(0.05)
        found = [p for p in processes.marked(lock, session=session, other_than=other_than)]
        if time.monotonic() > patience:
            processes.send(found, signal.SIGKILL)
    return names


def remove_scratch(session_dir: str) -> list[str]:
    """Remove the scratch folders registered in `session_dir`; what is gone or not ours is left alone."""
    marker = folders.marker_of(session_dir)
    removed = []
    register = os.path.join(session_dir, "scratch")
    for name in os.listdir(register) if marker and os.path.isdir(register) else ():
        with open(os.path.join(register, name), encoding="utf-8") as file:
            path = file.read()
        try:
            folders.remove(path, marker["session"])
            removed.append(path)
        except (wire.AgentError, OSError):
            continue  # its mount is gone, or somebody put something else there
    return removed


def unmount_below(folder: str) -> None:
    """Mounts that a killed supervisor left in the folder."""
    import subprocess

    for point in folders.mounts_below(folder):
        for argv in (["fusermount3", "-u", "-z", point], ["umount", "-l", point]):
            try:
                subprocess.run(argv, timeout=10, capture_output=True)
            except (OSError, subprocess.TimeoutExpired):
                continue

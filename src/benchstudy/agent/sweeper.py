"""Ends what sessions left on the host and removes their marked folders."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress

import cgroups
import folders
import lease
import processes
import wire

_KINDS = ("runs", "services", "sessions")
_SUPERVISOR_S = 60.0  # a supervisor's own end: stop command, grace, cleanup steps
_SCRATCH_S = 300.0
_STAYING = ".staying"  # suffix of the folder of an ended session whose scratch folders could not be removed


def sweep(arguments: list[str]) -> None:
    """`sweep WORK_DIR SESSION LOCK`: end and remove what other sessions left; SESSION must hold the lock.

    Prints {"ended": [process …], "removed": [folder …], "kept": [why …]}.
    """
    work_dir, session, lock = arguments
    wire.emit(_clear(work_dir, lock, lambda its_session: its_session != session))


def remove_scratch(arguments: list[str]) -> None:
    """`remove-scratch SESSION_DIR`: remove the session's scratch folders while their mounts are still there.

    Prints {"removed": [folder …]}.
    """
    (session_dir,) = arguments
    removed, _ = _remove_scratch(session_dir)
    wire.emit({"removed": removed})


def end_session(work_dir: str, session: str, lock: str) -> None:
    """End what the session started and remove its folders."""
    _clear(work_dir, lock, lambda its_session: its_session == session)


def _clear(work_dir: str, lock: str, concerned: Callable[[str], bool]) -> dict[str, list[str]]:
    """Supervisors first, since they clean up themselves; then processes that outlived them; then folders."""
    here = folders.host()
    left = [
        (path, marker)
        for kind in _KINDS
        for path, marker in folders.listing(os.path.join(work_dir, kind))
        # With a shared work folder, what another host's sessions have there may be in use.
        if marker["lock"] == lock and marker.get("host", here) == here and concerned(marker["session"])
    ]
    for run in _of_kind(left, "run"):
        stop_daemon(run)
    # Before the services end: one of them may be the mount that holds a scratch folder.
    removed, staying = [], set()
    for session_dir in _of_kind(left, "session"):
        gone, stay = _remove_scratch(session_dir)
        removed += gone
        staying |= {session_dir} if stay else set()
    for service in _of_kind(left, "service"):
        stop_daemon(service)
    own_mark = processes.lock_mark(lock)
    ended = processes.end(
        lambda: processes.marked(
            lambda marks: marks.get("BENCHSTUDY_LOCK") == own_mark and concerned(marks.get("BENCHSTUDY_SESSION", ""))
        )
    )
    kept = []
    for path, marker in left:
        # What used a scratch folder may have ended by now.
        gone, stay = _remove_scratch(path) if path in staying else ([], [])
        removed += gone
        kept += stay
        if stay:  # the next sweep tries again: the session's folder says where they are
            if not path.endswith(_STAYING):
                os.rename(path, path + _STAYING)  # under its own name, the session would count as not ended
            continue
        try:
            _unmount_below(path)
            problem = cgroups.remove_left(path)
            if problem:
                raise wire.AgentError(f"{path!r} is not removed: {problem}")
            folders.remove(path, marker["uuid"])
            removed.append(path)
        except (wire.AgentError, OSError) as error:
            kept.append(str(error))
    for kind in _KINDS:
        removed += folders.remove_unmarked(os.path.join(work_dir, kind))
    return {"ended": ended, "removed": removed, "kept": kept}


def _of_kind(left: list[tuple[str, dict]], kind: str) -> list[str]:
    return [path for path, marker in left if marker["kind"] == kind]


def stop_daemon(folder: str) -> None:
    """Ask the supervisor of `folder` to end its command, and wait for it."""
    with suppress(lease.DaemonGone), closing(lease.Renewal(folder)) as renewal:
        renewal.stop()
        poller = select.poll()
        poller.register(renewal.fd, 0)  # POLLERR, sent when the last reader is gone, is always reported
        poller.poll(_SUPERVISOR_S * 1000)


def _remove_scratch(session_dir: str) -> tuple[list[str], list[str]]:
    """Remove the scratch folders that the session registered. Returns their paths, and why others stay."""
    register = os.path.join(session_dir, "scratch")
    removed, kept = [], []
    for name in os.listdir(register) if os.path.isdir(register) else ():
        path, owner, mount = folders.registered_scratch(os.path.join(register, name))
        if mount and mount not in folders.mount_points() and os.path.isdir(mount):
            kept.append(f"{path!r} is not removed: {mount!r} is not mounted")
            continue
        # In a separate process: on a mount whose server is gone it would hang, and block the host's lock.
        agent = os.path.dirname(os.path.abspath(__file__))
        argv = [sys.executable, "-I", agent, "remove", folders.uuid_of_scratch(path), path, str(owner)]
        try:
            done = subprocess.run(argv, timeout=_SCRATCH_S, capture_output=True)
            answer = json.loads(done.stdout)
            removed += answer.get("removed", [])
            kept += [answer["error"]] if "error" in answer else []
        except (subprocess.TimeoutExpired, ValueError):
            kept.append(f"{path!r} is not removed: its file system does not answer")
    return removed, kept


def _unmount_below(folder: str) -> None:
    """Mounts that a killed supervisor left in the folder."""
    if not os.path.isdir(folder) or os.path.islink(folder):
        return
    for point in folders.mounts_below(folder):
        for argv in (["fusermount3", "-u", "-z", point], ["umount", "-l", point]):
            try:
                subprocess.run(argv, timeout=10, capture_output=True, check=True)
                break
            except (OSError, subprocess.SubprocessError):
                continue

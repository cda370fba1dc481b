"""`run` starts a supervised command and watches it; `watch` resumes watching after a dropped connection.

On stdin: for `run` the specification, then for both any of
    {"beat": N}    a heartbeat: renews the lease, answered with {"beat": N, "wall": seconds since the epoch}
    {"stop": true} end the command now
    {"start_at": T} start the prepared, waiting command at T on this host's clock. A heartbeat with "prepared" asks
                   whether it is prepared; the answer has {"prepared": true or false}
On stdout: the record (see record.py) at once, and again when the command and all its descendants have ended.
The end of stdin ends the watcher only: the supervisor goes on until its lease is over.
"""

from __future__ import annotations

import base64
import os
import select
import time

import cgroups
import folders
import lease
import processes
import record
import wire
from supervisor import Supervisor

UNFINISHED = ("starting", record.PREPARED, "running")
DEFAULTS: dict[str, object] = {
    "label": "command",
    "env": {},
    "secret_env": {},
    "stdin": "",
    "terminal": None,
    "timeout_s": None,
    "max_output_bytes": 16 << 20,
    "lock": "",
    "setup": [],
    "setup_timeout_s": 600.0,
    "stop": None,
    "cleanup": [],
    "cleanup_timeout_s": 30.0,
    "grace_s": 5.0,
    "limits": None,
    "cpu_list": None,
    "open_files": None,
    "readings": False,  # of what else the host does while the command runs
    "together": False,  # once prepared, it waits for the instant to begin
}


def run(arguments: list[str]) -> None:
    """`run RUN_DIR`. If the folder exists, the command was started before, and this only watches."""
    (folder,) = arguments
    lines = wire.Lines()
    spec = wire.read_spec(lines)
    spec["lock"] = processes.lock_path(spec["lock"])
    try:
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        folders.create(folder, spec["uuid"], spec["session"], "run", spec["lock"])
    except FileExistsError:
        pass  # the connection was lost after the start: resume watching
    else:
        start(folder, spec)
    _watch(folder, lines)


def watch(arguments: list[str]) -> None:
    """`watch RUN_DIR`"""
    _watch(arguments[0], wire.Lines())


def start(folder: str, given: dict) -> None:
    """Start a supervisor in the marked folder `folder`, by a specification that the controller sent."""
    spec = {**DEFAULTS, **given}
    spec["stdin"] = base64.b64decode(spec["stdin"])
    spec.setdefault("shown_argv", spec["argv"])
    spec.setdefault("shown_env", spec["env"])
    os.makedirs(os.path.join(folder, "files"), exist_ok=True)
    held = lease.Lease(folder, spec["lease_s"])
    first = record.Record(folder, spec)
    first.reserve()
    first.save(durable=False)
    if processes.daemonise(keep=(held.fd,)):
        try:
            Supervisor(folder, spec, held).supervise()
            os.unlink(os.path.join(folder, lease.FIFO))
        finally:
            os._exit(0)
    held.close()


def _watch(folder: str, lines: wire.Lines) -> None:
    renewal = attach(folder)
    if renewal is None:
        wire.emit(last_word(folder))
        return
    content = record.read(folder) or {"state": "starting"}
    if content["state"] in UNFINISHED:  # the record is final only when the supervisor is gone
        wire.emit(content)
    serve(renewal, lines, folder)
    if not lines.ended:
        wire.emit(last_word(folder))


def attach(folder: str) -> lease.Renewal | None:
    """A connection to the supervisor of `folder`; None when it is gone."""
    patience = time.monotonic() + 2.0
    while True:
        try:
            return lease.Renewal(folder)
        except lease.DaemonGone:
            # The folder appears a moment before its daemon.
            young = os.path.isdir(folder) and not os.path.lexists(os.path.join(folder, lease.FIFO))
            if not young or record.read(folder) is not None or time.monotonic() > patience:
                return None
            time.sleep(0.01)


def daemon_is_gone(folder: str) -> bool:
    renewal = attach(folder)
    if renewal is not None:
        renewal.close()
    return renewal is None


def serve(renewal: lease.Renewal, lines: wire.Lines, folder: str = "") -> None:
    """Pass heartbeats on until the daemon of `folder` is gone or the controller is."""
    poller = select.poll()
    poller.register(lines.fd, select.POLLIN)
    poller.register(renewal.fd, 0)  # POLLERR, sent when the last reader is gone, is always reported
    try:
        while not lines.ended:
            ready = dict(poller.poll(0 if lines.waiting else None))
            if renewal.fd in ready:
                return
            for line in lines.available():
                message = wire.message(line)
                if message.get("stop"):
                    renewal.stop()
                elif "start_at" in message:
                    renewal.start(message["start_at"])
                else:
                    renewal.beat()
                    wire.emit({**_answer(message, folder), "wall": time.time()})
    except lease.DaemonGone:
        return


def _answer(message: dict, folder: str) -> dict:
    asked = {"beat": message.get("beat")}
    if message.get("prepared"):
        asked["prepared"] = (record.read(folder) or {}).get("state") == record.PREPARED
    return asked


def clock(arguments: list[str]) -> None:
    """`clock`: only answer heartbeats, which tells the time."""
    lines = wire.Lines()
    while (line := lines.next()) is not None:
        wire.emit({"beat": wire.message(line).get("beat"), "wall": time.time()})


def last_word(folder: str) -> dict:
    """The record of a command whose supervisor is gone."""
    content = record.read(folder)
    if content is None:
        return {"state": "absent", "cause": f"{folder} holds no record of a run", "cause_kind": record.LOST}
    if content["state"] in UNFINISHED:
        rebooted = content.get("boot_id") != record.boot_id()
        kind = record.HOST_RESTARTED if rebooted else record.LOST
        cause = "the host was rebooted" if rebooted else "the supervisor was killed on the host"
        # What the supervisor would have ended must not run beside the next trial.
        ended = processes.end(lambda: processes.marked(lambda marks: marks["BENCHSTUDY_RUN"] == content.get("uuid")))
        cgroups.remove_left(folder)
        content.update(state="lost", cause=cause, cause_kind=kind, survivors=ended)
    return content

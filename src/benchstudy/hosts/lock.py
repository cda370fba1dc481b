"""The host's lock, as the controller holds it: a keeper on the host, and a thread here that keeps its lease alive."""

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from benchstudy.hosts.errors import HostBusy, HostRefused, LockLost, understood
from benchstudy.hosts.heartbeats import Heartbeats
from benchstudy.hosts.interrupts import interruptible
from benchstudy.hosts.line import AgentLine
from benchstudy.hosts.remote import ConnectionFailed, ConnectionLost, RemoteProcess
from benchstudy.model.causes import Cause

_HOLD_S = 30.0
_RELEASE_S = 120.0


class HostLock:
    """Reserves the host for one session for the duration of the `with` block; a thread sends heartbeats.

    Entering raises HostBusy when a live controller holds the host. It waits for the lease of a silent one to expire.
    """

    def __init__(self, agent: AgentLine, session: str, owner: Mapping[str, Any]):
        self.session, self._agent = session, agent
        # Truncated, because all of it must fit into the lock file.
        self._owner = {key: str(value)[:200] for key, value in owner.items()}
        self.folder = f"{agent.work_dir}/sessions/{session}"
        self._ending = threading.Event()
        self._hurry = threading.Event()
        self._beats = Heartbeats()
        self._answered, self._answer = threading.Condition(), 0  # the number of the last heartbeat that was
        self._heard = time.monotonic()
        self._problem: Exception | None = None
        self._boot_id: str | None = None
        self._process: RemoteProcess | None = None
        self._generation = agent.generation
        self._thread = threading.Thread(target=self._keep, name=f"lock of {agent.remote.name}", daemon=True)

    def __enter__(self) -> "HostLock":
        spec = {
            "session": self.session,
            "owner": self._owner,
            "lease_s": self._agent.lease_s,
            "beat_s": self._agent.beat_s,
            "lock": self._agent.lock_path,
        }
        self._generation = self._agent.generation
        self._process = keeper = self._agent.remote.open(self._agent.argv("lock", self.folder))
        try:
            keeper.write_line(json.dumps(spec).encode())
            self._acquire(keeper)
        except BaseException:
            keeper.close()
            raise
        self._heard = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Release: ends and removes what the session left on the host, then releases the lock."""
        self._ending.set()
        self._hurry.set()
        self._thread.join(5.0 if self._agent.is_reconnecting else self._agent.lease_s)
        # Not while the thread is still restoring a lost connection: the lease has the same effect there.
        if self._problem is None and not self._thread.is_alive():
            try:
                self._agent.retrying(self._release)
            except (ConnectionLost, ConnectionFailed) as error:
                self._problem = error
        if self._process is not None:
            self._process.close()
        if isinstance(self._problem, LockLost) and self._problem.cause is Cause.LOST:
            with suppress(ConnectionLost, ConnectionFailed, HostRefused):
                self._agent.call("end-session", self.folder, timeout_s=600.0)

    def check(self) -> None:
        """Raise LockLost if we no longer hold the host."""
        if self._problem is not None:
            cause = self._problem.cause if isinstance(self._problem, LockLost) else Cause.CONNECTION
            raise LockLost(f"{self._agent.remote.name}: the lock was lost: {self._problem}", cause) from self._problem

    def confirm(self) -> None:
        """Ask the keeper now. Raises LockLost if we no longer hold the host."""
        deadline = time.monotonic() + self._agent.lease_s
        with self._answered:
            wanted = self._beats.last + 1
            while self._answer < wanted and self._problem is None and time.monotonic() < deadline:
                self._hurry.set()
                with interruptible():
                    self._answered.wait(0.1)
            if self._answer < wanted and self._problem is None:
                # Even if an earlier question was answered late, after this one was put.
                self._problem = self._expired(self._agent.lease_s)
        self.check()

    def _acquire(self, keeper: RemoteProcess) -> None:
        host = self._agent.remote.name
        while (message := self._read(keeper, None)) is not None:
            with understood(host):
                if message["state"] == "held":
                    self._agent.lock_path, self._boot_id = message["lock"], message["boot_id"]
                    return
                who = _described(message["owner"])
                if message["state"] == "busy":
                    why = f" ({message['why']})" if "why" in message else ""
                    raise HostBusy(f"{host} is in use by {who}{why}; try again when it has ended", message["owner"])
                if message["state"] == "waiting":
                    left_s = message["seconds_left"]
                    said = f"{who} is silent; waiting for its lease to expire, at most {left_s:.0f} s"
                    self._agent.on_event(f"{host}: {said}")

    def _read(self, keeper: RemoteProcess, timeout_s: float | None) -> dict | None:
        """The keeper's next message; None when none comes for `timeout_s`."""
        line = keeper.read_line(timeout_s)
        return None if line is None else self._agent.message(line)

    def _keep(self) -> None:
        try:
            while not self._ending.is_set():
                self._agent.retrying(self._beat)
                self._hurry.wait(self._agent.beat_s)
                self._hurry.clear()
        except Exception as error:  # any error: one that ended this thread would go unnoticed
            self._problem = error
            self._agent.on_event(f"{self._agent.remote.name}: the lock was lost: {error}")
            with self._answered:
                self._answered.notify_all()

    def _attached(self) -> RemoteProcess:
        """The keeper; over a new connection if the previous one is gone."""
        if self._process is not None and self._generation == self._agent.generation:
            return self._process
        generation = self._agent.generation
        self._process = keeper = self._agent.remote.open(self._agent.argv("hold", self.folder))
        answer = self._read(keeper, _HOLD_S)
        if answer is None:
            raise ConnectionLost(f"{self._agent.remote.name}: its agent did not answer for {_HOLD_S:g} s")
        if answer.get("state") != "held":
            raise self._lost(answer)
        self._generation = generation
        return keeper

    def _beat(self) -> None:
        try:
            self._ask()
        except ConnectionLost:
            if not self._ending.is_set():  # the session's end closes the keeper
                raise

    def _ask(self) -> None:
        keeper = self._attached()
        keeper.write_line(self._beats.question())
        # Without an answer, it is asked again: a dead line raises ConnectionLost by itself.
        while self._answer < self._beats.last and (message := self._read(keeper, self._agent.lease_s)) is not None:
            if "beat" not in message:
                raise self._lost(message)
            self._heard = time.monotonic()
            self._agent.note_clock(self._beats, message)
            with self._answered:
                self._answer = message["beat"]
                self._answered.notify_all()

    def _lost(self, answer: Mapping[str, Any]) -> LockLost:
        """The reason, from the host's last answer and the time since then."""
        silent_s = time.monotonic() - self._heard
        if answer.get("boot_id", self._boot_id) != self._boot_id:
            return LockLost("the host was restarted", Cause.HOST_RESTARTED)
        if silent_s > self._agent.lease_s:
            return self._expired(silent_s)
        return LockLost("its keeper on the host is gone; was it killed, or was the lock file removed?", Cause.LOST)

    def _expired(self, silent_s: float) -> LockLost:
        heard = f"the host heard nothing from here for {silent_s:.0f} s, and the lease is {self._agent.lease_s:g} s"
        return LockLost(f"lease expired: {heard}", Cause.LEASE_EXPIRED)

    def _release(self) -> None:
        keeper = self._attached()
        keeper.write_line(b'{"stop": true}')
        deadline = time.monotonic() + _RELEASE_S
        while (left_s := deadline - time.monotonic()) > 0:
            message = self._read(keeper, left_s)
            if message is not None and message.get("state") == "left":
                raise self._lost(message)
            if message is None or message.get("state") == "released":
                keeper.wait(2.0)
                return


def _described(owner: Mapping[str, Any]) -> str:
    """The owner in a sentence. The texts come from a file that others may write, so only what is printable is kept."""
    text = ", ".join(f"{key} {value}" for key, value in owner.items())
    return "".join(c for c in text if c.isprintable())[:500] or "an unknown process"

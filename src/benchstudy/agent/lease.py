"""The heartbeat lease between a daemon of ours and whoever speaks for the controller.

It is a FIFO in the daemon's folder. The daemon holds it open for reading; each heartbeat is a byte written into it.
So nothing has to poll: the daemon sleeps until a byte comes or the monotonic clock says the lease is over (a step of
the wall clock changes nothing), and the other side, which holds the writing end, is told by the kernel (POLLERR) in
the moment the daemon is gone, however it went.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

FIFO = ".lease"
_BEAT, _STOP = b".", b"S"


class Lease:
    """The daemon's side: created in `folder`, expires `lease_s` seconds after the last heartbeat."""

    def __init__(self, folder: str, lease_s: float):
        path = os.path.join(folder, FIFO)
        os.mkfifo(path, 0o600)
        # Read and write: with a writer of its own the reader never sees end of file between two heartbeats.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.lease_s = lease_s
        self.stop_asked = False
        self.beats = 0
        self.renew()

    def renew(self) -> None:
        self.beats += 1
        self.last_beat = time.monotonic()

    @property
    def remaining_s(self) -> float:
        return self.last_beat + self.lease_s - time.monotonic()

    def read(self) -> None:
        """Take in what came; call it when poll() says that `fd` is readable."""
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return
        self.renew()
        self.stop_asked = self.stop_asked or _STOP in data

    def close(self) -> None:
        os.close(self.fd)


class DaemonGone(Exception):
    """No daemon holds this folder's lease (any more)."""


class Renewal:
    """The other side: heartbeats into the lease of the daemon in `folder`. Raises DaemonGone when there is none."""

    def __init__(self, folder: str):
        path = os.path.join(folder, FIFO)
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                raise DaemonGone(folder) from error
            raise
        if not stat.S_ISFIFO(os.fstat(self.fd).st_mode):
            os.close(self.fd)
            raise DaemonGone(folder)

    def beat(self) -> None:
        self._write(_BEAT)

    def stop(self) -> None:
        self._write(_STOP)

    def _write(self, data: bytes) -> None:
        try:
            os.write(self.fd, data)
        except BlockingIOError:
            return  # thousands of unread heartbeats renew as well as one more
        except BrokenPipeError as error:
            raise DaemonGone from error

    def close(self) -> None:
        os.close(self.fd)


def beat_once(folder: str) -> bool:
    """Renew the lease of the daemon in `folder`. Whether there is one."""
    try:
        renewal = Renewal(folder)
    except DaemonGone:
        return False
    try:
        renewal.beat()
    except DaemonGone:
        return False
    finally:
        renewal.close()
    return True


def wait_gone(renewal: Renewal, timeout_s: float) -> bool:
    """Whether the daemon ended within `timeout_s`."""
    poller = select.poll()
    poller.register(renewal.fd, 0)
    return bool(poller.poll(max(0, timeout_s) * 1000))

"""The heartbeat lease between a daemon of ours and whoever speaks for the controller.

It is a FIFO in the daemon's folder. The daemon holds it open for reading; each heartbeat is a byte written into it.
So nothing has to poll. The daemon sleeps until a byte comes or the monotonic clock says that the lease is over, which
a step of the wall clock does not change. The kernel tells the other side, which holds the writing end, as soon as the
daemon is gone for whatever reason (POLLERR).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import closing, suppress

FIFO = ".lease"
_BEAT, _STOP = b".", b"S"
_START = re.compile(rb"@(\d+\.\d+);")


class Lease:
    """The daemon's side: created in `folder`, expires `lease_s` seconds after the last heartbeat."""

    def __init__(self, folder: str, lease_s: float):
        path = os.path.join(folder, FIFO)
        os.mkfifo(path, 0o600)
        # Read and write: with its own writer the reader never sees end of file between heartbeats.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.lease_s = lease_s
        self.stop_asked = False
        self.start_at: float | None = None  # the instant that a command waits for, on this host's wall clock
        self.beats = 0
        self.renew()

    def renew(self) -> None:
        self.beats += 1
        self.last_beat = time.monotonic()

    @property
    def remaining_s(self) -> float:
        return self.last_beat + self.lease_s - time.monotonic()

    def read(self) -> None:
        """Take in what arrived. Call it when poll() says that `fd` is readable."""
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return
        self.renew()
        self.stop_asked = self.stop_asked or _STOP in data
        start = _START.search(data)
        if start:
            self.start_at = float(start[1])

    def close(self) -> None:
        os.close(self.fd)


class DaemonGone(Exception):
    """No daemon holds this folder's lease, or none does any more."""


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

    def start(self, at: float) -> None:
        self._write(b"@%.6f;" % at)

    def _write(self, data: bytes) -> None:
        try:
            os.write(self.fd, data)
        except BlockingIOError:
            return  # thousands of heartbeats are unread, so one more would change nothing
        except BrokenPipeError as error:
            raise DaemonGone from error

    def close(self) -> None:
        os.close(self.fd)


def beat_once(folder: str) -> None:
    """Renew the lease of the daemon in `folder`, if there is one."""
    with suppress(DaemonGone), closing(Renewal(folder)) as renewal:
        renewal.beat()

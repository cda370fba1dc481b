"""The transport below a connection to a host. Part of the SSH door.

There are two: paramiko's own, through what it documents, and the quick one of `ssh_quick`, which needs names that
paramiko may change at any time. Where one of these is gone or of another shape, paramiko's own does the work, slower.
"""

import logging
import socket
from functools import cache

import paramiko

from benchstudy.hosts.ssh_stock import StockTransport

log = logging.getLogger("benchstudy")

try:
    from benchstudy.hosts import ssh_quick
except ImportError as error:
    _why_not_quick: str | None = str(error)
else:
    _why_not_quick = None


def new_transport(sock: socket.socket | paramiko.Channel) -> StockTransport:
    """A transport over a connected socket, or over a channel through a jump host; the handshake is the caller's."""
    missing = _why_not_quick or ssh_quick.what_is_missing()
    if missing is None:
        return ssh_quick.QuickTransport(sock)
    _warn_once(missing)
    return StockTransport(sock)


@cache
def _warn_once(missing: str) -> None:
    log.warning("paramiko %s is not as expected (%s): files come from hosts slower", paramiko.__version__, missing)

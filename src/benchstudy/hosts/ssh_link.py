"""An authenticated SSH connection, hop by hop, as the user's own ssh would make it.

Part of the SSH door (`remote.py`); nothing outside these modules imports paramiko. The client configuration and
known_hosts are read by OpenSSH itself (ssh_config.py, host_keys.py), so that Include, Match, patterns, hashed names and
revoked keys mean here exactly what they mean on the command line.
"""

import logging
import socket
import subprocess
import time

from benchstudy.hosts.host_keys import check_host_key, pinned_keys, prefer_key_types
from benchstudy.hosts.lean_paramiko import paramiko
from benchstudy.hosts.ssh_config import Endpoint, route
from benchstudy.hosts.ssh_errors import ConnectionFailed, Unreachable, why
from benchstudy.hosts.ssh_transport import SILENCE_LIMIT_S, Transport
from benchstudy.hosts.user_keys import authenticate

# Every failure reaches the user as one of our errors; paramiko's own tracebacks would only repeat it.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class Link:
    """An authenticated connection to the last endpoint of a route, and the hops below it."""

    def __init__(self, name: str, endpoint: Endpoint, timeout_s: float):
        self.endpoint = endpoint
        self._transports: list[Transport] = []
        self._proxy: subprocess.Popen | None = None
        deadline = time.monotonic() + timeout_s
        try:
            for hop in route(endpoint):
                try:
                    self._add_hop(name, hop, deadline)
                except ConnectionFailed as error:
                    if not hop.not_followed:
                        raise
                    settings = ", ".join(hop.not_followed)
                    raise type(error)(
                        f"{error}\nThese settings of your ssh configuration are not supported here: {settings}"
                    ) from error
        except BaseException:
            self.close()
            raise

    @property
    def transport(self) -> Transport:
        return self._transports[-1]

    @property
    def alive(self) -> bool:
        return bool(self._transports) and all(transport.usable for transport in self._transports)

    def close(self) -> None:
        for transport in reversed(self._transports):
            transport.close()
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
            self._proxy = None

    def _run_proxy_command(self, command: str) -> socket.socket:
        """Uses the user's ProxyCommand as the connection, in a shell as with ssh. It ends when its input does."""
        ours, its = socket.socketpair()
        with its:
            self._proxy = subprocess.Popen(
                ["sh", "-c", f"exec {command}"], stdin=its.fileno(), stdout=its.fileno(), start_new_session=True
            )
        return ours

    def _add_hop(self, name: str, hop: Endpoint, deadline: float) -> None:
        where = name if hop is self.endpoint else f"{name}, jump host {hop.hostname}"
        # Pinned keys are read before connecting, so that the host is asked for their type.
        pinned = pinned_keys(hop)
        transport = Transport(self._socket(where, hop, deadline))
        self._transports.append(transport)
        begun = time.monotonic()
        left_s = max(0.1, deadline - begun)
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = left_s
        transport.allow(hop.algorithms)
        prefer_key_types(transport, pinned, hop.algorithms.get("key_types"))
        try:
            transport.start_client(timeout=left_s)
            shown_key = transport.get_remote_server_key()  # raises if time ran out without a key
        except (paramiko.SSHException, EOFError, OSError) as error:
            cause = f"it was silent for {left_s:.0f} s" if time.monotonic() >= begun + left_s else why(error)
            raise Unreachable(f"{where}: {hop} answers, but not as an SSH server should: {cause}") from error
        check_host_key(where, hop, shown_key, pinned)
        authenticate(where, hop, transport)
        transport.watch_for_silence()

    def _socket(self, where: str, hop: Endpoint, deadline: float):
        left_s = max(0.1, deadline - time.monotonic())
        if self._transports:
            try:
                return self.transport.open_channel(
                    "direct-tcpip", (hop.hostname, hop.port), ("127.0.0.1", 0), timeout=left_s
                )
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise Unreachable(f"{where}: {hop} cannot be reached from the jump host: {why(error)}") from error
        if hop.proxy_command:
            return self._run_proxy_command(hop.proxy_command)
        try:
            source = (hop.bind_address, 0) if hop.bind_address else None
            sock = socket.create_connection((hop.hostname, hop.port), timeout=left_s, source_address=source)
        except socket.gaierror as error:
            wrong = "the host's `address` in the study" if hop is self.endpoint else "the name in the host's ProxyJump"
            raise Unreachable(
                f"{where}: no address is known for {hop.hostname!r} ({why(error)}): fix {wrong}, or add the name to "
                "~/.ssh/config"
            ) from error
        except OSError as error:
            bound = f", from BindAddress {hop.bind_address}" if hop.bind_address else ""
            raise Unreachable(
                f"{where}: nothing answers at {hop.hostname} port {hop.port}{bound}: {why(error)}; check that it is "
                "up, and its address and port"
            ) from error
        # Without this, every command waits about 45 ms for a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Data not acknowledged for this long means a dead path; the kernel's default is 15 minutes.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_LIMIT_S * 1000))
        return sock

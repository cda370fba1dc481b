"""An authenticated SSH connection, hop by hop, as the user's own ssh would make it.

Part of the SSH door (`remote.py`); nothing outside these modules imports paramiko. The client configuration and
known_hosts are read by OpenSSH itself (`ssh -G`, `ssh-keygen -F`), so that Include, Match, patterns, hashed names and
revoked keys mean here exactly what they mean on the command line.
"""

import base64
import logging
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import paramiko

from benchstudy.hosts.ssh_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    HostKeyChanged,
    HostKeyUnknown,
    Unreachable,
)
from benchstudy.hosts.ssh_transport import SILENCE_LIMIT_S, Transport
from benchstudy.model.host import Host

# Every failure reaches the user as one of the errors below; paramiko's own tracebacks would only repeat it.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

# OpenSSH's MaxAuthTries: one more key and the server hangs up, which looks like a network fault.
MOST_KEYS_TRIED = 6


@dataclass(frozen=True)
class Endpoint:
    """One hop: where to connect and whom to expect there, after ~/.ssh/config was applied."""

    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    known_hosts: tuple[Path, ...]
    host_key_alias: str | None
    proxy_jump: tuple[str, ...]
    proxy_command: str | None

    @property
    def key_name(self) -> str:
        """What the host is called in known_hosts."""
        if self.host_key_alias:
            return self.host_key_alias
        return self.hostname if self.port == 22 else f"[{self.hostname}]:{self.port}"

    def __str__(self) -> str:
        return f"{self.user}@{self.hostname}:{self.port}"


def resolve(name: str, host: Host) -> Endpoint:
    """The endpoint of a study's host. What the study leaves out comes from ~/.ssh/config.

    Raises:
        ConnectionFailed: the configuration cannot be read, or there is no ssh program here.
    """
    options: list[str] = []
    if host.port is not None:
        options += ["-p", str(host.port)]
    if host.user is not None:
        options += ["-l", host.user]
    endpoint = _ask_ssh(host.address or name, options)
    if host.identity_file is not None:
        # A key that the study names is the only one meant: others might open another account.
        key = Path(host.identity_file).expanduser()
        if not key.is_file():
            raise ConnectionFailed(f"{name}: identity_file {key} does not exist")
        endpoint = replace(endpoint, identity_files=(key,), identities_only=True)
    if host.known_hosts is not None:
        endpoint = replace(endpoint, known_hosts=(Path(host.known_hosts).expanduser(),))
    return endpoint


def route(endpoint: Endpoint) -> list[Endpoint]:
    """The hops to an endpoint in the order of connecting, itself last."""
    return [*_jumps(endpoint.proxy_jump, depth=0), endpoint]


def _jumps(jumps: tuple[str, ...], depth: int) -> list[Endpoint]:
    if depth > 8:
        raise ConnectionFailed(f"ProxyJump {','.join(jumps)}: the hosts jump over each other in a circle")
    hops: list[Endpoint] = []
    for jump in jumps:
        target = urlsplit(jump if jump.startswith("ssh://") else f"ssh://{jump}")
        options = ["-p", str(target.port)] if target.port else []
        options += ["-l", unquote(target.username)] if target.username else []
        hop = _ask_ssh(target.hostname or jump, options)
        # As with ssh: the first hop may itself lie behind others; the way to the next ones was just given.
        hops += [*_jumps(hop.proxy_jump, depth + 1), hop] if not hops else [hop]
    return hops


def _ask_ssh(destination: str, options: list[str]) -> Endpoint:
    """What ssh would do for this destination."""
    config = Path.home() / ".ssh" / "config"
    # ssh takes the home from the user database; like other tools we follow $HOME where that says otherwise.
    if config.is_file() and Path.home() != Path(pwd.getpwuid(os.getuid()).pw_dir):
        options = ["-F", str(config), *options]
    answer = _run_openssh(["ssh", "-G", *options, "--", destination])
    if answer.returncode:
        raise ConnectionFailed(f"{destination}: ssh cannot read its configuration: {answer.stderr.strip()}")
    settings: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key, []).append(value)

    def one(key: str) -> str | None:
        value = settings.get(key, ["none"])[0]
        return None if value == "none" else value

    def paths(key: str) -> tuple[Path, ...]:
        return tuple(Path(value).expanduser() for value in settings.get(key, []) if value != "none")

    # The two lists of files come in one line each, without quotes.
    known_hosts = " ".join(one(key) or "" for key in ("userknownhostsfile", "globalknownhostsfile"))
    return Endpoint(
        hostname=settings["hostname"][0],
        port=int(settings["port"][0]),
        user=settings["user"][0],
        identity_files=paths("identityfile"),
        identities_only=one("identitiesonly") == "yes",
        known_hosts=tuple(Path(file).expanduser() for file in known_hosts.split()),
        host_key_alias=one("hostkeyalias"),
        proxy_jump=tuple((one("proxyjump") or "").split(",")) if one("proxyjump") else (),
        proxy_command=one("proxycommand"),
    )


def _run_openssh(argv: list[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(argv[0]) is None:
        raise ConnectionFailed(f"there is no `{argv[0]}` program on this machine: install the package openssh-client")
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


class Link:
    """An authenticated connection to the last endpoint of a route, and the hops below it."""

    def __init__(self, name: str, endpoint: Endpoint, timeout_s: float):
        self.endpoint = endpoint
        self._transports: list[Transport] = []
        self._proxy: subprocess.Popen | None = None
        deadline = time.monotonic() + timeout_s
        try:
            for hop in route(endpoint):
                self._add_hop(name, hop, deadline)
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
        self._transports.clear()
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
            self._proxy = None

    def _run_proxy_command(self, hop: Endpoint, command: str) -> socket.socket:
        """The user's own command as the connection, in a shell as with ssh; it ends when its input does."""
        tokens = {"%h": hop.hostname, "%p": str(hop.port), "%r": hop.user, "%%": "%"}
        command = re.sub("%[hpr%]", lambda token: tokens[token[0]], command)
        ours, its = socket.socketpair()
        with its:
            self._proxy = subprocess.Popen(
                ["sh", "-c", f"exec {command}"], stdin=its.fileno(), stdout=its.fileno(), start_new_session=True
            )
        return ours

    def _add_hop(self, name: str, hop: Endpoint, deadline: float) -> None:
        where = name if hop is self.endpoint else f"{name}, jump host {hop.hostname}"
        # What is pinned is read before connecting, so that the host is asked for that type of key.
        pinned = pinned_keys(hop)
        transport = Transport(self._socket(where, hop, deadline))
        self._transports.append(transport)
        left_s = max(0.1, deadline - time.monotonic())
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = left_s
        prefer_key_types(transport, pinned)
        try:
            transport.start_client(timeout=left_s)
            shown_key = transport.get_remote_server_key()  # an error if the time was over without one
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise Unreachable(f"{where}: {hop} answers, but not as an SSH server should: {_why(error)}") from error
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
                raise Unreachable(f"{where}: {hop} cannot be reached from the jump host: {_why(error)}") from error
        if hop.proxy_command:
            return self._run_proxy_command(hop, hop.proxy_command)
        try:
            sock = socket.create_connection((hop.hostname, hop.port), timeout=left_s)
        except socket.gaierror as error:
            raise Unreachable(
                f"{where}: no address is known for {hop.hostname!r} ({_why(error)}): mend the host's `address` in the "
                "study, or add the name to ~/.ssh/config"
            ) from error
        except OSError as error:
            raise Unreachable(f"{where}: nothing answers at {hop.hostname} port {hop.port}: {_why(error)}") from error
        # Without this every command waits ~45 ms for a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Data that is not acknowledged for this long means a dead path; the kernel's default is 15 minutes.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_LIMIT_S * 1000))
        return sock


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__


def pinned_keys(endpoint: Endpoint) -> list[tuple[str, paramiko.PKey]]:
    """(marker, key) of each line of known_hosts about this endpoint; the marker is "" or "@revoked"."""
    pinned = []
    for file in endpoint.known_hosts:
        if not file.is_file():
            continue
        for line in _run_openssh(["ssh-keygen", "-F", endpoint.key_name, "-f", str(file)]).stdout.splitlines():
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            marker = fields.pop(0) if fields[0].startswith("@") else ""
            # A certificate authority vouches for host certificates, which paramiko cannot check.
            if marker != "@cert-authority" and len(fields) >= 3:
                key_type, blob = fields[1], base64.b64decode(fields[2])
                try:
                    pinned.append((marker, paramiko.PKey.from_type_string(key_type, blob)))
                except paramiko.SSHException:
                    continue  # a type that paramiko does not speak, so neither will the host be asked for it
    return pinned


def prefer_key_types(transport: Transport, pinned: list[tuple[str, paramiko.PKey]]) -> None:
    """Ask for a pinned type of key first, or a host with several keys would look unknown."""
    types = {key.get_name() for marker, key in pinned if not marker}
    if "ssh-rsa" in types:
        types |= {"rsa-sha2-512", "rsa-sha2-256"}
    options = transport.get_security_options()
    options.key_types = sorted(options.key_types, key=lambda name: name not in types)


def check_host_key(where: str, endpoint: Endpoint, key: paramiko.PKey, pinned: list[tuple[str, paramiko.PKey]]) -> None:
    """Raises HostKeyUnknown or HostKeyChanged unless this very key is pinned."""
    line = f"{endpoint.key_name} {key.get_name()} {key.get_base64()}"
    files = [str(file) for file in endpoint.known_hosts]
    if any(marker == "@revoked" and key == other for marker, other in pinned):
        raise HostKeyChanged(
            f"{where}: the key of {endpoint.key_name} ({key.fingerprint}) is marked @revoked in {files}"
        )
    valid = [other for marker, other in pinned if not marker]
    if key in valid:
        return
    if not valid:
        file = files[0] if files else "~/.ssh/known_hosts"
        raise HostKeyUnknown(
            f"{where}: the key of {endpoint.key_name} is not pinned; nothing was sent to it. Its fingerprint is\n"
            f"  {key.fingerprint} ({key.get_name()})\n"
            "If that is what `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` says on the host itself, pin it with\n"
            f"  echo {shlex.quote(line)} >> {shlex.quote(file)}"
        )
    expected = ", ".join(f"{other.fingerprint} ({other.get_name()})" for other in valid)
    raise HostKeyChanged(
        f"{where}: the key of {endpoint.key_name} is not the pinned one: somebody may be in between, or the host was "
        f"installed anew. Nothing was sent to it.\n  pinned: {expected}\n"
        f"  shown:  {key.fingerprint} ({key.get_name()})\n"
        f"Only if the change is explained: ssh-keygen -R {shlex.quote(endpoint.key_name)} -f {shlex.quote(files[0])}, "
        f"then pin the new one with\n  echo {shlex.quote(line)} >> {shlex.quote(files[0])}"
    )


def authenticate(where: str, endpoint: Endpoint, transport: Transport) -> None:
    """Tries each key once. Raises AuthenticationFailed that lists what was tried."""
    tried: list[str] = []
    for label, key in _candidate_keys(endpoint, tried):
        if sum("refused" in attempt for attempt in tried) == MOST_KEYS_TRIED:
            tried.append("further keys not tried: name the right one with identity_file")
            break
        try:
            transport.auth_publickey(endpoint.user, key)
            return
        except paramiko.BadAuthenticationType as error:
            raise AuthenticationFailed(
                f"{where}: {endpoint} takes no keys, only {', '.join(error.allowed_types)}; benchstudy uses keys only"
            ) from error
        except paramiko.AuthenticationException as error:
            tried.append(f"{label}: refused ({error})")
        except (paramiko.SSHException, EOFError, OSError) as error:
            tried.append(f"{label}: the host hung up ({_why(error)})")
            break
        if not transport.is_active():
            break
    raise AuthenticationFailed(
        f"{where}: {endpoint} accepts none of these keys for the user {endpoint.user!r}: "
        f"{'; '.join(tried) or 'there is no key'}. Put the public key into that user's ~/.ssh/authorized_keys, or "
        "name the right user or identity_file"
    )


def _candidate_keys(endpoint: Endpoint, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys as ssh would try them: those in the agent first, then files. Unusable files are noted in `tried`."""
    files = [file for file in endpoint.identity_files if file.is_file()]
    wanted = {blob for file in files if (blob := _public_blob(file)) is not None}
    offered = set()
    for key in _agent_keys():
        if not endpoint.identities_only or key.asbytes() in wanted:
            offered.add(key.asbytes())
            yield f"agent key {key.fingerprint}", key
    for file in files:
        if file.suffix == ".pub" or _public_blob(file) in offered:
            continue
        try:
            yield str(file), paramiko.PKey.from_path(file)
        except (paramiko.PasswordRequiredException, TypeError):  # the latter is how cryptography asks for one
            tried.append(f"{file}: has a passphrase, so add it to the agent with ssh-add")
        except (paramiko.SSHException, OSError, ValueError) as error:
            tried.append(f"{file}: cannot be used ({_why(error)})")


def _public_blob(file: Path) -> bytes | None:
    public = file if file.suffix == ".pub" else file.with_name(file.name + ".pub")
    if not public.is_file():
        return None
    fields = public.read_text().split()
    return base64.b64decode(fields[1]) if len(fields) > 1 else None


def _agent_keys() -> list[paramiko.PKey]:
    try:
        return list(paramiko.Agent().get_keys())
    except (paramiko.SSHException, OSError):  # an agent that went away is as good as none
        return []

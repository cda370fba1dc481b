"""Where a host is and how to get there, according to OpenSSH's own configuration: `ssh -G` follows Include and Match.

Part of the SSH door (`remote.py`). Settings that paramiko supports are applied; errors name those that it does not.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from benchstudy.hosts.ssh_errors import ConnectionFailed
from benchstudy.model.grouping import grouped
from benchstudy.model.host import Host

# Lists of algorithms, by paramiko's names.
_ALGORITHMS = {"ciphers": "ciphers", "macs": "digests", "kexalgorithms": "kex", "hostkeyalgorithms": "key_types"}
# Settings that decide where to connect, whom to trust or how to log in, and are not supported here.
_NOT_FOLLOWED = {
    "addressfamily": "AddressFamily",
    "bindinterface": "BindInterface",
    "knownhostscommand": "KnownHostsCommand",
    "pkcs11provider": "PKCS11Provider",
    "proxyusefdpass": "ProxyUseFdpass",
    "pubkeyacceptedalgorithms": "PubkeyAcceptedAlgorithms",
    "requiredrsasize": "RequiredRSASize",
    "verifyhostkeydns": "VerifyHostKeyDNS",
}
_OPENSSH_S = 30.0  # its programs only read files here
_JUMP = re.compile(r"(?:(?P<user>.+)@)?\[?(?P<host>[^\]]+?)\]?(?::(?P<port>\d+))?/?")
_INCLUDE = re.compile(r"(?im)^[ \t]*include[ \t=]+(.+)$")


@dataclass(frozen=True)
class Endpoint:
    """One hop: where to connect and whom to expect there, with ~/.ssh/config applied."""

    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    known_hosts: tuple[Path, ...]
    host_key_alias: str | None
    proxy_jump: tuple[str, ...] = ()
    proxy_command: str | None = None
    certificate_files: tuple[Path, ...] = ()
    # Its socket; None: no agent.
    agent: Path | None = None
    bind_address: str | None = None
    # What is allowed, by paramiko's names and in this order; only if it differs from ssh's defaults.
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Names of settings that ssh would follow and we do not.
    not_followed: tuple[str, ...] = ()

    @property
    def key_name(self) -> str:
        """The host's name in known_hosts."""
        if self.host_key_alias:
            return self.host_key_alias
        return self.hostname if self.port == 22 else f"[{self.hostname}]:{self.port}"

    def __str__(self) -> str:
        return f"{self.user}@{self.hostname}:{self.port}"


def resolve(name: str, host: Host) -> Endpoint:
    """The endpoint of a study's host. Settings missing from the study come from ~/.ssh/config.

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
        # If the study names a key, only that key is used: others might open another account.
        key = Path(host.identity_file).expanduser()
        if not key.is_file():
            raise ConnectionFailed(f"{name}: identity_file {key} does not exist")
        endpoint = replace(endpoint, identity_files=(key,), identities_only=True)
    if host.known_hosts is not None:
        endpoint = replace(endpoint, known_hosts=(Path(host.known_hosts).expanduser(),))
    return endpoint


def route(endpoint: Endpoint) -> list[Endpoint]:
    """The hops to an endpoint in connecting order, the endpoint last."""
    return [*_jumps(endpoint.proxy_jump, depth=0), endpoint]


def _jumps(jumps: tuple[str, ...], depth: int) -> list[Endpoint]:
    if depth > 8:
        raise ConnectionFailed(f"ProxyJump {','.join(jumps)}: the jump hosts form a circle")
    hops: list[Endpoint] = []
    for jump in jumps:
        target = _JUMP.fullmatch(unquote(jump.removeprefix("ssh://")) if jump.startswith("ssh://") else jump)
        if target is None:
            raise ConnectionFailed(f"ProxyJump {jump}: write USER@HOST:PORT")
        options = ["-p", target["port"]] if target["port"] else []
        options += ["-l", target["user"]] if target["user"] else []
        hop = _ask_ssh(target["host"], options)
        # As with ssh: the first hop may have its own jump hosts; the route to the next ones is given.
        hops += [*_jumps(hop.proxy_jump, depth + 1), hop] if not hops else [hop]
    return hops


def _ask_ssh(destination: str, options: list[str]) -> Endpoint:
    """What ssh would do for this destination."""
    settings = _settings(destination, (*_own_configuration(), *options))

    def one(key: str) -> str | None:
        value = settings.get(key, ["none"])[0]
        return None if value == "none" else value

    host_key_alias = one("hostkeyalias")
    local = socket.gethostname()
    tokens = {
        "%": "%",
        "d": str(Path.home()),
        "h": settings["hostname"][0],
        "i": str(os.getuid()),
        "k": host_key_alias or destination,
        "L": local.partition(".")[0],
        "l": local,
        "n": destination,
        "p": settings["port"][0],
        "r": settings["user"][0],
        "u": _of_user_database().pw_name,
    }

    def paths(key: str) -> tuple[Path, ...]:
        return tuple(_path(key, value, tokens) for value in settings.get(key, ()) if value != "none")

    if one("revokedhostkeys"):
        raise ConnectionFailed(
            f"{destination}: RevokedHostKeys is not supported here: also mark these keys @revoked in known_hosts"
        )
    # Each of the two lists of files is one line, without quotes.
    known_hosts = " ".join(one(key) or "" for key in ("userknownhostsfile", "globalknownhostsfile"))
    usual, proxy = _usual_settings(), one("proxycommand")
    return Endpoint(
        hostname=settings["hostname"][0],
        port=int(settings["port"][0]),
        user=settings["user"][0],
        identity_files=paths("identityfile"),
        identities_only=one("identitiesonly") == "yes",
        known_hosts=tuple(_homely(_path("UserKnownHostsFile", file, tokens)) for file in known_hosts.split()),
        host_key_alias=host_key_alias,
        proxy_jump=tuple((one("proxyjump") or "").split(",")) if one("proxyjump") else (),
        proxy_command=proxy and re.sub("%([%hnpr])", lambda token: tokens[token[1]], proxy),
        certificate_files=paths("certificatefile"),
        agent=_agent(settings.get("identityagent", ["SSH_AUTH_SOCK"])[0], tokens),
        bind_address=one("bindaddress"),
        algorithms={
            name: tuple(settings[key][0].split(","))
            for key, name in _ALGORITHMS.items()
            if key in settings and settings[key] != usual.get(key)
        },
        not_followed=tuple(
            name for key, name in _NOT_FOLLOWED.items() if settings.get(key, []) != usual.get(key, []) and one(key)
        ),
    )


@cache
def _of_user_database() -> pwd.struct_passwd:
    return pwd.getpwuid(os.getuid())


def _own_configuration() -> tuple[str, ...]:
    """The option for ~/.ssh/config if ssh would not find it: it uses the user database, all else here $HOME."""
    config = Path.home() / ".ssh" / "config"
    if Path.home() == Path(_of_user_database().pw_dir):
        return ()
    if not config.is_file():
        return ("-F", "none") if (Path(_of_user_database().pw_dir) / ".ssh" / "config").is_file() else ()
    for files in _INCLUDE.findall(config.read_text(errors="replace")):
        for file in files.split():
            if not file.strip('"').startswith("/"):
                raise ConnectionFailed(
                    f"{config}: Include {file}: ssh looks for it below {_of_user_database().pw_dir}, which is not your "
                    "$HOME: write its absolute path"
                )
    return ("-F", str(config))


def _homely(file: Path) -> Path:
    """Moves a path that ssh found below the user database's home to $HOME."""
    home = Path(_of_user_database().pw_dir)
    return Path.home() / file.relative_to(home) if file.is_relative_to(home) else file


def _path(key: str, text: str, tokens: Mapping[str, str]) -> Path:
    """With `~`, `%h` and `${VARIABLE}` filled in. Raises ConnectionFailed for unknown ones."""

    def token(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise ConnectionFailed(f"{key} {text}: {found[0]} is not supported here: write the path")
        return tokens[found[1]]

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ConnectionFailed(f"{key} {text}: the environment variable {found[1]} is not set")
        return os.environ[found[1]]

    return Path(re.sub(r"\$\{(\w+)\}", variable, re.sub("%(.)", token, text))).expanduser()


def _agent(said: str, tokens: Mapping[str, str]) -> Path | None:
    """The socket of the agent that IdentityAgent names: none, a path, or a variable that holds one."""
    if said == "none":
        return None
    variable = "SSH_AUTH_SOCK" if said == "SSH_AUTH_SOCK" else said.removeprefix("$")
    if variable == "SSH_AUTH_SOCK" or (said.startswith("$") and not said.startswith("${")):
        return Path(os.environ[variable]) if os.environ.get(variable) else None
    return _path("IdentityAgent", said, tokens)


def ask_once() -> None:
    """Ask ssh what is the same for every host, before forks for many hosts would each ask."""
    with suppress(ConnectionFailed):  # they say it with the host's name
        _usual_settings()


@cache
def _usual_settings() -> Mapping[str, list[str]]:
    """ssh's defaults, unaffected by any host or file of the user."""
    return _settings("localhost", ("-F", "none"))


def _settings(destination: str, options: tuple[str, ...]) -> dict[str, list[str]]:
    """The values of each key, as `ssh -G` prints them."""
    answer = run_openssh(["ssh", "-G", *options, "--", destination])
    if answer.returncode:
        raise ConnectionFailed(f"{destination}: ssh cannot read its configuration: {answer.stderr.strip()}")
    lines = (line.partition(" ") for line in answer.stdout.splitlines())
    return grouped((key, value) for key, _, value in lines)


def run_openssh(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Raises ConnectionFailed if the program is missing here, or hangs."""
    if shutil.which(argv[0]) is None:
        raise ConnectionFailed(f"there is no `{argv[0]}` program on this machine: install the package openssh-client")
    how: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "stdin": subprocess.DEVNULL}
    try:
        return subprocess.run(argv, capture_output=True, timeout=_OPENSSH_S, **how)
    except subprocess.TimeoutExpired as error:
        waits = "does a `Match exec` of your ssh configuration wait for something?"
        raise ConnectionFailed(f"`{' '.join(argv)}` took longer than {_OPENSSH_S:g} s: {waits}") from error

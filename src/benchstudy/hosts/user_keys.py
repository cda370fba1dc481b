"""Logs in with the keys of the agent and of files, and with certificates for them, in the order of ssh.

Part of the SSH door (`remote.py`).
"""

import base64
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.ssh import SSHCertificate, load_ssh_public_identity

from benchstudy.hosts.lean_paramiko import UnknownKeyType, paramiko
from benchstudy.hosts.ssh_config import Endpoint
from benchstudy.hosts.ssh_errors import AuthenticationFailed, Unreachable, why
from benchstudy.hosts.ssh_transport import Transport

# OpenSSH's MaxAuthTries: with one more key the server disconnects, which looks like a network fault.
MOST_KEYS_TRIED = 6
# A forwarded agent whose machine sleeps takes questions and never answers. A person may have to touch a key.
_AGENT_S = 30.0


def authenticate(where: str, endpoint: Endpoint, transport: Transport) -> None:
    """Tries each key once.

    Raises AuthenticationFailed with a list of what was tried, and Unreachable if the connection is lost meanwhile.
    """
    tried: list[str] = []
    for label, key in _candidate_keys(endpoint, tried):
        if sum("refused" in attempt for attempt in tried) == MOST_KEYS_TRIED:
            tried.append("further keys not tried: name the right one with identity_file")
            break
        begun = time.monotonic()
        try:
            also = transport.auth_publickey(endpoint.user, key)
        except paramiko.BadAuthenticationType as error:
            raise AuthenticationFailed(
                f"{where}: {endpoint} accepts no keys, only {', '.join(error.allowed_types)}; benchstudy uses keys only"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            # The library calls a lost connection and a host without an answer refusals, too.
            if not transport.is_active() or time.monotonic() - begun >= transport.auth_timeout:
                refused = f", after it refused {len(tried)}: {'; '.join(tried)}" if tried else ""
                raise Unreachable(
                    f"{where}: the connection to {endpoint} was lost during login, with {label} "
                    f"({why(error)}){refused}. If the host allows fewer tries than you have keys, name the right one "
                    "with identity_file"
                ) from error
            tried.append(f"{label}: refused ({error})")
        else:
            if transport.is_authenticated():
                return
            if "publickey" not in also:
                raise AuthenticationFailed(
                    f"{where}: {endpoint} accepts {label}, but also asks for {', '.join(also)}; "
                    "benchstudy uses keys only"
                )
            tried.append(f"{label}: accepted, but the host asks for a further key")
    raise AuthenticationFailed(
        f"{where}: {endpoint} accepts none of these keys for the user {endpoint.user!r}: "
        f"{'; '.join(tried) or 'there is no key'}. Put the public key into that user's ~/.ssh/authorized_keys, or "
        "name the right user or identity_file"
    )


def _candidate_keys(endpoint: Endpoint, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys as ssh would try them: those in the agent first, then files; each with its certificates before the key
    alone. Unusable files are noted in `tried`.
    """
    files = [file for file in endpoint.identity_files if file.is_file()]
    certificates = _certificates(endpoint, files, tried)
    wanted = {blob for file in files if (blob := _public_blob(file)) is not None}
    offered = set()
    for key in _agent_keys(endpoint.agent):
        if not endpoint.identities_only or key.asbytes() in wanted:
            offered.add(key.asbytes())
            yield from _with_certificates(f"agent key {key.fingerprint}", key, certificates)
    for file in files:
        if file.suffix == ".pub" or _public_blob(file) in offered:
            continue
        refused = _readable_by_others(file)
        if refused:
            tried.append(f"{file}: {refused}")
            continue
        try:
            own = paramiko.PKey.from_path(file)
        except (paramiko.PasswordRequiredException, TypeError):  # the latter is how cryptography asks for a passphrase
            tried.append(f"{file}: has a passphrase; add it to the agent with ssh-add")
        except (paramiko.SSHException, UnknownKeyType, UnsupportedAlgorithm, OSError, ValueError) as error:
            tried.append(f"{file}: cannot be used ({why(error)})")
        else:
            own.public_blob = None  # from a certificate beside it, which is tried separately
            yield from _with_certificates(str(file), own, certificates)


def _readable_by_others(file: Path) -> str | None:
    """Why ssh would refuse this private key: others can read it."""
    found = file.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.getuid() or not mode & 0o077:
        return None
    return f"others may read it (mode {mode:04o}), so the key is refused, as by ssh: chmod 600 {file}"


def _with_certificates(
    label: str, key: paramiko.PKey, certificates: list[tuple[Path, bytes]]
) -> Iterator[tuple[str, paramiko.PKey]]:
    alone = key.public_blob
    for file, of_key in certificates:
        if of_key == key.asbytes():
            key.load_certificate(str(file))
            yield f"{label} with certificate {file}", key
    key.public_blob = alone
    yield label, key


def _certificates(endpoint: Endpoint, files: list[Path], tried: list[str]) -> list[tuple[Path, bytes]]:
    """The certificates that CertificateFile names and those beside the keys, each with its public key."""
    beside = [file.with_name(f"{file.name}-cert.pub") for file in files]
    found = []
    for file in dict.fromkeys([*endpoint.certificate_files, *beside]):
        if not file.is_file():
            continue
        try:
            shown = load_ssh_public_identity(file.read_bytes())
        except (UnsupportedAlgorithm, ValueError, OSError) as error:
            tried.append(f"{file}: cannot be used ({why(error)})")
            continue
        if isinstance(shown, SSHCertificate):
            line = shown.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            found.append((file, base64.b64decode(line.split()[1])))
    return found


def _public_blob(file: Path) -> bytes | None:
    public = file if file.suffix == ".pub" else file.with_name(file.name + ".pub")
    try:
        return base64.b64decode(public.read_text().split()[1])
    except (OSError, LookupError, ValueError):  # ssh does without it, too, for example if it has another format
        return None


def _agent_keys(address: Path | None) -> list[paramiko.AgentKey]:
    """What the agent behind this socket holds; an agent that is gone counts as none."""
    if address is None:
        return []
    agent, sock = paramiko.agent.AgentSSH(), socket.socket(socket.AF_UNIX)
    sock.settimeout(_AGENT_S)
    try:
        sock.connect(str(address))
        agent._connect(sock)  # type: ignore[attr-defined]  # its own class for this reads only one variable
    except (paramiko.SSHException, OSError):
        sock.close()
        return []
    keys = list(agent.get_keys())
    for key in keys:
        key.sign_ssh_data = partial(_signed, key.sign_ssh_data)  # type: ignore[method-assign]
        inner: paramiko.PKey | None = key.inner_key  # type: ignore[attr-defined]  # the stubs leave it out
        if inner is not None:  # for a certificate, the server must get its blob
            key.public_blob = inner.public_blob  # type: ignore[assignment]  # the stubs omit certificates
    return keys


def _signed(sign: Callable[..., Any], *data: Any) -> Any:
    """What the agent signs. If it declines, nothing, which the host refuses: an error would end the connection."""
    try:
        return sign(*data)
    except (paramiko.SSHException, OSError):
        return b""

"""Whether a host is the one that known_hosts means: by its key, or by a certificate from a trusted authority.

Part of the SSH door (`remote.py`). known_hosts is read by OpenSSH (`ssh-keygen -F`): patterns, hashed names, markers.
"""

import base64
import fnmatch
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.ssh import (
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from benchstudy.hosts.lean_paramiko import UnknownKeyType, paramiko
from benchstudy.hosts.ssh_config import Endpoint, run_openssh
from benchstudy.hosts.ssh_errors import ConnectionFailed, HostKeyChanged, HostKeyUnknown
from benchstudy.hosts.ssh_transport import Transport

_AUTHORITY, _REVOKED = "@cert-authority", "@revoked"
_CERTIFICATE = "-cert-v01@openssh.com"  # suffix of certificate types


@dataclass(frozen=True)
class Pinned:
    """A line of known_hosts about a host; the marker is empty, @revoked or @cert-authority.

    `own`: it is about this port. The same name without a port may be another server.
    """

    marker: str
    key: paramiko.PKey
    own: bool


def pinned_keys(endpoint: Endpoint) -> list[Pinned]:
    """Each line of known_hosts about this endpoint. If no key is among them: as for ssh, those without a port, too."""
    pinned = list(_lines_about(endpoint, endpoint.key_name))
    name = endpoint.host_key_alias or endpoint.hostname
    if name == endpoint.key_name or any(not line.marker for line in pinned):
        return pinned
    return [*pinned, *_lines_about(endpoint, name)]


def _lines_about(endpoint: Endpoint, name: str) -> Iterator[Pinned]:
    for file in endpoint.known_hosts:
        if not file.is_file():
            continue
        for line in run_openssh(["ssh-keygen", "-F", name, "-f", str(file)]).stdout.splitlines():
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            marker = fields.pop(0) if fields[0].startswith("@") else ""
            if len(fields) >= 3:
                try:
                    key = paramiko.PKey.from_type_string(fields[1], base64.b64decode(fields[2]))
                except (paramiko.SSHException, UnknownKeyType, OverflowError, ValueError):
                    continue  # damaged, or of a type for which paramiko does not ask a host
                yield Pinned(marker, key, name == endpoint.key_name)


def prefer_key_types(transport: Transport, pinned: list[Pinned], allowed: tuple[str, ...] | None) -> None:
    """Ask for a pinned key type first, or a host with several keys would look unknown; if an authority is trusted, ask
    for certificates first. `allowed`: HostKeyAlgorithms. Raises ConnectionFailed when none of them is supported.
    """
    types = {line.key.get_name() for line in pinned if not line.marker}
    if "ssh-rsa" in types:
        types |= {"rsa-sha2-512", "rsa-sha2-256"}
    options = transport.get_security_options()
    known = list(options.key_types)
    if any(line.marker == _AUTHORITY for line in pinned):
        known = [*(f"{name}{_CERTIFICATE}" for name in known), *known]
    if allowed is not None:
        known = [name for name in allowed if name in known]
        if not known:
            raise ConnectionFailed(f"HostKeyAlgorithms {','.join(allowed)}: benchstudy supports none of them")
    options.key_types = sorted(known, key=lambda name: not name.endswith(_CERTIFICATE) and name not in types)


def check_host_key(where: str, endpoint: Endpoint, key: paramiko.PKey, pinned: list[Pinned]) -> None:
    """Raises HostKeyUnknown or HostKeyChanged unless this very key is pinned, or an authority vouches for it."""
    name = key.get_name()
    line = f"{endpoint.key_name} {name} {key.get_base64()}"
    files = [str(file) for file in endpoint.known_hosts]
    if any(line.marker == _REVOKED and line.key == key for line in pinned):
        raise HostKeyChanged(
            f"{where}: the key of {endpoint.key_name} ({key.fingerprint}) is marked @revoked in {files}"
        )
    if any(line.key == key for line in pinned if not line.marker):
        return
    # Without an authority a host is not asked for a certificate.
    wrong = None
    if any(line.marker == _AUTHORITY for line in pinned):
        wrong = _wrong_with(key, endpoint, pinned)
        if wrong is None:
            return
    of_authority = f"\nAn authority is trusted to vouch for it (@cert-authority), and {wrong}." if wrong else ""
    valid = [line.key for line in pinned if not line.marker and line.own]
    if not valid:
        file = next((shlex.quote(file) for file in files if file != os.devnull), "~/.ssh/known_hosts")
        nowhere = "" if {*files} - {os.devnull} else f"\nand remove `known_hosts`: {os.devnull} holds no key"
        raise HostKeyUnknown(
            f"{where}: the key of {endpoint.key_name} is not pinned; nothing was sent to it. Its fingerprint is\n"
            f"  {key.fingerprint} ({name}){of_authority}\n"
            "If that is what `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` says on the host itself, pin it with\n"
            f"  echo {shlex.quote(line)} >> {file}{nowhere}"
        )
    expected = ", ".join(f"{other.fingerprint} ({other.get_name()})" for other in valid)
    raise HostKeyChanged(
        f"{where}: the key of {endpoint.key_name} is not the pinned one: somebody may intercept it, or the host was "
        f"reinstalled. Nothing was sent to it.\n  pinned: {expected}\n"
        f"  shown:  {key.fingerprint} ({name}){of_authority}\n"
        f"Only if the change is explained: ssh-keygen -R {shlex.quote(endpoint.key_name)} -f {shlex.quote(files[0])}, "
        f"then pin the new one with\n  echo {shlex.quote(line)} >> {shlex.quote(files[0])}"
    )


def _wrong_with(key: paramiko.PKey, endpoint: Endpoint, pinned: list[Pinned]) -> str | None:
    """Why the host's certificate does not prove that it is this host; None if it does."""
    if key.public_blob is None:
        return "it shows no certificate"
    encoded = base64.b64encode(key.public_blob.key_blob).decode()
    shown = load_ssh_public_identity(f"{key.public_blob.key_type} {encoded}".encode())
    if not isinstance(shown, SSHCertificate) or shown.type is not SSHCertificateType.HOST:
        return "its certificate is not a host certificate"
    try:
        shown.verify_cert_signature()
    except InvalidSignature:
        return "the signature of its certificate is wrong"
    signer = shown.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().split()[1]
    markers = {line.marker for line in pinned if line.key.get_base64() == signer}
    if _AUTHORITY not in markers or _REVOKED in markers:
        return "its certificate is signed by another authority"
    name = (endpoint.host_key_alias or endpoint.hostname).lower()
    names = [principal.decode(errors="replace") for principal in shown.valid_principals]
    if not any(fnmatch.fnmatchcase(name, pattern) for pattern in names):
        return f"its certificate is for {', '.join(names) or 'no host'}, not for {name}"
    if not shown.valid_after <= time.time() < shown.valid_before:
        return "its certificate is not valid at this time"
    if shown.critical_options:
        return "its certificate has unknown conditions"
    return None

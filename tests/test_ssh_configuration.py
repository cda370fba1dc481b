"""What ~/.ssh/config says about agents, certificates, ciphers, addresses and authorities, on real OpenSSH servers."""

import base64
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd_hosts import SshdHost, make_key

from benchstudy.hosts import ssh_config
from benchstudy.hosts.remote import (
    AuthenticationFailed,
    ConnectionFailed,
    HostKeyChanged,
    HostKeyUnknown,
    Remote,
    Unreachable,
)
from benchstudy.hosts.ssh_config import resolve
from benchstudy.model.host import Host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """~/.ssh in a home of its own, without an agent."""
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key that signs others."""
    key = tmp_path_factory.mktemp("authority") / "ca"
    make_key(key)
    return key


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[SshdHost]:
    """A server that accepts the keys in its file, and those that the authority signed."""
    options = [f"TrustedUserCAKeys {authority}.pub"]
    with SshdHost(tmp_path_factory.mktemp("sshd"), options=options) as host:
        yield host


def signed(authority: Path, public: Path, *options: str) -> Path:
    """The certificate that ssh-keygen writes next to a public key."""
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *options, str(public)], check=True)
    return public.with_name(f"{public.stem}-cert.pub")


def configure(home: Path, server: SshdHost, *lines: str, key: Path | None = None) -> None:
    about = (
        f"HostName {server.address}",
        f"Port {server.port}",
        f"User {server.user}",
        f"UserKnownHostsFile {server.known_hosts}",
        f"IdentityFile {key or server.identity_file}",
        *lines,
    )
    (home / "config").write_text("Host lab\n" + "".join(f"  {line}\n" for line in about))


def said(*argv: str) -> str:
    """What a command on the configured host prints."""
    with Remote("lab", Host()) as remote:
        return remote.run(list(argv)).text.strip()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The socket of an agent that has no key yet, and that no variable names."""
    address = tmp_path / "agent"
    started = subprocess.run(["ssh-agent", "-s", "-a", str(address)], capture_output=True, text=True, check=True)
    yield address
    subprocess.run(["kill", started.stdout.split("SSH_AGENT_PID=")[1].split(";")[0]], check=True)


def add(agent: Path, key: Path) -> None:
    environment = os.environ | {"SSH_AUTH_SOCK": str(agent)}
    subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True, env=environment)


# --- keys and agents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["{agent}", "$LAB_AGENT", "${{LAB_AGENT}}"])
def test_identity_agent(server, home, agent, monkeypatch, written):
    add(agent, server.identity_file)
    monkeypatch.setenv("LAB_AGENT", str(agent))
    configure(home, server, f"IdentityAgent {written.format(agent=agent)}", key=home / "none")
    assert said("echo", "in") == "in"


def test_identity_agent_none_asks_no_agent(server, home, agent, monkeypatch):
    add(agent, server.identity_file)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    configure(home, server, key=home / "none")
    assert said("echo", "in") == "in"
    configure(home, server, "IdentityAgent none", key=home / "none")
    with pytest.raises(AuthenticationFailed, match="there is no key"):
        said("true")


def test_certificate_file(server, home, authority):
    key = home / "own"
    make_key(key)
    shutil.move(signed(authority, home / "own.pub", "-n", server.user), home / "elsewhere.pub")
    configure(home, server, key=key)
    with pytest.raises(AuthenticationFailed, match="own: refused"):
        said("true")
    configure(home, server, f"CertificateFile {home}/elsewhere.pub", key=key)
    assert said("echo", "in") == "in"


def test_a_certificate_beside_the_key_and_one_for_a_key_in_the_agent(server, home, authority, agent):
    key = home / "own"
    make_key(key)
    certificate = signed(authority, home / "own.pub", "-n", server.user)
    configure(home, server, key=key)
    assert said("echo", "in") == "in"
    shutil.move(certificate, home / "elsewhere.pub")
    add(agent, key)
    key.unlink()
    configure(home, server, f"IdentityAgent {agent}", f"CertificateFile {home}/elsewhere.pub", key=home / "none")
    assert said("echo", "in") == "in"


def test_the_key_alone_is_tried_when_its_certificate_is_refused(server, home, authority):
    key = home / "own"
    shutil.copy(server.identity_file, key)
    shutil.copy(f"{server.identity_file}.pub", f"{key}.pub")
    signed(authority, home / "own.pub", "-n", "somebody-else")
    configure(home, server, key=key)
    assert said("echo", "in") == "in"


def make_security_key(path: Path) -> None:
    """A key whose other half is in a device, which this machine does not have: `ssh-keygen -t ed25519-sk` needs one."""

    def texts(*values: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(value)) + value for value in values)

    kind, application = b"sk-ssh-ed25519@openssh.com", b"ssh:"
    public = texts(kind, bytes(32), application)
    private = bytes(8) + public + b"\x01" + texts(bytes(64), b"", b"")
    private += bytes(range(1, 1 + -len(private) % 8))
    content = b"openssh-key-v1\0" + texts(b"none", b"none", b"") + struct.pack(">I", 1) + texts(public, private)
    lines = base64.encodebytes(content).decode()
    path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}-----END OPENSSH PRIVATE KEY-----\n")
    path.chmod(0o600)
    path.with_name(f"{path.name}.pub").write_text(f"{kind.decode()} {base64.b64encode(public).decode()}\n")


def test_a_key_that_only_ssh_can_use_keeps_no_other_key_from_being_tried(server, home, authority, agent):
    make_security_key(home / "id_ed25519_sk")
    signed(authority, home / "id_ed25519_sk.pub", "-n", "nobody")
    configure(home, server, f"IdentityFile {server.identity_file}", key=home / "id_ed25519_sk")
    assert said("echo", "in") == "in"
    configure(home, server, key=home / "id_ed25519_sk")
    with pytest.raises(AuthenticationFailed, match="id_ed25519_sk: cannot be used"):
        said("true")
    add(agent, home / "id_ed25519_sk")  # which cannot sign either
    add(agent, server.identity_file)
    configure(home, server, f"IdentityAgent {agent}", key=home / "a")
    assert said("echo", "in") == "in"


def test_a_key_that_the_agent_declines_to_use_is_no_lost_connection(server, home, agent):
    """`ssh-add -c` asks the user each time; here nobody confirms."""
    environment = os.environ | {"SSH_AUTH_SOCK": str(agent)}
    argv = ["ssh-add", "-q", "-c", str(server.identity_file)]
    subprocess.run(argv, check=True, capture_output=True, env=environment)
    configure(home, server, f"IdentityAgent {agent}", key=home / "a")
    with pytest.raises(AuthenticationFailed, match=r"agent key .*: refused"):
        said("true")


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        ("publickey,password", r"accepts .*user_key, but also asks for password; benchstudy uses keys only"),
        ("publickey,publickey", "user_key: accepted, but the host asks for a further key"),
    ],
)
def test_a_host_that_asks_for_more_than_one_key_says_so(tmp_path, methods, told):
    options = ["Match User *", "PasswordAuthentication yes", f"AuthenticationMethods {methods}"]
    with SshdHost(tmp_path / "sshd", options=options) as host, pytest.raises(AuthenticationFailed, match=told):
        Remote("lab", host.host).connect()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_private_key_that_others_may_read_is_refused_as_ssh_refuses_it(server, home, mode):
    key = home / "open"
    shutil.copy(server.identity_file, key)
    key.chmod(mode)
    configure(home, server, key=key)
    with pytest.raises(AuthenticationFailed, match=f"mode {mode:04o}.*chmod 600"):
        said("true")
    ssh = ["ssh", "-F", str(home / "config"), "-o", "BatchMode=yes", "lab", "true"]
    assert "UNPROTECTED PRIVATE KEY" in subprocess.run(ssh, capture_output=True, text=True).stderr
    # As for a key that the study names.
    named = Host(address="lab", identity_file=str(key))
    with pytest.raises(AuthenticationFailed, match="chmod 600"):
        Remote("lab", named).connect()


# --- connections ----------------------------------------------------------------------------------------------------


def test_bind_address(server, home):
    configure(home, server, "BindAddress 127.0.0.5")
    assert said("sh", "-c", "echo $SSH_CONNECTION").split()[0] == "127.0.0.5"


def test_ciphers_are_those_of_the_configuration(tmp_path, home):
    with SshdHost(tmp_path / "sshd", options=["Ciphers aes256-ctr"]) as server:
        configure(home, server, "Ciphers aes256-ctr,aes128-ctr")
        assert said("echo", "in") == "in"
        configure(home, server, "Ciphers aes128-ctr")
        with pytest.raises(Unreachable):
            said("true")
        configure(home, server, "Ciphers chacha20-poly1305@openssh.com")
        with pytest.raises(ConnectionFailed, match=r"chacha20-poly1305@openssh.com benchstudy supports none"):
            said("true")


def test_include_and_match_decide_as_for_ssh(server, home):
    (home / "more").write_text(f"Match originalhost lab\n  Port {server.port}\n")
    configure(home, server)
    text = (home / "config").read_text().replace(f"  Port {server.port}\n", "")
    (home / "config").write_text(f"Include {home}/more\nMatch exec true\n  ConnectTimeout 9\n{text}")
    assert said("echo", "in") == "in"


def test_names_of_jump_hosts_and_in_proxy_commands_are_as_written(server, home, tmp_path):
    """`Host` heeds the case of names."""
    with SshdHost(tmp_path / "jump") as jump:
        configure(home, server, "ProxyJump JumpBox")
        of_lab = (home / "config").read_text()
        configure(home, jump)
        (home / "config").write_text(of_lab + (home / "config").read_text().replace("Host lab", "Host JumpBox"))
        assert said("echo", "behind it") == "behind it"
        assert "Accepted publickey" in (tmp_path / "jump" / "sshd.log").read_text()
    configure(home, server, f"ProxyCommand test %n = lab && exec nc {server.address} %p")
    assert resolve("lab", Host()).proxy_command == f"test lab = lab && exec nc {server.address} {server.port}"


def test_what_ssh_would_look_for_in_another_home_is_named(server, home):
    configure(home, server)
    (home / "config").write_text("Include more\n" + (home / "config").read_text())
    with pytest.raises(ConnectionFailed, match=r"Include more: .* write its absolute path"):
        said("true")


def test_all_paths_are_below_one_home(server, home):
    """Known hosts and keys in a home that is not the one in the user database."""
    shutil.copy(server.known_hosts, home / "known_hosts")
    shutil.copy(server.identity_file, home / "id_ed25519")
    host = Host(address=server.address, port=server.port, user=server.user)
    with Remote("box", host) as remote:
        assert remote.run(["true"]).exit_status == 0
    assert {file.parent for file in resolve("box", host).identity_files} == {home}
    configure(home, server, "IdentityFile ~/.ssh/%r-%p")
    assert home / f"{server.user}-{server.port}" in resolve("lab", Host()).identity_files


def test_what_is_not_followed_is_named(server, home, tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    host = Host(address="lab", known_hosts=str(empty))
    configure(home, server, "KnownHostsCommand /bin/cat /dev/null")
    with pytest.raises(HostKeyUnknown, match="not supported here: KnownHostsCommand"):
        Remote("lab", host).connect()
    configure(home, server, "IdentityFile ~/.ssh/%C")
    with pytest.raises(ConnectionFailed, match="%C is not supported"):
        said("true")
    configure(home, server, f"RevokedHostKeys {empty}")
    with pytest.raises(ConnectionFailed, match="RevokedHostKeys is not supported here: also mark"):
        said("true")


def test_a_configuration_that_never_ends_is_named(server, home, monkeypatch):
    monkeypatch.setattr(ssh_config, "_OPENSSH_S", 0.5)
    configure(home, server, 'Match exec "sleep 3"')
    with pytest.raises(ConnectionFailed, match=r"took longer than 0\.5 s: does a `Match exec`"):
        said("true")


def test_an_unknown_key_is_never_to_be_pinned_in_a_file_that_keeps_nothing(server, home):
    """As with `UserKnownHostsFile /dev/null`, which many have for hosts in a laboratory."""
    (home / "config").write_text("Host *\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n")
    nowhere = Remote("box", server.host.model_copy(update={"known_hosts": "/dev/null"}))
    with pytest.raises(HostKeyUnknown, match=r">> ~/\.ssh/known_hosts\nand remove `known_hosts`: /dev/null holds no"):
        nowhere.connect()
    with pytest.raises(HostKeyUnknown, match=r">> /etc/ssh/ssh_known_hosts$"):
        Remote("box", server.host.model_copy(update={"known_hosts": None})).connect()


@pytest.mark.parametrize(
    "line",
    [
        "{name} ssh-dss AAAAB3NzaC1kc3MAAACBALKnZIKPYTGb6PTmP9yB2OqNLkPpHd0TW1mDPqBzN2yG",
        "{name} sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAABHNzaDo=",
        "{name} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI",
        "{name} ssh-rsa AAAAB3NzaC1yc2EAAAADuAABAA",
        "{name} {key} caf\xe9",
    ],
    ids=["old kind", "key in a device", "cut off", "damaged", "comment in Latin-1"],
)
def test_a_line_of_known_hosts_that_is_of_no_use_does_no_harm(server, tmp_path, line):
    name, _, key = server.known_hosts.read_text().strip().partition(" ")
    known = tmp_path / "known"
    known.write_bytes(f"{line.format(name=name, key=key)}\n{name} {key}\n".encode("latin-1"))
    with Remote("box", server.host.model_copy(update={"known_hosts": str(known)})) as remote:
        assert remote.run(["true"]).exit_status == 0


def test_a_name_without_its_port_is_looked_for_as_ssh_does(tmp_path):
    with SshdHost(tmp_path / "sshd") as host:
        own = host.known_hosts.read_text()
        of_name = own.replace(host.key_name, host.address)
        host.known_hosts.write_text(of_name)
        assert connected(host)
        host.change_host_key()
        host.restart()
        with pytest.raises(HostKeyUnknown):  # on the usual port there may be another server
            connected(host)
        host.pin()
        host.known_hosts.write_text(own + host.known_hosts.read_text().replace(host.key_name, host.address))
        with pytest.raises(HostKeyChanged):
            connected(host)


# --- authorities of hosts ---------------------------------------------------------------------------------------------


@pytest.fixture
def certified(tmp_path: Path, authority: Path) -> Iterator[SshdHost]:
    """A server with a certificate for 127.0.0.1. Its own key is not pinned; its authority is trusted."""
    folder = tmp_path / "certified"
    host = SshdHost(folder, options=[f"HostCertificate {folder}/host_key-cert.pub"])
    signed(authority, folder / "host_key.pub", "-h", "-n", "127.0.0.1")
    trust(host, authority)
    with host:
        yield host


def trust(host: SshdHost, authority: Path, *more: str) -> None:
    key = authority.with_name(f"{authority.name}.pub").read_text()
    host.known_hosts.write_text("".join([f"@cert-authority * {key}", *more]))


def connected(host: SshdHost) -> bool:
    with Remote("box", host.host) as remote:
        return remote.run(["true"]).exit_status == 0


def test_a_trusted_authority_vouches_for_a_host(certified, authority):
    assert connected(certified)
    certified.change_host_key()  # nothing has to be pinned again
    signed(authority, certified.folder / "host_key.pub", "-h", "-n", "127.0.0.1")
    certified.restart()
    assert connected(certified)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-h", "-n", "other"), "its certificate is for other, not for 127.0.0.1"),
        (("-h", "-n", "127.0.0.1", "-V", "20200101:20200102"), "is not valid at this time"),
        (("-h", "-n", "127.0.0.1", "-V", "20990101:20990102"), "is not valid at this time"),
    ],
)
def test_a_certificate_that_does_not_hold_is_refused_and_says_why(certified, authority, options, told):
    signed(authority, certified.folder / "host_key.pub", *options)
    certified.restart()
    with pytest.raises(HostKeyUnknown, match=told):
        connected(certified)
    ssh = ["ssh", "-p", str(certified.port), "-i", str(certified.identity_file), "-o", "BatchMode=yes"]
    files = ["-F", "none", "-o", f"UserKnownHostsFile={certified.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    assert subprocess.run([*ssh, *files, certified.address, "true"], capture_output=True).returncode == 255
    certified.pin()  # if the key itself is pinned, the certificate does not matter
    assert connected(certified)


def test_an_authority_for_a_name_vouches_for_every_port(certified, authority):
    public = authority.with_name("ca.pub").read_text()
    certified.known_hosts.write_text(f"@cert-authority {certified.address},*.lab {public}")
    assert connected(certified)


def test_an_authority_that_nobody_trusts_or_that_is_revoked(certified, authority, tmp_path):
    make_key(tmp_path / "stranger")
    trust(certified, tmp_path / "stranger")
    with pytest.raises(HostKeyUnknown, match="signed by another authority"):
        connected(certified)
    trust(certified, authority, f"@revoked * {authority.with_name('ca.pub').read_text()}")
    with pytest.raises(HostKeyUnknown, match="signed by another authority"):
        connected(certified)


def test_a_host_without_a_certificate_is_unknown_where_only_an_authority_is_trusted(server, authority, tmp_path):
    known = tmp_path / "known"
    known.write_text(f"@cert-authority * {authority.with_name('ca.pub').read_text()}")
    with pytest.raises(HostKeyUnknown, match="it shows no certificate"):
        Remote("box", server.host.model_copy(update={"known_hosts": str(known)})).connect()

"""A second, bare machine for tests: a fresh Debian root in its own namespaces, reached by real SSH.

mmdebstrap makes the root with nothing but apt and sshd in it. It runs in its own network, mount and process
namespaces, all anonymous, under a process that the kernel kills when the test process ends in any way. Then the mounts,
the addresses and every process in it are gone, and nobody has to clean up.

Packages reach it through the SSH connection itself, which is a SOCKS proxy at its end of a reverse tunnel: no NAT, no
forwarding, no firewall rule, and names are resolved where they can be.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The kernel sends this signal to the child when the process that started it has ended in any way.
DIE_WITH_TESTS = ["setpriv", "--pdeathsig", "KILL"]
APT_PROXY_PORT = 1080
# For a kept machine, whose packages must not be much older than those that are installed there.
MOST_AGE_S = 7 * 24 * 3600
# Our end of the veth pair is named after the process that has the other.
CABLE = "bare"

# Runs as the first process of the namespaces. Its input ends when the network is there.
_INSIDE = """
set -eu
root=$1
address=$2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -m 755 "$root/run/sshd"
echo separated
read -r _
ip link set lo up
ip address add "$address/30" dev bare
ip link set bare up
exec chroot "$root" /usr/sbin/sshd -D -e -o ListenAddress="$address" -o UsePAM=no \\
    -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password -o UseDNS=no -o MaxSessions=100
"""


@dataclass(frozen=True)
class BareHost:
    """How to reach the machine. `root` is its file system, as seen from here."""

    address: str
    identity_file: Path
    known_hosts: Path
    root: Path


def make_debian(folder: Path, kept: Path) -> Path:
    """A minimal Debian or Ubuntu like this machine's, with an sshd and without Python; 300 MB.

    It is made in 25 s and kept as an archive in the folder `kept`, from which later ones are unpacked in two seconds.
    """
    root = folder / "root"
    mirror, suite = _own_mirror()
    archive = kept / f"debian-{suite}.tar"
    if archive.is_file() and time.time() - archive.stat().st_mtime < MOST_AGE_S:
        root.mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", root, "--numeric-owner"], check=True)
    else:
        how = ["--quiet", "--mode=root", "--variant=minbase", "--include=openssh-server"]
        subprocess.run(["mmdebstrap", *how, suite, root, mirror], check=True)
        kept.mkdir(parents=True, exist_ok=True)
        new = archive.with_name(f"{archive.name}-{os.getpid()}")
        subprocess.run(["tar", "-cf", new, "-C", root, "--numeric-owner", "."], check=True)
        new.rename(archive)
    proxy = f"socks5h://127.0.0.1:{APT_PROXY_PORT}"
    settings = subprocess.run(
        # A mirror that is frozen in time needs the same leniency inside as outside.
        ["apt-config", "dump", "--format", '%F "%v";%n', "Acquire::Check-Valid-Until", "Acquire::Check-Date"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (root / "etc/apt/apt.conf.d/90test").write_text(
        f'{settings}Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "{proxy}";\n'
    )
    return root


@contextlib.contextmanager
def running(root: Path, folder: Path) -> Iterator[BareHost]:
    """The machine, running and answering, with access to packages; removed afterwards, whatever happened."""
    keys = folder / "keys"
    keys.mkdir(mode=0o700)
    identity = keys / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(identity)], check=True)
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(identity.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
    ours, theirs = free_addresses()
    known_hosts = keys / "known_hosts"
    known_hosts.write_text(f"{theirs} {(root / 'etc/ssh/ssh_host_ed25519_key.pub').read_text()}")
    host = BareHost(theirs, identity, known_hosts, root)
    with contextlib.ExitStack() as stack:
        machine = _start(root, theirs, folder / "sshd.log")
        stack.callback(_end, machine)
        lay_cable(machine, ours)
        machine.stdin.write(b"connected\n")
        machine.stdin.close()
        _wait_until_it_answers(theirs, machine, folder / "sshd.log")
        tunnel = _start_tunnel(host)
        stack.callback(_end, tunnel)
        yield host


def _own_mirror() -> tuple[str, str]:
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().replace('"', "").splitlines() if "=" in line
    )
    suite = release["VERSION_CODENAME"]
    indexes = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI) $(CODENAME) $(COMPONENT)",
            "Created-By: Packages",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in indexes.splitlines():
        mirror, codename, component = line.split()
        if (codename, component) == (suite, "main"):
            return mirror, suite
    raise RuntimeError(f"apt knows no mirror of {suite} main; run apt-get update")


def free_addresses() -> tuple[str, str]:
    """Two addresses of a /30 that nothing here uses."""
    used = subprocess.run(["ip", "-o", "-4", "address"], check=True, capture_output=True, text=True).stdout
    used += subprocess.run(["ip", "-o", "-4", "route"], check=True, capture_output=True, text=True).stdout
    network = next(n for n in range(1, 250) if f"10.213.{n}." not in used)
    return f"10.213.{network}.1", f"10.213.{network}.2"


def _start(root: Path, address: str, log: Path) -> subprocess.Popen:
    with open(log, "wb") as output:
        machine = subprocess.Popen(
            [
                *DIE_WITH_TESTS,
                *[
                    "unshare",
                    "--net",
                    "--mount",
                    "--propagation",
                    "private",
                    "--pid",
                    "--fork",
                    "--kill-child",
                ],
                *["sh", "-c", _INSIDE, "sh", str(root), address],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    if machine.stdout.readline() != b"separated\n":
        _end(machine)
        raise RuntimeError(f"no namespaces of our own: {log.read_text()}")
    return machine


def lay_cable(machine: subprocess.Popen, address: str) -> None:
    """Connect it to this process's network, where its end of the device is called `bare`; our end has the address."""
    cable = f"{CABLE}{machine.pid}"
    for command in (
        ["ip", "link", "add", cable, "type", "veth", "peer", "name", "bare", "netns", str(machine.pid)],
        ["ip", "address", "add", f"{address}/30", "dev", cable],
        ["ip", "link", "set", cable, "up"],
    ):
        subprocess.run(command, check=True)


def _wait_until_it_answers(address: str, machine: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 20
    while machine.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=0.1) as probe:
            if probe.recv(4) == b"SSH-":
                return
        time.sleep(0.02)
    _end(machine)
    raise RuntimeError(f"the sshd of the bare host does not answer: {log.read_text()}")


def _start_tunnel(host: BareHost) -> subprocess.Popen:
    tunnel = subprocess.Popen(
        [
            *DIE_WITH_TESTS,
            *[
                "ssh",
                "-F",
                "none",
                "-i",
                str(host.identity_file),
                "-o",
                f"UserKnownHostsFile={host.known_hosts}",
            ],
            *["-o", "StrictHostKeyChecking=yes", "-o", "ExitOnForwardFailure=yes"],
            *["-R", f"127.0.0.1:{APT_PROXY_PORT}", f"root@{host.address}", "echo tunnelled; cat"],
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    if tunnel.stdout.readline() != b"tunnelled\n":
        _end(tunnel)
        raise RuntimeError("no tunnel for the bare host's packages: see ssh's message above")
    return tunnel


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        stream.close()

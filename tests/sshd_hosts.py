"""Real OpenSSH servers on loopback for tests: own keys, port and known_hosts, removed when the test is over."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ports import free_ports
from waiting import until

from benchstudy.model.host import Host


class SshdHost:
    """A context manager for one sshd in `folder`, which is created if needed.

    Args:
        folder: keys, configuration, log; use a tmp_path.
        options: more lines of sshd_config, such as "RekeyLimit 64M".
        address: the address to listen on.
        environment: variables for commands on the host.
        prefix: precedes the sshd command, such as ["nsenter", "--net=…"]; it must exec it, to keep the pid.
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: Sequence[str] = (),
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.address, self.options, self.prefix = address, list(options), list(prefix)
        self.lock = self.folder / "host.lock"
        # SHLVL keeps bash from reading the ~/.bashrc of the user who runs the tests.
        self.environment = {"SHLVL": "1", "BENCHSTUDY_HOST_LOCK": str(self.lock)} | dict(environment or {})
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.identity_file = self.folder / "user_key"
        self.known_hosts = self.folder / "known_hosts"
        self.log = self.folder / "sshd.log"
        self._process: subprocess.Popen | None = None
        for name in ("host_key", "user_key"):
            if not (self.folder / name).exists():
                make_key(self.folder / name)
        shutil.copyfile(self.folder / "user_key.pub", self.folder / "authorized_keys")
        # Another address is one of a network of its own, in which the usual port is free.
        self.port = free_ports(1)[0] if address == "127.0.0.1" else 22
        self.pin()

    @property
    def host(self) -> Host:
        """This host as a study describes it."""
        return Host(
            address=self.address,
            port=self.port,
            user=self.user,
            identity_file=str(self.identity_file),
            known_hosts=str(self.known_hosts),
        )

    def described(self, work_dir: Path | str | None = None, **more: Any) -> dict[str, Any]:
        """This host as the file of a study describes it."""
        place = {} if work_dir is None else {"work_dir": str(work_dir)}
        return self.host.model_dump(exclude_none=True, exclude_defaults=True) | place | more

    @property
    def key_name(self) -> str:
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"

    def pin(self) -> None:
        """Write the current host key to known_hosts."""
        key_type, blob = (self.folder / "host_key.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"{self.key_name} {key_type} {blob}\n")

    def change_host_key(self) -> None:
        """Make a new host key that is not pinned; it takes effect after restart()."""
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink()
        make_key(self.folder / "host_key")

    def start(self) -> "SshdHost":
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        lines = [
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self.folder}/host_key",
            "PidFile none",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            # One line, because sshd takes the first one and ignores others.
            "SetEnv " + " ".join(f"{name}={value}" for name, value in self.environment.items()),
            "UseDNS no",
            "MaxSessions 100",
            "MaxStartups 100",
            "LogLevel VERBOSE",
            "Subsystem sftp internal-sftp",
            *self.options,
        ]
        config.write_text("\n".join(lines) + "\n")
        self.log.unlink(missing_ok=True)
        argv = [*self.prefix, _sshd(), "-D", "-f", str(config), "-E", str(self.log)]
        # In a session of its own: a Ctrl-C at the tests must not reach it before stop() does.
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 10
        while not self._listening():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start: {self.log.read_text() if self.log.exists() else argv}")
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        """End the listener and every connection."""
        if self._process is None:
            return
        sessions = self.session_pids()
        self._process.terminate()
        self._process.wait(timeout=10)
        self._process = None
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def drop_connections(self) -> int:
        """Kill the processes that serve connections, as if the path broke; the listener stays. Returns their number."""
        pids = self.session_pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(pids)

    def session_pids(self) -> list[int]:
        """Processes of the current connections, without those of the commands that they run."""
        if self._process is None:
            return []
        found, parents = [], [self._process.pid]
        while parents:
            children = [pid for parent in parents for pid in _children(parent) if _is_sshd(pid)]
            found += children
            parents = children
        return found

    def __enter__(self) -> "SshdHost":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _listening(self) -> bool:
        # Its log says so, even if a prefix puts it into another network namespace.
        return self.log.exists() and f"Server listening on {self.address} port {self.port}" in self.log.read_text()


def make_key(file: Path) -> None:
    """Make an ed25519 key without passphrase, and its .pub file next to it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(file)], check=True)


@contextlib.contextmanager
def host_of_its_own(folder: Path, **how: Any) -> Iterator[SshdHost]:
    """An sshd in `folder`. Afterwards, nothing runs that was started for it."""
    with SshdHost(folder / "sshd", **how) as host:
        yield host
    # The agent's desk on the host notices that its connection is gone, and ends.
    until(lambda: subprocess.run(["pgrep", "-f", str(folder)], stdout=subprocess.DEVNULL).returncode == 1)


def _sshd() -> str:
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "the tests need openssh-server"
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except (FileNotFoundError, ProcessLookupError):
        return False

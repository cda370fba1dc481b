"""Real logs on this machine for tests: Tessera's POSIX server and the null log, built as on a study's host."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conftest import CHECKOUT
from ports import free_ports
from provisioning import provision_here

ORIGIN = "log.test/one"


def provisioned(work_dir: Path, *programs: str) -> Path:
    """The folder with these programs of envs/tessera, with their facts in `facts.json`."""
    family = {"services": {name: {"argv": [f"{{{{tools}}}}/{name}"]} for name in programs}}
    facts = provision_here(CHECKOUT, "log_write", family, work_dir)
    (work_dir / "facts.json").write_text(json.dumps(facts))
    return work_dir / "tools" / "bin"


@dataclass
class Log:
    """A running log. `url`: without a slash at its end."""

    url: str
    public_key: str
    folder: Path
    process: subprocess.Popen[str]

    def checkpoint(self) -> bytes:
        with urllib.request.urlopen(f"{self.url}/checkpoint", timeout=10) as answer:
            return answer.read()

    def size(self) -> int:
        return int(self.checkpoint().split(b"\n")[1])

    def add(self, leaf: bytes) -> int:
        with urllib.request.urlopen(f"{self.url}/add", data=leaf, timeout=10) as answer:
            return int(answer.read())

    def wait_for(self, size: int, timeout_s: float = 10) -> None:
        deadline = time.monotonic() + timeout_s
        while self.size() < size:
            assert time.monotonic() < deadline, f"the tree stays at {self.size()} leaves"
            time.sleep(0.01)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def make_keys(programs: Path, folder: Path, name: str = ORIGIN) -> tuple[Path, str]:
    """(file of the private key, the public key)."""
    private, public = folder / "log.key", folder / "log.pub"
    if not private.exists():
        argv = [programs / "logbench", "keygen", "--name", name, "--private", private, "--public", public]
        subprocess.run(argv, check=True, timeout=10)
    return private, public.read_text()


@contextlib.contextmanager
def posix_log(programs: Path, folder: Path, *flags: str) -> Iterator[Log]:
    """A log in `folder`/log, by Tessera's own conformance server. It is fresh unless there already is one."""
    key, public_key = make_keys(programs, folder)
    storage = folder / "log"
    storage.mkdir(exist_ok=True)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    argv = [programs / "tessera-posix", f"--storage_dir={storage}", f"--listen={address}", f"--private_key={key}"]
    with _running([*argv, *flags], folder) as process:
        log = Log(f"http://{address}", public_key, storage, process)
        _until_it_answers(log)
        yield log


@contextlib.contextmanager
def null_log(programs: Path, folder: Path, *flags: str) -> Iterator[Log]:
    """logbench's own log, which takes a free port."""
    key, public_key = make_keys(programs, folder)
    argv = [programs / "logbench", "null", "--listen", "127.0.0.1:0", "--private-key", key, *flags]
    with _running(argv, folder) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "listening on " in line, line
        yield Log("http://" + line.split()[-1], public_key, folder, process)


@contextlib.contextmanager
def _running(argv: list, folder: Path) -> Iterator[subprocess.Popen[str]]:
    null = "null" in argv
    with open(folder / "server.stderr", "a") as stderr:
        process = subprocess.Popen(
            [str(part) for part in argv], stdout=stderr, stderr=subprocess.PIPE if null else stderr, text=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _until_it_answers(log: Log, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            log.checkpoint()
            return
        except (urllib.error.URLError, ConnectionError):
            said = (log.folder.parent / "server.stderr").read_text()[-2000:]
            assert log.process.poll() is None, f"the server ended: {said}"
            assert time.monotonic() < deadline, f"the server does not answer: {said}"
            time.sleep(0.02)

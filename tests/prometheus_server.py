"""A real Prometheus, a program with counters that a test drives, and a history made with Prometheus' own tool."""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import CHECKOUT, TOOL_STORE
from waiting import until

AGENT = CHECKOUT / "src" / "benchstudy" / "agent"
_SECRETS = ("TOKEN", "USER", "PASSWORD")


def program(name: str) -> str:
    """`prometheus` or `promtool`; where the machine has none, from Debian's package, which need not be installed."""
    if found := shutil.which(name):
        return found
    store = Path(os.environ[TOOL_STORE]) / "prometheus"
    if not (store / "usr" / "bin" / name).is_file():
        making = store.with_name(f"prometheus-{os.getpid()}")
        making.mkdir(parents=True)
        download = ["apt-get", "-qq", "download", "prometheus"]
        if subprocess.run(download, cwd=making, capture_output=True).returncode != 0:
            subprocess.run(["apt-get", "-qq", "update"], check=True)
            subprocess.run(download, cwd=making, check=True)
        (package,) = making.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, making], check=True)
        try:
            making.rename(store)
        except OSError:  # another worker was faster
            shutil.rmtree(making)
    return str(store / "usr" / "bin" / name)


@dataclass(frozen=True)
class Prometheus:
    """`authorization`: the header that its users send, if it asks for one."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    authorization: str | None = None

    def get(self, path: str, **parameters: object) -> dict[str, Any]:
        headers = {"Authorization": self.authorization} if self.authorization else {}
        query = urllib.parse.urlencode(parameters)
        request = urllib.request.Request(f"{self.url}{path}?{query}", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)["data"]

    def ask(self, query: str, at_s: float, by: str | None = None) -> dict[str, float]:
        """What it says at a moment: {value of the label `by`: number}, or {"": number}."""
        result = self.get("/api/v1/query", query=query, time=f"{at_s:.3f}")["result"]
        return {row["metric"].get(by or "", ""): float(row["value"][1]) for row in result}

    def ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"Prometheus ended: {self.log.read_text()[-2000:]}")
        try:
            self.get("/api/v1/query", query="vector(1)")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True


@contextmanager
def prometheus(
    folder: Path,
    jobs: Mapping[str, Sequence[str]] | None = None,
    *flags: str,
    interval: str = "1s",
    port: int | None = None,
    authorization: str | None = None,
) -> Iterator[Prometheus]:
    """One that scrapes `jobs` (addresses by name), on a free port, with its data in `folder`/data."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": list(addresses)}]}
            for name, addresses in (jobs or {}).items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = port or free_port()
    argv = [
        program("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=10y",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}", process, log, authorization)
        until(server.ready, 60)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def backfill(folder: Path, samples: Iterator[str]) -> None:
    """Lines of OpenMetrics with times become blocks in `folder`/data, for a server to be started there."""
    file = folder / "history.txt"
    folder.mkdir(parents=True, exist_ok=True)
    with file.open("w") as out:
        out.writelines(line + "\n" for line in samples)
        out.write("# EOF\n")
    subprocess.run(
        [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", file, folder / "data"],
        check=True,
        capture_output=True,
    )
    file.unlink()


# --- a program with counters ------------------------------------------------------------------------------------


@dataclass
class Exporter:
    """A process that serves what it is told to: its counters begin at nothing whenever it is started anew."""

    process: subprocess.Popen[str]
    address: str
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.port = int(self.address.rpartition(":")[2])

    def do(self, **command: object) -> None:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def observe(self, metric: str, seconds: float, times: int = 1, **labels: str) -> None:
        """So many observations of a histogram."""
        self.do(observe=metric, value=seconds, times=times, labels=labels)

    def count(self, metric: str, by: float = 1, **labels: str) -> None:
        self.do(count=metric, value=by, labels=labels)

    def gauge(self, metric: str, value: float | None, **labels: str) -> None:
        """None: the series is there no longer."""
        self.do(gauge=metric, value=value, labels=labels)


@contextmanager
def exporter(port: int = 0) -> Iterator[Exporter]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", Path(__file__).with_name("driven_exporter.py"), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Exporter(process, process.stdout.readline().strip())
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


# --- the agent --------------------------------------------------------------------------------------------------


def agent(
    command: str, *arguments: str, spec: Mapping[str, Any] | None = None, cwd: Path | None = None, **secrets: str
) -> subprocess.CompletedProcess[str]:
    """The agent's command as a host runs it. `secrets`: token, user, password."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BENCHSTUDY_PROMETHEUS_")}
    given = {f"BENCHSTUDY_PROMETHEUS_{name.upper()}": value for name, value in secrets.items()}
    assert {name.upper() for name in secrets} <= set(_SECRETS)
    return subprocess.run(
        [sys.executable, "-I", "-S", AGENT, command, *arguments],
        input=json.dumps(spec) + "\n" if spec is not None else "",
        cwd=cwd,
        env=clean | given,
        capture_output=True,
        text=True,
        timeout=180,
    )

"""A real Prometheus, a program with counters that a test drives, and a history made with Prometheus' own tool."""

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from agent_folders import agent_folder
from between import Between, listening
from conftest import TOOL_STORE
from ports import free_ports
from waiting import until

_SECRETS = ("TOKEN", "USER", "PASSWORD")
# A folder with `prometheus` and `promtool` in another version than the machine's, which the tests then use instead.
PROGRAMS = "BENCHSTUDY_TEST_PROMETHEUS"


def program(name: str) -> str:
    """`prometheus` or `promtool`; if the machine has none, from Debian's package, which need not be installed."""
    if found := shutil.which(name, path=os.environ.get(PROGRAMS) or None):
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
    """`authorization`: the header that its clients send, if it asks for one."""

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
        """Its answer for one time: {value of the label `by`: number}, or {"": number}."""
        result = self.get("/api/v1/query", query=query, time=f"{at_s:.3f}")["result"]
        return {row["metric"].get(by or "", ""): float(row["value"][1]) for row in result}

    def ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"Prometheus ended: {self.log.read_text()[-2000:]}")
        headers = {"Authorization": self.authorization} if self.authorization else {}
        try:
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/-/ready", headers=headers), timeout=30).close()
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
    """A server that scrapes `jobs` (addresses by name), on a free port, with its data in `folder`/data."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": list(addresses)}]}
            for name, addresses in (jobs or {}).items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = port or free_ports(1)[0]
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


def backfill(folder: Path, samples: Iterator[str]) -> None:
    """Turn lines of OpenMetrics with times into blocks in `folder`/data, for a server that starts there."""
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
    """A process that serves the given metrics. Its counters start at zero whenever it starts."""

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
        """Add this many observations to a histogram."""
        self.do(observe=metric, value=seconds, times=times, labels=labels)

    def count(self, metric: str, by: float = 1, **labels: str) -> None:
        self.do(count=metric, value=by, labels=labels)

    def gauge(self, metric: str, value: float | None, **labels: str) -> None:
        """None removes the series."""
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


# --- a proxy that spoils answers ------------------------------------------------------------------------------------


def proxy(
    server: Prometheus, behave: Callable[[BaseHTTPRequestHandler, int], str | None]
) -> AbstractContextManager[str]:
    """A proxy, as long as the block lasts; yields its URL.

    `behave(request, number)` decides each request: None passes it on, "cut" sends half of the answer, "503", "401" and
    "gzip" do what they say, and any other text is the answer. It may wait.
    """
    numbers = itertools.count()

    class Handler(Between):
        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

        def _pass_on(self, body: bytes | None) -> None:
            said = behave(self, next(numbers))
            if said in ("401", "503"):
                self._answer(int(said), b"")
                return
            if said not in (None, "cut", "gzip"):
                self._answer(200, said.encode())
                return
            kept = {name: self.headers[name] for name in ("Content-Type",) if self.headers[name]}
            request = urllib.request.Request(server.url + self.path, body, kept)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    status, answer = 200, response.read()
            except urllib.error.HTTPError as error:
                status, answer = error.code, error.read()
            if said == "cut":
                self._answer(status, answer, len(answer) // 2)
            elif said == "gzip":
                self._answer(status, gzip.compress(answer), encoding="gzip")
            else:
                self._answer(status, answer)

        def _answer(self, status: int, body: bytes, sent: int | None = None, encoding: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            self.wfile.write(body[:sent])
            self.close_connection = sent is not None

    return listening(Handler)


# --- the agent --------------------------------------------------------------------------------------------------


def agent(
    command: str, *arguments: str, spec: Mapping[str, Any] | None = None, cwd: Path | None = None, **secrets: str
) -> subprocess.CompletedProcess[str]:
    """The agent's command as a host runs it. `secrets`: token, user, password."""
    return subprocess.run(
        agent_argv(command, *arguments),
        input=json.dumps(spec) + "\n" if spec is not None else "",
        cwd=cwd,
        env=agent_environment(**secrets),
        capture_output=True,
        text=True,
        timeout=180,
    )


def agent_argv(command: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(agent_folder("load_test")), command, *arguments]


def agent_environment(**secrets: str) -> dict[str, str]:
    assert {name.upper() for name in secrets} <= set(_SECRETS)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BENCHSTUDY_PROMETHEUS_")}
    return clean | {f"BENCHSTUDY_PROMETHEUS_{name.upper()}": value for name, value in secrets.items()}

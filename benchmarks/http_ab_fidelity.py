"""Does a trial of http_concurrency give what ab gives by hand? Interleaved pairs of both on the same kind of server.

    python benchmarks/http_ab_fidelity.py [--pairs 30] [--concurrency 10] [--requests 50000] [--output fidelity.json]

The two sides of a pair run in random order. One is a whole session that measures one more trial of a study (server
started under its limit of one CPU, answers checked, warmed up, loaded by `ab -k -c N -n 50000 -g … -e …`, checked
again), whose `throughput` is read as the reports read it. The other is how a person gets the same figure: nginx with
the same configuration, started on the same CPU by taskset, `ab -k -c N -n 1000` to warm it up, then
`ab -k -c N -n 50000` on the other CPU, "Requests per second" read off the screen.

The ratio of the medians (session over hand) must be in 0.97–1.03; otherwise the exit status is 1. Its 95 % interval by
bootstrap of the pairs (BCa, 9999) is printed, too. Needs ab, nginx, and root for the limit.
"""

import argparse
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy.stats import bootstrap

from benchstudy.model import registry

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import http_study
from ports import free_ports
from sshd_hosts import SshdHost

RATIO = (0.97, 1.03)
WARM_UP = 1000
_FIGURE = re.compile(r"^Requests per second: +([\d.]+) ", re.M)


class Session:
    """A study of one case; each call of `measure` is a session of its own, with one more trial."""

    def __init__(self, folder: Path, sshd: SshdHost, concurrency: int, requests: int):
        self.root, self.blocks = folder / "project", 0
        host = sshd.described(folder / "work")
        generator = {"name": "ab", "tool": "ab", "requests": requests, "warm_up": WARM_UP, "cpus": 1}
        config = http_study.block(
            [http_study.NGINX_SERVER],
            limits=[{"name": "1-core", "cpus": 1}],
            generators=[generator],
            concurrency=[concurrency],
        )
        self.declared = http_study.declared(config, host)

    def measure(self) -> float:
        """Requests per second, as in a report's table."""
        self.blocks += 1
        study = http_study.parse_study({**self.declared, "blocks": self.blocks})
        *_, trial = sorted(http_study.measure(self.root, study), key=lambda stored: stored.record.block)
        if trial.record.status != "ok" or trial.record.block != self.blocks:
            raise RuntimeError(f"the trial failed: {trial.record.cause}")
        parsed = registry.get(http_study.FAMILY).parse(trial.record.levels, trial.folder)
        (value,) = [found.value for found in parsed.observations if found.metric == "throughput"]
        return value


class ByHand:
    """What a careful person types."""

    def __init__(self, folder: Path, concurrency: int, requests: int):
        self.folder, self.requests = folder / "by-hand", requests
        self.folder.mkdir()
        cpus = sorted(os.sched_getaffinity(0))
        self.server, self.generator = (["taskset", "-c", str(cpu)] for cpu in (cpus[0], cpus[-1]))
        self.ab = [_program("ab"), "-k", "-c", str(concurrency)]

    def measure(self) -> float:
        """Requests per second, as ab prints them."""
        with self._nginx() as url:
            self._run("-n", str(WARM_UP), url)
            said = self._run("-n", str(self.requests), url)
        found = _FIGURE.search(said)
        if found is None or "Non-2xx" in said or "Failed requests:        0" not in said:
            raise RuntimeError(f"ab said: {said}")
        return float(found[1])

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self.generator, *self.ab, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    @contextmanager
    def _nginx(self) -> Iterator[str]:
        port = free_ports(1)[0]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for name, text in http_study.NGINX["files"].items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            for placeholder, value in (("dir", str(folder)), ("bind", "127.0.0.1"), ("port.http", str(port))):
                text = text.replace("{{" + placeholder + "}}", value)
            file.write_text(text)
        argv = [_program("nginx"), "-c", f"{folder}/nginx.conf", "-e", "stderr"]
        nginx = subprocess.Popen([*self.server, *argv])
        try:
            _wait_for(port, nginx)
            yield f"http://127.0.0.1:{port}/page"
        finally:
            nginx.terminate()
            nginx.wait()
            shutil.rmtree(folder)


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if not found:
        sys.exit(f"{name} is missing: apt install apache2-utils nginx-light")
    return found


def _wait_for(port: int, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 10
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError("nginx does not listen: see its message above")


def ratio_of_medians(session: Sequence[float], by_hand: Sequence[float]) -> tuple[float, float, float]:
    """(ratio, low, high); the interval is a bootstrap of pairs."""

    def ratio(one: np.ndarray, other: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.median(one, axis=axis) / np.median(other, axis=axis)

    found = bootstrap(
        (np.array(session), np.array(by_hand)), ratio, paired=True, n_resamples=9999, rng=np.random.default_rng(1)
    ).confidence_interval
    return float(ratio(np.array(session), np.array(by_hand))), float(found.low), float(found.high)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=30)
    options.add_argument("--concurrency", type=int, default=10)
    options.add_argument("--requests", type=int, default=50_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--output", type=Path, help="write the figures to this file as JSON")
    given = options.parse_args()
    order = random.Random(given.seed)
    found: dict[str, list[float]] = {"session": [], "by hand": []}
    with tempfile.TemporaryDirectory(prefix="fidelity-") as name:
        folder = Path(name)
        with SshdHost(folder / "sshd") as sshd:
            session = Session(folder, sshd, given.concurrency, given.requests)
            measures = {
                "session": session.measure,
                "by hand": ByHand(folder, given.concurrency, given.requests).measure,
            }
            for pair in range(1, given.pairs + 1):
                for way in order.sample(list(measures), k=2):
                    found[way].append(measures[way]())
                pair_ratio = found["session"][-1] / found["by hand"][-1]
                print(
                    f"pair {pair:2}: session {found['session'][-1]:8.1f}/s  by hand {found['by hand'][-1]:8.1f}/s  "
                    f"ratio {pair_ratio:.4f}",
                    flush=True,
                )
    ratio, low, high = ratio_of_medians(found["session"], found["by hand"])
    holds = RATIO[0] <= ratio <= RATIO[1]
    medians = {way: statistics.median(values) for way, values in found.items()}
    print(
        f"c={given.concurrency}, n={given.pairs} pairs of {given.requests} requests: session "
        f"{medians['session']:.1f}/s, by hand {medians['by hand']:.1f}/s, ratio of medians {ratio:.4f} "
        f"[{low:.4f}, {high:.4f}] {'holds' if holds else 'DOES NOT HOLD'}"
    )
    if given.output:
        given.output.write_text(json.dumps({**found, "ratio": ratio, "low": low, "high": high, "holds": holds}) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

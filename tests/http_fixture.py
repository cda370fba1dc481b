"""Tidy tables of the family http_concurrency with plausible values and every kind of trouble, for layouts and tests.

The values come from a fixed seed and must never be published.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tidy_fixture import HOSTILE, Tables

CONCURRENCIES = (1, 5, 10, 20, 50, 100, 500, 1000)
RATES = (50, 200, 400)
LIMITS = {"1-core-32MiB": 1.0, "2-cores-128MiB": 1.9}
# (server, endpoint): λ, σ, κ of one core, bytes of an answer
SERVERS = {
    ("sftpgo", "static"): (3000.0, 0.7, 2e-6, 11_413),
    ("sftpgo", "list"): (1300.0, 0.35, 4e-5, 1_344),
    ("copyparty", "transcode"): (90.0, 0.75, 1e-6, 6_000),
}
OOM = "OOM: killed by the kernel at its memory limit of 32 MiB (peak 33.5 MB)"
KILLED = {"status": "failed", "cause": OOM, "cause_kind": "oom"}
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)


def law(n: float, single: float, contention: float, coherency: float) -> float:
    return single * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def levels_of(server: str, limits: str, endpoint: str, generator: str, **load: str) -> dict[str, str]:
    return {"server": server, "limits": limits, "endpoint": endpoint, "generator": generator, **load}


class HttpTables(Tables):
    """Trials of load tests, added by throughput and latency."""

    def __init__(self, root: Path, study: str = "embedded", seed: int = 5):
        super().__init__(root, study, "http_concurrency", seed)
        self.series["histogram"] = []

    def closed(
        self, levels: Mapping[str, str], block: int, throughput: float, *, generator_cpu: float = 0.3,
        length: int = 1_000, little: float = 0.002, errors: int = 0, requests: int = 5_000, **fields: Any,
    ) -> str:  # fmt: skip
        """A closed loop. Its mean latency follows Little's law, except for the relative deviation `little`.

        If `little` is negative, more requests seem to be in flight than there are connections.
        """
        n = int(levels["concurrency"])
        mean = n * (1 - little) / throughput
        values = self._latencies(mean) | {
            "throughput": (throughput, "1/s"),
            "requests": (float(requests), "1"),
            "errors": (float(errors), "1"),
            "errors_status": (float(errors), "1"),
            **{f"errors_{kind}": (0.0, "1") for kind in ("length", "timeout", "connect")},
            "duration": (requests / throughput, "s"),
            "transfer_rate": (throughput * (length + 160), "B/s"),
            "keepalive_requests": (float(requests), "1"),
            "document_length": (float(length), "B"),
            "generator_cpu": (generator_cpu, "1"),
            "server_cpu": (0.97, "1"),
            "server_peak_memory": (2.1e7 + 9e3 * n, "B"),
            "concurrency_measured": (n * (1 - little), "1"),
            "little_error": (abs(little), "1"),
        }
        numbers = {"concurrency_n": n} | ({"clients_n": float(levels["clients"])} if levels.get("clients") else {})
        return self._add(levels, block, values, numbers, mean, n, requests, **fields)

    def opened(self, levels: Mapping[str, str], block: int, achieved: float, mean: float, **fields: Any) -> str:
        rate = float(levels["rate"].removesuffix("/s"))
        values = self._latencies(mean) | {
            "throughput": (achieved, "1/s"),
            "offered": (rate, "1/s"),
            "achieved_share": (achieved / rate, "1"),
            "dropped": (float(round((rate - achieved) * 10)), "1"),
            "requests": (achieved * 10, "1"),
            "errors": (0.0, "1"),
            "generator_cpu": (0.35, "1"),
            "server_peak_memory": (3.0e7, "B"),
        }
        return self._add(levels, block, values, {"rate_per_s": rate}, mean, 50, round(achieved * 10), **fields)

    def _add(
        self, levels: Mapping[str, str], block: int, values: Mapping[str, Any], numbers: Mapping[str, float],
        mean: float, n: int, requests: int, **fields: Any,
    ) -> str:  # fmt: skip
        tool = levels["generator"]
        argv = f"{tool} -k -c {n} -n {requests} http://127.0.0.1:8334/{HOSTILE}"
        trial = self.add(levels, block, values, numbers=numbers, **{"tool": tool, "argv": argv} | fields)
        if fields.get("status", "ok") == "ok" and levels["endpoint"] != "null":
            self._histogram(mean, requests)
        return trial

    def _latencies(self, mean: float) -> dict[str, tuple[float, str]]:
        spread = 0.5
        median = mean / math.exp(spread**2 / 2)
        z = {50: 0, 66: 0.412, 75: 0.674, 80: 0.842, 90: 1.282, 95: 1.645, 98: 2.054, 99: 2.326}
        values = {f"latency_p{p}": (median * math.exp(spread * z[p]), "s") for p in PERCENTILES}
        values |= {"latency_mean": (mean, "s"), "latency_sd": (mean * 0.53, "s"), "latency_min": (median / 4, "s")}
        values["latency_max"] = (median * math.exp(spread * 3.9), "s")
        for part, share in (("connect", 0.02), ("processing", 0.98), ("waiting", 0.9)):
            parts = {"mean": 1.0, "sd": 0.5, "median": 0.9, "max": 6.0}
            values |= {f"{part}_{what}": (mean * share * factor, "s") for what, factor in parts.items()}
        return values

    def _histogram(self, mean: float, requests: int) -> None:
        samples = self.random.lognormal(math.log(mean) - 0.125, 0.5, min(requests, 2_000))
        milliseconds, counts = np.unique(np.floor(samples * 1000), return_counts=True)
        self.series["histogram"] += [
            self.head() | {"low_s": float(ms / 1000), "high_s": float((ms + 1) / 1000), "count": int(count)}
            for ms, count in zip(milliseconds, counts, strict=True)
        ]


def closed_cases(under: Iterable[str]) -> Iterator[tuple[dict[str, str], float, int]]:
    """(levels, expected throughput, bytes of an answer)"""
    for limits in under:
        for (server, endpoint), (single, contention, coherency, length) in SERVERS.items():
            for n in CONCURRENCIES:
                expected = law(n, single, contention / LIMITS[limits] ** 0.5, coherency)
                yield levels_of(server, limits, endpoint, "ab", concurrency=str(n)), expected, length


def write_http(root: Path, *, study: str = "embedded", blocks: int = 6, under: Sequence[str] = tuple(LIMITS)) -> Path:
    """A study of two servers under limits, closed and open, with a null server and every kind of failure."""
    tables = HttpTables(root, study)
    for block in range(1, blocks + 1):
        for levels, expected, length in closed_cases(under):
            n, small = int(levels["concurrency"]), levels["limits"] == "1-core-32MiB"
            fields: dict[str, Any] = {}
            if levels["endpoint"] == "transcode" and small and n >= 100:
                fields = KILLED
            elif levels["endpoint"] == "list" and small and n == 1000:
                cause = "the server ended with exit status 1: log tail: panic: too many open files"
                fields = {"status": "failed", "cause": cause} if block > 2 else KILLED
            elif levels["endpoint"] == "list" and small and n == 500 and block <= 2:
                fields = KILLED
            broken = levels["endpoint"] == "list" and not small and n == 1000
            tables.closed(
                levels, block, tables.noisy(expected, 0.02), length=length,
                generator_cpu=0.86 if levels["endpoint"] == "static" and n >= 500 else 0.3,
                little=0.11 if broken else 0.002, errors=37 if broken else 0, **fields,
            )  # fmt: skip
        for n in CONCURRENCIES[:-1]:
            levels = levels_of("nginx", "none", "null", "ab", concurrency=str(n))
            most = tables.noisy(law(n, 9000, 0.6, 1e-6), 0.02)
            tables.closed(levels, block, most, generator_cpu=0.95, length=2, requests=round(1.2 * most))
        for limits in under:
            for rate in RATES:
                levels = levels_of("sftpgo", limits, "list", "k6", rate=f"{rate}/s")
                slow = limits == "1-core-32MiB" and rate == 400
                tables.opened(
                    levels, block, tables.noisy(330 if slow else rate, 0.004), tables.noisy(0.9 if slow else 0.003)
                )
    return tables.write()

"""Tidy tables of the family log_write with plausible values and every kind of trouble, for layouts and tests.

The values come from a fixed seed and must never be published.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tidy_fixture import HOSTILE, Tables

from benchstudy.families.log_write.limits import Limit, LimitedBy

RATES = (250, 500, 1000, 2000, 4000)
WINDOW_S, WARM_UP_S = 30.0, 5.0
# (backend, antispam): what it takes at most per second, with one core and 1 GB
CAPACITY = {
    ("posix", "no"): 2350.0,
    ("posix", "yes"): 1180.0,
    ("mariadb", "no"): 640.0,
    ("gcp-emulated", "no"): 900.0,
    ("gcp-emulated", "yes"): 310.0,
}
LOST = "the log lost 3 accepted leaves, such as index 1042: the proof does not lead to the checkpoint's root"
SEARCH = {
    "start": "500/s", "lowest": "1/s", "highest": "50000/s", "factor": 2.0, "within": 0.05, "windows": 2,
    "window": 30.0, "warm_up": 3.0, "min_achieved": 0.99, "max_errors": 0.001, "max_integrate_p99": 5.0,
    "max_steps": 24,
}  # fmt: skip
DECLARED = {
    "families": {
        "log_write": {
            "backends": [
                {"name": "posix", "kind": "posix", "label": "POSIX, local disk", "emulated": False},
                {"name": "mariadb", "kind": "mysql", "label": "MariaDB (MySQL kind)", "emulated": False},
                {"name": "gcp-emulated", "kind": "gcp", "label": f"GCP kind {HOSTILE}", "emulated": True},
            ],
            "search": SEARCH,
        }
    }
}


def levels_of(backend: str, antispam: str, generator: str, rate: str, limits: str = "1-core-1GB") -> dict[str, str]:
    return {
        "backend": backend, "antispam": antispam, "limits": limits, "front_ends": "1", "duplicates": "0%",
        "generator": generator, "rate": rate,
    }  # fmt: skip


class LogTables(Tables):
    """Trials of write tests, added by the offered rate and the log's capacity."""

    def __init__(self, root: Path, study: str = "embedded", seed: int = 11):
        super().__init__(root, study, "log_write", seed)
        for name in ("growth", "latency", "histogram", "resources", "steps", "limits"):
            self.series[name] = []

    def opened(
        self, levels: Mapping[str, str], block: int, offered: float, capacity: float, *, pushback: float = 0.0,
        search: tuple[float, float | None] | None = None, **fields: Any,
    ) -> str:  # fmt: skip
        """An open loop. Above the capacity, the queue grows as long as the load lasts. `search`: (pass, fail)."""
        taken = min(offered * (1 - pushback), capacity)
        qps = self.noisy(taken, 0.004)
        behind = max(offered * (1 - pushback) - capacity, 0.0) * WINDOW_S / capacity
        load = min(taken / capacity, 0.98)
        queue, integrate = 0.004 / (1 - load) + behind * 0.9, 0.55 + 0.05 / (1 - load) + behind
        queue, integrate = self.noisy(queue, 0.08), self.noisy(integrate, 0.05)
        full = taken >= 0.985 * capacity
        values = self._times(queue, integrate) | {
            "qps": (qps, "1/s"),
            "qps_low": (qps * 0.985, "1/s"),
            "qps_high": (qps * 1.013, "1/s"),
            "offered": (offered, "1/s"),
            "achieved_share": (min(qps / offered, 1.001), "1"),
            "accepted": (round(qps * WINDOW_S), "1"),
            "duplicates": (0.0, "1"),
            "pushback": (round(offered * pushback * WINDOW_S), "1"),
            "errors": (0.0, "1"),
            "dropped": (float(round(behind * 40)) if offered > 4 * capacity else 0.0, "1"),
            "tree_size": (round(qps * (WINDOW_S + WARM_UP_S)), "1"),
            "proofs_asked": (100.0, "1"),
            "proofs_proved": (100.0, "1"),
            **self._used(load, full=full, database=levels["backend"] == "mariadb"),
        }
        if search is not None:
            low, high = search
            values |= {"capacity_pass": (low, "1/s")} | ({"capacity_fail": (high, "1/s")} if high else {})
        numbers = {"rate_per_s": None if search else offered}
        notes = self._notes(levels, "open")
        trial = self._add(levels, block, values, numbers, notes, **fields)
        if fields.get("status", "ok") == "ok":
            self._series(qps, queue, integrate, behind)
            self._limit(levels, full=full or search is not None)
            if search is not None:
                self._steps(*search)
        return trial

    def hammered(
        self, levels: Mapping[str, str], block: int, offered: float, capacity: float, *, apart: float = 0.004,
        pushback: float = 0.0,
    ) -> str:  # fmt: skip
        """The hammer, which offers at most what its writers carry. `apart`: its Δ's difference from the checkpoints."""
        qps = self.noisy(min(offered, capacity), 0.004)
        writers = round(offered * 2)
        queue = self.noisy(0.01 if offered < capacity else writers / qps * 0.97, 0.01)
        values = {
            "qps": (qps, "1/s"),
            "qps_low": (qps * 0.98, "1/s"),
            "qps_high": (qps * 1.02, "1/s"),
            "qps_of_hammer_window": (qps * 1.001, "1/s"),
            "offered": (offered, "1/s"),
            "achieved_share": (qps / offered, "1"),
            "pushback": (pushback, "1"),
            "errors": (0.0, "1"),
            "tree_size": (round(qps * 35), "1"),
            "proofs_asked": (100.0, "1"),
            "proofs_proved": (100.0, "1"),
            "hammer_qps_mean": (qps * (1.001 + apart), "1/s"),
            "hammer_qps": (float(round(qps * (1.001 + apart))), "1/s"),
            "hammer_oversupply": (float(round(max(offered - qps, 0))), "1"),
            "hammer_writers": (float(writers), "1"),
            "hammer_write_max": (offered, "1/s"),
            "hammer_read_workers": (8.0, "1"),
            "hammer_read_max": (0.0, "1/s"),
            "hammer_read_oversupply": (0.0, "1"),
            "hammer_tree_size": (float(round(qps * 34)), "1"),
            "hammer_window": (30.0, "s"),
            **{f"hammer_queue_{end}": (queue * f, "s") for end, f in (("min", 0.4), ("avg", 1.0), ("max", 1.7))},
            **{f"hammer_integrate_{e}": ((queue + 0.6) * f, "s") for e, f in (("min", 0.8), ("avg", 1), ("max", 1.3))},
            **self._used(qps / capacity, full=offered >= capacity, database=False),
        }
        trial = self._add(levels, block, values, {"rate_per_s": offered}, self._notes(levels, "closed"))
        self._limit(levels, full=offered >= capacity)
        return trial

    def _add(
        self, levels: Mapping[str, str], block: int, values: Mapping[str, Any], numbers: Mapping[str, Any],
        notes: Mapping[str, Any], **fields: Any,
    ) -> str:  # fmt: skip
        tool = "tessera-hammer" if levels["generator"] == "hammer" else "logbench"
        numbers = {"front_ends_n": 1, "duplicate_share": 0.0} | dict(numbers)
        own = {"tool": tool, "argv": f"{tool} write --config /dev/stdin {HOSTILE}", "verified": json.dumps(notes)}
        return self.add(levels, block, values, numbers=numbers, **own | fields)

    def _notes(self, levels: Mapping[str, str], loop: str) -> dict[str, Any]:
        emulated = levels["backend"].endswith("emulated")
        placement = {"shared": levels["limits"] == "none", "same_host": True}
        return {"loop": loop, "emulated": emulated, "placement": placement, "source": HOSTILE}

    def _limit(self, levels: Mapping[str, str], *, full: bool) -> None:
        limit = Limit(LimitedBy.NOTHING)
        if full and levels["backend"] == "mariadb":
            limit = Limit(LimitedBy.DATABASE_FSYNC, share=0.81, server_cpu=0.22, database_cpu=0.35)
        elif full and levels["limits"] == "none":
            limit = Limit(LimitedBy.GENERATOR_CPU, server_cpu=0.74, generator_cpu=0.97)
        elif full:
            limit = Limit(LimitedBy.SERVER_CPU, server_cpu=0.99, generator_cpu=0.31)
        self.series["limits"].append(self.head() | asdict(limit))

    def _times(self, queue: float, integrate: float) -> dict[str, tuple[float, str]]:
        shape = {"p50": 0.9, "p90": 1.5, "p99": 2.1, "mean": 1.0, "max": 3.2}
        times = {"queue": queue, "integrate": integrate}
        return {f"{which}_{name}": (t * f, "s") for which, t in times.items() for name, f in shape.items()}

    def _used(self, load: float, *, full: bool, database: bool) -> dict[str, tuple[float, str]]:
        found = {
            "server_cpu": (0.22 if database else 0.99 if full else load, "1"),
            "generator_cpu": (0.3 * load, "1"),
            "server_peak_memory": (9.1e7 + 4e7 * load, "B"),
            "disk_write": (6e6 * load, "B/s"),
            "disk_busy": (0.4 * load, "1"),
        }
        return found | ({"database_cpu": (0.35, "1")} if database else {})

    def _series(self, qps: float, queue: float, integrate: float, behind: float) -> None:
        head = self.head()
        seconds = np.arange(1.0, WARM_UP_S + WINDOW_S + 1)
        grown = qps * self.random.normal(1, 0.02, len(seconds))
        sizes = np.cumsum(grown).round()
        for t, size, rate in zip(seconds, sizes, grown, strict=True):
            self.series["growth"].append(head | {"t_s": float(t), "size": int(size), "qps": float(rate)})
            rising = 2 * t / seconds[-1] if behind else float(self.random.normal(1, 0.05))
            self.series["latency"].append(
                head
                | {
                    "t_s": float(t),
                    "integrate_p50_s": integrate * 0.9 * rising,
                    "integrate_p99_s": integrate * 2.1 * rising,
                    "queue_p50_s": queue * 0.9 * rising,
                    "queue_p99_s": queue * 2.1 * rising,
                }
            )
        for which, mean in (("queue", queue), ("integrate", integrate)):
            samples = self.random.lognormal(math.log(mean) - 0.045, 0.3, 2_000)
            buckets, counts = np.unique(np.floor(np.log(samples) / math.log(1.02)), return_counts=True)
            self.series["histogram"] += [
                head | {"which": which, "low_s": 1.02**b, "high_s": 1.02 ** (b + 1), "count": int(n) * 15}
                for b, n in zip(buckets.tolist(), counts, strict=True)
            ]

    def _steps(self, passed: float, failed: float | None) -> None:
        tried = [(passed / 2, True), *([(failed * 1.6, False), (failed, False)] if failed else []), (passed, True)]
        for number, (rate, ok) in enumerate(tried, start=1):
            self.series["steps"].append(
                self.head()
                | {
                    "step": number,
                    "attempt": 1 if ok else 2,
                    "offered_per_s": rate,
                    "achieved_per_s": min(rate, passed * 1.01),
                    "errors": 0,
                    "pushback": 0,
                    "integrate_p99_s": 1.2 if ok else 9.7,
                    "passed": ok,
                    "dropped": 0 if ok else 120,
                    "missed": None if ok else "achieved",
                    **({"seen": None, "bound": None} if ok else {"seen": 0.91, "bound": 0.99}),
                    **dict.fromkeys(("busy_generator", "cause", "said")),
                }
            )

    def _index(self) -> dict[str, Any]:
        index = super()._index()
        index["sessions"][0]["declared"] = DECLARED
        return index


def write_log(root: Path, *, study: str = "embedded", blocks: int = 6) -> Path:
    """Three backends with a limit and one without; open and closed loops and searches, with every kind of failure."""
    tables = LogTables(root, study)
    for block in range(1, blocks + 1):
        for (backend, antispam), capacity in CAPACITY.items():
            for rate in RATES:
                levels = levels_of(backend, antispam, "open", f"{rate}-per-s")
                fields: dict[str, Any] = {}
                if backend == "mariadb" and rate == 4000:
                    cause = "the database has too few connections (max_connections): 1200 errors, such as 503"
                    fields = {"status": "failed", "cause": cause}
                elif (backend, antispam, rate, block) == ("mariadb", "no", 500, 2):
                    fields = {"status": "failed", "cause": LOST, "cause_kind": "data-lost"}
                pushback = 0.12 if antispam == "yes" and rate > capacity else 0.0
                tables.opened(levels, block, rate, capacity, pushback=pushback, **fields)
            if backend != "gcp-emulated":
                low = float(f"{capacity * (0.96 + 0.01 * (block % 3)):.3g}")
                levels = levels_of(backend, antispam, "open", "search")
                ends = (low, None if backend == "mariadb" and block == 1 else float(f"{low * 1.04:.3g}"))
                tables.opened(levels, block, low, capacity, search=ends)
        for antispam in ("no", "yes"):
            capacity = CAPACITY["posix", antispam]
            for rate in (1000, 4000):
                apart = 0.05 if (antispam, rate, block) == ("yes", 4000, 3) else 0.004
                levels = levels_of("posix", antispam, "hammer", f"{rate}-per-s")
                tables.hammered(levels, block, rate, capacity, apart=apart)
        levels = levels_of("posix", "no", "open", "8000-per-s", limits="none")
        tables.opened(levels, block, 8000, 6100)
    return tables.write()

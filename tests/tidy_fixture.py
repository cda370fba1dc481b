"""Tidy tables as in docs/design.md and docs/families/*.md, with realistic values and unpleasant trials.

The numbers come from a fixed seed. They exist for layouts and tests, and must never be published.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchstudy.jobs.parts import TRIALS
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results

HOSTILE = '<script>document.title="owned"</script>'
_SIZES = {"100KB": 100_000, "1MB": 1_000_000, "10MB": 10_000_000, "100MB": 100_000_000}
# backend: seconds per operation, bytes per second (write, read cold, read warm)
_BACKENDS = {
    "local": (0.0003, 4e8, 6e8, 6e9),
    "s3": (0.006, 9e7, 3e8, 3e8),
    "sshfs": (0.011, 2e8, 1.7e8, 3e9),
}
_SHA = hashlib.sha256(b"").hexdigest()
_STARTED = datetime(2026, 11, 20, 10, tzinfo=UTC)
_SESSION = "00000000-0000-4000-8000-000000000000"


class Tables:
    """Collects trials and writes the tables of one family."""

    def __init__(self, root: Path, study: str, family: str, seed: int = 1):
        self.root, self.study, self.family = root, study, family
        self.random = np.random.default_rng(seed)
        self.observations: list[dict[str, Any]] = []
        self.cases: dict[tuple[str, str], dict[str, Any]] = {}
        self.trials: list[dict[str, Any]] = []
        self.series: dict[str, list[dict[str, Any]]] = {}

    def add(
        self,
        levels: Mapping[str, str],
        block: int,
        values: Mapping[str, tuple[float, str]],
        *,
        numbers: Mapping[str, float] | None = None,
        target: str = "this-machine",
        **fields: Any,
    ) -> str:
        """Add one trial; `fields` override columns of the trial table (status, cause, discarded_why, imported …)."""
        case = ",".join(f"{k}={v}" for k, v in levels.items())
        trial = hashlib.sha256(f"{self.study}{target}{case}{block}{len(self.trials)}".encode()).hexdigest()[:8]
        self.cases.setdefault((target, case), {"target": target, "case": case, **levels, **(numbers or {})})
        raw = f"data/raw/{self.study}/{target}/{self.family}/{case}/{block}-{trial}"
        files = [
            {"name": n, "size": 0 if n == "stderr" else 1, "sha256": _SHA}
            for n in ("result.json", "stderr", "stdout", "supervisor.json", "trial.json")
        ]
        row = {
            "trial": trial,
            "target": target,
            "case": case,
            "block": block,
            "position": len(self.trials) + 1,
            "status": "ok",
            "cause": None,
            "cause_kind": None,
            "started": (_STARTED + timedelta(minutes=block)).isoformat(timespec="milliseconds"),
            "duration_s": 1.5,
            "argv": f"python3 -I ~/.benchstudy/agent-0123456789ab file-size {case} --folder /tmp/benchstudy-{trial}",
            "raw": raw,
            "raw_files": json.dumps(files),
            "tool": "python3",
            "tool_version": "Python 3.11.2",
            "tool_sha256": _SHA,
            "programs": json.dumps([("sut", "/usr/bin/python3", _SHA)]),
            "study_sha256": _SHA,
            "session": _SESSION,
            "instrument": _SHA,
            "imported": False,
            "discarded_why": None,
            "load_before": 0.4,
            "load_after": 0.7,
            "verified": json.dumps({"file_system": {"type": "ext4", "source": HOSTILE}}),
            "disturbed": None,
            "disturbance": None,
            "set_aside": None,
        } | fields
        self.trials.append(row)
        if row["discarded_why"] is None and row["status"] != "aborted":
            head = {
                "study": self.study,
                "target": target,
                "family": self.family,
                "case": case,
                "block": block,
                "trial": trial,
            }
            if row["status"] != "ok":
                values = {"trial": (None, "1")}
            for metric, (value, unit) in values.items():
                self.observations.append(
                    head | {"metric": metric, "value": value, "unit": unit, "status": row["status"]}
                )
        return trial

    def head(self) -> dict[str, Any]:
        """The columns of the last trial that each of its rows in a long table has."""
        return {name: self.trials[-1][name] for name in ("target", "case", "block", "trial")}

    def noisy(self, value: float, spread: float = 0.12) -> float:
        return float(value * math.exp(self.random.normal(0, spread)))

    def write(self) -> Path:
        folder = self.root / "data" / "tidy" / self.study / self.family
        folder.mkdir(parents=True, exist_ok=True)
        types = {**TRIALS, "value": pl.Float64}
        for name, rows in {"observations": self.observations, "trials": self.trials, **self.series}.items():
            pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None).write_parquet(
                folder / f"{name}.parquet"
            )
        pl.DataFrame(list(self.cases.values()), infer_schema_length=None).write_parquet(folder / "cases.parquet")
        index = self._index()
        path = self.root / "data" / "raw" / self.study / "this-machine" / self.family / "session.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(index))
        return folder

    def results(self) -> Results:
        """Write the tables, and read them as pages do."""
        return Results(self.write(), study=self.study, family=self.family)

    def page(self) -> Page:
        """Write the tables, and begin the page of the family."""
        output = f"reports/{self.study}/{self.family}"
        return Page(self.family, study=self.study, tidy=self.write(), output=output)

    def _index(self) -> dict[str, Any]:
        facts = {
            "cpus_allowed": 2,
            "kernel": {"release": "6.1.0"},
            "hostname": HOSTILE,
            "memory_total_bytes": 8e9,
            "lscpu": {"Model name": "A processor"},
            "os_release": {"PRETTY_NAME": "Debian 12"},
        }
        change = f'swappiness: "60" -> "10 {HOSTILE}"'
        environment = {"before": facts, "after": facts, "diff": [change]}
        session = {
            "uuid": _SESSION,
            "seed": 7,
            "started": "2026-11-20T10:00:00.000+00:00",
            "finished": "2026-11-20T10:09:00.000+00:00",
            "controller": "desk",
            "instrument": _SHA,
            "study_sha256": _SHA,
            "declared": {"thresholds": {"margin": 0.05, "margins": {}}},
            "hosts": {"here": environment},
            "events": ["2026-11-20T10:03:00.000+00:00 connection to here lost, reconnected after 4 s"],
        }
        keys = ("case", "block", "position", "status", "cause")
        trials = [
            {
                "uuid": t["trial"],
                "path": t["raw"].split(f"/{self.family}/")[1],
                "files": [],
                **{k: t[k] for k in keys},
            }
            for t in self.trials
        ]
        discarded = [
            {
                "uuid": t["trial"],
                "why": t["discarded_why"],
                "by": "analyst",
                "when": "2026-11-20T11:00:00.000+00:00",
            }
            for t in self.trials
            if t["discarded_why"]
        ]
        return {
            "schema_version": 1,
            "study": self.study,
            "target": "this-machine",
            "family": self.family,
            "study_sha256": _SHA,
            "plan": _SHA,
            "problem": None,
            "sessions": [session],
            "trials": trials,
            "discarded": discarded,
        }


def file_size_levels() -> Iterator[tuple[dict[str, str], float]]:
    """(levels, expected seconds) of a small study."""
    for backend, (cost, write, cold, warm) in _BACKENDS.items():
        for size, size_bytes in _SIZES.items():
            for sync in ["server"] if backend == "s3" else ["fsync", "none"]:
                rate = write * (3 if sync == "none" else 1)
                yield (
                    {"backend": backend, "op": "write", "size": size, "sync": sync},
                    cost * 4 + size_bytes / rate,
                )
            for cache in ["uncontrolled"] if backend == "s3" else ["cold", "warm"]:
                rate = warm if cache == "warm" else cold
                yield (
                    {"backend": backend, "op": "read", "size": size, "cache": cache},
                    cost + size_bytes / rate,
                )


def write_file_size(
    root: Path,
    *,
    study: str = "embedded",
    blocks: int = 6,
    hostile: bool = True,
    ops: Sequence[str] = ("write", "read"),
) -> Path:
    """The tables of a `file_size` family; with `hostile` also trials that failed, were discarded or bear evil names."""
    tables = Tables(root, study, "file_size")
    for levels, seconds in file_size_levels():
        if levels["op"] not in ops:
            continue
        size_bytes = _SIZES[levels["size"]]
        for block in range(1, blocks + 1):
            duration = tables.noisy(seconds)
            values = {
                "duration": (duration, "s"),
                "throughput": (size_bytes / duration, "B/s"),
                "operations": (5.0, "1"),
            }
            if levels["op"] == "read" and levels["backend"] != "s3":
                cold = levels["cache"] == "cold"
                values["cached_before"] = (0.0 if cold else 1.0, "1")
                values["device_read"] = (
                    float(size_bytes) if cold and levels["backend"] == "local" else 0.0,
                    "B",
                )
            fields: dict[str, Any] = {}
            if hostile and levels["backend"] == "sshfs" and levels["size"] == "100MB" and levels["op"] == "write":
                # one level always fails, the other only in two blocks
                if levels["sync"] == "fsync":
                    fields = {
                        "status": "failed",
                        "cause": f"sshfs: write failed: No space left on device {HOSTILE}",
                    }
                elif block <= 2:
                    fields = {"status": "timeout", "cause": "ended after 600 s"}
            tables.add(levels, block, values, numbers={"size_bytes": size_bytes}, **fields)
    if hostile:
        levels = {"backend": "local", "op": "read", "size": "1MB", "cache": "cold"}
        numbers = {"size_bytes": 1_000_000}
        tables.add(
            levels,
            2,
            {},
            numbers=numbers,
            discarded_why=f"the host was being backed up {HOSTILE}",
            load_before=9.0,
        )
        tables.add(levels, 3, {}, numbers=numbers, status="aborted", cause="the host was restarted during the trial")
        tables.add(
            levels,
            7,
            {"duration": (0.004, "s"), "throughput": (2.5e8, "B/s")},
            numbers=numbers,
            load_before=3.9,
        )
        evil = {"backend": HOSTILE, "op": "read", "size": "1MB", "cache": "cold"}
        for block in range(1, 4):
            tables.add(
                evil,
                block,
                {"duration": (tables.noisy(0.02), "s"), "throughput": (5e7, "B/s")},
                numbers=numbers,
            )
    return tables.write()


# The problems of some targets of a fleet.
SLOW, NOISY, LAME, DEAD = "t7", "t11", "t13", "t17"


def write_fleet(
    root: Path, targets: int, *, study: str = "embedded", blocks: int = 6, sizes: tuple[str, ...] = ("1MB",)
) -> Path:  # fmt: skip
    """The tables of a `file_size` family on many targets, which differ by 10 %.

    SLOW is 3 times as slow, NOISY is so in half of its trials, LAME fails each trial of two cases, DEAD all trials.
    """
    tables = Tables(root, study, "file_size", seed=3)
    levels_of = [(levels, s) for levels, s in file_size_levels() if levels["size"] in sizes]
    names = [f"t{number}" for number in range(1, targets + 1)]
    for name in names:
        own = tables.noisy(1.0, 0.1)
        for levels, seconds in levels_of:
            size_bytes = _SIZES[levels["size"]]
            lame = name == LAME and levels["backend"] == "sshfs" and levels["op"] == "write"
            for block in range(1, blocks + 1):
                slow = {SLOW: 3.0, NOISY: 0.9 if block % 2 else 9.0}.get(name, 1.0)
                duration = tables.noisy(seconds * own * slow, 0.03)
                values = {"duration": (duration, "s"), "throughput": (size_bytes / duration, "B/s")}
                lost = {"status": "failed", "cause": f"no space left on {name}"} if lame or name == DEAD else {}
                tables.add(levels, block, values, numbers={"size_bytes": size_bytes}, target=name, **lost)
    folder = tables.write()
    of_all = root / "data" / "raw" / study / "this-machine" / "file_size" / "session.json"
    index = json.loads(of_all.read_text())
    of_all.unlink()
    for name in names:
        path = of_all.parents[2] / name / "file_size" / "session.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(index | {"target": name, "trials": []}))
    return folder


_FIO_JOBS = {"gitlab": (9_000.0, 3_000.0), "gitlab-latency": (8_600.0, 2_870.0), "seq-write": (None, 210.0)}


def write_command(root: Path, *, study: str = "embedded", blocks: int = 6) -> Path:
    """The tables of a `command` family with two programs at two levels of a number, and their runs."""
    tables = Tables(root, study, "command", seed=5)
    runs: list[dict[str, Any]] = []
    for name, base in {"fast": 0.05, "slow": 0.2}.items():
        for level in ("1", "4"):
            for block in range(1, blocks + 1):
                wall_s = tables.noisy(base / float(level))
                values = {"wall_time": (wall_s, "s"), "user_time": (wall_s * 0.8, "s"), "start_up": (0.001, "s")}
                levels = {"command": name, "threads": level}
                tables.add(levels, block, values, numbers={"threads_number": float(level)}, tool=name)
                runs.append({**tables.head(), "run": 1, "wall_s": wall_s, "user_s": wall_s * 0.8, "system_s": 0.0})
    tables.series["runs"] = runs
    return tables.write()


def write_fio(root: Path, *, study: str = "embedded", blocks: int = 6) -> Path:
    """The tables of a `fio` family with one directory, three jobs, the small-files test and an imported output."""
    tables = Tables(root, study, "fio", seed=2)
    histogram: list[dict[str, Any]] = []
    for job, rates in _FIO_JOBS.items():
        levels = {"directory": "data", "test": "fio", "job": job}
        block_size = 1 << 20 if job == "seq-write" else 4096
        for block in range(1, blocks + 1):
            values: dict[str, tuple[float, str]] = {}
            for op, rate in zip(("read", "write"), rates, strict=True):
                if rate is not None:
                    iops = tables.noisy(rate, 0.06)
                    values |= {
                        f"{op}_iops": (iops, "1/s"),
                        f"{op}_bandwidth": (iops * block_size, "B/s"),
                        f"{op}_ios": (iops * 10, "1"),
                    }
                    if job != "gitlab":
                        values[f"{op}_clat_p50"] = (1 / iops, "s")
            tables.add(
                levels,
                block,
                values,
                tool="fio",
                tool_version="fio-3.33",
                argv="fio --name=test --bs=4k --output=fio.json",
            )
            if job != "gitlab":
                histogram += _histogram(tables, rates)
    for job, (write, read) in {"shell-loop": (0.08, 1.9), "no-fork": (0.02, 0.011)}.items():
        for block in range(1, blocks + 1):
            values = {f"{op}_time": (tables.noisy(t), "s") for op, t in (("write", write), ("read", read))}
            values |= {f"{op}_time_per_file": (v / 1001, "s") for op, v in (("write", write), ("read", read))}
            tables.add(
                {"directory": "data", "test": "small-files", "job": job},
                block,
                values | {"files": (1001.0, "1")},
                tool="bash",
                tool_version="5.2.15",
            )
    imported = {"read_iops": (33_415.0, "1/s"), "write_iops": (11_219.0, "1/s")}
    tables.add(
        {"directory": "imported", "test": "fio", "job": "test"},
        1,
        imported,
        tool="fio",
        tool_version="fio-2.2.10",
        imported=True,
        argv=None,
        instrument=None,
    )
    tables.series["latency_histogram"] = histogram
    return tables.write()


def _histogram(tables: Tables, rates: tuple[float | None, float]) -> list[dict[str, Any]]:
    rows = []
    for op, rate in zip(("read", "write"), rates, strict=True):
        if rate is None:
            continue
        edges = np.geomspace(2e-5, 2.0, 90)
        samples = tables.random.lognormal(math.log(20 / rate), 0.7, size=min(4_000, int(rate)))
        counts, _ = np.histogram(samples, edges)
        rows += [
            tables.head()
            | {"op": op, "kind": "clat", "lower_s": float(low), "upper_s": float(high), "count": int(count)}
            for low, high, count in zip(edges, edges[1:], counts, strict=False)
            if count
        ]
    return rows

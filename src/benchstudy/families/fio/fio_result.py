"""The content of a fio output of any version and format, and its observations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchstudy.families.shared.clients import Bins, bin_of_rank, merged, pooled_mean, pooled_sd, rank_of
from benchstudy.model.family import Observation, Parsed, ParseError

# The percentiles given, and the operations a trial must have had for each: with fewer, even the extremes do
# not bracket the percentile at 95 % (`stats.smallest_n`, not imported because scipy takes a second to load).
MIN_OPERATIONS: Mapping[float, int] = {50.0: 6, 90.0: 36, 95.0: 72, 99.0: 368, 99.9: 3688}

RANGE_S = 2.0**34 / 1e9  # of fio's histograms in nanoseconds


@dataclass(frozen=True)
class Latency:
    """Latencies in s. `percentiles` maps 99.9 to its value. `count` is None if the output lacks it."""

    count: int | None
    min: float
    max: float
    mean: float
    stddev: float
    percentiles: Mapping[float, float] = field(default_factory=dict)
    bins: Bins = ()


@dataclass(frozen=True)
class Direction:
    """What one job did in one direction (read, write or trim). `latencies` has the keys slat, clat, lat."""

    iops: float
    bandwidth: float  # B/s
    bytes: float
    runtime: float  # s
    ios: int | None
    short_ios: int | None
    dropped_ios: int | None
    latencies: Mapping[str, Latency]


@dataclass(frozen=True)
class FioJob:
    """`options`: those the document tells, by fio's names; of plain text a few. `failed`: what ended it, in words.

    `cpu_user`, `cpu_system`: shares of one core, as the mean over its processes. `summed_s`: the run times of all its
    processes together, if fio told them.
    """

    name: str
    group: int
    directions: Mapping[str, Direction]
    sync: Latency | None
    cpu_user: float | None
    cpu_system: float | None
    io_errors: int
    processes: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    failed: str | None = None
    summed_s: float | None = None

    @property
    def runtime(self) -> float:
        """Seconds that its slowest process took."""
        if self.summed_s and self.processes == 1:
            return self.summed_s
        return max((direction.runtime for direction in self.directions.values()), default=0.0)


@dataclass(frozen=True)
class FioRun:
    """One run, or one of its groups. `all_options`: whether a job's options are all that were given.

    `ended`: when fio printed it, in seconds since 1970, and `ended_as_printed` where only a clock without a zone tells.
    """

    version: str  # "fio-3.33"
    jobs: Sequence[FioJob]
    all_options: bool = False
    devices: Sequence[str] = ()
    ended: float | None = None
    ended_as_printed: str | None = None
    command: str | None = None
    interrupted: str | None = None  # fio's own words

    @property
    def name(self) -> str:
        """The names of its jobs, joined by '+'."""
        return "+".join(dict.fromkeys(job.name for job in self.jobs))

    @property
    def groups(self) -> list[int]:
        """The numbers of its groups. Jobs of a group ran side by side, and groups one after another (`stonewall`)."""
        return list(dict.fromkeys(job.group for job in self.jobs))

    def only(self, group: int) -> "FioRun":
        """One of its groups. Raises ParseError when it has no such group."""
        jobs = [job for job in self.jobs if job.group == group]
        if not jobs:
            raise ParseError(f"fio's output has no group {group} of jobs: {', '.join(map(str, self.groups))}")
        after = self.groups[self.groups.index(group) + 1 :]
        later = replace(self, jobs=[job for job in self.jobs if job.group in after]).runtime
        ended = self.ended - later if self.ended else None
        return replace(self, jobs=jobs, ended=ended, interrupted=None if after else self.interrupted)

    @property
    def runtime(self) -> float:
        """Seconds that its I/O took: the groups ran one after another."""
        longest = dict.fromkeys(self.groups, 0.0)
        for job in self.jobs:
            longest[job.group] = max(longest[job.group], *(d.runtime for d in job.directions.values()), 0.0)
        return sum(longest.values())

    @property
    def failure(self) -> str | None:
        """Why the run failed, in words; None if it did not."""
        failed = next((f"fio job {job.name} {job.failed}" for job in self.jobs if job.failed), None)
        return failed or (f"fio was interrupted: {self.interrupted}" if self.interrupted else None)


def observe(run: FioRun, processors: int | None = None, lasts_s: float | None = None) -> Parsed:
    """Return the observations of all jobs of a run together, and the series `latency_histogram`.

    `processors`: of the host, None if unknown. `lasts_s`: the time that rates are of, if it is not that of the slowest.
    Raises ParseError if the run failed, did no I/O, or had jobs that ran one after another and so cannot be added up.
    """
    if run.failure:
        raise ParseError(run.failure)
    if len(run.groups) > 1:
        raise ParseError(
            f"fio ran the jobs {run.name} in groups one after another; give each group an output of its own, "
            "because rates of different times cannot be added up"
        )
    observations: list[Observation] = []
    histogram: list[dict[str, object]] = []
    for op in ("read", "write", "trim"):
        directions = [job.directions[op] for job in run.jobs if op in job.directions]
        if not directions:
            continue
        observations += _rates(op, directions, lasts_s or max(d.runtime for d in directions))
        for kind in ("slat", "clat", "lat"):
            parts = [d.latencies[kind] for d in directions if kind in d.latencies]
            if len(parts) == len(directions):
                observations += _latency(f"{op}_{kind}", parts)
                histogram += _histogram(op, kind, parts)
    if not observations:
        raise ParseError(f"fio job {run.name}: no read, write or trim was done at all")
    syncs = [job.sync for job in run.jobs if job.sync is not None]
    if syncs:
        if (count := _total(s.count for s in syncs)) is not None:
            observations.append(Observation("sync_ios", float(count), "1"))
        observations += _latency("sync_lat", syncs)
        histogram += _histogram("sync", "lat", syncs)
    observations += _cpu(run.jobs, processors)
    observations.append(Observation("io_errors", float(sum(job.io_errors for job in run.jobs)), "1"))
    return Parsed(observations, {"latency_histogram": histogram} if histogram else {})


def _cpu(jobs: Sequence[FioJob], processors: int | None) -> Iterator[Observation]:
    """CPU times of jobs that ran side by side add up; `generator_cpu` is how close they came to what they may use."""
    longest_s = max(job.runtime for job in jobs)
    totals = {}
    for name in ("cpu_user", "cpu_system"):
        shares = [(share, job) for job in jobs if (share := getattr(job, name)) is not None]
        if shares:
            summed = [(share, job.summed_s or job.processes * job.runtime) for share, job in shares]
            totals[name] = sum(share * (took_s / longest_s) for share, took_s in summed)
            yield Observation(name, totals[name], "1")
    of_processes = [
        job.cpu_user + job.cpu_system for job in jobs if job.cpu_user is not None and job.cpu_system is not None
    ]
    if of_processes:
        of_host = sum(totals.values()) / processors if processors else 0.0
        yield Observation("generator_cpu", max(*of_processes, of_host), "1")


def _rates(op: str, directions: Sequence[Direction], lasts_s: float) -> list[Observation]:
    """Totals of jobs that ran side by side add up; rates are those totals by `lasts_s`, in which some ended early."""
    found = [
        Observation(f"{op}_iops", sum(d.iops * (d.runtime / lasts_s) for d in directions), "1/s"),
        Observation(f"{op}_bandwidth", sum(d.bandwidth * (d.runtime / lasts_s) for d in directions), "B/s"),
        Observation(f"{op}_bytes", sum(d.bytes for d in directions), "B"),
        Observation(f"{op}_runtime", max(d.runtime for d in directions), "s"),
    ]
    for name in ("ios", "short_ios", "dropped_ios"):
        total = _total(getattr(direction, name) for direction in directions)
        if total is not None:
            found.append(Observation(f"{op}_{name}", float(total), "1"))
    return found


def _total(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(v for v in known if v is not None)


def _latency(prefix: str, parts: Sequence[Latency]) -> list[Observation]:
    count = _total(p.count for p in parts)
    found = [
        Observation(f"{prefix}_min", min(p.min for p in parts), "s"),
        Observation(f"{prefix}_max", max(p.max for p in parts), "s"),
    ]
    moments = (parts[0].mean, parts[0].stddev) if len(parts) == 1 else _pooled(parts)
    if moments is not None:
        found += [Observation(f"{prefix}_mean", moments[0], "s"), Observation(f"{prefix}_stddev", moments[1], "s")]
    if count is not None:
        percentiles = parts[0].percentiles if len(parts) == 1 else _merged_percentiles(parts)
        found += [
            Observation(f"{prefix}_p{percentile:g}", percentiles[percentile], "s")
            for percentile, needed in MIN_OPERATIONS.items()
            if percentile in percentiles and count >= needed
        ]
    return found


def _pooled(parts: Sequence[Latency]) -> tuple[float, float] | None:
    """Mean and standard deviation of all samples together, exactly; None when a part's count is unknown."""
    counts = [p.count for p in parts if p.count]
    if len(counts) < len(parts) or sum(counts) < 2:
        return None
    means = [p.mean for p in parts]
    mean, sd = pooled_mean(means, counts), pooled_sd(means, [p.stddev for p in parts], counts)
    return None if mean is None or sd is None else (mean, sd)


def _merged_percentiles(parts: Sequence[Latency]) -> dict[float, float]:
    """From the merged histogram, by fio's own rule: nearest rank, middle of the bin. None in a bin beyond its range."""
    if any(not p.bins for p in parts):
        return {}
    bins = merged(part.bins for part in parts)
    total, found = sum(count for *_, count in bins), {}
    for percent in MIN_OPERATIONS:
        edges = bin_of_rank(bins, rank_of(percent, total))
        if edges and edges[1] <= RANGE_S:
            found[percent] = sum(edges) / 2
    return found


def _histogram(op: str, kind: str, parts: Sequence[Latency]) -> list[dict[str, object]]:
    return [
        {"op": op, "kind": kind, "lower_s": lower, "upper_s": upper, "count": count}
        for lower, upper, count in merged(part.bins for part in parts)
    ]

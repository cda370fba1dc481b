"""The result of logbench (envs/tessera/logbench): a constant load on a log, or a watch of a log that others write to.

Times are in s, rates in 1/s, sizes in B. Figures of the window cover the leaves that were due in it. Latencies start
when a leaf was due.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from benchstudy.families.shared.clients import percentile
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_CONFIG = ConfigDict(strict=True, allow_inf_nan=False)
_Count = Annotated[int, Field(ge=0)]
_Time = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=_CONFIG)
class Counts:
    """Outcomes of leaves. `accepted` includes `duplicates`, which the log answered with an index that it had given
    before. `duplicates_sent`: leaves that were sent again, whether or not the log recognised them.
    """

    planned: _Count
    sent: _Count
    accepted: _Count
    duplicates: _Count
    duplicates_sent: _Count
    pushback_500: _Count
    pushback_503: _Count
    errors_status: _Count
    errors_answer: _Count  # 200 without an index
    errors_connect: _Count
    errors_timeout: _Count
    dropped: _Count  # not sent, because the limit of leaves in flight was reached

    @property
    def pushback(self) -> int:
        return self.pushback_500 + self.pushback_503

    @property
    def errors(self) -> int:
        """All failures except pushback."""
        return self.errors_status + self.errors_answer + self.errors_connect + self.errors_timeout


@dataclass(frozen=True, config=_CONFIG)
class Quantile:
    q: Annotated[float, Field(gt=0, lt=1)]
    value_s: _Time


@dataclass(frozen=True, config=_CONFIG)
class Summary:
    """Summary of times, with exact quantiles (nearest rank). Without times, the rest is None."""

    count: _Count
    min_s: _Time | None
    mean_s: _Time | None
    max_s: _Time | None
    quantiles: list[Quantile]

    def quantile(self, q: float) -> float | None:
        """Return a quantile in s, for `q` 0.5, 0.9, 0.95, 0.99 or 0.999; None without times."""
        return next((quantile.value_s for quantile in self.quantiles if quantile.q == q), None)


@dataclass(frozen=True, config=_CONFIG)
class Bin:
    """A bin with `count` times from `low_s` to below `high_s`, which is at most 0.8 % or 1 µs more."""

    low_s: _Time
    high_s: _Time
    count: Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=_CONFIG)
class Distribution(Summary):
    """A histogram. `bins`: non-empty ones, in ascending order. `hdr`: HDR histogram in µs (V2, compressed, base64)."""

    bins: list[Bin]
    hdr: str

    def among(self, slower: int) -> Summary:
        """Summarize these times and `slower` leaves that have no time, because each took longer than these.

        What is unknown because of them is None: mean, maximum, and quantiles that lie among them.
        """
        if not slower:
            return self
        bins = [(one.low_s, one.high_s, one.count) for one in self.bins]
        found = [(one.q, percentile(bins, 100 * one.q, slower)) for one in self.quantiles]
        known = [Quantile(q, seconds) for q, seconds in found if seconds is not None]
        return Summary(self.count + slower, self.min_s, None, None, known)


@dataclass(frozen=True, config=_CONFIG)
class Checkpoint:
    """A new, verified checkpoint. `t_s`: the time of the poll since the start of the load, negative before it."""

    t_s: float
    size: _Count


@dataclass(frozen=True, config=_CONFIG)
class Sample:
    """The second of the load that starts at `t_s`. `accepted` counts the answers in it, `integrated` the growth of the
    tree in it. All else covers the leaves that were due in it.
    """

    t_s: _Time
    sent: _Count
    accepted: _Count
    integrated: _Count
    pushback: _Count
    errors: _Count
    dropped: _Count
    add_p50_s: _Time | None
    add_p99_s: _Time | None
    integrate_p50_s: _Time | None
    integrate_p99_s: _Time | None


@dataclass(frozen=True, config=_CONFIG)
class Text:
    """A message of the log, or of the connection, for leaves that were not accepted. `kind`: as in Counts."""

    kind: str
    text: str
    count: Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=_CONFIG)
class LostLeaf:
    index: _Count
    why: str


@dataclass(frozen=True, config=_CONFIG)
class Proofs:
    """Proofs of a random sample of leaves: of accepted leaves, or, in a watch, of the leaves that the log serves.

    `unread`: the log did not answer. `lost`: some of the `lost_count` accepted leaves that are missing, in the sample
    or not. `consistency_…`: proofs that each checkpoint is a prefix of the last one.
    """

    asked: _Count
    proved: _Count
    unread: _Count
    lost_count: _Count
    lost: list[LostLeaf]
    not_integrated: _Count
    consistency_asked: _Count
    consistency_proved: _Count
    unread_why: str = ""


@dataclass(frozen=True, config=_CONFIG)
class Polls:
    asked: _Count
    failed: _Count
    why: str = ""  # why the last poll failed, if it did


@dataclass(frozen=True, config=_CONFIG)
class LogbenchResult:
    """One run. In a watch, figures of a load are 0 or empty. `cpu_…`: CPU time of logbench itself in the window."""

    tool: Literal["logbench"]
    schema: Literal[1]
    mode: Literal["write", "watch"]
    go_version: str
    processors: _Count
    started_unix_s: float
    run_id: str
    rate_per_s: _Time
    warm_up_s: _Time
    duration_s: Annotated[float, Field(gt=0)]
    cool_down_s: _Time
    max_in_flight: _Count
    duplicate_share: Annotated[float, Field(ge=0, le=1)]
    leaf_bytes: _Count
    poll_interval_s: _Time
    timeout_s: _Time
    front_ends: _Count
    origin: str
    offered_per_s: _Time  # rate of leaves that were sent in the window
    window: Counts
    total: Counts
    texts: list[Text]
    texts_other: _Count
    start_delay: Summary  # from when a leaf was due until it was sent
    add_latency: Distribution  # until the log answered, for new leaves
    duplicate_latency: Distribution  # until the log answered, for duplicates
    integrate_latency: Distribution  # until a verified checkpoint covered a new leaf
    checkpoints: list[Checkpoint]
    samples: list[Sample]
    polls: Polls
    proofs: Proofs
    cpu_user_s: _Time
    cpu_system_s: _Time

    @property
    def never_integrated(self) -> int:
        """New leaves that were accepted in the window, and that no verified checkpoint covered."""
        return self.add_latency.count - self.integrate_latency.count

    @property
    def queue_times(self) -> Summary:
        """Times until the log answered, with leaves that it did not answer within the timeout."""
        return self.add_latency.among(self.window.errors_timeout)

    @property
    def integrate_times(self) -> Summary:
        """Times until new leaves were integrated, with leaves that never were."""
        return self.integrate_latency.among(self.never_integrated)

    @property
    def in_flight_mean(self) -> float:
        """The mean number of accepted leaves in flight in the window, by Little's law.

        The last leaves are answered after the window, but their whole times count, so this may be too large.
        """
        known = (self.add_latency, self.duplicate_latency)
        mean = sum(times.count * (times.mean_s or 0.0) for times in known) / self.duration_s
        return min(mean, float(self.max_in_flight))


_READER = TypeAdapter(LogbenchResult)


@damaged("logbench's result is damaged")
def parse_logbench(text: str) -> LogbenchResult:
    """Parse the result file of a run of logbench.

    Raises ParseError if it is truncated, of another program or schema, or contradicts itself.
    """
    try:
        result = _READER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ParseError(f"not a result of logbench, or a damaged one: {where}: {first['msg']}") from error
    contradiction = next(_contradictions(result), None)
    if contradiction:
        raise ParseError(f"the result of logbench contradicts itself: {contradiction}")
    return result


def _contradictions(result: LogbenchResult) -> Iterator[str]:
    for name, counts in (("window", result.window), ("total", result.total)):
        if counts.planned != counts.sent + counts.dropped:
            yield f"{name}: {counts.planned} planned, {counts.sent} sent and {counts.dropped} dropped"
        outcomes = counts.accepted + counts.pushback + counts.errors
        if counts.sent != outcomes:
            yield f"{name}: {counts.sent} sent, but {outcomes} outcomes"
        if counts.duplicates > min(counts.accepted, counts.duplicates_sent):
            yield f"{name}: {counts.duplicates} duplicates"
    if result.window.planned > result.total.planned:
        yield f"{result.window.planned} leaves in the window, {result.total.planned} in all"
    if abs(result.offered_per_s * result.duration_s - result.window.sent) > 1e-6 * result.duration_s + 1e-9:
        yield f"{result.window.sent} leaves sent in {result.duration_s:g} s, but {result.offered_per_s:g}/s offered"
    yield from _wrong_times(result)
    yield from _wrong_course(result)
    proofs = result.proofs
    if proofs.proved + proofs.unread > proofs.asked or len(proofs.lost) > proofs.lost_count:
        yield f"{proofs.asked} proofs asked, {proofs.proved} proved, {proofs.unread} unread, {proofs.lost_count} lost"


def _wrong_times(result: LogbenchResult) -> Iterator[str]:
    new = result.window.accepted - result.window.duplicates
    expected = {
        "start_delay": (result.start_delay, result.window.sent),
        "add_latency": (result.add_latency, new),
        "duplicate_latency": (result.duplicate_latency, result.window.duplicates),
    }
    for name, (times, count) in expected.items():
        if times.count != count:
            yield f"{name} of {times.count} leaves instead of {count}"
    if not new - result.proofs.not_integrated <= result.integrate_latency.count <= new:
        yield f"integrate_latency of {result.integrate_latency.count} leaves, but {new} were accepted"
    for name in ("start_delay", "add_latency", "duplicate_latency", "integrate_latency"):
        summary: Summary = getattr(result, name)
        if not _ordered(summary):
            yield f"the values of {name} are not in ascending order"
        if isinstance(summary, Distribution) and not _binned(summary):
            yield f"the bins of {name} are out of order, or do not add up to its {summary.count} times"


def _wrong_course(result: LogbenchResult) -> Iterator[str]:
    if not result.checkpoints:
        yield "it has no checkpoint"
    for before, after in pairwise(result.checkpoints):
        if after.size <= before.size or after.t_s < before.t_s:
            yield f"a checkpoint of {after.size} leaves at {after.t_s} s follows one of {before.size}"
    if result.mode == "write" and sum(sample.sent for sample in result.samples) != result.total.sent:
        yield f"its samples do not add up to the {result.total.sent} leaves sent"
    if result.checkpoints and not result.proofs.lost_count:
        grown = result.checkpoints[-1].size - result.checkpoints[0].size
        new = result.total.accepted - result.total.duplicates - result.proofs.not_integrated
        if grown < new:
            yield f"{new} new leaves were integrated and none was lost, but the tree grew by {grown}"


def _ordered(times: Summary) -> bool:
    inner = [quantile.value_s for quantile in times.quantiles]
    known = [value for value in (times.min_s, *inner, times.max_s) if value is not None]
    if not times.count:
        return not known and times.mean_s is None
    if times.min_s is None or times.mean_s is None or times.max_s is None or not inner:
        return False
    return known == sorted(known) and known[0] <= times.mean_s <= known[-1]


def _binned(times: Distribution) -> bool:
    bins = times.bins
    in_order = all(one.low_s < one.high_s for one in bins) and all(a.high_s <= b.low_s for a, b in pairwise(bins))
    return in_order and sum(one.count for one in bins) == times.count

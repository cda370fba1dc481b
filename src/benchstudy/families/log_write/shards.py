"""Results of a load that several clients shared, combined into one result. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from benchstudy.families.log_write.layout import RESULT
from benchstudy.families.log_write.logbench import (
    Bin,
    Counts,
    Distribution,
    LogbenchResult,
    Polls,
    Proofs,
    Quantile,
    Text,
    parse_logbench,
)
from benchstudy.families.shared.clients import Clients, bin_of_rank, merged, pooled_mean, read_clients
from benchstudy.families.shared.files import read_text
from benchstudy.model.family import ParseError

T = TypeVar("T", Counts, LogbenchResult, Polls, Proofs)
_CONSISTENCY = ("consistency_asked", "consistency_proved")
_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


def read_shards(folder: Path) -> tuple[Clients, list[LogbenchResult]]:
    """Read the clients of a load from the folder of its label, and the result of each. Raises ParseError."""
    clients = read_clients(folder)
    return clients, [parse_logbench(read_text(one / "files" / RESULT)) for one in clients.folders]


def together(clients: Clients, shards: Sequence[LogbenchResult]) -> LogbenchResult:
    """Combine results: sum rates and counts, merge histograms, keep times and checkpoints of the first client's clock.

    The window is the intersection of all windows, and gives the growth of the tree. Counts and latencies cover each
    client's own window. `start_delay` and CPU time are those of the client with the highest value. There are no samples
    per second, because percentiles cannot be combined. Raises ParseError if the windows have no intersection.
    """
    first = shards[0]
    # The start of each client after that of the first one, by the first one's clock.
    here = clients.all[0].offset_s
    later = [
        shard.started_unix_s - client.offset_s + here - first.started_unix_s
        for client, shard in zip(clients.all, shards, strict=True)
    ]
    begin = max(t + shard.warm_up_s for t, shard in zip(later, shards, strict=True))
    end = min(t + shard.warm_up_s + shard.duration_s for t, shard in zip(later, shards, strict=True))
    if end <= begin:
        apart = max(later) - min(later)
        raise ParseError(f"the windows of the clients do not overlap: the clients started {apart:g} s apart")
    texts: Counter[tuple[str, str]] = Counter()
    for text in (text for shard in shards for text in shard.texts):
        texts[text.kind, text.text] += text.count
    counts = [field.name for field in fields(Counts)]
    proofs = [shard.proofs for shard in shards]
    return replace(
        _added(shards, "rate_per_s", "offered_per_s", "max_in_flight", "texts_other"),
        warm_up_s=begin,
        duration_s=end - begin,
        window=_added([shard.window for shard in shards], *counts),
        total=_added([shard.total for shard in shards], *counts),
        texts=[Text(kind, text, count) for (kind, text), count in texts.most_common()],
        start_delay=max((shard.start_delay for shard in shards), key=lambda delay: delay.quantile(0.99) or 0.0),
        add_latency=_distribution([shard.add_latency for shard in shards]),
        duplicate_latency=_distribution([shard.duplicate_latency for shard in shards]),
        integrate_latency=_distribution([shard.integrate_latency for shard in shards]),
        samples=[],
        polls=_added([shard.polls for shard in shards], "asked", "failed"),
        proofs=replace(
            _added(proofs, "asked", "proved", "unread", "lost_count", "not_integrated", *_CONSISTENCY),
            lost=[leaf for one in proofs for leaf in one.lost],
            unread_why=next((one.unread_why for one in proofs if one.unread_why), ""),
        ),
        cpu_user_s=max(shard.cpu_user_s for shard in shards),
        cpu_system_s=max(shard.cpu_system_s for shard in shards),
    )


def _added(each: Sequence[T], *names: str) -> T:
    """The first of all, with these fields added up over all."""
    return replace(each[0], **{name: sum(getattr(one, name) for one in each) for name in names})


def _distribution(each: Sequence[Distribution]) -> Distribution:
    """Merge distributions. A quantile is the middle of its bin, which is at most 0.8 % or 1 µs wide."""
    known = [one for one in each if one.count]
    if not known:
        return each[0]
    bins = merged([(one.low_s, one.high_s, one.count) for one in times.bins] for times in known)
    count = sum(one.count for one in known)
    least, most = min(one.min_s or 0.0 for one in known), max(one.max_s or 0.0 for one in known)
    return Distribution(
        count=count,
        min_s=least,
        mean_s=pooled_mean([one.mean_s or 0.0 for one in known], [one.count for one in known]),
        max_s=most,
        quantiles=[Quantile(q, min(max(_at(bins, q), least), most)) for q in _QUANTILES],
        bins=[Bin(low, high, n) for low, high, n in bins],
        hdr="",
    )


def _at(bins: Sequence[tuple[float, float, int]], q: float) -> float:
    found = bin_of_rank(bins, math.ceil(q * sum(count for *_, count in bins) - 1e-9))
    assert found is not None, "no rank is above the number of values"
    return sum(found) / 2

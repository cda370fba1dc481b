"""The limit below which no duration of a family can fall, told beside durations that are not far above it."""

from benchstudy.model.criteria import START_UP
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny.drift import Key


def mark(results: Results, metric: str, key: Key) -> tuple[str, ...]:
    """The mark for a duration of which starting a program is a large part: "start-up limit: 1.00 ms"; else empty."""
    if results.declared(metric).tells != "timed":
        return ()
    found = results.estimate(metric, *key)
    took = found.summary.median if found is not None else None
    floors = [results.estimate(name, *key) for name in results.telling("floor")]
    limits = [floor.summary.median for floor in floors if floor is not None and floor.summary.median is not None]
    is_near = took is not None and limits and max(limits) > START_UP * took
    return (f"start-up limit: {human.quantity(max(limits), 's')}",) if is_near else ()

"""Problems of the figures of a generator, as values; page/problems.py has the sentences. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from benchstudy.families.log_write.hammer import HammerScreen
from benchstudy.families.log_write.logbench import LogbenchResult
from benchstudy.model.criteria import ACHIEVED, BUSY_WRITERS

_LATE_S = 0.1  # leaves that were sent this late after they were due: the generator was the limit


class Rule(StrEnum):
    LOST = "lost"
    UNREAD = "unread"
    NOT_INTEGRATED = "not-integrated"
    CONSISTENCY = "consistency"
    DROPPED = "dropped"
    PUSHBACK = "pushback"
    ERRORS = "errors"
    LATE = "late"
    POLLS = "polls"
    DIED = "died"  # servers died in a search that continued
    # For screens of the hammer:
    OFFERED = "offered"
    OVERSUPPLY = "oversupply"
    WRITERS = "writers"  # nearly all writers waited for an answer
    TOO_MANY_WRITERS = "too-many-writers"  # more writers than there are
    WINDOW = "window"  # shorter than printed
    LONGER_THAN_THE_LOG = "longer-than-the-log"  # the same, concluded from the size of the tree
    ORDER = "order"
    SKEW = "skew"
    SAMPLES = "samples"
    MEANS = "means"


@dataclass(frozen=True)
class Problem:
    """A problem. `facts`: numbers and messages of programs, by their names in the sentence."""

    rule: Rule
    facts: Mapping[str, Any]

    @property
    def note(self) -> dict[str, Any]:
        """The problem as stored in a trial's record."""
        return {"rule": self.rule, **self.facts}

    @classmethod
    def of_note(cls, note: Mapping[str, Any] | str) -> "Problem":
        """Read a problem from a record. Old records have the rule and a sentence as one text."""
        if isinstance(note, str):
            rule, _, sentence = note.partition(": ")
            return cls(Rule(rule), {"sentence": sentence})
        return cls(Rule(note["rule"]), {name: fact for name, fact in note.items() if name != "rule"})


def of_logbench(run: LogbenchResult) -> Iterator[Problem]:
    window, proofs, polls = run.window, run.proofs, run.polls
    if proofs.lost_count:
        said = "; ".join(f"{leaf.index}: {leaf.why}" for leaf in proofs.lost[:3])
        yield Problem(Rule.LOST, {"lost": proofs.lost_count, "said": said})
    if proofs.unread:
        yield Problem(Rule.UNREAD, {"unread": proofs.unread, "asked": proofs.asked, "said": proofs.unread_why})
    if run.never_integrated:
        facts = {"not_integrated": run.never_integrated, "accepted": run.add_latency.count}
        yield Problem(Rule.NOT_INTEGRATED, facts)
    if (missing := proofs.consistency_asked - proofs.consistency_proved) > 0:
        yield Problem(Rule.CONSISTENCY, {"missing": missing, "asked": proofs.consistency_asked})
    if window.dropped:
        counts = {"dropped": window.dropped, "planned": window.planned}
        in_flight = {"in_flight": run.in_flight_mean, "max_in_flight": run.max_in_flight}
        yield Problem(Rule.DROPPED, counts | in_flight)
    if window.pushback:
        yield Problem(Rule.PUSHBACK, {"refused": window.pushback, "sent": window.sent})
    if window.errors:
        said = ", ".join(f"{text.count} × {text.text}" for text in run.texts if "errors" in text.kind)
        yield Problem(Rule.ERRORS, {"errors": window.errors, "sent": window.sent, "said": said})
    late_s = run.start_delay.quantile(0.99)
    if late_s is not None and late_s > _LATE_S:
        yield Problem(Rule.LATE, {"late_s": late_s})
    if polls.failed:
        yield Problem(Rule.POLLS, {"failed": polls.failed, "asked": polls.asked})


def of_screen(screen: HammerScreen) -> Iterator[Problem]:
    """Yield the ways in which figures of a screen mislead."""
    offered, qps = screen.write_max_per_s, screen.qps
    if qps < ACHIEVED * offered:
        yield Problem(Rule.OFFERED, {"offered": offered, "qps": qps, "share": qps / offered})
    if screen.oversupply:
        unsent = {"oversupply": screen.oversupply, "offered": offered, "writers": screen.write_workers}
        yield Problem(Rule.OVERSUPPLY, unsent)
    busy = {"busy": screen.busy_writers, "writers": screen.write_workers}
    if screen.busy_writers > 1.02 * screen.write_workers:
        yield Problem(Rule.TOO_MANY_WRITERS, {**busy, "qps": qps, "queue_s": screen.queue_avg_s})
    elif screen.busy_writers >= BUSY_WRITERS * screen.write_workers:
        yield Problem(Rule.WRITERS, busy)
    covered, window = screen.covered_s, {"qps": qps, "window_s": screen.window_s}
    if covered is not None and covered < screen.window_s:
        yield Problem(Rule.WINDOW, {**window, "covered_s": covered})
    elif covered is None and (qps - 0.5) * screen.window_s > screen.tree_size:
        longest = {"size": screen.tree_size, "longest_s": screen.tree_size / qps}
        yield Problem(Rule.LONGER_THAN_THE_LOG, window | longest)
    for name, values in (
        ("queue", (screen.queue_min_s, screen.queue_avg_s, screen.queue_max_s)),
        ("integrate", (screen.integrate_min_s, screen.integrate_avg_s, screen.integrate_max_s)),
    ):
        if list(values) != sorted(values):
            yield Problem(Rule.ORDER, {"times": name, **dict(zip(("min_s", "avg_s", "max_s"), values, strict=True))})
    yield Problem(Rule.MEANS if screen.integrate_max_s else Rule.SAMPLES, {})

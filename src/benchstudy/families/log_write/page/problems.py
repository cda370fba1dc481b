"""What a reader must know beside the figures of a generator: the one place where a Problem becomes words."""

from collections.abc import Callable
from functools import partial

from benchstudy.families.log_write.hammer import MEANS_KEPT
from benchstudy.families.log_write.problems import Problem, Rule
from benchstudy.model import rounding

_SENTENCES = {
    Rule.LOST: "{lost} leaves that the log said it has are not there ({said})",
    Rule.UNREAD: "{unread} of {asked} proofs could not be read ({said})",
    Rule.CONSISTENCY: "{missing} of {asked} checkpoints could not be compared",
    Rule.DROPPED: (
        "{dropped} of {planned} leaves were not begun, because {max_in_flight} were in flight; {in_flight:.0f} "
        "accepted ones were, on average, which is their rate × their latency: more would need a higher max_in_flight, "
        "or a faster log"
    ),
    Rule.PUSHBACK: "the log refused {refused} of {sent} leaves for being overloaded",
    Rule.ERRORS: "{errors} of {sent} leaves failed (in the whole run: {said})",
    Rule.LATE: "1 % of the leaves were begun {late_s} s late or more: the generator was the limit",
    Rule.POLLS: "{failed} of {asked} could not read the checkpoint",
    Rule.DIED: (
        "servers died at {died} of {windows} windows of the search, the first time at {rate_per_s:g}/s ({said}); each "
        "time it went on with a fresh log, and what the one before had accepted last was asked for no more"
    ),
    Rule.OFFERED: (
        "{offered}/s were asked for, and the tree grew by {qps}/s ({share}); what is missing was not begun, was "
        "refused, or was a duplicate that the log did not add again"
    ),
    Rule.OVERSUPPLY: (
        "{oversupply} of {offered} writes of the last second found none of {writers} writers free, so they were never "
        "sent"
    ),
    Rule.WRITERS: (
        "{busy:.0f} of {writers} were waiting for an answer on average: the rate is what so many writers can do, the "
        "log may be able to do more"
    ),
    Rule.TOO_MANY_WRITERS: (
        "{qps}/s × {queue_s:g} s in queue make {busy:.0f} writers, but there are {writers}: the mean of tick means is "
        "not the mean of the leaves"
    ),
    Rule.WINDOW: "the mean of {qps}/s is over the first {covered_s:g} s, not over {window_s} s as printed",
    Rule.LONGER_THAN_THE_LOG: (
        "{qps}/s over {window_s} s would be more than the whole tree of {size}; it is over {longest_s} s at most"
    ),
    Rule.ORDER: "min/avg/max of {times} do not rise: {min_s:g}/{avg_s:g}/{max_s:g} s",
    Rule.SKEW: "the clients began {skew_s} s apart, {share} of the window, in which not all of them loaded",
    Rule.SAMPLES: "no leaf had been seen to be integrated, so the zeros of queue and integrate are no times",
    Rule.MEANS: (
        f"min/avg/max of queue and integrate are of the last {MEANS_KEPT} tick means or fewer, each of about 100 "
        "leaves at most, and no leaf's own times"
    ),
}

_ROUNDED: dict[str, Callable[[float], str]] = {
    "share": rounding.percent,
    "longest_s": partial(rounding.shown, trim=True),
    "late_s": rounding.few,
    "skew_s": rounding.few,
}


def told(problem: Problem) -> str:
    """In a sentence; that of an old record as it was written then."""
    if "sentence" in problem.facts:
        return problem.facts["sentence"]
    rounded = {name: _ROUNDED[name](fact) for name, fact in problem.facts.items() if name in _ROUNDED}
    return _SENTENCES[problem.rule].format(**{**problem.facts, **rounded})

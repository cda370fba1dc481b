"""Sentences about problems of a generator's figures: the only place where a Problem becomes text."""

from collections.abc import Callable
from functools import partial

from benchstudy.families.log_write.hammer import MEANS_KEPT
from benchstudy.families.log_write.problems import Problem, Rule
from benchstudy.model import rounding

_SENTENCES = {
    Rule.LOST: "the log lost {lost} leaves that it had accepted ({said})",
    Rule.UNREAD: "{unread} of {asked} proofs could not be read ({said})",
    Rule.NOT_INTEGRATED: (
        "{not_integrated} of {accepted} accepted leaves were not seen in the tree: percentiles of times to integrate "
        "count them as slower than all others"
    ),
    Rule.CONSISTENCY: "{missing} of {asked} checkpoints could not be compared",
    Rule.DROPPED: (
        "{dropped} of {planned} leaves were not sent, because {max_in_flight} were in flight. On average "
        "{in_flight:.0f} accepted leaves were in flight (rate × latency). A higher rate needs a higher max_in_flight "
        "or a faster log"
    ),
    Rule.PUSHBACK: "the log was overloaded and refused {refused} of {sent} leaves",
    Rule.ERRORS: "{errors} of {sent} leaves failed (over the whole run: {said})",
    Rule.LATE: "1 % of the leaves were sent {late_s} s late or more: the generator did not keep up with its schedule",
    Rule.POLLS: "{failed} of {asked} polls could not read the checkpoint",
    Rule.DIED: (
        "servers died in {died} of {windows} windows of the search, first at {rate_per_s:g}/s ({said}). Each time the "
        "search continued with a fresh log, and the last leaves that the old log had accepted were not checked"
    ),
    Rule.OFFERED: (
        "{offered}/s were offered, and the tree grew by {qps}/s ({share}). The missing leaves were not sent, were "
        "refused, or were duplicates that the log did not add again"
    ),
    Rule.OVERSUPPLY: (
        "{oversupply} of {offered} writes of the last second were not sent, because none of {writers} writers was free"
    ),
    Rule.WRITERS: (
        "{busy:.0f} of {writers} writers were waiting for an answer on average. Their number limited the rate, and the "
        "log may be faster"
    ),
    Rule.TOO_MANY_WRITERS: (
        "{qps}/s × {queue_s:g} s in queue imply {busy:.0f} writers, but there are {writers}: the mean of tick means is "
        "not the mean of the leaves"
    ),
    Rule.WINDOW: "the mean of {qps}/s covers the first {covered_s:g} s, not {window_s} s as printed",
    Rule.LONGER_THAN_THE_LOG: (
        "{qps}/s over {window_s} s would exceed the tree size of {size}, so it covers at most {longest_s} s"
    ),
    Rule.ORDER: "min/avg/max of {times} are not in ascending order: {min_s:g}/{avg_s:g}/{max_s:g} s",
    Rule.SKEW: "the clients started {skew_s} s apart: for {share} of the window, not all of them sent load",
    Rule.SAMPLES: "no leaf had been integrated yet, so the zeros of queue and integrate are not times",
    Rule.MEANS: (
        f"min/avg/max of queue and integrate are over at most the last {MEANS_KEPT} tick means, each of about 100 "
        "leaves at most, and are not times of single leaves"
    ),
}

_ROUNDED: dict[str, Callable[[float], str]] = {
    "share": rounding.percent,
    "longest_s": partial(rounding.shown, trim=True),
    "late_s": rounding.few,
    "skew_s": rounding.few,
}


def told(problem: Problem) -> str:
    """Describe the problem in a sentence. An old record keeps the sentence that it has."""
    if "sentence" in problem.facts:
        return problem.facts["sentence"]
    rounded = {name: _ROUNDED[name](fact) for name, fact in problem.facts.items() if name in _ROUNDED}
    return _SENTENCES[problem.rule].format(**{**problem.facts, **rounded})

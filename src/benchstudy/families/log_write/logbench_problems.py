"""What a reader of logbench's figures must know beside them, in sentences. No trial is run by them."""

from benchstudy.families.log_write.logbench import LogbenchResult
from benchstudy.model import rounding

_LATE_S = 0.1  # leaves begun so long after they were due: the generator was the limit


def problems_of(run: LogbenchResult) -> list[str]:
    """What a reader must know beside the rates, each by name: lost, unread, consistency, dropped, pushback, errors,
    late, polls.
    """
    window, proofs, found = run.window, run.proofs, []
    if proofs.lost_count:
        why = "; ".join(f"{leaf.index}: {leaf.why}" for leaf in proofs.lost[:3])
        found.append(f"lost: {proofs.lost_count} leaves that the log said it has are not there ({why})")
    if proofs.unread:
        found.append(f"unread: {proofs.unread} of {proofs.asked} proofs could not be read ({proofs.unread_why})")
    if proofs.consistency_proved < proofs.consistency_asked:
        missing = proofs.consistency_asked - proofs.consistency_proved
        found.append(f"consistency: {missing} of {proofs.consistency_asked} checkpoints could not be compared")
    if window.dropped:
        found.append(
            f"dropped: {window.dropped} of {window.planned} leaves were not begun, because {run.max_in_flight} "
            f"were in flight; {run.in_flight_mean:.0f} accepted ones were, on average, which is their rate × "
            "their latency: more would need a higher max_in_flight, or a faster log"
        )
    if window.pushback:
        found.append(f"pushback: the log refused {window.pushback} of {window.sent} leaves for being overloaded")
    if window.errors:
        said = ", ".join(f"{text.count} × {text.text}" for text in run.texts if "errors" in text.kind)
        found.append(f"errors: {window.errors} of {window.sent} leaves failed (in the whole run: {said})")
    late = run.start_delay.quantile(0.99)
    if late is not None and late > _LATE_S:
        found.append(
            f"late: 1 % of the leaves were begun {rounding.few(late)} s late or more: the generator was the limit"
        )
    if run.polls.failed:
        found.append(f"polls: {run.polls.failed} of {run.polls.asked} could not read the checkpoint")
    return found

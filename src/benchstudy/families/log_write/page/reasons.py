"""Sentences about why a rate failed in a capacity search: the only place where a Reason becomes text."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.log_write.search import Missed
from benchstudy.report import human

_EXTRA = {"dropped": "not sent", "pushback": "pushed back"}


def told(row: Mapping[str, Any]) -> str:
    """Describe the reason in a sentence; "" if the rate passed. `row`: a row of the series `steps`."""
    if row["missed"] is None:
        return ""
    why = _missed(row)
    busy = row["busy_generator"]
    return f"client-limited, the generator used {human.percent(busy)} of its CPU: {why}" if busy else why


def _not_taken(row: Mapping[str, Any]) -> str:
    extra = [f"{row[name]} {words}" for name, words in _EXTRA.items() if row[name]]
    return f" ({', '.join(extra)})" if extra else ""


def _missed(row: Mapping[str, Any]) -> str:
    seen, bound = row["seen"], row["bound"]
    match Missed(row["missed"]):
        case Missed.ACHIEVED:
            share = human.beyond(seen, bound, "%")
            return f"achieved {share} of the offered rate, not {human.percent(bound)}{_not_taken(row)}"
        case Missed.TAKEN:
            share = f"{human.beyond(seen, bound, '%')} of the leaves, not {human.percent(bound)}"
            return f"took {share}, although the tree grew fast enough{_not_taken(row)}"
        case Missed.ERRORS:
            share, most = human.beyond(seen, bound, "%"), human.percent(bound)
            return f"{human.plural(row['errors'], 'error')}, {share} of the leaves; the bound is {most}"
        case Missed.NOT_INTEGRATED:
            return f"{seen:.0f} accepted leaves were not integrated in time"
        case Missed.INTEGRATE_TIME:
            p99 = None if seen is None else human.beyond(seen, bound, "s")
            shown = "no leaf was integrated" if p99 is None else f"p99 of integration was {p99}"
            return f"{shown}; the bound is {bound:g} s"
        case Missed.NOTHING_ACCEPTED:
            return f"the log accepted no leaf: {row['said']}"
        case _:
            return row["said"]

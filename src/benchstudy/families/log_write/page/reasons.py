"""Why a rate failed in a capacity search, for a reader: the one place where a Reason becomes words."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.log_write.search import Missed
from benchstudy.report import human

_EXTRA = {"dropped": "never begun", "pushback": "pushed back"}


def told(row: Mapping[str, Any]) -> str:
    """In a sentence; "" when the rate passed. `row`: of the table `steps`."""
    if row["missed"] is None:
        return ""
    why = _missed(row)
    busy = row["busy_generator"]
    return f"client-limited, the generator at {human.percent(busy)} of its CPU: {why}" if busy else why


def _missed(row: Mapping[str, Any]) -> str:
    seen, bound = row["seen"], row["bound"]
    match Missed(row["missed"]):
        case Missed.ACHIEVED:
            extra = [f"{row[name]} {words}" for name, words in _EXTRA.items() if row[name]]
            shown = f" ({', '.join(extra)})" if extra else ""
            return f"achieved {human.percent(seen)} of the offered rate, not {human.percent(bound)}{shown}"
        case Missed.ERRORS:
            share, most = human.percent(seen), human.percent(bound)
            return f"{human.plural(row['errors'], 'error')}, {share} of the leaves, and the bound is {most}"
        case Missed.NOT_INTEGRATED:
            return f"{seen:.0f} accepted leaves were not integrated in time"
        case Missed.INTEGRATE_TIME:
            shown = "no leaf was" if seen is None else f"{human.quantity(seen, 's')} until p99 was"
            return f"{shown} integrated, and the bound is {bound:g} s"
        case Missed.NOTHING_ACCEPTED:
            return f"the log accepted no leaf: {row['said']}"
        case _:
            return row["said"]

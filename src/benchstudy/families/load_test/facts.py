"""`load_test.json`: the circumstances of a load, so that parsing needs only the trial's files.

All its times are Unix seconds on Prometheus' clock, as in the samples.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchstudy.model.files import as_json, write_atomically

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

FACTS = "load_test.json"
SCHEMA = 1
RATE_WINDOW_S = 60.0  # as in the published panels
_LONG_S = 300.0  # a shorter window would hold only a few rate windows
_INTERVALS = 5  # a rate over fewer scrapes is too noisy


def rate_window_s(length_s: float, scrape_interval_s: float) -> float:
    """The window of the panels' rates in s, for a steady window of `length_s`."""
    return RATE_WINDOW_S if length_s >= _LONG_S else min(RATE_WINDOW_S, _INTERVALS * scrape_interval_s)


def write_facts(
    trial: "TrialContext",
    *,
    mode: str,
    window: tuple[float, float],
    steady: tuple[float, float],
    phases: Sequence[tuple[str, float, float]],
    scrape_interval_s: float,
    **further: Any,
) -> None:
    """Keep the facts with the trial, in its files and its notes. `phases`: (name, start, end), times in Unix s."""
    facts: Mapping[str, Any] = {
        "schema": SCHEMA,
        "mode": mode,
        "window": _between(window),
        "steady": _between(steady),
        "phases": [{"name": name, **_between((start, end))} for name, start, end in phases],
        "scrape_interval_s": scrape_interval_s,
        "rate_window_s": rate_window_s(steady[1] - steady[0], scrape_interval_s),
        **further,
    }
    write_atomically(trial.files / FACTS, as_json(facts))
    trial.note(load_test=facts)


def _between(span: tuple[float, float]) -> dict[str, float]:
    return {"start_s": span[0], "end_s": span[1]}

"""A trial of a load that someone else ran: one window from a Prometheus or from an exported file."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchstudy.families.load_test.clocks import clock_of, correction_s, require_steady
from benchstudy.families.load_test.config import LoadTestConfig, Source, Window
from benchstudy.families.load_test.facts import rate_window_s, write_facts
from benchstudy.families.load_test.fetch import RAW, Span, ask_clock, fetch, server_of
from benchstudy.model import paths
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case, ParseError
from benchstudy.model.files import sha256_of

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

STEADY = "steady"


def scrape_trial(case: Case, trial: "TrialContext[LoadTestConfig]") -> None:
    """Read one window. Raises TrialFailed with a readable cause."""
    config = trial.config
    window = config.windows_of(case.levels)[trial.block - 1]
    source = config.source(window)
    take = _from_server if source.file is None else _from_file
    (start_s, end_s), found = take(trial, source, window)
    write_facts(
        trial,
        mode="scrape",
        window=(start_s, end_s),
        steady=(start_s, end_s),
        phases=[(STEADY, start_s, end_s)],
        scrape_interval_s=source.scrape_interval,
        select=window.select or None,
        select_hosts=window.select_hosts or None,
        metrics=config.metrics.given,
        **found,
    )


def _from_server(
    trial: "TrialContext[LoadTestConfig]", source: Source, window: Window
) -> tuple[tuple[float, float], dict[str, Any]]:
    """The window (start, end) in Unix s on Prometheus' clock, and facts about it."""
    server = server_of(source, trial.secret)
    host_offset_s = trial.clock_offset_s(source.role)
    before = clock_of(ask_clock(trial, server), host_offset_s)
    shift_s = correction_s(before, source.clock, source.name)
    start_s, end_s = window.start.timestamp() + shift_s, window.end.timestamp() + shift_s
    margin_s = rate_window_s(end_s - start_s, source.scrape_interval)
    names = trial.config.metrics.given
    span = Span(start_s, end_s, margin_s, window.select, window.select_hosts, source.scrape_interval, names)
    summary = fetch(trial, server, span)
    after = clock_of(summary["clock"], trial.clock_offset_s(source.role))
    return (start_s, end_s), {
        "source": {"name": source.name, "kind": "prometheus", "url": source.url},
        "prometheus": {name: summary.get(name) for name in ("version", "series", "samples")},
        "clock": {
            "prometheus_minus_host_s": before.from_host_s,
            "prometheus_minus_here_s": before.from_here_s,
            "uncertainty_s": before.uncertainty_s,
            "hosts": {trial.roles[source.role]: host_offset_s},
            "of_windows": source.clock,
            "correction_s": shift_s,
            "stepped_s": require_steady(before, after),
        },
        "problems": problems_of(summary),
    }


def problems_of(summary: Mapping[str, Any]) -> list[str]:
    """Problems of a fetch that a reader must know."""
    missing = summary.get("missing") or []
    return [*summary.get("problems", ()), *([f"no series of {', '.join(missing)}"] if missing else [])]


def _from_file(
    trial: "TrialContext[LoadTestConfig]", source: Source, window: Window
) -> tuple[tuple[float, float], dict[str, Any]]:
    from benchstudy.families.load_test.prometheus_raw import cut

    path = paths.project_root() / (source.file or "")
    if not path.is_file():
        raise TrialFailed(f"source {source.name}: there is no file {source.file} in the project's folder")
    start_s, end_s = window.start.timestamp(), window.end.timestamp()
    into = trial.files / RAW
    into.parent.mkdir(parents=True)
    try:
        section = cut(path, start_s, end_s, into, margin_s=rate_window_s(end_s - start_s, source.scrape_interval))
    except ParseError as error:
        raise TrialFailed(f"source {source.name}: {source.file}: {error}") from error
    return (start_s, end_s), {
        "source": {
            "name": source.name,
            "kind": "file",
            "file": source.file,
            "sha256": sha256_of(path),
            "url": section.url,
        },
        "prometheus": {"version": section.version},
        "clock": {"recorded": section.clock, "correction_s": 0.0},
        "problems": problems_of({"missing": section.missing, "problems": section.problems}),
    }

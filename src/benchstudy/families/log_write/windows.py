"""One window of a generator, from its files: the result of logbench, or screens and log of the hammer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

from benchstudy.families.log_write.growth import Growth, Seen, growth
from benchstudy.families.log_write.hammer import HammerScreen, replay, screen_values
from benchstudy.families.log_write.layout import GENERATOR, HAMMER, LOAD, WATCH
from benchstudy.families.log_write.logbench import LogbenchResult
from benchstudy.families.log_write.problems import Problem, of_logbench, of_screen
from benchstudy.families.log_write.reading import grown_in, new_share_of, own_cpu, read_hammer_log, read_written
from benchstudy.families.shared.files import read_json
from benchstudy.model.criteria import ACHIEVED
from benchstudy.statistics import within_trial

Rows = Sequence[Mapping[str, Any]]
Values = dict[str, tuple[float | None, str]]  # metric to value and unit


@dataclass(frozen=True)
class Measured:
    """One window of one generator.

    `started_unix`: the start of the load, the time zero of every series. `begin_unix`, `end_unix`: the window. These
    are Unix seconds by the clock of the load host. `problems`: problems of the figures.
    """

    values: Values
    seen: Sequence[Seen]
    latency: Rows
    histogram: Rows
    phases: Rows
    started_unix: float
    begin_unix: float
    end_unix: float
    at_its_limit: bool
    problems: Sequence[Problem]


def measured(facts: Mapping[str, Any], files: Path, label: str) -> Measured:
    """Read the window of the load with this label. Raises ParseError."""
    if facts["mode"] == HAMMER:
        return _hammered(facts, files)
    return measured_by(facts, read_written(files / label))


def measured_by(facts: Mapping[str, Any], written: LogbenchResult) -> Measured:
    window, proofs = written.window, written.proofs
    grown = grown_in(written, facts["publish_interval_s"])
    share = _achieved_share(grown, written.rate_per_s, new_share_of(written))
    values: Values = {
        **_growth_values(grown, written.checkpoints),
        "offered": (written.offered_per_s, "1/s"),
        "achieved_share": (share, "1"),
        "accepted": (window.accepted, "1"),
        "duplicates": (window.duplicates, "1"),
        "pushback": (window.pushback, "1"),
        "errors": (window.errors, "1"),
        "dropped": (window.dropped, "1"),
        "generator_cpu": (own_cpu(written, facts["cpus"][GENERATOR]), "1"),
        "proofs_asked": (proofs.asked, "1"),
        "proofs_proved": (proofs.proved, "1"),
    }
    histogram: list[dict[str, Any]] = []
    measured_times = {
        "queue": (written.queue_times, written.add_latency.bins),
        "integrate": (written.integrate_times, written.integrate_latency.bins),
    }
    for which, (times, bins) in measured_times.items():
        known = {"mean": times.mean_s, "max": times.max_s}
        known |= {f"p{percent}": times.quantile(percent / 100) for percent in (50, 90, 99)}
        values |= {f"{which}_{name}": (value, "s") for name, value in known.items()}
        histogram += [{"which": which, "low_s": b.low_s, "high_s": b.high_s, "count": b.count} for b in bins]
    latency = [
        {
            "t_s": sample.t_s,
            "integrate_p50_s": sample.integrate_p50_s,
            "integrate_p99_s": sample.integrate_p99_s,
            "queue_p50_s": sample.add_p50_s,
            "queue_p99_s": sample.add_p99_s,
        }
        for sample in written.samples
    ]
    started = written.started_unix_s
    begin = started + written.warm_up_s
    limited = bool(window.dropped or window.pushback) or share is None or share < ACHIEVED
    seen = [(row.t_s, row.size) for row in written.checkpoints]
    end = begin + written.duration_s
    phases = _phases(seen, written.warm_up_s, written.duration_s, written.cool_down_s)
    problems = [*of_logbench(written)]
    return Measured(values, seen, latency, histogram, phases, started, begin, end, limited, problems)


def _hammered(facts: Mapping[str, Any], files: Path) -> Measured:
    """Compute the window of the hammer, from logbench's checkpoints and the hammer's screens and log."""
    watched = read_written(files / WATCH)
    screens = replay((files / LOAD / "stdout").read_bytes())
    screen = screens[-1]
    supervised = read_json(files / LOAD / "supervisor.json")
    started = datetime.fromisoformat(supervised["started"].replace("Z", "+00:00")).timestamp()
    begin = started + facts["window"]["warm_up_s"]
    end = begin + facts["window"]["duration_s"]
    log = read_hammer_log(files).between(started, begin - started, end - started)
    seen = [(row.t_s + watched.started_unix_s - started, row.size) for row in watched.checkpoints]
    grown = growth(seen, begin - started, end - started, facts["publish_interval_s"])
    # The hammer does not report which leaves are duplicates.
    share = None if facts["duplicate_share"] else _achieved_share(grown, facts["rate_per_s"], 1.0)
    values: Values = {
        **_growth_values(grown, watched.checkpoints),
        "offered": (facts["rate_per_s"], "1/s"),
        "achieved_share": (share, "1"),
        "pushback": (log.pushback, "1"),
        "errors": (log.error_count, "1"),
        "proofs_asked": (watched.proofs.asked, "1"),
        "proofs_proved": (watched.proofs.proved, "1"),
        **screen_values(screen),
    }
    values |= _both_ways(screens, seen)
    limited = bool(screen.oversupply) or (share is not None and share < ACHIEVED)
    problems = [*of_screen(screen), *of_logbench(watched)]
    phases = _phases(seen, begin - started, end - begin, 0.0)
    return Measured(values, seen, [], [], phases, started, begin, end, limited, problems)


def _phases(seen: Sequence[Seen], warm_up_s: float, duration_s: float, cool_down_s: float) -> Rows:
    """Return the phases of a trial in order. The drain, in which the last accepted leaves are integrated, ends with the
    last checkpoint.
    """
    rows, begin = [], 0.0
    drain_s = max((moment for moment, _ in seen), default=0.0) - (warm_up_s + duration_s + cool_down_s)
    lasting = {"warm-up": warm_up_s, "window": duration_s, "cool-down": cool_down_s, "drain": drain_s}
    for phase, lasts in lasting.items():
        if lasts > 0:
            rows.append({"phase": phase, "start_s": begin, "end_s": begin + lasts})
            begin += lasts
    return rows


def _both_ways(screens: Sequence[HammerScreen], seen: Sequence[Seen]) -> Values:
    """Return the growth of the tree by the hammer's screens and by our checkpoints, as means over full windows.

    Both use the same rule: the size at a tick minus the size one window before, which cuts publish steps.
    """
    pairs = []
    for screen in screens:
        if screen.at_s is not None and screen.at_s >= screen.window_s:
            ends = [_size_at(seen, moment) for moment in (screen.at_s - screen.window_s, screen.at_s)]
            pairs.append((screen.qps, (ends[1] - ends[0]) / screen.window_s))
    if not pairs:
        return {}
    return {
        "hammer_qps_mean": (fmean(its for its, _ in pairs), "1/s"),
        "qps_of_hammer_window": (fmean(ours for _, ours in pairs), "1/s"),
    }


def _size_at(seen: Sequence[Seen], moment: float) -> int:
    return max((size for _, size in takewhile(lambda row: row[0] <= moment, seen)), default=0)


def _growth_values(grown: Growth | None, checkpoints: Sequence[Any]) -> Values:
    values: Values = {"publish_steps": (len(grown.grew) if grown else 0, "1")}
    values["tree_size"] = (checkpoints[-1].size if checkpoints else None, "1")
    if grown is not None:
        low, high = within_trial.rate_interval(grown.grew, grown.took_s) or (None, None)
        values |= {"qps": (grown.qps, "1/s"), "qps_low": (low, "1/s"), "qps_high": (high, "1/s")}
    return values


def _achieved_share(grown: Growth | None, offered_per_s: float, new_share: float) -> float | None:
    """Return `qps` as a share of the offered new leaves: a log does not add duplicates that it recognises."""
    return grown.qps / (offered_per_s * new_share) if grown and offered_per_s * new_share > 0 else None


def growth_rows(seen: Sequence[Seen]) -> list[dict[str, float | int | None]]:
    """Return the series `growth`: t_s, size, and qps since the previous checkpoint."""
    rows: list[dict[str, float | int | None]] = [{"t_s": t, "size": size, "qps": None} for t, size in seen[:1]]
    for (t0, size0), (t1, size1) in pairwise(seen):
        rows.append({"t_s": t1, "size": size1, "qps": (size1 - size0) / (t1 - t0) if t1 > t0 else None})
    return rows

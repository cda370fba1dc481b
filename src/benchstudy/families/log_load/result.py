"""What one trial of log_write says: logbench's result, the hammer's screen, what was found around the load. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchstudy.families.base import Observation, Parsed, ParseError
from benchstudy.families.log_load.command import RESULT
from benchstudy.families.log_load.growth import Growth, Seen, growth, growth_rows
from benchstudy.families.log_load.imported import SAVED_SCREEN, screen_values
from benchstudy.families.log_load.samples import DATABASE, GENERATOR, SERVER, Found, limited_by, read_samples
from benchstudy.families.log_load.search import Window
from benchstudy.families.log_write_config import SEARCH
from benchstudy.families.under_load import Rate
from benchstudy.parsers.hammer import HammerScreen, parse_log, read_saved, replay
from benchstudy.parsers.logbench import LogbenchResult, parse_logbench

FACTS = "log.json"  # what was found around the load, beside the folders of the trial's commands
LOAD, WATCH, SEARCHED = (
    "load",
    "watch",
    "load-step-",
)  # folders: of the load, of logbench beside it, of a search's windows
HAMMER = "hammer"
_MET = 0.99  # of the offered rate: less is not met
Rows = Sequence[Mapping[str, Any]]
Values = dict[str, tuple[float | None, str]]  # metric to value and unit


@dataclass(frozen=True)
class Measured:
    """One window of one generator. `started_unix`, `begin_unix`, `end_unix`: when the load began, and its window's ends,
    on the load host's wall clock. The t_s of every series count from the load's start.
    """

    values: Values
    seen: Sequence[Seen]
    latency: Rows
    histogram: Rows
    growth: Growth | None
    started_unix: float
    begin_unix: float
    end_unix: float
    at_its_limit: bool


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """The observations and series of a trial, measured or imported. Raises ParseError."""
    if (files / SAVED_SCREEN).is_file():
        screen = read_saved((files / SAVED_SCREEN).read_bytes())[-1]
        return Parsed(_observations(_screen_alone(screen)), {})
    facts = _facts(files / FACTS)
    _compare(levels, facts)
    values: Values = {}
    steps: Rows = []
    label = LOAD
    if facts["mode"] == SEARCH:
        label = _best(facts)
        values |= {f"capacity_{name}": (facts["bracket"][f"{key}"], "1/s") for name, key in _BRACKET.items()}
        steps = _step_rows(facts, files)
    measured = _measured(facts, files, label)
    found = _samples(facts, files, measured)
    values |= measured.values | _around(facts, found, measured)
    return Parsed(
        _observations(values),
        {
            "growth": growth_rows(measured.seen),
            "latency": measured.latency,
            "histogram": measured.histogram,
            "resources": [{**row} for row in found.rows],
            "steps": steps,
        },
    )


def limit_of(files: Path) -> str:
    """What limited the log in this trial, see samples.limited_by. Raises ParseError."""
    facts = _facts(files / FACTS)
    label, at_its_limit = LOAD, None
    if facts["mode"] == SEARCH:
        failed = facts["bracket"]["lowest_fail"]
        if failed is None:
            return f"nothing: every rate up to {facts['search']['highest']} kept the objective"
        label, at_its_limit = next(r["label"] for r in facts["steps"] if r["rate_per_s"] == failed and r["why"]), True
    measured = _measured(facts, files, label)
    found = _samples(facts, files, measured)
    return limited_by(found, at_its_limit=measured.at_its_limit if at_its_limit is None else at_its_limit)


def read_written(folder: Path) -> LogbenchResult:
    """What logbench left in the folder of its command. Raises ParseError."""
    return parse_logbench(_text(folder / "files" / RESULT))


def window_of(folder: Path, expected_share: float, cpus: int, publish_interval_s: float) -> Window:
    """One window of the capacity search. Raises ParseError."""
    written = read_written(folder)
    grown = _grown(written, publish_interval_s)
    return Window(
        offered_per_s=written.rate_per_s,
        sent=written.window.sent,
        dropped=written.window.dropped,
        duration_s=written.duration_s,
        achieved_per_s=grown.slope if grown else 0.0,
        errors=written.window.errors,
        pushback=written.window.pushback,
        integrate_p99_s=written.integrate_latency.quantile(0.99),
        not_integrated=written.proofs.not_integrated,
        expected_share=expected_share,
        generator_cpu=_own_cpu(written, cpus),
    )


# --- one window -------------------------------------------------------------------------------------------------


def _measured(facts: Mapping[str, Any], files: Path, label: str) -> Measured:
    if facts["mode"] == HAMMER:
        return _hammered(facts, files)
    written = read_written(files / label)
    return _written(facts, written)


def _written(facts: Mapping[str, Any], written: LogbenchResult) -> Measured:
    window, proofs = written.window, written.proofs
    grown = _grown(written, facts["publish_interval_s"])
    share = _achieved_share(facts, grown, written.offered_per_s)
    values: Values = {
        **_growth_values(grown, written.checkpoints),
        "offered": (written.offered_per_s, "1/s"),
        "achieved_share": (_achieved_share(facts, grown, written.rate_per_s), "1"),
        "accepted": (window.accepted, "1"),
        "duplicates": (window.duplicates, "1"),
        "pushback": (window.pushback, "1"),
        "errors": (window.errors, "1"),
        "dropped": (window.dropped, "1"),
        "generator_cpu": (_own_cpu(written, facts["cpus"][GENERATOR]), "1"),
        "proofs_asked": (proofs.asked, "1"),
        "proofs_proved": (proofs.proved, "1"),
    }
    histogram: list[dict[str, Any]] = []
    for which, times in (("queue", written.add_latency), ("integrate", written.integrate_latency)):
        known = {"mean": times.mean_s, "max": times.max_s}
        known |= {f"p{percent}": times.quantile(percent / 100) for percent in (50, 90, 99)}
        values |= {f"{which}_{name}": (value, "s") for name, value in known.items()}
        histogram += [{"which": which, "low_s": b.low_s, "high_s": b.high_s, "count": b.count} for b in times.bins]
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
    limited = bool(window.dropped or window.pushback) or share is None or share < _MET
    seen = [(row.t_s, row.size) for row in written.checkpoints]
    return Measured(values, seen, latency, histogram, grown, started, begin, begin + written.duration_s, limited)


def _hammered(facts: Mapping[str, Any], files: Path) -> Measured:
    """The hammer's window, from the checkpoints that logbench saw beside it, and the hammer's own words."""
    watched = read_written(files / WATCH)
    screen = replay((files / LOAD / "stdout").read_bytes())[-1]
    log = parse_log(_text(files / LOAD / "stderr"))
    supervised = _json(files / LOAD / "supervisor.json")
    started = datetime.fromisoformat(supervised["started"].replace("Z", "+00:00")).timestamp()
    begin = started + facts["window"]["warm_up_s"]
    end = begin + facts["window"]["duration_s"]
    seen = [(row.t_s + watched.started_unix_s - started, row.size) for row in watched.checkpoints]
    grown = growth(seen, begin - started, end - started, facts["publish_interval_s"])
    values: Values = {
        **_growth_values(grown, watched.checkpoints),
        "offered": (facts["rate_per_s"], "1/s"),
        "achieved_share": (_achieved_share(facts, grown, facts["rate_per_s"]), "1"),
        "pushback": (log.pushback_500 + log.pushback_503, "1"),
        "errors": (log.error_count, "1"),
        "proofs_asked": (watched.proofs.asked, "1"),
        "proofs_proved": (watched.proofs.proved, "1"),
        **screen_values(screen),
    }
    # Over the very time that the screen's last line is about.
    same = growth(seen, end - started - screen.window_s, end - started, facts["publish_interval_s"])
    values["qps_of_hammer_window"] = (same.qps if same else None, "1/s")
    share = values["achieved_share"][0]
    limited = bool(screen.oversupply) or share is None or share < _MET
    return Measured(values, seen, [], [], grown, started, begin, end, limited)


def _growth_values(grown: Growth | None, checkpoints: Sequence[Any]) -> Values:
    if grown is None:
        raise ParseError("no two checkpoints were seen in the window: is it shorter than a publish step?")
    return {
        "qps": (grown.qps, "1/s"),
        "qps_low": (grown.low, "1/s"),
        "qps_high": (grown.high, "1/s"),
        "tree_size": (checkpoints[-1].size, "1"),
    }


def _grown(written: LogbenchResult, publish_interval_s: float) -> Growth | None:
    seen = [(row.t_s, row.size) for row in written.checkpoints]
    return growth(seen, written.warm_up_s, written.warm_up_s + written.duration_s, publish_interval_s)


def _achieved_share(facts: Mapping[str, Any], grown: Growth | None, offered_per_s: float) -> float | None:
    """Of the leaves that are new to the log: what it had before it does not add again when it deduplicates."""
    new = 1.0 - facts["duplicate_share"] if facts["deduplicates"] else 1.0
    return grown.qps / (offered_per_s * new) if grown and offered_per_s * new > 0 else None


def _own_cpu(written: LogbenchResult, cpus: int) -> float:
    return (written.cpu_user_s + written.cpu_system_s) / (written.duration_s * cpus)


def _screen_alone(screen: HammerScreen) -> Values:
    """Of a saved screen, which is all there is: its Δ stands for the growth of the tree."""
    return {
        "qps": (screen.qps, "1/s"),
        "offered": (screen.write_max_per_s, "1/s"),
        "achieved_share": (screen.qps / screen.write_max_per_s if screen.write_max_per_s else None, "1"),
        "tree_size": (screen.tree_size, "1"),
        **screen_values(screen),
    }


# --- around it --------------------------------------------------------------------------------------------------


def _samples(facts: Mapping[str, Any], files: Path, measured: Measured) -> Found:
    return read_samples(files, facts["cpus"], measured.begin_unix, measured.end_unix, measured.started_unix)


def _around(facts: Mapping[str, Any], found: Found, measured: Measured) -> Values:
    """What the processes and the disk used in the window."""
    values: Values = {"disk_write": (found.disk_write, "B/s"), "disk_busy": (found.disk_busy, "1")}
    for name in (SERVER, DATABASE, GENERATOR):
        shares = found.processes.get(name)
        if shares is not None and measured.values.get(f"{name}_cpu", (None, ""))[0] is None:
            values[f"{name}_cpu"] = (shares.cpu, "1")
    peaks = [server.get("peak_memory_bytes") for server in facts["servers"]]
    if peaks and None not in peaks:
        values["server_peak_memory"] = (sum(peaks), "B")
    elif SERVER in found.processes:
        values["server_peak_memory"] = (found.processes[SERVER].rss_peak, "B")
    return values


_BRACKET = {"pass": "highest_pass", "fail": "lowest_fail"}


def _best(facts: Mapping[str, Any]) -> str:
    """The last window at the highest rate that passed."""
    passed = facts["bracket"]["highest_pass"]
    return [row["label"] for row in facts["steps"] if row["rate_per_s"] == passed][-1]


def _step_rows(facts: Mapping[str, Any], files: Path) -> Rows:
    """A row for each rate, of its window that decided: the one that failed, else the last."""
    decided = {row["step"]: row for row in facts["steps"]}
    share = 1.0 - facts["duplicate_share"] if facts["deduplicates"] else 1.0
    rows = []
    for number, row in decided.items():
        window = window_of(files / row["label"], share, facts["cpus"][GENERATOR], facts["publish_interval_s"])
        rows.append(
            {
                "step": number,
                "offered_per_s": row["rate_per_s"],
                "achieved_per_s": window.achieved_per_s,
                "errors": window.errors,
                "pushback": window.pushback,
                "integrate_p99_s": window.integrate_p99_s,
                "passed": not row["why"],
                "why": row["why"] or None,
            }
        )
    return rows


def _compare(levels: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    """Raises ParseError when the files are of another case."""
    rate = None if levels["rate"] == SEARCH else Rate.of_level(levels["rate"]).per_s
    if facts["rate_per_s"] != rate:
        raise ParseError(f"measured at {facts['rate_per_s']} leaves/s, and the case says {levels['rate']}")
    if str(facts["front_ends"]) != levels["front_ends"]:
        raise ParseError(f"measured with {facts['front_ends']} front ends, and the case says {levels['front_ends']}")


def _observations(values: Values) -> list[Observation]:
    return [Observation(metric, float(value), unit) for metric, (value, unit) in values.items() if value is not None]


_NEEDED = frozenset(
    ["mode", "rate_per_s", "duplicate_share", "deduplicates", "front_ends", "publish_interval_s", "cpus", "servers"]
)


def _facts(path: Path) -> dict[str, Any]:
    facts = _json(path)
    if facts.get("schema") != 1:
        raise ParseError(f"{path.name}: schema {facts.get('schema')!r}, and only 1 is known")
    missing = sorted(_NEEDED - facts.keys())
    if missing:
        raise ParseError(f"{path.name} lacks {', '.join(missing)}")
    return facts


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(_text(path))
    except ValueError as error:
        raise ParseError(f"{path.name} is truncated or no JSON: {error}") from error


def _text(path: Path) -> str:
    if not path.is_file():
        raise ParseError(f"the file {path.name} is missing")
    return path.read_bytes().decode(errors="replace")

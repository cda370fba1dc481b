"""Parser of a trial of log_write: the generator's files, and the facts about the load. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchstudy.families.log_write.config import SEARCH
from benchstudy.families.log_write.hammer import HammerScreen, read_saved, screen_values
from benchstudy.families.log_write.layout import DATABASE, FACTS, GENERATOR, LOAD, RESULT, SAVED_SCREEN, SERVER
from benchstudy.families.log_write.limits import Limit, LimitedBy, limited_by
from benchstudy.families.log_write.problems import Problem, Rule
from benchstudy.families.log_write.reading import own_cpu, window_of
from benchstudy.families.log_write.samples import Found, read_samples
from benchstudy.families.log_write.search import Missed, Reason
from benchstudy.families.log_write.shards import read_shards
from benchstudy.families.log_write.windows import Measured, Rows, Values, growth_rows, measured, measured_by
from benchstudy.families.shared.clients import SERIES, Clients, combined, read_clients
from benchstudy.families.shared.files import read_facts
from benchstudy.families.shared.levels import Rate
from benchstudy.model.causes import Cause, cause_of
from benchstudy.model.criteria import SKEW
from benchstudy.model.family import Observation, Parsed, ParseError

_REASON = TypeAdapter(Reason | None)
_OWN = ("offered", "accepted", "duplicates", "pushback", "errors", "dropped", "proofs_asked", "proofs_proved")
_NEEDED = ("mode", "rate_per_s", "duplicate_share", "front_ends", "publish_interval_s", "cpus", "servers")


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """Parse the observations and series of a trial, measured or imported. Raises ParseError."""
    if (files / SAVED_SCREEN).is_file():
        screen = read_saved((files / SAVED_SCREEN).read_bytes())[-1]
        return Parsed(_observations(_screen_alone(screen)), {})
    facts = read_facts(files / FACTS, _NEEDED)
    _compare(levels, facts)
    values: Values = {}
    steps: Rows = []
    label = _label(facts)
    if facts["mode"] == SEARCH:
        values |= {f"capacity_{name}": (facts["bracket"][f"{key}"], "1/s") for name, key in _BRACKET.items()}
        steps = _step_rows(facts, files)
    window = measured(facts, files, label)
    found = _samples(facts, files, window)
    values |= window.values | _around(facts, found, window)
    series: dict[str, Rows] = {}
    if "clients" in facts:
        clients, each = _clients(facts, files / label)
        values |= {**clients.values(window.end_unix - window.begin_unix), **combined(each, most=("generator_cpu",))}
        series[SERIES] = clients.rows(each)
    return Parsed(
        _observations(values),
        {
            **series,
            "growth": growth_rows(window.seen),
            "latency": window.latency,
            "histogram": window.histogram,
            "resources": found.rows,
            "phases": window.phases,
            "steps": steps,
            "limits": [asdict(_limit(facts, files, window, found))],
        },
    )


def note_trial(files: Path) -> Mapping[str, Any]:
    """Note the limit of a trial and the problems of its figures. Raises ParseError."""
    facts = read_facts(files / FACTS, _NEEDED)
    window = measured(facts, files, _label(facts))
    limit = _limit(facts, files, window, _samples(facts, files, window))
    problems = [*_problems(facts, window), *_skew(facts, files, window)]
    return {"limited_by": limit, "problems": [problem.note for problem in problems]}


def _clients(facts: Mapping[str, Any], folder: Path) -> tuple[Clients, list[Values]]:
    """Return the clients of a load, and the metrics of each; the growth of the tree is common to all."""
    clients, shards = read_shards(folder)
    each: list[Values] = []
    for shard, of in zip(shards, facts["clients"], strict=True):
        values = measured_by(facts, shard).values
        own = {
            name: value for name, value in values.items() if name in _OWN or name.startswith(("queue_", "integrate_"))
        }
        each.append({**own, "generator_cpu": (own_cpu(shard, of["cpus"]), "1")})
    return clients, each


def _skew(facts: Mapping[str, Any], files: Path, window: Measured) -> Iterator[Problem]:
    if "clients" in facts:
        clients = read_clients(files / _label(facts))
        lasts_s = window.end_unix - window.begin_unix
        if clients.skew_s > SKEW * lasts_s:
            yield Problem(Rule.SKEW, {"skew_s": clients.skew_s, "share": clients.skew_s / lasts_s})


def _label(facts: Mapping[str, Any]) -> str:
    """Return the label of the load that a trial's figures describe."""
    return _best(facts)["label"] if facts["mode"] == SEARCH else LOAD


def _problems(facts: Mapping[str, Any], window: Measured) -> list[Problem]:
    found = list(window.problems)
    windows = [(row["rate_per_s"], reason_of(row)) for row in facts.get("steps", ())]
    died = [(rate, reason.said) for rate, reason in windows if reason and reason.missed is Missed.DIED]
    if died:
        rate, said = died[0]
        found.append(Problem(Rule.DIED, {"died": len(died), "windows": len(windows), "rate_per_s": rate, "said": said}))
    return found


def _limit(facts: Mapping[str, Any], files: Path, window: Measured, found: Found) -> Limit:
    """Return the limit of a trial. `window`: the one that its figures describe. `found`: its samples."""
    if facts["mode"] != SEARCH:
        return limited_by(found, at_its_limit=window.at_its_limit)
    failed = facts["bracket"]["lowest_fail"]
    if failed is None:
        return Limit(LimitedBy.NOTHING, rate_per_s=facts["bracket"]["highest_pass"])
    decided, reason = [(row, why) for row in facts["steps"] if row["rate_per_s"] == failed and (why := reason_of(row))][
        -1
    ]
    if reason.missed is Missed.DIED:
        by = LimitedBy.MEMORY if reason.cause is Cause.OOM else LimitedBy.DEATH
        return Limit(by, rate_per_s=failed, died=reason.said)
    return limited_by(_samples(facts, files, measured(facts, files, decided["label"])), at_its_limit=True)


def reason_of(row: Mapping[str, Any]) -> Reason | None:
    """Return why a window of a search failed; None if it passed. Old windows have the reason only as text."""
    if "reason" in row:
        return _REASON.validate_python(row["reason"])
    if row.get("died"):
        return Reason(Missed.DIED, cause=cause_of(row["died"]).cause, said=row["died"])
    return Reason(Missed.TOLD, said=row["why"]) if row["why"] else None


def _screen_alone(screen: HammerScreen) -> Values:
    """Return the metrics of a saved screen, whose Δ stands for the growth of the tree."""
    return {
        "qps": (screen.qps, "1/s"),
        "offered": (screen.write_max_per_s, "1/s"),
        "achieved_share": (screen.qps / screen.write_max_per_s if screen.write_max_per_s else None, "1"),
        "tree_size": (screen.tree_size, "1"),
        **screen_values(screen),
    }


# --- around it --------------------------------------------------------------------------------------------------


def _samples(facts: Mapping[str, Any], files: Path, window: Measured) -> Found:
    # Older trials lack the clocks.
    ahead_s = facts.get("clocks_ahead_s", {})
    return read_samples(files, facts["cpus"], window.begin_unix, window.end_unix, window.started_unix, ahead_s)


def _around(facts: Mapping[str, Any], found: Found, window: Measured) -> Values:
    """Return the resources that processes and disk used in the window."""
    values: Values = {"disk_write": (found.disk_write, "B/s"), "disk_busy": (found.disk_busy, "1")}
    for name in (SERVER, DATABASE, GENERATOR):
        shares = found.processes.get(name)
        if shares is not None and window.values.get(f"{name}_cpu", (None, ""))[0] is None:
            values[f"{name}_cpu"] = (shares.cpu, "1")
    servers = _servers(facts)
    peaks = [peak for server in servers if (peak := server.get("peak_memory_bytes")) is not None]
    if peaks and len(peaks) == len(servers):
        values["server_peak_memory"] = (sum(peaks), "B")
    elif SERVER in found.processes:
        values["server_peak_memory"] = (found.processes[SERVER].rss_peak, "B")
    return values


def _servers(facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the resources of the servers in the start that has the trial's window.

    A server that died later, at another rate, is left out, because its peak belongs to that rate.
    """
    if facts["mode"] != SEARCH:
        return facts["servers"]
    start = facts["starts"][_best(facts)["start"] - 1]
    return () if start["died"] else start["servers"]


_BRACKET = {"pass": "highest_pass", "fail": "lowest_fail"}


def _best(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the last window at the highest rate that passed."""
    passed = facts["bracket"]["highest_pass"]
    return [row for row in facts["steps"] if row["rate_per_s"] == passed][-1]


def _step_rows(facts: Mapping[str, Any], files: Path) -> Rows:
    """Return a row per attempt at a rate, for the window that decided it: the failed one, else the last."""
    decided = {(row["step"], row["attempt"]): row for row in facts["steps"]}
    return [
        {"step": number, "attempt": attempt, **_step_values(facts, files, row)}
        for (number, attempt), row in decided.items()
    ]


def _step_values(facts: Mapping[str, Any], files: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    reason = reason_of(row)
    died = reason is not None and reason.missed is Missed.DIED
    found = {"offered_per_s": row["rate_per_s"], "passed": reason is None, **(asdict(reason) if reason else {})}
    # If the log died, the generator may have left no result.
    if died and not (files / row["label"] / "files" / RESULT).is_file():
        return found
    window = window_of(files / row["label"], facts["cpus"][GENERATOR], facts["publish_interval_s"])
    return found | {
        "achieved_per_s": window.achieved_per_s,
        "errors": window.errors,
        "pushback": window.pushback,
        "dropped": window.dropped,
        # If a server died, only the leaves before that have a time.
        "integrate_p99_s": None if died else window.integrate_p99_s,
    }


def _compare(levels: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    """Raise ParseError if the files belong to another case."""
    rate = None if levels["rate"] == SEARCH else Rate.of_level(levels["rate"]).per_s
    if facts["rate_per_s"] != rate:
        raise ParseError(f"measured at {facts['rate_per_s']} leaves/s, but the case has {levels['rate']}")
    if str(facts["front_ends"]) != levels["front_ends"]:
        raise ParseError(f"measured with {facts['front_ends']} front ends, but the case has {levels['front_ends']}")


def _observations(values: Values) -> list[Observation]:
    return [Observation(metric, float(value), unit) for metric, (value, unit) in values.items() if value is not None]

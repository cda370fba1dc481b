"""The page's set-up table, made from records and declarations instead of typed by hand."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

import polars as pl

from benchstudy.families.load_test.page.load import LoadTest, Trial
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.tables.tables import Cell, Table

_DATA = ("users", "teams", "channels", "posts", "direct_posts")
Rows = Iterator[tuple[str, Sequence[str]]]  # without values, a setting is left out


class LoadSetup:
    def __init__(self, load: LoadTest):
        self.load = load

    def table(self) -> Table:
        """Settings and values, as on the published page. If trials differ in a value, all values are listed."""
        rows = [
            *self._versions(), *self._data_set(), *self._loads(), *self._windows(), *self._tools(), *self._machines(),
            *self._order(),
        ]  # fmt: skip
        body = tuple((Cell.text(name), Cell(tuple(lines), kind="text")) for name, lines in rows if lines)
        return Table("set-up", "Set-up, as recorded", ("Setting", "Value"), body)

    # -- what was measured -------------------------------------------------------------------------------------------

    def _versions(self) -> Rows:
        for version in self.load.versions:
            said = self._said(self._trials(version), lambda facts: (facts.get("versions") or {}).get("server"))
            again = self.load.same_as.get(version)
            text = f"{version}{f' (repeats {again}, for the A/A band)' if again else ''}"
            yield f"Version {text}", [f"reports: {', '.join(said)}"] if said else ["not recorded"]
        labels = [self.load.database(name) for name in self.load.results.levels("database")]
        versions = self._said(self.load.all_trials, lambda facts: (facts.get("versions") or {}).get("database"))
        yield "Database", [", ".join(labels), *versions]

    def _trials(self, version: str) -> list[Trial]:
        cases = {(r["target"], r["case"]) for r in self.load.results.select({"version": version}).iter_rows(named=True)}
        return [trial for target, case in cases for trial in self.load.trials(target, case)]

    @staticmethod
    def _said(trials: Sequence[Trial], what: Any) -> list[str]:
        return list(dict.fromkeys(str(said) for trial in trials if (said := what(trial.facts))))

    def _data_set(self) -> Rows:
        found = [facts for t in self.load.all_trials if (facts := t.facts.get("data_set"))]
        if not found:
            return
        counts = found[0].get("counts") or {}
        told = [f"{counts[name]:,} {name.replace('_', ' ')}" for name in _DATA if isinstance(counts.get(name), int)]
        hashes = list(dict.fromkeys(str(facts["sha256"]) for facts in found if facts.get("sha256")))
        lines = [", ".join(told)] if told else []
        yield "Data set, restored before each trial", [*lines, *(f"SHA-256 {sha}" for sha in hashes)]

    # -- the load ----------------------------------------------------------------------------------------------------

    def _loads(self) -> Rows:
        if self.load.scraped:
            yield "Load", ["run by someone else; only Prometheus' samples were read"]
        for name in self.load.results.levels("load"):
            declared = self.load.load(name)
            if declared.get("rule"):
                yield f"{name.capitalize()}: rule", list(_rule(declared["rule"]))
            elif declared:
                yield f"{name.capitalize()}: number of users", [f"{declared['users']:,}"]
                ramp = f"after a ramp of {duration(declared['ramp'])}" if declared.get("ramp") else ""
                yield f"{name.capitalize()}: duration", [f"{duration(declared['duration'])} {ramp}".strip()]

    def _windows(self) -> Rows:
        for name in self.load.results.levels("load"):
            rows = self.load.results.select({"load": name}).iter_rows(named=True)
            trials = [t for row in rows for t in self.load.trials(row["target"], row["case"])]
            windows = [seconds for t in trials if (seconds := self.load.window_s(t))]
            if windows:
                yield f"{name.capitalize()}: measured (ramp excluded)", [_range(windows)]
        intervals, widths = (
            sorted({v for t in self.load.all_trials if (v := self.load.value(t.uuid, metric)) is not None})
            for metric in ("scrape_interval", "rate_window")
        )
        if intervals:
            over = f", rates over {_range(widths)}" if widths else ""
            yield "Scrape interval", [_range(intervals) + over]
        if self.load.scraped:
            yield "Windows", [*self._moments()]

    def _moments(self) -> Iterator[str]:
        """When someone else's load ran. Different days may mean different conditions."""
        for row in self.load.results.cases.iter_rows(named=True):
            for trial in self.load.trials(row["target"], row["case"]):
                window = trial.facts.get("window") or {}
                if "start_s" in window:
                    start, end = (datetime.fromtimestamp(window[e], UTC).isoformat() for e in ("start_s", "end_s"))
                    name = self.load.results.case_name(row["target"], row["case"])
                    yield f"{name}: {sessions.moment(start)} to {sessions.moment(end)}"

    # -- what it was measured with -----------------------------------------------------------------------------------

    def _tools(self) -> Rows:
        trials = self.load.all_trials
        yield "Prometheus", self._said(trials, lambda facts: (facts.get("prometheus") or {}).get("version"))
        yield "Source of the samples", self._said(trials, lambda facts: _source(facts.get("source") or {}))
        columns = (
            self.load.results.counted.select("tool", "tool_version").unique(maintain_order=True).drop_nulls("tool")
        )
        yield "Tools", [human.tool(name, version) for name, version in columns.iter_rows()]
        offsets = [o for t in trials if (o := _offset(t.facts)) is not None]
        if offsets:
            worst = max(offsets, key=abs)
            off = human.quantity(abs(worst), "s")
            yield "Clocks", [f"Prometheus' clock differs from the host's by at most {off}; times are corrected"]

    def _machines(self) -> Rows:
        for index in self.load.indexes:
            where = f" of {index['target']}" if len(self.load.indexes) > 1 else ""
            hosts: dict[str, str] = {}
            for name, environment in sessions.environments(index):
                lines = [f"{what}: {text}" for what, text in sessions.host_lines(environment.get("before"))]
                hosts.setdefault(name, "; ".join(lines))
            for name, text in hosts.items():
                yield f"Host {name}{where}", [text]

    def _order(self) -> Rows:
        """Which version came first in each block. If it alternates, a drift of the host does not look like a change."""
        if self.load.scraped:
            return
        for contrast in self.load.contrasts[:1]:
            counted = self.load.results.counted.filter(pl.col("case").is_in(list(contrast.cases.values())))
            order = counted.sort("block", "position").group_by("block", maintain_order=True).agg("case")
            letters = {contrast.base_case: "A", contrast.new_case: "B"}
            said = " ".join("".join(letters[case] for case in cases) for _, cases in order.iter_rows())
            yield "Order of base (A) and new (B), by block", [said]


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    """The constants of the feedback rule, as the study declared them."""
    known = {
        "max_users": ("at most {:,} users", None), "step": ("steps of {} users", None),
        "every": ("every {}", duration), "slope": ("until the slope is below {} users per second", None),
        "window": ("over {}", duration), "ignore_first": ("an alert counts after {}", duration),
        "at_most": ("for at most {}", duration),
    }  # fmt: skip
    yield ", ".join(
        text.format(form(rule[key]) if form else rule[key])
        for key, (text, form) in known.items()
        if rule.get(key) is not None
    )
    alerts = rule.get("alerts") or {}
    if alerts:
        yield "alerts: " + ", ".join(
            f"{name.replace('_', ' ')} above {_limit(name, v)}" for name, v in alerts.items() if v
        )


def _limit(name: str, value: Any) -> str:
    value = value.get("above") if isinstance(value, Mapping) else value
    if not isinstance(value, int | float):
        return str(value)
    return human.quantity(float(value), "s" if name.endswith(("mean", "p99")) else "%")


def duration(value: Any) -> str:
    """A duration in words: "90 min" for 5400; text of the study stays as it is."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value / 60:g} min" if value >= 120 else f"{value:g} s"


def _range(seconds: Sequence[float]) -> str:
    """Lengths of windows: one figure if they are within 2 %, else the shortest and the longest."""
    low, high = min(seconds), max(seconds)
    if high - low <= 0.02 * high:
        return duration(round(median(seconds), 1))
    return f"{duration(round(low, 1))} to {duration(round(high, 1))}"


def _source(source: Mapping[str, Any]) -> str:
    where = source.get("url") or source.get("file") or ""
    return f"{source.get('name', '')}: {where}".strip(": ")


def _offset(facts: Mapping[str, Any]) -> float | None:
    return (facts.get("clock") or {}).get("prometheus_minus_host_s")

"""Controls the number of users over time: in a bounded load, and in an unbounded load that follows alerts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import gevent

from .alerts import UNKNOWN, PrometheusSilent, QueryRefused, ask_prometheus
from .feedback import SETTLED, FeedbackRule
from .master import Collector
from .plan import Plan, Rule

_SILENT_CHECKS = 5  # without values a rule would add users forever; a window has at least this many checks
_AT_ONCE = 1000.0  # users/s, so that Locust makes a step at once


class LoadFailed(Exception):
    """The load has no result; the message says why."""


class Bounded:
    """A fixed number of users who start at an even rate. The measurement starts when all are active."""

    def __init__(self, plan: Plan, collector: Collector):
        self.plan, self.collector = plan, collector
        self._steady_from: float | None = None

    def adjust(self) -> tuple[int, float] | None:
        """Return the wanted (users, users/s); None at the end. Raises LoadFailed if users cannot log in."""
        plan, now_s = self.plan, self.collector.now_s
        users = plan.users or 0
        if self._steady_from is None:
            if self.collector.ready >= users:
                self._steady_from = now_s
            elif now_s > plan.ramp_s + plan.arrival_s:
                raise LoadFailed(
                    f"only {self.collector.ready} of {users} users could log in, connect and load their channels "
                    f"within {now_s:.0f} s{_most_frequent(self.collector)}"
                )
        elif now_s >= self._steady_from + plan.duration_s:
            return None
        return users, users / plan.ramp_s if plan.ramp_s > 0 else _AT_ONCE

    def outcome(self, end_s: float) -> dict[str, Any]:
        steady = self._steady_from if self._steady_from is not None else end_s
        return {
            "mode": "bounded",
            "phases": [_phase("ramp", 0.0, steady), _phase("steady", steady, end_s)],
            "problems": [],
        }


class Unbounded:
    """An unbounded load: feeds the feedback rule with alerts."""

    def __init__(self, plan: Plan, collector: Collector):
        assert plan.rule is not None
        self.plan, self.collector, self.rule_plan = plan, collector, plan.rule
        self.rule = FeedbackRule(plan.rule.constants)
        self._watch = Watch(plan.rule, plan.prometheus_url, collector)
        self._next_s = 0.0

    def adjust(self) -> tuple[int, float] | None:
        """Like Bounded.adjust. Raises LoadFailed if the system yields no values."""
        collector, constants = self.collector, self.rule_plan.constants
        # Locust calls this about once per second, so check a little early rather than a whole second late.
        if collector.now_s >= self._next_s - 0.1:
            self._next_s += constants.every_s
            if collector.now_s >= self._next_s:  # the schedule fell behind
                self._next_s = collector.now_s + constants.every_s
            if collector.wanted:
                now_s, users = collector.now_s, collector.users
                collector.tell_check(now_s, users, self._watch.look(now_s))
                self.rule.decide(now_s, users, collector.alerts)
        return None if self.rule.result is not None else (self.rule.wanted, _AT_ONCE)

    def outcome(self, end_s: float) -> dict[str, Any]:
        result = self.rule.result
        begin = result.begin_s if result else end_s
        problems = [
            f"the alert {name} had no value in {count} of {self._watch.checks} checks"
            for name, count in self._watch.unknown.items()
            if count
        ]
        if result is not None and result.why != SETTLED:
            problems.append(_NOT_SETTLED[result.why].format(**asdict(self.rule_plan.constants)))
        return {
            "mode": "unbounded",
            "phases": [_phase("search", 0.0, begin), _phase("stable", begin, end_s)],
            "result": result and {**asdict(result), "limited_by": result.limited_by},
            "problems": problems,
        }


_NOT_SETTLED = {
    "at_maximum": "the load stayed at its maximum of {max_users} users without an alert: the system supports at least "
    "as many",
    "at_minimum": "there was an alert at every check, however few users there were: its bound is exceeded without them",
    "too_long": "the number of users did not settle within {at_most_s:g} s",
}


class Watch:
    """Queries all alerts at once."""

    def __init__(self, rule: Rule, prometheus_url: str, collector: Collector):
        self.rule, self.url, self.collector = rule, prometheus_url, collector
        self.checks = 0
        self.unknown = {alert.name: 0 for alert in rule.alerts}
        self._heard = time.monotonic()

    def look(self, now_s: float) -> list[tuple[str, float | None, float, str]]:
        """List (alert, value, bound, state). Raises LoadFailed if Prometheus has not answered for too long."""
        queries = {alert.name: alert.query for alert in self.rule.alerts if alert.query is not None}
        answers = dict(zip(queries, self._ask([*queries.values()]), strict=True))
        values = {**self.collector.recently.statistics(now_s), **answers}
        self.checks += 1
        rows = []
        for alert in self.rule.alerts:
            value = values[alert.name]
            state = alert.state(now_s, value)
            self.unknown[alert.name] += state == UNKNOWN
            rows.append((alert.name, value, alert.above, state))
        return rows

    def _ask(self, queries: list[str]) -> list[float | None]:
        jobs = [gevent.spawn(self._try, query) for query in queries]
        gevent.joinall(jobs)
        silent = [job.value for job in jobs if isinstance(job.value, PrometheusSilent)]
        refused = next((error for error in silent if isinstance(error, QueryRefused)), None)
        if refused is not None:
            raise LoadFailed(f"an alert cannot be asked for: {refused}")
        if not silent:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > _SILENT_CHECKS * self.rule.constants.every_s:
            raise LoadFailed(f"nothing decides about users any more: {silent[0]}")
        return [None if isinstance(job.value, PrometheusSilent) else job.value for job in jobs]

    def _try(self, query: str) -> float | PrometheusSilent | None:
        try:
            return ask_prometheus(self.url, query, self.rule.constants.every_s)
        except PrometheusSilent as error:
            return error


def _phase(name: str, start_s: float, end_s: float) -> Mapping[str, Any]:
    return {"name": name, "start_s": start_s, "end_s": end_s}


def _most_frequent(collector: Collector) -> str:
    """The most frequent failure, as the ending of a cause."""
    failures = collector.total.failures
    if not failures:
        return ""
    label, failure = max(failures, key=lambda key: failures[key])
    example = collector.total.examples[label, failure]
    return f"; {failures[label, failure]} × {label}: {failure}{f', such as {example}' if example else ''}"

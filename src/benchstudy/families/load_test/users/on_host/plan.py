"""The plan for the load hosts, a JSON document. It has passwords, so it is read from standard input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .alerts import Alert
from .feedback import Constants


@dataclass(frozen=True)
class Account:
    username: str
    password: str


@dataclass(frozen=True)
class Rule:
    """An unbounded load."""

    constants: Constants
    alerts: tuple[Alert, ...]
    alert_window_s: float


@dataclass(frozen=True)
class Plan:
    """One load. Times in s. A bounded load has `users`, `ramp_s` and `duration_s`, an unbounded one has `rule`.

    `system`: the system of the users, the name of a package beside this module.
    `like`: the load test whose users they imitate, see the study's Behaviour. `rates`: (factor of the think times,
    share of the users). `pauses`: factor of the pauses within an action.
    `workers`: total number of Locust processes on all hosts. `interval_s`: interval at which measurements are written.
    """

    system: str
    url: str
    accounts: tuple[Account, ...]
    actions: Mapping[str, float]
    think_least_s: float
    think_mean_s: float
    rates: tuple[tuple[float, float], ...]
    pauses: float
    like: str
    replies: float
    uploads: float
    request_timeout_s: float
    arrival_s: float
    seed: str
    workers: int
    users: int | None
    ramp_s: float
    duration_s: float
    rule: Rule | None
    prometheus_url: str
    address: str
    metrics_port: int
    interval_s: float

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Plan:
        """Read a plan. Raises KeyError or TypeError for a document that is not a plan."""
        values = dict(document)
        values["accounts"] = tuple(Account(*pair) for pair in values["accounts"])
        values["rates"] = tuple((factor, share) for factor, share in values["rates"])
        rule = values["rule"]
        values["rule"] = rule and Rule(
            Constants(**rule["constants"]), tuple(Alert(**alert) for alert in rule["alerts"]), rule["alert_window_s"]
        )
        return cls(**values)

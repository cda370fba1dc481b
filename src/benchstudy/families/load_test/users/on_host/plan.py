"""What the load hosts are told, as a JSON document on standard input: it has passwords, and arguments are public."""

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
    """One load. Times in s. `users`, `ramp_s`, `duration_s` of a bounded one, `rule` of an unbounded one.

    `system`: whose users these are, the name of a package beside this module.
    `like`: whose users they act like, see the study's Behaviour. `rates`: (factor of the think times, share of the
    users). `pauses`: factor of the pauses within an action.
    `workers`: Locust processes on all hosts together. `interval_s`: how often what was measured is written down.
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
        """Raises KeyError or TypeError for a document that is none."""
        values = dict(document)
        values["accounts"] = tuple(Account(*pair) for pair in values["accounts"])
        values["rates"] = tuple((factor, share) for factor, share in values["rates"])
        rule = values["rule"]
        values["rule"] = rule and Rule(
            Constants(**rule["constants"]), tuple(Alert(**alert) for alert in rule["alerts"]), rule["alert_window_s"]
        )
        return cls(**values)

    @property
    def most_users(self) -> int:
        return self.rule.constants.max_users if self.rule else self.users or 0

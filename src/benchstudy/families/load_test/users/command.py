"""Builds the command lines of Locust, and the plan that it reads from standard input."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchstudy.families.load_test.system_files import SYSTEM
from benchstudy.families.load_test.users import LOCUSTFILE
from benchstudy.families.load_test.users.config import Behaviour, LoadLevel, Rule
from benchstudy.families.load_test.users.site import Site
from benchstudy.hosts.agent import Command
from benchstudy.model.criteria import USERS_SWING

TOOL = "locust"
MASTER, WORKER = "load", "load-worker"  # labels of the commands
_SHORT_S = 600.0  # loads up to this length record their measurements every second
_INTERVALS_S = (1.0, 10.0)
_FILES_FOR_A_USER = 4  # websocket, request, and one more of each while they are replaced
_SPARE_FILES = 256
# Locust reads configuration files from the home folder. A user's own must not change a measurement.
_ENVIRONMENT = {"HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Started:
    """The parameters of one load. `accounts`: (username, password). `hosts`: number of hosts for workers.

    The master listens at `site.load`, on the port `master` for workers and on `metrics` for Prometheus.
    """

    load: LoadLevel
    behaviour: Behaviour
    site: Site = field(repr=False)
    accounts: Sequence[tuple[str, str]] = field(repr=False)
    hosts: int
    seed: str
    timeout_s: float

    @property
    def workers(self) -> int:
        return self.hosts * self.behaviour.workers

    @property
    def accounts_needed(self) -> int:
        """Number of accounts needed. Each worker has its own; workers' numbers of users differ by one at most."""
        return -(-self.load.most_users // self.workers) * self.workers

    def master(self, program: str, folder: str, stop_when: threading.Event) -> Command:
        """The command of the master. `folder`: the shipped library on the host."""
        argv = [
            *_common(program, folder),
            "--master",
            f"--master-bind-host={self.site.load.address}",
            f"--master-bind-port={self.site.load.ports['master']}",
            f"--expect-workers={self.workers}",
            "--csv=locust",
        ]
        return self._command(argv, MASTER, stop_when, _SPARE_FILES)

    def worker(self, program: str, folder: str, number: int, stop_when: threading.Event) -> Command:
        """The command of all worker processes of a host. `number`: the host's, counted from 1."""
        argv = [
            *_common(program, folder),
            "--worker",
            f"--processes={self.behaviour.workers}",
            f"--master-host={self.site.load.address}",
            f"--master-port={self.site.load.ports['master']}",
        ]
        files = -(-self.load.most_users // self.workers) * _FILES_FOR_A_USER + _SPARE_FILES
        return self._command(argv, f"{WORKER}-{number}", stop_when, files)

    def _command(self, argv: list[str], label: str, stop_when: threading.Event, open_files: int) -> Command:
        return Command(
            argv,
            env=_ENVIRONMENT,
            stdin=json.dumps(self.plan()).encode(),
            timeout_s=self.timeout_s,
            label=label,
            open_files=open_files,
            stop_when=stop_when,
        )

    def plan(self) -> dict[str, Any]:
        """The plan for Locust; on_host/plan.py describes it."""
        load, behaviour = self.load, self.behaviour
        return {
            "system": SYSTEM,
            "url": self.site.url,
            "accounts": [list(pair) for pair in self.accounts],
            "actions": {action: rate for action, rate in behaviour.actions.items() if rate > 0},
            "think_least_s": behaviour.think_time.least,
            "think_mean_s": behaviour.think_time.mean,
            "rates": [list(pair) for pair in behaviour.rates.items()],
            "pauses": behaviour.pauses,
            "like": behaviour.like,
            "replies": behaviour.replies,
            "uploads": behaviour.uploads,
            "request_timeout_s": behaviour.request_timeout,
            "arrival_s": behaviour.arrival,
            "seed": self.seed,
            "workers": self.workers,
            "users": load.users,
            "ramp_s": load.ramp if load.is_bounded else 0.0,
            "duration_s": load.duration or 0.0,
            "rule": load.rule and _rule(load.rule),
            "prometheus_url": self.site.prometheus_url,
            "address": self.site.load.address,
            "metrics_port": self.site.load.ports["metrics"],
            "interval_s": _INTERVALS_S[load.longest_s > _SHORT_S],
        }


def _common(program: str, folder: str) -> list[str]:
    # Failed requests are a result, so they must not change Locust's exit status.
    quiet = ["--headless", "--only-summary", "--exit-code-on-error=0", "--loglevel=INFO"]
    return [program, f"--locustfile={folder}/{LOCUSTFILE}", *quiet]


def _rule(rule: Rule) -> Mapping[str, Any]:
    return {
        "constants": {
            "max_users": rule.max_users,
            "step": rule.step,
            "every_s": rule.every,
            "slope": rule.slope,
            "window_s": rule.window,
            "at_most_s": rule.at_most,
            "start_up_s": rule.start_up,
            "swing": USERS_SWING,
        },
        "alerts": [
            {
                "name": name,
                "above": alert.above,
                "ignore_first_s": rule.ignore_first if alert.ignore_first is None else alert.ignore_first,
                "query": rule.query(name),
            }
            for name, alert in rule.alerts.items()
        ],
        "alert_window_s": rule.alert_window,
    }

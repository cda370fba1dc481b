"""A trial that the study runs: a fresh site, users, and Prometheus' samples of it."""

from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

from benchstudy.families.load_test.clocks import clock_of, require_small_step, require_steady
from benchstudy.families.load_test.config import LoadTestConfig
from benchstudy.families.load_test.facts import rate_window_s, write_facts
from benchstudy.families.load_test.fetch import Server, Span, fetch
from benchstudy.families.load_test.scraped import problems_of
from benchstudy.families.load_test.system import fresh_site, said_version, wait_for_targets, watched
from benchstudy.families.load_test.users.config import LoadLevel
from benchstudy.families.load_test.users.run import Loaded, run_load
from benchstudy.families.load_test.users.site import Site
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

SYSTEM, HOSTS = '{job="server"}', '{job="node"}'
_STEADY = ("steady", "stable")  # names of the measured phases


def run_load_trial(case: Case, trial: "TrialContext[LoadTestConfig]") -> None:
    """Run one load and fetch its samples. Raises TrialFailed with a readable cause."""
    config = trial.config
    levels, interval_s = case.levels, config.monitor.scrape_interval
    load = config.load(levels["load"])
    trial.note(loop="closed", database=config.database(levels["database"]).label or levels["database"])
    with fresh_site(trial, levels["version"], levels["database"], load.most_users) as site:
        version = said_version(trial, site)
        wait_for_targets(trial, site)
        before = _Clocks(trial, site)
        with watched(site, trial.event) as died:
            loaded = _loaded(trial, load, site, died)
        after = _Clocks(trial, site)
        phases = before.to_prometheus(loaded.phases)
        steady = next(((start, end) for name, start, end in phases if name in _STEADY), None)
        if steady is None:
            raise TrialFailed(
                f"the load reached no steady phase: {'; '.join(loaded.problems) or 'the cause is not known'}"
            )
        window = phases[0][1], phases[-1][2]
        margin_s = rate_window_s(steady[1] - steady[0], interval_s)
        server = Server(site.prometheus_url, site.prometheus_role)
        span = Span(*window, margin_s, SYSTEM, HOSTS, interval_s, config.metrics.given)
        summary = fetch(trial, server, span)
        stepped_s = before.require_steady(after)
    write_facts(
        trial,
        mode="run",
        window=window,
        steady=steady,
        phases=phases,
        scrape_interval_s=interval_s,
        select=SYSTEM,
        select_hosts=HOSTS,
        metrics=config.metrics.given,
        bounded=load.is_bounded,
        users_asked=load.users,
        load=loaded.result,
        source={"name": config.monitor.service, "kind": "run"},
        prometheus={name: summary.get(name) for name in ("version", "series", "samples")},
        clock={**before.facts(), "stepped_s": stepped_s},
        versions={"server": version, **({"database": site.accounts.database} if site.accounts.database else {})},
        data_set={"counts": dict(site.accounts.counts), "sha256": site.accounts.sha256},
        used={service.name: dict((service.record or {}).get("limits") or {}) for service in site.services},
        problems=[*loaded.problems, *problems_of(summary)],
    )


def _loaded(trial: "TrialContext[LoadTestConfig]", load: LoadLevel, site: Site, died: Event) -> Loaded:
    """Run the load. Raises TrialFailed; if a service died, with that cause instead of the users' errors."""
    try:
        loaded = run_load(trial, load, trial.config.behaviour, site, died)
    except TrialFailed:
        site.check()
        raise
    site.check()
    return loaded


class _Clocks:
    """Clocks of Prometheus and the hosts at one moment, relative to this machine's."""

    def __init__(self, trial: "TrialContext", site: Site):
        roles = {trial.roles[role]: role for role in (site.prometheus_role, site.load_role)}
        self.hosts = {host: trial.clock_offset_s(role) for host, role in roles.items()}
        self._prometheus_host, self._load_host = trial.roles[site.prometheus_role], trial.roles[site.load_role]
        answer = trial.agent_call("prometheus:clock", site.prometheus_url, role=site.prometheus_role)
        self.prometheus = clock_of(answer, self.hosts[self._prometheus_host])

    @property
    def load_minus_prometheus_s(self) -> float:
        return self.hosts[self._load_host] - self.prometheus.from_here_s

    def to_prometheus(self, phases: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
        """Convert phases from the load host's clock to Prometheus' clock."""
        shift_s = self.load_minus_prometheus_s
        return [(name, start - shift_s, end - shift_s) for name, start, end in phases]

    def require_steady(self, after: "_Clocks") -> float:
        """Seconds by which clocks were set in between. Raises TrialFailed if that is too much."""
        stepped_s = require_steady(self.prometheus, after.prometheus)
        between_s = after.load_minus_prometheus_s - self.load_minus_prometheus_s
        uncertainty_s = self.prometheus.uncertainty_s + after.prometheus.uncertainty_s
        require_small_step(self._load_host, between_s, uncertainty_s)
        return max(stepped_s, between_s, key=abs)

    def facts(self) -> dict[str, Any]:
        return {
            "prometheus_minus_host_s": self.prometheus.from_host_s,
            "prometheus_minus_here_s": self.prometheus.from_here_s,
            "uncertainty_s": self.prometheus.uncertainty_s,
            "hosts": self.hosts,
            "load_minus_prometheus_s": self.load_minus_prometheus_s,
            "correction_s": -self.load_minus_prometheus_s,
        }

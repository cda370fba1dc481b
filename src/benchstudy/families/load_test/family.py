"""Compares releases of a server under the same load by Prometheus' samples.

Source: Mattermost's page that compares v9.11 with v10.0. See docs/families/load_test.md.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from benchstudy.families.load_test import system_files, users
from benchstudy.families.load_test.config import LoadTestConfig, Window
from benchstudy.families.load_test.metrics import METRICS
from benchstudy.families.load_test.users.config import LoadLevel, Rule
from benchstudy.model import services
from benchstudy.model.family import Case, Family, Loop
from benchstudy.model.grouping import grouped
from benchstudy.model.metrics import Metric


class LoadTest(Family[LoadTestConfig]):
    name = "load_test"
    title = "Two releases under load"
    Config = LoadTestConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    trial_names: ClassVar[tuple[str, ...]] = ("server", "load")
    ordering: ClassVar[str] = (
        "versions side by side, the base first in odd blocks and last in even ones (ABBA), databases and loads in "
        "random order"
    )
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "panels": {
            "panel": "String",
            **dict.fromkeys(("t_s", "value", "low", "high", "width_s"), "Float64"),
            "resets": "Int64",
        },
        "labels": {
            **dict.fromkeys(("group", "label"), "String"),
            **dict.fromkeys(("count", "sum_s", "mean_s", "p99_s", "p99_low_s", "p99_high_s", "rate_per_s"), "Float64"),
        },
        "buckets": {"group": "String", "label": "String", "le_s": "Float64", "count": "Float64"},
        "users": {"t_s": "Float64", "users": "Float64", "alert": "String"},
        "checks": {"t_s": "Float64", "users": "Float64", "alert": "String", "judged": "Boolean"},
        "search": {
            "why": "String",
            "limited_by": "String",
            **dict.fromkeys(("supported", "slope", "swing", "least", "most", "passed", "failed"), "Float64"),
            "bracket_low": "Float64",
            "bracket_high": "Float64",
            **dict.fromkeys(("max_users", "checks", "clipped"), "Int64"),
        },
        "client": {
            "action": "String",
            **dict.fromkeys(("count", "failures", "timed"), "Int64"),
            **dict.fromkeys(("mean_s", "p50_s", "p95_s", "p99_s"), "Float64"),
        },
        "client_histogram": {"action": "String", "low_s": "Float64", "high_s": "Float64", "count": "Int64"},
        "phases": {"phase": "String", "start_s": "Float64", "end_s": "Float64"},
        "events": {"t_s": "Float64", "what": "String", "detail": "String"},
    }
    signed_columns: ClassVar[Collection[str]] = (*Family.signed_columns, "slope")

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        return "noted"

    def declared_s(self, case: Case) -> float | None:
        told = case.definition.get("load")
        if told is None:
            return super().declared_s(case)
        # A definition leaves out what has its default.
        rule = Rule.model_construct(**told["rule"]) if "rule" in told else None
        return LoadLevel.model_construct(**{**told, "rule": rule}).longest_s

    def cases(self, config: LoadTestConfig) -> list[Case]:
        return _scraped_cases(config) if config.scraped else _run_cases(config)

    def order(self, cases: Sequence[Case], block: int, rng: random.Random) -> list[Case]:
        """Put base and new next to each other, base first in odd blocks and last in even ones (ABBA), so that a drift
        affects both alike. Databases and loads are in random order.
        """
        groups = list(grouped(((case.levels["database"], case.levels["load"]), case) for case in cases).values())
        rng.shuffle(groups)
        return [case for group in groups for case in (group if block % 2 else reversed(group))]

    def libraries(self) -> Mapping[str, Callable[[], Mapping[str, Path]]]:
        """Scripts for hosts: data set scripts run with the agent's Python, users with Locust's Python."""
        return {system_files.DATA_LIBRARY: partial(system_files.below, "data"), users.LIBRARY: users.scripts}


def _run_cases(config: LoadTestConfig) -> list[Case]:
    return [
        _run_case(config, database.name, version.name, load)
        for database in config.databases
        for version in config.versions
        for load in config.loads
    ]


def _run_case(config: LoadTestConfig, database: str, version: str, load: LoadLevel) -> Case:
    plain: dict[str, Any] = {"mode": "json", "exclude_defaults": True}
    server, monitor = config.server(version, database), config.monitor
    wanted = (config.database(database).service, server, monitor.service)
    definition = {
        "mode": "run",
        "server": server,
        "load": load.model_dump(exclude={"name", "blocks"}, **plain),
        "behaviour": config.behaviour.model_dump(**plain),
        "system": config.system.model_dump(**plain),
        "prometheus": monitor.model_dump(**plain),
        "metrics": config.metrics.given,
        "services": {name: s for one in wanted for name, s in services.definition(config.services, one).items()},
    }
    return Case({"database": database, "version": version, "load": load.name}, definition, most_blocks=load.blocks)


def _scraped_cases(config: LoadTestConfig) -> list[Case]:
    cases = []
    factors = ("database", "version", "load")
    for names in product(*map(config.names, factors)):
        levels = dict(zip(factors, names, strict=True))
        windows = config.windows_of(levels)
        if windows:
            by_block = [_defined(config, window) for window in windows]
            cases.append(Case(levels, {"mode": "scrape", "metrics": config.metrics.given}, by_block))
    return cases


def _defined(config: LoadTestConfig, window: Window) -> dict[str, object]:
    """The part of a definition that decides which samples a window has. Credentials and routes are not part of it."""
    source = config.source(window)
    return {
        "window": window.model_dump(mode="json", include={"start", "end"}),
        "select": [window.select, window.select_hosts],
        "source": source.model_dump(mode="json", include={"url", "file", "clock"}, exclude_none=True),
    }


FAMILY = LoadTest()

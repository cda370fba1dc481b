"""Transparency logs: leaves per second that a Tessera log integrates, by backend, with and without deduplication.

Source: Tessera's page on storage performance, which has a table and a screen of the hammer for each backend. See
docs/families/log_write.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from benchstudy.families.log_write.config import (
    SEARCH,
    Backend,
    CapacitySearch,
    LogGenerator,
    LogSweep,
    LogWriteConfig,
    share_of,
)
from benchstudy.families.log_write.limits import COLUMNS
from benchstudy.families.log_write.metrics import METRICS
from benchstudy.families.log_write.planned import search_s
from benchstudy.families.shared import clients
from benchstudy.families.shared.levels import Rate, limits_named
from benchstudy.model import services
from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Case, Family, Loop
from benchstudy.model.metrics import Metric


class LogWrite(Family[LogWriteConfig]):
    name = "log_write"
    title = "Write rate of transparency logs"
    Config = LogWriteConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    factors: ClassVar[tuple[str, ...]] = (
        "antispam",
        "limits",
        "front_ends",
        "duplicates",
        "generator",
        "rate",
        "backend",
        CLIENTS,
    )
    numeric_levels: ClassVar = {
        "front_ends": ("front_ends_n", int),
        "duplicates": ("duplicate_share", share_of),
        "rate": ("rate_per_s", lambda level: None if level == SEARCH else Rate.of_level(level).per_s),
        CLIENTS: (NUMBER, int),
    }
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "growth": {"t_s": "Float64", "size": "Int64", "qps": "Float64"},
        "latency": dict.fromkeys(
            ("t_s", "integrate_p50_s", "integrate_p99_s", "queue_p50_s", "queue_p99_s"), "Float64"
        ),
        "histogram": {"which": "String", "low_s": "Float64", "high_s": "Float64", "count": "Int64"},
        "resources": {"t_s": "Float64", "process": "String", "cpu_share": "Float64", "disk_write_b_per_s": "Float64"},
        "phases": {"phase": "String", "start_s": "Float64", "end_s": "Float64"},
        "limits": COLUMNS,
        clients.SERIES: clients.SCHEMA,
        "steps": {
            **dict.fromkeys(("step", "attempt"), "Int64"),
            **dict.fromkeys(("offered_per_s", "achieved_per_s"), "Float64"),
            **dict.fromkeys(("errors", "pushback", "dropped"), "Int64"),
            "integrate_p99_s": "Float64",
            "passed": "Boolean",
            **dict.fromkeys(("missed", "cause", "said"), "String"),
            **dict.fromkeys(("seen", "bound", "busy_generator"), "Float64"),
        },
    }

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        return "noted"

    def declared_s(self, case: Case) -> float:
        # A definition leaves out what has its default.
        if case.levels["rate"] != SEARCH:
            generator = LogGenerator.model_construct(**case.definition["generator"])
            return generator.warm_up + generator.duration
        backend = Backend.model_construct(**case.definition["backend"])
        return search_s(CapacitySearch.model_construct(**case.definition["search"]), backend)

    def cases(self, config: LogWriteConfig) -> list[Case]:
        found: dict[str, Case] = {}
        for number, sweep in enumerate(config.sweeps):
            for case in _sweep_cases(config, sweep, f"families.log_write.sweeps[{number}]"):
                found.setdefault(case.id, case)
        return list(found.values())


def _sweep_cases(config: LogWriteConfig, sweep: LogSweep, where: str) -> Iterator[Case]:
    """Yield a case per combination of a sweep. Raises StudyError for an impossible one."""
    if not (sweep.rates or config.rates):
        raise StudyError(f"{where}: rates are missing: give rates: [...] here or in the family")
    for backend, antispam, limit, front_ends, duplicates, generator, rate in config.combinations(sweep):
        name = f"{where}: {generator.name} on {backend.name}"
        if backend.server(antispam) is None:
            key = "antispam_service" if antispam == "yes" else "service"
            raise StudyError(f"{name}: antispam {antispam!r} needs {key}, which the backend does not have")
        if front_ends > 1 and not backend.several_front_ends:
            raise StudyError(
                f"{name}: {front_ends} front ends need a backend with several_front_ends: true, whose log several "
                "servers may write to"
            )
        if rate == SEARCH and not generator.is_open:
            raise StudyError(
                f"{name}: the capacity search needs an open loop (tool: logbench), because the hammer offers less to a "
                "slow log and never sees a rate fail"
            )
        try:
            generator.under_way(Rate(config.search.highest if rate == SEARCH else rate).per_s)
        except ValueError as error:
            raise StudyError(f"{where}: {error}") from error
        case = _case(config, backend, antispam, limit, front_ends, duplicates, generator, rate)
        yield replace(case, most_blocks=sweep.blocks)


def _case(
    config: LogWriteConfig,
    backend: Backend,
    antispam: str,
    limit: str,
    front_ends: int,
    duplicates: str,
    generator: LogGenerator,
    rate: str,
) -> Case:
    levels = {
        "backend": backend.name,
        "antispam": antispam,
        "limits": limit,
        "front_ends": str(front_ends),
        "duplicates": duplicates,
        "generator": generator.name,
        "rate": rate if rate == SEARCH else Rate(rate).level,
    }
    plain: dict[str, Any] = {"mode": "json", "exclude_defaults": True}
    # Names and checks are not part of what is executed.
    named = {"name", "label", "emulated", "expect_fs", "service", "antispam_service", "max_integrate_p99"}
    definition = {
        "backend": backend.model_dump(exclude=named, **plain),
        "limits": limits_named(limit, config.limits).model_dump(**plain),
        "generator": generator.model_dump(exclude={"name"}, **plain),
        "server": backend.server(antispam),
        "services": services.definition(config.services, backend.server(antispam)),
    }
    if rate == SEARCH:
        definition["search"] = {**config.search.model_dump(**plain), "backend_bound_s": backend.max_integrate_p99}
    return Case(levels, definition)


FAMILY = LogWrite()

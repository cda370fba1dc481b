"""HTTP servers under CPU and memory limits, and under rising concurrency.

Source: Filestash's page of benchmark results, with one table per limit, one row per concurrency and one column per
endpoint. See docs/families/http_concurrency.md.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchstudy.families.http_concurrency.config import Endpoint, Generator, HttpConcurrencyConfig, Server, Sweep
from benchstudy.families.http_concurrency.metrics import METRICS
from benchstudy.families.http_concurrency.scripts import LIBRARY, scripts
from benchstudy.families.shared import clients
from benchstudy.families.shared.levels import UNLIMITED, Rate, limits_named
from benchstudy.model import services
from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Case, Family, Loop
from benchstudy.model.metrics import Metric


class HttpConcurrency(Family[HttpConcurrencyConfig]):
    name = "http_concurrency"
    title = "HTTP servers by concurrency"
    Config = HttpConcurrencyConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    factors: ClassVar[tuple[str, ...]] = ("server", "limits", "generator", "concurrency", "rate", "endpoint", CLIENTS)
    numeric_levels: ClassVar = {
        "concurrency": ("concurrency_n", int),
        "rate": ("rate_per_s", lambda level: Rate.of_level(level).per_s),
        CLIENTS: (NUMBER, int),
    }
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "percentiles": {"percent": "Float64", "latency_s": "Float64"},
        "histogram": {"low_s": "Float64", "high_s": "Float64", "count": "Int64"},
        clients.SERIES: clients.SCHEMA,
    }

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        return "closed" if "concurrency" in levels else "open"

    def warmed_up(self, argv: str, files: Collection[str], phases: Collection[str]) -> bool:
        return any(file.startswith("warm-up/") for file in files)

    def cases(self, config: HttpConcurrencyConfig) -> list[Case]:
        found: dict[str, Case] = {}
        loads: dict[tuple[str, int | Rate], Generator] = {}
        for number, sweep in enumerate(config.sweeps):
            for server, limit, endpoint, generator, load in _combinations(config, sweep, f"sweeps[{number}]"):
                case = _case(config, server, limit, endpoint, generator, load)
                found.setdefault(case.id, case)
                loads[generator.name, load] = generator
        # A ceiling belongs to a generator at a load, not to a server under test.
        for server in (server for server in config.servers if server.ceiling):
            for (_, load), generator in loads.items():
                _check_possible(server, server.endpoints[0], generator, load, f"server {server.name}")
                case = _case(config, server, UNLIMITED, server.endpoints[0], generator, load)
                found.setdefault(case.id, case)
        return list(found.values())

    def libraries(self) -> Mapping[str, Callable[[], Mapping[str, Path]]]:
        """Return the scripts for the load generators wrk and k6."""
        return {LIBRARY: scripts}


def _combinations(
    config: HttpConcurrencyConfig, sweep: Sweep, where: str
) -> Iterator[tuple[Server, str, Endpoint, Generator, int | Rate]]:
    """Yield every combination of a sweep. Raises StudyError for an impossible one."""
    generators = config.chosen_generators(sweep)
    for generator in generators:
        if not config.loads(sweep, generator):
            wanted = "rates" if generator.is_open else "concurrency"
            raise StudyError(f"families.http_concurrency.{where}: generator {generator.name} needs {wanted}: [...]")
    for server in config.chosen_servers(sweep):
        for limit in config.chosen_limits(sweep):
            for endpoint in server.endpoints:
                if sweep.endpoints is not None and endpoint.name not in sweep.endpoints:
                    continue
                for generator in generators:
                    for load in config.loads(sweep, generator):
                        _check_possible(server, endpoint, generator, load, where)
                        yield server, limit, endpoint, generator, load


def _check_possible(server: Server, endpoint: Endpoint, generator: Generator, load: int | Rate, where: str) -> None:
    name = f"families.http_concurrency.{where}: {generator.name} on {server.name}/{endpoint.name}"
    status = endpoint.expect.status
    if generator.tool == "ab":
        if not 200 <= status < 300:
            raise StudyError(f"{name}: ab counts {status}, the expected status, as a failure: use wrk or k6")
        if endpoint.walk:
            raise StudyError(f"{name}: ab requests one address only, and this endpoint has a `walk`: use wrk or k6")
        if endpoint.secret_env:
            raise StudyError(
                f"{name}: ab exposes headers in its command line to every user of the host, and those of this endpoint "
                f"contain {', '.join(endpoint.secret_env)}: use wrk or k6, or a `login`, whose token expires with a "
                "trial"
            )
        if isinstance(load, int) and generator.requests is not None and generator.requests < load:
            raise StudyError(
                f"{name}: {load} connections need at least {load} requests, but it has {generator.requests}"
            )
    if generator.tool == "wrk" and not generator.check_answers and status > 399:
        raise StudyError(
            f"{name}: wrk counts {status}, the expected status, as a failure: remove `check_answers: false`, or use k6"
        )


def _case(
    config: HttpConcurrencyConfig,
    server: Server,
    limit: str,
    endpoint: Endpoint,
    generator: Generator,
    load: int | Rate,
) -> Case:
    levels = {
        "server": server.name,
        "limits": limit,
        "endpoint": server.level(endpoint),
        "generator": generator.name,
        **({"rate": load.level} if isinstance(load, Rate) else {"concurrency": str(load)}),
    }
    plain: dict[str, Any] = {"mode": "json", "exclude_defaults": True}
    definition = {
        "server": server.model_dump(exclude={"name", "endpoints"}, **plain),
        "endpoint": endpoint.model_dump(exclude={"name"}, **plain),
        "limits": limits_named(limit, config.limits).model_dump(**plain),
        "generator": generator.model_dump(exclude={"name"}, **plain),
        "services": services.definition(config.services, server.service),
    }
    return Case(levels, definition)


FAMILY = HttpConcurrency()

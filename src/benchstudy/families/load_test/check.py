"""Checks of `benchstudy check` for load_test: programs, variables, and whether each Prometheus answers."""

from typing import TYPE_CHECKING

from benchstudy.families.load_test.clocks import MOST_OFFSET_S
from benchstudy.families.load_test.config import LoadTestConfig, Source
from benchstudy.model import needs, paths
from benchstudy.model.errors import BenchstudyError

if TYPE_CHECKING:
    from benchstudy.measuring.hostcheck import HostCheck


def check_host(config: LoadTestConfig, host: "HostCheck") -> None:
    _check_programs(config, host)
    for source in config.sources:
        if source.role in host.roles:
            _check_source(source, host)


def _check_programs(config: LoadTestConfig, host: "HostCheck") -> None:
    """Check the programs and variables of this host's services, and Locust on load hosts."""
    if not config.services:
        return
    family = config.model_dump(mode="json", serialize_as_any=True)
    services = [service for service in config.services.values() if service.role in host.roles]
    begun = {argv[0] for service in services for argv in (service.argv, *service.setup)}
    for program in sorted(begun | {f"{{{{tools}}}}/{name}" for name in needs.named_tools(family, host.roles)}):
        host.program(program, "services")
    for variable in sorted({name for service in services for name in service.secret_env.values()}):
        host.variable(variable)
    if host.makes_load:
        host.program("locust", "users")


def _check_source(source: Source, host: "HostCheck") -> None:
    if source.file is not None:
        if (paths.project_root() / source.file).is_file():
            host.ok(f"source {source.name}: {source.file}")
        else:
            host.problem(
                f"source {source.name}: there is no file {source.file}", "give a path below the project's folder"
            )
        return
    variable = source.bearer_env or source.password_env
    if variable is not None:
        # Prometheus would refuse a query without credentials, and one with them needs a supervised command.
        if host.variable(variable, f"source {source.name}"):
            host.ok(f"source {source.name}: {variable} is set")
        return
    try:
        clock = host.agent_call("prometheus:clock", source.url or "")
    except BenchstudyError as error:
        host.problem(f"source {source.name}: {error}", "give the url as this host reaches it")
        return
    text = f"source {source.name}: Prometheus answers, its clock {clock['offset_s']:+.3f} s from {host.name}'s"
    if source.clock is None and abs(clock["offset_s"]) > MOST_OFFSET_S:
        host.problem(text, "synchronise it (chrony), or give the source `clock: prometheus` or `clock: utc`")
    else:
        host.ok(text)

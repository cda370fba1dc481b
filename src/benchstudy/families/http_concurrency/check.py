"""The checks of `benchstudy check`: the programs and variables that cases need."""

from benchstudy.families.http_concurrency.config import HttpConcurrencyConfig
from benchstudy.families.http_concurrency.family import FAMILY
from benchstudy.measuring.hostcheck import HostCheck


def check_host(config: HttpConcurrencyConfig, host: HostCheck) -> None:
    used = {config.generator(case.levels["generator"]).tool for case in FAMILY.cases(config)}
    if host.makes_load:
        for tool in sorted(used):
            host.program(tool, f"generator {tool}")
    secret_env = {v for server in config.servers for v in server.secret_env}
    secret_env |= {v for service in config.services.values() for v in service.secret_env.values()}
    for variable in sorted(secret_env):
        host.variable(variable)
    servers = [server for server in config.servers if config.services[server.service].role in host.roles]
    for server in servers:
        host.program(config.services[server.service].argv[0], f"server {server.name}")
    if servers:
        host.limits([limit.limits for limit in config.limits], "limits")

"""Checks of `benchstudy check`: the programs and variables that cases need."""

from benchstudy.families.log_write.config import LogWriteConfig
from benchstudy.families.log_write.family import FAMILY
from benchstudy.measuring.hostcheck import HostCheck


def check_host(config: LogWriteConfig, host: HostCheck) -> None:
    cases = FAMILY.cases(config)
    if host.makes_load:
        # logbench watches the checkpoints during a run of the hammer.
        for tool in sorted({"logbench", *(config.generator(case.levels["generator"]).tool for case in cases)}):
            host.program(tool, f"generator {tool}")
    if any(service.role in host.roles for service in config.services.values()):
        host.limits([limit.limits for limit in config.limits], "limits")
    for name in sorted({name for case in cases for name in case.definition["services"]}):
        service = config.services[name]
        for variable in sorted(service.secret_env.values()):
            host.variable(variable)
        if service.role in host.roles:
            for argv in (service.argv, *service.setup):
                host.program(argv[0], f"service {name}")

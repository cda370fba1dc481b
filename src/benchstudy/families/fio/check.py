"""The checks of `benchstudy check`: fio, bash, and directories that can be measured."""

from benchstudy.families.fio.config import FioConfig
from benchstudy.families.fio.place import unusable
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.model import hints


def check_host(config: FioConfig, host: HostCheck) -> None:
    """Report whether the tools are installed, and whether every directory can be measured."""
    if not (host.makes_load if config.clients else "sut" in host.roles):
        return
    if config.page_jobs or config.jobs:
        _check_tool(host, "fio")
    if "shell-loop" in config.small_files:
        _check_tool(host, "bash")
    needed = max([config.size.bytes, *(job.size.bytes for job in config.jobs if job.size)])
    for directory in config.directories:
        if directory.service is not None:
            continue  # it exists only during a session
        problem = unusable(directory, host.path_info(directory.path), needed)
        if problem:
            host.problem(f"directory {directory.name}: {problem}", "fix the host or the study")
        else:
            host.ok(f"directory {directory.name}: {directory.path} can be measured")


def _check_tool(host: HostCheck, tool: str) -> None:
    found = host.which(tool)
    if found:
        host.ok(f"{tool} is {found}")
    else:
        host.problem(f"{tool} is not installed", f"apt install {tool} (or dnf, apk), or {hints.snakemake('provision')}")

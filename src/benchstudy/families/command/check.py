"""The checks of `benchstudy check`: the programs of commands, and of their `prepare` and `cleanup` steps."""

from benchstudy.families.command.config import CommandConfig
from benchstudy.measuring.hostcheck import HostCheck


def check_host(config: CommandConfig, host: HostCheck) -> None:
    """Report whether every program is installed on the hosts that run it."""
    seen: set[str] = set()
    for command in config.commands:
        if command.role not in host.roles:
            continue
        for levels in command.cases():
            placed = command.placed(levels)
            programs = [["sh"] if placed.shell else placed.argv, *placed.prepare, *placed.cleanup]
            for program in dict.fromkeys(argv[0] for argv in programs):
                if program not in seen:
                    seen.add(program)
                    what = f"{command.name} runs {program}"
                    if "/" not in program or program.startswith(("/", "{{")):
                        host.program(program, what)
                    elif not placed.prepare:  # which may make it there
                        host.problem(
                            f"{what}: it starts in an empty folder",
                            "write an absolute path, or create it with `prepare`",
                        )

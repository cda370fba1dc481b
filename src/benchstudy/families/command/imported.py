"""Import of existing outputs: hyperfine's exports, and files in which the study's definitions find all metrics."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchstudy.families.command import hyperfine
from benchstudy.families.command.config import COMMAND, CommandConfig
from benchstudy.families.command.parse import finds
from benchstudy.families.shared.exact_levels import exact_level
from benchstudy.families.shared.files import text_of
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.family import UNKNOWN, Imported
from benchstudy.model.names import COLUMNS

OUTPUTS = "hyperfine's --export-json, and files with all metrics of a command of the study"
_LONGEST = 60  # characters of a level
_MEANS = "user and system time are hyperfine's means over its runs; wall time is the median of the runs"


def recognise(path: Path, config: CommandConfig | None = None) -> list[Imported]:
    """Recognise an export, with one trial per command, or a file with all metrics of a command as one trial."""
    text = text_of(path.read_bytes())
    results = hyperfine.results(text)
    if results is not None:
        lines = list(dict.fromkeys(_without(_parameters(result), str(result["command"])) for result in results))
        return [_of_hyperfine(number, result, _line(result, lines)) for number, result in enumerate(results)]
    matching = [command for command in config.commands if finds(command, text)] if config is not None else []
    if not matching:
        return []
    command = matching[0]
    several = [c.name for c in matching] if len(matching) > 1 else []
    notes = [f"the file has the metrics of {', '.join(several)}"] if several else []
    levels = {COMMAND: UNKNOWN if several else command.name, **dict.fromkeys(command.matrix, UNKNOWN)}
    return [Imported(levels, "output", UNKNOWN if several else Path(command.argv[0]).name, notes=notes)]


def _of_hyperfine(number: int, result: dict, line: str) -> Imported:
    hyperfine.check(result)
    parameters = _parameters(result)
    levels = {COMMAND: exact_level(line, _LONGEST)}
    levels |= {_factor(name): exact_level(value, _LONGEST) for name, value in parameters.items()}
    exits = [code for code in result.get("exit_codes") or [] if code]
    failed = f"{len(exits)} of its runs exited with status {exits[0]}" if exits else None
    return Imported(
        levels,
        hyperfine.FILE,
        "hyperfine",
        notes=(_MEANS,),
        files={hyperfine.PART: b'{"result": %d}' % number},
        command=str(result["command"]),
        options=parameters,
        cause=failed,
        failure=Failure(cause=Cause.EXITED, name="hyperfine", exit_status=exits[0], said=failed) if exits else None,
        own=json.dumps([result["command"], exits, times]) if (times := [*map(float, result["times"])]) else "",
    )


def _parameters(result: Mapping) -> dict[str, str]:
    return {name: str(value) for name, value in (result.get("parameters") or {}).items()}


def _line(result: Mapping, lines: Sequence[str]) -> str:
    """Return the command of a result as it was before parameters were filled in, one of `lines` of the whole export.

    A value may occur twice in one command (`head …; echo a`) and once in another (`head …; echo b`).
    """
    own, command = _parameters(result), str(result["command"])
    told = (line for line in lines if all(f"{{{name}}}" in line for name in own) and _filled(line, own) == command)
    return next(told, _without(own, command))


def _filled(line: str, parameters: Mapping[str, str]) -> str:
    for name, value in parameters.items():
        line = line.replace(f"{{{name}}}", value)
    return line


def _without(parameters: Mapping[str, str], command: str) -> str:
    """Return the name from --command-name, or the command line as it was before parameters were filled in.

    A value that occurs twice, or not at all, is not replaced, because its origin is unknown.
    """
    for name, value in parameters.items():
        if command.count(value) == 1:
            command = command.replace(value, f"{{{name}}}")
    return command


def _factor(name: str) -> str:
    """Return the name of a parameter as a factor, changed if it is the name of a table column."""
    factor = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower()).strip("_")
    taken = factor == COMMAND or factor in COLUMNS
    return f"parameter_{factor}" if taken or not factor[:1].isalpha() else factor

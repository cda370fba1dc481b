"""Any benchmark program, with its arguments, its factors, and metrics that are found in its output.

See docs/families/command.md.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchstudy.families.command.config import CommandConfig, CommandSpec
from benchstudy.families.command.metrics import METRICS
from benchstudy.model import services
from benchstudy.model.family import Case, Family, Imported, Loop, Parsed
from benchstudy.model.metrics import Metric
from benchstudy.model.units import Size

# The fields that decide how a trial is read, but not what is executed.
_READ = ("metrics", "series")
_NO_PART_OF_A_CASE = {"name", "matrix", "loop", *_READ}


class Command(Family[CommandConfig]):
    """The family command. An instance from `of` has the metrics and numeric factors that a study declares."""

    name = "command"
    title = "Commands"
    Config = CommandConfig
    metrics: Mapping[str, Metric] = METRICS  # type: ignore[misc]
    numeric_levels: Mapping[str, tuple[str, Any]] = {}  # type: ignore[misc]
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "runs": {"run": "Int64", "wall_s": "Float64", "user_s": "Float64", "system_s": "Float64"},
        "samples": {"series": "String", "run": "Int64", "x_s": "Float64", "value": "Float64", "unit": "String"},
    }

    def __init__(self, config: CommandConfig | None = None):
        self._config = config
        if config is not None:
            self.metrics = config.declared
            self.numeric_levels = _numeric(config)

    def of(self, config: CommandConfig) -> "Command":
        return Command(config)

    @property
    def reading(self) -> str:
        config = self._config
        if config is None:
            return ""
        said = [command.model_dump(mode="json", include={"name", *_READ}) for command in config.commands]
        return hashlib.sha256(json.dumps([said, config.primary]).encode()).hexdigest()

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        """The loop that the study declares for the command."""
        command = self._config.command(levels.get("command", "")) if self._config is not None else None
        return command.loop if command is not None else None

    def warmed_up(self, argv: str, files: Collection[str], phases: Collection[str]) -> bool:
        return any(f'"{kind}":' in argv for kind in ("runs", "seconds"))

    def declared_s(self, case: Case) -> None:
        """None, because the duration of a program is unknown."""

    def cases(self, config: CommandConfig) -> list[Case]:
        return [
            Case(levels, _definition(config, command.placed(levels)))
            for command in config.commands
            for levels in command.cases()
        ]

    def read(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        parsed: Parsed = self._part("parse").parse_trial(case_levels, files, self._config)
        return parsed

    def recognise(self, path: Path) -> list[Imported]:
        found: list[Imported] = self._part("imported").recognise(path, self._config)
        return found


def _definition(config: CommandConfig, command: CommandSpec) -> dict[str, Any]:
    """Return what is executed. Metrics are excluded, so that new ones can also be read from old output."""
    used = {command.system, *(owner for _, owner in command.owners() if owner != "system")} - {None}
    definition = command.model_dump(mode="json", exclude=_NO_PART_OF_A_CASE, exclude_defaults=True)
    held: dict[str, Any] = {}
    for name in sorted(filter(None, used)):
        held |= services.definition(config.services, name)
    return {**definition, **({"services": held} if held else {})}


def _numeric(config: CommandConfig) -> dict[str, tuple[str, Callable[[str], float]]]:
    """Return the factors whose levels are all plain numbers, or all sizes."""
    levels: dict[str, list[str]] = {}
    for command in config.commands:
        for factor, of_factor in command.matrix.items():
            levels.setdefault(factor, []).extend(of_factor)
    found: dict[str, tuple[str, Callable[[str], float]]] = {}
    for factor, texts in levels.items():
        for column, read in ((f"{factor}_number", float), (f"{factor}_bytes", _bytes)):
            if all(_reads(read, text) for text in texts):
                found[factor] = (column, read)
                break
    return found


def _bytes(text: str) -> float:
    return float(Size(text).bytes)


def _reads(read: Callable[[str], float], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


FAMILY = Command()

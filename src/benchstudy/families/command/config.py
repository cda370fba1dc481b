"""Configuration of the family command: argv, factors, steps before and after, and metrics to read from the output."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from benchstudy.families.command.metrics import METRICS
from benchstudy.families.command.sources import OwnMetric, OwnSeries, Regex
from benchstudy.model.family import FamilyConfig, TakesSystem
from benchstudy.model.metrics import METRIC, Metric
from benchstudy.model.names import COLUMNS, FACTOR, EachOnce, Name, check_name, require_each_once, require_known
from benchstudy.model.programs import Argv, Environment, Words, require_program
from benchstudy.model.references import unfilled
from benchstudy.model.services import PLACEHOLDER, check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import CountOrDurationField, Size, SizeField

# Names that are taken by columns of tables or by placeholders.
_TAKEN = {*COLUMNS, "command", "run", "series", "x_s", "system", "tools"}
COMMAND = "command"  # the factor whose levels are the commands' names
_MOST_CASES = 10_000  # per command: with more, a slip is likelier than a plan of so many trials per block


def _texts(value: Any) -> Any:
    """Convert levels to a mapping from names to texts. In a list, each level is its own name."""
    if isinstance(value, list):
        require_each_once(levels=map(_text, value))
        value = {text: text for text in map(_text, value)}
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r}: write a list of levels, such as [1, 9]")
    return {_text(name): _text(level) for name, level in value.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a level: write a text or a number; quote what YAML reads as true: "on"')
    return str(value)


_Level = str | int | float
Levels = Annotated[dict[str, str], BeforeValidator(_texts, json_schema_input_type=dict[str, _Level] | list[_Level])]
Steps = list[Argv]


class Expect(Strict):
    """The expected result of a run. A run with another result fails the trial."""

    exit: list[Annotated[int, Field(ge=0, le=255)]] = Field(
        [0], min_length=1, description="exit status of a successful run, or a list of them"
    )
    stdout: Regex | None = Field(None, description="regular expression that must match in its output")

    @field_validator("exit", mode="before", json_schema_input_type=int | list[int])
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]


class CommandSpec(Strict):
    """One program with its arguments. Texts may contain `{{FACTOR}}` of its matrix, and placeholders of its system."""

    name: Name = Field(description="a level of the factor `command`")
    argv: Words = Field(description="program and arguments, without a shell")
    shell: bool = Field(
        False, description="true: `argv` is one text for `sh -c`, and the start-up cost is that of the shell"
    )
    matrix: dict[str, Levels] = Field(
        {},
        description="factors with their levels, as a list or a mapping from names to texts; each combination is a case",
        json_schema_extra={"propertyNames": {"pattern": rf"^{FACTOR.pattern}$"}},
    )
    system: str | None = Field(
        None, description="the measured service; its placeholders are `{{system.dir}}`, `{{system.port.NAME}}` …"
    )
    system_for: Literal["session", "trial"] = Field("session", description="how long the service runs")
    role: Name = Field("sut", description="role of the host on which the command runs")
    env: Environment = Field({}, description="environment variables")
    stdin: str = Field("", description="text for its standard input; the default is none")
    prepare: Steps = Field([], description="commands before each run, not timed")
    cleanup: Steps = Field([], description="commands after the last run, even after a failure")
    warm_up: CountOrDurationField | None = Field(
        None, description="runs that do not count: their number (`3`), or a time for whole runs (`5s`)"
    )
    repeat: int = Field(1, ge=1, le=1000, description="number of runs per trial; the value of a trial is their median")
    discard_stdout: bool = Field(False, description="true: its standard output goes to /dev/null")
    max_output: SizeField = Field(Size("16MiB"), description="maximum size of each output and file that is kept")
    loop: Literal["open", "closed"] | None = Field(None, description="for load generators: the kind of loop")
    metrics: dict[str, OwnMetric] = Field(
        {},
        description="metrics by name, in addition to those of every command",
        json_schema_extra={"propertyNames": {"pattern": rf"^{METRIC.pattern}$"}},
    )
    series: dict[Name, OwnSeries] = Field({}, description="series over time, by name")
    expect: Expect = Expect()

    @field_validator("matrix")
    @classmethod
    def _factors(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for factor, levels in value.items():
            if not FACTOR.fullmatch(factor) or factor in _TAKEN:
                raise ValueError(f"{factor!r} cannot be a factor: use lowercase letters, digits and _, or another word")
            if not levels:
                raise ValueError(f"{factor}: give at least one level")
            for level, text in levels.items():
                if other := next((given for given in PLACEHOLDER.findall(text) if given in value), None):
                    raise ValueError(
                        f"{factor}: {text!r}: a level cannot contain the factor {{{{{other}}}}}: write its text"
                    )
                try:
                    check_name(level)
                except ValueError as error:
                    raise ValueError(f"{factor}: {error}, or name the level: {{name: {text!r}}}") from error
        if (cases := math.prod(map(len, value.values()))) > _MOST_CASES:
            raise ValueError(f"its levels combine to {cases:,} cases: give at most {_MOST_CASES:,} per command")
        return value

    @field_validator("metrics")
    @classmethod
    def _own_names(cls, value: dict[str, OwnMetric]) -> dict[str, OwnMetric]:
        for name in value:
            if not METRIC.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a metric: use lowercase letters, digits, _ and .")
            if name in METRICS or name == "trial":
                raise ValueError(f"{name!r} is a metric of every command: use another name")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "CommandSpec":
        if self.shell and len(self.argv) != 1:
            raise ValueError("argv: with shell: true, give exactly one text")
        if self.discard_stdout and (self.expect.stdout is not None or any(map(_reads_stdout, self._read))):
            raise ValueError("discard_stdout: a metric, series or `expect` reads stdout: leave out one of the two")
        if not self.shell:
            try:
                require_program(self.argv)
            except ValueError as error:
                raise ValueError(f"argv: {error}") from error
        for where, text in self._placed():
            for given in PLACEHOLDER.findall(text):
                if "." not in given and given != "tools":
                    require_known(given, self.matrix, f"{where}: {{{{{given}}}}} is not a factor of the matrix")
                if given.startswith("system.") and self.system is None:
                    raise ValueError(f"{where}: {{{{{given}}}}}: give the `system` of the command")
        used = {given for _, text in self._placed() for given in PLACEHOLDER.findall(text)}
        for factor in self.matrix:
            if factor not in used:
                raise ValueError(f"matrix.{factor}: no text uses {{{{{factor}}}}}, so its cases would be the same")
        return self

    @property
    def _read(self) -> Iterable[OwnMetric | OwnSeries]:
        return (*self.metrics.values(), *self.series.values())

    def _placed(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain placeholders, with its field."""
        yield from (("argv", text) for text in self.argv)
        yield from (("env", text) for text in self.env.values())
        yield from (("prepare", text) for step in self.prepare for text in step)
        yield from (("cleanup", text) for step in self.cleanup for text in step)
        yield from (("stdin", self.stdin), ("system", self.system or ""))
        for name, metric in self.metrics.items():
            yield from ((f"metrics.{name}", text) for text in (metric.file or "", metric.size_of or ""))
        yield from ((f"series.{name}", series.file or "") for name, series in self.series.items())

    def owners(self) -> Iterator[tuple[str, str]]:
        """The services in its placeholders, with the field. `system` stands for the service in that field."""
        for where, text in self._placed():
            yield from ((where, given.partition(".")[0]) for given in PLACEHOLDER.findall(text) if "." in given)

    def owned(self) -> Iterator[tuple[str, str, str]]:
        """Placeholders of services: the field, the service, and which of its values."""
        for where, text in self._placed():
            for owner, dot, value in (given.partition(".") for given in PLACEHOLDER.findall(text)):
                if dot:
                    yield where, (self.system or "") if owner == "system" else owner, value

    def cases(self) -> Iterator[dict[str, str]]:
        """The levels of each of its cases: its name, then the levels of the matrix in the order of the study."""
        for levels in itertools.product(*self.matrix.values()):
            yield {COMMAND: self.name, **dict(zip(self.matrix, levels, strict=True))}

    def placed(self, levels: Mapping[str, str]) -> "CommandSpec":
        """Return the command with the factors replaced by the levels of a case."""
        texts = {factor: self.matrix[factor][level] for factor, level in levels.items() if factor in self.matrix}
        said = {name: value for name, value in self.model_dump().items() if name != "matrix"}
        return self.model_validate(with_placeholders(said, texts)) if texts else self


def with_placeholders(value: Any, texts: Mapping[str, str]) -> Any:
    """Return plain data with each `{{NAME}}` in `texts` replaced. Other placeholders stay."""
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda match: texts.get(match[1], match[0]), value)
    if isinstance(value, Mapping):
        return {name: with_placeholders(part, texts) for name, part in value.items()}
    return [with_placeholders(part, texts) for part in value] if isinstance(value, list) else value


def _reads_stdout(source: OwnMetric | OwnSeries) -> bool:
    return source.stream == "stdout" and source.file is None and getattr(source, "size_of", None) is None


class CommandConfig(FamilyConfig):
    needed: ClassVar[tuple[str, ...]] = ("commands",)
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"commands": TakesSystem("system", levels="matrix")}

    commands: list[CommandSpec] = Field([], min_length=1, description="the commands to run")
    primary: EachOnce[str] = Field(
        [], description="primary metrics; the default is each of `metrics` with a `better`, else `wall_time`"
    )
    packages: EachOnce[str] = Field(
        [], description="packages, by Debian's names, that provisioning installs on hosts that run the commands"
    )

    @model_validator(mode="after")
    def _agree(self) -> "CommandConfig":
        self.names_each_once("commands")
        known = self.declared
        for command in self.commands:
            for where, owner in command.owners():
                if owner != "system":
                    check_service(f"commands.{command.name}.{where}", owner, self.services)
            for levels in command.cases():
                name = command.placed(levels).system
                if name is not None:
                    check_service(f"commands.{command.name}.system", name, self.services)
        for name in self.primary:
            require_known(name, known, f"primary: {name!r} is not a metric")
            if known[name].better is None:
                raise ValueError(f"primary: {name}: give the direction that is `better`")
        return self

    def unfit(self) -> Iterator[str]:
        """Yield commands that would be ended while they warm up, or with placeholders that nothing fills in."""
        warm_ups = {command.name: command.warm_up for command in self.commands}
        times = {f"command {name}, whose warm_up takes": t for name, t in warm_ups.items() if isinstance(t, float)}
        yield from self.outlasted(times)
        found = (
            line
            for command in self.commands
            for placed in map(command.placed, command.cases())
            for where, owner, value in placed.owned()
            for line in unfilled(f"commands.{command.name}.{where}", [f"{{{{{value}}}}}"], owner, self.services)
        )
        yield from dict.fromkeys(found)

    @property
    def own_roles(self) -> Mapping[str, str]:
        return {f"commands.{command.name}": command.role for command in self.commands}

    def command(self, name: str) -> CommandSpec | None:
        return next((command for command in self.commands if command.name == name), None)

    @property
    def declared(self) -> dict[str, Metric]:
        """Every metric of its commands, by name. Raises ValueError if two commands declare one differently."""
        own: dict[str, Metric] = {}
        for command in self.commands:
            for name, metric in command.metrics.items():
                title = metric.title or name.replace("_", " ").capitalize()
                found = Metric(
                    name,
                    metric.base[1],
                    title,
                    metric.better,
                    "found in the output of the command",
                    signed=metric.signed,
                )
                if own.setdefault(name, found) != found:
                    raise ValueError(
                        f"commands.{command.name}.metrics.{name}: another command declares it with a different unit, "
                        "title, better or signed: use another name"
                    )
        chosen = self.primary or [name for name, metric in own.items() if metric.better] or ["wall_time"]
        return {name: replace(metric, primary=name in chosen) for name, metric in {**METRICS, **own}.items()}

"""What a family of benchmarks is: a package that the `registry` discovers, with one module for each of its parts.

family.py    `FAMILY`, an instance of a `Family`: name, cases, metrics; imports neither a host nor a report
metrics.py   `METRICS`: what a trial gives, each with unit, title and direction
config.py    what a study may say about it
run.py       `run_trial(case, trial)`: execute a case once
parse.py     `parse_trial(levels, files)`: pure, the files of a trial to observations; optionally `note_trial(files)`:
             what the trial's record says about them
check.py     `check_host(config, host)`, if `benchstudy check` has something to check
imported.py  `recognise(path)`, if existing outputs of its tools can be imported: one or several `Imported`, or none;
             `OUTPUTS` names them
lints.py     rules of its own, if any
commands.py  `add_commands(subparsers)`, if it adds commands to `benchstudy`
page/        tables and figures of its own; published.py in it: what others published of this kind; wording.py: the
             words of its comparisons
on_host/     what runs on hosts, beside the agent
notebook.ipynb  its page, if the project has no notebooks/<family>.ipynb
"""

import hashlib
import importlib.util
import inspect
import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.abc import InspectLoader
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import TypeVar

from benchstudy.model.causes import Failure
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.errors import BrokenPart, as_line, plain_line
from benchstudy.model.metrics import Metric, measured_for, misdeclared
from benchstudy.model.names import COLUMNS, TABLES, TRIAL_COLUMNS, Name, nearest, require_each_once
from benchstudy.model.parsing import COLUMN_TYPES, check_figure, check_table, damaged
from benchstudy.model.parsing import ParseError as ParseError
from benchstudy.model.services import Service
from benchstudy.model.stopping import BlocksField, PrecisionField
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, TimeoutField

_LONGEST_ID = 255  # characters: no file system has longer names
_LEVEL = re.compile(r"[A-Za-z0-9._+-]{1,128}")  # of an imported run; becomes part of the name of its case's folder
Loop = Literal["open", "closed", "noted"]  # "noted": each trial says it, as `loop` in its notes
# Names of phases before the measured ones.
_BEFORE = frozenset({"warm-up", "ramp", "search"})


def _each_once(value: list[str]) -> list[str]:
    require_each_once(targets=value)
    return value


Targets = Annotated[
    list[Name], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_each_once)
]


@dataclass(frozen=True)
class TakesSystem:
    """How entries in a list of a family's block name the service that replaces a system of the catalogue.

    `field`: the key that holds the service's name; None if the system says everything. `levels`: the key with factors,
    one of which a parameter with several values becomes; without it each value becomes an entry.
    """

    field: str | None = "service"
    levels: str | None = None


class FamilyConfig(Strict):
    """What every family's block in a study may say. Values are read strictly: declare what YAML gives, a `list` rather
    than a `tuple`, and a `Literal` rather than an `Enum`.

    A family that loads servers also has a list `generators`, whose entries name their program as `tool`: provisioning
    installs it on the host that makes the load.
    """

    targets: Targets | None = Field(None, description="targets to measure; the default is all of the study's")
    blocks: BlocksField | None = Field(None, description="overrides the study's number of blocks")
    until: PrecisionField | None = Field(None, description="overrides the study's precision")
    blocks_apart: DurationField | None = Field(None, description="overrides the study's value")
    disturbance: DisturbancePolicy | None = Field(None, description="overrides the study's value")
    give_up_after: int | None = Field(None, ge=2, description="overrides the study's value")
    timeout: TimeoutField = Field(600.0, description="a trial that takes longer is ended, with the status `timeout`")
    services: dict[Name, Service] = Field({}, description="servers and mounts that are up during the session")

    # For a family whose results may also be imported: lists without which nothing can be measured.
    needed: ClassVar[tuple[str, ...]] = ()
    # Its lists (and single entries) in which `system: NAME` and `with: {…}` are allowed.
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {}

    @property
    def import_only(self) -> bool:
        """Whether the block is empty, as in `name: {}`: nothing is measured, and imported outputs are reported."""
        return bool(self.needed) and self.model_fields_set <= {"targets"}

    @model_validator(mode="after")
    def _something_to_measure(self) -> "FamilyConfig":
        for name in () if self.import_only else self.needed:
            if not getattr(self, name):
                raise ValueError(f"{name}: give at least one; an empty block, {{}}, is only for imported outputs")
        return self

    @property
    def own_roles(self) -> Mapping[str, str]:
        """The role that each of its entries runs on, by field, such as `commands.sort`. Services name theirs."""
        return {}

    @property
    def secret_variables(self) -> dict[str, str]:
        """The controller's environment variables with its secrets, by the field that names each."""
        return {
            f"services.{name}.secret_env.{secret}": variable
            for name, service in self.services.items()
            for secret, variable in service.secret_env.items()
        }

    def names_each_once(self, *fields: str) -> dict[str, list[str]]:
        """The names of the entries of these lists, by field. Raises ValueError if a list has a name twice."""
        names = {field: [entry.name for entry in getattr(self, field)] for field in fields}
        require_each_once(**names)
        return names

    def unfit(self) -> Iterable[str]:
        """Why this must not be measured, with the field and the fix. Existing trials are still read."""
        return ()

    def outlasted(self, takes_s: Mapping[str, float]) -> Iterator[str]:
        """For `unfit`: the timeout ends each trial before this is done. Keys are sentences up to the time."""
        for what, seconds in takes_s.items():
            if seconds >= self.timeout:
                yield f"timeout: {self.timeout:g} s is too short for {what} {seconds:g} s: raise timeout"


@dataclass(frozen=True)
class Case:
    """One combination of levels. `definition` is everything that decides what is executed, beyond the levels.

    Parts that come from a model are dumped without their defaults, so that a key added by a later version does not make
    the trials of an earlier version look like another case.
    `by_block`: what is executed in the first block, the second, … if that differs; see `in_block`.
    `most_blocks`: it is measured only in this many first blocks.
    """

    levels: Mapping[str, str]
    definition: Mapping[str, Any] = field(default_factory=dict)
    by_block: Sequence[Mapping[str, Any]] = ()
    most_blocks: int | None = None

    @property
    def id(self) -> str:
        """Readable and safe as a folder name: `backend=s3,op=write,size=100MB`. A long one ends in a digest."""
        whole = self.spelled
        if len(whole) <= _LONGEST_ID:
            return whole
        digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
        return f"{whole[: _LONGEST_ID - 17]}-{digest}"

    @property
    def spelled(self) -> str:
        """Like `id`, however long it is."""
        return ",".join(f"{factor}={level}" for factor, level in self.levels.items())

    def misdescribed(self) -> Iterator[str]:
        """Why tables or folders cannot hold its levels, with the fix."""
        for factor, level in self.levels.items():
            if factor in COLUMNS:
                yield f"{factor!r} cannot be a factor, because every table has a column of this name: use another name"
            if not isinstance(level, str) or "/" in level or not level.isprintable():
                yield f"{factor}: {level!r} cannot be a level: give printable text without a slash"

    @cached_property
    def definition_sha256(self) -> str:
        """SHA-256 of everything that decides what the case means: levels, definition, and what blocks change of it."""
        content: dict[str, Any] = {"levels": dict(self.levels), "definition": self.definition}
        further = {"by_block": self.by_block, "most_blocks": self.most_blocks}
        content |= {name: value for name, value in further.items() if value}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def is_in(self, block: int) -> bool:
        """Whether the case is measured in a block, counted from 1."""
        return self.most_blocks is None or block <= self.most_blocks

    def in_block(self, block: int) -> "Case":
        """The case as it is executed in a block, counted from 1. Without one for this block it is as in all others."""
        if not self.by_block and self.most_blocks is None:  # the same object, so that its digest is computed once
            return self
        own = self.by_block[block - 1] if block <= len(self.by_block) else {}
        return Case(self.levels, {**self.definition, **own})


@dataclass(frozen=True)
class Observation:
    """One metric value of one trial, in a base unit (`s`, `B`, `B/s`, `1/s`, `1` for a ratio or count)."""

    metric: str
    value: float | None
    unit: str


@dataclass(frozen=True)
class Parsed:
    """The content of one trial's raw files.

    `series`: long tables by name, each a list of flat rows (one dict per row, with the same keys), for more than one
    value per trial: operations, histograms, samples. tidy adds the trial's columns.
    """

    observations: Sequence[Observation]
    series: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


# With defaults, as Python 3.13 has them: plain `Family` is one of any FamilyConfig.
ConfigT = TypeVar("ConfigT", bound=FamilyConfig, default=FamilyConfig)
ConfigT_co = TypeVar("ConfigT_co", bound=FamilyConfig, default=FamilyConfig, covariant=True)


class Family(ABC, Generic[ConfigT]):
    """One kind of benchmark, configured by a `ConfigT`. Stateless: everything it needs is an argument."""

    name: ClassVar[str]
    title: ClassVar[str]
    Config: type[ConfigT] = FamilyConfig  # type: ignore[assignment]  # for a family without its own
    # Its own factors, if imported cases may have more: pages show those behind the level of the last one.
    factors: ClassVar[tuple[str, ...]] = ()
    # Columns of the case table that are numbers a chart can use, by factor: {"size": ("size_bytes", parse)}
    numeric_levels: ClassVar[Mapping[str, tuple[str, Callable[[str], float | None]]]] = {}
    # The long tables that `parse` gives and their columns, as names of polars types, so that measuring need not import
    # polars: {"operations": {"total_s": "Float64", "index": "Int64"}}
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    # Columns of these tables that may be negative: times before the window are negative.
    signed_columns: ClassVar[Collection[str]] = ("t_s", "start_s", "end_s")
    # Everything that `parse` gives: unit, title and direction of each, and which ones its cases are measured for.
    metrics: ClassVar[Mapping[str, Metric]] = {}
    # The role on whose host its commands run, whatever its services; None if services decide it.
    runs_on: ClassVar[str | None] = None
    # What its services may refer to besides what they need: `server` of `{{server.bind}}`, the trial's own.
    trial_names: ClassVar[tuple[str, ...]] = ()

    # What its levels claim, for checks that all families share: the factor whose levels "cold", "warm" and "direct"
    # claim a state of the page cache, and the factor that says what a write waits for: for nothing at "none".
    cache_factor: ClassVar[str | None] = None
    sync_factor: ClassVar[str | None] = None

    # How `order` sorts the cases of a block, in the words of pages.
    ordering: ClassVar[str] = "in random order within a block"

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        """How a case generates load; None without a generator. What a trial notes has priority."""
        return None

    def warmed_up(self, argv: str, files: Collection[str], phases: Collection[str]) -> bool:
        """Whether there was load before the measured part of a trial. `argv`: its commands; `phases`: of its series."""
        return any(map(self.is_before, phases))

    @staticmethod
    def is_before(phase: str) -> bool:
        """Whether a phase of this name comes before the measured part."""
        return phase in _BEFORE

    def of(self, config: ConfigT) -> "Family[ConfigT]":
        """The family as one study has it: another instance if the study declares its own metrics."""
        return self

    def misdeclared(self) -> Iterator[str]:
        """Why what it declares cannot be used, with the fix."""
        for name in ("name", "title"):
            if not (isinstance(said := getattr(self, name, None), str) and said.strip()):
                yield f"{name} is missing: give a text"
        if not (isinstance(self.Config, type) and issubclass(self.Config, FamilyConfig)):
            yield f"Config is {self.Config!r}: derive a class from FamilyConfig"
        for name in ("metrics", "series_schemas", "numeric_levels"):
            if not isinstance(getattr(self, name), Mapping):
                yield f"{name} is a {type(getattr(self, name)).__name__}: give a mapping by name"
        yield from misdeclared(self.metrics)
        for name, columns in self.series_schemas.items():
            if name in TABLES:
                yield f"series_schemas: every family has a table {name!r}: use another name"
            for column, kind in columns.items():
                if column in TRIAL_COLUMNS:
                    yield f"series_schemas.{name}: every table gets the column {column!r}: leave it out"
                if kind not in COLUMN_TYPES:
                    yield f"series_schemas.{name}.{column}: {kind!r} is not a type: {nearest(kind, COLUMN_TYPES)}"
        yield from self._lacks("parse", "parse_trial", type(self).read is Family.read)

    def unfit(self) -> Iterator[str]:
        """What its package lacks for measuring, with the fix."""
        yield from self._lacks("run", "run_trial", type(self).run is Family.run)

    def _lacks(self, module: str, function: str, is_needed: bool) -> Iterator[str]:
        """Whether the module has the function is read from its compiled code, because running it would take longer."""
        if not is_needed:
            return
        name = f"{self._package}.{module}"
        try:
            if not self._has(module):
                yield f"there is no module {name}: write it, with `{function}`, or install the whole package"
            elif not _may_define(name, function):
                yield f"{name} has no `{function}`: write it, or install the whole package"
        except SyntaxError as error:
            yield f"{name}: {plain_line(f'SyntaxError: {error}')}; correct it, or install the whole package again"

    @property
    def reading(self) -> str:
        """A digest of what a study says about reading trials: a change rebuilds tables and measures nothing."""
        return ""

    @abstractmethod
    def cases(self, config: ConfigT) -> list[Case]:
        """All cases of `config` in a deterministic order, with unique ids."""

    def numbers(self, levels: Mapping[str, str]) -> dict[str, float | None]:
        """The columns of `numeric_levels` for a case; None for a level that an imported output does not give."""
        return {
            column: None if levels[factor] == UNKNOWN else parse(levels[factor])
            for factor, (column, parse) in self.numeric_levels.items()
            if factor in levels
        }

    def order(self, cases: Sequence[Case], block: int, rng: random.Random) -> list[Case]:
        """All `cases` in the order in which a block measures them: at random, unless a family knows better.

        `rng` is the block's own, from the study's seed. Neither may depend on how many blocks there are.
        """
        ordered = list(cases)
        rng.shuffle(ordered)
        return ordered

    def declared_s(self, case: Case) -> float | None:
        """Roughly how many seconds a trial takes, from the times that the study declares; None if it declares none."""
        times = list(_declared_times(case.definition))
        return sum(times) if times else None

    def run(self, case: Case, trial: Any) -> None:
        """Execute the case once; `trial`: a measuring.trial.TrialContext. Raises TrialFailed with a cause in words."""
        self._part("run").run_trial(case, trial)

    def parse(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        """Pure: the files of one successful trial in, observations out.

        Raises ParseError, also for an observation that `metrics` does not declare in this unit, and for an impossible
        figure. Whatever a file contains, no other exception is raised.
        """
        with damaged(f"{self.name} cannot read the files of this trial", self.folder):
            parsed, given = self.read(case_levels, files), set[str]()
            for seen in parsed.observations:
                if seen.metric not in self.metrics or self.metrics[seen.metric].unit != seen.unit:
                    raise ParseError(f"{self.name} declares no metric {seen.metric!r} in {seen.unit!r} (`metrics`)")
                if seen.metric in given:
                    raise ParseError(f"{self.name} gives {seen.metric} twice for one trial")
                given.add(seen.metric)
                check_figure(self.metrics[seen.metric], seen.value)
            if not given:
                raise ParseError(f"{self.name} finds no figure in the files of this trial")
            for name, rows in parsed.series.items():
                if name not in self.series_schemas:
                    raise ParseError(f"{self.name} declares no series {name!r} (`series_schemas`)")
                check_table(name, self.series_schemas[name], rows, self.signed_columns)
        return parsed

    def read(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        """What the family's parser makes of the files, before it is checked against the declarations."""
        parsed: Parsed = self._part("parse").parse_trial(case_levels, files)
        return parsed

    def measured_for(self, given: Container[str]) -> list[str]:
        """See model.metrics.measured_for."""
        return measured_for(self.metrics, given)

    def notes(self, files: Path) -> Mapping[str, Any]:
        """What a reader must know about a trial that has just run, read from its files and kept in its record.

        Raises ParseError. Part of the parser, so that `run` need not read results.
        """
        note_trial = getattr(self._part("parse"), "note_trial", None) if self._has("parse") else None
        with damaged(f"{self.name} cannot read the files of this trial", self.folder):
            return note_trial(files) if note_trial else {}

    def check(self, config: ConfigT, host: Any) -> None:
        """Look, without measuring, whether the host has what the cases need.

        `host`: a measuring.hostcheck.HostCheck, whose `ok` and `problem` take the findings.
        """
        if self._has("check"):
            self._part("check").check_host(config, host)

    def parse_import(self, path: Path) -> "list[Imported]":
        """The trials that `benchstudy import` makes of one existing output file; [] if it is not of this family.

        Raises ParseError for a damaged file.
        """
        with damaged(f"{self.name} cannot read this output", self.folder):
            found = self.recognise(path)
            runs = [found] if isinstance(found, Imported) else list(found or ())
            for run in runs:
                run.check()
                self.numbers(run.levels)
        return runs

    def recognise(self, path: Path) -> "Imported | list[Imported] | None":
        """What the family's `imported` module makes of the file, before it is checked."""
        if not self._has("imported"):
            return None
        found: Imported | list[Imported] | None = self._part("imported").recognise(path)
        return found

    @property
    def imports(self) -> bool:
        """Whether a study may have cases of it that only imported outputs give."""
        return self._has("imported")

    @property
    def outputs(self) -> str:
        """The existing outputs that `benchstudy import` takes for it, in words; "" if it takes none."""
        return str(getattr(self._part("imported"), "OUTPUTS", "outputs of its tools")) if self._has("imported") else ""

    def libraries(self) -> Mapping[str, Callable[[], Mapping[str, Path]]]:
        """Libraries for hosts besides the agent (`trial.library(name)`): by name, a function that finds their files by
        path when they are needed. It may raise BenchstudyError.
        """
        return {}

    @property
    def extensions(self) -> tuple[Path, ...]:
        """Folders of modules that run on hosts beside the agent, as `module:function`."""
        folder = self.folder / "on_host"
        return (folder,) if folder.is_dir() else ()

    # Only sessions need code that talks to hosts, and only reports code that draws: parts are imported when needed.

    def _part(self, name: str) -> Any:
        """Raises BrokenPart."""
        module = f"{self._package}.{name}"
        try:
            return importlib.import_module(module)
        except Exception as error:
            said = as_line(error, self.folder)
            raise BrokenPart(f"{module}: {said}; correct it, or install the whole package again") from error

    def _has(self, name: str) -> bool:
        return bool(self._package) and importlib.util.find_spec(f"{self._package}.{name}") is not None

    @property
    def folder(self) -> Path:
        """The folder of its package, which has its parts."""
        return Path(inspect.getfile(type(self))).parent

    @property
    def _package(self) -> str:
        return type(self).__module__.rpartition(".")[0]


def _may_define(module: str, name: str) -> bool:
    """Whether running a module may give it this name. Raises SyntaxError."""
    spec = importlib.util.find_spec(module)
    code = spec.loader.get_code(module) if spec and isinstance(spec.loader, InspectLoader) else None
    return code is None or bool({name, "__getattr__"} & {*code.co_names}) or ("*",) in code.co_consts


# Keys in definitions for the duration of a trial's phases, in seconds.
_TIMES = ("warm_up", "ramp", "duration", "runtime", "at_most")


def _declared_times(definition: Any) -> Iterator[float]:
    for name, value in definition.items() if isinstance(definition, Mapping) else ():
        if name in _TIMES and isinstance(value, float):  # a whole number counts requests or runs
            yield value
        elif name != "services":
            yield from _declared_times(value)


# The level of a factor that an imported output does not give: not "no" or "none", and different from any other.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Imported:
    """A recognised existing output: one trial.

    `levels`: of its case, from what the output itself says, or UNKNOWN. All that decides what is measured must be in
    a level, so that different runs never become one case. `file_name`: the file's name in the trial. `files`: what
    the trial holds instead of the whole file, if the file has several trials, each verbatim, and notes on them.
    `started`, `finished`: in UTC, from the output; `clock`: a time in it without a zone.
    `cause`, `failure`: of a failed run, in words and as a value. `own`: what only this run printed, without what may
    surround it in a file: two outputs with the same are one run. Empty: the whole text. `outputs`: the names in a
    trial of all kinds of files in which the tool tells of one run, if there are several with the same `own`.
    """

    levels: Mapping[str, str]
    file_name: str
    tool: str
    tool_version: str | None = None
    notes: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    command: str | None = None
    started: str | None = None
    finished: str | None = None
    clock: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cause: str | None = None
    failure: Failure | None = None
    own: str = ""
    outputs: Collection[str] = ()

    def check(self) -> None:
        """Raises ValueError for levels that cannot name a folder, and for data that no record can hold."""
        for name, level in self.levels.items():
            if not _LEVEL.fullmatch(level):
                raise ValueError(f"{name}: {level!r} is not a level")
        for moment in (self.started, self.finished):
            datetime.fromisoformat(moment or "1970-01-01")
        json.dumps([self.tool_version, *self.notes, self.command, self.clock, self.options, self.cause],
                   ensure_ascii=False, allow_nan=False).encode()  # fmt: skip

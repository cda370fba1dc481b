"""What a family of benchmarks is. Adding one touches: a module here, envs/<family>.py, a notebook, tests, config."""

import hashlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from benchstudy.names import Name
from benchstudy.services import Service
from benchstudy.stopping import BlocksField, PrecisionField
from benchstudy.units import DurationField

if TYPE_CHECKING:
    from benchstudy.hostcheck import HostCheck
    from benchstudy.trial import TrialContext


class Strict(BaseModel):
    """Every part of a study refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FamilyConfig(Strict):
    """What every family's block in a study may say."""

    targets: list[Name] | None = Field(None, description="targets to measure; all of the study's when left out")
    blocks: BlocksField | None = Field(None, description="overrides the study's number of blocks")
    until: PrecisionField | None = Field(None, description="overrides the study's precision")
    timeout: DurationField = Field(600.0, description="after this a trial is ended and counted as 'timeout'")
    services: dict[Name, Service] = Field({}, description="servers and mounts that are up during the session")


@dataclass(frozen=True)
class Case:
    """One combination of levels. `definition` is everything that decides what is executed, beyond the levels.

    Parts that come from a model are dumped without their defaults, so that a key which a later version adds does not
    make the trials of an earlier one look like another case.
    `by_block`: what is executed in the first block, the second, … when that differs; see `in_block`.
    `most_blocks`: it is measured in the first so many blocks only.
    """

    levels: Mapping[str, str]
    definition: Mapping[str, Any] = field(default_factory=dict)
    by_block: Sequence[Mapping[str, Any]] = ()
    most_blocks: int | None = None

    @property
    def id(self) -> str:
        """Readable and safe as a folder name: `backend=s3,op=write,size=100MB`."""
        return ",".join(f"{factor}={level}" for factor, level in self.levels.items())

    @property
    def definition_sha256(self) -> str:
        content: dict[str, Any] = {"levels": dict(self.levels), "definition": self.definition}
        further = {"by_block": self.by_block, "most_blocks": self.most_blocks}
        content |= {name: value for name, value in further.items() if value}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def is_in(self, block: int) -> bool:
        return self.most_blocks is None or block <= self.most_blocks

    def in_block(self, block: int) -> "Case":
        """The case as it is executed in a block, counted from 1. One that lists no such block is as in every other."""
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
    """What one trial's raw files say.

    `series`: long tables by name, each a list of flat rows (one dict a row, the same keys in each), for what is
    more than one value a trial: operations, histograms, samples. tidy adds the trial's columns.
    """

    observations: Sequence[Observation]
    series: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


class ParseError(ValueError):
    """Raw output that cannot be what the tool writes when all is well: truncated, empty, inconsistent."""


class Family(ABC):
    """One kind of benchmark. Stateless: everything it needs comes in as an argument."""

    name: ClassVar[str]
    title: ClassVar[str]
    Config: ClassVar[type[FamilyConfig]]
    Config = FamilyConfig
    # Columns of the case table that are numbers a chart can use, by factor: {"size": ("size_bytes", parse)}
    numeric_levels: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    # The long tables that `parse` gives and their columns, as names of polars types, so that measuring need not import
    # polars: {"operations": {"total_s": "Float64", "index": "Int64"}}
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    # What its cases are measured for: adaptive stopping wants all of these precise that a case gives, and two studies
    # are compared by them. Left empty, or of a case that gives none of them: its first time or rate.
    primary_metrics: ClassVar[tuple[str, ...]] = ()
    # The role whose host its commands run on, whatever services there are; None where services say it.
    runs_on: ClassVar[str | None] = None
    # What its services may speak of besides what they need: `server` of `{{server.bind}}`, the trial's own.
    trial_names: ClassVar[tuple[str, ...]] = ()

    # How `order` puts the cases of a block, as pages say it.
    ordering: ClassVar[str] = "in random order within a block"

    @abstractmethod
    def cases(self, config: FamilyConfig) -> list[Case]:
        """All cases, in a deterministic order, each id once."""

    def order(self, cases: Sequence[Case], block: int, rng: random.Random) -> list[Case]:
        """All `cases` in the order in which a block measures them: at random, unless a family knows better.

        `rng` is the block's own, from the study's seed. Neither may depend on how many blocks there are.
        """
        ordered = list(cases)
        rng.shuffle(ordered)
        return ordered

    @abstractmethod
    def run(self, case: Case, trial: "TrialContext") -> None:
        """Execute the case once. Raises TrialFailed with a cause a person understands."""

    @abstractmethod
    def parse(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        """Pure: the files of one successful trial in, observations out. Raises ParseError."""

    def check(self, config: FamilyConfig, host: "HostCheck") -> None:
        """Look, without measuring, whether the host has what the cases need; report with host.ok / host.problem."""
        return None

    def parse_import(self, path: Path) -> "Imported | None":
        """What `benchstudy import` does with one existing output file; None: not of this family."""
        return None


@dataclass(frozen=True)
class Imported:
    """An existing output, recognised: the levels of its case, and the name its file has in a trial."""

    levels: Mapping[str, str]
    file_name: str
    tool: str
    tool_version: str | None = None
    notes: Sequence[str] = ()

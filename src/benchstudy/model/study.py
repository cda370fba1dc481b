"""The one validated model of a study: all other code gets this typed object."""

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from benchstudy.model import hints, paths, registry, secret_forms
from benchstudy.model.authorship import Author, LicenceField, Original
from benchstudy.model.clients import client_counts, numbered, with_clients
from benchstudy.model.criteria import MARGIN
from benchstudy.model.declared import Acknowledgement, DeclaredCeiling
from benchstudy.model.disturbance import DisturbancePolicy
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Case, Family, FamilyConfig
from benchstudy.model.host import Host
from benchstudy.model.names import Name, require_known
from benchstudy.model.stopping import BlockRange, BlocksField, PrecisionField, Stopping, required_share
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, ProperShare
from benchstudy.model.wording import explained


class Target(Strict):
    """A testbed: which host plays which role. One host may play all roles."""

    roles: Annotated[
        dict[Name, Name], BeforeValidator(numbered, json_schema_input_type=dict[Name, Name | list[Name]])
    ] = Field(
        min_length=1,
        description="the host of each role (sut, load, db, storage …); `load: [a, b]` is `load-1`, `load-2`",
    )


def _margin(value: Any) -> float:
    return required_share(value, 'not a margin: write a difference above 0 and below 100 %, such as "5%"')


MarginField = Annotated[float, BeforeValidator(_margin, json_schema_input_type=ProperShare)]
_LONGEST_LEASE_S = 86400.0  # no session on the host believes a longer one (agent/keeper.py)


class Thresholds(Strict):
    """Numbers declared before the measurement and hashed with the study, so that later changes are visible."""

    lease: DurationField = Field(
        30.0, description="time without a heartbeat from the controller after which a host ends our processes"
    )
    reconnect: DurationField = Field(120.0, description="time for which a session tries to restore a lost connection")
    margin: MarginField = Field(MARGIN, description="the smallest difference that matters, used by all verdicts")
    margins: dict[str, MarginField] = Field(
        {}, description="other margins, by family (`fio`) or by family and metric (`fio/read_iops`)"
    )

    @field_validator("lease")
    @classmethod
    def _long_enough(cls, value: float) -> float:
        if not 1.0 <= value <= _LONGEST_LEASE_S:
            raise ValueError(f"give 1 s to {_LONGEST_LEASE_S:.0f} s")
        return value

    @field_validator("margins")
    @classmethod
    def _margins_of_families(cls, value: dict[str, float]) -> dict[str, float]:
        for key in value:
            family, slash, metric = key.partition("/")
            require_known(family, registry.names(), f"{key!r} names no family")
            if slash and not metric:
                raise ValueError(f"{key!r} names no metric after the slash")
        return value

    def margin_of(self, family: str, metric: str) -> float:
        """The smallest relative difference that matters in a metric: 0.05 is 5 %."""
        return self.margins.get(f"{family}/{metric}", self.margins.get(family, self.margin))


_NEEDS_RANGE = "the number of blocks is fixed, so it decides nothing; give a range: blocks: {min: 6, max: 30}"


class Study(Strict):
    """A study as its file declares it, validated. `studyfile` reads one."""

    study: Name = Field(description="the study's name; a new name measures everything afresh")
    title: str = ""
    question: str = Field("", description="the question to answer, in one sentence; printed on the study's first page")
    repeats: Original | None = Field(None, description="the published page that the study repeats")
    seed: int = Field(1, description="decides the random order of trials")
    blocks: BlocksField = Field(
        6,
        description="passes over all cases (below 6, no median has a 95 % interval); or a range, within which `until` "
        "decides",
    )
    until: PrecisionField | None = Field(
        None,
        description="with a range of blocks: measure until every case's median has this precision, such as `5 %`",
    )
    blocks_apart: DurationField | None = Field(
        None, description="minimum time from the beginning of one block to the beginning of the next, such as `10min`"
    )
    disturbance: DisturbancePolicy | None = Field(
        None, description="what happens to trials that other work on a host disturbed; the default is `mark`"
    )
    give_up_after: int | None = Field(
        None,
        ge=2,
        description="number of a case's first trials after which the case is given up if all failed with the same "
        "cause; by default, no case is given up",
    )
    stands_out: Literal["median", "mean"] = Field(
        "median",
        description="which estimate comes first in tables that show the published pages' mean (± deviation, p50): the "
        "`median`, with its interval beside it, or that `mean`",
    )
    # Both are also switches of a command line, which gives text.
    measure: bool = Field(True, strict=False, description="`false`: use what is on disk and never connect to a host")
    beside: bool = Field(
        False,
        strict=False,
        description="`true`: make tables and pages even while this machine is measured; its trials record this",
    )
    hosts: dict[Name, Host] = Field(min_length=1, description="the machines, by name")
    targets: dict[Name, Target] = Field(min_length=1, description="the setups under test, by name")
    families: dict[str, FamilyConfig] = Field(min_length=1)
    thresholds: Thresholds = Thresholds()
    ceilings: list[DeclaredCeiling] = Field([], description="upper bounds of the hardware, for lints")
    acknowledge: list[Acknowledgement] = Field(
        [], description="findings of lints and questions of the checklist that the study accepts, each with the reason"
    )
    authors: list[Author] = Field([], description="the people responsible for the study; recorded in its crate")
    license: LicenceField = Field(
        "", description="licence of its data and reports: an SPDX identifier such as `CC-BY-4.0`, or an address"
    )
    # Not part of the declaration: it says where to look, and what was found there is in the families.
    systems: list[str] = Field(
        [],
        exclude=True,
        description="folders with your own systems, relative to this file; `systems/` beside it always counts",
    )

    @field_validator("study")
    @classmethod
    def _own_place_in_reports(cls, value: str) -> str:
        """Its pages lie in `reports/<study>`, beside files and folders of all studies."""
        name = value.lower()
        if name in ("index", "index.html", "comparisons") or name.endswith((".zip", ".pdf", ".crate")):
            raise ValueError(f"{value!r} is what a file or folder of reports/ is called: give the study another name")
        return value

    @field_validator("families", mode="before")
    @classmethod
    def _typed_families(cls, value: Any, told: ValidationInfo) -> Any:
        if not isinstance(value, Mapping):
            return value
        typed = {}
        for name, block in value.items():
            require_known(str(name), [*registry.names(), *registry.left_out()], f"unknown family {name!r}")
            config = registry.get(name).Config
            if isinstance(block, config):
                typed[name] = block
                continue
            with registry.blamed(name, "a validator of its Config"):
                try:
                    typed[name] = config.model_validate({} if block is None else block, context=told.context)
                except ValidationError as error:
                    raise StudyError("\n".join(explained(error, config, ("families", name)))) from error
        return typed

    @model_validator(mode="after")
    def _names_resolve(self) -> "Study":
        for target_name, target in self.targets.items():
            for role, host in target.roles.items():
                require_known(host, self.hosts, f"targets.{target_name}.roles.{role}: no host {host!r}")
        for index, ceiling in enumerate(self.ceilings):
            if ceiling.measured is not None:
                where = f"ceilings.{index}.measured.family"
                require_known(ceiling.measured.family, self.families, f"{where}: this study measures no such family")
        for key in self.thresholds.margins:
            name, slash, metric = key.partition("/")
            if slash:
                config = self.families.get(name)
                family = registry.get(name) if config is None else _family(name, config)
                require_known(metric, family.metrics, f"thresholds.margins: {key!r}: {name} has no such metric")
        for family_name, config in self.families.items():
            for target_name in config.targets or ():
                require_known(target_name, self.targets, f"families.{family_name}.targets: no target {target_name!r}")
        return self

    @model_validator(mode="after")
    def _stopping_is_whole(self) -> "Study":
        """A range of blocks without a precision has no end, and a precision without a range decides nothing."""
        blocks = {name: config.blocks or self.blocks for name, config in self.families.items()}
        ranged = [name for name in blocks if isinstance(blocks[name], BlockRange)]
        for name, config in self.families.items():
            if config.until is not None and name not in ranged:
                raise ValueError(f"families.{name}.until: {_NEEDS_RANGE}")
            if name in ranged and config.until is None and self.until is None:
                where = f"families.{name}." if config.blocks else ""
                raise ValueError(f"{where}blocks: a range needs a precision beside it: until: 5 %")
        if self.until is not None and not ranged:
            raise ValueError(f"until: {_NEEDS_RANGE}")
        return self

    def sessions(self) -> list["SessionPlan"]:
        """One per family and target, in the study's order."""
        found = []
        for family, config in self.families.items():
            first, *others = config.targets or self.targets
            plan = SessionPlan(self, first, family)
            found += [plan, *map(plan.on, others)]
        return found

    def stores(self, root: Path) -> list[Path]:
        """The folders of raw files, one per session."""
        return [plan.raw(root) for plan in self.sessions()]

    def session(self, target: str, family: str) -> "SessionPlan":
        """The plan of all blocks of `family` on `target`."""
        return SessionPlan(self, target, family)

    def unfit(self) -> list[str]:
        """What cannot be measured, or must not be because its figures would be wrong, with the field and the fix."""
        found = [f"families.{name}: {text}" for name, config in self.families.items() for text in _unfit(name, config)]
        found += [
            f"families.{name}.{field}: the environment variable {variable} {': '.join(wrong)}"
            for name, config in self.families.items()
            for field, variable in config.secret_variables.items()
            if (value := os.environ.get(variable)) and (wrong := secret_forms.unfit(value))
        ]
        for name, target in self.targets.items():
            names: dict[str, str] = {}
            for host in target.roles.values():
                first = names.setdefault(self.hosts[host].machine(host), host)
                if first != host:
                    found.append(
                        f"targets.{name}.roles: {first} and {host} are the same machine: name only one of them"
                    )
        return found

    def require_fit(self) -> None:
        """Called before anything is measured. Raises StudyError with everything that is `unfit`."""
        found = self.unfit()
        if found:
            read = hints.snakemake("report", "--config", "measure=false")
            raise StudyError("\n".join([*found, f"To read what was already measured, use {read}."]))

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of everything that was declared, without `measure` and `beside`, which are switches of one run.

        Acknowledgements are left out: they are added after findings, and must not make measured trials look post hoc.
        So are authors and licence, which a study may get when it is published.
        """
        # families hold subclasses; serialize_as_any keeps their own fields.
        not_declared = {"measure", "beside", "acknowledge", "authors", "license"}
        content = self.model_dump(mode="json", exclude=not_declared, serialize_as_any=True)
        # A key added by a later version must not make the trials of an earlier one look post hoc.
        for part in (content, *content["families"].values()):
            for added in ("until", "blocks_apart", "disturbance", "give_up_after", "clients"):
                if part.get(added, ...) is None:
                    del part[added]
        if content["stands_out"] == "median":
            del content["stands_out"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _family(name: str, config: FamilyConfig) -> Family:
    """The family as one study has it."""
    with registry.blamed(name, "`of`"):
        return registry.get(name).of(config)


def _unfit(name: str, config: FamilyConfig) -> list[str]:
    with registry.blamed(name, "`unfit`"):
        return [*config.unfit(), *(() if config.import_only else registry.get(name).unfit())]


class SessionPlan:
    """The work of one measuring job: all blocks of one family on one target."""

    _alike: "SessionPlan | None" = None  # of the same family on another target

    def __init__(self, study: Study, target: str, family: str):
        self.study, self.target, self.family_name = study, target, family
        self.config = study.families[family]
        self.family = _family(family, self.config)
        self.roles = study.targets[target].roles
        self.disturbance = self.config.disturbance or study.disturbance or DisturbancePolicy()
        # With nothing to measure there is nothing to decide.
        declared = 1 if self.config.import_only else self.config.blocks or study.blocks
        until = self.config.until or study.until
        # Not part of the digest: it decides when trials are measured, not which.
        self.blocks_apart_s = self.config.blocks_apart or study.blocks_apart or 0.0
        self.give_up_after = self.config.give_up_after or study.give_up_after
        # The minimum and maximum, and the rule that may stop earlier.
        self.stopping: Stopping | None = None
        if isinstance(declared, BlockRange):
            self.fewest_blocks, self.blocks = declared.min, declared.max
            self.stopping = Stopping(declared.min, declared.max, until) if until else None
        else:
            self.fewest_blocks = self.blocks = declared

    def on(self, target: str) -> "SessionPlan":
        """The same plan on another target; what both share is computed once."""
        other = copy.copy(self)
        other.target, other.roles = target, self.study.targets[target].roles
        other._alike = self if other.clients == self.clients else None
        return other

    @cached_property
    def cases(self) -> list[Case]:
        """The cases of the family in this study; none if the block is only for imported trials."""
        if self._alike is not None:
            return self._alike.cases
        if self.config.import_only:
            return []
        cases = self.family.cases(self.config)
        try:
            return with_clients(self.config, cases, self.clients)
        except StudyError as error:
            raise StudyError(f"families.{self.family_name}.{error}") from error

    def raw(self, root: Path) -> Path:
        """The folder of its raw files, in the project at `root`."""
        return paths.family_raw(root, self.study.study, self.target, self.family_name)

    @property
    def clients(self) -> tuple[int, ...]:
        """From how many hosts its cases are loaded; empty if that is not a factor."""
        return client_counts(self.config, self.roles)

    @property
    def hosts(self) -> dict[str, Host]:
        """The hosts that this session occupies, by name; empty if nothing is measured."""
        if self.config.import_only:
            return {}
        return {name: self.study.hosts[name] for name in dict.fromkeys(self.roles.values())}

    def trials(self, blocks: int) -> int:
        """How many trials the first `blocks` blocks have."""
        return sum(case.is_in(block) for block in range(1, blocks + 1) for case in self.cases)

    @cached_property
    def digest(self) -> str:
        """Changes exactly when the set of trials that must exist changes, or the rule that decides how many."""
        if self._alike is not None:
            return self._alike.digest
        blocks = asdict(self.stopping) if self.stopping else self.blocks
        content = [blocks, sorted((case.id, case.definition_sha256) for case in self.cases)]
        if self.disturbance.then == "repeat":
            content.append(self.disturbance.model_dump(mode="json"))
        if self.give_up_after:
            content.append({"give_up_after": self.give_up_after})
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

"""What a study says about the family log_write: backends, limits, generators, rates, the capacity search, sweeps."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from benchstudy.families.shared.levels import (
    RATE_PATTERN,
    UNLIMITED,
    Limit,
    Rate,
    RateField,
    check_chosen,
    misplaced_option,
)
from benchstudy.model.clients import LoadedByClients
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import Name, require_each_once
from benchstudy.model.services import check_port, check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import PERCENT_PATTERN, DurationField, SizeField, parse_percent

SEARCH = "search"  # the level of the factor rate for the capacity search
_LEAST_STEP_S = {"gcp": 10.0}  # by kind: a checkpoint comes so often at most, whatever is asked for
_LEAST_WINDOW_S = {"gcp": 60.0}
_MOST_UNDER_WAY = 16_000  # each has a connection: a file at either end, and a port
_LEAST_STEPS = 3  # publish steps in a window, so that there is a rate between checkpoints and not only two ends

Kind = Literal["posix", "mysql", "aws", "gcp"]
Antispam = Literal["yes", "no"]
ANTISPAM: tuple[Antispam, ...] = ("no", "yes")
_FOR_ONE_TOOL = {
    "max_in_flight": "logbench",
    "drain": "logbench",
    "proof_sample": "logbench",
    "writers": "tessera-hammer",
}


def share_of(text: str) -> float:
    """0.1 of "10%". Raises ValueError."""
    share = parse_percent(text)
    if share is None or share > 1:
        raise ValueError(f'{text!r} is not a share: write it as "10%"')
    return share


FrontEnds = Annotated[int, Field(ge=1, le=64)]
# As a level: "10%"
DuplicateShare = Annotated[
    str,
    AfterValidator(lambda text: f"{share_of(text) * 100:g}%"),
    WithJsonSchema({"type": "string", "pattern": PERCENT_PATTERN, "examples": ["10%"]}),
]
RateOrSearch = Annotated[
    str,
    AfterValidator(lambda text: text if text == SEARCH else Rate(text)),
    WithJsonSchema({"anyOf": [{"const": SEARCH}, {"type": "string", "pattern": RATE_PATTERN}]}),
]


class Backend(Strict):
    """A log server with where it keeps its log. Each trial has it afresh: its `store` and its servers are started, and
    ended with all that is in them.
    """

    name: Name
    kind: Kind = Field(description="which of Tessera's storage implementations")
    label: str = Field(description="what a table calls it, with what is not what the kind says: MariaDB, a FUSE mount")
    emulated: bool = Field(False, description="it stands on an emulator, and tables say so beside every number")
    service: Name | None = Field(None, description="the service that is its server, without antispam")
    antispam_service: Name | None = Field(None, description="the one with antispam (deduplication)")
    store: Name | None = Field(
        None,
        description="a service started before and ended after the servers: keys, folder, mount, database of one log",
    )
    databases: list[Name] = Field([], description="services whose processes count as its database")
    several_front_ends: bool = Field(False, description="more than one server may write to one log")
    port: Name = Field("http", description="which of the server's ports takes POST /add")
    read: str | None = Field(
        None, description="where checkpoint and tiles are read, http:// or file://, with {{…}} of the service; the "
        "server itself when left out"
    )  # fmt: skip
    public_key: str = Field("{{dir}}/log.pub", description="file with the log's public key, on the server's host")
    directory: str | None = Field(None, description="folder whose disk is watched; with expect_fs, where the log lies")
    expect_fs: list[str] = Field([], description="file system types that folder may be on, such as fuse.sshfs")
    publish_interval: DurationField = Field(1.0, description="how often the server publishes a checkpoint")
    max_integrate_p99: DurationField | None = Field(
        None, description="the capacity search's bound for this backend, which must be above its publish_interval"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Backend":
        problem = self._problem()
        if problem:
            raise ValueError(f"backend {self.name}: {problem}")
        return self

    def _problem(self) -> str | None:
        if self.service is None and self.antispam_service is None:
            return "give service, antispam_service or both"
        if self.several_front_ends and self.store is None:
            return "several_front_ends needs a store: the servers' common log must not lie in one of them"
        if self.read is not None and not self.read.startswith(("http://", "https://", "file://")):
            return f"read: {self.read!r}: begin with http://, https:// or file://"
        if self.expect_fs and self.directory is None:
            return "expect_fs needs directory"
        if self.publish_interval <= 0:
            return "publish_interval: give a time above zero"
        return None

    def server(self, antispam: str) -> Name | None:
        """The service of this variant; None when there is no such variant."""
        return self.antispam_service if antispam == "yes" else self.service

    @property
    def step_s(self) -> float:
        """From one checkpoint to the next."""
        return max(self.publish_interval, _LEAST_STEP_S.get(self.kind, 0.0))

    def window_s(self, asked_s: float) -> float:
        """As long as asked or as this kind needs, whole publish steps. A step that is cut in two is not measured."""
        needed = max(asked_s, _LEAST_WINDOW_S.get(self.kind, 0.0), _LEAST_STEPS * self.publish_interval)
        return math.ceil(round(needed / self.publish_interval, 6)) * self.publish_interval


class LogGenerator(Strict):
    """What writes. logbench is an open loop: leaves begin at a rate, however slow the log is. The hammer is a closed
    one: each of its writers waits for its answer.
    """

    name: Name
    tool: Literal["logbench", "tessera-hammer"]
    duration: DurationField = Field(30.0, description="of the measured window; raised to whole publish steps")
    warm_up: DurationField = Field(5.0, description="the same load before, not counted")
    cpus: int | None = Field(None, ge=1, description="as many CPUs as it may use, beside the server's where there are")
    leaf: SizeField | None = Field(None, description="of a leaf; 100B when left out")
    write_time: DurationField = Field(
        2.0, description="the longest that writes are expected to take on average: rate × write_time are under way"
    )
    max_in_flight: int | None = Field(None, ge=1, le=60_000, description="of logbench; rate × write_time when left out")
    writers: int | None = Field(None, ge=1, le=60_000, description="of the hammer; rate × write_time when left out")
    request_timeout: DurationField = Field(30.0, description="of logbench: after this an answer counts as missing")
    drain: DurationField = Field(30.0, description="of logbench: how long the last leaves may take to be integrated")
    proof_sample: int = Field(100, ge=1, le=10_000, description="of logbench: accepted leaves proved to be included")

    @model_validator(mode="after")
    def _consistent(self) -> "LogGenerator":
        misplaced = misplaced_option(self, _FOR_ONE_TOOL)
        if misplaced:
            raise ValueError(f"generator {self.name}: {misplaced}")
        for field in ("duration", "write_time", "request_timeout"):
            if getattr(self, field) <= 0:
                raise ValueError(f"generator {self.name}: {field}: give a time above zero")
        if self.leaf is not None and not 16 <= self.leaf.bytes <= 64_000:
            raise ValueError(
                f"generator {self.name}: leaf: {self.leaf}: give 16B to 64000B, what a log's entry may have"
            )
        return self

    @property
    def is_open(self) -> bool:
        return self.tool == "logbench"

    @property
    def leaf_bytes(self) -> int:
        return self.leaf.bytes if self.leaf is not None else 100

    def under_way(self, rate_per_s: float) -> int:
        """How many writes may be under way: as given, or what the rate needs. Raises ValueError with the arithmetic."""
        all_of_them = max(math.ceil(round(rate_per_s * self.write_time, 6)), 1)
        needed = min(all_of_them, _MOST_UNDER_WAY)
        field = "max_in_flight" if self.is_open else "writers"
        given: int | None = getattr(self, field)
        if given is not None and given < needed:
            raise ValueError(
                f"generator {self.name}: {field}: {given} are too few: {rate_per_s:g}/s × {self.write_time:g} s = "
                f"{all_of_them} writes are under way when one takes write_time, and {given} / {self.write_time:g} s = "
                f"{given / self.write_time:g}/s is all that {given} can then do; leave {field} out, raise it to "
                f"{needed}, or state the write_time that you expect"
            )
        return given if given is not None else needed


class CapacitySearch(Strict):
    """The highest offered rate that keeps the objective, found inside one trial: up by `factor` until a rate fails,
    then between the highest that passed and the lowest that failed until they are `within`.
    """

    start: RateField = Field("500/s", description="the first rate")
    lowest: RateField = Field("1/s", description="below it the search gives up")
    highest: RateField = Field("50000/s", description="above it there is no search")
    factor: float = Field(2.0, gt=1.05, le=10)
    within: float = Field(0.05, gt=0, le=0.5, description="(lowest fail - highest pass) / highest pass at the end")
    windows: int = Field(2, ge=1, le=20, description="a rate passes when so many windows in a row do")
    attempts: int = Field(
        2, ge=1, le=5, description="a rate has failed when it failed so many times: one stall of a disk is no capacity"
    )
    window: DurationField = Field(30.0, description="of each; raised to whole publish steps")
    warm_up: DurationField = Field(3.0, description="before the first window of each rate")
    min_achieved: float = Field(0.99, gt=0, le=1, description="share of the offered leaves that are integrated")
    max_errors: float = Field(0.001, ge=0, lt=1, description="share of the leaves sent; pushback is no error, but lost")
    max_integrate_p99: DurationField = Field(5.0, description="of the time until a verified checkpoint covers a leaf")
    max_steps: int = Field(24, ge=2, le=100, description="rates that are tried at most")
    max_restarts: int = Field(
        8, ge=0, le=100, description="fresh logs after servers that died at a rate; one more ends the trial"
    )

    @model_validator(mode="after")
    def _in_order(self) -> "CapacitySearch":
        lowest, start, highest = (Rate(text).per_s for text in (self.lowest, self.start, self.highest))
        if not lowest <= start <= highest:
            raise ValueError(
                f"search: start: {self.start} is not between lowest {self.lowest} and highest {self.highest}"
            )
        return self


class LogSweep(Strict):
    """Cases to measure: every combination of what is listed. What is left out stands for all there is."""

    backends: list[Name] | None = None
    antispam: list[Antispam] | None = Field(
        None, description='"yes", "no" in quotes; what each backend has, if left out'
    )
    limits: list[Name] | None = Field(None, description="names, and `none`; all names when left out")
    front_ends: list[FrontEnds] | None = Field(None, description="servers of one log; the family's when left out")
    duplicates: list[DuplicateShare] | None = Field(None, description="the family's when left out")
    generators: list[Name] | None = None
    rates: list[RateOrSearch] | None = Field(None, description="the family's when left out")
    blocks: int | None = Field(
        None, ge=1, description="they are measured in the first so many blocks only; in all if left out"
    )

    @field_validator("antispam", mode="before")
    @classmethod
    def _in_quotes(cls, value: object) -> object:
        if isinstance(value, list) and any(isinstance(level, bool) for level in value):
            raise ValueError('write "yes" and "no" in quotes: without them YAML reads true and false')
        return value


class LogWriteConfig(LoadedByClients):
    """Transparency logs by backend, with and without deduplication, written to at rates, or to their capacity."""

    needed: ClassVar[tuple[str, ...]] = ("backends", "generators")
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"backends": TakesSystem()}

    backends: list[Backend] = Field([], min_length=1)
    limits: list[Limit] = Field([], description="of each server of a log; its database is never limited")
    generators: list[LogGenerator] = Field([], min_length=1)
    rates: list[RateOrSearch] = Field(
        [], description='leaves begun a second, such as "500/s", or `search` for the capacity'
    )
    front_ends: list[FrontEnds] = Field([1], description="servers of one log, the generator writes to them in turn")
    duplicates: list[DuplicateShare] = Field(["0%"], description="share of the leaves that were sent before")
    search: CapacitySearch = CapacitySearch()
    sweeps: list[LogSweep] = Field([LogSweep()], description="which combinations are measured; every one when left out")

    @model_validator(mode="after")
    def _consistent(self) -> "LogWriteConfig":
        require_each_once(
            backends=[backend.name for backend in self.backends],
            limits=[limit.name for limit in self.limits],
            generators=[generator.name for generator in self.generators],
        )
        for backend in self.backends:
            self._check_services(backend)
        for number, sweep in enumerate(self.sweeps):
            self._check_names(f"sweeps[{number}]", sweep)
        for generator in self.generators if any(rate != SEARCH for rate in self.rates) else ():
            writes = generator.warm_up + min(backend.window_s(generator.duration) for backend in self.backends)
            if self.timeout <= writes:
                raise ValueError(
                    f"timeout: {self.timeout:g} s are over before generator {generator.name} has written for its "
                    f"warm_up and its window, {writes:g} s: give it more, with some for what comes before and after"
                )
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """logbench alone can make a part of a load."""
        generator = self.generator(case.levels["generator"])
        if clients > 1 and not generator.is_open:
            return f"generator {generator.name}: the hammer is one process with one screen: use tool: logbench"
        rate = self.search.highest if case.levels["rate"] == SEARCH else Rate.of_level(case.levels["rate"])
        if (most := generator.under_way(Rate(rate).per_s)) < clients:
            return f"generator {generator.name}: {most} writes under way are fewer: raise max_in_flight"
        return None

    def unfit(self) -> Iterator[str]:
        """Until the first checkpoint has the warm-up's leaves the log is empty, and no window must begin."""
        steps: dict[tuple[str, float], Backend] = {}
        for sweep in self.sweeps:
            for backend, *_, generator, rate in self.combinations(sweep):
                own = ("search", self.search.warm_up), (f"generator {generator.name}", generator.warm_up)
                of = own[0] if rate == SEARCH else own[1]
                steps[of] = max(steps.get(of, backend), backend, key=lambda b: b.step_s)
        for (what, warm_up), backend in steps.items():
            if warm_up < backend.step_s:
                yield (
                    f"{what}: warm_up: {warm_up:g} s is shorter than a publish step of backend {backend.name} "
                    f"(publish_interval), {backend.step_s:g} s: raise it to {backend.step_s:g}s or more"
                )

    def _check_services(self, backend: Backend) -> None:
        servers = [name for name in (backend.service, backend.antispam_service) if name is not None]
        where = f"backend {backend.name}"
        for name in (*servers, *([backend.store] if backend.store else []), *backend.databases):
            check_service(where, name, self.services)
        for name in servers:
            service = check_port(where, name, backend.port, self.services)
            if backend.store is not None and backend.store not in service.needs:
                raise ValueError(f"{where}: service {name} does not have its store in `needs`")

    def _check_names(self, where: str, sweep: LogSweep) -> None:
        known = {
            "backends": [backend.name for backend in self.backends],
            "limits": [UNLIMITED, *(limit.name for limit in self.limits)],
            "generators": [generator.name for generator in self.generators],
        }
        check_chosen(sweep, known, where)

    def combinations(self, sweep: LogSweep) -> Iterator[tuple[Backend, str, str, int, str, LogGenerator, str]]:
        """(backend, antispam, limits, front ends, duplicates, generator, rate) as listed; possible or not."""
        for backend in (b for b in self.backends if sweep.backends is None or b.name in sweep.backends):
            for antispam in sweep.antispam or [level for level in ANTISPAM if backend.server(level)]:
                for limit in sweep.limits or [limit.name for limit in self.limits] or [UNLIMITED]:
                    for front_ends in sweep.front_ends or self.front_ends:
                        for duplicates in sweep.duplicates or self.duplicates:
                            for generator in self.generators:
                                if sweep.generators is None or generator.name in sweep.generators:
                                    for rate in sweep.rates or self.rates:
                                        yield backend, antispam, limit, front_ends, duplicates, generator, rate

    def backend(self, name: str) -> Backend:
        return next(backend for backend in self.backends if backend.name == name)

    def generator(self, name: str) -> LogGenerator:
        return next(generator for generator in self.generators if generator.name == name)

    def limit(self, name: str) -> Limit | None:
        return next((limit for limit in self.limits if limit.name == name), None)

"""The configuration of the family log_write: backends, limits, generators, rates, capacity search and sweeps."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from benchstudy.families.shared.levels import (
    RATE_PATTERN,
    UNLIMITED,
    Limit,
    Rate,
    RateField,
    check_chosen,
    check_differ,
    misplaced_option,
    no_number,
)
from benchstudy.model.clients import LoadedByClients
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import EachOnce, Name
from benchstudy.model.references import unfilled
from benchstudy.model.services import check_port, check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import PERCENT_PATTERN, DurationField, SizeField, parse_percent

SEARCH = "search"  # the level of the factor rate for the capacity search
_LEAST_STEP_S = {"gcp": 10.0}  # by kind: the shortest interval between checkpoints, whatever the study asks for
_LEAST_WINDOW_S = {"gcp": 60.0}
_MOST_UNDER_WAY = 16_000  # each one has a connection: a file at both ends, and a port
_LEAST_COOL_DOWN_S = 1.0
_LEAST_STEPS = 3  # publish steps in a window: a rate needs more than the two ends

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
    BeforeValidator(no_number),
    AfterValidator(lambda text: text if text == SEARCH else Rate(text)),
    WithJsonSchema({"anyOf": [{"const": SEARCH}, {"type": "string", "pattern": RATE_PATTERN}]}),
]


class Backend(Strict):
    """A log server and its storage. Each trial starts a fresh `store` and fresh servers, and removes them at the end
    with everything in them.
    """

    name: Name
    kind: Kind = Field(description="Tessera's storage implementation")
    label: str = Field(description="name in tables; add what the kind leaves open, such as MariaDB or a FUSE mount")
    emulated: bool = Field(False, description="the backend runs on an emulator; tables say so beside every number")
    service: Name | None = Field(None, description="the service that is the server without antispam")
    antispam_service: Name | None = Field(
        None, description="the service that is the server with antispam (deduplication)"
    )
    store: Name | None = Field(
        None, description="a service that starts before the servers and ends after them: keys, folder, mount, database"
    )
    databases: list[Name] = Field([], description="services whose processes count as the database")
    several_front_ends: bool = Field(False, description="several servers may write to one log")
    port: Name = Field("http", description="the port of the server that accepts POST /add")
    read: str | None = Field(
        None, description="URL of checkpoint and tiles, http:// or file://, with {{…}} of the service; the default is "
        "the server itself"
    )  # fmt: skip
    public_key: str = Field("{{dir}}/log.pub", description="file with the public key of the log, on the server's host")
    directory: str | None = Field(
        None, description="folder whose disk is sampled; with expect_fs, the folder of the log"
    )
    expect_fs: list[str] = Field([], description="file system types that `directory` may have, such as fuse.sshfs")
    publish_interval: DurationField = Field(1.0, description="time between two checkpoints that the server publishes")
    max_integrate_p99: DurationField | None = Field(
        None, description="replaces the bound of the capacity search for this backend; must exceed its publish_interval"
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
            return "several_front_ends needs a store, because the common log must not belong to one of the servers"
        if self.read is not None and not self.read.startswith(("http://", "https://", "file://")):
            return f"read: {self.read!r}: give a URL that begins with http://, https:// or file://"
        if self.expect_fs and self.directory is None:
            return "expect_fs needs directory"
        if self.publish_interval <= 0:
            return "publish_interval: give a time above zero"
        return None

    def server(self, antispam: str) -> Name | None:
        """The service with this level of `antispam`; None if the backend has none."""
        return self.antispam_service if antispam == "yes" else self.service

    @property
    def step_s(self) -> float:
        """Seconds between two checkpoints."""
        return max(self.publish_interval, _LEAST_STEP_S.get(self.kind, 0.0))

    def window_s(self, asked_s: float) -> float:
        """Length of the window in s: `asked_s`, or the minimum of this kind, rounded up to whole publish steps."""
        needed = max(asked_s, _LEAST_WINDOW_S.get(self.kind, 0.0), _LEAST_STEPS * self.publish_interval)
        return math.ceil(round(needed / self.publish_interval, 6)) * self.publish_interval

    @property
    def cool_down_s(self) -> float:
        """Length in s of the load after the window, during which the last leaves are integrated."""
        return max(self.publish_interval, _LEAST_COOL_DOWN_S)


class LogGenerator(Strict):
    """A load generator. logbench is an open loop: it sends leaves at a fixed rate, however slow the log is. The hammer
    is a closed loop: each of its writers waits for the answer to its last leaf.
    """

    name: Name
    tool: Literal["logbench", "tessera-hammer"]
    duration: DurationField = Field(30.0, description="length of the measured window; raised to whole publish steps")
    warm_up: DurationField = Field(5.0, description="the same load before the window; it is not counted")
    cpus: int | None = Field(
        None, ge=1, description="CPUs that it may use; not those of the server, if there are enough"
    )
    leaf: SizeField | None = Field(None, description="size of a leaf; the default is 100B")
    write_time: DurationField = Field(
        2.0, description="upper bound of the expected mean time of a write; rate × write_time writes may be in flight"
    )
    max_in_flight: int | None = Field(
        None, ge=1, le=60_000, description="logbench: maximum of writes in flight; the default is rate × write_time"
    )
    writers: int | None = Field(
        None, ge=1, le=60_000, description="hammer: number of writers; the default is rate × write_time"
    )
    request_timeout: DurationField = Field(30.0, description="logbench: after this time a request counts as failed")
    drain: DurationField = Field(30.0, description="logbench: how long to wait for the last leaves to be integrated")
    proof_sample: int = Field(
        100, ge=1, le=10_000, description="logbench: number of accepted leaves whose inclusion is proved"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "LogGenerator":
        misplaced = misplaced_option(self, _FOR_ONE_TOOL)
        if misplaced:
            raise ValueError(f"generator {self.name}: {misplaced}")
        for field in ("duration", "write_time", "request_timeout"):
            if getattr(self, field) <= 0:
                raise ValueError(f"generator {self.name}: {field}: give a time above zero")
        if self.leaf is not None and not 16 <= self.leaf.bytes <= 64_000:
            raise ValueError(f"generator {self.name}: leaf: {self.leaf}: give 16B to 64000B, the limits of a log entry")
        return self

    @property
    def is_open(self) -> bool:
        return self.tool == "logbench"

    @property
    def leaf_bytes(self) -> int:
        return self.leaf.bytes if self.leaf is not None else 100

    def under_way(self, rate_per_s: float) -> int:
        """The most writes in flight: as given, or as the rate needs. Raises ValueError with the arithmetic."""
        all_of_them = max(math.ceil(round(rate_per_s * self.write_time, 6)), 1)
        needed = min(all_of_them, _MOST_UNDER_WAY)
        field = "max_in_flight" if self.is_open else "writers"
        given: int | None = getattr(self, field)
        if given is not None and given < needed:
            raise ValueError(
                f"generator {self.name}: {field}: {given} are too few: {rate_per_s:g}/s × {self.write_time:g} s = "
                f"{all_of_them} writes are in flight if a write takes write_time, and {given} reach at most "
                f"{given} / {self.write_time:g} s = {given / self.write_time:g}/s; leave {field} out, raise it to "
                f"{needed}, or give the write_time that you expect"
            )
        return given if given is not None else needed


class CapacitySearch(Strict):
    """The search for the highest offered rate that meets the objective, inside one trial. Rates rise by `factor` until
    one fails. Then the search bisects between the highest pass and the lowest fail until their gap is `within`.
    """

    start: RateField = Field("500/s", description="the first rate")
    lowest: RateField = Field("1/s", description="the lowest rate that is tried")
    highest: RateField = Field("50000/s", description="the highest rate that is tried")
    factor: float = Field(2.0, gt=1.05, le=10)
    within: float = Field(0.05, gt=0, le=0.5, description="(lowest fail - highest pass) / highest pass at the end")
    windows: int = Field(2, ge=1, le=20, description="a rate passes if this many windows in a row pass")
    attempts: int = Field(
        2,
        ge=1,
        le=5,
        description="a rate fails if this many attempts fail, so that one stall of a disk does not decide",
    )
    window: DurationField = Field(30.0, description="length of each window; raised to whole publish steps")
    warm_up: DurationField = Field(3.0, description="the same load before each window; it is not counted")
    min_achieved: float = Field(
        0.99,
        gt=0,
        le=1,
        description="least share of the due leaves that the log must accept, and of the rate at which it must grow",
    )
    max_errors: float = Field(
        0.001,
        ge=0,
        lt=1,
        description="largest share of the sent leaves that may fail; pushback counts as not integrated, not as failed",
    )
    max_integrate_p99: DurationField = Field(
        5.0, description="bound of the p99 time until a verified checkpoint covers a leaf"
    )
    max_steps: int = Field(24, ge=2, le=100, description="maximum number of rates to try")
    max_restarts: int = Field(
        8, ge=0, le=100, description="maximum number of fresh logs after servers died; one more death fails the trial"
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
    """Cases to measure: every combination of the listed levels. A key that is left out means all levels."""

    backends: EachOnce[Name] | None = None
    antispam: EachOnce[Antispam] | None = Field(
        None, description='"yes" and "no", in quotes; the default is what each backend has'
    )
    limits: EachOnce[Name] | None = Field(None, description="names, or `none`; the default is all names")
    front_ends: EachOnce[FrontEnds] | None = Field(
        None, description="numbers of servers of one log; the default is the family's list"
    )
    duplicates: EachOnce[DuplicateShare] | None = Field(None, description="the default is the family's list")
    generators: EachOnce[Name] | None = None
    rates: EachOnce[RateOrSearch] | None = Field(None, description="the default is the family's list")
    blocks: int | None = Field(
        None, ge=1, description="number of blocks, from the first, that measure these cases; the default is all"
    )

    @field_validator("antispam", mode="before")
    @classmethod
    def _in_quotes(cls, value: object) -> object:
        if isinstance(value, list) and any(isinstance(level, bool) for level in value):
            raise ValueError('write "yes" and "no" in quotes: without quotes YAML reads true and false')
        return value


class LogWriteConfig(LoadedByClients):
    """Write tests of transparency logs by backend, with and without deduplication, at given rates or up to capacity."""

    needed: ClassVar[tuple[str, ...]] = ("backends", "generators")
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"backends": TakesSystem()}

    backends: list[Backend] = Field([], min_length=1)
    limits: list[Limit] = Field(
        [], description="resource limits of each server of a log; its database is never limited"
    )
    generators: list[LogGenerator] = Field([], min_length=1)
    rates: EachOnce[RateOrSearch] = Field(
        [], description='offered leaves per second, such as "500/s", or `search` for the capacity'
    )
    front_ends: EachOnce[FrontEnds] = Field(
        [1], description="numbers of servers of one log; the generator writes to them in turn"
    )
    duplicates: EachOnce[DuplicateShare] = Field(["0%"], description="shares of leaves that were sent before")
    search: CapacitySearch = CapacitySearch()
    sweeps: list[LogSweep] = Field([LogSweep()], description="the combinations to measure; the default is every one")

    @model_validator(mode="after")
    def _consistent(self) -> "LogWriteConfig":
        names = self.names_each_once("backends", "limits", "generators")
        for backend in self.backends:
            self._check_services(backend)
        check_differ(self.sweeps)
        for number, sweep in enumerate(self.sweeps):
            check_chosen(sweep, {**names, "limits": [UNLIMITED, *names["limits"]]}, f"sweeps[{number}]")
        for generator in self.generators if any(rate != SEARCH for rate in self.rates) else ():
            writes = generator.warm_up + min(backend.window_s(generator.duration) for backend in self.backends)
            if self.timeout <= writes:
                raise ValueError(
                    f"timeout: {self.timeout:g} s is too short for generator {generator.name}: its warm_up and window "
                    f"take {writes:g} s, and set-up and proofs take time, too; raise timeout"
                )
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """Why a case cannot use this number of clients; None if it can. Only logbench can share a load."""
        generator = self.generator(case.levels["generator"])
        if clients > 1 and not generator.is_open:
            return f"generator {generator.name}: the hammer is one process with one screen: use tool: logbench"
        rate = self.search.highest if case.levels["rate"] == SEARCH else Rate.of_level(case.levels["rate"])
        if (most := generator.under_way(Rate(rate).per_s)) < clients:
            return (
                f"generator {generator.name}: {most} writes in flight are fewer than the clients: raise max_in_flight"
            )
        return None

    def unfit(self) -> Iterator[str]:
        """Problems of warm-ups that are too short: a log is empty until its first checkpoint, before any window. And of
        timeouts that end before the first rate is measured. And placeholders that nothing fills in.
        """
        for backend in self.backends:
            texts = [text for text in (backend.read, backend.public_key, backend.directory) if text]
            for service in filter(None, (backend.service, backend.antispam_service)):
                yield from unfilled(f"backend {backend.name}", texts, service, self.services)
        steps: dict[tuple[str, float], Backend] = {}
        times: dict[str, float] = {}
        for sweep in self.sweeps:
            for backend, *_, generator, rate in self.combinations(sweep):
                own = ("search", self.search.warm_up), (f"generator {generator.name}", generator.warm_up)
                of = own[0] if rate == SEARCH else own[1]
                steps[of] = max(steps.get(of, backend), backend, key=lambda b: b.step_s)
                windows, window = (
                    (self.search.windows, self.search.window) if rate == SEARCH else (1, generator.duration)
                )
                times[of[0]] = max(times.get(of[0], 0.0), windows * (of[1] + backend.window_s(window)))
        yield from self.outlasted(
            {f"{what}: its warm-ups and windows at one rate take": takes_s for what, takes_s in times.items()}
        )
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
                raise ValueError(f"{where}: service {name} does not list its store in `needs`: add {backend.store}")

    def combinations(self, sweep: LogSweep) -> Iterator[tuple[Backend, str, str, int, str, LogGenerator, str]]:
        """Yield each listed (backend, antispam, limits, front ends, duplicates, generator, rate), possible or not."""
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

"""What a study says about the family load_test: releases, databases and loads to run, or windows to read."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from benchstudy.families.load_test.users.config import Behaviour, Load
from benchstudy.model.family import FamilyConfig, TakesSystem
from benchstudy.model.names import Name, require_each_once, require_known
from benchstudy.model.services import check_port, check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, parse_duration

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:./-]*")  # dots and the like: as OpenTelemetry and Prometheus 3 have them
_LABEL = r'(?:[A-Za-z_][A-Za-z0-9_]*|"(?:[^"\\]|\\.)+")'
_MATCHERS = re.compile(rf'\{{\s*(?:{_LABEL}\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*(?:,\s*|(?=\}})))*\}}')
_SCRAPE_INTERVAL = re.compile(r"(?m)^[^#\n]*?\bscrape_interval:\s*['\"]?([0-9a-z]+)")
_AROUND_S = 120.0  # of a load: its users come and go
_LEAST_WINDOW_S = 10.0  # below it there are hardly two scrapes in any rate's window


def parse_time(value: Any) -> datetime:
    """A moment as written in a study, in UTC: "2024-09-10T10:00:00Z". Raises ValueError."""
    example = 'write it with its time zone, such as "2024-09-10T10:00:00Z"'
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a time: {example}") from None
    if not isinstance(moment, datetime):
        raise ValueError(f"{value!r} is not a time: {example}")
    if moment.tzinfo is None:
        raise ValueError(f"{value!s} has no time zone, and could be any: {example}")
    return moment.astimezone(UTC)


_TimeText = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$", examples=["2024-09-10T10:00:00Z"]
    ),
]
TimeField = Annotated[
    datetime,
    BeforeValidator(parse_time, json_schema_input_type=_TimeText),
    PlainSerializer(lambda moment: moment.isoformat(), when_used="json"),
]


class Version(Strict):
    """A release of the system under test; the first of them is the base that the others are compared with."""

    name: Name
    label: str = Field("", description="what a table calls it; its name when left out")
    services: dict[Name, Name] = Field({}, description="by database: the service that is this release's server on it")
    same_as: Name | None = Field(
        None, description="an earlier release, measured again under this name: what differs is the study's own variance"
    )


class Database(Strict):
    """What the system under test keeps its data in."""

    name: Name
    label: str = Field("", description="what a table calls it, with its version: PostgreSQL 15; its name when left out")
    service: Name | None = Field(
        None, description="the service that is its server, with the data set in it; each trial's own"
    )


class LoadLevel(Load):
    """One level of the factor load: so many users for so long (bounded), or as many as a rule finds (unbounded)."""

    blocks: int | None = Field(
        None, ge=1, description="it is measured in the first so many blocks only; in all if left out"
    )


class SaidVersion(Strict):
    """Where a server says which version it is: a key of a JSON object."""

    path: str = Field(pattern="^/", description="asked by GET, without a login")
    key: str


class MetricNames(Strict):
    """What a system calls its metrics, and labels of them, where it does not do so as Mattermost does."""

    api: str | None = Field(None, description="histogram in s of the times of API calls, without _bucket, _sum, _count")
    api_label: str | None = Field(None, description="its label that tells calls apart: `handler`")
    store: str | None = Field(None, description="histogram in s of the times of calls to the database")
    store_label: str | None = Field(None, description="its label that tells calls apart: `method`")
    status_label: str | None = Field(None, description="label of `api` with the HTTP status")
    requests: str | None = Field(None, description="counter of requests")
    errors: str | None = Field(None, description="counter of those that failed, where `api` has no status_label")
    devices: str | None = Field(None, description="gauge of connected users")
    cpu: str | None = Field(None, description="counter of processor time, s")
    started: str | None = Field(None, description="gauge of when the process started, Unix s")
    goroutines: str | None = Field(None, description="gauge")
    heap: str | None = Field(None, description="gauge, B")
    stack: str | None = Field(None, description="gauge, B")

    @field_validator("*")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and not _METRIC.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a metric or label: letters, digits and _ : . / -")
        return value

    @property
    def given(self) -> dict[str, str]:
        return self.model_dump(exclude_none=True)


class System(Strict):
    """The system under test, as every release of it has it."""

    port: Name = Field("http", description="which of the server's ports users speak to")
    accounts: str = Field(
        "{{dataset.dir}}/accounts.json",
        description="file with the users of the data set and what is in it, on the host of the service it names; "
        "{{database.dir}} is that of the trial's database",
    )
    version: SaidVersion | None = Field(None, description="asked of each server, and kept with the trial")


class Monitor(Strict):
    """The Prometheus of a trial, which is started afresh with all that it needs, such as the node exporter.

    Its files may speak of `{{server.bind}}`, `{{server.port.metrics}}` and the like, of whatever server the trial has,
    and of `{{load.bind}}` and `{{load.port.metrics}}`. Its jobs are called server, node and load.
    """

    service: Name
    port: Name = Field("http", description="which of its ports answers queries")
    scrape_interval: DurationField = Field(1.0, description="as its configuration has it")


class Source(Strict):
    """Where windows are read: a Prometheus, or a file that `benchstudy export` wrote."""

    name: Name
    url: str | None = Field(None, description="of a Prometheus, as the host with this role reaches it; no credentials")
    role: Name = Field("sut", description="on which of the target's hosts it is asked")
    bearer_env: str | None = Field(None, description="variable of the controller's environment with a bearer token")
    user: str | None = Field(None, description="for basic authentication, with password_env")
    password_env: str | None = Field(None, description="variable of the controller's environment with the password")
    file: str | None = Field(None, description="an export, relative to the project's folder")
    clock: Literal["prometheus", "utc"] | None = Field(
        None,
        description="whose times the windows have, should Prometheus' own clock be wrong: `prometheus`'s, as its "
        "graphs show them, or `utc`, corrected by the difference measured now; when left out, a wrong clock is refused",
    )
    scrape_interval: DurationField = Field(15.0, description="how often it scrapes the servers")
    ca_file: str | None = Field(
        None, description="on the host with the role: certificate of the authority of an https url"
    )

    exactly_one: ClassVar[tuple[str, ...]] = ("url", "file")

    @model_validator(mode="after")
    def _consistent(self) -> "Source":
        problem = self._problem()
        if problem:
            raise ValueError(f"source {self.name}: {problem}")
        return self

    def _problem(self) -> str | None:
        for field in ("bearer_env", "password_env"):
            variable = getattr(self, field)
            if variable is not None and not _VARIABLE.fullmatch(variable):
                # The text is not repeated: somebody may have put the secret itself there.
                return f"{field} must be the name of an environment variable, not the secret itself"
        if self.file is not None:
            given = [
                field for field in ("bearer_env", "user", "password_env", "clock", "ca_file") if getattr(self, field)
            ]
            if given:
                return f"a file needs no {', '.join(given)}: remove it"
            if self.file.startswith(("/", "~")) or ".." in self.file.split("/"):
                return (
                    f"file: {self.file!r}: give a path below the project's folder, so that the study can move with it"
                )
            return None
        return self._problem_of_url(self.url or "")

    def _problem_of_url(self, url: str) -> str | None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return "url: it is not an address such as http://prometheus.example:9090"
        if parts.username is not None or parts.password is not None:
            return "url: it holds credentials; take them out and give user and password_env, or bearer_env"
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            return f"url: {url!r} is not an address such as http://prometheus.example:9090"
        if (self.user is None) != (self.password_env is None):
            return "user and password_env go together"
        if self.bearer_env and self.user:
            return "give bearer_env, or user and password_env, not both"
        return None


class Window(Strict):
    """A stretch of time in which someone else had a release under load. The n-th of a case is its block n."""

    version: Name
    database: Name
    load: Name
    start: TimeField = Field(description="UTC, or with its time zone; without the ramp")
    end: TimeField
    select: str = Field("", description='matchers of the servers\' labels, such as `{instance=~"app.*"}`; all series '
                        "when left out")  # fmt: skip
    select_hosts: str = Field("", description="matchers of the hosts' labels, of node_*; those of select when left out")
    source: Name | None = Field(None, description="which of the sources; may be left out when there is one")

    @field_validator("select", "select_hosts")
    @classmethod
    def _matchers(cls, value: str) -> str:
        if value and not _MATCHERS.fullmatch(value.strip()):
            raise ValueError(f'{value!r} are no label matchers: write {{instance=~"app.*",job="server"}}')
        return value.strip()

    @model_validator(mode="after")
    def _in_order(self) -> "Window":
        length_s = (self.end - self.start).total_seconds()
        if length_s <= 0:
            raise ValueError(f"it ends ({self.end.isoformat()}) before it starts ({self.start.isoformat()})")
        if length_s < _LEAST_WINDOW_S:
            raise ValueError(f"it is {length_s:g} s long, and below {_LEAST_WINDOW_S:g} s there is no rate to compute")
        return self

    @property
    def levels(self) -> dict[str, str]:
        return {"database": self.database, "version": self.version, "load": self.load}

    def overlaps(self, other: "Window") -> bool:
        return self.start < other.end and other.start < self.end


class LoadTestConfig(FamilyConfig):
    """Releases of a server under the same load, compared by what a Prometheus saw: run here, or by someone else."""

    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {
        "versions": TakesSystem(None),
        "databases": TakesSystem(),
        "prometheus": TakesSystem(),
    }

    versions: list[Version] = Field([], description="the first is the base; with windows, in their order if left out")
    databases: list[Database] = Field([], description="as versions")
    loads: list[LoadLevel] = Field([], description="bounded ones, and unbounded ones")
    behaviour: Behaviour = Behaviour()
    system: System = System()
    prometheus: Monitor | None = Field(None, description="of each trial that is run here")
    metrics: MetricNames = MetricNames()
    windows: list[Window] = Field([], description="of a load that someone else ran: nothing is started, only read")
    sources: list[Source] = Field([], description="where the windows are read")

    @model_validator(mode="before")
    @classmethod
    def _a_block_for_each_window(cls, value: Any) -> Any:
        """As many blocks as each case has windows, unless the study says fewer."""
        if not isinstance(value, Mapping) or not value.get("windows") or value.get("blocks") is not None:
            return value
        windows = [w for w in value["windows"] if isinstance(w, Mapping)] if isinstance(value["windows"], list) else []
        counts = Counter((str(w.get("database")), str(w.get("version")), str(w.get("load"))) for w in windows)
        return {**value, "blocks": min(counts.values())} if counts else value

    @model_validator(mode="after")
    def _consistent(self) -> "LoadTestConfig":
        require_each_once(
            versions=[version.name for version in self.versions],
            databases=[database.name for database in self.databases],
            loads=[load.name for load in self.loads],
            sources=[source.name for source in self.sources],
        )
        if self.windows:
            self._check_windows()
        else:
            self._check_run()
        return self

    def unfit(self) -> Iterator[str]:
        """A load must have time for a window after its start-up, or it never has a result."""
        for load in self.loads:
            rule = load.rule
            if rule is not None and rule.at_most <= rule.start_up + rule.window:
                yield (
                    f"load {load.name}: rule: at_most: {rule.at_most:g} s leave no time for a window of "
                    f"{rule.window:g} s after ignore_first and alert_window, {rule.start_up:g} s: raise it"
                )

    @property
    def scraped(self) -> bool:
        """Whether someone else ran the load."""
        return bool(self.windows)

    # --- run -----------------------------------------------------------------------------------------------------

    def _check_run(self) -> None:
        if self.sources:
            raise ValueError("sources: nothing is read from them without windows: [{version: …, start: …, end: …}]")
        needed = {"versions": self.versions, "databases": self.databases, "loads": self.loads}
        missing = [name for name, items in needed.items() if not items] + ["prometheus"] * (self.prometheus is None)
        if missing:
            raise ValueError(
                f"{', '.join(missing)}: to run a load, versions, databases, loads and prometheus are needed; to read "
                "what someone else ran, windows and sources"
            )
        for database in self.databases:
            if database.service is None:
                raise ValueError(f"database {database.name}: give service, the name of one below services")
            check_service(f"database {database.name}", database.service, self.services)
        for number, version in enumerate(self.versions):
            self._check_version(version, [other.name for other in self.versions[:number]])
        self._check_monitor()
        for load in self.loads:
            if load.longest_s + _AROUND_S > self.timeout:
                raise ValueError(
                    f"load {load.name}: it may take {load.longest_s:g} s and its users {_AROUND_S:g} s to come and go, "
                    f"above the timeout of {self.timeout:g} s: set timeout to at least {load.longest_s + _AROUND_S:g}s"
                )

    def _check_version(self, version: Version, earlier: list[str]) -> None:
        where = f"version {version.name}"
        if version.same_as is not None:
            if version.services:
                raise ValueError(f"{where}: it is the same_as {version.same_as}, so that it has no services of its own")
            if version.same_as not in earlier or self.version(version.same_as).same_as is not None:
                raise ValueError(f"{where}: same_as: {version.same_as!r} is no version above it with services")
            return
        databases = [database.name for database in self.databases]
        for name in version.services:
            require_known(name, databases, f"{where}: services: {name!r} is none of the databases")
        for database in databases:
            if database not in version.services:
                raise ValueError(f"{where}: services: it has none for database {database}")
            check_port(where, version.services[database], self.system.port, self.services)

    def _check_monitor(self) -> None:
        assert self.prometheus is not None
        name = self.prometheus.service
        service = check_port("prometheus", name, self.prometheus.port, self.services)
        for other in service.needs:
            check_service(f"service {name}", other, self.services)
        for file, text in service.files.items():
            for found in _SCRAPE_INTERVAL.findall(text):
                if parse_duration(found) != self.prometheus.scrape_interval:
                    raise ValueError(
                        f"prometheus: scrape_interval: {self.prometheus.scrape_interval:g} s, and {file} of service "
                        f"{name} says {found}: give both the same"
                    )

    def version(self, name: str) -> Version:
        return next(version for version in self.versions if version.name == name)

    def database(self, name: str) -> Database:
        return next(database for database in self.databases if database.name == name)

    def load(self, name: str) -> LoadLevel:
        return next(load for load in self.loads if load.name == name)

    def server(self, version: str, database: str) -> Name:
        """The service that is a release's server on a database."""
        found = self.version(version)
        return self.version(found.same_as or found.name).services[database]

    # --- scraped -------------------------------------------------------------------------------------------------

    def _check_windows(self) -> None:
        given = [name for name in ("loads", "prometheus", "services") if getattr(self, name)]
        if given:
            raise ValueError(
                f"windows: someone else ran the load, so there is no use for {', '.join(given)}: remove them"
            )
        if not self.sources:
            raise ValueError("windows: they need sources: [{name: …, url: …}], or a file")
        now = datetime.now(UTC)
        for number, window in enumerate(self.windows):
            where = f"windows[{number}]"
            self._check_names(where, window)
            if window.end > now:
                raise ValueError(
                    f"{where}: it lies in the future: it ends at {window.end.isoformat()}, and it is "
                    f"{now.isoformat(timespec='seconds')}; wait until it is over, or mend its year or time zone"
                )
        for (first, one), (second, other) in combinations(enumerate(self.windows), 2):
            self._check_apart(f"windows[{first}]", one, f"windows[{second}]", other)
        self._check_counts()

    def _check_names(self, where: str, window: Window) -> None:
        for field, items in (("version", self.versions), ("database", self.databases)):
            names = [item.name for item in items]
            name = getattr(window, field)
            if names:
                require_known(name, names, f"{where}.{field}: {name!r} is not among the {field}s")
        names = [source.name for source in self.sources]
        if window.source is None and len(names) > 1:
            raise ValueError(f"{where}.source: say which of {', '.join(names)} it is read from")
        if window.source is not None:
            require_known(window.source, names, f"{where}.source: {window.source!r} is not among the sources")

    def _check_apart(self, where: str, one: Window, elsewhere: str, other: Window) -> None:
        if not one.overlaps(other):
            return
        same_servers = (self.source(one).name, one.select) == (self.source(other).name, other.select)
        if one.levels == other.levels or same_servers:
            what = "of one case" if one.levels == other.levels else "of the same servers"
            raise ValueError(
                f"{where} and {elsewhere} overlap from {max(one.start, other.start).isoformat()} to "
                f"{min(one.end, other.end).isoformat()}: windows {what} must not share samples; mend their times"
            )

    def _check_counts(self) -> None:
        counts = Counter(tuple(window.levels.values()) for window in self.windows)
        fewest, most = min(counts, key=lambda key: counts[key]), max(counts, key=lambda key: counts[key])
        if not isinstance(self.blocks, int):
            raise ValueError("blocks: with windows it is their number for each case, and no range; leave it out")
        if counts[fewest] < self.blocks:
            raise ValueError(
                f"windows: {' / '.join(fewest)} has {counts[fewest]}, and there are {self.blocks} blocks that take one "
                "each: add windows, or lower blocks"
            )
        if counts[fewest] != counts[most]:
            raise ValueError(
                f"windows: {' / '.join(most)} has {counts[most]}, and {' / '.join(fewest)} has {counts[fewest]}: each "
                "combination of database, version and load needs as many, because block n takes the n-th of each"
            )

    def source(self, window: Window) -> Source:
        return next(source for source in self.sources if window.source in (None, source.name))

    def windows_of(self, levels: Mapping[str, str]) -> list[Window]:
        """Of a case, in the order of its blocks."""
        return [window for window in self.windows if window.levels == levels]

    # --- levels --------------------------------------------------------------------------------------------------

    @property
    def version_names(self) -> list[str]:
        """In the study's order: as listed, else as the windows name them first."""
        return [version.name for version in self.versions] or self._named("version")

    @property
    def database_names(self) -> list[str]:
        return [database.name for database in self.databases] or self._named("database")

    @property
    def load_names(self) -> list[str]:
        return [load.name for load in self.loads] or self._named("load")

    def _named(self, field: str) -> list[str]:
        return list(dict.fromkeys(getattr(window, field) for window in self.windows))

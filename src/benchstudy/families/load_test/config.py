"""The study's block for load_test: releases, databases and loads to run, or time windows to read."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from benchstudy.families.load_test.users.config import Behaviour, LoadLevel
from benchstudy.model.family import FamilyConfig, TakesSystem
from benchstudy.model.names import Name, require_known
from benchstudy.model.references import own_values, texts_of, unfilled
from benchstudy.model.services import check_port, check_service, needed
from benchstudy.model.strict import Spelled, Strict
from benchstudy.model.units import TimeoutField, parse_duration

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:./-]*")  # OpenTelemetry and Prometheus 3 also use dots and the like
_LABEL = r'(?:[A-Za-z_][A-Za-z0-9_]*|"(?:[^"\\]|\\.)+")'
_MATCHERS = re.compile(rf'\{{\s*(?:{_LABEL}\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*(?:,\s*|(?=\}})))*\}}')
_SCRAPE_INTERVAL = re.compile(r"(?m)^[^#\n]*?\bscrape_interval:\s*['\"]?([0-9a-z]+)")
_AROUND_S = 120.0  # around a load, for its users to come and go
_LEAST_WINDOW_S = 10.0  # a rate over a shorter window would have hardly two scrapes


def parse_time(value: Any) -> datetime:
    """Parse a time as a study writes it, such as "2024-09-10T10:00:00Z", to UTC. Raises ValueError."""
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
        raise ValueError(f"{value!s} has no time zone: {example}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value!s} is out of range: {example}") from None


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


# Of the load, by name: a trial finds free ones before its Prometheus starts.
LOAD_PORTS = ("metrics", "master")


class Version(Strict):
    """A release of the system under test. The first one is the base for comparisons."""

    name: Name
    label: str = Field("", description="name in tables; defaults to `name`")
    services: dict[Name, Name] = Field({}, description="database to service: this release's server on that database")
    same_as: Name | None = Field(
        None, description="an earlier release, measured again under this name to show the study's own variance (A/A)"
    )


class Database(Strict):
    """A database of the system under test."""

    name: Name
    label: str = Field("", description="name in tables, with the version: PostgreSQL 15; defaults to `name`")
    service: Name | None = Field(
        None, description="the service that is its server and holds the data set; each trial starts its own"
    )


class SaidVersion(Strict):
    """Where a server reports its version: a key of a JSON object."""

    path: Annotated[str, Spelled("^/", "a path that begins with /")] = Field(
        description="path of a GET request without login"
    )
    key: str


class MetricNames(Strict):
    """Names of the system's metrics and their labels, if they differ from Mattermost's."""

    api: str | None = Field(None, description="histogram of API times in s, without _bucket, _sum, _count")
    api_label: str | None = Field(None, description="label of `api` that names the call, such as `handler`")
    store: str | None = Field(None, description="histogram of database call times in s")
    store_label: str | None = Field(None, description="label of `store` that names the call, such as `method`")
    status_label: str | None = Field(None, description="label of `api` that holds the HTTP status")
    requests: str | None = Field(None, description="counter of requests")
    errors: str | None = Field(None, description="counter of failed requests, if `api` has no status_label")
    devices: str | None = Field(None, description="gauge of connected users")
    cpu: str | None = Field(None, description="counter of processor time, s")
    started: str | None = Field(None, description="gauge of the process start time, Unix s")
    goroutines: str | None = Field(None, description="gauge of goroutines")
    heap: str | None = Field(None, description="gauge of the heap in use, B")
    stack: str | None = Field(None, description="gauge of the stack in use, B")

    @field_validator("*")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and not _METRIC.fullmatch(value):
            raise ValueError(f"{value!r} is not a name of a metric or label: use letters, digits and _ : . / -")
        return value

    @property
    def given(self) -> dict[str, str]:
        return self.model_dump(exclude_none=True)


class System(Strict):
    """Properties of the system under test that all its releases share."""

    port: Name = Field("http", description="the server's port that users connect to")
    accounts: str = Field(
        "{{dataset.dir}}/accounts.json",
        description="file with the users and counts of the data set, on the host of the service that it names; "
        "{{database.dir}} is the folder of the trial's database",
    )
    version: SaidVersion | None = Field(
        None, description="where each server reports its version, which is kept with the trial"
    )


class Monitor(Strict):
    """The Prometheus of a trial. Each trial starts its own, with the services that it needs (such as node exporter).

    Its files may use placeholders of the trial's server, such as `{{server.bind}}` and `{{server.port.metrics}}`, and
    `{{load.bind}}` and `{{load.port.metrics}}`. Its jobs must be named server, node and load.
    """

    service: Name
    port: Name = Field("http", description="its port for queries")
    scrape_interval: TimeoutField = Field(1.0, description="the scrape interval in its configuration")


class Source(Strict):
    """Where windows are read from: a Prometheus, or a file that `benchstudy export` wrote."""

    name: Name
    url: str | None = Field(
        None, description="URL of a Prometheus, as seen from the host with `role`; without credentials"
    )
    role: Name = Field("sut", description="role of the host that queries it")
    bearer_env: str | None = Field(None, description="environment variable of the controller that holds a bearer token")
    user: str | None = Field(None, description="user for basic authentication; needs password_env")
    password_env: str | None = Field(None, description="environment variable of the controller that holds the password")
    file: str | None = Field(None, description="exported file, relative to the project's folder")
    clock: Literal["prometheus", "utc"] | None = Field(
        None,
        description="clock of the windows' times, if Prometheus' clock is wrong: `prometheus` for times as in its "
        "graphs, `utc` for true times, which are corrected by the measured difference; without it, a wrong clock is "
        "refused",
    )
    scrape_interval: TimeoutField = Field(15.0, description="interval at which it scrapes the servers")
    ca_file: str | None = Field(None, description="CA certificate for an https URL, as a path on the host with `role`")

    exactly_one: ClassVar[tuple[str, ...]] = ("url", "file")

    @model_validator(mode="after")
    def _consistent(self) -> "Source":
        if problem := self._problem():
            raise ValueError(problem)
        return self

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError("it is not an address such as http://prometheus.example:9090") from error
        if parts.username is not None or parts.password is not None:
            raise ValueError("it holds credentials; remove them and give user and password_env, or bearer_env")
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not an address such as http://prometheus.example:9090")
        return url

    def _problem(self) -> str | None:
        for field in ("bearer_env", "password_env"):
            variable = getattr(self, field)
            if variable is not None and not _VARIABLE.fullmatch(variable):
                # The message does not repeat the text, which may be the secret itself.
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
        if (self.user is None) != (self.password_env is None):
            return "user and password_env go together"
        if self.bearer_env and self.user:
            return "give bearer_env, or user and password_env, not both"
        return None


class Window(Strict):
    """A time window in which someone else put a release under load. The n-th window of a case is its block n."""

    version: Name
    database: Name
    load: Name
    start: TimeField = Field(description="start with its time zone, after the ramp")
    end: TimeField = Field(description="end with its time zone")
    select: str = Field("", description='label matchers of the servers, such as `{instance=~"app.*"}`; defaults to all '
                        "series")  # fmt: skip
    select_hosts: str = Field("", description="label matchers of the hosts' node_* metrics; defaults to `select`")
    source: Name | None = Field(None, description="name of the source; optional if there is only one")

    @field_validator("select", "select_hosts")
    @classmethod
    def _matchers(cls, value: str) -> str:
        if value and not _MATCHERS.fullmatch(value.strip()):
            raise ValueError(f'{value!r} is not a set of label matchers: write {{instance=~"app.*",job="server"}}')
        return value.strip()

    @model_validator(mode="after")
    def _in_order(self) -> "Window":
        length_s = (self.end - self.start).total_seconds()
        if length_s <= 0:
            raise ValueError(f"it ends ({self.end.isoformat()}) before it starts ({self.start.isoformat()})")
        if length_s < _LEAST_WINDOW_S:
            raise ValueError(f"it is {length_s:g} s long; a rate needs at least {_LEAST_WINDOW_S:g} s")
        return self

    @property
    def levels(self) -> dict[str, str]:
        return {"database": self.database, "version": self.version, "load": self.load}

    def overlaps(self, other: "Window") -> bool:
        return self.start < other.end and other.start < self.end


class LoadTestConfig(FamilyConfig):
    """Compares releases of a server under the same load by Prometheus' samples; the study or someone else runs it."""

    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {
        "versions": TakesSystem(None),
        "databases": TakesSystem(),
        "prometheus": TakesSystem(),
    }

    versions: list[Version] = Field([], description="releases, base first; with windows, defaults to their order")
    databases: list[Database] = Field([], description="databases; with windows, defaults to their order")
    loads: list[LoadLevel] = Field([], description="bounded and unbounded loads")
    behaviour: Behaviour = Behaviour()
    system: System = System()
    prometheus: Monitor | None = Field(None, description="the Prometheus of each trial that the study runs")
    metrics: MetricNames = MetricNames()
    windows: list[Window] = Field(
        [], description="windows of loads that someone else ran: the study starts nothing and only reads"
    )
    sources: list[Source] = Field([], description="where the windows are read from")

    @model_validator(mode="before")
    @classmethod
    def _a_block_for_each_window(cls, value: Any) -> Any:
        """Default `blocks` to the number of windows per case."""
        if not isinstance(value, Mapping) or not value.get("windows") or value.get("blocks") is not None:
            return value
        windows = [w for w in value["windows"] if isinstance(w, Mapping)] if isinstance(value["windows"], list) else []
        counts = Counter((str(w.get("database")), str(w.get("version")), str(w.get("load"))) for w in windows)
        return {**value, "blocks": min(counts.values())} if counts else value

    @model_validator(mode="after")
    def _consistent(self) -> "LoadTestConfig":
        self.names_each_once("versions", "databases", "loads", "sources")
        if self.windows:
            self._check_windows()
        else:
            self._check_run()
        return self

    def unfit(self) -> Iterator[str]:
        """Problems of loads that leave no time for a window after the start-up, and so never have a result. And
        placeholders that nothing fills in.
        """
        for load in self.loads:
            rule = load.rule
            if rule is not None and rule.at_most <= rule.start_up + rule.window:
                yield (
                    f"load {load.name}: rule: at_most: {rule.at_most:g} s leaves no time for a window of "
                    f"{rule.window:g} s after ignore_first and alert_window, {rule.start_up:g} s: raise it"
                )
        if self.loads:
            yield from dict.fromkeys(self._unfilled())

    def _unfilled(self) -> Iterator[str]:
        """Placeholders that no trial fills: of the accounts, and of the server and the load for Prometheus."""
        name = self.monitor.service
        of_monitor = [text for texts in texts_of(self.services[name]).values() for text in texts]
        of_load = [f"load.{value}" for value in ("bind", *(f"port.{port}" for port in LOAD_PORTS))]
        for server in (self.server(version.name, on.name) for version in self.versions for on in self.databases):
            folders = [f"{owner}.dir" for owner in ("database", *needed(self.services, [server]))]
            yield from unfilled("system.accounts", [self.system.accounts], server, self.services, folders)
            of_server = [f"server.{value}" for value in own_values(self.services[server])]
            yield from unfilled(f"services.{name}", of_monitor, name, self.services, [*of_server, *of_load])

    @property
    def scraped(self) -> bool:
        """Whether someone else ran the load."""
        return bool(self.windows)

    @property
    def monitor(self) -> Monitor:
        """`prometheus`, which every study has that runs its loads."""
        assert self.prometheus is not None, "only windows are read without it"
        return self.prometheus

    # --- run -----------------------------------------------------------------------------------------------------

    def _check_run(self) -> None:
        if self.sources:
            raise ValueError("sources: they are used with windows only; add windows: [{version: …, start: …, end: …}]")
        needed = {"versions": self.versions, "databases": self.databases, "loads": self.loads}
        missing = [name for name, items in needed.items() if not items] + ["prometheus"] * (self.prometheus is None)
        if missing:
            raise ValueError(
                f"{', '.join(missing)}: missing. To run a load, give versions, databases, loads and prometheus; to "
                "read a load that someone else ran, give windows and sources"
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
                    f"load {load.name}: it may take {load.longest_s:g} s, plus {_AROUND_S:g} s for its users, "
                    f"above the timeout of {self.timeout:g} s: set timeout to at least {load.longest_s + _AROUND_S:g}s"
                )

    def _check_version(self, version: Version, earlier: list[str]) -> None:
        where = f"version {version.name}"
        if version.same_as is not None:
            if version.services:
                raise ValueError(f"{where}: it is the same_as {version.same_as}; remove its services")
            if version.same_as not in earlier or self.version(version.same_as).same_as is not None:
                raise ValueError(f"{where}: same_as: {version.same_as!r} is not an earlier version with services")
            return
        databases = [database.name for database in self.databases]
        for name in version.services:
            require_known(name, databases, f"{where}: services: {name!r} is not among the databases")
        for database in databases:
            if database not in version.services:
                raise ValueError(f"{where}: services: there is none for database {database}")
            check_port(where, version.services[database], self.system.port, self.services)

    def _check_monitor(self) -> None:
        name, interval_s = self.monitor.service, self.monitor.scrape_interval
        service = check_port("prometheus", name, self.monitor.port, self.services)
        for other in service.needs:
            check_service(f"service {name}", other, self.services)
        for file, text in service.files.items():
            for found in _SCRAPE_INTERVAL.findall(text):
                if parse_duration(found) != interval_s:
                    raise ValueError(
                        f"prometheus: scrape_interval: {interval_s:g} s, and {file} of service {name} says {found}: "
                        "give both the same"
                    )

    def version(self, name: str) -> Version:
        return next(version for version in self.versions if version.name == name)

    def database(self, name: str) -> Database:
        return next(database for database in self.databases if database.name == name)

    def load(self, name: str) -> LoadLevel:
        return next(load for load in self.loads if load.name == name)

    def server(self, version: str, database: str) -> Name:
        """The name of the service that runs a release on a database."""
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
            raise ValueError("windows: they need sources: add [{name: …, url: …}], or one with a file")
        now = datetime.now(UTC)
        for number, window in enumerate(self.windows):
            where = f"windows[{number}]"
            self._check_names(where, window)
            if window.end > now:
                raise ValueError(
                    f"{where}: it lies in the future: it ends at {window.end.isoformat()}, and now it is "
                    f"{now.isoformat(timespec='seconds')}; wait until it is over, or correct its year or time zone"
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
            raise ValueError(f"{where}.source: name the source that it is read from: {', '.join(names)}")
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
                f"{min(one.end, other.end).isoformat()}: windows {what} must not share samples; correct their times"
            )

    def _check_counts(self) -> None:
        counts = Counter(tuple(window.levels.values()) for window in self.windows)
        fewest, most = min(counts, key=lambda key: counts[key]), max(counts, key=lambda key: counts[key])
        if not isinstance(self.blocks, int):
            raise ValueError("blocks: with windows it is the number of windows per case, not a range; leave it out")
        if counts[fewest] < self.blocks:
            raise ValueError(
                f"windows: {' / '.join(fewest)} has {counts[fewest]}, but {self.blocks} blocks need one each: add "
                "windows, or lower blocks"
            )
        if counts[fewest] != counts[most]:
            raise ValueError(
                f"windows: {' / '.join(most)} has {counts[most]}, and {' / '.join(fewest)} has {counts[fewest]}: give "
                "each combination of database, version and load equally many, because block n takes the n-th of each"
            )

    @property
    def own_roles(self) -> Mapping[str, str]:
        return {f"sources.{source.name}": source.role for source in self.sources if source.url}

    @property
    def secret_variables(self) -> dict[str, str]:
        of = {
            f"sources.{source.name}.{field}": variable
            for source in self.sources
            for field in ("bearer_env", "password_env")
            if (variable := getattr(source, field))
        }
        return super().secret_variables | of

    def source(self, window: Window) -> Source:
        return next(source for source in self.sources if window.source in (None, source.name))

    def windows_of(self, levels: Mapping[str, str]) -> list[Window]:
        """The windows of a case, in the order of its blocks."""
        return [window for window in self.windows if window.levels == levels]

    # --- levels --------------------------------------------------------------------------------------------------

    def names(self, field: str) -> list[str]:
        """Versions, databases or loads as the study lists them, else in the order in which its windows name them."""
        listed = [item.name for item in getattr(self, f"{field}s")]
        return listed or list(dict.fromkeys(getattr(window, field) for window in self.windows))

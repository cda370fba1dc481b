"""What a study says about the family http_concurrency: servers, their endpoints, limits, generators, and sweeps."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from benchstudy.families.shared.levels import (
    UNLIMITED,
    Limit,
    Rate,
    RateField,
    check_chosen,
    misplaced_option,
)
from benchstudy.model.clients import LoadedByClients
from benchstudy.model.criteria import LEAST_CEILING_S
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import Name, require_each_once
from benchstudy.model.services import check_port
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField

CEILING = "null"  # the level of the factor endpoint for a server that only shows what the generator can do
COUNTER = "{{n}}"  # in a path: a number that no other request of the trial has
_ENV = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
# Requests a second: more than it makes on any machine, so that its time ends it. It reserves 40 bytes for each of them.
_MOST_OF_AB = 1_000_000
_MOST_AT_ONCE = 60_000
_LINE = re.compile(r"[^\r\n\0]*")

Tool = Literal["ab", "wrk", "k6"]
_FOR_ONE_TOOL = {"threads": "wrk", "check_answers": "wrk", "survive_errors": "ab", "max_in_flight": "k6"}


def env_names(*texts: str | None) -> list[str]:
    """The variables named in {{env.NAME}}, each once."""
    return sorted({name for text in texts if text for name in _ENV.findall(text)})


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not _LINE.fullmatch(value):
            raise ValueError(f"header {name!r}: a name without blanks, and a value on one line")
        if name.lower() in ("host", "connection", "content-length"):
            raise ValueError(f"header {name!r} is the generator's own affair")
    return headers


def _checked_concurrency(values: list[int]) -> list[int]:
    wrong: list[Any] = [value for value in values if not 1 <= value <= _MOST_AT_ONCE]
    if wrong:
        raise ValueError(
            f"{wrong[0]} requests at once: give 1 to {_MOST_AT_ONCE}, the ports one address has for a client"
        )
    return values


Headers = Annotated[dict[str, str], AfterValidator(_checked_headers)]
Concurrency = Annotated[
    list[int],
    AfterValidator(_checked_concurrency),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": _MOST_AT_ONCE}}),
]


class Expect(Strict):
    """How a right answer looks. A login page answers 200 as well, so the status alone is not enough."""

    status: int = Field(200, ge=100, le=599)
    length: int | None = Field(None, ge=0, description="bytes of the body")
    content_type: str | None = Field(None, description="what the header Content-Type begins with")
    json_keys: list[str] = Field([], description="keys that the body, a JSON object, has at its top")
    text: str | None = Field(None, description="what the body contains")

    @model_validator(mode="after")
    def _tells_a_login_page(self) -> "Expect":
        if self.length is None and not (self.content_type or self.json_keys or self.text):
            raise ValueError("give length, content_type, json_keys or text: a login page answers 200 as well")
        return self


class Walk(Strict):
    """Every request asks for another number, put in for {{n}}, so that no cache can answer."""

    first: int = Field(1, ge=0)
    last: int = Field(description="the numbers must last for the warm-up, which takes the last quarter, and the load")

    @model_validator(mode="after")
    def _long_enough(self) -> "Walk":
        if self.last - self.first < 15:
            raise ValueError(f"{self.first} to {self.last}: give at least 16 numbers")
        return self

    @property
    def warm_up_first(self) -> int:
        """Where the last quarter begins; the load has what is before."""
        return self.last - (self.last - self.first + 1) // 4


class Endpoint(Strict):
    """One address of a server: what is asked for, and how it must answer."""

    name: Name
    path: str = Field(
        description="with its query, beginning with /; {{n}} with `walk`", json_schema_extra={"pattern": "^/"}
    )
    headers: Headers = Field({}, description="may hold {{token}}, {{secret.NAME}}, {{env.NAME}}")
    expect: Expect
    same_length: bool = Field(True, description="false: right answers differ in length (ab -l)")
    walk: Walk | None = None
    leaves: str | None = Field(
        None, description="files below {{dir}} (a pattern, ** allowed) of which each request must leave one more"
    )

    @field_validator("path")
    @classmethod
    def _a_path(cls, value: str) -> str:
        if not value.startswith("/") or not value.isascii() or any(c.isspace() or not c.isprintable() for c in value):
            raise ValueError(f"{value!r}: begin with /, and write blanks and other letters as %20 and so on")
        return value

    @model_validator(mode="after")
    def _walk_and_counter(self) -> "Endpoint":
        if (COUNTER in self.path) != (self.walk is not None):
            raise ValueError(f"endpoint {self.name}: {COUNTER} in the path and `walk` belong together")
        return self

    @property
    def secret_env(self) -> list[str]:
        """Variables of the controller's environment that its headers hold."""
        return env_names(*self.headers.values())


class Token(Strict):
    """Where the answer to a login holds what further requests send as {{token}}: exactly one of the three."""

    json_key: str | None = Field(None, description="a key of its JSON")
    cookie: str | None = None
    header: str | None = None

    exactly_one: ClassVar[tuple[str, ...]] = ("json_key", "cookie", "header")


class Login(Strict):
    """One request made before a server is measured. Texts may hold {{secret.NAME}} of the service, {{env.NAME}}."""

    method: Literal["GET", "POST", "PUT"] = "POST"
    path: str
    headers: Headers = Field({})
    user: str | None = Field(None, description="for HTTP Basic, with `password`")
    password: str | None = None
    form: dict[str, str] = Field({}, description="sent as application/x-www-form-urlencoded")
    json_body: dict[str, str] = Field({}, description="sent as application/json")
    status: int = Field(200, ge=100, le=599, description="of the answer")
    token: Token

    @model_validator(mode="after")
    def _consistent(self) -> "Login":
        if (self.user is None) != (self.password is None):
            raise ValueError("login: give user and password, or neither")
        if self.form and self.json_body:
            raise ValueError("login: give form or json_body, not both")
        if not self.path.startswith("/"):
            raise ValueError(f"login: path {self.path!r}: begin with /")
        return self

    @property
    def secret_env(self) -> list[str]:
        """Variables of the controller's environment that it needs."""
        return env_names(
            self.user, self.password, *self.headers.values(), *self.form.values(), *self.json_body.values()
        )


class Server(Strict):
    """A server under test: a service of the study, started afresh for each trial, and its endpoints."""

    name: Name
    service: Name = Field(description="the service below `services` that is it")
    port: Name = Field("http", description="which of the service's ports")
    ceiling: bool = Field(
        False, description="a null server: it does as good as nothing and shows what the generator itself can do"
    )
    ceiling_time: DurationField | None = Field(
        None, description="of a null server: it is asked for so long at least, whatever the generator's own number is"
    )
    login: Login | None = None
    endpoints: list[Endpoint] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Server":
        names = [endpoint.name for endpoint in self.endpoints]
        if len(set(names)) < len(names):
            raise ValueError(f"server {self.name}: two endpoints have one name")
        if self.ceiling and len(names) != 1:
            raise ValueError(f"server {self.name}: with `ceiling: true` it has one endpoint, the cheapest there is")
        time_s = self.ceiling_time
        if time_s is not None and not (self.ceiling and time_s >= LEAST_CEILING_S and time_s == int(time_s)):
            raise ValueError(
                f"server {self.name}: ceiling_time: {time_s:g} s: it is for servers with `ceiling: true`, and whole "
                f"seconds, {LEAST_CEILING_S:g}s at least"
            )
        for endpoint in self.endpoints:
            if self.login is None and any("{{token}}" in text for text in endpoint.headers.values()):
                raise ValueError(f"server {self.name}, endpoint {endpoint.name}: {{{{token}}}} needs a `login`")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_new(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A study's hash must stay what it was before there was a `ceiling_time`."""
        return {key: value for key, value in dump(self).items() if (key, value) != ("ceiling_time", None)}

    @property
    def secret_env(self) -> list[str]:
        """Variables of the controller's environment that its endpoints and its login need."""
        of_login = self.login.secret_env if self.login else []
        return sorted({*of_login, *(name for endpoint in self.endpoints for name in endpoint.secret_env)})

    def level(self, endpoint: Endpoint) -> str:
        return CEILING if self.ceiling else endpoint.name

    def endpoint(self, level: str) -> Endpoint:
        return next(endpoint for endpoint in self.endpoints if self.level(endpoint) == level)


class Generator(Strict):
    """A load generator and how long it loads. ab and wrk are closed loops (a new request when the last was answered),
    k6 is an open one (requests begin at a rate, however slow the answers are).
    """

    name: Name
    tool: Tool
    requests: int | None = Field(None, ge=1, description="of ab")
    duration: DurationField | None = Field(None, description="of wrk and k6; of ab: at most this long")
    warm_up: int | DurationField | None = Field(
        None, description="the same load before, not counted: requests for ab, a duration for wrk and k6; 0 for none"
    )
    threads: int = Field(1, ge=1, le=1024, description="of wrk")
    max_in_flight: int = Field(
        200, ge=1, le=60_000, description="of k6: requests under way; one that is due beyond it is dropped, and counted"
    )
    cpus: int | None = Field(None, ge=1, description="as many CPUs as it may use, beside the server's where there are")
    request_timeout: DurationField = Field(30.0, description="after this an answer counts as missing")
    check_answers: bool = Field(True, description="of wrk: false leaves answers unlooked at, half of its work")
    survive_errors: bool = Field(False, description="of ab: go on after a broken connection (-r) instead of giving up")

    @field_validator("duration", "request_timeout")
    @classmethod
    def _some_time(cls, value: float | None) -> float | None:
        if value is not None and value <= 0:
            raise ValueError("give a time above zero")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Generator":
        problem = self._problem()
        if problem:
            raise ValueError(f"generator {self.name}: {problem}")
        return self

    def _problem(self) -> str | None:
        times = [time for time in (self.duration, self.warm_up) if isinstance(time, float)]
        if self.tool == "ab":
            if self.requests is None:
                return "ab needs requests, its -n; with a duration it ends at whichever comes first"
        else:
            if self.requests is not None or self.duration is None:
                return f"{self.tool} needs a duration, and no requests"
            if isinstance(self.warm_up, int):
                return f"{self.tool} needs a duration as warm_up"
        if self.tool != "k6" and any(time != int(time) for time in (*times, self.request_timeout)):
            return f"{self.tool} takes whole seconds only"
        return misplaced_option(self, _FOR_ONE_TOOL)

    @property
    def is_open(self) -> bool:
        return self.tool == "k6"

    def at_least(self, seconds: float | None) -> "Generator":
        """The same load, for so long at least. ab ends at the time, too: not after a number of requests."""
        if seconds is None:
            return self
        duration = max(self.duration or 0.0, seconds)
        if self.tool != "ab":
            return self.model_copy(update={"duration": duration})
        most = max(self.requests or 0, round(_MOST_OF_AB * duration))
        return self.model_copy(update={"duration": duration, "requests": most})


class Sweep(Strict):
    """Cases to measure: every combination of what is listed. What is left out stands for all there is."""

    servers: list[Name] | None = Field(None, description="those that are no ceiling, when left out")
    limits: list[Name] | None = Field(None, description="names, and `none`; all names when left out")
    endpoints: list[Name] | None = None
    generators: list[Name] | None = None
    concurrency: Concurrency | None = Field(None, description="for closed loops; the family's when left out")
    rates: list[RateField] | None = Field(None, description="for open loops; the family's when left out")


class HttpConcurrencyConfig(LoadedByClients):
    """Servers under limits, asked by generators at rising concurrency or rate."""

    needed: ClassVar[tuple[str, ...]] = ("servers", "generators")
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"servers": TakesSystem()}

    servers: list[Server] = Field([], min_length=1)
    limits: list[Limit] = Field([])
    generators: list[Generator] = Field([], min_length=1)
    concurrency: Concurrency = Field([], description="requests under way at once, for closed loops")
    rates: list[RateField] = Field([], description='requests begun a second, for open loops, such as "200/s"')
    sweeps: list[Sweep] = Field(
        [Sweep()],
        description="which combinations are measured; every one when left out. A server with `ceiling: true` is "
        "measured by itself at each generator and load that occurs",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "HttpConcurrencyConfig":
        require_each_once(
            servers=[server.name for server in self.servers],
            limits=[limit.name for limit in self.limits],
            generators=[generator.name for generator in self.generators],
        )
        for server in self.servers:
            check_port(f"server {server.name}", server.service, server.port, self.services)
        for number, sweep in enumerate(self.sweeps):
            self._check_names(f"sweeps[{number}]", sweep)
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """Connections, requests and rates are divided among clients, and each must have some."""
        generator = self.generator(case.levels["generator"])
        if "concurrency" in case.levels and int(case.levels["concurrency"]) < clients:
            n = case.levels["concurrency"]
            return f"concurrency: {n} cannot be divided among them: give {clients} or more, or fewer clients"
        if generator.is_open and generator.max_in_flight < clients:
            return f"generator {generator.name}: max_in_flight: {generator.max_in_flight} is fewer: give more of them"
        return None

    def unfit(self) -> Iterator[str]:
        """What begins with a load has connections, caches and code that are made on the way; a ceiling needs time."""
        used = {g.name: g for sweep in self.sweeps for g in self.chosen_generators(sweep)}.values()
        for generator in used:
            if generator.warm_up is None:
                example = "50" if generator.tool == "ab" else "1s"
                yield (
                    f"generator {generator.name}: warm_up: say what of the same load comes before, and is not counted, "
                    f"such as {example}; 0{'' if generator.tool == 'ab' else 's'} for none"
                )
        for server in (server for server in self.servers if server.ceiling):
            for generator in used:
                lasts_s = None if generator.tool == "ab" else generator.duration
                if server.ceiling_time is None and (lasts_s is None or lasts_s < LEAST_CEILING_S):
                    own = f"{generator.requests} requests" if lasts_s is None else f"{lasts_s:g} s"
                    yield (
                        f"server {server.name}: ceiling_time: {own} of {generator.name} may take milliseconds there, "
                        f"which is no ceiling: give {LEAST_CEILING_S:g}s or more"
                    )

    def _check_names(self, where: str, sweep: Sweep) -> None:
        known = {
            "servers": [server.name for server in self.servers if not server.ceiling],
            "limits": [UNLIMITED, *(limit.name for limit in self.limits)],
            "generators": [generator.name for generator in self.generators],
        }
        chosen = self.chosen_servers(sweep)
        known["endpoints"] = [endpoint.name for server in chosen for endpoint in server.endpoints]
        check_chosen(sweep, known, where)

    def chosen_servers(self, sweep: Sweep) -> list[Server]:
        return [s for s in self.servers if not s.ceiling and (sweep.servers is None or s.name in sweep.servers)]

    def chosen_generators(self, sweep: Sweep) -> list[Generator]:
        return [g for g in self.generators if sweep.generators is None or g.name in sweep.generators]

    def chosen_limits(self, sweep: Sweep) -> list[str]:
        return sweep.limits or [limit.name for limit in self.limits] or [UNLIMITED]

    def loads(self, sweep: Sweep, generator: Generator) -> list[int | Rate]:
        """What the generator is set to: connections, or rates."""
        if generator.is_open:
            return list(sweep.rates or self.rates)  # type: ignore[arg-type]
        return list(sweep.concurrency or self.concurrency)

    def server(self, name: str) -> Server:
        return next(server for server in self.servers if server.name == name)

    def generator(self, name: str) -> Generator:
        return next(generator for generator in self.generators if generator.name == name)

    def limit(self, name: str) -> Limit | None:
        return next((limit for limit in self.limits if limit.name == name), None)

"""Configuration of the family http_concurrency: servers, endpoints, limits, generators and sweeps."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from benchstudy.families.shared.levels import (
    UNLIMITED,
    Limit,
    Rate,
    RateField,
    check_chosen,
    check_differ,
    misplaced_option,
)
from benchstudy.model.clients import LoadedByClients
from benchstudy.model.criteria import LEAST_CEILING_S
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import EachOnce, Name, check_each_once
from benchstudy.model.references import unfilled
from benchstudy.model.services import PLACEHOLDER, check_port, needed
from benchstudy.model.strict import Extended, Strict
from benchstudy.model.units import CountOrDurationField, DurationField

CEILING = "null"  # the level of the factor `endpoint` for a null server, which shows the limit of the generator
COUNTER = "{{n}}"  # in a path: a number that is unique within the trial
_ENV = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
# Requests per second: more than ab reaches on any machine, so that its duration ends it. ab reserves 40 bytes for each.
_MOST_OF_AB = 1_000_000
_MOST_AT_ONCE = 60_000
_LINE = re.compile(r"[^\r\n\0]*")
_NOT_OF_A_SERVICE = re.compile(r"\{\{\s*(token|env\.[^{}]*)\s*\}\}")

Tool = Literal["ab", "wrk", "k6"]
_FOR_ONE_TOOL = {"threads": "wrk", "check_answers": "wrk", "survive_errors": "ab", "max_in_flight": "k6"}


def env_names(*texts: str | None) -> list[str]:
    """Return the sorted names of the variables in {{env.NAME}}, without duplicates."""
    return sorted({name for text in texts if text for name in _ENV.findall(text)})


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not _LINE.fullmatch(value):
            raise ValueError(f"header {name!r}: a name without blanks, and a value on one line")
        if name.lower() in ("host", "connection", "content-length"):
            raise ValueError(f"header {name!r}: the generator sets it: remove it")
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
    AfterValidator(check_each_once),
    WithJsonSchema(
        {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": _MOST_AT_ONCE}, "uniqueItems": True}
    ),
]


class Expect(Strict):
    """The expected response. A login page also returns 200, so the status alone is not enough."""

    status: int = Field(200, ge=100, le=599)
    length: int | None = Field(None, ge=0, description="size of the body in bytes")
    content_type: str | None = Field(None, description="prefix of the header Content-Type")
    json_keys: list[str] = Field([], description="top-level keys of the body, a JSON object")
    text: str | None = Field(None, description="text that the body contains")

    @model_validator(mode="after")
    def _tells_a_login_page(self) -> "Expect":
        if self.length is None and not (self.content_type or self.json_keys or self.text):
            raise ValueError("give length, content_type, json_keys or text: a login page also returns 200")
        return self


class Walk(Strict):
    """Each request has a different number in place of {{n}}, so that no cache can answer."""

    first: int = Field(1, ge=0)
    last: int = Field(description="last number; the warm-up uses the last quarter, and the load needs enough others")

    @model_validator(mode="after")
    def _long_enough(self) -> "Walk":
        if self.last - self.first < 15:
            raise ValueError(f"{self.first} to {self.last}: give at least 16 numbers")
        return self

    @property
    def warm_up_first(self) -> int:
        """The first number of the last quarter. The load uses the numbers before it."""
        return self.last - (self.last - self.first + 1) // 4


class Endpoint(Strict):
    """One address of a server: the request, and the expected response."""

    name: Name
    path: str = Field(
        description="path with query, starting with /; {{n}} with `walk`", json_schema_extra={"pattern": "^/"}
    )
    headers: Headers = Field({}, description="may hold {{token}}, {{secret.NAME}}, {{env.NAME}}")
    expect: Expect
    same_length: bool = Field(True, description="false: successful responses differ in length (ab -l)")
    walk: Walk | None = None
    leaves: str | None = Field(
        None, description="pattern of files below {{dir}} (** allowed); each request must create one more of them"
    )

    @field_validator("path")
    @classmethod
    def _a_path(cls, value: str) -> str:
        if not value.startswith("/") or not value.isascii() or any(c.isspace() or not c.isprintable() for c in value):
            raise ValueError(f"{value!r}: start with /, and percent-encode blanks and non-ASCII letters, such as %20")
        return value

    @model_validator(mode="after")
    def _walk_and_counter(self) -> "Endpoint":
        if (COUNTER in self.path) != (self.walk is not None):
            raise ValueError(f"endpoint {self.name}: {COUNTER} in the path and `walk` need each other")
        return self

    @property
    def secret_env(self) -> list[str]:
        """The environment variables of the controller that its headers use."""
        return env_names(*self.headers.values())


class Token(Strict):
    """The place of the token in the response to a login. Further requests send it as {{token}}. Give exactly one."""

    json_key: str | None = Field(None, description="key in the JSON of the response")
    cookie: str | None = None
    header: str | None = None

    exactly_one: ClassVar[tuple[str, ...]] = ("json_key", "cookie", "header")


class Login(Strict):
    """One request before a server is measured. Texts may contain {{secret.NAME}} of the service and {{env.NAME}}."""

    method: Literal["GET", "POST", "PUT"] = "POST"
    path: str
    headers: Headers = Field({})
    user: str | None = Field(None, description="for HTTP Basic, with `password`")
    password: str | None = None
    form: dict[str, str] = Field({}, description="sent as application/x-www-form-urlencoded")
    json_body: dict[str, str] = Field({}, description="sent as application/json")
    status: int = Field(200, ge=100, le=599, description="expected status of the response")
    token: Token

    @model_validator(mode="after")
    def _consistent(self) -> "Login":
        if (self.user is None) != (self.password is None):
            raise ValueError("login: give user and password, or neither")
        if self.form and self.json_body:
            raise ValueError("login: give form or json_body, not both")
        if not self.path.startswith("/"):
            raise ValueError(f"login: path {self.path!r}: start with /")
        return self

    @property
    def texts(self) -> list[str]:
        """What may contain placeholders."""
        basic = [self.user or "", self.password or ""]
        return [*basic, *self.headers.values(), *self.form.values(), *self.json_body.values()]

    @property
    def secret_env(self) -> list[str]:
        """The environment variables of the controller that the login needs."""
        return env_names(*self.texts)


class Server(Extended):
    """A server under test: a service of the study, which is restarted for each trial, and its endpoints."""

    name: Name
    service: Name = Field(description="name of its service in `services`")
    port: Name = Field("http", description="name of the service's port to use")
    ceiling: bool = Field(
        False, description="a null server, which does almost nothing per request and shows the limit of the generator"
    )
    ceiling_time: DurationField | None = Field(
        None, description="null server: minimum duration of the load, even if the generator's own number is smaller"
    )
    login: Login | None = None
    endpoints: list[Endpoint] = Field(min_length=1)

    added_later: ClassVar[tuple[str, ...]] = ("ceiling_time",)

    @model_validator(mode="after")
    def _consistent(self) -> "Server":
        names = [endpoint.name for endpoint in self.endpoints]
        if len(set(names)) < len(names):
            raise ValueError(f"server {self.name}: two endpoints have the same name")
        if self.ceiling and len(names) != 1:
            raise ValueError(f"server {self.name}: with `ceiling: true`, give exactly one endpoint, the cheapest one")
        time_s = self.ceiling_time
        if time_s is not None and not (self.ceiling and time_s >= LEAST_CEILING_S and time_s == int(time_s)):
            raise ValueError(
                f"server {self.name}: ceiling_time: {time_s:g} s: give it only with `ceiling: true`, in whole "
                f"seconds, at least {LEAST_CEILING_S:g}s"
            )
        for endpoint in self.endpoints:
            if self.login is None and any("{{token}}" in text for text in endpoint.headers.values()):
                raise ValueError(f"server {self.name}, endpoint {endpoint.name}: {{{{token}}}} needs a `login`")
        return self

    @property
    def secret_env(self) -> list[str]:
        """The environment variables of the controller that its endpoints and its login need."""
        of_login = self.login.secret_env if self.login else []
        return sorted({*of_login, *(name for endpoint in self.endpoints for name in endpoint.secret_env)})

    def level(self, endpoint: Endpoint) -> str:
        return CEILING if self.ceiling else endpoint.name

    def endpoint(self, level: str) -> Endpoint:
        return next(endpoint for endpoint in self.endpoints if self.level(endpoint) == level)


class Generator(Strict):
    """A load generator and its duration. ab and wrk are closed loops: each connection sends its next request after the
    response to the last one. k6 is an open loop: it sends requests at a fixed rate, however slow the responses are.
    """

    name: Name
    tool: Tool
    requests: int | None = Field(None, ge=1, description="ab: number of requests")
    duration: DurationField | None = Field(None, description="wrk and k6: duration of the load; ab: its maximum")
    warm_up: CountOrDurationField | None = Field(
        None,
        description="the same load before the measurement, not counted: a number of requests for ab, a duration for "
        "wrk and k6; 0 for none",
    )
    threads: int = Field(
        1, ge=1, le=1024, description="wrk: number of threads; fewer if they do not divide the connections"
    )
    max_in_flight: int = Field(
        200,
        ge=1,
        le=60_000,
        description="k6: maximum of requests in flight; requests beyond that are dropped and counted",
    )
    cpus: int | None = Field(
        None, ge=1, description="number of CPUs that it may use, separate from the server's if there are enough"
    )
    request_timeout: DurationField = Field(30.0, description="after this time, a response counts as missing")
    check_answers: bool = Field(True, description="wrk: false does not check responses, which halves its work")
    survive_errors: bool = Field(False, description="ab: continue after a broken connection (-r) instead of giving up")

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
        said = {"duration": self.duration, "warm_up": self.warm_up}
        times = {name: time for name, time in said.items() if isinstance(time, float)}
        if self.tool == "ab":
            if self.requests is None:
                return "ab needs requests, its -n; with a duration, it ends at whichever comes first"
        else:
            if self.requests is not None or self.duration is None:
                return f"{self.tool} needs a duration, and no requests"
            if isinstance(self.warm_up, int):
                return f"{self.tool} needs a duration as warm_up"
        if self.tool == "k6" and any(0 < time < 1 for time in times.values()):
            return "k6 takes no duration and no warm_up below 1s"
        if self.tool == "k6" and self.request_timeout < 0.001:
            return "k6 takes no request_timeout below 1ms"
        for name, time in {**times, "request_timeout": self.request_timeout}.items():
            if self.tool != "k6" and time != int(time):
                return f"{name}: {self.tool} takes whole seconds only, such as {math.ceil(time)}s"
        return misplaced_option(self, _FOR_ONE_TOOL)

    @property
    def is_open(self) -> bool:
        return self.tool == "k6"

    def at_least(self, seconds: float | None) -> "Generator":
        """Return the same load for at least `seconds`. ab then ends by time, not after a number of requests."""
        if seconds is None:
            return self
        duration = max(self.duration or 0.0, seconds)
        if self.tool != "ab":
            return self.model_copy(update={"duration": duration})
        most = max(self.requests or 0, round(_MOST_OF_AB * duration))
        return self.model_copy(update={"duration": duration, "requests": most})


class Sweep(Strict):
    """Cases to measure: every combination of the listed names. A field that is left out selects everything."""

    servers: EachOnce[Name] | None = Field(None, description="the default is all servers without `ceiling: true`")
    limits: EachOnce[Name] | None = Field(None, description="names, and `none`; the default is all names")
    endpoints: EachOnce[Name] | None = None
    generators: EachOnce[Name] | None = None
    concurrency: Concurrency | None = Field(None, description="for closed loops; the default is the family's")
    rates: EachOnce[RateField] | None = Field(None, description="for open loops; the default is the family's")


class HttpConcurrencyConfig(LoadedByClients):
    """Servers under limits, loaded by generators at rising concurrency or rate."""

    needed: ClassVar[tuple[str, ...]] = ("servers", "generators")
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"servers": TakesSystem()}

    servers: list[Server] = Field([], min_length=1)
    limits: list[Limit] = Field([])
    generators: list[Generator] = Field([], min_length=1)
    concurrency: Concurrency = Field([], description="numbers of concurrent requests, for closed loops")
    rates: EachOnce[RateField] = Field([], description='rates of requests, for open loops, such as "200/s"')
    sweeps: list[Sweep] = Field(
        [Sweep()],
        description="the combinations to measure; the default is all. A server with `ceiling: true` is also measured "
        "with each generator at each load that occurs",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "HttpConcurrencyConfig":
        names = self.names_each_once("servers", "limits", "generators")
        for server in self.servers:
            check_port(f"server {server.name}", server.service, server.port, self.services)
        if self.servers and all(server.ceiling for server in self.servers):
            raise ValueError("servers: each of them is a ceiling: add the server to measure")
        names["servers"] = [server.name for server in self.servers if not server.ceiling]
        names["limits"] = [UNLIMITED, *names["limits"]]
        check_differ(self.sweeps)
        for number, sweep in enumerate(self.sweeps):
            names["endpoints"] = [e.name for server in self.chosen_servers(sweep) for e in server.endpoints]
            check_chosen(sweep, names, f"sweeps[{number}]")
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """Why a case cannot have so many clients: connections, requests and rates are divided among them."""
        generator = self.generator(case.levels["generator"])
        if "concurrency" in case.levels and int(case.levels["concurrency"]) < clients:
            n = case.levels["concurrency"]
            return f"concurrency: {n} cannot be divided among them: give {clients} or more, or fewer clients"
        if generator.is_open and generator.max_in_flight < clients:
            return f"generator {generator.name}: max_in_flight: {generator.max_in_flight} is below {clients}: raise it"
        return None

    @property
    def secret_variables(self) -> dict[str, str]:
        of = {f"servers.{server.name}": variable for server in self.servers for variable in server.secret_env}
        return super().secret_variables | of

    def unfit(self) -> Iterator[str]:
        """Yield what measuring needs: each generator's warm-up and time, and a least time of each ceiling. And loads
        that no generator makes, and placeholders that nothing fills in.
        """
        yield from self._not_made("", self, self.generators)
        for number, sweep in enumerate(self.sweeps):
            yield from self._not_made(f"sweeps[{number}].", sweep, self.chosen_generators(sweep))
        for server in self.servers:
            texts = {"login": server.login.texts if server.login else []}
            texts |= {f"endpoint {e.name}": [*e.headers.values(), e.leaves or ""] for e in server.endpoints}
            for where, said in texts.items():
                of_service = [_NOT_OF_A_SERVICE.sub("", text) for text in said]
                yield from unfilled(f"server {server.name}, {where}", of_service, server.service, self.services)
        yield from dict.fromkeys(text for sweep in self.sweeps for text in self._shown_by_ab(sweep))
        used = {g.name: g for sweep in self.sweeps for g in self.chosen_generators(sweep)}.values()
        for generator in used:
            if generator.warm_up is None:
                example = "50" if generator.tool == "ab" else "1s"
                yield (
                    f"generator {generator.name}: warm_up: give the part of the same load that comes before and is not "
                    f"counted, such as {example}; 0{'' if generator.tool == 'ab' else 's'} for none"
                )
            longest_s = max((t for t in (generator.duration, generator.warm_up) if isinstance(t, float)), default=0.0)
            if generator.tool != "ab":  # which may end earlier
                yield from self.outlasted({f"generator {generator.name}, whose load takes": longest_s})
        for server in (server for server in self.servers if server.ceiling):
            for generator in used:
                lasts_s = None if generator.tool == "ab" else generator.duration
                if server.ceiling_time is None and (lasts_s is None or lasts_s < LEAST_CEILING_S):
                    own = f"{generator.requests} requests" if lasts_s is None else f"{lasts_s:g} s"
                    yield (
                        f"server {server.name}: ceiling_time: {own} of {generator.name} may take only milliseconds, "
                        f"which is too short for a ceiling: give {LEAST_CEILING_S:g}s or more"
                    )

    def _shown_by_ab(self, sweep: Sweep) -> Iterator[str]:
        """Yield headers with secrets of the user that a service has: ab gets headers as arguments, which others see."""
        if all(generator.tool != "ab" for generator in self.chosen_generators(sweep)):
            return
        for server in self.chosen_servers(sweep):
            own = {f"secret.{name}" for name in self.services[server.service].secret_env}
            for service in needed(self.services, [server.service]):
                own |= {f"{service}.secret.{name}" for name in self.services[service].secret_env}
            for endpoint in server.endpoints:
                if sweep.endpoints is None or endpoint.name in sweep.endpoints:
                    for name in PLACEHOLDER.findall(" ".join(endpoint.headers.values())):
                        if name in own:
                            yield (
                                f"server {server.name}, endpoint {endpoint.name}: {{{{{name}}}}} is your own secret, "
                                "and ab shows headers to every user of the host: use wrk or k6"
                            )

    @staticmethod
    def _not_made(where: str, said: "Sweep | HttpConcurrencyConfig", generators: Sequence[Generator]) -> Iterator[str]:
        loops = {generator.is_open for generator in generators}
        if said.rates and True not in loops:
            yield f"{where}rates: none of its generators is an open loop: add one with tool: k6, or remove `rates`"
        if said.concurrency and False not in loops:
            yield f"{where}concurrency: none of its generators is a closed loop: add ab or wrk, or remove `concurrency`"

    def chosen_servers(self, sweep: Sweep) -> list[Server]:
        return [s for s in self.servers if not s.ceiling and (sweep.servers is None or s.name in sweep.servers)]

    def chosen_generators(self, sweep: Sweep) -> list[Generator]:
        return [g for g in self.generators if sweep.generators is None or g.name in sweep.generators]

    def chosen_limits(self, sweep: Sweep) -> list[str]:
        return sweep.limits or [limit.name for limit in self.limits] or [UNLIMITED]

    def loads(self, sweep: Sweep, generator: Generator) -> list[int | Rate]:
        """Return the loads of a sweep: numbers of connections, or rates."""
        if generator.is_open:
            return list(sweep.rates or self.rates)  # type: ignore[arg-type]
        return list(sweep.concurrency or self.concurrency)

    def server(self, name: str) -> Server:
        return next(server for server in self.servers if server.name == name)

    def generator(self, name: str) -> Generator:
        return next(generator for generator in self.generators if generator.name == name)

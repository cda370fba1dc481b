"""The family http_concurrency on real servers, good and bad, with real limits and real load; and what it refuses."""

import copy
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import http_study
import polars as pl
import pytest
from conftest import CHECKOUT, Project
from file_size_study import SERVICES as STORAGE
from http_study import AB, COOKIE, FAMILY, FORM_LOGIN, JSON_LOGIN, K6, PAGE_BYTES, TOKEN, WRK, endpoint, server
from nothing_lost import groups_of, left_on_host, mounts_below, processes, running
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.commands import cli
from benchstudy.families.http_concurrency.config import Generator, Server
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.model.causes import Cause
from benchstudy.model.errors import StudyError
from benchstudy.model.family import Observation, ParseError
from benchstudy.model.units import parse_duration
from benchstudy.provisioning.target import provision_target

DATA = Path(__file__).parent / "data" / "http"
HTTP = registry.get(FAMILY)
CPUS = sorted(os.sched_getaffinity(0))
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may make control groups here")

# --- what a study must not say ------------------------------------------------------------------------------------

SOUND: dict[str, Any] = {
    **http_study.block([http_study.NGINX_SERVER, http_study.NULL_SERVER], generators=[AB, WRK, K6]),
    "limits": [{"name": "small", "cpus": 1, "memory": "32MiB"}],
    "sweeps": [{"servers": ["nginx"]}],
}
WALK = {"walk": {"last": 9999}}
FOUND = {"status": 302, "length": 138}
LOGIN = {"path": "/login", "token": {"json_key": "token"}}


def generator(**changed: Any) -> dict[str, Any]:
    return {"generators": [{"name": "g", **changed}]}


def one(**changed: Any) -> dict[str, Any]:
    """The keys of a study with one server and one endpoint, with these changes."""
    of_server = {name: changed.pop(name) for name in ("login", "port", "ceiling", "service") if name in changed}
    described = endpoint(**{"name": "page", "path": "/page", **changed})
    return {"servers": [server("nginx", described, **{"service": "nginx", **of_server})], "sweeps": [{}]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (one(path="page"), "servers.0.endpoints.0.path: 'page': start with /"),
        (one(path="/a b"), "percent-encode blanks and non-ASCII letters, such as %20"),
        (one(expect={}), "give length, content_type, json_keys or text: a login page also returns 200"),
        (one(expect={"length": -1}), "endpoints.0.expect.length"),
        (one(expect={"lenght": 1}), 'lenght: unknown key: did you mean "length"'),
        (one(path="/p?{{n}}"), "endpoint page: {{n}} in the path and `walk` need each other"),
        (one(**WALK), "endpoint page: {{n}} in the path and `walk` need each other"),
        (one(path="/{{n}}", walk={"first": 1, "last": 9}), "1 to 9: give at least 16 numbers"),
        (one(headers={"X:Y": "1"}), "header 'X:Y': a name without blanks"),
        (one(headers={"X": "1\r\nY: 2"}), "header 'X': a name without blanks, and a value on one line"),
        (one(headers={"host": "x"}), "header 'host': the generator sets it"),
        (one(headers={"A": "{{token}}"}), "server nginx, endpoint page: {{token}} needs a `login`"),
        (one(login={**LOGIN, "token": {}}), "give exactly one of json_key, cookie, header"),
        (one(login={**LOGIN, "token": {"json_key": "a", "cookie": "b"}}), "give exactly one of json_key, cookie, head"),
        (one(login={**LOGIN, "user": "me"}), "login: give user and password, or neither"),
        (one(login={**LOGIN, "form": {"a": "1"}, "json_body": {"a": "1"}}), "login: give form or json_body, not both"),
        (one(login={**LOGIN, "path": "login"}), "login: path 'login': start with /"),
        (one(service="ngnix"), "server nginx: no service 'ngnix' below services: did you mean \"nginx\""),
        (one(port="web"), "server nginx: service nginx has no port 'web'"),
        (one(path="/{{n}}", **WALK), "ab on nginx/page: ab requests one address only, and this endpoint has a `walk`"),
        (one(expect=FOUND), "ab on nginx/page: ab counts 302, the expected status, as a failure: use wrk or k6"),
        (
            {**one(expect={**FOUND, "status": 404}), **generator(tool="wrk", duration="1s", check_answers=False)},
            "wrk counts 404, the expected status, as a failure: remove `check_answers: false`, or use k6",
        ),
        (one(headers={"A": "{{env.KEY}}"}), "ab exposes headers in its command line to every user of the host"),
        ({"servers": []}, "servers"),
        ({"servers": [http_study.NGINX_SERVER] * 2}, "servers: the name 'nginx' is given twice"),
        (
            {"servers": [server("nginx", endpoint("a", "/a"), endpoint("a", "/b"), service="nginx")]},
            "server nginx: two endpoints have the same name",
        ),
        (
            {"servers": [server("null", endpoint("a", "/a"), endpoint("b", "/b"), service="nginx", ceiling=True)]},
            "server null: with `ceiling: true`, give exactly one endpoint, the cheapest one",
        ),
        (
            {"servers": [server("null", endpoint("a", "/a"), service="nginx", ceiling=True, ceiling_time="500ms")]},
            "server null: ceiling_time: 0.5 s: give it only with `ceiling: true`, in whole seconds, at least 1s",
        ),
        ({"limits": [{"name": "small"}]}, "limits 'small': give cpus or memory"),
        ({"limits": [{"name": "none", "cpus": 1}]}, "another name than 'none', which means no limits"),
        ({"limits": [{"name": "half", "cpus": 0.5}]}, "limits.0.cpus"),
        ({"limits": [{"name": "small", "memory": 32}]}, "has no unit"),
        (generator(tool="siege"), "generators.0.tool"),
        (generator(tool="ab"), "generator g: ab needs requests, its -n"),
        (generator(tool="ab", requests=10, duration="1500ms"), "duration: ab takes whole seconds only, such as 2s"),
        (generator(tool="wrk"), "generator g: wrk needs a duration, and no requests"),
        (generator(tool="k6", duration="1s", requests=5), "generator g: k6 needs a duration, and no requests"),
        (generator(tool="wrk", duration="1s", warm_up=100), "generator g: wrk needs a duration as warm_up"),
        (generator(tool="wrk", duration="1s", warm_up="500ms"), "warm_up: wrk takes whole seconds only, such as 1s"),
        (generator(tool="k6", duration="0s"), "give a time above zero"),
        (generator(tool="k6", duration="999ms"), "generator g: k6 takes no duration and no warm_up below 1s"),
        (generator(tool="k6", duration="1s", warm_up="300ms"), "k6 takes no duration and no warm_up below 1s"),
        (generator(tool="k6", duration="1s", request_timeout="0.5ms"), "k6 takes no request_timeout below 1ms"),
        (generator(tool="ab", requests=10, warm_up=5.0), "5.0 is not a duration"),
        (generator(tool="k6", duration="1s", threads=2), "generator g: threads is for wrk only"),
        (generator(tool="wrk", duration="1s", survive_errors=True), "generator g: survive_errors is for ab only"),
        (generator(tool="ab", requests=10, max_in_flight=9), "generator g: max_in_flight is for k6 only"),
        (generator(tool="ab", requests=5), "10 connections need at least 10 requests, but it has 5"),
        ({"concurrency": [0]}, "0 requests at once: give 1 to 60000"),
        ({"concurrency": [70_000]}, "70000 requests at once: give 1 to 60000, the ports one address has"),
        ({"concurrency": []}, "sweeps[0]: generator ab needs concurrency: [...]"),
        ({"rates": []}, "sweeps[0]: generator k6 needs rates: [...]"),
        ({"rates": ["fast"]}, "'fast' is not a rate: write it as \"200/s\" or \"30/min\""),
        ({"rates": ["0/s"]}, "'0/s' is not a rate"),
        ({"rates": ["0.001/min"]}, "'0.001/min' is not a rate: write it as"),
        ({"sweeps": [{"servers": ["ngnix"]}]}, "sweeps[0].servers: 'ngnix' is not declared: did"),
        ({"sweeps": [{"servers": ["null"]}]}, "sweeps[0].servers: 'null' is not declared"),
        ({"sweeps": [{"endpoints": ["lst"]}]}, "sweeps[0].endpoints: 'lst' is not declared"),
        ({"sweeps": [{"limits": ["smal"]}]}, "sweeps[0].limits: 'smal' is not declared: did you mean \"small\""),
        ({"sweeps": [{"generators": ["k7"]}]}, "sweeps[0].generators: 'k7' is not declared"),
    ],
)  # fmt: skip
def test_what_a_study_must_not_say(changed: dict[str, Any], message: str):
    http_study.study_of(SOUND)
    with pytest.raises(StudyError) as refused:
        http_study.study_of({**SOUND, **changed})
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"families.{FAMILY}")


def test_ab_takes_an_expected_status_that_it_counts_as_a_success():
    study = http_study.study_of({**SOUND, **one(expect={"status": 204, "length": 0})})
    assert any("generator=ab" in case.id for plan in study.sessions() for case in plan.cases)


def test_a_load_without_a_warm_up_and_a_ceiling_of_milliseconds_are_read_and_never_measured():
    short = {key: value for key, value in http_study.NULL_SERVER.items() if key != "ceiling_time"}
    cold = [AB, *({key: value for key, value in g.items() if key != "warm_up"} for g in (WRK, K6))]
    study = http_study.study_of({**SOUND, "servers": [http_study.NGINX_SERVER, short], "generators": cold})
    with pytest.raises(StudyError) as refused:
        study.require_fit()
    said = str(refused.value).splitlines()
    assert [line.partition(": give")[0] for line in said[:2]] == [
        f"families.{FAMILY}: generator wrk: warm_up",
        f"families.{FAMILY}: generator k6: warm_up",
    ]
    assert said[2].startswith(
        f"families.{FAMILY}: server null: ceiling_time: 1500 requests of ab may take only milliseconds"
    )
    assert len(said) == 4 and "measure=false" in said[3]
    http_study.study_of(SOUND).require_fit()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"generators": [AB, WRK]}, "rates: none of its generators is an open loop: add one with tool: k6, or"),
        (
            {"sweeps": [{"generators": ["k6"], "concurrency": [1]}]},
            "sweeps[0].concurrency: none of its generators is a closed loop: add ab or wrk, or",
        ),
        (
            one(headers={"A": "{{token}}"}, login={**LOGIN, "user": "{{env.ME}}", "password": "{{secret.x}}"}),
            "server nginx, login: service nginx has no {{secret.x}}: known: ",
        ),
    ],
)  # fmt: skip
def test_loads_of_no_generator_and_secrets_of_no_service_are_read_and_never_measured(changed, message):
    found = http_study.study_of({**SOUND, **changed, "generators": changed.get("generators", [WRK, K6])}).unfit()
    assert any(line.startswith(f"families.{FAMILY}: {message}") for line in found), found


@pytest.mark.parametrize("name", ["secret.key", "store.secret.key"])
@pytest.mark.parametrize(("tool", "is_told"), [("ab", True), ("wrk", False)])
def test_a_secret_of_the_user_in_a_header_is_kept_from_ab_also_if_a_service_has_it(name, tool, is_told):
    of_user = {"secret_env": {"key": "MY_KEY"}}
    services = {"nginx": {**http_study.NGINX, **of_user, "needs": ["store"]}, "store": {**http_study.NGINX, **of_user}}
    sweeps = [{"generators": [tool], "concurrency": [1]}]
    study = http_study.study_of(
        {**SOUND, **one(headers={"A": f"{{{{{name}}}}}"}), "services": services, "sweeps": sweeps}
    )
    told = [line for line in study.unfit() if "is your own secret, and ab shows headers" in line]
    assert told == ([f"families.{FAMILY}: server nginx, endpoint page: {{{{{name}}}}} is your own secret, and ab shows "
                     "headers to every user of the host: use wrk or k6"] if is_told else [])  # fmt: skip


def test_a_ceiling_of_ab_is_ended_by_its_time_also_on_a_fast_machine():
    """100,000 requests ended it after 0.73 s on a machine without other users."""
    fastest_seen_per_s = 137_000
    ab = Generator.model_validate(AB).at_least(2.0)
    assert ab.duration == 2.0 and ab.requests > 5 * fastest_seen_per_s * 2.0


def test_a_study_that_does_not_say_how_long_a_ceiling_lasts_keeps_its_hash():
    server = Server.model_validate(http_study.NGINX_SERVER)
    assert "ceiling_time" not in server.model_dump(mode="json")
    assert Server.model_validate(http_study.NULL_SERVER).model_dump(mode="json")["ceiling_time"] == 1.0


def test_the_cases_of_a_study_and_what_makes_another_one():
    def cases(**changed: Any) -> dict[str, str]:
        plan = http_study.study_of({**SOUND, **changed}).session("bench", FAMILY)
        return {case.id: case.definition_sha256 for case in plan.cases}

    static, null = "server=nginx,limits=small,endpoint=static,", "server=null,limits=none,endpoint=null,"
    loads = ("generator=ab,concurrency=10", "generator=wrk,concurrency=10", "generator=k6,rate=500-per-s")
    assert list(cases()) == [start + load for start in (static, null) for load in loads]
    # The ceiling is measured at each load that occurs, by the generator that makes it.
    wider = cases(sweeps=[{"generators": ["ab"], "limits": ["none", "small"], "concurrency": [1, 20]}])
    assert [case for case in wider if case.startswith(null)] == [f"{null}generator=ab,concurrency={n}" for n in (1, 20)]
    assert len(wider) == 2 * 2 + 2

    other_limits = cases(limits=[{"name": "small", "cpus": 1, "memory": "64MiB"}])
    assert [a == b for a, b in zip(cases().values(), other_limits.values(), strict=True)] == [False] * 3 + [True] * 3
    other_server = copy.deepcopy(SOUND["services"])
    other_server["nginx"]["files"]["nginx.conf"] += "# another comment\n"
    assert not set(cases().values()) & set(cases(services=other_server).values())


# --- one session with everything ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """A session that was held: its trials by "server endpoint limits generator", and everything else that it left."""

    root: Path
    work_dir: Path
    study: Any
    trials: Mapping[str, StoredTrial]
    log: str = ""
    foreign: http_study.ForeignServers | None = None

    def cause(self, name: str) -> str:
        record = self.trials[name].record
        assert record.status == "failed", f"{name}: {record.status}"
        return record.cause

    def values(self, name: str) -> dict[str, float]:
        trial = self.trials[name]
        assert trial.record.status == "ok", f"{name}: {trial.record.cause}"
        return observed(HTTP.parse(trial.record.levels, trial.folder).observations)


def observed(observations: list[Observation]) -> dict[str, float]:
    return {observation.metric: observation.value for observation in observations}


def hold(root: Path, config: Mapping[str, Any], host: Mapping[str, Any]) -> Session:
    study = http_study.study_of(config, host)
    names = {}
    for trial in http_study.measure(root, study):
        levels = trial.record.levels
        names[" ".join(levels[factor] for factor in ("server", "endpoint", "limits", "generator"))] = trial
    return Session(root, Path(host["work_dir"]), study, names)


@pytest.fixture(scope="module", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A host lock for these tests alone, and the password that studies take from the environment."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path_factory.mktemp("lock") / "host.lock"))
        environment.setenv(http_study.PASSWORD_ENV, http_study.PASSWORD)
        yield


EVERYTHING: dict[str, Any] = http_study.block(
    [
        http_study.NGINX_SERVER,
        http_study.NULL_SERVER,
        server(
            "odd",
            endpoint("missing", "/nothing"),
            endpoint("login-page", "/sign-in"),
            endpoint("redirect", "/moved"),
            endpoint("grows", "/grows", expect={"content_type": "text/plain"}),
            endpoint("may-grow", "/grows", expect={"content_type": "text/plain"}, same_length=False),
            endpoint("eats", "/eats"),
            endpoint("dies", "/dies"),
            endpoint("flaky", "/flaky"),
        ),
        server(
            "thumbs",
            endpoint("each", "/thumb?{{n}}", walk={"last": 400_000}, leaves="cache/*"),
            endpoint("cached", "/cached-thumb?{{n}}", walk={"last": 400_000}, leaves="cache/*"),
        ),
        server("by-token", endpoint("private", "/private", **TOKEN), login=JSON_LOGIN),
        server("by-cookie", endpoint("private", "/private", **COOKIE), login=FORM_LOGIN),
        server("not-logged-in", endpoint("private", "/private", expect=TOKEN["expect"])),
        server(
            "wrong-password",
            endpoint("private", "/private", **TOKEN),
            login={**JSON_LOGIN, "json_body": {"password": "{{env." + http_study.PASSWORD_ENV + "}}"}},
        ),
        *(server(name, service=name) for name in ("hangs", "port-taken", "port-taken-unnoticed", "filestash")),
    ],
    limits=[
        {"name": "small", "cpus": 1, "memory": "32MiB"},
        {"name": "tiny", "memory": "2MiB"},
        {"name": "a-cpu-too-many", "cpus": len(CPUS) + 1},
    ],
    generators=[AB, WRK, K6],
    sweeps=[
        {"servers": ["nginx"], "limits": ["small"]},
        {"servers": ["nginx"], "limits": ["tiny", "a-cpu-too-many"], "generators": ["ab"]},
        {
            "servers": ["odd"],
            "limits": ["small"],
            "endpoints": ["missing", "login-page", "redirect", "grows", "may-grow", "eats", "dies"],
            "generators": ["ab"],
        },
        {"servers": ["odd"], "limits": ["small"], "endpoints": ["flaky"]},
        {"servers": ["thumbs", "by-cookie"], "limits": ["small"], "generators": ["wrk"]},
        {"servers": ["by-token"], "limits": ["small"]},
        {
            "servers": ["not-logged-in", "wrong-password", "hangs", "port-taken", "port-taken-unnoticed", "filestash"],
            "limits": ["small"],
            "generators": ["ab"],
        },
    ],
)


@pytest.fixture(scope="module")
def everything(sshd: SshdHost, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One session with good servers and with every kind of bad one; it is provisioned, because k6 is built."""
    if os.getuid() != 0:
        pytest.skip("only root may make control groups here")
    root = tmp_path_factory.mktemp("everything")
    host = sshd.described(root / "work")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(CHECKOUT)
        provision_target(http_study.study_of(EVERYTHING, host), "bench", root / "facts.json")
    log = logging.getLogger("benchstudy")
    said = logging.FileHandler(root / "log", encoding="utf-8")
    log.addHandler(said)
    try:
        with http_study.ForeignServers(root / "work") as foreign:
            held = hold(root, EVERYTHING, host)
    finally:
        log.removeHandler(said)
        said.close()
    return Session(held.root, held.work_dir, held.study, held.trials, (root / "log").read_text(), foreign)


def assert_throughput(generator: str, values: Mapping[str, float], good: float, within: float) -> None:
    if generator == "k6":
        # It counts what was answered while requests were sent. On a busy machine, the rest of those in flight follow.
        counted = values["throughput"] * parse_duration(K6["duration"])
        assert good - K6["max_in_flight"] <= round(counted) <= good
    else:
        assert values["throughput"] == pytest.approx(good / values["duration"], rel=within)


def test_good_trials_say_what_the_page_says_and_what_it_lacks(everything: Session):
    for name in ("ab", "wrk", "k6"):
        values = everything.values(f"nginx static small {name}")
        assert values["errors"] == 0
        assert_throughput(name, values, good=values["requests"], within=0.03)
        assert values["document_length"] == PAGE_BYTES
        # The bytes that came over the wire are at least the pages, and little more.
        answered = values["requests"] / values["duration"]
        assert values["transfer_rate"] == pytest.approx(answered * (PAGE_BYTES + 250), rel=0.06)
        times = [values[f"latency_{what}"] for what in ("min", "p50", "p75", "p90", "p99", "max")]
        assert times[0] > 0 and times == sorted(times) and times[-1] < values["duration"]
        assert times[0] <= values["latency_mean"] <= times[-1]
        assert 0 < values.get("generator_cpu", 0.5) <= 1 and 0 < values["server_cpu"] <= 1.1
        assert 1 << 20 < values["server_peak_memory"] <= 32 << 20
        assert values["concurrency_measured"] > 0
    ab, wrk, k6 = (everything.values(f"nginx static small {name}") for name in ("ab", "wrk", "k6"))
    assert ab["requests"] == ab["keepalive_requests"] == AB["requests"]
    assert "generator_cpu" in wrk, "k6 prepares for as long as this load takes: it may be open whether it was the limit"
    assert {"connect_mean", "processing_sd", "waiting_median", "latency_p66"} <= ab.keys()
    deviation = {tool: abs(10 - values["concurrency_measured"]) / 10 for tool, values in {"ab": ab, "wrk": wrk}.items()}
    assert wrk["little_error"] == pytest.approx(deviation["wrk"])
    # What ab's rounding explains does not count. With slow answers, its mean may be known too little to tell.
    assert 0 <= ab.get("little_error", 0) <= deviation["ab"]
    assert max(deviation.values()) < 0.5, "and less where nothing else is at work beside it"
    assert "little_error" not in k6, "an open loop has no number of connections to hold it against"
    # k6 sends one more at the very end, whose answer can still count. On a busy machine, its timer loses some of the
    # time (953 of 1 000 requests were due for it), or ends the load late (506 of 500, in 1.018 s).
    asked_s = parse_duration(K6["duration"])
    assert 0.9 * 500 <= k6["offered"] == min(500, (k6["requests"] + k6["dropped"]) / asked_s)
    assert k6["throughput"] <= k6["offered"] + 1 / asked_s
    assert 0.9 * 500 * asked_s <= k6["requests"] + k6["dropped"] <= 500 * max(asked_s, k6["duration"]) + 5

    record = everything.trials["nginx static small wrk"].record
    assert [command.label for command in record.commands] == ["load", "server"]
    assert record.verified["placement"]["shared"] is (len(CPUS) == 1)
    assert record.verified["checked"]["after"] == record.verified["checked"]["before"]
    effective = record.verified["limits"]["effective"]
    assert (effective["cpus"], effective["memory_bytes"]) == (CPUS[:1], 32 << 20)
    warmed = everything.trials["nginx static small ab"]
    assert [command.label for command in warmed.record.commands] == ["warm-up", "load", "server"]
    assert {"ab.csv", "ab.tsv"} == {path.name for path in (warmed.folder / "load" / "files").iterdir()}


def test_tables_with_the_ceiling_of_each_generator(everything: Session, tmp_path: Path):
    for name in ("ab", "wrk", "k6"):
        trial = everything.trials[f"null null none {name}"]
        assert json.loads((trial.folder / "http.json").read_text())["ceiling"] is True
        values = everything.values(f"null null none {name}")
        assert values["throughput"] > 0 and round(values["duration"], 1) >= 1, "a ceiling of milliseconds is none"
    tidy_family(everything.root, [everything.study.session("bench", FAMILY)], tmp_path)
    cases = pl.read_parquet(tmp_path / "cases.parquet")
    assert cases["concurrency_n"].drop_nulls().unique().to_list() == [10]
    assert cases["rate_per_s"].drop_nulls().unique().to_list() == [500.0]
    observations = pl.read_parquet(tmp_path / "observations.parquet")
    failed = observations.filter(pl.col("status") == "failed")
    assert failed["value"].null_count() == failed.height == sum(t.record.status == "failed" for t in trials(everything))
    histogram = pl.read_parquet(tmp_path / "histogram.parquet")
    counted = histogram.filter(pl.col("case").str.starts_with("server=nginx") & pl.col("case").str.contains("=ab"))
    assert counted["count"].sum() == AB["requests"]


def trials(session: Session) -> list[StoredTrial]:
    return list(session.trials.values())


def test_wrong_answers_are_named_before_any_load_is_sent(everything: Session):
    assert "returned 404 Not Found" in (missing := everything.cause("odd missing small ab"))
    assert "the study expects status 200, 1000 bytes (is the path right?)" in missing
    page = everything.cause("odd login-page small ab")
    assert page.startswith("no right answer before the load: login-page of odd: GET http://127.0.0.1")
    assert "returned 200 OK, text/html" in page
    assert 'a page called "Please sign in"; is it a login page? then the server needs a `login`' in page
    assert "302 Found" in (moved := everything.cause("odd redirect small ab")) and "redirects to /sign-in" in moved
    assert "the text 'hello, holder' in it" in (unknown := everything.cause("not-logged-in private small ab"))
    assert "is it a login page?" in unknown
    wrong = everything.cause("wrong-password private small ab")
    assert "the login POST http://127.0.0.1" in wrong and "was answered 401 Unauthorized instead of 200" in wrong
    assert "is the account right" in wrong
    for name in ("odd missing small ab", "odd login-page small ab", "wrong-password private small ab"):
        assert [command.label for command in everything.trials[name].record.commands] == ["server"], "no load"


@pytest.mark.parametrize("name", ["ab", "wrk", "k6"])
def test_wrong_answers_under_load_are_counted_and_are_no_throughput(everything: Session, name: str):
    values = everything.values(f"odd flaky small {name}")
    assert (values["errors"], values["errors_status"]) == (http_study.WRONG_OF_FLAKY,) * 2
    good = values["requests"] - http_study.WRONG_OF_FLAKY
    assert_throughput(name, values, good, within=0.02)


def test_an_answer_that_changes_length_is_an_error_unless_the_study_allows_it(everything: Session):
    grows = everything.values("odd grows small ab")
    assert grows["errors"] == grows["errors_length"] == AB["requests"] / 2
    allowed = everything.values("odd may-grow small ab")
    assert allowed["errors"] == 0 and allowed["requests"] == AB["requests"]
    assert "-l" in everything.trials["odd may-grow small ab"].record.commands[1].argv


def test_servers_that_do_not_come_up_or_do_not_survive(everything: Session):
    hangs = everything.cause("hangs page small ab")
    assert "not ready within 1 s (nothing listens on port" in hangs
    assert "the end of its log:\nwaiting for a database that nobody started" in hangs
    missing = everything.cause("filestash page small ab")
    assert missing.startswith("service filestash: ") and "/tools/bin/filestash': No such file or directory" in missing
    died = everything.cause("odd dies small ab")
    assert died.startswith("the server python died during the trial: it ended with exit status 9: licence of this ser")
    failure = everything.trials["odd dies small ab"].record.failure
    assert (failure.cause, failure.name, failure.exit_status) == (Cause.SERVER_DIED, "python", 9)
    assert failure.said.startswith("licence of this ser")
    kinds = {name: everything.trials[f"{name} page small ab"].record.failure.cause for name in ("hangs", "filestash")}
    assert kinds == {"hangs": Cause.NOT_READY, "filestash": Cause.START_FAILED}


def test_what_a_limit_does_is_told_as_such(everything: Session):
    oom = everything.cause("odd eats small ab")
    assert oom.startswith("OOM: killed by the kernel at its memory limit of 32 MiB (peak 3"), "and no slow number"
    assert everything.trials["odd eats small ab"].record.commands[-1].limits["oom_kills"] == 1
    failure = everything.trials["odd eats small ab"].record.failure
    assert (failure.cause, failure.name, failure.limit_bytes, failure.killed) == (Cause.OOM, "python", 32 << 20, 1)
    assert 30 << 20 < failure.peak_bytes <= 32 << 20
    assert everything.cause("nginx static tiny ab").startswith("OOM: ")
    assert everything.trials["nginx static tiny ab"].record.failure.cause is Cause.OOM
    too_many = everything.cause("nginx static a-cpu-too-many ab")
    assert f"limits.cpus: {len(CPUS) + 1} CPUs are requested, but this host has {len(CPUS)}" in too_many


def test_a_port_that_is_not_the_servers_never_gets_a_request(everything: Session):
    assert len(everything.foreign.ports) == 2
    for name, port in zip(("port-taken", "port-taken-unnoticed"), sorted_ports(everything), strict=True):
        cause = everything.cause(f"{name} page small ab")
        assert f"port http: port {port} belongs to another process, " in cause
        assert f"({os.getpid()})" in cause
    assert "Address already in use" in everything.cause("port-taken page small ab"), "its own words stand beside it"
    assert everything.foreign.asked == []


def sorted_ports(session: Session) -> list[int]:
    """The foreign ports, in the order of the two services that asked for them."""
    records = [session.trials[f"{name} page small ab"].record for name in ("port-taken", "port-taken-unnoticed")]
    started = [record.started for record in records]
    return session.foreign.ports if started == sorted(started) else session.foreign.ports[::-1]


def test_answers_from_a_cache_are_no_measurement(everything: Session):
    values, trial = everything.values("thumbs each small wrk"), everything.trials["thumbs each small wrk"]
    assert trial.record.verified["left_by_the_load"] >= values["requests"] > 100
    cause = everything.cause("thumbs cached small wrk")
    assert "requests were answered and the server left 0 new files (cache/*)" in cause
    assert "the others came from a cache" in cause


# --- secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.fault(25)
def test_logins_by_token_and_by_cookie_and_no_secret_anywhere(everything: Session):
    names = [*(f"by-token private small {tool}" for tool in ("ab", "wrk", "k6")), "by-cookie private small wrk"]
    for name in names:
        assert everything.values(name)["errors"] == 0
    secrets = set((everything.work_dir / "known-secrets").read_text().splitlines())
    assert http_study.PASSWORD in secrets and len(secrets) > 2 * len(names)
    in_json = {json.dumps(secret, ensure_ascii=ascii)[1:-1] for secret in secrets for ascii in (True, False)}
    forms = [form.encode() for form in secrets | in_json]
    kept = [path for place in ("data", ".benchstudy", "log") for path in files_of(everything.root / place)]
    assert len(kept) > 100
    for path in kept:
        content = path.read_bytes()
        assert not [form for form in forms if form in content], path
    # They were there, so they could have leaked.
    log = (everything.trials[names[1]].folder / "server" / "stdout").read_text()
    assert "an indiscreet log: issued «redacted» for «redacted»" in log
    assert any("«redacted»" in word for word in everything.trials[names[0]].record.commands[1].argv)
    # Nobody else on the host could read them during the load, except with ab, which takes headers only as arguments.
    seen = {name: (everything.trials[name].folder / "server" / "stdout").read_text() for name in names}
    assert all("looked at the arguments of" in text for text in seen.values())
    assert [name for name in names if "a secret is in the arguments of ab" in seen[name]] == names[:1]
    assert not [name for name in names[1:] if "a secret is in the arguments" in seen[name]]


def files_of(place: Path) -> list[Path]:
    return [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]


# --- raw files that are not what they should be -------------------------------------------------------------------


def _edit(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).chmod(0o644)
        (folder / name).write_text(change((folder / name).read_text()))

    return edit


def _facts(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(text: str) -> str:
        facts = json.loads(text)
        change(facts)
        return json.dumps(facts)

    return _edit("http.json", changed)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


DAMAGES = {
    "another concurrency": (_facts(lambda f: f.update(concurrency=20)), "measured at 20 at once according to http"),
    "another generator": (_facts(lambda f: f.update(tool="wrk")), "wrk"),
    "an unknown generator": (_facts(lambda f: f.update(tool="hey")), "'hey' is not a generator"),
    "another schema": (_facts(lambda f: f.update(schema=2)), "schema 2, but only 1 is known"),
    "no usage": (_facts(lambda f: f.pop("usage")), "http.json lacks usage"),
    "a usage of another kind": (_facts(lambda f: f.update(usage=[])), "lacks what was found around the load"),
    "truncated": (_edit("http.json", lambda text: text[:200]), "http.json is truncated or not JSON"),
    "no object": (_edit("http.json", lambda text: "[]"), "http.json is not a JSON object"),
    "a report of another level": (
        _edit("load/stdout", lambda text: text.replace("Concurrency Level:      10", "Concurrency Level:      20")),
        "measured at 20 at once according to ab, and the case says 10",
    ),
    "half a report": (_edit("load/stdout", lambda text: text[: len(text) // 2]), "truncated"),
    "no facts": (_remove("http.json"), "the file http.json is missing"),
    "no requests": (_remove("load/files/ab.tsv"), "the file ab.tsv is missing"),
    "requests lost": (_edit("load/files/ab.tsv", lambda text: text[: len(text) // 2]), "ab"),
    "no supervisor": (_remove("load/supervisor.json"), "the file supervisor.json is missing"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_of_another_trial_are_refused(everything: Session, damage: str, tmp_path: Path):
    trial = everything.trials["nginx static small ab"]
    copied = shutil.copytree(trial.folder, tmp_path / "copy")
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    HTTP.parse(trial.record.levels, copied)
    change, message = DAMAGES[damage]
    change(copied)
    with pytest.raises(ParseError, match=message):
        HTTP.parse(trial.record.levels, copied)


def test_files_of_another_rate_are_refused(everything: Session):
    trial = everything.trials["nginx static small k6"]
    with pytest.raises(ParseError, match=r"measured at 500.* a second according to http.json, and the case says 50$"):
        HTTP.parse({**trial.record.levels, "rate": "50-per-s"}, trial.folder)


# --- a host that lacks something ----------------------------------------------------------------------------------


@needs_root
def test_a_host_without_a_generator_and_with_few_files(tmp_path: Path, capsys, monkeypatch):
    path = http_study.path_without(tmp_path / "bin", "wrk")
    root, python = tmp_path / "root", http_study.python_with_few_files(tmp_path, 500)
    config = http_study.block(
        [http_study.NGINX_SERVER, server("few-files", service="few-files")],
        generators=[AB, WRK],
        sweeps=[
            {"servers": ["nginx"], "generators": ["wrk"]},
            {"servers": ["nginx", "few-files"], "generators": ["ab"], "concurrency": [100]},
            {"servers": ["nginx"], "generators": ["ab"], "concurrency": [400]},
        ],
    )
    with SshdHost(tmp_path / "sshd", environment={"PATH": path}) as poor:
        host = poor.described(tmp_path / "work", python=python)
        by_load = {}
        for trial in http_study.measure(root, http_study.study_of(config, host)):
            record, levels = trial.record, trial.record.levels
            by_load[levels["server"], levels["generator"], levels["concurrency"]] = record.status, record.cause
        monkeypatch.delenv(http_study.PASSWORD_ENV)
        file = tmp_path / "study.yaml"
        file.write_text(json.dumps(http_study.declared(config, host)))
        assert cli.main(["check", str(file)]) == 1
    assert by_load["nginx", "ab", "100"] == ("ok", None), "the rest of the study goes on"
    (status, cause) = by_load["nginx", "wrk", "10"]
    assert status == "failed" and cause.startswith("wrk is missing on here: provisioning puts it into ")
    (status, cause) = by_load["few-files", "ab", "100"]
    assert status == "failed" and "the server few-files may open 64 files, but 100 concurrent requests need" in cause
    (status, cause) = by_load["nginx", "ab", "400"]
    assert status == "failed" and "open_files: 928 are requested, but root may have 500 on this host" in cause
    checked = capsys.readouterr().out
    assert "PROBLEM http_concurrency: generator wrk: wrk is missing\n      -> `snakemake --cores 8 provision" in checked
    assert f"PROBLEM http_concurrency: {http_study.PASSWORD_ENV} is not set" in checked
    assert "ok      http_concurrency: generator ab: " in checked and "server nginx: /" in checked


# --- existing outputs ---------------------------------------------------------------------------------------------


def test_existing_reports_of_ab_become_trials_and_the_contradictory_one_is_flagged(bare_project: Path, capsys):
    study = bare_project / "study.yaml"
    study.write_text(json.dumps(http_study.declared(SOUND)))
    reports = sorted(DATA.glob("filestash-*-c*.txt"))
    assert cli.main(["import", *map(str, reports), str(DATA / "ab-404.txt"), "--study", str(study)]) == 0
    assert capsys.readouterr().out.count("imported ") == len(reports) + 1
    assert cli.main(["import", str(reports[0]), str(DATA / "README.md"), "--study", str(study)]) == 1
    complaint = capsys.readouterr().err
    assert "already holds the same content" in complaint and "recognises this output" in complaint

    imported = {trial.record.imported_from: trial for trial in http_study.trials_of(bare_project)}
    flagged = imported["filestash-static-c4000.txt"].record
    assert flagged.levels["concurrency"] == "4000" and flagged.levels["generator"] == "ab"
    assert "concurrency: the command says -c 3000, but ab reports a level of 4000" in flagged.verified["notes"]
    assert any(note.startswith("keep-alive: ") for note in flagged.verified["notes"])
    others = [trial.record.verified["notes"] for name, trial in imported.items() if "c4000" not in name]
    assert not [note for notes in others for note in notes if note.startswith("concurrency: ")]
    listed = imported["filestash-list-c1000.txt"].record.levels
    assert listed["endpoint"].startswith("api-files-ls-path-2F-") and listed["limits"] == "unknown"
    assert listed["method"] == "GET" and listed["keep_alive"] == "yes" and listed["headers"].startswith("H-")
    wrong = imported["ab-404.txt"]
    values = observed(HTTP.parse(wrong.record.levels, wrong.folder).observations)
    assert values["throughput"] == 0 and values["errors_status"] == values["requests"] == 1000
    page = imported["filestash-static-c10.txt"]
    values = observed(HTTP.parse(page.record.levels, page.folder).observations)
    assert values["throughput"] == 5845.90 and "server_peak_memory" not in values


# --- kill -9 ------------------------------------------------------------------------------------------------------


@needs_root
def test_nothing_survives_a_controller_that_was_killed_while_a_load_ran(
    project: Project, sshd: SshdHost, tmp_path: Path
):
    work = tmp_path / "work"
    # Static files on an SFTP server, as on the page.
    nginx = copy.deepcopy(http_study.NGINX)
    nginx["files"]["nginx.conf"] = nginx["files"]["nginx.conf"].replace("root {{dir}}/www", "root {{sshfs.dir}}/mount")
    nginx |= {"needs": ["sshfs"], "setup": [["cp", "{{dir}}/www/page", "{{sshfs.dir}}/mount/page"]]}
    config = {
        # A load that leaves the machine to other tests while the host waits for its controller.
        **http_study.block([http_study.NGINX_SERVER], generators=[{**K6, "duration": "300s"}]),
        "services": {"nginx": nginx, **{name: STORAGE[name] for name in ("file-tree", "openssh", "sshfs")}},
        "limits": [{"name": "small", "cpus": 1, "memory": "32MiB"}],
        "timeout": "400s",
        "rates": ["2/s"],
    }
    declared = http_study.declared(config, sshd.described(work))
    study = project.write_study({**declared, "thresholds": {"lease": "3s", "reconnect": "3s"}})
    process = project.start("measure", "--configfile", study)

    def folders() -> list[Path]:
        return [*work.glob("services/*"), *work.glob("runs/*")]

    def loading() -> bool:
        programs = {Path(process.command.split()[0]).name for process in running(str(work)) if process.command}
        return "k6" in programs and len(folders()) == 5  # k6 also runs before, to print its version

    try:
        until(lambda: process.poll() is not None or loading(), 60)
        assert process.poll() is None, process.stdout.read()
        ours = groups_of(work)
        there_was = bool(ours), bool(mounts_below(work)), len(folders())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        # Also after a failed assertion: pytest must not remove a folder in which something is still mounted.
        until(lambda: not processes(str(work)) and not mounts_below(work), 60)
    assert there_was == (True, True, 5), "a group, a mount, four services and the load could have survived"
    until(lambda: not [folder for folder in ours if folder.exists()])
    until(lambda: not left_on_host(work))
    assert not [t for t in http_study.trials_of(project.root) if t.record.status == "ok"], "half a trial is no result"

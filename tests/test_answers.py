"""What follows from an answer of Prometheus or S3, or from none: each row of the tables in docs, one by one.

The clients are those that run on hosts, and the archive's. A real server is behind the one that spoils answers. `python
tests/test_answers.py` writes the tables.
"""

import hashlib
import io
import itertools
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from agent_folders import OnHosts
from prometheus_server import prometheus
from s3_server import ACCESS, SECRET, S3Server
from troubled import CUT, RESET, SILENT, SLOW, UNTRUSTED, Row, Troubled, in_page, over_tls, table, troubled, write

from benchstudy.archive import bucket as archive
from benchstudy.archive.bucket import ArchiveError, Bucket

DOCS = Path(__file__).parents[1] / "docs"
SECRETS = {"token": "canary-token-8812", "access": ACCESS, "secret": SECRET}
_SILENT_S = 1.0
_PATIENT_S = 60.0


def patience(answer: str) -> float:
    """Short only where the server stays silent: any other answer may come late, because tests share the processors."""
    return _SILENT_S if answer in (SILENT, "deaf") else _PATIENT_S


def answer_of(request: pytest.FixtureRequest) -> str:
    """The answer that a test is about; empty if it is about several."""
    callspec = getattr(request.node, "callspec", None)
    return callspec.params["answer"] if callspec else ""


def statuses(*numbers: int) -> dict[str, str]:
    return {str(number): str(number) for number in numbers}


def codes(*names: str, status: int = 400) -> dict[str, str]:
    """S3's error codes."""
    return {f"`{name}`": f"{status} <Error><Code>{name}</Code><Key>{ACCESS}</Key></Error>" for name in names}


def said(error: str, status: int, kind: str) -> dict[str, str]:
    return {error: f'{status} {{"status":"error","errorType":"{kind}","error":"told"}}'}


BROKEN = {"a connection that breaks": RESET, "cut off in the middle": CUT}
AGAIN, LESS, WAITED = "again", "less", "benchstudy waits"
OF_PROMETHEUS = [
    Row({"slow, but never silent": SLOW}, WAITED, AGAIN),
    Row(
        BROKEN | {"silent for 150 s": SILENT} | statuses(408, 429, 500, 502, 503, 504),
        "the request is repeated until `patience_s` is over, with pauses of 0.1 s that double up to 5 s; the received "
        "part of the answer is discarded. If the server has never answered, the fetch fails at once",
        AGAIN,
    ),
    Row(
        statuses(401, 403),
        "the fetch fails at once, also if a token has just expired; the message says where to set credentials, and "
        "repeats nothing that was sent",
        "refused the bearer token",
    ),
    Row(
        statuses(301, 302, 307),
        "the fetch fails at once: credentials are not sent to another address",
        "sends elsewhere",
    ),
    Row(
        {"a certificate that is not trusted": UNTRUSTED},
        "the fetch fails at once, and the message names `ca_file`",
        "its certificate is not trusted here",
    ),
    Row(
        statuses(413) | said("422 of execution", 422, "execution") | said("`timeout` of a query", 503, "timeout"),
        "the fetch requests less at a time: shorter pages, then fewer series",
        LESS,
    ),
    Row(
        statuses(400, 404, 405) | {"200 with another content": "200 <html>"},
        "the fetch fails at once, and the message asks whether `/api/v1/query` lies below the URL",
        "is the URL the one below which /api/v1/query lies?",
    ),
]
PASSING, NONE = "tried again", ""
OF_OBJECTS = [
    Row({"slow, but never silent": SLOW}, WAITED, kind=NONE),
    Row(
        {"no connection within `connect_timeout`": "deaf", "silent for `read_timeout`": SILENT}, PASSING, kind="timeout"
    ),
    Row(BROKEN, PASSING, kind="connection"),
    Row(statuses(429, 503) | codes("SlowDown", "Throttling"), PASSING, kind="throttled"),
    Row(statuses(500, 502, 504), PASSING, kind="unavailable"),
    Row(codes("ExpiredToken", "RequestExpired"), "the trial fails at once, with this cause", kind="expired"),
    Row(statuses(401, 403), "the same", kind="forbidden"),
    Row(statuses(404), "the same; a bucket is made only on a service of the study", kind="missing"),
    Row(statuses(400, 409, 501) | codes("InvalidRequest"), "the same", kind="refused"),
]
OF_ARCHIVE = [
    Row({"slow, but never silent": SLOW}, WAITED, AGAIN),
    Row(
        BROKEN
        | {f"silent for {archive._SILENT_S} s": SILENT}
        | statuses(500, 502, 503, 504)
        | codes("SlowDown", "Throttling", status=503),
        f"the request is repeated, up to {archive._ATTEMPTS} attempts in all, with growing pauses; then the command "
        "fails and says what to check. If you run it again, it continues from there",
        AGAIN,
    ),
    Row(
        statuses(403) | codes("AccessDenied", status=403),
        "the command fails at once, and names the permissions that it needs",
        "these credentials lack permissions",
    ),
    Row(
        codes("ExpiredToken", "InvalidToken", "RequestExpired"),
        "the command fails at once, and says how to log in again",
        "log in again",
    ),
    Row(
        codes("InvalidAccessKeyId", "SignatureDoesNotMatch", status=403),
        "the command fails at once, and says where to set credentials",
        "unknown credentials; look at AWS_PROFILE",
    ),
    Row(
        codes("RequestTimeTooSkewed", status=403),
        "the command fails at once: a clock is wrong",
        "clock and the server's differ",
    ),
    Row(
        codes("NoSuchBucket", status=404),
        "the command fails at once: create the bucket, or name another one",
        "no such bucket",
    ),
    Row(statuses(404), "the command reports that the object is gone", "is gone"),
    Row(
        statuses(400, 409, 501),
        "the command fails at once, with the status and the code of the answer",
        "the server answered",
    ),
]
TABLES = {
    "Prometheus": (DOCS / "prometheus.md", OF_PROMETHEUS),
    "S3": (DOCS / "families" / "file_size.md", OF_OBJECTS),
    "an archive": (DOCS / "archive.md", OF_ARCHIVE),
}


def each(rows: list[Row]) -> pytest.MarkDecorator:
    cases = [pytest.param(row, answer, id=name) for row in rows for name, answer in row.answers.items()]
    return pytest.mark.parametrize(("row", "answer"), cases)


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_the_documentation_are_what_is_tested(name):
    page, rows = TABLES[name]
    assert in_page(page, name) == table(rows), "python tests/test_answers.py writes them"


class Clock:
    """A clock whose sleepers wake up at once, at the later time. Only waits for answers are real."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    time = staticmethod(time.time)


@pytest.fixture(scope="module")
def on_hosts() -> OnHosts:
    return OnHosts()


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def of_all() -> Clock:
    return Clock()


@pytest.fixture
def clock(of_all) -> Clock:
    """Nothing has slept on it yet."""
    of_all.slept.clear()
    return of_all


# --- Prometheus ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    with prometheus(tmp_path_factory.mktemp("prometheus")) as server, troubled(server.url) as between:
        yield between


@pytest.fixture
def client(of_prometheus, on_hosts, clock, monkeypatch, request):
    """A client that got an answer before, in the module that hosts run."""
    module = on_hosts.module("prometheus_client")
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "_TIMEOUT_S", patience(answer_of(request)))
    monkeypatch.setenv(module.TOKEN, SECRETS["token"])
    of_prometheus.ask()
    made = module.Client(of_prometheus.url, "bearer")
    made.module, made.ask = module, lambda: made.json("/api/v1/query", query="time()")
    made.ask()
    yield made
    made.close()


@each(OF_PROMETHEUS)
def test_what_follows_from_an_answer_of_prometheus(row, answer, client, of_prometheus, clock, on_hosts, tmp_path):
    error = on_hosts.module("wire").AgentError
    if row.outcome == AGAIN:
        of_prometheus.ask(answer, answer)
        assert client.ask()[0]["status"] == "success"
        assert of_prometheus.asked == (1 if answer == SLOW else 3)
        assert clock.slept == [0.1, 0.2][: len(clock.slept)]
        return
    if answer == UNTRUSTED:
        with over_tls(tmp_path) as url, pytest.raises(error, match=f"{row.outcome}.*ca_file"):
            client.module.Client(url).json("/api/v1/query", query="time()")
        return
    of_prometheus.ask(*itertools.repeat(answer, 9))
    if row.outcome == LESS:
        with pytest.raises(client.module.TooMuch):
            client.stream("/api/v1/query", {"query": "time()"}, lambda chunk: None, lambda: None)
    else:
        with pytest.raises(error) as refused:
            client.ask()
        assert row.outcome in str(refused.value) and SECRETS["token"] not in str(refused.value)
    assert of_prometheus.asked == 1 and not clock.slept


def test_patience_with_prometheus_is_said_and_ends(client, of_prometheus, clock, on_hosts):
    of_prometheus.ask(*itertools.repeat("503", 99))
    with pytest.raises(on_hosts.module("wire").AgentError, match="503 Service Unavailable, for 30 s"):
        client.ask()
    assert clock.slept[:4] == [0.1, 0.2, 0.4, 0.8] and max(clock.slept) == 5.0 and sum(clock.slept) <= 30
    of_prometheus.ask("503", "503")
    fresh = client.module.Client(of_prometheus.url)
    with pytest.raises(on_hosts.module("wire").AgentError, match="503"):
        fresh.json("/api/v1/query", query="time()")
    assert of_prometheus.asked == 1, "one that has never answered"


# --- S3 -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.client.put_object(Bucket="data", Key="archive/object", Body=bytes(1000))
    try:
        with troubled(server.url) as between:
            yield between
    finally:
        server.stop()


@contextmanager
def deaf() -> Iterator[str]:
    """A server whose queue is full: connections to it get no answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        for each in waiting:
            each.close()


OPTIONS = {
    "bucket": "data", "prefix": "benchstudy/answers/", "region": "us-east-1", "attempts": 3,
    "max_concurrency": 1, "signature": "auto",
    "dualstack": False, "checksums": "when_supported", "addressing_style": "path", "sign_payload": False,
    "accelerate": False, "multipart_threshold": 8 << 20, "part_size": 8 << 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def objects(on_hosts, of_all, patch):
    """The module that hosts run."""
    objects = on_hosts.module("s3_objects")
    patch.setattr(objects, "sleep", of_all.sleep)
    patch.setenv(objects.ACCESS_KEY, ACCESS)
    patch.setenv(objects.SECRET_KEY, SECRET)
    return objects


@pytest.fixture(scope="module")
def bucket_at(objects):
    @cache
    def made(url: str, silent_s: float):
        limits = {"connect_timeout_s": silent_s, "read_timeout_s": silent_s}
        return objects._Bucket({**OPTIONS, **limits, "endpoint_url": url})

    return made


@each(OF_OBJECTS)
def test_what_follows_from_an_answer_of_s3_to_a_trial(row, answer, of_s3, on_hosts, objects, bucket_at, clock):
    """Two of three attempts have trouble."""
    refused = on_hosts.module("refused").Refused
    told = {"errors": []}

    def attempt(url: str) -> int:
        found = bucket_at(url, patience(answer))
        return objects._attempt(found, told, 0, lambda: found.get("benchstudy/sentinel", bytearray(100)))[0][0]

    if answer == "deaf":
        with deaf() as url, pytest.raises(refused, match="no answer in time, in attempt 3"):
            attempt(url)
        assert [error["kind"] for error in told["errors"]] == ["timeout"] * 3
        return
    of_s3.ask(answer, answer)
    if row.kind == NONE or row.follows == PASSING:
        assert attempt(of_s3.url) == len(b"not ours")
        assert [error["kind"] for error in told["errors"]] == ([] if row.kind == NONE else [row.kind] * 2)
        assert clock.slept == ([] if row.kind == NONE else [0.5, 1.0])
    else:
        with pytest.raises(refused) as why:
            attempt(of_s3.url)
        assert [error["kind"] for error in told["errors"]] == [row.kind] and "in attempt 1 of" in str(why.value)
        assert of_s3.asked == 1 and ACCESS not in str(why.value)


@pytest.fixture(scope="module")
def archive_at(of_s3, of_all, patch) -> Callable[[float], Bucket]:
    """Makes an archive of a client that takes a server for silent after so many seconds."""
    patch.setattr("botocore.endpoint.time", of_all)
    for name, value in {"ACCESS_KEY_ID": ACCESS, "SECRET_ACCESS_KEY": SECRET, "REGION": "us-east-1"}.items():
        patch.setenv(f"AWS_{name}", value)
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        patch.setenv(f"AWS_{name}", "/dev/null")
    patch.delenv("AWS_PROFILE", raising=False)

    def made(silent_s: float) -> Bucket:
        patch.setattr(archive, "_SILENT_S", silent_s)
        return Bucket("s3://data/archive", of_s3.url)

    return made


@pytest.fixture(scope="module")
def shared_archive(archive_at) -> Callable[[float], Bucket]:
    """The same, made once per limit."""
    return cache(archive_at)


@pytest.fixture
def bucket(shared_archive, request) -> Bucket:
    return shared_archive(patience(answer_of(request)))


def fetched(bucket: Bucket) -> bytes:
    into = io.BytesIO()
    digest = bucket.get("object", into, 1000)
    assert digest == hashlib.sha256(into.getvalue()).hexdigest()
    return into.getvalue()


@each(OF_ARCHIVE)
def test_what_follows_from_an_answer_of_an_archive(row, answer, bucket, of_s3, clock):
    if row.outcome == AGAIN:
        of_s3.ask(*[answer] * (archive._ATTEMPTS - 1))
        assert fetched(bucket) == bytes(1000)
        assert of_s3.asked == (1 if answer == SLOW else archive._ATTEMPTS)
        return
    of_s3.ask(*[answer] * 9)
    with pytest.raises(archive.BenchstudyError) as refused:
        fetched(bucket)
    assert row.outcome in str(refused.value) and SECRET not in str(refused.value) and ACCESS not in str(refused.value)
    assert of_s3.asked == 1 and not clock.slept


def test_patience_with_an_archive_ends_and_says_that_the_command_goes_on(archive_at, of_s3):
    fresh = archive_at(_SILENT_S)  # if nearly nothing is answered, boto3 retries less often
    for answer in (RESET, CUT, SILENT, "503"):
        of_s3.ask(*[answer] * 99)
        with pytest.raises(ArchiveError, match="run the same command again: it continues from here"):
            fetched(fresh)
        assert of_s3.asked == archive._ATTEMPTS, answer


if __name__ == "__main__":
    for name, (page, rows) in TABLES.items():
        write(page, name, rows)
    sys.exit(0)

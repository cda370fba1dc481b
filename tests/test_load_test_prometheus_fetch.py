"""The agent's `prometheus-fetch` against real servers: whole, in pages, resumed, refused; and the file it writes."""

import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import free_ports
from prometheus_file import figures
from prometheus_history import Calls, Instance, lines
from prometheus_server import (
    PROGRAMS,
    Prometheus,
    agent,
    agent_argv,
    agent_environment,
    backfill,
    exporter,
    prometheus,
    proxy,
)
from prometheus_trial import WANTED, fetch, write_facts
from waiting import until

from benchstudy.families.load_test.parse import METRICS
from benchstudy.families.load_test.prometheus_raw import cut, raw_lines, sections
from benchstudy.families.load_test.prometheus_samples import pages, read_matrix
from benchstudy.model.family import ParseError

SECONDS = 300
FILE = "metrics.ndjson.gz"
API = [
    Calls("mattermost_api_time", "handler", name, 3, 0.03, {"status_code": "200"})
    # Characters that patterns, JSON and PromQL strings could each misread.
    for name in ("plain", "a|b.*c", 'say "hi"\\n', '"values":[[1,"2"]]', "(x){y}[z]$")
]
INSTANCES = [
    Instance(name, API, {"go_goroutines": 100.0}, {"mattermost_http_requests_total": 15.0})
    for name in ("app1:8067", "app2:8067")
]


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@pytest.fixture(scope="module")
def begin_s() -> int:
    return int(time.time()) - 3600


@pytest.fixture(scope="module")
def data(begin_s: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    for calls in API:
        calls.value = escaped(calls.value)
    backfill(folder, lines(INSTANCES, begin_s, SECONDS))
    return folder


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[Prometheus]:
    with prometheus(data) as running:
        yield running


@contextmanager
def again(data: Path, folder: Path, *options: str, authorization: str | None = None) -> Iterator[Prometheus]:
    """Another server with the same history in `folder`. A server locks its own."""
    shutil.copytree(data / "data", folder / "data", ignore=shutil.ignore_patterns("lock"))
    with prometheus(folder, None, *options, authorization=authorization) as running:
        yield running


@pytest.fixture(scope="module")
def window(begin_s: int) -> tuple[float, float]:
    return begin_s + 60.5, begin_s + 280.25


@pytest.fixture(scope="module")
def whole(server, window, tmp_path_factory) -> Path:
    """Fetched with one page per metric."""
    folder = tmp_path_factory.mktemp("whole")
    fetch(server, folder, *window)
    return folder / FILE


def samples(path: Path) -> set[tuple]:
    """Every sample, with the metric and the labels of its series."""
    found = [
        (page.metric, tuple(sorted(series.labels.items())), at, value)
        for page in pages(path)
        for series in page.series
        for at, value in zip(series.times_ms.tolist(), series.values.tolist(), strict=True)
        if at > page.start_ms
    ]
    assert len(found) == len(set(found)), "a sample is there twice"
    return set(found)


def spec_of(url: str, window: tuple[float, float], **changes: object) -> dict:
    spec = {"url": url, "start_s": window[0], "end_s": window[1], "scrape_interval_s": 1.0}
    return {**spec, "metrics": WANTED, **changes}


def refused(cwd: Path, spec: dict, **secrets: str) -> str:
    """Why nothing was fetched. No secret is printed or stored."""
    done = agent("prometheus:fetch", spec=spec, cwd=cwd, **secrets)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr and not (cwd / FILE).exists()
    for secret in secrets.values():
        assert secret not in done.stderr
        assert not any(secret.encode() in path.read_bytes() for path in cwd.rglob("*") if path.is_file())
    return done.stderr


# --- what is fetched --------------------------------------------------------------------------------------------


def test_everything_of_the_window_and_its_margin_is_there(server, window, whole):
    (section,) = sections(whole)
    assert (section.url, section.start_s, section.end_s, section.margin_s) == (server.url, *window, 60.0)
    assert section.version == server.get("/api/v1/status/buildinfo")["version"]
    assert abs(section.clock["offset_s"]) <= section.clock["uncertainty_s"] + 0.01
    assert section.metrics["mattermost_api_time_bucket"] == 2 * len(API) * 12
    assert "mattermost_db_store_time_bucket" in section.missing and "up" not in section.missing
    assert section.problems == ()
    found = samples(whole)
    assert section.samples == len(found)
    first, last = window[0] - 60, window[1]
    times_of: dict[tuple, list[float]] = {}
    for metric, labels, at, _ in found:
        times_of.setdefault((metric, labels), []).append(at / 1000)
    for times in times_of.values():
        assert first < min(times) < first + 3 and last - 1 < max(times) <= last
    handlers = {dict(labels).get("handler") for _, labels, _, _ in found} - {None}
    assert {escaped(handler) for handler in handlers} == {calls.value for calls in API}


def test_answers_are_kept_as_they_came(server, window, whole):
    for head, answer, text in raw_lines(whole):
        assert json.loads(text)["kind"] == head["kind"]
        if head["kind"] == "page" and head["metric"] == "go_goroutines":
            asked = server.get("/api/v1/query", query=head["query"], time=head["end_s"])
            assert json.loads(answer) == {"status": "success", "data": asked}


@pytest.mark.parametrize(
    ("most_samples", "most_pages"),
    # Two short pages of all series, then parts of the series of ten seconds each.
    [(5000, 60), (150, 2000)],
)
def test_a_server_that_limits_queries_is_asked_for_less_at_a_time(
    data, server, window, whole, tmp_path, most_samples, most_pages
):
    span = (window[0], window[0] + 60)
    with again(data, tmp_path / "limited", f"--query.max-samples={most_samples}") as limited:
        with pytest.raises(OSError, match="422"):
            limited.get("/api/v1/query", query="mattermost_api_time_bucket[60s]", time=span[1])
        summary = fetch(limited, tmp_path / "out", *span)
    found = samples(tmp_path / "out" / FILE)
    assert found == {sample for sample in samples(whole) if sample[2] <= 1000 * span[1]}
    metrics = len({metric for metric, *_ in found})
    assert summary["samples"] == len(found) and metrics < summary["pages"] < most_pages


def test_a_limit_below_one_series_is_named(data, window, tmp_path):
    with again(data, tmp_path / "limited", "--query.max-samples=5") as limited:
        said = refused(tmp_path, spec_of(limited.url, window))
    assert "refuses even one series" in said and "too many samples" in said and "--query.max-samples" in said


def test_a_server_that_gives_queries_no_time_is_named(data, window, tmp_path):
    with again(data, tmp_path / "hurried", "--query.timeout=0s") as hurried:
        said = refused(tmp_path, spec_of(hurried.url, window))
        # Version 2 says the first, and version 3 in some places, too.
        out_of_time = re.compile(r"query timed out|context deadline exceeded")
        asked = f"Prometheus at {hurried.url}, asked for /api/v1/query: "
        assert said.startswith(asked) and out_of_time.match(said.removeprefix(asked))
        done = agent("prometheus:clock", hurried.url)
        assert done.returncode == 3 and out_of_time.search(json.loads(done.stdout)["error"])


def test_large_answers_are_asked_for_in_parts(server, window, whole, tmp_path):
    summary = fetch(server, tmp_path, *window, most_answer_bytes=100_000)
    assert summary["pages"] > 20
    assert samples(tmp_path / FILE) == samples(whole)
    assert all(len(answer) <= 100_000 for head, answer, _ in raw_lines(tmp_path / FILE) if head["kind"] == "page")


def test_names_beyond_letters_and_digits_are_read_where_prometheus_has_them(tmp_path):
    """Names like those of OpenTelemetry, which Prometheus accepts from version 3 on."""
    begin_s, metric = int(time.time()) - 3600, "http.server.requests"
    with prometheus(tmp_path / "empty") as running:
        if int(running.get("/api/v1/status/buildinfo")["version"].partition(".")[0]) < 3:
            pytest.skip(f"needs Prometheus 3: ${PROGRAMS} names a folder with one")
    lines = [
        f'{{"{metric}","http.route"="/{route}",instance="app:1"}} {7 * second} {begin_s + second}'
        for route in range(9)
        for second in range(60)
    ]
    backfill(tmp_path / "past", iter(lines))
    with prometheus(tmp_path / "past") as running:
        # Answers may be so small that routes are fetched in parts, by their label.
        named = {
            "select": '{"http.route"!="/0"}',
            "metrics": {"system": [metric], "host": []},
            "scrape_interval_s": 6.0,
        }
        fetch(running, tmp_path / "out", begin_s + 10, begin_s + 50, margin_s=0.0, most_answer_bytes=4000, **named)
    found = samples(tmp_path / "out" / FILE)
    assert {dict(labels)["http.route"] for _, labels, *_ in found} == {f"/{route}" for route in range(1, 9)}
    assert len(found) == 8 * 40
    queries = [head["query"] for head, _, _ in raw_lines(tmp_path / "out" / FILE) if head["kind"] == "page"]
    assert len(queries) > 1 and all(f'"{metric}"' in query for query in queries)


def test_tables_do_not_depend_on_pages(server, window, whole, tmp_path):
    fetch(server, tmp_path / "short", *window, page_s=7.0)
    found = []
    for name, file in (("long", whole), ("short", tmp_path / "short" / FILE)):
        (tmp_path / name / METRICS).parent.mkdir(parents=True)
        (tmp_path / name / METRICS).write_bytes(file.read_bytes())
        write_facts(tmp_path / name, window, window, width_s=5.0, interval_s=1.0)
        found.append(figures(tmp_path / name))
    (long_values, long), (short_values, short) = found
    assert long_values.pop("samples") <= short_values.pop("samples")  # those on a border arrive twice
    assert short_values == pytest.approx(long_values, rel=1e-9)
    for name, rows in long.items():
        for mine, other in zip(rows, short[name], strict=True):
            assert mine.keys() == other.keys()
            for column, value in mine.items():
                assert other[column] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


# --- interruptions ----------------------------------------------------------------------------------------------


def test_a_killed_fetch_goes_on_where_it_was(server, window, whole, tmp_path):
    asked: list[str] = []
    reached, gone = threading.Event(), threading.Event()

    def behave(request, number: int) -> None:
        if "/query?" in request.path and "time%28%29" not in request.path:
            asked.append(request.path)
        if len(asked) == 12 and not gone.is_set():
            reached.set()
            gone.wait(60)

    partial = tmp_path / "scratch" / "partial"
    partial.parent.mkdir()
    with proxy(server, behave) as url:
        spec = spec_of(url, window, margin_s=60.0, page_s=40.0, partial=str(partial))
        first = subprocess.Popen(
            agent_argv("prometheus:fetch"), stdin=subprocess.PIPE, cwd=tmp_path, env=agent_environment()
        )
        first.stdin.write(json.dumps(spec).encode() + b"\n")
        first.stdin.close()
        assert reached.wait(60)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        gone.set()
        with partial.open("ab") as file:
            file.write(gzip.compress(b'{"kind":"page","metric":"half a line')[:-9])  # as after a truncated write
        before = list(asked)
        done = agent("prometheus:fetch", spec=spec, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["resumed"] and not partial.exists()
    after = asked[len(before) :]
    # The page that was under way is fetched again, all others once.
    assert after[0] == before[-1] and not set(after[1:]) & set(before)
    assert samples(tmp_path / FILE) == samples(whole)
    assert summary["samples"] == len(samples(whole)) and summary["version"]


def test_the_beginning_of_another_window_is_not_gone_on_with(server, window, tmp_path):
    (tmp_path / "out").mkdir()
    partial = tmp_path / "partial"
    with proxy(server, lambda request, number: "401" if number > 12 else None) as url:
        done = agent("prometheus:fetch", spec=spec_of(url, window, partial=str(partial)), cwd=tmp_path / "out")
        assert done.returncode == 1 and partial.stat().st_size
        other = spec_of(url, (window[0], window[1] - 1), partial=str(partial))
        said = refused(tmp_path / "out", other)
    assert "401" in said or "is the beginning of something else" in said


def test_what_is_over_in_a_moment_is_waited_for(server, window, whole, tmp_path):
    troubled: dict[str, str] = {}

    def behave(request, number: int) -> str | None:
        # Each page once, in one way or the other.
        if "/query?" not in request.path or "time%28%29" in request.path or request.path in troubled:
            return None
        return troubled.setdefault(request.path, ("cut", "503")[len(troubled) % 2])

    few = {"system": ["mattermost_api_time_count", "go_goroutines"], "host": []}
    with proxy(server, behave) as url:
        fetch(url, tmp_path, *window, metrics=few, page_s=50.0)
    assert len(troubled) == 12
    assert samples(tmp_path / FILE) == {sample for sample in samples(whole) if sample[0] in few["system"]}


def test_patience_ends(server, window, tmp_path):
    with proxy(server, lambda request, number: "503" if number > 8 else None) as url:
        said = refused(tmp_path, spec_of(url, window, patience_s=0.3))
    assert f"Prometheus at {url}: it answered 503 Service Unavailable, for 0.3 s" in said


# --- refusals ---------------------------------------------------------------------------------------------------


def test_a_server_that_does_not_run_is_named(window, tmp_path):
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert refused(tmp_path, spec_of(url, window)) == (
        f"Prometheus at {url}: Connection refused; does it run, and can this host reach it?\n"
    )
    done = agent("prometheus:clock", url)
    assert done.returncode == 3 and "Connection refused" in json.loads(done.stdout)["error"]


def test_a_name_that_nobody_has_is_named(window, tmp_path):
    said = refused(tmp_path, spec_of("http://nobody.invalid:9090", window))
    assert said.startswith("Prometheus at http://nobody.invalid:9090: ") and "can this host reach it?" in said


# The hash of the password below, as `htpasswd -nB -C 4` makes it; Prometheus accepts only this form.
PASSWORD, PASSWORD_HASH = "correct horse 7731", "$2b$04$abcdefghijklmnopqrstuu/NKBV9sT8UwQ2RiIbBlG86yI6j.JrmK"


@pytest.fixture(scope="module")
def guarded(data, tmp_path_factory) -> Iterator[Prometheus]:
    """A server that requires the password."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "web.yml").write_text(json.dumps({"basic_auth_users": {"reader": PASSWORD_HASH}}))
    token = "Basic cmVhZGVyOmNvcnJlY3QgaG9yc2UgNzczMQ=="
    with again(data, folder, f"--web.config.file={folder}/web.yml", authorization=token) as running:
        yield running


def test_the_right_password_opens_and_is_kept_nowhere(guarded, window, whole, tmp_path):
    spec = spec_of(guarded.url, window, margin_s=60.0, credentials="basic")
    done = agent("prometheus:fetch", spec=spec, cwd=tmp_path, user="reader", password=PASSWORD)
    assert done.returncode == 0, done.stderr
    assert samples(tmp_path / FILE) == samples(whole)
    kept = gzip.decompress((tmp_path / FILE).read_bytes()) + done.stdout.encode() + done.stderr.encode()
    for secret in (PASSWORD, guarded.authorization.split()[1]):
        assert secret.encode() not in kept
    answer = agent("prometheus:clock", guarded.url, "basic", user="reader", password=PASSWORD)
    assert abs(json.loads(answer.stdout)["offset_s"]) < 1


@pytest.mark.fault(25)
def test_wrong_and_missing_credentials_are_named_and_not_printed(guarded, window, tmp_path):
    said = refused(tmp_path, spec_of(guarded.url, window))
    assert "refused a question without credentials (401 Unauthorized); set user and password_env" in said
    said = refused(tmp_path, spec_of(guarded.url, window, credentials="basic"), user="reader", password="wrong-9127")
    assert "refused the user and password (401 Unauthorized)" in said
    said = refused(tmp_path, spec_of(guarded.url, window, credentials="bearer"), token="wrong-token-5521")
    assert "refused the bearer token (401 Unauthorized)" in said
    said = refused(tmp_path, spec_of(guarded.url, window, credentials="basic"), user="reader")
    assert said == "BENCHSTUDY_PROMETHEUS_PASSWORD is empty\n"
    # http.client would show such a header's value in its own message.
    said = refused(tmp_path, spec_of(guarded.url, window, credentials="bearer"), token="two\nlines")
    assert said == "BENCHSTUDY_PROMETHEUS_TOKEN is no single line of printable ASCII\n"


def test_a_bearer_token_is_sent_and_compressed_answers_are_read(server, window, whole, tmp_path):
    def behave(request, number: int) -> str:
        return "gzip" if request.headers["Authorization"] == "Bearer a-token-3319" else "401"

    with proxy(server, behave) as url:
        spec = spec_of(url, window, margin_s=60.0, credentials="bearer")
        assert "401" in refused(tmp_path, spec, token="another-4471")
        done = agent("prometheus:fetch", spec=spec, cwd=tmp_path, token="a-token-3319")
    assert done.returncode == 0, done.stderr
    assert samples(tmp_path / FILE) == samples(whole)


def test_a_url_with_a_password_is_refused_without_it(window, tmp_path):
    said = refused(tmp_path, spec_of("http://reader:hidden-8812@127.0.0.1:9090/x", window))
    assert said.startswith("http://127.0.0.1:9090/x: the URL holds credentials") and "hidden" not in said


def test_what_is_no_prometheus_is_named(server, window, tmp_path):
    assert "404 Not Found; is the URL the one below which /api/v1/query lies?" in refused(
        tmp_path, spec_of(server.url + "/grafana", window)
    )
    with exporter() as program:
        said = refused(tmp_path, spec_of(f"http://{program.address}", window))
    assert "this is not an answer of a Prometheus" in said
    # Something listens and speaks another protocol.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        threading.Thread(target=lambda: hang_up(mute), daemon=True).start()
        said = refused(tmp_path, spec_of(f"http://127.0.0.1:{mute.getsockname()[1]}", window))
    assert "can this host reach it?" in said or "BadStatusLine" in said


def hang_up(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(b"220 mail.example ESMTP\r\n")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"select": "instance=~'app.*'"}, "is not a selector; write {name="),
        ({"select": '{instance=~"app("}'}, "answered 400 Bad Request: "),
        ({"metrics": {"system": ["up", "no name"]}}, "metrics: 'no name' is not a name of a metric"),
        ({"start_s": 2e9, "end_s": 1e9}, "the window ends at 1000000000.0 s, before it begins"),
        ({"start_s": 4e9, "end_s": 4e9 + 3600}, "in the future, by the clock of Prometheus at http"),
        ({"credentials": "magic"}, "credentials: 'magic' is neither bearer nor basic"),
    ],
)
def test_a_request_that_cannot_be_is_refused(server, window, tmp_path, changes, said):
    assert said in refused(tmp_path, {**spec_of(server.url, window), **changes})


# --- live: clock, targets, a window that has just ended ---------------------------------------------------------


def test_targets_and_a_window_that_ends_now(tmp_path):
    with (
        exporter() as program,
        prometheus(
            tmp_path / "server",
            {"server": [program.address], "node": [f"127.0.0.1:{free_ports(1)[0]}"]},
            interval="250ms",
        ) as server,
    ):
        program.gauge("go_goroutines", 7)

        def healths() -> dict[str, str]:
            found = json.loads(agent("prometheus:targets", server.url).stdout)["targets"]
            return {target["job"]: target["health"] for target in found}

        until(lambda: healths() == {"server": "up", "node": "down"}, 60)
        targets = json.loads(agent("prometheus:targets", server.url).stdout)["targets"]
        (down,) = [target for target in targets if target["health"] == "down"]
        assert "connection refused" in down["last_error"]
        now = json.loads(agent("prometheus:clock", server.url).stdout)
        assert abs(now["now_s"] - now["asked_wall_s"] - now["offset_s"]) <= now["uncertainty_s"] + 0.001
        ends = time.time() + 1
        fetch(server, tmp_path / "out", ends - 2, ends, scrape_interval_s=0.25, select='{job="server"}')
    values = [
        value
        for metric, _, at, value in samples(tmp_path / "out" / FILE)
        if metric == "go_goroutines" and at > 1000 * (ends - 1)
    ]
    assert len(values) >= 2 and set(values) == {7.0}


# --- the file ---------------------------------------------------------------------------------------------------


def test_a_file_of_several_windows_is_cut_into_them(server, begin_s, whole, tmp_path):
    first, second = (begin_s + 70, begin_s + 130), (begin_s + 150, begin_s + 270)
    for name, window in (("a", first), ("b", second)):
        fetch(server, tmp_path / name, *window, page_s=20.0, margin_s=10.0)
    both = tmp_path / "export.ndjson.gz"
    both.write_bytes(b"".join((tmp_path / name / FILE).read_bytes() for name in "ab"))
    assert [(section.start_s, section.end_s) for section in sections(both)] == [first, second]
    section = cut(both, *second, tmp_path / "second.gz", margin_s=5.0)
    assert (section.start_s, section.end_s, section.margin_s) == (*second, 5.0)
    assert samples(tmp_path / "second.gz") == samples(tmp_path / "b" / FILE)
    part = cut(both, begin_s + 200, begin_s + 210, tmp_path / "part.gz", margin_s=30.0)
    assert part.margin_s == 30.0
    times = [at / 1000 - begin_s for _, _, at, _ in samples(tmp_path / "part.gz")]
    assert 160 <= min(times) < 171 and 209 < max(times) <= 231
    with pytest.raises(ParseError, match="does not hold the window"):
        cut(both, begin_s + 100, begin_s + 160, tmp_path / "between.gz")


def test_a_file_that_is_cut_off_or_another_is_refused(whole, tmp_path):
    content = whole.read_bytes()
    file = tmp_path / FILE
    for length in (0, 1, 100, len(content) // 2, len(content) - 20, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(ParseError, match=r"truncated|cut off|is not an export"):
            list(raw_lines(file))
    damaged = bytearray(content)
    damaged[len(content) // 3] ^= 0x55
    file.write_bytes(damaged)
    with pytest.raises(ParseError, match="truncated or damaged"):
        list(raw_lines(file))
    file.write_bytes(gzip.compress(b'{"some": "JSON"}\n'))
    with pytest.raises(ParseError, match="is not an export of Prometheus data"):
        list(raw_lines(file))
    with pytest.raises(ParseError, match="is missing"):
        sections(tmp_path / "nothing")


def test_json_of_another_layout_gives_the_same_samples(whole):
    for head, answer, _ in raw_lines(whole):
        if head["kind"] != "page" or head["metric"] != "mattermost_api_time_sum":
            continue
        fast = read_matrix(answer)
        slow = read_matrix(json.dumps(json.loads(answer), indent=1).encode())
        assert len(fast) == len(slow) == 2 * len(API)
        for mine, other in zip(fast, slow, strict=True):
            assert mine.labels == other.labels
            assert mine.times_ms.tolist() == other.times_ms.tolist() and mine.values.tolist() == other.values.tolist()

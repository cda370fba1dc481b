"""What workers of a load record and how it is passed on: histograms, alerts, text for Prometheus, the rule's edges."""

import base64
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from fuzz_peers import Answers

from benchstudy.families.load_test.users.on_host import feedback, histogram
from benchstudy.families.load_test.users.on_host.alerts import (
    ALERT,
    OK,
    Alert,
    PrometheusSilent,
    QueryRefused,
    RecentlySeen,
    Seen,
    ask_prometheus,
)
from benchstudy.families.load_test.users.on_host.exposition import exposition
from benchstudy.families.load_test.users.on_host.feedback import SETTLED, SWINGING, TOO_LONG, FeedbackRule
from benchstudy.families.load_test.users.on_host.histogram import Line
from benchstudy.families.load_test.users.on_host.recording import (
    CLIENT_ERROR,
    DROPPED,
    HTTP,
    NO_ANSWER,
    SERVER_ERROR,
    TIMEOUT,
    WEBSOCKET,
    Recorder,
    Records,
    Worker,
)

# --- histograms -------------------------------------------------------------------------------------------------

HOUR_US = 3_600_000_000


def test_buckets_lie_side_by_side_up_to_an_hour_and_are_at_most_a_128th_wide():
    last = histogram.index_of(HOUR_US / 1e6)
    edges = [histogram.edges_of(index) for index in range(last + 1)]
    assert edges[0] == (0, 1e-6)
    assert all(one[1] == other[0] for one, other in pairwise(edges))
    assert edges[-1][0] <= 3600 < edges[-1][1]
    for index, (low, high) in enumerate(edges):
        low_us, high_us = round(low * 1e6), round(high * 1e6)
        assert high_us - low_us == 1 or (high_us - low_us) * 128 <= low_us
        assert high_us - low_us == max(1, 2 ** (low_us.bit_length() - 8)), "two significant digits, and not more"
        middle_us = (low_us + high_us - 1) // 2
        assert {histogram.index_of(us / 1e6) for us in (low_us, middle_us, high_us - 1)} == {index}


def test_times_beyond_the_ends_are_in_the_last_buckets():
    assert histogram.index_of(3601) == histogram.index_of(1e9) == histogram.index_of(3600)
    assert histogram.index_of(-1) == histogram.index_of(0) == histogram.index_of(0.4e-6) == 0
    assert histogram.index_of(0.6e-6) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 100, 999])
def test_a_quantile_is_that_of_the_nearest_rank(size: int):
    """By whole numbers: the least value that this many percent of the values do not exceed."""
    values = [n * 17 % 251 for n in range(size)]  # below 256 us, each has its own bucket
    counts = Counter(histogram.index_of(value / 1e6) for value in values)
    for percent in range(1, 101):
        nearest = sorted(values)[-(-percent * size // 100) - 1]
        assert histogram.quantile(counts, percent / 100) == pytest.approx((nearest + 0.5) / 1e6)
    assert histogram.quantile({5: 0, **counts}, 0.0) == pytest.approx((min(values) + 0.5) / 1e6), (
        "a bucket without values"
    )
    assert histogram.quantile({}, 0.5) is histogram.quantile({7: 0}, 0.5) is None


NUMBERS = sorted({0, *(2**bit + step for bit in range(63) for step in (-1, 0, 1)), 2**63 - 1} - {0})


def _numbers_of(body: bytes) -> Iterator[int]:
    """HdrHistogram's ZigZag LEB128-64b9B: seven bits per byte, lowest first, and all eight of a ninth byte."""
    rest = list(body)
    while rest:
        value = 0
        for place in range(9):
            byte = rest.pop(0)
            value += (byte if place == 8 else byte % 128) * 128**place
            if byte < 128:
                break
        yield -(value + 1) // 2 if value % 2 else value // 2


def test_every_count_is_written_as_the_format_says_and_read_again():
    for number in NUMBERS:
        text = histogram.encode({3: number})
        raw = base64.b64decode(text)
        payload = zlib.decompress(raw[8:])
        cookie, length, offset, digits, lowest, highest, ratio = struct.unpack_from(">iiiiqqd", payload)
        assert (cookie, offset, digits, lowest, highest, ratio) == (0x1C849313, 0, 2, 1, HOUR_US, 1.0)
        assert struct.unpack_from(">ii", raw) == (0x1C849314, len(raw) - 8)
        assert length == len(payload) - 40
        assert list(_numbers_of(payload[40:])) == [-3, number]
        assert histogram.decode(text) == {3: number}


def test_empty_buckets_are_counted_together():
    counts = {0: 1, 1: 2, 5: 64, 200: 8192, 201: 1, 5000: 3}
    payload = zlib.decompress(base64.b64decode(histogram.encode({**counts, 7: 0}))[8:])
    assert list(_numbers_of(payload[40:])) == [1, 2, -3, 64, -194, 8192, 1, -4798, 3]
    assert histogram.decode(histogram.encode(counts)) == counts
    assert histogram.decode(histogram.encode({})) == {}


def encoded(
    body: bytes, *, outer: int = 0x1C849314, cookie: int = 0x1C849313, digits: int = 2, lowest: int = 1, more: int = 0
) -> str:
    head = struct.pack(">iiiiqqd", cookie, len(body) + more, 0, digits, lowest, HOUR_US, 1.0)
    packed = zlib.compress(head + body)
    return base64.b64encode(struct.pack(">ii", outer, len(packed)) + packed).decode()


def test_a_zero_is_one_empty_bucket():
    """Other tools write it so."""
    assert histogram.decode(encoded(bytes([0, 2, 0, 0, 4]))) == {1: 1, 4: 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (encoded(b"\2", outer=0x1C849315), "line 5: no compressed histogram of encoding V2, or cut off"),
        (encoded(b"\2", outer=0x1C849313), "no compressed histogram"),
        (base64.b64encode(base64.b64decode(encoded(b"\2")) + b"x").decode(), "no compressed histogram"),
        (base64.b64encode(base64.b64decode(encoded(b"\2"))[:-1]).decode(), "no compressed histogram"),
        (encoded(b"\2", cookie=0x1C849312), "another layout"),
        (encoded(b"\2", cookie=0x1C849314), "another layout"),
        (encoded(b"\2", digits=3), "a histogram of another layout: 3 digits, from 1"),
        (encoded(b"\2", digits=1), "a histogram of another layout: 1 digits, from 1"),
        (encoded(b"\2", lowest=0), "another layout: 2 digits, from 0"),
        (encoded(b"\2", lowest=2), "another layout: 2 digits, from 2"),
        (encoded(b"\2", more=1), "another layout"),
        (encoded(b"\2", more=-1), "another layout"),
        (encoded(b"\2\x80"), "cut off within a number"),
        (encoded(b"\xff" * 8), "cut off within a number"),
        ("HIST!" + encoded(b"\2"), "line 5: "),
        (encoded(b"\2")[:4] + "!!!!" + encoded(b"\2")[4:], "line 5: "),
        ("", "line 5: "),
        ("AAAA,AAAA", "line 5: "),
    ],
)
def test_a_histogram_that_cannot_be_read_is_refused_with_its_line(text: str, said: str):
    lines = [*histogram.log_head(0.0, "x").splitlines(), f"Tag=a,0.000,1.000,0.000,{text}"]
    with pytest.raises(ValueError, match=said):
        list(histogram.read_log(lines))


def test_a_log_may_have_comments_empty_lines_and_no_tags():
    text = histogram.encode({4: 2})
    lines = [
        "#[comment]\n",
        "\n",
        "  \n",
        '"StartTimestamp"\n',
        f"0.5,1.5,3.000,{text}\n",
        "# more\n",
        f"Tag=b,2,3,4,{text}",
    ]
    assert list(histogram.read_log(lines)) == [Line("", 0.5, 1.5, {4: 2}), Line("b", 2.0, 3.0, {4: 2})]
    with pytest.raises(ValueError, match=r"^line 3: "):
        list(histogram.read_log([*lines[:2], "1,2\n"]))


def test_a_line_of_the_log_has_its_greatest_value_in_milliseconds():
    fields = histogram.log_line(Line("a/b", 1.25, 0.5, {100: 1, 40: 7})).split(",")
    assert fields[:4] == ["Tag=a/b", "1.250", "0.500", "0.101"], "100 us, up to 101"
    # 9 s lie in a bucket of 65,536 us, the 138th from zero.
    assert histogram.log_line(Line("a", 0, 1, {histogram.index_of(9.0): 1})).split(",")[3] == "9043.968"
    assert histogram.log_line(Line("a", 0, 1, {})).split(",")[3] == "0.000"
    head = histogram.log_head(1.5, "words").splitlines()
    assert head[0] == "#[words]" and "#[StartTime: 1.500 (seconds since epoch)]" in head
    assert all(line.startswith(("#", '"')) for line in head)


# --- alerts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


def _http(body: str, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


def _result(kind: str, result: str) -> str:
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}'


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (_result("vector", '[{"metric":{},"value":[7.5,"0.25"]},{"metric":{},"value":[8.5,"9"]}]'), 0.25),
        (_result("vector", '[{"metric":{},"value":[7.5,"+Inf"]}]'), math.inf),
        (_result("scalar", '[7.5,"3"]'), 3.0),
        (_result("vector", "[]"), None),
    ],
)
def test_the_first_value_of_an_answer_counts(answers, body: str, value: float | None):
    answers.by_path = {"/api/v1/query?query=up+%3E+0": _http(body)}
    assert ask_prometheus(answers.url, "up > 0", 5.0) == ask_prometheus(f"{answers.url}/", "up > 0", 5.0) == value


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_http('{"error":"parse error"}', 400), QueryRefused),
        (_http('{"error":"too many samples"}', 422), QueryRefused),
        (_http("Unauthorized", 401), PrometheusSilent),
        (_http("later", 503), PrometheusSilent),
    ],
)
def test_only_a_query_that_is_wrong_is_refused_for_good(answers, answer: bytes, kind: type[Exception]):
    answers.by_path = {"/api/v1/query": answer}
    with pytest.raises(PrometheusSilent) as silent:
        ask_prometheus(answers.url, "sum(x", 5.0)
    assert type(silent.value) is kind
    status, body = answer.split(b" ")[1].decode(), answer.rpartition(b"\r\n")[2].decode()
    assert str(silent.value) == f"{answers.url} answered {status} to 'sum(x': {body}"


@pytest.mark.parametrize(
    "answer",
    [
        _http("no JSON"),
        _http("[1]"),
        _http("{}"),
        _http(_result("vector", '[{"metric":{},"value":[7.5,"much"]}]')),
        _http(_result("vector", '[{"metric":{}}]')),
        _http(_result("scalar", "[7.5]")),
        _http("[" * 100_000),
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"words\r\n\r\n",
        b"",
    ],
)
def test_an_answer_that_cannot_be_read_is_none(answers, answer: bytes):
    answers.by_path = {"/api/v1/query": answer}
    with pytest.raises(PrometheusSilent, match=r"gave no answer to 'up': ") as silent:
        ask_prometheus(answers.url, "up", 5.0)
    assert type(silent.value) is PrometheusSilent


def test_of_a_long_answer_only_the_beginning_is_read(answers):
    """A mebibyte of a result, and 2000 characters of an error."""
    body = _result("scalar", '[7.5,"3"]').rjust(1 << 20)
    answers.by_path = {"/api/v1/query": _http(body)}
    assert ask_prometheus(answers.url, "up", 5.0) == 3
    answers.by_path = {"/api/v1/query": _http(f" {body}")}
    with pytest.raises(PrometheusSilent):
        ask_prometheus(answers.url, "up", 5.0)
    answers.by_path = {"/api/v1/query": _http("x" * 3000, 500)}
    with pytest.raises(PrometheusSilent, match=r": x{2000}$"):
        ask_prometheus(answers.url, "up", 5.0)


def test_an_alert_is_above_its_bound():
    alert = Alert("cpu", above=0.5, ignore_first_s=0.0)
    assert [alert.state(0.0, value) for value in (0.4999, 0.5, 0.5001, math.inf)] == [OK, OK, ALERT, ALERT]


def test_requests_leave_the_statistics_once_they_are_as_old_as_the_window():
    recently = RecentlySeen(10.0)
    recently.add(1.0, Seen(1, 8.0, 1, {histogram.index_of(8.0): 1}))
    recently.add(2.0, Seen(3, 3.0, 0, {histogram.index_of(1.0): 3}))
    assert recently.statistics(10.999)["client_mean"] == 11 / 4
    assert recently.statistics(10.999)["client_p99"] == pytest.approx(8, rel=1 / 128)
    assert recently.statistics(10.999)["client_errors"] == 1 / 4
    assert recently.statistics(11.0)["client_mean"] == 1
    assert recently.statistics(11.0)["client_errors"] == 0
    assert set(recently.statistics(12.0).values()) == {None}
    recently.add(20.0, Seen(requests=3, errors=3))
    assert recently.statistics(21.0) == {"client_mean": None, "client_p99": None, "client_errors": 1}


# --- records ----------------------------------------------------------------------------------------------------


def test_records_are_those_of_what_was_added():
    records = Records()
    records.add("a/x", HTTP, 0.25)
    records.add("a/x", HTTP, 1.5, SERVER_ERROR, "e" * 299 + "xyz")
    records.add("a/x", HTTP, 0.5, SERVER_ERROR, "not the first")
    records.add("a/x", HTTP, 0.001, NO_ANSWER, "refused")
    records.add("a/ws", WEBSOCKET, 2.0)
    records.fail("a/ws", DROPPED)
    one, sockets = records.measured["a/x"], records.measured["a/ws"]
    assert (one.kind, one.count, one.failures, one.sum_s, one.max_s) == (HTTP, 4, 3, 2.25, 1.5)
    assert (one.timed, one.mean_s) == (3, 0.75), "a refused connection has no time"
    assert (sockets.kind, sockets.count, sockets.failures) == (WEBSOCKET, 1, 0)
    assert one.counts == {histogram.index_of(seconds): 1 for seconds in (0.25, 0.5, 1.5)}
    assert records.failures == {("a/x", SERVER_ERROR): 2, ("a/x", NO_ANSWER): 1, ("a/ws", DROPPED): 1}
    assert records.examples == {
        ("a/x", SERVER_ERROR): "e" * 299 + "x",
        ("a/x", NO_ANSWER): "refused",
        ("a/ws", DROPPED): "",
    }


def test_merged_records_are_those_of_both():
    one, other = Records(events=2), Records(events=3)
    one.add("a", HTTP, 1.0, TIMEOUT, "first")
    other.add("a", HTTP, 0.5, TIMEOUT, "second")
    other.add("a", HTTP, 0.5)
    other.add("b", HTTP, 4.0, NO_ANSWER, "third")
    one.merge(other)
    measured = one.measured["a"]
    assert (measured.count, measured.failures, measured.sum_s, measured.max_s) == (3, 2, 2.0, 1.0)
    assert measured.counts == {histogram.index_of(1.0): 1, histogram.index_of(0.5): 2}
    assert one.failures == {("a", TIMEOUT): 2, ("b", NO_ANSWER): 1}
    assert one.examples == {("a", TIMEOUT): "first", ("b", NO_ANSWER): "third"}
    assert one.events == 5 and other.measured["a"].count == 2


def test_only_requests_that_the_server_failed_are_errors():
    records = Records()
    for failure in (None, SERVER_ERROR, TIMEOUT, NO_ANSWER, CLIENT_ERROR):
        records.add("a", HTTP, 1.0, failure)
        records.add("a/ws", WEBSOCKET, 1.0, failure)
    records.add("b", HTTP, 2.0, TIMEOUT)
    seen = records.seen()
    assert (seen.requests, seen.sum_s, seen.errors) == (6, 6.0, 4)
    assert seen.counts == {histogram.index_of(1.0): 4, histogram.index_of(2.0): 1}


def test_a_report_has_what_is_new_and_the_number_of_users():
    recorder = Recorder()
    first = recorder.report()
    assert (first["ready"], first["websockets"], first["records"]["events"]) == (0, 0, 0)
    recorder.records.add("a", HTTP, 1.0, TIMEOUT, "late")
    recorder.ready, recorder.websockets = 3, 2
    second, third = recorder.report(), recorder.report()
    assert (second["ready"], second["websockets"], third["ready"]) == (3, 2, 3)
    assert second["records"]["failures"] == [["a", TIMEOUT, 1, "late"]] and third["records"]["measured"] == {}
    assert 0 < first["cpu_s"] <= second["cpu_s"]
    again = Records.of_message(second["records"])
    assert again.failures == {("a", TIMEOUT): 1} and again.examples == {("a", TIMEOUT): "late"}


# --- what Prometheus is given ------------------------------------------------------------------------------------


def test_what_the_master_shows_has_everything_that_was_recorded():
    records = Records(events=7)
    times = [0.004, 0.0049, 0.006, 0.02, 0.03, 0.09, 0.2, 0.4, 0.7, 2.0, 4.0, 9.0, 20.0]
    for seconds in times:
        records.add('view "x"\\/posts', HTTP, seconds)
    records.add("two\nlines", WEBSOCKET, 30.0, TIMEOUT, "too late")
    records.add("two\nlines", WEBSOCKET, 0.0, NO_ANSWER, "refused")
    workers = [
        Worker(0, "host", users=3, ready=2, websockets=1, cpu_s=1.25, rss_bytes=4096),
        Worker(1, "other", users=5, ready=4, websockets=6, cpu_s=0.5, rss_bytes=8192),
        Worker(2, "new"),  # has not reported yet
    ]
    text = exposition(records, workers, wanted=8)
    samples = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
    name, labels = "benchstudy_client_request_seconds", 'request="view \\"x\\"\\\\/posts",kind="http"'
    bounds = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf")
    assert [samples.pop(f'{name}_bucket{{{labels},le="{bound}"}}') for bound in bounds] == [
        str(sum(seconds <= float(bound) for seconds in times)) for bound in bounds
    ]
    assert samples.pop(f"{name}_count{{{labels}}}") == "13"
    assert float(samples.pop(f"{name}_sum{{{labels}}}")) == pytest.approx(sum(times))
    sockets = 'request="two\\nlines",kind="websocket"'
    assert [samples.pop(f'{name}_bucket{{{sockets},le="{bound}"}}') for bound in bounds] == ["0"] * 11 + ["1"]
    assert (samples.pop(f"{name}_count{{{sockets}}}"), samples.pop(f"{name}_sum{{{sockets}}}")) == ("1", "30.0")
    expected = {
        'benchstudy_client_failures_total{request="two\\nlines",failure="timeout"}': "1",
        'benchstudy_client_failures_total{request="two\\nlines",failure="no_answer"}': "1",
        "benchstudy_client_events_total": "7",
        "benchstudy_client_users_wanted": "8",
    }
    for metric, values in {
        "users": ("3", "5", "0"), "ready": ("2", "4", "0"), "websockets": ("1", "6", "0"),
        "cpu_seconds_total": ("1.25", "0.5", "0.0"), "resident_bytes": ("4096", "8192", "0"),
    }.items():  # fmt: skip
        for number, host in enumerate(("host", "other", "new")):
            expected[f'benchstudy_client_{metric}{{worker="{number}",host="{host}"}}'] = values[number]
    assert samples == expected
    told = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(told) == len(set(told)) == 9
    assert [line.split(" ")[2] for line in text.splitlines() if line.startswith("# HELP")] == told


# --- the rule's edges ---------------------------------------------------------------------------------------------

RULE = feedback.Constants(max_users=100, step=2, every_s=1.0, slope=0.5, window_s=4.0, at_most_s=50.0, swing=0.5)


def decided(rule: FeedbackRule, checks: list[tuple[float, float, bool]]) -> feedback.Result | None:
    for t_s, users, over in checks:
        rule.decide(t_s, users, ("cpu",) * over)
    return rule.result


def test_a_result_is_of_the_window_before_it_and_stays():
    rule = FeedbackRule(RULE)
    quiet = [(float(t), 2.0 * t, False) for t in range(1, 10)]
    turns = [(10.0, 20.0, True), (11.0, 18.0, False), (12.0, 20.0, True), (13.0, 18.0, False)]
    assert decided(rule, quiet + turns) is None, "since the first alert, the window is not over"
    wanted = rule.decide(14.0, 20.0, ("cpu",))
    result = rule.result
    # Checks at 11, 12, 13 and 14 s.
    assert (result.why, result.supported, result.begin_s, result.end_s) == (SETTLED, 19.0, 10.0, 14.0)
    assert result.slope == pytest.approx(0.4)  # sum of (x - 12.5) (y - 19) is 2, of (x - 12.5) squared 5
    assert (result.passed, result.failed, result.bracket) == (18.0, 20.0, feedback.Bracket(18.0, 20.0))
    assert (result.alerted, result.first_alert, result.limited_by) == ({"cpu": 0.5}, "cpu", "cpu")
    assert result.swing == pytest.approx(2 / 19)
    assert rule.decide(15.0, 80.0, ()) == wanted and rule.result is result


@pytest.mark.parametrize(("slope", "is_found"), [(0.4, False), (0.41, True)])
def test_a_window_is_flat_below_the_slope(slope: float, is_found: bool):
    rule = FeedbackRule(feedback.Constants(**{**vars(RULE), "slope": slope}))
    turns = [(10.0 + n, (20.0, 18.0)[n % 2], n % 2 == 0) for n in range(5)]
    assert feedback.slope_of([(t, users) for t, users, _ in turns[1:]]) == 0.4
    assert (decided(rule, turns) is not None) == is_found


def test_a_load_ends_at_its_latest_time_with_what_was_seen():
    rule = FeedbackRule(feedback.Constants(**{**vars(RULE), "at_most_s": 6.0, "window_s": 9.0}))
    checks = [(float(t), 2.0 * t, False) for t in range(1, 6)]
    assert decided(rule, checks) is None
    result = decided(rule, [(6.0, 12.0, False)])
    assert (result.why, result.supported, result.begin_s, result.end_s) == (TOO_LONG, None, 0.0, 6.0)
    assert (result.slope, result.first_alert, result.limited_by) == (2.0, None, None)
    assert (result.passed, result.failed, result.alerted) == (12.0, None, {})


def test_an_alert_that_began_with_the_window_was_seen_to_begin():
    rule = FeedbackRule(feedback.Constants(**{**vars(RULE), "at_most_s": 14.0}))
    result = decided(rule, [(float(t), 20.0 if t > 10 else 18.0, t > 10) for t in range(9, 15)])
    assert (result.why, result.passed, result.failed, result.begin_s) == (TOO_LONG, 18.0, 20.0, 10.0)
    assert result.bracket == feedback.Bracket(None, 20.0), "of the window alone"


def test_the_most_frequent_alert_limits_and_the_first_is_told():
    rule = FeedbackRule(feedback.Constants(**{**vars(RULE), "at_most_s": 4.0, "window_s": 3.0}))
    for t_s, alerts in enumerate([(), ("memory", "cpu"), ("cpu",), ("cpu", "disk")], 1):
        rule.decide(float(t_s), 10.0, alerts)
    assert rule.result.alerted == {"cpu": 1.0, "memory": 1 / 3, "disk": 1 / 3}
    assert (rule.result.limited_by, rule.result.first_alert) == ("cpu", "memory")


def test_counting_begins_with_the_first_alert_or_with_the_most_users_after_the_start_up():
    def ends_s(checks: list[tuple[float, float, bool]], **changes: float) -> float:
        rule = FeedbackRule(feedback.Constants(**{**vars(RULE), **changes}))
        for check in checks:
            if decided(rule, [check]):
                return check[0]
        return math.inf

    at_most = [(float(t), 100.0 if t >= 3 else 99.0, False) for t in range(1, 40)]
    assert ends_s(at_most) == 7
    assert ends_s(at_most, start_up_s=5.0) == 9
    assert ends_s(at_most, start_up_s=5.1) == 10
    turns = [(float(t), 20.0 - t % 2, t % 2 == 0 and t > 4) for t in range(1, 40)]
    assert ends_s(turns) == 10
    assert ends_s([(t + 0.25, 20.0 - t % 2, t % 2 == 0) for t in range(20)]) == 4.25, "the first check alerted"
    assert ends_s(turns, start_up_s=6.0) == 10 and ends_s(turns, start_up_s=6.1) == 12
    assert ends_s([(t, 5.0, False) for t, _, _ in turns]) == math.inf


def test_a_window_swings_above_its_share_of_the_mean():
    window = [(1.0, 10.0, ()), (2.0, 15.0, ("cpu",)), (3.0, 10.0, ()), (4.0, 10.0, ())]
    share = 5 / 11.25
    assert feedback.swing_of(window) == share
    assert feedback.swing_of(window[:1]) == feedback.swing_of([(1.0, 0.0, ())]) == 0
    assert feedback.verdict(window, window, share) == SETTLED
    assert feedback.verdict(window, window, share - 1e-9) == SWINGING

"""logbench against real logs: what it measures, proves and refuses; and the parser of its result."""

import base64
import json
import os
import re
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT
from log_write_trials import NO_TIMES
from tessera_logs import make_keys, null_log, posix_log, provisioned

from benchstudy.families.log_write.logbench import Counts, Distribution, LogbenchResult, parse_logbench
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import of_logbench
from benchstudy.model.family import ParseError

DATA = CHECKOUT / "tests" / "data" / "tessera"
CAPTURED = sorted(path.name for path in DATA.glob("logbench-*.json"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp("logs"), "logbench", "tessera-posix")


def start(programs: Path, folder: Path, verb: str, config: dict[str, Any], **environment: str) -> subprocess.Popen[str]:
    (folder / "config.json").write_text(json.dumps(config))
    argv = [programs / "logbench", verb, "--config", folder / "config.json", "--out", folder / "result.json"]
    (folder / "result.json").unlink(missing_ok=True)
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def finish(process: subprocess.Popen[str], folder: Path) -> LogbenchResult:
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
    return parse_logbench((folder / "result.json").read_text())


def refused(process: subprocess.Popen[str], folder: Path) -> str:
    """Why there is no result."""
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert not (folder / "result.json").exists()
    return said


def config_of(log: Any, **changes: Any) -> dict[str, Any]:
    config = {
        "read_url": log.url,
        "write_urls": [log.url],
        "public_key": log.public_key,
        "rate_per_s": 500,
        "duration_s": 2,
        "max_in_flight": 2000,
        "drain_s": 10,
        "timeout_s": 10,
    }
    return {**config, **changes}


# --- what it measures and proves --------------------------------------------------------------------------------


@pytest.mark.parametrize("antispam", [False, True])
def test_a_real_log_grows_by_what_it_accepted_and_proves_it(programs, tmp_path, antispam):
    flags = ["--antispam"] if antispam else []
    with posix_log(programs, tmp_path, *flags) as log:
        config = config_of(log, warm_up_s=1, duration_s=4, cool_down_s=1, duplicate_share=0.2, leaf_bytes=64)
        config |= {"rate_per_s": 1000, "max_in_flight": 6000}
        result = finish(start(programs, tmp_path, "write", config), tmp_path)
        grown = log.size()
        first = (log.folder / "tile" / "entries" / "000").read_bytes()
    undisturbed = result.start_delay.max_s < 0.1  # due to other work on this machine
    assert [*of_logbench(result)] == [] or not undisturbed
    window, total = result.window, result.total
    assert (window.planned, window.accepted, result.offered_per_s) == (4000, 4000, 1000.0)
    assert total.planned == 6000

    # The tree has what the log accepted, leaf by leaf. Even without antispam, this server knows the last 262 144
    # leaves.
    assert 0.15 * 6000 < total.duplicates_sent < 0.25 * 6000
    assert total.duplicates == total.duplicates_sent
    assert result.checkpoints[0].size == 0
    assert result.checkpoints[-1].size == grown == total.accepted - total.duplicates
    assert sum(sample.integrated for sample in result.samples) <= grown
    assert int.from_bytes(first[:2], "big") == 64
    assert first[2:10].hex() == result.run_id

    # No checkpoint lacks a leaf that was sent longer ago than the slowest leaf of the window took to get into one.
    seen = [row for row in result.checkpoints if 1 <= row.t_s <= 5]
    new = (window.accepted - window.duplicates) / 4
    slowest_s, batch = result.integrate_latency.max_s, 256
    assert all(row.size <= 1000 * row.t_s + 1 for row in result.checkpoints if row.size)
    assert all(row.size >= 0.95 * new * (row.t_s - slowest_s) - batch for row in seen if row.t_s - slowest_s >= 1)
    # QPS over the whole publish steps of the window is the rate at which new leaves were accepted, unless the disk held
    # the log up. A leaf that just missed a checkpoint waits for the next one.
    step_s, late_s = min(after.t_s - before.t_s for before, after in pairwise(seen)), 0.3
    if slowest_s < step_s + late_s and seen[0].size > new * (seen[0].t_s - late_s):
        qps = (seen[-1].size - seen[0].size) / (seen[-1].t_s - seen[0].t_s)
        assert qps == pytest.approx(new, rel=0.15 if undisturbed else 0.5)

    assert result.proofs.asked == result.proofs.proved == 100
    assert result.proofs.consistency_proved == result.proofs.consistency_asked > 2
    # This server's checkpoint comes once per second, at least one poll after the answer that it waits for.
    assert result.integrate_latency.count == result.add_latency.count == window.accepted - window.duplicates
    assert result.add_latency.quantile(0.5) < result.integrate_latency.quantile(0.5) < 5
    assert [sample.t_s for sample in result.samples] == list(range(6))
    assert all(sample.integrate_p99_s is not None for sample in result.samples)
    assert 0 < result.cpu_user_s + result.cpu_system_s < 4
    assert result.duplicate_latency.count == window.duplicates
    assert result.duplicate_latency.quantile(0.5) < result.add_latency.quantile(0.5)  # it waits for no batch


def test_a_log_that_others_write_to_is_watched(programs, tmp_path):
    with posix_log(programs, tmp_path) as log:
        watcher_folder = tmp_path / "watch"
        watcher_folder.mkdir()
        look = {"read_url": log.url + "/", "public_key": log.public_key, "duration_s": 3, "still_s": 6}
        watcher = start(programs, watcher_folder, "watch", {**look, "proof_sample": 40})
        written = finish(start(programs, tmp_path, "write", config_of(log)), tmp_path)
        watched = finish(watcher, watcher_folder)
    assert (watched.mode, [*of_logbench(watched)]) == ("watch", [])
    assert watched.checkpoints[-1].size == written.total.accepted == 1000
    assert watched.proofs.asked == watched.proofs.proved == 40
    assert watched.proofs.consistency_proved == watched.proofs.consistency_asked


def test_files_are_read_as_well_as_addresses(programs, tmp_path):
    with posix_log(programs, tmp_path) as log:
        config = config_of(log, read_url=f"file://{log.folder}", rate_per_s=200)
        result = finish(start(programs, tmp_path, "write", config), tmp_path)
    assert result.checkpoints[-1].size == result.total.accepted == 400
    assert result.proofs.proved == 100


# --- what goes wrong and is counted -----------------------------------------------------------------------------


def test_pushback_of_a_real_log_is_counted_apart(programs, tmp_path):
    """Antispam that must first read a log which was filled without it pushes back until it has finished."""
    with posix_log(programs, tmp_path) as log:
        config = config_of(log, rate_per_s=15000, max_in_flight=8000, duration_s=3)
        finish(start(programs, tmp_path, "write", config), tmp_path)
        filled = log.size()
    with posix_log(programs, tmp_path, "--antispam") as log:
        result = finish(start(programs, tmp_path, "write", config_of(log, rate_per_s=1000)), tmp_path)
        assert result.checkpoints[0].size == filled
    assert result.window.pushback_500 == result.window.pushback > 0
    assert result.window.errors == 0
    assert [(text.kind, text.text) for text in result.texts] == [("pushback_500", "500 antispam pushback")]
    assert result.proofs.asked == result.proofs.proved > 0
    assert any(told(problem).startswith("the log was overloaded and refused ") for problem in of_logbench(result))


def test_more_than_may_be_in_flight_is_dropped_and_counted(programs, tmp_path):
    with posix_log(programs, tmp_path) as log:
        config = config_of(log, max_in_flight=20, duration_s=4)
        result = finish(start(programs, tmp_path, "write", config), tmp_path)
    window = result.window
    assert window.planned == 2000
    assert window.sent + window.dropped == 2000
    assert window.dropped > 1500  # a batch waits a second for 256 leaves, so 20 in flight are about 20 per second
    assert window.accepted == window.sent
    assert 10 < result.in_flight_mean <= 20
    [problem] = of_logbench(result)
    assert told(problem).startswith(f"{window.dropped} of 2000 leaves were not sent, because 20 were in flight")


def test_a_server_that_is_killed_costs_errors_not_the_result(programs, tmp_path):
    with posix_log(programs, tmp_path) as log:
        process = start(programs, tmp_path, "write", config_of(log, duration_s=6, drain_s=0.5, max_in_flight=5000))
        log.wait_for(500)
        log.wait_for(log.size() + 1)  # by now, the first of the two was seen
        log.kill()
        result = finish(process, tmp_path)
    assert result.window.errors_connect == result.window.errors > 0
    assert result.window.accepted > 0
    assert {text.kind for text in result.texts} == {"errors_connect"}
    assert "dial: connect: connection refused" in {text.text for text in result.texts}
    # Now nobody can say whether leaves are lost.
    assert result.proofs.lost_count == 0
    assert result.proofs.unread == result.proofs.asked == 100
    assert {problem.rule for problem in of_logbench(result)} >= {"unread", "errors", "polls"}


def test_a_log_that_loses_leaves_is_found_out(programs, tmp_path):
    with null_log(programs, tmp_path, "--lose-every", "7") as log:
        result = finish(start(programs, tmp_path, "write", config_of(log)), tmp_path)
    assert result.window.accepted == 1000
    assert 0 < result.proofs.lost_count == result.proofs.asked - result.proofs.proved
    lost = result.proofs.lost[0]
    assert lost.index % 7 == 6
    assert "does not lead to the root of the checkpoint of 1000 leaves" in lost.why
    assert told(next(of_logbench(result))).startswith(f"the log lost {result.proofs.lost_count} leaves")


def test_front_ends_take_turns_and_must_be_of_one_log(programs, tmp_path):
    """Two logs with one name give each index twice, and only one of the two leaves can be there."""
    other = tmp_path / "other"
    other.mkdir()
    with null_log(programs, tmp_path) as log, null_log(programs, other) as stranger:
        config = config_of(log, write_urls=[log.url, stranger.url + "/"], drain_s=1)
        result = finish(start(programs, tmp_path, "write", config), tmp_path)
        stranger.wait_for(500)
        assert log.size() == stranger.size() == 500
    assert result.front_ends == 2
    assert result.proofs.lost_count >= 500
    assert any("this index to two different leaves" in lost.why for lost in result.proofs.lost)


def test_a_checkpoint_from_before_a_leaf_was_sent_does_not_cover_it(programs, tmp_path):
    """The front end writes to a log of the same name that began later, so the followed log has each index already."""
    other = tmp_path / "other"
    other.mkdir()
    with null_log(programs, tmp_path) as log, null_log(programs, other) as stranger:
        finish(start(programs, tmp_path, "write", config_of(log, duration_s=1)), tmp_path)
        config = config_of(log, write_urls=[stranger.url + "/"], duration_s=1, drain_s=1)
        result = finish(start(programs, tmp_path, "write", config), tmp_path)
        stranger.wait_for(500)
    assert (result.window.accepted, result.integrate_latency.count) == (500, 0)
    assert (result.proofs.not_integrated, result.proofs.lost_count) == (500, 500)
    assert all("covered its index before the leaf was sent" in lost.why for lost in result.proofs.lost)


def test_pushback_with_503(programs, tmp_path):
    with null_log(programs, tmp_path, "--refuse-every", "10") as log:
        result = finish(start(programs, tmp_path, "write", config_of(log, duration_s=1)), tmp_path)
    assert result.window.pushback_503 == result.window.pushback == 50
    assert result.window.accepted == 450
    assert result.proofs.proved == 100


# --- what no log may do, and what cannot be done ----------------------------------------------------------------


def test_the_wrong_public_key_is_refused(programs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    _, key = make_keys(programs, other)
    with posix_log(programs, tmp_path) as log:
        assert log.public_key != key
        said = refused(start(programs, tmp_path, "write", config_of(log, public_key=key)), tmp_path)
        assert log.size() == 0
    assert f"the checkpoint at {log.url} does not verify with the public key of log.test/one" in said
    assert "no verifiable signatures" in said


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ("older", r"shrank: from a checkpoint of 2 leaves to one of 1"),
        ("forked", r"has two checkpoints of 2 leaves with different roots"),
        ("altered", r"does not verify with the public key of log\.test/one"),
    ],
)
def test_a_checkpoint_that_no_log_may_publish_ends_the_run(programs, tmp_path, then, why):
    published = tmp_path / "published"
    published.mkdir()
    flags = ["--publish-interval", "10ms"]
    with null_log(programs, tmp_path, *flags) as log, null_log(programs, tmp_path, *flags) as twin:
        for one, leaves in ((log, [b"a", b"b"]), (twin, [b"a", b"c"])):
            one.add(leaves[0])
            one.wait_for(1)
            older = one.checkpoint()
            one.add(leaves[1])
            one.wait_for(2)
        latest, forked = log.checkpoint(), twin.checkpoint()
        (published / "checkpoint").write_bytes(latest)
        config = config_of(log, read_url=f"file://{published}", duration_s=30)
        process = start(programs, tmp_path, "write", config)
        log.wait_for(10)
        following = {"older": older, "forked": forked, "altered": latest.replace(b"\n2\n", b"\n3\n")}[then]
        new = published / "new"
        new.write_bytes(following)
        new.rename(published / "checkpoint")
        began = time.monotonic()
        said = refused(process, tmp_path)
        assert time.monotonic() - began < 5  # it does not go on to its end
    assert re.search(why, said), said


def test_keys_with_a_newline_at_their_end_are_named(programs, tmp_path):
    private, public = make_keys(programs, tmp_path)
    private.write_text(private.read_text() + "\n")
    argv = [programs / "logbench", "null", "--listen", "127.0.0.1:0", "--private-key", private]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the key file {private} begins or ends with white space, such as a newline" in done.stderr
    config = {"read_url": "http://127.0.0.1:1", "write_urls": ["http://127.0.0.1:1"], "rate_per_s": 1, "duration_s": 1}
    said = refused(start(programs, tmp_path, "write", {**config, "public_key": public + "\n"}), tmp_path)
    assert "public_key begins or ends with white space" in said


def test_keys_are_never_replaced(programs, tmp_path):
    private, _ = make_keys(programs, tmp_path)
    before = private.read_bytes()
    assert (private.stat().st_mode & 0o777, before.endswith(b"\n")) == (0o600, False)
    argv = [programs / "logbench", "keygen", "--name", "x", "--private", private, "--public", tmp_path / "new"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert done.returncode == 1
    assert "file exists" in done.stderr
    assert private.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rate": 5}, r'unknown field "rate"'),
        ({"rate_per_s": 0}, "rate_per_s must be above 0"),
        ({"leaf_bytes": 15}, "leaf_bytes must be at least 16, got 15"),
        ({"read_url": "127.0.0.1:80"}, "read_url"),
        ({"rate_per_s": 1e6, "duration_s": 60}, r"= 6e\+07 leaves: must be between 1 and 20000000"),
        ({"max_in_flight": 50_000_000}, r"max_in_flight 50000000 \+ 64 = 50000064 open files, but .* may have \d+"),
        ({"headers": {"Authorization": "Bearer $NOT_SET_ANYWHERE"}}, "headers use NOT_SET_ANYWHERE"),
        ({}, r"no checkpoint at http://127\.0\.0\.1:1: .*connection refused"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field(programs, tmp_path, changes, why):
    _, public = make_keys(programs, tmp_path)
    config = {"read_url": "http://127.0.0.1:1", "write_urls": ["http://127.0.0.1:1"], "rate_per_s": 1, "duration_s": 1}
    process = start(programs, tmp_path, "write", {**config, "public_key": public, **changes})
    assert re.search(why, refused(process, tmp_path))


def test_secrets_come_from_the_environment(programs, tmp_path):
    import http.server

    asked: list[str | None] = []

    class Guarded(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_error(403)

        def log_message(self, *_: object) -> None: ...

    _, public = make_keys(programs, tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        config = {"read_url": url, "write_urls": [url], "public_key": public, "rate_per_s": 1, "duration_s": 1}
        headers = {"Authorization": "Bearer ${LOG_TOKEN}"}
        process = start(programs, tmp_path, "write", {**config, "headers": headers}, LOG_TOKEN="a-secret")
        said = refused(process, tmp_path)
        server.shutdown()
    assert asked == ["Bearer a-secret"]
    assert "403" in said and "a-secret" not in said


# --- the parser -------------------------------------------------------------------------------------------------


def captured(name: str) -> dict[str, Any]:
    return json.loads((DATA / name).read_text())


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_results_are_read(name):
    result = parse_logbench((DATA / name).read_text())
    for times in (result.add_latency, result.duplicate_latency, result.integrate_latency):
        assert recorded_in(times.hdr) == times.count
        for quantile in times.quantiles:
            assert covering(times, quantile.q) == pytest.approx(quantile.value_s, rel=0.01, abs=2e-6)


def test_there_are_captured_results_of_each_kind():
    kinds = {name.removeprefix("logbench-").removesuffix(".json") for name in CAPTURED}
    assert {"posix", "posix-antispam", "pushback", "saturated", "killed", "lost", "watch"} <= kinds


def covering(times: Distribution, q: float) -> float:
    """The middle of the bin that contains the quantile."""
    rank, below = q * times.count, 0
    for one in times.bins:
        below += one.count
        if below >= rank - 1e-9:
            return (one.low_s + one.high_s) / 2
    raise AssertionError("the bins end too early")


def recorded_in(hdr: str) -> int:
    """The number of values in an HDR histogram, by its own format: V2, compressed."""
    if not hdr:
        return 0
    content = base64.b64decode(hdr)
    assert content[:4].hex() == "1c849314"
    payload = zlib.decompress(content[8:])
    assert payload[:4].hex() == "1c849313"
    values = zigzag(payload[40 : 40 + int.from_bytes(payload[4:8], "big")])
    return sum(value for value in values if value > 0)  # negative: this many empty places


def zigzag(content: bytes) -> Iterator[int]:
    value, shift = 0, 0
    for byte in content:
        value |= (byte if shift == 56 else byte & 0x7F) << shift
        if byte & 0x80 and shift < 56:
            shift += 7
            continue
        yield (value >> 1) ^ -(value & 1)
        value, shift = 0, 0


def test_a_result_that_is_cut_off_is_refused():
    text = (DATA / "logbench-posix.json").read_text().rstrip()
    for end in range(0, len(text), len(text) // 40):
        with pytest.raises(ParseError, match="not a result of logbench"):
            parse_logbench(text[:end])


def test_a_result_that_lacks_a_part_is_refused():
    result = captured("logbench-posix.json")
    del result["proofs"]
    with pytest.raises(ParseError, match="proofs: Field required"):
        parse_logbench(json.dumps(result))


# A run of one leaf, in which every time is the same. Each change below leaves all else as logbench would write it.


def one_leaf(**changes: Any) -> dict[str, Any]:
    """The result of a run of one leaf. `changes`: keys with dots for slashes, such as `window.sent`."""
    counts = dict.fromkeys(Counts.__dataclass_fields__, 0) | {"planned": 1, "sent": 1, "accepted": 1}
    summary = {"count": 1, "min_s": 0.01, "mean_s": 0.01, "max_s": 0.01, "quantiles": [{"q": 0.5, "value_s": 0.01}]}
    times = {**summary, "bins": [{"low_s": 0.00998, "high_s": 0.01002, "count": 1}], "hdr": ""}
    result = captured("logbench-posix.json") | {
        "rate_per_s": 1.0,
        "duration_s": 1.0,
        "offered_per_s": 1.0,
        "max_in_flight": 9,
        "window": {**counts},
        "total": {**counts},
        "start_delay": json.loads(json.dumps(summary)),
        "add_latency": json.loads(json.dumps(times)),
        "integrate_latency": json.loads(json.dumps(times)),
        "checkpoints": [{"t_s": -0.5, "size": 7}, {"t_s": 0.5, "size": 8}],
        "samples": [captured("logbench-posix.json")["samples"][0] | {"sent": 1}],
    }
    result["proofs"] |= {"asked": 1, "proved": 1}
    for path, value in changes.items():
        *parents, key = path.split(".")
        place = result
        for parent in parents:
            place = place[int(parent)] if parent.isdigit() else place[parent]
        place[key] = value
    return result


LOST_LEAF = {"proofs.lost": [{"index": 7, "why": "gone"}], "proofs.proved": 0}
BOTH = ("window", "total")
# The leaf was sent before: its only answer is the index that it has.
DUPLICATE = {
    **{f"{counts}.{key}": 1 for counts in BOTH for key in ("duplicates", "duplicates_sent")},
    "duplicate_latency": one_leaf()["add_latency"],
    "add_latency": NO_TIMES,
    "integrate_latency": NO_TIMES,
    "checkpoints": [{"t_s": -0.5, "size": 8}],
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        DUPLICATE,
        {**dict.fromkeys((f"{counts}.duplicates_sent" for counts in BOTH), 1)},  # and the log did not recognise it
        {"duplicate_share": 1.0},
        {"offered_per_s": 1.000001},  # the rounding of six digits
        {"offered_per_s": 0.999999},
        {"proofs.asked": 2},
        {"proofs.unread": 1, "proofs.proved": 0},
        {**LOST_LEAF, "proofs.lost_count": 1, "checkpoints": [{"t_s": -0.5, "size": 7}]},
        {**LOST_LEAF, "proofs.lost_count": 2},  # names only some
        {"checkpoints": [{"t_s": 0.5, "size": 7}, {"t_s": 0.5, "size": 8}]},
        {"integrate_latency": NO_TIMES, "proofs.not_integrated": 1, "checkpoints": [{"t_s": -0.5, "size": 7}]},
        {"add_latency.mean_s": 0.01, "add_latency.min_s": 0.0, "add_latency.max_s": 10.0},
        {"start_delay.quantiles": [{"q": q, "value_s": 0.01} for q in (0.001, 0.999)]},
        {"total.planned": 2, "total.dropped": 1},
        # Another leaf, before the window, was not integrated.
        {
            **{f"total.{outcome}": 2 for outcome in ("planned", "sent", "accepted")},
            "samples.0.sent": 2,
            "proofs.not_integrated": 1,
        },
    ],
)
def test_a_result_at_the_bounds_of_what_can_be_is_read(changes):
    assert parse_logbench(json.dumps(one_leaf(**changes))).window.accepted == 1


def test_a_rate_of_a_long_window_may_be_rounded_too():
    for rate, is_read in ((500.000001, True), (500.0000011, False)):
        result = json.dumps(captured("logbench-posix.json") | {"offered_per_s": rate})
        if is_read:
            assert parse_logbench(result).window.sent == 7500
        else:
            with pytest.raises(ParseError, match="7500 leaves sent in 15 s, but 500/s offered"):
                parse_logbench(result)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        *(({f"{counts}.planned": 2}, f"{counts}: 2 planned, 1 sent and 0 dropped") for counts in BOTH),
        *(({f"{counts}.accepted": 0}, f"{counts}: 1 sent, but 0 outcomes") for counts in BOTH),
        *(({f"{counts}.errors_timeout": 1}, f"{counts}: 1 sent, but 2 outcomes") for counts in BOTH),
        *(({f"{counts}.pushback_503": 1}, f"{counts}: 1 sent, but 2 outcomes") for counts in BOTH),
        *(({f"{counts}.duplicates": 1}, f"{counts}: 1 duplicates") for counts in BOTH),  # and none was sent again
        ({"window.duplicates": 2, "window.duplicates_sent": 2}, "window: 2 duplicates"),  # and one was accepted
        ({"window.planned": 2, "window.dropped": 1}, "2 leaves in the window, 1 in all"),
        ({"offered_per_s": 1.0000012}, "1 leaves sent in 1 s, but 1/s offered"),
        ({"offered_per_s": 0.9999988}, "1 leaves sent in 1 s, but 0.999999/s offered"),
        ({"start_delay.count": 2}, "start_delay of 2 leaves instead of 1"),
        ({"add_latency.count": 2}, "add_latency of 2 leaves instead of 1"),
        ({**DUPLICATE, "duplicate_latency": NO_TIMES}, "duplicate_latency of 0 leaves instead of 1"),
        ({"integrate_latency": NO_TIMES}, "integrate_latency of 0 leaves, but 1 were accepted"),
        ({"integrate_latency.count": 2}, "integrate_latency of 2 leaves, but 1 were accepted"),
        ({"proofs.unread": 1}, "1 proofs asked, 1 proved, 1 unread, 0 lost"),
        ({"proofs.proved": 2}, "1 proofs asked, 2 proved, 0 unread, 0 lost"),
        (LOST_LEAF, "1 proofs asked, 0 proved, 0 unread, 0 lost"),
        ({"checkpoints": []}, "it has no checkpoint"),
        ({"checkpoints.1.size": 7}, "a checkpoint of 7 leaves at 0.5 s follows one of 7"),
        ({"checkpoints.1.size": 6}, "a checkpoint of 6 leaves at 0.5 s follows one of 7"),
        ({"checkpoints.1.t_s": -0.6}, "a checkpoint of 8 leaves at -0.6 s follows one of 7"),
        ({"checkpoints": [{"t_s": 0.5, "size": 8}]}, "1 new leaves were integrated .* but the tree grew by 0"),
        ({"samples.0.sent": 2}, "its samples do not add up to the 1 leaves sent"),
        ({"samples": []}, "its samples do not add up to the 1 leaves sent"),
    ],
)
def test_a_result_beyond_the_bounds_of_what_can_be_is_refused(changes, why):
    with pytest.raises(ParseError, match=f"the result of logbench contradicts itself: {why}"):
        parse_logbench(json.dumps(one_leaf(**changes)))


@pytest.mark.parametrize("of", ["start_delay", "add_latency", "integrate_latency"])
@pytest.mark.parametrize(
    "changes",
    [
        {"min_s": 0.011},
        {"max_s": 0.009},
        {"mean_s": 0.009},
        {"mean_s": 0.011},
        {"quantiles": [{"q": 0.5, "value_s": 0.009}]},
        {"quantiles": [{"q": 0.5, "value_s": 0.011}]},
        {"quantiles": []},
        {"min_s": None},
        {"mean_s": None},
        {"max_s": None},
    ],
)
def test_times_that_are_not_ordered_are_refused(of, changes):
    changed = one_leaf(**{f"{of}.{name}": value for name, value in changes.items()})
    with pytest.raises(ParseError, match=f"the values of {of} are not in ascending order"):
        parse_logbench(json.dumps(changed))


@pytest.mark.parametrize(
    "of_none", [{"min_s": 0.01}, {"mean_s": 0.01}, {"max_s": 0.01}, {"quantiles": [{"q": 0.5, "value_s": 0.01}]}]
)
def test_no_times_have_no_values(of_none):
    changed = one_leaf(**{f"duplicate_latency.{name}": value for name, value in of_none.items()})
    with pytest.raises(ParseError, match="the values of duplicate_latency are not in ascending order"):
        parse_logbench(json.dumps(changed))


@pytest.mark.parametrize("of", ["add_latency", "duplicate_latency", "integrate_latency"])
@pytest.mark.parametrize(
    "change",
    [
        lambda bins: bins.clear(),
        lambda bins: bins.reverse(),
        lambda bins: bins[0].update(count=bins[0]["count"] + 1),
        lambda bins: bins[0].update(low_s=bins[0]["high_s"]),
        lambda bins: bins[0].update(low_s=bins[0]["high_s"], high_s=bins[0]["low_s"]),
        lambda bins: bins[0].update(high_s=(bins[1]["low_s"] + bins[1]["high_s"]) / 2),
    ],
)
def test_bins_that_are_not_those_of_the_times_are_refused(of, change):
    result = captured("logbench-posix-antispam.json")
    change(result[of]["bins"])
    with pytest.raises(ParseError, match=f"the bins of {of} are out of order, or do not add up to its"):
        parse_logbench(json.dumps(result))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema": 2, "tool": "wrk"}, "tool: Input should be 'logbench'"),  # the first of several
        ({"window.dropped": -1}, "window.dropped: Input should be greater than or equal to 0"),
        ({"warm_up_s": -0.5}, "warm_up_s: Input should be greater than or equal to 0"),
        ({"cpu_user_s": float("inf")}, "cpu_user_s: Input should be a finite number"),
        ({"duration_s": 0.0}, "duration_s: Input should be greater than 0"),
        ({"duplicate_share": 1.5}, "duplicate_share: Input should be less than or equal to 1"),
        ({"duplicate_share": -0.5}, "duplicate_share: Input should be greater than or equal to 0"),
        ({"add_latency.quantiles.0.q": 0.0}, "add_latency.quantiles.0.q: Input should be greater than 0"),
        ({"add_latency.quantiles.0.q": 1.0}, "add_latency.quantiles.0.q: Input should be less than 1"),
        ({"add_latency.bins.0.count": 0}, "add_latency.bins.0.count: Input should be greater than or equal to 1"),
        ({"texts": [{"kind": "errors_connect", "text": "EOF", "count": 0}]}, "texts.0.count: Input should be greater"),
        ({"schema": 2}, "schema: Input should be 1"),
        ({"duration_s": float("nan")}, "duration_s: Input should be a finite number"),
        ({"window.accepted": "1"}, "window.accepted: Input should be a valid integer"),
        ({"window.sent": 10**400}, "logbench's result is damaged: OverflowError"),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_its_place(changes, why):
    everywhere = {f"{counts}.{key}": 10**400 for counts in BOTH for key in ("planned", "sent", "accepted")}
    with pytest.raises(ParseError, match=why):
        parse_logbench(json.dumps(one_leaf(**(everywhere if "window.sent" in changes else changes))))


def test_outcomes_are_pushback_or_errors_and_dropped_ones_are_neither():
    powers = {name: 1 << place for place, name in enumerate(Counts.__dataclass_fields__)}
    counts = Counts(**powers)
    assert counts.pushback == powers["pushback_500"] + powers["pushback_503"]
    failures = ("errors_status", "errors_answer", "errors_connect", "errors_timeout")
    assert counts.errors == sum(powers[name] for name in failures)


@pytest.mark.parametrize(
    ("name", "in_flight"),
    [
        ("posix", 500 * 0.276215),  # Little's law: rate × mean time
        ("posix-antispam", (6731 * 0.309906 + 769 * 0.001393) / 15),
        ("saturated", 8000),  # its leaves of the window's end took longer, but no more may be in flight
        ("watch", 0),
    ],
)
def test_leaves_in_flight_are_the_rate_times_the_latency(name, in_flight):
    result = parse_logbench((DATA / f"logbench-{name}.json").read_text())
    assert result.in_flight_mean == pytest.approx(in_flight)


def test_answers_faster_than_the_clock_are_none_in_flight():
    changes = {f"add_latency.{name}": 0.0 for name in ("min_s", "mean_s", "max_s", "quantiles.0.value_s")}
    assert parse_logbench(json.dumps(one_leaf(**changes))).in_flight_mean == 0


# --- problems of its figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("posix", {}),
        ("posix-antispam", {}),
        ("watch", {}),
        ("pushback", {"dropped": {"dropped": 85708, "planned": 160_000, "in_flight": pytest.approx(7819.3, abs=0.1),
                                  "max_in_flight": 8000},
                      "pushback": {"refused": 7517, "sent": 74292}}),
        ("saturated", {"dropped": {"dropped": 116_662, "planned": 200_000, "in_flight": 8000, "max_in_flight": 8000}}),
        ("killed", {"unread": {"unread": 100, "asked": 100},
                    "not-integrated": {"not_integrated": 256, "accepted": 1292},
                    "consistency": {"missing": 2, "asked": 2},
                    "errors": {"errors": 1708, "sent": 3000,
                               "said": "1940 × dial: connect: connection refused, "
                                       "268 × the server closed the connection without an answer"},
                    "polls": {"failed": 181, "asked": 261}}),
        ("lost", {"lost": {"lost": 18}}),
    ],
)  # fmt: skip
def test_the_problems_of_captured_results_are_those_that_their_numbers_show(name, expected):
    result = captured(f"logbench-{name}.json")
    found = {problem.rule: dict(problem.facts) for problem in of_logbench(parse_logbench(json.dumps(result)))}
    assert list(found) == list(expected)
    for rule, facts in expected.items():
        assert {fact: found[rule][fact] for fact in facts} == facts
    if name == "lost":  # the first three
        lost = [f"{leaf['index']}: {leaf['why']}" for leaf in result["proofs"]["lost"]]
        assert found["lost"]["said"] == "; ".join(lost[:3]) and len(lost) > 3
    if name == "killed":
        assert found["unread"]["said"] == result["proofs"]["unread_why"]


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"start_delay.max_s": 0.1, "start_delay.quantiles": [{"q": 0.99, "value_s": 0.1}]}, []),
        ({"start_delay.max_s": 0.11, "start_delay.quantiles": [{"q": 0.99, "value_s": 0.101}]}, ["late"]),
        ({"start_delay.max_s": 0.2, "start_delay.quantiles": [{"q": 0.999, "value_s": 0.2}]}, []),
        ({"proofs.consistency_asked": 3, "proofs.consistency_proved": 2}, ["consistency"]),
        ({"proofs.consistency_asked": 3, "proofs.consistency_proved": 3}, []),
        ({"polls.failed": 1}, ["polls"]),
    ],
)
def test_leaves_that_are_late_and_proofs_and_polls_that_fail_are_problems(changes, rules):
    result = parse_logbench(json.dumps(one_leaf(**changes)))
    assert [problem.rule for problem in of_logbench(result)] == rules

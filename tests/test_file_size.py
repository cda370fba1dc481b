"""The file_size family on real storage: a local disk and a FUSE network mount, through a real session over SSH."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_folders import agent_folder
from file_size_study import file_size_study, measure, trials_by_case
from pydantic import ValidationError
from sshd_hosts import SshdHost

from benchstudy.families.file_size.parse import note_trial, parse_trial
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.model.errors import StudyError
from benchstudy.model.family import ParseError
from benchstudy.model.studyfile import parse_study
from benchstudy.report.comparisons.comparison import twins

FAMILY = registry.get("file_size")
CAPTURED = Path(__file__).parent / "data" / "file_size"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on a disk, with a file in it that must survive."""
    folder = tmp_path_factory.mktemp("storage")
    (folder / "sentinel").write_text("not ours")
    return folder


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory, sshd: SshdHost, storage: Path) -> dict[str, StoredTrial]:
    """One block of every path case, measured."""
    config = file_size_study(["local", "sshfs"], path=storage)
    config["backends"].append({"name": "local-direct", "kind": "path", "path": str(storage), "direct": True})
    return trials_by_case(measure(tmp_path_factory.mktemp("project"), sshd, config))


def test_every_case_is_measured(trials: dict[str, StoredTrial]) -> None:
    assert {case: t.record.cause for case, t in trials.items() if t.record.status != "ok"} == {}
    assert len(trials) == 2 * (2 * 4) + 2 * 3


@pytest.mark.parametrize("backend", ["local", "sshfs"])
def test_cold_reads_are_cold_and_warm_reads_are_warm(trials: dict[str, StoredTrial], backend: str) -> None:
    cold = observations(trials[f"backend={backend},op=read,size=1MB,cache=cold"])
    warm = observations(trials[f"backend={backend},op=read,size=1MB,cache=warm"])
    assert (cold["cached_before"], warm["cached_before"]) == (0, 1)
    assert warm["duration"] < cold["duration"]
    if backend == "local":
        assert cold["device_read"] >= 1_000_000 and warm["device_read"] == 0


def test_parts_add_up_and_fsync_is_timed(trials: dict[str, StoredTrial]) -> None:
    found = observations(trials["backend=local,op=write,size=1MB,sync=fsync"])
    assert found["duration"] == pytest.approx(sum(found[p] for p in ("open", "transfer", "sync", "close")))
    assert found["sync"] > 0
    assert found["operations"] == 3
    assert found["throughput"] == pytest.approx(1_000_000 / found["duration"])


def test_what_was_written_was_read_back(trials: dict[str, StoredTrial]) -> None:
    for trial in trials.values():
        assert len(trial.record.verified["contents"]["sha256"]) == 64


def test_o_direct_leaves_nothing_in_the_page_cache(trials: dict[str, StoredTrial]) -> None:
    found = observations(trials["backend=local-direct,op=read,size=1MB,cache=direct"])
    assert found["cached_before"] == 0 and found["device_read"] >= 1_000_000


def test_the_mount_is_recorded_by_its_own_name(trials: dict[str, StoredTrial]) -> None:
    trial = trials["backend=sshfs,op=write,size=1MB,sync=fsync"]
    assert trial.record.verified["file_system"]["type"] == "fuse.sshfs"


def test_nothing_of_ours_is_left_and_the_rest_is_untouched(trials: dict[str, StoredTrial], storage: Path) -> None:
    assert [p.name for p in storage.iterdir()] == ["sentinel"]
    assert (storage / "sentinel").read_text() == "not ours"


def observations(trial: StoredTrial) -> dict[str, float | None]:
    parsed = FAMILY.parse(trial.record.levels, trial.folder)
    return {o.metric: o.value for o in parsed.observations}


def test_what_cannot_be_measured_says_why(
    tmp_path: Path, sshd: SshdHost, storage: Path, subtests: pytest.Subtests
) -> None:
    """Each wrong backend fails with its own cause, and does not prevent measuring the others."""
    hostile = storage.parent / "a b;$(touch inert)'\""
    hostile.mkdir()
    config = file_size_study(["local"], path=hostile, ops=["write"], sizes=["100KB"], sync=["none"])
    config["backends"] += [
        {"name": "not-mounted", "kind": "path", "path": str(storage), "expect_fs": "nfs4"},
        {"name": "missing", "kind": "path", "path": str(storage / "nowhere")},
    ]
    found = {t.record.levels["backend"]: t.record for t in measure(tmp_path, sshd, config)}
    assert found["local"].status == "ok"
    assert list(hostile.parent.rglob("inert")) == []
    for backend, cause in {
        "not-mounted": f"{re.escape(str(storage))} is on a \\w+ file system .*expects nfs4: is the mount missing",
        "missing": "nowhere is not a folder on the host: mount or create it",
    }.items():
        with subtests.test(backend):
            assert found[backend].status == "failed"
            assert re.search(cause, found[backend].cause)
    assert [p.name for p in storage.iterdir()] == ["sentinel"]


@pytest.mark.fault(14)
def test_no_space_is_seen_before_anything_is_written(tmp_path: Path) -> None:
    answer = probe(tmp_path, action="write", size=10**15)
    assert re.match(
        rf"no space: {re.escape(str(tmp_path))} has \d+ bytes free, but 10+\d* are needed", answer["problem"]
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_in_memory_is_never_called_cold(tmp_path: Path) -> None:
    folder = Path("/dev/shm") / tmp_path.name
    folder.mkdir()
    try:
        prepared = probe(folder, action="prepare", size=100_000)
        answer = probe(
            folder,
            action="read",
            size=100_000,
            cache="cold",
            file=prepared["file"],
            sha256=prepared["sha256"],
        )
    finally:
        shutil.rmtree(folder)
    assert "is not cold: 100.0 % of it stays in the page cache" in answer["problem"]
    assert answer["operations"] == []


def test_a_read_is_never_called_warm_while_somebody_empties_the_cache(tmp_path: Path) -> None:
    size = 100_000_000  # read in several turns of the processor, however many processes want it
    prepared = probe(tmp_path, action="prepare", size=size)
    forget = "import os, sys\nfile = os.open(sys.argv[1], os.O_RDONLY)\nprint(flush=True)\n"
    forget += "while True: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)"
    prepared_file = {"file": prepared["file"], "sha256": prepared["sha256"]}
    with subprocess.Popen([sys.executable, "-c", forget, prepared["file"]], stdout=subprocess.PIPE) as emptying:
        try:
            emptying.stdout.readline()
            answer = probe(tmp_path, action="read", size=size, **prepared_file)
        finally:
            emptying.kill()
    told = rf"is not warm: .* is in the page cache|was not read warm: \d+ of {size} bytes"
    assert re.search(told, answer["problem"])
    assert answer["operations"] == []
    answer = probe(tmp_path, action="read", size=size, **prepared_file)
    assert len(answer["operations"]) == 2, "and once nobody does, it is"


def test_altered_contents_fail(tmp_path: Path) -> None:
    prepared = probe(tmp_path, action="prepare", size=300_000)
    with open(prepared["file"], "r+b") as file:
        file.seek(123_456)
        file.write(b"\0\1\2")
    answer = probe(tmp_path, action="read", size=300_000, file=prepared["file"], sha256=prepared["sha256"])
    assert "read back, its SHA-256 is" in answer["problem"]


def test_what_is_written_can_be_neither_compressed_nor_deduplicated(tmp_path: Path) -> None:
    content = Path(probe(tmp_path, action="prepare", size=8_000_000)["file"]).read_bytes()
    packed = subprocess.run(["gzip", "-1"], input=content, capture_output=True, check=True).stdout
    assert len(packed) > len(content) * 0.99
    blocks = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("action", ["write", "read"])
def test_large_files_take_no_more_memory_than_small_ones(tmp_path: Path, action: str) -> None:
    """At 150 times the size, memory stays the same to within a chunk or two, so it does at 10 GB."""
    peaks = []
    for size in (2_000_000, 300_000_000):
        prepared = probe(tmp_path, action="prepare", size=size)
        request = {"file": prepared["file"], "sha256": prepared["sha256"], "operations": 1}
        peaks.append(peak_memory(request_of(tmp_path, action=action, size=size, **request)))
        os.unlink(prepared["file"])
    assert peaks[1] - peaks[0] < 4 << 20


def test_sizes_that_are_no_multiple_of_a_block_survive_o_direct(tmp_path: Path) -> None:
    for size in (1, 4096, 100_000, 1 << 20, (1 << 20) + 1):
        answer = probe(tmp_path, action="write", size=size, direct=True)
        assert "problem" not in answer, answer
        assert answer["verified"]["bytes"] == size


def test_small_files_are_measured_several_times_and_large_ones_once() -> None:
    config = FAMILY.Config.model_validate(
        {
            "backends": [{"name": "a", "kind": "path", "path": "/srv"}],
            "sizes": ["1MB", "100MB", "10GB"],
            "operations": 20,
            "max_bytes_per_trial": "500MB",
        }
    )
    assert [config.operations_of(size) for size in config.sizes] == [20, 5, 1]


def family_with(*backends: dict[str, Any]) -> dict[str, Any]:
    return {"backends": list(backends), "sizes": ["1MB", "100MB"]}


def test_a_backend_is_described_twice_for_some_sizes_and_changes_nothing_of_the_first() -> None:
    first = {"name": "a", "kind": "path", "path": "/srv", "direct": True}
    again = {"name": "a-again", "same_as": "a", "sizes": ["1MB"]}
    alone, both = (FAMILY.Config.model_validate(family_with(*given)) for given in ([first], [first, again]))
    assert both.model_dump(mode="json")["backends"][:1] == alone.model_dump(mode="json")["backends"]
    cases = {case.id: case.definition["backend"] for case in FAMILY.cases(both)}
    assert {case.id for case in FAMILY.cases(alone)} < set(cases)
    extra = [case_id for case_id in cases if "a-again" in case_id]
    assert extra == [
        "backend=a-again,op=write,size=1MB,sync=fsync",
        "backend=a-again,op=read,size=1MB,cache=direct",
    ]
    assert cases[extra[0]] | {"name": "a"} == cases[extra[0].replace("a-again", "a")]
    assert twins(both.model_dump(mode="json")) == [("a", "a-again")]


@pytest.mark.parametrize(
    ("again", "told"),
    [
        ({"same_as": "b"}, "backend again: same_as: there is no backend 'b': known: a"),
        ({"same_as": "a", "path": "/mnt"}, "backend again: it repeats a: leave out path"),
        (
            {"same_as": "a", "sizes": ["2MB"]},
            'backend again: 2MB is not one of the family\'s sizes: did you mean "1MB"?',
        ),
        ({"same_as": "again"}, "backend again: same_as: there is no backend 'again'"),
    ],
)
def test_a_backend_cannot_be_the_same_as_something_else(again: dict[str, Any], told: str) -> None:
    family = family_with({"name": "a", "kind": "path", "path": "/srv"}, {"name": "again", **again})
    with pytest.raises(ValidationError) as raised:
        FAMILY.Config.model_validate(family)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"expect": "ext4"}, 'backends.0.path.expect: unknown key: did you mean "expect_fs"?'),
        ({"kind": "nfs"}, "backends.0: kind: 'nfs': write 'path' or 's3'"),
        ({"path": "srv"}, "'srv': give an absolute path"),
        ({"path": "/srv/../etc"}, "'/srv/../etc': give an absolute path, or one below ~/, without '..'"),
        ({"path": "{{service.dir}}/x"}, "backend a: a value with {{…}} needs `service: NAME`"),
        ({"service": "sshf"}, "backend a: no service 'sshf' below services"),
    ],
)
def test_a_wrong_backend_is_named_with_the_way_out(changed: dict[str, str], told: str) -> None:
    backend = {"name": "a", "kind": "path", "path": "/srv", **changed}
    with pytest.raises(StudyError) as raised:
        parse_study(
            {
                "study": "x",
                "hosts": {"h": {}},
                "targets": {"t": {"roles": {"sut": "h"}}},
                "families": {"file_size": {"backends": [backend], "sizes": ["1MB"]}},
            }
        )
    assert told in str(raised.value)


@pytest.mark.parametrize("kept", [0, 1, 200, -3])
@pytest.mark.fault(20)
def test_truncated_output_is_no_result(trials: dict[str, StoredTrial], tmp_path: Path, kept: int) -> None:
    trial = trials["backend=local,op=write,size=1MB,sync=fsync"]
    (tmp_path / "stdout").write_bytes((trial.folder / "stdout").read_bytes()[:kept])
    with pytest.raises(ParseError, match="stdout is truncated or not JSON"):
        FAMILY.parse(trial.record.levels, tmp_path)


# --- what the probe answers ---------------------------------------------------------------------------------------


def captured(name: str) -> dict[str, Any]:
    return json.loads((CAPTURED / f"{name}.json").read_text())


def parsed(
    folder: Path, answer: Mapping[str, Any], size: str
) -> tuple[dict[str, tuple[float, str]], Mapping[str, Any]]:
    (folder / "stdout").write_text(json.dumps(answer))
    found = parse_trial({"size": size}, folder)
    return {o.metric: (o.value, o.unit) for o in found.observations}, found.series


def mean(answer: Mapping[str, Any], *names: str, per_unit: float = 1e9) -> float:
    return statistics.fmean(sum(operation[name] for name in names) for operation in answer["operations"]) / per_unit


PARTS = ("open_ns", "transfer_ns", "sync_ns", "close_ns")


def test_the_time_of_a_file_is_that_of_its_parts(tmp_path: Path) -> None:
    answer = captured("local-read-cold")
    answer["operations"][3]["cached_before"], answer["operations"][4]["cached_before"] = 0.25, 0.125
    answer["operations"][1]["unheard_of_ns"] = -1
    found, series = parsed(tmp_path, answer, "1MB")
    duration = mean(answer, *PARTS)
    assert found["duration"] == (pytest.approx(duration, rel=1e-12), "s")
    assert found["throughput"] == (pytest.approx(1e6 / duration, rel=1e-12), "B/s")
    for part in PARTS:
        assert found[part.removesuffix("_ns")] == (pytest.approx(mean(answer, part), rel=1e-12), "s")
    assert found["operations"] == (10, "1") and found["cached_before"] == (0.25, "1"), "the least cold of all"
    assert found["device_read"] == (mean(answer, "device_read_bytes", per_unit=1), "B")
    assert not {"first_byte", "source", "errors", "attempts"} & found.keys() and set(series) == {"operations"}
    second, raw = series["operations"][1], answer["operations"][1]
    assert (second["operation"], second["open_s"], second["source_s"]) == (1, raw["open_ns"] / 1e9, None)
    assert "unheard_of_s" not in second
    answer["request"]["cache"] = "warm"
    assert parsed(tmp_path, answer, "1MB")[0]["cached_before"] == (0.0, "1"), "the least warm of all"
    del answer["operations"][0]["device_read_bytes"]
    assert "device_read" not in parsed(tmp_path, answer, "1MB")[0], "one is not known"


def test_the_time_of_an_object_is_its_own_and_errors_are_those_of_operations(tmp_path: Path) -> None:
    answer = captured("s3-read")
    error = {"operation": 2, "attempt": 1, "kind": "status", "status": 503, "duration_s": 0.5, "more": "x"}
    answer["errors"] = [error, error | {"operation": None}, error | {"operation": 0}]
    answer["operations"][2]["attempts"] = 3
    found, series = parsed(tmp_path, answer, "100KB")
    assert found["duration"] == (pytest.approx(mean(answer, "duration_ns"), rel=1e-12), "s")
    assert found["first_byte"] == (pytest.approx(mean(answer, "first_byte_ns"), rel=1e-12), "s")
    assert (found["errors"], found["attempts"]) == ((2, "1"), (12, "1"))
    assert [row["operation"] for row in series["errors"]] == [2, None, 0] and "more" not in series["errors"][0]
    assert not {"open", "cached_before", "device_read"} & found.keys()
    written = captured("s3-write")
    found, _ = parsed(tmp_path, written, "100KB")
    assert found["source"] == (pytest.approx(mean(written, "source_ns"), rel=1e-12), "s") and "first_byte" not in found


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda a: a["operations"].pop(), "9 of 10 operations: the rest is missing"),
        (lambda a: a.update(problem="no space"), "10 of 10 operations: no space"),
        (lambda a: a["request"].update(size=10**6 + 1), "measured 1000001 bytes, but the case has 1000000"),
        (lambda a: a["operations"][9].update(dict.fromkeys(PARTS, 0)), "took no time: the clock"),
        (lambda a: a["operations"][9].update(duration_ns=-1), "took no time: the clock"),
        (lambda a: a.update(operations="x"), "not an answer of the file-size probe"),
    ],
)
def test_an_answer_that_cannot_be_is_no_result(tmp_path: Path, edit: Callable, told: str) -> None:
    answer = captured("local-write")
    edit(answer)
    with pytest.raises(ParseError, match=told):
        parsed(tmp_path, answer, "1MB")


@pytest.fixture
def clients(tmp_path: Path) -> Callable[..., Path]:
    """A trial of several clients that began one after another, each with its answer."""

    def made(*answers: Mapping[str, Any], apart_s: float = 0.5) -> Path:
        began = []
        for number, answer in enumerate(answers, start=1):
            folder = tmp_path / "load" / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stdout").write_text(json.dumps(answer))
            clock = {"start_s": 100 + apart_s * (number - 1), "end_s": 110.0, "offset_s": 0.0, "uncertainty_s": 0.001}
            began.append({"client": number, "role": f"load-{number}", "host": f"l{number}", **clock})
        (tmp_path / "load" / "clients.json").write_text(json.dumps({"schema": 1, "clients": began}))
        return tmp_path

    return made


def test_clients_add_up_and_their_times_are_of_all_operations(clients: Callable[..., Path]) -> None:
    one, other = captured("local-read-cold"), captured("local-read-cold")
    other["operations"] = [{**operation, "transfer_ns": 10**7} for operation in other["operations"][:5]]
    other["request"]["operations"] = 5
    one["operations"][3]["cached_before"], other["operations"][0]["cached_before"] = 0.25, 0.5
    found = parse_trial({"size": "1MB", "cache": "cold", "clients": "2"}, clients(one, other))
    values = {o.metric: (o.value, o.unit) for o in found.observations}
    durations = [sum(o[part] for part in PARTS) / 1e9 for answer in (one, other) for o in answer["operations"]]
    assert values["operations"] == (15, "1") and values["cached_before"] == (0.5, "1"), "the least cold of all"
    assert values["duration"] == (pytest.approx(statistics.fmean(durations)), "s")
    assert values["throughput"] == (pytest.approx(15 * 10**6 / max(sum(durations[:10]), sum(durations[10:]))), "B/s")
    transfers = [o["transfer_ns"] / 1e9 for answer in (one, other) for o in answer["operations"]]
    assert values["transfer"] == (pytest.approx(statistics.fmean(transfers)), "s")
    fetched = [o["device_read_bytes"] for answer in (one, other) for o in answer["operations"]]
    assert values["device_read"] == (pytest.approx(statistics.fmean(fetched)), "B")
    assert values["client_skew"] == (0.5, "s") and values["client_skew_share"] == (pytest.approx(0.5 / 10), "1")
    assert [row["operation"] for row in found.series["operations"]] == list(range(15))
    assert found.series["operations"][12]["transfer_s"] == 0.01
    each = {(row["client"], row["metric"]): row["value"] for row in found.series["clients"]}
    assert (each[1, "operations"], each[2, "operations"], each[2, "began"]) == (10, 5, 0.5)
    (problem,) = note_trial(clients(one, other))["problems"]
    assert problem.startswith("skew: for 5 % of the measured 10.0 s, not all clients sent load")
    assert note_trial(clients(one, other, apart_s=0.01)) == {"problems": []}


@pytest.mark.parametrize(
    ("behind_s", "busy_s", "overlap"),
    [(0.0, 4.0, 1.0), (0.05, 4.2, 3.8 / 4.2), (0.5, 6.0, 1 / 3), (1.0, 8.0, 0.0), (1.5, 6.5, 1.5 / 6.5)],
)
def test_the_throughput_of_clients_is_of_the_time_in_which_one_was_at_work(
    clients: Callable[..., Path], behind_s: float, busy_s: float, overlap: float
) -> None:
    """Four operations of a second begin every 2 s at each client; the clock of the second host is 100 s ahead."""
    answers = []
    for began_s in (100.0, 200.0 + behind_s):
        answer = captured("local-read-cold")
        answer["request"]["operations"] = 4
        answer["operations"] = [
            {**one, "began_ns": int((began_s + 2 * n) * 1e9), "open_ns": 0, "transfer_ns": 10**9, "close_ns": 0}
            for n, one in enumerate(answer["operations"][:4])
        ]
        answers.append(answer)
    folder = clients(*answers, apart_s=0.01)
    told = json.loads((folder / "load" / "clients.json").read_text())
    told["clients"][1]["offset_s"] = 100.0
    (folder / "load" / "clients.json").write_text(json.dumps(told))
    found = parse_trial({"size": "1MB", "cache": "cold", "clients": "2"}, folder)
    values = {o.metric: o.value for o in found.observations}
    assert values["throughput"] == pytest.approx(8e6 / busy_s)
    assert values["client_overlap"] == pytest.approx(overlap, abs=1e-6)
    problems = note_trial(folder)["problems"]
    assert [p.partition(":")[0] for p in problems] == ["overlap"] * (overlap < 0.9)
    if behind_s == 0.5:
        assert problems[0].startswith("overlap: all clients were at an operation in 33.3 % of the 6.00 s in which at")


def test_the_worst_proof_of_a_warm_cache_is_the_least_of_all_clients(clients: Callable[..., Path]) -> None:
    answers = [captured("local-read-cold") for _ in range(2)]
    for answer, share in zip(answers, (1.0, 0.75), strict=True):
        answer["request"]["cache"] = "warm"
        for operation in answer["operations"]:
            operation["cached_before"] = share
    for cache, worst in (("warm", 0.75), ("cold", 1.0)):
        found = parse_trial({"size": "1MB", "cache": cache, "clients": "2"}, clients(*answers))
        assert [o.value for o in found.observations if o.metric == "cached_before"] == [worst]


def test_errors_of_clients_keep_the_operation_that_they_belong_to(clients: Callable[..., Path]) -> None:
    one, other = captured("s3-read"), captured("s3-read")
    error = {"operation": 2, "attempt": 1, "kind": "status", "status": 503, "duration_s": 0.5}
    one["errors"], other["errors"] = [error], [error, error | {"operation": None}]
    found = parse_trial({"size": "100KB", "clients": "2"}, clients(one, other))
    values = {o.metric: o.value for o in found.observations}
    assert (values["errors"], values["attempts"], values["operations"]) == (2, 20, 20)
    assert [row["operation"] for row in found.series["errors"]] == [2, 12, None]
    assert values["first_byte"] == pytest.approx(mean(one, "first_byte_ns"), rel=1e-12)
    problems = note_trial(clients(one, other, apart_s=0.01))["problems"]
    assert [problem.partition(" s in all")[0] for problem in problems] == [
        "client 1 on l1: attempts: 1 of 10 failed, after 0.500",
        "client 2 on l2: attempts: 1 of 10 failed, after 0.500",
    ]


def test_attempts_that_failed_are_noted_because_no_duration_includes_them(tmp_path: Path) -> None:
    answer = captured("s3-read")
    (tmp_path / "stdout").write_text(json.dumps(answer))
    assert note_trial(tmp_path) == {}
    answer["errors"] = [{"operation": 2, "attempt": 1, "kind": "timeout", "status": None, "duration_s": 60.0}]
    answer["errors"].append(answer["errors"][0] | {"operation": None})
    answer["operations"][2]["attempts"] = 2
    (tmp_path / "stdout").write_text(json.dumps(answer))
    (problem,) = note_trial(tmp_path)["problems"]
    assert problem.startswith("attempts: 1 of 11 failed, after 60.0 s in all. Durations and throughput include neither")
    values = {o.metric: o.value for o in parse_trial({"size": "100KB"}, tmp_path).observations}
    assert values["duration"] == pytest.approx(mean(answer, "duration_ns"), rel=1e-12)


@pytest.mark.parametrize(("name", "key"), [("local-write", "sync_ns"), ("s3-read", "duration_ns")])
def test_a_truth_value_is_no_time_of_an_operation(tmp_path: Path, name: str, key: str) -> None:
    """`true` became an operation of one nanosecond."""
    answer = captured(name)
    answer["operations"][0][key] = True
    (tmp_path / "stdout").write_text(json.dumps(answer))
    with pytest.raises(ParseError, match=f"{key} is True, where a number belongs"):
        parse_trial({"size": f"{answer['request']['size']}B"}, tmp_path)


def test_a_single_client_has_nothing_to_note(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text(json.dumps(captured("local-write")))
    assert note_trial(tmp_path) == {}


def request_of(folder: Path, **changed: Any) -> str:
    request = {
        "kind": "path",
        "path": str(folder),
        "directory": str(folder),
        "chunk": 1 << 20,
        "operations": 2,
        "sync": "fsync",
        "cache": "warm",
        "direct": False,
        "verify": True,
        **changed,
    }
    return json.dumps(request)


def probe(folder: Path, **changed: Any) -> dict[str, Any]:
    """The probe's answer when it runs here as on a host."""
    argv = [sys.executable, "-I", str(agent_folder("file_size")), "file_size:main", request_of(folder, **changed)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    assert done.returncode == (1 if "problem" in answer else 0), done.stderr
    return answer


def peak_memory(request: str) -> int:
    """Peak resident memory of the probe in bytes. It begins again if another test empties the page cache meanwhile."""
    argv = [sys.executable, "-I", str(agent_folder("file_size")), "file_size:main", request]
    for _ in range(10):
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == 0:
            return usage.ru_maxrss * 1024
        assert "was not read warm" in said or "is not warm" in said, said
    pytest.fail("others empty the page cache again and again")

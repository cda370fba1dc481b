"""file_size on object storage: a real S3 server, alone and behind a proxy that makes it fail."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_size_study import file_size_study, measure, study_of, trials_by_case
from nothing_lost import processes
from one_host import study_on
from s3_server import ACCESS, SECRET, Proxy, S3Server, backend, measured
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.commands.checks import check_host
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry

FAMILY = registry.get("file_size")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_ACCESS", ACCESS)
    monkeypatch.setenv("S3_SECRET", SECRET)


def test_the_studys_own_server_with_and_without_parts(tmp_path: Path, sshd: SshdHost, root: Path) -> None:
    """The embedded backend: rclone shipped to the host, with keys made for the session and a bucket that we create."""
    config = file_size_study(["rclone-s3"], sizes=["12MB"])
    config["backends"][0]["part_size"] = "5MiB"
    config["backends"].append({**config["backends"][0], "name": "threads", "max_concurrency": 3})
    found = trials_by_case(measure(tmp_path, sshd, config))
    assert {case: t.record.cause for case, t in found.items() if t.record.status != "ok"} == {}
    write = parsed(found["backend=rclone-s3,op=write,size=12MB,sync=server"])
    read = parsed(found["backend=rclone-s3,op=read,size=12MB,cache=uncontrolled"])
    assert write["operations"] == read["operations"] == 3
    assert write["errors"] == 0 and write["attempts"] == 3
    assert 0 < write["source"] < write["duration"]
    assert 0 < read["first_byte"] < read["duration"]
    assert all(len(t.record.verified["contents"]["sha256"]) == 64 for t in found.values())


@pytest.mark.fault(26, 27)
def test_only_our_prefix_is_cleaned_even_after_a_kill_in_mid_upload(
    sshd: SshdHost, server: S3Server, root: Path
) -> None:
    """The probe is killed at its timeout inside a multipart upload that a slow proxy delays."""
    stray = server.client.create_multipart_upload(Bucket="data", Key="benchstudy/other/stray")
    with Proxy(server, bytes_per_s=3e6) as slow:
        (trial,) = measured(root, sshd, [backend(slow.url)], sizes=["40MB"], ops=["write"], operations=1, timeout="5s")
    assert trial.record.status == "timeout"
    assert server.keys() == ["benchstudy/sentinel"]
    assert server.uploads() == ["benchstudy/other/stray"]
    server.client.abort_multipart_upload(Bucket="data", Key="benchstudy/other/stray", UploadId=stray["UploadId"])


@pytest.mark.fault(26)
def test_refused_attempts_are_counted_and_their_waiting_is_not_measured(
    sshd: SshdHost, server: S3Server, root: Path
) -> None:
    with Proxy(server, failures=2) as proxy:
        (trial,) = measured(root, sshd, [backend(proxy.url)], sizes=["100KB"], ops=["write"])
    assert trial.record.status == "ok", trial.record.cause
    found = FAMILY.parse(trial.record.levels, trial.folder)
    values = {o.metric: o.value for o in found.observations}
    assert (values["operations"], values["attempts"], values["errors"]) == (3, 5, 2)
    assert [(e["kind"], e["status"], e["attempt"]) for e in found.series["errors"]] == [
        ("throttled", 503, 1),
        ("throttled", 503, 2),
    ]
    # The pauses were half a second and a second.
    assert all(row["duration_s"] < 0.4 for row in found.series["operations"])


@pytest.mark.fault(26)
def test_a_service_that_only_fails_ends_the_trial(sshd: SshdHost, server: S3Server, root: Path) -> None:
    with Proxy(server, failures=100) as proxy:
        (trial,) = measured(root, sshd, [backend(proxy.url)], sizes=["100KB"], ops=["write"])
    assert trial.record.status == "failed"
    assert "asks for fewer requests (HTTP 503, SlowDown), in attempt 5 of operation 0" in trial.record.cause
    assert proxy.refused == 5


@pytest.mark.fault(25, 26)
def test_wrong_keys_and_buckets_are_named_and_keys_are_told_nowhere(
    sshd: SshdHost, server: S3Server, root: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("WRONG_ACCESS", "canary-wrong-key-33")
    monkeypatch.setenv("WRONG_SECRET", "canary-wrong-key-44")
    monkeypatch.delenv("UNSET_SECRET", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    trials = measured(
        root,
        sshd,
        [
            backend(server.url, "right"),
            backend(server.url, "wrong-key", access_key_env="WRONG_ACCESS", secret_key_env="WRONG_SECRET"),
            backend(server.url, "wrong-secret", secret_key_env="WRONG_SECRET"),
            backend(server.url, "unset", secret_key_env="UNSET_SECRET"),
            backend(server.url, "no-bucket", bucket="absent"),
            backend(nobody, "nobody"),
        ],
        sizes=["100KB"],
        ops=["write"],
    )
    found = {t.record.levels["backend"]: t.record for t in trials}
    assert found["right"].status == "ok", found["right"].cause
    for name, cause in {
        "wrong-key": "access denied: check the key, its permissions and the clock",
        "wrong-secret": "access denied: check the key, its permissions and the clock",
        "unset": "the environment variable UNSET_SECRET is not set where snakemake runs",
        "no-bucket": "bucket absent at .*there is no such bucket or object: create the bucket",
        "nobody": "no connection, or a broken one: check that the server is up",
    }.items():
        with subtests.test(name):
            assert found[name].status == "failed"
            assert re.search(cause, found[name].cause)
    told = [path for path in (root / "data").rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
    assert told == []
    assert server.keys() == ["benchstudy/sentinel"]


def test_an_object_to_be_read_is_uploaded_once_a_session_and_removed_at_its_end(
    sshd: SshdHost, server: S3Server, root: Path
) -> None:
    with Proxy(server) as proxy:
        trials = measured(root, sshd, [backend(proxy.url)], sizes=["100KB"], blocks=2)
    assert {t.record.status for t in trials} == {"ok"}, [t.record.cause for t in trials]
    assert len([path for path in proxy.uploads if path.endswith("/object-s3-100000/read")]) == 1
    reads = sorted((t for t in trials if t.record.levels["op"] == "read"), key=lambda t: t.record.block)
    assert {t.record.verified["object"]["before_trial"] for t in reads} == {reads[0].record.uuid}
    assert len(reads[0].record.verified["contents"]["sha256"]) == 64
    assert server.keys() == ["benchstudy/sentinel"]


@pytest.mark.fault(27)
def test_a_held_object_is_removed_when_the_controller_is_killed(
    sshd: SshdHost, server: S3Server, root: Path, tmp_path: Path
) -> None:
    config = {**file_size_study([], sizes=["1MB"], ops=["read"], operations=1, blocks=1000)}
    study = study_of(sshd, {**config, "backends": [backend(server.url)]}, root / "work")
    declared = study.model_dump(mode="json", serialize_as_any=True, exclude_none=True, exclude_defaults=True)
    declared |= {"blocks": 1, "thresholds": {"lease": "4s"}}
    script = (
        "import json, sys; from pathlib import Path; from benchstudy.model.studyfile import parse_study; "
        "from benchstudy.measuring.session import hold_session; "
        "study = parse_study(json.load(sys.stdin), stored=True); "
        "hold_session(Path(sys.argv[1]), study.session('server', 'file_size'))"
    )
    environment = {**os.environ, "BENCHSTUDY_HOST_LOCK": str(tmp_path / "host-lock")}
    controller = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, stdin=subprocess.PIPE, text=True
    )
    controller.stdin.write(json.dumps(declared))
    controller.stdin.close()
    until(lambda: "/object-s3-1000000/read" in " ".join(server.keys()), timeout_s=30)
    controller.kill()
    controller.wait()
    until(lambda: server.keys() == ["benchstudy/sentinel"], timeout_s=60)
    until(lambda: not processes(str(root / "work" / "agent-")), timeout_s=60)


def test_check_tries_every_bucket_with_its_keys_and_leaves_nothing(
    sshd: SshdHost, server: S3Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_SECRET", "canary-wrong-key-44")
    monkeypatch.delenv("UNSET_SECRET", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    config = file_size_study(["rclone-s3"])  # its server only runs during a session, so there is nothing to try
    config["backends"] += [
        backend(server.url, "right"),
        backend(server.url, "wrong-secret", secret_key_env="WRONG_SECRET"),
        backend(server.url, "unset", secret_key_env="UNSET_SECRET"),
        backend(server.url, "no-bucket", bucket="absent"),
        backend(nobody, "nobody"),
    ]
    study = study_of(sshd, config, root / "work")
    findings = check_host(study, "server", study.sessions())
    told = {text.removeprefix("file_size: backend "): fine for fine, text, _ in findings if "backend" in text}
    assert "right: wrote, read and removed an object in bucket data" in told
    assert [fine for fine in told.values()] == [True, False, False, False, False]
    problems = "\n".join(told)
    assert re.search("wrong-secret: .*access denied: check the key, its permissions and the clock", problems)
    assert "unset: UNSET_SECRET is not set" in problems
    assert re.search("no-bucket: bucket absent at .*there is no such bucket or object: create the bucket", problems)
    assert re.search("nobody: .*no connection, or a broken one: check that the server is up", problems)
    assert "canary" not in str(findings)
    assert server.keys() == ["benchstudy/sentinel"]


def parsed(trial: StoredTrial) -> dict[str, float | None]:
    return {o.metric: o.value for o in FAMILY.parse(trial.record.levels, trial.folder).observations}


def test_check_finds_what_backends_of_the_session_lack(tmp_path: Path) -> None:
    """A Python that is too old for the client of S3, and a missing program of a mount."""
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\ncase "$*" in *"print(*sys.version"*) echo 3 9 ;; *) exec python3 "$@" ;; esac\n')
    old.chmod(0o755)
    config = file_size_study(["local", "rclone-s3"], tmp_path)
    lost = {"argv": ["no-such-mount", "{{dir}}"], "ready": {"mount": "{{dir}}"}}
    config["services"] = {**config["services"], "lost": lost}
    with SshdHost(tmp_path / "sshd") as sshd:
        host = sshd.described(tmp_path / "work", python=str(old))
        study = study_on(host, {"file_size": config}, name="server")
        findings = check_host(study, "server", study.sessions())
    problems = [text for fine, text, _ in findings if fine is False]
    assert any(re.search(r"backend local: .* writable, with space for [\d.,]+ [MG]B$", text) for _, text, _ in findings)
    assert any(re.match(r"file_size: backend rclone-s3: server: boto3 needs Python 3\.\d+", text) for text in problems)
    assert "file_size: service lost: no-such-mount is missing" in problems

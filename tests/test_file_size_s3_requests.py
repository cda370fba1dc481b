"""The settings of a study for requests to object storage reach the server, and are in a trial's record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_size_study import file_size_study
from one_host import study_on
from s3_server import ACCESS, SECRET, Proxy, S3Server, backend, measured
from sshd_hosts import SshdHost

from benchstudy.model.errors import StudyError

TOKEN = "canary-session-token-3"
CHECKSUMS = ("x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-trailer")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdHost]:
    """A host whose environment would make boto3 send no checksums."""
    said = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}
    with SshdHost(tmp_path_factory.mktemp("sshd"), environment=said) as host:
        yield host


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


def with_checksums(proxy: Proxy, method: str) -> set[bool]:
    """Whether requests for measured objects had any header about checksums."""
    ours = (headers for used, path, headers in proxy.requests if used == method and "/write-" in path)
    return {any(name.startswith(CHECKSUMS) for name in headers) for headers in ours}


def test_checksums_are_sent_or_not_as_the_study_says_whatever_the_host_says(
    sshd: SshdHost, server: S3Server, root: Path
):
    for said, expected in (("when_supported", {True}), ("when_required", {False})):
        with Proxy(server) as proxy:
            one = backend(proxy.url, checksums=said)
            (trial,) = measured(root, sshd, [one], sizes=["100KB"], ops=["write"], operations=1)
        assert trial.record.status == "ok", trial.record.cause
        assert with_checksums(proxy, "PUT") == expected
        client = trial.record.verified["client"]
        assert (client["checksums"], client["validation"]) == (said, said)
        assert client["s3"]["addressing_style"] == "path" and client["attempts"] == 5
        assert trial.record.definition["backend"].get("checksums") == (said if said == "when_required" else None)


def test_a_store_that_knows_no_checksums_is_measured_without_them(sshd: SshdHost, server: S3Server, root: Path):
    with Proxy(server, refuses="x-amz-sdk-checksum-") as proxy:
        backends = [backend(proxy.url), backend(proxy.url, "plain", checksums="when_required")]
        refused, fine = sorted(
            measured(root, sshd, backends, sizes=["100KB"], ops=["write"], operations=1),
            key=lambda trial: trial.record.levels["backend"] != "s3",
        )
    assert refused.record.status == "failed" and "checksums: when_required" in refused.record.cause
    assert fine.record.status == "ok", fine.record.cause


def test_other_keys_are_what_arrives(sshd: SshdHost, server: S3Server, root: Path):
    with Proxy(server, failures=100) as proxy:
        one = backend(
            proxy.url,
            signature="v4",
            multipart_threshold="8MiB",
            part_size="5MiB",
            attempts=2,
            read_timeout="30s",
            checksums="when_required",
        )
        failed, whole = measured(root, sshd, [one], sizes=["6MiB"], ops=["write", "read"], operations=1)
    if failed.record.levels["op"] == "read":
        failed, whole = whole, failed
    assert "in attempt 2 of operation 0" in failed.record.cause and proxy.refused == 2
    assert whole.record.status == "ok", whole.record.cause
    uploads = [path for method, path, _ in proxy.requests if method == "POST" and "uploads" in path]
    assert not uploads, "6 MiB are below the threshold, so there were no parts"
    client = whole.record.verified["client"]
    assert (client["multipart_threshold"], client["part_size"]) == (8 << 20, 5 << 20)
    assert (client["signature"], client["read_timeout_s"]) == ("s3v4", 30.0)
    assert all("AWS4-HMAC-SHA256" in headers["authorization"] for _, _, headers in proxy.requests)


def test_temporary_keys_send_their_session_token_and_keep_it_secret(
    sshd: SshdHost, server: S3Server, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("S3_TOKEN", TOKEN)
    with Proxy(server) as proxy:
        one = backend(proxy.url, session_token_env="S3_TOKEN")
        trials = measured(root, sshd, [one], sizes=["100KB"], ops=["write", "read"], operations=1)
    assert [trial.record.status for trial in trials] == ["ok", "ok"], [trial.record.cause for trial in trials]
    # Uploads to read later are made by a process that keeps the keys, and removals by another one.
    assert {method for method, _, _ in proxy.requests} >= {"PUT", "GET", "DELETE"}
    assert {headers.get("x-amz-security-token") for _, _, headers in proxy.requests} == {TOKEN}
    assert not [path for path in root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert "session_token_env" not in trials[0].record.definition["backend"]


def test_an_old_signature_is_sent_where_it_is_asked_for(sshd: SshdHost, server: S3Server, root: Path):
    """rclone only supports version 4, and says so; the record shows all the same what was sent."""
    with Proxy(server) as proxy:
        one = backend(proxy.url, signature="v2")
        (trial,) = measured(root, sshd, [one], sizes=["100KB"], ops=["write"], operations=1)
    assert trial.record.status == "failed"
    assert {headers["authorization"].split(":")[0] for _, _, headers in proxy.requests} == {f"AWS {ACCESS}"}


def study(**changed: Any) -> Any:
    block = {**file_size_study([]), "backends": [backend("http://127.0.0.1:9", **changed)]}
    return study_on(None, {"file_size": block}, study="requests", target="one")


def test_each_key_is_a_part_of_the_case_and_what_is_left_out_is_as_before():
    plain = study()
    cases = {case.id: case.definition_sha256 for case in plain.sessions()[0].cases}
    same = study(checksums="when_supported", signature="auto", attempts=5, connect_timeout="10s", accelerate=False)
    assert {case.id: case.definition_sha256 for case in same.sessions()[0].cases} == cases
    assert same.sha256 == plain.sha256
    for key, value in {
        "checksums": "when_required",
        "signature": "v2",
        "sign_payload": True,
        "multipart_threshold": "8MiB",
        "attempts": 1,
        "connect_timeout": "1s",
        "read_timeout": "1s",
    }.items():
        other = study(**{key: value})
        assert {case.id for case in other.sessions()[0].cases} == set(cases), "names of cases stay"
        assert not {case.definition_sha256 for case in other.sessions()[0].cases} & set(cases.values()), key
        assert other.sha256 != plain.sha256, key


def test_what_is_amazons_own_is_refused_with_another_address():
    with pytest.raises(StudyError, match="leave out endpoint_url"):
        study(accelerate=True)

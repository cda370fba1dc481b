"""file_size on object storage: a real S3 server, alone and behind a proxy that makes it fail."""

import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config
from conftest import left_processes
from file_size_study import file_size_study, measure, study_of, trials_by_case
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.commands.checks import check_host
from benchstudy.hosts import shipping
from benchstudy.measuring.raw import StoredTrial
from benchstudy.model import registry

FAMILY = registry.get("file_size")
ACCESS, SECRET = "canary-access-key-1", "canary-secret-key-2"


class S3Server:
    """`rclone serve s3` on a free port, with a bucket `data` and an object in it that is not ours."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        rclone = next(path for _, path in shipping._rclone_files())
        self._process = subprocess.Popen(
            [rclone, "serve", "s3", "--addr", f"127.0.0.1:{self.port}", str(folder)],
            env={**os.environ, "RCLONE_AUTH_KEY": f'"{ACCESS},{SECRET}"', "RCLONE_CONFIG": ""},
            stderr=subprocess.DEVNULL,
        )
        self.client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            config=Config(s3={"addressing_style": "path"}),
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline and self._process.poll() is None, "rclone did not start"
        self.client.put_object(Bucket="data", Key="benchstudy/sentinel", Body=b"not ours")

    def _answers(self) -> bool:
        try:
            self.client.list_buckets()
        except botocore.exceptions.EndpointConnectionError:
            return False
        return True

    def keys(self) -> list[str]:
        return [found["Key"] for found in self.client.list_objects_v2(Bucket="data").get("Contents", ())]

    def uploads(self) -> list[str]:
        try:
            listed = self.client.list_multipart_uploads(Bucket="data")
        except self.client.exceptions.NoSuchUpload:
            return []
        return [upload["Key"] for upload in listed.get("Uploads", ())]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)


class Proxy:
    """Passes requests on to a server, but answers the first `failures` uploads of measured objects with 503.

    `bytes_per_s` slows what is uploaded down.
    """

    def __init__(self, server: S3Server, failures: int = 0, bytes_per_s: float | None = None):
        proxy = self
        self.refused = 0
        self.uploads: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """What it serves is not the test's business."""

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    self.close_connection = True  # the client was killed: that is one of the tests

            def _pass_on(self) -> None:
                left = int(self.headers.get("Content-Length", 0))
                body = b""
                while len(body) < left:
                    body += self.rfile.read(min(1 << 16, left - len(body)))
                    if bytes_per_s:
                        time.sleep((1 << 16) / bytes_per_s)
                if self.command == "PUT":
                    proxy.uploads.append(self.path)
                if self.command == "PUT" and "/write-" in self.path and proxy.refused < failures:
                    proxy.refused += 1
                    self._answer(503, {}, f"<Error><Code>SlowDown</Code><Key>{ACCESS}</Key></Error>".encode())
                    return
                upstream = http.client.HTTPConnection("127.0.0.1", server.port)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("expect", "connection"):
                        upstream.putheader(name, value)  # Host stays: it is signed
                upstream.endheaders(body)
                answer = upstream.getresponse()
                self._answer(answer.status, dict(answer.getheaders()), answer.read())
                upstream.close()

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                        self.send_header(name, value)
                self.send_header("Content-Length", headers.get("Content-Length", str(len(body))))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdHost]:
    with SshdHost(tmp_path_factory.mktemp("sshd")) as host:
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


def backend(url: str, name: str = "s3", **changed: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "s3",
        "bucket": "data",
        "endpoint_url": url,
        "region": "us-east-1",
        "part_size": "5MiB",
        "addressing_style": "path",
        "access_key_env": "S3_ACCESS",
        "secret_key_env": "S3_SECRET",
        **changed,
    }


def measured(root: Path, host: SshdHost, backends: list[dict[str, Any]], **changed: Any) -> list[StoredTrial]:
    """A session whose work folder keeps what was shipped before, as a host does."""
    raw = root / "data"
    shutil.rmtree(raw, ignore_errors=True)
    return measure(root, host, {**file_size_study([], **changed), "backends": backends})


def test_the_studys_own_server_with_and_without_parts(tmp_path: Path, sshd: SshdHost, root: Path) -> None:
    """The embedded backend: rclone shipped to the host, its keys made for the session, its bucket made by us."""
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


def test_only_our_prefix_is_cleaned_even_after_a_kill_in_mid_upload(
    sshd: SshdHost, server: S3Server, root: Path
) -> None:
    """The probe is killed at its timeout inside a multipart upload that crawls through a slow proxy."""
    stray = server.client.create_multipart_upload(Bucket="data", Key="benchstudy/other/stray")
    with Proxy(server, bytes_per_s=3e6) as slow:
        (trial,) = measured(root, sshd, [backend(slow.url)], sizes=["40MB"], ops=["write"], operations=1, timeout="5s")
    assert trial.record.status == "timeout"
    assert server.keys() == ["benchstudy/sentinel"]
    assert server.uploads() == ["benchstudy/other/stray"]
    server.client.abort_multipart_upload(Bucket="data", Key="benchstudy/other/stray", UploadId=stray["UploadId"])


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


def test_a_service_that_only_fails_ends_the_trial(sshd: SshdHost, server: S3Server, root: Path) -> None:
    with Proxy(server, failures=100) as proxy:
        (trial,) = measured(root, sshd, [backend(proxy.url)], sizes=["100KB"], ops=["write"])
    assert trial.record.status == "failed"
    assert "asks for fewer requests (HTTP 503, SlowDown), in attempt 5 of operation 0" in trial.record.cause
    assert proxy.refused == 5


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
        "wrong-key": "access is refused: check the key, its rights and the clock",
        "wrong-secret": "access is refused: check the key, its rights and the clock",
        "unset": "the environment variable UNSET_SECRET is not set where snakemake runs",
        "no-bucket": "bucket absent at .*there is no such bucket or object: create the bucket",
        "nobody": "no connection, or it broke: is the server up",
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
        trials = measured(root, sshd, [backend(proxy.url)], sizes=["100KB"], blocks=3)
    assert {t.record.status for t in trials} == {"ok"}, [t.record.cause for t in trials]
    assert len([path for path in proxy.uploads if path.endswith("/object-s3-100000/read")]) == 1
    reads = sorted((t for t in trials if t.record.levels["op"] == "read"), key=lambda t: t.record.block)
    assert {t.record.verified["object"]["before_trial"] for t in reads} == {reads[0].record.uuid}
    assert len(reads[0].record.verified["contents"]["sha256"]) == 64
    assert server.keys() == ["benchstudy/sentinel"]


def test_a_held_object_is_removed_when_the_controller_is_killed(
    sshd: SshdHost, server: S3Server, root: Path, tmp_path: Path
) -> None:
    config = {**file_size_study([], sizes=["1MB"], ops=["read"], operations=1, blocks=1000)}
    study = study_of(sshd, {**config, "backends": [backend(server.url)]}, root / "work")
    declared = study.model_dump(mode="json", serialize_as_any=True, exclude_none=True, exclude_defaults=True)
    declared |= {"blocks": 1, "thresholds": {"lease": "4s"}}
    script = (
        "import json, sys; from pathlib import Path; from benchstudy.model.study import parse_study; "
        "from benchstudy.measuring.session import hold_session; study = parse_study(json.load(sys.stdin)); "
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
    agents = str(root / "work" / "agent-")
    until(lambda: not [line for line in left_processes(str(root)) if agents in line], timeout_s=60)


def test_check_tries_every_bucket_with_its_keys_and_leaves_nothing(
    sshd: SshdHost, server: S3Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_SECRET", "canary-wrong-key-44")
    monkeypatch.delenv("UNSET_SECRET", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    config = file_size_study(["rclone-s3"])  # its server is up in a session only: nothing to be tried
    config["backends"] += [
        backend(server.url, "right"),
        backend(server.url, "wrong-secret", secret_key_env="WRONG_SECRET"),
        backend(server.url, "unset", secret_key_env="UNSET_SECRET"),
        backend(server.url, "no-bucket", bucket="absent"),
        backend(nobody, "nobody"),
    ]
    findings = check_host(study_of(sshd, config, root / "work"), "server")
    told = {text.removeprefix("file_size: backend "): fine for fine, text, _ in findings if "backend" in text}
    assert "right: an object was put into bucket data, read back and removed" in told
    assert [fine for fine in told.values()] == [True, False, False, False, False]
    problems = "\n".join(told)
    assert re.search("wrong-secret: .*access is refused: check the key, its rights and the clock", problems)
    assert "unset: UNSET_SECRET is not set" in problems
    assert re.search("no-bucket: bucket absent at .*there is no such bucket or object: create the bucket", problems)
    assert re.search("nobody: .*no connection, or it broke: is the server up", problems)
    assert "canary" not in str(findings)
    assert server.keys() == ["benchstudy/sentinel"]


def parsed(trial: StoredTrial) -> dict[str, float | None]:
    return {o.metric: o.value for o in FAMILY.parse(trial.record.levels, trial.folder).observations}

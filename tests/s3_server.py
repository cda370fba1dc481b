"""A real S3 server on loopback, a recording proxy that spoils requests, and sessions that measure there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
from between import Between, listening
from botocore.config import Config
from conftest import CHECKOUT, TOOL_STORE
from file_size_study import file_size_study, measure
from ports import free_ports
from sshd_hosts import SshdHost

from benchstudy.hosts import shipping
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.provisioning import toolbuilder
from benchstudy.provisioning.deploy import GO_REQUIREMENTS

ACCESS, SECRET = "canary-access-key-1", "canary-secret-key-2"


class S3Server:
    """`rclone serve s3` on a free port, with a bucket `data` and a foreign object in it."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        argv, environment = self._command()
        self._process = subprocess.Popen(
            argv, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
            assert time.monotonic() < deadline and self._process.poll() is None, "the server did not start"
        self.client.put_object(Bucket="data", Key="benchstudy/sentinel", Body=b"not ours")

    def _command(self) -> tuple[list[str | Path], dict[str, str]]:
        """Its command, and its environment."""
        rclone = next(path for _, path in shipping._rclone_files())
        argv = [rclone, "serve", "s3", "--addr", f"127.0.0.1:{self.port}", str(self.folder)]
        return argv, {"RCLONE_AUTH_KEY": f'"{ACCESS},{SECRET}"', "RCLONE_CONFIG": ""}

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


class VersityServer(S3Server):
    """versitygw: it honours conditions, and returns the checksums of its objects."""

    def _command(self) -> tuple[list[str | Path], dict[str, str]]:
        keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        return [built_versitygw(), f"127.0.0.1:{self.port}", self.folder], keys


def built_versitygw(*, keep_downloads: bool = False) -> Path:
    """The program, from pins. If it is not among the tools yet, it is built first, which takes a minute."""
    store = Path(os.environ[TOOL_STORE])
    tool = {
        "kind": "go",
        "name": "versitygw",
        "version": "v1.8.0",
        "module": "benchstudy.invalid/versitygw",
        "package": ".",
        "tags": [],
        "pins": {path.name: path.read_text() for path in sorted((CHECKOUT / "tests/data/versitygw").iterdir())},
        "share": [],
        "go": "1.25.0",
        "go_pin": (CHECKOUT / GO_REQUIREMENTS).read_text(),
    }
    with tempfile.TemporaryDirectory() as folder:
        request = json.dumps({"folder": folder, "store": str(store), "tools": [tool], "keep_downloads": keep_downloads})
        command = [sys.executable, toolbuilder.__file__]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as builder:
            assert builder.stdin and builder.stdout
            # Its input stays open, because the build ends when the input ends.
            builder.stdin.write(request + "\n")
            builder.stdin.flush()
            told = [json.loads(line) for line in builder.stdout]
    assert "facts" in told[-1], told
    return store / toolbuilder.name_of(tool) / "bin" / "versitygw"


class Proxy:
    """Passes requests on to a server, but answers the first `failures` uploads of measured objects with 503.

    `bytes_per_s` slows uploads down. `refuses`: the beginning of a header that this store does not know, for which it
    answers `code`.
    """

    def __init__(
        self,
        server: S3Server,
        failures: int = 0,
        bytes_per_s: float | None = None,
        refuses: str | None = None,
        code: str = "InvalidRequest",
    ):
        proxy = self
        self.refused = 0
        self.uploads: list[str] = []
        # Method, path and headers of each request, in lower case.
        self.requests: list[tuple[str, str, dict[str, str]]] = []

        class Handler(Between):
            def _pass_on(self) -> None:
                left = int(self.headers.get("Content-Length", 0))
                body = b""
                while len(body) < left:
                    body += self.rfile.read(min(1 << 16, left - len(body)))
                    if bytes_per_s:
                        time.sleep((1 << 16) / bytes_per_s)
                headers = {name.lower(): value for name, value in self.headers.items()}
                proxy.requests.append((self.command, self.path, headers))
                if refuses and any(name.startswith(refuses) for name in headers):
                    self._answer(400, {}, f"<Error><Code>{code}</Code></Error>".encode())
                    return
                if self.command == "PUT":
                    proxy.uploads.append(self.path)
                if self.command == "PUT" and "/write-" in self.path and proxy.refused < failures:
                    proxy.refused += 1
                    self._answer(503, {}, f"<Error><Code>SlowDown</Code><Key>{ACCESS}</Key></Error>".encode())
                    return
                status, answered, content = self.upstream(f"127.0.0.1:{server.port}", body)
                self._answer(status, dict(answered), content)

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                        self.send_header(name, value)
                self.send_header("Content-Length", headers.get("Content-Length", str(len(body))))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        self._listening = listening(Handler)

    def __enter__(self) -> "Proxy":
        self.url = self._listening.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._listening.__exit__(*error)


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
    """A session whose work folder keeps files that were shipped before, as on a host."""
    raw = root / "data"
    shutil.rmtree(raw, ignore_errors=True)
    return measure(root, host, {**file_size_study([], **changed), "backends": backends})

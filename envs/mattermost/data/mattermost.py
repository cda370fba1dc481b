"""A Mattermost server of one release that imports a data set. Python 3.9, standard library only."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import databases
from databases import Failed

ADMIN = "admin"
_PARTS = ("i18n", "templates", "fonts")
_IMPORT_S = 24 * 3600.0
# Ignore proxies: an http_proxy in the environment must not apply to our own server.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Release:
    """A release. `text`: NAME=PROGRAM. The program's files are beside it, or in the `share` made by provisioning."""

    def __init__(self, text: str, work: Path, url: str):
        self.name, _, program = text.partition("=")
        if not self.name or not program:
            raise Failed(f"--release {text!r}: give it as NAME=PROGRAM")
        self.program = Path(os.path.abspath(program))
        self.database = "mattermost_" + re.sub(r"[^a-z0-9]", "_", self.name.lower())
        self.folder, self.log = work / self.name, work / f"{self.name}.log"
        self.url = url.rstrip("/") + "/api/v4"

    def prepare(self) -> None:
        """Make the release's own folder, from which it reads and to which it writes."""
        for folder in ("client/plugins", "config", "data/import"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "client" / "root.html").write_text("<!doctype html>\n")
        share = self.program.parents[1] / "share" / self.program.name
        for part in _PARTS:
            if (share / part).is_dir():
                (self.folder / part).symlink_to(share / part)

    def import_by(self, importer: str, file: Path, source: dict[str, str]) -> None:
        """Import with a program that is started like the server; its arguments are the file and the number of workers.

        Raises Failed with the end of its output.
        """
        argv = [os.path.abspath(importer), str(file), str(os.cpu_count() or 1)]
        process = databases.start(argv, self.log, self._environment(source), self.folder)
        try:
            status = process.wait()
        finally:
            databases.end(process, signal.SIGKILL)
        if status != 0:
            raise Failed(f"{Path(importer).name} ended with status {status}: {databases.tail(self.log)}")

    def _environment(self, source: dict[str, str]) -> dict[str, str]:
        # Without MM_CONFIG the server uses the first folder `config` that it finds in a parent folder.
        return {**os.environ, **source, "MM_CONFIG": str(self.folder / "config" / "config.json")}

    @contextmanager
    def running(self, source: dict[str, str], jobs: bool) -> Iterator[None]:
        """Run the server on the database `source`. The first start includes slow steps such as migrations.

        Without `jobs` it stops at once; with `jobs` only after it has looked for jobs, up to 15 s after its start.
        """
        environment = {**self._environment(source), "MM_JOBSETTINGS_RUNJOBS": "true" if jobs else "false"}
        process = databases.start([str(self.program), "server"], self.log, environment, self.folder)
        try:
            databases.wait_for(self._answers, process, self.log, self.program.name)
            yield
        finally:
            databases.end(process, signal.SIGTERM)

    def _answers(self) -> bool:
        try:
            with _OPENER.open(f"{self.url}/system/ping", timeout=2.0) as answer:
                return answer.status == 200
        except (OSError, ValueError):
            return False

    def import_by_job(self, file: Path, password: str) -> None:
        """Import with the running server's own job, which starts up to half a minute later.

        Raises Failed with the server's reason.
        """
        # The first account becomes the administrator.
        self._ask("users", {"username": ADMIN, "email": f"{ADMIN}@benchstudy.invalid", "password": password})
        _, token = self._ask("users/login", {"login_id": ADMIN, "password": password})
        package = self.folder / "data" / "import" / "data-set.zip"
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.write(file, file.name)
        asked = {"type": "import_process", "data": {"import_file": package.name}}
        job, _ = self._ask("jobs", asked, token)
        deadline = time.monotonic() + _IMPORT_S
        while job["status"] in ("pending", "in_progress"):
            if time.monotonic() > deadline:
                raise Failed(f"{self.program.name}: its import took longer than {_IMPORT_S / 3600:.0f} h")
            time.sleep(0.2)
            job, _ = self._ask(f"jobs/{job['id']}", None, token)
        if job["status"] != "success":
            why = f"{json.dumps(job.get('data') or {})}; {databases.tail(self.log)}"
            raise Failed(f"{self.program.name}: its import ended with {job['status']}: {why}")

    def _ask(self, path: str, content: dict | None, token: str = "") -> tuple[dict, str]:
        """Send a request, and return (answer, token received). Raises Failed."""
        request = urllib.request.Request(f"{self.url}/{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if content is not None:
            request.data = json.dumps(content).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with _OPENER.open(request, timeout=30.0) as answer:
                return json.load(answer), answer.headers.get("Token", "")
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode(errors="replace")
            raise Failed(f"{self.program.name}: /{path} answered {error.code}: {said}") from error
        except (OSError, ValueError) as error:
            raise Failed(f"{self.program.name}: /{path}: {error}; {databases.tail(self.log)}") from error

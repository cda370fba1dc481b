"""`make lab`: a server that a browser can open, with a kernel that has the project's package."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import CHECKOUT, pages_made_in
from jupyter_client import BlockingKernelClient
from nbclient import NotebookClient
from tidy_fixture import write_fio

TOKEN = "token-of-the-test"


class Lab:
    def __init__(self, port: int, log: Path, runtime: Path):
        self.url, self._log, self.runtime = f"http://127.0.0.1:{port}", log, runtime

    def ask(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> Any:
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            headers={"Authorization": f"token {token}"},
            data=json.dumps(body).encode() if body else None,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def wait(self, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while True:
            try:
                self.ask("GET", "api/status")
                return
            except urllib.error.URLError as error:
                assert time.monotonic() < deadline, f"{error}\n{self._log.read_text()}"
                time.sleep(0.1)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["make", "lab", f"LAB=--no-browser --port={port} --ServerApp.port_retries=0"],
            cwd=CHECKOUT,
            env=os.environ | own | {"JUPYTER_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Lab(port, log, tmp_path / "RUNTIME")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)


def test_lab_comes_up_with_the_notebooks_and_a_kernel(lab: Lab):
    lab.wait()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        lab.ask("GET", "api/contents", token="another")
    names = {entry["name"] for entry in lab.ask("GET", "api/contents")["content"]}
    assert {path.name for path in (CHECKOUT / "notebooks").glob("*.ipynb")} <= names
    for name in (name for name in names if name.endswith(".ipynb")):
        notebook = lab.ask("GET", f"api/contents/{name}")["content"]
        assert notebook["metadata"]["kernelspec"]["name"] in lab.ask("GET", "api/kernelspecs")["kernelspecs"]
    opened = lab.ask(
        "POST", "api/sessions", {"path": "fio.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    )
    assert said_by(
        lab, opened["kernel"]["id"], "from benchstudy.model import paths as p; print(p.project_root())"
    ) == str(CHECKOUT)
    with urllib.request.urlopen(f"{lab.url}/lab?token={TOKEN}", timeout=10) as page:
        assert "JupyterLab" in page.read().decode()
    lab.ask("DELETE", f"api/sessions/{opened['id']}")


def said_by(lab: Lab, kernel: str, code: str) -> str:
    """What a cell with `code` prints."""
    client = BlockingKernelClient(connection_file=str(lab.runtime / f"kernel-{kernel}.json"))
    client.load_connection_file()
    assert client.curve_publickey, "another user of the machine could listen"
    client.start_channels()
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                client.wait_for_ready(timeout=60)
                break
            except RuntimeError as error:  # a kernel that takes a second to start is considered dead
                assert time.monotonic() < deadline, error
        printed = []
        client.execute_interactive(
            code, timeout=60, output_hook=lambda message: printed.append(message["content"].get("text", ""))
        )
    finally:
        client.stop_channels()
    return "".join(printed).strip()


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Path]:
    """A project with a study, notebooks, tables, and an export that is published."""
    write_fio(tmp_path, blocks=3)
    (tmp_path / "config").mkdir()
    shutil.copy(CHECKOUT / "config" / "config.yaml", tmp_path / "config")
    shutil.copytree(CHECKOUT / "notebooks", tmp_path / "notebooks")
    export = tmp_path / "reports" / "embedded" / "fio" / "answer.json"
    export.parent.mkdir(parents=True)
    export.write_text("published")
    with pages_made_in(tmp_path):
        yield tmp_path


def run_as_lab_does(notebook: Path, cells: int) -> str:
    """Run the first cells in a Jupyter kernel in the notebook's folder; returns everything that they show."""
    document = nbformat.read(notebook, as_version=4)
    del document.cells[cells:]
    NotebookClient(document, timeout=120, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    shown = [output for cell in document.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("data", {}).get("text/html", "") for output in shown)


def test_cells_that_a_person_runs_write_to_a_scratch_folder_and_say_so(published: Path):
    shown = run_as_lab_does(published / "notebooks" / "fio.ipynb", cells=8)  # a figure and a table
    made = {path for path in (published / "reports").rglob("*") if path.is_file()}
    assert made == {published / "reports/embedded/fio/answer.json"}
    assert (published / "reports/embedded/fio/answer.json").read_text() == "published"
    scratch = published / "scratch" / "embedded" / "fio"
    assert list(scratch.glob("figures/*.svg")) and list(scratch.glob("tables/*.csv"))
    assert f"files below {scratch}" in shown


@pytest.mark.parametrize("notebook", sorted((CHECKOUT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_notebook_writes_there_unless_it_is_told_otherwise(notebook: Path):
    (parameters,) = (
        cell.source
        for cell in nbformat.read(notebook, as_version=4).cells
        if "parameters" in cell.metadata.get("tags", ())
    )
    assert re.search('^output = "(scratch/.*)?"', parameters, re.MULTILINE) and "reports" not in parameters

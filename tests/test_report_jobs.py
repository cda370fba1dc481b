"""How reports are made quickly: cells without a kernel, jobs in forks of a process that has their imports."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import CHECKOUT
from notebook_outputs import code_of, told
from nothing_lost import processes
from waiting import until

from benchstudy.hosts.controller import CONTROLLER_PID
from benchstudy.jobs.inputs import code_of_page
from benchstudy.jobs.notebooks import execute
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.sources import imported_by_notebook

# -- cells ----------------------------------------------------------------------


def run(folder, *cells, kernel="python3"):
    """The executed notebook, as it is passed on and as the log keeps it."""
    made = [nbformat.v4.new_code_cell("given = 1", metadata={"tags": ["parameters"]}), *cells]
    for index, cell in enumerate(made):
        cell["id"] = f"cell-{index}"
    metadata = {"kernelspec": {"name": kernel, "language": "python", "display_name": "Python 3"}}
    (folder / "n.ipynb").write_text(json.dumps(nbformat.v4.new_notebook(cells=made, metadata=metadata)))
    execute(folder / "n.ipynb", folder / "log.ipynb", folder / "out.ipynb", {"given": 2})
    return [nbformat.read(folder / name, as_version=4) for name in ("out.ipynb", "log.ipynb")]


def code(text):
    return nbformat.v4.new_code_cell(text)


def test_outputs_stand_in_the_order_in_which_a_cell_made_them(tmp_path):
    cell = code(
        "import sys\nfrom IPython.display import HTML, display\nprint('one', given)\ndisplay(HTML('<b>two</b>'))\n"
        "print('three', file=sys.stderr)\nprint('four', file=sys.stderr)\n{'five': 5}"
    )
    executed, _ = run(tmp_path, nbformat.v4.new_markdown_cell("Prose."), cell)
    outputs = executed["cells"][-1]["outputs"]
    kinds = [(output["output_type"], output.get("name")) for output in outputs]
    assert kinds == [("stream", "stdout"), ("display_data", None), ("stream", "stderr"), ("execute_result", None)]
    assert outputs[0]["text"] == "one 2\n", "the parameter that was handed in"
    assert outputs[1]["data"]["text/html"] == "<b>two</b>"
    assert outputs[2]["text"] == "three\nfour\n"
    assert outputs[3]["data"]["text/plain"] == "{'five': 5}"


def test_a_notebook_knows_nothing_of_the_one_before_nor_of_this_process(tmp_path):
    run(tmp_path, code("left = 1"))
    second, _ = run(tmp_path, code("print('left' in globals(), __name__, 'tmp_path' in globals())"))
    assert second["cells"][-1]["outputs"][0]["text"] == "False __main__ False\n"
    assert sys.stdout is not None and sys.modules["__main__"].__name__ == "__main__"


def test_a_failing_cell_keeps_its_traceback_in_the_log_and_hands_nothing_on(tmp_path):
    with pytest.raises(
        BenchstudyError, match=r"n\.ipynb: cell \d, line 2, `1 / 0`: ZeroDivisionError: division by zero"
    ):
        run(tmp_path, code("print('before')"), code("# fails\n1 / 0"), code("print('after')"))
    assert not (tmp_path / "out.ipynb").exists()
    log = nbformat.read(tmp_path / "log.ipynb", as_version=4)
    errors = [o for cell in log["cells"] for o in cell.get("outputs", []) if o["output_type"] == "error"]
    assert errors[0]["ename"] == "ZeroDivisionError" and "1 / 0" in re.sub(
        r"\x1b\[[0-9;]*m", "", "".join(errors[0]["traceback"])
    )
    assert [cell["outputs"] for cell in log["cells"] if cell["source"] == "print('after')"] == [[]]


@pytest.mark.parametrize("status", ["", "0", "1"])
def test_a_cell_that_ends_the_run_fails_instead_of_leaving_half_a_page(tmp_path, status):
    with pytest.raises(BenchstudyError, match=rf"the cell ended the run with `exit\({status}\)`"):
        run(tmp_path, code(f"import sys\nsys.exit({status})"), code("print('after')"))
    assert not (tmp_path / "out.ipynb").exists()


def test_a_notebook_need_not_name_its_kernel(tmp_path):
    paths = [tmp_path / f"{name}.ipynb" for name in ("n", "log", "out")]
    whole = nbformat.v4.new_notebook(cells=[{**code("print(given)"), "id": "only"}])
    for metadata in ({}, {"kernelspec": {"name": "python3"}}):
        paths[0].write_text(json.dumps({**whole, "metadata": metadata}))
        execute(*paths, {"given": 2})
        assert json.loads(paths[2].read_text())["cells"][-1]["outputs"][0]["text"] == ["2\n"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nbformat": 5}, "`nbformat` is 5, but must be 4"),
        ({"metadata": None}, "with `metadata`: save the notebook"),
        ({"metadata": []}, "with `metadata`: save the notebook"),
        ({"metadata": {"kernelspec": {"name": "ir"}}}, "no kernel 'ir' in this environment (there is python3)"),
    ],
)
def test_a_notebook_that_cannot_run_is_named_with_the_mend(tmp_path, changed, said):
    whole = {**nbformat.v4.new_notebook(), **changed}
    (tmp_path / "n.ipynb").write_text(json.dumps({k: v for k, v in whole.items() if v is not None}))
    with pytest.raises(BenchstudyError, match=re.escape(said)):
        execute(tmp_path / "n.ipynb", tmp_path / "log.ipynb", tmp_path / "out.ipynb", {})
    with pytest.raises(BenchstudyError, match=re.escape(said)):  # asked when jobs are planned, before any measurement
        code_of_page("fio", tmp_path / "n.ipynb", ["fio"])


def test_ctrl_c_in_a_cell_ends_the_job(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, code("raise KeyboardInterrupt"))


def test_an_executed_notebook_is_the_same_bytes_and_its_log_tells_when_it_ran(tmp_path):
    runs = []
    for _ in range(2):
        executed, log = run(tmp_path, code("given"))
        runs.append((tmp_path / "out.ipynb").read_bytes())
        assert "papermill" not in executed["metadata"] and log["metadata"]["papermill"]["start_time"]
    assert runs[0] == runs[1]


# What a user's own page may also contain: streams, values, cleared output, a picture, a failing cell.
EVERYTHING = """
print("one"); print("two", end=""); print(" and more")
%
import sys
print("three", file=sys.stderr)
%
None
%
sum(range(4))
%
from IPython.display import Image, Markdown, clear_output, display
display("gone"); clear_output(); display(Markdown("**kept**"), 3); "last"
%
display(Image(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(16), format="png"))
%
%%capture caught
print("not shown")
%
class Odd:
    def _repr_html_(self): return "<b>odd</b>"
    def __repr__(self): return "odd"
Odd()
%
Odd(); 5;
%
print(_, __name__, caught.stdout)
def deeper(): raise ValueError("as meant")
deeper()
%
print("never")
"""


@pytest.mark.slow  # a kernel
def test_the_command_line_of_papermill_can_choose_it(tmp_path):
    """The outputs are those of a Jupyter kernel with papermill's standard engine."""
    import papermill  # not at the top, because each worker collects the tests

    cells = [nbformat.v4.new_code_cell(source.strip()) for source in EVERYTHING.split("\n%\n")]
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    every, ours, kernel = (tmp_path / f"{name}.ipynb" for name in ("every", "ours", "kernel"))
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=python), every)
    command = [sys.executable, "-m", "papermill", every, ours, "--no-progress-bar", "--engine", "benchstudy-in-process"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1 and "ValueError: as meant" in ended.stderr, ended.stderr
    with pytest.raises(papermill.PapermillExecutionError, match="as meant"):
        papermill.execute_notebook(every, kernel, progress_bar=False, start_timeout=180)
    said = told(code_of(ours))
    assert said == told(code_of(kernel))
    assert said[-2]["outputs"][-1]["evalue"] == "as meant" and said[-1]["outputs"] == []


# -- jobs ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A folder for job scripts, and a command of the user to which they belong until the last test ends."""
    folder = tmp_path_factory.mktemp("jobs")
    controller = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield folder, controller
    controller.kill()
    controller.wait()
    # Its children end with it, and remove its socket.
    until(lambda: not processes(str(folder)))
    assert not list((folder / ".benchstudy").glob("preloaded-*.sock"))


def start(jobs, text, *arguments, controller=True):
    folder, command = jobs
    (folder / "job.py").write_text("from benchstudy.jobs import preloaded\npreloaded.hand_over(b'r')\n" + text)
    environment = {k: v for k, v in os.environ.items() if k != CONTROLLER_PID} | {"PYTHONPATH": str(CHECKOUT / "src")}
    if controller:
        environment[CONTROLLER_PID] = str(command.pid)
    argv = [sys.executable, "job.py", *arguments]
    return subprocess.Popen(
        argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


TELL = (
    "import json, os, sys\n"
    "loaded = [name for name in ('polars', 'altair', 'benchstudy.report.page') if name in sys.modules]\n"
    "print(json.dumps([os.getpid(), os.getppid(), os.getcwd(), sys.argv, loaded]))\nprint('told', file=sys.stderr)\n"
)


def test_jobs_go_on_in_forks_of_one_process_with_libraries_and_without_the_package(jobs):
    answers = []
    for number in range(2):
        job = start(jobs, TELL + "sys.exit(3)", str(number))
        out, err = job.communicate(timeout=120)
        assert job.returncode == 3 and err == "told\n"
        answers.append((job.pid, *json.loads(out)))
    (asked, one, parent, folder, argv, loaded), (_, other, same_parent, *_) = answers
    assert len({asked, one, other}) == 3 and parent == same_parent
    assert Path(folder) == jobs[0] and argv == ["job.py", "0"]
    assert loaded == ["polars", "altair"], "an edit of the package must reach the next job"
    (socket,) = (jobs[0] / ".benchstudy").glob("preloaded-*.sock")
    assert socket.stat().st_mode & 0o077 == 0, "nobody else may have scripts run"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("import sys; sys.exit('no such study')", 1, "no such study\n"),
        ("raise RuntimeError('a defect')", 1, "RuntimeError: a defect\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 1, "was it killed?\n"),
        ("", 0, ""),
    ],
)
def test_how_a_job_ends_is_how_its_process_ends(jobs, text, status, words):
    job = start(jobs, text)
    _, err = job.communicate(timeout=120)
    assert job.returncode == status and err.endswith(words)


def test_a_job_whose_process_is_killed_is_interrupted_in_its_fork(jobs):
    folder, _ = jobs
    text = (
        "import os, time\ntry:\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    open('interrupted', 'w').close()\n"
    )
    job = start(jobs, text)
    # The process from which it is forked takes long to import on a shared machine.
    until(lambda: (folder / "pid").is_file(), timeout_s=120)
    job.send_signal(signal.SIGKILL)
    job.communicate()
    until(lambda: (folder / "interrupted").is_file())


def test_ctrl_c_ends_a_job_after_its_fork_and_without_a_traceback(jobs):
    """Snakemake removes what an interrupted job left, so nothing of it may still write."""
    folder, _ = jobs
    begun, ended = folder / "begun", folder / "ended"
    for file in (begun, ended):
        file.unlink(missing_ok=True)
    text = (
        "import time\nopen('begun', 'w').close()\ntry:\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.5)\n    open('ended', 'w').close()\n    raise\n"
    )
    job = start(jobs, text)
    until(begun.is_file, timeout_s=120)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=120)
    assert (job.returncode, err, ended.is_file()) == (130, "", True)


def test_without_a_command_of_the_users_a_job_stays_in_its_process(jobs):
    job = start(jobs, TELL, controller=False)
    out, _ = job.communicate(timeout=120)
    assert json.loads(out)[0] == job.pid


@pytest.mark.parametrize(
    "before", ["", "files = !ls\n", "%config X.y = 1\n", "%%time\n", "if True:\n    %time f()\n", "f?\n", "!ls {x}\n"]
)
def test_commands_for_ipython_hide_no_import_of_their_cell(tmp_path, before):
    """The page depends on the code that its notebook imports."""
    cell = {"cell_type": "code", "source": [f"{before}from benchstudy.report.page import Page\n", "import polars"]}
    notebook = tmp_path / "own.ipynb"
    notebook.write_text(json.dumps({"cells": [cell, {**cell, "source": ["this is no Python"]}]}))
    found = imported_by_notebook(notebook)
    assert found == ["benchstudy.report.page", "benchstudy.report.page.Page", "polars"]

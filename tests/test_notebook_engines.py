"""Notebooks run in our own process give what they give in a kernel of Jupyter, papermill's standard engine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import nbformat.v4 as v4
import papermill
import pytest
from conftest import CHECKOUT, pages_made_in
from http_fixture import write_http
from load_fixture import write_load
from log_fixture import write_log
from tidy_fixture import write_command, write_file_size, write_fio

from benchstudy.jobs import notebooks

NOTEBOOKS = sorted(path.stem for path in (CHECKOUT / "notebooks").glob("*.ipynb"))
# What a page of somebody's own may do besides: streams, values, what is cleared, a picture, a failing cell.
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


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Iterator[Path]:
    """Two made-up studies, the first of all families."""
    root = tmp_path_factory.mktemp("project")
    write_file_size(root, blocks=3)
    write_file_size(root, study="other", blocks=3, hostile=False)
    write_fio(root, blocks=3)
    write_command(root, blocks=3)
    write_http(root, blocks=3)
    write_log(root, blocks=3)
    write_load(root, databases=("mariadb",))
    with pages_made_in(root):
        yield root


def parameters_of(page: str) -> dict[str, Any]:
    output = f"reports/embedded/{page}"
    if page == "two_studies":
        return {"base": "embedded", "other": "other", "tidy": "data/tidy", "output": output}
    of_family = Path("data/tidy/embedded", page)
    tidy = of_family if of_family.is_dir() else of_family.parent
    return {"study": "embedded", "tidy": str(tidy), "output": output}


def exports(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def told(executed: Path) -> list[dict[str, Any]]:
    """What its code cells say. Prints that follow one another count as one, for a kernel sends them as they come; how
    tracebacks are coloured and how much of the code stands in them is left out."""
    cells = []
    for cell in nbformat.read(executed, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        outputs: list[dict[str, Any]] = []
        for output in cell.outputs:
            last = outputs[-1] if outputs else {}
            if output.output_type == last.get("output_type") == "stream" and output.name == last["name"]:
                last["text"] += output.text
            else:
                outputs.append({name: value for name, value in output.items() if name != "traceback"})
        cells.append({"source": cell.source, "count": cell.execution_count, "outputs": outputs})
    return cells


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_every_page_is_the_same_by_a_kernel_of_jupyter(project, page):
    notebook, folder = CHECKOUT / "notebooks" / f"{page}.ipynb", project / "reports" / "embedded" / page
    parameters = parameters_of(page)
    notebooks.execute(notebook, project / "trace.ipynb", project / "ours.ipynb", parameters)
    ours = exports(folder)
    papermill.execute_notebook(notebook, project / "kernel.ipynb", parameters, progress_bar=False, start_timeout=180)
    assert told(project / "ours.ipynb") == told(project / "kernel.ipynb")
    theirs = exports(folder)
    assert ours and [name for name in ours | theirs if ours.get(name) != theirs.get(name)] == []


def test_the_command_line_of_papermill_can_choose_it(project):
    cells = [v4.new_code_cell(source.strip()) for source in EVERYTHING.split("\n%\n")]
    notebook = v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    (project / "all.ipynb").write_text(json.dumps(notebook))
    for name, options in {"ours": ["--engine", "benchstudy-in-process"], "kernel": []}.items():
        command = [sys.executable, "-m", "papermill", "all.ipynb", f"{name}.ipynb", "--no-progress-bar", *options]
        ended = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert ended.returncode == 1 and "ValueError: as meant" in ended.stderr, ended.stderr
    ours, theirs = told(project / "ours.ipynb"), told(project / "kernel.ipynb")
    assert ours == theirs
    assert ours[-2]["outputs"][-1]["evalue"] == "as meant" and ours[-1]["outputs"] == []

"""Executes a notebook with parameters, and keeps the output of a failing cell."""

import json
import logging
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchstudy.model import registry
from benchstudy.model.errors import COLOURS, BenchstudyError
from benchstudy.model.files import disk_trouble
from benchstudy.report import prose

if TYPE_CHECKING:
    from papermill import PapermillExecutionError

log = logging.getLogger("benchstudy")

# A kernel that starts on a busy machine needs more than Jupyter's default of one minute.
_START_TIMEOUT_S = 180
# The kernel named in our notebooks. Their cells run without one: cellrunner.py.
_OWN_KERNEL, _OWN_ENGINE = "python3", "benchstudy-in-process"
_NBFORMAT = 4
# How IPython names the line of a cell, in colour.
_LINE = re.compile(r"Cell In\[\d+\], line (\d+)")
# And that of a file.
_LINE_OF_FILE = re.compile(r"^File (.+):(\d+)", re.MULTILINE)
# The tag with which papermill marks the cell of parameters.
_INJECTED = "injected-parameters"


def execute(notebook: Path, trace: Path, output: Path, parameters: Mapping[str, Any]) -> None:
    """Run `notebook` into `trace`, which is kept even if a cell fails, and write it to `output` once all cells ran.

    `output` holds no times of the run, so the same data give the same bytes. A notebook for a kernel other than
    `python3` gets that kernel. Raises BenchstudyError that names a failing cell.
    """
    # Imported here because these imports take longer than most jobs.
    import papermill
    from papermill.engines import papermill_engines
    from papermill.translators import papermill_translators
    from traitlets.config import Config

    from benchstudy.jobs.cellrunner import InProcessEngine, Unformatted

    for typed in prose.read(notebook):
        log.warning("%s: cell %s has a number typed into its prose: %s", notebook, typed.cell, typed.number)
    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill_engines.register(_OWN_ENGINE, InProcessEngine)
    papermill_translators.register("python", Unformatted)
    trace.parent.mkdir(parents=True, exist_ok=True)
    kernel = kernel_of(notebook)
    try:
        with tempfile.TemporaryDirectory(prefix="benchstudy-kernel-") as sockets:
            papermill.execute_notebook(
                notebook,
                trace,
                parameters=dict(parameters),
                engine_name=_OWN_ENGINE if kernel == _OWN_KERNEL else None,
                # A notebook may leave both out.
                kernel_name=kernel,
                language="python" if kernel == _OWN_KERNEL else None,
                # Saving after each cell would take longer than the cells. A failing notebook is written anyway.
                request_save_on_cell_execute=False,
                start_timeout=_START_TIMEOUT_S,
                progress_bar=False,
                # Sockets in a private folder, instead of ports that another user of the machine could listen on.
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
            )
    except papermill.PapermillExecutionError as error:
        raise BenchstudyError(
            f"{notebook}: cell {error.exec_count}{_line_of(error)}: {_said_by(error)}\n"
            f"the executed notebook with the traceback is {trace}"
        ) from error
    output.parent.mkdir(parents=True, exist_ok=True)
    executed = json.loads(trace.read_bytes())
    output.write_text(json.dumps(_timeless(executed), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def kernel_of(notebook: Path) -> str:
    """The kernel that a notebook asks for. Raises BenchstudyError if the notebook or the kernel is unfit."""
    found = json.loads(notebook.read_bytes())
    if found.get("nbformat") != _NBFORMAT or not isinstance(found.get("metadata"), dict):
        raise BenchstudyError(
            f"{notebook}: `nbformat` is {found.get('nbformat')}, but must be {_NBFORMAT}, with `metadata`: save the "
            "notebook in that format, as JupyterLab does"
        )
    kernel = str((found["metadata"].get("kernelspec") or {}).get("name", _OWN_KERNEL))
    if kernel == _OWN_KERNEL:
        return kernel
    from jupyter_client.kernelspec import find_kernel_specs  # slow to import, and few notebooks need it

    if kernel not in (known := find_kernel_specs()):
        raise BenchstudyError(
            f"{notebook}: no kernel {kernel!r} in this environment (there is {', '.join(sorted(known))}): install it, "
            f"or choose the kernel {_OWN_KERNEL} in JupyterLab"
        )
    return kernel


def _line_of(error: "PapermillExecutionError") -> str:
    """The line of the cell that failed: ", line 2, `page.table(…)`"; "" if the traceback does not name it."""
    told = _LINE.search(COLOURS.sub("", "\n".join(error.traceback)))
    lines = error.source.splitlines()
    if told is None or int(told[1]) > len(lines):
        return ""
    return f", line {told[1]}, `{lines[int(told[1]) - 1].strip()}`"


def _said_by(error: "PapermillExecutionError") -> str:
    """The error message. For errors of other packages it has the exception's name, which is half the message."""
    if error.ename in _own_errors(BenchstudyError):
        return error.evalue
    trouble = disk_trouble(Exception(error.evalue))
    return f"{error.ename}: {error.evalue}{_where_in_a_family(error)}" + (f"\n{trouble}" if trouble else "")


def _where_in_a_family(error: "PapermillExecutionError") -> str:
    """The line in the code of another package's family that failed: ", line 2 of /…/page/tables.py"; or ""."""
    folders = [registry.folder(name) for name in registry.brought()]
    lines = _LINE_OF_FILE.findall(COLOURS.sub("", "\n".join(error.traceback)))
    own = [(file, line) for file, line in lines if any(map(Path(file).expanduser().is_relative_to, folders))]
    return f", line {own[-1][1]} of {own[-1][0]}" if own else ""


def _own_errors(kind: type[BenchstudyError]) -> set[str]:
    return {kind.__name__}.union(*(_own_errors(further) for further in kind.__subclasses__()))


def _timeless(notebook: dict[str, Any]) -> dict[str, Any]:
    """`notebook` without what papermill and kernels record about the run, and without random ids."""
    for part in (notebook, *notebook["cells"]):
        for noted in ("papermill", "execution"):
            part["metadata"].pop(noted, None)
        if _INJECTED in part["metadata"].get("tags", ()):
            part["id"] = _INJECTED
    return notebook

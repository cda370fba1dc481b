"""Execute a notebook with parameters, keeping what a failing cell said."""

import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchstudy.errors import BenchstudyError

# A kernel that starts while the machine is still busy needs more than Jupyter's minute.
_START_TIMEOUT_S = 180

# Notebooks that read the tables of every family, and the titles of their pages. All others are a family's, named so.
STUDY_PAGES = {"published": "Published figures"}


def execute(notebook: Path, trace: Path, output: Path, parameters: Mapping[str, Any]) -> None:
    """Run `notebook` into `trace` (kept also when a cell fails) and copy it to `output` when all cells ran."""
    # Here, because they take longer to import than most jobs run.
    import papermill
    from traitlets.config import Config

    logging.getLogger("papermill").setLevel(logging.ERROR)
    trace.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="benchstudy-kernel-") as sockets:
            papermill.execute_notebook(
                notebook,
                trace,
                parameters=dict(parameters),
                kernel_name="python3",
                start_timeout=_START_TIMEOUT_S,
                progress_bar=False,
                # Sockets in a folder of their own: no port that another user of the machine could listen on.
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
            )
    except papermill.PapermillExecutionError as error:
        raise BenchstudyError(
            f"{notebook}: cell {error.exec_count} failed with {error.ename}: {error.evalue}\n"
            f"the executed notebook with the traceback is {trace}"
        ) from error
    output.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(trace, output)

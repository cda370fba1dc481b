"""An engine for papermill that runs a notebook's cells in this process.

Starting a kernel and repeating the imports of a page takes longer than most pages take to run. The result is the same:
the outputs of each cell in order, and the traceback of a failing one.
"""

import base64
import platform
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import Any

import nbformat.v4 as v4
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode
from papermill.engines import Engine, NotebookExecutionManager
from papermill.translators import PythonTranslator
from traitlets import Type
from traitlets.config import Config


class Unformatted(PythonTranslator):
    """Writes the cell of parameters as it is. Papermill would format it with black, if installed: 0.1 s for nothing."""

    @classmethod
    def codify(cls, parameters: Mapping[str, Any], comment: str = "Parameters") -> str:
        """The source of the cell."""
        return super(PythonTranslator, cls).codify(parameters, comment)


class InProcessEngine(Engine):
    """Each notebook gets its own shell, without history, start-up files or the user's profile."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: NotebookExecutionManager, kernel_name: str, **_: Any) -> None:
        """Runs the code cells up to the first that fails; papermill raises for it. Ctrl-C passes through."""
        with tempfile.TemporaryDirectory(prefix="benchstudy-shell-") as folder:
            shell = _Shell.instance(ipython_dir=folder, config=Config({"HistoryManager": {"enabled": False}}))
            try:
                _run_all(shell, nb_man)
            finally:
                # `display` looks for this instance; the next notebook gets another.
                _Shell.clear_instance()
        nb_man.nb.metadata["language_info"] = {"name": "python", "version": platform.python_version()}


def _run_all(shell: "_Shell", nb_man: NotebookExecutionManager) -> None:
    for index, cell in enumerate(nb_man.nb.cells):
        nb_man.cell_start(cell, index)
        error = _run(shell, cell) if cell.cell_type == "code" else None
        if error is not None:
            nb_man.cell_exception(cell, index, exception=error)
        nb_man.cell_complete(cell, index)
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error is not None:
            return


def _run(shell: "_Shell", cell: NotebookNode) -> BaseException | None:
    """Fill in the cell's outputs. Returns the exception if it failed."""
    shell.outputs = cell.outputs
    shell.display_pub.outputs = shell.displayhook.outputs = cell.outputs
    with redirect_stdout(_Stream("stdout", cell.outputs)), redirect_stderr(_Stream("stderr", cell.outputs)):
        result = shell.run_cell(cell.source, store_history=True)
    cell.execution_count = result.execution_count
    return result.error_before_exec or result.error_in_exec


class _Stream(TextIOBase):
    """Collects printed text, in order with the other outputs."""

    def __init__(self, name: str, outputs: list[NotebookNode]):
        self.name, self._outputs = name, outputs

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        last = self._outputs[-1] if self._outputs else {}
        if last.get("output_type") == "stream" and last.get("name") == self.name:
            last["text"] += text
        elif text:
            self._outputs.append(v4.new_output("stream", name=self.name, text=text))
        return len(text)


class _Publisher(DisplayPublisher):
    """Collects what `display` shows."""

    outputs: list[NotebookNode]

    def publish(self, data: dict[str, Any], metadata: dict[str, Any] | None = None, *_: Any, **__: Any) -> None:
        self.outputs.append(v4.new_output("display_data", data=_text(data), metadata=metadata or {}))

    def clear_output(self, wait: bool = False) -> None:
        self.outputs.clear()


class _Hook(DisplayHook):
    """Collects the value of a cell's last line."""

    outputs: list[NotebookNode]

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        count = self.prompt_count
        found = v4.new_output("execute_result", data=_text(format_dict), metadata=md_dict or {}, execution_count=count)
        self.outputs.append(found)

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Shell(InteractiveShell):
    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    displayhook: _Hook
    display_pub: _Publisher
    outputs: list[NotebookNode]

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        told = str(evalue)
        if etype is SystemExit:
            # papermill takes a status of 0 for the end of the notebook, and the page would end here.
            told = f"the cell ended the run with `exit({told})`; take it out"
        found = v4.new_output("error", ename=etype.__name__, evalue=told, traceback=list(stb))
        self.outputs.append(found)


def _text(data: dict[str, Any]) -> dict[str, Any]:
    """The data with pictures as a notebook stores them."""
    return {kind: base64.b64encode(v).decode() if isinstance(v, bytes) else v for kind, v in data.items()}

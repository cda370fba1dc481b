"""The outputs of executed notebooks, in a form in which two engines can be compared."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode


def code_of(notebook: Path) -> list[NotebookNode]:
    return [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]


def told(cells: Iterable[NotebookNode]) -> list[dict[str, Any]]:
    """The outputs of code cells.

    Consecutive prints count as one, because a kernel sends them as they come. The colours of tracebacks, and how much
    code they show, are left out.
    """
    said: list[dict[str, Any]] = []
    first = 0
    for cell in cells:
        outputs: list[dict[str, Any]] = []
        for output in cell.outputs:
            last = outputs[-1] if outputs else {}
            if output.output_type == last.get("output_type") == "stream" and output.name == last["name"]:
                last["text"] += output.text
            else:
                outputs.append({name: value for name, value in output.items() if name != "traceback"})
        # A kernel may have run other cells before.
        first = first or cell.execution_count
        count = cell.execution_count and cell.execution_count - first
        said.append({"source": cell.source, "count": count, "outputs": outputs})
    return said

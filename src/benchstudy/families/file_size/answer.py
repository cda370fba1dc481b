"""The JSON document with which the probe on the host answers."""

from pathlib import Path
from typing import Any

from benchstudy.families.shared.files import read_facts
from benchstudy.model.family import ParseError

LOAD = "load"  # the folder with the files of several clients


def read_answer(path: Path) -> dict[str, Any]:
    """Read the answer, which holds a `problem` if the trial failed. Raises ParseError."""
    answer = read_facts(path, ["operations"])
    if not isinstance(answer["operations"], list):
        raise ParseError(f"{path.name} is not an answer of the file-size probe")
    return answer

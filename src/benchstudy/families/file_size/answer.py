"""The one JSON document that the probe on the host answers with."""

from pathlib import Path
from typing import Any

from benchstudy.families.shared.files import read_facts
from benchstudy.model.family import ParseError

LOAD = "load"  # the folder of what several clients left


def read_answer(path: Path) -> dict[str, Any]:
    """Also of a trial that failed: then it holds a `problem`. Raises ParseError."""
    answer = read_facts(path, ["operations"])
    if not isinstance(answer["operations"], list):
        raise ParseError(f"{path.name}: not an answer of the file-size probe")
    return answer

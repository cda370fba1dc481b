"""Parse the probe's output. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchstudy.model.family import Observation, Parsed, ParseError


def read(path: Path) -> dict[str, Any]:
    """Parse the probe's answer. Raises ParseError."""
    try:
        answer = json.loads(path.read_bytes())
    except ValueError as error:
        raise ParseError(f"the answer is cut off: {error}") from error
    if not isinstance(answer, dict) or answer.get("sixth") != 1:
        raise ParseError("this is no answer of sixth_naps")
    return answer


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    answer = read(files / "stdout")
    beyond = [lasted - answer["length_s"] for lasted in answer["lasted_s"]]
    rows = [{"index": index, "overslept_s": value} for index, value in enumerate(beyond)]
    return Parsed(
        [Observation("overslept", fmean(beyond), "s"), Observation("naps", float(len(beyond)), "1")], {"naps": rows}
    )

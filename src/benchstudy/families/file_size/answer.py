"""The one JSON document that the probe on the host answers with."""

from pathlib import Path
from typing import Any

import orjson

from benchstudy.model.family import ParseError


def read_answer(path: Path) -> dict[str, Any]:
    """Also of a trial that failed: then it holds a `problem`. Raises ParseError."""
    try:
        answer = orjson.loads(path.read_bytes())
        if not isinstance(answer["operations"], list) or answer["schema"] != 1:
            raise ParseError(f"{path.name}: not an answer of the file-size probe")
    except FileNotFoundError as error:
        raise ParseError(f"{path.name} is missing") from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ParseError(f"{path.name}: truncated, or not an answer of the file-size probe") from error
    return answer

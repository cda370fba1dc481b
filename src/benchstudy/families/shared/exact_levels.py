"""Levels of imported cases, made from any text of an output."""

import hashlib

from benchstudy.model.names import as_name


def exact_level(text: str, longest: int) -> str:
    """Return `text` as a level of an imported case. Different texts give different levels.

    A path has + instead of /. Any other text that had to be changed or shortened to `longest` ends with a digest.
    """
    if text.startswith("/") and "+" not in text:
        level = text.replace("/", "+")
        plain = level == f"+{as_name(level)}"
    else:
        level, plain = text, text == as_name(text)
    if plain and len(level) <= longest:
        return level
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{as_name(text)[: longest - 7]}-{digest}"

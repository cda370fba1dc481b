"""Levels of imported cases, made of whatever an output says."""

import hashlib

from benchstudy.model.names import as_name


def exact_level(text: str, longest: int) -> str:
    """`text` as a level of an imported case; no two texts become one level.

    A path is shown with + in the place of /. Whatever else had to be changed or cut off has a digest behind it.
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

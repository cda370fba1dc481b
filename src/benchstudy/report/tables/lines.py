"""Where a line of a cell may break."""

import re

# A line may break inside a cell, but not between a figure and its unit, nor inside a part of the brackets of a mean.
_BRACKETS = re.compile(r"\(±[^()]*\)")
_KEPT_TOGETHER = re.compile(r"\(±[^(),]*[,)]|p50: [^()]*\)|\d (?:[µmn]?s|[kKMGT]?i?B|%)(?![A-Za-z])|n = \d+")


def unbroken(text: str) -> str:
    """`text` for a page: a figure and its unit, a range and the brackets of a mean stay on one line."""
    kept = _KEPT_TOGETHER.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return re.sub(r"(?<=\d)–(?=\d)", "–\N{WORD JOINER}", kept)


def with_whole_brackets(text: str) -> str:
    """The same, and the brackets of a mean are whole: for lines that have room for them."""
    return _BRACKETS.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), unbroken(text))

"""Texts on pages: where lines may break, what is code, and what is folded."""

import html
import re

# A line must not break between a figure and its unit, or inside a part of the brackets of a mean.
_BRACKETS = re.compile(r"\(±[^()]*\)")
_KEPT_TOGETHER = re.compile(r"\(±[^(),]*[,)]|\d (?:[µmn]?s|[kKMGT]?i?B|%)(?![A-Za-z])|n = \d+")


def unbroken(text: str) -> str:
    """`text` for a page: figures stay with their units, and ranges and parts of a mean's brackets stay whole."""
    kept = _KEPT_TOGETHER.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return re.sub(r"(?<=\d)–(?=\d)", "–\N{WORD JOINER}", kept)


def as_html(text: str) -> str:
    """A sentence that comes from data, as HTML: `unbroken`, and the text between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(unbroken(text)))


def numbered(number: str) -> str:
    """The number at the beginning of a caption as HTML; empty without a number."""
    return f'<b class="number">{html.escape(number)}.</b> ' if number else ""


def fold(summary: str, content: str) -> str:
    """`content`, which is HTML, folded below `summary`: closed on a screen, open in print. It needs no script."""
    return f'<details class="fold"><summary>{html.escape(summary)}</summary>{content}</details>'


def with_whole_brackets(text: str) -> str:
    """`unbroken`, and the brackets of a mean stay whole, for lines that have room for them."""
    return _BRACKETS.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), unbroken(text))

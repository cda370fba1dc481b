"""How programs write a secret: what is removed from files of a trial, and searched for before a crate is packed."""

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import AnyStr
from urllib.parse import quote, quote_plus

# Encodings of shorter values occur in any file by chance.
SHORTEST_ENCODED = 6
SHORTEST, _FEWEST_DIGITS = 4, 8
REDACTED = "«redacted»"

_WRITINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: quote(text, safe=""),
    lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
    quote,
    quote_plus,
    html.escape,
    lambda text: html.escape(text, quote=False),
    lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),  # as templates write it
    lambda text: repr(text)[1:-1],
    lambda text: shlex.quote(text).strip("'"),
    lambda text: text.replace("'", "'\\''"),  # bash's `set -x`
)


def is_utf8(value: str) -> bool:
    """Whether it can be written to a file, and so searched for."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_common(value: str | bytes) -> bool:
    """Whether outputs contain it by chance."""
    return len(value) < SHORTEST or (value.isdigit() and len(value) < _FEWEST_DIGITS)


def unfit(value: str) -> tuple[str, str] | None:
    """Why this cannot be a secret, and the fix: it could not be removed from outputs, or figures would be, too."""
    if not is_utf8(value):
        return "is not UTF-8", "set another value"
    if is_common(value):
        fix = f"set at least {SHORTEST} characters, or {_FEWEST_DIGITS} if all are digits"
        return "is too short for a secret, because outputs contain it by chance", fix
    return None


@lru_cache(maxsize=256)
def forms_of(secret: str) -> tuple[str, ...]:
    """A secret as it is, and as it is in JSON, a URL, HTML, a shell, nested, or in base64."""
    texts = {secret}
    for _ in range(2):
        texts |= {written(text) for text in texts for written in _WRITINGS}
    encoded = _in_base64(secret.encode()) if len(secret) >= SHORTEST_ENCODED else ()
    return (*sorted(texts), *encoded)


def begun(text: AnyStr, forms: Sequence[AnyStr]) -> int:
    """How much at the end of `text` is the beginning of a secret; 0 for less than what texts contain by chance."""
    found = 0
    for form in forms:
        end, begins = text[-len(form) + 1 :] if len(form) > 1 else text[:0], form[:SHORTEST]
        at = end.find(begins)
        while at >= 0 and not form.startswith(end[at:]):
            at = end.find(begins, at + 1)
        if at >= 0 and not is_common(end[at:]):
            found = max(found, len(end) - at)
    return found


def without(text: str, secrets: Collection[str]) -> str:
    """Ends of logs without secrets. A line may end within one: logs of programs that run or were killed do."""
    longest_first = sorted(secrets, key=len, reverse=True)  # one may contain another
    for secret in longest_first:
        text = text.replace(secret, REDACTED)
    for end in reversed([match.start() for match in re.finditer(r"$", text, re.MULTILINE)]):
        cut = begun(text[:end], longest_first)
        text = text[: end - cut] + REDACTED + text[end:] if cut else text
    return text


def _in_base64(secret: bytes) -> Iterator[str]:
    """The characters of base64 that depend on nothing else, after 0, 1 or 2 other bytes, such as a user's name."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)[(0, 2, 3)[before] : (before + len(secret)) * 8 // 6]
        yield from (encoded.decode(), encoded.translate(bytes.maketrans(b"+/", b"-_")).decode())

"""Searches for secrets in what is about to be shared. Measuring keeps them out of files; this is the second check."""

import base64
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import markupsafe

from benchstudy.model.errors import BenchstudyError

# Shorter values occur in any file by chance.
_SHORTEST = 6
# Kept from the previous piece, so that a secret across the border between two pieces is found.
_OVERLAP = 4096
_IN_TEXT = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
# Patterns of undeclared secrets. Each has a bounded length, so that it fits into the overlap.
_LOOKS = {
    "a private key": rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\s+[A-Za-z0-9+/=\\]{16}",
    "an access key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "the signature of a presigned address": rb"[?&](?:amp;)?X-Amz-Signature=[0-9a-f]{32}",
    "a token of GitHub": rb"\bgh[pousr]_[A-Za-z0-9]{36}\b",
    "a token of Slack": rb"\bxox[abprs]-[A-Za-z0-9-]{10,80}\b",
    "a signed token (JWT)": rb"\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,1000}\.[A-Za-z0-9_-]{20}",
    "a password in an address": rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>`{}$\\]{1,64}:[^\s/:@\"'<>`{}$\\]{3,128}@[A-Za-z0-9\[]",
}
_LOOKS_LIKE = {what: re.compile(pattern) for what, pattern in _LOOKS.items()}


_WRITINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: quote(text, safe=""),
    lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
    quote,
    quote_plus,
    html.escape,
    lambda text: html.escape(text, quote=False),
    lambda text: str(markupsafe.escape(text)),  # as templates write it
)


class SecretFound(BenchstudyError):
    """A file that must not leave this machine. The message names the file, never the secret."""


@dataclass(frozen=True)
class Secrets:
    """What to search for: `values` (name of the variable, one encoding of its value)."""

    values: tuple[tuple[str, bytes], ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, declared: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> "Secrets":
        """The secrets of a study, from the variables that it names. `unknown`: variables not set here, or too short."""
        names = sorted(set(variables(declared)))
        known = [name for name in names if len(environment.get(name, "")) >= _SHORTEST]
        values = dict.fromkeys((name, form) for name in known for form in _forms(environment[name]))
        return cls(tuple(values), tuple(name for name in names if name not in known))

    def refuse(self, name: str, content: Iterable[bytes], accepted: Iterable[str] = ()) -> Iterator[bytes]:
        """`content`, unchanged. Raises SecretFound if it contains a secret.

        `accepted`: files that somebody checked. They are refused only for the study's own secrets.
        """
        looks = {} if name in accepted else _LOOKS_LIKE
        overlap = max([_OVERLAP, *(len(value) for _, value in self.values)])
        before = b""
        for piece in content:
            window = before + piece
            for variable, value in self.values:
                if value in window:
                    raise SecretFound(
                        f"{name}: holds the value of {variable}, which the study names as a secret; nothing was "
                        "packed. Change the secret, because a file contains it; then pack again"
                    )
            for what, pattern in looks.items():
                if pattern.search(window):
                    raise SecretFound(
                        f"{name}: holds what looks like {what}; nothing was packed. If it is not a secret, run "
                        f"`benchstudy crate --accept {name}`"
                    )
            before = window[-overlap:]
            yield piece


def variables(node: Any) -> Iterator[str]:
    """Environment variables that a study names as secrets, anywhere in it."""
    if isinstance(node, str):
        yield from _IN_TEXT.findall(node)
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if str(key).endswith("_env"):
                yield from _names(value)
            yield from variables(value)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from variables(value)


def _names(value: Any) -> list[str]:
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    return [name for name in values if isinstance(name, str)]


def _forms(secret: str) -> list[bytes]:
    """How programs may write a secret: plain, in JSON, in a URL, in HTML, nested, or in base64."""
    texts = {secret}
    for _ in range(2):
        texts |= {written(text) for text in texts for written in _WRITINGS}
    return [*(text.encode() for text in sorted(texts)), *_in_base64(secret.encode())]


def _in_base64(secret: bytes) -> Iterator[bytes]:
    """The characters of base64 that depend on nothing else, after 0, 1 or 2 other bytes, such as a user's name."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)[(0, 2, 3)[before] : (before + len(secret)) * 8 // 6]
        yield from (encoded, encoded.translate(bytes.maketrans(b"+/", b"-_")))

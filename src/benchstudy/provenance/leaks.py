"""Looks for secrets in what is about to be given away. What measured keeps them out; this is the door behind it."""

import base64
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from benchstudy.model.errors import BenchstudyError

# Shorter ones stand in every file by chance.
_SHORTEST = 6
# Kept of the piece before, so that nothing hides on the border between two.
_OVERLAP = 4096
_IN_TEXT = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
# What a secret looks like that nobody declared. Each is bounded, so that it fits into the overlap.
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
)


class SecretFound(BenchstudyError):
    """A file that must not leave this machine; the message names it, and never the secret."""


@dataclass(frozen=True)
class Secrets:
    """What to look for: `values` (name of the variable, the bytes of one way to write it)."""

    values: tuple[tuple[str, bytes], ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, declared: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> "Secrets":
        """The secrets of a study: those in the variables that it names. `unknown`: those not set here, or too short."""
        names = sorted(set(variables(declared)))
        known = [name for name in names if len(environment.get(name, "")) >= _SHORTEST]
        values = dict.fromkeys((name, form) for name in known for form in _forms(environment[name]))
        return cls(tuple(values), tuple(name for name in names if name not in known))

    def refuse(self, name: str, content: Iterable[bytes], accepted: Iterable[str] = ()) -> Iterator[bytes]:
        """`content` as it is; raises SecretFound where a secret stands in it.

        `accepted`: files that somebody looked at; only the study's own secrets are refused in them.
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
                        "packed. Change the secret, because it stands in a file; once it is another, this packs"
                    )
            for what, pattern in looks.items():
                if pattern.search(window):
                    raise SecretFound(
                        f"{name}: holds what looks like {what}; nothing was packed. If it is none, say so with "
                        f"`benchstudy crate --accept {name}`"
                    )
            before = window[-overlap:]
            yield piece


def variables(node: Any) -> Iterator[str]:
    """Variables of the environment that a study names as holders of secrets, wherever in it."""
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
    """The ways in which programs write it: plain, in JSON, in an address, in HTML, one within another; in base64."""
    texts = {secret}
    for _ in range(2):
        texts |= {written(text) for text in texts for written in _WRITINGS}
    return [text.encode() for text in sorted(texts)] + [base64.b64encode(secret.encode()).rstrip(b"=")]

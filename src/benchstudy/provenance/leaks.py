"""Searches for secrets in what is about to be shared. Measuring keeps them out of files; this is the second check."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchstudy.model.errors import BenchstudyError
from benchstudy.model.secret_forms import SHORTEST_ENCODED, forms_of, unfit

# Kept from the previous piece, so that a secret across the border between two pieces is found.
_OVERLAP = 4096
_IN_TEXT = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
# Undeclared secrets: texts, one of which each holds, and a pattern, which is searched for only beside such a text,
# because that takes ten times as long. Each has a bounded length, so that it fits into the overlap.
_LOOKS = {
    "a private key": ((b"PRIVATE KEY",), rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\s+[A-Za-z0-9+/=\\]{16}"),
    "an access key of AWS": ((b"AKIA", b"ASIA"), rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "the signature of a presigned address": ((b"X-Amz-Signature=",), rb"[?&](?:amp;)?X-Amz-Signature=[0-9a-f]{32}"),
    "a token of GitHub": ((b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
    "a token of Slack": ((b"xox",), rb"\bxox[abprs]-[A-Za-z0-9-]{10,80}\b"),
    "a signed token (JWT)": ((b"eyJ",), rb"\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,1000}\.[A-Za-z0-9_-]{20}"),
    "a password in an address": (
        (b"://",),
        rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>`{}$\\]{1,64}:[^\s/:@\"'<>`{}$\\]{3,128}@[A-Za-z0-9\[]",
    ),
}
_LOOKS_LIKE = {what: (texts, re.compile(pattern)) for what, (texts, pattern) in _LOOKS.items()}


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
        given = {name: environment.get(name, "") for name in names}
        known = [name for name in names if len(given[name]) >= SHORTEST_ENCODED and not unfit(given[name])]
        values = dict.fromkeys((name, form.encode()) for name in known for form in forms_of(given[name]))
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
            for what, (texts, pattern) in looks.items():
                if any(text in window for text in texts) and pattern.search(window):
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

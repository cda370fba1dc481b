"""Figures that a document of fio prints twice, and amounts as fio spells them."""

import errno
import re

from benchstudy.model.family import ParseError

INTERRUPTED = re.compile(r"^fio: terminating on signal \d+", re.MULTILINE)
# After any other error a job ends, whatever `continue_on_error` says (fio's td_non_fatal_error).
GOES_ON_AFTER = frozenset({errno.EIO, errno.EILSEQ})
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)b?", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*(|us|ms|s|m|h|d)", re.IGNORECASE)
_UNITS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_POWERS = {prefix: power for power, prefix in enumerate(["", "k", "m", "g", "t", "p"])}


def same(what: str, printed: float, step: float, derived: float, blur: float, unit: str) -> None:
    """Raise ParseError if a figure contradicts the other figures of the document.

    `step`: of the last digit that is printed; some are rounded and others cut off, so it may be off by one whole.
    `blur`: how far the derived figure may be off, because what it was made from was rounded too.
    """
    if abs(printed - derived) > step + blur + 1e-9 * abs(derived):
        raise ParseError(
            f"{what}: inconsistent: {printed:g} {unit} is printed, and the document's other figures make it "
            f"{derived:g} {unit}: the file was altered or damaged"
        )


def amount(text: str) -> float | None:
    """Bytes of an option such as "4k", "4kb" or "4096"; None for what has another form, such as a range.

    Of 1024, as is fio's default. Its "4ki" is then 4000, and is left alone.
    """
    match = _AMOUNT.fullmatch(text.strip())
    return float(match[1]) * 1024 ** _POWERS[match[2].lower()] if match else None


def seconds(text: str) -> float | None:
    """Of "30", "30s", "5m", "100ms"; None for what has another form."""
    match = _SECONDS.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2].lower()] if match else None

"""Who made a study, what it repeats, and how others may use it. None of this changes a measurement."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from benchstudy.model.strict import Strict

_ORCID = re.compile(r"(?:https://orcid\.org/)?(\d{4}-\d{4}-\d{4}-\d{3}[\dX])")
_ONE_LICENCE = re.compile(r"[A-Za-z0-9.+-]+")
_ADDRESS = re.compile(r"https?://\S+")


def _orcid(value: str) -> str:
    match = _ORCID.fullmatch(value)
    if match is None or _check_digit(match[1].replace("-", "")[:-1]) != match[1][-1]:
        raise ValueError(f"{value!r} is not an ORCID iD: 16 digits such as 0000-0002-1825-0097, the last a check digit")
    return match[1]


def _check_digit(digits: str) -> str:
    """ISO 7064, MOD 11-2."""
    total = 0
    for digit in digits:
        total = (total + int(digit)) * 2
    rest = (12 - total % 11) % 11
    return "X" if rest == 10 else str(rest)


def _licence(value: str) -> str:
    """An SPDX identifier, spelt as in the SPDX list; an address is returned as is."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    if not value or _ADDRESS.fullmatch(value):
        return value
    try:
        known = str(canonicalize_license_expression(value))
    except InvalidLicenseExpression:
        known = ""
    # Neither "A OR B" nor a custom reference leads to the text of a licence.
    if not _ONE_LICENCE.fullmatch(known) or known.startswith("LicenseRef-"):
        raise ValueError(f"{value!r}: give an SPDX identifier such as CC-BY-4.0, or the licence's address")
    return known


LicenceField = Annotated[str, AfterValidator(_licence)]


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(f"{value!r} is not an address: it begins with https:// or http://")
    return value


class Original(Strict):
    """The published page that a study repeats."""

    title: str = Field(min_length=1)
    url: Annotated[str, AfterValidator(_address)]
    differs: list[str] = Field(
        [], description="what differs from that page, one sentence each; printed at the top of the study's first page"
    )


class Author(Strict):
    """A person who is responsible for a study."""

    name: str = Field(min_length=1)
    orcid: Annotated[str, AfterValidator(_orcid)] | None = Field(None, description="ORCID iD, checked")
    affiliation: str | None = None

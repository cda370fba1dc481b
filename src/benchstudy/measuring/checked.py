"""What a comparison of files with what was stored found: values to decide on, and their sentences."""

from dataclasses import dataclass, field
from enum import StrEnum

SUMS = "SHA256SUMS"


class How(StrEnum):
    """How a file or folder differs from what was stored, in words. {} stands for the fact of a difference."""

    MISSING = "missing"
    ADDED = f"added: {SUMS} does not list it"
    ALTERED = f"altered: its SHA-256 differs from the one in {SUMS}"
    UNREAD = "{}"
    NO_SUMS = f"its {SUMS} is missing"
    GONE = "session.json lists this {}, and its folder is gone"
    LOST = "missing or empty, and it had {} when it was last compared"
    MOVED = "is a copy of, or was moved from, {}: move it back, or remove it if that exists"
    UNLISTED = "is on disk, but not listed"
    UNLISTED_DISCARD = "was added"
    SUMS_DISAGREE = "{} do not agree on it"
    RECORDS_DISAGREE = "it and {} do not agree"
    INDEX_DAMAGED = "damaged"
    NO_INDEX = "missing or damaged, so nothing lists the trials beside it"
    NO_DESCRIPTION = "not the description of a crate"


@dataclass(frozen=True)
class Difference:
    """`name`: of the file or folder; empty if the fact names it. `advice`: what to do, as it ends the sentence."""

    name: str
    how: How
    fact: str = ""
    advice: str = ""

    def __str__(self) -> str:
        where = f"{self.name}: " if self.name else ""
        return f"{where}{self.how.replace('{}', self.fact)}{self.advice}"


@dataclass
class Checked:
    """`files`: how many were compared; `differences`: what is not as it was stored, one per file. `in_archive`:
    files that are not here, because only what tables need was pulled.
    """

    files: int = 0
    in_archive: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __iadd__(self, other: "Checked") -> "Checked":
        self.files += other.files
        self.in_archive += other.in_archive
        self.differences += other.differences
        return self

    @property
    def lines(self) -> list[str]:
        """The differences as sentences."""
        return list(map(str, self.differences))

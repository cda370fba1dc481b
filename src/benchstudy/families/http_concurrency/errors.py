"""What load generators count as no good answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Errors:
    """Requests without a good answer, each counted once.

    `connect`: refused, broken, or another fault below HTTP; wrk tries again at once, so that a dead server gives many.
    `timeout`: no answer in the tool's time. `length`: another length than expected. `text`: a body without the
    expected text.
    """

    connect: int = 0
    timeout: int = 0
    status: int = 0
    length: int = 0
    text: int = 0

    @property
    def total(self) -> int:
        return self.connect + self.timeout + self.status + self.length + self.text

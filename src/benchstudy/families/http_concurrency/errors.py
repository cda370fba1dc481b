"""Failed requests, as load generators count them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Errors:
    """Numbers of requests without a successful response. Each request counts once.

    `connect`: connection refused or broken, or another fault below HTTP; wrk retries at once, so a dead server causes
    many. `timeout`: no response within the tool's timeout, or a good one after it. `length`: an unexpected length.
    `text`: a body without the expected text.
    """

    connect: int = 0
    timeout: int = 0
    status: int = 0
    length: int = 0
    text: int = 0

    @property
    def total(self) -> int:
        return self.connect + self.timeout + self.status + self.length + self.text

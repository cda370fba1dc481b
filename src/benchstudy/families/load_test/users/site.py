"""The running system that a load is put on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchstudy.hosts.agent import RunningService


@dataclass(frozen=True)
class Accounts:
    """The users of the data set: the file's content, and the counts that it states.

    `sha256`: hash of the import file, else of this file. `database`: the database server's own name, if known.
    """

    content: bytes
    sha256: str
    counts: Mapping[str, Any]
    database: str | None = None


@dataclass(frozen=True)
class Site:
    """A running system. `load`: where the users will listen, on free ports `metrics` and `master` of their host."""

    server: RunningService
    database: RunningService
    prometheus: RunningService
    others: Sequence[RunningService]
    accounts: Accounts
    url: str
    prometheus_url: str
    prometheus_role: str
    load_role: str
    load: RunningService

    @property
    def services(self) -> list[RunningService]:
        return [self.database, self.server, *self.others, self.prometheus]

    def check(self) -> None:
        """Raise ServiceFailed if a service no longer runs."""
        for service in self.services:
            service.check()

"""Errors of the agent on a host. Import these from `benchstudy.hosts.agent`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchstudy.hosts.remote import ConnectionFailed
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import SessionFailed, TrialFailed


class HostRefused(SessionFailed, TrialFailed):
    """The agent cannot do what was asked. Inside a trial it fails the trial, otherwise the session."""

    cause = Cause.REFUSED


class AgentKilled(HostRefused):
    """Somebody, or the kernel, killed a command of the agent, each time that it was asked. It aborts a trial."""

    cause = Cause.CONNECTION


@contextmanager
def understood(host: str) -> Iterator[None]:
    """Raises HostRefused if data from a host does not have the agent's form: then it is not from the agent."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = f"{type(error).__name__}: {str(error)[:200]}"
        raise HostRefused(f"{host}: this is not an answer of the agent there: {said}") from error


class HostBusy(SessionFailed):
    """Another controller is measuring on the host; `owner` says who."""

    def __init__(self, message: str, owner: Mapping[str, Any]):
        super().__init__(message)
        self.owner = owner


class LockLost(ConnectionFailed):
    """We no longer hold the host; `cause` says whether the lease expired, the host restarted or the keeper is gone."""

    def __init__(self, message: str, cause: Cause = Cause.LEASE_EXPIRED):
        super().__init__(message)
        self.cause = cause


class ServiceFailed(TrialFailed):
    """A service could not be brought up; the message has the cause and the tail of its log.

    `record`: its supervisor's record, if it got far enough to have one.
    """

    def __init__(self, message: str, record: Mapping[str, Any] | None = None, failure: Failure | None = None):
        super().__init__(message, failure)
        self.record = record

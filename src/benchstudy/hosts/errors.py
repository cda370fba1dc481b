"""What can go wrong with the agent on a host. Import these from `benchstudy.hosts.agent`."""

from collections.abc import Mapping
from typing import Any

from benchstudy.hosts.remote import ConnectionFailed
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import SessionFailed, TrialFailed


class HostRefused(SessionFailed, TrialFailed):
    """The agent cannot do what was asked. Inside a trial it fails the trial, outside of one the session."""

    cause = Cause.REFUSED


class HostBusy(SessionFailed):
    """Another controller is measuring on the host; `owner` says who."""

    def __init__(self, message: str, owner: Mapping[str, Any]):
        super().__init__(message)
        self.owner = owner


class LockLost(ConnectionFailed):
    """The host gave the lock up because it heard nothing from here for longer than the lease."""


class ServiceFailed(TrialFailed):
    """A service could not be brought up; the message has the cause and the tail of its log.

    `record`: its supervisor's record, when it came so far that there is one.
    """

    def __init__(self, message: str, record: Mapping[str, Any] | None = None, failure: Failure | None = None):
        super().__init__(message, failure)
        self.record = record

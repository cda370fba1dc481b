"""What can go wrong with the agent on a host. Import these from `benchstudy.hostagent`."""

from collections.abc import Mapping
from typing import Any

from benchstudy.errors import BenchstudyError, SessionFailed, TrialFailed
from benchstudy.remote import ConnectionFailed


class HostRefused(SessionFailed, TrialFailed):
    """The agent cannot do what was asked. Inside a trial it fails the trial, outside of one the session."""


class HostBusy(SessionFailed):
    """Another controller is measuring on the host; `owner` says who."""

    def __init__(self, message: str, owner: Mapping[str, Any]):
        super().__init__(message)
        self.owner = owner


class LockLost(ConnectionFailed):
    """The host gave the lock up because it heard nothing from here for longer than the lease."""


class ServiceFailed(BenchstudyError):
    """A service could not be brought up; the message has the cause and the tail of its log."""

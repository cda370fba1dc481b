"""Errors between this machine and a host. Import these from `benchstudy.hosts.remote`."""

from dataclasses import dataclass

from benchstudy.model.causes import Cause
from benchstudy.model.errors import BenchstudyError, TrialFailed


class RemoteError(BenchstudyError):
    """Something went wrong between this machine and a host; the message names the host.

    `host`: its name in the study, of one that could not be reached again.
    """

    host: str | None = None


class ConnectionFailed(RemoteError):
    """No connection could be made."""


class HostKeyUnknown(ConnectionFailed):
    """The host's key is not pinned. Nothing was sent to authenticate."""


class HostKeyChanged(ConnectionFailed):
    """The host presents a key other than the pinned one, or a revoked one. Nothing was sent to authenticate."""


class AuthenticationFailed(ConnectionFailed):
    """The host accepts none of the keys for this user."""


class Unreachable(ConnectionFailed):
    """Nothing answers, or what answers is not SSH."""


class ConnectionLost(RemoteError):
    """The connection broke or fell silent; what ran on the host may still be running."""


class CommandEnded(RemoteError):
    """A command ended, or closed its input, before it read everything that was meant for it."""


class CommandTimeout(RemoteError):
    """A command took longer than its timeout and was ended."""


class TransferFailed(RemoteError):
    """A file could not be transferred, or changed on the way."""


class ContentRefused(TransferFailed, TrialFailed):
    """What a host sent is rejected. Inside a trial this fails the trial, because it would happen each time."""

    cause = Cause.REFUSED


@dataclass(frozen=True)
class Completed:
    """A command that ended; `exit_status` is -1 when a signal ended it."""

    exit_status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")


class CommandFailed(RemoteError):
    """A command ended with an exit status other than 0, or wrote too much; `completed` has the details."""

    def __init__(self, message: str, completed: Completed):
        super().__init__(message)
        self.completed = completed


def why(error: BaseException) -> str:
    """The message of a library's error, or else its type."""
    return getattr(error, "text", "") or str(error) or type(error).__name__  # paramiko's ChannelException has a text

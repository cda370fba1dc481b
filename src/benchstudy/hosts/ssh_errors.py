"""What can go wrong between this machine and a host. Import these from `benchstudy.hosts.remote`."""

from dataclasses import dataclass

from benchstudy.model.causes import Cause
from benchstudy.model.errors import BenchstudyError, TrialFailed


class RemoteError(BenchstudyError):
    """Something went wrong between this machine and a host; the message names the host."""


class ConnectionFailed(RemoteError):
    """No connection could be made."""


class HostKeyUnknown(ConnectionFailed):
    """The host's key is not pinned. Nothing was sent to authenticate."""


class HostKeyChanged(ConnectionFailed):
    """The host shows another key than the pinned one, or a revoked one. Nothing was sent to authenticate."""


class AuthenticationFailed(ConnectionFailed):
    """The host accepts none of the keys for this user."""


class Unreachable(ConnectionFailed):
    """Nothing answers, or not with SSH."""


class ConnectionLost(RemoteError):
    """The connection broke or fell silent; what ran on the host may go on running."""


class CommandEnded(RemoteError):
    """A command ended, or closed its input, before it took all that was meant for it."""


class CommandTimeout(RemoteError):
    """A command took longer than its timeout and was ended."""


class TransferFailed(RemoteError):
    """A file could not be moved, or did not arrive as it left."""


class ContentRefused(TransferFailed, TrialFailed):
    """What a host sent is not taken: inside a trial it fails the trial, as it would each time."""

    cause = Cause.REFUSED


@dataclass(frozen=True)
class Completed:
    """A command that ended.

    `exit_status` is -1 when a signal ended it; `duration_s` includes the way there and back.
    """

    argv: tuple[str, ...]
    exit_status: int
    stdout: bytes
    stderr: bytes
    duration_s: float

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")


class CommandFailed(RemoteError):
    """A command ended with another exit status than 0, or wrote more than it may; `completed` has all of it."""

    def __init__(self, message: str, completed: Completed):
        super().__init__(message)
        self.completed = completed


def why(error: BaseException) -> str:
    """What an error of a library says, or else what it is called."""
    return str(error) or type(error).__name__

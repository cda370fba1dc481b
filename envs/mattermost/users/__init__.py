"""How users of Mattermost act: what `load_users.users` asks of the system that a plan names.

Sent to load hosts as the package `load_users.mattermost`; what it imports of `load_users` lies in
src/benchstudy/families/load_test/users/on_host.
"""

from .actions import ACTIONS, log_in, may
from .session import Session

__all__ = ["ACTIONS", "Session", "log_in", "may"]

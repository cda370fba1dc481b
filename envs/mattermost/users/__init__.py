"""The behaviour of Mattermost's users: what `load_users.users` requires of a plan's system.

It is shipped to load hosts as the package `load_users.mattermost`. The modules of `load_users` that it imports are in
src/benchstudy/families/load_test/users/on_host.
"""

from .actions import ACTIONS, log_in, may
from .session import Session

__all__ = ["ACTIONS", "Session", "log_in", "may"]

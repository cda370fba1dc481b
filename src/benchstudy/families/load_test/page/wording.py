"""The last words of a sentence that compares versions under a load."""

from collections.abc import Mapping
from typing import Any


def setting(levels: Mapping[str, Any]) -> str:
    """ "under the bounded load of 40 users on postgres", without the number if it is not fixed."""
    database = f" on {levels['database']}" if "database" in levels else ""
    users = f" of {levels['users']} users" if levels.get("users") else ""
    return f"under the {levels.get('load', 'same')} load{users}{database}"

"""The last words of a sentence that compares versions under a load."""

from collections.abc import Mapping
from typing import Any


def setting(levels: Mapping[str, Any]) -> str:
    """ "with 40 users on postgres", and "under the unbounded load on postgres" without a number of `users`."""
    database = f" on {levels['database']}" if "database" in levels else ""
    load = f"with {levels['users']} users" if levels.get("users") else f"under the {levels.get('load', 'same')} load"
    return load + database

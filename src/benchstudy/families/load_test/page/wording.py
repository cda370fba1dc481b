"""The last words of a sentence that compares versions under a load."""

from collections.abc import Mapping
from typing import Any


def setting(levels: Mapping[str, Any]) -> str:
    """ "under the bounded load on postgres"."""
    database = f" on {levels['database']}" if "database" in levels else ""
    return f"under the {levels.get('load', 'same')} load{database}"

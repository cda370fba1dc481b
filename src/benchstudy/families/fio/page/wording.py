"""The words of sentences that compare jobs of fio or loops over small files."""

from collections.abc import Mapping
from typing import Any


def setting(levels: Mapping[str, Any]) -> str:
    """Describe a setting: "in the job gitlab on local"."""
    job = f"in the job {levels['job']}" if "job" in levels else ""
    directory = f"on {levels['directory']}" if "directory" in levels else ""
    return " ".join(filter(None, (job, directory)))

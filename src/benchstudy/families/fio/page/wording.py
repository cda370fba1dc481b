"""How a sentence ends that compares jobs of fio or loops over small files."""

from collections.abc import Mapping
from typing import Any


def setting(levels: Mapping[str, Any]) -> str:
    """ "in the job gitlab on local"."""
    job = f"in the job {levels['job']}" if "job" in levels else ""
    directory = f"on {levels['directory']}" if "directory" in levels else ""
    return " ".join(filter(None, (job, directory)))

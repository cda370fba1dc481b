"""Scripts that run inside the load generators, and the environment with their settings.

Settings are in the environment, because argument lists are public on a host and headers can contain secrets.
"""

from collections.abc import Mapping
from pathlib import Path

SCRIPTS = {"wrk": Path(__file__).with_name("wrk.lua"), "k6": Path(__file__).with_name("k6.js")}
LIBRARY = "http-load"  # the name of the library with which they are copied to a host
K6_SUMMARY = "k6-summary.json"  # the file that k6.js writes

_PREFIX = "BENCHSTUDY_HTTP_"
HEADERS = f"{_PREFIX}HEADERS"  # the one variable that can hold a secret


def script_environment(settings: Mapping[str, object], headers: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that a script reads. A setting that is None is left out.

    Raises ValueError for a header with a line break.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any("\n" in line or "\r" in line for line in lines):
        # The message omits the value, because a header can be a secret.
        raise ValueError(f"each header must be one line and not empty; one of {len(lines)} is not")
    told = {f"{_PREFIX}{name}": str(value) for name, value in settings.items() if value is not None}
    return told | ({HEADERS: "\n".join(lines)} if lines else {})


def scripts() -> dict[str, Path]:
    """Map the name of each script that is copied to a host to its local path."""
    return {path.name: path for path in SCRIPTS.values()}

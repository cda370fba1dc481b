"""Scripts that run inside the load generators, and the environment with their settings.

Settings are in the environment, because argument lists are public on a host and headers can contain secrets.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

WRK_SCRIPT = Path(__file__).with_name("wrk.lua")
K6_SCRIPT = Path(__file__).with_name("k6.js")
SCRIPTS = {"wrk": WRK_SCRIPT, "k6": K6_SCRIPT}
LIBRARY = "http-load"  # the name of the library with which they are copied to a host
K6_SUMMARY = "k6-summary.json"

_PREFIX = "BENCHSTUDY_HTTP_"


def wrk_environment(
    paths: Sequence[str],
    *,
    threads: int,
    connections: int,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    length: int | None = None,
    text: str | None = None,
    check: bool = True,
    first_number: int = 0,
) -> dict[str, str]:
    """Return the environment for `wrk -t threads -c connections -s wrk.lua URL`, whose URL has host and port only.

    Each thread requests `paths` (with query) in turn. A successful response has `status`, and a body of `length` bytes
    that contains `text`. `check=False` skips the check of responses. Raises ValueError for values with line breaks.
    """
    found = _common(method, headers, status, length, text, first_number)
    found |= {"PATHS": _lines(paths, "path"), "THREADS": str(threads), "CONNECTIONS": str(connections)}
    if not check:
        found["CHECK"] = "none"
    return _named(found)


def k6_environment(
    urls: Sequence[str],
    *,
    rate: float,
    duration_s: float,
    vus: int,
    timeout_s: float = 60.0,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    length: int | None = None,
    text: str | None = None,
    first_number: int = 0,
    summary: str = K6_SUMMARY,
) -> dict[str, str]:
    """Return the environment for `k6 run k6.js`: `rate` arrivals per second for `duration_s`, with `vus` in flight.

    If both `length` and `text` are given, the length is that of Content-Length. `summary` is the file that k6 writes.
    Raises ValueError for a rate or time that k6 does not support, or for values with line breaks.
    """
    if rate < 0.001 or duration_s < 0.001 or timeout_s < 0.001 or vus < 1:
        raise ValueError(f"k6 needs a rate, a duration, a timeout and VUs above 0, got {rate=} {duration_s=} {vus=}")
    found = _common(method, headers, status, length, text, first_number)
    found |= {
        "URLS": _lines(urls, "URL"),
        "RATE": repr(float(rate)),  # all digits, so that the script distinguishes 100/min from 1.667/s
        "DURATION": f"{duration_s:.12g}",
        "TIMEOUT": f"{timeout_s:.12g}",
        "VUS": str(vus),
        "SUMMARY": summary,
    }
    # Halves the cost of its garbage collector, which competes with requests for the generator's CPUs.
    return _named(found) | {"GOGC": "400", "K6_NO_USAGE_REPORT": "true"}


def _common(
    method: str, headers: Mapping[str, str] | None, status: int, length: int | None, text: str | None, first: int
) -> dict[str, str]:
    for name in headers or {}:
        if ":" in name:
            raise ValueError(f"the name of a header must not contain a colon: {name!r}")
    found = {"METHOD": method, "STATUS": str(status), "FIRST": str(first)}
    if headers:
        found["HEADERS"] = _lines([f"{name}: {value}" for name, value in headers.items()], "header")
    if length is not None:
        found["LENGTH"] = str(length)
    if text:
        found["TEXT"] = text
    return found


def _lines(values: Sequence[str], what: str) -> str:
    if not values:
        raise ValueError(f"at least one {what} is needed")
    for value in values:
        if "\n" in value or "\r" in value or not value:
            # The message omits the value, because a header can be a secret.
            raise ValueError(f"each {what} must be one line and not empty; one of {len(values)} is not")
    return "\n".join(values)


def _named(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{_PREFIX}{name}": value for name, value in settings.items()}


def scripts() -> dict[str, Path]:
    """Map the name of each script that is copied to a host to its local path."""
    return {path.name: path for path in SCRIPTS.values()}

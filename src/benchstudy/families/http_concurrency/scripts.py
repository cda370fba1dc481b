"""Scripts that run inside the load generators, and the environment that tells them what to do.

Settings go through the environment because argument lists are public on a host, and headers can hold secrets.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

WRK_SCRIPT = Path(__file__).with_name("wrk.lua")
K6_SCRIPT = Path(__file__).with_name("k6.js")
SCRIPTS = {"wrk": WRK_SCRIPT, "k6": K6_SCRIPT}
LIBRARY = "http-load"  # by this name they are shipped to a host
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
    """For `wrk -t threads -c connections -s wrk.lua URL`, whose URL gives host and port only.

    `paths` (with query) are walked in turn by each thread; a good answer has `status`, a body of `length` bytes that
    contains `text`. `check=False` leaves answers unlooked at. Raises ValueError for what a line cannot hold.
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
    """For `k6 run k6.js`: `rate` arrivals a second during `duration_s`, at most `vus` requests under way.

    Where both `length` and `text` are given, the length is that of Content-Length. `summary` is the file k6 writes.
    Raises ValueError for a rate or time that k6 cannot take, or what a line cannot hold.
    """
    if rate < 0.001 or duration_s < 0.001 or timeout_s < 0.001 or vus < 1:
        raise ValueError(f"k6 needs a rate, a duration, a timeout and VUs above 0, got {rate=} {duration_s=} {vus=}")
    found = _common(method, headers, status, length, text, first_number)
    found |= {
        "URLS": _lines(urls, "URL"),
        "RATE": repr(float(rate)),  # every digit: the script tells 100/min from 1.667/s
        "DURATION": f"{duration_s:.12g}",
        "TIMEOUT": f"{timeout_s:.12g}",
        "VUS": str(vus),
        "SUMMARY": summary,
    }
    # Half of what its garbage collector costs, which competes with the requests for the generator's CPUs.
    return _named(found) | {"GOGC": "400", "K6_NO_USAGE_REPORT": "true"}


def _common(
    method: str, headers: Mapping[str, str] | None, status: int, length: int | None, text: str | None, first: int
) -> dict[str, str]:
    for name in headers or {}:
        if ":" in name:
            raise ValueError(f"a header's name cannot hold a colon: {name!r}")
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
            # Not the value itself: a header can be a secret.
            raise ValueError(f"a {what} is one line and not empty; one of {len(values)} is not")
    return "\n".join(values)


def _named(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{_PREFIX}{name}": value for name, value in settings.items()}


def scripts() -> dict[str, Path]:
    """File name to its place here, of what is shipped to a host."""
    return {path.name: path for path in SCRIPTS.values()}

"""Levels of imported cases, from what a generator printed about its requests. Pure."""

from urllib.parse import urlsplit

from benchstudy.families.shared.exact_levels import exact_level

_LONGEST = 40  # characters


def level_of(text: str) -> str:
    return exact_level(text, _LONGEST)


def levels_of_url(address: str) -> dict[str, str]:
    """Return the levels that a URL contains."""
    url = urlsplit(address)
    path = url._replace(scheme="", netloc="").geturl()
    is_root = url.path in ("", "/") and not url.query
    return {
        "server": level_of(url.netloc.rpartition("@")[2].replace(":", "-")),
        "endpoint": "root" if is_root else level_of(path),
    }

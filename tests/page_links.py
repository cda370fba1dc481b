"""The links of a report's pages, followed without a browser."""

import html
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import unquote


@cache
def without_scripts(text: str) -> str:
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


def followed(texts: Mapping[Path, str]) -> list[Path]:
    """Follow every link of these pages: it leads to an id, to a file, or to raw files, which made-up tables lack.

    Points that scripts draw have their links as data. Returns the page that each link to an id leads to.
    """
    ids = {path: set(re.findall(r'\bid="([^"]*)"', without_scripts(text))) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        links = re.findall(r'<a[^>]*href="([^"]*)"', without_scripts(text)) + re.findall(r'"href":"(file_[^"]*)"', text)
        for href in set(links):
            target, _, fragment = html.unescape(href).partition("#")
            other = Path(os.path.normpath(path.parent / unquote(target))) if target else path
            if fragment:
                assert fragment in ids[other], (path, href)
                found.append(other)
            elif "data/raw/" in target:
                assert target.startswith("../"), (path, href)
            else:
                assert other.is_file(), (path, href)
    return found

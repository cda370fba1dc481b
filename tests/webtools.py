"""The tools with which tests check pages: axe-core and html-validate, pinned by tests/web/package-lock.json.

They come from npm's configured registry, once, into the folder of built tools.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from conftest import TOOL_STORE

PINS = Path(__file__).with_name("web")
# Only the HTML standard, and no matters of taste.
_RULES = {"extends": ["html-validate:standard"], "root": True}


@cache
def folder() -> Path:
    """The folder of both."""
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((PINS / name).read_bytes() for name in names)).hexdigest()[:12]
    place = Path(os.environ[TOOL_STORE], f"web-{digest}")
    assert shutil.which("npm"), "these tests look at the pages with tools of npm's registry: apt-get install npm"
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of workers that start at the same time
        if not (place / "installed").is_file():
            for name in names:
                shutil.copy(PINS / name, place)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=place, check=True)
            (place / "installed").touch()
    return place / "node_modules"


def axe() -> Path:
    """The script that looks for accessibility barriers in a page."""
    return folder() / "axe-core" / "axe.min.js"


def invalid_html(pages: Iterable[Path], scratch: Path) -> Mapping[str, list[str]]:
    """What each page violates in the HTML standard, by the page's name."""
    (scratch / ".htmlvalidate.json").write_text(json.dumps(_RULES))
    command = [folder() / ".bin" / "html-validate", "--formatter=json", "--config", scratch / ".htmlvalidate.json"]
    # The output goes to a file, because with a pipe it ends before everything is written.
    with (scratch / "html.json").open("w") as out:
        done = subprocess.run([*command, *pages], stdout=out, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found = {Path(page["filePath"]).name: page["messages"] for page in json.loads((scratch / "html.json").read_text())}
    return {name: [f"line {m['line']}: {m['message']}" for m in told] for name, told in found.items() if told}

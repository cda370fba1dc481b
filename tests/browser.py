"""A headless Chromium without any network: what a page shows, prints and does in it."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    # Only with this option, a page may read a frame that shows another file.
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=20000",
)
# The browser's own pages complain about the missing network, too. Only what our file prints or requests counts.
_OUR_CONSOLE = re.compile(r"CONSOLE.*(?:source: file://|net::ERR)|ERR_[A-Z_]+.*file://")


@dataclass(frozen=True)
class Visit:
    """The document after all scripts have run, and every line that the page wrote to the console."""

    dom: str
    console: list[str]


def visit(page: Path, *, fragment: str = "", width: int = 1440, scripts: bool = True) -> Visit:
    """Opens a page in a network namespace of its own, from which nothing can be reached."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "these tests look at the pages in a browser: apt-get install chromium"
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    # The profile is removed in any case, even if Chromium is still closing files in it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        switches = [*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},2000", "--dump-dom"]
        if not scripts:
            switches.append("--blink-settings=scriptEnabled=false")
        done = subprocess.run(
            [*namespace, chromium, *switches, page.resolve().as_uri() + fragment],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    return Visit(done.stdout, [line for line in done.stderr.splitlines() if _OUR_CONSOLE.search(line)])


def ask(page: Path, script: str, *, fragment: str = "", width: int = 390) -> str:
    """What `script` (the body of an async function of `window` and `document`) returns in a frame `width` pixels wide.

    Chromium's own window cannot be narrower than 500 pixels, but a frame can.
    """
    return told(page, script, fragment=fragment, width=width)[0]


# The style of paper, on a screen as wide as A4 between its margins.
_PRINTING = """
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  for (const { media } of rules.filter((rule) => rule.media))
    media.mediaText = media.mediaText.includes("screen") ? "not all" : media.mediaText.replace("print", "all");
  window.dispatchEvent(new window.Event("beforeprint"));
  await new Promise((done) => setTimeout(done, 500));
"""


def ask_paper(page: Path, script: str, *, before: str = "") -> str:
    """What `script` returns, as in `ask`, of the page as it is printed. `before` is done on the screen."""
    return ask(page, before + _PRINTING + script, width=673)


def pdf_of(page: Path) -> bytes:
    """The page as Chromium prints it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "these tests print pages with a browser: apt-get install chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        to, profile = f"--print-to-pdf={scratch}/page.pdf", f"--user-data-dir={scratch}/profile"
        flags = [flag for flag in _FLAGS if not flag.startswith("--virtual-time")]
        command = [chromium, *flags, "--no-pdf-header-footer", profile, to, page.resolve().as_uri()]
        subprocess.run(command, capture_output=True, timeout=300, check=True)
        return Path(scratch, "page.pdf").read_bytes()


def told(page: Path, script: str, *, fragment: str = "", width: int = 390) -> tuple[str, list[str]]:
    """What `script` returns, as in `ask`, and every line that the page wrote to the console."""
    holder = page.with_name(f"ask-{os.getpid()}.html")
    holder.write_text(
        f"""<body><iframe style="width:{width}px;height:2000px;border:0" src="{page.name}{fragment}"></iframe>
<output></output>
<script>
const settled = (w) => new Promise((done) => {{
  // What is folded is drawn when it is opened.
  const shown = (what) => [...w.document.querySelectorAll(what)].filter((e) => !e.closest("details:not([open])"));
  const look = () => (shown("script.spec").length === shown(".view[data-rendered]").length
    ? done() : setTimeout(look, 50));
  look();
}});
document.querySelector("iframe").onload = async (event) => {{
  const window = event.target.contentWindow, document = window.document;
  await settled(window);
  top.document.querySelector("output").textContent = await (async () => {{ {script} }})();
}};
</script>""",
        encoding="utf-8",
    )
    try:
        visited = visit(holder)
    finally:
        holder.unlink()
    found = re.search(r"<output>(.*?)</output>", visited.dom, re.DOTALL)
    assert found, "the page did not load in its frame"
    return found[1], visited.console

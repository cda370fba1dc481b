"""A headless Chromium without any network: what a page shows, prints and does in it.

Each process that runs tests has one, which opens one page after the other, because a start takes over a second.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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
    # Messages of the DevTools protocol, each with a zero byte at its end, come by descriptor 3 and leave by 4.
    "--remote-debugging-pipe",
)
_SILENT_S = 300
_COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
# What scripts may call.
_HELPERS = """
  const pause = () => new Promise((done) => setTimeout(done, 20));
  const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  // What is folded is drawn when it is opened.
  const shown = (what) => [...document.querySelectorAll(what)].filter((e) => !e.closest("details:not([open])"));
  const settled = async () => {
    while (shown("script.spec").length !== shown(".view[data-rendered]").length) await pause();
    await drawn();
  };
"""


class Browser:
    """Chromium in a network namespace of its own, from which nothing can be reached. It ends when its pipe is closed.

    It has one tab for all pages, because its engine needs half a second and more for the first page of a tab.
    """

    def __init__(self) -> None:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert chromium, "these tests look at the pages in a browser: apt-get install chromium"
        namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
        # The profile is removed in any case, even if Chromium is still closing files in it.
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [*namespace, chromium, *_FLAGS, f"--user-data-dir={self._profile.name}"]
        self._process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        self._sent, self._read, self._session = 0, b"", {}
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters, **self._session}
        unsent = memoryview(json.dumps(message).encode() + b"\0")
        while unsent:
            unsent = unsent[self._to.write(unsent) :]
        while (answer := self._next_message()).get("id") != self._sent:
            self._events.append(answer)
        assert "error" not in answer, (method, answer)
        return dict(answer["result"])

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._from], [], [], _SILENT_S)[0], f"the browser said nothing for {_SILENT_S} s"
            more = self._from.read(1 << 20)
            assert more, "the browser has ended"
            self._read += more
        text, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(text))

    def be_wide(self, width: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=2000, deviceScaleFactor=1, mobile=False)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.load()

    def load(self) -> None:
        """Wait until everything that the next page loads is there."""
        while not (loaded := [event for event in self._events if event["method"] == "Page.loadEventFired"]):
            self._events.append(self._next_message())
        self._events.remove(loaded[0])

    def ask(self, script: str) -> Any:
        """What `script`, the body of an async function, returns as soon as all figures in sight are drawn."""
        code = f"(async () => {{ {_HELPERS} await settled(); return await (async () => {{ {script} }})(); }})()"
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def console(self) -> list[str]:
        """Every line that the page has written to the console, and every error and failed request so far."""
        self.call("Runtime.evaluate", expression="0")  # its answer comes after them
        return [json.dumps(event["params"]) for event in self._events if event["method"] in _COMPLAINTS]

    def forget(self) -> None:
        """Leave the page and what it said."""
        self.go("about:blank")
        self.call("Emulation.setEmulatedMedia", media="")
        self._events.clear()

    def end(self) -> None:
        self._to.close()
        self._process.wait(_SILENT_S)
        self._from.close()
        self._profile.cleanup()


_browser = cache(Browser)


def end() -> None:
    """Leave nothing behind."""
    if _browser.cache_info().currsize:
        _browser().end()
        _browser.cache_clear()


@contextmanager
def opened(page: Path, *, fragment: str = "", width: int = 390, scripts: bool = True) -> Iterator[Browser]:
    """The browser with a page, in a window that is `width` pixels wide."""
    browser = _browser()
    browser.forget()
    browser.be_wide(width)
    browser.call("Emulation.setScriptExecutionDisabled", value=not scripts)
    browser.go(page.resolve().as_uri() + fragment)
    yield browser


def ask(page: Path, script: str, *, width: int = 390) -> Any:
    """What `script` returns, as in `Browser.ask`."""
    with opened(page, width=width) as tab:
        return tab.ask(script)


def ask_paper(page: Path, script: str, *, before: str = "") -> Any:
    """What `script` returns of the page as it is printed, as wide as A4 between its margins.

    `before` is done on the screen.
    """
    with opened(page, width=673) as tab:
        tab.ask(before)
        tab.call("Emulation.setEmulatedMedia", media="print")
        return tab.ask(f"window.dispatchEvent(new window.Event('beforeprint')); await settled(); {script}")


def pdf_of(page: Path) -> bytes:
    """The page as Chromium prints it."""
    with opened(page) as tab:
        return base64.b64decode(tab.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

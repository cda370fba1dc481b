"""A server in front of a real one, which spoils the first requests; and tables for documentation, made from tests.

The rows that the tests go through become the tables in docs about answers and their consequences. `python
tests/test_answers.py` writes these tables.
"""

import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from between import Between, listening

RESET, SILENT, CUT, SLOW, UNTRUSTED = "reset", "silent", "cut", "slow", "untrusted"
_SLOW_S = 0.05


@dataclass
class Troubled:
    """`troubles`: what happens to the next requests, one after another; later requests are passed on.

    RESET: the connection breaks. SILENT: there is no answer. CUT: half of the answer. SLOW: it comes in pieces.
    Otherwise the status of the answer, and its body: "503", "422 {…}".
    """

    url: str
    troubles: list[str] = field(default_factory=list)
    asked: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def ask(self, *troubles: str) -> None:
        """Set the troubles from now on."""
        self.troubles, self.asked = list(troubles), 0


@contextmanager
def troubled(upstream: str) -> Iterator[Troubled]:
    class Handler(Between):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told.asked += 1
            trouble = told.troubles.pop(0) if told.troubles else ""
            if trouble == RESET:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            elif trouble == SILENT:
                told.over.wait(60)
            elif trouble[:1].isdigit():
                status, _, answer = trouble.partition(" ")
                place = [("Location", "http://elsewhere.invalid/")] if status.startswith("3") else []
                self._answer(int(status), place, answer.encode(), trouble)
            else:
                status, headers, content = self.upstream(urlsplit(upstream).netloc, body)
                own = ("content-length", "transfer-encoding", "connection", "date", "server")
                kept = [(name, value) for name, value in headers if name.lower() not in own]
                self._answer(status, kept, content, trouble)
            self.close_connection |= bool(trouble)

        def _answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes, trouble: str = "") -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            if trouble:  # a client that is not told may send its next request while this connection closes
                self.send_header("Connection", "close")
            self.end_headers()
            pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
            self.wfile.write(pieces[0])
            if trouble == SLOW:
                self.wfile.flush()
                time.sleep(_SLOW_S)
            if trouble != CUT:
                self.wfile.write(pieces[1])

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    with listening(Handler) as url:
        told = Troubled(url)
        try:
            yield told
        finally:
            told.over.set()


@contextmanager
def over_tls(folder: Path) -> Iterator[str]:
    """A server whose certificate nobody knows."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", "req", "-x509", *made], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def shake_hands() -> None:
            with suppress(OSError), context.wrap_socket(listening.accept()[0], server_side=True):
                pass

        thread = threading.Thread(target=shake_hands)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `answers`: the server's behaviour by its name on the page. `follows`: the consequence in the page's words.
    `outcome`: what the test of that client compares with.
    """

    answers: dict[str, str]
    follows: str
    outcome: str = ""
    kind: str = ""


def table(rows: Sequence[Row]) -> str:
    kinds = any(row.kind for row in rows)
    cells = [["answer", "kind", "what follows"], ["---"] * 3]
    cells += [[", ".join(row.answers), f"`{row.kind}`" if row.kind else "", row.follows] for row in rows]
    return "\n".join(f"| {' | '.join(row if kinds else row[::2])} |" for row in cells)


def marks(name: str) -> tuple[str, str]:
    return f"<!-- answers of {name}: begin -->\n", f"\n<!-- answers of {name}: end -->"


def in_page(page: Path, name: str) -> str:
    begin, end = marks(name)
    return page.read_text().partition(begin)[2].partition(end)[0]


def write(page: Path, name: str, rows: Sequence[Row]) -> None:
    begin, end = marks(name)
    text = page.read_text()
    page.write_text(text.replace(begin + in_page(page, name) + end, begin + table(rows) + end))

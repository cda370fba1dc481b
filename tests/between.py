"""Servers in this process, between a client and a real server, with which tests spoil requests and answers."""

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Between(http.server.BaseHTTPRequestHandler):
    """Subclasses say what happens to a request."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # the client was killed: one of the tests does this

    def log_message(self, *_: object) -> None:
        """What it serves does not matter to the test."""

    def upstream(self, address: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body with which the server at this address answers the request."""
        asked = http.client.HTTPConnection(address)
        asked.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                asked.putheader(name, value)  # Host stays, because S3's signatures cover it, too
        asked.endheaders(body)
        answer = asked.getresponse()
        content = answer.read()
        asked.close()
        return answer.status, answer.getheaders(), content


@contextmanager
def listening(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on a free port, as long as the block lasts; yields its URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Queries a Prometheus over HTTP, with credentials from the environment, retries, and readable errors."""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import ssl
import time
import zlib
from urllib.parse import urlencode, urlsplit

import wire

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

TOKEN, USER, PASSWORD = ("BENCHSTUDY_PROMETHEUS_" + name for name in ("TOKEN", "USER", "PASSWORD"))
# Longer than the server's own limit of 2 minutes per query, so that the server reports a query that is too large.
_TIMEOUT_S = 150.0
_MOST_IN_MEMORY = 64 << 20
_LONGEST_URL = 4096  # proxies refuse longer URLs; longer queries are posted
_SUCCESS = b'{"status":"success"'
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TooMuch(Exception):
    """The server refused an answer of this size; a smaller one may work."""


class _Passing(Exception):
    """A temporary failure: a broken connection, or a server that restarts or is overloaded."""


class Client:
    """One server. `url` may have a path, as behind Grafana or a proxy. Raises wire.AgentError for invalid arguments.

    patience_s: how long a server that answered before may be away.
    """

    def __init__(self, url: str, credentials: str | None = None, patience_s: float = 30.0, ca_file: str | None = None):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wire.AgentError(
                f"{_without_user(url)}: not a URL of a Prometheus; it begins with http:// or https://"
            )
        if parts.username is not None or parts.password is not None:
            raise wire.AgentError(
                f"{_without_user(url)}: the URL holds credentials, which would be kept with the results; "
                "name variables of the environment instead (user and password_env, or bearer_env)"
            )
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._patience_s = patience_s
        self._credentials = credentials
        self._headers = {"Accept": "application/json", "User-Agent": "benchstudy", **_authorization(credentials)}
        # Compressing costs the server more than a loopback device does.
        self._headers["Accept-Encoding"] = "identity" if parts.hostname in _LOOPBACK else "gzip"
        self._tls = None
        if parts.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                raise wire.AgentError(f"ca_file {ca_file}: {error.strerror or error}") from None
        self._connection: http.client.HTTPConnection | None = None
        self._met = False

    def json(self, path: str, **parameters: object) -> tuple[dict, bytes]:
        """Return an answer that cannot be split: (its content, its bytes). Raises AgentError."""
        body = bytearray()

        def take(chunk: bytes) -> None:
            body.extend(chunk)
            if len(body) > _MOST_IN_MEMORY:
                raise TooMuch(f"the answer has more than {_MOST_IN_MEMORY >> 20} MiB")

        try:
            self.stream(path, parameters, take, body.clear)
        except TooMuch as error:
            raise wire.AgentError(f"Prometheus at {self.url}, asked for {path}: {error}") from None
        with self.understood(path):
            return json.loads(body), bytes(body)

    def understood(self, path: str) -> AbstractContextManager[None]:
        """Return the block in which to read the answer to `path`; it turns malformed answers into readable errors."""
        return wire.understood(f"Prometheus at {self.url}: what it answered to {path} is none of its answers")

    def stream(self, path: str, parameters: dict, take, again) -> None:
        """Hand an answer's body to `take` piece by piece; call `again()` before a retry after a broken connection.

        Raises TooMuch if the server refuses the size, AgentError for every other refusal.
        """
        deadline = time.monotonic() + self._patience_s
        pause_s = 0.1
        while True:
            try:
                self._once(path, parameters, take)
            except _Passing as problem:
                self.close()
                if not self._met or time.monotonic() + pause_s > deadline:
                    tried = f", for {self._patience_s:g} s" if self._met else ""
                    raise wire.AgentError(f"Prometheus at {self.url}: {problem}{tried}; {_UNREACHABLE_FIX}") from None
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 5.0)
                again()
            else:
                self._met = True
                return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def clock(self) -> tuple[dict, bytes]:
        """({"offset_s": the server's clock minus this host's, "uncertainty_s", "now_s", "asked_wall_s"}, the answer).

        It asks several times and takes the fastest answer, which has the smallest uncertainty.
        """
        answers: list[tuple[dict, bytes]] = []
        for _ in range(5):
            sent = time.time()
            content, body = self.json("/api/v1/query", query="time()")
            received = time.time()
            with self.understood("/api/v1/query"):
                now_s = float(content["data"]["result"][1])
                if not math.isfinite(now_s):
                    raise ValueError(f"its clock is at {now_s}")
            half = (received - sent) / 2
            found = {"offset_s": now_s - sent - half, "uncertainty_s": half, "now_s": now_s, "asked_wall_s": sent}
            answers.append((found, body))
        return min(answers, key=lambda answer: answer[0]["uncertainty_s"])

    def _once(self, path: str, parameters: dict, take) -> None:
        query = urlencode(parameters, doseq=True)
        target = self._parts.path + path
        posted = len(target) + len(query) > _LONGEST_URL
        headers = dict(self._headers)
        if posted:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            response = self._answer(
                "POST" if posted else "GET",
                target if posted or not query else f"{target}?{query}",
                query if posted else None,
                headers,
            )
            if response.status != 200:
                self._refuse(response, response.read(1 << 16))
            self._copy(response, take)
        except ssl.SSLCertVerificationError as error:
            raise wire.AgentError(
                f"Prometheus at {self.url}: its certificate is not trusted here ({error.verify_message}); name the "
                "authority's certificate by ca_file, or add it to the host's own"
            ) from None
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise _Passing(_said_by(error)) from None

    def _answer(self, method: str, target: str, body: str | None, headers: dict) -> http.client.HTTPResponse:
        kept = self._connection is not None
        try:
            return self._request(method, target, body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            if not kept:
                raise
            # Servers close idle connections; that is not a failure.
            self.close()
            return self._request(method, target, body, headers)

    def _request(self, method: str, target: str, body: str | None, headers: dict) -> http.client.HTTPResponse:
        if self._connection is None:
            name, port = self._parts.hostname or "", self._parts.port
            if self._tls is not None:
                self._connection = http.client.HTTPSConnection(name, port, timeout=_TIMEOUT_S, context=self._tls)
            else:
                self._connection = http.client.HTTPConnection(name, port, timeout=_TIMEOUT_S)
        self._connection.request(method, target, body, headers)
        return self._connection.getresponse()

    def _copy(self, response: http.client.HTTPResponse, take) -> None:
        unzip = zlib.decompressobj(31) if response.getheader("Content-Encoding") == "gzip" else None
        head = tail = b""
        try:
            while True:
                chunk = response.read(1 << 18)
                if not chunk:
                    break
                data = unzip.decompress(chunk) if unzip else chunk
                if len(head) < len(_SUCCESS):
                    head += data[: len(_SUCCESS)]
                    self._require_prometheus(head)
                tail = (tail + data)[-64:]
                take(data)
        except TooMuch:
            self.close()  # the rest of the answer is not needed
            raise
        if response.length or not tail.rstrip().endswith(b"}") or (unzip is not None and not unzip.eof):
            raise _Passing("an answer was cut off")

    def _require_prometheus(self, head: bytes) -> None:
        if not _SUCCESS.startswith(head[: len(_SUCCESS)]):
            self.close()
            raise wire.AgentError(
                f"{self.url}: this is not an answer of a Prometheus ({head.decode('utf-8', 'replace')!r} …); is the "
                "URL the one below which /api/v1/query lies?"
            )

    def _refuse(self, response: http.client.HTTPResponse, body: bytes) -> None:
        """Raise the error that the status means, without repeating anything that was sent."""
        self.close()
        status = f"{response.status} {response.reason}".strip()
        try:
            content = json.loads(body)
            kind, said = content.get("errorType", ""), str(content.get("error", ""))[:500]
        except (ValueError, AttributeError, RecursionError):
            kind = said = ""
        if response.status in (401, 403):
            raise wire.AgentError(
                f"Prometheus at {self.url} refused {self._presented()} ({status}); {_CREDENTIALS_FIX}"
            )
        if 300 <= response.status < 400:
            place = _without_user(response.getheader("Location") or "")
            raise wire.AgentError(
                f"Prometheus at {self.url} sends elsewhere ({status}: {place[:200]}), where no credentials are sent; "
                "name the final URL, and credentials if this is a login"
            )
        too_much = response.status == 413 or kind == "timeout" or (response.status == 422 and kind in ("execution", ""))
        if too_much:
            raise TooMuch(said or status)
        if response.status in (408, 429, 500, 502, 503, 504):
            raise _Passing(f"it answered {status}{': ' + said if said else ''}")
        hint = "" if said else "; is the URL the one below which /api/v1/query lies?"
        raise wire.AgentError(f"Prometheus at {self.url} answered {status}{': ' + said if said else ''}{hint}")

    def _presented(self) -> str:
        if self._credentials == "basic":
            return "the user and password"
        return "the bearer token" if self._credentials == "bearer" else "a question without credentials"


_UNREACHABLE_FIX = "does it run, and can this host reach it?"
_CREDENTIALS_FIX = "set user and password_env, or bearer_env, and the variable they name"


def _authorization(credentials: str | None) -> dict[str, str]:
    if credentials is None:
        return {}
    if credentials == "bearer":
        return {"Authorization": "Bearer " + _variable(TOKEN)}
    if credentials == "basic":
        pair = f"{_variable(USER)}:{_variable(PASSWORD)}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    raise wire.AgentError(f"credentials: {credentials!r} is neither bearer nor basic")


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value or not value.isprintable() or not value.isascii():
        # http.client's own message would show the value.
        raise wire.AgentError(f"{name} is {'empty' if not value else 'no single line of printable ASCII'}")
    return value


def _without_user(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return scheme + separator + place.rpartition("@")[2] + slash + path


def _said_by(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "an answer was cut off"
    if isinstance(error, TimeoutError):
        return f"no answer in {_TIMEOUT_S:.0f} s"
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}".rstrip(": ")

"""Fuzzing of what peers say: hosts to the controller, the controller to the agent, Prometheus and S3 to their clients.

An HTTP answer comes over a real connection from a server with given answers. What a host says comes through the
controller's own end of a command, without SSH, which would take a thousand times as long.
"""

import contextlib
import gzip
import hashlib
import importlib
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from agent_folders import OnHosts
from fuzz_doors import DATA, Door

from benchstudy.families.load_test.prometheus_samples import pages, read_matrix
from benchstudy.hosts.agent import Command, HostAgent
from benchstudy.hosts.commands import SupervisedRun
from benchstudy.hosts.remote import Remote
from benchstudy.hosts.services import RunningService
from benchstudy.model import interference
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import ParseError
from benchstudy.model.host import Host
from benchstudy.model.parsing import damaged
from benchstudy.model.services import Service

_END = b"\n--- the next answer ---\n"


def peers(work: Path) -> Iterator[Door]:
    on_hosts = OnHosts()
    yield from _of_prometheus(work, on_hosts)
    yield from _of_s3(work, on_hosts)
    yield from _of_hosts(work)
    yield from _to_hosts(work, on_hosts)


# --- over HTTP -----------------------------------------------------------------------------------------------------


class Answers:
    """A server on loopback that answers a request by its path, or else in order, and then hangs up."""

    def __init__(self) -> None:
        self.by_path: Mapping[str, bytes] = {}
        self.in_turn: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._listening.accept()
            with peer, contextlib.suppress(OSError):
                peer.settimeout(1.0)
                self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            if not (piece := peer.recv(1 << 16)):
                return
            request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        if b"100-continue" in head.lower():
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        chunked = b"transfer-encoding: chunked" in head.lower()
        while len(body) < sum(lengths) or (chunked and not body.endswith(b"0\r\n\r\n") and b"\r\n0\r\n" not in body):
            body += peer.recv(1 << 16)
        target = head.split(b" ", 2)[1].decode(errors="replace")
        found = next((answer for path, answer in self.by_path.items() if path in target), None)
        peer.sendall(found if found is not None else self.in_turn.pop(0) if self.in_turn else _http(b"", 404))
        peer.shutdown(socket.SHUT_WR)


def _http(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


# --- Prometheus ----------------------------------------------------------------------------------------------------

_ERRORS = {
    422: b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}',
    503: b'{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}',
    400: b'{"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected end of input"}',
    401: b"Unauthorized\n",
}


def _of_prometheus(work: Path, on_hosts: OnHosts) -> Iterator[Door]:
    """Answers as a real Prometheus gave them: to the parser here, and to the client on a host that fetches them."""
    kind = "answer of Prometheus"
    raw = next(DATA.glob("prometheus/*/metrics/files/metrics.ndjson.gz"))
    lines = [line.partition(b',"answer":') for line in gzip.decompress(raw.read_bytes()).splitlines()]
    heads = [json.loads(head + b"}" if answer else head) for head, answer, _ in lines]
    said = {head["kind"]: (head, rest[:-1]) for head, (_, _, rest) in reversed(list(zip(heads, lines, strict=True)))}
    page, matrix = said["page"]
    simple = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a","le":"0.5"},"values":[[1700000000.1,"12"],[1700000005,"NaN"]]}]}}'  # noqa: E501
    yield Door(kind, kind, simple, read_matrix, (ParseError,))
    whole = json.loads(matrix)
    whole["data"]["result"] = whole["data"]["result"][:20]
    yield Door(kind, f"{kind}: {page['metric']}", json.dumps(whole).encode(), read_matrix, (ParseError,))

    spool = work / "metrics.ndjson.gz"

    def read_pages(content: bytes) -> None:
        spool.write_bytes(gzip.compress(content, 1))
        with damaged("this file"):  # called like a parser
            for found in pages(spool):
                [series.labels for series in found.series]

    few = [b"".join(line) for line, head in zip(lines, heads, strict=True) if head["kind"] != "page"]
    few.insert(-1, lines[heads.index(page)][0] + b',"answer":' + simple + b"}")
    yield Door(kind, f"{kind}: what a host kept of it", b"\n".join(few) + b"\n", read_pages, (ParseError,))

    fetching, wire = on_hosts.module("prometheus"), on_hosts.module("wire")
    site, alerts = on_hosts.module("load_site"), _alerts()
    answers: list[Answers] = []
    now = round(page["end_s"]) + 3600
    clock = b'{"status":"success","data":{"resultType":"scalar","result":[%d.1,"%d.1"]}}' % (now, now)
    usual = {
        "/api/v1/status/buildinfo": _http(said["buildinfo"][1]),
        "/api/v1/targets": _http(said["targets"][1]),
        "/api/v1/series": _http(b'{"status":"success","data":[{"__name__":"up","instance":"a"}]}'),
        "query=time": _http(clock),
        "/api/v1/query": _http(simple),
    }
    into = work / "fetched"
    spec = {"start_s": page["start_s"], "end_s": page["end_s"], "metrics": {"system": ["up"], "host": []}}
    spec |= {"into": f"{into}.gz", "partial": f"{into}.partial", "patience_s": 0.0, "page_s": 300.0}

    def server(path: str, content: bytes) -> str:
        if not answers:  # a thread does not survive the fork of a worker
            answers.append(Answers())
        answers[0].by_path = {**usual, path: content}
        return answers[0].url

    def fetch(path: str, content: bytes) -> None:
        Path(f"{into}.partial").unlink(missing_ok=True)
        fetching._fetch({**spec, "url": server(path, content)})

    def ask(path: str, content: bytes) -> None:
        url = server(path, content)
        with _spoken(b""):
            fetching.clock([url])
            fetching.targets([url])

    def says(path: str, content: bytes) -> None:
        url = server(path, content)
        with _spoken(b""):
            site.says([url, path, "version"])
        with contextlib.suppress(alerts.PrometheusSilent):
            alerts.ask_prometheus(url, "time()", 0.5)

    for path, answer in usual.items():
        yield Door(kind, f"{kind} to a host: {path}", answer, _on(fetch, path), (wire.AgentError, OSError))
    for status, body in _ERRORS.items():
        answer = _http(body, status)
        yield Door(kind, f"{kind} to a host: {status}", answer, _on(fetch, "/api/v1/query"), (wire.AgentError, OSError))
    for path in ("query=time", "/api/v1/targets"):
        yield Door(kind, f"{kind} when asked for {path}", usual[path], _on(ask, path), (wire.AgentError, OSError))
    yield Door(kind, f"{kind} about a load", usual["query=time"], _on(says, "/api/v1/query"), (wire.AgentError,))


def _alerts() -> ModuleType:
    return importlib.import_module("benchstudy.families.load_test.users.on_host.alerts")


def _on(call: Callable[[str, bytes], None], path: str) -> Callable[[bytes], None]:
    return lambda content: call(path, content)


# --- S3 ------------------------------------------------------------------------------------------------------------


def _of_s3(work: Path, on_hosts: OnHosts) -> Iterator[Door]:
    """Conversations with a real server (tests/data/s3/README.md), as the code that measures it reads them."""
    objects, refused = on_hosts.module("s3_objects"), on_hosts.module("refused").Refused
    made: list[tuple[Answers, Any]] = []
    os.environ |= {objects.ACCESS_KEY: "canary-access-key-1", objects.SECRET_KEY: "canary-secret-key-2"}
    request = {
        "action": "read", "bucket": "data", "prefix": "benchstudy/fuzz/", "region": "us-east-1", "attempts": 1,
        "connect_timeout_s": 1, "read_timeout_s": 1, "max_concurrency": 1, "signature": "auto", "dualstack": False,
        "checksums": "when_supported", "addressing_style": "path", "sign_payload": False, "accelerate": False,
        "multipart_threshold": 8 << 20, "part_size": 8 << 20, "size": 5000, "chunk": 1 << 17, "operations": 1,
        "verify": False, "key": "benchstudy/fuzz/object", "create_bucket": False,
    }  # fmt: skip

    def bucket(content: bytes) -> Any:
        if not made:
            server = Answers()
            made.append((server, objects._Bucket({**request, "endpoint_url": server.url})))
        made[0][0].in_turn = content.split(_END)
        return made[0][1]

    def check(content: bytes) -> None:
        objects._check(bucket(content))

    def clean(content: bytes) -> None:
        bucket(content).clean()

    def write(content: bytes) -> None:
        objects._measure_writes(bucket(content), request, {"operations": [], "errors": []})

    def read(content: bytes) -> None:
        objects._measure_reads(bucket(content), request, {"operations": [], "errors": []})

    def in_parts(content: bytes) -> None:
        found = bucket(content)
        objects._attempt(found, {"errors": []}, 0, lambda: found.get_in_parts(request["key"], objects._Counter()))

    doors = {"check": check, "clean": clean, "write": write, "read": read, "in_parts": in_parts, "error": check}
    for path in sorted((DATA / "s3").glob("*.http")):
        attempt = doors[path.stem.partition("-")[0]]
        yield Door("answer of S3", f"answer of S3: {path.stem}", path.read_bytes(), attempt, (refused,))


# --- a host to the controller --------------------------------------------------------------------------------------


class _Channel:
    """The end of a command's streams, as paramiko's channel is for its reader: everything is already there."""

    class _Buffer:
        def set_event(self, event: threading.Event) -> None:
            event.set()

    def __init__(self, host: "_Host"):
        self.in_buffer = self.in_stderr_buffer = self._Buffer()
        self._host, self._said, self._also = host, b"", host.also
        self.eof_received = self.closed = True
        self.exit_status = 0
        self.status_event = threading.Event()
        self.status_event.set()

    def exec_command(self, command: str) -> None:
        said = self._host.clock if command.endswith(" clock") else self._host.said
        self._said = b"benchstudy-pid 7\n" + said

    def exit_status_ready(self) -> bool:
        return False

    def recv_ready(self) -> bool:
        return bool(self._said)

    def recv_stderr_ready(self) -> bool:
        return bool(self._also)

    def recv(self, size: int) -> bytes:
        out, self._said = self._said[:size], self._said[size:]
        return out

    def recv_stderr(self, size: int) -> bytes:
        out, self._also = self._also[:size], self._also[size:]
        return out

    def close(self) -> None: ...


class _Host(Remote):
    """A host on which each command prints the same, except for the agent's `clock`."""

    usable = True

    def __init__(self) -> None:
        super().__init__("host", Host.model_validate({"address": "192.0.2.1", "work_dir": "/tmp/fuzz"}))
        self.said, self.also, self.clock = b"", b"", (DATA / "wire/clock.said").read_bytes()

    def connect(self) -> "_Host":
        return self

    def _transport(self) -> "_Host":
        return self

    def open_for_command(self, timeout_s: float) -> _Channel:
        return _Channel(self)

    def send_some(self, channel: _Channel, data: memoryview, timeout_s: float | None) -> int:
        return len(data)

    def end_input(self, channel: _Channel) -> None: ...

    def join(self, timeout_s: float) -> None: ...


def _of_hosts(work: Path) -> Iterator[Door]:
    """Answers of a real agent (tests/data/wire/README.md) to everything that the controller asks it."""
    host = _Host()
    agent = HostAgent(host, lease_s=5.0, reconnect_s=1.0, on_event=lambda text: None)
    service = Service.model_validate({"role": "sut", "argv": ["true"], "ready": {"file": "/tmp/x"}})
    lock = agent.lock("session", {"study": "s"})

    running = RunningService("store", "5c", "/tmp/x", "/tmp/x/files", {}, {}, host="host", agent=agent)

    def status() -> None:
        running.usage()
        running.check()

    def read_host() -> None:
        about = {"boot_id": None, "controller": None, "readings": [agent.read_host()] * 2}
        document = {"commands": [{"hosts": {"host": about}}]}
        with contextlib.suppress(*interference.MALFORMED):  # the way in which Neighbours.keep takes it
            interference.seen(document)

    def run() -> None:
        supervised = SupervisedRun(agent, "session", Command(["true"]))
        supervised._beats.question()  # a real run takes a while, and its agent answered one
        supervised.to_its_end()

    def clock() -> None:
        with mock.patch.object(host, "clock", host.said):
            agent.clock()

    asked: dict[str, Callable[[], object]] = {
        "run": run,
        "lock": lambda: lock._acquire(host.open(["lock"])),
        "hold": lambda: lock._attached(),
        "clock": clock,
        "facts": agent.facts,
        "tool": lambda: agent.tool("python3"),
        "read-host": read_host,
        "start-service": lambda: agent.start_service("store", service),
        "service-status": status,
        "stop-service": lambda: running.stop(work / "logs"),
        "scratch": lambda: agent.scratch("/tmp/x"),
        "join-accounts": agent.join_accounts,
        "present": agent._present,
    }

    def hear(call: Callable[[], object], content: bytes) -> None:
        host.said, host.also = content, b""
        agent._desk._works = False
        lock._generation = -1
        call()

    def at_the_desk(content: bytes) -> None:
        host.said, host.also = content, b""
        agent._desk._works, agent._desk._process = True, None
        agent.call("clock")

    copy = work / "copied"

    def copy_tree(content: bytes) -> None:
        host.said, host.also = content, hashlib.sha256(content).hexdigest().encode() + b"  -\n"
        try:
            host.get_tree("/tmp/x", copy)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    for path in sorted((DATA / "wire").glob("*.said")):
        name = path.stem
        attempt: Callable[[bytes], None]
        if name == "desk":
            attempt = at_the_desk
        elif name == "tree":
            attempt = copy_tree
        else:
            attempt = lambda content, call=asked[name]: hear(call, content)  # noqa: E731
        yield Door("a host to the controller", f"a host says: {name}", path.read_bytes(), attempt, (BenchstudyError,))


# --- to the agent --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _spoken(said: bytes) -> Iterator[None]:
    """Give standard input what was `said`, and discard standard output: the agent talks through both."""
    kept = os.dup(0), os.dup(1)
    given = os.memfd_create("said")
    os.write(given, said)
    os.lseek(given, 0, os.SEEK_SET)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        sys.stdout.flush()
        os.dup2(given, 0)
        os.dup2(nowhere, 1)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
        for descriptor in (*kept, given, nowhere):
            os.close(descriptor)


def _to_hosts(work: Path, on_hosts: OnHosts) -> Iterator[Door]:
    """What the agent reads: lines of the controller, and files that any user of the host may have written."""
    names = ("watcher", "wire", "keeper", "folders", "record", "http_check", "lease")
    watcher, wire, keeper, folders, record, http_check, lease = map(on_hosts.module, names)
    declared = (wire.AgentError, OSError)
    kind = "the controller to a host"
    folder = work / "on-host"
    folder.mkdir()

    def clock(content: bytes) -> None:
        with _spoken(content):
            watcher.clock([])

    def spec(content: bytes) -> None:
        with _spoken(content):
            wire.read_spec(wire.Lines())

    def serve(content: bytes) -> None:
        held = lease.Lease(str(folder), 5.0)
        renewal = lease.Renewal(str(folder))
        try:
            with _spoken(b""):
                lines = _Pipe(wire, content)
                watcher.serve(renewal, lines)
        finally:
            renewal.close()
            held.close()
            os.close(lines.fd)
            (folder / lease.FIFO).unlink()

    beats = b'{"beat": 0}\n{"beat": 1}\n{"beat": 2}\n'
    given = b'{"uuid": "5c", "session": "s", "lock": "", "lease_s": 30.0, "argv": ["true"], "env": {"A": "b"}}\n'
    yield Door(kind, "the controller says: clock", beats, clock, declared)
    yield Door(kind, "the controller says: beats", beats + b'{"stop": true}\n', serve, declared)
    yield Door(kind, "the controller says: specification", given, spec, declared)

    lock = folder / "lock"

    def rival(content: bytes) -> None:
        lock.write_bytes(content)
        opened = os.open(lock, os.O_RDWR)
        try:
            judge = keeper._Rival()
            judge.judge(keeper._read_owner(opened), str(lock), opened)
            judge.judge(keeper._read_owner(opened), str(lock), opened)
        finally:
            os.close(opened)

    owner = {"owner": {"study": "s", "process": "7"}, "session": "s", "lease_s": 31.0, "beat_s": 7.5, "boot_id": "b"}
    owner |= {"beats": 12, "last_beat": 1234.5}
    yield Door(kind, "on a host: the lock", json.dumps(owner).encode(), rival, declared)

    marked = folder / "marked"
    marked.mkdir()

    def marker(content: bytes) -> None:
        (marked / folders.MARKER).write_bytes(content)
        folders.listing(str(folder))

    told = b'{"uuid": "5c", "session": "s", "kind": "run", "lock": "/tmp/benchstudy.lock"}'
    yield Door(kind, "on a host: a marker", told, marker, declared)

    recorded = DATA / "wire" / "run.said"
    final = recorded.read_bytes().splitlines()[-1] if recorded.is_file() else b"{}"

    def last_word(content: bytes) -> None:
        (marked / record.FILE).write_bytes(content)
        watcher.last_word(str(marked))

    yield Door(kind, "on a host: a record", final, last_word, declared)
    answers: list[Answers] = []
    login = {"method": "POST", "path": "/login", "headers": {}, "basic": None, "form": {"a": "b"}, "json": None}

    def check(place: str, content: bytes) -> None:
        if not answers:
            answers.append(Answers())
        answers[0].in_turn = [content, content]
        token = {"json_key": None, "cookie": None, "header": "X-Token"} | {place: "token"}
        request = {"base": answers[0].url, "timeout_s": 0.5, "login": {**login, "status": 200, "token": token}}
        request["requests"] = [{"path": "/", "headers": {"A": "{{token}}"}, "text": "x"}]
        with _spoken(json.dumps(request).encode() + b"\n"):
            http_check.check([])

    head = b"HTTP/1.1 200 OK\r\nSet-Cookie: token=abc; Path=/; HttpOnly\r\nX-Token: abc\r\nConnection: close\r\n"
    said = head + b'Content-Length: 16\r\n\r\n{"token": "abc"}'
    for place in ("json_key", "cookie", "header"):
        yield Door(kind, f"a server to a host: {place}", said, _on(check, place), declared)


class _Pipe:
    """Lines of a pipe, because the agent can wait for a pipe and not for a file."""

    def __new__(cls, wire: ModuleType, content: bytes) -> Any:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            os.write(writer, content)
        os.close(writer)
        return wire.Lines(reader)

"""Small studies of the family http_concurrency with real servers, good and bad ones, and a way to hold a session."""

import http.server
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from one_host import trials_held

from benchstudy.families.http_concurrency.command import Load
from benchstudy.families.http_concurrency.config import Expect, Generator
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import paths
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study

FAMILY = "http_concurrency"
PAGE_BYTES = 11_413  # of the page to which Filestash's own figures refer
WRONG_OF_FLAKY = 150  # answers, in any load of at least 260 requests
PASSWORD = 'an open sesame, "of nobody" é'  # for the environment variable PASSWORD_ENV
PASSWORD_ENV = "BENCHSTUDY_TEST_HTTP_PASSWORD"

NGINX_CONF = """
daemon off; user root; worker_processes 1; pid {{dir}}/nginx.pid; error_log stderr;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000; default_type text/plain;
  client_body_temp_path {{dir}}/t1; proxy_temp_path {{dir}}/t2; fastcgi_temp_path {{dir}}/t3;
  uwsgi_temp_path {{dir}}/t4; scgi_temp_path {{dir}}/t5;
  server {
    listen {{bind}}:{{port.http}} backlog=4096;
    root {{dir}}/www;
    location = /null { return 200 "null"; }
  }
}
"""
# A small server whose paths do what servers do to a benchmark. It does only what a user's own server could do, too.
SERVER = r"""
import itertools, json, os, secrets, sys, threading, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

address, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
made_up, own = os.environ.pop("PASSWORD_MADE_UP"), os.environ.pop("PASSWORD_OF_ONES_OWN")
PAGE, SIGN_IN = b"x" * 1000, b"<html><title>Please sign in</title><form><input name=password></form></html>"
requests, private, lock = itertools.count(1), itertools.count(1), threading.Lock()
eaten, tokens = [], set()


def say(text):
    print(text, flush=True)


def write_down(*known):
    'For the test, beside everything that a session keeps: the secrets to look for.'
    with open(os.path.join(folder, "../../../known-secrets"), "a", encoding="utf-8") as file:
        file.writelines(secret + "\n" for secret in known)


def look_at_arguments():
    'Whatever is in the arguments of a process can be read by every user of the host.'
    words = [word.encode() for word in (made_up, own, *tokens)]
    seen = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        seen += 1
        if any(word in line for word in words):
            say("a secret is in the arguments of " + os.path.basename(line.split(b"\0")[0].decode()))
    say(f"looked at the arguments of {seen} processes")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200, kind="text/plain", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.headers.get("Connection", "").lower() == "keep-alive":
            self.send_header("Connection", "keep-alive")  # as clients of HTTP/1.0 want it said
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self._headers_buffer.append(b"\r\n" + body)  # in one packet with the head, as Nagle's algorithm wants it
        self.flush_headers()

    def do_GET(self):
        with lock:
            number = next(requests)
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/page":
            self.answer(PAGE)
        elif url.path == "/sign-in":
            self.answer(SIGN_IN, kind="text/html")
        elif url.path == "/moved":
            self.answer(b"", 302, Location="/sign-in")
        elif url.path == "/grows":
            self.answer(PAGE + b"x" * (number % 2))
        elif url.path == "/flaky":
            # 150 of any load of at least 260 requests, with or without a warm-up of 100. They come at once, because on
            # a machine that stalls, a load has so few requests that the check after it would meet a later one.
            bad = 110 <= number < 260
            self.answer(b"not now", 404) if bad else self.answer(PAGE)
        elif url.path == "/eats":
            eaten.append(os.urandom(1 << 20))
            self.answer(PAGE)
        elif url.path == "/dies":
            if number > 100:
                sys.stderr.write("licence of this server has expired\n")
                sys.stderr.flush()
                os._exit(9)
            self.answer(PAGE)
        elif url.path in ("/thumb", "/cached-thumb"):
            name = url.query if url.path == "/thumb" else "the-only-one"
            open(os.path.join(folder, "cache", name), "w").close()
            self.answer(PAGE)
        elif url.path == "/private":
            self.private()
        else:
            self.answer(b"no such page", 404)

    def private(self):
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        cookie = self.headers.get("Cookie", "").removeprefix("session=")
        token = next((t for t in (given, cookie) if t in tokens), None)
        if token is None:
            return self.answer(SIGN_IN, kind="text/html")
        if next(private) == 20:  # in the midst of the load
            look_at_arguments()
        self.answer(f"hello, holder of {token}, whose password is {own}".encode())

    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/login":
            right = json.loads(said)["password"] == made_up
        else:
            right = urllib.parse.parse_qs(said)["password"] == [own]
        if not right:
            return self.answer(b"{}", 401, kind="application/json")
        token = secrets.token_hex(16)
        tokens.add(token)
        write_down(made_up, own, token)
        say("an indiscreet log: issued " + token + " for " + own)
        if self.path == "/login":
            self.answer(json.dumps({"token": token}).encode(), kind="application/json")
        else:
            self.answer(b"welcome", Set_Cookie=f"session={token}; Path=/; HttpOnly")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


Server((address, port), Handler).serve_forever()
"""
# Writes down the port that it was given, and goes on if another process has taken it: see ForeignServers.
LET_TAKE = [
    "sh",
    "-c",
    'cd "$0"; echo "$1" > wanted.part; mv wanted.part wanted; '
    "i=0; while [ ! -e taken ] && [ $i -lt 400 ]; do sleep 0.05; i=$((i+1)); done; [ -e taken ]",
    "{{dir}}",
    "{{port.http}}",
]
# Its own port is taken, and it goes on with another one, as many servers do.
LIGHT_HEARTED = """
import http.server, sys
address, port, admin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    http.server.HTTPServer((address, port), http.server.SimpleHTTPRequestHandler)
    sys.exit("the port was still free")
except OSError as error:
    print("cannot listen:", error, flush=True)
http.server.HTTPServer((address, admin), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
_ARGV = ["python3", "-S", "{{dir}}/server.py", "{{bind}}", "{{port.http}}", "{{dir}}"]
_PYTHON = {
    "ports": ["http"],
    "secrets": ["password"],
    "files": {"server.py": SERVER},
    "setup": [["mkdir", "{{dir}}/cache"]],
    "secret_env": {"own": PASSWORD_ENV},
    "env": {"PASSWORD_MADE_UP": "{{secret.password}}", "PASSWORD_OF_ONES_OWN": "{{secret.own}}"},
    "argv": _ARGV,
    "ready": {"tcp": "http", "timeout": "20s"},
}
NGINX = {
    "ports": ["http"],
    "files": {"nginx.conf": NGINX_CONF, "www/page": "x" * PAGE_BYTES},
    "argv": ["/usr/sbin/nginx", "-c", "{{dir}}/nginx.conf", "-e", "stderr"],
    "ready": {"tcp": "http"},
}
SERVICES: dict[str, Any] = {
    "nginx": NGINX,
    "python": _PYTHON,
    "few-files": {**_PYTHON, "argv": ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', *_ARGV]},
    "hangs": {
        "ports": ["http"],
        "argv": ["sh", "-c", "echo waiting for a database that nobody started >&2; exec sleep 300"],
        "ready": {"tcp": "http", "timeout": "1s"},
    },
    "port-taken": {**NGINX, "setup": [LET_TAKE]},
    "port-taken-unnoticed": {
        "ports": ["http", "admin"],
        "files": {"server.py": LIGHT_HEARTED},
        "setup": [LET_TAKE],
        "argv": ["python3", "-S", "{{dir}}/server.py", "{{bind}}", "{{port.http}}", "{{port.admin}}"],
        "ready": {"tcp": "admin"},
    },
    # The user's own binary, which no registry has.
    "filestash": {"ports": ["http"], "argv": ["{{tools}}/filestash"], "ready": {"tcp": "http"}},
}
PAGE = {"length": 1000}
TOKEN = {"headers": {"Authorization": "Bearer {{token}}"}, "expect": {"text": "hello, holder"}}
COOKIE = {"headers": {"Cookie": "session={{token}}"}, "expect": {"text": "hello, holder"}}
JSON_LOGIN = {
    "path": "/login",
    "json_body": {"user": "me", "password": "{{secret.password}}"},
    "token": {"json_key": "token"},
}
FORM_LOGIN = {
    "path": "/form-login",
    "form": {"user": "me", "password": "{{env." + PASSWORD_ENV + "}}"},
    "token": {"cookie": "session"},
}


def endpoint(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "path": path, "expect": PAGE, **more}


def server(name: str, *endpoints: dict[str, Any], service: str = "python", **more: Any) -> dict[str, Any]:
    return {"name": name, "service": service, "endpoints": list(endpoints or (endpoint("page", "/page"),)), **more}


NGINX_SERVER = server("nginx", endpoint("static", "/page", expect={"length": PAGE_BYTES}), service="nginx")
NULL_SERVER = server(
    "null", endpoint("null", "/null", expect={"length": 4}), service="nginx", ceiling=True, ceiling_time="1s"
)
AB = {"name": "ab", "tool": "ab", "requests": 1500, "warm_up": 100}
# Without a warm-up, so that a test counts exactly what a generator did.
WRK = {"name": "wrk", "tool": "wrk", "duration": "1s", "warm_up": "0s"}
K6 = {"name": "k6", "tool": "k6", "duration": "2s", "warm_up": "0s", "max_in_flight": 200}


def block(servers: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A family block with these servers and their services."""
    used = {described["service"] for described in servers}
    services = {name: service for name, service in SERVICES.items() if name in used}
    tools = {described["tool"] for described in more.get("generators", [AB])}
    return {
        "timeout": "60s",
        "services": services,
        "servers": [dict(described) for described in servers],
        "generators": [AB],
        **({"concurrency": [10]} if tools & {"ab", "wrk"} else {}),
        **({"rates": ["500/s"]} if "k6" in tools else {}),
        **more,
    }


def declared(config: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A study as its file would have it, on one host that serves and generates the load."""
    return {
        "study": "http",
        "blocks": 1,
        "thresholds": {"lease": "15s", "reconnect": "10s"},
        "hosts": {"here": dict(host or {"loopback": True})},
        "targets": {"bench": {"roles": {"sut": "here"}}},
        "families": {FAMILY: dict(config)},
    }


def study_of(config: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> Study:
    return parse_study(declared(config, host))


def measure(root: Path, study: Study) -> list[StoredTrial]:
    return trials_held(root, study.session("bench", FAMILY))


def trials_of(root: Path) -> list[StoredTrial]:
    return TrialStore(paths.family_raw(root, "http", "bench", FAMILY)).trials()


class ForeignServers:
    """When a service asks for it (LET_TAKE), its port goes to another server: one here, with right answers.

    `asked`: every request that such a server got.
    """

    def __init__(self, work_dir: Path):
        self.asked: list[str] = []
        self.ports: list[int] = []
        self._services = work_dir / "services"
        self._servers: list[http.server.HTTPServer] = []
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            for wanted in self._services.glob("*/files/wanted"):
                if not wanted.with_name("taken").exists():
                    self._take(int(wanted.read_text()))
                    wanted.with_name("taken").touch()

    def _take(self, port: int) -> None:
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.path} {self.headers.get('User-Agent')}")
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"x" * 1000)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        foreign = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=foreign.serve_forever, args=(0.05,)).start()
        self._servers.append(foreign)
        self.ports.append(port)

    def __enter__(self) -> "ForeignServers":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        for foreign in self._servers:
            foreign.shutdown()
            foreign.server_close()


def path_without(folder: Path, *missing: str) -> str:
    """A PATH with every program of this machine except the `missing` ones, in `folder`."""
    folder.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if program.name not in missing:
                with suppress(FileExistsError):
                    (folder / program.name).symlink_to(program)
    return str(folder)


def python_with_few_files(folder: Path, number: int) -> str:
    """A Python for a host whose user may have `number` files open and, unlike root, cannot raise the limit."""
    python = folder / "python3-with-few-files"
    drop = "setpriv --inh-caps=-sys_resource --bounding-set=-sys_resource" if os.getuid() == 0 else ""
    python.write_text(f'#!/bin/sh\nulimit -n {number}\nexec {drop} python3 "$@"\n')
    python.chmod(0o755)
    return str(python)


def load(tool: str, concurrency: int | None = None, rate_per_s: float | None = None, **changed: Any) -> Load:
    """One run of a generator; what it is given beside the address."""
    own = {key: changed.pop(key) for key in tuple(changed) if key in Generator.model_fields}
    generator = Generator(name="g", tool=tool, **own)
    made = Load(
        generator=generator,
        program=f"/tools/{tool}",
        folder="/scripts",
        base="http://192.0.2.1:8080",
        path="/page?x=1",
        expect=Expect(length=1000),
        headers={},
        concurrency=concurrency,
        rate_per_s=rate_per_s,
    )
    return replace(made, **changed)

"""A program with metrics: `driven_exporter.py PORT` serves /metrics and obeys each line on stdin.

{"observe": histogram, "value": s, "times", "labels"}, {"count": counter, "value", "labels"},
{"gauge": name, "value": number or null, "labels"}. It answers each line with "done", and ends when its input ends.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
values: dict = {("process_start_time_seconds", ()): time.time()}
lock = threading.Lock()


def add(name: str, labels: dict, by: float) -> None:
    key = (name, tuple(sorted(labels.items())))
    values[key] = values.get(key, 0) + by


def perform(command: dict) -> None:
    labels, value = command["labels"], command["value"]
    if "observe" in command:
        name, times = command["observe"], command["times"]
        for edge in EDGES:
            add(f"{name}_bucket", {**labels, "le": f"{edge:g}"}, times * (value <= edge))
        add(f"{name}_bucket", {**labels, "le": "+Inf"}, times)
        add(f"{name}_sum", labels, times * value)
        add(f"{name}_count", labels, times)
    elif "count" in command:
        add(command["count"], labels, value)
    else:
        key = (command["gauge"], tuple(sorted(labels.items())))
        values.pop(key, None)
        if value is not None:
            values[key] = value


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with lock:
            lines = [
                name + "{" + ",".join(f"{label}={json.dumps(text)}" for label, text in labels) + "} " + repr(value)
                for (name, labels), value in values.items()
            ]
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Metrics)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"127.0.0.1:{server.server_port}", flush=True)
for line in sys.stdin:
    with lock:
        perform(json.loads(line))
    print("done", flush=True)
server.shutdown()

"""The file that Locust loads. Master and workers read the plan from standard input and follow it."""

import json
import logging
import sys
import time
from typing import Any

import gevent
import locust.runners
from gevent.pywsgi import WSGIServer
from load_users import recording
from load_users.control import Bounded, LoadFailed, Unbounded
from load_users.exposition import CONTENT_TYPE
from load_users.master import Collector
from load_users.plan import Plan
from load_users.users import Accounts, SimulatedUser, system_of
from locust import LoadTestShape, events
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

_REPORT_INTERVAL_S = 0.5
_USERS_INTERVAL_S = 1.0
_WORKERS_WAIT_S = 120.0  # for a slow host's Python to start
_WORKER_LOST_S = 10.0
_KEY = "benchstudy"

log = logging.getLogger("benchstudy")
PLAN = Plan.read(json.load(sys.stdin))
locust.runners.WORKER_REPORT_INTERVAL = _REPORT_INTERVAL_S
SimulatedUser.host = PLAN.url
SimulatedUser.system = system_of(PLAN)
SimulatedUser.plan = PLAN
SimulatedUser.network_timeout = SimulatedUser.connection_timeout = PLAN.request_timeout_s
SimulatedUser.concurrency = 1


class Shape(LoadTestShape):
    """The shape of the load. Locust asks for it once per second, on the master."""

    def __init__(self):
        super().__init__()
        self.collector: Any = None
        self._missing_since: float | None = None

    def tick(self):
        if self.collector is None:
            self._begin()
        try:
            self._require_workers()
            wanted = self.control.adjust()
        except LoadFailed as failure:
            self.end(str(failure))
            return None
        if wanted is None:
            self.end()
            return None
        self.collector.wanted = wanted[0]
        return wanted

    def _begin(self):
        self.collector = collector = Collector(PLAN)
        self.control = (Unbounded if PLAN.rule else Bounded)(PLAN, collector)
        self._writers = [
            gevent.spawn(repeat, _USERS_INTERVAL_S, collector.tell_users),
            gevent.spawn(repeat, PLAN.interval_s, collector.write_interval),
        ]
        STATE.collector, STATE.shape = collector, self

    def _require_workers(self):
        """End the load if a worker is lost, because its users would be missing silently."""
        lost = self.runner.clients.missing
        if not lost:
            self._missing_since = None
            return
        self._missing_since = self._missing_since or time.monotonic()
        if time.monotonic() - self._missing_since > _WORKER_LOST_S:
            raise LoadFailed(f"{len(lost)} of {PLAN.workers} Locust workers do not answer any more")

    def end(self, failure=None):
        """Write the results. `failure`: why the load has no result."""
        gevent.killall(self._writers)
        STATE.collector = None
        outcome = self.control.outcome(self.collector.now_s)
        self.collector.close({**outcome, "failure": failure, "locust": locust.__version__})
        if failure is not None:
            print(failure, file=sys.stderr, flush=True)
            self.runner.environment.process_exit_code = 1
        else:
            # Failed requests are a result, so Locust's own exit status for them does not apply.
            self.runner.environment.process_exit_code = 0


def repeat(every_s, do):
    while True:
        gevent.sleep(every_s)
        do()


class State:
    """State that Locust's event handlers share."""

    runner: Any = None
    shape: Any = None
    collector: Any = None  # the master's, during the load
    recorder = recording.Recorder()  # a worker's; each process has its own


STATE = State()


@events.init.add_listener
def begin(environment, runner, **_):
    STATE.runner = runner
    environment.stop_timeout = 0.0  # users stop by themselves, see SimulatedUser
    if isinstance(runner, MasterRunner):
        serve_metrics()
        quit_once(runner)
        await_workers(runner)
    elif isinstance(runner, WorkerRunner):
        SimulatedUser.recorder = STATE.recorder
        SimulatedUser.accounts = Accounts(PLAN.accounts, runner.worker_index, PLAN.workers)
        environment.events.request.add_listener(record)
        environment.events.report_to_master.add_listener(add_report)


@events.quitting.add_listener
def end_early(environment, **_):
    """Record an early end: Locust ends by itself if it has lost all workers or receives a signal."""
    if STATE.collector is not None:
        gone = all(node.state == STATE_MISSING for node in STATE.runner.clients.values())
        STATE.shape.end(f"Locust lost all of its workers ({PLAN.workers})" if gone else "the load was told to end")


def quit_once(runner):
    """Make Locust tell its workers to quit once, instead of four times with a wait after each."""
    quit_runner = runner.quit
    done: list[bool] = []

    def once():
        if not done:
            done.append(True)
            quit_runner()

    runner.quit = once


def await_workers(runner):
    """Wait for the workers here, because Locust itself checks for them only once per second."""
    deadline = time.monotonic() + _WORKERS_WAIT_S
    while len(runner.clients.ready) < PLAN.workers and time.monotonic() < deadline:
        gevent.sleep(0.02)
    if len(runner.clients.ready) < PLAN.workers:
        sys.exit(f"{len(runner.clients.ready)} of {PLAN.workers} Locust workers came within {_WORKERS_WAIT_S:g} s")


def serve_metrics():
    def answer(_, start_response):
        if STATE.collector is None:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"no load at present\n"]
        start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
        return [STATE.collector.exposition().encode()]

    try:
        WSGIServer((PLAN.address, PLAN.metrics_port), answer, log=None, error_log=None).start()
    except OSError as error:
        sys.exit(f"cannot listen on {PLAN.address}:{PLAN.metrics_port} for metrics: {error}")


def record(request_type, name, response_time, exception=None, response=None, **_):
    """Record each request of each user of this process."""
    failure, example = None, ""
    if exception is not None:
        status = getattr(response, "status_code", 0)
        failure = failure_of(status, exception)
        said = getattr(response, "content", None) or b""
        example = f"{request_type} {status or ''} {type(exception).__name__}: {exception} {said[:200]!r}"
    STATE.recorder.records.add(name, recording.HTTP, response_time / 1000, failure, example)


def failure_of(status, exception):
    """The kind of a failure. An answer that broke off has the status of a success, and is no answer."""
    if status >= 500:
        return recording.SERVER_ERROR
    if status >= 400:
        return recording.CLIENT_ERROR
    return recording.TIMEOUT if isinstance(exception, TimeoutError | gevent.Timeout) else recording.NO_ANSWER


def add_report(data, **_):
    data[_KEY] = {**STATE.recorder.report(), "rss_bytes": STATE.runner.current_memory_usage}


@events.worker_report.add_listener
def take_report(client_id, data, **_):
    report = data.get(_KEY)
    if report is not None and STATE.collector is not None:
        STATE.collector.take(client_id, report, data["user_count"])

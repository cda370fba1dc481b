"""Jobs of the workflow that begin with their imports done: each goes on in a fork of one process that has made them.

A page's job would import for longer than it computes, and a study has two such jobs a page. The process is started by
the first job that asks and ends with the command that the user gave. It holds libraries only: the package itself is
imported afresh by every job, which so never runs older code than Snakemake believes.
"""

import argparse
import fcntl
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchstudy.hosts.controller import CONTROLLER_PID, controller_is_here
from benchstudy.model import machine
from benchstudy.model.paths import local_state

if TYPE_CHECKING:
    from benchstudy.model.study import Study

_LIBRARIES = (
    *("altair", "IPython.core.completer", "IPython.core.interactiveshell", "jinja2", "nbconvert", "nbformat", "numpy"),
    *("papermill.engines", "polars", "psutil", "pydantic.main", "scipy.optimize", "scipy.stats", "vl_convert", "yaml"),
)
_INSIDE = "BENCHSTUDY_PRELOADED"
_BEGUN = b"b"
# Set by the command: its jobs may be on other machines, or each be ended with all that it started.
JOBS_ELSEWHERE = "BENCHSTUDY_JOBS_ELSEWHERE"


def hand_over() -> None:
    """Go on in the fork: there this returns at once. Here it ends the process, with the exit status of the fork.

    Everything stays in this process without a running command of the user's on this machine, with an executor that may
    bring jobs to others, and when the forks' parent cannot be had.
    """
    if _INSIDE in os.environ or JOBS_ELSEWHERE in os.environ or not controller_is_here():
        return
    controller = os.environ[CONTROLLER_PID]
    try:
        reached = connect(socket_of(controller), controller)
    except OSError:  # such as on a full disk, which the job itself can say
        return
    with reached as connection:
        asked = {"argv": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path}
        request = json.dumps(asked).encode()
        try:
            socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
            connection.sendall(request)
            begun = connection.recv(1)
        except OSError:
            begun = b""
        if begun != _BEGUN:
            return
        status = connection.recv(1)
    if not status:
        print(f"{sys.argv[0]}: its process ended without an exit status; was it killed?", file=sys.stderr)
    sys.exit(status[0] if status else 1)


@contextmanager
def report_job(*names: str) -> Iterator[tuple[Path, "Study", argparse.Namespace]]:
    """`job`, in a fork that has its imports."""
    hand_over()
    from benchstudy.jobs.job import job

    with job(*names) as given:
        yield given


def socket_of(controller: str) -> Path:
    """Where jobs of the command with this process id ask. Relative to the project: a socket's path must be short."""
    return Path(local_state(Path()).name, f"preloaded-{machine.process(controller)}.sock")


def connect(path: Path, controller: str) -> socket.socket:
    """To the process that forks, started when there is none; then it goes when the process `controller` has gone."""
    connection = socket.socket(socket.AF_UNIX)
    path.parent.mkdir(exist_ok=True)
    with path.with_name("preloaded.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
                # Whoever may connect has a script run as this user.
                path.chmod(0o600)
                listening.listen()
                connection.connect(str(path))
                # Its threads would not be there in a fork.
                environment = {**os.environ, CONTROLLER_PID: controller, "OPENBLAS_NUM_THREADS": "1"}
                # It must not hold the streams of this job, whose reader waits for their end.
                with path.with_name("preloaded.log").open("wb") as log:
                    subprocess.Popen(
                        [sys.executable, "-m", "benchstudy.jobs.preloaded", str(listening.fileno()), str(path)],
                        pass_fds=[listening.fileno()],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        # Ctrl-C is for the jobs, each of which passes it on.
                        start_new_session=True,
                    )
    return connection


def _serve(listening: socket.socket, path: Path) -> None:
    """Fork for every job that asks, until the command of the user's is gone."""
    try:
        controller = os.pidfd_open(int(os.environ[CONTROLLER_PID]))
    except ProcessLookupError:
        return path.unlink(missing_ok=True)
    import benchstudy  # noqa: F401  before others: it spares them an import

    for name in _LIBRARIES:
        if select.select([controller], [], [], 0)[0]:  # it must not outlive the command by the time of its imports
            return path.unlink(missing_ok=True)
        __import__(name)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        watched: list[socket.socket | int] = [listening, controller]
        ready, _, _ = select.select(watched, [], [])
        if controller in ready:
            return path.unlink(missing_ok=True)
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os.close(controller)
            _work(connection)
        connection.close()


def _reap(*_: object) -> None:
    """Forks that ended; how is told to their jobs by the connection."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _work(connection: socket.socket) -> None:
    """One job, in its own folder and environment, on the streams of the process that asked; does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as reader:
            request = json.loads(reader.read(int.from_bytes(size, "big")))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"], **{_INSIDE: "1"})
        sys.argv, sys.path[:] = request["argv"], request["path"]
        for name in [name for name in sys.modules if name.partition(".")[0] == "benchstudy"]:
            del sys.modules[name]
        connection.sendall(_BEGUN)
        threading.Thread(target=_end_with, args=[connection], daemon=True).start()
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            connection.sendall(bytes([status & 0xFF]))
        finally:
            os._exit(status & 0xFF)


def _end_with(connection: socket.socket) -> None:
    """Interrupts this process when the one that asked is gone."""
    if not connection.recv(1):
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        _serve(inherited, Path(sys.argv[2]))

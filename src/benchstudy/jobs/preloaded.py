"""Starts jobs of the workflow with their imports done: each job continues in a fork of one process that has made them.

Imports would take longer than the work itself for a page, or for provisioning a host that has everything.
The first job that asks starts the process. It imports what a kind of job needs when the first job of that kind comes,
and ends with the user's command. It holds libraries only: every job imports the package itself afresh, so it never runs
older code than Snakemake assumes.
"""

import fcntl
import gc
import importlib
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
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchstudy.hosts.controller import CONTROLLER_PID, controller_is_here
from benchstudy.model import machine
from benchstudy.model.paths import local_state

if TYPE_CHECKING:
    from argparse import Namespace

    from benchstudy.model.study import Study

# Of pydantic, what models need; root_model has it build a first one.
_OF_BOTH = ("psutil", "pydantic.functional_serializers", "pydantic.root_model", "rich.cells", "yaml")
_OF_HOSTS = (
    *_OF_BOTH,
    *("gzip", "html", "paramiko", "pyinfra.api.connect", "pyinfra.api.operations", "pyinfra.facts.apk"),
    *("pyinfra.facts.deb", "pyinfra.facts.rpm", "pyinfra.facts.server", "pyinfra.operations.server", "tarfile"),
)
_OF_REPORTS = (
    *_OF_BOTH,
    *("altair", "IPython.core.completer", "IPython.core.interactiveshell", "jinja2", "nbconvert", "nbformat", "numpy"),
    *("papermill.engines", "polars", "pydantic.dataclasses", "scipy.optimize", "scipy.stats", "vl_convert"),
)
# By the first byte that a job sends.
_LIBRARIES = {b"h": _OF_HOSTS, b"r": _OF_REPORTS}
_INSIDE = "BENCHSTUDY_PRELOADED"
_BEGUN = b"b"
_INTERRUPTED = 130  # the exit status after Ctrl-C, as of every command
# So many new objects wait for the garbage collector. With Python's 700, it takes a tenth of a large page's time.
FEWEST_TO_COLLECT = 20_000
_MOST_TO_END_S = 10.0  # how long an interrupted job waits for its fork
# Set by the command if its jobs may run on other machines, or are ended with everything that they started.
JOBS_ELSEWHERE = "BENCHSTUDY_JOBS_ELSEWHERE"


def hand_over(kind: bytes) -> None:
    """Continue in a fork that has imported what jobs of this kind (`_LIBRARIES`) need.

    In the fork this returns at once. In this process it does not return, but ends with the fork's exit status.

    The job stays in this process if no user's command runs on this machine, if an executor may run jobs on other
    machines, and if the parent of the forks is not available.
    """
    if _INSIDE in os.environ or JOBS_ELSEWHERE in os.environ or not controller_is_here():
        return
    try:
        status = _in_fork(kind, os.environ[CONTROLLER_PID])
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    if status is not None:
        sys.exit(status)


def _in_fork(kind: bytes, controller: str) -> int | None:
    """Have the job run in a fork. Returns its exit status, or None if the job stays in this process."""
    try:
        reached = connect(socket_of(controller), controller)
    except OSError:  # such as a full disk, which the job itself can report
        return None
    with reached as connection:
        asked = {"argv": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path}
        request = json.dumps(asked).encode()
        try:
            try:
                connection.sendall(kind)
                socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
                connection.sendall(request)
                begun = connection.recv(1)
            except OSError:
                begun = b""
            if begun != _BEGUN:
                return None
            status = connection.recv(1)
        except KeyboardInterrupt:
            # The fork ends and says so. Snakemake removes what the job left when this process has ended.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(_MOST_TO_END_S)
                while connection.recv(1):
                    pass
            raise
    if not status:
        print(f"{sys.argv[0]}: its process ended without an exit status; was it killed?", file=sys.stderr)
    return status[0] if status else 1


@contextmanager
def _job(kind: bytes, *names: str) -> Iterator[tuple[Path, "Study", "Namespace"]]:
    """`job`, in a fork that has its imports."""
    hand_over(kind)
    from benchstudy.jobs.job import job

    with job(*names) as given:
        yield given


report_job = partial(_job, b"r")
provisioning_job = partial(_job, b"h")


def socket_of(controller: str) -> Path:
    """The socket for jobs of the command with this process id, relative to the project: its path must be short."""
    return Path(local_state(Path()).name, f"preloaded-{machine.process(controller)}.sock")


def connect(path: Path, controller: str) -> socket.socket:
    """Connect to the process that forks, and start it if there is none. It ends when the process `controller` ends."""
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
                # Whoever can connect can run a script as this user.
                path.chmod(0o600)
                listening.listen()
                connection.connect(str(path))
                # A fork would not have its threads.
                environment = {**os.environ, CONTROLLER_PID: controller, "OPENBLAS_NUM_THREADS": "1"}
                # It must not keep the streams of this job open, because their reader waits for the end.
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
    """Fork for every job that asks, until the user's command has ended."""
    try:
        controller = os.pidfd_open(int(os.environ[CONTROLLER_PID]))
    except ProcessLookupError:
        return path.unlink(missing_ok=True)
    import benchstudy  # noqa: F401  before others: it spares them an import

    signal.signal(signal.SIGCHLD, _reap)
    gc.set_threshold(FEWEST_TO_COLLECT)
    while True:
        watched: list[socket.socket | int] = [listening, controller]
        if controller in select.select(watched, [], [])[0]:
            return path.unlink(missing_ok=True)
        connection, _ = listening.accept()
        kind = connection.recv(1)
        for name in _LIBRARIES.get(kind, ()):
            if select.select([controller], [], [], 0)[0]:  # it must not outlive the command while it imports
                return path.unlink(missing_ok=True)
            importlib.import_module(name)
        gc.freeze()  # no job's garbage collector visits what was imported
        if kind and os.fork() == 0:
            listening.close()
            os.close(controller)
            _work(connection)
        connection.close()


def _reap(*_: object) -> None:
    """Collect forks that ended. Their jobs learn the exit status from the connection."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _work(connection: socket.socket) -> None:
    """Run one job, in its own folder and environment, on the streams of the process that asked. Does not return."""
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
        with suppress(OSError):  # the thread notices, too, that nobody waits
            connection.sendall(_BEGUN)
        threading.Thread(target=_end_with, args=[connection], daemon=True).start()
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        from benchstudy.hosts.forks import exit_status

        status = exit_status(end)
    except KeyboardInterrupt:  # the job has said so, or had not begun
        status = _INTERRUPTED
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
    """Interrupt this process when the one that asked has ended."""
    if not connection.recv(1):
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        _serve(inherited, Path(sys.argv[2]))

"""The supervisor: runs one command or server on a host, and reliably ends everything that came of it.

It sleeps in poll() while the command runs. It wakes for output, for a dead child (SIGCHLD), for a heartbeat, when the
timeout or the lease is over, and at a few moments of a long command to read what else the host does (interference.py);
it never looks around in between, so that it costs the benchmark nothing.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable

import folders
import interference
import processes
import record
from accounts import of_run
from lease import Lease
from outputs import Copy, TerminalCopy, tail_of

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    import limits

TERMINAL = "xterm-256color"  # what the controller can replay
OUTPUT_TAIL = 4000  # characters of a step's output that an event keeps
# Before commands of several hosts begin together: the last part of the wait is a sleep, because a poll returns a
# millisecond late; and one step is at most this long, so that a clock set in between is noticed.
_LAST_WAIT_S, _LONGEST_WAIT_S = 0.05, 1.0
_MOST_READS = 1024  # of what an ended command left in its pipes; a process of others may write to them for ever


class Supervisor:
    """Runs the specification `spec` in the marked folder `folder`; see `supervise`."""

    def __init__(self, folder: str, spec: dict, lease: Lease):
        self.folder, self.spec, self.lease = folder, spec, lease
        self.record = record.Record(folder, spec)
        self.files = os.path.join(folder, "files")
        self.env = {
            **os.environ,
            **({"TERM": TERMINAL} if spec["terminal"] else {}),
            **spec["env"],
            **spec["secret_env"],
            **processes.marks(spec["uuid"], spec["session"], spec["lock"]),
        }
        self.poller = select.poll()
        self.copies: dict[int, Copy] = {}
        self.reaped: dict[int, tuple[int, float, float]] = {}  # pid: wait status, monotonic and wall time
        self.killed: set[int] = set()  # those to which we sent KILL
        self.childless = True
        self.terminated = False
        self.confinement: limits.Confinement | None = None
        self.accounts = of_run(folder, spec["session"])
        self.window: interference.Reader | None = None  # while the command runs, where readings are wanted

    def supervise(self) -> None:
        """Setup steps, the command, the end of all its descendants, cleanup steps; the record says how it went."""
        try:
            self._prepare()
            if self._set_up():
                self._run_command()
        except Exception as error:
            self.record.end("lost", f"the supervisor failed: {_described(error)}")
        finally:
            self._clean_up()
            self.record.save(durable=True)
            self.accounts.leave()

    def _prepare(self) -> None:
        processes.become_subreaper()
        self.accounts.join(os.getpid(), self.folder)
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminate)
        self.wake_fd = wake_read
        self.poller.register(wake_read, select.POLLIN)
        self.poller.register(self.lease.fd, select.POLLIN)

    def _terminate(self, *_) -> None:
        self.terminated = True

    # --- the one loop ----------------------------------------------------------------------------------------

    def _step(self, timeout_s: float) -> None:
        """Sleep until something happens, at most `timeout_s`, and handle it."""
        for fd, _ in self.poller.poll(max(0.0, timeout_s) * 1000 + 1):
            if fd == self.wake_fd:
                os.read(fd, 4096)
                self._reap()
            elif fd == self.lease.fd:
                self.lease.read()
            elif not self.copies[fd].pump():
                self.poller.unregister(fd)
                del self.copies[fd]

    def _reap(self) -> None:
        while True:
            try:
                pid, status, _ = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            self.reaped[pid] = (status, time.monotonic(), time.time())

    def _why_to_end(self, deadline: float | None) -> str | None:
        if deadline is not None and time.monotonic() >= deadline:
            return "timeout"
        if self.lease.remaining_s <= 0:
            return "lease-expired"
        return "stopped" if self.lease.stop_asked or self.terminated else None

    def _spawn(
        self,
        argv: list[str],
        streams: tuple[int, int, int],
        admit: Callable[[int], None] | None = None,
        terminal: bool = False,
    ) -> int:
        self.childless = False
        return processes.spawn(argv, self.env, self.files, streams, admit, terminal)

    def _stdout(self, path: str, cap: int) -> Copy:
        if not self.spec["terminal"]:
            return Copy(path, cap)
        try:
            return TerminalCopy(path, cap, *self.spec["terminal"])
        except OSError as error:
            raise processes.StartFailed(f"cannot open a terminal: {error.strerror}") from error

    def _confine(self) -> Callable[[int], None] | None:
        """Prepare the command's confinement. Raises StartFailed."""
        if all(self.spec[name] is None for name in ("limits", "cpu_list", "open_files")):
            return None
        import limits  # every command would pay for this import, and few are confined

        self.confinement = limits.Confinement(self.folder, self.spec)
        return self.confinement.admit

    def _leave_group(self) -> None:
        problem = self.confinement.close() if self.confinement is not None else None
        if problem:
            self.record.event("the control group could not be removed", problem)
        self.confinement = None

    def _await(self, pid: int, deadline: float | None, heed: bool) -> str:
        """Wait for the child `pid`: "exited", or why it must end. `heed`: also watch the lease and requests to stop."""
        while pid not in self.reaped:
            if heed:
                why = self._why_to_end(deadline)
            else:
                why = "timeout" if deadline is not None and time.monotonic() >= deadline else None
            if why:
                return why
            limits = [3600.0]
            if deadline is not None:
                limits.append(deadline - time.monotonic())
            if heed:
                limits.append(self.lease.remaining_s)
            if self.window is not None:
                limits.append(self.window.next_point() - time.monotonic())
                if limits[-1] <= 0:
                    self.window.point()
                    continue
            self._step(min(limits))
        return "exited"

    # --- the command -----------------------------------------------------------------------------------------

    def _run_command(self) -> None:
        cap = self.spec["max_output_bytes"]
        try:
            admit = self._confine()  # before the clock starts: making a group is not part of the command
            out = self._stdout(os.path.join(self.folder, "stdout"), cap)
        except processes.StartFailed as error:
            self.record.end("start-failed", str(error))
            return
        spec = self.spec
        err = Copy(os.path.join(self.folder, "stderr"), cap)
        stdin = os.memfd_create("stdin")  # in memory only: it may hold secrets
        with open(stdin, "wb", closefd=False) as file:
            file.write(spec["stdin"])
        os.lseek(stdin, 0, os.SEEK_SET)
        if spec["together"] and (why := self._wait_for_others()):
            self.record.end(why, "it was ended before it began")
            return
        if spec["readings"]:
            self.window = interference.Reader(self.accounts)
            self.window.begin()
        start_at = self.lease.start_at  # None unless it was waited for
        if start_at is not None:
            time.sleep(min(_LAST_WAIT_S, max(0.0, start_at - time.time())))
        self.record.begin()
        if start_at is not None:
            self.record.began(start_at)
        started = time.monotonic()
        terminal = out.write_fd if spec["terminal"] else None
        streams = (stdin if terminal is None else terminal, out.write_fd, err.write_fd)
        try:
            pid = self._spawn(spec["argv"], streams, admit, terminal is not None)
        except processes.StartFailed as error:
            self.record.end("start-failed", str(error))
            return
        finally:
            os.close(stdin)
            out.close_writer()
            err.close_writer()
        held = self.confinement.described() if self.confinement is not None else None
        self.record.running(pid, held)
        for copy in (out, err):
            self.copies[copy.read_fd] = copy
            self.poller.register(copy.read_fd, select.POLLIN)
        deadline = None if spec["timeout_s"] is None else started + spec["timeout_s"]
        state = self._await(pid, deadline, heed=True)
        if self.window is not None:
            self.window.end()
            self.record.content["readings"] = self.window.readings
            self.window = None
        if state != "exited":
            self._stop_politely(pid)
        left = self._end_descendants(spared_from_survivors=pid)
        for _ in range(_MOST_READS):
            if not self.copies or not self.poller.poll(0):
                break
            self._step(0)
        status, ended, ended_wall = self.reaped.get(pid, (None, time.monotonic(), time.time()))
        used = self.confinement.usage() if self.confinement is not None else {}
        self.record.finish(state, status, ended - started, ended_wall, left, used.get("oom_kills"))
        if self.confinement is not None and held is not None:
            self.record.confined(held, used, killed_here=pid in self.killed)
            self._leave_group()
        self.record.usage(resource.getrusage(resource.RUSAGE_CHILDREN))
        self.record.output(out, err)
        for fd in self.copies:  # those that a process still holds open
            self.poller.unregister(fd)
        self.copies.clear()
        for copy in (out, err):
            copy.close()

    def _wait_for_others(self) -> str | None:
        """Wait, prepared, until just before the instant that the controller names. Or why to end instead."""
        self.record.prepared()
        while (why := self._why_to_end(None)) is None:
            at = self.lease.start_at
            left_s = self.lease.remaining_s if at is None else min(at - time.time() - _LAST_WAIT_S, _LONGEST_WAIT_S)
            if left_s <= 0:
                return None
            self._step(left_s)
        return why

    def _stop_politely(self, pid: int) -> None:
        if self.spec["stop"]:
            self._do_step("stop", self.spec["stop"], 15.0, heed=False)
            # `sleep infinity` stands for what has no process of its own, and would sleep through the whole grace.
            if os.path.basename(self.spec["argv"][0]) != "sleep":
                self._await(pid, time.monotonic() + self.spec["grace_s"], heed=False)

    def _end_descendants(self, spared_from_survivors: int | None = None) -> list[str]:
        """Send TERM, then KILL after the grace, until nothing is left. Returns the names that outlived the command."""
        self._reap()
        survivors: dict[int, str] = {}
        refused: set[int] = set()
        patience = time.monotonic() + self.spec["grace_s"]
        give_up = patience + 10.0
        number, told = signal.SIGTERM, set()
        while not self.childless and time.monotonic() < give_up:
            present = self._present()
            if not present and self.confinement is not None and self.confinement.spared:
                break
            alive = [pid for pid in present if not processes.is_zombie(pid)]
            survivors.update(
                {p: processes.name_of(p) for p in alive if p != spared_from_survivors and p not in survivors}
            )
            fresh = [pid for pid in alive if pid not in told] if number == signal.SIGTERM else alive
            self.killed.update(fresh if number == signal.SIGKILL else ())
            refused.update(processes.send(fresh, number))
            processes.send(fresh, signal.SIGCONT)  # a stopped process does not even notice TERM
            told.update(fresh)
            if not alive or refused.issuperset(alive):
                self._step(0.05)
                if refused and refused.issuperset(alive):
                    number, patience = signal.SIGKILL, time.monotonic()
            else:
                self._step(min(0.25, max(0.01, patience - time.monotonic())))
            self._reap()
            if time.monotonic() >= patience:
                number = signal.SIGKILL
        present = [] if self.childless else self._present()
        if present:
            remaining = [f"{processes.name_of(p)} ({p})" for p in present]
            self.record.event("could not be ended", ", ".join(remaining))
        return [f"{name} ({pid})" for pid, name in survivors.items()]

    def _present(self) -> list[int]:
        """All descendants, but for those that keep the control group until it has been read."""
        spared = self.confinement.spared if self.confinement is not None else ()
        return [pid for pid in processes.descendants(os.getpid()) if pid not in spared]

    # --- the steps around it ---------------------------------------------------------------------------------

    def _set_up(self) -> bool:
        for argv in self.spec["setup"]:
            why = self._do_step("setup", argv, self.spec["setup_timeout_s"], heed=True)
            if why:
                self.record.end("setup-failed", why)
                return False
        return True

    def _do_step(self, kind: str, argv: list[str], limit_s: float, heed: bool) -> str | None:
        """Run one short command to its end. None when it succeeded, else what happened and the tail of its output."""
        path = os.path.join(self.folder, f"{kind}.log")
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        before = os.fstat(log).st_size
        try:
            pid = self._spawn(argv, (null, log, log))
            how = self._await(pid, time.monotonic() + limit_s, heed=heed)
            if how != "exited":
                processes.send([pid, *processes.descendants(pid)], signal.SIGKILL)
                self._await(pid, time.monotonic() + 5.0, heed=False)
            status = self.reaped[pid][0] if pid in self.reaped else None
            tail = tail_of(path, OUTPUT_TAIL, since=before)
        except processes.StartFailed as error:
            how, status, tail = str(error), None, ""
        finally:
            os.close(log)
            os.close(null)
        if status == 0 and how == "exited":
            return None
        code = "no exit status" if status is None else record.wait_status_text(status)
        text = f"{kind} step {argv[0]!r}: {how}, {code}\n{tail}".strip()
        self.record.event(f"{kind} step failed", text)
        return text

    def _clean_up(self) -> None:
        self._attempt(self._end_descendants)
        self._attempt(self._leave_group)
        for argv in self.spec["cleanup"]:
            self._attempt(self._do_step, "cleanup", argv, self.spec["cleanup_timeout_s"], False)
        self._attempt(self._end_descendants)
        self._attempt(self._unmount_all)

    def _attempt(self, act: Callable[..., object], *arguments) -> None:
        """Do one part of the cleanup. If it fails, the others are done all the same."""
        try:
            act(*arguments)
        except Exception as error:
            self.record.event("cleaning up failed", _described(error))

    def _unmount_all(self) -> None:
        for point in folders.mounts_below(self.folder):
            self._unmount(point)

    def _unmount(self, point: str) -> None:
        """A mount left below the run's own folder would prevent its deletion."""
        for argv in (["fusermount3", "-u", "-z", point], ["umount", "-l", point]):
            self._do_step("unmount", argv, 10.0, heed=False)
            if point not in folders.mount_points():
                self.record.event("unmounted", point)
                return


def _described(error: Exception) -> str:
    import traceback  # rarely needed, and every command would pay for the import

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-OUTPUT_TAIL:]

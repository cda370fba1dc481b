"""What a supervisor leaves behind: `supervisor.json`, replaced atomically at every change of state."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import time

import wire

FILE = "supervisor.json"
_RESERVE = ".reserve"
_FOR_THE_LAST, _SLICE = 32768, 8192  # bytes
_FULL_DISK = "disk full"  # an event
# As benchstudy.model.causes.Cause has them on the controller.
OOM, HOST_RESTARTED, LOST, DISK_FULL = "oom", "host-restarted", "lost", "disk-full"
PREPARED = "prepared"  # a state: the command waits for the instant to begin
FULL = (errno.ENOSPC, errno.EDQUOT)


def boot_id() -> str | None:
    return _first_line("/proc/sys/kernel/random/boot_id")


def load_average() -> float | None:
    """Of the last minute."""
    line = _first_line("/proc/loadavg")
    return float(line.split()[0]) if line else None


def _oom_kills() -> int | None:
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None)
    except OSError:
        return None


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except OSError:
        return None


def utc(wall: float) -> str:
    """ISO 8601 with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall)) + f".{int(wall % 1 * 1000):03d}Z"


def wait_status_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"


def read(folder: str) -> dict | None:
    """The record in `folder`; None when there is none; a live supervisor always has one."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            content = wire.document(file.read())
    except (OSError, ValueError):
        return None
    return content if content and isinstance(content.get("state"), str) else None


class Record:
    """`content` is what the controller gets; nothing secret is ever put into it."""

    def __init__(self, folder: str, spec: dict):
        self.folder = folder
        self.content: dict = {
            "state": "starting",
            "cause": None,
            "cause_kind": None,  # one of the above, for programs; `cause` is for people
            "uuid": spec["uuid"],
            "session": spec["session"],
            "label": spec["label"],
            "argv": spec["shown_argv"],
            "program": spec["argv"][0],
            "env": spec["shown_env"],
            "secret_env": sorted(spec["secret_env"]),
            "terminal": spec["terminal"],
            "timeout_s": spec["timeout_s"],
            "boot_id": boot_id(),
            "events": [],
        }

    def event(self, what: str, detail: str = "") -> None:
        self.content["events"].append({"at": utc(time.time()), "event": what, "detail": detail})

    def begin(self) -> None:
        self._wall = time.time()
        self._oom_kills = _oom_kills()
        self.content.update(started=utc(self._wall), load_before=load_average())

    def prepared(self) -> None:
        self.content["state"] = PREPARED
        self.save(durable=False)

    def began(self, asked: float) -> None:
        """When it was to begin together with others, and when it did, on this host's clock."""
        self.content["began"] = {"asked_s": asked, "at_s": self._wall}

    def running(self, pid: int, limits: dict | None) -> None:
        """`limits`: how it is confined, None when it is not."""
        self.content.update(state="running", pid=pid, supervisor_pid=os.getpid(), limits=limits)
        # Not durable: fsync before a benchmark would write back what the benchmark may be about to measure.
        self.save(durable=False)

    def end(self, state: str, cause: str) -> None:
        self.content.update(state=state, cause=cause)

    def finish(
        self,
        state: str,
        status: int | None,
        duration_s: float,
        wall: float,
        survivors: list[str],
        group_oom_kills: int | None,
    ) -> None:
        """`status`: from wait(); None when even KILL did not end the command.

        `group_oom_kills`: how many processes of the command's own group the kernel killed; None without such a group.
        """
        before, after = self._oom_kills, _oom_kills()
        self.content.update(
            state=state,
            exit_status=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            duration_s=duration_s,
            finished=utc(wall),
            load_after=load_average(),
            # How far the wall clock was set, forwards or back, while the command ran.
            clock_step_s=round(wall - self._wall - duration_s, 6),
            oom_kills=after - before if before is not None and after is not None else None,
            survivors=survivors,
        )
        if self.content["oom_kills"]:
            self.event(
                "out of memory", f"the kernel killed {self.content['oom_kills']} process(es) of the host during the run"
            )
            # The host's count has the processes of everybody else, too. The group's own 0 says that somebody sent KILL.
            if state == "exited" and self.content["signal"] == signal.SIGKILL and group_oom_kills != 0:
                self.content["cause"] = "perhaps killed by the kernel: the host was out of memory meanwhile"
        if survivors and state == "exited":
            self.event("survivors ended", ", ".join(survivors))

    def confined(self, held: dict, used: dict, killed_here: bool) -> None:
        """`held`: how the command was confined, `used`: what its group used until its end.

        `killed_here`: this supervisor sent the KILL. Otherwise it was the kernel, even where somebody asked for the
        command's end before its own end was noticed.
        """
        self.content["limits"] = {**held, **used}
        if used.get("oom_kills"):
            import limits

            survived = killed_here or self.content["signal"] != signal.SIGKILL
            self.content.update(cause_kind=OOM, cause=limits.out_of_memory(self.content["limits"], survived))

    def usage(self, used: resource.struct_rusage) -> None:
        """Resource usage of all descendants that were waited for."""
        self.content.update(max_rss_bytes=used.ru_maxrss * 1024, cpu_user_s=used.ru_utime, cpu_system_s=used.ru_stime)

    def output(self, out, err) -> None:
        for name, copy in (("stdout", out), ("stderr", err)):
            self.content[f"{name}_bytes"] = copy.seen
            self.content[f"{name}_truncated"] = copy.truncated
            if copy.failure:
                self.event(f"{name} incomplete", f"output could not be written: {copy.failure.strerror}")
                if copy.failure.errno in FULL and not self.content["cause_kind"]:
                    cause = f"the disk of the work folder was full: {name} is incomplete; free some space there"
                    self.content.update(cause_kind=DISK_FULL, cause=cause)

    def reserve(self) -> None:
        """Set space aside, so that each record can be written even when the benchmark filled the disk."""
        with open(os.path.join(self.folder, _RESERVE), "wb") as file:
            file.write(os.urandom(_FOR_THE_LAST + 2 * _SLICE))  # two earlier records: prepared and running

    def save(self, durable: bool) -> None:
        """`durable`: this is the last record."""
        while True:
            try:
                self._write(durable)
                break
            except OSError as error:
                if error.errno not in FULL or not self._gave_back(everything=durable):
                    raise
        if durable and os.path.exists(os.path.join(self.folder, _RESERVE)):
            os.unlink(os.path.join(self.folder, _RESERVE))

    def _gave_back(self, everything: bool) -> bool:
        """Give space back to the disk. Returns False if none was left. The benchmark may take what no record needs."""
        reserve = os.path.join(self.folder, _RESERVE)
        left = os.path.getsize(reserve) if os.path.exists(reserve) else 0
        if left == 0:
            return False
        os.truncate(reserve, 0 if everything else max(0, left - _SLICE))
        if all(event["event"] != _FULL_DISK for event in self.content["events"]):
            self.event(_FULL_DISK, "the file system of the work folder is full")
        return True

    def _write(self, durable: bool) -> None:
        temporary = os.path.join(self.folder, f".{FILE}")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.content, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.rename(temporary, os.path.join(self.folder, FILE))


def safe_name(text: str) -> str:
    """A file name that stands for `text`."""
    import hashlib

    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]

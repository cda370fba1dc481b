"""A command with one fault: one of its system calls on a project's files fails, or kills it."""

import ctypes
import errno
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from waiting import until

from benchstudy.hosts.forks import exit_status

TESTS = Path(__file__).parent
MOST_S = 120
ARMED = "BENCHSTUDY_TEST_INJECTION"
PRELOADED = "BENCHSTUDY_TEST_SHIM"

# The numbers are those in injections.c.
MODES = ONCE, LASTING, SHORT, KILL = ("once", "lasting", "short", "kill")
_OF_WRITES = ("ENOSPC", "EDQUOT", "EROFS", "EIO")
# The calls that fail from then on: w(rite) s(ync) r(ename) (mk)d(ir) c(reate) l(ink) u(nlink) t(runcate) (ch)m(od),
# o(pen) and i(nput) of what is there, x: close. Files on a full disk can still be removed.
LASTING_KINDS = {
    "ENOSPC": "wsdclt", "EDQUOT": "wsdclt", "EROFS": "wsrdclutm", "EIO": "wsrdclutmoix", "EMFILE": "oc",
}  # fmt: skip
READS = "oi"
_PLAN = struct.Struct("@1024s32sqqii1024s")


@dataclass(frozen=True)
class Injection:
    """`at`: the number of the failing call on the project's files; `call` is its kind when they were counted."""

    at: int
    call: str
    error: str
    mode: str

    def __str__(self) -> str:
        return f"call {self.at} ({self.call}): {self.error if self.mode != KILL else ''} {self.mode}"


@dataclass(frozen=True)
class Ended:
    """How a command ended. `code` is negative for a signal, and None if it did not end in time."""

    code: int | None
    said: str
    hit: str


def errors_of(kind: str) -> tuple[str, ...]:
    """What a call of this kind can fail with."""
    found = ("EIO",) if kind in READS else _OF_WRITES
    return (*found, "EMFILE") if kind in LASTING_KINDS["EMFILE"] else found


def shim(folder: Path) -> Path:
    """injections.c, compiled."""
    made = folder / "injections.so"
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", made, TESTS / "injections.c", "-ldl"], check=True)
    return made


def run(
    root: Path, command: Callable[[], object], injection: Injection | None, plan: Path, *, of_many: bool = False
) -> Ended:
    """Run `command` in a fork, in the folder `root`. Without an injection, list its calls in the file next to `plan`.

    `of_many`: the command becomes a program, in whose processes the shim is armed as they start.
    """
    at, error, mode = (0, 0, 0) if injection is None else (injection.at, injection.error, injection.mode)
    number = getattr(errno, error) if error else 0
    lasting = LASTING_KINDS.get(str(error), "").encode()
    plan.write_bytes(_PLAN.pack(os.fsencode(root), lasting, 0, at, number, MODES.index(mode) if mode else 0, b""))
    trace, said = Path(f"{plan}.trace"), Path(f"{plan}.said")
    trace.unlink(missing_ok=True)
    if injection is None:
        trace.touch()

    def armed() -> object:
        _arm(plan, of_many)
        return command()

    pid = os.fork()
    if pid == 0:
        as_program(armed, root, said)
    descriptor = os.pidfd_open(pid)
    in_time = bool(select.select([descriptor], [], [], MOST_S)[0])
    os.close(descriptor)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if of_many:
        until(lambda: not working_in(root), MOST_S)  # its children end by themselves
    hit = _PLAN.unpack(plan.read_bytes())[-1].split(b"\0")[0].decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status) if in_time else None, said.read_text(errors="replace"), hit)


def working_in(root: Path) -> bool:
    """Whether a process has its working directory in this folder."""
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if Path(os.readlink(place)).is_relative_to(root):
                return True
        except OSError:  # it has just ended
            continue
    return False


def as_program(command: Callable[[], object], root: Path, said: Path) -> NoReturn:
    """End this fork as a program that does the command in the folder `root`, with its output in the file `said`."""
    status = 1
    try:
        streams = [os.open(os.devnull, os.O_RDONLY), *[os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)] * 2]
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(root)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        status = int(command() or 0)  # type: ignore[call-overload]
    except SystemExit as end:
        status = exit_status(end)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


def _arm(plan: Path, of_many: bool) -> None:
    # Without capabilities, read-only files are read-only for root, too.
    if os.geteuid() == 0 and ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()):
        os._exit(125)
    os.environ[ARMED] = str(plan)
    if not of_many and ctypes.CDLL(os.environ[PRELOADED]).inject_arm(os.fsencode(plan)):
        os._exit(125)

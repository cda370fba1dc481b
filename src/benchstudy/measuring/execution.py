"""A finished command of a trial: how it ended, and where its files are here."""

from dataclasses import dataclass
from pathlib import Path

from benchstudy.hosts.commands import Execution
from benchstudy.model.causes import Cause, failure_of
from benchstudy.model.errors import TrialFailed

_CAUSE_TAIL_BYTES = 600
# What the supervisor recorded, however the command ended.
_SAYS_IT_ALL = {Cause.OOM, Cause.DISK_FULL}


@dataclass(frozen=True)
class TrialExecution:
    """A finished command with its files: `stdout`, `stderr`, and what it wrote to `files`.

    `program`: the name that messages about its failures use.
    """

    execution: Execution
    stdout: Path
    stderr: Path
    files: Path
    program: str

    def require_success(self) -> None:
        """Raises TrialFailed, with how the command ended and the end of its output, unless it succeeded."""
        e = self.execution
        if e.state == "exited" and e.exit_status == 0 and e.cause_kind not in _SAYS_IT_ALL:
            return
        name = Path(self.program).name
        said = said_in(self.stderr) or (said_in(self.stdout) if e.state == "exited" else "")
        failure = failure_of(vars(e), name, said)
        if failure.cause in _SAYS_IT_ALL:
            raise TrialFailed(f"{name}: {e.cause}" if failure.cause is Cause.DISK_FULL else e.cause or "", failure)
        if e.state == "timeout":
            raise TrialFailed(f"{name} was ended at its timeout, after {e.duration_s:.0f} s", failure)
        if e.state != "exited":
            raise TrialFailed(f"{name}: {e.state}{f': {e.cause}' if e.cause else ''}{ending(said)}", failure)
        how = f"was ended by signal {e.signal}" if e.signal else f"exited with status {e.exit_status}"
        raise TrialFailed(f"{name} {how}{ending(said)}", failure)


def ending(said: str) -> str:
    return f": {said}" if said else ""


def said_in(path: Path) -> str:
    """The end of a file, on one line. Of a Python traceback, only the error: its lines of code are indented."""
    if not path.is_file() or not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _CAUSE_TAIL_BYTES))
        cut, text = file.tell() > 0, file.read().decode(errors="replace")
    # What is cut off may be the beginning of a secret, whose end would not be known as one.
    text = text.partition("\n")[2] if cut and "\n" in text.strip() else text
    lines = [line for line in text.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if frames:
        lines = [line for line in lines[frames[-1] :] if not line.startswith(" ")] or lines
    return " / ".join(line.strip() for line in lines)

"""One trial of a command: one call of command_runs on its host."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchstudy.families.command.config import COMMAND, CommandConfig, CommandSpec
from benchstudy.families.command.sources import kept_as
from benchstudy.hosts.agent import Command, RunningService
from benchstudy.measuring.trial import TrialContext
from benchstudy.model.causes import Cause, Failure
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case
from benchstudy.model.files import as_json
from benchstudy.model.services import PLACEHOLDER

_SAID = 300  # characters of the output's end in a message
_KEPT = 2000  # characters that the failure keeps
_TOOLS = "{{tools}}/"
Fill = Callable[[str], str]


def run_trial(case: Case, trial: TrialContext[CommandConfig]) -> None:
    """Run the command with its `prepare` and `cleanup` steps. Raises TrialFailed."""
    config = trial.config
    described = config.command(case.levels[COMMAND])
    assert described is not None, "each case belongs to a command of the study"
    command = described.placed(case.levels)
    with ExitStack() as stack:
        system = None
        if command.system is not None and command.system_for == "trial":
            system = stack.enter_context(trial.server(command.system))
        elif command.system is not None:
            system = trial.service(command.system)
        _execute(command, trial, _filler(trial, command, system))


def _execute(command: CommandSpec, trial: TrialContext[CommandConfig], fill: Fill) -> None:
    argv = [fill(text) for text in command.argv]
    texts, warm_up = {name: fill(text) for name, text in command.env.items()}, command.warm_up
    # Secrets must not be in the record. Everything else should be.
    secret = {name for name, text in command.env.items() if ".secret." in text}
    spec: dict[str, Any] = {
        "argv": ["sh", "-c", *argv] if command.shell else argv,
        "empty": ["sh", "-c", ":"] if command.shell else ["true"],
        "stdin": fill(command.stdin),
        "prepare": [[fill(text) for text in step] for step in command.prepare],
        "cleanup": [[fill(text) for text in step] for step in command.cleanup],
        "warm_up": {"runs" if isinstance(warm_up, int) else "seconds": warm_up} if warm_up else {},
        "repeat": command.repeat,
        "expect": command.expect.exit,
        "discard": command.discard_stdout,
        "max_bytes": command.max_output.bytes,
        "collect": {
            kept_as(name, source): source.file
            for name, source in (*command.metrics.items(), *command.series.items())
            if source.file is not None
        },
        "sizes": {name: metric.size_of for name, metric in command.metrics.items() if metric.size_of is not None},
        "named": _named(command.argv if command.shell else command.argv[1:]),
    }
    (trial.files / "spec.json").write_text(as_json(spec), encoding="utf-8")
    trial.note(command=shlex.join(argv), repeat=command.repeat)
    if command.loop is not None:
        trial.note(loop=command.loop)
    done = trial.execute(
        Command(
            trial.agent_argv("command_runs:main", role=command.role),
            stdin=json.dumps(spec).encode(),  # every user of the host can read arguments
            env={name: text for name, text in texts.items() if name not in secret},
            secret_env={name: text for name, text in texts.items() if name in secret},
            timeout_s=trial.config.timeout,
            # A run that is killed at its timeout does not remove the folder itself.
            cleanup=[["rm", "-rf", "--", "work"]],
            program=spec["argv"][0],
        ),
        role=command.role,
    )
    done.require_success()
    answer = json.loads(done.stdout.read_bytes())
    if answer.get("named_files"):
        trial.note(named_files=answer["named_files"])
    if answer.get("stopped"):
        raise _stopped(answer["stopped"])
    if command.expect.stdout is not None:
        for number in range(1, command.repeat + 1):
            _require(command.expect.stdout, done.files / f"run-{number}" / "stdout", argv[0])


def _named(arguments: Sequence[str]) -> list[str]:
    """Absolute paths among the words of arguments, such as that of a script. Those of the kernel are left out."""
    words = (word for text in arguments for word in re.split(r"[\s=,;'\"]+", text))
    return list(dict.fromkeys(w for w in words if w.startswith("/") and not w.startswith(("/proc/", "/sys/", "/dev/"))))


def _filler(trial: TrialContext[CommandConfig], command: CommandSpec, system: RunningService | None) -> Fill:
    """Return a function that fills in placeholders of services, and paths of provisioned programs."""

    def value(match: re.Match[str]) -> str:
        owner, _, name = match[1].partition(".")
        running = system if owner == "system" else trial.service(owner)
        assert running is not None, "the study was checked for that"
        return running.fill(f"{{{{{name}}}}}")

    def fill(text: str) -> str:
        if text.startswith(_TOOLS):
            return trial.tool_path(text.removeprefix(_TOOLS), command.role)
        return PLACEHOLDER.sub(value, text)

    return fill


def _stopped(said: Mapping[str, Any]) -> TrialFailed:
    """Return the failure that ended the trial, from the answer of the host."""
    what, program, number, status = said["what"], said["program"], said["signal"], said["exit_status"]
    words = said["said"].strip()
    told = f": {' / '.join(words[-_SAID:].splitlines())}" if words else ""
    if what == "files":
        return TrialFailed(f"{program} cannot be measured{told}", Failure(cause=Cause.TOLD, name=program, said=words))
    step = "" if what in ("run", "start") else f"{what}: "
    if number is None and status is None:
        failure = Failure(cause=Cause.START_FAILED, name=program, said=words or None)
        return TrialFailed(f"{step}{program} cannot be started{told}", failure)
    how = f"was ended by signal {number}" if number else f"exited with status {status}"
    cause = Cause.SETUP_FAILED if step else Cause.SIGNAL if number else Cause.EXITED
    failure = Failure(cause=cause, name=program, exit_status=status, signal=number, said=words or None)
    return TrialFailed(f"{step}{program} {how}{told}", failure)


def _require(pattern: str, stdout: Path, program: str) -> None:
    text = stdout.read_bytes().decode(errors="replace")
    if re.search(pattern, text, re.MULTILINE):
        return
    said = text.strip()
    words = " / ".join(said[-_SAID:].splitlines()) or "nothing"
    raise TrialFailed(
        f"{program} did not print the expected text ({pattern!r}), but {words}",
        Failure(cause=Cause.UNEXPECTED, name=program, said=said[-_KEPT:] or None),
    )

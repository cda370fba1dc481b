"""Programs that package managers lack, built on a host below its work folder: what deploy.go_tool() asks for."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchstudy.hosts.remote import Remote, RemoteError, RemoteProcess
from benchstudy.model.files import json_of
from benchstudy.provisioning import toolbuilder

# A folder on the hosts that keeps builds by what they are made from, shared by several work folders of one machine,
# such as those of a test suite. Without it, nothing outside a host's work folder is written.
STORE_VARIABLE = "BENCHSTUDY_TOOL_STORE"
# The builder reports progress every few seconds in any step, but is silent while it waits for another build.
_SILENCE_S = toolbuilder.BUILD_TIMEOUT_S
_START = "import sys; exec(compile(sys.stdin.buffer.readline().decode('unicode_escape'), 'toolbuilder', 'exec'))"


def missing_tools(remote: Remote, tools: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The tools still to be built on the host, and roughly how many seconds each takes: as seen, or as declared."""
    if not tools:
        return {}
    # All of them if there is no Python yet to look with.
    expected: dict[str, float | None] = {**toolbuilder.declared_s(tools)}
    with _builder(remote, tools, look=True) as builder:
        while line := builder.read_line(_SILENCE_S):
            event = _event(remote, line)
            expected[event["tool"]] = event["takes_s"]
    return {name: takes_s for name, takes_s in expected.items() if takes_s is not None}


def _event(remote: Remote, line: bytes) -> dict[str, Any]:
    """What the builder says in a line. Raises RemoteError if it is not the builder that speaks."""
    event = None
    with suppress(ValueError):
        event = json_of(line)
    if not isinstance(event, dict) or not event.keys() & {"log", "tool"}:
        raise RemoteError(
            f"{remote.name}: {remote.host.python} there says {line[:200]!r} instead of building programs; let it print "
            f"nothing of its own, or name another as hosts.{remote.name}.python"
        )
    return event


def downloads(tool: Mapping[str, Any]) -> str:
    """What its build fetches at most, in words: modules that are not compiled are not fetched."""
    if tool["kind"] == "python":
        pinned = sum("==" in line for line in tool["requirements"].splitlines())
        return f"{pinned} wheel{'s' * (pinned != 1)}"
    modules = {line.split()[0] for line in tool["pins"].get("go.sum", "").splitlines() if line}
    return f"at most {len(modules)} Go modules" if modules else "its Go modules"


@contextmanager
def _builder(remote: Remote, tools: Sequence[Mapping[str, Any]], **how: Any) -> Iterator[RemoteProcess]:
    """The builder, running on the host, with its request for the tools."""
    wanted = [{part: tool[part] for part in tool if part != "why"} for tool in tools]
    store = os.environ.get(STORE_VARIABLE) or None
    request = {"folder": f"{remote.expand(remote.host.work_dir)}/tools", "store": store, "tools": wanted, **how}
    # Not part of the agent: a changed word in here must not look like another instrument.
    program = Path(toolbuilder.__file__).read_text().encode("unicode_escape")
    with remote.open([remote.host.python, "-I", "-c", _START]) as builder:
        # Its input stays open. When this process ends for any reason, the input ends, and so does the build.
        builder.write_line(program)
        builder.write_line(json.dumps(request).encode())
        yield builder


def ensure_tools(
    remote: Remote, tools: Sequence[Mapping[str, Any]], log: Callable[[str], None], *, keep_downloads: bool = False
) -> tuple[dict[str, dict[str, Any] | None], int, list[str]]:
    """Provide `tools` (as deploy.py describes them) on the host, built there if necessary.

    `keep_downloads`: keep what builds download and compile along the way, because others will build there soon.
    Returns facts by name (version; sha256 of the program, for a Python tool of its launcher, and contents_sha256 of
    all it launches; path; what it was built with; None when it could not be built), how many
    were changed, and the problems, each with tool, step and cause. A failure does not stop the others.
    """
    facts: dict[str, dict[str, Any] | None] = {tool["name"]: None for tool in tools}
    if not tools:
        return {}, 0, []
    reasons = {tool["name"]: tool["why"] for tool in tools}
    changed, problems, answered = 0, [], set()
    with _builder(remote, tools, keep_downloads=keep_downloads) as builder:
        while line := builder.read_line(_SILENCE_S):
            event = _event(remote, line)
            if "log" in event:
                log(event["log"])
                continue
            answered.add(event["tool"])
            if "problem" in event:
                problems.append(f"{reasons[event['tool']]}: {event['problem']}")
            else:
                facts[event["tool"]] = event["facts"]
                changed += event["changed"]
        status = builder.wait(10.0) if line is not None else None
        if status != 0:
            builder.kill()
            how = f"ended with status {status}" if status is not None else f"was silent for {_SILENCE_S:.0f} s"
            tail = builder.stderr_tail.strip().splitlines()[-1:] or ["no message"]
            missing = ", ".join(name for name in facts if name not in answered) or "the tools"
            problems.append(f"{missing}: the builder ({remote.host.python}) {how}: {tail[0]}")
    return facts, changed, problems

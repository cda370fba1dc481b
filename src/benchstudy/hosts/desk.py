"""The controller's side of agent/desk.py: quick questions, answered by one process that is already running.

Why: docs/decisions/002-desk-of-the-agent.md.
"""

import base64
import json
import threading
from collections.abc import Callable

from benchstudy.hosts.remote import CommandTimeout, Completed, Remote, RemoteProcess
from benchstudy.model.files import json_of

_START_S = 30.0


class HostDesk:
    """Answers one question at a time. Questions that come meanwhile, or if it fails, get a process of their own.

    `agent_argv`: builds the command line of an agent command.
    """

    def __init__(self, remote: Remote, agent_argv: Callable[..., list[str]]):
        self._remote, self._agent_argv = remote, agent_argv
        self._free = threading.Lock()
        self._process: RemoteProcess | None = None
        self._generation = -1
        self._works = True

    def ask(self, argv: tuple[str, ...], given: bytes, timeout_s: float, generation: int) -> Completed:
        """Run the agent's command `argv` over the connection of this `generation`.

        Raises ConnectionLost, CommandTimeout.
        """
        if self._works and self._free.acquire(blocking=False):
            try:
                answer = self._ask(argv, given, timeout_s, generation)
            except BaseException:
                self._drop()  # its next output would be the answer to this question
                raise
            finally:
                self._free.release()
            if answer is not None:
                return answer
        return self._remote.run(self._agent_argv(*argv), input=given, timeout_s=timeout_s, check=False)

    def _ask(
        self, argv: tuple[str, ...], given: bytes, timeout_s: float, generation: int, again: bool = True
    ) -> Completed | None:
        """None if there is no desk, or if it died twice without an answer. As after a lost connection, the caller
        cannot know how far it got, and may ask again.
        """
        if self._process is None or self._generation != generation:
            self._open(generation)
        if self._process is None:
            return None
        command, *arguments = argv
        question = {"command": command, "arguments": arguments, "input": base64.b64encode(given).decode()}
        self._process.write_line(json.dumps(question).encode())
        line = self._process.read_line(timeout_s)
        if line is None:
            self._process.kill()
            raise CommandTimeout(f"{self._remote.name}: the agent's {command} was ended after {timeout_s:g} s")
        if not line.endswith(b"\n"):  # it died, perhaps in the middle of its answer
            self._drop()
            return self._ask(argv, given, timeout_s, generation, again=False) if again else None
        said = json_of(line)
        return Completed(said["status"], said["stdout"].encode(), said["stderr"].encode())

    def _open(self, generation: int) -> None:
        self._drop()
        self._generation = generation
        process = self._remote.open(self._agent_argv("serve"))
        if "ready" in json_of(process.read_line(_START_S) or b"{}"):
            self._process = process
        else:  # without a desk a host is slower, but works
            self._works = False
            process.close()

    def _drop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

"""Answers one command after another. Starting Python for each would take ten times as long as most answers do."""

from __future__ import annotations

import base64
import importlib
import os
import sys
import traceback
from contextlib import suppress

import wire


def serve(arguments: list[str]) -> None:
    """`serve`: for each line {"command", "arguments", "input" (base64)} on stdin, prints one line {"status", "stdout",
    "stderr"} when the command has ended. The first line is {"ready": true}. Ends when its input does.
    """
    from __main__ import located, main

    if not hasattr(os, "memfd_create"):
        raise wire.AgentError("this host's C library is too old for memfd_create()")
    wire.emit({"ready": True})
    lines = wire.Lines()
    while (line := lines.next()) is not None:
        request = wire.message(line)
        module, function = located(request["command"])
        with suppress(ImportError):  # the command itself reports what is wrong
            if module and function:  # imported here, so that later forks find it imported
                importlib.import_module(module)
        wire.emit(_answer(main, [request["command"], *request["arguments"]], base64.b64decode(request["input"])))


def _answer(main, argv: list[str], given: bytes) -> dict:
    """Run a command in its own process, so that what it changes, leaks or breaks ends with it."""
    streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        with open(streams[0], "wb", closefd=False) as stdin:
            stdin.write(given)
        os.lseek(streams[0], 0, os.SEEK_SET)
        pid = os.fork()
        if pid == 0:
            _become(main, argv, streams)
        _, ended = os.waitpid(pid, 0)
        return {
            "status": os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else -os.WTERMSIG(ended),
            "stdout": _content(streams[1]),
            "stderr": _content(streams[2]),
        }
    finally:
        for stream in streams:
            os.close(stream)


def _become(main, argv: list[str], streams: list[int]) -> None:
    status = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        status = main(argv)
        sys.stdout.flush()  # os._exit does not
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _content(stream: int) -> str:
    size = os.fstat(stream).st_size
    return os.pread(stream, size, 0).decode("utf-8", "replace")

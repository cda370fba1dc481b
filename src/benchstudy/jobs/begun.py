"""`python -m benchstudy.jobs.begun …` is `python -m snakemake …` that answers an early Ctrl-C in a word, and a wrong
option in a line.

Snakemake imports for a second before it reads the workflow, which sets a handler of its own
(`snakemake_adapter.end_with_ctrl_c`). Until then, a Ctrl-C would print a traceback of an import. To a wrong option it
answers with the names of all of its options.
"""

import argparse
import runpy
import signal
import sys
from typing import Any, NoReturn


def _end(number: int, frame: Any) -> None:
    print("interrupted", file=sys.stderr)
    raise SystemExit(130)


def _refuse(self: argparse.ArgumentParser, message: str) -> NoReturn:
    """Says what is wrong without the usage, which is two screens long."""
    self.exit(2, f"benchstudy run: {message}; `benchstudy run --help-all` shows all options\n")


if __name__ == "__main__":
    argparse.ArgumentParser.error = _refuse  # type: ignore[method-assign]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script may have it ignored
        signal.signal(signal.SIGINT, _end)
    # Blocked since the command replaced itself with this process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)

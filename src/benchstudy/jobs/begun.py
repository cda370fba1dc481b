"""`python -m benchstudy.jobs.begun …` is `python -m snakemake …` that answers an early Ctrl-C in a word.

Snakemake imports for a second before it reads the workflow, which sets a handler of its own
(`snakemake_adapter.end_with_ctrl_c`). Until then, a Ctrl-C would print a traceback of an import.
"""

import runpy
import signal
import sys
from typing import Any


def _end(number: int, frame: Any) -> None:
    print("interrupted", file=sys.stderr)
    raise SystemExit(130)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script may have it ignored
        signal.signal(signal.SIGINT, _end)
    # Blocked since the command replaced itself with this process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)

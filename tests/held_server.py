"""A run of its own for tests/test_tiers.py, which interrupts it: a test that starts a server and waits."""

import os
import subprocess
import time
from pathlib import Path


def test_a_server_runs():
    with subprocess.Popen(["sleep", "300"]) as server:
        Path(os.environ["HELD_SERVER"]).write_text(str(server.pid))
        time.sleep(300)

"""How many leaves per second logbench itself can write, against a log that does next to nothing.

    python benchmarks/log_writer_ceiling.py [RATE [SECONDS]]

The writer has one processor for itself, and the null log has another. The offered rate is higher than both can do. What
is accepted is the ceiling: the writer did not limit a result of half of it or less. Prints JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tessera_logs import make_keys, provisioned

from benchstudy.families.log_write.logbench import parse_logbench

IN_FLIGHT = (16, 256, 4096)


def ceiling(programs: Path, folder: Path, rate: float, seconds: float, in_flight: int) -> dict[str, float]:
    writer, server = sorted(os.sched_getaffinity(0))[:2]
    key, public_key = make_keys(programs, folder)
    argv = [programs / "logbench", "null", "--listen", "127.0.0.1:0", "--private-key", key]
    null = subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, preexec_fn=partial(os.sched_setaffinity, 0, {server})
    )
    try:
        url = "http://" + null.stderr.readline().split()[-1]
        config = {"read_url": url, "write_urls": [url], "public_key": public_key, "rate_per_s": rate}
        config |= {"warm_up_s": 1, "duration_s": seconds, "max_in_flight": in_flight}
        (folder / "config.json").write_text(json.dumps(config))
        argv = [programs / "logbench", "write", "--config", folder / "config.json", "--out", folder / "result.json"]
        subprocess.run(argv, check=True, preexec_fn=partial(os.sched_setaffinity, 0, {writer}))
    finally:
        null.kill()
        null.wait()
        null.stderr.close()
    result = parse_logbench((folder / "result.json").read_text())
    cpu_s = result.cpu_user_s + result.cpu_system_s
    return {
        "in_flight": in_flight,
        "accepted_per_s": result.window.accepted / result.duration_s,
        "processor_share": cpu_s / result.duration_s,
        "cpu_us_a_leaf": 1e6 * cpu_s / result.window.sent,
    }


def main(rate: float = 100_000.0, seconds: float = 5.0) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("one processor is not enough: the writer would be measured together with the log")
    with tempfile.TemporaryDirectory(prefix="bs-") as temporary:
        folder = Path(temporary)
        programs = provisioned(folder, "logbench")
        print(json.dumps([ceiling(programs, folder, rate, seconds, in_flight) for in_flight in IN_FLIGHT], indent=1))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))

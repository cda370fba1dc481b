"""Takes naps on the host: `main WAY LENGTH_S NAPS` prints JSON with what each lasted, in seconds."""

from __future__ import annotations

import select
import time

import wire


def main(arguments: list[str]) -> int:
    way, length, naps = arguments[0], float(arguments[1]), int(arguments[2])
    lasted = []
    for _ in range(naps):
        start = time.perf_counter()
        if way == "sleep":
            time.sleep(length)
        else:
            select.select([], [], [], length)
        lasted.append(time.perf_counter() - start)
    wire.emit({"sixth": 1, "way": way, "length_s": length, "lasted_s": lasted})
    return 0

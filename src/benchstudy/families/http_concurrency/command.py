"""The command lines of the load generators.

Secrets are passed in the environment, which only the user of the process can read. ab takes headers only from its
command line, so it only gets tokens of our own servers, which expire with the server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchstudy.families.http_concurrency.config import Expect, Generator
from benchstudy.families.http_concurrency.scripts import SCRIPTS, script_environment
from benchstudy.model.clients import part_of

FACTS = "http.json"  # facts about the load, beside the folders of the trial's commands
LOAD = "load"  # the folder with the output of the generator
AB_PERCENTILES, AB_REQUESTS = "ab.csv", "ab.tsv"
_FILES_BESIDE_CONNECTIONS = 128  # libraries, output, event loops
_AB_TIMEOUT_S = 30.0  # ab's default, without -s


@dataclass(frozen=True)
class Load:
    """One run of a generator against one address. Exactly one of `concurrency` and `rate_per_s` is set.

    `warm_up`: the run that does not count. `headers`: with all placeholders filled in, including secrets. `folder`: the
    folder of the scripts on the host. `program`: the path of the tool there. `first`: the first number of a walk.
    Client number `client` (from 1) of `clients` sends its part of the load.
    """

    generator: Generator
    program: str
    folder: str
    base: str
    path: str
    expect: Expect
    headers: Mapping[str, str] = field(repr=False)
    concurrency: int | None
    rate_per_s: float | None
    same_length: bool = True
    first: int = 0
    warm_up: bool = False
    client: int = 1
    clients: int = 1

    @property
    def duration_s(self) -> float | None:
        if self.warm_up:
            return self.generator.warm_up if isinstance(self.generator.warm_up, float) else None
        return self.generator.duration

    @property
    def connections(self) -> int:
        return part_of(self.concurrency or 1, self.client, self.clients)

    @property
    def requests(self) -> int | None:
        asked = self.generator.requests
        if self.warm_up and isinstance(self.generator.warm_up, int):
            asked = self.generator.warm_up
        return None if asked is None else max(part_of(asked, self.client, self.clients), self.connections)

    @property
    def threads(self) -> int | None:
        """The number of threads that can work at once; None: as many as there are CPUs."""
        if self.generator.tool == "wrk":
            # wrk gives each thread as many connections, and opens none of the remainder, which it counts all the same.
            most = min(self.generator.threads, self.connections)
            return next(n for n in range(most, 0, -1) if self.connections % n == 0)
        return 1 if self.generator.tool == "ab" else None

    @property
    def open_files(self) -> int:
        most = self.connections if self.concurrency else self.generator.max_in_flight
        return most + _FILES_BESIDE_CONNECTIONS

    def argv(self) -> list[str]:
        return {"ab": self._ab, "wrk": self._wrk, "k6": self._k6}[self.generator.tool]()

    def _ab(self) -> list[str]:
        timeout_s = self.generator.request_timeout
        return [
            self.program,
            "-k",
            *(["-r"] if self.generator.survive_errors else []),
            *([] if self.same_length else ["-l"]),
            *(["-s", f"{timeout_s:.0f}"] if timeout_s != _AB_TIMEOUT_S else []),
            "-c",
            str(self.connections),
            # -t sets the number of requests itself, unless -n comes after it.
            *(["-t", f"{self.duration_s:.0f}"] if self.duration_s else []),
            "-n",
            str(self.requests),
            "-g",
            AB_REQUESTS,
            "-e",
            AB_PERCENTILES,
            *(part for name, value in self.headers.items() for part in ("-H", f"{name}: {value}")),
            self.base + self.path,
        ]

    def _wrk(self) -> list[str]:
        return [
            self.program,
            "--threads",
            str(self.threads),
            "--connections",
            str(self.connections),
            "--duration",
            f"{self.duration_s:.0f}s",
            "--timeout",
            f"{self.generator.request_timeout:.0f}s",
            "--latency",
            "--script",
            f"{self.folder}/{SCRIPTS['wrk'].name}",
            self.base,
        ]

    def _k6(self) -> list[str]:
        # Without --address "", k6 listens on a fixed port, on which two runs on one host would collide.
        script = f"{self.folder}/{SCRIPTS['k6'].name}"
        return [self.program, "run", "--quiet", "--no-color", "--address", "", *self._segment(), script]

    def _segment(self) -> list[str]:
        """The client's part of the schedule of all arrivals, which k6 numbers globally."""
        if self.clients == 1:
            return []
        edges = ["0", *(f"{edge}/{self.clients}" for edge in range(1, self.clients)), "1"]
        own = ":".join(edges[self.client - 1 : self.client + 1])
        return ["--execution-segment", own, "--execution-segment-sequence", ",".join(edges)]

    def environment(self) -> dict[str, str]:
        """Return the environment of the tool and its script. The variable HEADERS can contain secrets.

        Raises ValueError for a header with a line break.
        """
        if self.generator.tool == "ab":
            return {"LC_ALL": "C"}
        settings = {
            "STATUS": self.expect.status,
            # With a text, k6 compares the length with that of Content-Length.
            "LENGTH": self.expect.length if self.same_length else None,
            "TEXT": self.expect.text or None,
        }
        own = self._wrk_settings() if self.generator.tool == "wrk" else self._k6_settings()
        # GOGC halves the cost of k6's garbage collector, which competes with requests for the generator's CPUs.
        of_k6 = {"GOGC": "400", "K6_NO_USAGE_REPORT": "true"} if self.generator.tool == "k6" else {}
        return {"LC_ALL": "C", **script_environment(settings | own, self.headers), **of_k6}

    def _wrk_settings(self) -> dict[str, object]:
        # The numbers are interleaved over the threads of all clients: each thread has its own offset.
        threads = self.generator.threads if self.clients > 1 else self.threads or 1
        return {
            "PATH": self.path,
            "FIRST": self.first + (self.client - 1) * threads,
            "THREADS": threads * self.clients,
            "CONNECTIONS": self.connections,
            "CHECK": None if self.generator.check_answers else "none",
        }

    def _k6_settings(self) -> dict[str, object]:
        assert self.rate_per_s is not None and self.duration_s is not None, "an open loop has both"
        return {
            "URL": self.base + self.path,
            "FIRST": self.first,
            "RATE": repr(float(self.rate_per_s)),  # all digits, which tell 100/min from 1.667/s
            "DURATION": f"{self.duration_s:.12g}",
            "TIMEOUT": f"{self.generator.request_timeout:.12g}",
            "VUS": self.generator.max_in_flight,
        }

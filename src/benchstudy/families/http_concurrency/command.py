"""The command lines of the load generators.

Secrets travel in the environment, which only the user of the process can read. ab takes headers from its command line
alone, so it is only ever given tokens of our own servers, which live as long as the session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchstudy.families.http_concurrency.config import Expect, Generator
from benchstudy.families.http_concurrency.scripts import SCRIPTS, k6_environment, wrk_environment

FACTS = "http.json"  # what was found around the load, beside the folders of the trial's commands
LOAD = "load"  # the folder of what the generator left
AB_PERCENTILES, AB_REQUESTS = "ab.csv", "ab.tsv"
HEADERS = "BENCHSTUDY_HTTP_HEADERS"  # the one variable that can hold a secret
_FILES_BESIDE_CONNECTIONS = 128  # libraries, output, event loops
_AB_TIMEOUT_S = 30.0  # without -s


@dataclass(frozen=True)
class Load:
    """One run of a generator against one address: exactly one of `concurrency` and `rate_per_s` is set.

    `warm_up`: the run whose numbers nobody reads. `headers`: filled in, secrets and all. `folder`: of the scripts on
    the host. `program`: where the tool is there. `first`: of the numbers that a walk puts into the path.
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

    @property
    def duration_s(self) -> float | None:
        if self.warm_up:
            return self.generator.warm_up if isinstance(self.generator.warm_up, float) else None
        return self.generator.duration

    @property
    def requests(self) -> int | None:
        if self.warm_up and isinstance(self.generator.warm_up, int):
            return max(self.generator.warm_up, self.concurrency or 1)
        return self.generator.requests

    @property
    def threads(self) -> int | None:
        """Of the generator, as far as they can work at once; None: as many as there are CPUs."""
        if self.generator.tool == "wrk":
            return min(self.generator.threads, self.concurrency or 1)
        return 1 if self.generator.tool == "ab" else None

    @property
    def open_files(self) -> int:
        return (self.concurrency or self.generator.max_in_flight) + _FILES_BESIDE_CONNECTIONS

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
            str(self.concurrency),
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
            str(self.concurrency),
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
        # --address "": without it k6 listens on a fixed port, where two runs on one host would meet.
        return [self.program, "run", "--quiet", "--no-color", "--address", "", f"{self.folder}/{SCRIPTS['k6'].name}"]

    def environment(self) -> dict[str, str]:
        """What the tool and its script read; of it, HEADERS can hold secrets."""
        known: dict[str, Any] = {
            "headers": self.headers,
            "status": self.expect.status,
            "length": self.expect.length if self.same_length else None,
            "text": self.expect.text,
            "first_number": self.first,
        }
        if self.generator.tool == "wrk":
            check, threads = self.generator.check_answers, self.threads or 1
            given = wrk_environment(
                [self.path], threads=threads, connections=self.concurrency or 1, check=check, **known
            )
        elif self.generator.tool == "k6":
            given = k6_environment(
                [self.base + self.path],
                rate=self.rate_per_s or 0.0,
                duration_s=self.duration_s or 0.0,
                vus=self.generator.max_in_flight,
                timeout_s=self.generator.request_timeout,
                **known,
            )
        else:
            given = {}
        return {"LC_ALL": "C", **given}

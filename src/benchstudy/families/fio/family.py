"""Many small reads and writes, after GitLab's page on file system benchmarking.

The family has the page's fio command, the latency run that it lacks, further fio jobs, and the page's naive test with
1001 small files. See docs/families/fio.md.
"""

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from benchstudy.families.fio.config import FioConfig, Job
from benchstudy.families.fio.metrics import METRICS
from benchstudy.families.fio.place import FILE
from benchstudy.families.shared import clients
from benchstudy.model import services
from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.model.family import Case, Family, Loop
from benchstudy.model.metrics import Metric
from benchstudy.model.units import Size

_OUTPUT = ("--output-format=json+", "--output=fio.json")
_TIME = re.compile(r"--(?:runtime|ramp_time)=(\d+)ms")


class Fio(Family[FioConfig]):
    name = "fio"
    title = "Random I/O and small files"
    Config = FioConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    factors: ClassVar[tuple[str, ...]] = ("directory", "test", "job", CLIENTS)
    numeric_levels: ClassVar = {CLIENTS: (NUMBER, int)}
    runs_on: ClassVar[str | None] = "sut"
    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "latency_histogram": {
            "op": "String",
            "kind": "String",
            "lower_s": "Float64",
            "upper_s": "Float64",
            "count": "Int64",
        },
        "small_file_operations": {"op": "String", "index": "Int64", "duration_s": "Float64"},
        clients.SERIES: clients.SCHEMA,
    }

    def loop(self, levels: Mapping[str, str]) -> Loop | None:
        """fio starts an operation when one of `iodepth` has ended. Loops over small files are timed as a whole."""
        return None if levels.get("test") == "small-files" else "closed"

    def warmed_up(self, argv: str, files: Collection[str], phases: Collection[str]) -> bool:
        return "--ramp_time=" in argv

    def declared_s(self, case: Case) -> float | None:
        times = [int(found[1]) / 1000 for a in case.definition.get("argv", ()) if (found := _TIME.fullmatch(a))]
        return sum(times) if times else None

    def cases(self, config: FioConfig) -> list[Case]:
        jobs: list[tuple[str, list[str], Size]] = []
        for page_job in config.page_jobs:
            argv = page_argv(config.size, config.runtime, latencies=page_job == "gitlab-latency")
            jobs.append((page_job, argv, config.size))
        jobs += [(job.name, job_argv(job, config), job.size or config.size) for job in config.jobs]
        found = []
        for directory in config.directories:
            where = {"path": directory.path, "services": services.definition(config.services, directory.service)}
            for name, argv, size in jobs:
                levels = {"directory": directory.name, "test": "fio", "job": name}
                found.append(Case(levels, {**where, "argv": argv, "size_bytes": size.bytes}))
            for variant in config.small_files:
                found.append(Case({"directory": directory.name, "test": "small-files", "job": variant}, where))
        return found


def page_argv(size: Size, runtime: float | None, *, latencies: bool) -> list[str]:
    """The page's command. `latencies` leaves out the option that switches them off; nothing else differs."""
    return [
        "fio",
        "--randrepeat=1",
        "--ioengine=libaio",
        "--direct=1",
        *([] if latencies else ["--gtod_reduce=1"]),
        "--name=test",
        "--bs=4k",
        "--iodepth=64",
        "--readwrite=randrw",
        "--rwmixread=75",
        f"--size={_fio_size(size)}",
        f"--filename={FILE}",
        *_run_time(runtime),
        *_OUTPUT,
    ]


def job_argv(job: Job, config: FioConfig) -> list[str]:
    """The command of a job of the study's own."""
    optional = {"rwmixread": job.rwmixread, "fsync": job.fsync, "fdatasync": job.fdatasync}
    runtime = config.runtime if job.runtime is None else job.runtime
    return [
        "fio",
        f"--name={job.name}",
        f"--ioengine={job.engine}",
        f"--direct={int(job.direct)}",
        f"--bs={_fio_size(job.bs)}",
        f"--iodepth={job.iodepth}",
        f"--readwrite={job.rw}",
        *(f"--{option}={value}" for option, value in optional.items() if value is not None),
        f"--size={_fio_size(job.size or config.size)}",
        f"--filename={FILE}",
        *_run_time(runtime),
        *([f"--ramp_time={_milliseconds(job.ramp_time)}"] if job.ramp_time else []),
        # Without group_reporting, fio reports each process separately, and percentiles cannot be combined.
        *([f"--numjobs={job.numjobs}", "--group_reporting=1"] if job.numjobs > 1 else []),
        *(f"--{option}={_setting(value)}" for option, value in job.extra.items()),
        *_OUTPUT,
    ]


def _run_time(runtime: float | None) -> list[str]:
    return [] if runtime is None else [f"--runtime={_milliseconds(runtime)}", "--time_based=1"]


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _setting(value: str | int | float | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _fio_size(size: Size) -> str:
    """Spell a size like the page, with fio's binary k, M and G: 4G; plain bytes if none fits."""
    for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if size.bytes and size.bytes % 1024**power == 0:
            return f"{size.bytes // 1024**power}{unit}"
    return str(size.bytes)


FAMILY = Fio()

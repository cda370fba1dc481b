"""Configuration of the family fio: directories, the page's jobs, and further jobs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from benchstudy.families.shared.folders import FileSystems, misplaced
from benchstudy.model.clients import StorageOfClients
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import Name, require_known
from benchstudy.model.references import unfilled
from benchstudy.model.services import check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, PositiveSizeField, Size, TimeoutField

PageJob = Literal["gitlab", "gitlab-latency"]
SmallFiles = Literal["shell-loop", "no-fork"]
Engine = Literal["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap"]
Pattern = Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
_PAGE_BLOCK = Size("4KiB")  # of the page's command
MIXED_PATTERNS = ("rw", "readwrite", "randrw")

# Options that only shape I/O on the file of the trial. This is an allowlist, because fio can also run shell commands
# (exec_prerun), load libraries (ioengine=external:…) and write anywhere (write_lat_log), and new versions add more.
EXTRA_OPTIONS = frozenset(
    {
        # how a block is chosen and what it holds
        "blockalign", "bs_unaligned", "bsrange", "bssplit", "buffer_compress_percentage", "buffer_pattern",
        "dedupe_percentage", "end_fsync", "fallocate", "fsync_on_close", "invalidate",
        "norandommap", "number_ios", "io_size", "offset", "overwrite", "percentage_random",
        "random_distribution", "random_generator", "randrepeat", "randseed", "refill_buffers", "rw_sequencer",
        "scramble_buffers", "softrandommap", "sync", "sync_file_range", "unlink", "verify", "verify_fatal",
        "zero_buffers", "do_verify", "create_fsync",
        # how operations are submitted and paced
        "atomic", "fixedbufs", "hipri", "iodepth_batch", "iodepth_batch_complete_max",
        "iodepth_batch_complete_min", "iodepth_batch_submit", "iodepth_low", "io_submit_mode",
        "latency_percentile", "latency_target", "latency_window", "max_latency", "nonvectored", "rate",
        "rate_iops", "rate_min", "rate_process", "registerfiles", "rwmixwrite", "sqthread_poll", "startdelay",
        "thinktime", "thinktime_blocks", "thread", "uncached",
        # what is recorded
        "clat_percentiles", "continue_on_error", "disable_clat", "disable_lat", "disable_slat", "gtod_reduce",
        "lat_percentiles", "percentile_list", "slat_percentiles", "clocksource",
        # steady state
        "steadystate", "steadystate_duration", "steadystate_ramp_time",
        # processes
        "cpus_allowed", "cpus_allowed_policy", "ioprio", "prio", "prioclass", "nice", "numa_cpu_nodes",
        # the buffer memory
        "iomem_align", "lockmem",
    }
)  # fmt: skip

# Characters with a meaning for fio inside a file name or an option: separators, quotes, variables, comments.
UNSAFE_IN_PATH = re.compile(r"""[\x00-\x1f\x7f:"'\\$#;]""")
UNSAFE_CHARACTERS = """: " ' \\ $ # ; and control characters"""


class Directory(Strict):
    """A folder on the file system to measure."""

    name: Name
    path: str = Field(description="absolute or below ~/; may contain {{placeholders}} of the service")
    expect_fs: FileSystems = Field([], description="allowed file system types; the default is any")
    service: Name | None = Field(None, description="service that must run first, such as a mount")

    @model_validator(mode="after")
    def _harmless(self) -> "Directory":
        bad = UNSAFE_IN_PATH.search(self.path)
        if bad or not self.path.startswith(("/", "~/", "{{")) or ".." in Path(self.path).parts:
            raise ValueError(
                f"path {self.path!r}: give an absolute path, or one below ~/, without '..' and any of "
                + UNSAFE_CHARACTERS
            )
        if "{{" in self.path and self.service is None:
            raise ValueError(f"path {self.path!r} has a placeholder: give the `service` that fills it in")
        return self


class Job(Strict):
    """One fio job that the study defines."""

    name: Name
    rw: Pattern
    bs: PositiveSizeField = Size("4KiB")
    iodepth: int = Field(1, ge=1, le=65_536)
    engine: Engine = "libaio"
    direct: bool = True
    rwmixread: int | None = Field(None, ge=0, le=100, description="percentage of reads, for mixed patterns")
    size: PositiveSizeField | None = Field(None, description="size of the file; the default is the family's")
    runtime: TimeoutField | None = Field(None, description="the default is the family's")
    ramp_time: DurationField | None = Field(None, description="time to run before anything is recorded")
    fsync: int | None = Field(None, ge=1, description="an fsync after this many writes")
    fdatasync: int | None = Field(None, ge=1, description="an fdatasync after this many writes")
    numjobs: int = Field(1, ge=1, le=1024, description="number of processes, all on the same file")
    extra: dict[str, str | int | float | bool] = Field({}, description="further fio options")

    @field_validator("extra")
    @classmethod
    def _known_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key, setting in value.items():
            if key in cls.model_fields or key in ("ioengine", "readwrite", "filename"):
                raise ValueError(f"{key!r} is a field of the job: move it out of extra")
            require_known(key, EXTRA_OPTIONS, f"fio option {key!r} is not allowed here")
            if not re.fullmatch(r"[\w.,:/%+-]*", str(setting), re.ASCII):
                raise ValueError(f"the value {setting!r} of {key} may contain only letters, digits and . , : / % + - _")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Job":
        if self.rwmixread is not None and self.rw not in MIXED_PATTERNS:
            raise ValueError(f"rwmixread has no effect with rw: {self.rw}; it needs one of {', '.join(MIXED_PATTERNS)}")
        if self.name in ("gitlab", "gitlab-latency"):
            raise ValueError(f"{self.name!r} is a job of the page: give this job another name")
        return self


class FioConfig(StorageOfClients):
    needed: ClassVar[tuple[str, ...]] = ("directories",)
    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"directories": TakesSystem()}
    directories: list[Directory] = Field([], min_length=1)
    size: PositiveSizeField = Field(Size("4GiB"), description="size of the file that a job works on")
    runtime: TimeoutField | None = Field(None, description="duration of a job; the default is one pass over the file")
    page_jobs: list[PageJob] = Field(
        ["gitlab", "gitlab-latency"], description="the page's command, without and with latencies"
    )
    small_files: list[SmallFiles] = Field(["shell-loop", "no-fork"], description="the two variants of the naive test")
    jobs: list[Job] = Field([], description="further fio jobs")

    def unfit(self) -> Iterator[str]:
        """Yield jobs that would be ended before they are done, or whose block does not fit into their file. And paths
        with placeholders that nothing fills in.
        """
        times: dict[str, float] = {name: self.runtime or 0.0 for name in self.page_jobs}
        for job in self.jobs:
            runtime = self.runtime if job.runtime is None else job.runtime
            times[job.name] = (runtime or 0.0) + (job.ramp_time or 0.0)
        yield from self.outlasted({f"job {name}, which takes": takes_s for name, takes_s in times.items()})
        for one in self.directories:
            if one.service is not None:
                yield from unfilled(f"directory {one.name}: path", [one.path], one.service, self.services)
        blocks: dict[str, tuple[Size, Size]] = {name: (_PAGE_BLOCK, self.size) for name in self.page_jobs}
        ranges = {"bsrange", "bssplit"}
        blocks |= {job.name: (job.bs, job.size or self.size) for job in self.jobs if not job.extra.keys() & ranges}
        for name, (block, size) in blocks.items():
            if block.bytes > size.bytes:
                yield f"job {name}: bs: {block} is more than size, {size}: give a size of {block} or more"

    def why_not(self, case: Case, clients: int) -> str | None:
        """Why a case cannot have several clients: each needs its own file in a folder that it mounts itself."""
        directory = next(d for d in self.directories if d.name == case.levels["directory"])
        if directory.service is not None:
            role = self.services[directory.service].role
            if problem := misplaced(f"directory {directory.name}", directory.service, role, by_clients=True):
                return problem
        if case.levels["test"] != "fio":
            return "small_files: the loops measure one host: write small_files: []"
        return None

    @model_validator(mode="after")
    def _services_described(self) -> "FioConfig":
        for directory in self.directories:
            if directory.service is not None:
                where = f"directory {directory.name}"
                role = check_service(where, directory.service, self.services).role
                if not self.clients and (problem := misplaced(where, directory.service, role, by_clients=False)):
                    raise ValueError(problem)
        return self

"""Many small reads and writes, after GitLab's page on file system benchmarking: its fio command, the latency
run it lacks, any further fio job, and its naive test with 1001 small files. See docs/families/fio.md.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchstudy import services
from benchstudy.errors import TrialFailed
from benchstudy.families.base import Case, Family, Imported, Parsed, ParseError
from benchstudy.families.fio_config import UNSAFE_CHARACTERS, UNSAFE_IN_PATH, Directory, FioConfig, Job
from benchstudy.parsers.files import read_text
from benchstudy.parsers.fio_json import parse_fio_json
from benchstudy.parsers.fio_result import FioRun, observe
from benchstudy.parsers.fio_text import parse_fio_text
from benchstudy.parsers.small_files import parse_no_fork, parse_shell_loop
from benchstudy.units import Size

if TYPE_CHECKING:
    from benchstudy.hostcheck import HostCheck
    from benchstudy.trial import TrialContext

# The page's two lines word for word, between a folder of their own and a count of what they left.
SHELL_LOOP = """\
mkdir -- "$1" && cd -- "$1" || exit 1
time for i in {0..1000}; do echo 'test' > "test${i}.txt"; done
time for i in {0..1000}; do cat "test${i}.txt" > /dev/null; done
set -- test*.txt
echo "files $#"
echo "bytes $(cat test*.txt | wc -c)"
"""
_SMALL_FILES_NEED = 16 << 20  # 1001 files, an inode and a block of up to 16 KiB each
_FILE = "{file}"  # stands in a case's argv for the file, whose folder is known only on the host
_RESULT = "fio.json"
_LARGEST_IMPORT = 256 << 20


class Fio(Family):
    name = "fio"
    title = "Random I/O and small files"
    Config = FioConfig
    primary_metrics: ClassVar[tuple[str, ...]] = ("read_iops", "write_iops", "trim_iops", "write_time", "read_time")
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
    }

    def cases(self, config: FioConfig) -> list[Case]:
        found = []
        for directory in config.directories:
            where = {
                "path": directory.path,
                "services": services.definition(config.services, directory.service),
            }
            for page_job in config.page_jobs:
                argv = page_argv(config.size, config.runtime, latencies=page_job == "gitlab-latency")
                found.append(_case(directory.name, "fio", page_job, {**where, **_fio(argv, config.size)}))
            for job in config.jobs:
                argv = job_argv(job, config)
                found.append(_case(directory.name, "fio", job.name, {**where, **_fio(argv, job.size or config.size)}))
            for variant in config.small_files:
                found.append(_case(directory.name, "small-files", variant, where))
        return found

    def run(self, case: Case, trial: "TrialContext") -> None:
        if case.levels["test"] == "fio":
            _run_fio(case, trial)
        else:
            _run_small_files(case, trial)

    def parse(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        if case_levels["test"] == "small-files":
            stdout = read_text(files / "stdout")
            if case_levels["job"] == "no-fork":
                return parse_no_fork(stdout)
            return parse_shell_loop(stdout, read_text(files / "stderr"))
        for name, parser in (
            ("files/fio.json", parse_fio_json),
            ("fio.json", parse_fio_json),
            ("fio.txt", parse_fio_text),
        ):
            if (files / name).is_file():
                return observe(parser(read_text(files / name)))
        raise ParseError("fio left no output: neither fio.json nor fio.txt is there")

    def parse_import(self, path: Path) -> Imported | None:
        """Recognises fio's JSON and plain text. Raises ParseError for one that is fio's and damaged."""
        if path.stat().st_size > _LARGEST_IMPORT:
            return None
        text = path.read_bytes().decode(errors="replace")
        if re.search(r'"fio version"\s*:', text):
            run, file_name = parse_fio_json(text), "fio.json"
            notes: tuple[str, ...] = ()
        elif re.search(r"^\s*fio-\d+\.\d+\S*\s*$", text, re.MULTILINE) and "rw=" in text:
            run, file_name = parse_fio_text(text), "fio.txt"
            notes = ("plain text: bandwidth and latencies were rounded by fio to three or four digits",)
        else:
            return None
        observe(run)
        levels = {"directory": "imported", "test": "fio", "job": _as_name(run)}
        return Imported(levels, file_name, "fio", run.version.removeprefix("fio-"), notes)

    def check(self, config: FioConfig, host: "HostCheck") -> None:
        if "sut" not in host.roles:
            return
        if config.page_jobs or config.jobs:
            _check_tool(host, "fio")
        if "shell-loop" in config.small_files:
            _check_tool(host, "bash")
        needed = max([config.size.bytes, *(job.size.bytes for job in config.jobs if job.size)])
        for directory in config.directories:
            if directory.service is not None:
                continue  # there only while a session is held
            problem = _unusable(directory, host.path_info(directory.path), needed)
            if problem:
                host.problem(f"directory {directory.name}: {problem}", "mend the host or the study")
            else:
                host.ok(f"directory {directory.name}: {directory.path} can be measured")


def _case(directory: str, test: str, job: str, definition: Mapping[str, Any]) -> Case:
    return Case({"directory": directory, "test": test, "job": job}, definition)


def _fio(argv: list[str], size: Size) -> dict[str, Any]:
    return {"argv": argv, "size_bytes": size.bytes}


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
        f"--filename={_FILE}",
        *_run_time(runtime),
        *_output(),
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
        f"--filename={_FILE}",
        *_run_time(runtime),
        *([f"--ramp_time={_milliseconds(job.ramp_time)}"] if job.ramp_time else []),
        # Without it fio prints each process for itself, and percentiles cannot be put together again.
        *([f"--numjobs={job.numjobs}", "--group_reporting=1"] if job.numjobs > 1 else []),
        *(f"--{option}={_setting(value)}" for option, value in job.extra.items()),
        *_output(),
    ]


def _run_time(runtime: float | None) -> list[str]:
    return [] if runtime is None else [f"--runtime={_milliseconds(runtime)}", "--time_based=1"]


def _output() -> list[str]:
    return ["--output-format=json+", f"--output={_RESULT}"]


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _setting(value: str | int | float | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _fio_size(size: Size) -> str:
    """As the page spells it, where fio's k, M and G are binary: 4G; plain bytes where no such fits."""
    for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if size.bytes and size.bytes % 1024**power == 0:
            return f"{size.bytes // 1024**power}{unit}"
    return str(size.bytes)


def _run_fio(case: Case, trial: "TrialContext") -> None:
    parent = _parent(case, trial, case.definition["size_bytes"])
    file = f"{trial.scratch(parent)}/testfile-{trial.uuid[:8]}"
    if UNSAFE_IN_PATH.search(file):
        raise TrialFailed(f"{file}: fio cannot take a path with any of {UNSAFE_CHARACTERS}; use another directory")
    argv = [argument.replace(_FILE, file) for argument in case.definition["argv"]]
    _execute(trial, argv, remove=file, package="fio")


def _run_small_files(case: Case, trial: "TrialContext") -> None:
    parent = _parent(case, trial, _SMALL_FILES_NEED)
    folder = f"{trial.scratch(parent)}/small-files-{trial.uuid[:8]}"
    if case.levels["job"] == "no-fork":
        argv, package = trial.agent_argv("small-files", folder), "python3"
    else:
        # Its own start-up files must not decide what is measured; LC_ALL decides how the times are written.
        argv, package = ["bash", "--noprofile", "--norc", "-c", SHELL_LOOP, "small-files", folder], "bash"
    _execute(trial, argv, remove=folder, package=package)


def _execute(trial: "TrialContext", argv: list[str], *, remove: str, package: str) -> None:
    # Only a measuring session needs the way to a host; reports, which parse, do without loading it.
    from benchstudy.hostagent import Command

    command = Command(argv, env={"LC_ALL": "C"}, timeout_s=trial.config.timeout, cleanup=[["rm", "-rf", "--", remove]])
    done = trial.execute(command)
    if done.execution.state == "start-failed":
        raise TrialFailed(
            f"{argv[0]} cannot be started on the host: install the package {package} (apt install {package}, "
            f"dnf install {package} or apk add {package}), or let `snakemake provision` do it"
        )
    done.require_success()


def _parent(case: Case, trial: "TrialContext", needed: int) -> str:
    """The case's directory on the host, asserted just before use: a mount can go away between two trials."""
    config: FioConfig = trial.config
    directory = next(d for d in config.directories if d.name == case.levels["directory"])
    path = directory.path if directory.service is None else trial.service(directory.service).fill(directory.path)
    info = trial.agent_call("path-info", path)
    trial.note(
        directory=path,
        fs_type=info["fs_type"],
        mount_point=info["mount_point"],
        free_bytes=info["free_bytes"],
    )
    problem = _unusable(directory, info, needed, path)
    if problem:
        raise TrialFailed(problem)
    return path


def _unusable(directory: Directory, info: Mapping[str, Any], needed: int, path: str | None = None) -> str | None:
    """Why nothing can be measured there, or None."""
    path = path or directory.path
    if not info["exists"]:
        return f"{path} does not exist: mount or make it first"
    if not info["is_dir"]:
        return f"{path} is not a directory"
    if directory.expect_fs and info["fs_type"] not in directory.expect_fs:
        expected = " or ".join(directory.expect_fs)
        return (
            f"{path} is on {info['fs_type']} (mounted at {info['mount_point']}), but the study expects "
            f"{expected}: is it mounted?"
        )
    if not info["writable"]:
        return f"{path} cannot be written to by the user of this host"
    if info["free_bytes"] < needed:
        free = info["free_bytes"]
        return f"{path} has {free} bytes free, but the test needs {needed}: free some, or lower the size"
    return None


def _check_tool(host: "HostCheck", tool: str) -> None:
    found = host.which(tool)
    if found:
        host.ok(f"{tool} is {found}")
    else:
        host.problem(f"{tool} is not installed", f"apt install {tool} (or dnf, apk), or `snakemake provision`")


def _as_name(run: FioRun) -> str:
    """fio's job name as a level; what a folder name must not hold becomes a dash."""
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._+-]", "-", run.name)).lstrip("._+-")[:64]
    return name or "unnamed"


FAMILY = Fio()

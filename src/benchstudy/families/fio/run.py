"""One trial of fio or of the small-files test."""

from benchstudy.families.fio.config import UNSAFE_CHARACTERS, UNSAFE_IN_PATH, FioConfig
from benchstudy.families.fio.place import FILE, unusable
from benchstudy.hosts.agent import Command
from benchstudy.measuring.trial import TrialContext
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case

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


def run_trial(case: Case, trial: TrialContext[FioConfig]) -> None:
    """One command of fio's, or one small-files test. Raises TrialFailed."""
    if case.levels["test"] == "fio":
        _run_fio(case, trial)
    else:
        _run_small_files(case, trial)


def _run_fio(case: Case, trial: TrialContext[FioConfig]) -> None:
    parent = _parent(case, trial, case.definition["size_bytes"])
    file = f"{trial.scratch(parent)}/testfile-{trial.uuid[:8]}"
    if UNSAFE_IN_PATH.search(file):
        raise TrialFailed(f"{file}: fio cannot take a path with any of {UNSAFE_CHARACTERS}; use another directory")
    argv = [argument.replace(FILE, file) for argument in case.definition["argv"]]
    _execute(trial, argv, remove=file, package="fio")


def _run_small_files(case: Case, trial: TrialContext[FioConfig]) -> None:
    parent = _parent(case, trial, _SMALL_FILES_NEED)
    folder = f"{trial.scratch(parent)}/small-files-{trial.uuid[:8]}"
    if case.levels["job"] == "no-fork":
        argv, package = trial.agent_argv("small_files:main", folder), "python3"
    else:
        # Its own start-up files must not decide what is measured; LC_ALL decides how the times are written.
        argv, package = ["bash", "--noprofile", "--norc", "-c", SHELL_LOOP, "small-files", folder], "bash"
    _execute(trial, argv, remove=folder, package=package)


def _execute(trial: TrialContext, argv: list[str], *, remove: str, package: str) -> None:
    command = Command(argv, env={"LC_ALL": "C"}, timeout_s=trial.config.timeout, cleanup=[["rm", "-rf", "--", remove]])
    done = trial.execute(command)
    if done.execution.state == "start-failed":
        raise TrialFailed(
            f"{argv[0]} cannot be started on the host: install the package {package} (apt install {package}, "
            f"dnf install {package} or apk add {package}), or let provisioning do it"
        )
    done.require_success()


def _parent(case: Case, trial: TrialContext[FioConfig], needed: int) -> str:
    """The case's directory on the host, asserted just before use: a mount can go away between two trials."""
    config = trial.config
    directory = next(d for d in config.directories if d.name == case.levels["directory"])
    path = directory.path if directory.service is None else trial.service(directory.service).fill(directory.path)
    info = trial.agent_call("path-info", path)
    trial.note(
        directory=path,
        fs_type=info["fs_type"],
        mount_point=info["mount_point"],
        free_bytes=info["free_bytes"],
    )
    problem = unusable(directory, info, needed, path)
    if problem:
        raise TrialFailed(problem)
    return path

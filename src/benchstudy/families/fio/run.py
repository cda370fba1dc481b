"""One trial of fio or of the small-files test."""

from benchstudy.families.fio.config import UNSAFE_CHARACTERS, UNSAFE_IN_PATH, FioConfig
from benchstudy.families.fio.place import FILE, LOAD, unusable
from benchstudy.hosts.agent import Command
from benchstudy.measuring.trial import TrialContext
from benchstudy.model.clients import CLIENTS, client_roles
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case

# The page's two lines, verbatim, in their own folder, and a count of the files afterwards.
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
    """Run fio or the small-files test once. Raises TrialFailed."""
    if case.levels["test"] == "fio":
        _run_fio(case, trial)
    else:
        _run_small_files(case, trial)


def _run_fio(case: Case, trial: TrialContext[FioConfig]) -> None:
    if CLIENTS in case.levels:
        roles = client_roles(case.levels, trial.roles)
        trial.execute_together({role: _fio_command(case, trial, role) for role in roles}, LOAD)
    else:
        _execute(trial, _fio_command(case, trial, "sut"), package="fio")


def _fio_command(case: Case, trial: TrialContext[FioConfig], role: str) -> Command:
    parent = _parent(case, trial, case.definition["size_bytes"], role)
    file = f"{trial.scratch(parent, role)}/testfile-{trial.uuid[:8]}"
    if UNSAFE_IN_PATH.search(file):
        raise TrialFailed(f"{file}: fio cannot take a path with any of {UNSAFE_CHARACTERS}; use another directory")
    argv = [argument.replace(FILE, file) for argument in case.definition["argv"]]
    return _command(trial, argv, remove=file)


def _run_small_files(case: Case, trial: TrialContext[FioConfig]) -> None:
    parent = _parent(case, trial, _SMALL_FILES_NEED)
    folder = f"{trial.scratch(parent)}/small-files-{trial.uuid[:8]}"
    if case.levels["job"] == "no-fork":
        argv, package = trial.agent_argv("small_files:main", folder), "python3"
    else:
        # Start-up files of bash must not affect the measurement. LC_ALL sets the format of times.
        argv, package = ["bash", "--noprofile", "--norc", "-c", SHELL_LOOP, "small-files", folder], "bash"
    _execute(trial, _command(trial, argv, remove=folder), package=package)


def _command(trial: TrialContext, argv: list[str], *, remove: str) -> Command:
    return Command(argv, env={"LC_ALL": "C"}, timeout_s=trial.config.timeout, cleanup=[["rm", "-rf", "--", remove]])


def _execute(trial: TrialContext, command: Command, *, package: str) -> None:
    done = trial.execute(command)
    if done.execution.state == "start-failed":
        raise TrialFailed(
            f"{command.argv[0]} cannot be started on the host: install the package {package} (apt install {package}, "
            f"dnf install {package} or apk add {package}), or let provisioning do it"
        )
    done.require_success()


def _parent(case: Case, trial: TrialContext[FioConfig], needed: int, role: str = "sut") -> str:
    """Return the directory of the case, checked just before use, because a mount can vanish between trials."""
    config = trial.config
    directory = next(d for d in config.directories if d.name == case.levels["directory"])
    path = directory.path if directory.service is None else trial.service(directory.service, role).fill(directory.path)
    info = trial.agent_call("path-info", path, role=role)
    trial.note(directory=path, fs_type=info["fs_type"], mount_point=info["mount_point"], free_bytes=info["free_bytes"])
    problem = unusable(directory, info, needed, path)
    if problem:
        raise TrialFailed(problem if role == "sut" else f"{trial.roles[role]}: {problem}")
    return path

"""Checks of `benchstudy check`: writable folders and buckets."""

import json
import os
from secrets import token_hex

from benchstudy.families.file_size.config import FileSizeConfig, PathBackend, S3Backend
from benchstudy.families.file_size.run import KEYS_ON_HOST, as_argument, s3_request
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.model import rounding
from benchstudy.model.errors import BenchstudyError

_SLACK = 1.05  # a file takes a little more than its size


def check_host(config: FileSizeConfig, host: HostCheck) -> None:
    """Report whether every backend is writable and has enough space for the cases."""
    if not (host.makes_load if config.clients else "sut" in host.roles):
        return
    for backend in config.backends:
        if isinstance(backend, S3Backend):
            _check_s3(backend, host)
        elif backend.service is None:  # otherwise it exists only while its service runs
            _check_path(config, backend, host)


def _check_path(config: FileSizeConfig, backend: PathBackend, host: HostCheck) -> None:
    found = host.path_info(backend.path)
    where = f"backend {backend.name}: {backend.path}"
    if not found["is_dir"]:
        host.problem(f"{where} is not a folder", "mount or create it")
        return
    if backend.expect_fs and found["fs_type"] not in backend.expect_fs:
        host.problem(
            f"{where} is on {found['fs_type']} ({found['mount_point']}), not {' or '.join(backend.expect_fs)}",
            "mount the file system, or correct expect_fs",
        )
        return
    if not found["writable"]:
        host.problem(f"{where} is not writable for the SSH user", "grant the user write access")
        return
    if found["refusal"]:
        host.problem(f"{where} {found['refusal']}", "fix the host or the study")
        return
    # Files to read stay for the session. One file that is written exists beside them.
    sizes = [size.bytes for size in config.sizes_of(backend)]
    needed = int(_SLACK * (sum(sizes) * ("read" in config.ops) + max(sizes) * ("write" in config.ops)))
    if found["free_bytes"] < needed:
        host.problem(
            f"{where} has {_shown(found['free_bytes'])} free, but needs {_shown(needed)}",
            "free some space, or remove sizes",
        )
        return
    host.ok(f"{where} is on {found['fs_type']}, writable, with space for {_shown(needed)}")


def _shown(size_bytes: int) -> str:
    unit, one = ("GB", 1e9) if size_bytes >= 1e9 else ("MB", 1e6)
    return f"{rounding.shown(size_bytes / one, trim=True)} {unit}"


def _check_s3(backend: S3Backend, host: HostCheck) -> None:
    where = f"backend {backend.name}"
    try:
        library = host.library("boto3")
    except BenchstudyError as error:
        host.problem(f"{where}: {error}", "")
        return
    if backend.service is not None:
        return  # it exists only while its service runs
    keys: dict[str, str] = {}
    for key, variable in backend.key_variables.items():
        if not host.variable(variable, where):
            return
        keys[KEYS_ON_HOST[key]] = os.environ[variable]
    if backend.endpoint_url is None:
        return
    try:
        prefix = f"{backend.prefix}benchstudy/check-{token_hex(8)}/"
        request = {"action": "check", **s3_request(backend, backend.endpoint_url, prefix, library)}
        # Through stdin, because every user can read the arguments of a process.
        answer = host.agent_call("file_size:main", as_argument(request), input=json.dumps(keys).encode())
    except BenchstudyError as error:
        host.problem(f"{where}: the check failed: {error}", "")
        return
    if answer["finding"]:
        host.problem(f"{where}: {answer['finding']}", "")
    else:
        host.ok(f"{where}: wrote, read and removed an object in bucket {backend.bucket}")

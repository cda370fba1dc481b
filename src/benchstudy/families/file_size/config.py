"""The configuration of the family file_size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from benchstudy.families.shared.folders import FileSystems, misplaced
from benchstudy.model.clients import LOAD, StorageOfClients
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import Name, nearest, require_known
from benchstudy.model.services import PLACEHOLDER, check_service
from benchstudy.model.strict import Extended, Spelled, Strict
from benchstudy.model.units import DurationField, PositiveSizeField, Size, SizeField

# The secrets that an S3 service of the study declares.
SERVICE_KEYS = ("access_key", "secret_key")
SESSION_TOKEN = "session_token"
_BLOCK = 4096
_SMALLEST_CHUNK = 128 * 1024
_SMALLEST_PART = 5 * 1024**2  # S3 refuses smaller ones
_Bucket = Annotated[
    str,
    Spelled(
        r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "3 to 63 characters out of a-z, 0-9, . and -, with a letter or digit at both ends",
    ),
]


class _Backend(Extended):
    name: Name
    service: Name | None = Field(None, description="the service below `services` that provides the backend")
    sizes: list[SizeField] | None = Field(
        None, min_length=1, description="a subset of the family's sizes, for example for A/A"
    )
    same_as: Name | None = Field(
        None, description="the backend that this one repeats under another name (A/A), with all other keys the same"
    )

    added_later: ClassVar[tuple[str, ...]] = ("same_as", "sizes")


class PathBackend(_Backend):
    """A folder on whatever is mounted there: local disk, NFS, EFS, FUSE."""

    kind: Literal["path"]
    path: str = Field(description="an existing folder; may contain {{service.dir}}")
    expect_fs: FileSystems = Field(
        [], description="the required file system type, or several, as in /proc/mounts (ext4, nfs4, fuse.sshfs …)"
    )
    direct: bool | None = Field(None, description="use O_DIRECT for this backend; the default is the family's `direct`")

    @property
    def location(self) -> str:
        return self.path

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith(("/", "~/", "{{")) or ".." in Path(value).parts or "\0" in value or "\n" in value:
            raise ValueError(f"{value!r}: give an absolute path, or one below ~/, without '..'")
        return value


class S3Backend(_Backend):
    """A bucket of Amazon S3 or of a server with the same protocol."""

    kind: Literal["s3"]
    bucket: _Bucket = Field(description="name of the bucket; created only if the backend has a service")
    endpoint_url: str | None = Field(None, description="the default is Amazon's; may contain {{service.port.NAME}}")
    region: str | None = None
    part_size: SizeField = Field(Size("100MB"), description="size of the parts in which a large object is uploaded")
    max_concurrency: int = Field(
        1, ge=1, le=64, description="parts that are transferred at once; 1: one after the other, without threads"
    )
    prefix: str = Field("", description="goes before benchstudy/<study>/<session>/ in the names of objects")
    access_key_env: str | None = Field(None, description="environment variable of the controller with the key ID")
    secret_key_env: str | None = Field(None, description="environment variable of the controller with the secret key")
    session_token_env: str | None = Field(
        None,
        description="environment variable of the controller with the session token, for temporary keys; they must stay "
        "valid until the session ends",
    )
    addressing_style: Literal["auto", "path", "virtual"] = Field(
        "auto",
        description="where the bucket's name goes: in the path, in the host name (virtual), or as boto3 decides",
    )
    checksums: Literal["when_supported", "when_required"] = Field(
        "when_supported",
        description="send a CRC32 with each upload, and check each response that has one, as boto3 does by default; or "
        "only when S3 requires it, for stores that refuse the default",
    )
    signature: Literal["auto", "v4", "v2"] = Field(
        "auto", description="signature version of requests; boto3 chooses v4"
    )
    sign_payload: bool = Field(
        False, description="true: sign the SHA-256 of uploads over HTTPS, too; over HTTP it is always signed"
    )
    multipart_threshold: PositiveSizeField | None = Field(
        None, description="objects of this size or more are transferred in parts; the default is `part_size`"
    )
    attempts: int = Field(
        5, ge=1, le=20, description="attempts per operation after transient errors; each attempt is recorded"
    )
    connect_timeout: DurationField = Field(10.0, ge=0.1, description="time in which an attempt must connect")
    read_timeout: DurationField = Field(60.0, ge=0.1, description="longest time in which an attempt receives nothing")
    accelerate: bool = Field(False, description="true: use Amazon's Transfer Acceleration")
    dualstack: bool = Field(False, description="true: use Amazon's dual-stack endpoints (IPv4 and IPv6)")

    added_later: ClassVar[tuple[str, ...]] = (
        *_Backend.added_later,
        *("checksums", "signature", "sign_payload", "multipart_threshold", "attempts"),
        *("connect_timeout", "read_timeout", "accelerate", "dualstack"),
    )

    @property
    def location(self) -> str:
        return self.endpoint_url or ""

    @field_validator("part_size")
    @classmethod
    def _large_enough(cls, value: Size) -> Size:
        if value.bytes < _SMALLEST_PART:
            raise ValueError(f"{value} is too small: give 5MiB or more, the minimum of S3")
        return value

    @field_validator("endpoint_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith(("http://", "https://")) or "@" in urlsplit(value).netloc):
            raise ValueError("give a URL with http:// or https:// and the server, without user and password")
        return value

    @field_validator("prefix")
    @classmethod
    def _closed_prefix(cls, value: str) -> str:
        if value and (value.startswith("/") or not value.isprintable()):
            raise ValueError(f"{value!r}: give printable text that does not begin with '/'")
        return value if not value or value.endswith("/") else f"{value}/"

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> "S3Backend":
        if (self.access_key_env is None) != (self.secret_key_env is None):
            raise ValueError("give access_key_env and secret_key_env, or neither (the host then uses its own role)")
        if self.session_token_env is not None and self.access_key_env is None:
            raise ValueError("session_token_env: give access_key_env and secret_key_env of the same keys, too")
        if self.endpoint_url is not None and (self.accelerate or self.dualstack):
            raise ValueError("accelerate and dualstack need Amazon's own endpoints: leave out endpoint_url")
        return self

    @property
    def key_variables(self) -> dict[str, str]:
        """The controller's environment variables with the keys, by what they hold: `access_key`, …"""
        given = (self.access_key_env, self.secret_key_env, self.session_token_env)
        return {key: name for key, name in zip((*SERVICE_KEYS, SESSION_TOKEN), given, strict=True) if name}

    @property
    def threshold(self) -> Size:
        """The size from which an object is transferred in parts."""
        return self.multipart_threshold or self.part_size


Backend = Annotated[PathBackend | S3Backend, Field(discriminator="kind")]


class SameBackend(Strict):
    """A backend that repeats another one under its own name (A/A)."""

    name: Name
    same_as: Name
    sizes: list[SizeField] | None = Field(None, min_length=1, description="a subset of the family's sizes")


class FileSizeConfig(StorageOfClients):
    """The factors of the family: backends, operations, sizes, durability of writes and cache state of reads."""

    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"backends": TakesSystem()}

    backends: list[Backend] = Field(min_length=1)
    ops: list[Literal["write", "read"]] = Field(["write", "read"], min_length=1)
    sizes: list[SizeField] = Field(min_length=1)
    sync: list[Literal["none", "fsync"]] = Field(["fsync"], min_length=1, description="what writes to a path wait for")
    cache: list[Literal["cold", "warm"]] = Field(
        ["cold", "warm"], min_length=1, description="state of the page cache before reads of a path"
    )
    direct: bool = Field(
        False, description="use O_DIRECT, which bypasses the page cache; reads then have no cache levels"
    )
    chunk: SizeField = Field(Size("1MiB"), description="bytes per write or read call")
    operations: int = Field(10, ge=1, le=10_000, description="files per trial, unless max_bytes_per_trial allows fewer")
    max_bytes_per_trial: SizeField = Field(
        Size("1GB"), description="upper bound of bytes per trial; at least one file is measured"
    )

    @field_validator(
        "backends", mode="before", json_schema_input_type=Annotated[list[Backend | SameBackend], Field(min_length=1)]
    )
    @classmethod
    def _same_as(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        named = {e["name"]: e for e in value if isinstance(e, Mapping) and isinstance(e.get("name"), str)}
        return [_whole(entry, named) if isinstance(entry, Mapping) else entry for entry in value]

    @field_validator("chunk")
    @classmethod
    def _aligned(cls, value: Size) -> Size:
        if value.bytes % _BLOCK or not _SMALLEST_CHUNK <= value.bytes <= 64 * 1024**2:
            raise ValueError(f"{value}: give a multiple of 4KiB from 128KiB to 64MiB")
        return value

    @field_validator("sizes")
    @classmethod
    def _positive(cls, value: list[Size]) -> list[Size]:
        if any(size.bytes == 0 for size in value):
            raise ValueError("an empty file has no transfer to measure: give sizes above 0")
        return value

    @model_validator(mode="after")
    def _sizes_of_backends(self) -> "FileSizeConfig":
        for backend in self.backends:
            for size in backend.sizes or ():
                require_known(size, self.sizes, f"backend {backend.name}: {size} is not one of the family's sizes")
        return self

    @model_validator(mode="after")
    def _services_exist(self) -> "FileSizeConfig":
        for backend in self.backends:
            if backend.service is None:
                if "{{" in backend.location:
                    raise ValueError(f"backend {backend.name}: a value with {{{{…}}}} needs `service: NAME`")
                continue
            service = check_service(f"backend {backend.name}", backend.service, self.services)
            where = f"backend {backend.name}"
            on_sut = isinstance(backend, PathBackend) and not self.clients
            if on_sut and (problem := misplaced(where, backend.service, service.role, by_clients=False)):
                raise ValueError(problem)
            known = {"service.dir", "service.bind", *(f"service.port.{port}" for port in service.ports)}
            for name in PLACEHOLDER.findall(backend.location):
                require_known(name, known, f"backend {backend.name}: unknown placeholder {{{{{name}}}}}")
            missing = set(SERVICE_KEYS) - set(service.secrets)
            if isinstance(backend, S3Backend) and backend.access_key_env is None and missing:
                raise ValueError(
                    f"backend {backend.name}: declare secrets: [{', '.join(SERVICE_KEYS)}] in service "
                    f"{backend.service}, or access_key_env and secret_key_env in the backend"
                )
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """Why a case cannot have several clients; None if it can. Each client has files or objects of its own."""
        backend = self.backend(case.levels["backend"])
        if backend.service is None:
            return None
        role = self.services[backend.service].role
        if isinstance(backend, PathBackend):
            return misplaced(f"backend {backend.name}", backend.service, role, by_clients=True)
        if role == LOAD:
            return f"backend {backend.name}: all clients need the same server: give {backend.service} the role sut"
        return None

    @property
    def secret_variables(self) -> dict[str, str]:
        of = {
            f"backends.{backend.name}.{key}_env": variable
            for backend in self.backends
            if isinstance(backend, S3Backend)
            for key, variable in backend.key_variables.items()
        }
        return super().secret_variables | of

    def operations_of(self, size: Size) -> int:
        """Operations per trial: several for small files, so that a trial is not too short."""
        return max(1, min(self.operations, self.max_bytes_per_trial.bytes // size.bytes))

    def sizes_of(self, backend: PathBackend | S3Backend) -> list[Size]:
        return backend.sizes or self.sizes

    def backend(self, name: str) -> PathBackend | S3Backend:
        return next(backend for backend in self.backends if backend.name == name)

    def is_direct(self, backend: PathBackend) -> bool:
        return self.direct if backend.direct is None else backend.direct


def _whole(entry: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a backend with the keys of the backend that its `same_as` names. Raises ValueError."""
    first = entry.get("same_as")
    if first is None:
        return entry
    if not isinstance(first, str) or first not in named or named[first].get("same_as") is not None:
        others = [name for name, other in named.items() if other.get("same_as") is None]
        raise ValueError(
            f"backend {entry.get('name')}: same_as: there is no backend {first!r}: {nearest(str(first), others)}"
        )
    whole = {key: v for key, v in named[first].items() if key != "sizes"} | dict(entry)
    differing = [key for key in named[first] if key not in ("name", "sizes") and whole[key] != named[first][key]]
    if differing:
        raise ValueError(f"backend {entry.get('name')}: it repeats {first}: leave out {', '.join(differing)}")
    return whole

"""What a study says about the family file_size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from benchstudy.families.shared.folders import FileSystems
from benchstudy.model.clients import StorageOfClients
from benchstudy.model.family import Case, TakesSystem
from benchstudy.model.names import Name, nearest, require_known
from benchstudy.model.services import PLACEHOLDER, check_service
from benchstudy.model.strict import Strict
from benchstudy.model.units import DurationField, Size, SizeField

# The secrets that an S3 service of the study's own declares.
SERVICE_KEYS = ("access_key", "secret_key")
_BLOCK = 4096
_SMALLEST_CHUNK = 128 * 1024
_SMALLEST_PART = 5 * 1024**2  # S3 refuses smaller ones


class _Backend(Strict):
    name: Name
    service: Name | None = Field(None, description="a service below `services` that must be up for it")
    sizes: list[SizeField] | None = Field(None, min_length=1, description="of the family's only these, such as of A/A")
    same_as: Name | None = Field(
        None, description="the backend that this one is, under another name (A/A): all else is taken from there"
    )

    added_later: ClassVar[tuple[str, ...]] = ("same_as", "sizes")

    @model_serializer(mode="wrap")
    def _as_declared(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A study's hash must stay what it was before there were these keys."""
        fields = type(self).model_fields
        unsaid = {key for key in self.added_later if getattr(self, key) == fields[key].default}
        return {key: value for key, value in dump(self).items() if key not in unsaid}


class PathBackend(_Backend):
    """A folder on whatever is mounted there: local disk, NFS, EFS, FUSE."""

    kind: Literal["path"]
    path: str = Field(description="a folder that exists; may hold {{service.dir}}")
    expect_fs: FileSystems = Field(
        [], description="its type as /proc/mounts calls it (ext4, nfs4, fuse.sshfs …), asserted; several may do"
    )
    direct: bool | None = Field(None, description="O_DIRECT for this backend; the family's `direct` when left out")

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
    """A bucket of Amazon S3 or of a server that speaks its protocol."""

    kind: Literal["s3"]
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="made only on a service of ours")
    endpoint_url: str | None = Field(None, description="Amazon's own when left out; may hold {{service.port.NAME}}")
    region: str | None = None
    part_size: SizeField = Field(Size("100MB"), description="of the parts that a large object goes up in")
    max_concurrency: int = Field(1, ge=1, le=64, description="parts moved at once; 1: one after the other, no threads")
    prefix: str = Field("", description="put before our own benchstudy/<study>/<session>/")
    access_key_env: str | None = Field(None, description="variable of the controller's environment with the key id")
    secret_key_env: str | None = Field(None, description="variable of the controller's environment with the secret")
    addressing_style: Literal["auto", "path", "virtual"] = Field(
        "auto", description="where the bucket's name stands: `path`, in front of the host's, or as boto3 decides"
    )
    checksums: Literal["when_supported", "when_required"] = Field(
        "when_supported",
        description="a CRC32 with each upload, checked in each answer that has one; some stores refuse it",
    )
    signature: Literal["auto", "v4", "v2"] = Field("auto", description="of requests; boto3's own choice is v4")
    sign_payload: bool = Field(False, description="true: an SHA-256 of what goes up over https, too; over http always")
    multipart_threshold: SizeField | None = Field(
        None, description="from this size on an object moves in parts; `part_size` when left out"
    )
    attempts: int = Field(5, ge=1, le=20, description="of an operation whose failure may pass; each is kept")
    connect_timeout: DurationField = Field(10.0, ge=0.1, description="of an attempt")
    read_timeout: DurationField = Field(60.0, ge=0.1, description="of an attempt, without a byte")
    accelerate: bool = Field(False, description="true: Amazon's Transfer Acceleration")
    dualstack: bool = Field(False, description="true: Amazon's addresses that also have IPv6")

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
            raise ValueError(f"{value} is too small: S3 takes parts of 5MiB or more")
        return value

    @field_validator("endpoint_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith(("http://", "https://")) or "@" in urlsplit(value).netloc):
            raise ValueError("give http:// or https:// and the server, without a user or password")
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
            raise ValueError("give access_key_env and secret_key_env, or neither (then the host's own role is used)")
        if self.endpoint_url is not None and (self.accelerate or self.dualstack):
            raise ValueError("accelerate and dualstack are of Amazon's own addresses: leave out endpoint_url")
        return self

    @property
    def threshold(self) -> Size:
        """From which size on an object moves in parts."""
        return self.multipart_threshold or self.part_size


Backend = Annotated[PathBackend | S3Backend, Field(discriminator="kind")]


class SameBackend(Strict):
    """Another backend under a name of its own (A/A), which takes all else from there."""

    name: Name
    same_as: Name
    sizes: list[SizeField] | None = Field(None, min_length=1, description="of the family's only these")


class FileSizeConfig(StorageOfClients):
    """What is varied: backends, operations, sizes, durability of writes and cache state of reads."""

    takes_systems: ClassVar[Mapping[str, TakesSystem]] = {"backends": TakesSystem()}

    backends: list[Backend] = Field(min_length=1)
    ops: list[Literal["write", "read"]] = Field(["write", "read"], min_length=1)
    sizes: list[SizeField] = Field(min_length=1)
    sync: list[Literal["none", "fsync"]] = Field(["fsync"], min_length=1, description="of writes to a path")
    cache: list[Literal["cold", "warm"]] = Field(["cold", "warm"], min_length=1, description="before reads of a path")
    direct: bool = Field(False, description="O_DIRECT: go around the page cache; then reads have no cache levels")
    chunk: SizeField = Field(Size("1MiB"), description="bytes given to one write or read call")
    operations: int = Field(10, ge=1, le=10_000, description="whole files a trial, as far as the next line allows")
    max_bytes_per_trial: SizeField = Field(Size("1GB"), description="bounds a trial; one file is always done")

    @field_validator(
        "backends", mode="before", json_schema_input_type=Annotated[list[Backend | SameBackend], Field(min_length=1)]
    )
    @classmethod
    def _same_as(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        named = {entry["name"]: entry for entry in value if isinstance(entry, Mapping) and "name" in entry}
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
            raise ValueError("a file of no bytes has no transfer to time")
        return value

    @model_validator(mode="after")
    def _sizes_of_backends(self) -> "FileSizeConfig":
        for backend in self.backends:
            for size in backend.sizes or ():
                require_known(size, self.sizes, f"backend {backend.name}: {size} is none of the family's sizes")
        return self

    @model_validator(mode="after")
    def _services_exist(self) -> "FileSizeConfig":
        for backend in self.backends:
            if backend.service is None:
                if "{{" in backend.location:
                    raise ValueError(f"backend {backend.name}: a text with {{{{…}}}} needs `service: NAME`")
                continue
            service = check_service(f"backend {backend.name}", backend.service, self.services)
            known = {"service.dir", "service.bind", *(f"service.port.{port}" for port in service.ports)}
            for name in PLACEHOLDER.findall(backend.location):
                require_known(name, known, f"backend {backend.name}: unknown placeholder {{{{{name}}}}}")
            missing = set(SERVICE_KEYS) - set(service.secrets)
            if isinstance(backend, S3Backend) and backend.access_key_env is None and missing:
                raise ValueError(
                    f"backend {backend.name}: its service {backend.service} must declare secrets: "
                    f"[{', '.join(SERVICE_KEYS)}], or the backend access_key_env and secret_key_env"
                )
        return self

    def why_not(self, case: Case, clients: int) -> str | None:
        """Each client has files of its own in a folder that it sees by itself, or objects in one bucket."""
        backend = self.backend(case.levels["backend"])
        if isinstance(backend, PathBackend) and backend.service is not None:
            return f"backend {backend.name}: its service is on one host: mount it on each load host, and give the path"
        return None

    def operations_of(self, size: Size) -> int:
        """Operations in one trial: small files several times, so that a trial is not one short moment."""
        return max(1, min(self.operations, self.max_bytes_per_trial.bytes // size.bytes))

    def sizes_of(self, backend: PathBackend | S3Backend) -> list[Size]:
        return backend.sizes or self.sizes

    def backend(self, name: str) -> PathBackend | S3Backend:
        return next(backend for backend in self.backends if backend.name == name)

    def is_direct(self, backend: PathBackend) -> bool:
        return self.direct if backend.direct is None else backend.direct


def _whole(entry: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A backend with what it takes from the one that it is the `same_as`."""
    first = entry.get("same_as")
    if first is None:
        return entry
    if first not in named or named[first].get("same_as") is not None:
        others = [name for name, other in named.items() if other.get("same_as") is None]
        raise ValueError(f"backend {entry.get('name')}: same_as: {first!r} is none: {nearest(str(first), others)}")
    whole = {key: v for key, v in named[first].items() if key != "sizes"} | dict(entry)
    differing = [key for key in named[first] if key not in ("name", "sizes") and whole[key] != named[first][key]]
    if differing:
        raise ValueError(f"backend {entry.get('name')}: it is the same as {first}: leave out {', '.join(differing)}")
    return whole

"""The time to write or read one whole file, by its size, on mounted file systems and on S3.

Source: Mattermost's "Backing storage benchmarks", whose tables have one row per file size and one column per backend.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from benchstudy.families.file_size.config import FileSizeConfig, PathBackend, S3Backend
from benchstudy.families.file_size.metrics import METRICS
from benchstudy.families.file_size.parse import SERIES
from benchstudy.families.shared import clients
from benchstudy.model import services
from benchstudy.model.clients import CLIENTS, NUMBER
from benchstudy.model.family import Case, Family
from benchstudy.model.metrics import Metric
from benchstudy.model.units import Size

# The names of the keys' variables and the list of sizes may change without changing a case.
_NO_PART_OF_A_CASE = {"access_key_env", "secret_key_env", "session_token_env", "same_as", "sizes"}


class FileSize(Family[FileSizeConfig]):
    """See docs/families/file_size.md."""

    name = "file_size"
    title = "Files by size"
    Config = FileSizeConfig
    metrics: ClassVar[Mapping[str, Metric]] = METRICS
    runs_on: ClassVar[str | None] = "sut"
    cache_factor: ClassVar[str | None] = "cache"
    sync_factor: ClassVar[str | None] = "sync"
    numeric_levels: ClassVar = {"size": ("size_bytes", lambda text: Size(text).bytes), CLIENTS: (NUMBER, int)}

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
        clients.SERIES: clients.SCHEMA,
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


def _conditions(config: FileSizeConfig, backend: PathBackend | S3Backend, op: str) -> list[tuple[str, str]]:
    """The further factor of a case, and its levels: durability for writes, cache state for reads."""
    if isinstance(backend, S3Backend):  # the study does not control when the service acknowledges, and what it caches
        return [("sync", "server")] if op == "write" else [("cache", "uncontrolled")]
    if op == "write":
        return [("sync", level) for level in config.sync]
    if config.is_direct(backend):
        return [("cache", "direct")]
    return [("cache", level) for level in config.cache]


def _definition(config: FileSizeConfig, backend: PathBackend | S3Backend, size: Size) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "backend": backend.model_dump(mode="json", exclude=_NO_PART_OF_A_CASE, exclude_defaults=True),
        "chunk": str(config.chunk),
        "operations": config.operations_of(size),
        "services": services.definition(config.services, backend.service),
    }
    if isinstance(backend, PathBackend):
        definition["backend"]["direct"] = config.is_direct(backend)
    return definition


FAMILY = FileSize()

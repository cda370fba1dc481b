"""What the record of a trial says, `trial.json`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from benchstudy.model.causes import Failure, translated

Status = Literal["ok", "failed", "timeout", "aborted"]
# An aborted trial says nothing about the system under test (the controller or the connection went away). It is kept
# as evidence and repeated. The others are results.
RESULTS: tuple[Status, ...] = ("ok", "failed", "timeout")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToolRecord(_Record):
    """The program a command ran, as found on the host."""

    name: str
    path: str | None = None
    version: str | None = None
    sha256: str | None = None


class CommandRecord(_Record):
    """One supervised command of a trial. Durations are monotonic seconds."""

    label: str
    role: str
    host: str
    argv: list[str]
    tool: ToolRecord
    state: str
    exit_status: int | None
    signal: int | None
    started: str
    finished: str
    duration_s: float | None
    stdout_truncated: bool
    stderr_truncated: bool
    boot_id: str | None
    load_before: float | None
    load_after: float | None
    clock_offset_s: float | None
    events: list[str] = []
    limits: dict[str, Any] | None = None


class TrialFacts(_Record):
    """The part of a trial's record that decides whether anything is left to measure. Times are UTC, ISO 8601.

    `cause`: why it failed, in words; `failure`: the same as a value. Both are None if it did not fail.
    `roles`: the target's hosts by role, as the study named them.
    """

    schema_version: Literal[1, 2] = 2
    uuid: str
    target: str
    case: str
    definition_sha256: str
    block: int
    position: int
    session: str
    status: Status
    cause: str | None
    failure: Failure | None = None
    started: str
    finished: str
    duration_s: float
    imported_from: str | None = None
    roles: dict[str, str]


class TrialRecord(TrialFacts):
    """What `trial.json` holds.

    Records of schema 1 describe failures only in words. These are translated to values here, on reading, and nowhere
    else.
    """

    study: str
    study_sha256: str
    family: str
    levels: dict[str, str]
    definition: dict[str, Any]
    commands: list[CommandRecord]
    verified: dict[str, Any]
    instrument: str

    @model_validator(mode="before")
    @classmethod
    def _translate(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("schema_version") == 1 and data.get("cause"):
            return {**data, "failure": translated(data["cause"], data["status"], data["commands"])}
        return data

    @property
    def programs(self) -> list[tuple[str, str, str]]:
        """Role, path and SHA-256 of each program that ran, and of each file that the arguments of a command named."""
        ran = {(c.role, c.tool.path, c.tool.sha256) for c in self.commands if c.tool.path and c.tool.sha256}
        named = {(self.commands[0].role, *file) for file in self.verified.get("named_files", {}).items()}
        return sorted(ran | named)

"""A machine reached by SSH, as a study describes it."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from benchstudy.model.strict import Strict

_LONGEST_NAME, _LONGEST_PATH = 253, 4096
THIS_MACHINE = "this machine"
_OF_A_SHELL = "'`\";&<>|(){}"  # ssh refuses these in names, too: a ProxyCommand or Match may hand them to a shell


# A value that begins with a dash would be an option of a command.
_WORD: dict[str, Any] = {"pattern": r"^[^-\s][^\s]*$"}


def check_work_dir(value: str) -> str:
    """`value` in its shortest form, if it is absolute or below ~/, without `..`, and neither `/` nor the home."""
    parts = Path(value).parts
    below_home = value.startswith("~/") and len(parts) > 1
    deep_enough = value.startswith("/") and len(parts) > 2
    if not (below_home or deep_enough) or ".." in parts or "\0" in value or "\n" in value or len(value) > _LONGEST_PATH:
        raise ValueError(f"{value!r}: give an absolute path at least two levels deep, or one below ~/, without '..'")
    return str(Path(*parts))


class Host(Strict):
    """A machine reached by SSH. Omitted settings come from ~/.ssh/config, as for the ssh command."""

    address: str | None = Field(
        None,
        description="host name, address or ~/.ssh/config alias; the default is the host's name",
        json_schema_extra={"pattern": r"^(?![^:]*:[^:]*$|.*[\[\]])[^-\s/][^\s/]*$"},
    )
    port: int | None = Field(None, ge=1, le=65535)
    user: str | None = Field(None, json_schema_extra=_WORD)
    identity_file: str | None = None
    known_hosts: str | None = Field(None, description="file of pinned host keys; the default is ~/.ssh/known_hosts")
    loopback: bool = Field(False, description="this machine, through the study's own sshd on 127.0.0.1")
    work_dir: Annotated[str, AfterValidator(check_work_dir)] = Field(
        "~/.benchstudy",
        description="the only folder on the host to which benchstudy writes by itself",
        json_schema_extra={"pattern": r"^(~/|/[^/]+/)[^/]"},
    )
    python: str = Field("python3", description="the host's Python, 3.9 or newer", json_schema_extra=_WORD)
    sudo: bool = Field(False, description="whether provisioning may use password-less sudo")
    service_address: str | None = Field(
        None,
        description="address at which the target's other hosts reach servers on this one; required if there are others",
    )

    @field_validator("address", "user", "python", "service_address")
    @classmethod
    def _no_option(cls, value: str | None) -> str | None:
        if value is not None and (not value or value.startswith("-") or any(c.isspace() or c == "\0" for c in value)):
            raise ValueError(f"{value!r} must not be empty, begin with '-' or contain white space")
        return value

    @field_validator("address", "user", "service_address")
    @classmethod
    def _nothing_for_a_shell(cls, value: str | None) -> str | None:
        found = next((character for character in value or "" if character in _OF_A_SHELL), None)
        if found:
            raise ValueError(f"{value!r} has {found!r}, which a shell would obey: remove it")
        return value

    @field_validator("address", "service_address")
    @classmethod
    def _host_name(cls, value: str | None, told: ValidationInfo) -> str | None:
        name = (value or "").rpartition("@")[2]
        try:
            name.encode("idna")
        except UnicodeError:
            name = "/"
        if "/" in name or len(name) > _LONGEST_NAME:
            raise ValueError(f"{value!r} cannot be a host: write its name, its address, or its alias in ~/.ssh/config")
        host, _, port = (value or "").rpartition(":")
        if name.count(":") == 1 or "]:" in name:  # any other colons are those of an IPv6 address
            fix = f" and `port: {port}`" if told.field_name == "address" else ""
            raise ValueError(f"{value!r} has a port in it: write `{told.field_name}: {host.strip('[]')}`{fix}")
        if "[" in name or "]" in name:  # ssh looks such a name up as it is
            address = (value or "").translate({ord(bracket): None for bracket in "[]"})
            raise ValueError(f'{value!r} has brackets: write `{told.field_name}: "{address}"`')
        return value

    @field_validator("identity_file", "known_hosts")
    @classmethod
    def _file(cls, value: str | None) -> str | None:
        if value is not None and (not value or "\0" in value or len(value) > _LONGEST_PATH):
            raise ValueError(f"{value!r} cannot be a file: write its path")
        return value

    @model_validator(mode="after")
    def _loopback_needs_nothing(self) -> "Host":
        given = [n for n in ("address", "port", "user", "identity_file", "known_hosts") if getattr(self, n) is not None]
        if self.loopback and given:
            raise ValueError(f"loopback: true brings its own sshd and keys; remove {', '.join(given)}")
        return self

    def machine(self, name: str) -> str:
        """The machine that `name`, the host's in its study, stands for. Only one session at a time is held on it."""
        return THIS_MACHINE if self.loopback else f"{self.address or name}:{self.port or 22}"

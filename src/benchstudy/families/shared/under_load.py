"""What families with servers under limits and offered loads share: limits, rates, and who runs on which CPUs."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from benchstudy.model.errors import TrialFailed
from benchstudy.model.names import Name
from benchstudy.model.services import Limits
from benchstudy.model.strict import Strict
from benchstudy.model.units import SizeField

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext

UNLIMITED = "none"  # the level of the factor limits without any
_RATE = re.compile(r"\s*(\d+(?:\.\d{1,3})?)\s*/\s*(s|min)\s*")  # no finer: generators ask at it exactly


class Limit(Strict):
    """What a server may use, by name."""

    name: Name
    cpus: int | None = Field(None, ge=1, description="whole CPUs; all when left out")
    memory: SizeField | None = Field(None, description="page cache included, no swap; all when left out")

    @model_validator(mode="after")
    def _limits_something(self) -> "Limit":
        if self.name == UNLIMITED or (self.cpus is None and self.memory is None):
            raise ValueError(
                f"limits {self.name!r}: give cpus or memory, and another name than {UNLIMITED!r}, which is known "
                "already and means without any"
            )
        return self

    @property
    def limits(self) -> Limits:
        return Limits(cpus=self.cpus, memory=self.memory)


class Rate(str):
    """Requests a second as written in the study, such as "200/s"; `per_s` is its value."""

    per_s: float

    def __new__(cls, text: str) -> "Rate":
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        if match is None or float(match[1]) <= 0:
            raise ValueError(f'{text!r} is not a rate: write it as "200/s" or "30/min", with three decimals at most')
        self = super().__new__(cls, f"{match[1]}/{match[2]}")
        self.per_s = float(match[1]) / (60 if match[2] == "min" else 1)
        return self

    @property
    def level(self) -> str:
        """As a case's level, which is part of a folder's name: 200-per-s."""
        return self.replace("/", "-per-")

    @classmethod
    def of_level(cls, level: str) -> "Rate":
        return cls(level.replace("-per-", "/"))


@dataclass(frozen=True)
class Placement:
    """Which CPUs the server and the generator run on; None: all. `shared`: they have some in common."""

    server: tuple[int, ...] | None
    generator: tuple[int, ...] | None
    usable: int  # CPUs that the generator may run on
    same_host: bool
    shared: bool


def place(cpus: Sequence[int], *, held: int | None, wanted: int | None, same_host: bool) -> Placement:
    """The generator beside the server's CPUs, where there are others.

    `cpus`: those of the generator's host. `held`: so many are the server's; None: it may use all. `wanted`: so many
    are the generator's, at most as many as there are; None: all that are left.
    """
    of_generator = tuple(cpus[-wanted:]) if wanted else None
    usable = wanted or len(cpus)
    if not same_host:
        return Placement(None, tuple(cpus[:wanted]) if wanted else None, usable, same_host=False, shared=False)
    # More than there are: the host itself refuses them, with its number.
    if held is None or held > len(cpus):
        return Placement(None, of_generator, usable, same_host=True, shared=True)
    of_server, beside = tuple(cpus[:held]), tuple(cpus[held:])
    if len(beside) < (wanted or 1):
        return Placement(of_server, of_generator, usable, same_host=True, shared=True)
    of_generator = beside[-wanted:] if wanted else beside
    return Placement(of_server, of_generator, len(of_generator), same_host=True, shared=False)


def cpus_of(trial: "TrialContext", role: str) -> list[int]:
    """Numbers of the CPUs that processes on the role's host may run on."""
    return trial.once(f"cpus of {role}", lambda: trial.agent_call("cpus", role=role)["cpus"])


def cpus_for_generator(trial: "TrialContext", role: str, name: str, wanted: int | None) -> list[int]:
    """Those of the host that plays `role`. Raises TrialFailed when the generator `name` wants more than there are."""
    cpus = cpus_of(trial, role)
    if wanted is not None and wanted > len(cpus):
        raise TrialFailed(f"generator {name}: cpus: {wanted}, but {trial.roles[role]} has {len(cpus)}: {cpus}")
    return cpus


def generates_load(role: str) -> bool:
    """Whether the role's host makes load: `load`, or `load-…` where several do."""
    return role == "load" or role.startswith("load-")


def load_role(roles: Collection[str]) -> str:
    """Where the generators run: on the host that plays `load`, and beside the server where none does."""
    return "load" if "load" in roles else "sut"

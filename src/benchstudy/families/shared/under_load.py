"""Shared code of families that load servers: which process runs on which CPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchstudy.model.errors import TrialFailed

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext


@dataclass(frozen=True)
class Placement:
    """The CPUs of server and generator; None: all. `shared`: they have CPUs in common."""

    server: tuple[int, ...] | None
    generator: tuple[int, ...] | None
    usable: int  # CPUs that the generator may run on
    same_host: bool
    shared: bool


def place(cpus: Sequence[int], *, held: int | None, wanted: int | None, same_host: bool) -> Placement:
    """Assign CPUs to server and generator, separate ones if there are enough.

    `cpus`: the CPUs of the generator's host. `held`: the number of CPUs for the server; None: all. `wanted`: the number
    for the generator, at most as many as the host has; None: all that are left.
    """
    of_generator = tuple(cpus[-wanted:]) if wanted else None
    usable = wanted or len(cpus)
    if not same_host:
        return Placement(None, tuple(cpus[:wanted]) if wanted else None, usable, same_host=False, shared=False)
    # If the server wants more CPUs than there are, the host refuses, and names its number.
    if held is None or held > len(cpus):
        return Placement(None, of_generator, usable, same_host=True, shared=True)
    of_server, beside = tuple(cpus[:held]), tuple(cpus[held:])
    if len(beside) < (wanted or 1):
        return Placement(of_server, of_generator, usable, same_host=True, shared=True)
    of_generator = beside[-wanted:] if wanted else beside
    return Placement(of_server, of_generator, len(of_generator), same_host=True, shared=False)


def cpus_of(trial: "TrialContext", role: str) -> list[int]:
    """Return the numbers of the CPUs that processes on the host of `role` may use."""
    return trial.once(f"cpus of {role}", lambda: trial.agent_call("cpus", role=role)["cpus"])


def cpus_for_generator(trial: "TrialContext", role: str, name: str, wanted: int | None) -> list[int]:
    """Return the CPUs of the host of `role`. Raises TrialFailed if the generator `name` wants more than there are."""
    cpus = cpus_of(trial, role)
    if wanted is not None and wanted > len(cpus):
        raise TrialFailed(f"generator {name}: cpus: {wanted}, but {trial.roles[role]} has {len(cpus)}: {cpus}")
    return cpus

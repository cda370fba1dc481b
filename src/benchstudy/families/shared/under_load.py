"""What families that load servers share: which host makes the load, and who runs on which CPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchstudy.model.clients import load_roles
from benchstudy.model.errors import TrialFailed

if TYPE_CHECKING:
    from benchstudy.measuring.trial import TrialContext


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


def load_role(roles: Mapping[str, str]) -> str:
    """Where the generator runs: on the first host that makes load, and beside the server where none does."""
    return load_roles(roles)[0]

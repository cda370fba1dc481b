"""The log of one trial: its store and servers, their placement, and their addresses for a generator."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchstudy.families.log_write.command import Target
from benchstudy.families.log_write.config import Backend, LogGenerator
from benchstudy.families.log_write.layout import DATABASE, GENERATOR, SERVER
from benchstudy.families.shared.folders import wrong_file_system
from benchstudy.families.shared.under_load import Placement, cpus_for_generator, cpus_of, place
from benchstudy.model.errors import TrialFailed
from benchstudy.model.services import Limits

if TYPE_CHECKING:
    from benchstudy.hosts.agent import RunningService
    from benchstudy.measuring.trial import TrialContext

STORE = "store"
_SPARE_FILES = 512  # for a server: tiles of its log, connections to its database


@dataclass(frozen=True)
class Wanted:
    """What a case asks for. `service`: the server. `under_way`: the most writes in flight at a server."""

    backend: Backend
    service: str
    limits: Limits
    front_ends: int
    generator: LogGenerator
    under_way: int
    load_roles: Sequence[str]


@dataclass(frozen=True)
class Log:
    """A running log.

    `placements`: of the generator, by the role of its host. `cpus`: the number of CPUs that each process may use, of
    which the generator is that of the first role. `directory`: on the servers' host; its disk is sampled.
    """

    servers: "Sequence[RunningService]"
    databases: "Sequence[RunningService]"
    target: Target
    directory: str | None
    placements: dict[str, Placement]
    cpus: dict[str, int]

    @property
    def placement(self) -> Placement:
        """The placement of the server, and of the generator on its first host."""
        return next(iter(self.placements.values()))

    def check(self) -> None:
        """Raise TrialFailed with the cause if a server has ended."""
        for server in self.servers:
            server.check()


@contextmanager
def fresh_log(wanted: Wanted, trial: "TrialContext", suffix: str = "") -> Iterator[Log]:
    """Start a fresh store and fresh servers, and stop them at the end of the block. Raises TrialFailed with the cause.

    `suffix`: appended to their labels, if a trial has several logs.
    """
    backend = wanted.backend
    role = trial.config.services[wanted.service].role
    placement, of_servers = _places(wanted, trial, role)
    placements = {wanted.load_roles[0]: placement, **dict(_other_places(wanted, trial))}
    with ExitStack() as stack:
        beside = []
        if backend.store is not None:
            beside.append(stack.enter_context(trial.server(backend.store, label=STORE + suffix)))
        servers = [
            stack.enter_context(
                trial.server(
                    wanted.service,
                    limits=wanted.limits,
                    cpu_list=cpu_list,
                    open_files=wanted.under_way + _SPARE_FILES,
                    label=(SERVER if number == 1 else f"{SERVER}-{number}") + suffix,
                    beside=beside,
                )
            )
            for number, cpu_list in enumerate(of_servers, start=1)
        ]
        first = servers[0]
        databases = [first.needed.get(name) or trial.service(name) for name in backend.databases]
        directory = first.fill(backend.directory) if backend.directory else None
        _check_directory(wanted, trial, role, directory)
        cpus = _cpus(trial, role, servers, placement, [trial.config.services[one.name].role for one in databases])
        trial.note(
            backend=backend.label,
            emulated=backend.emulated,
            read=backend.read or "the server itself",
            limits=first.limits,
            placement=asdict(placement),
        )
        yield Log(servers, databases, _target(wanted, trial, role, servers), directory, placements, cpus)


def _places(wanted: Wanted, trial: "TrialContext", role: str) -> tuple[Placement, list[tuple[int, ...] | None]]:
    """Return the placement of the generator, and the CPUs of each server. Raises TrialFailed for too few CPUs."""
    load_host, asked = trial.roles[wanted.load_roles[0]], wanted.generator.cpus
    cpus = cpus_for_generator(trial, wanted.load_roles[0], wanted.generator.name, asked)
    each, same_host = wanted.limits.cpus, load_host == trial.roles[role]
    together = None if each is None else each * wanted.front_ends
    if each is not None and together is not None and same_host and each <= len(cpus):
        together = min(together, len(cpus))
    placement = place(cpus, held=together, wanted=asked, same_host=same_host)
    held = placement.server
    if held is None or each is None or len(held) < each * wanted.front_ends:
        return placement, [held] * wanted.front_ends  # the servers share these CPUs
    return placement, [held[n * each : (n + 1) * each] for n in range(wanted.front_ends)]


def _other_places(wanted: Wanted, trial: "TrialContext") -> Iterator[tuple[str, Placement]]:
    """Yield the placement of the generator on each load host after the first, which has no server."""
    asked = wanted.generator.cpus
    for role in wanted.load_roles[1:]:
        cpus = cpus_for_generator(trial, role, wanted.generator.name, asked)
        yield role, place(cpus, held=None, wanted=asked, same_host=False)


def _cpus(
    trial: "TrialContext", role: str, servers: "Sequence[RunningService]", placement: Placement, databases: list[str]
) -> dict[str, int]:
    held = {cpu for server in servers for cpu in ((server.limits or {}).get("effective") or {}).get("cpus") or ()}
    found = {SERVER: len(held) or len(cpus_of(trial, role)), GENERATOR: placement.usable}
    if databases:
        found[DATABASE] = len(cpus_of(trial, databases[0]))
    return found


def _check_directory(wanted: Wanted, trial: "TrialContext", role: str, directory: str | None) -> None:
    """Raise TrialFailed if the log is on a file system that the study does not expect."""
    if directory is None:
        return
    info = trial.agent_call("path-info", directory, role=role)
    trial.note(file_system={name: info[name] for name in ("fs_type", "mount_point", "free_bytes")})
    wrong = wrong_file_system(info, wanted.backend.expect_fs)
    if wrong:
        raise TrialFailed(f"backend {wanted.backend.name}: its directory {wrong}")


def _target(wanted: Wanted, trial: "TrialContext", role: str, servers: "Sequence[RunningService]") -> Target:
    backend, first = wanted.backend, servers[0]
    write_urls = [f"http://{server.address}:{server.ports[backend.port]}/" for server in servers]
    read_url = first.fill(backend.read) if backend.read else write_urls[0]
    load_host = trial.roles[wanted.load_roles[0]]
    if read_url.startswith("file:") and load_host != trial.roles[role]:
        raise TrialFailed(
            f"backend {backend.name}: read: {backend.read} is a file on {trial.roles[role]}, but the load runs on "
            f"{load_host}: give an http:// address"
        )
    key = trial.agent_call("log_samples:key", first.fill(backend.public_key), role=role)
    if key["problem"]:
        raise TrialFailed(key["problem"])
    return Target(read_url.rstrip("/") + "/", write_urls, key["text"])

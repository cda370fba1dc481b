"""What the deploys in envs/ say: this host needs these packages.

A deploy is an ordinary pyinfra file, `envs/<family>.py`, run for every host the family is measured on.
It sees

- `host.data.roles`: the roles the host plays in the target, such as `["sut", "load"]`
- `host.data.family`: the family's block of the study, as plain data

and may use any pyinfra operation, as long as a second run changes nothing.
"""

from collections.abc import Sequence

from pyinfra import host
from pyinfra.facts.server import Which
from pyinfra.operations import server


def install(
    why: str, *packages: str, roles: Sequence[str] = (), dnf: Sequence[str] = (), apk: Sequence[str] = ()
) -> None:
    """Have `packages` (Debian's names) on the host; `dnf` and `apk`: those managers' names where they differ.

    `why` is what a person reads when it fails. `roles`: only on hosts that play one of them; all when empty.
    """
    if roles and not set(roles) & set(host.data.roles):
        return
    wanted = list(packages)
    for manager, names in (("dnf", dnf), ("apk", apk)):
        if names and host.get_fact(Which, command=manager):
            wanted = list(names)
    host.data.requested = sorted({*host.data.get("requested", []), *wanted})
    server.packages(name=why, packages=wanted)

"""The packages that the study lists for its commands; what systems need they say themselves.

A program that no package manager has is the user's own: the study names it by its path.
"""

from pyinfra import host

from benchstudy.provisioning.deploy import install
from benchstudy.provisioning.systems import started_by

packages = host.data.family.get("packages", [])
if packages:
    install(
        "what the study's commands are in",
        *packages,
        roles=sorted({command.get("role", "sut") for command in host.data.family["commands"]}),
        idle=started_by(packages),
    )

"""The packages that the study lists for its commands. Systems declare their own needs.

If no package manager has a program, install it yourself, and name its path in the study.
"""

from pyinfra import host

from benchstudy.provisioning.deploy import install
from benchstudy.provisioning.systems import started_by

packages = host.data.family.get("packages", [])
if packages:
    install(
        "the packages of the study's commands",
        *packages,
        roles=sorted({command.get("role", "sut") for command in host.data.family["commands"]}),
        idle=started_by(packages),
    )

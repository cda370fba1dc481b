"""The probe needs Python alone, which every host gets, and boto3 is lent to a host for the session.

What is left are the servers and mounts of the study's own services: only what these really start is installed.
"""

from os.path import basename

from pyinfra import host

from benchstudy.deploy import install

PROGRAMS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "sshfs": "sshfs",
    "fusermount3": "fuse3",
}
OTHER_NAMES = {
    "dnf": {"openssh-client": "openssh-clients", "sshfs": "fuse-sshfs"},
    "apk": {"openssh-client": "openssh-client-default"},
}

services = [s for s in host.data.family.get("services", {}).values() if s.get("role", "sut") in host.data.roles]
started = {
    basename(argv[0])
    for service in services
    for argv in (service["argv"], *service.get("setup", ()), service.get("stop") or [""])
}
packages = sorted({package for program, package in PROGRAMS.items() if program in started})
if packages:
    install(
        "the servers and mounts that the study's services start",
        *packages,
        **{manager: [names.get(package, package) for package in packages] for manager, names in OTHER_NAMES.items()},
    )

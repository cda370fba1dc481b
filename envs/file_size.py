"""The probe needs Python alone, which every host gets, and boto3 is lent to a host for the session.

What is left are the servers and mounts of the study's own services: only what these really start is installed.
"""

from benchstudy.provisioning.deploy import install_programs

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
# What these packages would start by themselves, on ports that a measurement may want.
SERVICES = {"openssh-server": "ssh"}

install_programs("the servers and mounts that the study's services start", PROGRAMS, OTHER_NAMES, SERVICES)

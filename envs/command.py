"""What the study's commands need: the packages that it lists, and what its services start.

A program that no package manager has is the user's own: the study names it by its path.
"""

from pyinfra import host

from benchstudy.provisioning.deploy import install, install_programs

PROGRAMS = {
    "postgres": "postgresql",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "redis-server": "redis-server",
    "nginx": "nginx-light",
}
OTHER_NAMES = {
    "dnf": {"postgresql": "postgresql-server", "redis-server": "redis", "nginx-light": "nginx"},
    "apk": {"postgresql": "postgresql15", "mariadb-server": "mariadb", "redis-server": "redis", "nginx-light": "nginx"},
}
# What these packages would start by themselves, on ports that a measurement may want.
SERVICES = {
    "postgresql": "postgresql",
    "mariadb-server": "mariadb",
    "redis-server": "redis-server",
    "nginx-light": "nginx",
}

packages = host.data.family.get("packages", [])
if packages:
    install(
        "what the study's commands are in",
        *packages,
        roles=sorted({command.get("role", "sut") for command in host.data.family["commands"]}),
        idle=[SERVICES[package] for package in packages if package in SERVICES],
    )
install_programs("the servers that the study's services start", PROGRAMS, OTHER_NAMES, SERVICES)

"""Servers under test, their databases, what watches them, and Locust: only what the study's services start.

Databases, Prometheus and its exporter come from packages. Mattermost's releases are built from their Go modules, each
with its own pins: what one of them needs must not raise what another is built from. A release that is no module, or a
server of another kind, is a binary of the user's own, named in the study.
"""

from pathlib import Path

from pyinfra import host

from benchstudy.families.shared.under_load import generates_load
from benchstudy.provisioning.deploy import go_tool, install_programs, python_tool, wanted_programs

HERE = Path(__file__).parent
MODEL = "github.com/mattermost/mattermost/server/public/model"
SERVER = "github.com/mattermost/mattermost/server/v8"
# Name of the program, which is that of its folder of pins, to the version of the server's module.
RELEASES = {
    "mattermost-9.9": "v8.0.0-20240527204624-beb8d5e8e07a",
    "mattermost-10.2": "v8.0.0-20241015185928-63c97f5a6d8f",
}
PACKAGES = {
    "postgres": "postgresql",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadb-admin": "mariadb-client",
    "mariadb": "mariadb-client",
    "prometheus": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
}
OTHER_NAMES = {
    "dnf": {
        "postgresql": "postgresql-server",
        "mariadb-client": "mariadb",
        "prometheus-node-exporter": "node-exporter",
    },
    "apk": {"postgresql": "postgresql15"},
}
# What these packages would start by themselves, on ports that a measurement may want.
SERVICES = {
    "postgresql": "postgresql",
    "mariadb-server": "mariadb",
    "prometheus": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
}

install_programs("databases and Prometheus, as the study's services start them", PACKAGES, OTHER_NAMES, SERVICES)

wanted = wanted_programs()
for name, version in RELEASES.items():
    if name in wanted:
        go_tool(
            f"the server under test, {name}",
            name,
            SERVER,
            version,
            package=f"{SERVER}/cmd/mattermost",
            # Its metrics: of the source that is open to read and to test, and no licence is asked for in a development
            # build.
            tags=["sourceavailable"],
            defines={f"{MODEL}.BuildNumber": "dev", f"{MODEL}.BuildHash": version.rpartition("-")[2]},
            pins=HERE / name,
            share=["i18n", "templates", "fonts"],
        )
# What fills a database for the first of them.
if "mattermost-9.9-import" in wanted:
    go_tool(
        "the import of the data set",
        "mattermost-9.9-import",
        "benchstudy.invalid/mattermost",
        "v1",
        package="./bulkimport",
        tags=["sourceavailable"],
        pins=HERE / "mattermost-9.9",
        sources=["bulkimport"],
    )
# Users run where a role says so; where none does, beside the server.
somewhere = any(map(generates_load, host.data.target_roles))
here = any(map(generates_load, host.data.roles)) if somewhere else "sut" in host.data.roles
if host.data.family.get("services") and here:
    python_tool("the load generator", "locust", HERE / "locust-requirements.txt")

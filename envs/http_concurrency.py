"""Servers under test and generators of load: only what the study's services and generators on this host start.

What packages bring is taken from there. k6, SFTPGo and copyparty are built from pins, because no distribution has
them, or not in the same version. Filestash comes as a binary or image of the user's own.
"""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool, install_programs, python_tool, wanted_programs

HERE = Path(__file__).parent
PACKAGES = {
    "nginx": "nginx-light",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "sshfs": "sshfs",
    "fusermount3": "fuse3",
    "ab": "apache2-utils",
    "wrk": "wrk",
}
OTHER_NAMES = {
    "dnf": {
        "nginx-light": "nginx",
        "openssh-client": "openssh-clients",
        "sshfs": "fuse-sshfs",
        "apache2-utils": "httpd-tools",
    },
    "apk": {"nginx-light": "nginx", "openssh-client": "openssh-client-default"},
}
# What these packages would start by themselves, on ports that a measurement may want.
SERVICES = {"nginx-light": "nginx", "openssh-server": "ssh"}

install_programs(
    "servers, mounts and generators that the study's services and generators start",
    PACKAGES,
    OTHER_NAMES,
    SERVICES,
)

wanted = wanted_programs()
if "k6" in wanted:
    go_tool("the open-loop generator", "k6", "go.k6.io/k6", "v1.8.1", pins=HERE / "k6")
if "sftpgo" in wanted:
    go_tool(
        "the file server SFTPGo",
        "sftpgo",
        "github.com/drakkan/sftpgo/v2",
        "v2.6.4",
        # Its clients of clouds and databases: none is used, and together they are most of the build.
        tags=["nogcs", "nos3", "noazblob", "nomysql", "nopgsql", "nosqlite"],
        pins=HERE / "sftpgo",
        share=["templates", "static", "openapi"],
    )
if "copyparty" in wanted:
    python_tool("the file server copyparty", "copyparty", HERE / "copyparty-requirements.txt")

"""Builds SFTPGo, which no distribution packages."""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool

go_tool(
    "the file server SFTPGo",
    "sftpgo",
    "github.com/drakkan/sftpgo/v2",
    "v2.6.4",
    # Clients of clouds and databases: the study uses none, and they are most of the build.
    tags=["nogcs", "nos3", "noazblob", "nomysql", "nopgsql", "nosqlite"],
    pins=Path(__file__).parent,
    share=["templates", "static", "openapi"],
)

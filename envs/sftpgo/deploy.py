"""SFTPGo is in no distribution."""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool

go_tool(
    "the file server SFTPGo",
    "sftpgo",
    "github.com/drakkan/sftpgo/v2",
    "v2.6.4",
    # Its clients of clouds and databases: none is used, and together they are most of the build.
    tags=["nogcs", "nos3", "noazblob", "nomysql", "nopgsql", "nosqlite"],
    pins=Path(__file__).parent,
    share=["templates", "static", "openapi"],
)

"""The Mattermost releases that this host starts, built from their Go modules, and the importer of the older one.

Each has its own pins, so that the needs of one do not raise the versions of another. For a release that is not a
module, provide your own binary.
"""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool, wanted_programs

PINS = Path(__file__).parents[1]
MODEL = "github.com/mattermost/mattermost/server/public/model"
SERVER = "github.com/mattermost/mattermost/server/v8"
# Name of the program, which is that of its folder of pins, to the version of the server's module.
RELEASES = {
    "mattermost-9.9": "v8.0.0-20240527204624-beb8d5e8e07a",
    "mattermost-10.2": "v8.0.0-20241015185928-63c97f5a6d8f",
}

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
            pins=PINS / name,
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
        pins=PINS / "mattermost-9.9",
        sources=["bulkimport"],
    )

"""Deploy the programs that this host starts: Tessera's servers and hammer, emulators, and our writer.

All are built from the Go module in this folder, because no distribution packages them.
"""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool, wanted_programs

PINS = Path(__file__).parent
# For another version, run `go get github.com/transparency-dev/tessera@VERSION && go mod tidy` there, and change the
# version here. Other modules must not raise the requirements of Tessera's go.mod, which its servers are built from.
TESSERA = ("github.com/transparency-dev/tessera", "v1.0.4")

wanted = wanted_programs()
for kind in ("posix", "mysql", "aws", "gcp"):
    if f"tessera-{kind}" in wanted:
        go_tool(
            f"Tessera's conformance server of kind {kind}",
            f"tessera-{kind}",
            *TESSERA,
            package=f"{TESSERA[0]}/cmd/conformance/{kind}",
            pins=PINS,
            share=["storage/mysql/schema.sql"] if kind == "mysql" else [],
        )
if "tessera-hammer" in wanted:
    go_tool("Tessera's load generator", "tessera-hammer", *TESSERA, package=f"{TESSERA[0]}/internal/hammer", pins=PINS)
# logbench watches the checkpoints during a run of the hammer.
if wanted & {"logbench", "tessera-hammer"}:
    go_tool(
        "the open-loop writer for logs",
        "logbench",
        "benchstudy.invalid/tessera",
        "v1",  # version of the result's schema; a change of the sources triggers a new build by itself
        package="./logbench",
        pins=PINS,
        sources=["logbench"],
    )
if "spanner-emulator" in wanted:
    go_tool(
        "an in-memory emulator of Spanner",
        "spanner-emulator",
        "cloud.google.com/go/spanner",
        "v1.87.0",
        package="./spanner-emulator",
        pins=PINS,
        sources=["spanner-emulator"],
    )
if "fake-gcs-server" in wanted:
    go_tool(
        "an emulator of Google Cloud Storage",
        "fake-gcs-server",
        "github.com/fsouza/fake-gcs-server",
        "v1.52.3",
        pins=PINS,
    )

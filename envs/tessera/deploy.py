"""Those of Tessera's servers and hammer, their stand-ins, and our own writer that this host starts.

All are built from this folder's one Go module, because no distribution has them.
"""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool, wanted_programs

PINS = Path(__file__).parent
# Another version: `go get github.com/transparency-dev/tessera@VERSION && go mod tidy` in there, and the one here. The
# other modules must not raise what Tessera's own go.mod requires, or its servers are built from what they never had.
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
# Beside the hammer it watches the checkpoints.
if wanted & {"logbench", "tessera-hammer"}:
    go_tool(
        "the open-loop writer of logs",
        "logbench",
        "benchstudy.invalid/tessera",
        "v1",  # of its result's schema; any change of its sources is another build by itself
        package="./logbench",
        pins=PINS,
        sources=["logbench"],
    )
if "spanner-emulator" in wanted:
    go_tool(
        "an in-memory stand-in for Spanner",
        "spanner-emulator",
        "cloud.google.com/go/spanner",
        "v1.87.0",
        package="./spanner-emulator",
        pins=PINS,
        sources=["spanner-emulator"],
    )
if "fake-gcs-server" in wanted:
    go_tool(
        "a stand-in for Google Cloud Storage",
        "fake-gcs-server",
        "github.com/fsouza/fake-gcs-server",
        "v1.52.3",
        pins=PINS,
    )

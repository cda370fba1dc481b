"""Builds k6, which no distribution packages."""

from pathlib import Path

from benchstudy.provisioning.deploy import go_tool

go_tool("the open-loop generator", "k6", "go.k6.io/k6", "v1.8.1", pins=Path(__file__).parent)

"""Locust, where users run; servers, databases and what watches them are systems, which say what they need."""

from pathlib import Path

from pyinfra import host

from benchstudy.families.shared.under_load import generates_load
from benchstudy.provisioning.deploy import python_tool

# Users run where a role says so; where none does, beside the server.
somewhere = any(map(generates_load, host.data.target_roles))
here = any(map(generates_load, host.data.roles)) if somewhere else "sut" in host.data.roles
if host.data.family.get("services") and here:
    python_tool("the load generator", "locust", Path(__file__).parent / "locust-requirements.txt")

"""Locust, on hosts where users run. Servers, databases and monitoring are systems, which declare what they need."""

from pathlib import Path

from pyinfra import host

from benchstudy.model.clients import makes_load
from benchstudy.provisioning.deploy import python_tool

if host.data.family.get("services") and makes_load(host.data.roles, host.data.target_roles):
    python_tool("the load generator", "locust", Path(__file__).parent / "locust-requirements.txt")

"""The words of sentences that compare servers, limits or generators under load."""

from collections.abc import Mapping
from typing import Any

from benchstudy.families.shared.levels import UNLIMITED
from benchstudy.model.family import UNKNOWN
from benchstudy.report import human


def setting(levels: Mapping[str, Any]) -> str:
    """Describe a setting: "for list with 20 connections of ab, limited to 1-core", "for static at 100/s of k6"."""
    server = f" of {levels['server']}" if "server" in levels else ""
    by = f" of {levels['generator']}" if "generator" in levels else ""
    load = f"at {human.level(str(levels['rate']))}{by}" if "rate" in levels else ""
    if "concurrency" in levels:
        several = "" if levels["concurrency"] == "1" else "s"
        load = f"with {levels['concurrency']} connection{several}{by}"
    limits = ""
    if "limits" in levels:
        known = {UNLIMITED: ", without limits", UNKNOWN: ", limits unknown"}
        limits = known.get(levels["limits"], f", limited to {levels['limits']}")
    return " ".join(filter(None, (f"for {levels.get('endpoint', 'all requests')}{server}", load))) + limits

"""Provision this machine for one family."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.provisioning.host import provision_hosts


def provision_here(
    root: Path,
    family: str,
    block: Mapping[str, Any],
    work_dir: Path,
    *,
    target_roles: Sequence[str] = ("sut",),
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The facts of this machine as the role `sut`, after provisioning; without problems.

    It runs envs/<family>.py of the project at `root`, if there is one, and installs what systems need.

    `block`: the family's block of a study. `target_roles`: all roles of the target that this host plays.
    """
    own = [root / "envs" / f"{family}.py"]
    request = {
        "name": "here",
        "host": {"loopback": True, "work_dir": str(work_dir)},
        "roles": ["sut"],
        "target_roles": list(target_roles),
        "deploys": [
            *({"path": str(p), "family": block} for p in own if p.is_file()),
            {"systems": [*Catalogue().sound()], "family": block},
        ],
    }
    answers: dict[str, dict[str, Any]] = {}
    with mock.patch.dict(os.environ, environment or os.environ, clear=True):
        provision_hosts(root, {"here": request}, answers.__setitem__, lambda key, line: None)
    facts = answers["here"]["facts"]
    assert facts["problems"] == []
    return facts

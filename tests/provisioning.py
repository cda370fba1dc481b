"""Provisions this machine for one family, in the process that a session's provisioning uses."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def provision_here(
    root: Path,
    family: str,
    block: Mapping[str, Any],
    work_dir: Path,
    *,
    target_roles: Sequence[str] = ("sut",),
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 1800,
) -> dict[str, Any]:
    """The facts of this machine, as the role `sut`, after envs/<family>.py of the project at `root`, if any, and what
    systems need; without problems.

    `block`: the family's block of a study. `target_roles`: all roles of the target that this host is in.
    """
    own = [root / "envs" / f"{family}.py"]
    request = {
        "name": "here",
        "host": {"loopback": True, "work_dir": str(work_dir)},
        "roles": ["sut"],
        "target_roles": list(target_roles),
        "deploys": [*({"path": str(p), "family": block} for p in own if p.is_file()), {"systems": [], "family": block}],
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchstudy.provisioning.host"],
        input=json.dumps({"requests": {"here": request}, "turns": [["here"]]}),
        capture_output=True,
        text=True,
        cwd=root,
        env=environment,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr
    facts = next(told["facts"] for _, told in map(json.loads, done.stdout.splitlines()) if "facts" in told)
    assert facts["problems"] == []
    return facts

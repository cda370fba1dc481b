"""The embedded storage study's services and backends, and a function that holds a session of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from conftest import CHECKOUT
from one_host import study_on, trials_held
from sshd_hosts import SshdHost

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.study import Study
from benchstudy.model.studyfile import with_systems

# As in the embedded study: every server is real, uses a free port of loopback, and ends with the session.
_EMBEDDED = with_systems(yaml.safe_load((CHECKOUT / "config" / "config.yaml").read_text()))["families"]["file_size"]
SERVICES: dict[str, Any] = _EMBEDDED["services"]
BACKENDS: dict[str, Any] = {
    backend["name"]: {key: value for key, value in backend.items() if key != "part_size"}
    for backend in _EMBEDDED["backends"]
}


def file_size_study(backends: Sequence[str], path: Path | None = None, **changed: Any) -> dict[str, Any]:
    """A small family block with some of the three embedded backends."""
    known = {**BACKENDS, "local": {"name": "local", "kind": "path", "path": str(path)}}
    return {
        "backends": [dict(known[name]) for name in backends],
        "sizes": ["100KB", "1MB"],
        "sync": ["none", "fsync"],
        "operations": 3,
        "timeout": "60s",
        "services": SERVICES,
        **changed,
    }


def study_of(host: SshdHost, config: dict[str, Any], work_dir: Path) -> Study:
    families = {"file_size": config}
    return study_on(host.described(work_dir), families, study="storage", target="server", name="server", blocks=1)


def measure(root: Path, host: SshdHost, config: dict[str, Any]) -> list[StoredTrial]:
    return trials_held(root, study_of(host, config, root / "work").session("server", "file_size"))


def trials_by_case(trials: list[StoredTrial]) -> dict[str, StoredTrial]:
    return {trial.record.case: trial for trial in trials}
